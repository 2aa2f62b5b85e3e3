//! Who may come in: no address has all connections, and nobody who only comes keeps others out.

use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use iscsi::pdu::LoginStatus;

use crate::common::{Connection, Login, NoLogin, Rig, config, ram, wait_until};

const NO_ROOM: NoLogin = NoLogin::Refused(LoginStatus::OUT_OF_RESOURCES);

fn with_connections(connections: usize) -> Rig {
    let mut config = config([ram()]);
    config.limits.connections = connections;
    Rig::start(config)
}

fn host_from(rig: &Rig, last_byte: u8) -> Connection {
    let host = Login::new(&format!("host{last_byte}")).from(last_byte);
    let mut host = host.connect(rig.portal()).unwrap();
    host.take_attentions(0);
    host
}

#[test]
fn a_flood_of_sessions_has_its_limits() {
    let rig = with_connections(3);
    let mut hosts = [1, 2, 3].map(|last_byte| host_from(&rig, last_byte));
    let further = Login::new("further").from(4);
    assert_eq!(further.connect(rig.portal()).err(), Some(NO_ROOM));
    hosts.iter_mut().for_each(Connection::expect_alive);
    drop(hosts);
    wait_until("there is room again", || further.connect(rig.portal()).is_ok());
}

/// More logins than connections may be under way: those that say nothing give way all the same.
#[test]
fn connections_that_never_log_in_do_not_use_them_up() {
    let rig = with_connections(8);
    let silent = Login::new("silent");
    let reach = |index: u8| silent.clone().from(10 + index % 4).reach(rig.portal());
    let idle: Vec<_> = (0..60).map(reach).collect();
    let mut hosts = [1, 2, 3].map(|last_byte| host_from(&rig, last_byte));
    let more: Vec<_> = (0..60).map(reach).collect();
    hosts.iter_mut().for_each(Connection::expect_alive);
    host_from(&rig, 4).expect_alive();
    drop((idle, more));
}

/// Sessions of one initiator name, as many as each of four addresses gets.
#[test]
fn four_addresses_do_not_have_all_connections() {
    let mut config = config([ram()]);
    config.limits.connections = 16;
    config.limits.connections_per_address = 4;
    let rig = Rig::start(config);
    let mut taken = Vec::new();
    for last_byte in 10..14 {
        for isid in 0..6 {
            let isid = [0x80, 0, 0, last_byte, 0, isid];
            let login = Login { isid, ..Login::new("greedy").from(last_byte) };
            match login.connect(rig.portal()) {
                Ok(session) => taken.push(session),
                Err(refused) => assert_eq!(refused, NO_ROOM),
            }
        }
    }
    assert!((12..16).contains(&taken.len()), "{} taken", taken.len());
    host_from(&rig, 1).expect_alive();
    taken.iter_mut().for_each(Connection::expect_alive);
}

#[test]
fn discovery_sessions_leave_room_for_others() {
    let rig = with_connections(16);
    let find = |last_byte: u8| Login::discovery().from(last_byte).connect(rig.portal());
    let mut finders = Vec::new();
    for index in 0..40 {
        finders.push(find(10 + index % 4).unwrap());
    }
    let hosts = [1, 2, 3, 4].map(|last_byte| host_from(&rig, last_byte));
    assert!(!find(5).unwrap().text("SendTargets=All").is_empty());
    // A quarter of the connections: the newest are there, the others have ended.
    for finder in &mut finders[..36] {
        finder.expect_closed();
    }
    assert!(!finders[39].text("SendTargets=All").is_empty());
    drop(hosts);
}

#[test]
fn the_oldest_discovery_session_of_an_address_gives_way() {
    let mut config = config([ram()]);
    config.limits.discoveries_per_address = 2;
    let rig = Rig::start(config);
    let find = |last_byte: u8| Login::discovery().from(last_byte).connect(rig.portal()).unwrap();
    let mut other = find(2);
    let mut finders: Vec<_> = (0..3).map(|_| find(1)).collect();
    finders[0].expect_closed();
    for finder in finders[1..].iter_mut().chain([&mut other]) {
        assert!(!finder.text("SendTargets=All").is_empty());
    }
}

/// Connections that never log in give way to those that do, oldest first.
#[test]
fn whoever_says_nothing_keeps_nobody_out() {
    let mut config = config([ram()]);
    config.limits.logins = 8;
    config.limits.logins_per_address = 4;
    let rig = Rig::start(config);
    let idle: Vec<_> = (0..20).map(|_| TcpStream::connect(rig.portal()).unwrap()).collect();
    // From the same address as from another.
    rig.ready("host").expect_alive();
    let mut other = Login::new("other").from(2).connect(rig.portal()).unwrap();
    other.take_attentions(0);
    other.expect_alive();
    // The newest are still there, and the oldest are closed.
    let is_open = |index: usize| {
        idle[index].set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        !matches!((&idle[index]).read(&mut [0; 1]), Ok(0))
    };
    assert!(is_open(19));
    assert_eq!((0..16).filter(|&index| is_open(index)).count(), 0);
}

#[test]
fn one_address_does_not_take_the_connections_of_others() {
    let mut config = config([ram()]);
    config.limits.connections_per_address = 4;
    let rig = Rig::start(config);
    let hosts: Vec<_> = (0..4).map(|index| rig.ready(&index.to_string())).collect();
    let further = Login::new("further").connect(rig.portal());
    assert_eq!(further.err(), Some(NoLogin::Refused(LoginStatus::OUT_OF_RESOURCES)));
    Login::new("other").from(2).connect(rig.portal()).unwrap().take_attentions(0);
    drop(hosts);
    wait_until("there is room again", || Login::new("again").connect(rig.portal()).is_ok());
}

#[test]
fn a_discovery_session_has_its_time() {
    let mut config = config([ram()]);
    config.limits.discovery_time = Duration::from_millis(500);
    let rig = Rig::start(config);
    let mut finder = Login::discovery().connect(rig.portal()).unwrap();
    assert!(!finder.text("SendTargets=All").is_empty());
    let begun = std::time::Instant::now();
    finder.expect_closed();
    assert!(begun.elapsed() < Duration::from_secs(3));
}
