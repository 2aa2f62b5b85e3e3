//! How the name of a volume passes from one member to another: its claim says whose the volume is, so this is the one
//! moment in which it changes hands.
//!
//! ```text
//!   claim of A ──── hand_over(id): the claim is as A read it, A and B are members ────▶ claim of B, moved by id
//!     │    ▲
//!     ╰────╯ keep_name: written anew, so that a hand-over that is under way finds another revision and does nothing
//!
//!   claim of B, moved by id ──── adopt_name(id): it is as B read it, B is a member ────▶ claim of B, adopted by id
//! ```
//!
//! That B has the volume is so written by B alone, before it serves that, and it is the only proof of it that a name
//! can give: whoever has a name by another move may have got another volume by that.

use super::change::TRIES;
use super::names::{NameClaim, is_member, name_key};
use super::{Membership, MembershipError, MoveId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::Setting;
use crate::store::{Compare, Op, Revision, Selection, Transaction};

/// So many moves of a volume are remembered with its name: the source of one looks within minutes, unless it is away.
const ADOPTED_MAX: usize = 8;

/// Whose a name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The member that has claimed it, or was given it.
    pub member: MemberId,
    /// As that member writes it.
    pub name: String,
    /// The move by which it was given, for as long as that member has it.
    pub moved: Option<MoveId>,
    /// The last moves whose destinations have had the volume of this name.
    pub adopted: Vec<MoveId>,
}

impl Holder {
    /// Whether this move has given the name to who has it.
    #[must_use]
    pub fn is_given_by(&self, id: &MoveId) -> bool {
        self.moved.as_ref() == Some(id)
    }

    /// Whether the destination of this move has had the volume, which may have passed on since. Of one that it had long
    /// ago this is not known any more.
    #[must_use]
    pub fn was_adopted_by(&self, id: &MoveId) -> bool {
        self.adopted.contains(id)
    }
}

/// What became of a name that was to be handed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandOver {
    /// It is the other member's.
    Done,
    /// It is not that of the member that was to give it.
    NotYours {
        /// Whose it is, by name; empty where it is nobody's.
        member_name: String,
    },
    /// One of the two is no member.
    NoMember,
}

impl Membership {
    /// Whose a name is, as the store says now.
    ///
    /// # Errors
    /// The store cannot be read, or the claim.
    pub async fn holder_of(&self, name: &str) -> Result<Option<Holder>, MembershipError> {
        Ok(self.claim_of(name).await?.map(|(claim, _)| claim.into()))
    }

    /// Gives a name from one member to another, by this move, if it is still the first one's when that is done.
    ///
    /// # Errors
    /// The store cannot be read, or others change the claim all the time. After [`MembershipError::Store`] it may have
    /// been done, or be done yet: [`keep_name`](Self::keep_name) makes certain of it.
    pub async fn hand_over(
        &self,
        from: MemberId,
        to: MemberId,
        name: &str,
        id: &MoveId,
    ) -> Result<HandOver, MembershipError> {
        for _ in 0..TRIES {
            let found = self.claim_of(name).await?;
            let (claim, revision) = match found {
                Some((claim, revision)) if claim.member == from => (claim, revision),
                // The answer of a try that was made before was lost.
                Some((claim, _)) if claim.member == to && claim.moved.as_ref() == Some(id) => {
                    return Ok(HandOver::Done);
                }
                Some((claim, _)) => {
                    let record = self.record_of(claim.member).await?;
                    let member_name = record.map(|record| record.name).unwrap_or_default();
                    return Ok(HandOver::NotYours { member_name });
                }
                None => return Ok(HandOver::NotYours { member_name: String::new() }),
            };
            let NameClaim { name: written, adopted, .. } = claim;
            let given = NameClaim { member: to, name: written, moved: Some(id.clone()), adopted };
            let mut compares = vec![is_member(from), is_member(to)];
            if !mutants::is(Mutant::HandOverBlind) {
                compares.push(Compare::unchanged(name_key(name), revision));
            }
            let put = vec![Op::put(name_key(name), given.encode())];
            if self.store.commit(Transaction::when(compares, put)).await?.succeeded {
                return Ok(HandOver::Done);
            }
            for member in [from, to] {
                if self.record_of(member).await?.is_none() {
                    return Ok(HandOver::NoMember);
                }
            }
        }
        Err(MembershipError::Contended)
    }

    /// Writes the claim of a member anew, as it is: a hand-over that was asked for before and comes late does nothing
    /// then. Says whether the name is this member's; it is not only where this move has given it away. A claim of who
    /// is no member any more, and was not given it by this move, is taken over: the member may have been that one.
    ///
    /// # Errors
    /// [`MembershipError::NameNotHeld`] of a name that is somebody else's by other ways, or nobody's: who was given the
    /// volume may have renamed it, and who was not may need it. Else the member is none, or as
    /// [`hand_over`](Self::hand_over). After an error nothing is certain.
    pub async fn keep_name(
        &self,
        member: MemberId,
        name: &str,
        id: &MoveId,
    ) -> Result<bool, MembershipError> {
        for _ in 0..TRIES {
            let not_held = || MembershipError::NameNotHeld(name.to_owned());
            let (claim, revision) = self.claim_of(name).await?.ok_or_else(not_held)?;
            if claim.member != member {
                if claim.moved.as_ref() == Some(id) {
                    return Ok(false);
                }
                if self.record_of(claim.member).await?.is_some() {
                    return Err(not_held());
                }
            }
            if mutants::is(Mutant::UndoUnfenced) {
                return Ok(true);
            }
            let (moved, adopted) = match claim.member == member {
                true => (claim.moved, claim.adopted),
                false => (None, Vec::new()),
            };
            let kept = NameClaim { member, name: name.to_owned(), moved, adopted };
            let compares = vec![is_member(member), Compare::unchanged(name_key(name), revision)];
            let put = vec![Op::put(name_key(name), kept.encode())];
            if self.store.commit(Transaction::when(compares, put)).await?.succeeded {
                return Ok(true);
            }
            if self.record_of(member).await?.is_none() {
                return Err(self.why_missing().await);
            }
        }
        Err(MembershipError::Contended)
    }

    /// Has the claim of a name that this move has given away say that its destination has the volume, and that it is
    /// this member: it may have another number than the name was given to. Whoever wants to take the name over from
    /// that one finds another revision, and a member that has it. Says whether the name is still given by this move:
    /// if it is not, the member must not serve the volume.
    ///
    /// # Errors
    /// [`MembershipError::VolumeNameTaken`] while the member that it was given to is another one, the member is none,
    /// or as [`hand_over`](Self::hand_over). After an error nothing is certain, and the volume must not be served.
    pub async fn adopt_name(
        &self,
        member: MemberId,
        name: &str,
        id: &MoveId,
    ) -> Result<bool, MembershipError> {
        for _ in 0..TRIES {
            let Some((claim, revision)) = self.claim_of(name).await? else { return Ok(false) };
            if claim.moved.as_ref() != Some(id) {
                return Ok(false);
            }
            if claim.member != member
                && let Some(record) = self.record_of(claim.member).await?
            {
                let (name, member_name) = (claim.name, record.name);
                return Err(MembershipError::VolumeNameTaken { name, member_name });
            }
            let mut adopted = claim.adopted;
            adopted.retain(|former| former != id);
            adopted.push(id.clone());
            adopted.drain(..adopted.len().saturating_sub(ADOPTED_MAX));
            let own = NameClaim { member, name: claim.name, moved: claim.moved, adopted };
            let mut compares = vec![is_member(member)];
            if !mutants::is(Mutant::AdoptBlind) {
                compares.push(Compare::unchanged(name_key(name), revision));
            }
            let put = vec![Op::put(name_key(name), own.encode())];
            if self.store.commit(Transaction::when(compares, put)).await?.succeeded {
                return Ok(true);
            }
            if self.record_of(member).await?.is_none() {
                return Err(self.why_missing().await);
            }
        }
        Err(MembershipError::Contended)
    }

    async fn claim_of(&self, name: &str) -> Result<Option<(NameClaim, Revision)>, MembershipError> {
        let found = self.store.range(Selection::key(name_key(name))).await?;
        let Some(kv) = found.kvs.first() else { return Ok(None) };
        Ok(Some((NameClaim::decode(&kv.value)?, kv.mod_revision)))
    }
}

impl From<NameClaim> for Holder {
    fn from(claim: NameClaim) -> Self {
        let NameClaim { member, name, moved, adopted } = claim;
        Self { member, name, moved, adopted }
    }
}
