//! Who may hold how much of a core's memory for I/O, and in which order the others wait for it.
//!
//! What commands bring and take is counted against two owners: the initiator, by its name, and the
//! address it comes from. The memory of each [`Use`] is a share of its own, so that none of them
//! waits for another that waits for it in turn; what is left of the pool is for the disks below.
//!
//! An owner may hold twice as much as is still free: alone two thirds, of which others get their
//! part as soon as they come, however many they are and whatever was promised before. Who holds
//! nothing gets what fits. Who was given room for data that did not come, or did not take what it was
//! to be sent, when others had none, may hold a sixteenth of what is free for a while.
//!
//! A part of all room is for those who are known: of that for data of commands, by what they have
//! sent, and of that for what is to be sent, by what they have taken. Each has there as much as has come
//! from it, or gone to it, under its name and at its address, and everybody shares the rest. So those
//! whom nobody knows keep nobody waiting who is known, however many they are, whatever they announce
//! and however much they ask for.
//!
//! To be known is cheap for names that mean to break the trust once. When one does, what has come from
//! anybody, or gone to it, counts for a sixteenth for a while: those who have kept to the rules for long
//! are known even so.
//!
//! Who gets what becomes free is told in [`turns`].

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::Buf;

use self::turns::{Place, Turns, Waiter, Waiting};
pub(crate) use self::turns::{has_room, look_again, look_anew};
use crate::mutants::{self, Mutant};
use crate::share;

/// What memory is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Data that came unasked: whoever has no room for it stops reading.
    Pushed,
    /// The same, where data that was asked for comes behind it: it must be read to get at that.
    Behind,
    /// Data that is asked for when there is room for it.
    Pulled,
    /// Data that was read, until it is sent.
    Read,
    /// All other data that is to be sent. It lies on the heap, beside the pool.
    Answer,
}

const USES: usize = 5;

impl Use {
    /// Which way that data goes.
    const fn way(self) -> Way {
        match self {
            Self::Pushed | Self::Behind | Self::Pulled => Way::In,
            Self::Read | Self::Answer => Way::Out,
        }
    }

    /// Sixteenths of the pool.
    const fn share(self) -> usize {
        match self {
            Self::Pushed => 7,
            Self::Behind | Self::Pulled | Self::Answer => 2,
            Self::Read => 3,
        }
    }

    /// Bytes that all owners together may hold.
    fn limit_bytes(self) -> usize {
        ring::pool_usage().budget_bytes / 16 * self.share()
    }

    /// Bytes of them that those may hold together who are not known for as much. The longest command
    /// of one who is known still finds room beside them, and that of one who is new beside another one.
    fn strangers_bytes(self) -> usize {
        match self {
            Self::Pulled => self.limit_bytes() / 4 * 3,
            _ => self.limit_bytes() / 2,
        }
    }
}

/// Data of commands, and what is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Out,
}

impl Way {
    /// What memory is held for.
    const fn uses(self) -> &'static [Use] {
        match self {
            Self::In => &[Use::Pushed, Use::Behind, Use::Pulled],
            Self::Out => &[Use::Read, Use::Answer],
        }
    }
}

/// What the smallest thing that is kept costs beside its bytes.
const BYTES_MIN: usize = 128;

/// How long one waits until it looks again whether the pool has what its share allows.
pub(crate) const POOL_PAUSE: Duration = Duration::from_millis(2);

/// How often one owner may hold what is still free.
const FREE_SHARES: usize = 2;

/// What part of it one may hold that kept room for nothing, and how long that is remembered.
const DISTRUSTED_PART: usize = 16;
const DISTRUST_TIME: Duration = Duration::from_secs(60);

/// How many are remembered, the newest.
const DISTRUSTED_MAX: usize = 1024;

/// What part of what was proven counts, and for how long, after somebody who was known kept room for
/// nothing.
const ALARMED_PART: usize = 16;
const ALARM_TIME: Duration = Duration::from_secs(600);

/// From or to whom so much has gone is known at its next login, too: the newest of them.
const REMEMBERED_BYTES: usize = 1 << 20;
const REMEMBERED_MAX: usize = 2048;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    Initiator(Arc<str>),
    Address(IpAddr),
}

#[derive(Debug)]
struct Account {
    name: Name,
    held: [Cell<usize>; USES],
    /// Payload that has come for its commands, and output that it has taken, since it was last
    /// distrusted.
    proven_bytes: [Cell<usize>; 2],
    /// Until then it may hold less, but for data that is asked for.
    distrusted_until: Cell<Option<Instant>>,
    /// Who waits at this address.
    waiting: [Waiting; USES],
}

impl Account {
    fn is_distrusted(&self, of: Use) -> bool {
        let until = self.distrusted_until.get();
        of != Use::Pulled && until.is_some_and(|until| Instant::now() < until)
    }

    fn held_bytes(&self, way: Way) -> usize {
        way.uses().iter().map(|&of| self.held[of as usize].get()).sum()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let name = &self.name;
        // At the end of a core its accounts are gone before their owners.
        drop(CORE.try_with(|core| core.accounts.borrow_mut().remove(name)));
    }
}

#[derive(Default)]
struct Core {
    accounts: RefCell<HashMap<Name, Weak<Account>>>,
    held: [Cell<usize>; USES],
    /// How much of it is held by those who are not known for as much.
    held_by_strangers: [Cell<usize>; USES],
    /// Until then what was proven counts for less.
    alarmed_until: [Cell<Option<Instant>>; 2],
    distrusted: RefCell<VecDeque<Rc<Account>>>,
    remembered: RefCell<VecDeque<Rc<Account>>>,
    turns: [Turns; USES],
}

thread_local! {
    static CORE: Core = Core::default();
}

/// Whom memory of one connection is counted against.
#[derive(Debug)]
pub(crate) struct Owner {
    name: Rc<Account>,
    address: Rc<Account>,
}

impl Owner {
    pub(crate) fn new(initiator: &Arc<str>, address: IpAddr) -> Rc<Self> {
        CORE.with(|core| {
            let name = core.account(Name::Initiator(initiator.clone()));
            let address = core.account(Name::Address(share::network(address)));
            Rc::new(Self { name, address })
        })
    }

    fn accounts(&self) -> [&Account; 2] {
        [&self.name, &self.address]
    }

    /// So much payload has come for one of its commands.
    #[inline]
    pub(crate) fn delivered(&self, bytes: usize) {
        self.prove(Way::In, bytes);
    }

    /// It has taken so much of what it was sent.
    pub(crate) fn taken(&self, bytes: usize) {
        self.prove(Way::Out, bytes);
    }

    #[inline]
    fn prove(&self, way: Way, bytes: usize) {
        for account in [&self.name, &self.address] {
            let proven = &account.proven_bytes[way as usize];
            let before = proven.get();
            let sum = before.saturating_add(bytes);
            proven.set(sum);
            if before < REMEMBERED_BYTES && sum >= REMEMBERED_BYTES {
                CORE.with(|core| core.remember(account));
            }
        }
    }

    /// Something has come from it.
    fn is_known(&self) -> bool {
        self.accounts().iter().all(|account| account.proven_bytes[Way::In as usize].get() > 0)
    }

    /// It kept room for data that did not come, or that it did not take, while others had none.
    pub(crate) fn distrust(&self) {
        CORE.with(|core| core.alarm(&self.name));
        // What others have sent from its address, or taken there, stays theirs.
        for (own, all) in self.name.proven_bytes.iter().zip(&self.address.proven_bytes) {
            all.set(all.get().saturating_sub(own.replace(0)));
        }
        CORE.with(|core| [&self.name, &self.address].map(|account| core.distrust(account)));
    }

    /// It holds more than half of what it may hold for something that goes this way.
    pub(crate) fn holds_much(&self, way: Way) -> bool {
        let is_much = |core: &Core, account: &Account, of: Use| {
            account.held[of as usize].get() > core.most(account, of) / 2
        };
        CORE.with(|core| {
            let accounts = self.accounts();
            let holds = |of| accounts.iter().any(|account| is_much(core, account, of));
            way.uses().iter().copied().any(holds)
        })
    }
}

impl Core {
    fn account(&self, name: Name) -> Rc<Account> {
        let mut accounts = self.accounts.borrow_mut();
        if let Some(account) = accounts.get(&name).and_then(Weak::upgrade) {
            return account;
        }
        let account = Rc::new(Account {
            name: name.clone(),
            held: Default::default(),
            proven_bytes: Default::default(),
            distrusted_until: Cell::new(None),
            waiting: Default::default(),
        });
        accounts.insert(name, Rc::downgrade(&account));
        account
    }

    /// Remembers it even when its last session ends: a host that comes again is no other.
    fn distrust(&self, account: &Rc<Account>) {
        if account.is_distrusted(Use::Pushed) {
            return;
        }
        account.distrusted_until.set(Some(Instant::now() + DISTRUST_TIME));
        let mut distrusted = self.distrusted.borrow_mut();
        distrusted.retain(|account| account.is_distrusted(Use::Pushed));
        if distrusted.len() == DISTRUSTED_MAX {
            distrusted.pop_front();
        }
        distrusted.push_back(account.clone());
    }

    #[cold]
    fn remember(&self, account: &Rc<Account>) {
        let mut remembered = self.remembered.borrow_mut();
        remembered.retain(|it| !Rc::ptr_eq(it, account));
        let gone = (remembered.len() == REMEMBERED_MAX).then(|| remembered.pop_front());
        remembered.push_back(account.clone());
        drop((remembered, gone));
    }

    /// One that was known holds room for nothing: others may mean to do the same.
    fn alarm(&self, name: &Account) {
        for way in [Way::In, Way::Out] {
            let was_known = name.held_bytes(way) > 0 && self.is_known_for(name, way, 0);
            if was_known && !mutants::is(Mutant::NoAlarm) {
                self.alarmed_until[way as usize].set(Some(Instant::now() + ALARM_TIME));
            }
        }
    }

    /// It has sent, or taken, as much as it would then be trusted to.
    fn is_known_for(&self, account: &Account, way: Way, bytes: usize) -> bool {
        let alarm = self.alarmed_until[way as usize].get();
        let part = if account.is_distrusted(Use::Pushed) {
            // At the address of one who kept room for nothing much more must have come from others.
            DISTRUSTED_PART
        } else if alarm.is_some_and(|until| Instant::now() < until) {
            ALARMED_PART
        } else {
            1
        };
        account.held_bytes(way) + bytes <= account.proven_bytes[way as usize].get() / part
    }

    /// It has nothing but what strangers may hold.
    fn is_limited(&self, account: &Account, of: Use) -> bool {
        !self.is_known_for(account, of.way(), 0)
    }

    /// Bytes that it and others like it may hold together.
    fn limit_bytes(&self, account: &Account, of: Use) -> usize {
        if self.is_limited(account, of) { of.strangers_bytes() } else { of.limit_bytes() }
    }

    fn free_bytes(&self, of: Use) -> usize {
        of.limit_bytes().saturating_sub(self.held[of as usize].get())
    }

    /// There is so much for anybody.
    fn has(&self, of: Use, bytes: usize) -> bool {
        // What is longer than all of its share has the share for itself.
        self.held[of as usize].get() == 0 || bytes <= self.free_bytes(of)
    }

    /// Its owner may hold so much more.
    fn may_hold(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        owner.accounts().iter().all(|account| {
            let held = account.held[of as usize].get();
            let is_alone = self.held[of as usize].get() == 0;
            let is_first = held == 0 && (is_alone || !account.is_distrusted(of));
            is_first || held + bytes <= self.most(account, of)
        })
    }

    /// What one that holds something may hold of all, as things are.
    fn most(&self, account: &Account, of: Use) -> usize {
        let held_by_all = match self.is_limited(account, of) {
            true => self.held_by_strangers[of as usize].get(),
            false => self.held[of as usize].get(),
        };
        let free =
            self.limit_bytes(account, of).saturating_sub(held_by_all).min(self.free_bytes(of));
        if account.is_distrusted(of) { free / DISTRUSTED_PART } else { FREE_SHARES * free }
    }

    fn fits(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        let has = match self.is_strange(owner, of, bytes) {
            true => self.has_for_strangers(of, bytes),
            false => self.has(of, bytes),
        };
        has && self.may_hold(owner, of, bytes)
    }

    /// So much more would be more than its owner is known for.
    fn is_strange(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        let is_known = |account: &Account| self.is_known_for(account, of.way(), bytes);
        !mutants::is(Mutant::NoStrangers) && !owner.accounts().into_iter().all(is_known)
    }

    /// A part is for all strangers together.
    fn has_for_strangers(&self, of: Use, bytes: usize) -> bool {
        self.has(of, bytes) && self.part_has(of, bytes)
    }

    /// Strangers may have so much more of their part.
    fn part_has(&self, of: Use, bytes: usize) -> bool {
        let held = self.held_by_strangers[of as usize].get();
        held == 0 || held + bytes <= of.strangers_bytes()
    }

    /// Counts so much more, and tells how much of it a stranger has.
    fn add(&self, owner: &Owner, of: Use, bytes: usize) -> usize {
        let strange_bytes = if self.is_strange(owner, of, bytes) { bytes } else { 0 };
        self.change(owner, of, |held| held + bytes);
        let strangers = &self.held_by_strangers[of as usize];
        strangers.set(strangers.get() + strange_bytes);
        strange_bytes
    }

    fn remove(&self, claim: &Claim) {
        self.change(&claim.owner, claim.of, |held| held - claim.bytes);
        let strangers = &self.held_by_strangers[claim.of as usize];
        strangers.set(strangers.get() - claim.strange_bytes);
    }

    fn change(&self, owner: &Owner, of: Use, change: impl Fn(usize) -> usize) {
        let all = owner.accounts().map(|account| &account.held[of as usize]);
        for held in all.into_iter().chain([&self.held[of as usize]]) {
            held.set(change(held.get()));
        }
    }
}

/// Memory that is counted against its owner until this goes.
#[derive(Debug)]
pub(crate) struct Claim {
    owner: Rc<Owner>,
    of: Use,
    bytes: usize,
    /// How many of them a stranger had.
    strange_bytes: usize,
}

impl Claim {
    /// A claim to nothing yet.
    pub(crate) fn none(owner: &Rc<Owner>, of: Use) -> Self {
        Self { owner: owner.clone(), of, bytes: 0, strange_bytes: 0 }
    }

    /// A claim to what was granted, and counted then.
    fn granted(waiter: &Waiter, of: Use) -> Self {
        let (owner, strange_bytes) = (waiter.owner.clone(), waiter.strange_bytes.get());
        Self { owner, of, bytes: waiter.bytes, strange_bytes }
    }

    /// A claim to `bytes`, if nobody waits before it and its owner may have them.
    pub(crate) fn new(owner: &Rc<Owner>, of: Use, bytes: usize) -> Option<Self> {
        has_room(owner, of, bytes).then(|| {
            let mut claim = Self::none(owner, of);
            claim.grow(bytes);
            claim
        })
    }

    /// Waits for the turn of its owner, and until there is so much.
    pub(crate) async fn wait(owner: &Rc<Owner>, of: Use, bytes: usize) -> Self {
        if let Some(claim) = Self::new(owner, of, bytes) {
            return claim;
        }
        Place::new(owner, of, bytes).granted().await
    }

    /// Counts what is held already, however much it is.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.bytes += bytes;
        let strange_bytes = CORE.with(|core| core.add(&self.owner, self.of, bytes));
        self.strange_bytes += strange_bytes;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // At the end of a core nobody counts any more.
        let _ended = CORE.try_with(|core| {
            core.remove(self);
            core.serve(self.of);
        });
    }
}

/// Its owner may be answered more: what it is to take already is not too much.
#[inline]
pub(crate) fn may_answer(owner: &Owner) -> bool {
    CORE.with(|core| core.may_hold(owner, Use::Answer, 0))
}

/// Much has come unasked: the command window of this owner is not to open. What strangers hold closes
/// the windows of strangers only.
pub(crate) fn is_short(owner: &Owner) -> bool {
    let usage = ring::pool_usage();
    let limit = Use::Pushed.limit_bytes();
    let (held, strange) = CORE.with(|core| {
        let of = Use::Pushed as usize;
        (core.held[of].get(), core.held_by_strangers[of].get())
    });
    let is_crowded = match owner.is_known() {
        true => held - strange > limit.saturating_sub(strange) / 2,
        false => held > limit / 2 || strange > Use::Pushed.strangers_bytes() / 2,
    };
    usage.used_bytes > usage.budget_bytes / 4 * 3 || is_crowded
}

/// Commands of each session for which a first burst should find room at once.
const BURSTS: usize = 32;

/// The least first burst that is offered: small writes always come with their command.
const BURST_BYTES_MIN: usize = 8 << 10;

/// The longest first burst to offer to one more session beside so many others: what may come unasked
/// from all of them at the same moment should find room.
pub(crate) fn first_burst_bytes(sessions: usize, most: u32) -> u32 {
    let each = Use::Pushed.limit_bytes() / 2 / BURSTS / (sessions + 1);
    let whole = 1 << each.max(BURST_BYTES_MIN).ilog2();
    most.min(whole)
}

/// A buffer that is counted against its owner.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) buf: Buf,
    pub(crate) claim: Claim,
}

impl Held {
    /// Room for `len` bytes, if it can be had at once.
    pub(crate) fn new(owner: &Rc<Owner>, of: Use, len: usize) -> Option<Self> {
        let claim = Claim::new(owner, of, Buf::capacity_of(len).max(BYTES_MIN))?;
        Some(Self { buf: Buf::alloc(len)?, claim })
    }

    /// Waits for room for `len` bytes.
    pub(crate) async fn wait(owner: &Rc<Owner>, of: Use, len: usize) -> Self {
        let claim = Claim::wait(owner, of, Buf::capacity_of(len).max(BYTES_MIN)).await;
        loop {
            // Its share may be in the hands of those below for a moment.
            match Buf::alloc(len) {
                Some(buf) => return Self { buf, claim },
                None => ring::sleep(POOL_PAUSE).await,
            }
        }
    }

    /// The same with these bytes at its begin.
    pub(crate) fn with_first(mut self, first: &[u8]) -> Self {
        self.buf[..first.len()].copy_from_slice(first);
        self
    }
}

mod turns;

#[cfg(test)]
mod tests;
