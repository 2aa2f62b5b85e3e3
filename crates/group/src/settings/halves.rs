//! A batch in two transactions, between which lists of volumes change that are kept elsewhere.
//!
//! ```text
//!   first: policies lose what goes of them; new policies and CHAP users ─▶ lists of volumes ─▶ last: all else
//! ```
//!
//! Invariant: where the last one does not come, nobody is let in to a volume whose list is as it was that was not let
//! in before, and who was let in by what goes is not any more. Lists may name what is new, and have not named it yet.

use super::mirror::records_of_both;
use super::{Batch, Settings, SettingsError, State};
use crate::access::Policy;

/// The two transactions of a batch.
#[derive(Debug, Clone, Default)]
pub struct Halves {
    /// What is new, and what takes rights away by policies that stay.
    pub first: Batch,
    /// The rest: policies as they are to be, secrets of users that were there before, and what goes.
    pub last: Batch,
}

impl Settings {
    /// Makes the first half of a batch that could be made whole, and says what both are.
    ///
    /// # Errors
    /// As [`apply`](Self::apply) of the whole; nothing is changed then.
    pub async fn apply_first(
        &mut self,
        batch: &Batch,
        now_unix_seconds: u64,
    ) -> Result<Halves, SettingsError> {
        let halves = self.judged(batch, now_unix_seconds, |state| Halves::of(batch, state)).await?;
        self.apply(&halves.first, now_unix_seconds).await?;
        Ok(halves)
    }
}

impl Halves {
    fn of(batch: &Batch, state: &State) -> Result<Self, SettingsError> {
        let mut halves = Self { first: Batch::default(), last: batch.clone() };
        for (user, secret) in &batch.users {
            if secret.is_some() && !state.has_user(user) {
                halves.first.users.insert(user.clone(), secret.clone());
                halves.last.users.remove(user);
            }
        }
        for (name, records) in &batch.policies {
            let Some(records) = records else { continue };
            let Some(old) = state.policies.get(name) else {
                halves.first.policies.insert(name.clone(), Some(records.clone()));
                halves.last.policies.remove(name);
                continue;
            };
            let mut new = Policy::default();
            new.replace(records)?;
            let both = records_of_both(old, &new);
            if both != *old {
                let left = both.records().map(|(_, record)| record.clone()).collect();
                halves.first.policies.insert(name.clone(), Some(left));
            }
        }
        Ok(halves)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::access::Record;
    use crate::secrets::{KeySource, Secret, Vault};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place};

    fn settings(dir: &Path) -> Settings {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
        Settings::new(Arc::new(store), vault)
    }

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret::new(text.as_bytes().to_vec()))
    }

    fn records(texts: &[&str]) -> Option<Vec<Record>> {
        Some(texts.iter().map(|text| text.parse().expect("a record")).collect())
    }

    /// The records of a policy; `None` where it is not there.
    fn policy(settings: &Settings, name: &str) -> Option<Vec<Record>> {
        let state = wait(settings.read()).unwrap();
        let found = state.policies.get(name)?;
        Some(found.records().map(|(_, record)| record.clone()).collect())
    }

    /// A policy, and the CHAP users `al` and `bo`.
    fn begin(dir: &Path) -> Settings {
        let mut settings = settings(dir);
        let mut batch = Batch::default();
        batch.policies.insert("esx".into(), records(&["ip=10.0.0.1", "ip=10.0.0.2"]));
        batch.policies.insert("old".into(), records(&["ip=10.0.0.9"]));
        batch.users.insert("al".into(), secret("hush-hush-hush"));
        batch.users.insert("bo".into(), secret("hush-hush-bo-hush"));
        wait(settings.apply(&batch, 1)).unwrap();
        settings
    }

    fn password(settings: &Settings, user: &str) -> Option<bool> {
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        let found = known.users.iter().find(|known| known.user() == user)?;
        let new =
            iscsi::chap::Credentials::new(user, &b"another-secret-here"[..]).expect("a secret");
        Some(found.shares_secret_with(&new))
    }

    #[test]
    fn nobody_is_let_in_by_the_first_half_and_who_goes_is_out_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = begin(dir.path());
        let mut batch = Batch::default();
        batch.policies.insert("esx".into(), records(&["ip=10.0.0.2", "ip=10.0.0.3"]));
        batch.policies.insert("new".into(), records(&["chap=cy"]));
        batch.policies.insert("old".into(), None);
        batch.users.insert("al".into(), secret("another-secret-here"));
        batch.users.insert("bo".into(), None);
        batch.users.insert("cy".into(), secret("another-secret-here"));
        let halves = wait(settings.apply_first(&batch, 2)).unwrap();
        assert_eq!(policy(&settings, "esx"), records(&["ip=10.0.0.2"]));
        assert_eq!(policy(&settings, "new"), records(&["chap=cy"]));
        assert!(policy(&settings, "old").is_some(), "lists may name it yet");
        let users = |settings: &Settings| ["al", "bo", "cy"].map(|user| password(settings, user));
        assert_eq!(users(&settings), [Some(false), Some(false), Some(true)]);
        wait(settings.apply(&halves.last, 2)).unwrap();
        assert_eq!(policy(&settings, "esx"), records(&["ip=10.0.0.2", "ip=10.0.0.3"]));
        assert_eq!((policy(&settings, "new").is_some(), policy(&settings, "old")), (true, None));
        assert_eq!(users(&settings), [Some(true), None, Some(true)]);
    }

    #[test]
    fn what_the_last_half_would_be_refused_for_is_refused_before_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = begin(dir.path());
        let before = format!("{:?}", wait(settings.read()).unwrap());
        let mut batch = Batch::default();
        batch.policies.insert("esx".into(), records(&["chap=nobody"]));
        assert!(wait(settings.apply_first(&batch, 2)).is_err());
        assert_eq!(format!("{:?}", wait(settings.read()).unwrap()), before);
        // What only grows has no first half.
        batch.policies.insert("esx".into(), records(&["ip=10.0.0.1", "ip=10.0.0.2", "chap=al"]));
        let halves = wait(settings.apply_first(&batch, 2)).unwrap();
        assert!(halves.first.is_empty() && !halves.last.is_empty());
        assert_eq!(format!("{:?}", wait(settings.read()).unwrap()), before);
    }
}
