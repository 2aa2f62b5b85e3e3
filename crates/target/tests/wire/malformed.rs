//! PDUs that nobody should send (RFC 7143 §7.3, §7.6, §7.7, §11.17): each gets a Reject or ends its
//! connection, and the host beside it on the same core feels nothing.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use iscsi::pdu::RejectReason;

use crate::common::{Broken, Command, Connection, Got, Login, PATIENCE, Rig, config, pattern, ram};

#[derive(Clone, Copy, Debug)]
enum Ends {
    Rejected(RejectReason),
    Closed,
    Ignored,
}

use Ends::{Closed, Ignored, Rejected};

/// A header and what follows it, as it goes on the wire.
struct Case {
    what: String,
    bytes: Vec<u8>,
    ends: Ends,
}

fn case(what: impl Into<String>, header: &[(usize, &[u8])], rest: &[u8], ends: Ends) -> Case {
    let mut bytes = vec![0; 48];
    for (at, field) in header {
        bytes[*at..*at + field.len()].copy_from_slice(field);
    }
    bytes.extend_from_slice(rest);
    Case { what: what.into(), bytes, ends }
}

const ITT: (usize, &[u8]) = (16, &[0, 0, 9, 9]);
const NO_TTT: (usize, &[u8]) = (20, &[0xff; 4]);

fn opcodes() -> Vec<Case> {
    let mut cases = Vec::new();
    for opcode in 0x20..=0x3f_u8 {
        let ends = Rejected(RejectReason::PROTOCOL_ERROR);
        cases.push(case(
            format!("opcode {opcode:#x} of a target"),
            &[(0, &[opcode]), ITT],
            &[],
            ends,
        ));
    }
    for opcode in (0x07..=0x0f_u8).chain(0x11..=0x1f) {
        for immediate in [0, 0x40] {
            let first = [opcode | immediate, 0xff];
            let ends = Rejected(RejectReason::COMMAND_NOT_SUPPORTED);
            cases.push(case(
                format!("opcode {opcode:#x} of nobody"),
                &[(0, &first), ITT],
                &[],
                ends,
            ));
        }
    }
    cases.push(case(
        "SNACK",
        &[(0, &[0x10, 0x80]), ITT],
        &[],
        Rejected(RejectReason::SNACK_REJECT),
    ));
    cases.push(case("login again", &[(0, &[0x43, 0x87]), ITT], &[], Closed));
    cases
}

fn lengths() -> Vec<Case> {
    let long = [0xff; 3];
    let mut cases = vec![
        case("AHS longer than any", &[(0, &[0x41, 0x80]), (4, &[65])], &[0; 260], Closed),
        case(
            "AHS that is garbage",
            &[(0, &[0x41, 0xc0]), (4, &[2]), ITT],
            &[0xff; 8],
            Rejected(RejectReason::INVALID_PDU_FIELD),
        ),
        case(
            "AHS that reaches over its end",
            &[(0, &[0x41, 0xc0]), (4, &[1]), ITT],
            &[0, 9, 1, 0],
            Rejected(RejectReason::INVALID_PDU_FIELD),
        ),
        case(
            "bytes behind a SCSI command",
            &[(0, &[0x41, 0xc0]), (5, &[0, 0, 4]), ITT],
            &[0; 4],
            Closed,
        ),
    ];
    for opcode in [0x40, 0x41, 0x42, 0x44, 0x05, 0x46, 0x10, 0x1f] {
        cases.push(case(
            format!("{opcode:#x} longer than agreed"),
            &[(0, &[opcode, 0x80]), (5, &long)],
            &[0; 100],
            Closed,
        ));
    }
    cases
}

fn requests() -> Vec<Case> {
    let invalid = Rejected(RejectReason::INVALID_PDU_FIELD);
    let protocol = Rejected(RejectReason::PROTOCOL_ERROR);
    vec![
        case("all zeroes", &[], &[], Ignored),
        case("all ones", &[(0, &[0xff; 48])], &[], Closed),
        case("command with neither F nor W", &[(0, &[0x41, 0x40]), ITT], &[], invalid),
        case(
            "Data-Out for nobody",
            &[(0, &[5, 0x80]), ITT, NO_TTT, (5, &[0, 0, 4])],
            &[1; 4],
            invalid,
        ),
        case("Data-Out for an unknown R2T", &[(0, &[5, 0x80]), ITT, (20, &[7; 4])], &[], invalid),
        case("text with F and C", &[(0, &[0x44, 0xc0]), ITT, NO_TTT], &[], protocol),
        case(
            "text that goes on from nothing",
            &[(0, &[0x44, 0x80]), ITT, (20, &[1; 4])],
            &[],
            protocol,
        ),
        case(
            "text without =",
            &[(0, &[0x44, 0x80]), ITT, NO_TTT, (5, &[0, 0, 4])],
            b"abc\0",
            invalid,
        ),
        case(
            "text that is not text",
            &[(0, &[0x44, 0x80]), ITT, NO_TTT, (5, &[0, 0, 4])],
            &[0xff; 4],
            invalid,
        ),
        case(
            "the same key twice",
            &[(0, &[0x44, 0x80]), ITT, NO_TTT, (5, &[0, 0, 8])],
            b"a=1\0a=2\0",
            invalid,
        ),
        case(
            "NOP-Out without a tag or I",
            &[(0, &[0, 0x80]), (16, &[0xff; 4]), NO_TTT],
            &[],
            Ignored,
        ),
        case(
            "NOP-Out that answers nothing",
            &[(0, &[0x40, 0x80]), (16, &[0xff; 4]), (20, &[9; 4])],
            &[],
            Ignored,
        ),
        case("logout for no reason", &[(0, &[0x46, 0xff]), ITT], &[], invalid),
    ]
}

#[test]
fn each_malformed_pdu_has_its_answer() {
    let rig = Rig::ram();
    let mut other = rig.ready("other");
    for case in [opcodes(), lengths(), requests()].into_iter().flatten() {
        let mut host = rig.ready("host");
        // The target may close before it has read all of it.
        drop(host.try_send_bytes(&case.bytes));
        match case.ends {
            Rejected(reason) => match host.try_receive(PATIENCE) {
                Got::Pdu(pdu) => {
                    assert_eq!(pdu.opcode(), iscsi::pdu::Opcode::REJECT, "{}", case.what);
                    assert_eq!(pdu.bhs.bytes()[2], reason.0, "{}", case.what);
                    assert_eq!(pdu.data, case.bytes[..48], "{}: its header comes back", case.what);
                    host.expect_alive();
                }
                got => panic!("{}: wanted {reason:?}, {got:?}", case.what),
            },
            Closed => {
                let got = host.try_receive(PATIENCE);
                assert!(matches!(got, Got::Closed), "{}: wanted its end, {got:?}", case.what);
            }
            Ignored => host.expect_alive(),
        }
        other.expect_alive();
    }
}

#[test]
fn discovery_sessions_have_no_disks() {
    let rig = Rig::ram();
    let mut finder = Login::discovery().connect(rig.portal()).unwrap();
    let reset = iscsi::pdu::TaskFunction::TARGET_COLD_RESET;
    finder.manage(reset, 0, iscsi::pdu::RESERVED_TAG, 0);
    assert_eq!(finder.receive_reject(), RejectReason::PROTOCOL_ERROR);
    assert_eq!(finder.ping(b"x"), b"x");
    finder.issue(&Command::read(0, 1));
    finder.expect_closed();
}

/// A tag that is in use, used again.
#[test]
fn a_tag_in_use_is_not_taken_twice() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let itt = host.issue(&Command::unsent_write(0, 1));
    let r2t = host.receive_r2t(itt);
    host.issue_as(&Command::unsent_write(5, 1), itt);
    assert_eq!(host.receive_reject(), RejectReason::TASK_IN_PROGRESS);
    // Not by a command either that could be answered at once.
    host.issue_as(&Command::read(7, 1), itt);
    assert_eq!(host.receive_reject(), RejectReason::TASK_IN_PROGRESS);
    host.send_burst(itt, r2t.ttt, 0, 0, &pattern(512, 1));
    host.finish(itt).good();
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A session's worth of PDUs, all in order.
fn valid_session(host: &mut Connection) -> Vec<u8> {
    let data = pattern(1024, 1);
    let commands = [
        Command::read(0, 4),
        Command::write(8, &data).immediate_data(),
        Command { more_follows: true, immediate_data: 512, ..Command::write(16, &data) },
        Command::unsent_write(32, 8),
        Command::new(crate::common::inquiry(96)).reading(96),
        Command::read(4, 2),
    ];
    let mut bytes = Vec::new();
    for command in commands {
        let itt = host.new_itt();
        let (bhs, segment) = command.to_pdu(itt, host.take_cmd_sn(), host.exp_stat_sn);
        bytes.extend(host.frame(bhs.bytes(), &[], &segment, Broken::Nothing));
        if command.more_follows {
            let out = iscsi::pdu::DataOut {
                is_final: true,
                data_segment_len_bytes: 512,
                lun: 0,
                itt,
                ttt: iscsi::pdu::RESERVED_TAG,
                exp_stat_sn: 0,
                data_sn: 0,
                buffer_offset_bytes: 512,
            };
            bytes.extend(host.frame(out.to_bhs().bytes(), &[], &data[..512], Broken::Nothing));
        }
    }
    // A ping, a text, an abort, a logout.
    for (opcode, flags, text) in [
        (0x40, 0x80, &b"ping"[..]),
        (0x04, 0x80, b"SendTargets=\0"),
        (0x42, 0x81, b""),
        (0x46, 0x80, b""),
    ] {
        let mut bhs = [0; 48];
        (bhs[0], bhs[1]) = (opcode, flags);
        bhs[16..20].copy_from_slice(&host.new_itt().to_be_bytes());
        bhs[20..24].fill(0xff);
        let cmd_sn = if opcode & 0x40 == 0 { host.take_cmd_sn() } else { host.next_cmd_sn() };
        bhs[24..28].copy_from_slice(&cmd_sn.to_be_bytes());
        bytes.extend(host.frame(&bhs, &[], text, Broken::Nothing));
    }
    bytes
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.truncate(at.max(1)),
            3 => {
                let len = random.below(100).min(bytes.len() - at);
                let part = bytes[at..at + len].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                // Headers matter most: the first bytes of one of the first PDUs.
                let at = (random.below(4) * 48 + random.below(48)).min(bytes.len() - 1);
                bytes[at] = random.next() as u8;
            }
        }
    }
}

/// Says it, hangs up, and waits until the target has, too.
fn say_and_go(stream: &mut TcpStream, bytes: &[u8]) {
    drop(stream.write_all(bytes));
    drop(stream.shutdown(Shutdown::Write));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut sink = [0; 64 << 10];
    loop {
        match stream.read(&mut sink) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the target does not hang up: {error}"),
        }
    }
}

/// Mutations of valid sessions, on two cores with and without digests. The seed is fixed: what
/// fails here fails again.
#[test]
fn mutated_sessions_do_no_harm() {
    let mut config = config([ram()]);
    config.cores = 2;
    config.limits.stall_timeout = Duration::from_secs(2);
    let rig = Rig::start(config);
    let portal = rig.portal();
    let workers: Vec<_> = (0..4_u64)
        .map(|worker| {
            std::thread::spawn(move || {
                let mut random = Random(0xd57 + worker);
                for round in 0..500 {
                    let mut login = Login::new(&format!("host{worker}"));
                    if random.below(8) == 0 {
                        login = login.with_digests();
                    }
                    // A mutation of another worker may have reset the target meanwhile.
                    let Ok(mut host) = login.connect(portal) else { continue };
                    let mut bytes = valid_session(&mut host);
                    if round > 0 {
                        mutate(&mut bytes, &mut random);
                    }
                    say_and_go(&mut host.socket().try_clone().unwrap(), &bytes);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    rig.ready("other").run(&Command::read(0, 8)).good();
    rig.stop(Duration::ZERO).0.expect("no core has panicked");
}

#[test]
fn mutated_logins_and_noise_do_no_harm() {
    let rig = Rig::two_cores();
    let portal = rig.portal();
    let mut host = rig.ready("host");
    let mut random = Random(0x10_91);
    let text = b"InitiatorName=iqn.2026-11.example:x\0TargetName=iqn.2026-11.dev.drystone:test\0\
        SessionType=Normal\0AuthMethod=CHAP,None\0HeaderDigest=CRC32C,None\0MaxBurstLength=65536\0\0\0";
    let mut valid = vec![0; 48];
    (valid[0], valid[1]) = (0x43, 0x87);
    valid[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    valid[8..14].copy_from_slice(&[0x80, 0, 0, 9, 0, 1]);
    valid.extend_from_slice(text);
    valid.resize(valid.len().next_multiple_of(4), 0);
    for round in 0..400 {
        let mut bytes = valid.clone();
        if round % 4 == 3 {
            bytes = (0..random.below(3000) + 1).map(|_| random.next() as u8).collect();
        } else {
            mutate(&mut bytes, &mut random);
        }
        say_and_go(&mut TcpStream::connect(portal).unwrap(), &bytes);
    }
    host.expect_alive();
    host.close();
    rig.stop(Duration::ZERO).0.expect("no core has panicked");
}
