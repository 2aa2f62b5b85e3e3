//! Sets in which nothing lives any more give their chunks back, so that other levels get them.
//!
//! ```text
//!  nothing taken ──▶ out of memory, so that nobody takes a place in it
//!                ──▶ the record, which does not have it, is durable ──▶ its chunks are free
//! ```
//!
//! A crash before the record leaves the set as the last record has it: empty. What the journal says
//! about it comes before the mark of that last record or has its place still taken, because a place
//! that is given up is free only after the checkpoint that follows.

use super::Checkpoint;
use crate::core::State;
use crate::mutants::{self, Mutant};
use crate::space::Kind;

impl Checkpoint {
    /// Takes out sets that hold nothing, are not about to be needed again, and that nobody has at
    /// hand: upkeep may be writing to their chunks, readers may be looking at them.
    pub(super) fn dissolve_sets(&mut self, state: &mut State) {
        let next = &self.next;
        let is_used = |kind: Kind| match kind {
            Kind::Metadata => true,
            Kind::Data(level) => next.volumes.values().any(|volume| volume.level == level),
        };
        for id in state.space.idle_sets(self.sets_before, is_used) {
            let Some(set) = self.core.sets.remove_unused(id) else { continue };
            state.space.remove_set(&set);
            tracing::debug!("set {} holds nothing: its chunks are free", id.0);
            let seats = set.seats();
            if mutants::is(Mutant::EarlyChunks) {
                seats.iter().for_each(|seat| state.space.chunks.release(seat.disk, seat.chunk));
            } else {
                self.dissolved.extend(seats);
            }
        }
    }
}
