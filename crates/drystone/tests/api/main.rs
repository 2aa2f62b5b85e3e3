//! The interface of a member over real HTTP, with the real binary.

mod beside;
#[path = "../common/mod.rs"]
mod common;
mod conditions;
mod document;
mod endurance;
mod examples;
mod figures;
#[path = "../crash/host.rs"]
#[allow(dead_code, reason = "the crash tests use more of it")]
mod host;
#[allow(dead_code, reason = "the crash tests use more of it")]
mod http;
mod limits;
mod operations;
mod process;
mod properties;
mod remote;
mod runs;
mod scale;

use common::member::Member;
use http::Reply;
use serde_json::{Value, json};

/// A request without headers of its own.
#[track_caller]
fn ask(member: &Member<'_>, method: &str, path: &str, body: Option<&Value>) -> Reply {
    http::ask(&member.home.socket(), method, path, &[], body)
}

/// Makes a volume.
#[track_caller]
fn make(member: &Member<'_>, name: &str) -> Reply {
    let made =
        ask(member, "POST", "/v1/volumes", Some(&json!({"name": name, "size_bytes": 64 << 20})));
    assert_eq!(made.status, 201, "{}", made.text());
    made
}

/// Writes to each cluster of a volume, as a host.
fn fill(member: &Member<'_>, volume: &str) {
    let iqn = member.iqn(volume);
    let mut host = host::Host::log_in(member.portal(), &iqn, 1, &[0]).expect("it is served");
    for at in 0..1024_u32 {
        let [a, b, c, d] = (at * 128).to_be_bytes();
        let write = [0x2a, 0, a, b, c, d, 0, 0, 8, 0];
        let answer = host.run(0, &write, 0, &[at as u8; 4096]).expect("an answer");
        assert!(answer.is_good(), "{answer:?}");
    }
}
