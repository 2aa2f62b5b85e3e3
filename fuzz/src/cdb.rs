//! A logical unit: any CDBs with any data, from two hosts that take turns.

use super::input::Input;
use scsi::alua::{AccessState, PortGroup, PortGroups};
use scsi::cdb::{Command, CommandSpec, Executor, commands};
use scsi::nexus::NexusKey;
use scsi::reservation::Reservations;
use scsi::unit::{
    ControlContext, Effect, Identity, LogicalUnit, MediumInfo, Nexus, Outcome, Refusal, TargetPort,
    UnitConfig,
};
use scsi::{Sense, Status, decode};
use std::sync::Arc;

const CONTEXT: ControlContext<'static> = ControlContext { luns: &[0, 1 << 48] };

/// What the unit is like, then CDBs, each with who sends it and its data.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let unit = unit(input.byte());
    let hosts = [host(&unit, 1), host(&unit, 2)];
    while !input.is_empty() {
        let flags = input.byte();
        let by = &hosts[usize::from(flags & 1)];
        if flags >> 4 == 0xf {
            event(&unit, flags);
            continue;
        }
        let cdb = cdb(&mut input, flags & 2 == 0);
        let data_out = input.chunk();
        let outcome = match decode(&cdb) {
            Ok((spec, command)) => perform(&unit, by, spec, &command, data_out),
            Err(sense) => Outcome::check(sense),
        };
        judge(&unit, outcome);
    }
}

/// A small or a huge disk, with all that is optional on or off.
fn unit(flags: u8) -> LogicalUnit {
    let blocks = if flags & 1 == 0 { 1000 } else { 1 << 40 };
    let mut medium = MediumInfo::new(if flags & 2 == 0 { 512 } else { 4096 }, blocks);
    medium.thin = flags & 4 == 0;
    medium.read_only = flags & 8 != 0;
    medium.anchors = flags & 16 != 0;
    let group = |id, port| PortGroup::new(id, AccessState::ActiveOptimized, vec![port]);
    let groups = PortGroups::new(vec![group(1, 1), group(2, 2)], flags & 64 != 0, 0);
    let port = |relative_id| TargetPort { relative_id, portal_group_tag: 1 };
    let config = UnitConfig {
        identity: Identity::new("SN-1", "VOLUME", "0.1"),
        medium,
        write_cache: flags & 32 != 0,
        target_name: "iqn.2026-11.dev.drystone:export".into(),
        ports: vec![port(1), port(2)],
        port_groups: groups.expect("each port is in one group"),
        referrals: None,
    };
    LogicalUnit::new(config, None).expect("no reservations to read")
}

fn host(unit: &LogicalUnit, number: u8) -> Arc<Nexus> {
    let key = NexusKey::new("iqn.x:host", [0x80, 0, 0, 0, 0, number], number.into());
    unit.attach(key)
}

fn event(unit: &LogicalUnit, flags: u8) {
    match flags & 3 {
        0 => {
            unit.reset_begins();
            drop(unit.logical_unit_reset());
        }
        1 => unit.sanitize_end(true),
        2 => unit.set_port_group(1, AccessState::Standby),
        _ => unit.set_port_group(1, AccessState::ActiveOptimized),
    }
}

/// A CDB of the table with some of the bits that it may have, or any bytes.
fn cdb(input: &mut Input<'_>, of_the_table: bool) -> [u8; 16] {
    if !of_the_table {
        return input.bytes();
    }
    let row = &commands()[usize::from(input.byte()) % commands().len()];
    let usage = row.usage_data();
    let noise: [u8; 16] = input.bytes();
    let mut cdb = std::array::from_fn(|at| noise[at] & usage[at]);
    cdb[0] = row.opcode;
    if let Some(action) = row.service_action {
        cdb[1] = cdb[1] & 0xe0 | action;
    }
    cdb
}

fn perform(
    unit: &LogicalUnit,
    by: &Nexus,
    spec: &CommandSpec,
    command: &Command,
    data_out: &[u8],
) -> Outcome {
    if let Err(refusal) = unit.admit(by, spec, command) {
        return refusal.into();
    }
    if let Some(range) = command.range().filter(|_| spec.executor == Executor::Medium) {
        assert!(unit.medium().check_range(range).is_ok(), "{command:?} was admitted");
    }
    if spec.executor != Executor::Control {
        return Outcome::good();
    }
    let outcome = match command {
        Command::PersistentReserveOut { .. } => change_reservations(unit, by, command, data_out),
        _ => unit.execute(by, command, data_out, &CONTEXT),
    };
    let len_bytes_max = command.data_in_bytes_max(unit.medium().block_bytes);
    assert!(outcome.data_in.len() as u64 <= len_bytes_max, "{command:?} said more than asked");
    assert!(outcome.status == Status::Good || outcome.effects.is_empty(), "refused and yet done");
    outcome
}

/// Seen by nobody until it is installed; and what is to be saved is what holds then.
fn change_reservations(
    unit: &LogicalUnit,
    by: &Nexus,
    command: &Command,
    data_out: &[u8],
) -> Outcome {
    let before = unit.reservations_image();
    let mut draft = unit.draft();
    let outcome = unit.persistent_out(&mut draft, by.key(), command, data_out);
    assert_eq!(unit.reservations_image(), before, "it is not installed");
    let image = draft.image();
    unit.install(draft);
    if let Some(image) = image {
        assert_eq!(image, unit.reservations_image(), "what is saved is what holds");
        let mut restored = Reservations::from_bytes(&image).expect("an image of our own");
        restored.power_on();
    } else if outcome.status != Status::Good {
        assert_eq!(unit.reservations_image(), before, "refused and yet done");
    }
    outcome
}

/// Status and sense data belong together, and what is to be saved can be read again.
fn judge(unit: &LogicalUnit, outcome: Outcome) {
    assert_eq!(outcome.status == Status::CheckCondition, outcome.sense.is_some());
    if let Some(sense) = &outcome.sense {
        round_trip(sense);
    }
    for effect in outcome.effects {
        match effect {
            Effect::Sanitize { immediate: false, .. } => unit.sanitize_end(true),
            Effect::Sanitize { .. }
            | Effect::ForgetSanitize
            | Effect::AbortTasks { .. }
            | Effect::SynchronizeCache
            | Effect::WriteProtection { .. } => {}
        }
    }
    let image = unit.reservations_image();
    assert!(Reservations::from_bytes(&image).is_ok_and(|known| known.to_bytes() == image));
}

/// What a host reads from sense data is what was meant, in both formats.
pub(crate) fn round_trip(sense: &Sense) {
    let descriptors = Sense::parse(&sense.to_bytes(true));
    assert_eq!(descriptors.as_ref(), Ok(sense));
    let fixed = Sense::parse(&sense.to_bytes(false)).expect("sense data of our own");
    assert_eq!((fixed.key, fixed.additional), (sense.key, sense.additional));
    assert_eq!((fixed.field, fixed.progress), (sense.field, sense.progress));
    assert!(fixed.information.is_none() || fixed.information == sense.information);
}

/// What a refusal says to the host.
pub(crate) fn refusal(refusal: Refusal) {
    if let Some(sense) = Outcome::from(refusal).sense {
        round_trip(&sense);
    }
}
