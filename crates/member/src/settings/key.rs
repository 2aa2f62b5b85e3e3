//! What is wrong with the key of secrets: which file it is, what to do, and what that costs. While the member runs its key
//! is in memory, so that a file that is lost is noticed here and not by the next start, for which it is too late.

use std::cell::RefCell;
use std::rc::Rc;

use group::secrets::{KeptKey, KeyFile, SecretError, Vault};
use group::settings::Known;
use ring::wait::Turn;

use super::MemberSettings;
use crate::events::Kind;
use crate::mutants::{self, Mutant};

/// The key of secrets, as far as it is in use.
#[derive(Debug, Default)]
pub(super) struct KeyWatch {
    /// What was wrong with it when the settings were read last, in a sentence.
    trouble: RefCell<Option<String>>,
    /// What the next start needs, and where it lies.
    kept: RefCell<Option<KeptKey>>,
    /// Why the next start would not find it.
    lost: RefCell<Option<String>>,
    /// Who has it looks at the file.
    looking: Rc<Turn>,
}

impl KeyWatch {
    /// The key in memory whose file is to stay.
    pub(super) fn kept(&self) -> Option<KeptKey> {
        self.kept.borrow().clone()
    }
}

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
        "the key that secrets were encrypted with is not in '{}'{}: put it there and start the member again; without it \
         these must be set again, and nothing else: {named}",
        vault.path().display(),
        if vault.has_credential() { ", and the credential of the service is another" } else { "" }
    ))
}

/// The key whose file is to stay, which is none that no secret was sealed with where systemd has another one.
pub(super) fn kept(vault: &Vault, known: &Known) -> Option<KeptKey> {
    let is_needed = |key: &KeptKey| !vault.has_credential() || known.keys.contains(&key.name());
    vault.kept_key().filter(is_needed)
}

/// Why the next start would not find the key there.
fn lost(key: &KeptKey, found: &KeyFile) -> Option<String> {
    let path = key.path().display();
    match found {
        KeyFile::InPlace | KeyFile::Restored | KeyFile::NoDirectory => None,
        KeyFile::Other => Some(format!(
            "'{path}' does not hold the key any more that secrets are encrypted with: move that file away before the member \
             stops, and it writes the key back; else all secrets must be set again after the next start"
        )),
        KeyFile::Unusable(error) => Some(format!(
            "the next start cannot read the key that secrets are encrypted with, and until that is mended no secret outlives \
             it: {error}"
        )),
    }
}

impl MemberSettings {
    /// What is wrong with the key of secrets, one sentence each.
    pub(crate) fn key_trouble(&self) -> Vec<String> {
        let KeyWatch { trouble, lost, .. } = &self.key;
        trouble.borrow().iter().chain(&*lost.borrow()).cloned().collect()
    }

    /// Tells what is wrong, if it is not what was wrong before, and takes over whose file is to stay.
    pub(super) fn take_key(&self, trouble: Option<String>, kept: Option<KeptKey>) {
        let before = self.key.trouble.replace(trouble.clone());
        let is_news = before.is_none();
        if let Some(trouble) = trouble.filter(|_| is_news) {
            self.tell(Kind::SettingsIncomplete, &trouble);
        }
        self.key.kept.replace(kept);
    }

    /// Looks whether the next start finds the key, and writes it back where there is none, unless a look is under way.
    pub(crate) async fn look_at_key(&self) {
        let looking = self.key.looking.clone();
        if looking.held().is_some() || mutants::is(Mutant::LoseKey) {
            return;
        }
        let _turn = looking.take().await;
        let Some(key) = self.key.kept.borrow().clone() else {
            self.key.lost.take();
            return;
        };
        let looks = key.clone();
        let found = ring::blocking(move || looks.look()).await;
        if matches!(found, KeyFile::Restored) {
            let path = key.path().display();
            let text = format!(
                "the key that secrets are encrypted with was gone from '{path}' and was written back from memory"
            );
            self.tell(Kind::KeyRestored, &text);
        }
        let lost = lost(&key, &found);
        let before = self.key.lost.replace(lost.clone());
        if let Some(lost) = lost.filter(|lost| before.as_ref() != Some(lost)) {
            self.tell(Kind::KeyLost, &lost);
        }
    }
}
