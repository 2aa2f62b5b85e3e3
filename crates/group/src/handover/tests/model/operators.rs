//! Operators, who settle a move at either side whenever they may, and a destination that was removed and is another member
//! then.
//!
//! That a destination which serves the volume is removed while it is away, and the volume kept at its source, is not
//! walked: then an operator has made two volumes of it, and was told that there may be two.

use super::*;

impl World {
    /// Only an operator ends what the source has stored.
    pub(super) fn is_undecided(&self) -> bool {
        let Some(stage) = self.source.departure else { return false };
        let (departure, holder) = (departure(stage), self.claim.holder());
        let is_there = self.destination.number == DESTINATION;
        match stage {
            Stage::Leaving => decide_at_source(&departure, holder.as_ref()) == SourceStep::Wait,
            // It is listed there.
            Stage::Gone if is_there && self.destination.is_adopted => false,
            Stage::Gone => {
                let is_holder = self.claim.member.is_some_and(|member| self.is_member(member));
                doubt_at_source(&departure, holder.as_ref(), (is_there, is_holder)).is_some()
            }
        }
    }

    pub(super) fn settle_by_word(&mut self, step: Step, flaw: Flaw) -> bool {
        let Self { source, destination, .. } = *self;
        let is_idle = source.is_up && source.drive.is_none() && self.is_undecided();
        let is_waiting =
            destination.is_up && destination.has_arrival && self.is_stranded(self.claim);
        match step {
            Step::JoinAnew => {
                self.destination.number = ANEW;
                // Both have to be members.
                self.sent = self.sent.map(|sent| sent.map(|_| false));
                let is_away = !destination.is_up && !destination.is_adopted;
                is_away && destination.number == DESTINATION
            }
            Step::KeepAtSource => {
                self.source.is_to_keep = true;
                is_idle && (flaw == Flaw::KeepUnnamed || self.take_name(SOURCE))
            }
            Step::Keep => {
                // What was decided meanwhile stands.
                self.stays();
                source.is_to_keep
            }
            Step::KeepAtDestination => {
                self.destination.is_to_take = true;
                is_waiting && (flaw == Flaw::KeepUnnamed || self.take_name(destination.number))
            }
            Step::DiscardAtSource => {
                (self.source.volume, self.source.departure) = (None, None);
                self.source.is_to_keep = false;
                self.note_discarded(is_idle)
            }
            _ => {
                (self.destination.copy, self.destination.has_arrival) = (None, false);
                self.note_discarded(is_waiting)
            }
        }
    }

    /// Whoever has the last copy deleted that has all wants that.
    fn note_discarded(&mut self, is_done: bool) -> bool {
        self.is_discarded |= !self.is_kept();
        is_done
    }
}
