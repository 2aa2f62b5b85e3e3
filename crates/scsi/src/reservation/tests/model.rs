//! Random histories of three nexuses against a plain model, which knows the standard's tables but
//! nothing of how the state is kept.

use super::*;
use ProutAction::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
struct Step {
    from: u8,
    action: ProutAction,
    kind: ReservationType,
    key: u64,
    action_key: u64,
}

/// Registered keys by nexus, and the reservation as (type, holder); with the all registrants
/// types the holder means nothing.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    keys: BTreeMap<u8, u64>,
    held: Option<(ReservationType, u8)>,
    generation: u32,
}

impl Model {
    fn holds(&self, n: u8) -> bool {
        match self.held {
            None => false,
            Some((kind, holder)) => {
                (kind.is_all_registrants() && self.keys.contains_key(&n)) || holder == n
            }
        }
    }

    fn drop_reservation_if_due(&mut self) {
        let due = match self.held {
            Some((kind, _)) if kind.is_all_registrants() => self.keys.is_empty(),
            Some((_, holder)) => !self.keys.contains_key(&holder),
            None => false,
        };
        if due {
            self.held = None;
        }
    }

    /// True: GOOD status.
    fn apply(&mut self, step: Step) -> bool {
        let Step { from, action, kind, key, action_key } = step;
        let own = self.keys.get(&from).copied();
        match action {
            Register if own.unwrap_or(0) != key => return false,
            Register | RegisterAndIgnoreExistingKey => {
                if own.is_none() && action_key == 0 {
                    return true;
                }
                self.keys.remove(&from);
                if action_key != 0 {
                    self.keys.insert(from, action_key);
                }
                self.drop_reservation_if_due();
            }
            _ if own != Some(key) => return false,
            Reserve => match self.held {
                None => self.held = Some((kind, from)),
                Some((held, _)) => return held == kind && self.holds(from),
            },
            Release if !self.holds(from) => return true,
            Release => {
                if self.held.is_some_and(|(held, _)| held != kind) {
                    return false;
                }
                self.held = None;
            }
            Clear => *self = Self { generation: self.generation, ..Self::default() },
            _ => return self.preempt(step),
        }
        if !matches!(action, Reserve | Release) {
            self.generation += 1;
        }
        true
    }

    fn preempt(&mut self, Step { from, kind, action_key, .. }: Step) -> bool {
        let takes_over = match self.held {
            None => false,
            Some((held, _)) if held.is_all_registrants() => action_key == 0,
            Some((_, holder)) => self.keys[&holder] == action_key,
        };
        let victim = |key: u64| key == action_key || (takes_over && action_key == 0);
        if !self.keys.values().any(|&key| victim(key)) {
            return false;
        }
        self.keys.retain(|&n, key| !victim(*key) || (takes_over && n == from));
        if takes_over {
            self.held = Some((kind, from));
        }
        self.drop_reservation_if_due();
        self.generation += 1;
        true
    }
}

fn step() -> impl Strategy<Value = Step> {
    let action = prop::sample::select(vec![
        Register,
        Register,
        RegisterAndIgnoreExistingKey,
        RegisterAndIgnoreExistingKey,
        Reserve,
        Reserve,
        Release,
        Clear,
        Preempt,
        PreemptAndAbort,
    ]);
    let kind = prop::sample::select(ReservationType::ALL.to_vec());
    // Few keys, so that they are right, equal and zero often enough.
    (0_u8..3, action, kind, 0_u64..4, 0_u64..4).prop_map(|(from, action, kind, key, action_key)| {
        Step { from, action, kind, key, action_key }
    })
}

fn check_against(unit: &Unit, model: &Model) -> Result<(), TestCaseError> {
    let (generation, _) = unit.keys();
    prop_assert_eq!(generation, model.generation);
    for n in 0..3 {
        prop_assert_eq!(unit.state.key_of(&nexus(n)), model.keys.get(&n).copied());
    }
    let shown = model.held.map(|(kind, holder)| {
        let key = if kind.is_all_registrants() { 0 } else { model.keys[&holder] };
        (key, kind as u8)
    });
    prop_assert_eq!(unit.held(), shown);
    Ok(())
}

fn check_effects(
    step: Step,
    effects: &Effects,
    before: &Model,
    after: &Model,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(
        effects.changed,
        before != after
            || !matches!(step.action, Reserve | Release | Register | RegisterAndIgnoreExistingKey)
    );
    let told: Vec<u8> = attentions(effects).into_iter().map(|(n, _)| n).collect();
    prop_assert!(!told.contains(&step.from), "the sender is told nothing");
    prop_assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "each nexus once");
    prop_assert!(told.iter().all(|n| before.keys.contains_key(n)), "only the registered");
    for n in before.keys.keys().filter(|&&n| n != step.from && !after.keys.contains_key(&n)) {
        prop_assert!(told.contains(n), "who loses the registration is told");
    }
    if step.action != PreemptAndAbort {
        prop_assert_eq!(&effects.aborted, &[]);
    }
    Ok(())
}

proptest! {
    #[test]
    fn histories_match_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let mut unit = Unit::default();
        let mut model = Model::default();
        for step in steps {
            let before = (unit.state.clone(), model.clone());
            let good = model.apply(step);
            let keys = (step.key, step.action_key);
            let outcome = unit.run(&nexus(step.from), step.action, step.kind, keys);
            prop_assert_eq!(outcome.is_ok(), good, "{:?}", step);
            match outcome {
                Ok(effects) => check_effects(step, &effects, &before.1, &model)?,
                Err(_) => prop_assert_eq!(&unit.state, &before.0),
            }
            check_against(&unit, &model)?;
            let image = unit.state.to_bytes();
            prop_assert_eq!(Reservations::from_bytes(&image).unwrap().to_bytes(), image);
        }
    }
}
