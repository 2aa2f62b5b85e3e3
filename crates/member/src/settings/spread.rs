//! Volumes that lie on several members, as they are stored: those whose home the member is, and slices of others.
//!
//! Of what does not read, as a later version wrote it, nothing is done.

use group::membership::{GroupId, SliceId, SpreadId};
use group::ownership::MemberId;
use group::settings::Settings;
use group::spread::{
    HomeSays, InTheWay, Question, SliceRecord, SliceStanding, SpreadRecord, SpreadStanding, Who,
    home_says, in_the_way,
};

use super::{KeptError, MemberSettings};

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
        let state = match self.state() {
            Ok(state) => state,
            Err(error) => return Some(error.to_string()),
        };
        let spreads = state.spreads.values().filter_map(|record| record.as_ref().err());
        let slices = state.slices.values().filter_map(|record| record.as_ref().err());
        spreads.chain(slices).map(ToString::to_string).next()
    }

    /// What this member says of a slice of which another one asks whether it has its volume.
    pub(crate) fn says_of_slice(
        &self,
        question: &Question,
        who: Option<Who<'_>>,
        has_own_slice: bool,
    ) -> HomeSays {
        let state = self.state().ok();
        home_says(question, who, state.as_deref().map(|state| &state.spreads), has_own_slice)
    }

    /// What of spread volumes is in the way of a member that is to go.
    pub(crate) fn in_the_way(&self, member: MemberId, group: &GroupId) -> InTheWay {
        match self.state() {
            Ok(state) => in_the_way(member, group, (&state.spreads, &state.slices)),
            Err(error) => InTheWay { unread: Some(error.to_string()), ..InTheWay::default() },
        }
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
}
