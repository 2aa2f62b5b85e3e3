//! The logical unit: everything that all sessions and cores share of one disk, except its data.
//!
//! A command goes through [`LogicalUnit::admit`], which decides whether it may run at all, and
//! then either through [`LogicalUnit::execute`] or, if it touches the medium, to the caller's
//! block device. Admitting takes one atomic load while nothing is pending; executing takes the
//! unit's lock.

mod absent;
mod admit;
mod attention;
mod draft;
mod execute;
mod gate;
mod known_ports;
mod nexus;
mod outcome;
mod sanitize;
#[cfg(test)]
mod tests;

pub use crate::config::{Capacity, Identity, Limits, MediumInfo, TargetPort, UnitConfig, naa_from};
pub use crate::reservation::Refusal;
pub use absent::execute_absent;
pub use admit::CopyAccess;
pub use draft::Draft;
pub use nexus::Nexus;
pub use outcome::{Effect, Outcome, SanitizeMethod};

use crate::AdditionalSense;
use crate::alua::{AccessState, Changed, PortGroups};
use crate::mode::ModePages;
use crate::nexus::NexusKey;
use crate::referrals::ReferralMap;
use crate::reservation::{ImageError, Reservations, ReservationsInfo};
use gate::Gate;
use known_ports::KnownPorts;
use sanitize::Readiness;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One logical unit, shared by every session that sees it.
#[derive(Debug)]
pub struct LogicalUnit {
    config: UnitConfig,
    state: Mutex<State>,
    /// Copies of bits of the mode pages, for the path of an I/O.
    write_cache: AtomicBool,
    descriptor_sense: AtomicBool,
    /// Progress of SANITIZE in 65536ths.
    sanitize_progress: AtomicU16,
}

/// What changes, under one lock: changes are rare.
#[derive(Debug)]
struct State {
    modes: ModePages,
    /// Whose MODE SELECT has set SWP, by its name. Invariant: there is one while SWP is set.
    protected_by: Option<Arc<str>>,
    reservations: Reservations,
    readiness: Readiness,
    port_groups: PortGroups,
    referrals: Arc<ReferralMap>,
    nexuses: Vec<Arc<Nexus>>,
    known_ports: KnownPorts,
}

/// What a command brings besides its CDB and its data.
#[derive(Debug, Clone, Copy)]
pub struct ControlContext<'a> {
    /// Every logical unit that the initiator sees, in wire form, in ascending order.
    pub luns: &'a [u64],
}

impl LogicalUnit {
    /// A unit at power on. `reservations` is the image that was saved last, if any.
    ///
    /// # Panics
    /// If the configuration has no port, or a port that is in no group.
    pub fn new(config: UnitConfig, reservations: Option<&[u8]>) -> Result<Self, ImageError> {
        assert!(!config.ports.is_empty(), "a logical unit is reached through at least one port");
        let grouped = |port: &TargetPort| config.port_groups.group_of(port.relative_id).is_some();
        assert!(config.ports.iter().all(grouped), "every port is in a target port group");
        let mut restored = match reservations {
            Some(image) => Reservations::from_bytes(image)?,
            None => Reservations::new(),
        };
        restored.power_on();
        let modes = ModePages::new(config.write_cache);
        Ok(Self {
            write_cache: AtomicBool::new(modes.write_cache_enabled()),
            descriptor_sense: AtomicBool::new(modes.descriptor_sense()),
            sanitize_progress: AtomicU16::new(0),
            state: Mutex::new(State {
                modes,
                protected_by: None,
                reservations: restored,
                readiness: Readiness::Ready,
                port_groups: config.port_groups.clone(),
                referrals: config.referrals.clone().unwrap_or_default(),
                nexuses: Vec::new(),
                known_ports: KnownPorts::default(),
            }),
            config,
        })
    }

    /// What the unit was made from.
    pub fn config(&self) -> &UnitConfig {
        &self.config
    }

    /// The medium.
    pub fn medium(&self) -> &MediumInfo {
        &self.config.medium
    }

    /// WCE: whether a write without FUA may be answered before it is durable.
    pub fn write_cache_enabled(&self) -> bool {
        self.write_cache.load(Ordering::Relaxed)
    }

    /// D_SENSE: whether sense data goes out in descriptor format.
    pub fn descriptor_sense(&self) -> bool {
        self.descriptor_sense.load(Ordering::Relaxed)
    }

    /// The host whose MODE SELECT has set SWP, so that nobody can write; `None` where it is not set. It is not
    /// saved: a unit that is made again can be written.
    pub fn write_protected_by(&self) -> Option<Arc<str>> {
        self.state().protected_by.clone()
    }

    /// A session begins. Its first command is told POWER ON OCCURRED, or I_T NEXUS LOSS OCCURRED if
    /// the nexus [has heard](Self::greeting_was_heard) of the former since the unit was made.
    ///
    /// A nexus of the same name that is still attached is replaced: that is session reinstatement
    /// (RFC 7143 6.3.5), and the loss of the old nexus.
    pub fn attach(&self, key: NexusKey) -> Arc<Nexus> {
        let mut state = self.state();
        if let Some(at) = state.nexuses.iter().position(|nexus| *nexus.key() == key) {
            state.nexuses.swap_remove(at);
            state.reservations.nexus_lost(&key);
        }
        let nexus = Arc::new(Nexus::new(key));
        nexus.establish(state.known_ports.greeting(nexus.key()));
        state.nexuses.push(Arc::clone(&nexus));
        self.refresh(&state);
        nexus
    }

    /// The initiator has acknowledged the answer that told of the beginning of the nexus: when it
    /// logs in again, no more than the nexus was lost.
    pub fn greeting_was_heard(&self, nexus: &Nexus) {
        self.state().known_ports.remember(nexus.key());
    }

    /// A session ends: its SPC-2 reservation goes with it, its registration stays.
    pub fn detach(&self, nexus: &Arc<Nexus>) {
        let mut state = self.state();
        // A nexus that was replaced has lost its part already.
        let Some(at) = state.nexuses.iter().position(|known| Arc::ptr_eq(known, nexus)) else {
            return;
        };
        state.nexuses.swap_remove(at);
        state.reservations.nexus_lost(nexus.key());
        self.refresh(&state);
    }

    /// Establishes a unit attention condition for every nexus that `who` chooses.
    pub fn establish_attention(&self, who: impl Fn(&NexusKey) -> bool, condition: AdditionalSense) {
        let state = self.state();
        for nexus in state.nexuses.iter().filter(|nexus| who(nexus.key())) {
            nexus.establish(condition);
        }
    }

    /// The medium has another capacity from now on; every nexus is told (SBC-4 4.9).
    pub fn resize(&self, blocks: u64) {
        if self.config.medium.blocks.replace(blocks) != blocks {
            self.establish_attention(|_| true, AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
        }
    }

    /// LOGICAL UNIT RESET begins, and this unit's part in a target reset: every nexus is told, so that
    /// no command that is read from now on runs before its host knows. The caller aborts all tasks
    /// after this, and then calls [`logical_unit_reset`](Self::logical_unit_reset).
    pub fn reset_begins(&self) {
        self.establish_attention(|_| true, AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
    }

    /// LOGICAL UNIT RESET, and this unit's part in a target reset (SAM-5 6.3.3): the SPC-2
    /// reservation ends, mode pages go back to their defaults. If that changes anything, every nexus
    /// is told, again if it has taken the first word. A sanitize operation goes on (SBC-4 4.11.2).
    /// The caller has aborted all tasks.
    pub fn logical_unit_reset(&self) -> Vec<Effect> {
        let mut state = self.state();
        let cached = state.modes.write_cache_enabled();
        let was_reserved = state.reservations.logical_unit_reset();
        if state.modes.reset() || was_reserved {
            for nexus in &state.nexuses {
                nexus.establish(AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED);
            }
        }
        let was_protected = state.protected_by.take().is_some();
        self.refresh(&state);
        let is_to_flush = cached && !state.modes.write_cache_enabled();
        let cleared = was_protected.then_some(Effect::WriteProtection { on: false });
        cleared.into_iter().chain(is_to_flush.then_some(Effect::SynchronizeCache)).collect()
    }

    /// The device server itself changes the access state of a target port group
    /// (SPC-5 5.16.2.3); every nexus is told.
    pub fn set_port_group(&self, group: u16, to: AccessState) {
        let mut state = self.state();
        let changed = state.port_groups.set_implicit(group, to);
        self.port_groups_changed(&state, &changed, None);
    }

    /// Blocks are reached best through other groups than before. Every nexus is told ASYMMETRIC
    /// ACCESS STATE CHANGED, which is what a referral is made of (SBC-4 table 19); there is no
    /// condition of its own for it.
    ///
    /// # Panics
    /// If the unit was made without referrals: initiators would not look at them.
    pub fn set_referrals(&self, map: Arc<ReferralMap>) {
        assert!(self.config.referrals.is_some(), "the unit has no referrals to change");
        let mut state = self.state();
        if *state.referrals == *map {
            return;
        }
        state.referrals = map;
        for nexus in &state.nexuses {
            nexus.establish(AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
    }

    /// Tells all nexuses but the one that asked for it, if any.
    fn port_groups_changed(&self, state: &State, changed: &Changed, by: Option<&NexusKey>) {
        if changed.groups.is_empty() {
            return;
        }
        for nexus in state.nexuses.iter().filter(|nexus| Some(nexus.key()) != by) {
            nexus.establish(AdditionalSense::ASYMMETRIC_ACCESS_STATE_CHANGED);
        }
        self.refresh(state);
    }

    /// Takes over the reservations of `image`: of a unit that was away for a while, or from another
    /// member of a group.
    pub fn restore_reservations(&self, image: &[u8]) -> Result<(), ImageError> {
        let restored = Reservations::from_bytes(image)?;
        let mut state = self.state();
        state.reservations = restored;
        self.refresh(&state);
        Ok(())
    }

    /// The image of the reservations as they are, for a group or to keep for
    /// [`LogicalUnit::restore_reservations`].
    pub fn reservations_image(&self) -> Vec<u8> {
        self.state().reservations.to_bytes()
    }

    /// How many nexuses of each initiator are registered, by its name: what takes the place of
    /// [`REGISTRATIONS_MAX`](crate::reservation::REGISTRATIONS_MAX).
    pub fn registrants(&self) -> BTreeMap<Arc<str>, usize> {
        self.state().reservations.registrants()
    }

    /// The reservations as an operator sees them.
    pub fn reservations(&self) -> ReservationsInfo {
        self.state().reservations.info()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug, but state is changed in steps that each leave it sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recomputes everything that is derived from `state`. Called after every change, under the
    /// lock, so that the derived words never go back in time.
    fn refresh(&self, state: &State) {
        debug_assert!(
            state.protected_by.is_none() || state.modes.software_write_protect(),
            "nobody has set what is not set"
        );
        self.write_cache.store(state.modes.write_cache_enabled(), Ordering::Relaxed);
        self.descriptor_sense.store(state.modes.descriptor_sense(), Ordering::Relaxed);
        let protected = self.config.medium.read_only || state.modes.software_write_protect();
        let unit = state.readiness.gate().with(Gate::PROTECTED, protected);
        for nexus in &state.nexuses {
            let key = nexus.key();
            let reserved = state.reservations.access(key);
            let path = state.port_groups.state_of(key.target_port);
            nexus.set_gate(unit.with_reservation(reserved).with_alua(path));
        }
    }
}
