//! What disks lack that lacked all: known to a checkpoint, it need not all be given again after a start.

use std::sync::Arc;

use crate::DiskId;
use crate::core::{Core, State};
use crate::label::{Label, MemberState, Since};
use crate::membership::Event;
use crate::mutants::{self, Mutant};
use crate::raid::Access;

impl Core {
    /// Has a checkpoint record what such disks lack, and then the labels say that it has. Until then all is
    /// lacking whatever they were given: they were away for a moment, or the array was opened anew.
    pub(super) async fn record_lacking(self: &Arc<Self>) {
        let label = self.lock().label.clone();
        let lacking: Vec<DiskId> = {
            let state = self.lock();
            let disks = label.members.iter().map(|record| record.disk);
            disks.filter(|disk| self.is_unrecorded(&label, &state, *disk)).collect()
        };
        if lacking.is_empty()
            || !mutants::is(Mutant::HastyRecord) && self.checkpointed_for_upkeep().await.is_err()
        {
            return;
        }
        let changed = self.change_label(|label, state| {
            let since = Since { checkpoint: state.checkpoint, position: state.since.position };
            let recorded = lacking.iter().filter(|disk| self.is_unrecorded(label, state, **disk));
            recorded.map(|disk| Event::Recorded { disk: *disk, since }).collect()
        });
        if let Err(error) = changed.await {
            tracing::debug!("what disks lack is not recorded: {error}");
        }
    }

    /// Whether a disk is given all, and its label says that nothing of it counts. What was half done before may
    /// take it for having what it had then, so that has to be over.
    fn is_unrecorded(&self, label: &Label, state: &State, disk: DiskId) -> bool {
        let is_in = self.raid.disks().get(disk).is_some_and(|disk| disk.access() == Access::Full);
        let lacks_all = |state: MemberState| state.lacks_all();
        label.member(disk).is_some_and(|record| lacks_all(record.state))
            && is_in
            && !state.away.contains_key(&disk)
            && self.raid.disks().lacks_all(disk)
            && !self.raid.has_halves()
    }
}
