//! The data of writes (RFC 7143 §4.2.5.2, §11.7, §11.8): every way that was negotiated, to the
//! byte, and every way that was not.

use std::time::Duration;

use iscsi::pdu::{DataOut, RESERVED_TAG};

use crate::common::{
    A_MOMENT, Command, Connection, Login, Rig, config, faulty, pattern, ram, read10, write10,
};

/// Logs in with these settings and takes the unit attention.
fn with(
    rig: &Rig,
    initial_r2t: bool,
    immediate_data: bool,
    change: impl Fn(&mut Login),
) -> Connection {
    let mut login = Login::new("host");
    login.limits.initial_r2t = initial_r2t;
    login.limits.immediate_data = immediate_data;
    change(&mut login);
    let mut host = login.connect(rig.portal()).unwrap();
    assert_eq!(host.session.initial_r2t, initial_r2t);
    assert_eq!(host.session.immediate_data, immediate_data);
    host.take_attentions(0);
    host
}

/// Writes with as much unsolicited data as was negotiated, the rest by R2T.
fn write_greedily(host: &mut Connection, lba: u32, data: &[u8]) {
    let first_burst = data.len().min(host.session.first_burst_len_bytes as usize);
    let immediate =
        if host.session.immediate_data { first_burst.min(host.max_data_out()) } else { 0 };
    let unsolicited = if host.session.initial_r2t { immediate } else { first_burst };
    let command = Command {
        immediate_data: immediate,
        more_follows: unsolicited > immediate,
        ..Command::write(lba, data)
    };
    let itt = host.issue(&command);
    if unsolicited > immediate {
        host.send_burst(itt, RESERVED_TAG, 0, immediate, &data[immediate..unsolicited]);
    }
    let done = host.finish(itt);
    assert_eq!((done.status, done.residual), (0, 0));
}

#[test]
fn all_four_settings_of_initial_r2t_and_immediate_data() {
    let rig = Rig::ram();
    for (initial_r2t, immediate_data) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut host = with(&rig, initial_r2t, immediate_data, |login| {
            login.limits.first_burst_len_bytes = 3000;
            login.limits.max_burst_len_bytes = 9000;
        });
        for blocks in [1_u32, 2, 5, 6, 17, 18, 64, 333] {
            let data = pattern(blocks as usize * 512, blocks);
            write_greedily(&mut host, blocks, &data);
            assert!(host.run(&Command::read(blocks, blocks as u16)).good() == data);
        }
    }
}

#[test]
fn bursts_and_segments_of_512_bytes() {
    let rig = Rig::ram();
    let mut host = with(&rig, true, false, |login| {
        login.limits.max_burst_len_bytes = 512;
        login.limits.first_burst_len_bytes = 512;
        login.limits.max_recv_data_segment_len_bytes = 512;
    });
    let data = pattern(64 * 512, 4);
    let itt = host.issue(&Command { answers_r2t: false, ..Command::write(9, &data) });
    for index in 0..64 {
        let r2t = host.receive_r2t(itt);
        assert_eq!(r2t.r2t_sn, index);
        assert_eq!(r2t.buffer_offset_bytes, index * 512);
        assert_eq!(r2t.desired_data_transfer_len_bytes, 512);
        let part = &data[index as usize * 512..][..512];
        host.send_burst(itt, r2t.ttt, r2t.lun, index as usize * 512, part);
        if index % 8 == 7 && index < 63 {
            continue;
        }
    }
    host.finish(itt).good();
    assert!(host.run(&Command::read(9, 64)).good() == data);
}

#[test]
fn segments_that_do_not_divide_anything() {
    let rig = Rig::ram();
    let mut host = with(&rig, true, false, |login| login.limits.max_burst_len_bytes = 10_001);
    let data = pattern(100 * 512, 6);
    let itt = host.issue(&Command { answers_r2t: false, ..Command::write(3, &data) });
    let mut at = 0;
    while at < data.len() {
        let r2t = host.receive_r2t(itt);
        assert_eq!(r2t.buffer_offset_bytes as usize, at);
        let end = at + r2t.desired_data_transfer_len_bytes as usize;
        let mut data_sn = 0;
        while at < end {
            let len = 777.min(end - at);
            let header = DataOut {
                is_final: at + len == end,
                data_segment_len_bytes: len as u32,
                lun: r2t.lun,
                itt,
                ttt: r2t.ttt,
                exp_stat_sn: host.exp_stat_sn,
                data_sn,
                buffer_offset_bytes: at as u32,
            };
            host.send(&header.to_bhs(), &data[at..at + len]);
            at += len;
            data_sn += 1;
        }
        // With several R2Ts outstanding the next may be here already.
    }
    host.finish(itt).good();
    assert!(host.run(&Command::read(3, 100)).good() == data);
}

#[test]
fn as_many_r2ts_are_outstanding_as_was_agreed_and_no_more() {
    let rig = Rig::ram();
    for agreed in [1_u32, 4] {
        let mut host = with(&rig, true, false, |login| {
            login.limits.max_outstanding_r2t = agreed;
            login.limits.max_burst_len_bytes = 1024;
            login.limits.first_burst_len_bytes = 1024;
        });
        let data = pattern(20 * 512, agreed);
        let itt = host.issue(&Command { answers_r2t: false, ..Command::write(30, &data) });
        let mut open: Vec<_> = (0..agreed).map(|_| host.receive_r2t(itt)).collect();
        host.expect_silence(A_MOMENT);
        for index in 0..10_usize {
            let r2t = open.remove(0);
            assert_eq!(r2t.buffer_offset_bytes as usize, index * 1024);
            host.send_burst(itt, r2t.ttt, 0, index * 1024, &data[index * 1024..][..1024]);
            if index + (agreed as usize) < 10 {
                open.push(host.receive_r2t(itt));
            }
        }
        host.finish(itt).good();
        assert!(host.run(&Command::read(30, 20)).good() == data);
    }
}

#[test]
fn residuals_say_what_a_write_did_not_move() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    host.run(&Command::write(0, &pattern(8 * 512, 1))).good();
    // The initiator announces 8 blocks, the CDB takes 3: five blocks too many.
    let data = pattern(8 * 512, 2);
    let mut write = Command::write(0, &data);
    write.cdb = write10(0, 3);
    for immediate in [false, true] {
        let write = if immediate { write.clone().immediate_data() } else { write.clone() };
        let done = host.run(&write);
        assert_eq!((done.status, done.residual), (0, -5 * 512));
    }
    let on_disk = host.run(&Command::read(0, 8)).good();
    assert!(on_disk[..3 * 512] == data[..3 * 512]);
    assert!(on_disk[3 * 512..] == pattern(8 * 512, 1)[3 * 512..], "the rest stays");
    // The initiator announces 2 blocks, the CDB takes 6: what it sent is written.
    let data = pattern(2 * 512, 3);
    let mut write = Command::write(100, &data);
    write.cdb = write10(100, 6);
    let done = host.run(&write);
    assert_eq!((done.status, done.residual), (0, 4 * 512));
    assert!(host.run(&Command::read(100, 2)).good() == data);
    // Of a part of a block nothing could be written: 200 bytes for one block, 1,000 for two.
    for (announced, blocks) in [(200, 1), (1000, 2)] {
        let mut write = Command::write(0, &pattern(announced, 4));
        write.cdb = write10(0, blocks);
        for immediate in [false, true] {
            let write = if immediate { write.clone().immediate_data() } else { write.clone() };
            let done = host.run(&write);
            assert_eq!(done.check(), (5, 0x0e, 3), "{announced} for {blocks}");
            let lacking = i64::from(blocks) * 512 - announced as i64;
            assert_eq!(done.residual, lacking, "what was not announced is told");
        }
        assert!(host.run(&Command::read(0, 8)).good() == on_disk, "nothing is written");
    }
    // Data announced for a command that takes none.
    let sync = Command::new(crate::common::synchronize_cache()).writing(&data);
    let done = host.run(&sync);
    assert_eq!((done.status, done.residual), (0, -1024));
}

#[test]
fn residuals_say_what_a_read_did_not_move() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let data = pattern(1200 * 512, 2);
    host.run(&Command::write(0, &data)).good();
    let cases: [(u16, u32, i64); 7] = [
        (8, 8 * 512, 0),
        (8, 5 * 512, 3 * 512),
        (8, 9 * 512, -512),
        (8, 1000, 8 * 512 - 1000),
        (8, 0, 8 * 512),
        (1200, 600_001, 1200 * 512 - 600_001),
        (1200, 700_000, 1200 * 512 - 700_000),
    ];
    for (blocks, announced, residual) in cases {
        let done = host.run(&Command::new(read10(0, blocks)).reading(announced));
        assert_eq!((done.status, done.residual), (0, residual), "{blocks} for {announced}");
        let moved = (announced as usize).min(usize::from(blocks) * 512);
        assert!(done.data == data[..moved]);
    }
    // Nothing announced at all, and a direction that is the wrong one.
    let done = host.run(&Command::new(read10(0, 2)));
    assert_eq!((done.status, done.residual, done.data.len()), (0, 1024, 0));
    let failed = host.run(&Command::read(u32::MAX, 1));
    assert_eq!((failed.check(), failed.residual), ((5, 0x21, 0), -512));
}

/// The R and W bits, against the way that the data of the CDB goes.
#[test]
fn data_announced_for_the_wrong_way_moves_nothing() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let before = pattern(2 * 512, 1);
    host.run(&Command::write(0, &before)).good();
    let mut run = |cdb, (is_read, is_write), announced: u32| {
        let (itt, cmd_sn) = (host.new_itt(), host.take_cmd_sn());
        let (bhs, _) = Command::new(cdb).to_pdu(itt, cmd_sn, host.exp_stat_sn);
        let mut pdu = iscsi::pdu::ScsiCommand::parse(&bhs).unwrap();
        (pdu.is_read, pdu.is_write) = (is_read, is_write);
        pdu.expected_data_transfer_len_bytes = announced;
        host.send(&pdu.to_bhs(), &[]);
        host.finish(itt)
    };
    let (reads, neither, writes) = ((true, false), (false, false), (false, true));
    let mut verify = write10(0, 2);
    (verify[0], verify[1]) = (0x2f, 0x02);
    for cdb in [write10(0, 2), verify] {
        for way in [reads, neither] {
            let refused = run(cdb, way, 1024);
            assert_eq!(refused.check(), (5, 0x0e, 3), "{cdb:02x?} {way:?}");
            assert_eq!(refused.residual, -1024, "nothing of that was moved");
        }
    }
    assert_eq!(run(read10(0, 2), neither, 1024).check(), (5, 0x0e, 3));
    // libiscsi's suite wants this to be GOOD; but it must not look as if data had been moved.
    let read = run(read10(0, 2), writes, 1024);
    assert_eq!((read.status, read.residual, read.data.len()), (0, -1024, 0));
    // Without data that is announced, all that the CDB asks for is too much.
    for way in [reads, writes, neither] {
        let done = run(write10(0, 2), way, 0);
        assert_eq!((done.status, done.residual), (0, 1024), "{way:?}");
    }
    assert!(host.run(&Command::read(0, 2)).good() == before, "nothing is written");
}

/// What a write must not do: each ends its own connection and nobody else's.
#[test]
fn data_that_was_not_agreed_on_ends_the_connection() {
    let rig = Rig::ram();
    let mut other = rig.ready("other");
    type Breach = fn(&mut DataOut, &mut Vec<u8>);
    let breaches: [(&str, Breach); 6] = [
        ("offset too far", |pdu, _| pdu.buffer_offset_bytes = 512),
        ("offset that wraps", |pdu, _| pdu.buffer_offset_bytes = u32::MAX - 100),
        ("no F at the end", |pdu, _| pdu.is_final = false),
        ("longer than asked for", |_, data| data.resize(5 * 512, 0)),
        ("F too early", |_, data| data.truncate(512)),
        ("unsolicited, all of a sudden", |pdu, _| pdu.ttt = RESERVED_TAG),
    ];
    for (what, breach) in breaches {
        let mut host = rig.ready("host");
        let itt = host.issue(&Command::unsent_write(40, 4));
        let r2t = host.receive_r2t(itt);
        let mut data = pattern(2048, 1);
        let mut header = DataOut {
            is_final: true,
            data_segment_len_bytes: 0,
            lun: 0,
            itt,
            ttt: r2t.ttt,
            exp_stat_sn: host.exp_stat_sn,
            data_sn: 0,
            buffer_offset_bytes: 0,
        };
        breach(&mut header, &mut data);
        host.send(&header.to_bhs(), &data);
        assert!(
            matches!(host.try_receive(crate::common::PATIENCE), crate::common::Got::Closed),
            "{what}"
        );
        other.expect_alive();
    }
    assert_eq!(other.run(&Command::read(40, 4)).good(), vec![0; 2048], "nothing was written");
}

/// RFC 7143 §7.9: a gap in DataSN means that a PDU was lost. Its command fails, the connection stays.
#[test]
fn a_data_out_pdu_that_was_lost_fails_its_command() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let itt = host.issue(&Command::unsent_write(40, 4));
    let r2t = host.receive_r2t(itt);
    let header = DataOut {
        is_final: true,
        data_segment_len_bytes: 1024,
        lun: 0,
        itt,
        ttt: r2t.ttt,
        exp_stat_sn: host.exp_stat_sn,
        data_sn: 1,
        buffer_offset_bytes: 1024,
    };
    host.send(&header.to_bhs(), &[1; 1024]);
    assert_eq!(host.finish(itt).check(), (0x0b, 0x47, 0x05));
    assert_eq!(host.run(&Command::read(40, 4)).good(), vec![0; 2048]);
}

#[test]
fn unsolicited_data_beyond_what_was_agreed_ends_the_connection() {
    let rig = Rig::ram();
    let data = pattern(8 * 512, 1);
    // Immediate data although it was negotiated away.
    let mut host = with(&rig, true, false, |_| {});
    host.issue(&Command::write(0, &data).immediate_data());
    host.expect_closed();
    // Immediate data beyond FirstBurstLength.
    let mut host = with(&rig, true, true, |login| login.limits.first_burst_len_bytes = 1024);
    host.issue(&Command::write(0, &data).immediate_data());
    host.expect_closed();
    // Data-Out without R2T although InitialR2T=Yes.
    let mut host = with(&rig, true, true, |_| {});
    host.issue(&Command { more_follows: true, ..Command::write(0, &data) });
    host.expect_closed();
    // Unsolicited Data-Out beyond FirstBurstLength.
    let mut host = with(&rig, false, false, |login| login.limits.first_burst_len_bytes = 1024);
    let itt = host.issue(&Command { more_follows: true, ..Command::write(0, &data) });
    host.send_burst(itt, RESERVED_TAG, 0, 0, &data[..1536]);
    host.expect_closed();
    // More immediate data than the command announces.
    let mut host = with(&rig, true, true, |_| {});
    let (mut bhs, segment) =
        Command::write(0, &data).immediate_data().to_pdu(5, host.next_cmd_sn(), host.exp_stat_sn);
    let mut raw = *bhs.bytes();
    raw[20..24].copy_from_slice(&512_u32.to_be_bytes());
    bhs = raw.into();
    host.send(&bhs, &segment);
    host.expect_closed();
    rig.ready("other").expect_alive();
}

#[test]
fn data_that_never_comes_ends_the_connection_and_no_other() {
    let mut config = config([ram()]);
    config.limits.stall_timeout = Duration::from_millis(150);
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    let mut host = rig.ready("host");
    let itt = host.issue(&Command::unsent_write(0, 4));
    host.receive_r2t(itt);
    host.expect_closed();
    other.expect_alive();
}

#[test]
fn a_pdu_that_is_never_finished_ends_the_connection_and_no_other() {
    let mut config = config([ram()]);
    config.limits.stall_timeout = Duration::from_millis(150);
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    for cut in [1, 47, 48, 100, 559] {
        let mut host = rig.ready("host");
        let command = Command::write(0, &pattern(512, 1)).immediate_data();
        let (bhs, data) = command.to_pdu(3, host.next_cmd_sn(), host.exp_stat_sn);
        let bytes = host.frame(bhs.bytes(), &[], &data, crate::common::Broken::Nothing);
        host.send_bytes(&bytes[..cut]);
        host.expect_closed();
    }
    other.expect_alive();
}

/// A write may be any number of turns away from its data: what stands in one TCP segment and what
/// comes byte by byte must do the same.
#[test]
fn pdus_may_come_in_any_pieces() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    for piece in [1_usize, 13, 47, 49, 511, 4096] {
        let data = pattern(2 * 512, piece as u32);
        let command = Command::write(60, &data).immediate_data();
        let itt = host.new_itt();
        let cmd_sn = host.take_cmd_sn();
        let (bhs, segment) = command.to_pdu(itt, cmd_sn, host.exp_stat_sn);
        let bytes = host.frame(bhs.bytes(), &[], &segment, crate::common::Broken::Nothing);
        for part in bytes.chunks(piece) {
            host.send_bytes(part);
            if piece < 50 && part[0].is_multiple_of(16) {
                std::thread::yield_now();
            }
        }
        host.finish(itt).good();
        assert!(host.run(&Command::read(60, 2)).good() == data);
    }
}

/// A disk that is slow does not mix up the data of the writes it works on.
#[test]
fn many_writes_at_once_keep_their_data_apart() {
    let (disk, device) = faulty();
    let rig = Rig::start(config([device]));
    let mut host = rig.ready("host");
    disk.inject(block::testing::Rule::always(
        block::testing::Operation::Write,
        block::testing::Fault::Delay(Duration::from_millis(2)),
    ));
    let tags: Vec<_> = (0..32_u32)
        .map(|index| host.issue(&Command::write(index * 16, &pattern(16 * 512, index))))
        .collect();
    for itt in tags {
        host.finish(itt).good();
    }
    for index in 0..32_u32 {
        assert!(host.run(&Command::read(index * 16, 16)).good() == pattern(16 * 512, index));
    }
}
