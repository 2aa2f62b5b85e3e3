//! The walk.

use stateright::{Checker, Model, Property};

use super::model::{Flaw, Step, World};

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
            Property::always("it is whole in the end, or nothing", |walk: &Self, world: &World| {
                world.wrong().is_some() || world.ends_well(walk.flaw)
            }),
            // Or the walk has shown nothing.
            Property::sometimes("larger", |_, world: &World| world.is_larger()),
            Property::sometimes("gone after use", |_, world: &World| world.is_gone_after_use()),
            Property::sometimes("left over", |_, world: &World| world.is_left_over()),
        ]
    }
}

fn walk(flaw: Flaw) -> impl Checker<Walk> {
    Walk { flaw }.checker().threads(2).spawn_bfs().join()
}

#[test]
fn no_slice_goes_while_its_volume_is_whole_and_none_is_left_in_the_end() {
    let checker = walk(Flaw::None);
    eprintln!("{} worlds, {} of them new", checker.state_count(), checker.unique_state_count());
    for property in ["nothing is wrong", "it is whole in the end, or nothing"] {
        if let Some(path) = checker.discovery(property) {
            let last = *path.last_state();
            panic!("{property}: {:?}: {last:?}: {:#?}", last.wrong(), path.into_actions());
        }
    }
    for property in ["larger", "gone after use", "left over"] {
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
fn slices_that_are_asked_for_before_the_intent_is_stored() {
    is_found(Flaw::StoreLater);
}

#[test]
fn a_volume_that_a_start_finds_half_made_and_takes_for_whole() {
    is_found(Flaw::FoundWhole);
}

#[test]
fn a_slice_that_is_forgotten_before_its_volume_is_deleted() {
    is_found(Flaw::ForgetFirst);
}
