//! How well an initiator is known, and what that is worth.
//!
//! Whoever has kept to the rules is known by it: for data of commands by what has come from it, for what
//! is to be sent by what it has taken, under its name and at its address. It is known for as much as that
//! at once, and trusted for a sixty-fourth of it. A part of all room is for those who are known, and a part of
//! that for those who are trusted. So those whom nobody knows keep nobody waiting who is known, however many
//! they are, whatever they announce and however much they ask for; and those who have sent just enough to
//! be known, and then send nothing, keep nobody waiting who has sent much more.
//!
//! To be known is cheap for names that mean to break the trust once. When one does, what has come from
//! anybody, or gone to it, counts for a sixteenth for a while: those who have kept to the rules for long
//! are known even so.

use std::rc::Rc;
use std::time::Duration;

use super::{Account, Core, DISTRUST_TIME, DISTRUSTED_MAX, DISTRUSTED_PART, Owner, Use, Way};
use crate::mutants::{self, Mutant};

/// What part of what was proven counts, and for how long, after somebody who was known kept room for
/// nothing.
const ALARMED_PART: usize = 16;
const ALARM_TIME: Duration = Duration::from_secs(600);

/// From or to whom so much has gone is known at its next login, too: the newest of them.
pub(super) const REMEMBERED_BYTES: usize = 1 << 20;
pub(super) const REMEMBERED_MAX: usize = 2048;

/// For what part of that for which one is known it is trusted.
const TRUSTED_PART: usize = 64;

/// How well one is known for what it holds, or wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Not for as much.
    Stranger,
    Known,
    Trusted,
}

pub(super) const LEVELS: usize = 3;

impl Level {
    pub(crate) const ALL: [Self; LEVELS] = [Self::Stranger, Self::Known, Self::Trusted];

    /// This one and those who are known better.
    pub(super) fn and_better(self) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().skip(self as usize)
    }
}

impl Core {
    /// Remembers it even when its last session ends: a host that comes again is no other.
    pub(super) fn distrust(&self, account: &Rc<Account>) {
        let _look = self.clock.look();
        if account.is_distrusted(Use::Pushed, &self.clock) {
            return;
        }
        account.distrusted_until.set(Some(self.clock.now() + DISTRUST_TIME));
        let mut distrusted = self.distrusted.borrow_mut();
        distrusted.retain(|account| account.is_distrusted(Use::Pushed, &self.clock));
        if distrusted.len() == DISTRUSTED_MAX {
            distrusted.pop_front();
        }
        distrusted.push_back(account.clone());
    }

    #[cold]
    pub(super) fn remember(&self, account: &Rc<Account>) {
        let mut remembered = self.remembered.borrow_mut();
        remembered.retain(|it| !Rc::ptr_eq(it, account));
        let gone = (remembered.len() == REMEMBERED_MAX).then(|| remembered.pop_front());
        remembered.push_back(account.clone());
        drop((remembered, gone));
    }

    /// One that was known holds room for nothing: others may mean to do the same.
    pub(super) fn alarm(&self, name: &Account) {
        for way in [Way::In, Way::Out] {
            let was_known =
                name.held_bytes(way) > 0 && self.account_level(name, way, 0) > Level::Stranger;
            if was_known && !mutants::is(Mutant::NoAlarm) {
                self.alarmed_until[way as usize].set(Some(self.clock.now() + ALARM_TIME));
            }
        }
    }

    /// How well it would be known for all that it holds if that were so much more.
    pub(super) fn account_level(&self, account: &Account, way: Way, bytes: usize) -> Level {
        self.clock.count_level();
        let alarm = self.alarmed_until[way as usize].get();
        let part = if account.is_distrusted(Use::Pushed, &self.clock) {
            // At the address of one who kept room for nothing much more must have come from others.
            DISTRUSTED_PART
        } else if alarm.is_some_and(|until| self.clock.now() < until) {
            ALARMED_PART
        } else {
            1
        };
        let known_for = account.proven_bytes[way as usize].get() / part;
        match account.held_bytes(way) + bytes {
            held if held > known_for => Level::Stranger,
            held if held > known_for / TRUSTED_PART && !mutants::is(Mutant::NoTrust) => {
                Level::Known
            }
            _ => Level::Trusted,
        }
    }

    /// How well its owner would be known for so much more, by its name and by its address.
    pub(super) fn level(&self, owner: &Owner, of: Use, bytes: usize) -> Level {
        if mutants::is(Mutant::NoStrangers) {
            return Level::Trusted;
        }
        let _look = self.clock.look();
        let [name, address] = owner.accounts();
        let level = |account| self.account_level(account, of.way(), bytes);
        level(name).min(level(address))
    }
}
