//! A RAID set: chunks of different disks, and what is known about each of its stripes.
//!
//! Invariant: a member's strip of a stripe holds what the set says it holds, unless the member's
//! bit in `stale` is set for that stripe. A member whose disk is away simply gets the bit for every
//! stripe that changes meanwhile; when the disk is back, those stripes are all it has to be
//! given. A replacement starts with its bit set everywhere and takes the place of its member
//! once no bit is left, so a rebuild goes on after a restart where it was.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use smallvec::SmallVec;

use crate::membership::takes_place;
use crate::mutants::{Mutant, is};
use crate::{DiskId, Level, SetId};

use super::geometry::{Layout, Shape};
use super::locks::{Left, User, Users};
use super::record::{Replacement, Seat, SetRecord};

/// The bit of the replacement in a stripe's stale mask.
pub const REPLACEMENT: usize = 15;

/// Why a description makes no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSet {
    /// The level cannot have so many members.
    #[error("a RAID set of this level cannot have {0} members")]
    Members(usize),
    /// Two members, or a member and the replacement, lie on one disk.
    #[error("two members of a RAID set lie on disk {}", .0.0)]
    SameDisk(DiskId),
    /// A table of stripes has another length than the chunk.
    #[error("the tables of a RAID set do not fit its chunks")]
    Stripes,
    /// The replacement is for a member that does not exist.
    #[error("a replacement is for member {0}, which the RAID set does not have")]
    Replacement(usize),
}

/// A chunk that holds some strip, as things stand now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder {
    pub(super) seat: Seat,
    /// It missed a change of the stripe in question.
    pub(super) is_stale: bool,
}

/// Few enough to stay on the stack: four copies and a replacement.
pub(super) type Holders = SmallVec<[Holder; 5]>;

/// What becomes of a replacement with the next record that is durable. Until then it is written to
/// like before, and so is its member: after a loss of power the record before counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It takes its member's place, if it lacks nothing when the record is made.
    Promotion,
    /// It is given up.
    Drop,
}

#[derive(Debug)]
struct State {
    members: Vec<Seat>,
    replacement: Option<Replacement>,
    ending: Option<Ending>,
    /// What the record says that is being written; another wish may have come up since.
    recorded: Option<Ending>,
    written: Vec<u8>,
    stale: Vec<u16>,
    /// Bits that were taken out of `stale` after the flush that runs now had begun ...
    given: Vec<u16>,
    /// ... and before that: a loss of power can still undo what they stand for.
    flushing: Vec<u16>,
    /// Those who are at work on the chunks that it has.
    users: Users,
}

/// A RAID set. Shared by all cores.
#[derive(Debug)]
pub struct Set {
    id: SetId,
    level: Option<Level>,
    /// With the members that it was made with; copies may be added.
    shape: Shape,
    layout: Layout,
    state: RwLock<State>,
    /// Which copy was read last, to take turns.
    turn: AtomicU32,
}

impl Set {
    /// An empty set.
    ///
    /// # Errors
    /// Why the members make no set.
    pub fn empty(
        id: SetId,
        level: Option<Level>,
        members: Vec<Seat>,
        layout: Layout,
    ) -> Result<Self, BadSet> {
        let has_parity = level.is_some_and(|level| level.parity() > 0);
        let written = vec![0; if has_parity { layout.stripes() as usize } else { 0 }];
        let record =
            SetRecord { id, level, members, replacement: None, written, stale: Vec::new() };
        Self::new(record, layout)
    }

    /// The set of a record.
    ///
    /// # Errors
    /// Why the record makes no set.
    pub fn new(record: SetRecord, layout: Layout) -> Result<Self, BadSet> {
        let SetRecord { id, level, members, replacement, written, stale } = record;
        let shape = Shape::of(level, members.len()).ok_or(BadSet::Members(members.len()))?;
        if let Some(new) = replacement.filter(|new| new.member >= members.len()) {
            return Err(BadSet::Replacement(new.member));
        }
        let seats: Vec<_> =
            members.iter().copied().chain(replacement.map(|new| new.seat)).collect();
        for (i, seat) in seats.iter().enumerate() {
            if seats[..i].iter().any(|other| other.disk == seat.disk) {
                return Err(BadSet::SameDisk(seat.disk));
            }
        }
        let stripes = layout.stripes() as usize;
        let wanted = if shape.parity() > 0 { stripes } else { 0 };
        if written.len() != wanted || !(stale.is_empty() || stale.len() == stripes) {
            return Err(BadSet::Stripes);
        }
        let (given, flushing) = (Vec::new(), Vec::new());
        let state = State {
            members,
            replacement,
            ending: None,
            recorded: None,
            written,
            stale,
            given,
            flushing,
            users: Users::default(),
        };
        let state = RwLock::new(state);
        Ok(Self { id, level, shape, layout, state, turn: AtomicU32::new(0) })
    }

    /// What a checkpoint keeps of it. When that is durable [`recorded`](Self::recorded) must follow.
    #[must_use]
    pub fn record(&self) -> SetRecord {
        let state = &mut *self.state_mut();
        let mut stale = state.lacking();
        let mut members = state.members.clone();
        let lacks = stale.iter().any(|mask| mask >> REPLACEMENT & 1 == 1);
        state.recorded = state.ending.filter(|ending| *ending == Ending::Drop || !lacks);
        let mut replacement = state.replacement;
        if let Some(ending) = state.recorded {
            let new = replacement.take().expect("a replacement ends");
            let mut gone = 1 << REPLACEMENT;
            if ending == Ending::Promotion {
                members[new.member] = new.seat;
                gone |= 1 << new.member;
            }
            stale.iter_mut().for_each(|mask| *mask &= !gone);
        }
        if stale.iter().all(|mask| *mask == 0) {
            stale.clear();
        }
        let written = state.written.clone();
        SetRecord { id: self.id, level: self.level, members, replacement, written, stale }
    }

    /// The last record is durable: what it says of the replacement counts. The chunk that is free
    /// then.
    #[must_use]
    pub fn recorded(&self) -> Option<Left> {
        let state = &mut *self.state_mut();
        let ending = state.recorded.take()?;
        let new = state.replacement.take()?;
        state.ending = None;
        if ending == Ending::Drop {
            state.forget_bit(1 << REPLACEMENT);
            return Some(state.users.leave(new.seat));
        }
        // What it has missed since the record was made it lacks as a member.
        state.forget_bit(1 << new.member);
        for masks in [&mut state.stale, &mut state.given, &mut state.flushing] {
            for mask in masks.iter_mut().filter(|mask| **mask >> REPLACEMENT & 1 == 1) {
                *mask = *mask & !(1 << REPLACEMENT) | 1 << new.member;
            }
        }
        let old = std::mem::replace(&mut state.members[new.member], new.seat);
        Some(state.users.leave(old))
    }

    /// All disks are about to be flushed.
    pub fn flush_begins(&self) {
        let state = &mut *self.state_mut();
        let given = std::mem::take(&mut state.given);
        let stripes = given.len().max(state.flushing.len());
        state.flushing.resize(stripes, 0);
        state.flushing.iter_mut().zip(given).for_each(|(mask, more)| *mask |= more);
    }

    /// `disk` failed: what it was given and did not flush it lacks again.
    pub fn take_back(&self, disk: DiskId) {
        if is(Mutant::ForgetLacking) {
            return;
        }
        let state = &mut *self.state_mut();
        let Some(bit) = state.bit_of(disk) else { return };
        let lacking = state.lacking();
        state.stale.resize(lacking.len(), 0);
        state.stale.iter_mut().zip(lacking).for_each(|(mask, lacks)| *mask |= lacks & bit);
    }

    /// They were: what was given before that is durable. What a disk that failed meanwhile lacks
    /// was marked before this.
    pub fn flush_ends(&self) {
        self.state_mut().flushing.clear();
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SetId {
        self.id
    }

    /// `None`: metadata, mirrored.
    #[must_use]
    pub fn level(&self) -> Option<Level> {
        self.level
    }

    /// How it is built.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape.with_members(self.state().members.len())
    }

    /// How many stripes it has.
    #[must_use]
    pub fn stripes(&self) -> u32 {
        self.layout.stripes()
    }

    /// How many clusters it holds.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.stripes() * self.shape.columns() as u32
    }

    /// Its members.
    #[must_use]
    pub fn members(&self) -> Vec<Seat> {
        self.state().members.clone()
    }

    /// What is being made ready to replace a member.
    #[must_use]
    pub fn replacement(&self) -> Option<Replacement> {
        self.state().replacement
    }

    /// Its members, and behind them the replacement, if there is one.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        let state = self.state();
        state.members.iter().copied().chain(state.replacement.map(|new| new.seat)).collect()
    }

    /// The columns that the parity of `stripe` covers. Without parity nothing is kept: the one
    /// column counts as written always.
    #[must_use]
    pub fn written(&self, stripe: u32) -> u8 {
        assert!(stripe < self.stripes(), "the set has such a stripe");
        self.state().written.get(stripe as usize).copied().unwrap_or(1)
    }

    /// The members that missed a change of `stripe`: bit = index, bit [`REPLACEMENT`].
    #[must_use]
    pub fn stale(&self, stripe: u32) -> u16 {
        assert!(stripe < self.stripes(), "the set has such a stripe");
        self.state().stale.get(stripe as usize).copied().unwrap_or(0)
    }

    /// The stripes in which somebody missed a change.
    #[must_use]
    pub fn stale_stripes(&self) -> Vec<u32> {
        let state = self.state();
        let stripes = state.stale.iter().enumerate().filter(|(_, mask)| **mask != 0);
        stripes.map(|(stripe, _)| stripe as u32).collect()
    }

    /// Whether `disk` missed a change of any stripe.
    #[must_use]
    pub fn is_stale_on(&self, disk: DiskId) -> bool {
        let state = self.state();
        state.bit_of(disk).is_some_and(|bit| state.stale.iter().any(|mask| mask & bit != 0))
    }

    /// The chunks that missed a change of `stripe`.
    #[must_use]
    pub fn stale_seats(&self, stripe: u32) -> Vec<Seat> {
        self.stale_holders(stripe).into_iter().map(|(_, seat)| seat).collect()
    }

    /// The same after a loss of power: also those that got it since their last flush.
    #[must_use]
    pub fn lacking_seats(&self, stripe: u32) -> Vec<Seat> {
        let state = self.state();
        let of = |masks: &Vec<u16>| masks.get(stripe as usize).copied().unwrap_or(0);
        let mask = of(&state.stale) | of(&state.given) | of(&state.flushing);
        let members = state.members.iter().enumerate();
        let lacking = members.filter(|(member, _)| mask >> member & 1 == 1);
        let new = state.replacement.filter(|_| mask >> REPLACEMENT & 1 == 1);
        lacking.map(|(_, seat)| *seat).chain(new.map(|new| new.seat)).collect()
    }

    /// Members that may be lost without losing data.
    #[must_use]
    pub fn losses_max(&self) -> usize {
        match self.shape.parity() {
            0 => self.shape().members() - 1,
            parity => parity,
        }
    }

    /// The stripe holds nothing any more, so nobody missed anything of it.
    pub fn forget(&self, stripe: u32) {
        let mut state = self.state_mut();
        if let Some(written) = state.written.get_mut(stripe as usize) {
            *written = 0;
        }
        if let Some(stale) = state.stale.get_mut(stripe as usize) {
            *stale = 0;
        }
    }

    /// Columns of `stripe` were written, as a journal tells after a crash.
    pub fn mark_written(&self, stripe: u32, columns: u8) {
        assert!(usize::from(columns) >> self.shape.columns() == 0, "columns of this set");
        if let Some(written) = self.state_mut().written.get_mut(stripe as usize) {
            *written |= columns;
        }
    }

    /// `disk` missed a change of `stripe`; of no effect when it is none of the set's disks.
    pub fn mark_stale(&self, stripe: u32, disk: DiskId) {
        if is(Mutant::NoStaleBits) {
            return;
        }
        let stripes = self.stripes() as usize;
        assert!((stripe as usize) < stripes, "the set has such a stripe");
        let mut state = self.state_mut();
        if let Some(bit) = state.bit_of(disk) {
            state.stale.resize(stripes, 0);
            state.stale[stripe as usize] |= bit;
        }
    }

    /// Nothing that `disk` holds of this set is to be trusted.
    pub fn mark_all_stale(&self, disk: DiskId) {
        let stripes = self.stripes() as usize;
        let mut state = self.state_mut();
        if let Some(bit) = state.bit_of(disk) {
            state.stale.resize(stripes, 0);
            state.stale.iter_mut().for_each(|mask| *mask |= bit);
        }
    }

    /// `seat` was given all of `stripe`. Of no effect when it has left the set since: its disk may be about
    /// to replace another member by now, in a chunk that was given nothing.
    pub(super) fn clear_stale(&self, stripe: u32, seat: Seat) {
        let mut state = self.state_mut();
        let bit = match is(Mutant::CreditDisk) {
            true => state.bit_of(seat.disk),
            false => state.bit_of_seat(seat),
        };
        let Some(bit) = bit else { return };
        let stripes = state.stale.len();
        let Some(mask) = state.stale.get_mut(stripe as usize) else { return };
        if *mask & bit != 0 {
            *mask &= !bit;
            state.given.resize(stripes, 0);
            state.given[stripe as usize] |= bit;
        }
    }

    /// From now on writes also go to `seat`, which is to replace `member` when
    /// [`Raid::refresh_stripe`](super::Raid::refresh_stripe) has filled it.
    ///
    /// # Errors
    /// When there is no such member, or the disk has a member already. A replacement that there
    /// was before is dropped.
    pub fn set_replacement(&self, member: usize, seat: Seat) -> Result<(), BadSet> {
        if member >= self.shape().members() {
            return Err(BadSet::Replacement(member));
        }
        let stripes = self.stripes() as usize;
        let mut state = self.state_mut();
        if state.members.iter().any(|other| other.disk == seat.disk) {
            return Err(BadSet::SameDisk(seat.disk));
        }
        state.forget_bit(1 << REPLACEMENT);
        (state.ending, state.recorded) = (None, None);
        state.replacement = Some(Replacement { member, seat });
        state.stale.resize(stripes, 0);
        state.stale.iter_mut().for_each(|mask| *mask |= 1 << REPLACEMENT);
        Ok(())
    }

    /// One more copy of metadata, which
    /// [`Raid::refresh_stripe`](super::Raid::refresh_stripe) has to fill.
    ///
    /// # Errors
    /// When the set is none of metadata or has all copies already, or one on this disk.
    pub fn add_copy(&self, seat: Seat) -> Result<(), BadSet> {
        let stripes = self.stripes() as usize;
        let mut state = self.state_mut();
        let member = state.members.len();
        if self.level.is_some() || Shape::of(None, member + 1).is_none() {
            return Err(BadSet::Members(member + 1));
        }
        if state.bit_of(seat.disk).is_some() {
            return Err(BadSet::SameDisk(seat.disk));
        }
        state.members.push(seat);
        state.forget_bit(1 << member);
        state.stale.resize(stripes, 0);
        state.stale.iter_mut().for_each(|mask| *mask |= 1 << member);
        Ok(())
    }

    /// Gives up a copy of metadata, when all others are whole; the chunk that is free then.
    #[must_use]
    pub fn remove_copy(&self, disk: DiskId) -> Option<Left> {
        let state = &mut *self.state_mut();
        let member = state.members.iter().position(|seat| seat.disk == disk)?;
        let others = !(1 << member);
        let is_whole = state.lacking().iter().all(|mask| mask & others == 0);
        let may_go = self.level.is_none() && state.replacement.is_none() && is_whole;
        if !may_go || state.members.len() == 1 {
            return None;
        }
        for masks in [&mut state.stale, &mut state.given, &mut state.flushing] {
            masks.iter_mut().for_each(|mask| *mask = 0);
        }
        let old = state.members.remove(member);
        Some(state.users.leave(old))
    }

    /// Gives the replacement up with the next record; whether there is one.
    pub fn drop_replacement(&self) -> bool {
        let state = &mut *self.state_mut();
        if state.replacement.is_some() {
            state.ending = Some(Ending::Drop);
        }
        state.replacement.is_some()
    }

    /// Lets a replacement that was given everything take its member's place with the next record,
    /// if that is durable by then; whether there is one.
    pub fn promote_replacement(&self) -> bool {
        let state = &mut *self.state_mut();
        let lacks = state.stale.iter().any(|mask| mask >> REPLACEMENT & 1 == 1);
        let is_whole = state.replacement.is_some() && !lacks;
        if is_whole && state.ending.is_none() {
            state.ending = Some(Ending::Promotion);
        }
        if let Some(new) = state.replacement.filter(|_| is_whole && takes_place(false)) {
            state.members[new.member] = new.seat;
        }
        is_whole
    }

    /// Which chunks hold `strip` of `stripe`.
    pub(super) fn holders(&self, stripe: u32, strip: usize) -> Holders {
        assert!(stripe < self.stripes() && strip < self.shape.strips(), "a strip of this set");
        let state = self.state();
        let stale = state.stale.get(stripe as usize).copied().unwrap_or(0);
        let shape = self.shape.with_members(state.members.len());
        let mut holders = Holders::new();
        for (member, seat) in state.members.iter().enumerate() {
            if !shape.holds(stripe, member, strip) {
                continue;
            }
            holders.push(Holder { seat: *seat, is_stale: stale >> member & 1 == 1 });
            if let Some(new) = state.replacement.filter(|new| new.member == member) {
                holders.push(Holder { seat: new.seat, is_stale: stale >> REPLACEMENT & 1 == 1 });
            }
        }
        debug_assert!(!holders.is_empty(), "somebody holds every strip");
        holders
    }

    /// The chunks of `stripe` that miss something, and which strip it is.
    pub(super) fn stale_holders(&self, stripe: u32) -> Vec<(usize, Seat)> {
        let strips = 0..self.shape.strips();
        let holders = strips.flat_map(|strip| {
            self.holders(stripe, strip).into_iter().map(move |holder| (strip, holder))
        });
        let stale = holders.filter(|(_, holder)| holder.is_stale);
        stale.map(|(strip, holder)| (strip, holder.seat)).collect()
    }

    /// Those that miss nothing of it.
    pub fn sound_seats(&self, stripe: u32) -> Vec<Seat> {
        let holders = (0..self.shape.strips()).flat_map(|strip| self.holders(stripe, strip));
        holders.filter(|holder| !holder.is_stale).map(|holder| holder.seat).collect()
    }

    /// Where a block of a strip lies on its disk.
    pub(crate) fn byte_at(&self, seat: Seat, stripe: u32, block: usize) -> u64 {
        self.layout.at(seat.chunk, stripe, block)
    }

    /// Counts reads, for mirrors to take turns.
    pub(super) fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) as usize
    }

    /// The parity of `stripe` does not count on what these columns hold any more. If their disks come back
    /// with it, that is proved by its checksums, and the parity is made anew.
    pub fn give_up(&self, stripe: u32, columns: u8) {
        for column in (0..self.shape().columns()).filter(|column| columns >> column & 1 == 1) {
            if !is(Mutant::ForgetGivenUp) {
                let holders = self.holders(stripe, column);
                holders.iter().for_each(|holder| self.mark_stale(stripe, holder.seat.disk));
            }
        }
    }

    /// The parity of `stripe` covers these columns and no others.
    pub fn set_written(&self, stripe: u32, columns: u8) {
        assert!(usize::from(columns) >> self.shape.columns() == 0, "columns of this set");
        if let Some(written) = self.state_mut().written.get_mut(stripe as usize) {
            *written = columns;
        }
    }

    /// To be held by whoever reads or writes its chunks.
    pub(super) fn join(&self) -> User {
        self.state().users.join()
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().expect("no panic under this lock")
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().expect("no panic under this lock")
    }
}

impl State {
    /// Who would lack something of each stripe after a loss of power.
    fn lacking(&self) -> Vec<u16> {
        let mut masks = self.stale.clone();
        for more in [&self.given, &self.flushing] {
            masks.resize(masks.len().max(more.len()), 0);
            masks.iter_mut().zip(more).for_each(|(mask, more)| *mask |= more);
        }
        masks
    }

    /// Nobody has this bit any more, or somebody else.
    fn forget_bit(&mut self, bit: u16) {
        for masks in [&mut self.stale, &mut self.given, &mut self.flushing] {
            masks.iter_mut().for_each(|mask| *mask &= !bit);
        }
    }

    fn bit_of(&self, disk: DiskId) -> Option<u16> {
        self.bit_where(|seat| seat.disk == disk)
    }

    fn bit_of_seat(&self, wanted: Seat) -> Option<u16> {
        self.bit_where(|seat| seat == wanted)
    }

    fn bit_where(&self, is_it: impl Fn(Seat) -> bool) -> Option<u16> {
        let member = self.members.iter().position(|seat| is_it(*seat));
        let new = self.replacement.filter(|new| is_it(new.seat)).map(|_| REPLACEMENT);
        member.or(new).map(|index| 1 << index)
    }
}

#[cfg(test)]
mod tests;
