//! What volumes are to become that are being made.

use std::collections::BTreeMap;

use group::settings::{Intent, Settings, SettingsError};

use super::{KeptError, MemberSettings};
use crate::mutants::{self, Mutant};

impl MemberSettings {
    /// The names of volumes of which it is stored what they are to become, as far as is known.
    pub(crate) fn intended(&self) -> Vec<String> {
        self.state.borrow().intents.keys().cloned().collect()
    }

    /// What a volume of this name is to become, if that is stored.
    pub(crate) fn intent(&self, name: &str) -> Result<Option<Intent>, KeptError> {
        match self.state.borrow().intents.get(name) {
            None => Ok(None),
            Some(Ok(intent)) => Ok(Some(intent.clone())),
            Some(Err(error)) => Err(SettingsError::Unreadable(error.to_string()).into()),
        }
    }

    /// Whether a volume is not yet what it is to become: until it is, it is for nobody.
    pub(crate) fn is_half_made(&self, volume: u32) -> bool {
        let state = self.state.borrow();
        let is_it = |name| self.array.volume(name).is_ok_and(|found| found.id == volume);
        state.intents.keys().any(|name| is_it(name)) && !mutants::is(Mutant::OpenIntent)
    }

    /// Stores what volumes are to become, before they are made.
    pub(crate) async fn intend(&self, intents: BTreeMap<String, Intent>) -> Result<(), KeptError> {
        self.change(async move |settings: &mut Settings| settings.intend(&intents).await).await
    }

    /// A volume is what it was to become from now on.
    pub(crate) async fn fulfil(&self, name: &str, volume: u32) -> Result<(), KeptError> {
        let name = name.to_owned();
        self.change(async move |settings: &mut Settings| settings.fulfil(&name, volume).await).await
    }

    /// Forgets what volumes were to become that are not there.
    pub(crate) async fn forget_intents(&self) -> Result<(), KeptError> {
        let mut names = self.intended();
        names.retain(|name| self.array.volume(name).is_ok());
        let forget = async move |settings: &mut Settings| {
            settings.forget_intents(|name| names.iter().any(|there| there == name)).await
        };
        self.change(forget).await
    }
}
