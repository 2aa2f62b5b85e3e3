//! A member with real disks, and with hosts over the wire where it is about them.

mod busy;
mod clones;
mod connections;
mod costs;
mod faults;
mod first;
pub(crate) mod leaving;
mod names;
mod one_host;
mod reservations;
mod room;

use std::time::{Duration, Instant};

use group::access::Entry;
use iscsi::pdu::LoginStatus;

use crate::access_request::AccessRequest;
use crate::request::Request;
use crate::testing::Rig;

const NOT_LET_IN: Option<LoginStatus> = Some(LoginStatus::AUTHORIZATION_FAILURE);
const COME_BACK: Option<LoginStatus> = Some(LoginStatus::SERVICE_UNAVAILABLE);
const NO_SUCH_TARGET: Option<LoginStatus> = Some(LoginStatus::NOT_FOUND);

/// The iSCSI name of a host.
pub(crate) fn host(name: &str) -> String {
    format!("iqn.2026-11.example:{name}")
}

/// The target of a volume.
pub(crate) fn iqn(rig: &Rig, volume: &'static str) -> String {
    rig.with(async move |member| member.serving().iqn_of(volume))
}

/// Lets a host use a volume.
fn let_in(rig: &Rig, volume: &str, name: &str) {
    let record = format!("iqn={}", host(name)).parse().expect("a record");
    let add = AccessRequest::Add { volume: volume.to_owned(), entry: Entry::Record(record) };
    rig.ask(Request::Access(add)).expect("it is stored");
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
