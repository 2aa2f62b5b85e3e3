//! The members of a group, as all of them see it: who they are, in which pools, what lets further ones join, who is
//! alive, and what each serves.
//!
//! All of it lies in one store under `group/`: the head of `roll.rs` has the keys, and what always holds of them.
//! [`Roll`] is what lies there at one revision, which a watch keeps up to date; [`Membership`] changes it. A change
//! looks at all, decides, and is committed only if nobody changed the group meanwhile, else it begins anew: so two
//! servers that join at the same moment do not get one number, one name or one address, and one token lets in one
//! server.
//!
//! What a member says of itself, that it is alive and what it serves, goes beside that: only the member writes it, and
//! only while its record is there. Who was removed does not come back by a request that was under way.
//!
//! Five things are built on it: names of volumes, each of which one member [claims](Membership::claim_names),
//! [where a new volume is made](place), volumes that [move](Membership::hand_over) to another member, snapshots of one
//! moment of several members, which are [decided](Membership::decide_set) about once, and the address of the group, which
//! one member [has](Membership::take_address).

mod address;
mod applicant;
mod change;
mod connections;
mod error;
mod guard;
mod handing;
mod identity;
mod names;
mod pace;
mod placement;
mod record;
mod roll;
mod rules;
mod sets;

use std::sync::Arc;
use std::time::Duration;

use crate::accounts::{TokenHash, TokenText};
use crate::ownership::MemberId;
use crate::record::Setting;
use crate::store::{
    Compare, LeaseId, Op, Order, Property, Revision, Selection, Store, TRANSACTION_BYTES_MAX,
    Transaction, Watch,
};
use change::{TRIES, decided};
use roll::{PREFIX, inventory_key, is_token_id, member_key, present_key, token_key};
use rules::ShownToken;

pub use address::{AddressHold, AddressHolder};
pub use applicant::{
    Applicant, CARRIED_BEHIND, PORT_MAX, PORTS, SLICES_BEHIND, check_name, check_place,
};
pub use connections::is_routine;
pub use error::MembershipError;
pub use guard::Guard;
pub use handing::{HandOver, Holder};
pub use identity::{
    GroupId, GroupIdError, MoveId, MoveIdError, SetId, SetIdError, SliceId, SliceIdError, SpreadId,
    SpreadIdError,
};
pub use names::folded;
pub use pace::pause_behind;
pub use placement::{PlacementError, Wanted, place};
pub use record::{
    About, Inventory, JoinToken, ListedMove, ListedSpread, ListedVolume, MemberRecord, NamesUsed,
    Pool, Shown,
};
pub use roll::Roll;
pub use sets::{SetRecord, Verdict};

/// Members of a group, at most.
pub const MEMBERS_MAX: usize = 64;

/// Pools that a group has beside [`DEFAULT_POOL`], at most: each member may be in one of its own.
pub const POOLS_MAX: usize = 64;

/// The pool of all members that are in no other one. It is always there.
pub const DEFAULT_POOL: &str = "default";

/// Tokens to join with, at most.
pub const TOKENS_MAX: usize = 64;

/// The first port of a member where nobody chooses another one.
pub const PORT: u16 = 3262;

/// What a member can say of what it serves, in bytes: one transaction, which has two keys besides.
const INVENTORY_BYTES_MAX: usize = TRANSACTION_BYTES_MAX - 1024;

/// The longest life of a token to join with: who finds an old one lying about is not let in by it.
pub const LIFETIME_DAYS_MAX: u64 = 7;

/// A group in a store, and its members. Clones are the same.
#[derive(Clone)]
pub struct Membership {
    store: Arc<dyn Store>,
}

impl Membership {
    /// That in this store.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The group as it is now.
    ///
    /// # Errors
    /// The store cannot be read, or something that is in it.
    pub async fn read(&self) -> Result<Roll, MembershipError> {
        Roll::of(&self.store.range(Selection::prefix(PREFIX)).await?)
    }

    /// What changes of it, for [`Roll::hear`]: from the revision behind that of a roll on.
    pub fn watch(&self, from: Revision) -> Watch {
        self.store.watch(Selection::prefix(PREFIX), from)
    }

    /// Makes a group, where there is none, whose only member is the founder.
    ///
    /// # Errors
    /// There is a group, or one of the names, the address or the port cannot be one.
    pub async fn found(
        &self,
        name: &str,
        id: GroupId,
        founder: Applicant,
        now_unix_seconds: u64,
    ) -> Result<MemberId, MembershipError> {
        let found = |roll: &mut Roll| rules::found(roll, name, &id, &founder, now_unix_seconds);
        Ok(self.change(found).await?.0)
    }

    /// Gives the group another name.
    ///
    /// # Errors
    /// The name cannot be one.
    pub async fn rename(&self, name: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::rename(roll, name)).await?;
        Ok(())
    }

    /// Makes a token that lets one server join: its identifier, its secret, and what is kept of it.
    ///
    /// # Errors
    /// It would be worth nothing, or for too long, or there are too many.
    pub async fn create_token(
        &self,
        lifetime: Duration,
        now_unix_seconds: u64,
    ) -> Result<(String, TokenText, JoinToken), MembershipError> {
        let seconds = lifetime.as_secs();
        if !(1..=LIFETIME_DAYS_MAX * 24 * 60 * 60).contains(&seconds) {
            return Err(MembershipError::Lifetime);
        }
        // Drawn once: a change that begins anew makes no second token.
        let id = format!("{:08x}", getrandom::u32()?);
        let secret = TokenText::draw()?;
        let token = JoinToken {
            hash: TokenHash::of(secret.as_str()),
            created_unix_seconds: now_unix_seconds,
            expires_unix_seconds: now_unix_seconds.saturating_add(seconds),
        };
        self.change(|roll| rules::add_token(roll, &id, &token)).await?;
        Ok((id, secret, token))
    }

    /// Makes a token worthless.
    ///
    /// # Errors
    /// There is none of this identifier.
    pub async fn revoke_token(&self, id: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::revoke_token(roll, id)).await?;
        Ok(())
    }

    /// Whether [`admit`](Self::admit) would let this applicant in, and as which member; nothing changes. Its
    /// certificate is not looked at: it is issued to who passes here. Others may come between, so `admit` judges again.
    ///
    /// # Errors
    /// As [`admit`](Self::admit).
    pub async fn judge(
        &self,
        id: &str,
        secret: &str,
        applicant: &Applicant,
        now_unix_seconds: u64,
    ) -> Result<MemberId, MembershipError> {
        let shown = self.vet(id, secret, now_unix_seconds).await?;
        let admit = |roll: &mut Roll| rules::admit(roll, &shown, applicant, now_unix_seconds);
        let (_, number) = decided(&self.read().await?, &admit)?;
        Ok(number)
    }

    /// Lets a server in, in exchange for a token, which is worth nothing from then on. A member of the same name and
    /// array that was admitted before and never entered goes: it is the same server, which has not heard of that.
    ///
    /// # Errors
    /// The token, which is judged first and alone, the applicant, or what the other members have says no.
    pub async fn admit(
        &self,
        id: &str,
        secret: &str,
        applicant: Applicant,
        now_unix_seconds: u64,
    ) -> Result<(MemberId, Roll), MembershipError> {
        let shown = self.vet(id, secret, now_unix_seconds).await?;
        let admit = |roll: &mut Roll| rules::admit(roll, &shown, &applicant, now_unix_seconds);
        self.change(admit).await
    }

    /// What an applicant shows, if it lets somebody in as things are. Who shows rubbish costs the store nothing, and
    /// who shows a token that is worth nothing one key, and not the whole group.
    async fn vet<'a>(
        &self,
        id: &'a str,
        secret: &str,
        now_unix_seconds: u64,
    ) -> Result<ShownToken<'a>, MembershipError> {
        if !is_token_id(id) || secret.len() != TokenText::BYTES {
            return Err(MembershipError::Token);
        }
        let shown = ShownToken { id, hash: TokenHash::of(secret) };
        let found = self.store.range(Selection::key(token_key(id))).await?;
        let token = found.kvs.first().map(|kv| JoinToken::decode(&kv.value)).transpose()?;
        if rules::is_good(token.as_ref(), &shown, now_unix_seconds) {
            Ok(shown)
        } else {
            Err(MembershipError::Token)
        }
    }

    /// A member begins a life, whose number it has drawn, in this version of drystone.
    ///
    /// # Errors
    /// [`MembershipError::Removed`] for who is no member any more, [`MembershipError::NoGroup`] where there never was
    /// one.
    pub async fn enter(
        &self,
        member: MemberId,
        incarnation: u64,
        version: &str,
    ) -> Result<(), MembershipError> {
        let enter = |roll: &mut Roll| rules::enter(roll, member, incarnation, version);
        self.change(enter).await?;
        Ok(())
    }

    /// Ends a membership, whether the member is alive or not. Its number is not given again.
    ///
    /// # Errors
    /// There is no such member, or it is the last one.
    pub async fn remove(&self, name: &str) -> Result<MemberId, MembershipError> {
        Ok(self.change(|roll| rules::remove(roll, name)).await?.0)
    }

    /// Makes a pool that has no members yet.
    ///
    /// # Errors
    /// The name cannot be one, a pool has it, or there are too many.
    pub async fn create_pool(&self, name: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::create_pool(roll, name)).await?;
        Ok(())
    }

    /// Deletes a pool that has no members.
    ///
    /// # Errors
    /// There is no such pool, it has members, or it is the default one.
    pub async fn delete_pool(&self, name: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::delete_pool(roll, name)).await?;
        Ok(())
    }

    /// Moves all members of a pool to another one, and deletes it. Volumes stay where they are.
    ///
    /// # Errors
    /// One of them is no pool, both are the same, or the first is the default one.
    pub async fn merge_pool(&self, from: &str, into: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::merge_pool(roll, from, into)).await?;
        Ok(())
    }

    /// Moves a member from the pool that it is in to another one. Its volumes stay on it.
    ///
    /// # Errors
    /// There is no such member or no such pool.
    pub async fn move_member(&self, name: &str, pool: &str) -> Result<(), MembershipError> {
        self.change(|roll| rules::move_member(roll, name, pool)).await?;
        Ok(())
    }

    /// Ends the group.
    ///
    /// # Errors
    /// It has more members than one.
    pub async fn delete(&self) -> Result<(), MembershipError> {
        self.change(rules::delete).await?;
        Ok(())
    }

    /// A member gives a sign of life, for as long as its lease lasts.
    ///
    /// # Errors
    /// As [`enter`](Self::enter), and [`MembershipError::OtherLife`] for another life than the one that was entered
    /// last: what a former one has sent late does not speak for the member.
    pub async fn appear(
        &self,
        member: MemberId,
        incarnation: u64,
        lease: LeaseId,
    ) -> Result<(), MembershipError> {
        for _ in 0..TRIES {
            let found = self.store.range(Selection::key(member_key(member))).await?;
            let Some(kv) = found.kvs.first() else { return Err(self.why_missing().await) };
            if MemberRecord::decode(&kv.value)?.incarnation != incarnation {
                return Err(MembershipError::OtherLife);
            }
            let same = Compare::unchanged(member_key(member), kv.mod_revision);
            let (key, value) = (present_key(member).into(), incarnation.to_string().into());
            let put = Op::Put { key, value, lease: Some(lease) };
            if self.store.commit(Transaction::when(vec![same], vec![put])).await?.succeeded {
                return Ok(());
            }
        }
        Err(MembershipError::Contended)
    }

    /// A member says what it serves. Of thousands of volumes with long access lists it says all but whom they are
    /// [shown](ListedVolume::shown) to. Answers how many bytes that took.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub async fn publish(
        &self,
        member: MemberId,
        inventory: &Inventory,
    ) -> Result<usize, MembershipError> {
        let is_member = Compare {
            key: member_key(member).into(),
            order: Order::Greater,
            property: Property::Create(0),
        };
        let value = inventory.encode_within(INVENTORY_BYTES_MAX);
        let bytes = value.len();
        let put = Op::put(inventory_key(member), value);
        if self.store.commit(Transaction::when(vec![is_member], vec![put])).await?.succeeded {
            return Ok(bytes);
        }
        Err(self.why_missing().await)
    }

    async fn why_missing(&self) -> MembershipError {
        match self.read().await {
            Ok(roll) => roll.missing(),
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests;
