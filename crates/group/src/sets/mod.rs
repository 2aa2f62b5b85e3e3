//! Snapshots of one moment of volumes of several members, the participants: all of them stay, or none. One member, the
//! coordinator, drives it, whether it has volumes of the set or not.
//!
//! One key in the store of the group decides, and nothing else
//! ([`decide_set`](crate::membership::Membership::decide_set)).
//!
//! ```text
//!  coordinator   intent stored ─▶ has all prepare ─▶ has all hold ─▶ has all take ─▶ decides: whole, if all have taken
//!                                                                                    or void, if anything failed
//!  each          intent stored ─▶ writes held ─▶ snapshots taken, writes go on ─▶ reads what is decided, does it ─▶ leaves
//!                      │                                                            ▲
//!                      ╰── hears nothing for long, or is started anew ─▶ decides: void, unless it is decided
//! ```
//!
//! - Each stores that it takes part before anything is taken, the coordinator before it asks anybody. What is stored is
//!   undecided until the store has said what counts, and is not there for operators.
//! - Whole is asked for only when all have taken their snapshots. So whoever finds it has all of its own.
//! - What was decided stays in the store until all have done it, the coordinator too: a `whole` of its that comes late
//!   finds the `void`, and so does the coordinator, which tells nobody then that the set is whole.
//! - Each leaves what was decided only when it has stored that it has done it.
//! - Who finds what was decided about a set of which it has stored nothing is done with it only behind the coordinator,
//!   which may have it take part yet.
//! - A member that is another one now, or of another group, asks nobody: it keeps its snapshots, as they may be
//!   those that are left of a whole set, and says so.
//!
//! A walk through all orders of events shows that no participant keeps what another one deletes (`tests.rs`).

use std::collections::BTreeSet;

use crate::membership::{GroupId, SetRecord, Verdict};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::settings::{SetIntent, SetStage};

/// What a member is to do about a set of which it has stored that it takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SetStep {
    /// Nothing is decided yet.
    Wait,
    /// Decide that it is void, and look again.
    DecideVoid,
    /// Its snapshots stay: note that it is settled.
    Keep,
    /// Delete its snapshots, then note that it is settled.
    Delete,
    /// Tell the store that it is settled here, then forget it.
    Leave,
    /// Forget it: it is settled, and nobody waits for that.
    Forget,
    /// Nobody can decide it any more: its snapshots stay, it is forgotten, and somebody is told.
    KeepUndecided,
}

/// Who a member is in which group.
pub type Seat<'a> = (&'a GroupId, MemberId);

/// What follows for a member from what it has stored of a set, from who it is now, and from what the store says, which
/// was read after that. `is_due` says that nobody drives the set any more, as far as the member knows.
#[must_use]
pub fn next_step(
    intent: &SetIntent,
    seat: Option<Seat<'_>>,
    record: Option<&SetRecord>,
    is_due: bool,
) -> SetStep {
    let is_seated = seat == Some((&intent.group, intent.me));
    match (intent.stage, is_seated, record) {
        (SetStage::Settled, true, _) => SetStep::Leave,
        (SetStage::Settled, false, _) => SetStep::Forget,
        (SetStage::Undecided, false, _) => SetStep::KeepUndecided,
        (SetStage::Undecided, true, Some(_)) if mutants::is(Mutant::SettleFirst) => SetStep::Leave,
        (SetStage::Undecided, true, Some(record)) => match record.verdict {
            Verdict::Whole => SetStep::Keep,
            Verdict::Void => SetStep::Delete,
        },
        (SetStage::Undecided, true, None) if is_due && mutants::is(Mutant::VoidUnwritten) => {
            SetStep::Delete
        }
        (SetStage::Undecided, true, None) if is_due => SetStep::DecideVoid,
        (SetStage::Undecided, true, None) => SetStep::Wait,
    }
}

/// What is written when a set is decided so: all that take part have to settle it before it goes.
#[must_use]
pub fn record(intent: &SetIntent, verdict: Verdict) -> SetRecord {
    let mut unsettled = intent.participants.clone();
    if !mutants::is(Mutant::ForgetCoordinator) {
        unsettled.insert(intent.coordinator);
    }
    SetRecord { verdict, coordinator: intent.coordinator, unsettled }
}

/// Whether a participant may be asked to take its snapshots: these have said that they hold.
#[must_use]
pub fn may_take(participants: &BTreeSet<MemberId>, held: &BTreeSet<MemberId>) -> bool {
    held.is_superset(participants) || mutants::is(Mutant::TakeEarly)
}

/// Whether the coordinator may decide that a set is whole: these have said that they have taken their snapshots.
#[must_use]
pub fn may_be_whole(participants: &BTreeSet<MemberId>, taken: &BTreeSet<MemberId>) -> bool {
    taken.is_superset(participants) || mutants::is(Mutant::WholeEarly)
}

#[cfg(test)]
mod tests;
