//! Members of a group over the embedded store.

mod address;
mod connections;
mod failures;
mod growth;
mod handing;
mod lives;
mod meddled;
mod names;
mod placement;
mod pools;
mod races;
mod roll;
mod rules;
mod sets;
mod tokens;
mod walk;

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::store::suite::wait;
use crate::store::{Embedded, Options, Place};

const NOW: u64 = 1_700_000_000;

const HOUR: Duration = Duration::from_secs(60 * 60);

fn store() -> Arc<dyn Store> {
    let clock = Arc::new(|| Duration::ZERO);
    Arc::new(Embedded::open(Place::Memory, clock, Options::default()).expect("it opens"))
}

/// A store in which leases end by this clock, in seconds.
fn store_at(seconds: &Arc<AtomicU64>) -> Arc<dyn Store> {
    let seconds = seconds.clone();
    let clock = Arc::new(move || Duration::from_secs(seconds.load(Ordering::SeqCst)));
    Arc::new(Embedded::open(Place::Memory, clock, Options::default()).expect("it opens"))
}

/// A server that can join beside all of other numbers.
fn applicant(number: u8) -> Applicant {
    Applicant {
        name: format!("server-{number}"),
        address: IpAddr::from([10, 0, 0, number]),
        port: PORT,
        certificate_sha256: format!("{number:064x}"),
        array: format!("{number:032x}"),
        version: "0.1.0".to_owned(),
        clock_unix_seconds: NOW,
    }
}

/// The group `lab` in a store, whose only member is `server-1`.
fn group(store: &Arc<dyn Store>) -> Membership {
    let membership = Membership::new(store.clone());
    let id = GroupId::draw().expect("there is randomness");
    let founder = wait(membership.found("lab", id, applicant(1), NOW)).expect("there is none");
    assert_eq!(founder, MemberId(1));
    membership
}

fn token(membership: &Membership) -> (String, TokenText) {
    let (id, secret, _) = wait(membership.create_token(HOUR, NOW)).expect("there is room");
    (id, secret)
}

/// Joins with a token of its own.
fn join(
    membership: &Membership,
    applicant: Applicant,
) -> Result<(MemberId, Roll), MembershipError> {
    let (id, secret) = token(membership);
    wait(membership.admit(&id, secret.as_str(), applicant, NOW))
}

/// The group as it is now, which is sound.
fn read(membership: &Membership) -> Roll {
    let roll = wait(membership.read()).expect("it is read");
    roll.check();
    roll
}

fn names(roll: &Roll) -> Vec<(u16, &str)> {
    roll.members.iter().map(|(number, record)| (number.0, record.name.as_str())).collect()
}

fn said<T: Debug>(result: Result<T, MembershipError>) -> String {
    result.expect_err("it is refused").to_string()
}
