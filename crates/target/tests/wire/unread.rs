//! Hosts that ask and do not take the answers: beside them others go on.

use std::time::{Duration, Instant};

use iscsi::pdu::{NopOut, RESERVED_TAG};
use tempfile::TempDir;

use crate::common::{
    A_MOMENT, Command, Connection, Login, Queues, Rig, config, file, pattern, ram, reserve_in_full,
    reserve_list, reserve_out, wait_until,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// One core with so much for I/O, and a file, which is read into it.
fn start(memory_bytes: usize) -> (Rig, TempDir) {
    let (disk, dir) = file();
    let mut config = config([disk]);
    config.core.buf_budget_bytes = memory_bytes;
    (Rig::start(config), dir)
}

/// Logged in under this name, from an address of its own.
fn ready_from(rig: &Rig, name: &str, last_byte: u8) -> Connection {
    let mut host = Login::new(name).from(last_byte).connect(rig.portal()).unwrap();
    host.take_attentions(0);
    host
}

fn lazy_hosts(rig: &Rig, count: u8) -> Vec<Connection> {
    (0..count).map(|index| ready_from(rig, &format!("lazy{index}"), 10 + index)).collect()
}

/// Asks for `count` times 256 KiB in one piece, and takes none of it.
fn ask_for_much(host: &mut Connection, count: u32) -> Vec<u32> {
    let mut asked = Vec::new();
    let tags = (0..count).map(|_| {
        let itt = host.new_itt();
        let (bhs, _) = Command::read(0, 512).to_pdu(itt, host.take_cmd_sn(), host.exp_stat_sn);
        asked.extend_from_slice(bhs.bytes());
        itt
    });
    let tags = tags.collect();
    host.send_bytes(&asked);
    tags
}

/// Writes and reads, and returns how long the longest of that took.
fn write_and_read(host: &mut Connection, rounds: u32) -> Duration {
    let times = (0..rounds).map(|round| {
        let begun = Instant::now();
        let data = pattern(8 * KIB, round);
        let at = 1024 + round % 64 * 16;
        host.run(&Command::write(at, &data).immediate_data()).good();
        assert!(host.run(&Command::read(at, 16)).good() == data);
        std::thread::sleep(Duration::from_millis(2));
        begun.elapsed()
    });
    times.max().unwrap()
}

/// Each of many addresses has one session, asks for 32 MiB and takes nothing: what each keeps
/// waiting is little, and the memory of reads is not theirs. Sixteen made all others wait for 30 s.
#[test]
fn many_that_take_no_data_leave_memory_for_others() {
    let (rig, _dir) = start(64 * MIB);
    let mut other = ready_from(&rig, "other", 2);
    let mut lazy = lazy_hosts(&rig, 20);
    let tags: Vec<_> = lazy.iter_mut().map(|host| ask_for_much(host, 128)).collect();
    let longest = write_and_read(&mut other, 200);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    // Who does take it gets all of it.
    for &itt in &tags[7] {
        lazy[7].finish(itt).good();
    }
}

/// Where there is little memory, so little that the least that each may have is all there is, those
/// who do not take theirs are dropped when somebody else wants some. Coming again does not help them, and
/// the kernel does not go on with what was to be sent to them.
#[test]
fn who_takes_nothing_gives_way_to_who_does() {
    let (rig, _dir) = start(16 * MIB);
    let mut other = ready_from(&rig, "other", 2);
    let mut given_up = 0;
    for round in 0..3 {
        let mut lazy = lazy_hosts(&rig, 20);
        let queues: Vec<_> = lazy.iter().map(Queues::of).collect();
        for host in &mut lazy {
            ask_for_much(host, 64);
        }
        // Those who have taken what they asked for before do without what these have, others do not.
        let mut new = ready_from(&rig, &format!("new{round}"), 3 + round);
        for host in [&mut other, &mut new] {
            let longest = write_and_read(host, 50);
            assert!(longest < Duration::from_secs(6), "{longest:?}");
        }
        let left = || rig.server().sessions() - 2;
        given_up += lazy.len() - left();
        wait_until("they are gone", || {
            queues.iter().filter_map(Queues::at_target).count() <= left()
        });
    }
    assert!(given_up > 0, "who gave way?");
    // The last of them are let go on, since nobody else lacks anything.
    let longest = write_and_read(&mut other, 200);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

/// What a socket keeps is memory of the kernel, of which there is one for all: 500 hosts that took nothing
/// had 2 GiB, and the packets of everybody else were dropped.
#[test]
fn what_is_not_taken_is_not_in_the_kernel_either() {
    let rig = Rig::ram();
    let mut lazy = ready_from(&rig, "lazy", 10);
    let queues = Queues::of(&lazy);
    let tags = ask_for_much(&mut lazy, 128);
    wait_until("nothing moves any more", || {
        let before = queues.at_target();
        std::thread::sleep(A_MOMENT);
        before == queues.at_target()
    });
    let kept = queues.at_target().unwrap();
    assert!((1..KIB * 768).contains(&kept), "{kept} bytes are kept");
    for itt in tags {
        lazy.finish(itt).good();
    }
}

/// Data that was asked for and lies unread is late by the target's fault. Not so that of a host which takes
/// no answers and is not read from for that: it keeps memory no longer than others do who send nothing.
#[test]
fn who_is_not_read_from_because_it_takes_nothing_gives_way_too() {
    let mut config = config([ram()]);
    config.core.buf_budget_bytes = 2 * MIB;
    let rig = Rig::start(config);
    let mut lazy = lazy_hosts(&rig, 6);
    let asked = Instant::now();
    for host in &mut lazy {
        host.issue(&Command::unsent_write(4096, 128));
    }
    for host in &mut lazy {
        ask_for_much(host, 100);
    }
    for host in &mut lazy {
        let queues = Queues::of(host);
        while queues.unread_by_target() == 0 {
            host.send_ping(b"");
            std::thread::sleep(A_MOMENT);
        }
    }
    let begun = Instant::now();
    let mut new = ready_from(&rig, "new", 2);
    new.run(&Command::write(0, &pattern(64 * KIB, 1))).good();
    // The first of them has been late for a while when the last one is there.
    let (took, since_asked) = (begun.elapsed(), asked.elapsed());
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert!(since_asked >= Duration::from_secs(1), "{since_asked:?}");
}

/// Parameter data that nobody takes lies on the heap: it has bounds of its own, and what is beyond
/// is not made. It grew by 12 MiB for each connection, and reads had no memory meanwhile.
#[test]
fn answers_that_are_not_taken_are_not_made() {
    let (rig, _dir) = start(8 * MIB);
    for index in 0..100_u8 {
        let mut login = Login::new(&format!("registered-{}", "n".repeat(150)));
        login.isid[5] = index;
        let mut host = login.connect(rig.portal()).unwrap();
        host.take_attentions(0);
        let key = reserve_list(0, u64::from(index) + 1, false);
        host.run(&Command::new(reserve_out(6, 0)).writing(&key)).good();
        host.close();
    }
    let mut other = ready_from(&rig, "other", 2);
    let whole = other.run(&Command::new(reserve_in_full()).reading(65_280)).good();
    assert!(whole.len() > 16 * KIB, "{}", whole.len());
    let mut lazy = lazy_hosts(&rig, 10);
    let ask = |host: &mut Connection| -> Vec<u32> {
        let read = Command::new(reserve_in_full()).reading(65_280);
        (0..200).map(|_| host.issue(&Command { is_immediate: true, ..read.clone() })).collect()
    };
    let tags: Vec<_> = lazy.iter_mut().map(ask).collect();
    let longest = write_and_read(&mut other, 200);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    for &itt in &tags[3] {
        assert!(lazy[3].finish(itt).good() == whole);
    }
}

/// Pings are echoed with all of their data. Whose peer does not take that is not read any more.
#[test]
fn pings_whose_echo_is_not_taken_harm_nobody() {
    let (rig, _dir) = start(8 * MIB);
    let mut other = ready_from(&rig, "other", 2);
    let mut lazy = lazy_hosts(&rig, 10);
    for host in &mut lazy {
        let data = vec![1; 256 * KIB];
        host.socket().set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        for index in 0..60 {
            let ping = NopOut {
                is_immediate: true,
                data_segment_len_bytes: data.len() as u32,
                lun: 0,
                itt: 7000 + index,
                ttt: RESERVED_TAG,
                cmd_sn: host.next_cmd_sn(),
                exp_stat_sn: host.exp_stat_sn,
            };
            let sent = host.try_send_bytes(ping.to_bhs().bytes());
            if sent.and_then(|()| host.try_send_bytes(&data)).is_err() {
                break;
            }
        }
    }
    let longest = write_and_read(&mut other, 200);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}
