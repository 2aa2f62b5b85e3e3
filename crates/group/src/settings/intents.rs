//! What volumes are to become that are being made: stored before they are there, and forgotten in the transaction that
//! stores it for them.
//!
//! ```text
//!  nothing ─ intend ─▶ open, no volume ─▶ open, volume there ─ fulfil ─▶ what is set for the volume
//!     ▲                     ╰─ forget_intents ─╮
//!     ╰────────────────────────────────────────╯
//! ```
//!
//! They go by name, as a volume has no number before it is made. While one is open nobody may use a volume of that name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::state::{intent_key, volume_key};
use super::{Settings, SettingsError, VolumeSettings, VolumeStep};
use crate::access::AccessError;
use crate::record::{Setting, SettingError};
use crate::store::{Op, Selection};

/// What a volume is to become.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// What is to be set for it.
    pub settings: VolumeSettings,
    /// Hosts may have it then.
    pub online: bool,
}

impl Setting for Intent {
    const WHAT: &'static str = "what a volume is to become";
}

impl Intent {
    /// That of a new volume for which this is to be set.
    ///
    /// # Errors
    /// The list says no.
    pub fn new(step: &VolumeStep, online: bool) -> Result<Self, AccessError> {
        let mut settings = VolumeSettings::default();
        step.set(&mut settings)?;
        Ok(Self { settings, online })
    }
}

/// By the names of volumes. What cannot be read keeps its volume from everybody.
pub type Intents = BTreeMap<String, Result<Intent, SettingError>>;

impl Settings {
    /// Notes what volumes are to become that are made next.
    ///
    /// # Errors
    /// The store does not do it, or they are more than one transaction holds.
    pub async fn intend(&self, intents: &BTreeMap<String, Intent>) -> Result<(), SettingsError> {
        self.change(|_| {
            let put =
                |(name, intent): (&String, &Intent)| Op::put(intent_key(name), intent.encode());
            Ok((intents.iter().map(put).collect(), ()))
        })
        .await
    }

    /// Sets for a volume what it was to become, and forgets that it was.
    ///
    /// # Errors
    /// It cannot be read, or the store does not do it.
    pub async fn fulfil(&self, name: &str, volume: u32) -> Result<(), SettingsError> {
        self.change(|state| match state.intents.get(name) {
            None => Ok((Vec::new(), ())),
            Some(Err(error)) => Err(SettingsError::Unreadable(error.to_string())),
            Some(Ok(Intent { settings, .. })) => {
                let set = Op::put(volume_key(volume), settings.encode());
                Ok((vec![set, Op::Delete(Selection::key(intent_key(name)))], ()))
            }
        })
        .await
    }

    /// Forgets what volumes were to become that are not there.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn forget_intents(
        &self,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<(), SettingsError> {
        self.change(|state| {
            let gone = state.intents.keys().filter(|name| !is_there(name));
            let delete = |name: &String| Op::Delete(Selection::key(intent_key(name)));
            Ok((gone.map(delete).collect(), ()))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use std::collections::BTreeSet;

    use crate::access::{Entry, Scope};
    use crate::secrets::{KeySource, Vault};
    use crate::settings::{Batch, ListChange, NotThere, Rule};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place, Store, Transaction};

    fn settings() -> (Settings, Arc<dyn Store>) {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let vault = Vault::without_key(KeySource::File("/nowhere".into()));
        (Settings::new(store.clone(), vault), store)
    }

    fn step() -> VolumeStep {
        let entry = Entry::Record("ip=10.0.0.1".parse().expect("a record"));
        VolumeStep { access: Some(ListChange::Listed(vec![entry])), shared: Some(true) }
    }

    fn of(names: &[&str]) -> BTreeMap<String, Intent> {
        let intent = || Intent::new(&step(), true).expect("it can be");
        names.iter().map(|name| ((*name).to_owned(), intent())).collect()
    }

    fn open(settings: &Settings) -> Vec<String> {
        wait(settings.read()).expect("they are read").intents.keys().cloned().collect()
    }

    #[test]
    fn what_is_set_for_a_volume_and_what_it_was_to_become_change_places_at_once() {
        let (settings, _) = settings();
        wait(settings.intend(&of(&["a", "b/c"]))).unwrap();
        assert!(!wait(settings.read()).unwrap().is_empty(), "they want a store");
        assert_eq!(open(&settings), ["a", "b/c"]);
        wait(settings.fulfil("a", 7)).unwrap();
        let state = wait(settings.read()).unwrap();
        assert_eq!(state.volume(7).unwrap(), of(&["a"])["a"].settings);
        assert!(matches!(state.rule(7), Rule::Records { shared: true, .. }));
        assert_eq!(open(&settings), ["b/c"]);
        // Another volume of the name has nothing of it.
        wait(settings.fulfil("a", 8)).unwrap();
        assert_eq!(wait(settings.read()).unwrap().rule(8), Rule::General);
    }

    /// One that is stored before its volume is made goes by what is there then.
    #[test]
    fn a_list_that_names_what_is_not_there_is_known_by_it() {
        let (settings, _) = settings();
        let record = |text: &str| Entry::Record(text.parse().expect("a record"));
        let policy = |name: &str| Entry::Policy { name: name.to_owned(), scope: Scope::Both };
        let list = vec![record("chap=al"), record("ip=10.0.0.1"), policy("p"), policy("q")];
        let step = VolumeStep { access: Some(ListChange::Listed(list)), shared: Some(true) };
        let intent = Intent::new(&step, true).expect("it can be");
        wait(settings.intend(&BTreeMap::from([("a".to_owned(), intent)]))).unwrap();
        wait(settings.fulfil("a", 7)).unwrap();
        wait(settings.create_policy("q")).unwrap();
        let state = wait(settings.read()).unwrap();
        let found = state.not_there(7);
        assert_eq!((found.policies, found.users), (of_names(&["p"]), of_names(&["al"])));
        assert_eq!(state.not_there(8), NotThere::default());
    }

    fn of_names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_batch_forgets_what_it_stores_for_volumes_that_were_made_for_it() {
        let (mut settings, _) = settings();
        wait(settings.intend(&of(&["a", "b"]))).unwrap();
        let volumes = BTreeMap::from([(7, step())]);
        let batch = Batch { volumes, made: vec!["a".to_owned()], ..Batch::default() };
        wait(settings.apply(&batch, 1)).unwrap();
        assert_eq!(open(&settings), ["b"]);
    }

    #[test]
    fn what_was_never_made_is_forgotten_also_where_it_cannot_be_read() {
        let (settings, store) = settings();
        wait(settings.intend(&of(&["a", "b"]))).unwrap();
        let later = br#"{"version":2,"value":"blue"}"#;
        wait(store.commit(Transaction::always(vec![Op::put(intent_key("c"), later)]))).unwrap();
        assert_eq!(open(&settings), ["a", "b", "c"]);
        let unreadable = wait(settings.fulfil("c", 7)).unwrap_err().to_string();
        assert!(unreadable.contains("stored in version 2"), "{unreadable}");
        wait(settings.forget_intents(|name| name == "b")).unwrap();
        assert_eq!(open(&settings), ["b"]);
    }
}
