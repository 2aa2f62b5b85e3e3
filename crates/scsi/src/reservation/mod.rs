//! Reservations of one logical unit: persistent ones (SPC-4 5.13) and the older RESERVE and
//! RELEASE (SPC-2 5.5.1, with the exceptions of SPC-4 5.13.3, so CRH is one). Clauses and tables
//! are numbered as in SPC-4, whose rules SPC-5 took over.
//!
//! Invariants of [`Reservations`], checked after every change in debug builds:
//! - a reservation exists only while at least one nexus is registered, and its single holder, if
//!   its type has one, is registered;
//! - no registered key is zero, no nexus is registered twice, and at most
//!   [`REGISTRATIONS_MAX`] are;
//! - a RESERVE of SPC-2 and registrations never exist at the same time.
//!
//! Choices the standard leaves open:
//! - REPLACE LOST RESERVATION is not among the service actions, and RLR_C is zero: nothing is ever
//!   lost, since a saved image that cannot be read keeps the unit from starting.
//! - ALL_TG_PT with REGISTER checks the key on the receiving nexus and on every port where the
//!   initiator port is registered. Ports where it is not yet are registered as well, so that a host
//!   that registered through one port first can widen or drop its registration in one command.
//! - A service action that "does nothing except return GOOD" does not raise PRGENERATION.

mod kind;
mod legacy;
mod operator;
mod out;
mod parameters;
mod persist;
mod preempt;
mod report;
#[cfg(test)]
mod tests;
mod transport_id;

pub use kind::{Access, Effects, Refusal, ReservationType};
pub use operator::{RegistrantInfo, ReservationsInfo};
pub use parameters::PersistentOut;
pub use persist::{ImageError, is_persistent, with_port};
pub use transport_id::{BadTransportId, TransportId};

use crate::cdb::AccessClass;
use crate::nexus::NexusKey;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Registrations that one unit holds at most: 64 hosts with 8 paths each. READ FULL STATUS of that
/// many is about 128 KiB at the longest names, all of it bounded.
pub const REGISTRATIONS_MAX: usize = 512;

/// One registered I_T nexus.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Registration {
    nexus: NexusKey,
    key: u64,
    /// Whom it is counted for: what was proved of whoever made it.
    owner: Arc<str>,
}

/// Who sends a PERSISTENT RESERVE OUT command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registrar {
    /// By name, which is a claim.
    pub nexus: NexusKey,
    /// Whom its registrations are counted for: what has been proved of it, and its name where nothing has.
    /// At most [`OWNER_BYTES_MAX`] bytes.
    pub owner: Arc<str>,
}

/// Bytes of what registrations are counted for.
pub const OWNER_BYTES_MAX: usize = 63;

impl From<&NexusKey> for Registrar {
    fn from(nexus: &NexusKey) -> Self {
        Self { nexus: nexus.clone(), owner: nexus.initiator.clone() }
    }
}

/// Who holds a persistent reservation (SPC-4 5.13.10).
#[derive(Debug, Clone, PartialEq, Eq)]
enum Holder {
    /// Whoever is registered.
    AllRegistrants,
    One(NexusKey),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    kind: ReservationType,
    holder: Holder,
}

impl Held {
    fn new(kind: ReservationType, nexus: &NexusKey) -> Self {
        let holder = if kind.is_all_registrants() {
            Holder::AllRegistrants
        } else {
            Holder::One(nexus.clone())
        };
        Self { kind, holder }
    }
}

/// What service actions need to know of the rest of the target.
#[derive(Debug, Clone, Copy)]
pub struct Ports<'a> {
    /// Relative target port identifiers of every port that the unit is reached through.
    pub target_ports: &'a [u16],
    /// The nexuses that are logged in, to find the ports of a TransportID that names only a node.
    pub nexuses: &'a [NexusKey],
}

/// All reservation state of one logical unit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reservations {
    registrations: Vec<Registration>,
    held: Option<Held>,
    /// PRGENERATION.
    generation: u32,
    /// The last valid APTPL bit was one.
    persist: bool,
    /// The nexus that holds the unit by RESERVE(6) or RESERVE(10).
    legacy: Option<NexusKey>,
    revision: u64,
}

impl Reservations {
    /// A unit that nobody has registered with.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rises whenever the [`Access`] of any nexus may have changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether the last valid APTPL bit was one: the state outlives a power loss.
    pub fn is_persistent(&self) -> bool {
        self.persist
    }

    /// The type of the persistent reservation, if there is one.
    pub fn reservation(&self) -> Option<ReservationType> {
        self.held.as_ref().map(|held| held.kind)
    }

    /// How many registrations are counted for each owner.
    pub fn registrants(&self) -> BTreeMap<Arc<str>, usize> {
        let mut registrants = BTreeMap::new();
        for entry in &self.registrations {
            *registrants.entry(entry.owner.clone()).or_default() += 1;
        }
        registrants
    }

    /// The key that `nexus` has registered.
    pub fn key_of(&self, nexus: &NexusKey) -> Option<u64> {
        self.registrations.iter().find(|entry| entry.nexus == *nexus).map(|entry| entry.key)
    }

    /// What the reservations leave to `nexus` (SPC-4 table 65, the choice of column).
    pub fn access(&self, nexus: &NexusKey) -> Access {
        if let Some(holder) = &self.legacy {
            return if holder == nexus { Access::Full } else { Access::ReservedByOther };
        }
        let Some(held) = &self.held else { return Access::Full };
        let admitted = if held.kind.admits_registrants() {
            self.is_registered(nexus)
        } else {
            self.is_holder(nexus)
        };
        match (admitted, held.kind.admits_readers()) {
            (true, _) => Access::Full,
            (false, true) => Access::WriteExclusiveOfOthers,
            (false, false) => Access::ExclusiveAccessOfOthers,
        }
    }

    /// Whether a command of `class` from `nexus` ends with RESERVATION CONFLICT.
    ///
    /// The reservation commands themselves are judged where they run.
    pub fn conflicts(&self, nexus: &NexusKey, class: AccessClass) -> bool {
        if self.held.is_none() && self.legacy.is_none() {
            return false;
        }
        !self.access(nexus).allows(class)
    }

    /// The I_T nexus is lost or logged out: ends its SPC-2 reservation. Registrations stay
    /// (SPC-4 5.13.1).
    pub fn nexus_lost(&mut self, nexus: &NexusKey) {
        if self.legacy.as_ref() == Some(nexus) {
            self.set_legacy(None);
        }
    }

    /// Logical unit reset, or hard reset: ends an SPC-2 reservation only (SPC-4 5.13.1). Whether there
    /// was one.
    pub fn logical_unit_reset(&mut self) -> bool {
        let was_reserved = self.legacy.is_some();
        if was_reserved {
            self.set_legacy(None);
        }
        was_reserved
    }

    /// Power on with the state that was saved: forgets everything if APTPL was zero, and starts
    /// PRGENERATION at zero either way (SPC-4 5.13.5, 6.15.2).
    pub fn power_on(&mut self) {
        if !self.persist {
            self.registrations.clear();
            self.held = None;
        }
        self.generation = 0;
        self.legacy = None;
        self.touch();
    }

    fn set_legacy(&mut self, holder: Option<NexusKey>) {
        self.legacy = holder;
        self.touch();
    }

    fn is_registered(&self, nexus: &NexusKey) -> bool {
        self.key_of(nexus).is_some()
    }

    fn is_holder(&self, nexus: &NexusKey) -> bool {
        match self.held.as_ref().map(|held| &held.holder) {
            None => false,
            Some(Holder::AllRegistrants) => self.is_registered(nexus),
            Some(Holder::One(holder)) => holder == nexus,
        }
    }

    /// Registers `nexus` for `owner`, or gives it another key. The caller has checked that there is room.
    fn register(&mut self, nexus: &NexusKey, key: u64, owner: &Arc<str>) {
        match self.registrations.iter_mut().find(|entry| entry.nexus == *nexus) {
            Some(entry) => entry.key = key,
            None => {
                let (nexus, owner) = (nexus.clone(), owner.clone());
                self.registrations.push(Registration { nexus, key, owner });
            }
        }
    }

    /// Ends a change: new revision, and the invariants hold again.
    fn touch(&mut self) {
        self.revision += 1;
        debug_assert!(self.is_sound(), "reservation state broke an invariant: {self:?}");
    }

    fn is_sound(&self) -> bool {
        let distinct = self.registrations.iter().enumerate().all(|(at, entry)| {
            entry.key != 0
                && self.registrations[..at].iter().all(|other| other.nexus != entry.nexus)
        });
        let held = match &self.held {
            None => true,
            Some(Held { kind, holder: Holder::AllRegistrants }) => {
                kind.is_all_registrants() && !self.registrations.is_empty()
            }
            Some(Held { kind, holder: Holder::One(nexus) }) => {
                !kind.is_all_registrants() && self.is_registered(nexus)
            }
        };
        let exclusive = self.legacy.is_none() || self.registrations.is_empty();
        distinct && held && exclusive && self.registrations.len() <= REGISTRATIONS_MAX
    }
}

fn nexus_key(initiator: &str, isid: [u8; 6], target_port: u16) -> NexusKey {
    NexusKey { initiator: initiator.into(), isid, target_port }
}
