//! Sound inputs to begin with, made by the emitters that the rooms have.

use super::input::chunk;
use super::login::{JOINS, Node, initiator, random, target_limits};
use iscsi::digest::digest;
use iscsi::ffp::{TransferLimits, WriteTransfer};
use iscsi::login::{
    InitiatorConfig, InitiatorLogin, InitiatorStep, LoginStep, TargetLogin, TargetLoginConfig,
};
use iscsi::params::LocalLimits;
use iscsi::pdu::ahs::CommandAhs;
use iscsi::pdu::{
    BHS_LEN_BYTES, Bhs, DataOut, LogoutReason, LogoutRequest, NopOut, RESERVED_TAG, ScsiCommand,
    TaskAttribute, TaskFunction, TaskRequest, TextRequest, padded_len_bytes,
};
use iscsi::text::{Negotiation, Role, TextWriter};
use scsi::cdb::{ModeHeader, ModeSense, commands};
use scsi::copy::{Designator, PopulateToken, TokenRange, TokenRegistry, TokenSource};
use scsi::mode::ModePages;
use scsi::nexus::NexusKey;
use scsi::reservation::{PersistentOut, Ports, ReservationType, Reservations, TransportId};
use scsi::unit::MediumInfo;
use scsi::{Sense, decode};
use std::time::Duration;

/// An input of one target.
pub struct Seed {
    /// The target's name.
    pub target: &'static str,
    /// Its file's name.
    pub name: String,
    /// What it says.
    pub bytes: Vec<u8>,
}

/// All of them.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (target, inputs) in [
        ("assembly", assembly()),
        ("cdb", cdb()),
        ("login", login()),
        ("params", params()),
        ("pdu", pdu()),
        ("session", session()),
        ("text", text()),
        ("transfer", transfer()),
    ] {
        let seed = |(name, bytes): (&str, _)| Seed { target, name: name.to_owned(), bytes };
        seeds.extend(inputs.into_iter().map(seed));
    }
    seeds
}

type Inputs = Vec<(&'static str, Vec<u8>)>;

fn nop_out(data: &[u8]) -> Bhs {
    NopOut {
        is_immediate: false,
        data_segment_len_bytes: data.len() as u32,
        lun: 0,
        itt: 1,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .to_bhs()
}

fn command(cdb: &[u8], (read, write): (u32, u32), ahs: &[u8], data: &[u8]) -> Bhs {
    let mut padded = [0; 16];
    padded[..cdb.len()].copy_from_slice(cdb);
    ScsiCommand {
        is_immediate: false,
        is_final: true,
        is_read: read > 0,
        is_write: write > 0,
        attribute: TaskAttribute::SIMPLE,
        total_ahs_words: (ahs.len() / 4) as u8,
        data_segment_len_bytes: data.len() as u32,
        lun: 0,
        itt: 2,
        expected_data_transfer_len_bytes: read.max(write),
        cmd_sn: 1,
        exp_stat_sn: 1,
        cdb: padded,
    }
    .to_bhs()
}

fn data_out(data: &[u8], offset: u32, is_final: bool) -> Bhs {
    DataOut {
        is_final,
        data_segment_len_bytes: data.len() as u32,
        lun: 0,
        itt: 2,
        ttt: RESERVED_TAG,
        exp_stat_sn: 1,
        data_sn: 0,
        buffer_offset_bytes: offset,
    }
    .to_bhs()
}

fn task(function: TaskFunction) -> Bhs {
    TaskRequest {
        is_immediate: true,
        function,
        lun: 0,
        itt: 3,
        referenced_task_tag: 2,
        cmd_sn: 1,
        exp_stat_sn: 1,
        ref_cmd_sn: 1,
        exp_data_sn: 0,
    }
    .to_bhs()
}

fn send_targets(text: &[u8]) -> Bhs {
    TextRequest {
        is_immediate: false,
        is_final: true,
        is_continued: false,
        data_segment_len_bytes: text.len() as u32,
        lun: 0,
        itt: 4,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .to_bhs()
}

fn logout() -> Bhs {
    LogoutRequest {
        is_immediate: false,
        reason: LogoutReason::CLOSE_SESSION,
        itt: 5,
        cid: 1,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
    .to_bhs()
}

/// A PDU as it is on the wire.
fn wire(bhs: &Bhs, ahs: &[u8], data: &[u8], with_digests: bool) -> Vec<u8> {
    let seal = |part: Vec<u8>| {
        let sum = digest(&part);
        if with_digests && !part.is_empty() { [&part[..], &sum].concat() } else { part }
    };
    let mut padded = data.to_vec();
    padded.resize(padded_len_bytes(data.len()), 0);
    [seal([bhs.bytes(), ahs].concat()), seal(padded)].concat()
}

/// The streams of `pdu`, cut within a header, its additional segments, data, padding and digests.
fn assembly() -> Inputs {
    let pieces: Vec<u8> = [20_u8, 29, 7, 60, 3, 1, 90, 255]
        .into_iter()
        .enumerate()
        .flat_map(|(way, len)| [0, len, way as u8])
        .collect();
    let cut = |(name, input): (&'static str, Vec<u8>)| {
        (name, [&input[..1], &[8], &pieces, &input[1..]].concat())
    };
    pdu().into_iter().map(cut).collect()
}

fn pdu() -> Inputs {
    let mut ahs = Vec::new();
    CommandAhs { extended_cdb: &[7; 16], bidirectional_read_len_bytes: Some(512) }.emit(&mut ahs);
    let ping = b"ping!";
    let stream = |flags: u8, with_digests: bool| {
        let pdus = [
            wire(&nop_out(ping), &[], ping, with_digests),
            wire(&command(&[0x7f], (512, 512), &ahs, &[1; 512]), &ahs, &[1; 512], with_digests),
            wire(&data_out(&[2; 64], 512, true), &[], &[2; 64], with_digests),
            wire(&task(TaskFunction::ABORT_TASK), &[], &[], with_digests),
            wire(&logout(), &[], &[], with_digests),
        ];
        [vec![flags], pdus.concat()].concat()
    };
    vec![("plain", stream(0, false)), ("digests", stream(3, true))]
}

/// Each login from both sides, as each of them hears it: the node's bits, the initiator's, and the
/// session to join.
fn login() -> Inputs {
    let mut inputs = Vec::new();
    for (names, node, host, tsih) in [
        (["open-target", "open-initiator"], 0, 0, 0),
        (["chap-target", "chap-initiator"], 1, 1, 0),
        (["mutual-target", "mutual-initiator"], 2, 2, 0),
        (["discovery-target", "discovery-initiator"], 0, 4, 0),
        (["digest-target", "digest-initiator"], 0x40, 0, 0),
        (["reinstate-target", "reinstate-initiator"], 4, 0, 0),
        (["join-target", "join-initiator"], 0, 0, 7),
    ] {
        let [heard_by_target, heard_by_initiator] = both_sides(node, host, tsih);
        inputs.push((names[0], heard_by_target));
        inputs.push((names[1], heard_by_initiator));
    }
    inputs
}

fn both_sides(node_flags: u8, host_flags: u8, tsih: u16) -> [Vec<u8>; 2] {
    let mut node = Node { flags: node_flags };
    let limits = target_limits(node_flags);
    let config = TargetLoginConfig { limits, first_stat_sn: 0, command_window: 64 };
    let mut target = TargetLogin::new(config);
    let mut login = InitiatorLogin::new(InitiatorConfig { tsih, ..initiator(host_flags) });
    let joins = if tsih == 0 { 0 } else { JOINS };
    let mut heard = [vec![node_flags], vec![0x80 | host_flags]];
    let mut pdu = login.start();
    loop {
        heard[0].push(pdu.bhs[1] | joins);
        heard[0].extend(chunk(&pdu.data));
        let step = target.on_request(Bhs::from_ref(&pdu.bhs), &pdu.data, &mut node);
        let (LoginStep::Respond { bhs, data }
        | LoginStep::Accept { bhs, data, .. }
        | LoginStep::Fail { bhs, data, .. }) = step;
        heard[1].push(bhs[1]);
        heard[1].extend(chunk(&data));
        match login.on_response(Bhs::from_ref(&bhs), &data, &mut random) {
            Ok(InitiatorStep::Send(next)) => pdu = next,
            Ok(InitiatorStep::Done(_)) => return heard,
            other => panic!("both sides are sound: {other:?}"),
        }
    }
}

fn text() -> Inputs {
    let offers = {
        let limits = LocalLimits::default();
        let mut negotiation = Negotiation::new(Role::Initiator, &limits, true, false);
        let mut out = TextWriter::new();
        negotiation.write_offers(&mut out);
        negotiation.write_declaration(&mut out);
        out.into_bytes()
    };
    let records = b"TargetName=iqn.2026-11.dev.drystone:a\0TargetAddress=10.0.0.1:3260,1\0\
        TargetAddress=[2001:db8::1]:3260,1\0TargetName=eui.0123456789abcdef\0";
    let value = |value: &str| [&[1], value.as_bytes()].concat();
    let ask = |text: &[u8]| [&[0], &chunk(text)[..]].concat();
    let all = ask(b"SendTargets=All\0");
    let small = ask(b"MaxRecvDataSegmentLength=512\0");
    let negotiate = |role: u8| [&[2, role, 0, 0, 0, 0, 0], &chunk(&offers)[..]].concat();
    vec![
        ("pairs", [&[0], &records[..]].concat()),
        ("number", value("0xffffFFFF")),
        ("hex", value("0x0123456789abcdef")),
        ("base64", value("0bAAECAwQFBgc=")),
        ("name", value("iqn.2026-11.dev.drystone:Export")),
        ("address", value("[2001:db8::1]:3260,1")),
        ("target", negotiate(0)),
        ("initiator", negotiate(1)),
        ("send-targets", [vec![3, 40], small, all.clone(), ask(&[]), ask(&[])].concat()),
        (
            "split",
            [vec![3, 2], [&[3][..], &chunk(b"SendTargets=")].concat(), ask(b"All\0")].concat(),
        ),
    ]
}

/// A CDB by the number of its row, with all the bits that `noise` and its usage share.
fn row(opcode: u8, action: Option<u8>, noise: [u8; 15]) -> Vec<u8> {
    let is = |row: &&scsi::CommandSpec| row.opcode == opcode && row.service_action == action;
    let found = commands().iter().find(is).expect("a command of the table");
    let at = commands().iter().position(|row| std::ptr::eq(row, found)).expect("it was found");
    [&[at as u8, opcode], &noise[..]].concat()
}

fn from_host(host: u8, row: &[u8], data: &[u8]) -> Vec<u8> {
    [&[host], row, &chunk(data)].concat()
}

/// Key, service action key, flags: the basic list of PERSISTENT RESERVE OUT (SPC-4 6.16.3).
fn prout_list(key: u64, action_key: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), action_key.to_be_bytes()].concat();
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

fn cdb() -> Inputs {
    let every = |noise: [u8; 15]| {
        let rows = (0..commands().len()).map(|at| {
            let cdb = [&[at as u8, 0], &noise[..]].concat();
            [from_host(0, &cdb, &[]), from_host(1, &cdb, &[0; 24])].concat()
        });
        rows.collect::<Vec<_>>().concat()
    };
    let mut allocation = [0; 15];
    allocation[2..13].fill(0x01);
    let out = |host, action, kind, list: &[u8]| {
        let mut noise = [0; 15];
        (noise[1], noise[7]) = (kind, list.len() as u8);
        from_host(host, &row(0x5f, Some(action), noise), list)
    };
    let reserved = [
        out(0, 0, 0, &prout_list(0, 10, 1)),
        out(1, 6, 0, &prout_list(0, 11, 1)),
        out(0, 1, 5, &prout_list(10, 0, 0)),
        out(1, 4, 5, &prout_list(11, 10, 0)),
        out(1, 3, 0, &prout_list(11, 0, 0)),
    ];
    let mut select = [0; 15];
    (select[0], select[3]) = (0x10, 24);
    let mut page = vec![0, 0, 0, 0, 0x08, 0x12, 0x04];
    page.resize(24, 0);
    vec![
        ("zeroes", [vec![0], every([0; 15])].concat()),
        ("ones", [vec![1], every(allocation)].concat()),
        ("reserve", [vec![0], reserved.concat()].concat()),
        ("mode", [vec![0], from_host(0, &row(0x15, None, select), &page)].concat()),
    ]
}

/// A list of block ranges with its length (SBC-4 5.22).
fn range_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = ((ranges.len() * 16) as u16).to_be_bytes().to_vec();
    for (lba, blocks) in ranges {
        list.extend([&lba.to_be_bytes()[..], &blocks.to_be_bytes(), &[0; 4]].concat());
    }
    list
}

/// Puts the length of what follows it into the first two bytes.
fn with_length(mut list: Vec<u8>) -> Vec<u8> {
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
    list
}

fn extended_copy() -> Vec<u8> {
    let mut list = vec![1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    list.extend([0xe4, 0, 0, 0, 1, 3, 0, 16]);
    list.extend([0x60; 16]);
    list.extend([0, 0, 0, 0, 0, 0, 2, 0]);
    list.extend([0x02, 0, 0, 24, 0, 0, 0, 0, 0, 0, 0, 8]);
    list.extend([0_u64.to_be_bytes(), 500_u64.to_be_bytes()].concat());
    list
}

fn write_using_token() -> Vec<u8> {
    let ranges = vec![TokenRange { lba: 0, blocks: 8 }];
    let made = PopulateToken { immediate: false, inactivity_timeout_s: 30, ranges };
    let unit = Designator::naa(&[0x60; 16]);
    let target_name = "iqn.2026-11.dev.drystone:export";
    let source = TokenSource { unit, target_name, block_bytes: 512 };
    let mut registry = TokenRegistry::new();
    let token = registry.create((1, ()), &source, &made, Duration::ZERO, &[7; 256]);
    let token = token.expect("the first of many");
    with_length([&[0; 16], &token.bytes()[..], &[0; 6], &range_list(&[(100, 8)])].concat())
}

/// The image of two registrations and a reservation.
fn image() -> Vec<u8> {
    let nexus = |n| NexusKey::new("iqn.2026-11.dev.drystone:host", [0x80, 0, 0, 0, 0, n], 1);
    let nexuses = [nexus(1), nexus(2)];
    let ports = Ports { target_ports: &[1], nexuses: &nexuses };
    let mut state = Reservations::new();
    let kind = ReservationType::WriteExclusiveRegistrantsOnly as u8;
    for (by, action, key) in [(0, 0, 0), (1, 0, 0), (0, 1, 10)] {
        let cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0];
        let Ok((_, scsi::Command::PersistentReserveOut { action, .. })) = decode(&cdb) else {
            panic!("a PERSISTENT RESERVE OUT");
        };
        let parameters = &prout_list(key, 10, 1);
        let out = PersistentOut { action, scope: 0, kind, list_bytes: 24, parameters };
        let _ = state.persistent_out(&nexuses[by], &out, &ports).expect("a sound history");
    }
    state.to_bytes()
}

fn mode_list() -> Vec<u8> {
    let all = ModeSense {
        header: ModeHeader::Long,
        disable_block_descriptors: false,
        long_lba_accepted: false,
        page_control: 0,
        page: 0x3f,
        subpage: 0,
        allocation_bytes: 4096,
    };
    let said = ModePages::new(true).sense(&all, &MediumInfo::new(512, 1000));
    let mut list = said.expect("all pages can be shown");
    list[..4].fill(0);
    list
}

fn params() -> Inputs {
    let input = |parser: u8, list: &[u8]| [&[parser], list].concat();
    let id = TransportId { name: "iqn.x:host".to_owned(), isid: Some([0x80, 0, 0, 0, 0, 1]) };
    let mut transport_id = Vec::new();
    id.emit(&mut transport_id);
    let unmap = with_length([&[0; 2], &range_list(&[(0, 8), (992, 8)])[..]].concat());
    let unmap = [&unmap[..4], &[0; 4], &unmap[4..]].concat();
    let populate = with_length([&[0; 14], &range_list(&[(0, 8), (100, 8)])[..]].concat());
    let image = image();
    let register = chunk(&prout_list(0, 10, 1));
    let sense = Sense::miscompare(7).at_cdb(2, Some(3));
    let seal = image.len() - 4;
    vec![
        ("unmap", input(0, &unmap)),
        ("overwrite", input(1, &[0x81, 0, 0, 4, 1, 2, 3, 4])),
        ("extended-copy", input(2, &extended_copy())),
        ("populate-token", input(3, &populate)),
        ("write-using-token", input(4, &write_using_token())),
        ("mode-select", input(5, &[&[0, 0], &chunk(&mode_list())[..]].concat())),
        ("port-groups", input(6, &[&[0], &chunk(&[0, 0, 0, 0, 1, 0, 0, 1])[..]].concat())),
        ("transport-id", input(7, &transport_id)),
        ("image", input(8, &image)),
        ("sealed-image", input(9, &image[..seal])),
        ("register", input(10, &[&[0, 0], &register[..], &[0x0e, 0], &register].concat())),
        ("sense-fixed", input(11, &sense.to_bytes(false))),
        ("sense-descriptors", input(11, &sense.to_bytes(true))),
    ]
}

fn session() -> Inputs {
    let ask = |bhs: &Bhs, data: &[u8]| [&[0], &bhs.bytes()[..], &chunk(data)].concat();
    let plain =
        |cdb: &[u8], read, write, data: &[u8]| ask(&command(cdb, (read, write), &[], data), data);
    let ping = ask(&nop_out(b"ping"), b"ping");
    let inquiry = plain(&[0x12, 0, 0, 0, 96, 0], 96, 0, &[]);
    let write = plain(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], 0, 512, &[3; 512]);
    let read = plain(&[0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0], 4096, 0, &[]);
    let waiting = plain(&[0x2a, 0, 0, 0, 0, 0, 0, 0, 2, 0], 0, 1024, &[4; 512]);
    let unsolicited = ask(&data_out(&[5; 512], 512, true), &[5; 512]);
    let abort = ask(&task(TaskFunction::ABORT_TASK), &[]);
    let reset = ask(&task(TaskFunction::LOGICAL_UNIT_RESET), &[]);
    let targets = b"SendTargets=All\0";
    let targets = ask(&send_targets(targets), targets);
    let bye = ask(&logout(), &[]);
    let all = [ping, inquiry, write, read, waiting, unsolicited, abort, reset, bye.clone()];
    // Two hosts in turns.
    let numbered = |(number, pdu): (usize, &Vec<u8>)| [&[(number % 2) as u8], &pdu[..]].concat();
    let two: Vec<u8> =
        all.iter().flat_map(|pdu| [pdu, pdu]).enumerate().flat_map(numbered).collect();
    let all = all.concat();
    let login = InitiatorLogin::new(initiator(0)).start();
    let raw = wire(&Bhs::new(login.bhs), &[], &login.data, false);
    vec![
        ("plain", [vec![0], all.clone()].concat()),
        ("poor", [vec![16], all.clone()].concat()),
        ("two-hosts", [vec![32], two.clone()].concat()),
        ("two-poor-hosts", [vec![16 | 32], two.clone()].concat()),
        ("hanging-disk", [vec![64], all.clone()].concat()),
        ("all-at-once", [vec![16 | 32 | 64], two].concat()),
        ("digests", [vec![6], all].concat()),
        ("discovery", [vec![8], targets, bye].concat()),
        ("raw", [vec![1], raw].concat()),
    ]
}

fn transfer() -> Inputs {
    let limits = TransferLimits {
        initial_r2t: false,
        immediate_data: true,
        first_burst_len_bytes: 512,
        max_burst_len_bytes: 1024,
        max_outstanding_r2t: 2,
    };
    let mut write = WriteTransfer::start(&limits, 4096, 4096, 0, true).expect("a sound write");
    let mut input = vec![0x20, 0, 0, 2, 0];
    input.extend([4096_u32.to_be_bytes(), [0; 4]].concat());
    while let Some(r2t) = write.next_r2t() {
        input.push(4);
        input.extend(r2t.len.to_be_bytes());
    }
    assert!(input.len() < BHS_LEN_BYTES);
    vec![("write", input)]
}
