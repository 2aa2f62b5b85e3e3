//! Sessions of several connections (RFC 7143 §4.2.2, §6.3, §11.14). The two cores of the server
//! each accept connections, so that those of one session arrive on both and must come together.

use std::net::SocketAddr;
use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use iscsi::pdu::{LogoutReason, LogoutResult, RESERVED_TAG, RejectReason};

use crate::common::{
    A_MOMENT, Command, Connection, Login, NoLogin, Rig, config, faulty, pattern, ram, read10,
    wait_until,
};

fn session(portal: SocketAddr, connections: u16) -> Vec<Connection> {
    let login = Login::new("host");
    let mut first = login.connect(portal).unwrap();
    first.take_attentions(0);
    let mut all = vec![first];
    for cid in 1..connections {
        let next = login.joining(&all[0], cid).connect(portal).unwrap();
        all.push(next);
    }
    all
}

fn pair(portal: SocketAddr) -> (Connection, Connection) {
    let mut all = session(portal, 2);
    let second = all.pop().unwrap();
    (all.pop().unwrap(), second)
}

#[test]
fn eight_connections_of_one_session_work_as_one() {
    let rig = Rig::two_cores();
    let mut all = session(rig.portal(), 8);
    assert_eq!(rig.server().sessions(), 1);
    let mut data = Vec::new();
    for round in 0..5_u32 {
        // All at once, then each reads what its neighbour wrote.
        let tags: Vec<_> = (0..8_u32)
            .map(|index| {
                let lba = (round * 8 + index) * 16;
                data.push(pattern(16 * 512, lba));
                all[index as usize].issue(&Command::write(lba, data.last().unwrap()))
            })
            .collect();
        for (host, itt) in all.iter_mut().zip(tags) {
            host.finish(itt).good();
        }
        for index in 0..8_u32 {
            let at = round * 8 + (index + 1) % 8;
            let read = all[index as usize].run(&Command::read(at * 16, 16)).good();
            assert!(read == data[at as usize]);
        }
    }
}

#[test]
fn commands_run_in_the_order_of_their_numbers_whichever_connection_is_faster() {
    let rig = Rig::two_cores();
    let (mut a, mut b) = pair(rig.portal());
    for round in 0..20 {
        let (first, second) = (pattern(512, round), pattern(512, 1000 + round));
        let cmd_sn = a.next_cmd_sn();
        let late = Command::write(8, &first).immediate_data().numbered(cmd_sn);
        let early = Command::write(8, &second).immediate_data().numbered(cmd_sn + 1);
        a.cmd_sn.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
        let early = b.issue(&early);
        if round % 5 == 0 {
            b.expect_silence(Duration::from_millis(20));
        }
        let late = a.issue(&late);
        a.finish(late).good();
        b.finish(early).good();
        assert!(a.run(&Command::read(8, 1)).good() == second, "the higher number came last");
    }
}

/// Unsolicited data follows its command at once, even when the command must wait for its turn.
#[test]
fn unsolicited_data_waits_for_its_command() {
    let rig = Rig::two_cores();
    let (mut a, mut b) = pair(rig.portal());
    let data = pattern(40 * 512, 5);
    let cmd_sn = a.next_cmd_sn();
    a.cmd_sn.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
    let write = Command {
        more_follows: true,
        immediate_data: 512,
        ..Command::write(70, &data).numbered(cmd_sn + 1)
    };
    let early = b.issue(&write);
    b.send_burst(early, RESERVED_TAG, 0, 512, &data[512..]);
    b.expect_silence(A_MOMENT);
    let late = a.issue(&Command::read(0, 1).numbered(cmd_sn));
    a.finish(late).good();
    b.finish(early).good();
    assert!(b.run(&Command::read(70, 40)).good() == data);
}

/// RFC 7143 §4.2.2.1: outside the window and twice the same are ignored without a word.
#[test]
fn commands_outside_the_window_and_duplicates_are_ignored() {
    let rig = Rig::two_cores();
    let (mut a, mut b) = pair(rig.portal());
    let cmd_sn = a.next_cmd_sn();
    let beyond = a.max_cmd_sn + 1;
    a.issue(&Command::write(0, &pattern(512, 9)).immediate_data().numbered(beyond));
    a.issue(&Command::write(0, &pattern(512, 9)).immediate_data().numbered(cmd_sn - 1));
    a.expect_silence(A_MOMENT);
    // Of two with one number, waiting for their turn, the first counts.
    let kept = b.issue(&Command::read(0, 1).numbered(cmd_sn + 1));
    b.issue(&Command::write(0, &pattern(512, 9)).immediate_data().numbered(cmd_sn + 1));
    a.cmd_sn.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
    a.run(&Command::read(5, 1).numbered(cmd_sn)).good();
    assert_eq!(b.finish(kept).good(), vec![0; 512]);
    b.expect_silence(A_MOMENT);
    assert_eq!(a.run(&Command::read(0, 1)).good(), vec![0; 512], "nothing was written");
}

#[test]
fn the_window_closes_and_opens_again() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.limits.queue_depth = 4;
    let rig = Rig::start(config);
    let mut host = rig.ready("host");
    disk.inject(Rule::always(Operation::Read, Fault::Hang));
    let tags: Vec<_> = (0..4).map(|lba| host.issue(&Command::read(lba, 1))).collect();
    wait_until("all four are at the disk", || disk.held() == 4);
    host.ping(b"");
    assert_eq!(host.max_cmd_sn, host.exp_cmd_sn.wrapping_sub(1), "the window is closed");
    // A fifth, against the rules, is not taken.
    let fifth = Command::read(9, 1).numbered(host.next_cmd_sn());
    let ignored = host.issue(&fifth);
    host.expect_silence(A_MOMENT);
    assert_eq!(disk.held(), 4);
    disk.heal();
    disk.release();
    for itt in tags {
        host.finish(itt).good();
    }
    assert_eq!(host.max_cmd_sn, host.exp_cmd_sn + 3, "the window is open");
    host.run(&Command::read(0, 1)).good();
    host.expect_no_answer(ignored);
}

#[test]
fn data_belongs_to_the_connection_of_its_command() {
    let rig = Rig::two_cores();
    let (mut a, mut b) = pair(rig.portal());
    let itt = a.issue(&Command::unsent_write(0, 1));
    let r2t = a.receive_r2t(itt);
    b.send_burst(itt, r2t.ttt, 0, 0, &[1; 512]);
    b.expect_closed();
    a.expect_closed();
    assert_eq!(rig.ready("other").run(&Command::read(0, 1)).good(), vec![0; 512]);
}

#[test]
fn logout_of_one_connection_keeps_the_other() {
    let rig = Rig::two_cores();
    for by_itself in [true, false] {
        let (mut a, mut b) = pair(rig.portal());
        let result = if by_itself {
            b.logout(LogoutReason::CLOSE_CONNECTION, 1)
        } else {
            a.logout(LogoutReason::CLOSE_CONNECTION, 1)
        };
        assert_eq!(result, LogoutResult::SUCCESS);
        b.expect_closed();
        a.expect_alive();
        assert_eq!(a.logout(LogoutReason::CLOSE_CONNECTION, 1), LogoutResult::CID_NOT_FOUND);
        // There is room for another one in its place.
        let mut again = Login::new("host").joining(&a, 1).connect(rig.portal()).unwrap();
        again.expect_alive();
        let remove = a.logout(LogoutReason::REMOVE_CONNECTION, 1);
        assert_eq!(remove, LogoutResult::RECOVERY_NOT_SUPPORTED);
        again.expect_alive();
        assert_eq!(a.logout(LogoutReason::CLOSE_SESSION, 0), LogoutResult::SUCCESS);
        a.expect_closed();
        again.expect_closed();
        wait_until("the session is gone", || rig.server().sessions() == 0);
    }
}

/// After a logout nothing of the old may happen: the host may be writing over another path.
#[test]
fn a_logout_is_answered_when_the_disk_is_done() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.cores = 2;
    let rig = Rig::start(config);
    for reason in [LogoutReason::CLOSE_CONNECTION, LogoutReason::CLOSE_SESSION] {
        let (mut a, mut b) = pair(rig.portal());
        disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        b.issue(&Command::write(0, &[1; 512]).immediate_data());
        wait_until("the write is at the disk", || disk.held() == 1);
        let logout = std::thread::spawn(move || (a.logout(reason, 1), a));
        std::thread::sleep(A_MOMENT);
        assert!(!logout.is_finished(), "a write is still at the disk");
        disk.release();
        let (result, mut a) = logout.join().unwrap();
        assert_eq!(result, LogoutResult::SUCCESS);
        b.expect_closed();
        if reason == LogoutReason::CLOSE_CONNECTION {
            a.logout(LogoutReason::CLOSE_SESSION, 0);
        }
        a.expect_closed();
    }
}

#[test]
fn logout_of_a_reason_that_nobody_knows_is_rejected() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let mut raw = [0; 48];
    raw[0] = 0x46;
    raw[1] = 0x80 | 0x23;
    raw[16] = 9;
    host.send_raw(&raw, &[], &[]);
    assert_eq!(host.receive_reject(), RejectReason::INVALID_PDU_FIELD);
    host.expect_alive();
}

/// What a connection that was logged out had sent ahead of its turn is forgotten, but its number
/// is used up.
#[test]
fn commands_of_a_connection_that_logged_out_do_not_run() {
    let rig = Rig::two_cores();
    let (mut a, mut b) = pair(rig.portal());
    let cmd_sn = a.next_cmd_sn();
    a.cmd_sn.fetch_add(2, std::sync::atomic::Ordering::Relaxed);
    b.issue(&Command::write(3, &[7; 512]).immediate_data().numbered(cmd_sn + 1));
    // Answered behind the command, so that the command has come.
    b.ping(b"");
    b.logout(LogoutReason::CLOSE_CONNECTION, 1);
    a.run(&Command::read(0, 1).numbered(cmd_sn)).good();
    assert_eq!(a.run(&Command::read(3, 1)).good(), vec![0; 512]);
}

#[test]
fn a_connection_that_is_lost_takes_its_session_along() {
    let rig = Rig::two_cores();
    let (mut a, b) = pair(rig.portal());
    b.close();
    a.expect_closed();
    wait_until("the session is gone", || rig.server().sessions() == 0);
}

#[test]
fn a_connection_with_the_same_cid_takes_the_place_of_the_old() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.cores = 2;
    let rig = Rig::start(config);
    let (mut a, mut b) = pair(rig.portal());
    disk.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    b.issue(&Command::read(0, 1));
    b.issue(&Command::unsent_write(8, 1));
    wait_until("the read is at the disk", || disk.held() == 1);
    let (login, portal) = (Login::new("host").joining(&a, 1), rig.portal());
    let again = std::thread::spawn(move || login.connect(portal));
    b.expect_closed();
    a.expect_alive();
    std::thread::sleep(A_MOMENT);
    assert!(!again.is_finished(), "a task of the old connection is still at the disk");
    disk.release();
    let mut again = again.join().unwrap().unwrap();
    again.run(&Command::read(0, 1)).good();
    assert_eq!(rig.server().sessions(), 1);
    // The only connection of a session can be replaced, too.
    let mut only = Login::new("lone").connect(rig.portal()).unwrap();
    only.take_attentions(0);
    let mut next = Login::new("lone").joining(&only, 0).connect(rig.portal()).unwrap();
    only.expect_closed();
    next.expect_alive();
    assert_eq!(next.take_attentions(0), [], "the nexus is the same");
    assert_eq!(rig.server().sessions(), 2);
}

#[test]
fn a_new_session_of_the_same_name_ends_the_old_one_and_its_tasks() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.cores = 2;
    let rig = Rig::start(config);
    for _ in 0..4 {
        let (mut a, mut b) = pair(rig.portal());
        disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        b.issue(&Command::write(0, &[1; 512]).immediate_data());
        a.issue(&Command::unsent_write(1, 1));
        wait_until("the write is at the disk", || disk.held() == 1);
        let portal = rig.portal();
        let login = std::thread::spawn(move || Login::new("host").connect(portal).map(|_| ()));
        a.expect_closed();
        b.expect_closed();
        std::thread::sleep(Duration::from_millis(20));
        assert!(!login.is_finished(), "the old session is not over while its write is at the disk");
        disk.release();
        login.join().unwrap().unwrap();
    }
    // Another ISID is another session.
    let mut host = rig.ready("host");
    let mut other =
        Login { isid: [0x80, 0, 0, 1, 0, 1], ..Login::new("host") }.connect(rig.portal()).unwrap();
    other.take_attentions(0);
    host.expect_alive();
}

#[test]
fn a_session_that_is_gone_cannot_be_joined() {
    let rig = Rig::two_cores();
    let (mut a, _b) = pair(rig.portal());
    a.logout(LogoutReason::CLOSE_SESSION, 0);
    a.expect_closed();
    wait_until("the session is gone", || rig.server().sessions() == 0);
    let joined = Login::new("host").joining(&a, 0).connect(rig.portal());
    let refused = NoLogin::Refused(iscsi::pdu::LoginStatus::SESSION_DOES_NOT_EXIST);
    assert_eq!(joined.err(), Some(refused));
}

#[test]
fn a_number_that_never_comes_ends_the_session_that_waits_for_it() {
    let mut config = config([ram()]);
    config.limits.stall_timeout = Duration::from_millis(150);
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    let mut host = rig.ready("host");
    let next = host.next_cmd_sn();
    host.issue(&Command::new(read10(0, 1)).reading(512).numbered(next + 1));
    host.expect_closed();
    other.expect_alive();
}
