//! NOP (RFC 7143 §11.18, §11.19), and what becomes of peers that do not answer; the clean stop.

use std::time::{Duration, Instant};

use block::testing::{Fault, Operation, Rule};
use iscsi::pdu::{
    AsyncEvent, AsyncMessage, LogoutReason, LogoutResult, NopIn, NopOut, Opcode, RESERVED_TAG,
    RejectReason,
};

use crate::common::{
    Command, Connection, Got, PATIENCE, Pdu, Rig, config, faulty, pattern, ram, wait_until,
};

/// A server that asks for a sign of life soon.
fn impatient() -> Rig {
    let mut config = config([ram()]);
    config.limits.nop_interval = Duration::from_millis(60);
    config.limits.nop_timeout = Duration::from_millis(120);
    Rig::start(config)
}

fn next_ping(host: &mut Connection) -> Pdu {
    let ping = host.receive_kind(Opcode::NOP_IN);
    let header = NopIn::parse(&ping.bhs).unwrap();
    assert_eq!(header.itt, RESERVED_TAG);
    assert_ne!(header.ttt, RESERVED_TAG);
    ping
}

#[test]
fn a_ping_comes_back_with_its_data() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    for len in [0_usize, 1, 3, 4, 511, 8192, 70_000] {
        let data = pattern(len, 3);
        assert!(host.ping(&data) == data, "{len} bytes");
    }
}

#[test]
fn a_ping_in_command_order_takes_a_number_and_one_without_a_tag_no_answer() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let mut nop = NopOut {
        is_immediate: false,
        data_segment_len_bytes: 0,
        lun: 0,
        itt: 77,
        ttt: RESERVED_TAG,
        cmd_sn: host.take_cmd_sn(),
        exp_stat_sn: 0,
    };
    host.send(&nop.to_bhs(), b"hi");
    assert_eq!(host.receive_kind(Opcode::NOP_IN).data, b"hi");
    assert_eq!(host.exp_cmd_sn, host.next_cmd_sn());
    (nop.itt, nop.is_immediate) = (RESERVED_TAG, true);
    host.send(&nop.to_bhs(), b"hi");
    host.expect_silence(Duration::from_millis(30));
    (nop.is_immediate, nop.cmd_sn) = (false, host.take_cmd_sn());
    host.send(&nop.to_bhs(), &[]);
    assert_eq!(host.receive_reject(), RejectReason::PROTOCOL_ERROR);
    host.expect_alive();
}

#[test]
fn an_echo_is_no_longer_than_the_initiator_takes() {
    let rig = Rig::ram();
    let mut login = crate::common::Login::new("host");
    login.limits.max_recv_data_segment_len_bytes = 512;
    let mut host = login.connect(rig.portal()).unwrap();
    let data = pattern(5000, 1);
    assert!(host.ping(&data) == data[..512]);
}

#[test]
fn a_peer_that_answers_stays() {
    let rig = impatient();
    let mut host = rig.ready("host");
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        let ping = next_ping(&mut host);
        host.pong(&ping);
    }
    host.expect_alive();
}

#[test]
fn a_dead_peer_is_dropped_and_its_session_too() {
    let rig = impatient();
    let mut host = rig.ready("host");
    next_ping(&mut host);
    host.expect_closed();
    wait_until("the session is gone", || rig.server().sessions() == 0);
}

#[test]
fn a_peer_that_stops_reading_is_dropped() {
    let mut config = config([ram()]);
    config.limits.stall_timeout = Duration::from_millis(200);
    config.limits.output_bytes = 64 << 10;
    let rig = Rig::start(config);
    let mut other = rig.ready("other");
    let mut host = rig.ready("host");
    ask_for_much(&mut host);
    wait_until("the session is gone", || rig.server().sessions() == 1);
    other.expect_alive();
}

/// Reads that fill its window, and whose answers it does not take.
fn ask_for_much(host: &mut Connection) {
    for _ in 0..100 {
        let (bhs, _) = Command::read(0, 2048).to_pdu(1, host.take_cmd_sn(), 0);
        let frame = host.frame(bhs.bytes(), &[], &[], crate::common::Broken::Nothing);
        if host.try_send_bytes(&frame).is_err() {
            break;
        }
    }
}

#[test]
fn a_stop_does_not_wait_for_hosts_that_take_no_answers() {
    let rig = Rig::two_cores();
    let mut stuck: Vec<_> = (0..60).map(|n| rig.ready(&format!("stuck{n}"))).collect();
    stuck.iter_mut().for_each(ask_for_much);
    let start = Instant::now();
    rig.stop(Duration::from_millis(100)).0.unwrap();
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

fn next_event(host: &mut Connection) -> AsyncMessage {
    AsyncMessage::parse(&host.receive_kind(Opcode::ASYNC_MESSAGE).bhs).unwrap()
}

#[test]
fn a_stop_asks_for_logout_and_waits_for_it() {
    let rig = Rig::two_cores();
    let mut hosts = [rig.ready("a"), rig.ready("b")];
    let stop = std::thread::spawn(move || rig.stop(Duration::from_secs(8)).0);
    for host in &mut hosts {
        let message = next_event(host);
        assert_eq!((message.event, message.parameter3), (AsyncEvent::LOGOUT_REQUEST, 8));
        assert_eq!(host.logout(LogoutReason::CLOSE_SESSION, 0), LogoutResult::SUCCESS);
        host.expect_closed();
    }
    let start = Instant::now();
    stop.join().unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "it does not wait for nothing");
}

#[test]
fn a_stop_does_not_wait_for_ever_for_a_host_that_does_not_listen() {
    let rig = Rig::two_cores();
    let mut deaf = rig.ready("deaf");
    let finder = crate::common::Login::discovery().connect(rig.portal()).unwrap();
    let start = Instant::now();
    rig.stop(Duration::from_millis(100)).0.unwrap();
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    assert_eq!(next_event(&mut deaf).event, AsyncEvent::LOGOUT_REQUEST);
    assert_eq!(next_event(&mut deaf).event, AsyncEvent::SESSION_DROP);
    deaf.expect_closed();
    drop(finder);
}

#[test]
fn a_stop_flushes_and_says_when_it_cannot() {
    for fails in [false, true] {
        let (disk, device) = faulty();
        let rig = Rig::start(config([device]));
        let mut host = rig.ready("host");
        host.run(&Command::write(0, &pattern(512, 1)).immediate_data()).good();
        let fault = if fails {
            Fault::Fail(block::BlockError::Medium { at: 0 })
        } else {
            Fault::Delay(Duration::from_millis(50))
        };
        disk.inject(Rule::always(Operation::Flush, fault));
        host.close();
        let start = Instant::now();
        let (result, _) = rig.stop(Duration::from_secs(1));
        assert_eq!(result.is_err(), fails, "{result:?}");
        assert!(fails || start.elapsed() >= Duration::from_millis(50), "it was flushed");
    }
}

#[test]
fn nobody_gets_in_while_the_target_stops() {
    let rig = Rig::ram();
    let mut host = rig.ready("host");
    let portal = rig.portal();
    let stop = std::thread::spawn(move || rig.stop(Duration::from_secs(5)).0);
    next_event(&mut host);
    let login = crate::common::Login::new("late");
    if let Ok(stream) = std::net::TcpStream::connect(portal) {
        let mut late = Connection::over(stream, login.cmd_sn.clone());
        assert!(matches!(late.try_receive(PATIENCE), Got::Closed));
    }
    host.logout(LogoutReason::CLOSE_SESSION, 0);
    stop.join().unwrap().unwrap();
}
