//! Sets of snapshots that the member takes part in, as they are stored.
//!
//! Of what does not read, as a later version wrote it, nothing is done.

use group::membership::SetId;
use group::settings::{SetIntent, Settings};

use super::{KeptError, MemberSettings};

impl MemberSettings {
    /// Those that read.
    pub(crate) fn sets(&self) -> Vec<SetIntent> {
        self.state.borrow().sets.values().flatten().cloned().collect()
    }

    /// One of them.
    pub(crate) fn set(&self, id: &SetId) -> Option<SetIntent> {
        self.state.borrow().sets.get(id)?.as_ref().ok().cloned()
    }

    /// Why it is not known of all sets what is stored of them; `None` where it is.
    pub(crate) fn unknown_sets(&self) -> Option<String> {
        let state = match self.state() {
            Ok(state) => state,
            Err(error) => return Some(error.to_string()),
        };
        state.sets.values().find_map(|intent| intent.as_ref().err().map(ToString::to_string))
    }

    /// Whether something is stored of a set, whether that reads or not.
    pub(crate) fn knows_set(&self, id: &SetId) -> bool {
        self.state.borrow().sets.contains_key(id)
    }

    /// Whether nothing is stored of a set any more; never as long as that cannot be read.
    pub(crate) fn has_forgotten_set(&self, id: &SetId) -> bool {
        self.state().is_ok_and(|state| !state.sets.contains_key(id))
    }

    /// The set of which it is not decided whether this snapshot stays, which may be there or not.
    pub(crate) fn undecided_of(&self, volume: u32, name: &str) -> Option<SetId> {
        self.undecided(|intent| intent.reserves(volume, name))
    }

    /// The same of any snapshot of this volume.
    pub(crate) fn undecided_of_any(&self, volume: u32) -> Option<SetId> {
        self.undecided(|intent| intent.reserves(volume, &intent.name))
    }

    fn undecided(&self, is_it: impl Fn(&SetIntent) -> bool) -> Option<SetId> {
        let state = self.state.borrow();
        let mut sets = state.sets.values().flatten();
        sets.find(|intent| is_it(intent)).map(|intent| intent.id.clone())
    }

    /// Stores that the member takes part in a set.
    pub(crate) async fn prepare_set(&self, intent: &SetIntent) -> Result<(), KeptError> {
        let intent = intent.clone();
        self.change(async move |settings: &mut Settings| settings.prepare_set(&intent).await).await
    }

    /// A set that is void has these volumes left of which its snapshots could not be deleted.
    pub(crate) async fn narrow_set(&self, id: &SetId, left: Vec<u32>) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.narrow_set(&id, &left).await)
            .await
    }

    /// What was decided about a set is done.
    pub(crate) async fn note_set_settled(&self, id: &SetId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.note_set_settled(&id).await).await
    }

    /// Nothing is to be done about a set any more.
    pub(crate) async fn forget_set(&self, id: &SetId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.forget_set(&id).await).await
    }
}
