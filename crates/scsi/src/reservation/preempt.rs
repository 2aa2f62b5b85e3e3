//! PREEMPT and PREEMPT AND ABORT (SPC-4 5.13.11.2.4 to 5.13.11.2.6).

use super::parameters::OutRequest;
use super::{Effects, Held, Holder, Refusal, Reservations};
use crate::cdb::ProutAction;
use crate::nexus::NexusKey;
use crate::sense::{AdditionalSense, Sense};

impl Reservations {
    /// The choice of SPC-4 table 72. The sender is registered and its key has been checked.
    pub(super) fn out_preempt(
        &mut self,
        nexus: &NexusKey,
        request: &OutRequest,
    ) -> Result<Effects, Refusal> {
        let victims = request.action_key;
        let holder_key = match self.held.as_ref().map(|held| &held.holder) {
            // The key that READ RESERVATION shows for it, which no registration can have.
            Some(Holder::AllRegistrants) => Some(0),
            Some(Holder::One(holder)) => self.key_of(holder),
            None => None,
        };
        let preempts = holder_key == Some(victims);
        if victims == 0 && !preempts {
            return Err(Sense::invalid_field_in_parameter_list(8, None).into());
        }
        let replacement = if preempts { Some(request.new_type()?) } else { None };
        let is_victim = |key: u64| victims == 0 || key == victims;
        if !self.registrations.iter().any(|entry| is_victim(entry.key)) {
            return Err(Refusal::Conflict);
        }
        let mut effects = Effects { changed: true, ..Effects::default() };
        if request.action == ProutAction::PreemptAndAbort {
            let victims = self.registrations.iter().filter(|entry| is_victim(entry.key));
            effects.aborted = victims.map(|entry| entry.nexus.clone()).collect();
        }
        // The sender keeps its registration when it becomes the holder, and only then.
        let stays = |entry_nexus: &NexusKey, key: u64| {
            !is_victim(key) || (preempts && entry_nexus == nexus)
        };
        self.registrations.retain(|entry| {
            let stays = stays(&entry.nexus, entry.key);
            if !stays && entry.nexus != *nexus {
                effects.attend(&entry.nexus, AdditionalSense::REGISTRATIONS_PREEMPTED);
            }
            stays
        });
        match replacement {
            Some(kind) => {
                let before = self.held.replace(Held::new(kind, nexus));
                if before.is_some_and(|held| held.kind != kind) {
                    for entry in self.registrations.iter().filter(|entry| entry.nexus != *nexus) {
                        effects.attend(&entry.nexus, AdditionalSense::RESERVATIONS_RELEASED);
                    }
                }
            }
            // An all registrants reservation ends with the last registration (5.13.10).
            None if self.registrations.is_empty() => self.held = None,
            None => {}
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(effects)
    }
}
