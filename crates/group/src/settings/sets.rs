//! What a member has stored of sets of snapshots that it takes part in: it lies on the array, under `sets/` and the number
//! of the set, and is the member's own.
//!
//! ```text
//!  nothing ─ prepare_set ─▶ undecided ─ note_set_settled ─▶ settled ─ forget_set ─▶ nothing
//! ```
//!
//! While it is undecided the snapshots that were taken are not there for operators, and nobody else has their names. Of
//! one that is void `narrow_set` leaves the volumes alone whose snapshots could not be deleted yet.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::state::State;
use super::{Settings, SettingsError};
use crate::membership::{GroupId, SetId};
use crate::ownership::MemberId;
use crate::record::{Setting, SettingError};
use crate::store::{KeyValue, Op, Selection};

pub(super) const SETS: &str = "sets/";

/// How far a member is with a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetStage {
    /// The store of the group may say what becomes of its snapshots, or will.
    Undecided,
    /// That is done here, and the others may not know it yet.
    Settled,
}

/// Snapshots of one moment that a member takes with others, or has others take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetIntent {
    /// The set.
    pub id: SetId,
    /// The group whose members take it: numbers of members say nothing in another one.
    pub group: GroupId,
    /// Who this member is there.
    pub me: MemberId,
    /// The member that drives it.
    pub coordinator: MemberId,
    /// The members that have volumes of it.
    pub participants: BTreeSet<MemberId>,
    /// The numbers of those that are here: none where this member only drives it.
    pub volumes: Vec<u32>,
    /// The name of all of its snapshots.
    pub name: String,
    /// How far it is.
    pub stage: SetStage,
}

impl Setting for SetIntent {
    const WHAT: &'static str = "that snapshots of one moment are taken on several members";
}

impl SetIntent {
    /// Whether a snapshot of this volume may be one of this set of which nobody knows yet whether it stays.
    #[must_use]
    pub fn reserves(&self, volume: u32, name: &str) -> bool {
        self.stage == SetStage::Undecided && self.name == name && self.volumes.contains(&volume)
    }
}

/// By the number of the set. Of what cannot be read nothing is done.
pub type SetIntents = BTreeMap<SetId, Result<SetIntent, SettingError>>;

fn set_key(id: &SetId) -> String {
    format!("{SETS}{id}")
}

impl State {
    /// Takes a key in if it is of a set, and says whether it was.
    pub(super) fn take_set(&mut self, key: &str, kv: &KeyValue) -> bool {
        let Some(id) = key.strip_prefix(SETS) else { return false };
        self.sets.extend(id.parse().ok().map(|id| (id, SetIntent::decode(&kv.value))));
        true
    }
}

impl Settings {
    /// Stores that a member takes part in a set.
    ///
    /// # Errors
    /// It does already, or the store does not do it.
    pub async fn prepare_set(&self, intent: &SetIntent) -> Result<(), SettingsError> {
        debug_assert_eq!(intent.stage, SetStage::Undecided, "nothing is done yet");
        self.change(|state| match state.sets.contains_key(&intent.id) {
            true => Err(SettingsError::SetThere),
            false => Ok((vec![Op::put(set_key(&intent.id), intent.encode())], ())),
        })
        .await
    }

    /// Of a set that is void nothing is left to delete but snapshots of these volumes.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or the store does not do it.
    pub async fn narrow_set(&self, id: &SetId, left: &[u32]) -> Result<(), SettingsError> {
        self.change(|state| {
            let Some(intent) = readable(state, id)? else { return Ok((Vec::new(), ())) };
            let volumes = intent.volumes.iter().copied().filter(|volume| left.contains(volume));
            let narrowed = SetIntent { volumes: volumes.collect(), ..intent.clone() };
            Ok((vec![Op::put(set_key(id), narrowed.encode())], ()))
        })
        .await
    }

    /// What was decided about a set is done here.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or the store does not do it.
    pub async fn note_set_settled(&self, id: &SetId) -> Result<(), SettingsError> {
        self.change(|state| {
            let Some(intent) = readable(state, id)? else { return Ok((Vec::new(), ())) };
            let settled = SetIntent { stage: SetStage::Settled, ..intent.clone() };
            Ok((vec![Op::put(set_key(id), settled.encode())], ()))
        })
        .await
    }

    /// Nothing is to be done about a set any more.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or the store does not do it.
    pub async fn forget_set(&self, id: &SetId) -> Result<(), SettingsError> {
        self.change(|state| {
            let is_there = readable(state, id)?.is_some();
            let delete = || Op::Delete(Selection::key(set_key(id)));
            Ok((is_there.then(delete).into_iter().collect(), ()))
        })
        .await
    }
}

/// What is stored of a set, to be changed. What a later version wrote stays as it is.
fn readable<'a>(state: &'a State, id: &SetId) -> Result<Option<&'a SetIntent>, SettingsError> {
    let read = state.sets.get(id).map(Result::as_ref).transpose();
    read.map_err(|error| SettingsError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::secrets::{KeySource, Vault};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place, Store, Transaction};

    fn settings() -> (Settings, Arc<dyn Store>) {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let vault = Vault::without_key(KeySource::File("/nowhere".into()));
        (Settings::new(store.clone(), vault), store)
    }

    fn id(digit: &str) -> SetId {
        digit.repeat(32).parse().expect("it is one")
    }

    fn intent(digit: &str) -> SetIntent {
        SetIntent {
            id: id(digit),
            group: "0".repeat(32).parse().expect("it is one"),
            me: MemberId(2),
            coordinator: MemberId(1),
            participants: BTreeSet::from([MemberId(2), MemberId(3)]),
            volumes: vec![7, 9],
            name: "daily".to_owned(),
            stage: SetStage::Undecided,
        }
    }

    #[test]
    fn a_set_is_stored_once_and_its_names_are_taken_until_it_is_settled() {
        let (settings, _) = settings();
        wait(settings.prepare_set(&intent("a"))).unwrap();
        let again = wait(settings.prepare_set(&intent("a"))).unwrap_err();
        assert!(matches!(again, SettingsError::SetThere), "{again}");
        let state = wait(settings.read()).unwrap();
        assert!(!state.is_empty(), "they want a store");
        let stored = state.sets[&id("a")].as_ref().unwrap();
        assert_eq!(*stored, intent("a"));
        assert!(stored.reserves(7, "daily") && stored.reserves(9, "daily"));
        assert!(!stored.reserves(8, "daily") && !stored.reserves(7, "other"));

        wait(settings.narrow_set(&id("a"), &[9, 4])).unwrap();
        let state = wait(settings.read()).unwrap();
        let narrowed = state.sets[&id("a")].as_ref().unwrap();
        assert_eq!(*narrowed, SetIntent { volumes: vec![9], ..intent("a") }, "it gets none anew");
        assert!(!narrowed.reserves(7, "daily") && narrowed.reserves(9, "daily"));
        wait(settings.note_set_settled(&id("a"))).unwrap();
        let state = wait(settings.read()).unwrap();
        let settled = state.sets[&id("a")].as_ref().unwrap();
        let stage = SetStage::Settled;
        assert_eq!(*settled, SetIntent { stage, volumes: vec![9], ..intent("a") });
        assert!(!settled.reserves(9, "daily"), "it is an ordinary snapshot");
        wait(settings.forget_set(&id("a"))).unwrap();
        assert!(wait(settings.read()).unwrap().sets.is_empty());
        // Whoever has not heard the answer asks again.
        wait(settings.narrow_set(&id("a"), &[9])).unwrap();
        wait(settings.note_set_settled(&id("a"))).unwrap();
        wait(settings.forget_set(&id("a"))).unwrap();
        assert!(wait(settings.read()).unwrap().sets.is_empty(), "nothing of it comes back");
    }

    #[test]
    fn what_a_later_version_wrote_of_a_set_stays() {
        let (settings, store) = settings();
        let later = br#"{"version":2,"value":{}}"#;
        wait(store.commit(Transaction::always(vec![Op::put(set_key(&id("b")), later)]))).unwrap();
        assert!(wait(settings.read()).unwrap().sets[&id("b")].is_err());
        let refused = [
            wait(settings.narrow_set(&id("b"), &[7])).unwrap_err(),
            wait(settings.note_set_settled(&id("b"))).unwrap_err(),
            wait(settings.forget_set(&id("b"))).unwrap_err(),
        ];
        for error in refused {
            assert!(error.to_string().contains("stored in version 2"), "{error}");
        }
        let found = wait(store.range(Selection::key(set_key(&id("b"))))).unwrap();
        assert_eq!(found.kvs[0].value, later);
    }
}
