//! Rewriting blocks that turned out to be broken.

use std::sync::Arc;

use crate::core::Core;
use crate::raid::Healed;

impl Core {
    /// Heals what reads have found.
    pub(super) async fn heal_queued(self: &Arc<Self>) {
        loop {
            let Some(heal) = self.lock().heals.pop_front() else { return };
            // The slot stays what it is as long as somebody reads.
            let (_readers, is_live) = {
                let state = self.lock();
                let slots = state.space.pool.slots(heal.set);
                let is_live = slots.is_some_and(|slots| slots.is_used(heal.slot));
                (Arc::clone(&state.readers), is_live)
            };
            let Some(set) = self.sets.find(heal.set).filter(|_| is_live) else { continue };
            match self.raid.heal(&set, &heal).await {
                Ok(Healed::Healed) => {
                    let name = self.disk_name(heal.disk);
                    let text = format!("a damaged block on disk {name} was rewritten");
                    self.lock().note(self.env.unix_seconds(), text);
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("a block could not be healed: {error}"),
            }
        }
    }

    pub(crate) fn disk_name(&self, disk: crate::DiskId) -> String {
        let member = self.raid.disks().get(disk);
        member.map_or_else(|| disk.0.to_string(), |member| member.name().to_owned())
    }
}
