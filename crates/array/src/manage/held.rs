//! Moments that several arrays share: each holds back the changes of its volumes until all of them have
//! taken their snapshots.
//!
//! A host that writes to one array after another has been let go must not be in the snapshot of the first.
//! So all are held, then all take their snapshots, then all are let go; and each array says whether its
//! own hold lasted up to the instant of its snapshot.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Array;
use crate::api::SnapshotInfo;
use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::{Task, VersionId};

/// No hold lasts for longer, whatever was asked for: hosts give up a command after 30 seconds, and one that is made of
/// several requests may meet a hold with each.
const LONGEST: Duration = Duration::from_secs(3);

/// Changes of volumes are held back as long as this lives and its time is not over.
///
/// Dropped, it lets them go.
#[derive(Debug)]
pub struct Hold {
    array: Array,
    number: u64,
    /// By the clock of the array's environment.
    until: Duration,
}

impl Hold {
    /// Whether it holds back changes, and has since it began. Once it has ended it never does again.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        let core = &self.array.core;
        core.holds.is_in_force(self.number, core.env.now())
    }

    /// Whether it does those of these volumes of this array. Only while its state is locked does the answer stay
    /// true: what goes on after the hold takes that lock.
    pub(super) fn covers(&self, core: &Core, _locked: &State, volumes: &[VersionId]) -> bool {
        // Others have holds of the same number.
        let is_of_array = std::ptr::eq(core, &*self.array.core) || mutants::is(Mutant::HoldOfOther);
        is_of_array && core.holds.covers(self.number, volumes, core.env.now())
    }

    /// Ends when it would have ended by itself.
    pub(super) fn time_left(&self) -> Task {
        let env = &self.array.core.env;
        env.sleep(self.until.saturating_sub(env.now()))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.array.core.holds.end(self.number);
    }
}

impl Array {
    /// Holds back all changes of these volumes that come after this has returned, until what it returns is
    /// dropped, and for `longest` at most, of which more than three seconds count as three. They wait and go on by
    /// themselves. Reads and flushes go on, unless their target has them wait behind a change: an ORDERED task, or a
    /// full window of commands. Changes that came before end as they like.
    ///
    /// Several holds of one volume each count. A change waits for those that it finds, not for later ones. A
    /// [`rollback`](Self::rollback) is refused.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`], [`ArrayError::Stopped`]; then nothing is held.
    pub fn hold(&self, volumes: &[&str], longest: Duration) -> Result<Hold, ArrayError> {
        let state = self.core.lock();
        state.check_running()?;
        let ids = volumes.iter().map(|volume| Ok(state.volume(volume)?.0));
        let ids = ids.collect::<Result<BTreeSet<VersionId>, ArrayError>>()?;
        let until = self.core.env.now() + longest.min(LONGEST);
        // Under the lock: an array that stops in between ends this one too.
        let number = self.core.holds.begin(ids, until);
        Ok(Hold { array: self.clone(), number, until })
    }

    /// As [`snapshot`](Self::snapshot), but `None`, and none is taken, unless the hold is in force for each of
    /// the volumes, without a break up to the instant of the snapshots. They have no change that came
    /// during the hold.
    ///
    /// # Errors
    /// As of [`snapshot`](Self::snapshot); then none is taken either, but after a failure of the journal: then, and
    /// when this is dropped before it has ended, they may be there all the same, and who asked looks for them.
    pub async fn snapshot_held(
        &self,
        hold: &Hold,
        volumes: &[(&str, Option<&str>)],
    ) -> Result<Option<Vec<SnapshotInfo>>, ArrayError> {
        self.take(volumes, self.core.env.unix_seconds(), Some(hold)).await
    }
}

/// What an operator is told whose command would change the contents of a volume that is held.
pub(super) fn refused_while_held(volume: &str) -> ArrayError {
    ArrayError::Refused(format!(
        "changes of volume {volume:?} are held back for a snapshot of several members: ask again in some seconds"
    ))
}
