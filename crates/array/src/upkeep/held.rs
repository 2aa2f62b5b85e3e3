//! Stripes that hosts change as often as anybody looks at them.
//!
//! A block that is written all the time is in the journal whenever a rebuild comes by, and each checkpoint
//! changes it in its place after the maps were walked. While no checkpoint runs its stripe stands still, and
//! what the last one put there is what the maps tell of.

use std::sync::Arc;
use std::time::Duration;

use super::refresh::{Outcome, Run};
use crate::core::{Core, Knowledge, Layer, Stripe};
use crate::raid::{Access, Set};

/// How long checkpoints wait for such stripes at a time, but for one that is begun.
const HOLD: Duration = Duration::from_millis(100);

impl Core {
    /// Brings stripes of data up to date while checkpoints wait.
    pub(super) async fn refresh_held(self: &Arc<Self>, stripes: &[Stripe]) -> Outcome {
        let mut outcome = Outcome::default();
        let run = |(set, stripe): &Stripe| Some((self.sets.find(*set)?, *stripe..*stripe + 1));
        let work: Vec<Run> =
            stripes.iter().filter_map(run).filter(|(set, _)| set.level().is_some()).collect();
        let mut left = work.iter().peekable();
        let Some(known) = self.know_work(&work).await else { return outcome };
        while left.peek().is_some() {
            let turn = self.checkpointing.take().await;
            let until = self.env.now() + HOLD;
            while self.env.now() < until
                && let Some((set, run)) = left.next()
            {
                if self.lock().stopped.is_some() {
                    return outcome;
                }
                if self.stands_still(set, run.start, &known) {
                    let layer = Layer::OnDisks;
                    outcome.add(&self.refresh_one(set, run.start, &known, layer).await);
                }
            }
            // What is whole now need not be when the next checkpoint has ended.
            work.iter().for_each(|(set, _)| _ = set.promote_replacement());
            drop(turn);
            self.upkeep_beat.tick();
        }
        outcome
    }

    /// Whether a stripe holds what maps tell of while no checkpoint runs, and all who have a part of it answer
    /// at once, or not at all.
    fn stands_still(&self, set: &Set, stripe: u32, known: &Knowledge) -> bool {
        let replacement = set.replacement().map(|new| new.seat);
        let answers = |disk| {
            let disk = self.raid.disks().get(disk);
            disk.is_none_or(|disk| disk.access() != Access::ReadOnly)
        };
        // An update that was left half done has put there what no map tells of.
        set.members().into_iter().chain(replacement).all(|seat| answers(seat.disk))
            && !self.raid.has_half(set.id(), stripe)
            && {
                let clusters = known.columns(set.id(), stripe).iter().map(|(_, known)| known);
                self.lock().is_in_place((set.id(), stripe), clusters)
            }
    }
}
