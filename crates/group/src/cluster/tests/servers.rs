//! One etcd: who may speak to it, and what happens when it ends, or its parent does.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::bed::{Bed, address, config_in, is_alive};
use crate::cluster::{Begin, STOP_TIME, Server, ServerState, forget, has_data};
use crate::membership::GroupId;
use crate::store::suite::wait;
use crate::store::{EtcdMember, Op, Selection, Store, Transaction};

/// Signals the etcd of a test.
fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the number of a process");
    kill_process(pid, signal).expect("it is ours");
}

#[test]
fn strangers_are_refused_and_an_etcd_that_dies_is_started_again() {
    let (bed, others) = (Bed::new(1), Bed::new(1));
    let server = bed.start(1, Begin::New);
    let store = bed.store(&[1]);
    bed.put(&store, "1");
    let strangers = [
        ("who proves nothing", bed.store_as(&[1], None)),
        ("who is of another group", bed.store_as(&[1], Some(others.identity()))),
    ];
    // Each asks again until its time is over.
    thread::scope(|scope| {
        for (who, stranger) in &strangers {
            scope.spawn(move || {
                assert!(wait(stranger.range(Selection::key("a"))).is_err(), "{who} is let in");
            });
        }
    });
    let first = bed.await_process(&server, None);
    signal(first, Signal::KILL);
    let second = bed.await_process(&server, Some(first));
    bed.await_value(&store, "1");
    let dir = bed.place(1).join("etcd");
    assert!(has_data(&dir));
    assert!(fs::metadata(dir.join("etcd.log")).expect("it is there").len() > 0);
    // The kernel ends it rather than its member.
    let score = |who: &str| {
        let score = fs::read_to_string(format!("/proc/{who}/oom_score_adj"));
        score.expect("it is there").trim().parse::<i32>().expect("it is a number")
    };
    assert_eq!(score(&second.to_string()), score("self").max(500));

    server.ask_to_stop();
    bed.eventually("it has stopped", || (server.state() == ServerState::Stopped).then_some(()));
    assert!(!is_alive(second));
    server.stop();

    // What it had counts, whatever it is told to begin with.
    let server = bed.start(1, Begin::Existing(Vec::new()));
    bed.await_value(&store, "1");
    server.stop();
    forget(&dir).expect("it is ours");
    assert!(!has_data(&dir));
    forget(&dir).expect("nothing is there");
}

/// That its member is present, and that it was there once, says nothing of it.
#[test]
fn an_etcd_that_does_not_run_or_answer_is_found() {
    let bed = Bed::new(1);
    let server = bed.start(1, Begin::New);
    let store = bed.store(&[1]);
    bed.put(&store, "1");
    let etcds = wait(store.members()).expect("it answers");
    let answering = || wait(store.answering(&etcds)).expect("they are few");
    assert_eq!(answering(), BTreeSet::from([etcds[0].id]));
    let learner = EtcdMember { is_learner: true, ..etcds[0].clone() };
    assert_eq!(wait(store.answering(&[learner])).expect("nobody is asked"), BTreeSet::new());
    let pid = bed.await_process(&server, None);
    signal(pid, Signal::STOP);
    assert_eq!(answering(), BTreeSet::new(), "it is there, and silent");
    signal(pid, Signal::CONT);
    bed.await_value(&store, "1");
    assert_eq!(answering(), BTreeSet::from([etcds[0].id]));
    server.stop();
    assert_eq!(answering(), BTreeSet::new());
}

/// Each request goes to any of the members that are known: nobody was asked where that one is away.
#[test]
fn changes_are_made_while_others_that_are_known_are_away() {
    let bed = Bed::new(3);
    let server = bed.start(1, Begin::New);
    bed.put(&bed.store(&[1]), "1");
    let store = bed.store(&[2, 1, 3]);
    for turn in 0..30 {
        let put = Transaction::always(vec![Op::put("a", turn.to_string())]);
        wait(store.commit(put)).expect("one of them is there");
        wait(store.grant(Duration::from_secs(60))).expect("one of them is there");
    }
    server.stop();
}

#[test]
fn an_etcd_that_does_not_end_is_killed() {
    let bed = Bed::new(1);
    let server = bed.start(1, Begin::New);
    bed.put(&bed.store(&[1]), "1");
    let pid = bed.await_process(&server, None);
    signal(pid, Signal::STOP);
    let begin = Instant::now();
    server.stop();
    let took = begin.elapsed();
    assert!(!is_alive(pid));
    assert!((STOP_TIME..STOP_TIME * 2).contains(&took), "{took:?}");
}

/// An etcd that began anew under its number, empty, would take back what it has agreed to.
#[test]
fn an_etcd_whose_data_vanish_does_not_begin_without_them() {
    let bed = Bed::new(1);
    let server = bed.start(1, Begin::New);
    bed.put(&bed.store(&[1]), "1");
    let pid = bed.await_process(&server, None);
    let dir = bed.place(1).join("etcd");
    forget(&dir).expect("it is ours");
    signal(pid, Signal::KILL);
    bed.eventually("it says that", || (server.state() == ServerState::DataGone).then_some(()));
    let why = server.state().fault().expect("it does not run");
    assert!(why.contains("are gone"), "{why}");
    // Longer than the pause before another start.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(server.state(), ServerState::DataGone);
    assert!(!is_alive(pid) && !has_data(&dir), "nothing was begun");
    server.ask_to_stop();
    bed.eventually("it has stopped", || (server.state() == ServerState::Stopped).then_some(()));
}

#[test]
fn a_port_that_is_taken_is_said_and_used_when_it_is_free() {
    let bed = Bed::new(1);
    let other = TcpListener::bind((address(1), bed.ports(1).1)).expect("it was free");
    let at = other.local_addr().expect("it is bound");
    let server = bed.start(1, Begin::New);
    let why = bed.eventually("it says why it ended", || match server.state() {
        ServerState::Restarting { why } => Some(why),
        _ => None,
    });
    assert_eq!(why, format!("etcd cannot listen at {at}: another program does"));
    drop(other);
    bed.put(&bed.store(&[1]), "1");
    server.stop();
}

/// Tells a process of this test that it is to be the parent of an etcd, and where the files are.
const PARENT: &str = "DRYSTONE_TEST_PARENT_OF_ETCD";

/// Ended with the test.
struct Parent(Child);

impl Drop for Parent {
    fn drop(&mut self) {
        // It is gone already where the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an etcd as the file says, tells its number, and never ends.
fn be_the_parent(file: &str) -> ! {
    let text = fs::read_to_string(file).expect("the test has written it");
    let lines: Vec<&str> = text.lines().collect();
    let &[dir, group, client, peer] = lines.as_slice() else { panic!("{text}") };
    let port = |text: &str| text.parse().expect("a port");
    let group: GroupId = group.parse().expect("a group");
    let config = config_in(Path::new(dir), 1, group, (port(client), port(peer)));
    let server = Server::start(config).expect("etcd is there");
    loop {
        if let ServerState::Running { pid } = server.state() {
            let unnamed = format!("{file}.new");
            fs::write(&unnamed, pid.to_string()).expect("there is room");
            fs::rename(unnamed, format!("{file}.pid")).expect("there is room");
        }
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_etcd_ends_with_its_parent_and_the_next_one_gets_over_that() {
    if let Ok(file) = env::var(PARENT) {
        be_the_parent(&file);
    }
    let bed = Bed::new(1);
    let file = bed.dir.path().join("parent").display().to_string();
    let (client, peer) = bed.ports(1);
    let text = format!("{}\n{}\n{client}\n{peer}\n", bed.place(1).display(), bed.group);
    fs::write(&file, text).expect("there is room");
    let name =
        "cluster::tests::servers::an_etcd_ends_with_its_parent_and_the_next_one_gets_over_that";
    let mut parent = Command::new(env::current_exe().expect("it runs"));
    parent.args(["--exact", name, "--nocapture"]).env(PARENT, &file);
    parent.stdin(Stdio::null()).stdout(Stdio::null());
    let mut parent = Parent(parent.spawn().expect("it runs"));
    let store = bed.store(&[1]);
    bed.put(&store, "1");
    let pid = || fs::read_to_string(format!("{file}.pid")).ok()?.parse::<u32>().ok();
    let pid = bed.eventually("it tells its number", pid);
    assert!(is_alive(pid));

    parent.0.kill().expect("it is ours");
    // At once: the former one still has the ports and the data, or may have.
    let server = bed.start(1, Begin::New);
    parent.0.wait().expect("it is ours");
    let begin = Instant::now();
    bed.eventually("the former one is gone", || (!is_alive(pid)).then_some(()));
    bed.await_value(&store, "1");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    let other = bed.await_process(&server, Some(pid));
    assert!(is_alive(other));
    server.stop();
}
