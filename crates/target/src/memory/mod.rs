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
//! How much of all room one may use depends on how well it is known ([`trust`]), and who gets what
//! becomes free is told in [`turns`].

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ring::Buf;

use self::clock::Clock;
pub(crate) use self::trust::Level;
use self::trust::{LEVELS, REMEMBERED_BYTES};
use self::turns::{Place, Turns, Waiter, Waiting};
pub(crate) use self::turns::{has_room, look_again, look_anew};
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

/// Bytes that all may hold together for data that was asked for who are known no better than this.
pub(crate) fn pulled_bytes(level: Level) -> usize {
    Use::Pulled.part_bytes(level)
}

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

    /// Bytes of them that all may hold together who are known no better than this. In each part
    /// that is kept for those who are, the longest command finds room.
    fn part_bytes(self, level: Level) -> usize {
        match level {
            Level::Stranger => self.limit_bytes() / 2,
            Level::Known => self.limit_bytes() / 4 * 3,
            Level::Trusted => self.limit_bytes(),
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
    fn is_distrusted(&self, of: Use, clock: &Clock) -> bool {
        let until = self.distrusted_until.get();
        of != Use::Pulled && until.is_some_and(|until| clock.now() < until)
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
    /// How much of it is held by those who are known so well for what they hold.
    held_by: [[Cell<usize>; LEVELS]; USES],
    /// Until then what was proven counts for less.
    alarmed_until: [Cell<Option<Instant>>; 2],
    distrusted: RefCell<VecDeque<Rc<Account>>>,
    remembered: RefCell<VecDeque<Rc<Account>>>,
    turns: [Turns; USES],
    clock: Clock,
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
            let _look = core.clock.look();
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

    fn free_bytes(&self, of: Use) -> usize {
        of.limit_bytes().saturating_sub(self.held[of as usize].get())
    }

    /// There is so much for anybody.
    fn has(&self, of: Use, bytes: usize) -> bool {
        // What is longer than all of its share has the share for itself.
        self.held[of as usize].get() == 0 || bytes <= self.free_bytes(of)
    }

    /// What all hold together who are known no better than this.
    fn part_held(&self, of: Use, level: Level) -> usize {
        self.held_by[of as usize][..=level as usize].iter().map(Cell::get).sum()
    }

    /// All those may hold so much more together.
    fn part_has(&self, of: Use, level: Level, bytes: usize) -> bool {
        let held = self.part_held(of, level);
        held == 0 || held + bytes <= of.part_bytes(level)
    }

    /// The first part that leaves no room for so much more of one who is known so well.
    fn full_part(&self, of: Use, level: Level, bytes: usize) -> Option<Level> {
        level.and_better().find(|&part| !self.part_has(of, part, bytes))
    }

    /// Its owner may hold so much more.
    fn may_hold(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        let _look = self.clock.look();
        owner.accounts().iter().all(|account| {
            let held = account.held[of as usize].get();
            let is_alone = self.held[of as usize].get() == 0;
            let is_first = held == 0 && (is_alone || !account.is_distrusted(of, &self.clock));
            is_first || held + bytes <= self.most(account, of)
        })
    }

    /// What one that holds something may hold of all, as things are.
    fn most(&self, account: &Account, of: Use) -> usize {
        let parts = self.account_level(account, of.way(), 0).and_better();
        let left = parts
            .map(|part| of.part_bytes(part).saturating_sub(self.part_held(of, part)))
            .fold(self.free_bytes(of), usize::min);
        if account.is_distrusted(of, &self.clock) {
            left / DISTRUSTED_PART
        } else {
            FREE_SHARES * left
        }
    }

    fn fits(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        let level = self.level(owner, of, bytes);
        self.has(of, bytes)
            && self.full_part(of, level, bytes).is_none()
            && self.may_hold(owner, of, bytes)
    }

    /// Counts so much more, and tells as what.
    fn add(&self, owner: &Owner, of: Use, bytes: usize) -> Level {
        let level = self.level(owner, of, bytes);
        self.change(owner, of, |held| held + bytes);
        let held = &self.held_by[of as usize][level as usize];
        held.set(held.get() + bytes);
        level
    }

    fn remove(&self, claim: &Claim) {
        self.change(&claim.owner, claim.of, |held| held - claim.bytes);
        for (held, bytes) in self.held_by[claim.of as usize].iter().zip(claim.by_level) {
            held.set(held.get() - bytes);
        }
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
    /// The same by how well its owner was known for them.
    by_level: [usize; LEVELS],
}

impl Claim {
    /// A claim to nothing yet.
    pub(crate) fn none(owner: &Rc<Owner>, of: Use) -> Self {
        Self { owner: owner.clone(), of, bytes: 0, by_level: [0; LEVELS] }
    }

    /// A claim to what was granted, and counted then.
    fn granted(waiter: &Waiter, of: Use) -> Self {
        let mut claim = Self::none(&waiter.owner, of);
        claim.count(waiter.bytes, waiter.level.get());
        claim
    }

    /// A claim to `bytes`, if nobody waits before it and its owner may have them.
    pub(crate) fn new(owner: &Rc<Owner>, of: Use, bytes: usize) -> Option<Self> {
        has_room(owner, of, bytes).then(|| {
            let mut claim = Self::none(owner, of);
            claim.grow(bytes);
            claim
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How well its owner was known when it was given most of it.
    pub(crate) fn level(&self) -> Level {
        let most = Level::ALL.into_iter().max_by_key(|&level| self.by_level[level as usize]);
        most.unwrap_or(Level::Stranger)
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
        let level = CORE.with(|core| core.add(&self.owner, self.of, bytes));
        self.count(bytes, level);
    }

    fn count(&mut self, bytes: usize, level: Level) {
        self.bytes += bytes;
        self.by_level[level as usize] += bytes;
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
        (core.held[of].get(), core.part_held(Use::Pushed, Level::Stranger))
    });
    let is_crowded = match owner.is_known() {
        true => held - strange > limit.saturating_sub(strange) / 2,
        false => held > limit / 2 || strange > Use::Pushed.part_bytes(Level::Stranger) / 2,
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

mod clock;
mod trust;
mod turns;

#[cfg(test)]
mod tests;
