//! What is wrong with the key of secrets: which file it is, what to do, and what that costs.

use group::secrets::{SecretError, Vault};
use group::settings::Known;

use super::MemberSettings;
use crate::events::Kind;

/// So many of the secrets that are lost are named.
const NAMED_MAX: usize = 4;

/// What is wrong with it, if anything is.
pub(super) fn trouble(vault: &Vault, known: &Known) -> Option<String> {
    // It says itself what to do.
    if let Some(fault) = vault.fault() {
        return Some(fault.to_string());
    }
    let places = known.missing.iter().filter_map(|missing| match missing {
        SecretError::NoKey { place, .. } => Some(format!("'{place}'")),
        SecretError::NotIntact { .. } => None,
    });
    let places: Vec<String> = places.collect();
    if places.is_empty() {
        return None;
    }
    let mut named = places[..places.len().min(NAMED_MAX)].join(", ");
    if places.len() > NAMED_MAX {
        named.push_str(&format!(" and {} more", places.len() - NAMED_MAX));
    }
    Some(format!(
        "the key that secrets were encrypted with is not in '{}': put it there and start the member again; without it \
         these must be set again, and nothing else: {named}",
        vault.path().display()
    ))
}

impl MemberSettings {
    /// What is wrong with the key of secrets, in a sentence.
    pub(crate) fn key_trouble(&self) -> Option<String> {
        self.key_trouble.borrow().clone()
    }

    /// Tells what is wrong, if it is not what was wrong before.
    pub(super) fn take_key_trouble(&self, trouble: Option<String>) {
        let before = self.key_trouble.replace(trouble.clone());
        let is_news = before.is_none();
        if let Some(trouble) = trouble.filter(|_| is_news) {
            self.tell(Kind::SettingsIncomplete, &trouble);
        }
    }
}
