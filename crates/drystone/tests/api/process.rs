//! What the process of a member holds.

use crate::common::member::Member;
use std::fs;
use std::time::Duration;

/// Memory that it could not give back: anonymous pages that are resident.
pub(crate) fn resident_bytes(member: &Member<'_>) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", member.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

/// Open files and sockets.
pub(crate) fn descriptors(member: &Member<'_>) -> usize {
    fs::read_dir(format!("/proc/{}/fd", member.pid())).expect("it runs").count()
}

/// Processor time that its threads which are there have had.
pub(crate) fn cpu_time(member: &Member<'_>) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{}/task", member.pid())).expect("it runs").flatten();
    let of_task = |task: fs::DirEntry| -> Option<u64> {
        // One may end meanwhile.
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(of_task).sum())
}

/// The names of its threads, and how far each stands back behind others (nice(2)).
pub(crate) fn threads(member: &Member<'_>) -> Vec<(String, i32)> {
    let tasks = fs::read_dir(format!("/proc/{}/task", member.pid())).expect("it runs").flatten();
    let of_task = |task: fs::DirEntry| -> Option<(String, i32)> {
        let text = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, fields) = (text.split_once('(')?.1).rsplit_once(") ")?;
        Some((name.to_owned(), fields.split(' ').nth(16)?.parse().ok()?))
    };
    tasks.filter_map(of_task).collect()
}
