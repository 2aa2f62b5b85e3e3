//! Disks that leave without anybody's order: operators are told until they have dealt with it.
//!
//! One that makes too many errors, or is away for long, leaves when the others have all that it had, and then nothing
//! is wrong with the array any more, but it bears one loss less, or has less room. So the tables remember that it left,
//! over restarts, until a disk is added or an operator leaves it at that. It is noted before it leaves: a crash in
//! between leaves a note about a disk that is still there, which says nothing.

use std::sync::Arc;

use crate::DiskId;
use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::label::MemberState;
use crate::tables::Departure;

impl Core {
    /// Notes why a disk is about to leave, if nobody has ordered it; false when that cannot be noted.
    pub(super) async fn note_departure(self: &Arc<Self>, disk: DiskId) -> bool {
        let (why, is_noted) = {
            let state = self.lock();
            let why = departure(&state, disk);
            (why, state.tables.departed.get(&disk).copied() == why)
        };
        if is_noted {
            return true;
        }
        self.upkeep_beat.rest();
        let noted = self.request(move |tables, _| {
            match why {
                Some(why) => tables.departed.insert(disk, why),
                None => tables.departed.remove(&disk),
            };
            Ok(())
        });
        let noted = noted.await;
        self.upkeep_beat.at(super::RESTORING);
        noted.is_ok()
    }

    /// Nobody is to be told any more that this disk has left, or, if none is named, the one that left first.
    ///
    /// # Errors
    /// [`ArrayError::Stopped`].
    pub(crate) async fn forget_departed(
        self: &Arc<Self>,
        disk: Option<DiskId>,
    ) -> Result<(), ArrayError> {
        let first = self.lock().departed().next().map(|(disk, _)| disk);
        let Some(disk) = disk.or(first) else { return Ok(()) };
        let forgotten = self.request(move |tables, _| {
            tables.departed.remove(&disk);
            Ok(())
        });
        forgotten.await
    }
}

/// Why a disk leaves that nobody has told to.
fn departure(state: &State, disk: DiskId) -> Option<Departure> {
    let is_told = state.tables.leaving.contains(&disk) || state.condemned.contains(&disk);
    match state.label.member(disk)?.state {
        _ if is_told => None,
        MemberState::Active => Some(Departure::Errors),
        MemberState::Stale(_) => Some(Departure::Away),
        // An operator has declared it failed, and knows.
        MemberState::Failed | MemberState::Retired => None,
    }
}

impl State {
    /// Disks that have left without anybody's order, and why.
    pub(crate) fn departed(&self) -> impl Iterator<Item = (DiskId, Departure)> {
        let departed = self.tables.departed.iter().map(|(disk, why)| (*disk, *why));
        departed.filter(|(disk, _)| self.retired(*disk))
    }

    /// What operators are told of them.
    pub(crate) fn departed_warnings(&self) -> Vec<String> {
        let warning = |(disk, why)| {
            let why = match why {
                Departure::Errors => "it made too many errors",
                Departure::Away => "it was away, and its data was restored on the others",
            };
            format!(
                "disk {} has left the array, which has one disk less than it had: {why}; add a disk, or clear this one \
                 to leave it at that",
                self.label.name_of(disk)
            )
        };
        self.departed().map(warning).collect()
    }
}
