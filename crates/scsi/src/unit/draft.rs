//! Changes of persistent reservations, which are made on a copy: what may still fail to be saved is in
//! nobody's way and seen by nobody.

use super::LogicalUnit;
use super::outcome::{Effect, Outcome};
use crate::cdb::Command;
use crate::nexus::NexusKey;
use crate::reservation::{PersistentOut, Ports, Refusal, Registrar, Reservations};
use crate::{AdditionalSense, Sense};

/// The reservations of a unit as they will be. Dropped, it has never been.
#[derive(Debug)]
#[must_use]
pub struct Draft {
    reservations: Reservations,
    attentions: Vec<(NexusKey, AdditionalSense)>,
    /// What they were made from.
    revision: u64,
    changed: bool,
    save: bool,
}

impl Draft {
    /// Whether its [`image`](Self::image) must be on stable storage before it is installed (APTPL).
    #[must_use]
    pub fn is_to_save(&self) -> bool {
        self.save
    }

    /// What is to outlive a loss of power, if anything: without APTPL nothing is, whoever is registered.
    #[must_use]
    pub fn image(&self) -> Option<Vec<u8>> {
        self.reservations.is_persistent().then(|| self.reservations.to_bytes())
    }
}

impl LogicalUnit {
    /// A copy of the reservations, to be changed by any number of commands. One at a time for a unit,
    /// and RESERVE waits as long: they would not know of each other.
    pub fn draft(&self) -> Draft {
        let reservations = self.state().reservations.clone();
        Draft {
            revision: reservations.revision(),
            reservations,
            attentions: Vec::new(),
            changed: false,
            save: false,
        }
    }

    /// PERSISTENT RESERVE OUT, admitted, on a draft. GOOD is true once the draft is installed.
    /// `data_out` is all that came, which may be more or less than the CDB announces.
    pub fn persistent_out(
        &self,
        draft: &mut Draft,
        by: impl Into<Registrar>,
        command: &Command,
        data_out: &[u8],
    ) -> Outcome {
        match self.try_persistent_out(draft, by.into(), command, data_out) {
            Ok(effects) => Outcome { effects, ..Outcome::good() },
            Err(refusal) => refusal.into(),
        }
    }

    fn try_persistent_out(
        &self,
        draft: &mut Draft,
        by: Registrar,
        command: &Command,
        data_out: &[u8],
    ) -> Result<Vec<Effect>, Refusal> {
        let Command::PersistentReserveOut { action, scope, kind, list_bytes } = *command else {
            debug_assert!(false, "not a change of persistent reservations: {command:?}");
            return Err(Sense::internal_failure().into());
        };
        let parameters =
            data_out.get(..list_bytes as usize).ok_or_else(Sense::parameter_list_length_error)?;
        let command = PersistentOut { action, scope, kind, list_bytes, parameters };
        let target_ports: Vec<u16> =
            self.config.ports.iter().map(|port| port.relative_id).collect();
        let nexuses: Vec<NexusKey> =
            self.state().nexuses.iter().map(|nexus| nexus.key().clone()).collect();
        let ports = Ports { target_ports: &target_ports, nexuses: &nexuses };
        let done = draft.reservations.persistent_out(by, &command, &ports)?;
        draft.attentions.extend(done.attentions);
        draft.changed |= done.changed;
        draft.save |= done.save;
        Ok(done.aborted.into_iter().map(|of| Effect::AbortTasks { of }).collect())
    }

    /// Ends all persistent reservations on a draft, as CLEAR of a host does. How many registrations there were.
    pub fn clear_reservations(&self, draft: &mut Draft) -> usize {
        let before = draft.reservations.info().registrants.len();
        let done = draft.reservations.clear();
        draft.attentions.extend(done.attentions);
        draft.changed |= done.changed;
        draft.save |= done.save;
        before
    }

    /// Ends a RESERVE of SPC-2, and tells who held the unit. Whether there was one.
    pub fn end_legacy_reservation(&self) -> bool {
        let mut state = self.state();
        let Some(holder) = state.reservations.end_legacy() else { return false };
        let held = state.nexuses.iter().filter(|nexus| *nexus.key() == holder);
        held.for_each(|nexus| nexus.establish(AdditionalSense::RESERVATIONS_PREEMPTED));
        self.refresh(&state);
        true
    }

    /// From now on the reservations are what the draft says; whom it concerns is told.
    pub fn install(&self, draft: Draft) {
        if !draft.changed {
            return;
        }
        let mut state = self.state();
        // What ends without a turn is a RESERVE of SPC-2, which refuses every change while it lasts.
        debug_assert_eq!(
            draft.revision,
            state.reservations.revision(),
            "reservations changed beside a draft"
        );
        state.reservations = draft.reservations;
        for (key, condition) in &draft.attentions {
            let told = state.nexuses.iter().filter(|nexus| nexus.key() == key);
            told.for_each(|nexus| nexus.establish(*condition));
        }
        self.refresh(&state);
    }
}
