//! Disks that lack all that they should have, and were believed because nobody else had the checkpoints or the
//! journal when the array was opened.

use std::sync::Arc;

use crate::DiskId;
use crate::core::Core;
use crate::label::MemberState;
use crate::membership::{Event, Lack};
use crate::mutants::{self, Mutant};

impl Core {
    /// Takes them for what they are as soon as others have all of it; whether there was one.
    pub(super) async fn restore_waived(self: &Arc<Self>) -> bool {
        let waived: Vec<(DiskId, Lack)> = {
            let state = self.lock();
            // Before the first checkpoint a holder that fell behind may have less than the labels say.
            let is_due = state.has_settled && !mutants::is(Mutant::ForgetWaived);
            let all = state.waived.iter().filter(|_| is_due);
            all.map(|(disk, lack)| (*disk, *lack)).collect()
        };
        let mut any = false;
        for (disk, lack) in waived {
            any |= self.begin_to_restore(disk, lack).await;
        }
        any
    }

    async fn begin_to_restore(self: &Arc<Self>, disk: DiskId, lack: Lack) -> bool {
        let changed = self.change_label(|label, _| {
            // One that is out is marked when it is taken back.
            let record = label.member(disk);
            let is_in = record.is_some_and(|record| record.state == MemberState::Active);
            let is_spared = self.held_alone(label, disk).is_none()
                && self.sets.bear_without(disk, self.raid.disks());
            if !is_in || !is_spared {
                return Vec::new();
            }
            self.mark_lacking_all(disk);
            vec![Event::LacksAll(vec![disk])]
        });
        if changed.await != Ok(true) {
            return false;
        }
        self.lock().waived.remove(&disk);
        self.journal.keep_holders(|holder| holder != disk);
        self.note_lacking(disk, lack);
        self.want_checkpoint(&mut self.lock());
        true
    }
}
