//! What the process of a member holds.

use crate::common::member::Member;
use std::fs;

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
