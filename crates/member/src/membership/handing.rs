//! The names of volumes that move: whose each is, and how one member gives one to another.
//!
//! What is asked here has a time limit. Behind it the outcome is not known: whoever asked reads the claim, or writes it
//! anew, before he relies on anything.

use std::time::Duration;

use group::membership::{HandOver, Holder, MembershipError, MoveId, Roll};
use group::ownership::MemberId;

use super::joined::Joined;
use super::{GroupError, InGroup};

/// How long the store of the group is waited for.
const STORE_TIME: Duration = Duration::from_secs(15);

impl InGroup {
    /// The number of this member in its group.
    ///
    /// # Errors
    /// It is in none, or leaves it.
    pub(crate) fn me(&self) -> Result<MemberId, GroupError> {
        Ok(self.joined()?.me())
    }

    /// The group as it was heard of last.
    ///
    /// # Errors
    /// The member is in none, or nothing was heard of it since the start.
    pub(crate) fn roll_now(&self) -> Result<Roll, GroupError> {
        self.roll_here(&*self.joined()?)
    }

    /// Who has the name of a volume, as the store says now.
    ///
    /// # Errors
    /// The member is in no group, or the store does not answer.
    pub(crate) async fn holder_of(&self, name: &str) -> Result<Option<Holder>, GroupError> {
        self.ask_store(async |joined| joined.membership().holder_of(name).await).await
    }

    /// Gives the name of a volume of this member to another one, by the move of this number.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of): then it may have been given, or may be yet.
    pub(crate) async fn hand_over(
        &self,
        to: MemberId,
        name: &str,
        id: &MoveId,
    ) -> Result<HandOver, GroupError> {
        let give =
            async |joined: &Joined| joined.membership().hand_over(joined.me(), to, name, id).await;
        self.ask_store(give).await
    }

    /// Writes the claim of this member anew, so that no hand-over comes late. Says whether the name is still its own: if
    /// not, the move of this number has given it away.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of): then nothing is known.
    pub(crate) async fn keep_name(&self, name: &str, id: &MoveId) -> Result<bool, GroupError> {
        self.ask_store(async |joined| joined.membership().keep_name(joined.me(), name, id).await)
            .await
    }

    async fn ask_store<T>(
        &self,
        ask: impl AsyncFnOnce(&Joined) -> Result<T, MembershipError>,
    ) -> Result<T, GroupError> {
        let joined = self.joined()?;
        let asked = ring::timeout(STORE_TIME, joined.or_end(ask(&joined))).await;
        match asked {
            Some(Some(answer)) => Ok(answer?),
            // Whatever has ended it says why.
            Some(None) => Err(self.joined().err().unwrap_or(GroupError::Leaving)),
            None => Err(GroupError::StoreSlow { seconds: STORE_TIME.as_secs() }),
        }
    }
}
