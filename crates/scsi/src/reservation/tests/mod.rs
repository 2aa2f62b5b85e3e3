//! Tests of the reservation rules.

mod actions;
mod image;
mod legacy;
mod libiscsi;
mod model;
mod operator;
mod preempt;
mod spec_i_pt;

use super::*;
use crate::cdb::{PrinAction, ProutAction};
use crate::sense::{AdditionalSense, Sense, SenseKey};

/// Nexus number `n`, through target port 1.
pub(super) fn nexus(n: u8) -> NexusKey {
    nexus_key(&format!("iqn.2026-11.dev.drystone:host{n}"), [0x40, 0, 0, 0, 0, n], 1)
}

/// A unit with two target ports and the calls that the tests make.
#[derive(Debug, Clone, Default)]
pub(super) struct Unit {
    pub(super) state: Reservations,
}

impl Unit {
    pub(super) fn out(
        &mut self,
        from: impl Into<Registrar>,
        action: ProutAction,
        kind: u8,
        parameters: &[u8],
    ) -> Result<Effects, Refusal> {
        let known = [nexus(0), nexus(1), nexus(2)];
        let ports = Ports { target_ports: &[1, 2], nexuses: &known };
        let list_bytes = parameters.len() as u32;
        let command = PersistentOut { action, scope: 0, kind, list_bytes, parameters };
        self.state.persistent_out(from, &command, &ports)
    }

    /// With the basic parameter list and no flags.
    pub(super) fn run(
        &mut self,
        from: &NexusKey,
        action: ProutAction,
        kind: ReservationType,
        keys: (u64, u64),
    ) -> Result<Effects, Refusal> {
        self.out(from, action, kind as u8, &basic(keys, 0))
    }

    pub(super) fn register(&mut self, from: &NexusKey, key: u64) {
        let action = ProutAction::RegisterAndIgnoreExistingKey;
        let _ = self.out(from, action, 0, &basic((0, key), 0)).expect("registering succeeds");
    }

    /// Registers nexus 0, 1 and 2 with the keys 10, 11 and 12.
    pub(super) fn with_three() -> Self {
        let mut unit = Self::default();
        (0..3).for_each(|n| unit.register(&nexus(n), 10 + u64::from(n)));
        unit
    }

    /// [`Unit::with_three`], reserved by nexus 0.
    pub(super) fn reserved(kind: ReservationType) -> Self {
        let mut unit = Self::with_three();
        let _ = unit.run(&nexus(0), ProutAction::Reserve, kind, (10, 0)).expect("it is free");
        unit
    }

    pub(super) fn keys(&self) -> (u32, Vec<u64>) {
        let data = self.state.persistent_in(PrinAction::ReadKeys).unwrap();
        let (header, body) = data.split_at(8);
        assert_eq!(header[4..], (body.len() as u32).to_be_bytes());
        let keys = body.chunks(8).map(|key| u64::from_be_bytes(key.try_into().unwrap()));
        (u32::from_be_bytes(header[..4].try_into().unwrap()), keys.collect())
    }

    /// Key and type that READ RESERVATION shows.
    pub(super) fn held(&self) -> Option<(u64, u8)> {
        let data = self.state.persistent_in(PrinAction::ReadReservation).unwrap();
        match data[4..8] {
            [0, 0, 0, 0] => None,
            [0, 0, 0, 16] => Some((u64::from_be_bytes(data[8..16].try_into().unwrap()), data[21])),
            _ => panic!("ADDITIONAL LENGTH of {data:02x?}"),
        }
    }
}

/// The basic parameter list (SPC-4 table 214) with `flags` in byte 20.
pub(super) fn basic((key, action_key): (u64, u64), flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), action_key.to_be_bytes(), [0; 8]].concat();
    list[20] = flags;
    list
}

pub(super) fn illegal(additional: AdditionalSense) -> Refusal {
    Refusal::Check(Sense::new(SenseKey::IllegalRequest, additional))
}

pub(super) fn bad_parameter(byte: u16, bit: Option<u8>) -> Refusal {
    Refusal::Check(Sense::invalid_field_in_parameter_list(byte, bit))
}

/// The unit attentions as (number of the nexus, code), sorted.
pub(super) fn attentions(effects: &Effects) -> Vec<(u8, AdditionalSense)> {
    let number = |nexus: &NexusKey| nexus.isid[5];
    let mut list: Vec<_> =
        effects.attentions.iter().map(|(nexus, code)| (number(nexus), *code)).collect();
    list.sort_unstable();
    list
}
