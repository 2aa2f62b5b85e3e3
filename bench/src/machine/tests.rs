//! Tests of what is read from and done to the machine.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::facts::{field, utc};
use super::process::stat_cpu;
use super::*;

#[test]
fn dates_are_right_over_leap_years_and_centuries() {
    for (seconds, text) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (1_709_251_199, "2024-02-29 23:59 UTC"),
        (1_795_246_920, "2026-11-21 07:42 UTC"),
        (4_107_542_400, "2100-03-01 00:00 UTC"),
    ] {
        assert_eq!(utc(seconds), text);
    }
}

#[test]
fn fields_of_proc_files_are_found_whole() {
    let text = "MemTotal:  24 kB\nMemFree: 3 kB\nmodel name\t: A CPU: fast\n";
    assert_eq!(field(text, "MemTotal"), Some("24 kB"));
    assert_eq!(field(text, "model name"), Some("A CPU: fast"));
    assert_eq!(field(text, "Mem"), None);
}

#[test]
fn stat_is_read_behind_the_name_whatever_it_holds() {
    let stat = "42 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 7 3 20 0 1";
    let (own, children) = stat_cpu(stat).unwrap();
    assert_eq!(own, Duration::from_secs(2));
    assert_eq!(children, Duration::from_millis(100));
    assert_eq!(stat_cpu("42 (short) S 1"), None);
}

#[test]
fn a_sample_of_ourselves_grows_with_work() {
    let pid = std::process::id();
    let before = sample(pid).unwrap();
    let until = Instant::now() + Duration::from_millis(80);
    let mut sum = 0_u64;
    while Instant::now() < until {
        sum = sum.wrapping_mul(31).wrapping_add(1);
    }
    let after = sample(pid).unwrap();
    assert!(after.cpu > before.cpu, "{before:?} {after:?} {sum}");
    assert!(after.memory_bytes > 0);
    assert!(sample(u32::MAX).is_err());
}

#[test]
fn pinning_ends_with_its_guard() {
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..1024).find(|&core| before.is_set(core)).unwrap();
    let pinned = Pinned::to_core(core).unwrap();
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), 1);
    drop(pinned);
    assert_eq!(rustix::thread::sched_getaffinity(None).unwrap(), before);
    assert!(Pinned::to_core(1023).is_err());
}

#[test]
fn a_child_is_ended_even_when_it_does_not_listen() {
    let mut child = Child::start(Command::new("sleep").arg("60"), "sleep").unwrap();
    let pid = child.pid();
    assert!(sample(pid).is_ok());
    let stop = AtomicBool::new(false);
    let error = child.wait_until(Instant::now(), &stop).unwrap_err();
    assert!(error.to_string().contains("in time"), "{error}");
    drop(child);
    assert!(sample(pid).is_err());
}

#[test]
fn congestion_control_is_set_and_restored() {
    let path = std::env::temp_dir().join(format!("drystone-bench-cc-{}", std::process::id()));
    std::fs::write(&path, "bbr\n").unwrap();
    let set = CongestionControl::set_at(path.clone(), "cubic");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "cubic");
    assert!(set.sentence().contains("the system's default is bbr"));
    drop(set);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "bbr");
    drop(CongestionControl::set_at(path.clone(), "bbr"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "bbr");
    std::fs::remove_file(&path).unwrap();
    let none = CongestionControl::set_at(path.join("no/such"), "cubic");
    assert!(none.sentence().contains("could not set cubic"));
}

#[test]
fn programs_are_found_in_path() {
    assert!(in_path("sh").is_some());
    assert!(in_path("no-such-program-anywhere").is_none());
}

#[test]
fn processes_are_pinned_with_all_their_threads() {
    let threads = |pid: u32| -> Vec<rustix::process::Pid> {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let number = |task: std::fs::DirEntry| task.file_name().to_str()?.parse().ok();
        tasks.filter_map(number).filter_map(rustix::process::Pid::from_raw).collect()
    };
    let child = Child::start(Command::new("sleep").arg("60"), "sleep").unwrap();
    let before = rustix::thread::sched_getaffinity(None).unwrap();
    let core = (0..1024).find(|&core| before.is_set(core)).unwrap();
    let cores = |pid: u32| -> Vec<u32> {
        let all = threads(pid).into_iter();
        all.map(|it| rustix::thread::sched_getaffinity(Some(it)).unwrap().count()).collect()
    };
    let pinned = PinnedProcesses::to_core(vec![child.pid()], core).unwrap();
    assert_eq!(cores(child.pid()), [1]);
    drop(pinned);
    assert_eq!(cores(child.pid()), [before.count()]);
    assert!(PinnedProcesses::to_core(vec![u32::MAX], core).is_err());
}
