//! Hosts that first do what earns trust, and then keep memory for data that comes late or never, one after
//! the other: neither who has kept to the rules for long nor who is new waits for all of them.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use iscsi::pdu::{Opcode, R2t};

use crate::common::{Command, Connection, Got, Login, Rig, config, pattern, ram};

const KIB: usize = 1 << 10;
/// What one of them announces: four have all memory for data that is asked for.
const LONG_BLOCKS: u16 = 128;
const LONG_BYTES: usize = LONG_BLOCKS as usize * 512;
const FLOOD_TIME: Duration = Duration::from_secs(9);

/// What a busy machine may add to one command.
const NOISE: Duration = Duration::from_millis(400);

/// Data that does not come is waited for for a second where most of the room is kept for that, and then
/// some others may have their turn.
const NEWCOMER: Duration = Duration::from_secs(4);

fn rig() -> Rig {
    let mut config = config([ram()]);
    config.core.buf_budget_bytes = 2 << 20;
    Rig::start(config)
}

/// A host from an address of its own.
fn fresh(portal: SocketAddr, kind: &str, number: u32) -> Connection {
    let [.., high, low] = number.to_be_bytes();
    let from = Some(Ipv4Addr::new(127, 8 + kind.len() as u8, 1 + high, low));
    let login = Login { from, ..Login::new(&format!("{kind}{number}")) };
    let mut host = login.connect(portal).unwrap();
    host.take_attentions(0);
    host
}

/// A write of which all is asked for, and read again; how long the write took.
fn verified(host: &mut Connection, at: u32, len: usize, seed: u32) -> Duration {
    let data = pattern(len, seed);
    let begun = Instant::now();
    let itt = host.issue(&Command::write(at, &data));
    loop {
        let Got::Pdu(pdu) = host.try_receive(4 * FLOOD_TIME) else { panic!("nothing came") };
        if pdu.bhs.itt() != itt {
            continue;
        }
        match pdu.opcode() {
            Opcode::R2T => host.answer_r2t(&R2t::parse(&pdu.bhs).unwrap()),
            _ => {
                let (kind, status) = (pdu.opcode(), pdu.bhs.bytes()[3]);
                assert_eq!((kind, status), (Opcode::SCSI_RESPONSE, 0));
                break;
            }
        }
    }
    let time = begun.elapsed();
    assert!(host.run(&Command::read(at, (len / 512) as u16)).good() == data);
    time
}

/// The longest times of a host that has kept to the rules before, as usual and beside the flood, and of hosts
/// that are new.
struct Times {
    usual: Duration,
    good: Duration,
    new: Duration,
}

fn beside(flood: impl FnOnce(SocketAddr, &AtomicBool) + Send) -> Times {
    let rig = rig();
    let portal = rig.portal();
    let mut good = fresh(portal, "good", 0);
    let mut round = 0;
    let mut once = |good: &mut Connection| {
        round += 1;
        verified(good, 8192, 8 * KIB, round)
    };
    let usual = (0..2000).map(|_| once(&mut good)).max().unwrap();
    let is_over = AtomicBool::new(false);
    let (good, new) = std::thread::scope(|scope| {
        scope.spawn(|| flood(portal, &is_over));
        let newcomers = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            for number in 0.. {
                std::thread::sleep(Duration::from_millis(400));
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let mut host = fresh(portal, "new", number);
                longest = longest.max(verified(&mut host, 16_384, LONG_BYTES, number));
            }
            longest
        });
        let begun = Instant::now();
        let mut longest = Duration::ZERO;
        while begun.elapsed() < FLOOD_TIME {
            longest = longest.max(once(&mut good));
            std::thread::sleep(Duration::from_millis(2));
        }
        is_over.store(true, Ordering::Relaxed);
        (longest, newcomers.join().unwrap())
    });
    Times { usual, good, new }
}

/// Each has sent sixteen times what it announces, which makes it known even after others have broken the
/// trust in them; and one comes every tenth of a second.
#[test]
fn names_that_send_just_enough_to_be_known_and_then_nothing_hold_nobody_up_for_long() {
    let times = beside(|portal, is_over| {
        let mut silent = Vec::new();
        for number in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let mut host = fresh(portal, "silent", number);
            for _ in 0..16 * LONG_BYTES / (8 * KIB) {
                host.run(&Command::write(4096, &[1; 8 * KIB]).immediate_data()).good();
            }
            host.issue(&Command::unsent_write(4096, LONG_BLOCKS));
            silent.push(host);
            std::thread::sleep(Duration::from_millis(80));
        }
    });
    let Times { usual, good, new } = times;
    assert!(good < 2 * usual + NOISE, "{good:?} instead of {usual:?}");
    assert!(new < NEWCOMER, "a newcomer waited for {new:?}");
}

/// They send all that they are asked for, but each time after four and a half seconds, which is a little less
/// than data may take.
#[test]
fn names_that_send_what_they_are_asked_for_late_each_time_hold_nobody_up_for_long() {
    const LATE: Duration = Duration::from_millis(4500);
    const NAMES: u32 = 40;
    let times = beside(|portal, is_over| {
        let mut hosts: Vec<_> = (0..NAMES).map(|number| fresh(portal, "late", number)).collect();
        let mut due = VecDeque::new();
        let ask = |host: &mut Connection| {
            host.issue(&Command::write(4096, &[2; LONG_BYTES]));
        };
        hosts.iter_mut().for_each(ask);
        while !is_over.load(Ordering::Relaxed) {
            for (number, host) in hosts.iter_mut().enumerate() {
                let Got::Pdu(pdu) = host.try_receive(Duration::from_millis(2)) else { continue };
                match pdu.opcode() {
                    Opcode::R2T => {
                        due.push_back((Instant::now(), number, R2t::parse(&pdu.bhs).unwrap()));
                    }
                    // Refused or written: the next one.
                    Opcode::SCSI_RESPONSE => ask(host),
                    _ => {}
                }
            }
            while due.front().is_some_and(|(since, ..)| since.elapsed() >= LATE) {
                let (_, number, r2t) = due.pop_front().unwrap();
                hosts[number].answer_r2t(&r2t);
            }
        }
    });
    let Times { usual, good, new } = times;
    assert!(good < 2 * usual + NOISE, "{good:?} instead of {usual:?}");
    assert!(new < NEWCOMER, "a newcomer waited for {new:?}");
}
