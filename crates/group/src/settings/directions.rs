//! One secret for one direction of CHAP (RFC 7143 §9.2.1), also where a member was started with the one and the other is
//! stored: whoever may log in could pretend to be the volumes.

use iscsi::chap::Credentials;

use super::{Known, Settings, SettingsError};

/// What a member was started with for CHAP, beside what is stored.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// Who logs in to volumes without an access list.
    pub user: Option<Credentials>,
    /// What these prove in return.
    pub mutual: Option<Credentials>,
}

impl Given {
    /// Refuses a secret of a stored user by which volumes prove themselves.
    pub(super) fn check_user(&self, user: &Credentials) -> Result<(), SettingsError> {
        refuse_shared(user, self.mutual.as_ref())
    }

    /// Refuses a stored secret of mutual CHAP by which hosts log in.
    pub(super) fn check_mutual(&self, mutual: &Credentials) -> Result<(), SettingsError> {
        refuse_shared(mutual, self.user.as_ref())
    }

    /// Which stored secrets are those of the start for the other direction, a sentence each.
    #[must_use]
    pub fn shared_with(&self, known: &Known) -> Vec<String> {
        let users = known.users.iter().filter(|user| self.check_user(user).is_err()).map(|user| {
            format!(
                "the stored secret of CHAP user '{}' is also the one by which the member was started to prove itself to hosts \
                 (mutual CHAP): whoever knows it can pretend to be the volumes; give one of them another",
                user.user()
            )
        });
        let mutual = known.mutual.iter().filter(|mutual| self.check_mutual(mutual).is_err()).map(
            |mutual| {
                format!(
                    "the stored secret of mutual CHAP, '{}', is also the one with which hosts log in that the member was \
                     started with: each of them can pretend to be the volumes; give one of them another",
                    mutual.user()
                )
            },
        );
        users.chain(mutual).collect()
    }
}

fn refuse_shared(stored: &Credentials, given: Option<&Credentials>) -> Result<(), SettingsError> {
    match given.is_some_and(|given| given.shares_secret_with(stored)) {
        true => Err(SettingsError::SecretOfStart),
        false => Ok(()),
    }
}

impl Settings {
    /// The same, of a member that was started with these secrets.
    #[must_use]
    pub fn beside(self, given: Given) -> Self {
        Self { given, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::secrets::{KeySource, Secret, Vault};
    use crate::settings::{Batch, MutualChange};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place};

    const LOGIN: &str = "secret-of-hosts";
    const PROOF: &str = "secret-of-array";

    fn given() -> Given {
        let of = |user: &str, secret: &str| {
            Some(Credentials::new(user, secret.as_bytes()).expect("a secret"))
        };
        Given { user: of("hosts", LOGIN), mutual: of("array", PROOF) }
    }

    fn settings(dir: &Path) -> Settings {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
        Settings::new(Arc::new(store), vault)
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text.as_bytes().to_vec())
    }

    #[test]
    fn a_secret_of_the_start_is_none_for_the_other_direction_however_it_is_set() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(dir.path()).beside(given());
        let is_refused =
            |done: Result<(), SettingsError>| matches!(done, Err(SettingsError::SecretOfStart));
        assert!(is_refused(wait(settings.add_user("al", &secret(PROOF)))));
        assert!(!dir.path().join("key").exists(), "no key is made for what is refused");
        wait(settings.add_user("al", &secret(LOGIN))).expect("the same direction");
        assert!(is_refused(wait(settings.set_user("al", &secret(PROOF)))));
        // Else that of the stored user would be in the way.
        wait(settings.delete_user("al")).unwrap();
        assert!(is_refused(wait(settings.set_mutual("disk", &secret(LOGIN)))));
        let mut users = Batch::default();
        users.users.insert("bo".into(), Some(secret(PROOF)));
        assert!(is_refused(wait(settings.apply(&users, 1))));
        let mutual = MutualChange::Set("disk".into(), secret(LOGIN));
        let mutual = Batch { mutual: Some(mutual), ..Batch::default() };
        assert!(is_refused(wait(settings.apply(&mutual, 1))));
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        assert_eq!(given().shared_with(&known), [""; 0]);
        assert_eq!((known.users.len(), known.mutual), (0, None));
    }

    #[test]
    fn what_was_stored_before_is_told_and_keeps_nobody_from_other_changes() {
        let dir = tempfile::tempdir().unwrap();
        let mut before = settings(dir.path());
        wait(before.add_user("al", &secret(PROOF))).unwrap();
        wait(before.set_mutual("disk", &secret(LOGIN))).unwrap();
        let mut settings = before.beside(given());
        wait(settings.add_user("bo", &secret("another-secret"))).unwrap();
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        let said = given().shared_with(&known);
        assert!(said[0].starts_with("the stored secret of CHAP user 'al' is also "), "{said:?}");
        assert!(said[1].starts_with("the stored secret of mutual CHAP, 'disk', is"), "{said:?}");
        assert_eq!(said.len(), 2);
        assert!(!said.concat().contains(PROOF) && !said.concat().contains(LOGIN));
    }
}
