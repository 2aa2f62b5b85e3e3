//! Network namespaces of experiments go with them, however they end.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Place;
use crate::common::drystone;

/// Whether this machine allows namespaces; if not, says so.
fn can_make_namespaces() -> bool {
    let name = format!("drystone-lab-test-{}", std::process::id());
    let ip = |word: &str| Command::new("ip").args(["netns", word, &name]).output();
    let can = ip("add").is_ok_and(|output| output.status.success());
    match can {
        true => drop(ip("del")),
        false => eprintln!("skipped: network namespaces cannot be made here"),
    }
    can
}

/// Namespaces of the experiment that runs as this process.
fn namespaces_of(pid: u32) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let wanted = format!("-{pid}-");
    names.filter(|name| name.starts_with("drystone-lab-") && name.contains(&wanted)).collect()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `switch-failure`, once both of its namespaces are there.
fn begin(place: &Place, name: &str) -> Child {
    let report = place.text(name);
    let args = ["lab", "experiment", "switch-failure", "--seconds", "30", "--report", &report];
    let said = fs::File::create(place.text(&format!("{name}.said"))).expect("works");
    // Who runs the tests under `nohup` ignores what ends it here, and so would the experiment.
    let experiment = drystone(&args);
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP").arg(experiment.get_program()).args(experiment.get_args());
    experiment.get_envs().for_each(|(name, _)| _ = command.env_remove(name));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    let child = command.spawn().expect("works");
    until("its namespaces are there", || namespaces_of(child.id()).len() == 2);
    child
}

fn end_by(child: &mut Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
    child.wait().expect("works");
}

/// One that has seen another end by a hangup, which took its own namespaces with it.
fn beside_one_that_hung_up(place: &Place) -> Child {
    for attempt in 0..3 {
        let name = format!("other-{attempt}");
        let mut hung_up = begin(place, &format!("hung-up-{attempt}"));
        let mut other = begin(place, &name);
        end_by(&mut hung_up, Signal::HUP);
        assert_eq!(namespaces_of(hung_up.id()), [""; 0], "it removes its own");
        if namespaces_of(other.id()).len() == 2 {
            return other;
        }
        // Where a machine is so busy that its target does not start in time it removes its own, and ends.
        other.wait().expect("works");
        let said = fs::read_to_string(place.text(&format!("{name}.said"))).expect("works");
        eprintln!("the other one has ended by itself: {said}");
    }
    panic!("no experiment goes on: the one that hung up takes others with it");
}

#[test]
fn namespaces_go_after_a_hangup_and_those_of_a_killed_run_with_the_next_one() {
    if !can_make_namespaces() {
        return;
    }
    let place = Place::new();
    let mut killed = beside_one_that_hung_up(&place);
    end_by(&mut killed, Signal::KILL);
    assert_eq!(namespaces_of(killed.id()).len(), 2, "nobody was left to remove them");
    let mut living = begin(&place, "living");
    until("those of the dead go", || namespaces_of(killed.id()).is_empty());
    let mut next = begin(&place, "next");
    assert_eq!(namespaces_of(living.id()).len(), 2, "those of the living stay");
    for child in [&mut living, &mut next] {
        end_by(child, Signal::TERM);
        assert_eq!(namespaces_of(child.id()), [""; 0]);
    }
}
