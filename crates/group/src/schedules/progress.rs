//! How a schedule goes on: what is due, and what each step makes of the record of it.

use serde::{Deserialize, Serialize};

use super::{EVERY_SECONDS_MIN, Schedule};
use crate::calendar::DAY_SECONDS;

/// A run that has begun and whose end is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// The moment it is for.
    pub planned_unix_seconds: u64,
    /// What its snapshots are called.
    pub name: String,
    /// The numbers of the volumes that they are of.
    pub volumes: Vec<u32>,
}

/// A snapshot that a schedule has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u32, u32)", into = "(u32, u32)")]
pub struct Own {
    /// The number of its volume.
    pub volume: u32,
    /// Its own, which no other snapshot of the array ever has.
    pub snapshot: u32,
}

impl From<(u32, u32)> for Own {
    fn from((volume, snapshot): (u32, u32)) -> Self {
        Self { volume, snapshot }
    }
}

impl From<Own> for (u32, u32) {
    fn from(Own { volume, snapshot }: Own) -> Self {
        (volume, snapshot)
    }
}

/// What one run has taken and is there still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The moment it was for.
    pub planned_unix_seconds: u64,
    /// One of each volume.
    pub snapshots: Vec<Own>,
}

/// What came of a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Snapshots of all volumes were taken.
    Taken,
    /// Snapshots were taken of some; the others were not there.
    InPart,
    /// None was taken, and an event says why.
    Failed,
    /// The member did not run then, or its clock passed the moment over.
    Missed,
}

/// The last moment that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Last {
    /// When it was planned.
    pub planned_unix_seconds: u64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What is to be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this time.
    At(u64),
    /// Nothing, until an operator says otherwise.
    Never,
    /// Take the snapshots of this moment. So many before it were missed.
    Run {
        /// The moment.
        planned: u64,
        /// How many.
        missed: u64,
    },
    /// Nothing but to say so: the last moment is too long ago.
    Missed {
        /// The last of them.
        planned: u64,
        /// How many.
        missed: u64,
    },
    /// The clock was set back so far that it was wrong before: what it made over is not.
    SetBack {
        /// Up to then moments were over.
        from: u64,
    },
}

/// A change of the record of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A run begins.
    Begin(Begun),
    /// It has taken these.
    End {
        /// What it has taken.
        run: Run,
        /// Volumes were left out.
        in_part: bool,
    },
    /// It has taken none, or its moment could not even begin.
    Fail {
        /// The moment.
        planned: u64,
    },
    /// Moments up to this one have passed.
    Miss {
        /// The last of them.
        planned: u64,
    },
    /// The clock was set back to this time.
    SetBack {
        /// From now on nothing after it is over.
        now: u64,
    },
    /// The process ended before the end of a run was stored, and these are there. Only for who knows that
    /// nobody else could take a snapshot of that name since the run began.
    Adopt(Run),
    /// The same, and what it has taken is not known for sure: it is nobody's.
    Abandon,
    /// These are not there any more.
    Forget(Vec<Own>),
}

impl Schedule {
    /// What is to be done at this time.
    #[must_use]
    pub fn due(&self, now: u64) -> Due {
        let (timing, over) = (self.plan.timing, self.over_unix_seconds);
        if self.plan.paused {
            return Due::Never;
        }
        if over > now.saturating_add(timing.period_seconds().max(DAY_SECONDS)) {
            return Due::SetBack { from: over };
        }
        let next = Due::At(timing.next_after(now.max(over)));
        let Some(planned) = timing.last_until(now).filter(|planned| *planned > over) else {
            return next;
        };
        // Of before the clock was set back.
        if self.runs.iter().any(|run| run.planned_unix_seconds == planned) {
            return next;
        }
        let missed = timing.count(over, planned);
        if now - planned < EVERY_SECONDS_MIN {
            Due::Run { planned, missed: missed - 1 }
        } else {
            Due::Missed { planned, missed }
        }
    }

    /// Takes a step. Each may be taken twice: the second time changes nothing.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Begin(begun) => {
                self.pass(begun.planned_unix_seconds);
                self.begun = Some(begun);
            }
            Step::End { run, in_part } => {
                let outcome = if in_part { Outcome::InPart } else { Outcome::Taken };
                self.end(run.planned_unix_seconds, outcome);
                self.keep(run);
            }
            Step::Adopt(run) => {
                self.end(run.planned_unix_seconds, Outcome::Taken);
                self.keep(run);
            }
            Step::Fail { planned } => {
                self.pass(planned);
                self.end(planned, Outcome::Failed);
            }
            Step::Miss { planned } => {
                self.pass(planned);
                let last = Last { planned_unix_seconds: planned, outcome: Outcome::Missed };
                self.last = Some(last);
            }
            Step::SetBack { now } => self.over_unix_seconds = self.over_unix_seconds.min(now),
            Step::Abandon => {
                if let Some(begun) = &self.begun {
                    self.end(begun.planned_unix_seconds, Outcome::Failed);
                }
            }
            Step::Forget(gone) => {
                for run in &mut self.runs {
                    run.snapshots.retain(|own| !gone.contains(own));
                }
                self.runs.retain(|run| !run.snapshots.is_empty());
            }
        }
        debug_assert!(self.is_sound(), "{self:?}");
    }

    fn pass(&mut self, planned: u64) {
        self.over_unix_seconds = self.over_unix_seconds.max(planned);
    }

    fn end(&mut self, planned_unix_seconds: u64, outcome: Outcome) {
        self.begun = None;
        self.last = Some(Last { planned_unix_seconds, outcome });
    }

    fn keep(&mut self, run: Run) {
        if !run.snapshots.is_empty() && !self.runs.contains(&run) {
            self.runs.push(run);
        }
    }

    /// No snapshot is there twice, no run is empty, and what is begun is over.
    fn is_sound(&self) -> bool {
        let own: Vec<Own> = self.runs.iter().flat_map(|run| run.snapshots.clone()).collect();
        let is_new = |(at, one): (usize, &Own)| !own[..at].contains(one);
        let begun = self.begun.as_ref().map_or(0, |begun| begun.planned_unix_seconds);
        own.iter().enumerate().all(is_new)
            && self.runs.iter().all(|run| !run.snapshots.is_empty())
            && begun <= self.over_unix_seconds
    }

    /// A run whose end is not stored.
    #[must_use]
    pub const fn begun(&self) -> Option<&Begun> {
        self.begun.as_ref()
    }

    /// Whether a snapshot of this name may be one that was taken and is not stored yet: nobody else may
    /// take one so called.
    #[must_use]
    pub fn reserves(&self, volume: u32, name: &str) -> bool {
        let begun = self.begun.as_ref();
        begun.is_some_and(|begun| begun.name == name && begun.volumes.contains(&volume))
    }

    /// The last moment that came.
    #[must_use]
    pub const fn last(&self) -> Option<Last> {
        self.last
    }

    /// Its own snapshots of a volume that may still be there, oldest first.
    pub fn own(&self, volume: u32) -> impl Iterator<Item = Own> {
        let all = self.runs.iter().flat_map(|run| &run.snapshots);
        all.copied().filter(move |own| own.volume == volume)
    }

    /// How many of its own snapshots there are.
    #[must_use]
    pub fn own_count(&self) -> usize {
        self.runs.iter().map(|run| run.snapshots.len()).sum()
    }

    /// When it is due next; `None` while it is paused.
    #[must_use]
    pub fn next_unix_seconds(&self, now: u64) -> Option<u64> {
        match self.due(now) {
            Due::Never => None,
            Due::At(next) => Some(next),
            Due::Run { planned, .. } => Some(planned),
            Due::Missed { .. } | Due::SetBack { .. } => Some(self.plan.timing.next_after(now)),
        }
    }

    /// Whether it waits for longer than from one run to the next: it goes by a run of a time at which the clock was ahead.
    #[must_use]
    pub fn waits(&self, now: u64) -> bool {
        let latest = now.saturating_add(self.plan.timing.period_seconds());
        self.next_unix_seconds(now).is_some_and(|next| next > latest)
    }
}
