//! What commands did, how long they took and how they ended.
//!
//! Each session counts for itself, in plain cells of its core ([`UnitTally`]): on the way of a command there
//! is no lock, no atomic and no clock but that of the turn. When a session ends, what it has counted goes to
//! the part of its core in [`EndedSessions`] of the unit, in the same step in which the core forgets the
//! session. Whoever asks a core for both parts in one step so finds every command once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::AddAssign;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use block::{LATENCY_CLASSES, Latency};
use ring::CoreId;
use scsi::cdb::Command;

/// Commands that go one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkFigures {
    /// Those that were answered, with their times.
    pub latency: Latency,
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many of them were answered with another status than GOOD. A unit attention is none: it is news,
    /// and the host sends the command again.
    pub errors: u64,
    /// Those that were aborted, by hosts or with their connection; they are not among the others.
    pub aborted: u64,
}

impl AddAssign for WorkFigures {
    fn add_assign(&mut self, other: Self) {
        self.latency += other.latency;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.aborted += other.aborted;
    }
}

/// What hosts have had done by one unit since it was first served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitFigures {
    /// READ.
    pub reads: WorkFigures,
    /// WRITE, WRITE AND VERIFY, WRITE ATOMIC, ORWRITE, COMPARE AND WRITE.
    pub writes: WorkFigures,
    /// All other commands.
    pub others: WorkFigures,
}

impl AddAssign for UnitFigures {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
    }
}

/// Which way the data of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
    Other,
}

impl Direction {
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::Read { .. } => Self::Read,
            Command::Write { .. }
            | Command::WriteAndVerify { .. }
            | Command::WriteAtomic { .. }
            | Command::OrWrite { .. }
            | Command::CompareAndWrite { .. } => Self::Write,
            _ => Self::Other,
        }
    }
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get() + more);
}

/// Counts times, on one core. The clock is that of the core, which stands still for a turn: a command that is
/// answered in the turn in which it came took no time.
#[derive(Debug, Default)]
pub(crate) struct LatencyTally {
    counts: [Cell<u64>; LATENCY_CLASSES],
    sum_ns: Cell<u64>,
}

impl LatencyTally {
    #[inline]
    pub(crate) fn count(&self, time: Duration) {
        add(&self.counts[Latency::class(time)], 1);
        if !time.is_zero() {
            add(&self.sum_ns, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub(crate) fn figures(&self) -> Latency {
        let counts = std::array::from_fn(|class| self.counts[class].get());
        Latency { counts, sum_ns: self.sum_ns.get() }
    }
}

#[derive(Debug, Default)]
struct WorkTally {
    latency: LatencyTally,
    bytes: Cell<u64>,
    errors: Cell<u64>,
    aborted: Cell<u64>,
}

impl WorkTally {
    fn figures(&self) -> WorkFigures {
        WorkFigures {
            latency: self.latency.figures(),
            bytes: self.bytes.get(),
            errors: self.errors.get(),
            aborted: self.aborted.get(),
        }
    }
}

/// Counts what one session has done by one unit, on the core of the session.
#[derive(Debug, Default)]
pub(crate) struct UnitTally {
    reads: WorkTally,
    writes: WorkTally,
    others: WorkTally,
}

impl UnitTally {
    #[inline]
    fn work(&self, direction: Direction) -> &WorkTally {
        match direction {
            Direction::Read => &self.reads,
            Direction::Write => &self.writes,
            Direction::Other => &self.others,
        }
    }

    /// A command has been answered, after `time`, and has moved so many bytes.
    #[inline]
    pub(crate) fn answered(&self, direction: Direction, time: Duration, bytes: u64) {
        let work = self.work(direction);
        work.latency.count(time);
        add(&work.bytes, bytes);
    }

    /// One that was [answered](Self::answered) has failed.
    pub(crate) fn failed(&self, direction: Direction) {
        add(&self.work(direction).errors, 1);
    }

    pub(crate) fn aborted(&self, direction: Direction) {
        add(&self.work(direction).aborted, 1);
    }

    pub(crate) fn figures(&self) -> UnitFigures {
        UnitFigures {
            reads: self.reads.figures(),
            writes: self.writes.figures(),
            others: self.others.figures(),
        }
    }
}

/// What sessions that have ended had done by one unit, by the core on which they lived.
#[derive(Debug, Default)]
pub(crate) struct EndedSessions(Mutex<BTreeMap<CoreId, UnitFigures>>);

impl EndedSessions {
    /// A session of this core has ended. To be called in the same step in which the core forgets it.
    pub(crate) fn add(&self, core: CoreId, figures: UnitFigures) {
        let mut by_core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *by_core.entry(core).or_default() += figures;
    }

    /// To be asked on this core, in the same step as the sessions that live there.
    pub(crate) fn of_core(&self, core: CoreId) -> UnitFigures {
        let by_core = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        by_core.get(&core).copied().unwrap_or_default()
    }
}

/// What has gone over the connections of one portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortalWork {
    /// SCSI commands that have come.
    pub(crate) commands: u64,
    /// Bytes of data that were sent for them.
    pub(crate) read_bytes: u64,
    /// Bytes of data that came for them.
    pub(crate) written_bytes: u64,
    /// How long those took that were answered.
    pub(crate) latency: Latency,
}

impl AddAssign for PortalWork {
    fn add_assign(&mut self, other: Self) {
        self.latency += other.latency;
        self.commands += other.commands;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }
}

/// How many addresses of one portal have figures of their own.
const ADDRESSES_MAX: usize = 64;

/// The addresses that have figures of their own, with the portal that each of them belongs to. A portal that listens
/// on all addresses of a machine is reached at as many as there are (127.0.0.0/8 alone has 16 million), and figures
/// are kept for as long as the server runs: without a bound they grow with every address that a host comes to.
#[derive(Debug, Default)]
pub(crate) struct CountedAddresses(Mutex<BTreeMap<SocketAddr, SocketAddr>>);

impl CountedAddresses {
    /// Where it is counted what goes over a connection that came to `local`: there, or at the portal itself if
    /// enough of its addresses have figures of their own.
    pub(crate) fn place_of(&self, local: SocketAddr, portals: &[SocketAddr]) -> SocketAddr {
        if portals.contains(&local) {
            return local;
        }
        let Some(portal) = portal_of(local, portals) else { return local };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.contains_key(&local) {
            return local;
        }
        if all.values().filter(|of| **of == portal).count() >= ADDRESSES_MAX {
            return portal;
        }
        all.insert(local, portal);
        local
    }
}

/// The portal that hosts reach at `local`, which is the address of none: one that listens on all addresses, of the
/// same family if there are two. Any, where the kernel hands out connections to addresses of others.
fn portal_of(local: SocketAddr, portals: &[SocketAddr]) -> Option<SocketAddr> {
    let is_wide =
        |portal: &&SocketAddr| portal.ip().is_unspecified() && portal.port() == local.port();
    let is_alike = |portal: &&SocketAddr| is_wide(portal) && portal.is_ipv4() == local.is_ipv4();
    let found = portals.iter().find(is_alike).or_else(|| portals.iter().find(is_wide));
    found.or(portals.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::Instant;

    use super::*;

    /// `make bench-api` runs this on a release build, where it shows what each command pays for its figures.
    #[test]
    #[allow(clippy::print_stdout, reason = "it is a measurement")]
    fn what_counting_a_command_costs() {
        let is_release = !cfg!(debug_assertions);
        let count = if is_release { 20_000_000_u32 } else { 10_000 };
        let (session, connection) = (UnitTally::default(), LatencyTally::default());
        let begun = Instant::now();
        for number in 0..count {
            // Up to 65 us: the first class and the second.
            let time = Duration::from_nanos(u64::from(black_box(number) & 0xffff));
            session.answered(black_box(Direction::Read), time, 4096);
            connection.count(time);
        }
        let each = begun.elapsed() / count;
        assert_eq!(connection.figures().count(), u64::from(count));
        assert_eq!(session.figures().reads.latency, connection.figures());
        println!("counting a command costs {} ns", each.as_nanos());
        assert!(!is_release || each < Duration::from_nanos(100), "{each:?}");
    }

    #[test]
    fn the_parts_of_cores_are_apart_and_add_up() {
        let ended = EndedSessions::default();
        let tally = UnitTally::default();
        tally.answered(Direction::Read, Duration::from_millis(3), 4096);
        tally.answered(Direction::Write, Duration::ZERO, 512);
        tally.failed(Direction::Write);
        tally.aborted(Direction::Other);
        let (first, second) = (CoreId::from(0), CoreId::from(1));
        ended.add(first, tally.figures());
        ended.add(first, tally.figures());
        assert_eq!(ended.of_core(second), UnitFigures::default());
        let figures = ended.of_core(first);
        assert_eq!((figures.reads.bytes, figures.reads.latency.sum_ns), (8192, 6_000_000));
        assert_eq!((figures.writes.latency.counts[0], figures.writes.errors), (2, 2));
        assert_eq!((figures.others.aborted, figures.others.latency.count()), (2, 0));
    }

    #[test]
    fn addresses_beyond_those_of_a_portal_are_counted_at_the_portal() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let portals = [address("192.0.2.1:3260"), address("0.0.0.0:3270"), address("[::]:3270")];
        let counted = CountedAddresses::default();
        let at = |local: &str| counted.place_of(address(local), &portals);
        for round in 0..2 {
            for host in 0..=255 {
                let own = address(&format!("127.0.0.{host}:3270"));
                let wanted = if host < ADDRESSES_MAX { own } else { portals[1] };
                assert_eq!(counted.place_of(own, &portals), wanted, "round {round}");
            }
        }
        assert_eq!(at("192.0.2.1:3260"), portals[0]);
        assert_eq!(at("0.0.0.0:3270"), portals[1]);
        // The other family has its own, and IPv4 that comes to its portal is of that.
        for host in 0..100 {
            let own = address(&format!("[::ffff:127.0.0.{host}]:3270"));
            let wanted = if host < ADDRESSES_MAX { own } else { portals[2] };
            assert_eq!(counted.place_of(own, &portals), wanted);
        }
        assert_eq!(counted.0.lock().unwrap().len(), 2 * ADDRESSES_MAX);
        assert_eq!(counted.place_of(address("127.0.0.1:1"), &[]), address("127.0.0.1:1"));
    }
}
