//! RESERVE(6), RESERVE(10), RELEASE(6) and RELEASE(10) (SPC-2 7.21 to 7.24, SPC-4 5.13.3).

use super::{Refusal, Reservations};
use crate::nexus::NexusKey;

impl Reservations {
    /// RESERVE(6) or RESERVE(10) of the whole unit for `nexus`. Extents and third parties are
    /// refused when the CDB is decoded.
    ///
    /// RESERVATION CONFLICT if another nexus holds the unit, or if keys are registered and
    /// SPC-4 5.13.3 does not excuse `nexus`.
    pub fn reserve(&mut self, nexus: &NexusKey) -> Result<(), Refusal> {
        if self.passes_to_persistent(nexus)? {
            return Ok(());
        }
        match &self.legacy {
            Some(holder) if holder != nexus => Err(Refusal::Conflict),
            Some(_) => Ok(()),
            None => {
                self.set_legacy(Some(nexus.clone()));
                Ok(())
            }
        }
    }

    /// RELEASE(6) or RELEASE(10). GOOD without effect if `nexus` holds nothing (SPC-2 7.23).
    ///
    /// RESERVATION CONFLICT as for [`Reservations::reserve`], but it does not mind another holder.
    pub fn release_legacy(&mut self, nexus: &NexusKey) -> Result<(), Refusal> {
        if !self.passes_to_persistent(nexus)? {
            self.nexus_lost(nexus);
        }
        Ok(())
    }

    /// The exceptions of SPC-4 5.13.3: with a persistent reservation that admits `nexus` the
    /// command ends GOOD and changes nothing. Any other use beside registrations is the conflict
    /// of SPC-2 5.5.1.
    fn passes_to_persistent(&self, nexus: &NexusKey) -> Result<bool, Refusal> {
        if self.registrations.is_empty() {
            return Ok(false);
        }
        let shared = self.reservation().is_some_and(|kind| kind.admits_registrants());
        if self.is_holder(nexus) || (shared && self.is_registered(nexus)) {
            Ok(true)
        } else {
            Err(Refusal::Conflict)
        }
    }
}
