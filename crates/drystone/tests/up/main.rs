//! `drystone up` and the commands to it, with the real binary, real files and real iSCSI sessions.

mod access;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod daemon;
mod events;
mod foreign;
mod golden;
#[path = "../crash/host.rs"]
#[allow(dead_code, reason = "the crash tests use more of it")]
mod host;
mod lifecycle;
mod limits;
mod moves;
mod needs;
mod notify;
mod refusals;
mod san;
mod schedules;
mod starts;
mod top;
mod volumes;

use common::member::{Home, Member};
use common::{drystone, finish};
use host::Host;

/// A host that is logged in to a volume of a member.
fn log_in(member: &Member<'_>, volume: &str) -> Host {
    Host::log_in(member.portal(), &member.iqn(volume), 1, &[0]).expect("the volume is served")
}

/// A start that fails with one sentence.
#[track_caller]
fn start_refused(home: &Home, more: &[&str]) -> String {
    start_ends(home, more, 1)
}

/// The same of a start that ends with this status.
#[track_caller]
fn start_ends(home: &Home, more: &[&str], status: i32) -> String {
    let line = home.command_line(more);
    let output = finish(&mut drystone(&line.iter().map(String::as_str).collect::<Vec<_>>()));
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{err}");
    let last = err.lines().last().expect("it says why");
    last.strip_prefix("drystone: ").expect("it says who speaks").to_owned()
}

/// A block that tells where and when it was written.
fn block(seed: u8) -> Vec<u8> {
    (0..4096_u32).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Writes 4 KiB at this 4 KiB block of LUN 0; the answer must be GOOD.
fn write(host: &mut Host, at: u32, data: &[u8]) {
    let [a, b, c, d] = (at * 8).to_be_bytes();
    let answer = host.run(0, &[0x2a, 0, a, b, c, d, 0, 0, 8, 0], 0, data).expect("an answer");
    assert!(answer.is_good(), "{answer:?}");
}

/// Reads 4 KiB.
fn read(host: &mut Host, at: u32) -> Vec<u8> {
    let [a, b, c, d] = (at * 8).to_be_bytes();
    let answer = host.run(0, &[0x28, 0, a, b, c, d, 0, 0, 8, 0], 4096, &[]).expect("an answer");
    assert!(answer.is_good(), "{answer:?}");
    answer.data
}
