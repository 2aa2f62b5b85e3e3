//! The states of paths, and the choice among them.
//!
//! ```text
//!             lost                     returned              time without failure
//! active -------------> failed ------------------> probation ---------------------> active
//!    ^  \                  ^                          |  ^
//!    |   \ suspect         +------------ lost --------+  |
//!    |    +----------------------------------------------+
//! ```
//!
//! A path in any of these states may be retired: no command takes it any more. One that works may
//! be silent, and returns when it is heard, or suspended, and returns when it was looked at.
//!
//! A path on probation is used only where no active one is left. Each failure during probation
//! doubles the next one, up to [`PROBATION_DOUBLINGS_MAX`] times, so that a path which comes and
//! goes does not take commands down with it again and again.

use std::ops::Range;
use std::time::Duration;

use scsi::alua::AccessState;

use super::{PageMap, Policy};
use crate::mutants::{self, Mutant};

const PROBATION_DOUBLINGS_MAX: u32 = 5;

/// The best rank of a silent path; all others are below.
const SILENT: u8 = 8;

/// A share of one eighth for each new sample.
const SMOOTHING: u64 = 8;

/// Bits of a [`PathId`] for its slot.
const SLOT_BITS: u32 = 16;

/// A path. Slots count from 0 in the order in which paths are added, and are used again; an id never
/// is, so that what is told of a path late is not taken for news of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub usize);

impl PathId {
    /// Its place among the paths.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.0 & ((1 << SLOT_BITS) - 1)
    }

    /// The next path in the same slot.
    const fn successor(self) -> Self {
        Self(self.0.wrapping_add(1 << SLOT_BITS))
    }
}

/// Whether a path is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// It is.
    Active,
    /// It works again, but has yet to show that it stays so.
    Probation {
        /// When it counts as active.
        until: Duration,
    },
    /// Nothing is heard of it although an answer is due: it is used where no other is left.
    Silent,
    /// What is behind it may have changed: it is not used before that has been looked at.
    Suspended,
    /// It does not work.
    Failed,
    /// It is not wanted any more.
    Retired,
}

/// What there is to know about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathStatus {
    /// Whether it is used.
    pub state: PathState,
    /// Its ALUA state.
    pub access: AccessState,
    /// Commands under way.
    pub in_flight: u32,
    /// Commands that it has done.
    pub commands: u64,
    /// Bytes that it has moved.
    pub bytes: u64,
    /// Smoothed time of a command.
    pub latency: Duration,
    /// Times that it was lost.
    pub losses: u64,
    /// Commands that it was given and that were sent once more, on whichever path.
    pub retries: u64,
}

#[derive(Debug)]
pub(super) struct Path {
    pub(super) id: PathId,
    pub(super) status: PathStatus,
    /// The target port group that it leads to, once known.
    group: Option<u16>,
    /// Failures that probation is longer for.
    strikes: u32,
    /// Smoothed time of a command, divided by the commands it shared the path with.
    service_ns: u64,
    measured_at: Duration,
    /// When it was chosen last, as a count of choices: breaks ties.
    chosen: u64,
}

/// All paths and the policy.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) all: Vec<Path>,
    policy: Policy,
    map: PageMap,
    probation: Duration,
    choices: u64,
    current: Option<usize>,
    left: u32,
}

impl Paths {
    pub(super) fn new(policy: Policy, probation: Duration) -> Self {
        Self {
            all: Vec::new(),
            policy,
            map: PageMap::new(0),
            probation,
            choices: 0,
            current: None,
            left: 0,
        }
    }

    /// A new path, in the place `reuse` of one that was retired, if given.
    pub(super) fn add(&mut self, access: AccessState, reuse: Option<PathId>) -> PathId {
        let id = reuse.map_or(PathId(self.all.len()), PathId::successor);
        assert!(self.all.len() < 1 << SLOT_BITS, "a disk has few paths");
        let path = Path {
            id,
            status: PathStatus {
                state: PathState::Active,
                access,
                in_flight: 0,
                commands: 0,
                bytes: 0,
                latency: Duration::ZERO,
                losses: 0,
                retries: 0,
            },
            group: None,
            strikes: 0,
            service_ns: 0,
            measured_at: Duration::ZERO,
            chosen: 0,
        };
        match reuse {
            Some(place) => self.all[place.slot()] = path,
            None => self.all.push(path),
        }
        id
    }

    /// Whether it is not the id of a path that has gone.
    pub(super) fn is_current(&self, path: PathId) -> bool {
        self.all.get(path.slot()).is_some_and(|it| it.id == path)
    }

    pub(super) fn set_map(&mut self, map: PageMap) {
        self.map = map;
    }

    pub(super) fn learn(&mut self, pages: impl IntoIterator<Item = (Range<u64>, Vec<u16>)>) {
        self.map.learn(pages);
    }

    pub(super) fn set_group(&mut self, path: PathId, group: Option<u16>) {
        self.all[path.slot()].group = group;
    }

    /// Up to where `bytes` have one owner.
    pub(super) fn run_end(&self, bytes: Range<u64>) -> u64 {
        if self.policy == Policy::Routed { self.map.run_end(bytes) } else { bytes.end }
    }

    pub(super) fn status(&mut self, path: PathId) -> &mut PathStatus {
        &mut self.all[path.slot()].status
    }

    /// The path for the next command, on bytes from `at` on, which counts as under way from now on.
    /// `except` is left out.
    pub(super) fn choose(
        &mut self,
        now: Duration,
        at: Option<u64>,
        except: Option<PathId>,
    ) -> Option<PathId> {
        let allowed = |n: usize| except != Some(self.all[n].id);
        let owners = match (self.policy, at) {
            (Policy::Routed, Some(at)) => self.map.owners(at),
            // Refused on the other path, which may have said where to go.
            (_, Some(at)) if except.is_some() => self.map.owners(at),
            _ => &[],
        };
        let rank = |path: &Path| path.rank(owners);
        let usable = self.all.iter().enumerate().filter(|(n, _)| allowed(*n));
        let best = usable.filter_map(|(_, path)| rank(path)).min()?;
        let is_candidate = |n: usize, path: &Path| allowed(n) && rank(path) == Some(best);
        let candidates = || {
            let all = self.all.iter().enumerate();
            all.filter(|(n, path)| is_candidate(*n, path))
        };
        let current = self.current.filter(|&n| is_candidate(n, &self.all[n]));
        let chosen = match self.policy {
            Policy::Failover => current.or_else(|| candidates().next().map(|(n, _)| n))?,
            Policy::RoundRobin { ios_per_path } => match current.filter(|_| self.left > 0) {
                Some(current) => {
                    self.left -= 1;
                    current
                }
                None => {
                    let next = candidates().min_by_key(|(_, path)| path.chosen)?.0;
                    self.left = ios_per_path - 1;
                    next
                }
            },
            Policy::LeastQueueDepth | Policy::Routed => {
                candidates().min_by_key(|(_, path)| (path.status.in_flight, path.chosen))?.0
            }
            Policy::ServiceTime => {
                candidates().min_by_key(|(_, path)| (path.expected_ns(now), path.chosen))?.0
            }
        };
        self.current = Some(chosen);
        self.choices += 1;
        let path = &mut self.all[chosen];
        path.chosen = self.choices;
        path.status.in_flight += 1;
        Some(path.id)
    }

    /// The path for a second copy of a command that is under way on `first`. The others go where they
    /// went before.
    pub(super) fn choose_beside(
        &mut self,
        now: Duration,
        at: Option<u64>,
        first: PathId,
    ) -> Option<PathId> {
        let (current, left) = (self.current, self.left);
        let chosen = self.choose(now, at, Some(first));
        (self.current, self.left) = (current, left);
        chosen
    }

    /// A command on the path is over; `len_bytes` if it was done.
    pub(super) fn over(
        &mut self,
        path: PathId,
        started: Duration,
        now: Duration,
        done: Option<u32>,
    ) {
        let path = &mut self.all[path.slot()];
        let shared_by = u64::from(path.status.in_flight.max(1));
        path.status.in_flight = path.status.in_flight.saturating_sub(1);
        let Some(len_bytes) = done else { return };
        path.status.commands += 1;
        path.status.bytes += u64::from(len_bytes);
        let took = now.saturating_sub(started);
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let latency_ns = u64::try_from(path.status.latency.as_nanos()).unwrap_or(u64::MAX);
        path.status.latency = Duration::from_nanos(smooth(latency_ns, took_ns));
        path.service_ns = smooth(path.service_ns, took_ns / shared_by);
        path.measured_at = now;
    }

    /// The path does not work.
    pub(super) fn lost(&mut self, path: PathId) {
        let path = &mut self.all[path.slot()];
        match path.status.state {
            PathState::Failed | PathState::Retired => return,
            PathState::Probation { .. } => {
                path.strikes = (path.strikes + 1).min(PROBATION_DOUBLINGS_MAX);
            }
            PathState::Active | PathState::Silent | PathState::Suspended => {}
        }
        path.status.losses += 1;
        path.status.state = PathState::Failed;
    }

    /// A path that was lost or suspended may be used again. Only what was lost has to show that it
    /// works.
    pub(super) fn returned(&mut self, path: PathId, now: Duration) {
        match self.all[path.slot()].status.state {
            PathState::Failed => self.on_probation(path, now),
            PathState::Suspended => self.all[path.slot()].status.state = PathState::Active,
            _ => {}
        }
    }

    /// A path that works is not used until it returns.
    pub(super) fn suspend(&mut self, path: PathId) {
        let state = &mut self.all[path.slot()].status.state;
        if !matches!(state, PathState::Failed | PathState::Retired) {
            *state = PathState::Suspended;
        }
    }

    /// A path that works has gone silent, or is heard again.
    pub(super) fn set_silent(&mut self, path: PathId, is_silent: bool) {
        let state = &mut self.all[path.slot()].status.state;
        match (*state, is_silent) {
            (PathState::Active | PathState::Probation { .. }, true) => *state = PathState::Silent,
            (PathState::Silent, false) => *state = PathState::Active,
            _ => {}
        }
    }

    /// Whether commands need no silent path.
    pub(super) fn has_better_than_silent(&self) -> bool {
        self.all.iter().any(|path| path.rank(&[]).is_some_and(|rank| rank < SILENT))
    }

    /// A command has not ended in time there. What is not used may still not be, before it returns.
    pub(super) fn suspect(&mut self, path: PathId, now: Duration) {
        let state = self.all[path.slot()].status.state;
        let is_out = matches!(state, PathState::Failed | PathState::Suspended);
        if !is_out || mutants::is(Mutant::EarlyReturn) {
            self.on_probation(path, now);
        }
    }

    /// A failed path works again, or an active one has become suspect.
    pub(super) fn on_probation(&mut self, path: PathId, now: Duration) {
        let path = &mut self.all[path.slot()];
        if path.status.state == PathState::Retired {
            return;
        }
        let until = now + self.probation * 2_u32.pow(path.strikes);
        path.status.state = PathState::Probation { until };
    }

    /// Ends probations whose time is over; whether there were any.
    pub(super) fn tick(&mut self, now: Duration) {
        for path in &mut self.all {
            if let PathState::Probation { until } = path.status.state
                && now >= until
            {
                path.status.state = PathState::Active;
                path.strikes = path.strikes.saturating_sub(1);
            }
        }
    }

    /// When the next probation ends.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        let ends = self.all.iter().filter_map(|path| match path.status.state {
            PathState::Probation { until } => Some(until),
            _ => None,
        });
        ends.min()
    }
}

impl Path {
    /// Lower is better; `None` is not usable. To work counts more than to lead to one of `owners`,
    /// and that more than the state of the port: the owner takes a page's commands without
    /// forwarding them. Without known owners all paths lead there alike.
    fn rank(&self, owners: &[u16]) -> Option<u8> {
        let access = match self.status.access {
            AccessState::ActiveOptimized => 0,
            AccessState::ActiveNonOptimized => 1,
            _ => return None,
        };
        let leads_there = || self.group.is_some_and(|group| owners.contains(&group));
        let detour = if owners.is_empty() || leads_there() { 0 } else { 2 };
        match self.status.state {
            PathState::Active => Some(access + detour),
            PathState::Probation { .. } => Some(4 + access + detour),
            PathState::Silent => Some(SILENT + access + detour),
            PathState::Suspended | PathState::Failed | PathState::Retired => None,
        }
    }

    /// How long one more command would take. What was measured long ago loses its weight, so that a
    /// path which was slow once is tried again.
    fn expected_ns(&self, now: Duration) -> u64 {
        let age_s = now.saturating_sub(self.measured_at).as_secs().min(63);
        (self.service_ns >> age_s).saturating_mul(u64::from(self.status.in_flight) + 1)
    }
}

fn smooth(old: u64, new: u64) -> u64 {
    if old == 0 { new } else { old - old / SMOOTHING + new / SMOOTHING }
}
