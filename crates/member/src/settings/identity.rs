//! What hosts know the array by: stored once it does not follow from the array's ID.

use std::num::NonZeroU16;

use group::settings::Identity;

use super::MemberSettings;
use crate::data::portal_group;
use crate::events::Kind;
use crate::names::Names;

impl MemberSettings {
    /// How the names of targets begin, and the number of the portal group: `chosen` at this start, as they were
    /// stored, or as they follow from the array. What is chosen is stored. While the settings cannot be read it
    /// is the best that is known: to be asked again when they can be.
    pub(crate) async fn identity(&self, chosen: Option<&str>) -> (String, NonZeroU16) {
        let _turn = self.turn.take().await;
        let id = self.array.info().id;
        let usual = Names::usual_prefix(&id);
        let stored = self.stored_identity();
        let mut wanted = stored.clone();
        if let Some(chosen) = chosen {
            let chosen = chosen.to_ascii_lowercase();
            wanted.prefix = (chosen != usual).then_some(chosen);
        }
        if wanted != stored
            && self.fault().is_none()
            && let Err(error) = self.keep_identity(wanted.clone()).await
        {
            let text = format!(
                "how the names of targets begin is not stored on the array, and is to be said again at the next \
                 start: {error}"
            );
            self.tell(Kind::SettingsIncomplete, &text);
        }
        let number = wanted.portal_group.or(self.earlier_number.get());
        let number = number.unwrap_or_else(|| portal_group::of_array(&id));
        (wanted.prefix.unwrap_or(usual), number)
    }

    /// As it is stored; nothing while that cannot be read.
    pub(super) fn stored_identity(&self) -> Identity {
        self.state.borrow().identity.clone()
    }
}
