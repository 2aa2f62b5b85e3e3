//! Floods of addresses that nobody has seen before, beside a host that has always kept to the rules: its
//! verified reads and writes go on about as before.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iscsi::pdu::{DataOut, Opcode, R2t, RESERVED_TAG};

use crate::common::{Command, Connection, Got, Login, Rig, config, file, pattern, ram};

const MIB: usize = 1 << 20;
/// What may come unasked with a command, where many share little memory.
const FIRST_BURST: usize = 8 << 10;

/// When memory is had again that was kept for data which was asked for: after five seconds, while
/// nothing is known of how long that takes, or twice that time if others have a turn before.
const TAKEN_BACK: Duration = Duration::from_secs(14);

/// How long a flood lasts, and what a busy machine may add to one command.
const FLOOD_TIME: Duration = Duration::from_secs(4);
const NOISE: Duration = Duration::from_millis(400);

fn rig() -> Rig {
    let mut config = config([ram()]);
    config.core.buf_budget_bytes = 2 * MIB;
    Rig::start(config)
}

/// Writes what comes with its command, behind it unasked, and when it is asked for, reads it again, and returns how
/// long the slowest of these took.
fn verified_round(host: &mut Connection, round: u32) -> Duration {
    let mut slowest = Duration::ZERO;
    let data = pattern(FIRST_BURST, round);
    let at = round % 64 * 32;
    let mut timed = |command: &Command, follows: Option<&[u8]>| {
        let begun = Instant::now();
        let itt = host.issue(command);
        if let Some(burst) = follows {
            host.send_burst(itt, RESERVED_TAG, 0, 0, burst);
        }
        let read = host.finish(itt).good();
        slowest = slowest.max(begun.elapsed());
        read
    };
    timed(&Command::write(at, &data).immediate_data(), None);
    let behind = Command { more_follows: true, ..Command::write(at + 16, &data) };
    timed(&behind, Some(&data));
    timed(&Command::write(at + 16, &data), None);
    for at in [at, at + 16] {
        assert!(timed(&Command::read(at, 16), None) == data);
    }
    slowest
}

/// The slowest of rounds that go on until `over`.
fn verified_rounds(host: &mut Connection, over: impl Fn() -> bool) -> Duration {
    let mut slowest = Duration::ZERO;
    for round in 0.. {
        slowest = slowest.max(verified_round(host, round));
        if over() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    slowest
}

/// A host that has never been here, number `number` of the flood.
fn fresh(portal: SocketAddr, number: u32) -> Option<Connection> {
    let [.., high, low] = number.to_be_bytes();
    let from = Some(Ipv4Addr::new(127, 1 + high, low, 1));
    let login = Login { from, ..Login::new(&format!("fresh{number}")) };
    let mut host = login.connect(portal).ok()?;
    host.take_attentions(0);
    Some(host)
}

/// Beside a flood of 80 fresh hosts a second that each do `harm` and stay, a good host's slowest command
/// takes no more than twice its usual time.
#[track_caller]
fn flood(harm: impl Fn(&mut Connection) + Sync) {
    flood_on(&rig(), harm);
}

#[track_caller]
fn flood_on(rig: &Rig, harm: impl Fn(&mut Connection) + Sync) {
    let mut good = rig.ready("good");
    let calm = Instant::now();
    let usual = verified_rounds(&mut good, || calm.elapsed() > Duration::from_secs(1));
    let (portal, is_over) = (rig.portal(), AtomicBool::new(false));
    let (slowest, came) = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let begun = Instant::now();
            let mut idle = Vec::new();
            while begun.elapsed() < FLOOD_TIME {
                let next = Duration::from_micros(12_500) * idle.len() as u32;
                std::thread::sleep(next.saturating_sub(begun.elapsed()));
                let mut host = fresh(portal, idle.len() as u32).expect("it may log in");
                harm(&mut host);
                idle.push(host);
            }
            is_over.store(true, Ordering::Relaxed);
            idle.len()
        });
        let slowest = verified_rounds(&mut good, || is_over.load(Ordering::Relaxed));
        (slowest, flood.join().unwrap())
    });
    assert!(came > 100, "a flood of {came}");
    assert!(slowest < 2 * usual + NOISE, "{slowest:?} instead of {usual:?}, beside {came}");
}

#[test]
fn data_that_strangers_announce_and_do_not_send_holds_no_good_host_up() {
    flood(|host| {
        for index in 0..60 {
            if host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 <= -1 {
                break;
            }
            let write = Command::unsent_write(4096 + index * 32, 32);
            host.issue(&Command { more_follows: true, ..write });
        }
    });
}

/// The same with data that is part of a PDU, whose memory cannot be taken back: the socket fills it.
#[test]
fn payloads_of_strangers_that_stop_in_the_middle_of_a_pdu_hold_no_good_host_up() {
    flood(|host| {
        let itt = host.new_itt();
        let write = Command::write(4096, &[1; FIRST_BURST]).immediate_data();
        let (bhs, data) = write.to_pdu(itt, host.take_cmd_sn(), host.exp_stat_sn);
        host.send_bytes(bhs.bytes());
        host.send_bytes(&data[..100]);
    });
}

/// Whoever has kept to the rules once gets room for what it announces to the extent that it has sent,
/// no more: to be trusted with much costs much.
#[test]
fn strangers_that_send_a_little_first_hold_no_good_host_up() {
    flood(|host| {
        host.issue(&Command::write(4096, &[1; 512]).immediate_data());
        for index in 0..30 {
            if host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 <= -1 {
                break;
            }
            let write = Command::unsent_write(4096 + index * 32, 32);
            host.issue(&Command { more_follows: true, ..write });
        }
    });
}

/// A disk that reads into memory of the core: each of them keeps some that it does not take, until it is
/// seen that it takes nothing.
#[test]
fn data_that_strangers_ask_for_and_do_not_take_holds_no_good_host_up() {
    let (disk, _dir) = file();
    let mut config = config([disk]);
    config.core.buf_budget_bytes = 16 * MIB;
    let rig = Rig::start(config);
    flood_on(&rig, |host| {
        for _ in 0..32 {
            host.issue(&Command::read(0, 512));
        }
    });
}

#[test]
fn data_that_strangers_are_asked_for_and_do_not_send_holds_no_good_host_up() {
    flood(|host| {
        for index in 0..60 {
            if host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 <= -1 {
                break;
            }
            host.issue(&Command::unsent_write(4096 + index * 32, 32));
        }
    });
}

/// Writes `COUNT` at once, all of whose data is asked for, reads them again, and returns how long it took.
fn verified_writes_at_once(host: &mut Connection, round: u32) -> Duration {
    const COUNT: u32 = 6;
    let begun = Instant::now();
    let all = (0..COUNT).map(|n| (8192 + n * 16, pattern(FIRST_BURST, round * COUNT + n)));
    let all: Vec<_> = all.collect();
    let mut open: Vec<u32> =
        all.iter().map(|(at, data)| host.issue(&Command::write(*at, data))).collect();
    while !open.is_empty() {
        let Got::Pdu(pdu) = host.try_receive(2 * TAKEN_BACK) else { panic!("nothing came") };
        if !open.contains(&pdu.bhs.itt()) {
            continue;
        }
        match pdu.opcode() {
            Opcode::R2T => host.answer_r2t(&R2t::parse(&pdu.bhs).unwrap()),
            _ => {
                let (kind, status) = (pdu.opcode(), pdu.bhs.bytes()[3]);
                assert_eq!((kind, status), (Opcode::SCSI_RESPONSE, 0));
                open.retain(|&itt| itt != pdu.bhs.itt());
            }
        }
    }
    for (at, data) in &all {
        assert!(&host.run(&Command::read(*at, 16)).good() == data);
    }
    begun.elapsed()
}

/// Hosts of so many names from four addresses, each of which writes its first so and so many blocks in order, and
/// then announces one long write and sends nothing of it.
fn silent(rig: &Rig, names: u32, first_blocks: usize) -> Vec<Connection> {
    silent_from(rig, names, 4, first_blocks)
}

fn silent_from(rig: &Rig, names: u32, addresses: u8, first_blocks: usize) -> Vec<Connection> {
    let hosts = (0..names).map(|number| {
        let from = Some(Ipv4Addr::new(127, 7, 7, 1 + number as u8 % addresses));
        let login = Login { from, ..Login::new(&format!("silent{number}")) };
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(0);
        for _ in 0..first_blocks / 32 {
            host.run(&Command::write(4096, &[1; 32 * 512])).good();
        }
        host
    });
    let mut hosts: Vec<_> = hosts.collect();
    for host in &mut hosts {
        host.issue(&Command::unsent_write(4096, 128));
    }
    hosts
}

/// The slowest round of a good host in the time of a flood, and what is usual.
fn beside(hosts: impl FnOnce(&Rig) -> Vec<Connection>) -> (Duration, Duration) {
    let rig = rig();
    let mut good = rig.ready("good");
    let usual = (0..50).map(|round| verified_writes_at_once(&mut good, round)).max().unwrap();
    let hosts = hosts(&rig);
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    for round in 50.. {
        slowest = slowest.max(verified_writes_at_once(&mut good, round));
        if begun.elapsed() > FLOOD_TIME {
            break;
        }
    }
    drop(hosts);
    (slowest, usual)
}

/// Names of four addresses that each announce one long write and send nothing, more of them than are
/// looked at when memory becomes free: whoever has sent what it announced does not stand behind them.
#[test]
fn many_names_that_wait_for_room_and_send_nothing_hold_no_good_host_up() {
    let (slowest, usual) = beside(|rig| silent(rig, 60, 0));
    assert!(slowest < 2 * usual + NOISE, "{slowest:?} instead of {usual:?}");
}

/// The same by those who have sent as much before: they are known, and have all there is until it is
/// seen that they send nothing more. Those behind them, from the same addresses, are strangers then.
#[test]
fn who_has_sent_much_and_then_sends_nothing_gives_way_within_seconds() {
    let (slowest, _) = beside(|rig| silent(rig, 60, 128));
    assert!(slowest < TAKEN_BACK, "{slowest:?}");
}

/// And from an address for each: after the first of them nobody is trusted for so little any more.
#[test]
fn names_that_were_trusted_and_send_nothing_do_not_have_turns_one_after_the_other() {
    let (slowest, _) = beside(|rig| silent_from(rig, 60, 60, 128));
    assert!(slowest < TAKEN_BACK / 2, "{slowest:?}");
}

/// The same by those who stop in the middle of the data that they were asked for.
#[test]
fn who_has_sent_much_and_then_stops_in_a_pdu_gives_way_within_seconds() {
    let (slowest, _) = beside(|rig| {
        let mut hosts = silent(rig, 60, 128);
        let mut stopped = 0;
        for host in &mut hosts {
            let Got::Pdu(pdu) = host.try_receive(Duration::from_millis(20)) else { continue };
            let r2t = R2t::parse(&pdu.bhs).unwrap();
            let header = DataOut {
                is_final: true,
                data_segment_len_bytes: r2t.desired_data_transfer_len_bytes,
                lun: r2t.lun,
                itt: r2t.itt,
                ttt: r2t.ttt,
                exp_stat_sn: host.exp_stat_sn,
                data_sn: 0,
                buffer_offset_bytes: 0,
            };
            host.send_bytes(header.to_bhs().bytes());
            host.send_bytes(&[1; 100]);
            stopped += 1;
        }
        assert!(stopped >= 3, "all memory of the known is in the hands of {stopped}");
        hosts
    });
    assert!(slowest < TAKEN_BACK, "{slowest:?}");
}
