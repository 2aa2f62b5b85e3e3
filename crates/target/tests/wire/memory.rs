//! Hosts that announce much and send little, or ask for much and take little: each has its bounds,
//! and the others on its core go on.

use std::time::{Duration, Instant};

use block::testing::FaultyDisk;
use iscsi::pdu::{NopOut, Opcode, RESERVED_TAG};
use target::Config;

use crate::common::{Command, Connection, Login, Rig, config, faulty, file, pattern, wait_until};

const BUSY: u8 = 0x08;
const TASK_SET_FULL: u8 = 0x28;
const MIB: usize = 1 << 20;
/// What may come unasked with a command, where many share little memory.
const FIRST_BURST: usize = 8 << 10;

/// One core with 2 MiB for I/O, and a disk that reads into memory of its own.
fn small() -> (Config, FaultyDisk) {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.core.buf_budget_bytes = 2 * MIB;
    (config, disk)
}

/// Logged in under this name, from an address of its own.
fn ready_from(rig: &Rig, name: &str, last_byte: u8) -> Connection {
    let mut host = Login::new(name).from(last_byte).connect(rig.portal()).unwrap();
    host.take_attentions(0);
    host
}

/// Announces `count` writes of `blocks` blocks, or as many as the window allows, and sends no data.
/// Returns how many were asked for it; nothing else is answered.
fn announce(host: &mut Connection, count: u32, blocks: u16) -> usize {
    for index in 0..count {
        if host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 <= -1 {
            break;
        }
        host.issue(&Command::unsent_write(index * u32::from(blocks), blocks));
    }
    host.ping(b"");
    let parked = host.parked();
    assert!(parked.iter().all(|pdu| pdu.opcode() == Opcode::R2T), "{parked:?}");
    parked.len()
}

#[test]
fn a_host_that_announces_and_never_sends_gets_its_share_and_no_more() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let mut other = ready_from(&rig, "other", 2);
    let mut greedy = rig.ready("greedy");
    // An eighth of the pool is for data that is asked for: 256 KiB, of which those who have sent
    // nothing share a half, and it gets two thirds.
    let taken = announce(&mut greedy, 100, 32);
    assert!((4..7).contains(&taken), "{taken} taken");
    for index in 0..20_u32 {
        let data = pattern(64 << 10, index);
        other.run(&Command::write(index * 128, &data)).good();
        assert!(other.run(&Command::read(index * 128, 128)).good() == data);
    }
    // When it goes, its memory is free again.
    greedy.close();
    wait_until("the session is gone", || rig.server().sessions() == 1);
    let mut next = rig.ready("next");
    assert_eq!(announce(&mut next, 100, 32), taken);
}

#[test]
fn many_names_from_one_address_get_no_more_than_one() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let mut other = ready_from(&rig, "other", 2);
    let mut greedy: Vec<_> = (0..6).map(|index| rig.ready(&format!("greedy{index}"))).collect();
    let taken: usize = greedy.iter_mut().map(|host| announce(host, 100, 32)).sum();
    assert!((4..7).contains(&taken), "{taken} taken");
    for index in 0..20_u32 {
        let data = pattern(64 << 10, index);
        other.run(&Command::write(index * 128, &data)).good();
        other.run(&Command::write(0, &data[..FIRST_BURST]).immediate_data()).good();
        assert!(other.run(&Command::read(index * 128, 128)).good() == data);
    }
    // What they do not send is not asked for, and they live as long as they answer.
    for host in &mut greedy {
        host.ping(b"");
    }
}

/// Who waits for memory gets it in turn, and nobody is refused.
#[test]
fn many_hosts_that_write_much_wait_for_each_other() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let hosts = (0..8_u8).map(|index| {
        let mut host = ready_from(&rig, &format!("host{index}"), 10 + index);
        std::thread::spawn(move || {
            for round in 0..6_u32 {
                let at = u32::from(index) * 2048;
                let data: Vec<_> =
                    (0..8).map(|part| pattern(128 << 10, round * 64 + part)).collect();
                let writes = data.iter().zip(0..).map(|(data, part)| {
                    let write = Command::write(at + part * 256, data);
                    let immediate_data = if part % 2 == 0 { FIRST_BURST } else { 0 };
                    Command { immediate_data, ..write }
                });
                let tags: Vec<_> = writes.map(|write| host.issue(&write)).collect();
                for itt in tags {
                    host.finish(itt).good();
                }
                for (data, part) in data.iter().zip(0..) {
                    assert!(host.run(&Command::read(at + part * 256, 256)).good() == *data);
                }
            }
        })
    });
    for host in hosts.collect::<Vec<_>>() {
        host.join().unwrap();
    }
}

/// Empty Data-Outs are no progress: who was asked for data and sends none of it is dropped, and its
/// memory goes to who waits for it.
#[test]
fn data_that_never_comes_is_not_waited_for() {
    let (mut config, _) = small();
    config.limits.stall_timeout = Duration::from_secs(1);
    let rig = Rig::start(config);
    let mut greedy = rig.ready("greedy");
    let itt = greedy.issue(&Command::unsent_write(0, 256));
    let r2t = greedy.receive_r2t(itt);
    let begun = std::time::Instant::now();
    for data_sn in 0..200 {
        let header = iscsi::pdu::DataOut {
            is_final: false,
            data_segment_len_bytes: 0,
            lun: 0,
            itt,
            ttt: r2t.ttt,
            exp_stat_sn: 0,
            data_sn,
            buffer_offset_bytes: 0,
        };
        if greedy.try_send_bytes(header.to_bhs().bytes()).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() < Duration::from_secs(8), "it was dropped in the middle of that");
    wait_until("the session is gone", || rig.server().sessions() == 0);
}

/// Issues writes of 16 KiB whose data is announced to come unasked, as many as the window allows.
fn announce_unasked(host: &mut Connection, count: u32) -> Vec<u32> {
    let mut tags = Vec::new();
    for index in 0..count {
        if host.max_cmd_sn.wrapping_sub(host.next_cmd_sn()) as i32 <= -1 {
            break;
        }
        let write = Command::unsent_write(1024 + index * 32, 32);
        tags.push(host.issue(&Command { more_follows: true, ..write }));
    }
    host.ping(b"");
    tags
}

/// The next part of the first burst of a write.
fn send_unasked(host: &mut Connection, itt: u32, (data_sn, is_final): (u32, bool), part: &[u8]) {
    let header = iscsi::pdu::DataOut {
        is_final,
        data_segment_len_bytes: part.len() as u32,
        lun: 0,
        itt,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn,
        buffer_offset_bytes: data_sn * part.len() as u32,
    };
    host.send(&header.to_bhs(), part);
}

/// Sixteen addresses have all memory for data that comes unasked, and send none of it. The writes of
/// others wait for a moment, and those that were announced end.
#[test]
fn announced_data_that_does_not_come_gives_way() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let mut other = ready_from(&rig, "other", 2);
    let ready = |index: u8| ready_from(&rig, &format!("greedy{index}"), 10 + index);
    let mut greedy: Vec<_> = (0..16).map(ready).collect();
    let tags: Vec<_> = greedy.iter_mut().map(|host| announce_unasked(host, 60)).collect();
    let data = pattern(FIRST_BURST, 1);
    let write_and_read = |other: &mut Connection| {
        for index in 0..20_u32 {
            other.run(&Command::write(index * 16, &data).immediate_data()).good();
            assert!(other.run(&Command::read(index * 16, 16)).good() == data);
        }
    };
    write_and_read(&mut other);
    // They are told so, what they send then is dropped, and they can go on.
    let (host, tags) = (&mut greedy[0], &tags[0]);
    assert_eq!(host.finish(tags[0]).status, BUSY);
    send_unasked(host, tags[0], (0, true), &data);
    host.ping(b"");
    assert!(host.parked().iter().all(|pdu| pdu.opcode() == Opcode::SCSI_RESPONSE));
    assert!(other.run(&Command::read(1024, 32)).good() == vec![0; 32 * 512]);
    // Nor have they all of it again.
    for _ in 0..3 {
        for host in &mut greedy {
            announce_unasked(host, 60);
        }
        write_and_read(&mut other);
    }
}

/// Data that comes slowly comes: only where next to nothing does it gives way.
#[test]
fn slow_data_does_not_give_way() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let mut other = ready_from(&rig, "other", 2);
    let mut slow = ready_from(&rig, "slow", 3);
    let ready = |index: u8| ready_from(&rig, &format!("greedy{index}"), 10 + index);
    let mut greedy: Vec<_> = (0..16).map(ready).collect();
    let data = pattern(FIRST_BURST, 1);
    let write = Command { more_follows: true, ..Command::write(0, &data) };
    let itt = slow.issue(&write);
    slow.ping(b"");
    for host in &mut greedy {
        announce_unasked(host, 60);
    }
    let waits = std::thread::spawn(move || {
        other.run(&Command::write(512, &pattern(FIRST_BURST, 2)).immediate_data()).good();
    });
    for (data_sn, part) in data.chunks(512).enumerate() {
        std::thread::sleep(Duration::from_millis(125));
        send_unasked(&mut slow, itt, (data_sn as u32, data_sn == 15), part);
    }
    slow.finish(itt).good();
    waits.join().unwrap();
    assert!(slow.run(&Command::read(0, 16)).good() == data);
}

/// Payloads that were begun and not sent fill the pool to the last byte: whoever is next waits, and the
/// process lives.
#[test]
fn payloads_that_do_not_come_fill_the_pool_and_harm_nobody() {
    // Whatever else the core holds: with one of these numbers it is full to the last page.
    for pages in 0..16 {
        let (config, _) = small();
        let rig = Rig::start(config);
        let mut other = rig.ready("other");
        let lens = std::iter::repeat_n(4 << 10, pages).chain(std::iter::repeat_n(64 << 10, 36));
        let mut idle: Vec<Connection> = Vec::new();
        for (index, len) in lens.enumerate() {
            let mut host = rig.ready(&format!("idle-{index}"));
            host.take_attentions(0);
            let ping = NopOut {
                is_immediate: true,
                data_segment_len_bytes: len,
                lun: 0,
                itt: 7777,
                ttt: RESERVED_TAG,
                cmd_sn: host.next_cmd_sn(),
                exp_stat_sn: host.exp_stat_sn,
            };
            host.send_bytes(ping.to_bhs().bytes());
            host.send_bytes(&[1; 100]);
            // It has come: who asks now is answered after it.
            other.ping(b"");
            idle.push(host);
        }
        let done = other.run(&Command::read(0, 8));
        assert!([0, BUSY, TASK_SET_FULL].contains(&done.status), "{done:?}");
        idle.clear();
        wait_until("their sessions are gone", || rig.server().sessions() == 1);
        other.run(&Command::read(0, 8)).good();
    }
}

/// Reads take memory from the core until they are sent: a host that asks for much at once and does
/// not read must not take all of it.
#[test]
fn a_host_that_does_not_read_does_not_take_the_memory_of_others() {
    let (disk, _dir) = file();
    let mut config = config([disk]);
    config.core.buf_budget_bytes = 16 * MIB;
    config.limits.output_bytes = MIB;
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    let mut lazy = rig.ready("lazy");
    // All in one piece, so that they arrive in one chunk: 32 MiB asked for with 6 KiB. No more than the
    // window allows: what is beyond it is ignored.
    let mut asked = Vec::new();
    let tags: Vec<_> = (0..128)
        .map(|_| {
            let itt = lazy.new_itt();
            let (bhs, _) = Command::read(0, 512).to_pdu(itt, lazy.take_cmd_sn(), 0);
            asked.extend_from_slice(bhs.bytes());
            itt
        })
        .collect();
    lazy.send_bytes(&asked);
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..5 {
        other.run(&Command::read(0, 512)).good();
        other.run(&Command::write(0, &[7; 128 << 10])).good();
    }
    // And it gets all that it asked for, when it does read.
    for itt in tags {
        assert!(lazy.finish(itt).good() == vec![7; 512 * 512]);
    }
}

/// What came ahead of its turn is held within bounds, too; more is told to come again.
#[test]
fn what_waits_for_its_turn_is_bounded() {
    let (config, _) = small();
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    let mut host = rig.ready("host");
    let first = host.next_cmd_sn();
    let data = pattern(FIRST_BURST, 1);
    let tags: Vec<_> = (1..127_u32)
        .map(|index| {
            let write = Command::write(index * 16, &data).immediate_data();
            host.issue(&write.numbered(first + index))
        })
        .collect();
    other.run(&Command::write(0, &data)).good();
    host.run(&Command::read(0, 1).numbered(first)).good();
    let done: Vec<_> = tags.into_iter().map(|itt| host.finish(itt).status).collect();
    let taken = done.iter().filter(|&&status| status == 0).count();
    assert!(taken >= 4 && taken * data.len() <= MIB, "{taken} taken");
    assert!(done.iter().all(|status| [0, BUSY, TASK_SET_FULL].contains(status)), "{done:?}");
    host.cmd_sn.store(host.exp_cmd_sn, std::sync::atomic::Ordering::Relaxed);
    host.run(&Command::write(0, &data)).good();
}

/// Data in short PDUs for a command that waits: as long as it keeps to the rules it is taken.
#[test]
fn data_in_many_pieces_waits_for_its_command() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let data = pattern(100 * 512, 1);
    let first = host.next_cmd_sn();
    let write = Command { more_follows: true, ..Command::write(0, &data) };
    let itt = host.issue(&write.numbered(first + 1));
    for (index, part) in data.chunks(512).enumerate() {
        let header = iscsi::pdu::DataOut {
            is_final: index == 99,
            data_segment_len_bytes: 512,
            lun: 0,
            itt,
            ttt: iscsi::pdu::RESERVED_TAG,
            exp_stat_sn: 0,
            data_sn: index as u32,
            buffer_offset_bytes: index as u32 * 512,
        };
        host.send(&header.to_bhs(), part);
    }
    host.run(&Command::read(500, 1).numbered(first)).good();
    host.finish(itt).good();
    host.cmd_sn.store(host.exp_cmd_sn, std::sync::atomic::Ordering::Relaxed);
    assert!(host.run(&Command::read(0, 100)).good() == data);
}

/// Data segments of the login and of text are bounded before they are allocated.
#[test]
fn a_login_does_not_grow() {
    let rig = Rig::ram();
    let mut login = Login::new("host");
    login.initiator = format!("iqn.2026-11.example:{}", "x".repeat(190));
    let mut host = login.connect(rig.portal()).unwrap();
    host.take_attentions(0);
    let mut text = host.text("X-a=b");
    assert_eq!(text.pop().unwrap().1, "NotUnderstood");
}

/// A ping that is longer than all memory of a core is not waited for. (What comes with a command never is:
/// its length is agreed on.)
#[test]
fn data_that_is_longer_than_all_memory_is_not_waited_for() {
    let (mut config, _) = small();
    config.core.buf_budget_bytes = 64 << 10;
    let patience = config.limits.stall_timeout / 2;
    let rig = Rig::start(config);
    let mut host = rig.ready("host");
    let ping = NopOut {
        is_immediate: true,
        data_segment_len_bytes: (64 << 10) + 1,
        lun: 0,
        itt: 7777,
        ttt: RESERVED_TAG,
        cmd_sn: host.next_cmd_sn(),
        exp_stat_sn: host.exp_stat_sn,
    };
    let begun = Instant::now();
    host.send_bytes(ping.to_bhs().bytes());
    host.send_bytes(&[1; 100]);
    host.expect_closed();
    assert!(begun.elapsed() < patience, "{:?}", begun.elapsed());
}
