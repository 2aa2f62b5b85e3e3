//! What is stored needs room on its device, what is deleted too.

use group::settings::{SETTINGS_BYTES_MAX, Settings, SettingsError};
use group::store::StoreError;

use super::{Kept, KeptError, MemberSettings, gone};

/// From how much in percent on operators hear of it.
const LOW_PERCENT: u64 = 80;

impl MemberSettings {
    /// Has something done by the store, which is open. For who has the turn.
    pub(super) async fn on_store<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Send + 'static,
    ) -> Result<T, KeptError> {
        let kept = self.kept.borrow().clone();
        let answer = match &*kept {
            Kept::Nothing | Kept::NameTaken => return Err(KeptError::NameTaken),
            Kept::Broken(why) => return Err(KeptError::NotAvailable(why.clone())),
            Kept::Closed => return Err(KeptError::Stopping),
            Kept::Open(thread) => thread.run(work).await.unwrap_or_else(|| Err(gone())),
        };
        drop(kept);
        if let Err(SettingsError::Store(error @ StoreError::Failed(_))) = &answer {
            let is_full = error.is_full();
            // What could not be written once is written by no store until it is opened again.
            self.leave(Kept::Broken(error.to_string())).await;
            // It may be there again at once; if it is not, that is told.
            self.reopen().await;
            if is_full {
                return Err(KeptError::Full);
            }
        }
        Ok(answer?)
    }

    /// That the settings have hardly room for more, in a sentence.
    pub(crate) fn low_on_room(&self) -> Option<String> {
        let percent = self.state.borrow().taken_bytes() * 100 / SETTINGS_BYTES_MAX;
        (percent >= LOW_PERCENT).then(|| {
            format!(
                "the settings take {percent} % of the room that they may take, and nothing can be added when it is full: \
                 delete access policies, or records of policies and access lists, that are not needed"
            )
        })
    }
}
