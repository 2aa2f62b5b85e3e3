//! What an operator sees of reservations, and how one ends them: hosts that are gone, or were never meant to be there,
//! end none themselves.

use std::sync::Arc;

use super::{Effects, ReservationType, Reservations};
use crate::nexus::NexusKey;

/// The reservations of a unit, as an operator sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationsInfo {
    /// The type of the persistent reservation, if there is one.
    pub kind: Option<ReservationType>,
    /// They outlive a loss of power (APTPL).
    pub is_persistent: bool,
    /// Who is registered, in the order in which they came.
    pub registrants: Vec<RegistrantInfo>,
    /// Who holds the unit by RESERVE of SPC-2. Then nobody is registered.
    pub legacy: Option<NexusKey>,
}

/// A registered nexus, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrantInfo {
    /// Which one.
    pub nexus: NexusKey,
    /// Its key.
    pub key: u64,
    /// Whom it is counted for.
    pub owner: Arc<str>,
    /// It holds the reservation, alone or with all others.
    pub is_holder: bool,
}

impl Reservations {
    /// What there is.
    pub fn info(&self) -> ReservationsInfo {
        let registrant = |entry: &super::Registration| RegistrantInfo {
            nexus: entry.nexus.clone(),
            key: entry.key,
            owner: entry.owner.clone(),
            is_holder: self.is_holder(&entry.nexus),
        };
        ReservationsInfo {
            kind: self.reservation(),
            is_persistent: self.persist,
            registrants: self.registrations.iter().map(registrant).collect(),
            legacy: self.legacy.clone(),
        }
    }

    /// What CLEAR of a registered nexus does (SPC-4 5.13.11.2.7), from nobody: all who were registered are told.
    /// Nothing where nobody is.
    pub fn clear(&mut self) -> Effects {
        if self.registrations.is_empty() {
            return Effects::default();
        }
        let mut effects = self.cleared(None);
        effects.save = self.persist;
        self.touch();
        effects
    }

    /// Ends a RESERVE of SPC-2, as a reset does. Who held the unit.
    pub fn end_legacy(&mut self) -> Option<NexusKey> {
        let holder = self.legacy.clone();
        if holder.is_some() {
            self.set_legacy(None);
        }
        holder
    }
}
