//! A volume that moves, a host that works with it all the while, wherever it is, and one that sees that no two members
//! serve it at once.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use scsi::Status;
use serde_json::Value;

use crate::common::member::Member;
use crate::host::Host;
use crate::ledger::{BLOCK_BYTES, Ledger};
use crate::load::verify;
use crate::sites::{PATIENCE, Site, asked, group_of, listed, wait_for};

/// The names of the members, in the order of their sites.
pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];
/// The volume.
pub(crate) const VOLUME: &str = "vm";
/// Who may use it: what hosts of these tests are called.
const HOST: &str = "iqn.2026-11.dev.drystone:crash-test";
/// 64 MiB of 96.
const BLOCKS: usize = 16 * 1024;
/// Blocks of one write.
const WRITE_BLOCKS: usize = 8;
/// Writes under way.
const DEPTH: usize = 8;
/// What the host rests between them: a move has to catch up with it.
const REST: Duration = Duration::from_millis(20);
/// How often it is tried to log in, and looked who serves.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is looked whether what is to end a session goes on. No move of a quiet machine takes so long: a look
/// may come in the way of the moment that is waited for.
const LOOK: Duration = Duration::from_secs(5);
/// The initiator ports: the one that has reserved the volume and works, the one that watches, and others.
pub(crate) const WORKER: u8 = 1;
const WATCHER: u8 = 2;
const OTHER: u8 = 3;

/// Three servers with room for the volume, for a copy of it and for snapshots.
pub(crate) fn roomy_sites() -> [Site; 3] {
    [("a", 1), ("b", 2), ("c", 3)].map(|(name, last)| Site::with_disks(name, last, "512M"))
}

/// A group, and its volume with a snapshot.
pub(crate) struct Bed<'a> {
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) busy: Busy,
    /// What the snapshot holds.
    first: Ledger,
    /// What the volume holds.
    pub(crate) now: Ledger,
}

impl<'a> Bed<'a> {
    /// The volume is on the first member, reserved and filled; a snapshot has what it held before.
    pub(crate) fn make(sites: &'a [Site; 3]) -> Self {
        let members = Vec::from(group_of(sites));
        let a = &members[0];
        a.run(&["volume", "create", VOLUME, "96M", "--on", "a"]);
        a.run(&["volume", "access", "add", VOLUME, "--iqn", HOST]);
        let iqn = a.iqn(VOLUME);
        let mut host = Host::log_in(a.portal(), &iqn, WORKER, &[0]).expect("it is served");
        reserve(&mut host, 5);
        let (mut first, mut now) = (Ledger::new(BLOCKS), Ledger::new(BLOCKS));
        let ranges = (0..BLOCKS).step_by(WRITE_BLOCKS).map(|at| at..at + WRITE_BLOCKS);
        let ranges: Vec<Range<usize>> = ranges.collect();
        for batch in ranges.chunks(DEPTH) {
            write_all(&mut host, &mut first, batch).expect("it is served");
        }
        a.run(&["snapshot", "create", VOLUME, "s1"]);
        // The other way round, so that the same block holds another write.
        for batch in ranges.rchunks(DEPTH) {
            let batch: Vec<_> = batch.iter().rev().cloned().collect();
            write_all(&mut host, &mut now, &batch).expect("it is served");
        }
        let busy = Busy::new(iqn, &members);
        Self { members, busy, first, now }
    }

    /// The volume is whole on one member, with its snapshot, and nothing is left of moves.
    pub(crate) fn check(&mut self) {
        let owner = self.busy.await_owner(&self.members);
        let member = &self.members[owner];
        let mut host = self.busy.log_in(WORKER).expect("it is served");
        verify(&mut host, 0, &mut self.now).expect("all is there that was acknowledged");
        let mut other = self.busy.log_in(OTHER).expect("it may use it");
        let answer = other.run(0, &write_cdb(&(0..1)), 0, &[0; BLOCK_BYTES]).expect("an answer");
        assert_eq!(answer.status, Status::ReservationConflict, "it is another host's");
        let shown = member.json(&["snapshot", "online", VOLUME, "s1"]);
        let iqn = shown["iqn"].as_str().expect("it has a target");
        let mut old = Host::log_in(member.portal(), iqn, WORKER, &[0]).expect("it is served");
        verify(&mut old, 0, &mut self.first).expect("the snapshot is what it was");
        drop(old);
        member.run(&["snapshot", "offline", VOLUME, "s1"]);
        await_snapshots(member, &["s1"]);
        for (number, member) in self.members.iter().enumerate() {
            let wanted = usize::from(number == owner);
            wait_for("no member has more than it shows", PATIENCE, || {
                let list = asked(member, &["volume", "list", "--on", NAMES[number]])?;
                match list.as_array().map(Vec::len) {
                    Some(count) if count == wanted => Ok(()),
                    _ => Err(list.to_string()),
                }
            });
        }
    }
}

/// Waits until the volume has these snapshots, and none that a move took.
#[track_caller]
pub(crate) fn await_snapshots(member: &Member<'_>, wanted: &[&str]) {
    wait_for(&format!("{wanted:?}"), PATIENCE, || {
        let list = asked(member, &["snapshot", "list", VOLUME])?;
        let names = list.as_array().ok_or("no list")?.iter().map(|one| one["name"].as_str());
        let names: Option<Vec<&str>> = names.collect();
        if names.as_deref() == Some(wanted) { Ok(()) } else { Err(list.to_string()) }
    });
}

/// The target of the volume, and what its hosts have seen.
pub(crate) struct Busy {
    iqn: String,
    /// Where members are reached: others with each start.
    portals: Mutex<Vec<SocketAddr>>,
    is_over: AtomicBool,
    /// The working host does no more, for which there is a reason only when it is over.
    has_stopped: AtomicBool,
    /// Sessions of the worker that were ended by the other side.
    ended: AtomicUsize,
    /// Writes that were acknowledged.
    written: AtomicUsize,
}

impl Busy {
    fn new(iqn: String, members: &[Member<'_>]) -> Self {
        let portals = Mutex::new(members.iter().map(Member::portal).collect());
        let (ended, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (is_over, has_stopped) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { iqn, portals, is_over, has_stopped, ended, written }
    }

    /// Does `what` beside a host that works and one that watches. To be called once.
    pub(crate) fn beside<T>(&self, ledger: &mut Ledger, what: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            // Also where it fails: else its end would be waited for without an end.
            let _over = Over(&self.is_over);
            scope.spawn(|| self.work(ledger));
            scope.spawn(|| self.watch());
            self.await_work();
            what()
        })
    }

    /// Where the members are reached from now on.
    pub(crate) fn are_at(&self, members: &[Member<'_>]) {
        let portals = members.iter().map(Member::portal).collect();
        *self.portals.lock().unwrap_or_else(PoisonError::into_inner) = portals;
    }

    fn portals(&self) -> Vec<SocketAddr> {
        self.portals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// How many sessions the working host has lost.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// What is awaited of a host that has failed never comes.
    #[track_caller]
    fn check_host(&self) {
        let has_stopped = self.has_stopped.load(Ordering::Relaxed);
        assert!(!has_stopped, "the working host has failed, and says how above");
    }

    /// Waits until it has lost one more than so many, and returns in that moment; false where what is to end a session
    /// `goes_on` no more, and none was lost.
    #[track_caller]
    pub(crate) fn await_end_of_session(&self, before: usize, goes_on: impl Fn() -> bool) -> bool {
        let limit = 2 * PATIENCE;
        let (end, mut look) = (Instant::now() + limit, Instant::now() + LOOK);
        while self.ended() <= before {
            self.check_host();
            let now = Instant::now();
            assert!(now < end, "hosts were not asked to leave in {limit:?}");
            if now >= look {
                if !goes_on() {
                    return self.ended() > before;
                }
                look = Instant::now() + LOOK;
            }
            thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits until the host has written something more. With each session it has seen before that all is there.
    #[track_caller]
    pub(crate) fn await_work(&self) {
        let before = self.written.load(Ordering::Relaxed);
        wait_for("the host works", PATIENCE, || {
            self.check_host();
            match self.written.load(Ordering::Relaxed) {
                written if written > before => Ok(()),
                written => Err(format!("{written} writes, {} sessions lost", self.ended())),
            }
        });
    }

    /// Waits until exactly one member serves the volume and all say that it is that one's.
    #[track_caller]
    pub(crate) fn await_owner(&self, members: &[Member<'_>]) -> usize {
        wait_for("one member has the volume", PATIENCE, || {
            let served = self.served_at(OTHER);
            let [portal] = served[..] else { return Err(format!("served at {served:?}")) };
            let owner = members.iter().position(|member| member.portal() == portal);
            let owner = owner.ok_or("by nobody of them")?;
            for member in members {
                let all = listed(member)?;
                if all.get(VOLUME).map(String::as_str) != Some(NAMES[owner]) {
                    return Err(format!("{} serves it, and listed is {all:?}", NAMES[owner]));
                }
            }
            Ok(owner)
        })
    }

    /// The portals at which the volume is served at one time: at all of them a session is there before any is asked
    /// whether it still is.
    fn served_at(&self, number: u8) -> Vec<SocketAddr> {
        let portals = self.portals().into_iter();
        let sessions = portals.filter_map(|portal| {
            Some((portal, Host::log_in(portal, &self.iqn, number, &[]).ok()?))
        });
        let mut sessions: Vec<(SocketAddr, Host)> = sessions.collect();
        sessions.retain_mut(|(_, host)| {
            host.run(0, &[0; 6], 0, &[]).is_ok_and(|answer| answer.is_good())
        });
        sessions.into_iter().map(|(portal, _)| portal).collect()
    }

    /// A session with whoever serves the volume, by way of any member.
    pub(crate) fn log_in(&self, number: u8) -> Option<Host> {
        let mut portals = self.portals();
        fastrand::shuffle(&mut portals);
        portals.into_iter().find_map(|portal| log_in_by_way_of(portal, &self.iqn, number))
    }

    /// Works until it is over. With each session it looks first whether all is there.
    fn work(&self, ledger: &mut Ledger) {
        let _stopped = Over(&self.has_stopped);
        while !self.is_over() {
            let Some(mut host) = self.log_in(WORKER) else {
                thread::sleep(PAUSE);
                continue;
            };
            match verify(&mut host, 0, ledger) {
                Ok(()) => {}
                Err(what) if what.starts_with("the target went away") => {
                    self.ended.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Err(what) => panic!("{what}"),
            }
            if self.write(&mut host, ledger).is_err() {
                self.ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Writes to another quarter of it with each session: so what comes anew while a move copies is less than what that
    /// asks hosts to leave for, however slow the machine is.
    fn write(&self, host: &mut Host, ledger: &mut Ledger) -> io::Result<()> {
        let part = ledger.blocks() / 4;
        let start = fastrand::usize(..4) * part;
        while !self.is_over() {
            let range = |_| {
                let first = start + fastrand::usize(..part);
                first..(first + WRITE_BLOCKS).min(start + part)
            };
            let ranges: Vec<Range<usize>> = (0..DEPTH).map(range).collect();
            let written = write_all(host, ledger, &ranges)?;
            self.written.fetch_add(written, Ordering::Relaxed);
            thread::sleep(REST);
        }
        Ok(())
    }

    fn watch(&self) {
        while !self.is_over() {
            let served = self.served_at(WATCHER);
            assert!(served.len() <= 1, "two members serve it at once: {served:?}");
            thread::sleep(PAUSE);
        }
    }
}

/// Says at its end that it is over.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Logs in at a portal, or where that one sends it to.
pub(crate) fn log_in_by_way_of(portal: SocketAddr, iqn: &str, number: u8) -> Option<Host> {
    let said = match Host::log_in(portal, iqn, number, &[]) {
        Ok(host) => return Some(host),
        Err(error) => error.to_string(),
    };
    let address = said.strip_prefix("redirected to ")?.parse().ok()?;
    Host::log_in(address, iqn, number, &[]).ok()
}

/// WRITE(16) of these blocks of the ledger.
pub(crate) fn write_cdb(blocks: &Range<usize>) -> [u8; 16] {
    const LBAS: usize = BLOCK_BYTES / 512;
    let mut cdb = [0; 16];
    cdb[0] = 0x8a;
    cdb[2..10].copy_from_slice(&((blocks.start * LBAS) as u64).to_be_bytes());
    cdb[10..14].copy_from_slice(&((blocks.len() * LBAS) as u32).to_be_bytes());
    cdb
}

/// Writes all of these at once, those that overlap with another one excepted; returns how many it were.
pub(crate) fn write_all(
    host: &mut Host,
    ledger: &mut Ledger,
    ranges: &[Range<usize>],
) -> io::Result<usize> {
    let mut under_way = HashMap::new();
    for range in ranges {
        if ledger.is_idle(range.clone()) {
            let data = ledger.begin(range.clone());
            let itt = host.start(0, &write_cdb(range), 0, &data)?;
            under_way.insert(itt, (range.clone(), data));
        }
    }
    let count = under_way.len();
    while !under_way.is_empty() {
        let answer = host.finish()?;
        let (range, data) = under_way.remove(&answer.itt).expect("a write of ours");
        if answer.is_to_repeat() {
            let itt = host.start(0, &write_cdb(&range), 0, &data)?;
            under_way.insert(itt, (range, data));
            continue;
        }
        assert!(answer.is_good(), "a write failed: {answer:?}");
        ledger.acknowledge(range);
    }
    Ok(count)
}

/// PERSISTENT RESERVE OUT with APTPL=1 (SPC-4 6.16): REGISTER this key, then RESERVE Write Exclusive.
fn reserve(host: &mut Host, key: u8) {
    for (action, own, new) in [(0, 0, key), (1, key, 0)] {
        let mut list = [0; 24];
        (list[7], list[15], list[20]) = (own, new, u8::from(action == 0));
        let cdb = [0x5f, action, 1, 0, 0, 0, 0, 0, 24, 0];
        assert!(host.run(0, &cdb, 0, &list).expect("an answer").is_good(), "{action}");
    }
}

/// What hosts and operators see of the volume, which is to be the same wherever it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    shown: Vec<Value>,
    access: Value,
    snapshots: Vec<[Value; 3]>,
    /// Unit serial number (SPC-4 7.8.18).
    serial: Vec<u8>,
    /// The designators of the logical unit (SPC-4 7.8.6).
    designators: Vec<Vec<u8>>,
    /// The keys that are registered (SPC-4 6.15.2), without the count of changes.
    keys: Vec<u8>,
}

impl Busy {
    /// As this member and the host at its portal have it.
    pub(crate) fn seen_at(&self, member: &Member<'_>) -> Seen {
        let shown = member.json(&["volume", "show", VOLUME]);
        let fields = ["iqn", "size_bytes", "raid", "thick", "block_bytes", "cache", "snapshots"];
        let fields = fields.into_iter().chain(["read_ahead_bytes", "cached", "shared", "hosts"]);
        let shown = fields.map(|field| shown[field].clone()).collect();
        let access = member.json(&["volume", "access", "list", VOLUME])["entries"].clone();
        let list = member.json(&["snapshot", "list", VOLUME]);
        let keys = ["name", "created_unix_seconds", "size_bytes"];
        let of_one = |one: &Value| keys.map(|key| one[key].clone());
        let snapshots = list.as_array().expect("a list").iter().map(of_one).collect();
        let mut host = Host::log_in(member.portal(), &self.iqn, OTHER, &[0]).expect("it is served");
        let mut inquire = |page| {
            let answer = host.run(0, &[0x12, 1, page, 1, 0, 0], 256, &[]);
            answer.expect("an answer").data
        };
        let (serial, designators) = (inquire(0x80), of_unit(&inquire(0x83)));
        let keys = host.run(0, &[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0], 256, &[]);
        let keys = keys.expect("an answer").data.split_off(4);
        Seen { shown, access, snapshots, serial, designators, keys }
    }
}

/// The designators with the association of the logical unit: those of the port are the member's.
fn of_unit(page: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = &page[4..];
    let mut found = Vec::new();
    while let [_, association, _, len, ..] = *rest {
        let (one, next) = rest.split_at(4 + usize::from(len));
        if (association >> 4) & 3 == 0 {
            found.push(one.to_vec());
        }
        rest = next;
    }
    assert!(!found.is_empty(), "{page:x?}");
    found
}
