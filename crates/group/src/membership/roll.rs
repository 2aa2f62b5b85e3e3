//! The group at one revision, as it is read from the store.
//!
//! | key | what | written by |
//! |---|---|---|
//! | `group/guard` | changes with every change of the next six ([`Guard`]) | whoever makes one, which compares it |
//! | `group/about` | the group itself ([`About`]) | changes |
//! | `group/members/` and a number | a member ([`MemberRecord`]) | changes |
//! | `group/tokens/` and an identifier | what lets one server join ([`JoinToken`]) | changes |
//! | `group/pools/` and a name | members among which volumes are spread ([`Pool`]) | changes |
//! | `group/address` | the address of the group ([`GroupAddress`]) | changes |
//! | `group/limits` | how many connections the group and its pools take ([`ConnectionLimits`]); no limit where it is not there | changes |
//! | `group/holder` | the member that has that address, written again every two seconds ([`AddressHolder`]) | that member |
//! | `group/present/` and a number | the start of the member that is alive, under its lease | that member |
//! | `group/connections/` and a number | how many connections hosts have to the member, under its lease | that member |
//! | `group/inventory/` and a number | what the member serves ([`Inventory`]) | that member |
//! | `group/sets/` and an identifier | what was decided about a set of snapshots ([`sets`](super::sets)), which is no part of the roll | members that take part in it |
//!
//! Numbers have five decimal digits, identifiers of tokens eight hexadecimal ones. Keys of other names are of later
//! versions, and passed by. Names of volumes lie beside all this and are no part of it ([`names`](super::names)).
//!
//! Numbered, for all that lies there ([`Roll::check`]):
//! 1. Where there is no group, there are no members, no tokens, no pools, no address and no limits; where there is one, it has 1 to
//!    [`MEMBERS_MAX`] members.
//! 2. No member has a number above the highest that was ever given, and none has 0.
//! 3. Names of members differ, whatever the case of their letters; so do their arrays.
//! 4. No two members want one port of one address, and each has room for all of its ports but the last: members had
//!    one less, and those of that time stay.
//! 5. There are at most [`TOKENS_MAX`] tokens.
//! 6. Who is present, or says what it serves or how many connections it has, is a member.
//! 7. There are at most [`POOLS_MAX`] pools, whose names differ, whatever the case of their letters, and none is called
//!    as [`DEFAULT_POOL`]: that is the pool of all who are in no other one, and has no key.
//! 8. Who is in a pool is a member, and in no other pool.
//!
//! What a member says of itself concerns that member alone: where it does not read, as what a later version wrote, or
//! is of one that is none, nothing was said, and all else counts. So it is with who is no member and in a pool: an
//! earlier version, which knows no pools, has removed it. Whatever else changes write must read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::address::AddressHolder;
use super::applicant::{check_name, check_place_before, overlap_before};
use super::guard::Guard;
use super::{
    About, DEFAULT_POOL, Inventory, JoinToken, MEMBERS_MAX, MemberRecord, MembershipError,
    POOLS_MAX, Pool, TOKENS_MAX,
};
use crate::address::{AddressRecord, GroupAddress};
use crate::connections::{ConnectionCount, ConnectionLimits};
use crate::ownership::MemberId;
use crate::record::Setting;
use crate::store::{Batch, Event, KeyValue, Range, Revision};

/// How all keys of the group begin.
pub(super) const PREFIX: &str = "group/";
pub(super) const GUARD: &str = "group/guard";
pub(super) const ABOUT: &str = "group/about";
pub(super) const ADDRESS: &str = "group/address";
pub(super) const HOLDER: &str = "group/holder";
pub(super) const LIMITS: &str = "group/limits";
const MEMBERS: &str = "group/members/";
const TOKENS: &str = "group/tokens/";
const POOLS: &str = "group/pools/";
const PRESENT: &str = "group/present/";
const INVENTORIES: &str = "group/inventory/";
pub(super) const CONNECTIONS: &str = "group/connections/";
pub(super) const SETS: &str = "group/sets/";

/// How the keys of claimed names begin, which are no part of the roll.
pub(super) const NAMES: &str = "names/";

const NUMBER_DIGITS: usize = 5;
const TOKEN_ID_DIGITS: usize = 8;

pub(super) fn member_key(member: MemberId) -> String {
    format!("{MEMBERS}{:05}", member.0)
}

pub(super) fn token_key(id: &str) -> String {
    format!("{TOKENS}{id}")
}

pub(super) fn pool_key(name: &str) -> String {
    format!("{POOLS}{name}")
}

pub(super) fn present_key(member: MemberId) -> String {
    format!("{PRESENT}{:05}", member.0)
}

pub(super) fn inventory_key(member: MemberId) -> String {
    format!("{INVENTORIES}{:05}", member.0)
}

pub(super) fn connections_key(member: MemberId) -> String {
    format!("{CONNECTIONS}{:05}", member.0)
}

/// The group at one revision of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roll {
    /// The group itself; `None` where there is none.
    pub about: Option<About>,
    /// Its members.
    pub members: BTreeMap<MemberId, MemberRecord>,
    /// What lets servers join, by identifier; those that have expired may be among them.
    pub tokens: BTreeMap<String, JoinToken>,
    /// Pools but for the default one, by name.
    pub pools: BTreeMap<String, Pool>,
    /// The address of the group; `None` where it has none.
    pub address: Option<GroupAddress>,
    /// Which member has that, or is about to put it on an interface or to take it away there.
    pub holder: Option<AddressHolder>,
    /// How many connections the group and its pools take.
    pub limits: ConnectionLimits,
    /// Which start of each member gives signs of life.
    pub present: BTreeMap<MemberId, u64>,
    /// What members serve, as they have said it. Clones of a roll share it: it may be of thousands of volumes.
    pub inventories: BTreeMap<MemberId, Arc<Inventory>>,
    /// How many connections hosts have to members, as they have told it.
    pub connections: BTreeMap<MemberId, u32>,
    /// The revision of the store.
    pub revision: Revision,
    /// What a change compares.
    pub guard: Guard,
}

impl Roll {
    /// What lies below `group/`, all of which the range has.
    ///
    /// # Errors
    /// Something of it cannot be read that a change has written.
    pub fn of(range: &Range) -> Result<Self, MembershipError> {
        let mut roll = Self { revision: range.revision, ..Self::default() };
        for kv in &range.kvs {
            roll.apply(Item::read(&kv.key, Some(kv))?);
        }
        roll.pass_strangers_by();
        Ok(roll)
    }

    /// Follows what a watch says. What is of the roll's own revision, or before, it has heard already.
    ///
    /// # Errors
    /// Something of it cannot be read that a change has written: nothing of the batch is taken, and the roll is to be
    /// read anew.
    pub fn hear(&mut self, batch: &Batch) -> Result<(), MembershipError> {
        if batch.revision <= self.revision {
            return Ok(());
        }
        let items = batch.events.iter().map(|event| match event {
            Event::Put(kv) => Item::read(&kv.key, Some(kv)),
            Event::Delete { key, .. } => Item::read(key, None),
        });
        let items: Vec<Item> = items.collect::<Result<_, _>>()?;
        for item in items {
            self.apply(item);
        }
        self.pass_strangers_by();
        self.revision = batch.revision;
        Ok(())
    }

    /// What is said of who is no member was not said.
    fn pass_strangers_by(&mut self) {
        let Self { members, pools, present, inventories, connections, .. } = self;
        present.retain(|number, _| members.contains_key(number));
        inventories.retain(|number, _| members.contains_key(number));
        connections.retain(|number, _| members.contains_key(number));
        for pool in pools.values_mut() {
            pool.members.retain(|number| members.contains_key(number));
        }
    }

    fn apply(&mut self, item: Item) {
        match item {
            Item::Guard(guard) => self.guard = guard,
            Item::About(about) => self.about = about,
            Item::Member(number, record) => set(&mut self.members, number, record),
            Item::Token(id, token) => set(&mut self.tokens, id, token),
            Item::Pool(name, pool) => set(&mut self.pools, name, pool),
            Item::Address(address) => self.address = address,
            Item::Holder(holder) => self.holder = holder,
            Item::Limits(limits) => self.limits = limits.unwrap_or_default(),
            Item::Present(number, incarnation) => set(&mut self.present, number, incarnation),
            Item::Inventory(number, inventory) => {
                set(&mut self.inventories, number, inventory.map(Arc::new));
            }
            Item::Connections(number, count) => set(&mut self.connections, number, count),
            Item::Later => {}
        }
    }

    /// The member of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(MemberId, &MemberRecord)> {
        let found = self.members.iter().find(|(_, record)| record.name == name);
        found.map(|(number, record)| (*number, record))
    }

    /// Whether the member gives signs of life, by the start of it that was entered last.
    #[must_use]
    pub fn is_present(&self, member: MemberId) -> bool {
        let entered = self.members.get(&member).map(|record| record.incarnation);
        let seen = self.present.get(&member).copied();
        entered.is_some_and(|incarnation| incarnation != 0) && entered == seen
    }

    /// The pool that the member is in.
    #[must_use]
    pub fn pool_of(&self, member: MemberId) -> &str {
        let found = self.pools.iter().find(|(_, pool)| pool.members.contains(&member));
        found.map_or(DEFAULT_POOL, |(name, _)| name.as_str())
    }

    /// Who is in the pool of this name; `None` where there is no such pool.
    #[must_use]
    pub fn members_of_pool(&self, name: &str) -> Option<Vec<MemberId>> {
        if name == DEFAULT_POOL {
            let is_in = |number: &MemberId| self.pool_of(*number) == DEFAULT_POOL;
            return Some(self.members.keys().copied().filter(is_in).collect());
        }
        self.pools.get(name).map(|pool| pool.members.iter().copied().collect())
    }

    /// The names of all pools, the default one first.
    #[must_use]
    pub fn pool_names(&self) -> Vec<&str> {
        let kept = self.pools.keys().map(String::as_str);
        std::iter::once(DEFAULT_POOL).chain(kept).collect()
    }

    /// Asserts all that the head of this file numbers.
    ///
    /// # Panics
    /// Something of it does not hold.
    pub fn check(&self) {
        assert_eq!(self.sound(), Ok(()), "of the group at revision {}", self.revision);
    }

    /// What of the head of this file does not hold, as a part of a sentence.
    pub(super) fn sound(&self) -> Result<(), String> {
        let said = self.inventories.keys().chain(self.connections.keys());
        for number in self.present.keys().chain(said) {
            let is_member = self.members.contains_key(number);
            ensure(is_member, || format!("it hears of {number}, who is none"))?;
        }
        let Some(about) = &self.about else {
            let is_empty = self.members.is_empty()
                && self.tokens.is_empty()
                && self.pools.is_empty()
                && self.address.is_none()
                && self.limits == ConnectionLimits::default();
            let why =
                || "it has members, tokens, pools, limits or an address, and no group".to_owned();
            return ensure(is_empty, why);
        };
        check_name(&about.name).map_err(|error| error.to_string())?;
        let count = self.members.len();
        let is_possible = (1..=MEMBERS_MAX).contains(&count);
        ensure(is_possible, || format!("it has {count} members, and 1 to {MEMBERS_MAX} may be"))?;
        for (number, record) in &self.members {
            let is_given = (1..=about.last_member).contains(&number.0);
            ensure(is_given, || format!("the number of {number} was never given"))?;
            self.sound_member(*number, record)?;
        }
        self.sound_pools()?;
        let count = self.tokens.len();
        ensure(count <= TOKENS_MAX, || format!("it has {count} tokens, and {TOKENS_MAX} may be"))
    }

    /// The same of the pools.
    fn sound_pools(&self) -> Result<(), String> {
        let count = self.pools.len();
        ensure(count <= POOLS_MAX, || format!("it has {count} pools, and {POOLS_MAX} may be"))?;
        let mut names = BTreeSet::from([DEFAULT_POOL.to_owned()]);
        let mut placed = BTreeSet::new();
        for (name, pool) in &self.pools {
            check_name(name).map_err(|error| error.to_string())?;
            let is_new = names.insert(name.to_ascii_lowercase());
            ensure(is_new, || format!("two pools are called '{name}'"))?;
            for number in &pool.members {
                let is_member = self.members.contains_key(number);
                ensure(is_member, || format!("the pool '{name}' has {number}, who is none"))?;
                ensure(placed.insert(*number), || format!("{number} is in two pools"))?;
            }
        }
        Ok(())
    }

    /// The same of one member, and of all with higher numbers beside it.
    fn sound_member(&self, number: MemberId, record: &MemberRecord) -> Result<(), String> {
        check_name(&record.name).map_err(|error| error.to_string())?;
        check_place_before(record.address, record.port).map_err(|error| error.to_string())?;
        for (other, beside) in self.members.iter().filter(|(other, _)| **other > number) {
            let both = |what: &str| format!("{number} and {other} have the same {what}");
            ensure(!beside.name.eq_ignore_ascii_case(&record.name), || both("name"))?;
            ensure(beside.array != record.array, || both("array"))?;
            ensure(!overlap_before(beside, record), || both("ports"))?;
        }
        Ok(())
    }

    /// Why a member that should be there is not.
    pub(super) fn missing(&self) -> MembershipError {
        // The guard stays when a group ends. A store without one has never had any, such as one that was made anew
        // after it was lost, and then nobody was removed.
        if self.guard == Guard::default() {
            MembershipError::NoGroup
        } else {
            MembershipError::Removed
        }
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

/// One key of the group and what it says; `None` where it is gone.
enum Item {
    Guard(Guard),
    About(Option<About>),
    Member(MemberId, Option<MemberRecord>),
    Token(String, Option<JoinToken>),
    Pool(String, Option<Pool>),
    Address(Option<GroupAddress>),
    Holder(Option<AddressHolder>),
    Limits(Option<ConnectionLimits>),
    Present(MemberId, Option<u64>),
    Inventory(MemberId, Option<Inventory>),
    Connections(MemberId, Option<u32>),
    /// Not known here.
    Later,
}

impl Item {
    fn read(key: &[u8], kv: Option<&KeyValue>) -> Result<Self, MembershipError> {
        let Ok(key) = std::str::from_utf8(key) else { return Ok(Self::Later) };
        if key == GUARD {
            return Ok(Self::Guard(kv.map(Guard::read).transpose()?.unwrap_or_default()));
        }
        if key == ABOUT {
            return Ok(Self::About(decode(kv)?));
        }
        if key == ADDRESS {
            return Ok(Self::Address(decode::<AddressRecord>(kv)?.map(|record| record.address)));
        }
        if key == LIMITS {
            return Ok(Self::Limits(decode(kv)?));
        }
        if key == HOLDER {
            return Ok(Self::Holder(kv.map(AddressHolder::read)));
        }
        if let Some(number) = key.strip_prefix(MEMBERS) {
            return Ok(Self::Member(number_of(key, number)?, decode(kv)?));
        }
        if let Some(id) = key.strip_prefix(TOKENS) {
            return Ok(Self::Token(token_id(key, id)?, decode(kv)?));
        }
        if let Some(name) = key.strip_prefix(POOLS) {
            check_name(name).map_err(|_| strange(key))?;
            return Ok(Self::Pool(name.to_owned(), decode(kv)?));
        }
        if let Some(number) = key.strip_prefix(PRESENT) {
            let said = |number| Self::Present(number, kv.and_then(incarnation));
            return Ok(number_of(key, number).map_or(Self::Later, said));
        }
        if let Some(number) = key.strip_prefix(INVENTORIES) {
            // In the place of one that does not read is none, and not the one before.
            let said = |number| Self::Inventory(number, decode(kv).ok().flatten());
            return Ok(number_of(key, number).map_or(Self::Later, said));
        }
        if let Some(number) = key.strip_prefix(CONNECTIONS) {
            let count = decode::<ConnectionCount>(kv).ok().flatten();
            let said = |number| Self::Connections(number, count.map(|count| count.hosts));
            return Ok(number_of(key, number).map_or(Self::Later, said));
        }
        Ok(Self::Later)
    }
}

fn decode<T: Setting>(kv: Option<&KeyValue>) -> Result<Option<T>, MembershipError> {
    Ok(kv.map(|kv| T::decode(&kv.value)).transpose()?)
}

fn number_of(key: &str, digits: &str) -> Result<MemberId, MembershipError> {
    let is_number =
        digits.len() == NUMBER_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = if is_number { digits.parse::<u16>().ok() } else { None };
    number.map(MemberId).ok_or_else(|| strange(key))
}

fn token_id(key: &str, digits: &str) -> Result<String, MembershipError> {
    if is_token_id(digits) { Ok(digits.to_owned()) } else { Err(strange(key)) }
}

/// Whether a token can have this identifier.
pub(super) fn is_token_id(digits: &str) -> bool {
    digits.len() == TOKEN_ID_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn incarnation(kv: &KeyValue) -> Option<u64> {
    std::str::from_utf8(&kv.value).ok()?.parse().ok()
}

/// A key that no version writes.
fn strange(key: &str) -> MembershipError {
    MembershipError::Unsound(format!("its key '{key}' is none"))
}
