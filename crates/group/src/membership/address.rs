//! Which address the group has, and which member has that: whoever wrote the one key of it, for as long as it goes on to
//! write it. Nothing else frees it: not that its holder was removed, nor that the group has another address.

use std::time::Duration;

use super::names::is_member;
use super::roll::HOLDER;
use super::{Membership, MembershipError, Roll, rules};
use crate::address::GroupAddress;
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::store::{Compare, KeyValue, Op, Property, Revision, Selection, Transaction};

/// By so much later than the one before it each member tries to take an address that nobody has.
const TURN: Duration = Duration::from_millis(500);

/// What lies under the key of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressHolder {
    /// Who has written it; `None` where that does not read.
    pub member: Option<MemberId>,
    /// The revision in which it was written last.
    pub revision: Revision,
}

impl AddressHolder {
    pub(super) fn read(kv: &KeyValue) -> Self {
        let text = std::str::from_utf8(&kv.value).ok();
        let number = text.and_then(|text| text.split(' ').next()?.parse().ok());
        Self { member: number.map(MemberId), revision: kv.mod_revision }
    }
}

/// The hold of a member on the address, from the moment in which it takes the key until it leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressHold {
    /// Whose it is.
    pub member: MemberId,
    /// A random number by which it differs from each other hold of that member.
    pub nonce: u64,
}

impl AddressHold {
    fn value(self) -> Vec<u8> {
        format!("{} {:016x}", self.member.0, self.nonce).into_bytes()
    }

    fn put(self) -> Op {
        Op::put(HOLDER, self.value())
    }

    fn is_there(self) -> Compare {
        Compare::equal(HOLDER, Property::Value(self.value()))
    }
}

impl Membership {
    /// The group has this address from now on, or none. `is_here` says whether the member that asks has an interface in
    /// its network.
    ///
    /// # Errors
    /// It is that of a member, or no member is in its network.
    pub async fn set_address(
        &self,
        address: Option<GroupAddress>,
        is_here: bool,
    ) -> Result<(), MembershipError> {
        self.change(|roll| rules::set_address(roll, address, is_here)).await?;
        Ok(())
    }

    /// Takes the key of the address if it was not written since that revision; `None` is a key that is not there. Says
    /// whether it has.
    ///
    /// # Errors
    /// The store does not do it, or does not say whether it has: the hold is to be left then.
    pub async fn take_address(
        &self,
        hold: AddressHold,
        found: Option<Revision>,
    ) -> Result<bool, MembershipError> {
        let mut compares = vec![is_member(hold.member)];
        if !mutants::is(Mutant::AddressTwice) {
            compares.push(Compare::unchanged(HOLDER, found.unwrap_or(0)));
        }
        Ok(self.store.commit(Transaction::when(compares, vec![hold.put()])).await?.succeeded)
    }

    /// Writes the key once more, for others to see that the hold goes on. Says whether it does: not where it was taken
    /// by another one, or the member was removed.
    ///
    /// # Errors
    /// The store does not answer: whether it does is not known.
    pub async fn keep_address(&self, hold: AddressHold) -> Result<bool, MembershipError> {
        let compares = vec![is_member(hold.member), hold.is_there()];
        Ok(self.store.commit(Transaction::when(compares, vec![hold.put()])).await?.succeeded)
    }

    /// Leaves the key to others at once. For who has nothing on an interface any more.
    ///
    /// # Errors
    /// The store does not answer: others have to wait until they have seen nothing of the hold for a while.
    pub async fn leave_address(&self, hold: AddressHold) -> Result<(), MembershipError> {
        let gone = vec![Op::Delete(Selection::key(HOLDER))];
        self.store.commit(Transaction::when(vec![hold.is_there()], gone)).await?;
        Ok(())
    }
}

impl Roll {
    /// How long a member waits until it tries to take the address, once nobody has it: the present ones try one after
    /// the other, so that not all of them ask at once, and those that cannot have it are passed over.
    #[must_use]
    pub fn turn_of(&self, member: MemberId) -> Duration {
        let before = self.members.range(..member).filter(|(id, _)| self.is_present(**id)).count();
        TURN.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX))
    }

    /// The name of a member that has told of a portal of its own at the address of the group.
    #[must_use]
    pub fn portal_at_address(&self) -> Option<&str> {
        let ip = self.address?.ip();
        let is_there = |number: &MemberId| {
            let portals = self.inventories.get(number).map(|inventory| &inventory.portals);
            portals.into_iter().flatten().any(|portal| portal.ip().to_canonical() == ip)
        };
        let found = self.members.iter().find(|(number, _)| is_there(number));
        found.map(|(_, record)| record.name.as_str())
    }
}
