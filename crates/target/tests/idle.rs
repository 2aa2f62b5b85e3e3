//! What a logged-in host that does nothing costs. Alone in its process, so that the memory it
//! measures is its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests may unwrap as tests do")]

#[allow(dead_code, unused_imports, reason = "this test needs a part of what the others share")]
#[path = "wire/common/mod.rs"]
mod common;

use common::{Login, Rig, config, ram};

/// Sessions that are logged in at once.
const SESSIONS: usize = 1000;
/// What each may cost: the goal of the project.
const SESSION_BYTES_MAX: usize = 64 << 10;

/// Resident bytes of this process.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Processor time of this process so far, in ticks of 10 ms.
fn cpu_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// File descriptors that this process may have open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn a_thousand_idle_sessions_cost_little_memory_and_no_cpu() {
    // Each takes one descriptor here and one in the server.
    let sessions = SESSIONS.min((descriptors() - 100) / 2);
    let mut config = config([ram()]);
    config.cores = 2;
    let rig = Rig::start(config);
    // What a first session and its login bring to life belongs to the target.
    let warm: Vec<_> = (0..20).map(|index| rig.ready(&format!("warm{index}"))).collect();
    let before = resident_bytes();
    let hosts: Vec<_> = (0..sessions)
        .map(|index| {
            let mut host = Login::new(&format!("idle{index}")).connect(rig.portal()).unwrap();
            host.take_attentions(0);
            host
        })
        .collect();
    assert_eq!(rig.server().sessions(), sessions + warm.len());
    let each = (resident_bytes() - before) / sessions;
    // Both ends are in this process: what the initiator keeps is counted, too.
    assert!(each < SESSION_BYTES_MAX, "{each} bytes for each of {sessions} sessions");
    let ticks = cpu_ticks();
    std::thread::sleep(std::time::Duration::from_millis(1000));
    let spent = cpu_ticks() - ticks;
    assert!(spent <= 2, "{spent} ticks in an idle second");
    println!("{each} bytes each, {spent} ticks in a second");
    drop(hosts);
    common::wait_until("all have gone", || rig.server().sessions() == warm.len());
}
