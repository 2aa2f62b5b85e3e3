//! When the volume of settings is made: before hosts can fill the array, as access must be taken from them then too.
//!
//! ```text
//!  no volumes ─ the first one ─▶ made ─▶ the volume is
//!      │             ╰─ no room: neither is  ╰─ refused: it stays for the next one
//!      ╰─ a setting ─▶ made
//!  volumes of an earlier version ─ start ─▶ made, or told that there is no room: the next setting or volume tries again
//! ```

use array::ArrayError;
use group::settings::{Settings, SettingsError};
use group::store::Place;

use super::opened::open_settings;
use super::thread::StoreThread;
use super::{Kept, KeptError, MemberSettings, gone, hidden};
use crate::events::Kind;
use crate::mutants::{self, Mutant};

impl MemberSettings {
    /// Whether nothing was ever set and no room is kept for that: to be asked before an operator makes a volume.
    pub(crate) fn are_to_be_made(&self) -> bool {
        matches!(**self.kept.borrow(), Kept::Nothing) && !mutants::is(Mutant::LateSettings)
    }

    /// Makes the volume for what will be set, if there is none. Only that there is no room for it is an error: what else
    /// stands in the way is told, and tried again with the first setting.
    pub(crate) async fn make_ahead(&self) -> Result<(), KeptError> {
        let _turn = self.turn.take().await;
        if !self.are_to_be_made() {
            return Ok(());
        }
        match self.make().await {
            Err(error @ KeptError::NoRoom { .. }) => Err(error),
            Err(error) => {
                self.tell(Kind::SettingsNotMade, &error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The same for an array of an earlier version, which has volumes without. That this fails is no reason not to start.
    pub(super) async fn make_late(&self) {
        if !self.are_to_be_made() || self.array.volumes().is_empty() {
            return;
        }
        match self.make().await {
            Ok(()) => tracing::info!("the array has the volume of its settings from now on"),
            Err(error) => self.tell(Kind::SettingsNotMade, &error),
        }
    }

    /// Makes the volume and opens a store on it. If that fails there are no settings, as before.
    pub(super) async fn make(&self) -> Result<(), KeptError> {
        if hidden::find(&self.array).is_none() {
            hidden::create(&self.array).await.map_err(|error| match error {
                ArrayError::NoSpace { free_bytes, asked_bytes } => {
                    KeptError::NoRoom { free_bytes, asked_bytes }
                }
                error => error.into(),
            })?;
        }
        match self.look().await {
            Kept::Broken(why) => {
                // Else its next start could not tell it from settings that cannot be read.
                hidden::discard(&self.array).await?;
                Err(KeptError::NotMade(why))
            }
            kept => {
                drop(self.turn_to(kept));
                Ok(())
            }
        }
    }

    /// What a change answers where nothing is set yet, and whether nothing is afterwards: no volume is
    /// made for what is refused or changes nothing.
    pub(super) async fn try_out<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Send + 'static,
    ) -> Result<(T, bool), KeptError> {
        let start = self.start();
        let opened = StoreThread::start(move || open_settings(Place::Memory, start)).await;
        let failed = |error: &dyn std::error::Error| KeptError::NotMade(error.to_string());
        let thread = opened.map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        let tried = thread.run(async move |settings: &mut Settings| {
            let answer = work(settings).await?;
            Ok::<_, SettingsError>((answer, settings.read().await?.is_empty()))
        });
        let tried = tried.await.unwrap_or_else(|| Err(gone()));
        thread.end().await;
        Ok(tried?)
    }
}
