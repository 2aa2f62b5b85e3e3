//! Destinations of events in the store.

use super::state::{Known, Writes, destination_key};
use super::{Settings, SettingsError, State};
use crate::destinations::{
    DESTINATIONS_MAX, Destination, DestinationChange, DestinationError, Way, check_name,
    check_secret,
};
use crate::record::Setting;
use crate::secrets::{Sealed, Secret, SecretError, Vault};
use crate::store::{Op, Selection};

/// Where a secret of a destination is, for whoever seals and opens it.
fn place(name: &str, what: &str) -> String {
    format!("{}/{what}", destination_key(name))
}

impl State {
    /// A destination, to be changed.
    fn destination(&self, name: &str) -> Result<&Destination<Sealed>, SettingsError> {
        if let Some(error) = self.unreadable.get(&destination_key(name)) {
            return Err(SettingsError::Unreadable(error.to_string()));
        }
        let found = self.destinations.get(name);
        found.ok_or_else(|| DestinationError::NoSuchDestination(name.to_owned()).into())
    }

    /// Whether there is one, also one that cannot be read.
    fn has_destination(&self, name: &str) -> bool {
        self.destinations.contains_key(name) || self.unreadable.contains_key(&destination_key(name))
    }

    /// Whether one of this name can be added.
    fn check_new_destination(&self, name: &str) -> Result<(), DestinationError> {
        if self.has_destination(name) {
            return Err(DestinationError::DestinationExists(name.to_owned()));
        }
        if self.destinations.len() >= DESTINATIONS_MAX {
            return Err(DestinationError::TooManyDestinations);
        }
        Ok(())
    }

    /// Opens those whose secrets can all be opened; nothing is sent to the others.
    pub(super) fn open_destinations(&self, vault: &Vault, known: &mut Known) {
        for (name, destination) in &self.destinations {
            let Destination { id, begins_after, choice, way } = destination.clone();
            let open = |what: &'static str, sealed: Sealed| -> Result<Secret, SecretError> {
                known.keys.insert(sealed.key().to_owned());
                vault.unseal(&place(name, what), &sealed)
            };
            match way.try_map(open) {
                Ok(way) => {
                    let opened = Destination { id, begins_after, choice, way };
                    known.destinations.insert(name.clone(), opened);
                }
                Err(error) => known.missing.push(error),
            }
        }
    }
}

/// What is to be done with a destination of events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words say it")]
pub enum DestinationStep {
    Add(Destination<Secret>),
    /// With the number of the last event.
    Change(DestinationChange<Secret>, u64),
    Delete,
}

/// The same with its secrets as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SealedStep {
    Add(Destination<Sealed>),
    Change(DestinationChange<Sealed>, u64),
    Delete,
}

/// Refuses what cannot be, before a key is made for its secrets.
pub(super) fn check_step(name: &str, step: &DestinationStep) -> Result<(), SettingsError> {
    match step {
        DestinationStep::Add(new) => {
            check_name(name)?;
            new.check()?;
        }
        DestinationStep::Change(change, _) => {
            change.way.as_ref().map(Way::check).transpose()?;
        }
        DestinationStep::Delete => {}
    }
    Ok(())
}

/// Changes destinations, those that go first: they make room.
pub(super) fn set_destinations(
    steps: &[(String, SealedStep)],
    state: &mut State,
    writes: &mut Writes,
) -> Result<(), SettingsError> {
    let (gone, others): (Vec<_>, Vec<_>) =
        steps.iter().partition(|(_, step)| *step == SealedStep::Delete);
    for (name, step) in gone.into_iter().chain(others) {
        let destination = match step {
            SealedStep::Delete if state.has_destination(name) => None,
            SealedStep::Delete => {
                return Err(DestinationError::NoSuchDestination(name.clone()).into());
            }
            SealedStep::Add(new) => {
                state.check_new_destination(name)?;
                Some(new.clone())
            }
            SealedStep::Change(change, last_event) => {
                let mut destination = state.destination(name)?.clone();
                destination.change(change.clone(), *last_event)?;
                Some(destination)
            }
        };
        let key = destination_key(name);
        state.unreadable.remove(&key);
        state.destinations.remove(name);
        writes.insert(key, destination.as_ref().map(Setting::encode));
        state.destinations.extend(destination.map(|destination| (name.clone(), destination)));
    }
    Ok(())
}

impl Settings {
    /// A step of a batch with its secrets sealed.
    pub(super) fn sealed_step(
        &mut self,
        name: &str,
        step: &DestinationStep,
    ) -> Result<SealedStep, SettingsError> {
        Ok(match step.clone() {
            DestinationStep::Add(Destination { id, begins_after, choice, way }) => {
                let way = self.sealed_way(name, way)?;
                SealedStep::Add(Destination { id, begins_after, choice, way })
            }
            DestinationStep::Change(change, last_event) => {
                SealedStep::Change(self.sealed_change(name, change)?, last_event)
            }
            DestinationStep::Delete => SealedStep::Delete,
        })
    }

    fn sealed_change(
        &mut self,
        name: &str,
        change: DestinationChange<Secret>,
    ) -> Result<DestinationChange<Sealed>, SettingsError> {
        let DestinationChange { severity, fold_seconds, paused, way } = change;
        let way = way.map(|way| self.sealed_way(name, way)).transpose()?;
        Ok(DestinationChange { severity, fold_seconds, paused, way })
    }

    /// Adds a destination.
    ///
    /// # Errors
    /// [`DestinationError`], or the store or the key does not do it.
    pub async fn add_destination(
        &mut self,
        name: &str,
        new: Destination<Secret>,
    ) -> Result<(), SettingsError> {
        check_name(name)?;
        new.check()?;
        // Before a key is made for it.
        self.read().await?.check_new_destination(name)?;
        let Destination { id, begins_after, choice, way } = new;
        let sealed = Destination { id, begins_after, choice, way: self.sealed_way(name, way)? };
        self.change(|state| {
            state.check_new_destination(name)?;
            Ok((vec![Op::put(destination_key(name), sealed.encode())], ()))
        })
        .await
    }

    /// Changes a destination, also one whose secrets cannot be read any more.
    ///
    /// # Errors
    /// There is none, it cannot be read, it cannot be so, or the store or the key does not do it.
    pub async fn change_destination(
        &mut self,
        name: &str,
        change: DestinationChange<Secret>,
        last_event: u64,
    ) -> Result<(), SettingsError> {
        self.read().await?.destination(name)?;
        if let Some(way) = &change.way {
            way.check()?;
        }
        let change = self.sealed_change(name, change)?;
        self.change(|state| {
            let mut destination = state.destination(name)?.clone();
            destination.change(change.clone(), last_event)?;
            Ok((vec![Op::put(destination_key(name), destination.encode())], ()))
        })
        .await
    }

    /// Deletes a destination, also one that cannot be read.
    ///
    /// # Errors
    /// There is none, or the store does not do it.
    pub async fn delete_destination(&self, name: &str) -> Result<(), SettingsError> {
        self.change(|state| {
            if !state.has_destination(name) {
                return Err(DestinationError::NoSuchDestination(name.to_owned()).into());
            }
            Ok((vec![Op::Delete(Selection::key(destination_key(name)))], ()))
        })
        .await
    }

    pub(super) fn sealed_way(
        &mut self,
        name: &str,
        way: Way<Secret>,
    ) -> Result<Way<Sealed>, SettingsError> {
        way.try_map(|what, secret| {
            let text = str::from_utf8(secret.as_bytes());
            check_secret(what, text.map_err(|_| DestinationError::Secret(what))?)?;
            Ok(self.vault.seal(&place(name, what), &secret)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::destinations::{Choice, Severity, Webhook};
    use crate::secrets::KeySource;
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place, Store};

    fn secret(text: &str) -> Option<Secret> {
        Some(Secret::new(text.as_bytes().to_vec()))
    }

    fn webhook(secret: Option<Secret>, token: Option<Secret>) -> Destination<Secret> {
        let url = "https://h.example.com/x".parse().expect("a URL");
        let way = Way::Webhook(Webhook { url, roots: None, secret, token });
        let choice = Choice { severity: Severity::Warning, fold_seconds: 300, paused: false };
        Destination { id: 7, begins_after: 3, choice, way }
    }

    #[test]
    fn secrets_lie_sealed_and_are_opened_only_where_they_were_given_for() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let source = KeySource::File(dir.path().join("key"));
        let vault = || Vault::open(source.clone()).expect("a key, or none yet");
        let mut settings = Settings::new(store.clone(), vault());
        let new = webhook(secret("sign-sign"), secret("tokentoken"));
        wait(settings.add_destination("ops", new.clone())).unwrap();
        let again = wait(settings.add_destination("ops", new.clone())).unwrap_err();
        assert!(again.to_string().starts_with("there is a destination 'ops' already"), "{again}");

        let range = wait(store.range(Selection::prefix("destinations/"))).unwrap();
        let stored = String::from_utf8(range.kvs[0].value.clone()).unwrap();
        assert!(!stored.contains("sign-sign") && !stored.contains("tokentoken"), "{stored}");
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        assert_eq!(known.destinations["ops"], new);

        // What was sealed for one of them is nothing for another one.
        let moved = Op::put("destinations/other", range.kvs[0].value.as_slice());
        wait(store.commit(crate::store::Transaction::when(Vec::new(), vec![moved]))).unwrap();
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        assert_eq!((known.destinations.len(), known.missing.len()), (1, 1));

        // Elsewhere, without the secrets: they do not go along.
        let way = webhook(None, None).way;
        let change = DestinationChange { way: Some(way), ..unchanged() };
        wait(settings.change_destination("ops", change, 9)).unwrap();
        let known = wait(settings.read()).unwrap().secrets(settings.vault());
        let Way::Webhook(Webhook { secret, token, .. }) = &known.destinations["ops"].way else {
            panic!("it is a webhook");
        };
        assert_eq!((secret, token), (&None, &None));
        wait(settings.delete_destination("ops")).unwrap();
        let gone = wait(settings.change_destination("ops", unchanged(), 9)).unwrap_err();
        assert_eq!(gone.to_string(), "there is no destination 'ops'");
    }

    fn unchanged() -> DestinationChange<Secret> {
        DestinationChange { severity: None, fold_seconds: None, paused: None, way: None }
    }
}
