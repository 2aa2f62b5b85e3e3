//! PERSISTENT RESERVE OUT (SPC-4 6.16): the service actions other than preempting.

use super::parameters::{Destination, ListedPort, OutRequest, PersistentOut, SCOPE_LOGICAL_UNIT};
use super::{
    Effects, Held, Holder, Ports, REGISTRATIONS_MAX, Refusal, Registrar, Reservations, nexus_key,
};
use crate::cdb::ProutAction;
use crate::nexus::NexusKey;
use crate::sense::{AdditionalSense, Sense, SenseKey};

/// Registrations that every owner may have, as long as there are any: one for each path of a host.
const OWN_MIN: usize = 8;
/// Registrations that are left to owners who have none yet: one is enough to take those of others away.
const FIRST_MIN: usize = 16;
/// Who registers others (SPEC_I_PT, REGISTER AND MOVE) leaves the rest to those who come themselves.
const LISTED_MAX: usize = REGISTRATIONS_MAX / 4 * 3;

impl Reservations {
    /// Performs one service action as a single indivisible event (SPC-4 5.13.1).
    ///
    /// On refusal nothing has changed. With [`Effects::save`] the caller, who changes a copy, writes
    /// [`Reservations::to_bytes`] to stable storage before that counts; if that fails it drops it.
    ///
    /// Refusals: RESERVATION CONFLICT by SPC-4 table 66, tables 67 to 70 and 72; CHECK CONDITION
    /// with INVALID FIELD IN CDB or IN PARAMETER LIST, PARAMETER LIST LENGTH ERROR, INSUFFICIENT
    /// REGISTRATION RESOURCES, INVALID RELEASE OF PERSISTENT RESERVATION.
    pub fn persistent_out(
        &mut self,
        by: impl Into<Registrar>,
        command: &PersistentOut<'_>,
        ports: &Ports<'_>,
    ) -> Result<Effects, Refusal> {
        let by = by.into();
        let nexus = &by.nexus;
        if self.legacy.is_some() {
            return Err(Refusal::Conflict); // SPC-2 5.5.1: not even from the nexus that reserved
        }
        let request = OutRequest::parse(command)?;
        let persisted = self.persist;
        let mut effects = match request.action {
            ProutAction::Register | ProutAction::RegisterAndIgnoreExistingKey => {
                self.out_register(&by, &request, ports)
            }
            _ => {
                if self.key_of(nexus) != Some(request.key) {
                    return Err(Refusal::Conflict); // 5.13.7, 6.16.3: unregistered, or another key
                }
                match request.action {
                    ProutAction::Reserve => self.out_reserve(nexus, &request),
                    ProutAction::Release => self.out_release(nexus, &request),
                    ProutAction::Clear => Ok(self.cleared(Some(nexus))),
                    ProutAction::RegisterAndMove => self.out_move(&by, &request, ports),
                    _ => self.out_preempt(nexus, &request),
                }
            }
        }?;
        if effects.changed {
            effects.save = persisted || self.persist;
            self.touch();
        }
        Ok(effects)
    }

    /// REGISTER and REGISTER AND IGNORE EXISTING KEY (SPC-4 5.13.7, tables 67 to 69).
    fn out_register(
        &mut self,
        by: &Registrar,
        request: &OutRequest,
        ports: &Ports<'_>,
    ) -> Result<Effects, Refusal> {
        let nexus = &by.nexus;
        let registered = self.is_registered(nexus);
        let siblings = siblings(nexus, request.all_target_ports, ports);
        if request.action == ProutAction::Register {
            let expected = |port: &NexusKey| self.key_of(port).unwrap_or(request.key);
            if self.key_of(nexus).unwrap_or(0) != request.key
                || siblings.iter().any(|port| expected(port) != request.key)
            {
                return Err(Refusal::Conflict);
            }
        }
        if registered && request.initiator_ports.is_some() {
            return Err(Sense::invalid_field_in_parameter_list(20, Some(3)).into()); // table 67 c
        }
        if request.action_key == 0 {
            return Ok(self.unregister_all(nexus, &siblings, request.persist));
        }
        let mut all = siblings;
        all.insert(0, nexus.clone());
        self.add_listed(&mut all, request, ports)?;
        self.check_room(by, &all)?;
        for port in &all {
            self.register(port, request.action_key, &by.owner);
        }
        self.persist = request.persist;
        self.generation = self.generation.wrapping_add(1);
        Ok(Effects { changed: true, ..Effects::default() })
    }

    /// Adds to `all` the nexuses that SPEC_I_PT lists; none may be registered yet (table 67 b).
    fn add_listed(
        &self,
        all: &mut Vec<NexusKey>,
        request: &OutRequest,
        ports: &Ports<'_>,
    ) -> Result<(), Refusal> {
        let target_port = all[0].target_port;
        for listed in request.initiator_ports.iter().flatten() {
            for port in listed_nexuses(listed, target_port, ports)? {
                let siblings = siblings(&port, request.all_target_ports, ports);
                for port in std::iter::once(port).chain(siblings) {
                    if self.is_registered(&port) {
                        let byte = listed.byte;
                        return Err(Sense::invalid_field_in_parameter_list(byte, None).into());
                    }
                    if !all.contains(&port) {
                        all.push(port);
                    }
                }
            }
            // Not only at the end: a list of thousands must not cost its square.
            if all.len() > REGISTRATIONS_MAX {
                return Err(insufficient_resources().into());
            }
        }
        Ok(())
    }

    /// INSUFFICIENT REGISTRATION RESOURCES unless `by` can have all of `nexuses` registered. Nobody takes what others need
    /// to fence him off, under however many names: an owner has no more than all others may still have, but for
    /// [`OWN_MIN`] that everybody may, and leaves [`FIRST_MIN`] to those who have none. It registers others only in the
    /// first [`LISTED_MAX`].
    fn check_room(&self, by: &Registrar, nexuses: &[NexusKey]) -> Result<(), Sense> {
        let is_own = |nexus: &NexusKey| nexus.initiator == by.nexus.initiator;
        let (own, listed): (Vec<_>, Vec<_>) =
            nexuses.iter().filter(|nexus| !self.is_registered(nexus)).partition(|n| is_own(n));
        let all = self.registrations.len() + own.len() + listed.len();
        let held = self.registrations.iter().filter(|one| one.owner == by.owner).count();
        let (is_first, held) = (held == 0 && own.len() == 1, held + own.len());
        let has_share =
            |held: usize| held <= OWN_MIN || held <= (REGISTRATIONS_MAX + 1).saturating_sub(all);
        let may_own =
            own.is_empty() || is_first || all <= REGISTRATIONS_MAX - FIRST_MIN && has_share(held);
        // What it registers for others is counted as its own.
        let may_list = listed.is_empty() || all <= LISTED_MAX && has_share(held + listed.len());
        let has_room = all <= REGISTRATIONS_MAX && may_own && may_list;
        has_room.then_some(()).ok_or_else(insufficient_resources)
    }

    /// A zero SERVICE ACTION RESERVATION KEY: unregister, or do nothing (SPC-4 table 67, 68).
    fn unregister_all(
        &mut self,
        nexus: &NexusKey,
        siblings: &[NexusKey],
        persist: bool,
    ) -> Effects {
        let mut effects = Effects::default();
        for port in std::iter::once(nexus).chain(siblings) {
            if self.is_registered(port) {
                self.unregister(port, nexus, &mut effects);
                effects.changed = true;
            }
        }
        if effects.changed {
            self.persist = persist;
            self.generation = self.generation.wrapping_add(1);
        }
        effects
    }

    /// Removes one registration, and with it the reservation where 5.13.11.2.3 says so.
    fn unregister(&mut self, port: &NexusKey, sender: &NexusKey, effects: &mut Effects) {
        self.registrations.retain(|entry| entry.nexus != *port);
        effects.attentions.retain(|(nexus, _)| nexus != port);
        let released = match &self.held {
            None => false,
            Some(Held { holder: Holder::AllRegistrants, .. }) => self.registrations.is_empty(),
            Some(Held { holder: Holder::One(holder), .. }) => holder == port,
        };
        if released {
            self.release(sender, effects);
        }
    }

    /// Ends the reservation and tells the other registrants, if the type has them share it
    /// (SPC-4 5.13.11.2.2, 5.13.11.2.3).
    fn release(&mut self, sender: &NexusKey, effects: &mut Effects) {
        let shared = self.held.take().is_some_and(|held| held.kind.admits_registrants());
        if shared {
            for entry in self.registrations.iter().filter(|entry| entry.nexus != *sender) {
                effects.attend(&entry.nexus, AdditionalSense::RESERVATIONS_RELEASED);
            }
        }
    }

    /// RESERVE (SPC-4 5.13.9).
    fn out_reserve(&mut self, nexus: &NexusKey, request: &OutRequest) -> Result<Effects, Refusal> {
        let kind = request.new_type()?;
        match &self.held {
            None => {
                self.held = Some(Held::new(kind, nexus));
                Ok(Effects { changed: true, ..Effects::default() })
            }
            Some(held) if held.kind == kind && self.is_holder(nexus) => Ok(Effects::default()),
            Some(_) => Err(Refusal::Conflict),
        }
    }

    /// RELEASE (SPC-4 5.13.11.2.2). Not an error from a registrant that holds nothing.
    fn out_release(&mut self, nexus: &NexusKey, request: &OutRequest) -> Result<Effects, Refusal> {
        let mut effects = Effects::default();
        let Some(kind) = self.reservation().filter(|_| self.is_holder(nexus)) else {
            return Ok(effects);
        };
        if request.scope != SCOPE_LOGICAL_UNIT || request.kind != kind as u8 {
            return Err(invalid_release().into());
        }
        self.release(nexus, &mut effects);
        effects.changed = true;
        Ok(effects)
    }

    /// CLEAR (SPC-4 5.13.11.2.7), by a nexus or by nobody.
    pub(super) fn cleared(&mut self, by: Option<&NexusKey>) -> Effects {
        let mut effects = Effects { changed: true, ..Effects::default() };
        for entry in self.registrations.drain(..).filter(|entry| Some(&entry.nexus) != by) {
            effects.attend(&entry.nexus, AdditionalSense::RESERVATIONS_PREEMPTED);
        }
        self.held = None;
        self.generation = self.generation.wrapping_add(1);
        effects
    }

    /// REGISTER AND MOVE (SPC-4 5.13.8, table 70). The key has been checked.
    fn out_move(
        &mut self,
        by: &Registrar,
        request: &OutRequest,
        ports: &Ports<'_>,
    ) -> Result<Effects, Refusal> {
        let nexus = &by.nexus;
        let destination =
            request.destination.as_ref().expect("the parser fills it for REGISTER AND MOVE");
        let Some(kind) = self.reservation() else {
            return Err(Sense::invalid_field_in_cdb(1, Some(4)).into());
        };
        if kind.is_all_registrants() || !self.is_holder(nexus) {
            return Err(Refusal::Conflict);
        }
        if request.action_key == 0 {
            return Err(Sense::invalid_field_in_parameter_list(8, None).into());
        }
        let target = move_target(nexus, destination, ports)?;
        self.check_room(by, std::slice::from_ref(&target))?;
        self.register(&target, request.action_key, &by.owner);
        self.held = Some(Held::new(kind, &target));
        let mut effects = Effects { changed: true, ..Effects::default() };
        if destination.unregister {
            self.unregister(nexus, nexus, &mut effects);
        }
        self.persist = request.persist;
        self.generation = self.generation.wrapping_add(1);
        Ok(effects)
    }
}

/// The same initiator port on the other target ports, if ALL_TG_PT asks for them.
fn siblings(nexus: &NexusKey, all_target_ports: bool, ports: &Ports<'_>) -> Vec<NexusKey> {
    ports
        .target_ports
        .iter()
        .filter(|&&port| all_target_ports && port != nexus.target_port)
        .map(|&target_port| NexusKey { target_port, ..nexus.clone() })
        .collect()
}

/// The nexuses through `target_port` that a TransportID of SPEC_I_PT stands for: one, or every
/// known port of the node if it has no ISID (SPC-4 7.6.4.6).
fn listed_nexuses(
    listed: &ListedPort,
    target_port: u16,
    ports: &Ports<'_>,
) -> Result<Vec<NexusKey>, Sense> {
    let name = listed.id.name.as_str();
    if let Some(isid) = listed.id.isid {
        return Ok(vec![nexus_key(name, isid, target_port)]);
    }
    let mut known: Vec<NexusKey> = Vec::new();
    for nexus in ports.nexuses.iter().filter(|nexus| &*nexus.initiator == name) {
        let nexus = NexusKey { target_port, ..nexus.clone() };
        if !known.contains(&nexus) {
            known.push(nexus);
        }
    }
    if known.is_empty() {
        return Err(Sense::invalid_field_in_parameter_list(listed.byte, None));
    }
    Ok(known)
}

/// The nexus that REGISTER AND MOVE names (SPC-4 5.13.8, 6.16.4).
fn move_target(
    nexus: &NexusKey,
    destination: &Destination,
    ports: &Ports<'_>,
) -> Result<NexusKey, Sense> {
    let ListedPort { id, byte } = &destination.port;
    if !ports.target_ports.contains(&destination.target_port) {
        return Err(Sense::invalid_field_in_parameter_list(18, None));
    }
    // A reservation has one holder, so a node name without a port does not say where to.
    let isid = id.isid.ok_or(Sense::invalid_field_in_parameter_list(*byte, Some(7)))?;
    if id.name == *nexus.initiator && isid == nexus.isid {
        return Err(Sense::invalid_field_in_parameter_list(*byte, None));
    }
    Ok(nexus_key(&id.name, isid, destination.target_port))
}

fn invalid_release() -> Sense {
    Sense::new(SenseKey::IllegalRequest, AdditionalSense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION)
}

fn insufficient_resources() -> Sense {
    Sense::new(SenseKey::IllegalRequest, AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES)
}
