//! What is done about volumes that move before all that is set is thrown away: what was stored of them says whose they
//! are, and nothing does afterwards.

use std::collections::BTreeSet;

use array::ArrayError;

use super::MemberSettings;
use super::hidden::{is_hidden_name, is_of_move};
use crate::events::{Event, Kind, ObjectKind};

impl MemberSettings {
    /// Gives volumes that have come names that operators see, as one may be all that there is of a volume that the group
    /// has given to this member; and takes those offline that were being moved away, as they may be another member's. It
    /// may be done again.
    ///
    /// # Errors
    /// Not all of it was done: nothing may be thrown away then.
    pub(crate) async fn show_what_moves(&self) -> Result<(), ArrayError> {
        let names = self.array.volumes().into_iter().map(|volume| volume.name);
        for hidden in names.filter(|name| is_hidden_name(name)) {
            let name = hidden.trim_start_matches('.').to_owned();
            self.array.rename_volume(&hidden, &name).await?;
            let text = format!(
                "volume '{name}' is what had come of a volume that was moved here, and whose it is was thrown away with all \
                 that was set: take it online under its name if it is nowhere else, else delete it"
            );
            self.tell_of_volume(&name, text);
        }
        let snapshots = self.array.all_snapshots().into_values().flatten();
        let taken = snapshots.filter(|it| is_of_move(&it.name) && !it.deleting);
        let leave: BTreeSet<String> = taken.map(|it| it.volume).collect();
        for name in leave {
            self.array.set_volume_online(&name, false).await?;
            let text = format!(
                "volume '{name}' is offline, as it was being moved away, and that it may be another member's was thrown away \
                 with all that was set: take it online if no other member has it"
            );
            self.tell_of_volume(&name, text);
        }
        Ok(())
    }

    fn tell_of_volume(&self, name: &str, text: String) {
        self.events.tell(Event::about(Kind::VolumeNotServed, ObjectKind::Volume, name, text));
    }
}
