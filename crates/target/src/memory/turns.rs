//! In which order those who wait for memory get it.
//!
//! They wait in lines ([`Line`]). Within a line addresses have turns, since names cost nothing, and
//! those who wait at one stand in the order of asking. The one in front keeps those behind it
//! waiting when there is too little for anybody, not when it holds too much itself. The trusted, the
//! known and the strangers have turns: the one in front of the line whose turn it is keeps all waiting
//! with whom it shares what is too little ([`super::trust`]). Of the strangers those who have
//! something already, the one of the rest who waits longest, and the one who came last have turns, so
//! that nobody is behind all of a flood that was there before. Those who kept room for nothing come when
//! no other stranger waits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ring::wait::{Grant, GrantState};
use smallvec::SmallVec;

use super::{Account, CORE, Claim, Core, FREE_SHARES, Level, Owner, Use, Way};
use crate::mutants::{self, Mutant};

/// How many that wait are looked at in vain when memory becomes free.
const LOOKS_MAX: usize = 16;

/// How often it is looked which of those who wait at one address are known by now: they let it be known every
/// 100 ms.
const LOOK_ANEW_PAUSE: Duration = Duration::from_millis(50);

/// What part of the memory one address is given in one turn: enough for its longest write, or for as
/// many short ones. Strangers have one such write, or less: they may send nothing of it.
const TURN_PART: usize = 4;
const TURN_PART_OF_STRANGERS: usize = 32;

/// Who waits in what line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// Those who have sent many times as much before as they want room for now.
    Trusted,
    /// Those who have sent as much.
    Known,
    /// Those of whom that is not known.
    New,
    /// Those of them who kept room for nothing lately.
    Distrusted,
}

const LINES: usize = 4;

impl Line {
    /// All but the first: who waits there may have a better one by now.
    const TO_LEAVE: [Self; 3] = [Self::Known, Self::New, Self::Distrusted];

    const fn level(self) -> Level {
        match self {
            Self::Trusted => Level::Trusted,
            Self::Known => Level::Known,
            Self::New | Self::Distrusted => Level::Stranger,
        }
    }

    /// What one address is given in one turn.
    fn turn_bytes(self, of: Use) -> usize {
        let part = match self.level() {
            Level::Stranger => TURN_PART_OF_STRANGERS,
            _ => TURN_PART,
        };
        of.limit_bytes() / part
    }

    /// Who waits in front of it for room in this part keeps those of the other waiting.
    fn holds_up(self, other: Self, part: Level, is_its_turn: bool) -> bool {
        self.is_before(other) || is_its_turn && other.level() <= part
    }

    /// Who waits in front of the one waits before the other.
    const fn is_before(self, other: Self) -> bool {
        self as usize == other as usize || matches!((self, other), (Self::New, Self::Distrusted))
    }
}

/// Those who wait at one address for one use, in each line in the order of asking.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    lines: [RefCell<VecDeque<Rc<Waiter>>>; LINES],
    /// What it was given since its turn began.
    turn_bytes: Cell<usize>,
    /// It has had a turn of the new ones, or held something when it came to wait.
    has_some: Cell<bool>,
    /// When it was last looked who of them is known by now.
    looked_at: Cell<Option<Instant>>,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: Rc<Owner>,
    pub(super) bytes: usize,
    /// How well its owner was known when they were granted.
    pub(super) level: Cell<Level>,
    grant: Grant,
}

/// Addresses at which somebody waits for one use, once in each line.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: [RefCell<VecDeque<Rc<Account>>>; LINES],
    /// None is the first one.
    turn: Cell<Option<Level>>,
    /// Who of the new ones is next. Their addresses stand in two groups: first those that have
    /// some, then the rest; each in the order of coming, and of their turns.
    next_new: Cell<Next>,
}

/// Who of the new ones is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    /// The first of those that have some.
    #[default]
    HasSome,
    /// Of the rest the one that waits longest.
    Longest,
    /// The one that came last.
    Last,
}

impl Next {
    const fn after(self) -> Self {
        match self {
            Self::HasSome => Self::Longest,
            Self::Longest => Self::Last,
            Self::Last => Self::HasSome,
        }
    }
}

/// Where in the line of new ones those begin that have nothing.
fn first_without(addresses: &VecDeque<Rc<Account>>, of: Use) -> usize {
    addresses.partition_point(|address| address.waiting[of as usize].has_some.get())
}

impl Turns {
    /// The lines, the one whose turn it is first.
    fn order(&self) -> [Line; LINES] {
        use Line::*;
        match self.turn.get() {
            None | Some(Level::Trusted) => [Trusted, Known, New, Distrusted],
            Some(Level::Known) => [Known, New, Distrusted, Trusted],
            Some(Level::Stranger) => [New, Distrusted, Trusted, Known],
        }
    }

    /// Where the next one of this line stands, if anybody does.
    fn next_at(&self, line: Line, of: Use, addresses: &VecDeque<Rc<Account>>) -> Option<usize> {
        let last = addresses.len().checked_sub(1)?;
        Some(match self.next_new.get() {
            _ if line != Line::New => 0,
            Next::HasSome => 0,
            Next::Longest => first_without(addresses, of).min(last),
            Next::Last => last,
        })
    }

    fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.borrow().is_empty())
    }

    /// The next one of a line. Those who no longer wait leave it.
    fn front(&self, line: Line, of: Use) -> Option<Rc<Waiter>> {
        let mut addresses = self.lines[line as usize].borrow_mut();
        while let Some(at) = self.next_at(line, of, &addresses) {
            let mut waiting = addresses[at].waiting[of as usize].lines[line as usize].borrow_mut();
            while waiting.front().is_some_and(|it| it.grant.state() == GrantState::Left) {
                waiting.pop_front();
            }
            if let Some(first) = waiting.front().cloned() {
                return Some(first);
            }
            drop(waiting);
            addresses.remove(at);
        }
        None
    }

    #[cfg(test)]
    pub(super) fn lens(&self) -> [usize; LINES] {
        self.lines.each_ref().map(|line| line.borrow().len())
    }

    /// Of the new ones those that have some stand before the rest.
    #[cfg(test)]
    pub(super) fn are_new_in_order(&self, of: Use) -> bool {
        let addresses = self.lines[Line::New as usize].borrow();
        addresses.iter().is_sorted_by_key(|address| !address.waiting[of as usize].has_some.get())
    }

    fn enter(&self, line: Line, of: Use, waiter: Rc<Waiter>) {
        let address = waiter.owner.address.clone();
        let own = &address.waiting[of as usize];
        let mut waiting = own.lines[line as usize].borrow_mut();
        if waiting.is_empty() {
            let mut addresses = self.lines[line as usize].borrow_mut();
            if line == Line::New {
                own.has_some.set(address.held[of as usize].get() > 0);
            }
            Self::stand(line, of, &mut addresses, address.clone());
        }
        waiting.push_back(waiter);
    }

    /// An address comes behind those of its kind.
    fn stand(line: Line, of: Use, addresses: &mut VecDeque<Rc<Account>>, address: Rc<Account>) {
        match line == Line::New && address.waiting[of as usize].has_some.get() {
            true => addresses.insert(first_without(addresses, of), address),
            false => addresses.push_back(address),
        }
    }

    /// Those of one address who belong in another line leave this one.
    fn take_misplaced(
        &self,
        (line, of): (Line, Use),
        address: &Rc<Account>,
        is_right: impl Fn(&Waiter) -> bool,
    ) -> VecDeque<Rc<Waiter>> {
        let mut waiting = address.waiting[of as usize].lines[line as usize].borrow_mut();
        let (right, misplaced) = waiting.drain(..).partition(|waiter| is_right(waiter));
        *waiting = right;
        if waiting.is_empty() {
            self.lines[line as usize].borrow_mut().retain(|other| !Rc::ptr_eq(other, address));
        }
        misplaced
    }

    /// The next one leaves, with so much. Its address goes on with what else it wants of one turn.
    fn leave(&self, line: Line, of: Use, granted_bytes: usize) {
        let addresses = self.lines[line as usize].borrow();
        let Some(at) = self.next_at(line, of, &addresses) else { return };
        let own = &addresses[at].waiting[of as usize];
        let mut waiting = own.lines[line as usize].borrow_mut();
        waiting.pop_front();
        let bytes = own.turn_bytes.get() + granted_bytes;
        own.turn_bytes.set(bytes);
        let goes_on = waiting.front().is_some_and(|next| bytes + next.bytes <= line.turn_bytes(of));
        drop(waiting);
        drop(addresses);
        if !goes_on {
            self.end_turn(line, of);
        }
    }

    /// The other addresses go first.
    fn end_turn(&self, line: Line, of: Use) {
        let mut addresses = self.lines[line as usize].borrow_mut();
        // Where nobody has any, the one that waits longest had the turn of those.
        let next_new = match self.next_new.get() {
            Next::HasSome if first_without(&addresses, of) == 0 => Next::Last,
            next => next.after(),
        };
        let next = self.next_at(line, of, &addresses).and_then(|at| addresses.remove(at));
        self.turn.set(Some(match line.level() {
            Level::Trusted => Level::Known,
            Level::Known => Level::Stranger,
            Level::Stranger => Level::Trusted,
        }));
        if line == Line::New {
            self.next_new.set(next_new);
        }
        let Some(address) = next else { return };
        let own = &address.waiting[of as usize];
        own.turn_bytes.set(0);
        if !own.lines[line as usize].borrow().is_empty() {
            // It may stand with the new ones and in another line at once.
            own.has_some.set(line == Line::New || own.has_some.get());
            Self::stand(line, of, &mut addresses, address);
        }
    }
}

/// What one that is in front waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lacks {
    Nothing,
    /// There is too little for all who are known no better than this.
    Memory(Level),
    /// It holds too much itself.
    Itself,
}

impl Core {
    fn line(&self, owner: &Owner, of: Use, bytes: usize) -> Line {
        match self.level(owner, of, bytes) {
            Level::Trusted => Line::Trusted,
            Level::Known => Line::Known,
            Level::Stranger if self.is_distrusted(owner) => Line::Distrusted,
            Level::Stranger => Line::New,
        }
    }

    fn is_distrusted(&self, owner: &Owner) -> bool {
        owner.accounts().iter().any(|it| it.is_distrusted(Use::Pushed, &self.clock))
    }

    fn lacks(&self, waiter: &Waiter, of: Use) -> Lacks {
        let (owner, bytes) = (&*waiter.owner, waiter.bytes);
        if self.fits(owner, of, bytes) {
            return Lacks::Nothing;
        }
        let level = self.level(owner, of, bytes);
        let full = self.full_part(of, level, bytes);
        match full.or((!self.has(of, bytes)).then_some(Level::Trusted)) {
            Some(_) if mutants::is(Mutant::OneLine) => Lacks::Memory(Level::Trusted),
            // Those who share this part have too much of it.
            Some(part) if part < Level::Trusted => Lacks::Memory(part),
            Some(part) if self.may_ever_hold(owner, of, bytes) => Lacks::Memory(part),
            _ => Lacks::Itself,
        }
    }

    /// Somebody waits before one of this line.
    fn is_held_up(&self, of: Use, line: Line) -> bool {
        let turns = &self.turns[of as usize];
        let mut is_its_turn = true;
        for other in turns.order() {
            let Some(first) = turns.front(other, of) else { continue };
            if let Lacks::Memory(part) = self.lacks(&first, of)
                && other.holds_up(line, part, is_its_turn)
            {
                return true;
            }
            is_its_turn = false;
        }
        false
    }

    /// Gives what has become free to those who wait.
    pub(super) fn serve(&self, of: Use) {
        let _look = self.clock.look();
        let mut in_vain = 0;
        while in_vain < LOOKS_MAX {
            match self.look(of) {
                Some(true) => in_vain = 0,
                Some(false) => in_vain += 1,
                None => return,
            }
        }
    }

    /// Looks at the next one to be served, and says whether it waits no more, or in another line;
    /// none if all wait for others.
    fn look(&self, of: Use) -> Option<bool> {
        let turns = &self.turns[of as usize];
        let (mut is_its_turn, mut holding) =
            (true, SmallVec::<[(Line, Level, bool); LINES]>::new());
        for line in turns.order() {
            if holding.iter().any(|&(other, part, its_turn)| other.holds_up(line, part, its_turn)) {
                continue;
            }
            let Some(first) = turns.front(line, of) else { continue };
            let right_line = self.line(&first.owner, of, first.bytes);
            if right_line != line {
                turns.leave(line, of, 0);
                turns.enter(right_line, of, first);
                return Some(true);
            }
            match self.lacks(&first, of) {
                Lacks::Nothing => {
                    turns.leave(line, of, first.bytes);
                    self.grant(&first, of);
                    return Some(true);
                }
                Lacks::Itself => {
                    turns.end_turn(line, of);
                    return Some(false);
                }
                Lacks::Memory(part) => holding.push((line, part, is_its_turn)),
            }
            is_its_turn = false;
        }
        None
    }

    /// Those who wait at this address and are known by now no longer stand with strangers. Each of them asks
    /// for that, again and again, and it is about all of them: what is known already is not looked at
    /// anew for each. 500 that waited kept a core busy with one another.
    fn look_anew(&self, address: &Rc<Account>, of: Use) {
        let _look = self.clock.look();
        let looked_at = &address.waiting[of as usize].looked_at;
        let now = self.clock.now();
        if looked_at.get().is_some_and(|before| now - before < LOOK_ANEW_PAUSE) {
            return;
        }
        looked_at.set(Some(now));
        let turns = &self.turns[of as usize];
        for line in Line::TO_LEAVE {
            let right_line = |waiter: &Waiter| self.line(&waiter.owner, of, waiter.bytes);
            let is_right = |waiter: &Waiter| right_line(waiter) == line;
            for waiter in turns.take_misplaced((line, of), address, is_right) {
                turns.enter(right_line(&waiter), of, waiter);
            }
        }
        self.serve(of);
    }

    /// It could hold so much more if all others gave back what they hold.
    fn may_ever_hold(&self, owner: &Owner, of: Use, bytes: usize) -> bool {
        owner.accounts().iter().all(|account| {
            let held = account.held[of as usize].get();
            let level = self.account_level(account, of.way(), 0);
            let free = of.part_bytes(level).saturating_sub(held);
            !account.is_distrusted(of, &self.clock)
                && (held == 0 || held + bytes <= FREE_SHARES * free)
        })
    }

    fn grant(&self, waiter: &Waiter, of: Use) {
        waiter.level.set(self.add(&waiter.owner, of, waiter.bytes));
        waiter.grant.give();
    }
}

/// A place among those who wait; given up when it goes.
pub(super) struct Place {
    waiter: Rc<Waiter>,
    of: Use,
}

impl Place {
    pub(super) fn new(owner: &Rc<Owner>, of: Use, bytes: usize) -> Self {
        let waiter = Rc::new(Waiter {
            owner: owner.clone(),
            bytes,
            level: Cell::new(Level::Stranger),
            grant: Grant::default(),
        });
        CORE.with(|core| {
            let _look = core.clock.look();
            let line = core.line(owner, of, bytes);
            core.turns[of as usize].enter(line, of, waiter.clone());
            // Those before it may wait for themselves only.
            core.serve(of);
        });
        Self { waiter, of }
    }

    /// Waits for what was asked for, as a claim.
    pub(super) async fn granted(self) -> Claim {
        self.waiter.grant.given().await;
        self.waiter.grant.leave();
        Claim::granted(&self.waiter, self.of)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        match self.waiter.grant.leave() {
            GrantState::Given => drop(Claim::granted(&self.waiter, self.of)),
            // Those behind it may have a turn now.
            GrantState::Waited => _ = CORE.try_with(|core| core.serve(self.of)),
            GrantState::Left => {}
        }
    }
}

/// Whether so much could be had at once.
#[inline]
pub(crate) fn has_room(owner: &Owner, of: Use, bytes: usize) -> bool {
    CORE.with(|core| {
        let _look = core.clock.look();
        let is_crowded = !core.turns[of as usize].is_empty();
        let is_held_up = || core.is_held_up(of, core.line(owner, of, bytes));
        !(is_crowded && is_held_up()) && core.fits(owner, of, bytes)
    })
}

/// More is known of this owner: what it waits for may come sooner.
pub(crate) fn look_anew(owner: &Owner, way: Way) {
    CORE.with(|core| way.uses().iter().for_each(|&of| core.look_anew(&owner.address, of)));
}

/// Whether somebody waits for memory for this. Those who are known by now for what they have sent
/// meanwhile get it.
pub(crate) fn look_again(of: Use) -> bool {
    CORE.with(|core| core.serve(of));
    CORE.with(|core| {
        let turns = &core.turns[of as usize];
        turns.order().into_iter().any(|line| turns.front(line, of).is_some())
    })
}
