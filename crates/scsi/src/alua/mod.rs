//! Asymmetric logical unit access (SPC-4 5.16.2): through which target ports the unit is reached
//! how well. Clauses and tables are numbered as in SPC-4, whose rules SPC-5 took over.
//!
//! Invariants of [`PortGroups`]: group identifiers differ, and a relative target port identifier
//! is in one group only.

mod gate;
mod report;
#[cfg(test)]
mod tests;

pub use gate::admits;

use crate::sense::Sense;

/// ASYMMETRIC ACCESS STATE (SPC-4 6.37). The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum AccessState {
    ActiveOptimized = 0x0,
    ActiveNonOptimized = 0x1,
    Standby = 0x2,
    Unavailable = 0x3,
    Offline = 0xe,
    Transitioning = 0xf,
}

impl AccessState {
    /// The state that SET TARGET PORT GROUPS may ask for with `code`: a primary one
    /// (SPC-4 table 330). Offline is a state of single ports, set by the system only.
    fn settable(code: u8) -> Option<Self> {
        [Self::ActiveOptimized, Self::ActiveNonOptimized, Self::Standby, Self::Unavailable]
            .into_iter()
            .find(|&state| state as u8 == code)
    }
}

/// STATUS CODE: what made the group's state what it is (SPC-4 6.37).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StateCause {
    /// Never changed.
    Initial = 0x00,
    /// By SET TARGET PORT GROUPS.
    Explicit = 0x01,
    /// By the device server itself.
    Implicit = 0x02,
}

/// One target port group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroup {
    /// TARGET PORT GROUP.
    pub id: u16,
    /// State of every port in it.
    pub state: AccessState,
    /// PREF: the group that hosts should use if they have the choice.
    pub preferred: bool,
    /// Relative target port identifiers.
    pub ports: Vec<u16>,
    /// How it came to its state.
    pub cause: StateCause,
}

impl PortGroup {
    /// A group in its first state.
    pub fn new(id: u16, state: AccessState, ports: Vec<u16>) -> Self {
        Self { id, state, preferred: false, ports, cause: StateCause::Initial }
    }
}

/// Two groups have one identifier, or one port is in two groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("target port groups overlap: group or port {0} is there twice")]
pub struct Overlap(pub u16);

/// All target port groups of a logical unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortGroups {
    groups: Vec<PortGroup>,
    explicit: bool,
    implicit_transition_s: u8,
}

/// Which groups changed. If any did, the unit attention condition ASYMMETRIC ACCESS STATE CHANGED
/// is due for every nexus except the one that sent SET TARGET PORT GROUPS (SPC-4 5.16.2.3), and
/// for every nexus after a change by the device server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Changed {
    /// Identifiers of the groups.
    pub groups: Vec<u16>,
}

impl PortGroups {
    /// `explicit`: SET TARGET PORT GROUPS is allowed. `implicit_transition_s`: IMPLICIT TRANSITION
    /// TIME in seconds, 0 for "not specified".
    pub fn new(
        groups: Vec<PortGroup>,
        explicit: bool,
        implicit_transition_s: u8,
    ) -> Result<Self, Overlap> {
        first_repeated(groups.iter().map(|group| group.id))?;
        first_repeated(groups.iter().flat_map(|group| group.ports.iter().copied()))?;
        Ok(Self { groups, explicit, implicit_transition_s })
    }

    /// One group, active/optimized: a target whose ports are all alike.
    pub fn uniform(ports: Vec<u16>) -> Result<Self, Overlap> {
        Self::new(vec![PortGroup::new(1, AccessState::ActiveOptimized, ports)], false, 0)
    }

    /// The groups.
    pub fn groups(&self) -> &[PortGroup] {
        &self.groups
    }

    /// Whether hosts may change states (SET TARGET PORT GROUPS).
    pub fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// TPGS field of standard INQUIRY data (SPC-4 6.6.2): implicit always, explicit if allowed.
    pub fn tpgs(&self) -> u8 {
        if self.explicit { 0b11 } else { 0b01 }
    }

    /// The group of `port`, for VPD page 83h.
    pub fn group_of(&self, port: u16) -> Option<&PortGroup> {
        self.groups.iter().find(|group| group.ports.contains(&port))
    }

    /// The state of `port`; a port in no group is unavailable.
    pub fn state_of(&self, port: u16) -> AccessState {
        self.group_of(port).map_or(AccessState::Unavailable, |group| group.state)
    }

    /// The device server changes the state of a group itself.
    pub fn set_implicit(&mut self, group: u16, state: AccessState) -> Changed {
        let mut changed = Changed::default();
        self.set(group, state, StateCause::Implicit, &mut changed);
        changed
    }

    /// SET TARGET PORT GROUPS (SPC-4 6.45). `list` is the parameter list, PARAMETER LIST LENGTH
    /// bytes of it. Either every descriptor takes effect or none.
    ///
    /// Refusals: INVALID FIELD IN CDB if only implicit changes are allowed, PARAMETER LIST LENGTH
    /// ERROR for a truncated descriptor, INVALID FIELD IN PARAMETER LIST for a state or a group
    /// that cannot be set or is set twice.
    pub fn set_explicit(&mut self, list: &[u8]) -> Result<Changed, Sense> {
        const HEADER_BYTES: usize = 4;
        if !self.explicit {
            return Err(Sense::invalid_field_in_cdb(1, Some(4)));
        }
        let Some((_, body)) = list.split_at_checked(HEADER_BYTES) else {
            return if list.is_empty() {
                Ok(Changed::default())
            } else {
                Err(Sense::parameter_list_length_error())
            };
        };
        let (descriptors, rest) = body.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(Sense::parameter_list_length_error());
        }
        let mut wanted: Vec<(u16, AccessState)> = Vec::new();
        for (n, descriptor) in descriptors.iter().enumerate() {
            let byte = u16::try_from(HEADER_BYTES + 4 * n).unwrap_or(u16::MAX);
            let bad_field = |at, bit| Sense::invalid_field_in_parameter_list(byte + at, bit);
            let state = AccessState::settable(descriptor[0] & 0x0f).ok_or(bad_field(0, Some(3)))?;
            let id = u16::from_be_bytes([descriptor[2], descriptor[3]]);
            let known = self.groups.iter().any(|group| group.id == id);
            // Bounds the list as well: no more descriptors than groups.
            if !known || wanted.iter().any(|&(other, _)| other == id) {
                return Err(bad_field(2, None));
            }
            wanted.push((id, state));
        }
        let mut changed = Changed::default();
        for (id, state) in wanted {
            self.set(id, state, StateCause::Explicit, &mut changed);
        }
        Ok(changed)
    }

    fn set(&mut self, id: u16, state: AccessState, cause: StateCause, changed: &mut Changed) {
        let group = self.groups.iter_mut().find(|group| group.id == id && group.state != state);
        if let Some(group) = group {
            group.state = state;
            group.cause = cause;
            changed.groups.push(id);
        }
    }
}

fn first_repeated(ids: impl Iterator<Item = u16>) -> Result<(), Overlap> {
    let mut seen = std::collections::BTreeSet::new();
    for id in ids {
        if !seen.insert(id) {
            return Err(Overlap(id));
        }
    }
    Ok(())
}
