//! What each side decides, and a walk through everything that can happen to a move: each side ends and starts twice at
//! any moment, and what is sent to the store, or said by it, is late or lost.

mod model;

use stateright::{Checker, Model, Property};

use super::*;
use crate::ownership::MemberId;
use model::{Flaw, Step, World, by, departure, holder};

const ME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);
const THIRD: MemberId = MemberId(3);

#[test]
fn a_source_serves_again_only_what_it_still_has_and_drops_only_what_it_gave_away() {
    let decided = |stage, holder: Option<&Holder>| decide_at_source(&departure(stage), holder);
    let (this, another) = (by('a'), by('b'));
    for (holder, wanted) in [
        (holder(ME, None), SourceStep::UndoAfterFence),
        // It had come here by another move.
        (holder(ME, Some(&another)), SourceStep::UndoAfterFence),
        (holder(OTHER, Some(&this)), SourceStep::Gone),
        // Somebody took the name while this one was no member, or it was given away and has passed on.
        (holder(OTHER, None), SourceStep::Wait),
        (holder(THIRD, Some(&another)), SourceStep::Wait),
    ] {
        assert_eq!(decided(Stage::Leaving, Some(&holder)), wanted, "{holder:?}");
        assert_eq!(decided(Stage::Gone, Some(&holder)), SourceStep::Gone, "{holder:?}");
    }
    assert_eq!(decided(Stage::Leaving, None), SourceStep::Wait);
    assert_eq!(decided(Stage::Gone, None), SourceStep::Gone);
}

#[test]
fn a_destination_adopts_by_the_claim_alone_and_discards_by_what_the_source_says() {
    let (this, another) = (by('a'), by('b'));
    let all = [SourceSays::UnderWay, SourceSays::GivenUp, SourceSays::HandedOver];
    let all = all.into_iter().chain([SourceSays::Unknown]).map(Some).chain([None]);
    // It may have been removed and have joined again: it has another number then, and the move is the same.
    for given in [holder(ME, Some(&this)), holder(OTHER, Some(&this))] {
        for says in all.clone() {
            let step = decide_at_destination(Some(&given), says, &this);
            assert_eq!(step, DestinationStep::Adopt, "{given:?} {says:?}");
        }
    }
    let others = [holder(OTHER, None), holder(ME, None)];
    let others = others.into_iter().chain([holder(ME, Some(&another))]).map(Some).chain([None]);
    for holder in others {
        for says in all.clone() {
            let wanted = match says {
                None => DestinationStep::AskSource,
                Some(SourceSays::UnderWay | SourceSays::HandedOver) => DestinationStep::Wait,
                Some(SourceSays::GivenUp | SourceSays::Unknown) => DestinationStep::Discard,
            };
            let step = decide_at_destination(holder.as_ref(), says, &this);
            assert_eq!(step, wanted, "{holder:?} {says:?}");
        }
    }
}

#[derive(Debug, Clone)]
struct Walk {
    flaw: Flaw,
    /// What some history has to reach, or the walk has shown nothing.
    reaches: fn(&World) -> bool,
}

impl Model for Walk {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::new()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.wrong().is_none() {
            steps.extend(Step::all());
        }
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        world.after(step, self.flaw)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing is wrong", |_, world: &World| world.wrong().is_none()),
            Property::always("one serves in the end", |walk: &Self, world: &World| {
                world.wrong().is_some() || world.ends_well(walk.flaw)
            }),
            Property::sometimes("it goes on", |walk: &Self, world: &World| (walk.reaches)(world)),
        ]
    }
}

fn walk(flaw: Flaw, reaches: fn(&World) -> bool) -> impl Checker<Walk> {
    Walk { flaw, reaches }.checker().threads(2).spawn_bfs().join()
}

fn is_sound(reaches: fn(&World) -> bool) {
    let checker = walk(Flaw::None, reaches);
    eprintln!("{} worlds, {} of them new", checker.state_count(), checker.unique_state_count());
    for property in ["nothing is wrong", "one serves in the end"] {
        if let Some(path) = checker.discovery(property) {
            let last = *path.last_state();
            panic!("{property}: {:?}: {last:?}: {:#?}", last.wrong(), path.into_actions());
        }
    }
    assert!(checker.discovery("it goes on").is_some(), "nothing happens");
}

fn is_found(flaw: Flaw) {
    let checker = walk(flaw, |_| true);
    let path = checker.discovery("nothing is wrong");
    let path =
        path.unwrap_or_else(|| panic!("{flaw:?} passes {} worlds", checker.unique_state_count()));
    let wrong = path.last_state().wrong();
    eprintln!("{flaw:?} is found: {wrong:?}: {:?}", path.into_actions());
}

#[test]
fn a_volume_moves_and_is_deleted_at_its_source_whatever_ends_meanwhile() {
    is_sound(|world| world.has_moved_through_ends());
}

#[test]
fn a_volume_stays_that_the_store_was_asked_to_give_away() {
    is_sound(|world| world.stays_although_asked());
}

#[test]
fn a_hand_over_that_does_not_compare_the_claim() {
    is_found(Flaw::HandOverBlind);
}

#[test]
fn a_source_that_serves_again_without_a_fence() {
    is_found(Flaw::UndoUnfenced);
}

#[test]
fn a_source_that_serves_what_it_has_a_departure_of() {
    is_found(Flaw::ServeLeaving);
}

#[test]
fn a_store_that_is_asked_before_the_destination_is_prepared() {
    is_found(Flaw::CommitUnprepared);
}

#[test]
fn a_destination_that_is_prepared_without_the_last_difference() {
    is_found(Flaw::LastDifference);
}

#[test]
fn a_destination_that_adopts_without_a_look_at_the_claim() {
    is_found(Flaw::AdoptUncommitted);
}

#[test]
fn a_destination_that_discards_without_asking_the_source() {
    is_found(Flaw::DiscardUnasked);
}
