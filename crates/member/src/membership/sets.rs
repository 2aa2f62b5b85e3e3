//! What the store of the group says of sets of snapshots. What is asked here has the time limit of
//! [`handing`](super::handing): behind it the outcome is not known, and whoever asked looks again.

use group::membership::{GroupId, SetId, SetRecord, Verdict};

use super::joined::Joined;
use super::{GroupError, InGroup};

impl InGroup {
    /// What was decided about a set, as the store says now.
    ///
    /// # Errors
    /// The member is not in this group, or the store does not answer.
    pub(crate) async fn set_record(
        &self,
        group: &GroupId,
        id: &SetId,
    ) -> Result<Option<SetRecord>, GroupError> {
        let read = async |joined: &Joined| joined.membership().set_record(id).await;
        self.ask_store_of(Some(group), read).await
    }

    /// Decides about a set of which nothing is decided yet, and says what counts.
    ///
    /// # Errors
    /// As [`set_record`](Self::set_record): then it may be decided so, or be yet.
    pub(crate) async fn decide_set(
        &self,
        group: &GroupId,
        id: &SetId,
        record: &SetRecord,
    ) -> Result<Verdict, GroupError> {
        let decide =
            async |joined: &Joined| joined.membership().decide_set(joined.me(), id, record).await;
        self.ask_store_of(Some(group), decide).await
    }

    /// This member has settled a set.
    ///
    /// # Errors
    /// As [`set_record`](Self::set_record).
    pub(crate) async fn leave_set(&self, group: &GroupId, id: &SetId) -> Result<(), GroupError> {
        let leave = async |joined: &Joined| joined.membership().leave_set(joined.me(), id).await;
        self.ask_store_of(Some(group), leave).await
    }

    /// The sets that nobody settles any more, or that this member has to if it has stored nothing of them.
    ///
    /// # Errors
    /// As [`set_record`](Self::set_record).
    pub(crate) async fn sets_left(&self, group: &GroupId) -> Result<Vec<SetId>, GroupError> {
        let read = async |joined: &Joined| joined.membership().sets_left(joined.me()).await;
        self.ask_store_of(Some(group), read).await
    }
}
