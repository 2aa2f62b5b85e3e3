//! Who runs a part of the store: one step at a time from the seats that there are to those that are wanted. Pure.
//!
//! A **seat** is a member of the etcd cluster. It has a vote, or it is a learner, which only listens until it has caught
//! up. Each step is one that etcd takes, and none takes the store away from those who use it:
//!
//! ```text
//!            Add               starts, catches up          Promote
//!   (none) ───────▶ Learner ────────────────────▶ Learner ─────────▶ Voter
//!      ▲               │                                               │
//!      ╰───────────────┴───────────────── Remove ──────────────────────╯
//! ```
//!
//! 1. Nothing is done while the voters that live are no majority of the voters: etcd could not decide it.
//! 2. No voter is removed whose absence would leave those that live without a majority of the rest.
//! 3. There is at most one learner, as etcd wants it.
//! 4. A seat is only added while all voters live, as etcd wants it; so who is gone for good goes first.
//! 5. A voter lives when its etcd has been there, its member is present, and it was not silent when it was asked.
//!    Whoever takes a seat away asks them first ([`heard`]).
//! 6. Voters do not stay an even number: two of two are worth less than one of one. Where nobody is there who would
//!    make them odd, one goes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::ownership::MemberId;

/// A member of the etcd cluster, as the plan looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The number that etcd has given it.
    pub etcd_id: u64,
    /// Whose it is; `None` if it is of no member that is known.
    pub member: Option<MemberId>,
    /// Where other seats reach it.
    pub peer_urls: Vec<String>,
    /// It has no vote yet.
    pub is_learner: bool,
    /// Its etcd has been there once.
    pub is_started: bool,
    /// Its etcd answers, as far as is known: it was not asked, or it said so ([`heard`]).
    pub answers: bool,
}

/// The seats, where exactly those voters answer: what costs a vote must not rely on one that is not cast. A learner
/// casts none, and answers nobody.
#[must_use]
pub fn heard(seats: &[Seat], answering: &BTreeSet<u64>) -> Vec<Seat> {
    let heard = |seat: &Seat| {
        let answers = seat.is_learner || answering.contains(&seat.etcd_id);
        Seat { answers, ..seat.clone() }
    };
    seats.iter().map(heard).collect()
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Give this member a seat, as a learner. Its etcd is started then.
    Add(MemberId),
    /// Give the learner with this number of etcd a vote, when it has caught up.
    Promote(u64),
    /// Take the seat with this number of etcd away.
    Remove(u64),
}

/// How many seats a group of so many members has: what outlives the loss of one, or of two, and no more, since each
/// one has to hear of every change.
#[must_use]
pub(super) const fn seats_wanted(members: usize) -> usize {
    match members {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    }
}

/// The next step, or `None` where nothing is to be done, or nothing can be done now.
///
/// `members` says of each member whether it is present. Those in `away_long` get no seat, and lose the one they have
/// when another one can take it: who has been away for so long that it is not waited for any more, or has not
/// started its etcd although it should have. Those in `leaving` are present and will be removed: their seats go to others
/// first.
#[must_use]
pub fn next(
    members: &BTreeMap<MemberId, bool>,
    seats: &[Seat],
    away_long: &BTreeSet<MemberId>,
    leaving: &BTreeSet<MemberId>,
) -> Option<Step> {
    let table = Table { members, seats, away_long, leaving };
    if !is_majority(table.living(), table.voters().count()) {
        return None;
    }
    let removed = table
        .useless_learner()
        .or_else(|| table.seat_of_nobody())
        .or_else(|| table.seat_too_many())
        .or_else(|| table.replaceable());
    if let Some(seat) = removed {
        return Some(Step::Remove(seat.etcd_id));
    }
    match table.useful_learner() {
        Some(learner) if learner.is_started && table.is_there(learner) => {
            assert!(is_majority(table.living() + 1, table.voters().count() + 1), "{seats:?}");
            Some(Step::Promote(learner.etcd_id))
        }
        // It is waited for.
        Some(_) => None,
        None => {
            let departure = || table.departure().map(|seat| Step::Remove(seat.etcd_id));
            let surplus = || table.seat_that_makes_even().map(|seat| Step::Remove(seat.etcd_id));
            table.addition().map(Step::Add).or_else(departure).or_else(surplus)
        }
    }
}

/// Whether the store goes on when this member ends at once, its seat included. Only seats of which it was
/// [`heard`] whether they answer tell that for sure.
#[must_use]
pub fn survives_without(
    member: MemberId,
    members: &BTreeMap<MemberId, bool>,
    seats: &[Seat],
) -> bool {
    let nobody = BTreeSet::new();
    let table = Table { members, seats, away_long: &nobody, leaving: &nobody };
    let is_anothers = |seat: &&Seat| seat.member != Some(member);
    let others = table.voters().filter(|seat| table.lives(seat)).filter(is_anothers).count();
    let has_no_vote = table.voters().all(|seat| is_anothers(&seat));
    has_no_vote || is_majority(others, table.voters().count())
}

/// Whether so many are more than half of those.
const fn is_majority(living: usize, voters: usize) -> bool {
    living * 2 > voters
}

/// What is known, and the questions to it.
struct Table<'a> {
    members: &'a BTreeMap<MemberId, bool>,
    seats: &'a [Seat],
    away_long: &'a BTreeSet<MemberId>,
    leaving: &'a BTreeSet<MemberId>,
}

impl<'a> Table<'a> {
    fn voters(&self) -> impl Iterator<Item = &'a Seat> {
        self.seats.iter().filter(|seat| !seat.is_learner)
    }

    fn is_there(&self, seat: &Seat) -> bool {
        seat.member.is_some_and(|member| self.members.get(&member) == Some(&true))
    }

    /// A voter that can be counted on.
    fn lives(&self, seat: &Seat) -> bool {
        !seat.is_learner && seat.is_started && seat.answers && self.is_there(seat)
    }

    fn living(&self) -> usize {
        self.voters().filter(|seat| self.lives(seat)).count()
    }

    /// The seat of a member that stays in the group.
    fn stays(&self, seat: &Seat) -> bool {
        seat.member.is_some_and(|member| {
            self.members.contains_key(&member) && !self.leaving.contains(&member)
        })
    }

    fn is_away_long(&self, seat: &Seat) -> bool {
        seat.member.is_some_and(|member| self.away_long.contains(&member))
    }

    /// A voter that stays in the group, and is not waited for any more.
    fn is_lost(&self, seat: &Seat) -> bool {
        self.stays(seat) && !self.lives(seat) && self.is_away_long(seat)
    }

    /// Voters of members that stay.
    fn kept(&self) -> impl Iterator<Item = &'a Seat> {
        self.voters().filter(move |seat| self.stays(seat))
    }

    fn wanted(&self) -> usize {
        let staying = self.members.keys().filter(|member| !self.leaving.contains(*member));
        seats_wanted(staying.count())
    }

    /// Members that can be given a seat, the eldest first.
    fn candidates(&self) -> impl Iterator<Item = MemberId> {
        let has_none =
            move |member: &MemberId| self.seats.iter().all(|seat| seat.member != Some(*member));
        let there = self.members.iter().filter(|(_, is_present)| **is_present);
        let there = there.map(|(member, _)| *member);
        there.filter(move |member| {
            !self.away_long.contains(member) && !self.leaving.contains(member) && has_none(member)
        })
    }

    /// The learner that will be a voter.
    fn useful_learner(&self) -> Option<&'a Seat> {
        let is_useful = |seat: &&Seat| {
            let votes = |voter: &Seat| voter.member == seat.member;
            seat.is_learner
                && self.stays(seat)
                && !self.is_away_long(seat)
                && !self.voters().any(votes)
        };
        let counted_on = self.kept().filter(|seat| !self.is_lost(seat)).count();
        let is_wanted = counted_on < self.wanted();
        self.seats.iter().find(is_useful).filter(|_| is_wanted)
    }

    fn useless_learner(&self) -> Option<&'a Seat> {
        let useful = self.useful_learner().map(|seat| seat.etcd_id);
        self.seats.iter().find(|seat| seat.is_learner && useful != Some(seat.etcd_id))
    }

    /// The vote of a member that is not in the group, or goes and is not there any more: it can only be missing.
    fn seat_of_nobody(&self) -> Option<&'a Seat> {
        self.voters().find(|seat| !self.stays(seat) && !self.lives(seat))
    }

    /// Where more vote than is wanted: one that is not there, else the youngest.
    fn seat_too_many(&self) -> Option<&'a Seat> {
        if self.kept().count() <= self.wanted() { None } else { self.least() }
    }

    /// Where as many vote as make an even number, and nobody is there to make it odd: the same.
    fn seat_that_makes_even(&self) -> Option<&'a Seat> {
        let is_odd = !self.kept().count().is_multiple_of(2);
        let is_learner = |seat: &Seat| seat.is_learner;
        let can_grow = self.seats.iter().any(is_learner) || self.candidates().next().is_some();
        if is_odd || can_grow { None } else { self.least() }
    }

    /// The vote that can be missed most easily, if it can be.
    fn least(&self) -> Option<&'a Seat> {
        let least =
            |seat: &&Seat| (self.lives(seat), !self.is_away_long(seat), Reverse(seat.member));
        self.kept().min_by_key(least).filter(|seat| self.can_go(seat))
    }

    /// The vote of a member that is not waited for any more, if there is another one for it.
    fn replaceable(&self) -> Option<&'a Seat> {
        let learner = self.useful_learner().filter(|seat| self.is_there(seat));
        if learner.is_none() && self.candidates().next().is_none() {
            return None;
        }
        self.youngest_lost()
    }

    fn youngest_lost(&self) -> Option<&'a Seat> {
        self.kept().filter(|seat| self.is_lost(seat)).max_by_key(|seat| seat.member)
    }

    /// Who gets a further seat: the eldest that has none.
    fn addition(&self) -> Option<MemberId> {
        let (kept, voters) = (self.kept().count(), self.voters().count());
        let makes_odd = kept.is_multiple_of(2) || self.candidates().nth(1).is_some();
        if kept >= self.wanted() || self.living() < voters || !makes_odd {
            return None;
        }
        self.candidates().next()
    }

    /// The vote of a member that goes and is still there, or one that is in its way: with votes that are not cast any
    /// more, those that are needed are more.
    fn departure(&self) -> Option<&'a Seat> {
        let going = self.voters().filter(|seat| !self.stays(seat) && self.lives(seat));
        let going = going.max_by_key(|seat| seat.member)?;
        if self.can_go(going) { Some(going) } else { self.youngest_lost() }
    }

    /// Without it, those that live are a majority of the rest.
    fn can_go(&self, seat: &Seat) -> bool {
        let living = self.living() - usize::from(self.lives(seat));
        is_majority(living, self.voters().count() - 1)
    }
}
