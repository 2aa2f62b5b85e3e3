//! Walks through everything that can happen within a budget.

use stateright::{Checker, Model, Property};

use super::model::{Budget, Flaw, NOTHING, Step, World};

#[derive(Debug, Clone)]
struct Group {
    budget: Budget,
    flaw: Flaw,
    /// What some history has to reach, or the walk has shown nothing.
    reaches: fn(&World) -> bool,
}

impl Model for Group {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.budget, self.flaw)]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong.is_none() {
            world.steps(self.flaw, steps);
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        world.after(step, self.flaw)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is wrong", |_, world: &World| world.wrong.is_none()),
            Property::sometimes("it goes on", |group: &Self, world: &World| (group.reaches)(world)),
        ]
    }
}

fn walk(budget: Budget, flaw: Flaw, reaches: fn(&World) -> bool) -> impl Checker<Group> {
    let group = Group { budget, flaw, reaches };
    group.checker().threads(2).spawn_bfs().join()
}

fn is_sound(budget: Budget, reaches: fn(&World) -> bool) {
    let checker = walk(budget, Flaw::None, reaches);
    eprintln!("{} worlds, {} of them new", checker.state_count(), checker.unique_state_count());
    if let Some(path) = checker.discovery("nothing is wrong") {
        let wrong = path.last_state().wrong;
        panic!("{wrong:?}: {:#?}", path.into_actions());
    }
    assert!(checker.discovery("it goes on").is_some(), "nothing happens in {budget:?}");
}

fn is_found(flaw: Flaw, budget: Budget) {
    let checker = walk(budget, flaw, |_| true);
    let path = checker.discovery("nothing is wrong");
    let path =
        path.unwrap_or_else(|| panic!("{flaw:?} passes {} worlds", checker.unique_state_count()));
    let wrong = path.last_state().wrong;
    eprintln!("{flaw:?} is found: {wrong:?}: {:?}", path.into_actions());
}

/// A host is shut out while a member that serves it is cut off, asleep or slow.
const FENCE: Budget = Budget {
    ticks: 4,
    lags: 1,
    reads_of_store: 2,
    fences: 1,
    fenced_writes: 1,
    writes: 1,
    members: 2,
    ..NOTHING
};

/// The same, and answers of the store are late.
const LATE: Budget = Budget { lags: 0, is_slow: true, ..FENCE };

/// The same, and the host's write comes by way of another member.
const FORWARD: Budget = Budget { ticks: 0, lags: 0, forwards: 1, fenced_writes: 0, ..FENCE };

/// A page moves, and each end of it may die, or the answer of the store.
const MOVE: Budget = Budget {
    reads_of_store: 2,
    moves: 1,
    crashes: 1,
    entries: 1,
    lost_answers: 1,
    writes: 2,
    members: 2,
    ..NOTHING
};

/// Without the store.
const VOUCHED: Budget = Budget {
    rounds: 1,
    fences: 1,
    crashes: 1,
    entries: 1,
    fenced_writes: 1,
    writes: 1,
    members: 2,
    ticks: 3,
    ..NOTHING
};

#[test]
fn a_host_is_shut_out() {
    is_sound(FENCE, |world| world.is_answered);
}

#[test]
fn a_host_is_shut_out_whose_write_is_forwarded() {
    is_sound(FORWARD, |world| world.is_answered);
}

#[test]
fn a_page_moves() {
    is_sound(MOVE, |world| world.has_moved_and_served);
}

#[test]
fn members_go_on_without_their_store() {
    is_sound(VOUCHED, |world| world.has_been_vouched_for && world.is_answered);
}

#[test]
fn a_page_moves_while_a_host_is_shut_out() {
    let budget = Budget {
        ticks: 0,
        reads_of_store: 2,
        fences: 1,
        fenced_writes: 1,
        crashes: 0,
        entries: 0,
        lost_answers: 0,
        pages: 2,
        writes: 1,
        ..MOVE
    };
    is_sound(budget, |world| world.has_moved_and_served && world.is_answered);
}

#[test]
fn three_members_one_of_them_cut_off() {
    let budget = Budget { members: 3, ticks: 3, lags: 0, reads_of_store: 2, writes: 0, ..FENCE };
    is_sound(budget, |world| world.is_answered);
}

#[test]
fn three_members_without_their_store() {
    let budget = Budget { members: 3, ticks: 3, crashes: 0, entries: 0, writes: 0, ..VOUCHED };
    is_sound(budget, |world| world.has_been_vouched_for && world.is_answered);
}

#[test]
fn a_page_moves_beside_a_third_member_whose_write_is_forwarded() {
    let budget = Budget {
        members: 3,
        forwards: 1,
        fences: 1,
        writes: 1,
        crashes: 0,
        entries: 0,
        lost_answers: 0,
        ..MOVE
    };
    is_sound(budget, |world| world.has_moved_and_served && world.is_answered);
}

#[test]
fn answers_of_the_store_are_late() {
    is_sound(Budget { reads_of_store: 1, ..LATE }, |world| world.is_answered);
}

#[test]
fn members_go_on_without_their_store_and_an_answer_is_lost() {
    let budget = Budget { lost_answers: 1, crashes: 0, writes: 0, ..VOUCHED };
    is_sound(budget, |world| world.has_been_vouched_for && world.is_answered);
}

#[test]
fn requests_after_the_end_of_the_lease() {
    is_found(Flaw::ServeAfterLease, FENCE);
}

#[test]
fn a_proof_that_lasts_from_its_answer() {
    is_found(Flaw::ProofFromAnswer, LATE);
}

#[test]
fn clocks_that_are_taken_for_equal() {
    is_found(Flaw::NoDrift, FENCE);
}

#[test]
fn a_change_that_is_applied_beside_requests() {
    is_found(Flaw::ApplyEarly, FENCE);
}

#[test]
fn a_barrier_that_is_answered_early() {
    is_found(Flaw::AnswerEarly, FENCE);
}

#[test]
fn a_forwarded_write_that_nobody_judges() {
    is_found(Flaw::ForwardUnfenced, FORWARD);
}

#[test]
fn a_change_of_a_former_life() {
    is_found(Flaw::SkipIncarnation, MOVE);
}

#[test]
fn a_page_for_a_member_that_has_dropped_it() {
    is_found(Flaw::SkipTarget, MOVE);
}

#[test]
fn a_page_that_is_served_while_its_map_is_committed() {
    is_found(Flaw::ServeWhileCommitting, MOVE);
}

#[test]
fn a_page_that_is_not_drained() {
    is_found(Flaw::MoveUndrained, MOVE);
}

#[test]
fn a_lost_answer_that_counts_as_a_refusal() {
    is_found(Flaw::LostIsRefused, MOVE);
}

#[test]
fn a_member_that_has_just_started_vouches() {
    is_found(Flaw::VouchOutside, VOUCHED);
}

#[test]
fn a_member_vouches_before_it_hears_of_its_own_change() {
    is_found(Flaw::VouchUnheard, VOUCHED);
}
