//! Saving what units keep, and forgetting what is set for what is no more.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use group::settings::{LaterUnit, Settings, UnitKey, Units};

use super::{Kept, KeptError, MemberSettings, UnitSave};
use crate::mutants::{self, Mutant};

impl MemberSettings {
    /// What the store has counts from now on.
    pub(super) fn take_units(&self, units: BTreeMap<UnitKey, Result<Option<Vec<u8>>, LaterUnit>>) {
        let known = |image: Result<_, LaterUnit>| image.map_err(|later| later.to_string());
        let units = units.into_iter().map(|(key, image)| (key, known(image)));
        self.units.replace(Ok(units.collect()));
    }

    /// Saves a record of a unit, together with others that come meanwhile, and answers: well only when no loss of
    /// power undoes it.
    pub(crate) async fn save_unit(&self, save: UnitSave) {
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            waiting.push(save);
            waiting.len() == 1
        };
        if !is_first {
            return;
        }
        let _turn = self.turn.take().await;
        let saves = self.waiting.take();
        let mut units = Units::new();
        let mut kept = Vec::new();
        for save in saves {
            if !self.units.has_room(&save.key, save.image.as_deref(), &units) {
                let why = "the store has no room for what more units keep: let hosts that are gone for good be \
                           unregistered";
                save.answer.send(Err(io::Error::new(io::ErrorKind::QuotaExceeded, why)));
                continue;
            }
            units.insert(save.key.clone(), save.image.clone());
            kept.push(save);
        }
        let stored = match mutants::is(Mutant::EarlyUnits) {
            true => Ok(()),
            false => self.keep_units(units).await.map_err(|error| error.to_string()),
        };
        for UnitSave { key, image, answer } in kept {
            if stored.is_ok() {
                self.units.set(key, Ok(image));
            }
            answer.send(stored.clone().map_err(io::Error::other));
        }
    }

    /// Stores records of units. For who has the turn.
    pub(super) async fn keep_units(&self, units: Units) -> Result<(), KeptError> {
        let is_nothing = matches!(**self.kept.borrow(), Kept::Nothing) && !self.files.has_any();
        if is_nothing && units.values().all(Option::is_none) {
            // Nothing is stored, and nothing is to be.
            return Ok(());
        }
        // What is reserved is reserved by nexuses with this number.
        self.keep_earlier_number().await?;
        self.keep(async move |settings: &mut Settings| settings.save_units(&units).await).await
    }

    /// Forgets all of units but those of `owners`, which is asked when no record can come between.
    pub(crate) async fn forget_ownerless(&self, owners: impl Fn() -> BTreeSet<String>) {
        let _turn = self.turn.take().await;
        let serials = self.units.serials_but(&owners());
        if serials.is_empty() {
            return;
        }
        let gone = serials.clone();
        let forget = async move |settings: &mut Settings| settings.forget_units(&gone).await;
        match self.on_store(forget).await {
            Ok(()) => self.units.forget(&serials),
            Err(error) => {
                tracing::warn!("what units kept that are no more is kept for now: {error}");
            }
        }
    }

    /// Forgets what is set for volumes that are no more.
    pub(crate) async fn forget_purged(&self) {
        let there: Vec<u32> = self.array.volumes().into_iter().map(|volume| volume.id).collect();
        let is_gone = {
            let state = self.state.borrow();
            let mut known = state.volumes.keys().chain(state.adopted.keys());
            known.any(|volume| !there.contains(volume))
        };
        if !is_gone {
            return;
        }
        let forget = async move |settings: &mut Settings| {
            settings.retain_volumes(|volume| there.contains(&volume)).await
        };
        if let Err(error) = self.change(forget).await {
            tracing::warn!("what was set for volumes that are purged is kept for now: {error}");
        }
    }
}
