//! Taking over what earlier versions kept in files of the data directory: the number of the portal group, and what
//! units keep.
//!
//! ```text
//!  read ─▶ counts ─▶ number stored ─▶ units stored ─▶ files of units aside ─▶ file of the number aside
//! ```
//!
//! The number is first, as what is reserved is reserved by nexuses with it. Wherever this is cut off the next start
//! goes on: what is stored is not read from a file again, and no file is moved aside before what it says is stored.

use group::words::counted;
use std::collections::BTreeMap;

use group::settings::{Identity, Settings, UnitKey, Units};

use super::units::Known;
use super::{KeptError, MemberSettings};
use crate::data::{DataError, portal_group};
use crate::events::Kind;
use crate::mutants::{self, Mutant};

impl MemberSettings {
    /// Takes over what earlier versions kept in files. What cannot be stored is told, counts, and is tried again
    /// when the settings are opened again. For who has the turn.
    pub(super) async fn take_over_files(&self) {
        // The store may be opened again meanwhile, which comes back here.
        if !self.units.are_known() || self.is_taking_over.replace(true) {
            return;
        }
        let taken = self.take_over_from_files().await;
        if let Err(error) = &taken {
            if !self.owes_files.get() {
                self.tell(Kind::SettingsIncomplete, error);
            }
            // Somebody who was fenced off may stand in what does not read.
            self.units.replace(Err(error.to_string()));
        }
        self.owes_files.set(taken.is_err());
        self.is_taking_over.set(false);
    }

    /// Tries again to read what could not be read; until then no unit is known. Says whether it could. For who has
    /// the turn.
    pub(super) async fn read_files_again(&self) -> bool {
        self.owes_files.set(false);
        let is_read = self.refresh().await.is_ok();
        // Between the two nobody else has had a turn on this core.
        self.owes_files.set(true);
        if is_read && self.units.are_known() {
            self.take_over_files().await;
        }
        !self.owes_files.get()
    }

    async fn take_over_from_files(&self) -> Result<(), DataError> {
        let keys = self.files.list()?;
        if self.stored_identity().portal_group.is_none() && self.is_of_earlier(&keys) {
            self.earlier_number.set(portal_group::of_earlier(&self.data)?);
        }
        let (stored, others): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| self.units.knows(key));
        self.set_aside(&stored);
        let fresh = self.read_files(others);
        self.count(&fresh);
        let readable = |(key, image): (&UnitKey, &Known)| Some((key.clone(), image.clone().ok()?));
        let units: Units = fresh.iter().filter_map(readable).collect();
        let keys: Vec<UnitKey> = units.keys().cloned().collect();
        if mutants::is(Mutant::HastyAside) {
            self.set_aside(&keys);
        }
        // A store that fails is opened again, and has what it had.
        match Box::pin(self.store_earlier(units)).await {
            Ok(()) => {
                self.set_aside(&keys);
                self.leave_number();
            }
            Err(error) => {
                self.count(&fresh);
                let text = format!(
                    "what earlier versions kept in the data directory stays there for now, as it cannot be stored \
                     on the array: {error}"
                );
                self.tell(Kind::SettingsIncomplete, &text);
            }
        }
        Ok(())
    }

    /// Whether the number in the data directory is that of this array: nothing was reserved there under another
    /// one, and what was reserved by its files was reserved here.
    fn is_of_earlier(&self, keys: &[UnitKey]) -> bool {
        self.units.are_none() && (!keys.is_empty() || !self.files.has_any())
    }

    /// What these files say. What does not read is told, and keeps its unit from being served.
    fn read_files(&self, keys: Vec<UnitKey>) -> BTreeMap<UnitKey, Known> {
        let read = |key: UnitKey| {
            let image = self.files.read(&key).map(Some).map_err(|error| {
                self.tell(Kind::SettingsIncomplete, &error);
                error.to_string()
            });
            (key, image)
        };
        keys.into_iter().map(read).collect()
    }

    /// This counts, unless the store says something else.
    fn count(&self, fresh: &BTreeMap<UnitKey, Known>) {
        for (key, known) in fresh {
            if !self.units.knows(key) {
                self.units.set(key.clone(), known.clone());
            }
        }
    }

    async fn store_earlier(&self, units: Units) -> Result<(), KeptError> {
        self.keep_earlier_number().await?;
        if units.is_empty() {
            return Ok(());
        }
        let count = units.len();
        self.keep_units(units).await?;
        tracing::info!(
            "the array has {} of units now that were in files",
            counted(count as u64, "record")
        );
        Ok(())
    }

    /// Stores the number that an earlier version drew, if it is not: whatever is stored first needs it. For who
    /// has the turn.
    pub(super) async fn keep_earlier_number(&self) -> Result<(), KeptError> {
        let stored = self.stored_identity();
        let number = self.earlier_number.get();
        if number.is_none() || stored.portal_group.is_some() {
            return Ok(());
        }
        self.keep_identity(Identity { portal_group: number, ..stored }).await
    }

    /// Stores what hosts know the array by. For who has the turn.
    pub(super) async fn keep_identity(&self, identity: Identity) -> Result<(), KeptError> {
        self.keep(async move |settings: &mut Settings| settings.set_identity(&identity).await)
            .await?;
        self.refresh().await
    }

    /// Moves files aside whose records are stored. What stays changes nothing: the store is asked first.
    fn set_aside(&self, keys: &[UnitKey]) {
        if let Err(error) = self.files.set_aside(keys) {
            tracing::warn!("{error}: it is on the array now, and the file is not read any more");
        }
    }

    /// The number is stored, and the files of no array need it any more: its file is moved aside.
    fn leave_number(&self) {
        if self.stored_identity().portal_group.is_some()
            && !self.files.has_any()
            && let Err(error) = portal_group::set_aside(&self.data)
        {
            tracing::warn!("{error}: it is on the array now, and the file is not read any more");
        }
    }
}
