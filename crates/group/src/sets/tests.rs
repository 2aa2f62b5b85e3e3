//! What each member decides, and a walk through everything that can happen to a set: each member ends and starts at any
//! moment, and what is sent to another one or to the store is late or lost.

mod model;

use stateright::{Checker, Model, Property};

use super::*;
use model::{Flaw, Step, World, intent, seat};

#[test]
fn what_is_decided_is_done_and_nothing_else_is() {
    let undecided = intent(1);
    let step = |record: Option<&SetRecord>, is_due| {
        next_step(&undecided, Some(seat(&undecided)), record, is_due)
    };
    for is_due in [true, false] {
        assert_eq!(step(Some(&record(&intent(1), Verdict::Whole)), is_due), SetStep::Keep);
        assert_eq!(step(Some(&record(&intent(1), Verdict::Void)), is_due), SetStep::Delete);
    }
    assert_eq!(step(None, true), SetStep::DecideVoid);
    assert_eq!(step(None, false), SetStep::Wait);
    let settled = SetIntent { stage: SetStage::Settled, ..intent(1) };
    let void = record(&intent(1), Verdict::Void);
    for record in [None, Some(&void)] {
        assert_eq!(next_step(&settled, Some(seat(&settled)), record, true), SetStep::Leave);
    }
}

/// It was removed and has joined again, or is in another group, or in none: what it has may be all that is left of a
/// set that is whole.
#[test]
fn who_is_another_member_now_keeps_its_snapshots_and_asks_nobody() {
    let undecided = intent(1);
    let settled = SetIntent { stage: SetStage::Settled, ..intent(1) };
    let other_group = "f".repeat(32).parse().expect("it is one");
    let seats = [None, Some((&undecided.group, MemberId(9))), Some((&other_group, undecided.me))];
    for seat in seats {
        for record in [None, Some(&record(&intent(1), Verdict::Void))] {
            let step = next_step(&undecided, seat, record, true);
            assert_eq!(step, SetStep::KeepUndecided, "{seat:?}");
            assert_eq!(next_step(&settled, seat, record, true), SetStep::Forget, "{seat:?}");
        }
    }
}

#[test]
fn nobody_takes_before_all_hold() {
    let SetIntent { participants, .. } = intent(1);
    assert!(may_take(&participants, &participants));
    for missing in &participants {
        let mut held = participants.clone();
        held.remove(missing);
        assert!(!may_take(&participants, &held), "{missing}");
    }
}

#[test]
fn a_set_is_whole_when_all_that_have_volumes_have_taken_them() {
    let SetIntent { participants, coordinator, .. } = intent(1);
    assert!(may_be_whole(&participants, &participants));
    let mut all = participants.clone();
    all.insert(coordinator);
    assert!(may_be_whole(&participants, &all));
    for missing in &participants {
        let mut taken = participants.clone();
        taken.remove(missing);
        assert!(!may_be_whole(&participants, &taken), "{missing}");
    }
    assert_eq!(
        record(&intent(1), Verdict::Void).unsettled,
        all,
        "the coordinator has to see it, too"
    );
}

#[derive(Debug, Clone)]
struct Walk {
    flaw: Flaw,
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
            Property::always("all is settled in the end", |walk: &Self, world: &World| {
                world.wrong().is_some() || world.ends_well(walk.flaw)
            }),
            // Or the walk has shown nothing.
            Property::sometimes("some are whole", |_, world: &World| world.is_whole_through_ends()),
            Property::sometimes("some are void", |_, world: &World| world.is_void_although_asked()),
        ]
    }
}

fn walk(flaw: Flaw) -> impl Checker<Walk> {
    Walk { flaw }.checker().threads(2).spawn_bfs().join()
}

#[test]
fn all_keep_their_snapshots_or_none_whatever_ends_meanwhile() {
    let checker = walk(Flaw::None);
    eprintln!("{} worlds, {} of them new", checker.state_count(), checker.unique_state_count());
    for property in ["nothing is wrong", "all is settled in the end"] {
        if let Some(path) = checker.discovery(property) {
            let last = *path.last_state();
            panic!("{property}: {:?}: {last:?}: {:#?}", last.wrong(), path.into_actions());
        }
    }
    for property in ["some are whole", "some are void"] {
        assert!(checker.discovery(property).is_some(), "not seen: {property}");
    }
}

fn is_found(flaw: Flaw) {
    let checker = walk(flaw);
    let path = checker.discovery("nothing is wrong");
    let path =
        path.unwrap_or_else(|| panic!("{flaw:?} passes {} worlds", checker.unique_state_count()));
    let wrong = path.last_state().wrong();
    eprintln!("{flaw:?} is found: {wrong:?}: {:?}", path.into_actions());
}

#[test]
fn a_decision_that_does_not_look_at_what_is_decided() {
    is_found(Flaw::DecideBlind);
}

#[test]
fn snapshots_that_are_taken_when_the_set_is_settled() {
    is_found(Flaw::TakeLate);
}

#[test]
fn a_coordinator_that_decides_void_and_then_whole() {
    is_found(Flaw::WholeAfterVoid);
}
