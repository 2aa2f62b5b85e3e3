//! From any seats, with members that come and go between the steps, the plan ends at what is wanted, and no step on the
//! way costs the store its majority.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use crate::cluster::plan::seats_wanted;
use crate::cluster::{Seat, Step, heard, next, survives_without};
use crate::ownership::MemberId;

/// More steps than any way has.
const STEPS_MAX: usize = 60;

fn seat(etcd_id: u64, member: u16) -> Seat {
    Seat {
        etcd_id,
        member: Some(MemberId(member)),
        peer_urls: Vec::new(),
        is_learner: false,
        is_started: true,
        answers: true,
    }
}

/// A group, and the members of its etcd, which do what they are asked to.
#[derive(Debug, Clone, Default)]
struct World {
    members: BTreeMap<MemberId, bool>,
    seats: Vec<Seat>,
    away_long: BTreeSet<MemberId>,
    leaving: BTreeSet<MemberId>,
    last_id: u64,
}

impl World {
    /// Members 1 to `members`, all present, the first `seats` of which have one.
    fn of(members: u16, seats: u16) -> Self {
        let members = (1..=members).map(|member| (MemberId(member), true)).collect();
        let seats = (1..=seats).map(|member| seat(u64::from(member), member)).collect();
        Self { members, seats, last_id: 100, ..Self::default() }
    }

    fn voters(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| !seat.is_learner)
    }

    fn is_there(&self, seat: &Seat) -> bool {
        seat.member.is_some_and(|member| self.members.get(&member) == Some(&true))
    }

    fn has_majority(&self) -> bool {
        let casts = |seat: &&Seat| seat.is_started && seat.answers && self.is_there(seat);
        let living = self.voters().filter(casts).count();
        living * 2 > self.voters().count()
    }

    fn next(&self) -> Option<Step> {
        next(&self.members, &self.seats, &self.away_long, &self.leaving)
    }

    /// One step, which etcd would take, and after which there is a majority as before it.
    fn work(&mut self) -> Option<Step> {
        let step = self.next()?;
        assert!(self.has_majority(), "nothing is done without a majority: {step:?} of {self:?}");
        let before = self.clone();
        match step {
            Step::Add(member) => {
                assert!(self.seats.iter().all(|seat| !seat.is_learner), "one learner: {before:?}");
                assert!(self.voters().all(|seat| self.is_there(seat)), "all live: {before:?}");
                assert_eq!(self.members.get(&member), Some(&true), "it is there: {before:?}");
                self.last_id += 1;
                let learner = Seat { is_learner: true, is_started: false, ..seat(0, member.0) };
                self.seats.push(Seat { etcd_id: self.last_id, ..learner });
            }
            Step::Promote(id) => {
                let learner = self.seats.iter_mut().find(|seat| seat.etcd_id == id);
                let learner = learner.expect("a seat that is there");
                assert!(learner.is_learner && learner.is_started, "{before:?}");
                learner.is_learner = false;
            }
            Step::Remove(id) => {
                self.seats.retain(|seat| seat.etcd_id != id);
                assert_eq!(self.seats.len() + 1, before.seats.len(), "{id} of {before:?}");
            }
        }
        assert!(self.has_majority(), "{step:?} costs the majority: {before:?}");
        Some(step)
    }

    /// Etcds of those that are there are started.
    fn start(&mut self) {
        for at in 0..self.seats.len() {
            let is_there = self.is_there(&self.seats[at]);
            self.seats[at].is_started |= is_there;
        }
    }

    /// Whoever is away is away for good.
    fn age(&mut self) {
        let away = self.members.iter().filter(|(_, is_present)| !**is_present);
        self.away_long = away.map(|(member, _)| *member).collect();
    }

    fn flip(&mut self, member: MemberId) {
        if let Some(is_present) = self.members.get_mut(&member) {
            *is_present = !*is_present;
            self.away_long.remove(&member);
        }
    }

    /// All steps until none is left.
    fn settle(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some(step) = self.work() {
            steps.push(step);
            assert!(steps.len() < STEPS_MAX, "it does not end: {steps:?}, {self:?}");
            self.start();
        }
        steps
    }

    /// What the plan promises when nothing is left to do.
    fn check_settled(&self) {
        let staying: Vec<MemberId> =
            self.members.keys().filter(|member| !self.leaving.contains(*member)).copied().collect();
        let present = staying.iter().filter(|member| self.members[*member]).count();
        let wanted = seats_wanted(staying.len());
        let voters = self.voters().count();
        assert_eq!(voters, self.seats.len(), "no learner is left: {self:?}");
        if present == 0 {
            return;
        }
        let stays = |seat: &Seat| seat.member.is_some_and(|member| staying.contains(&member));
        assert!(self.voters().all(stays), "seats are of those that stay: {self:?}");
        let there = self.voters().filter(|seat| self.is_there(seat)).count();
        assert_eq!(voters % 2, 1, "an even number is worth no more than one less: {self:?}");
        if present >= wanted {
            assert_eq!(
                (voters, there),
                (wanted, wanted),
                "all that is wanted, and there: {self:?}"
            );
        } else {
            // One that would make them an even number is left out.
            assert!(voters <= wanted && there + 1 >= present, "as many as there are: {self:?}");
        }
    }
}

#[derive(Debug, Clone)]
enum Event {
    Work,
    Start,
    Age,
    Flip(u16),
    Remove(u16),
    Leave(u16),
    Join,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => Just(Event::Work),
        4 => Just(Event::Start),
        2 => Just(Event::Age),
        3 => (1u16..10).prop_map(Event::Flip),
        1 => (1u16..10).prop_map(Event::Remove),
        1 => (1u16..10).prop_map(Event::Leave),
        1 => Just(Event::Join),
    ]
}

impl World {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Work => {
                self.work();
            }
            Event::Start => self.start(),
            Event::Age => self.age(),
            Event::Flip(member) => self.flip(MemberId(*member)),
            Event::Remove(member) if self.members.len() > 1 => {
                let member = MemberId(*member);
                self.members.remove(&member);
                self.away_long.remove(&member);
                self.leaving.remove(&member);
            }
            Event::Remove(_) => {}
            Event::Leave(member) => {
                self.leaving.insert(MemberId(*member));
            }
            Event::Join => {
                let seats = self.seats.iter().filter_map(|seat| seat.member);
                let last = self.members.keys().copied().chain(seats).max();
                self.members.insert(MemberId(last.map_or(0, |last| last.0) + 1), true);
            }
        }
    }

    /// From now on nothing happens by itself: those that are needed for a majority are back, and who is away is so for
    /// good.
    fn calm(&mut self) {
        let has_voter: Vec<MemberId> = self.voters().filter_map(|seat| seat.member).collect();
        self.start();
        for member in has_voter {
            if !self.has_majority()
                && let Some(is_present) = self.members.get_mut(&member)
            {
                *is_present = true;
                self.start();
            }
        }
        self.age();
        self.start();
        let (members, leaving) = (&self.members, &mut self.leaving);
        leaving.retain(|member| members.get(member) == Some(&true));
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let kind = (prop::bool::weighted(0.15), prop::bool::weighted(0.9));
    let members = vec(prop::bool::weighted(0.8), 1..9);
    let seats = (btree_set(1u16..11, 1..7), vec(kind, 7));
    let sets = (btree_set(1u16..9, 0..3), btree_set(1u16..9, 0..3));
    (members, seats, sets).prop_map(|(present, (holders, kinds), (away_long, leaving))| {
        let members: BTreeMap<MemberId, bool> = (1..).map(MemberId).zip(present).collect();
        let seats = holders.into_iter().zip(kinds).zip(1..);
        let seats = seats.map(|((member, (is_learner, is_started)), id)| {
            // One of nobody's: it was added and never taken.
            let owner = (member < 10).then_some(MemberId(member));
            Seat { member: owner, is_learner, is_started, ..seat(id, member) }
        });
        let set = |members: BTreeSet<u16>| members.into_iter().map(MemberId).collect();
        let (seats, last_id) = (seats.collect(), 100);
        World { members, seats, away_long: set(away_long), leaving: set(leaving), last_id }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn any_history_ends_at_what_is_wanted(mut world in worlds(), events in vec(event(), 0..60)) {
        for event in &events {
            world.apply(event);
        }
        world.calm();
        if world.has_majority() {
            world.settle();
            world.check_settled();
        } else {
            prop_assert_eq!(world.next(), None);
        }
    }
}

#[test]
fn one_grows_to_three_and_to_five() {
    let mut world = World::of(2, 1);
    assert_eq!(world.next(), None, "one of two is what is wanted");
    world.flip(MemberId(2));
    world.members.insert(MemberId(3), true);
    assert_eq!(world.next(), None, "a second seat alone is worth less than none");
    world.flip(MemberId(2));
    assert_eq!(
        world.settle(),
        [Step::Add(MemberId(2)), Step::Promote(101), Step::Add(MemberId(3)), Step::Promote(102)]
    );
    world.members.extend([4, 5].map(|member| (MemberId(member), true)));
    assert_eq!(world.settle().len(), 4);
    world.check_settled();
}

#[test]
fn who_is_away_keeps_the_seat_until_another_can_take_it() {
    let mut world = World::of(3, 3);
    world.flip(MemberId(3));
    world.age();
    assert_eq!(world.next(), None, "nobody else is there");
    world.members.insert(MemberId(4), true);
    world.away_long.clear();
    assert_eq!(world.next(), None, "it is waited for");
    world.age();
    // etcd adds nobody while one is away.
    assert_eq!(world.settle(), [Step::Remove(3), Step::Add(MemberId(4)), Step::Promote(101)]);
    world.flip(MemberId(3));
    assert_eq!(world.next(), None, "who is back finds it taken");
}

#[test]
fn a_learner_that_never_starts_makes_room() {
    let mut world = World::of(4, 1);
    assert_eq!(world.work(), Some(Step::Add(MemberId(2))));
    assert_eq!(world.next(), None, "it is waited for");
    world.away_long.insert(MemberId(2));
    assert_eq!(world.work(), Some(Step::Remove(101)));
    assert_eq!(world.work(), Some(Step::Add(MemberId(3))));
}

/// One of three has no etcd: two votes would be lost with either of the two.
#[test]
fn two_votes_become_one_where_no_third_can_come() {
    let mut world = World::of(3, 1);
    assert_eq!(world.work(), Some(Step::Add(MemberId(2))));
    world.start();
    assert_eq!(world.work(), Some(Step::Promote(101)));
    assert_eq!(world.work(), Some(Step::Add(MemberId(3))));
    assert_eq!(world.next(), None, "it is waited for");
    world.away_long.insert(MemberId(3));
    assert_eq!(world.settle(), [Step::Remove(102), Step::Remove(101)]);
    // While one of two is away nothing can be decided.
    let mut world = World::of(3, 2);
    world.away_long.insert(MemberId(3));
    world.flip(MemberId(2));
    assert_eq!(world.next(), None, "one of two decides nothing");
    // Of four, whoever is away is the one that goes.
    let mut world = World::of(5, 4);
    world.away_long.insert(MemberId(5));
    world.flip(MemberId(2));
    assert_eq!(world.settle(), [Step::Remove(2)]);
    world.flip(MemberId(2));
    assert_eq!(world.next(), None, "a fourth vote is worth nothing");
    // As soon as the other is there, both get one.
    world.away_long.clear();
    assert_eq!(world.settle().len(), 4);
    world.check_settled();
}

#[test]
fn the_only_seat_moves_before_its_member_leaves() {
    let mut world = World::of(2, 1);
    assert!(!survives_without(MemberId(1), &world.members, &world.seats));
    assert!(survives_without(MemberId(2), &world.members, &world.seats));
    world.leaving.insert(MemberId(1));
    assert_eq!(world.settle(), [Step::Add(MemberId(2)), Step::Promote(101), Step::Remove(1)]);
    assert!(survives_without(MemberId(1), &world.members, &world.seats));
    world.check_settled();
}

#[test]
fn three_go_on_without_one_and_not_without_two() {
    let mut world = World::of(3, 3);
    assert!(survives_without(MemberId(1), &world.members, &world.seats));
    world.flip(MemberId(2));
    assert!(!survives_without(MemberId(1), &world.members, &world.seats));
    world.flip(MemberId(1));
    world.age();
    assert_eq!(world.next(), None, "one of three decides nothing");
    // The seat of a member that was removed goes, as soon as that can be decided.
    world.members.remove(&MemberId(1));
    assert_eq!(world.next(), None);
    world.flip(MemberId(2));
    assert_eq!(world.settle(), [Step::Remove(1), Step::Remove(3)]);
    world.check_settled();
}

/// A member is present whose etcd does not run: its vote is not cast.
#[test]
fn a_voter_that_is_silent_is_not_counted_on() {
    let mut world = World::of(3, 3);
    let answering = BTreeSet::from([1, 3]);
    world.seats = heard(&world.seats, &answering);
    let answers: Vec<bool> = world.seats.iter().map(|seat| seat.answers).collect();
    assert_eq!(answers, [true, false, true]);
    assert!(!survives_without(MemberId(1), &world.members, &world.seats), "one of three is left");
    assert!(survives_without(MemberId(2), &world.members, &world.seats), "it is silent already");
    // The silent one goes first, although a younger one answers: two of two go on.
    world.leaving.insert(MemberId(1));
    assert_eq!(world.settle(), [Step::Remove(2), Step::Remove(1)]);
    assert!(survives_without(MemberId(1), &world.members, &world.seats));
    world.check_settled();

    let mut world = World::of(3, 3);
    world.seats = heard(&world.seats, &BTreeSet::from([1]));
    world.leaving.insert(MemberId(1));
    assert_eq!(world.next(), None, "one of three decides nothing");
    let learner = Seat { is_learner: true, ..seat(4, 4) };
    assert!(heard(&[learner], &BTreeSet::new())[0].answers, "nobody asks a learner");
}
