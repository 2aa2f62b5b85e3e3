//! Rules that change while hosts are connected, or about to be.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::testing::{Fault, Operation, Rule};
use iscsi::chap::{Algorithm, Credentials};
use iscsi::pdu::{AsyncEvent, AsyncMessage, LoginStatus, Opcode, Stage};
use target::{Access, AccessRule, TargetError};

use crate::common::{
    A_MOMENT, ByHand, Command, Connection, IQN, Login, Rig, UNAUTHORIZED, WHERE, WHO, access,
    as_user, at, config, faulty, host, on_core, ram, set_access, target_of, user, wait_until,
};

const SECOND: &str = "iqn.2026-11.dev.drystone:second";

fn ruled(rules: impl IntoIterator<Item = AccessRule>) -> Rig {
    let mut config = config([ram()]);
    config.targets[0].access = Some(access(rules));
    config.cores = 2;
    Rig::start(config)
}

/// It hears that its session is dropped, and then that it is.
fn expect_ended(host: &mut Connection) {
    let event = AsyncMessage::parse(&host.receive_kind(Opcode::ASYNC_MESSAGE).bhs).unwrap();
    assert_eq!(event.event, AsyncEvent::SESSION_DROP);
    host.expect_closed();
}

#[test]
fn who_is_not_let_in_any_more_goes_and_all_others_stay() {
    let rig = ruled([host("a"), host("b")]);
    let targets = rig.server().targets();
    targets.add(target_of(SECOND, [ram()])).unwrap();
    let a = Login::new("a");
    let mut first = a.connect(rig.portal()).unwrap();
    first.take_attentions(0);
    let mut second = a.joining(&first, 1).connect(rig.portal()).unwrap();
    let path = Login { isid: [0x80, 0, 0, 1, 0, 1], ..Login::new("a") };
    let mut path = path.connect(rig.portal()).unwrap();
    let mut b = Login::new("b").connect(rig.portal()).unwrap();
    b.take_attentions(0);
    let elsewhere = Login { target: Some(SECOND.to_owned()), ..Login::new("a") };
    let mut elsewhere = elsewhere.connect(rig.portal()).unwrap();
    elsewhere.take_attentions(0);
    // One waits for its data, which nobody waits for after the change.
    let itt = second.issue(&Command::unsent_write(0, 1));
    second.receive_r2t(itt);

    assert_eq!(set_access(&rig, IQN, Some(access([host("a"), host("b")]))), 0, "the same rules");
    first.expect_alive();
    assert_eq!(set_access(&rig, IQN, Some(access([host("b")]))), 2);
    assert_eq!(rig.server().sessions(), 2, "they have ended when it says so");
    for gone in [&mut first, &mut second, &mut path] {
        expect_ended(gone);
    }
    assert_eq!(b.run(&Command::read(0, 1)).good(), [0; 512]);
    elsewhere.expect_alive();
    assert_eq!(a.connect(rig.portal()).err(), Some(UNAUTHORIZED));
    // Let in again, it is as any host.
    set_access(&rig, IQN, None);
    b.expect_alive();
    a.connect(rig.portal()).unwrap().take_attentions(0);
}

#[test]
fn one_connection_from_a_wrong_place_takes_its_session_along() {
    let from = |pattern: &str| AccessRule { from: at(pattern), ..host("a") };
    let rig = ruled([from("127.0.0.1"), from("127.0.0.2")]);
    let login = Login::new("a").from(1);
    let mut first = login.connect(rig.portal()).unwrap();
    first.take_attentions(0);
    let mut second = login.clone().from(2).joining(&first, 1).connect(rig.portal()).unwrap();
    let other = Login { isid: [0x80, 0, 0, 1, 0, 1], ..Login::new("a").from(1) };
    let mut other = other.connect(rig.portal()).unwrap();
    other.take_attentions(0);
    assert_eq!(set_access(&rig, IQN, Some(access([from("127.0.0.1")]))), 1);
    expect_ended(&mut first);
    expect_ended(&mut second);
    other.expect_alive();
}

#[test]
fn another_secret_or_no_user_ends_what_the_former_let_in() {
    let rules = || [AccessRule::user("alice"), AccessRule::user("bob"), host("free")];
    let rig = ruled(rules());
    let login = |name: &str| Login::new(name).connect(rig.portal()).unwrap();
    let as_one = |name: &str, user: &str| {
        let mut host = Login::new(name).proving(user).connect(rig.portal()).unwrap();
        host.take_attentions(0);
        host
    };
    let (mut alice, mut bob) = (as_one("a", "alice"), as_one("b", "bob"));
    let (mut free, mut proved) = (login("free"), Login::new("free"));
    proved.isid[5] = 1;
    // It need not have proved that, but it did.
    let mut proved = proved.proving("alice").connect(rig.portal()).unwrap();
    let another = || Credentials::new("alice", "another secret").unwrap();
    let changed = || Access { users: vec![another(), user("bob")], ..access(rules()) };
    assert_eq!(set_access(&rig, IQN, Some(changed())), 2);
    expect_ended(&mut alice);
    expect_ended(&mut proved);
    bob.expect_alive();
    free.take_attentions(0);
    Login::new("a").with(another()).connect(rig.portal()).unwrap().take_attentions(0);
    // The user is gone, its rule is not.
    let without = Access { users: vec![another()], ..access(rules()) };
    assert_eq!(set_access(&rig, IQN, Some(without)), 1);
    expect_ended(&mut bob);
    free.expect_alive();
}

/// A login that was told to prove itself, and has done so as alice.
fn proved_as_alice(rig: &Rig) -> ByHand {
    let mut login = ByHand::in_security(rig.portal());
    assert!(login.status(&[WHO, WHERE, "AuthMethod=CHAP"]).is_success());
    let (_, text) = login.say(&["CHAP_A=5"]);
    let value = |key: &str| text.split('\0').find_map(|pair| pair.strip_prefix(key)).unwrap();
    let digits = value("CHAP_C=0x").as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let challenge: Vec<u8> = digits.map(byte).collect();
    let identifier = value("CHAP_I=").parse().unwrap();
    let response = user("alice").respond(Algorithm::Md5, identifier, &challenge);
    let response: String = response.iter().map(|byte| format!("{byte:02x}")).collect();
    login.request.is_transit = true;
    let status = login.status(&["CHAP_N=alice", &format!("CHAP_R=0x{response}")]);
    assert!(status.is_success(), "{status}");
    login.request.stage = Stage::OPERATIONAL;
    login.request.next_stage = Stage::FULL_FEATURE;
    login
}

#[test]
fn a_login_under_way_ends_by_the_rules_that_hold_then() {
    let rules = || [AccessRule { chap_user: as_user("alice"), ..host("host") }];
    let another = Credentials::new("alice", "another secret").unwrap();
    let changes = [
        ("none", Access::nobody()),
        ("of another host", access([host("other")])),
        ("of another user", access([AccessRule::user("bob")])),
        ("of another secret", Access { users: vec![another], ..access(rules()) }),
        ("of another place", access([AccessRule { from: at("10.*.*.*"), ..host("host") }])),
    ];
    let rig = ruled(rules());
    assert!(proved_as_alice(&rig).status(&[]).is_success());
    for (what, change) in changes {
        set_access(&rig, IQN, Some(access(rules())));
        let mut login = proved_as_alice(&rig);
        set_access(&rig, IQN, Some(change));
        assert_eq!(login.status(&[]), LoginStatus::AUTHORIZATION_FAILURE, "{what}");
        login.connection.expect_closed();
    }
    // One that began when nothing had to be proved.
    set_access(&rig, IQN, None);
    let mut login = ByHand::new(rig.portal());
    login.request.is_transit = false;
    assert!(login.status(&[WHO, WHERE]).is_success());
    set_access(&rig, IQN, Some(access(rules())));
    login.request.is_transit = true;
    assert_eq!(login.status(&[]), LoginStatus::AUTHORIZATION_FAILURE);
    wait_until("nobody is in", || rig.server().sessions() == 0);
}

/// "Not authorised" makes hosts give up, and a target that is taken away for a moment is no reason for that.
#[test]
fn a_target_that_goes_during_a_login_is_not_one_that_may_not_be_used() {
    let rig = ruled([host("host")]);
    let mut logins = [ByHand::new(rig.portal()), ByHand::new(rig.portal())];
    for login in &mut logins {
        login.request.is_transit = false;
        assert!(login.status(&[WHO, WHERE]).is_success());
        login.request.is_transit = true;
    }
    let no_grace = Duration::ZERO;
    on_core(rig.server(), move |targets| async move { targets.set_offline(IQN, no_grace).await })
        .unwrap();
    assert_eq!(logins[0].status(&[]), LoginStatus::SERVICE_UNAVAILABLE);
    on_core(rig.server(), move |targets| async move { targets.remove(IQN, no_grace).await })
        .unwrap();
    assert_eq!(logins[1].status(&[]), LoginStatus::NOT_FOUND);
}

/// A login may have to wait for its session before, or for a connection, long after it was accepted.
#[test]
fn a_login_that_waits_for_a_disk_ends_by_the_rules_that_hold_then() {
    for joins in [false, true] {
        let (disk, device) = faulty();
        let mut config = config([device]);
        config.targets[0].access = Some(access([host("a"), host("b")]));
        config.cores = 2;
        let rig = Rig::start(config);
        let mut first = rig.ready("a");
        disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        first.issue(&Command::write(0, &[1; 512]).immediate_data());
        wait_until("the write is at the disk", || disk.held() == 1);
        let login = match joins {
            true => Login::new("a").joining(&first, 0),
            false => Login::new("a"),
        };
        let portal = rig.portal();
        let waits = std::thread::spawn(move || login.connect(portal).err());
        first.expect_closed();
        std::thread::sleep(A_MOMENT);
        assert!(!waits.is_finished(), "it waits for the write");
        set_access(&rig, IQN, Some(access([host("b")])));
        disk.release();
        assert_eq!(waits.join().unwrap(), Some(UNAUTHORIZED), "joins: {joins}");
        wait_until("nobody is in", || rig.server().sessions() == 0);
        rig.ready("b").expect_alive();
    }
}

/// Hosts log in again and again while the rules change: none is ever in that should not be.
#[test]
fn no_login_slips_through_a_change() {
    let rig = ruled([host("good")]);
    let portal = rig.portal();
    let mut good = rig.ready("good");
    let stops = Arc::new(AtomicBool::new(false));
    let tries: Vec<_> = (0..3)
        .map(|number| {
            let stops = stops.clone();
            std::thread::spawn(move || {
                let mut got_in = 0;
                while !stops.load(Ordering::Relaxed) {
                    let login = Login { isid: [0x80, 0, 0, 1, 0, number], ..Login::new("bad") };
                    if let Ok(mut first) = login.connect(portal) {
                        got_in += 1;
                        // It may be over in between.
                        let second = login.joining(&first, 1).connect(portal);
                        drop(first.try_receive(Duration::from_millis(2)));
                        drop(second);
                    }
                }
                got_in
            })
        })
        .collect();
    for round in 0..200 {
        set_access(&rig, IQN, Some(access([host("good"), host("bad")])));
        if round % 4 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        set_access(&rig, IQN, Some(access([host("good")])));
        // What is entered and not in yet sees the new rules in a moment.
        let connected = on_core(rig.server(), |targets| async move { targets.connections().await });
        let bad = connected.iter().filter(|info| info.initiator.ends_with("bad")).count();
        assert_eq!(bad, 0, "round {round}: {connected:?}");
    }
    stops.store(true, Ordering::Relaxed);
    let got_in: u32 = tries.into_iter().map(|each| each.join().unwrap()).sum();
    assert!(got_in > 0, "there was something to slip through");
    good.expect_alive();
    wait_until("the others have gone", || rig.server().sessions() == 1);
}

#[test]
fn rules_that_cannot_be_change_nothing() {
    let rig = ruled([host("a")]);
    let mut a = rig.ready("a");
    let set = |iqn: &'static str, access: Access| {
        on_core(
            rig.server(),
            move |targets| async move { targets.set_access(iqn, Some(access)).await },
        )
    };
    let twice = Access { users: vec![user("alice"), user("alice")], ..access([]) };
    assert!(matches!(set(IQN, twice), Err(TargetError::Access(_))));
    let same = Access { mutual: Some(user("alice")), ..access([]) };
    assert!(matches!(set(IQN, same), Err(TargetError::Access(_))));
    assert!(matches!(set(SECOND, access([])), Err(TargetError::Unknown(_))));
    assert!(matches!(set("second", access([])), Err(TargetError::Name { .. })));
    a.expect_alive();
}

/// A disk that hangs does not keep a host connected, nor let it do more.
#[test]
fn a_hung_disk_is_said_and_the_host_is_gone_all_the_same() {
    let (disk, device) = faulty();
    let mut config = config([device]);
    config.targets[0].access = Some(access([host("a")]));
    let rig = Rig::start(config);
    let mut a = rig.ready("a");
    disk.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
    a.issue(&Command::write(0, &[1; 512]).immediate_data());
    wait_until("the write is at the disk", || disk.held() == 1);
    let change =
        |targets: target::Targets| async move { targets.set_access(IQN, Some(access([]))).await };
    let late = on_core(rig.server(), change);
    assert!(matches!(late, Err(TargetError::Busy(_))), "{late:?}");
    expect_ended(&mut a);
    disk.release();
    wait_until("the session is over", || rig.server().sessions() == 0);
}
