//! The initiator against PDUs made by hand, and one login against a target made by hand.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iscsi::pdu::{
    Bhs, DataIn, DataOut, LoginRequest, LoginResponse, LoginStatus, NopIn, NopOut, Opcode, R2t,
    RESERVED_TAG, ScsiCommand, ScsiResponse, ServiceResponse, Stage, padded_len_bytes,
    sense_segment,
};

use super::login::{Limits, sense_codes};
use super::wire::Start;
use super::*;
use crate::load::{Completion, Io, Output, Wire};

const READ: Io = Io { at: 8192, len: 4096, read: true };
const WRITE: Io = Io { at: 65_536, len: 65_536, read: false };

fn start(limits: Limits) -> Start {
    Start { limits, lun: 1 << 48, cmd_sn: 7, exp_stat_sn: 3, max_cmd_sn: 10, block_bytes: 512 }
}

/// What a connection would send, cut into headers and payloads.
fn sent(out: &mut Output, pattern: &Pattern) -> Vec<(Bhs, Vec<u8>)> {
    let mut bytes = Vec::new();
    out.flush(&mut bytes, pattern.bytes()).unwrap();
    let mut pdus = Vec::new();
    let mut rest = &bytes[..];
    while let Some((head, tail)) = rest.split_first_chunk::<48>() {
        let bhs = Bhs::new(*head);
        let (data, tail) = tail.split_at(padded_len_bytes(bhs.data_segment_len_bytes()));
        pdus.push((bhs, data.to_vec()));
        rest = tail;
    }
    assert!(rest.is_empty());
    pdus
}

fn data_in(len: u32, offset: u32, end: bool) -> Bhs {
    DataIn {
        is_final: end,
        is_ack_wanted: false,
        is_overflow: false,
        is_underflow: false,
        has_status: end,
        status: 0,
        data_segment_len_bytes: len,
        lun: 0,
        itt: 0,
        ttt: RESERVED_TAG,
        stat_sn: 3,
        exp_cmd_sn: 8,
        max_cmd_sn: 12,
        data_sn: 0,
        buffer_offset_bytes: offset,
        residual_bytes: 0,
    }
    .to_bhs()
}

fn response(status: u8, sense_len: u32) -> Bhs {
    ScsiResponse {
        is_bidirectional_overflow: false,
        is_bidirectional_underflow: false,
        is_overflow: false,
        is_underflow: false,
        response: ServiceResponse::COMPLETED,
        status,
        data_segment_len_bytes: sense_len,
        itt: 0,
        snack_tag: 0,
        stat_sn: 9,
        exp_cmd_sn: 8,
        max_cmd_sn: 12,
        exp_data_sn: 0,
        bidirectional_residual_bytes: 0,
        residual_bytes: 0,
    }
    .to_bhs()
}

fn r2t(offset: u32, len: u32) -> Bhs {
    R2t {
        lun: 1 << 48,
        itt: 0,
        ttt: 77,
        stat_sn: 3,
        exp_cmd_sn: 8,
        max_cmd_sn: 12,
        r2t_sn: 0,
        buffer_offset_bytes: offset,
        desired_data_transfer_len_bytes: len,
    }
    .to_bhs()
}

/// Feeds `bytes` in pieces of `cut`, and returns what completed.
fn feed(
    wire: &mut IscsiWire,
    io: Io,
    bytes: &[u8],
    cut: usize,
    out: &mut Output,
) -> Vec<Completion> {
    let mut done = Vec::new();
    for chunk in bytes.chunks(cut) {
        wire.receive(chunk, &[io], out, &mut done).unwrap();
    }
    done
}

#[test]
fn urls_are_read_and_shown() {
    for text in ["iscsi://127.0.0.1:3261/iqn.2026-11.a:b/0", "iscsi://[::1]:3260/iqn.x/7"] {
        assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
    }
    assert_eq!("iscsi://host/iqn.x/1".parse::<Url>().unwrap().port, 3260);
    for text in [
        "",
        "iscsi://h/i",
        "iscsi://h/i/0/0",
        "iscsi:///i/0",
        "iscsi://h//0",
        "iscsi://h:x/i/0",
        "iscsi://h/i/256",
        "iscsi://[::1/i/0",
    ] {
        assert!(text.parse::<Url>().is_err(), "{text}");
    }
}

#[test]
fn a_read_is_one_command_and_completes_with_its_status() {
    let pattern = Rc::new(Pattern::new(4096));
    let good = pattern.bytes()[Pattern::range(READ.at, 0, 4096)].to_vec();
    let mut stream = Vec::new();
    for (offset, end) in [(0, false), (2048, true)] {
        stream.extend_from_slice(data_in(2048, offset, end).bytes());
        stream.extend_from_slice(&good[offset as usize..offset as usize + 2048]);
    }
    for cut in [1, 47, 48, 49, 1000, 5000] {
        let mut wire = IscsiWire::new(start(Limits::default()), 1, Some(Rc::clone(&pattern)));
        let mut out = Output::default();
        wire.submit(0, &READ, &mut out);
        let pdus = sent(&mut out, &pattern);
        assert_eq!(pdus.len(), 1);
        let command = ScsiCommand::parse(&pdus[0].0).unwrap();
        assert!(command.is_read && command.is_final && !command.is_write);
        assert_eq!((command.cmd_sn, command.exp_stat_sn, command.itt), (7, 3, 0));
        assert_eq!(command.expected_data_transfer_len_bytes, 4096);
        assert_eq!(command.cdb[..10], [0x28, 0, 0, 0, 0, 16, 0, 0, 8, 0]);
        let done = feed(&mut wire, READ, &stream, cut, &mut out);
        assert_eq!(done, [Completion { tag: 0, failure: None }], "cut {cut}");
        assert_eq!(wire.numbers(), (8, 4));
    }
}

#[test]
fn wrong_and_missing_data_are_failures() {
    let pattern = Rc::new(Pattern::new(4096));
    let verify = Some(Rc::clone(&pattern));
    let mut out = Output::default();
    let mut wire = IscsiWire::new(start(Limits::default()), 1, verify);
    let mut bytes = data_in(4096, 0, true).bytes().to_vec();
    bytes.extend_from_slice(&[0; 4096]);
    let done = feed(&mut wire, READ, &bytes, 4000, &mut out);
    assert_eq!(done[0].failure.as_deref(), Some("the data read is not the data written"));

    let mut short = data_in(512, 0, true).bytes().to_vec();
    short.extend_from_slice(&pattern.bytes()[Pattern::range(READ.at, 0, 512)]);
    let done = feed(&mut wire, READ, &short, 4000, &mut out);
    assert_eq!(done[0].failure.as_deref(), Some("512 bytes came of a read of 4096"));
}

#[test]
fn unsolicited_data_fills_the_first_burst_and_r2ts_ask_for_the_rest() {
    let limits = Limits {
        segment_bytes_max: 8192,
        first_burst_bytes: 20_480,
        immediate_data: true,
        initial_r2t: false,
    };
    let pattern = Rc::new(Pattern::new(65_536));
    let mut wire = IscsiWire::new(start(limits), 1, None);
    let mut out = Output::default();
    wire.submit(0, &WRITE, &mut out);
    let mut pdus = sent(&mut out, &pattern);
    let command = ScsiCommand::parse(&pdus[0].0).unwrap();
    assert!(command.is_write && !command.is_final);
    let done = feed(&mut wire, WRITE, r2t(20_480, 45_056).bytes(), 48, &mut out);
    assert!(done.is_empty());
    pdus.extend(sent(&mut out, &pattern));
    let mut data = pdus[0].1.clone();
    let outs: Vec<DataOut> =
        pdus[1..].iter().map(|(bhs, _)| DataOut::parse(bhs).unwrap()).collect();
    for (out, (_, payload)) in outs.iter().zip(&pdus[1..]) {
        assert_eq!(out.buffer_offset_bytes as usize, data.len());
        assert!(payload.len() <= 8192);
        data.extend_from_slice(payload);
    }
    assert!(pattern.matches(WRITE.at, 0, &data) && data.len() == 65_536);
    let ends: Vec<(u32, u32)> =
        outs.iter().filter(|out| out.is_final).map(|out| (out.ttt, out.data_sn)).collect();
    assert_eq!(ends, [(RESERVED_TAG, 1), (77, 5)]);
    let done = feed(&mut wire, WRITE, response(0, 0).bytes(), 48, &mut out);
    assert_eq!(done, [Completion { tag: 0, failure: None }]);
}

#[test]
fn without_immediate_data_nothing_goes_before_the_r2t() {
    let limits = Limits { immediate_data: false, ..Limits::default() };
    let mut wire = IscsiWire::new(start(limits), 1, None);
    let mut out = Output::default();
    wire.submit(0, &WRITE, &mut out);
    let pdus = sent(&mut out, &Pattern::new(65_536));
    assert_eq!((pdus.len(), pdus[0].1.len()), (1, 0));
    assert!(ScsiCommand::parse(&pdus[0].0).unwrap().is_final);
}

#[test]
fn an_r2t_beyond_the_write_ends_the_connection() {
    let mut wire = IscsiWire::new(start(Limits::default()), 1, None);
    let (mut out, mut done) = (Output::default(), Vec::new());
    for (io, offset, len) in [(WRITE, 65_536, 1), (WRITE, u32::MAX, 2), (READ, 0, 512)] {
        let wrong = r2t(offset, len);
        assert!(wire.receive(wrong.bytes(), &[io], &mut out, &mut done).is_err());
    }
    assert!(wire.receive(r2t(0, 512).bytes(), &[], &mut out, &mut done).is_err());
}

#[test]
fn sense_data_says_why() {
    let mut sense = [0_u8; 18];
    (sense[0], sense[2], sense[12]) = (0x70, 3, 0x11);
    let mut segment = Vec::new();
    sense_segment(&sense, &mut segment);
    let mut bytes = response(2, 20).bytes().to_vec();
    bytes.extend_from_slice(&segment);
    let mut wire = IscsiWire::new(start(Limits::default()), 1, None);
    let done = feed(&mut wire, READ, &bytes, 50, &mut Output::default());
    assert_eq!(done[0].failure.as_deref(), Some("SCSI status 0x02, sense 0x3/11/00"));
    assert_eq!(sense_codes(&[0x72, 5, 0x24, 1]), (5, 0x24, 1));
    assert_eq!(sense_codes(&[]), (0, 0, 0));
}

#[test]
fn the_window_opens_closes_and_never_goes_back() {
    let mut wire = IscsiWire::new(start(Limits::default()), 8, None);
    let mut out = Output::default();
    assert_eq!(wire.room(), 4);
    for tag in 0..4 {
        wire.submit(tag, &READ, &mut out);
    }
    assert_eq!(wire.room(), 0);
    feed(&mut wire, READ, response(0, 0).bytes(), 48, &mut out);
    assert_eq!(wire.room(), 2);
    let late = Start { max_cmd_sn: u32::MAX - 1, cmd_sn: u32::MAX - 3, ..start(Limits::default()) };
    let mut wire = IscsiWire::new(late, 8, None);
    assert_eq!(wire.room(), 3);
    feed(&mut wire, READ, response(0, 0).bytes(), 48, &mut out);
    assert_eq!(wire.room(), 17);
    let shrunk = Start { max_cmd_sn: 5, ..start(Limits::default()) };
    assert_eq!(IscsiWire::new(shrunk, 8, None).room(), 0);
}

#[test]
fn pings_are_answered_and_news_is_not() {
    let mut wire = IscsiWire::new(start(Limits::default()), 1, None);
    let mut out = Output::default();
    let mut ping = NopIn {
        data_segment_len_bytes: 0,
        lun: 5,
        itt: RESERVED_TAG,
        ttt: 42,
        stat_sn: 3,
        exp_cmd_sn: 7,
        max_cmd_sn: 10,
    };
    feed(&mut wire, READ, ping.to_bhs().bytes(), 48, &mut out);
    let pdus = sent(&mut out, &Pattern::new(0));
    let pong = NopOut::parse(&pdus[0].0).unwrap();
    assert_eq!((pong.ttt, pong.lun, pong.itt), (42, 5, RESERVED_TAG));
    assert!(pong.is_immediate);
    ping.ttt = RESERVED_TAG;
    feed(&mut wire, READ, ping.to_bhs().bytes(), 48, &mut out);
    assert_eq!(out.queued_bytes(), 0);
}

/// Reads one PDU of an initiator.
fn next(socket: &mut impl Read) -> Option<(Bhs, Vec<u8>)> {
    let mut head = [0; 48];
    socket.read_exact(&mut head).ok()?;
    let bhs = Bhs::new(head);
    let mut data = vec![0; padded_len_bytes(bhs.data_segment_len_bytes())];
    socket.read_exact(&mut data).ok()?;
    Some((bhs, data))
}

/// The least that an iSCSI disk of 1 MiB of zeroes can be: any login passes, any write is GOOD.
fn disk(listener: &TcpListener, sessions: usize) {
    for _ in 0..sessions {
        let (mut socket, _) = listener.accept().unwrap();
        let mut stat_sn = 0;
        while let Some((bhs, _)) = next(&mut socket) {
            stat_sn += 1;
            let mut reply = match bhs.opcode() {
                Opcode::LOGIN_REQUEST => login_answer(&bhs, stat_sn),
                Opcode::SCSI_COMMAND => command_answer(&bhs, stat_sn),
                Opcode::DATA_OUT => continue,
                _ => break,
            };
            reply.resize(padded_len_bytes(reply.len()), 0);
            socket.write_all(&reply).unwrap();
        }
    }
}

fn login_answer(bhs: &Bhs, stat_sn: u32) -> Vec<u8> {
    let request = LoginRequest::parse(bhs).unwrap();
    let keys = if request.next_stage == Stage::FULL_FEATURE {
        "MaxRecvDataSegmentLength=65536\0FirstBurstLength=65536\0InitialR2T=No\0ImmediateData=Yes\0"
    } else {
        "AuthMethod=None\0"
    };
    let answer = LoginResponse {
        is_transit: true,
        is_continued: false,
        stage: request.stage,
        next_stage: request.next_stage,
        version_max: 0,
        version_active: 0,
        data_segment_len_bytes: keys.len() as u32,
        isid: request.isid,
        tsih: 1,
        itt: request.itt,
        stat_sn,
        exp_cmd_sn: request.cmd_sn,
        max_cmd_sn: request.cmd_sn + 64,
        status: LoginStatus::SUCCESS,
    };
    [&answer.to_bhs().bytes()[..], keys.as_bytes()].concat()
}

fn command_answer(bhs: &Bhs, stat_sn: u32) -> Vec<u8> {
    let command = ScsiCommand::parse(bhs).unwrap();
    let mut data = vec![0; command.expected_data_transfer_len_bytes as usize];
    if command.cdb[0] == 0x9e {
        data[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 7, 255, 0, 0, 2, 0]);
    }
    let (itt, max_cmd_sn) = (command.itt, command.cmd_sn + 64);
    if command.is_read {
        let mut pdu = DataIn::parse(&data_in(data.len() as u32, 0, true)).unwrap();
        (pdu.itt, pdu.stat_sn, pdu.max_cmd_sn) = (itt, stat_sn, max_cmd_sn);
        return [&pdu.to_bhs().bytes()[..], &data].concat();
    }
    let mut pdu = ScsiResponse::parse(&response(0, 0)).unwrap();
    (pdu.itt, pdu.stat_sn, pdu.max_cmd_sn) = (itt, stat_sn, max_cmd_sn);
    pdu.to_bhs().bytes().to_vec()
}

#[test]
fn a_load_logs_in_reads_writes_and_finds_what_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // One plain run of one session, then a verified one: its fill takes two, and it takes one.
    let target = std::thread::spawn(move || disk(&listener, 4));
    let url = Url { host: "127.0.0.1".into(), port, iqn: "iqn.2026-11.test:x".into(), lun: 0 };
    let route = Route { url, congestion: None };
    let stop = AtomicBool::new(false);
    let plan = Plan {
        read_percent: 50,
        order: Order::Random,
        io_bytes: 4096,
        depth: 8,
        sessions: 1,
        warmup: Duration::from_millis(10),
        measure: Duration::from_millis(100),
        area_bytes: 1 << 30,
        verify: false,
        ios_max: None,
    };
    let report = load(&route, &plan, &stop, &mut |_| {}).unwrap();
    assert!(report.ios > 0 && report.errors == 0, "{report:?}");
    let report = load(&route, &Plan { verify: true, ..plan }, &stop, &mut |_| {}).unwrap();
    assert!(report.errors > 0, "zeroes passed for the pattern");
    target.join().unwrap();
    assert!(load(&route, &plan, &stop, &mut |_| {}).is_err());
}
