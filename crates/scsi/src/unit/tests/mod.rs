mod drafts;
mod history;
mod medium;
mod referrals;

use super::*;
use crate::alua::{PortGroup, PortGroups};
use crate::cdb::{Command, decode};
use crate::{Sense, SenseKey, Status};

const CONTEXT: ControlContext<'static> = ControlContext { luns: &[0] };

fn config() -> UnitConfig {
    let group = |id, port| PortGroup::new(id, AccessState::ActiveOptimized, vec![port]);
    let port = |relative_id| TargetPort { relative_id, portal_group_tag: 1 };
    UnitConfig {
        identity: Identity::new("SN-1", "VOLUME", "0.1"),
        medium: MediumInfo::new(512, 1000),
        write_cache: false,
        target_name: "iqn.2026-11.dev.drystone:export".into(),
        ports: vec![port(1), port(2)],
        port_groups: PortGroups::new(vec![group(1, 1), group(2, 2)], true, 0).unwrap(),
        referrals: None,
    }
}

/// A unit, and hosts that send CDBs to it.
struct Bench {
    unit: LogicalUnit,
}

impl Bench {
    fn new() -> Self {
        Self::with(config())
    }

    fn with(config: UnitConfig) -> Self {
        Self { unit: LogicalUnit::new(config, None).unwrap() }
    }

    /// A host whose first unit attention is already told, and heard.
    fn host(&self, number: u8, port: u16) -> Arc<Nexus> {
        let nexus = self.attach(number, port);
        assert_eq!(attention(&self.send(&nexus, &[0; 6])), Some((0x29, 0x01)));
        self.unit.greeting_was_heard(&nexus);
        nexus
    }

    fn attach(&self, number: u8, port: u16) -> Arc<Nexus> {
        self.unit.attach(NexusKey::new("iqn.x:host", [0x80, 0, 0, 0, 0, number], port))
    }

    fn send(&self, nexus: &Arc<Nexus>, cdb: &[u8]) -> Outcome {
        self.send_data(nexus, cdb, &[])
    }

    fn send_data(&self, nexus: &Arc<Nexus>, cdb: &[u8], data_out: &[u8]) -> Outcome {
        let (spec, command) = match decode(cdb) {
            Ok(decoded) => decoded,
            Err(sense) => return Outcome::check(sense),
        };
        if let Err(refusal) = self.unit.admit(nexus, spec, &command) {
            return refusal.into();
        }
        match spec.executor {
            crate::cdb::Executor::Control => match command {
                Command::PersistentReserveOut { .. } => {
                    let (draft, outcome) = self.draft(nexus, &command, data_out);
                    self.unit.install(draft);
                    outcome
                }
                _ => self.unit.execute(nexus, &command, data_out, &CONTEXT),
            },
            _ => Outcome::good(),
        }
    }

    /// A change of the reservations that nobody sees yet.
    fn draft(&self, nexus: &Arc<Nexus>, command: &Command, list: &[u8]) -> (Draft, Outcome) {
        let mut draft = self.unit.draft();
        let outcome = self.unit.persistent_out(&mut draft, nexus.key(), command, list);
        (draft, outcome)
    }

    fn select(&self, nexus: &Arc<Nexus>, page: &[u8]) -> Outcome {
        let mut list = vec![0; 4];
        list.extend(page);
        self.send_data(nexus, &[0x15, 0x10, 0, 0, list.len() as u8, 0], &list)
    }

    fn status(&self, nexus: &Arc<Nexus>, cdb: &[u8]) -> Status {
        self.send(nexus, cdb).status
    }
}

fn attention(outcome: &Outcome) -> Option<(u8, u8)> {
    let sense = outcome.sense.filter(|sense| sense.key == SenseKey::UnitAttention)?;
    assert_eq!(outcome.status, Status::CheckCondition);
    Some((sense.additional.asc, sense.additional.ascq))
}

const READY: [u8; 6] = [0; 6];
const READ: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const INQUIRY: [u8; 6] = [0x12, 0, 0, 0, 96, 0];
const START: [u8; 6] = [0x1b, 0, 0, 0, 1, 0];
const STOP: [u8; 6] = [0x1b, 0, 0, 0, 0, 0];
const ERASE: [u8; 10] = [0x48, 0x82, 0, 0, 0, 0, 0, 0, 0, 0];
const REQUEST_SENSE: [u8; 6] = [3, 0, 0, 0, 252, 0];

fn control_page(d_sense: u8, swp: u8) -> [u8; 12] {
    [0x0a, 0x0a, 0x20 | d_sense, 0x10, swp, 0x40, 0, 0, 0, 0, 0, 0]
}

fn caching_page(wce: u8) -> Vec<u8> {
    let mut page = vec![0; 20];
    page[..3].copy_from_slice(&[0x08, 0x12, wce]);
    page
}

#[test]
fn a_new_nexus_is_told_once_and_by_any_command_but_three() {
    let bench = Bench::new();
    let nexus = bench.attach(1, 1);
    assert_eq!(bench.status(&nexus, &INQUIRY), Status::Good);
    assert_eq!(bench.status(&nexus, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]), Status::Good);
    assert_eq!(attention(&bench.send(&nexus, &READ)), Some((0x29, 1)));
    assert_eq!(bench.status(&nexus, &READ), Status::Good);
}

/// Whoever has not heard of a start may have lost what a volatile cache held, however often it logs
/// in before it asks.
#[test]
fn a_nexus_that_returns_is_told_of_its_loss_but_of_the_start_until_it_has_heard() {
    let bench = Bench::new();
    for _ in 0..3 {
        let nexus = bench.attach(1, 1);
        bench.unit.detach(&nexus);
    }
    let nexus = bench.attach(1, 1);
    assert_eq!(attention(&bench.send(&nexus, &READ)), Some((0x29, 1)));
    // The answer may not have arrived.
    let nexus = bench.attach(1, 1);
    assert_eq!(attention(&bench.send(&nexus, &READ)), Some((0x29, 1)));
    bench.unit.greeting_was_heard(&nexus);
    assert_eq!(bench.status(&nexus, &READ), Status::Good);
    bench.unit.detach(&nexus);
    for _ in 0..2 {
        let nexus = bench.attach(1, 1);
        assert_eq!(attention(&bench.send(&nexus, &READ)), Some((0x29, 7)));
    }
    let elsewhere = bench.attach(1, 2);
    assert_eq!(attention(&bench.send(&elsewhere, &READ)), Some((0x29, 1)), "through another port");
}

#[test]
fn request_sense_takes_the_attention_as_data() {
    let bench = Bench::new();
    let nexus = bench.attach(1, 1);
    let data = bench.send(&nexus, &REQUEST_SENSE).data_in;
    assert_eq!((data[0], data[2], data[12]), (0x70, 6, 0x29));
    assert_eq!(bench.status(&nexus, &READY), Status::Good);
    let descriptor = bench.send(&nexus, &[3, 1, 0, 0, 252, 0]).data_in;
    assert_eq!(descriptor, [0x72, 0, 0, 0, 0, 0, 0, 0]);
    let cut = bench.send(&nexus, &[3, 0, 0, 0, 5, 0]).data_in;
    assert_eq!(cut.len(), 5);
}

#[test]
fn mode_select_takes_effect_and_tells_the_others() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    assert_eq!(bench.select(&one, &control_page(0x04, 0x08)).status, Status::Good);
    assert!(bench.unit.descriptor_sense());
    assert_eq!(bench.send(&one, &WRITE), Outcome::check(Sense::write_protected()));
    assert_eq!(bench.status(&one, &READ), Status::Good);
    assert_eq!(bench.status(&one, &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Status::Good);
    assert_eq!(attention(&bench.send(&two, &READ)), Some((0x2a, 0x01)));
    assert_eq!(bench.status(&two, &READ), Status::Good);

    assert_eq!(bench.select(&one, &control_page(0, 0)).status, Status::Good);
    assert_eq!(bench.status(&one, &WRITE), Status::Good);
    assert!(!bench.unit.descriptor_sense());
}

#[test]
fn who_write_protects_the_unit_is_known_until_it_ends() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    assert_eq!(bench.unit.write_protected_by(), None);
    let set = Effect::WriteProtection { on: true };
    assert_eq!(bench.select(&one, &control_page(0, 0x08)).effects, [set]);
    assert_eq!(bench.unit.write_protected_by(), Some(one.key().initiator.clone()));
    // The other hears of it first.
    assert_eq!(attention(&bench.send(&two, &READ)), Some((0x2a, 0x01)));
    assert_eq!(bench.select(&two, &control_page(0x04, 0x08)).effects, [], "nothing has changed");
    assert_eq!(bench.unit.write_protected_by(), Some(one.key().initiator.clone()));
    assert_eq!(attention(&bench.send(&one, &READ)), Some((0x2a, 0x01)));
    let cleared = || Effect::WriteProtection { on: false };
    assert_eq!(bench.select(&two, &control_page(0, 0)).effects, [cleared()]);
    assert_eq!(bench.unit.write_protected_by(), None);
    assert_eq!(attention(&bench.send(&one, &READ)), Some((0x2a, 0x01)));
    let _ = bench.select(&one, &control_page(0, 0x08));
    assert_eq!(bench.unit.logical_unit_reset(), [cleared()]);
    assert_eq!(bench.unit.write_protected_by(), None);
}

#[test]
fn turning_the_cache_off_flushes_it() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    assert_eq!(bench.select(&one, &caching_page(0x04)).effects, []);
    assert!(bench.unit.write_cache_enabled());
    let outcome = bench.select(&one, &caching_page(0));
    assert_eq!((outcome.status, outcome.effects), (Status::Good, vec![Effect::SynchronizeCache]));
    assert!(!bench.unit.write_cache_enabled());
}

#[test]
fn a_list_shorter_than_announced_is_refused() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let outcome = bench.send_data(&one, &[0x15, 0x10, 0, 0, 16, 0], &[0; 15]);
    assert_eq!(outcome, Outcome::check(Sense::parameter_list_length_error()));
}

#[test]
fn a_read_only_medium_refuses_every_change() {
    let mut config = config();
    config.medium.read_only = true;
    let bench = Bench::with(config);
    let one = bench.host(1, 1);
    let mut sixteen = [0u8; 16];
    for opcode in [0x0a, 0x2a, 0xaa, 0x8a, 0x2e, 0xae, 0x8e, 0x41, 0x93, 0x42, 0x89, 0x8b, 0x9c] {
        sixteen[0] = opcode;
        let outcome = bench.send(&one, &sixteen);
        assert_eq!(outcome, Outcome::check(Sense::write_protected()), "{opcode:02x}");
    }
    assert_eq!(bench.send(&one, &ERASE), Outcome::check(Sense::write_protected()));
    assert_eq!(bench.status(&one, &READ), Status::Good);
    assert_eq!(bench.send(&one, &[0x1a, 8, 0x0a, 0, 4, 0]).data_in[2], 0x90);
}

#[test]
fn a_stop_writes_the_cache_and_takes_the_medium_from_nobody() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    assert_eq!(bench.send(&one, &STOP).effects, [Effect::SynchronizeCache]);
    for cdb in [&READ[..], &WRITE, &READY] {
        assert_eq!(bench.status(&two, cdb), Status::Good);
    }
    assert_eq!(bench.send(&two, &START).effects, []);
    let no_flush = bench.send(&one, &[0x1b, 0, 0, 0, 4, 0]);
    assert_eq!(no_flush.effects, []);
}

#[test]
fn sanitize_closes_the_medium_until_it_ends() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let outcome = bench.send(&one, &ERASE);
    let effect = Effect::Sanitize {
        method: SanitizeMethod::BlockErase,
        immediate: true,
        unrestricted_exit: false,
    };
    assert_eq!((outcome.status, outcome.effects), (Status::Good, vec![effect]));
    bench.unit.sanitize_progress(0x4000);
    let busy = Outcome::check(Sense::not_ready_sanitizing(0x4000));
    for cdb in [&READ[..], &WRITE, &READY, &START, &ERASE] {
        assert_eq!(bench.send(&one, cdb), busy);
    }
    assert_eq!(bench.status(&one, &INQUIRY), Status::Good);
    let data = bench.send(&one, &REQUEST_SENSE).data_in;
    assert_eq!((data[2], data[12..14].to_vec()), (2, vec![0x04, 0x1b]));
    assert_eq!(data[15..18], [0x80, 0x40, 0]);

    // A reset does not stop it.
    bench.unit.reset_begins();
    assert_eq!(bench.unit.logical_unit_reset(), []);
    assert_eq!(attention(&bench.send(&one, &READY)), Some((0x29, 0x03)));
    assert_eq!(bench.send(&one, &READY), busy);
    bench.unit.sanitize_end(true);
    assert_eq!(bench.status(&one, &READ), Status::Good);
}

#[test]
fn a_failed_sanitize_needs_another_or_a_way_out_that_was_asked_for() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let exit = [0x48, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bench.status(&one, &exit), Status::Good, "nothing to exit from");
    let _ = bench.send(&one, &ERASE);
    bench.unit.sanitize_end(false);
    assert_eq!(bench.send(&one, &READ), Outcome::check(Sense::sanitize_failed()));
    let refused = Outcome::check(Sense::invalid_field_in_cdb(1, Some(4)));
    assert_eq!(bench.send(&one, &exit), refused);
    // AUSE = 1: now the initiator may leave.
    let _ = bench.send(&one, &[0x48, 0xa2, 0, 0, 0, 0, 0, 0, 0, 0]);
    bench.unit.sanitize_end(false);
    assert_eq!(bench.send(&one, &exit).effects, [Effect::ForgetSanitize]);
    assert_eq!(bench.status(&one, &READ), Status::Good);
    bench.unit.sanitize_end(false);
    assert_eq!(bench.status(&one, &READ), Status::Good, "none was under way");
}

#[test]
fn a_sanitize_that_was_cut_off_has_failed() {
    let bench = Bench::new();
    bench.unit.sanitize_was_cut_off(false);
    let one = bench.host(1, 1);
    for cdb in [&READ[..], &WRITE, &READY] {
        assert_eq!(bench.send(&one, cdb), Outcome::check(Sense::sanitize_failed()));
    }
    assert_eq!(bench.status(&one, &ERASE), Status::Good, "once more");
    bench.unit.sanitize_end(true);
    assert_eq!(bench.status(&one, &READ), Status::Good);
}

#[test]
fn sanitize_parameter_lists() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let overwrite = |bytes: u8| [0x48, 0x01, 0, 0, 0, 0, 0, 0, bytes, 0];
    let outcome = bench.send_data(&one, &overwrite(5), &[1, 0, 0, 1, 0xaa]);
    let [Effect::Sanitize { method: SanitizeMethod::Overwrite(how), immediate: false, .. }] =
        &outcome.effects[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((how.passes, &how.pattern[..]), (1, &[0xaa][..]));
    bench.unit.sanitize_end(true);
    let refused = Outcome::check(Sense::invalid_field_in_cdb(7, None));
    assert_eq!(bench.send_data(&one, &overwrite(4), &[1, 0, 0, 1]), refused);
    let erase = [0x48, 0x02, 0, 0, 0, 0, 0, 0, 8, 0];
    assert_eq!(bench.send_data(&one, &erase, &[0; 8]), refused);
}

#[test]
fn spc2_reservation_ends_with_its_nexus_or_a_reset() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    let (reserve, release) = ([0x16, 0, 0, 0, 0, 0], [0x17, 0, 0, 0, 0, 0]);
    assert_eq!(bench.status(&one, &reserve), Status::Good);
    for cdb in [&READ[..], &READY, &reserve, &[0x1a, 0, 0x3f, 0, 255, 0]] {
        assert_eq!(bench.status(&two, cdb), Status::ReservationConflict);
        assert_ne!(bench.status(&one, cdb), Status::ReservationConflict);
    }
    assert_eq!(bench.status(&two, &INQUIRY), Status::Good);
    assert_eq!(bench.status(&two, &release), Status::Good, "not its own: nothing happens");
    assert_eq!(bench.status(&two, &READ), Status::ReservationConflict);
    bench.unit.detach(&one);
    assert_eq!(bench.status(&two, &READ), Status::Good);

    assert_eq!(bench.status(&two, &reserve), Status::Good);
    let three = bench.attach(3, 1);
    assert_eq!(attention(&bench.send(&three, &READ)), Some((0x29, 1)), "before the conflict");
    assert_eq!(bench.status(&three, &READ), Status::ReservationConflict);
    bench.unit.reset_begins();
    assert_eq!(attention(&bench.send(&three, &READ)), Some((0x29, 3)), "while it goes on");
    let _ = bench.unit.logical_unit_reset();
    assert_eq!(attention(&bench.send(&three, &READ)), Some((0x29, 3)), "it changed something");
    bench.unit.reset_begins();
    let _ = bench.unit.logical_unit_reset();
    assert_eq!(attention(&bench.send(&three, &READ)), Some((0x29, 3)));
    assert_eq!(bench.status(&three, &READ), Status::Good);
}

fn register(bench: &Bench, nexus: &Arc<Nexus>, key: u64, aptpl: bool) -> Outcome {
    let mut list = [0; 24];
    list[8..16].copy_from_slice(&key.to_be_bytes());
    list[20] = u8::from(aptpl);
    bench.send_data(nexus, &[0x5f, 0x06, 0, 0, 0, 0, 0, 0, 24, 0], &list)
}

fn prout(bench: &Bench, nexus: &Arc<Nexus>, action: u8, keys: [u64; 2]) -> Outcome {
    bench.send_data(nexus, &prout_cdb(action), &prout_list(keys))
}

/// WRITE EXCLUSIVE.
const fn prout_cdb(action: u8) -> [u8; 10] {
    [0x5f, action, 1, 0, 0, 0, 0, 0, 24, 0]
}

fn prout_list(keys: [u64; 2]) -> [u8; 24] {
    let mut list = [0; 24];
    list[..8].copy_from_slice(&keys[0].to_be_bytes());
    list[8..16].copy_from_slice(&keys[1].to_be_bytes());
    list
}

#[test]
fn persistent_reservation_closes_the_gate_of_others_only() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 2));
    assert_eq!(register(&bench, &one, 7, false).status, Status::Good);
    assert_eq!(prout(&bench, &one, 1, [7, 0]).status, Status::Good);
    assert_eq!(bench.status(&two, &WRITE), Status::ReservationConflict);
    assert_eq!(bench.status(&two, &READ), Status::Good, "write exclusive");
    assert_eq!(bench.status(&one, &WRITE), Status::Good);

    // PREEMPT AND ABORT by the other: the first is told, its tasks end.
    assert_eq!(register(&bench, &two, 8, false).status, Status::Good);
    let outcome = prout(&bench, &two, 5, [8, 7]);
    assert_eq!(outcome.effects, [Effect::AbortTasks { of: one.key().clone() }]);
    assert_eq!(bench.status(&one, &WRITE), Status::ReservationConflict);
    assert_eq!(attention(&bench.send(&one, &READ)), Some((0x2a, 0x05)), "registrations preempted");
    assert_eq!(bench.status(&two, &WRITE), Status::Good);
}

#[test]
fn aptpl_reservations_survive_a_restart_through_the_saved_image() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let _ = register(&bench, &one, 7, true);
    let (_, command) = decode(&prout_cdb(1)).unwrap();
    let (draft, outcome) = bench.draft(&one, &command, &prout_list([7, 0]));
    assert_eq!(outcome, Outcome::good());
    let image = draft.image().filter(|_| draft.is_to_save()).expect("it is to be saved");

    let later = Bench { unit: LogicalUnit::new(config(), Some(&image)).unwrap() };
    let (one, two) = (later.host(1, 1), later.host(2, 1));
    assert_eq!(later.status(&one, &WRITE), Status::Good);
    assert_eq!(later.status(&two, &WRITE), Status::ReservationConflict);
    assert!(LogicalUnit::new(config(), Some(b"garbage")).is_err());
}

/// Hosts stay registered, and nothing of that outlives a loss of power: so nothing is kept for it.
#[test]
fn where_aptpl_is_switched_off_nothing_stays_saved() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let _ = register(&bench, &one, 7, true);
    let (_, command) = decode(&prout_cdb(0)).unwrap();
    let (draft, outcome) = bench.draft(&one, &command, &prout_list([7, 8]));
    assert_eq!(outcome, Outcome::good());
    assert!(draft.is_to_save() && draft.image().is_none(), "what was saved goes");
    bench.unit.install(draft);
    let (draft, _) = bench.draft(&one, &command, &prout_list([8, 9]));
    assert!(!draft.is_to_save(), "and is gone for good");
}

#[test]
fn access_states_close_ports_and_tell_everybody() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 2));
    bench.unit.set_port_group(2, AccessState::Standby);
    for nexus in [&one, &two] {
        assert_eq!(attention(&bench.send(nexus, &READY)), Some((0x2a, 0x06)));
    }
    assert_eq!(bench.status(&one, &READ), Status::Good);
    let sense = bench.send(&two, &READ).sense.unwrap();
    assert_eq!((sense.key, sense.additional.ascq), (SenseKey::NotReady, 0x0b));
    bench.unit.set_port_group(2, AccessState::Standby);
    assert_eq!(bench.status(&one, &READY), Status::Good, "no change, no attention");

    // SET TARGET PORT GROUPS through the standby port; the sender is not told.
    let list = [0, 0, 0, 0, 0, 0, 0, 2];
    let set = [0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0];
    assert_eq!(bench.send_data(&two, &set, &list).status, Status::Good);
    assert_eq!(bench.status(&two, &READ), Status::Good);
    assert_eq!(attention(&bench.send(&one, &READY)), Some((0x2a, 0x06)));
    let report = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
    assert_eq!(bench.send(&one, &report).data_in[..4], [0, 0, 0, 24]);
}

#[test]
fn reinstatement_replaces_the_nexus() {
    let bench = Bench::new();
    let old = bench.host(1, 1);
    assert_eq!(bench.status(&old, &[0x16, 0, 0, 0, 0, 0]), Status::Good);
    let new = bench.attach(1, 1);
    assert_eq!(attention(&bench.send(&new, &READY)), Some((0x29, 0x07)));
    let other = bench.host(2, 1);
    assert_eq!(bench.status(&other, &READ), Status::Good, "the reservation went with the old one");
    assert_eq!(bench.status(&new, &[0x16, 0, 0, 0, 0, 0]), Status::Good);
    bench.unit.detach(&old);
    assert_eq!(bench.status(&other, &READ), Status::ReservationConflict, "the new one's stays");
}

#[test]
fn attentions_can_be_established_from_outside() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    let key = two.key().clone();
    let luns = AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED;
    bench.unit.establish_attention(|nexus| *nexus == key, luns);
    assert_eq!(bench.status(&one, &READY), Status::Good);
    // REPORT LUNS tells it by its data.
    let _ = bench.send(&two, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0]);
    assert_eq!(bench.status(&two, &READY), Status::Good);
    bench.unit.establish_attention(|_| true, luns);
    assert_eq!(attention(&bench.send(&two, &READY)), Some((0x3f, 0x0e)));
}

#[test]
fn empty_defect_lists_and_diagnostics() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    let data = bench.send(&one, &[0x37, 0, 0x18, 0, 0, 0, 0, 0, 32, 0]).data_in;
    assert_eq!(data, [0, 0x18, 0, 0]);
    let data = bench.send(&one, &[0xb7, 0x0d, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]).data_in;
    assert_eq!(data, [0, 0x0d, 0, 0, 0, 0, 0, 0]);
    let refused = Outcome::check(Sense::invalid_field_in_cdb(2, Some(2)));
    assert_eq!(bench.send(&one, &[0x37, 0, 7, 0, 0, 0, 0, 0, 32, 0]), refused);
    let refused = Outcome::check(Sense::invalid_field_in_cdb(2, None));
    assert_eq!(bench.send(&one, &[0xb7, 0, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0]), refused);
    assert_eq!(bench.status(&one, &[0x1d, 4, 0, 0, 0, 0]), Status::Good);
    let refused = Outcome::check(Sense::invalid_field_in_cdb(3, None));
    assert_eq!(bench.send_data(&one, &[0x1d, 0, 0, 0, 4, 0], &[0; 4]), refused);
    assert_eq!(bench.send(&one, &[0xa3, 0x0d, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0]).data_in.len(), 4);
    assert_eq!(bench.status(&one, &[0x1e, 0, 0, 0, 1, 0]), Status::Good);
}

#[test]
fn allocation_length_cuts_every_answer() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    assert_eq!(bench.send(&one, &[0x12, 0, 0, 0, 5, 0]).data_in.len(), 5);
    assert_eq!(bench.send(&one, &[0x12, 1, 0x83, 0, 0, 0]).data_in.len(), 0);
    let mut capacity = [0; 16];
    (capacity[0], capacity[1]) = (0x9e, 0x10);
    for length in 0..=40 {
        capacity[13] = length;
        assert_eq!(bench.send(&one, &capacity).data_in.len(), usize::from(length.min(32)));
    }
    assert_eq!(bench.send(&one, &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0]).data_in.len(), 8);
}

#[test]
fn an_absent_unit_answers_three_commands() {
    let run = |cdb: &[u8]| execute_absent(cdb, &CONTEXT);
    assert_eq!(run(&INQUIRY).data_in[0], 0x7f);
    assert_eq!(run(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]).data_in.len(), 16);
    let sense = run(&REQUEST_SENSE);
    assert_eq!((sense.status, sense.data_in[2], sense.data_in[12]), (Status::Good, 5, 0x25));
    let refused = Outcome::check(Sense::logical_unit_not_supported());
    for cdb in [&READ[..], &READY, &[0xff; 16], &[0x12, 1, 0, 0, 255, 0]] {
        assert_eq!(run(cdb), refused);
    }
}

#[test]
fn the_copy_manager_obeys_the_same_rules() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    let range = crate::cdb::BlockRange { lba: 0, blocks: 8 };
    let copy = |access| bench.unit.admit_copy(two.key(), range, access);
    assert_eq!(copy(CopyAccess::Write), Ok(()));
    let past = crate::cdb::BlockRange { lba: 996, blocks: 8 };
    let refused = Err(Sense::lba_out_of_range(1000).into());
    assert_eq!(bench.unit.admit_copy(two.key(), past, CopyAccess::Read), refused);

    assert_eq!(bench.select(&one, &control_page(0, 0x08)).status, Status::Good);
    assert_eq!(copy(CopyAccess::Read), Ok(()));
    assert_eq!(copy(CopyAccess::Write), Err(Sense::write_protected().into()));
    assert_eq!(bench.status(&one, &[0x16, 0, 0, 0, 0, 0]), Status::Good);
    assert_eq!(copy(CopyAccess::Read), Err(Refusal::Conflict));
    assert_eq!(attention(&bench.send(&two, &INQUIRY)), None);
    assert_eq!(bench.unit.admit_copy(one.key(), range, CopyAccess::Read), Ok(()));
}

#[test]
fn the_gate_is_zero_when_nothing_is_pending() {
    let bench = Bench::new();
    let one = bench.host(1, 1);
    assert_eq!(one.gate(), Gate(0));
    let (spec, command) = decode(&READ).unwrap();
    assert_eq!(bench.unit.admit(&one, spec, &command), Ok(()));
}
