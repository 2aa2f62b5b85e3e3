//! Header and data digests (RFC 7143 §7.8, §13.1), whole and broken.

use iscsi::pdu::{DataOut, RESERVED_TAG, RejectReason};

use crate::common::{Broken, Command, Connection, Login, Rig, config, pattern, ram};

const ABORTED_BY_CRC: (u8, u8, u8) = (0x0b, 0x47, 0x05);

fn with_digests(rig: &Rig) -> Connection {
    let mut connection = Login::new("host").with_digests().connect(rig.portal()).unwrap();
    assert!(connection.params.header_digest && connection.params.data_digest);
    connection.take_attentions(0);
    connection
}

#[test]
fn reads_and_writes_carry_digests_both_ways() {
    let rig = Rig::ram();
    let mut host = with_digests(&rig);
    // In one PDU, in many, and in pieces that the receiver must put together.
    for (lba, blocks) in [(0, 1), (100, 3), (200, 128), (1000, 1500)] {
        let data = pattern(blocks * 512, lba);
        let done = host.run(&Command::write(lba, &data));
        assert_eq!((done.status, done.residual), (0, 0));
        assert!(host.run(&Command::read(lba, blocks as u16)).good() == data);
    }
    let data = pattern(4096, 9);
    host.run(&Command::write(50, &data).immediate_data()).good();
    assert!(host.run(&Command::read(50, 8)).good() == data);
    assert_eq!(host.ping(b"odd"), b"odd", "the padding is under the digest too");
}

#[test]
fn a_login_without_digests_is_refused_where_they_must_be() {
    let mut config = config([ram()]);
    config.limits.must_digest = true;
    let rig = Rig::start(config);
    let mut bare = Login::new("host");
    bare.limits.header_digest = iscsi::params::DigestPolicy::Refuse;
    bare.limits.data_digest = iscsi::params::DigestPolicy::Refuse;
    assert!(bare.connect(rig.portal()).is_err());
    // Who would rather do without is asked for them.
    let host = Login::new("host").connect(rig.portal()).unwrap();
    assert!(host.params.header_digest && host.params.data_digest);
    with_digests(&rig).expect_alive();
}

#[test]
fn a_header_digest_alone_and_a_data_digest_alone_work_too() {
    let rig = Rig::ram();
    for (header, data) in [(true, false), (false, true)] {
        let mut login = Login::new("host").with_digests();
        if !header {
            login.limits.header_digest = iscsi::params::DigestPolicy::Refuse;
        }
        if !data {
            login.limits.data_digest = iscsi::params::DigestPolicy::Refuse;
        }
        let mut host = login.connect(rig.portal()).unwrap();
        assert_eq!((host.params.header_digest, host.params.data_digest), (header, data));
        host.take_attentions(0);
        let bytes = pattern(100 * 512, 3);
        host.run(&Command::write(7, &bytes)).good();
        assert!(host.run(&Command::read(7, 100)).good() == bytes);
    }
}

#[test]
fn a_broken_header_digest_drops_the_connection() {
    let rig = Rig::ram();
    let mut other = rig.ready("other");
    let mut host = with_digests(&rig);
    let (bhs, _) = Command::read(0, 1).to_pdu(99, host.next_cmd_sn(), host.exp_stat_sn);
    host.send_broken(&bhs, &[], Broken::HeaderDigest);
    host.expect_closed();
    other.expect_alive();
}

/// RFC 7143 §7.8: the command is discarded and may be sent again with its number.
#[test]
fn immediate_data_with_a_broken_digest_is_rejected_and_can_be_sent_again() {
    let rig = Rig::ram();
    let mut host = with_digests(&rig);
    let before = host.run(&Command::read(5, 1)).good();
    let command = Command::write(5, &pattern(512, 5)).immediate_data();
    let cmd_sn = host.take_cmd_sn();
    let (bhs, data) = command.to_pdu(77, cmd_sn, host.exp_stat_sn);
    host.send_broken(&bhs, &data, Broken::DataDigest);
    assert_eq!(host.receive_reject(), RejectReason::DATA_DIGEST_ERROR);
    assert_eq!(host.exp_cmd_sn, cmd_sn, "its number is still to come");
    host.send(&bhs, &data);
    host.finish(77).good();
    let after = host.run(&Command::read(5, 1)).good();
    assert!(after == data && after != before);
}

/// RFC 7143 §7.8: Reject, then CHECK CONDITION, but only when all data that was asked for is there.
#[test]
fn solicited_data_with_a_broken_digest_fails_its_command_after_the_last_pdu() {
    let rig = Rig::ram();
    let mut host = with_digests(&rig);
    let data = pattern(8 * 512, 1);
    host.run(&Command::write(64, &data)).good();
    for broken_part in 0..4_usize {
        let write = Command { answers_r2t: false, ..Command::write(64, &pattern(8 * 512, 2)) };
        let itt = host.issue(&write);
        let r2t = host.receive_r2t(itt);
        assert_eq!(r2t.desired_data_transfer_len_bytes, 4096);
        for part in 0..4_usize {
            let header = DataOut {
                is_final: part == 3,
                data_segment_len_bytes: 1024,
                lun: r2t.lun,
                itt,
                ttt: r2t.ttt,
                exp_stat_sn: host.exp_stat_sn,
                data_sn: part as u32,
                buffer_offset_bytes: part as u32 * 1024,
            };
            let how = if part == broken_part { Broken::DataDigest } else { Broken::Nothing };
            host.send_broken(&header.to_bhs(), &pattern(1024, 3), how);
            if part == broken_part {
                assert_eq!(host.receive_reject(), RejectReason::DATA_DIGEST_ERROR);
                if part < 3 {
                    host.expect_silence(std::time::Duration::from_millis(20));
                }
            }
        }
        assert_eq!(host.finish(itt).check(), ABORTED_BY_CRC);
    }
    assert!(host.run(&Command::read(64, 8)).good() == data, "nothing of it was written");
}

/// A long payload is received in pieces, and its digest is taken piece by piece.
#[test]
fn a_broken_digest_is_found_in_data_that_comes_in_pieces() {
    let rig = Rig::ram();
    let mut host = with_digests(&rig);
    let data = pattern(128 << 10, 1);
    for (broken, cut) in [(true, 48), (true, 52), (true, 5000), (true, 131_100), (false, 5000)] {
        let itt = host.issue(&Command::unsent_write(0, 256));
        let r2t = host.receive_r2t(itt);
        let header = DataOut {
            is_final: true,
            data_segment_len_bytes: data.len() as u32,
            lun: 0,
            itt,
            ttt: r2t.ttt,
            exp_stat_sn: host.exp_stat_sn,
            data_sn: 0,
            buffer_offset_bytes: 0,
        };
        let how = if broken { Broken::DataDigest } else { Broken::Nothing };
        let bytes = host.frame(header.to_bhs().bytes(), &[], &data, how);
        let (first, rest) = bytes.split_at(cut);
        host.send_bytes(first);
        std::thread::sleep(std::time::Duration::from_millis(10));
        host.send_bytes(rest);
        if broken {
            assert_eq!(host.receive_reject(), RejectReason::DATA_DIGEST_ERROR);
            assert_eq!(host.finish(itt).check(), ABORTED_BY_CRC);
            assert_eq!(host.run(&Command::read(0, 8)).good(), vec![0; 4096]);
        } else {
            host.finish(itt).good();
        }
    }
    // Immediate data, too.
    let command = Command::write(0, &pattern(128 << 10, 2)).immediate_data();
    let (bhs, segment) = command.to_pdu(77, host.next_cmd_sn(), host.exp_stat_sn);
    let bytes = host.frame(bhs.bytes(), &[], &segment, Broken::DataDigest);
    let (first, rest) = bytes.split_at(3000);
    host.send_bytes(first);
    std::thread::sleep(std::time::Duration::from_millis(10));
    host.send_bytes(rest);
    assert_eq!(host.receive_reject(), RejectReason::DATA_DIGEST_ERROR);
    assert!(host.run(&Command::read(0, 256)).good() == data);
}

#[test]
fn unsolicited_data_with_a_broken_digest_fails_its_command_after_the_last_pdu() {
    let rig = Rig::ram();
    let mut host = with_digests(&rig);
    let data = pattern(1024, 8);
    let write = Command { more_follows: true, ..Command::write(0, &data) };
    let itt = host.issue(&write);
    for part in 0..2_u32 {
        let header = DataOut {
            is_final: part == 1,
            data_segment_len_bytes: 512,
            lun: 0,
            itt,
            ttt: RESERVED_TAG,
            exp_stat_sn: host.exp_stat_sn,
            data_sn: part,
            buffer_offset_bytes: part * 512,
        };
        let how = if part == 0 { Broken::DataDigest } else { Broken::Nothing };
        host.send_broken(&header.to_bhs(), &data[..512], how);
    }
    assert_eq!(host.receive_reject(), RejectReason::DATA_DIGEST_ERROR);
    assert_eq!(host.finish(itt).check(), ABORTED_BY_CRC);
    host.expect_alive();
}
