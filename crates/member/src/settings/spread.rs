//! Volumes that lie on several members, as they are stored: those whose home the member is, and slices of others.
//!
//! Of what does not read, as a later version wrote it, nothing is done.

use std::collections::BTreeSet;

use group::membership::{GroupId, SliceId, SpreadId};
use group::ownership::MemberId;
use group::record::SettingError;
use group::settings::{Settings, State};
use group::spread::{
    HomeSays, InTheWay, Opening, Openings, Question, SliceRecord, SliceStanding, SpreadRecord,
    SpreadStanding, Who, hidden_name, home_says, in_the_way, is_hidden_name,
};

use super::{KeptError, MemberSettings};

/// What is stored of a spread volume or of a slice, and will never read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedRecord {
    /// The number that it is stored under.
    pub id: String,
    /// Whether it is of a volume whose home the member is; else of a slice.
    pub is_home: bool,
    /// What is wrong with it.
    pub why: String,
}

impl MemberSettings {
    /// The spread volumes whose home it is, as far as that reads.
    pub(crate) fn spreads(&self) -> Vec<SpreadRecord> {
        self.state.borrow().spreads.values().flatten().cloned().collect()
    }

    /// The first of them that is so.
    pub(crate) fn find_spread(
        &self,
        is_it: impl Fn(&SpreadRecord) -> bool,
    ) -> Option<SpreadRecord> {
        let state = self.state.borrow();
        state.spreads.values().flatten().find(|record| is_it(record)).cloned()
    }

    /// Whether there are any, be it that none reads.
    pub(crate) fn has_spreads(&self) -> bool {
        !self.state.borrow().spreads.is_empty()
    }

    /// One of them.
    pub(crate) fn spread(&self, id: &SpreadId) -> Option<SpreadRecord> {
        self.state.borrow().spreads.get(id)?.as_ref().ok().cloned()
    }

    /// The slices of other homes' volumes, as far as that reads.
    pub(crate) fn slices(&self) -> Vec<SliceRecord> {
        self.state.borrow().slices.values().flatten().cloned().collect()
    }

    /// What is stored of a slice, or why it cannot be used.
    pub(crate) fn slice(&self, id: &SliceId) -> Result<Option<SliceRecord>, String> {
        let state = self.state().map_err(|error| error.to_string())?;
        let record = state.slices.get(id).map(Result::as_ref).transpose();
        record.map(Option::<&SliceRecord>::cloned).map_err(ToString::to_string)
    }

    /// Why it is not known of all spread volumes and slices what is stored of them; `None` where it is.
    pub(crate) fn unknown_spreads(&self) -> Option<String> {
        match self.state() {
            Ok(state) => state.unread_spreads(),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Why a spread volume is not made of its slices again: it is stored, or may be.
    pub(crate) fn forbids_rebuild(&self, id: &SpreadId) -> Option<String> {
        let state = match self.state() {
            Ok(state) => state,
            Err(error) => return Some(error.to_string()),
        };
        match state.spreads.get(id) {
            Some(Ok(_)) => {
                Some("this member has stored it, and nothing of that is lost".to_owned())
            }
            Some(Err(later @ SettingError::Later { .. })) => Some(later.to_string()),
            // A key that no version knows may be of this volume.
            None | Some(Err(SettingError::Damaged { .. })) if state.all_spreads().is_none() => {
                state.unread_spreads()
            }
            None | Some(Err(SettingError::Damaged { .. })) => None,
        }
    }

    /// What is stored of spread volumes and slices and will never read.
    pub(crate) fn damaged_spreads(&self) -> Vec<DamagedRecord> {
        let state = self.state.borrow();
        let spreads = state.spreads.iter().filter_map(|(id, record)| {
            let why = damage(record.as_ref().err())?;
            Some(DamagedRecord { id: id.to_string(), is_home: true, why })
        });
        let slices = state.slices.iter().filter_map(|(id, record)| {
            let why = damage(record.as_ref().err())?;
            Some(DamagedRecord { id: id.to_string(), is_home: false, why })
        });
        spreads.chain(slices).collect()
    }

    /// Slices on the array of which nothing is stored that reads, as where settings were given up: nobody can say here
    /// whose they are.
    pub(crate) fn unrecorded_slices(&self) -> Vec<String> {
        let state = self.state.borrow();
        let of_home = state.spreads.values().flatten().map(|record| hidden_name(&record.id));
        let of_others = state.slices.values().flatten().map(|record| record.volume.clone());
        let recorded: BTreeSet<String> = of_home.chain(of_others).collect();
        let names = self.array.volumes().into_iter().map(|volume| volume.name);
        names.filter(|name| is_hidden_name(name) && !recorded.contains(name)).collect()
    }

    /// What this member says of a slice of which another one asks whether it has its volume.
    pub(crate) fn says_of_slice(
        &self,
        question: &Question,
        who: Option<Who<'_>>,
        has_own_slice: bool,
    ) -> HomeSays {
        let state = self.state().ok();
        let spreads = state.as_deref().and_then(State::all_spreads);
        home_says(question, who, spreads, (&self.array.info().id, has_own_slice))
    }

    /// What of spread volumes is in the way of a member that is to go.
    pub(crate) fn in_the_way(&self, member: MemberId, group: &GroupId) -> InTheWay {
        let mut found = match self.state() {
            Ok(state) => in_the_way(member, group, (&state.spreads, &state.slices)),
            Err(_) => InTheWay::default(),
        };
        found.unread = self.unknown_spreads().or_else(|| {
            let name = self.unrecorded_slices().into_iter().next()?;
            Some(format!("'{name}' is a slice of which nothing is stored on this server any more"))
        });
        found
    }

    /// Stores that a spread volume is being made.
    pub(crate) async fn prepare_spread(&self, record: &SpreadRecord) -> Result<(), KeptError> {
        let record = record.clone();
        self.change(async move |settings: &mut Settings| settings.prepare_spread(&record).await)
            .await
    }

    /// A spread volume is further.
    pub(crate) async fn note_spread(
        &self,
        id: &SpreadId,
        standing: SpreadStanding,
    ) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.note_spread(&id, standing).await)
            .await
    }

    /// Nothing of a spread volume is left anywhere.
    pub(crate) async fn forget_spread(&self, id: &SpreadId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.forget_spread(&id).await).await
    }

    /// Stores that a slice is being made here.
    pub(crate) async fn prepare_slice(&self, record: &SliceRecord) -> Result<(), KeptError> {
        let record = record.clone();
        self.change(async move |settings: &mut Settings| settings.prepare_slice(&record).await)
            .await
    }

    /// A slice is further.
    pub(crate) async fn note_slice(
        &self,
        id: &SliceId,
        standing: SliceStanding,
    ) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.note_slice(&id, standing).await)
            .await
    }

    /// The volume of a slice that goes is gone.
    pub(crate) async fn forget_slice(&self, id: &SliceId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.forget_slice(&id).await).await
    }

    /// Stores a volume that was made of its slices again, by an operator's word.
    pub(crate) async fn rebuild_spread(&self, record: &SpreadRecord) -> Result<(), KeptError> {
        let record = record.clone();
        self.change(async move |settings: &mut Settings| settings.rebuild_spread(&record).await)
            .await
    }

    /// Stores what a home knows of later ones from now on, by an operator's word.
    pub(crate) async fn bring_forward(
        &self,
        before: &SpreadRecord,
        next: &SpreadRecord,
    ) -> Result<(), KeptError> {
        let (before, next) = (before.clone(), next.clone());
        self.change(async move |settings: &mut Settings| {
            settings.bring_forward(&before, &next).await
        })
        .await
    }

    /// Throws away what is stored of a spread volume and is damaged, by an operator's word.
    pub(crate) async fn discard_spread(&self, id: &SpreadId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.discard_spread(&id).await).await
    }

    /// Throws away what is stored of a slice and is damaged, by an operator's word.
    pub(crate) async fn discard_slice(&self, id: &SliceId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.discard_slice(&id).await).await
    }

    /// Stores that an opening of a slice begins, before its member is asked for it.
    pub(crate) async fn begin_opening(
        &self,
        (id, slice): (&SpreadId, u8),
        drawn: u32,
    ) -> Result<Openings, KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| {
            settings.begin_opening((&id, slice), drawn).await
        })
        .await
    }

    /// A slice has answered an opening: stored before anything is read from it or written to it.
    pub(crate) async fn note_opened(
        &self,
        (id, slice): (&SpreadId, u8),
        opening: Opening,
    ) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| {
            settings.note_opened((&id, slice), opening).await
        })
        .await
    }

    /// Stores that an opening of a slice is begun, before that is said.
    pub(crate) async fn note_slice_begun(
        &self,
        id: &SliceId,
        opening: Opening,
    ) -> Result<(), KeptError> {
        let id = id.clone();
        let note =
            async move |settings: &mut Settings| settings.note_slice_begun(&id, opening).await;
        self.change(note).await
    }

    /// Stores that the home of a slice has heard of an opening, before it is let in.
    pub(crate) async fn note_slice_opened(
        &self,
        id: &SliceId,
        opening: Opening,
    ) -> Result<(), KeptError> {
        let id = id.clone();
        let note =
            async move |settings: &mut Settings| settings.note_slice_opened(&id, opening).await;
        self.change(note).await
    }
}

/// What is wrong with a record that is damaged. What a later version wrote is not.
fn damage(error: Option<&SettingError>) -> Option<String> {
    match error {
        Some(error @ SettingError::Damaged { .. }) => Some(error.to_string()),
        Some(SettingError::Later { .. }) | None => None,
    }
}
