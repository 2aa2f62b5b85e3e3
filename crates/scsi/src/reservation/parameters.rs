//! What a PERSISTENT RESERVE OUT command asks for: its CDB and parameter list (SPC-4 6.16).

use super::ReservationType;
use super::transport_id::TransportId;
use crate::cdb::ProutAction;
use crate::sense::Sense;

/// A PERSISTENT RESERVE OUT command: the fields of its decoded CDB and its Data-Out Buffer.
#[derive(Debug, Clone, Copy)]
pub struct PersistentOut<'a> {
    /// SERVICE ACTION.
    pub action: ProutAction,
    /// SCOPE, four bits.
    pub scope: u8,
    /// TYPE, four bits.
    pub kind: u8,
    /// PARAMETER LIST LENGTH.
    pub list_bytes: u32,
    /// The Data-Out Buffer as received.
    pub parameters: &'a [u8],
}

/// SCOPE of a reservation of the whole logical unit, the only one there is (SPC-4 6.15.3.3).
pub(super) const SCOPE_LOGICAL_UNIT: u8 = 0x0;
/// Length of the basic parameter list, and of the fixed part of REGISTER AND MOVE's.
const BASIC_BYTES: usize = 24;
/// The least TRANSPORTID LENGTH of REGISTER AND MOVE (SPC-4 6.16.4).
const MOVE_TRANSPORT_ID_BYTES_MIN: usize = 24;

/// The fields of the parameter list that hold for every service action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutRequest {
    pub action: ProutAction,
    /// SCOPE as sent; not every service action looks at it.
    pub scope: u8,
    /// TYPE as sent.
    pub kind: u8,
    pub key: u64,
    pub action_key: u64,
    pub persist: bool,
    pub all_target_ports: bool,
    /// `Some` if SPEC_I_PT is one.
    pub initiator_ports: Option<Vec<ListedPort>>,
    /// `Some` with REGISTER AND MOVE only.
    pub destination: Option<Destination>,
}

/// A TransportID and its place in the parameter list, for the field pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedPort {
    pub id: TransportId,
    pub byte: u16,
}

/// Where REGISTER AND MOVE moves the reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Destination {
    pub target_port: u16,
    pub port: ListedPort,
    pub unregister: bool,
}

impl OutRequest {
    /// Checks form only, not state.
    ///
    /// Refusals: PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST with a field pointer.
    pub(super) fn parse(command: &PersistentOut<'_>) -> Result<Self, Sense> {
        let PersistentOut { action, scope, kind, list_bytes, parameters } = *command;
        let list = parameters.get(..list_bytes as usize).filter(|list| list.len() >= BASIC_BYTES);
        let list = list.ok_or(Sense::parameter_list_length_error())?;
        let mut request = Self {
            action,
            scope,
            kind,
            key: be64(list, 0),
            action_key: be64(list, 8),
            persist: false,
            all_target_ports: false,
            initiator_ports: None,
            destination: None,
        };
        if action == ProutAction::RegisterAndMove {
            request.persist = list[17] & 0x01 != 0;
            request.destination = Some(Destination::parse(list)?);
        } else {
            request.persist = list[20] & 0x01 != 0;
            request.all_target_ports = list[20] & 0x04 != 0;
            request.initiator_ports = initiator_ports(action, list)?;
        }
        Ok(request)
    }

    /// The type that RESERVE or PREEMPT is to establish (SPC-4 6.15.3.4).
    pub(super) fn new_type(&self) -> Result<ReservationType, Sense> {
        if self.scope != SCOPE_LOGICAL_UNIT {
            return Err(Sense::invalid_field_in_cdb(2, Some(7)));
        }
        ReservationType::from_code(self.kind).ok_or(Sense::invalid_field_in_cdb(2, Some(3)))
    }
}

impl Destination {
    fn parse(list: &[u8]) -> Result<Self, Sense> {
        let id_bytes = be32(list, 20) as usize;
        if id_bytes < MOVE_TRANSPORT_ID_BYTES_MIN || !id_bytes.is_multiple_of(4) {
            return Err(Sense::invalid_field_in_parameter_list(20, None));
        }
        let end = BASIC_BYTES.checked_add(id_bytes).filter(|&end| end <= list.len());
        let end = end.ok_or(Sense::parameter_list_length_error())?;
        let (port, _) = listed_port(&list[..end], BASIC_BYTES)?;
        Ok(Self {
            target_port: u16::from_be_bytes([list[18], list[19]]),
            port,
            unregister: list[17] & 0x02 != 0,
        })
    }
}

/// The additional parameter data of SPEC_I_PT (SPC-4 table 215), or the check that there is none.
fn initiator_ports(action: ProutAction, list: &[u8]) -> Result<Option<Vec<ListedPort>>, Sense> {
    const LENGTH_AT: usize = BASIC_BYTES;
    const IDS_AT: usize = BASIC_BYTES + 4;
    if list[20] & 0x08 == 0 {
        // 6.16.2: without SPEC_I_PT the list is exactly the basic one.
        return if list.len() == BASIC_BYTES {
            Ok(None)
        } else {
            Err(Sense::parameter_list_length_error())
        };
    }
    if action != ProutAction::Register {
        return Err(Sense::invalid_field_in_parameter_list(20, Some(3)));
    }
    if list.len() < IDS_AT {
        return Err(Sense::parameter_list_length_error());
    }
    let end = IDS_AT.checked_add(be32(list, LENGTH_AT) as usize).filter(|&end| end <= list.len());
    let end = end.ok_or(Sense::parameter_list_length_error())?;
    let mut ports = Vec::new();
    let mut at = IDS_AT;
    while at < end {
        let (port, used) = listed_port(&list[..end], at)?;
        at += used;
        ports.push(port);
    }
    Ok(Some(ports))
}

fn listed_port(list: &[u8], at: usize) -> Result<(ListedPort, usize), Sense> {
    let pointer = |byte: usize| u16::try_from(byte).unwrap_or(u16::MAX);
    match TransportId::parse(&list[at..]) {
        Ok((id, used)) => Ok((ListedPort { id, byte: pointer(at) }, used)),
        Err(bad) => Err(Sense::invalid_field_in_parameter_list(pointer(at + bad.byte), bad.bit)),
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
