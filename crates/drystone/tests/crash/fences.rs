//! kill -9 while hosts register and fence each other off, all at once: what each was told last holds
//! after the restart, and a host that was fenced off stays out.

use super::common::{Export, file_spec};
use super::host::Host;
use super::{LIFE_MS, ROUNDS_DEFAULT, rounds};
use scsi::Status;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Hosts that change their keys over and over.
const REGISTRANTS: u64 = 4;
/// A host that is let in and fenced off in turn, and the one that does it: it holds the reservation.
const VICTIM: u64 = 0x10;
const FENCER: u64 = 0x11;

const RESERVE: u8 = 1;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const REGISTER_AND_IGNORE: u8 = 6;
const WRITE_EXCLUSIVE_REGISTRANTS: u8 = 5;

/// The key of one host, 0 for none: as it was told, and as it would be after what it has not been told.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    told: u64,
    under_way: Option<u64>,
}

/// Which host a key is of.
fn owner(key: u64) -> u64 {
    key >> 32
}

impl Key {
    /// Lets `change` make it `next`, which is what it is once that is answered.
    fn change(&mut self, next: u64, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.under_way = Some(next);
        change()?;
        *self = Self { told: next, under_way: None };
        Ok(())
    }

    fn may_be(&self, found: u64) -> bool {
        found == self.told || Some(found) == self.under_way
    }

    /// The key that this host has next.
    fn next(&self, host: u64) -> u64 {
        let last = self.told.max(self.under_way.unwrap_or(0)) as u32;
        host << 32 | u64::from(last + 1)
    }
}

/// PERSISTENT RESERVE OUT with APTPL=1 (SPC-4 6.16).
fn reserve_out(host: &mut Host, action: u8, key: u64, action_key: u64) -> io::Result<()> {
    let mut list = [key.to_be_bytes(), action_key.to_be_bytes(), [0; 8]].concat();
    list[20] = 1;
    let cdb = [0x5f, action, WRITE_EXCLUSIVE_REGISTRANTS, 0, 0, 0, 0, 0, 24, 0];
    let answer = host.run(0, &cdb, 0, &list)?;
    assert!(answer.is_good(), "PERSISTENT RESERVE OUT {action} failed: {answer:?}");
    Ok(())
}

/// One descriptor of READ FULL STATUS (SPC-4 6.15.5).
#[derive(Debug)]
struct Registered {
    key: u64,
    /// By the last byte of its ISID, which its TransportID ends with (SPC-4 7.6.4.6).
    host: u64,
    /// The type of the reservation, if it holds it.
    holds: Option<u8>,
}

fn registered(data: &[u8]) -> Vec<Registered> {
    let mut rest = &data[8..];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (head, id) = rest.split_at(24);
        let len = u32::from_be_bytes(head[20..24].try_into().expect("four bytes")) as usize;
        let (id, next) = id.split_at(len);
        let name = String::from_utf8_lossy(&id[4..]);
        let (_, isid) =
            name.trim_end_matches('\0').rsplit_once(",i,0x").expect("an initiator port");
        let isid = u64::from_str_radix(isid, 16).expect("an ISID in hexadecimal digits");
        all.push(Registered {
            key: u64::from_be_bytes(head[..8].try_into().expect("eight bytes")),
            host: isid & 0xff,
            holds: (head[12] & 1 == 1).then_some(head[13] & 0xf),
        });
        rest = next;
    }
    all
}

fn start(dir: &Path) -> Export {
    let state = dir.join("state");
    let state = state.to_str().expect("a temporary directory in UTF-8");
    Export::start(&[&file_spec(dir, "fenced", "8M")], &["--state-dir", state, "--cores", "2"])
}

fn log_in(export: &Export, host: u64) -> Host {
    Host::log_in(export.portal(), &export.iqn, host as u8, &[0]).expect("it lets hosts in")
}

#[derive(Debug, Default)]
struct Known {
    registrants: [Key; REGISTRANTS as usize],
    victim: Key,
    fencer: Key,
    /// The reservation was answered.
    is_reserved: bool,
    preempts: usize,
}

fn register(mut host: Host, number: u64, key: &mut Key) {
    let mut turn = || {
        let next = key.next(number);
        key.change(next, || reserve_out(&mut host, REGISTER_AND_IGNORE, 0, next))
    };
    while turn().is_ok() {}
}

/// Lets the victim in and fences it off again.
fn fence(mut fencer: Host, mut victim: Host, known: &mut Known) -> io::Result<()> {
    let own = FENCER << 32;
    known.fencer.change(own, || reserve_out(&mut fencer, REGISTER_AND_IGNORE, 0, own))?;
    reserve_out(&mut fencer, RESERVE, own, 0)?;
    known.is_reserved = true;
    loop {
        let next = known.victim.next(VICTIM) + known.preempts as u64;
        known.victim.change(next, || reserve_out(&mut victim, REGISTER_AND_IGNORE, 0, next))?;
        let action = if known.preempts.is_multiple_of(2) { PREEMPT } else { PREEMPT_AND_ABORT };
        known.victim.change(0, || reserve_out(&mut fencer, action, own, next))?;
        known.preempts += 1;
    }
}

impl Known {
    fn load(&mut self, export: Export) {
        let life = Duration::from_millis(fastrand::u64(LIFE_MS));
        let hosts: Vec<_> = (0..REGISTRANTS).map(|number| log_in(&export, number + 1)).collect();
        let (fencer, victim) = (log_in(&export, FENCER), log_in(&export, VICTIM));
        let mut keys = self.registrants;
        thread::scope(|scope| {
            for ((host, key), number) in hosts.into_iter().zip(&mut keys).zip(1..) {
                scope.spawn(move || register(host, number, key));
            }
            scope.spawn(|| drop(fence(fencer, victim, self)));
            thread::sleep(life);
            export.crash();
        });
        self.registrants = keys;
    }

    /// Every key is one that it may be, and of the host that it is of; there are no others, the
    /// reservation is held, and whom nobody let in again is out.
    fn verify(&mut self, export: &Export) {
        let mut reader = log_in(export, 0x20);
        let status = reader.run(0, &[0x5e, 3, 0, 0, 0, 0, 0, 16, 0, 0], 4096, &[]);
        let found = registered(&status.expect("an answer").data);
        let key_of = |host| found.iter().find(|it| it.host == host).map_or(0, |it| it.key);
        let hosts = (1..).zip(&mut self.registrants);
        let all = hosts.chain([(VICTIM, &mut self.victim), (FENCER, &mut self.fencer)]);
        for (host, key) in all {
            let found_key = key_of(host);
            assert!(found_key == 0 || owner(found_key) == host, "{found:x?}");
            assert!(key.may_be(found_key), "host {host:#x} is {key:x?}, but has {found:x?}");
            *key = Key { told: found_key, under_way: None };
        }
        let unknown = found.iter().any(|it| !(1..=FENCER).contains(&it.host));
        assert!(!unknown && found.len() <= REGISTRANTS as usize + 2, "{found:x?}");
        let holders: Vec<_> = found.iter().filter(|it| it.holds.is_some()).collect();
        if self.is_reserved {
            let held = holders.iter().map(|it| (it.host, it.holds));
            assert!(held.eq([(FENCER, Some(WRITE_EXCLUSIVE_REGISTRANTS))]), "{found:x?}");
        }
        if self.is_reserved && self.victim.told == 0 {
            let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
            let answer = log_in(export, VICTIM).run(0, &write, 0, &[0; 512]).expect("an answer");
            assert_eq!(answer.status, Status::ReservationConflict, "a fenced host may write");
        }
    }
}

#[test]
fn no_fence_that_was_acknowledged_is_undone_by_kill_9() {
    let rounds = rounds(ROUNDS_DEFAULT);
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let mut known = Known::default();
    for round in 0..=rounds {
        let export = start(dir.path());
        known.verify(&export);
        if round < rounds {
            known.load(export);
        }
    }
    let changes: u64 = known.registrants.iter().map(|key| u64::from(key.told as u32)).sum();
    println!("{rounds} crashes: {changes} registrations, {} fences", known.preempts);
    assert!(changes > REGISTRANTS && known.preempts > 0 && known.is_reserved, "there was no load");
}
