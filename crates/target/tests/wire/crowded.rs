//! Hosts have as many connections as the server is told they may have.

use iscsi::pdu::LoginStatus;
use target::CrowdedOut;

use crate::common::{IQN, Login, NoLogin, Rig, config, ram, wait_until};

fn refused() -> Option<NoLogin> {
    Some(NoLogin::Refused(LoginStatus::OUT_OF_RESOURCES))
}

/// Who was refused since the last question, and how often.
fn told(rig: &Rig) -> Vec<(String, u64)> {
    let all: Vec<CrowdedOut> = rig.server().targets().take_crowded_out();
    assert!(all.iter().all(|out| out.target.as_deref() == Some(IQN)));
    let named =
        |out: CrowdedOut| (out.initiator.as_deref().unwrap_or_default().to_owned(), out.count);
    let mut named: Vec<_> = all.into_iter().map(named).collect();
    named.sort();
    named
}

#[test]
fn a_login_beyond_the_limit_is_out_of_resources_and_told_of() {
    let rig = Rig::start(config([ram()]));
    let targets = rig.server().targets();
    targets.set_connections_max(2);
    let a = Login::new("a").connect(rig.portal()).unwrap();
    let _b = Login::new("b").connect(rig.portal()).unwrap();
    assert_eq!(targets.connections_taken(), 2);
    for _ in 0..3 {
        assert_eq!(Login::new("c").connect(rig.portal()).err(), refused());
    }
    assert_eq!(told(&rig), [("iqn.2026-11.example:c".to_owned(), 3)]);
    assert_eq!(told(&rig), []);
    assert_eq!((rig.server().sessions(), targets.connections_taken()), (2, 2), "nothing is kept");
    Login::discovery().connect(rig.portal()).expect("that sees no data");
    assert_eq!(targets.connections_taken(), 2);
    drop(a);
    wait_until("a has gone", || targets.connections_taken() == 1);
    let c = Login::new("c").connect(rig.portal()).expect("there is a place");
    targets.set_connections_max(0);
    assert_eq!(Login::new("d").connect(rig.portal()).err(), refused());
    assert_eq!(targets.connections_taken(), 2, "who is there stays");
    drop(c);
}

#[test]
fn a_host_that_comes_back_to_its_session_is_let_in_at_the_limit() {
    let rig = Rig::two_cores();
    let targets = rig.server().targets();
    let host = Login::new("host");
    let mut first = host.connect(rig.portal()).unwrap();
    let second = host.joining(&first, 1).connect(rig.portal()).unwrap();
    targets.set_connections_max(2);
    assert_eq!(host.joining(&first, 2).connect(rig.portal()).err(), refused());
    assert_eq!(told(&rig), [("iqn.2026-11.example:host".to_owned(), 1)]);
    // A connection in the place of one that the session has.
    let again = host.joining(&first, 1).connect(rig.portal()).expect("it adds nothing");
    assert_eq!(targets.connections_taken(), 2);
    // And a session in the place of the host's own.
    let _anew = host.connect(rig.portal()).expect("it takes the place of one");
    first.expect_closed();
    drop((second, again));
    wait_until("one place is free", || targets.connections_taken() == 1);
    assert_eq!(told(&rig), []);
    let _other = Login::new("other").connect(rig.portal()).expect("there is a place");
    assert_eq!(Login::new("third").connect(rig.portal()).err(), refused());
}

/// So that who may log in somewhere cannot keep all others out.
#[test]
fn one_address_has_as_many_as_one_may_have_and_comes_back_to_those() {
    let rig = Rig::start(config([ram()]));
    let targets = rig.server().targets();
    targets.set_connections_max(10);
    targets.set_connections_of_one_max(2);
    let mut a = Login::new("a").connect(rig.portal()).unwrap();
    let b = Login::new("b").connect(rig.portal()).unwrap();
    assert_eq!(Login::new("c").connect(rig.portal()).err(), refused());
    assert_eq!(Login::new("a").joining(&a, 1).connect(rig.portal()).err(), refused());
    let told = targets.take_crowded_out();
    assert!(told.len() == 2 && told.iter().all(|out| out.is_of_one), "{told:?}");
    let _again = Login::new("a").connect(rig.portal()).expect("it is its own");
    a.expect_closed();
    drop(b);
    wait_until("b has gone", || targets.connections_taken() == 1);
    let _c = Login::new("c").connect(rig.portal()).expect("there is a place");
    targets.set_connections_max(2);
    assert_eq!(Login::new("d").connect(rig.portal()).err(), refused());
    let told = targets.take_crowded_out();
    assert!(told.len() == 1 && !told[0].is_of_one, "all are taken: {told:?}");
}

/// Whoever comes at the same moment, on whichever core: no more are let in than there may be.
#[test]
fn hosts_that_come_at_once_are_let_in_up_to_the_limit() {
    let rig = Rig::two_cores();
    let (portal, targets) = (rig.portal(), rig.server().targets());
    targets.set_connections_max(5);
    let logins: Vec<_> = (0..16)
        .map(|number| std::thread::spawn(move || Login::new(&format!("h{number}")).connect(portal)))
        .collect();
    let results: Vec<_> = logins.into_iter().map(|login| login.join().unwrap()).collect();
    let in_number = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!((in_number, targets.connections_taken()), (5, 5));
    let count: u64 = told(&rig).into_iter().map(|(_, count)| count).sum();
    assert_eq!(count, 11, "each that was refused is told of");
}
