//! The names of volumes that move: whose each is, and how one member gives one to another.
//!
//! What is asked here has a time limit. Behind it the outcome is not known: whoever asked reads the claim, or writes it
//! anew, before he relies on anything.

use std::net::SocketAddr;
use std::time::Duration;

use group::membership::{GroupId, HandOver, Holder, MembershipError, MoveId, Roll, SLICES_BEHIND};
use group::ownership::MemberId;

use super::joined::Joined;
use super::{GroupError, InGroup, Standing};

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

    /// The group that this member is in; `None` where it is in none.
    ///
    /// # Errors
    /// It leaves its group, or does not know enough of it.
    pub(crate) fn group_id(&self) -> Result<Option<GroupId>, GroupError> {
        match &*self.standing.borrow() {
            Standing::Alone => Ok(None),
            Standing::Broken(why) => Err(GroupError::Broken(why.clone())),
            Standing::In(joined) if joined.is_leaving() => Err(GroupError::Leaving),
            Standing::In(joined) => Ok(Some(joined.file().group.clone())),
        }
    }

    /// Who this member is in which group, also while it stops; `None` where it is in none, leaves it, or has another array
    /// than the group knows it by, as far as something was heard of that.
    pub(crate) fn who(&self) -> Option<(GroupId, MemberId)> {
        let joined = self.in_one().filter(|joined| !joined.is_leaving())?;
        if self.runs_another_array(&joined) {
            return None;
        }
        let file = joined.file();
        Some((file.group.clone(), file.member))
    }

    /// Where this member serves slices to others, if it is in a group.
    pub(crate) fn slices_address(&self) -> Option<SocketAddr> {
        let door = self.in_one()?.file().door();
        Some(SocketAddr::new(door.ip(), door.port().checked_add(SLICES_BEHIND)?))
    }

    /// Whether this is a member, as the store says now.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of).
    pub(crate) async fn is_member(&self, member: MemberId) -> Result<bool, GroupError> {
        self.ask_store(async |joined| joined.membership().is_member(member).await).await
    }

    /// The group as it was heard of last.
    ///
    /// # Errors
    /// The member is in none, or nothing was heard of it since the start.
    pub(crate) fn roll_now(&self) -> Result<Roll, GroupError> {
        self.roll_here(&*self.joined()?)
    }

    /// The group as its store says that it is now.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of).
    pub(crate) async fn roll_read(&self) -> Result<Roll, GroupError> {
        self.ask_store(async |joined| joined.read_roll().await).await
    }

    /// Who has the name of a volume, as the store says now.
    ///
    /// # Errors
    /// The member is in no group, or the store does not answer.
    pub(crate) async fn holder_of(&self, name: &str) -> Result<Option<Holder>, GroupError> {
        self.ask_store(async |joined| joined.membership().holder_of(name).await).await
    }

    /// Gives the name of a volume of this member to another one of its group, by the move of this number.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of): then it may have been given, or may be yet.
    pub(crate) async fn hand_over(
        &self,
        (group, to): (&GroupId, MemberId),
        name: &str,
        id: &MoveId,
    ) -> Result<HandOver, GroupError> {
        let give =
            async |joined: &Joined| joined.membership().hand_over(joined.me(), to, name, id).await;
        self.ask_store_of(Some(group), give).await
    }

    /// Writes the claim of this member anew, so that no hand-over comes late. Says whether the name is still its own: if
    /// not, the move of this number has given it away.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of): then nothing is known.
    pub(crate) async fn keep_name(
        &self,
        group: &GroupId,
        name: &str,
        id: &MoveId,
    ) -> Result<bool, GroupError> {
        let keep =
            async |joined: &Joined| joined.membership().keep_name(joined.me(), name, id).await;
        self.ask_store_of(Some(group), keep).await
    }

    /// Has the claim of a name say that this member has the volume that the move of this number has brought, and says
    /// who this member is there. `None` where the name is not given by that move any more: the volume must not be
    /// served.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of), or the member that it was given to is another one: then nothing is known.
    pub(crate) async fn adopt_name(
        &self,
        group: &GroupId,
        name: &str,
        id: &MoveId,
    ) -> Result<Option<MemberId>, GroupError> {
        let adopt = async |joined: &Joined| {
            let me = joined.me();
            Ok(joined.membership().adopt_name(me, name, id).await?.then_some(me))
        };
        self.ask_store_of(Some(group), adopt).await
    }

    /// Gives the name back that the move of this number has given to this member, if it has and that is so still, with
    /// all that its claim says of the volume.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of): then it may not be given back.
    pub(crate) async fn give_back_given(
        &self,
        group: &GroupId,
        name: &str,
        id: &MoveId,
    ) -> Result<(), GroupError> {
        let give_back = async |joined: &Joined| {
            let (membership, me) = (joined.membership(), joined.me());
            let holder = membership.holder_of(name).await?;
            match holder {
                // As it is written there.
                Some(holder) if holder.member == me && holder.is_given_by(id) => {
                    self.naming.give_back_given(membership, me, &holder.name).await
                }
                _ => Ok(()),
            }
        };
        self.ask_store_of(Some(group), give_back).await
    }

    /// Takes a name for this member, of whoever has it and is no member any more, and says who this member is there.
    /// Nobody is given it by a move then.
    ///
    /// # Errors
    /// As [`holder_of`](Self::holder_of), or another member has it.
    pub(crate) async fn take_name(
        &self,
        group: &GroupId,
        name: &str,
    ) -> Result<MemberId, GroupError> {
        let take = async |joined: &Joined| {
            joined.membership().claim_names(joined.me(), &[name.to_owned()]).await?;
            Ok(joined.me())
        };
        self.ask_store_of(Some(group), take).await
    }

    async fn ask_store<T>(
        &self,
        ask: impl AsyncFnOnce(&Joined) -> Result<T, MembershipError>,
    ) -> Result<T, GroupError> {
        self.ask_store_of(None, ask).await
    }

    /// The same of the store of this group: the member may be in another one by now.
    pub(super) async fn ask_store_of<T>(
        &self,
        group: Option<&GroupId>,
        ask: impl AsyncFnOnce(&Joined) -> Result<T, MembershipError>,
    ) -> Result<T, GroupError> {
        let joined = self.joined()?;
        if group.is_some_and(|group| *group != joined.file().group) {
            return Err(GroupError::NotInGroup);
        }
        let asked = ring::timeout(STORE_TIME, joined.or_end(ask(&joined))).await;
        match asked {
            Some(Some(answer)) => Ok(answer?),
            // Whatever has ended it says why.
            Some(None) => Err(self.joined().err().unwrap_or(GroupError::Leaving)),
            None => Err(GroupError::StoreSlow { seconds: STORE_TIME.as_secs() }),
        }
    }
}
