//! Servers that know what others of their group serve (RFC 7143 §11.13.5, 0101h): a host may ask any of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use iscsi::pdu::LoginStatus;
use target::{Access, AccessRule, RemoteTarget, ShownTo};

use crate::common::{
    ByHand, Command, IQN, Login, NoLogin, Rig, UNAVAILABLE, WHERE, WHO, config, on_core, pattern,
    ram, target_of,
};

const OTHERS: &str = "iqn.2026-11.dev.drystone:others";
const NOT_FOUND: NoLogin = NoLogin::Refused(LoginStatus::NOT_FOUND);

/// The portal group of the servers that are only told of.
const GROUP: u16 = 77;

/// More redirections than any number of servers here may send a host through.
const ENDLESS: usize = 500;

fn to(target: &str) -> Login {
    Login { target: Some(target.to_owned()), ..Login::new("host") }
}

/// A server without targets.
fn empty() -> Rig {
    let mut config = config([ram()]);
    config.targets.clear();
    Rig::start(config)
}

/// A target that is there, of which discovery does not tell.
fn unshown(portals: &[SocketAddr]) -> RemoteTarget {
    RemoteTarget { portals: Arc::from(portals), portal_group: GROUP, shown_to: None }
}

/// One of which discovery tells whom these rules may let in.
fn shown(portals: &[SocketAddr], access: Access) -> RemoteTarget {
    let shown_to = Some(ShownTo::new(access).expect("the rules are some"));
    RemoteTarget { shown_to, ..unshown(portals) }
}

/// From now on this server knows that these targets are there, and of no others.
fn tell(rig: &Rig, targets: &[(&str, &[SocketAddr])]) {
    let place = |&(iqn, portals): &(&str, &[SocketAddr])| (iqn.to_owned(), unshown(portals));
    rig.server().targets().set_elsewhere(targets.iter().map(place).collect());
}

/// The same of one target, as it is told of.
fn tell_of(rig: &Rig, iqn: &str, remote: RemoteTarget) {
    rig.server().targets().set_elsewhere(BTreeMap::from([(iqn.to_owned(), remote)]));
}

/// What a host is told of by discovery.
fn found(rig: &Rig, which: &str) -> Vec<(String, String)> {
    Login::discovery().connect(rig.portal()).unwrap().text(which)
}

fn pair(key: &str, value: impl Into<String>) -> (String, String) {
    (key.to_owned(), value.into())
}

fn moved(portal: SocketAddr) -> Option<NoLogin> {
    Some(NoLogin::Moved { address: portal.to_string(), is_temporary: true })
}

/// Logs in as a host that follows every redirection: how many there were, and how it ended.
fn follow(login: &Login, portal: SocketAddr) -> (usize, Result<(), NoLogin>) {
    let mut at = portal;
    for followed in 0..ENDLESS {
        match login.connect(at) {
            Err(NoLogin::Moved { address, is_temporary: true }) => at = address.parse().unwrap(),
            ended => return (followed, ended.map(drop)),
        }
    }
    panic!("it is sent to and fro without end");
}

#[test]
fn a_host_is_sent_to_the_server_that_has_its_target() {
    let (asked, other) = (empty(), empty());
    other.server().targets().add(target_of(OTHERS, [ram()])).unwrap();
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), Some(NOT_FOUND), "nobody knows of it yet");
    tell(&asked, &[(OTHERS, &[other.portal()])]);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), moved(other.portal()));
    let (followed, ended) = follow(&to(OTHERS), asked.portal());
    assert_eq!((followed, ended), (1, Ok(())));
    let mut host = to(OTHERS).connect(other.portal()).unwrap();
    host.take_attentions(0);
    host.run(&Command::write(0, &pattern(512, 1)).immediate_data()).good();
    assert_eq!((asked.server().sessions(), other.server().sessions()), (0, 1));
    assert_eq!(
        to(IQN).connect(asked.portal()).err(),
        Some(NOT_FOUND),
        "of others it knows nothing"
    );
    tell(&asked, &[]);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), Some(NOT_FOUND));
}

/// Some hosts read the status and some the address.
#[test]
fn the_response_has_the_status_and_the_address_of_a_redirection() {
    let asked = empty();
    tell(&asked, &[(IQN, &["192.0.2.7:3261".parse().unwrap()])]);
    let mut by_hand = ByHand::new(asked.portal());
    let (response, text) = by_hand.say(&[WHO, WHERE]);
    assert_eq!(response.status, LoginStatus::MOVED_TEMPORARILY);
    assert_eq!(text, "TargetAddress=192.0.2.7:3261\0");
    by_hand.connection.expect_closed();
    let six = "[2001:db8::7]:3260";
    tell(&asked, &[(IQN, &[six.parse().unwrap()])]);
    let (_, text) = ByHand::new(asked.portal()).say(&[WHO, WHERE]);
    assert_eq!(text, format!("TargetAddress={six}\0"));
}

#[test]
fn what_is_served_or_known_here_is_not_looked_for_elsewhere() {
    let (asked, other) = (Rig::ram(), empty());
    tell(&asked, &[(IQN, &[other.portal()]), (OTHERS, &[other.portal()])]);
    asked.ready("host").expect_alive();
    let offline =
        |targets: target::Targets| async move { targets.set_offline(IQN, Duration::ZERO).await };
    on_core(asked.server(), offline).unwrap();
    assert_eq!(to(IQN).connect(asked.portal()).err(), Some(UNAVAILABLE), "it comes back here");
    asked.server().targets().set_incomplete(true);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), Some(UNAVAILABLE), "it may be here");
    asked.server().targets().set_incomplete(false);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), moved(other.portal()));
    let remove =
        |targets: target::Targets| async move { targets.remove(IQN, Duration::ZERO).await };
    on_core(asked.server(), remove).unwrap();
    assert_eq!(to(IQN).connect(asked.portal()).err(), moved(other.portal()), "here it is no more");
}

#[test]
fn a_target_of_a_server_that_cannot_be_reached_is_to_be_asked_for_again() {
    let asked = empty();
    tell(&asked, &[(OTHERS, &[])]);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), Some(UNAVAILABLE));
    // What is said to be here and is not would lead the host here again.
    tell(&asked, &[(OTHERS, &[asked.portal()])]);
    assert_eq!(to(OTHERS).connect(asked.portal()).err(), Some(UNAVAILABLE));
}

#[test]
fn discovery_tells_of_nothing_elsewhere_that_is_shown_to_nobody() {
    let (asked, other) = (Rig::ram(), empty());
    let before = Login::discovery().connect(asked.portal()).unwrap().text("SendTargets=All");
    tell(&asked, &[(OTHERS, &[other.portal()])]);
    let mut finder = Login::discovery().connect(asked.portal()).unwrap();
    assert_eq!(finder.text("SendTargets=All"), before);
    assert_eq!(finder.text(&format!("SendTargets={OTHERS}")), []);
}

#[test]
fn discovery_tells_of_what_others_serve_behind_what_is_here() {
    let asked = Rig::ram();
    let here = found(&asked, "SendTargets=All");
    let portals: Vec<SocketAddr> =
        ["192.0.2.7:3260", "[2001:db8::7]:3261"].map(|it| it.parse().unwrap()).into();
    // What means another place to the host is left out.
    let all = [portals.clone(), vec!["169.254.0.1:3260".parse().unwrap(), asked.portal()]].concat();
    tell_of(&asked, OTHERS, shown(&all, Access::everyone()));
    let others = [
        pair("TargetName", OTHERS),
        pair("TargetAddress", format!("192.0.2.7:3260,{GROUP}")),
        pair("TargetAddress", format!("[2001:db8::7]:3261,{GROUP}")),
    ];
    assert_eq!(found(&asked, "SendTargets=All"), [here, others.to_vec()].concat());
    assert_eq!(found(&asked, &format!("SendTargets={OTHERS}")), others);
    // Who uses a target is told of that one alone.
    let mut user = asked.ready("host");
    let own = user.text(&format!("SendTargets={OTHERS}"));
    assert_eq!(own, [pair("SendTargets", "Reject")]);
}

#[test]
fn a_server_without_targets_tells_hosts_of_what_others_serve() {
    let mut config = config([ram()]);
    config.targets.clear();
    config.access = Access::nobody();
    let asked = Rig::start(config);
    let nobody = Login::discovery().connect(asked.portal()).err();
    assert!(matches!(nobody, Some(NoLogin::Refused(_))), "{nobody:?}");
    let portals = ["192.0.2.7:3260".parse().unwrap()];
    let mut access = Access::nobody();
    let login = Login { target: None, ..Login::new("host") };
    access.rules = vec![AccessRule::initiator(login.initiator.clone())];
    tell_of(&asked, OTHERS, shown(&portals, access));
    let all = login.connect(asked.portal()).unwrap().text("SendTargets=All");
    assert_eq!(all.first(), Some(&pair("TargetName", OTHERS)));
    let other = Login::discovery().connect(asked.portal()).err();
    assert!(matches!(other, Some(NoLogin::Refused(_))), "it is for another host: {other:?}");
}

#[test]
fn discovery_tells_of_none_by_a_name_that_is_known_here_or_whose_group_or_place_is_not() {
    let asked = Rig::ram();
    let here = found(&asked, "SendTargets=All");
    let portals = ["192.0.2.7:3260".parse().unwrap()];
    let everyone = || shown(&portals, Access::everyone());
    tell_of(&asked, IQN, everyone());
    assert_eq!(found(&asked, "SendTargets=All"), here, "it is here");
    assert_eq!(found(&asked, &format!("SendTargets={IQN}")), here);
    tell_of(&asked, OTHERS, RemoteTarget { portal_group: 0, ..everyone() });
    assert_eq!(found(&asked, "SendTargets=All"), here);
    tell_of(&asked, OTHERS, RemoteTarget { portals: Arc::from([]), ..everyone() });
    assert_eq!(found(&asked, "SendTargets=All"), here, "its server is away");
    tell_of(&asked, OTHERS, everyone());
    asked.server().targets().set_incomplete(true);
    assert_eq!(found(&asked, "SendTargets=All"), here, "it may be one of those here");
    asked.server().targets().set_incomplete(false);
    assert_ne!(found(&asked, "SendTargets=All"), here);
}

/// The other server lost the target, or never had it: it is the one that knows.
#[test]
fn old_news_of_one_server_ends_at_the_other() {
    let (asked, other) = (empty(), empty());
    tell(&asked, &[(OTHERS, &[other.portal()])]);
    assert_eq!(follow(&to(OTHERS), asked.portal()), (1, Err(NOT_FOUND)));
}

/// Each believes that the other has it.
#[test]
fn a_host_that_is_sent_to_and_fro_is_asked_to_wait_before_long() {
    let (one, other) = (empty(), empty());
    tell(&one, &[(OTHERS, &[other.portal()]), (IQN, &[other.portal()])]);
    tell(&other, &[(OTHERS, &[one.portal()])]);
    let (followed, ended) = follow(&to(OTHERS), one.portal());
    assert_eq!(ended, Err(UNAVAILABLE), "after {followed}");
    assert!(followed <= 64, "{followed}");
    // No other host and no other target is concerned.
    assert_eq!(to(OTHERS).from(9).connect(one.portal()).err(), moved(other.portal()));
    assert_eq!(to(IQN).connect(one.portal()).err(), moved(other.portal()));
    // It is where it is as soon as somebody has it.
    other.server().targets().add(target_of(OTHERS, [ram()])).unwrap();
    to(OTHERS).connect(other.portal()).unwrap();
    assert_eq!(follow(&to(OTHERS).from(9), one.portal()), (1, Ok(())));
}

/// A host with all of its paths, and others behind the same address.
#[test]
fn a_host_may_log_in_by_many_sessions_at_once() {
    let (asked, other) = (empty(), empty());
    other.server().targets().add(target_of(OTHERS, [ram()])).unwrap();
    tell(&asked, &[(OTHERS, &[other.portal()])]);
    for number in 0..16 {
        let login = Login { isid: [0x80, 0, 0, 2, 0, number], ..to(OTHERS) };
        assert_eq!(follow(&login, asked.portal()), (1, Ok(())), "{number}");
    }
}

/// Names are many where each member has its thousands of volumes.
#[test]
fn thousands_of_targets_of_others_are_told_apart() {
    let asked = empty();
    let portal = |number: u32| SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 3260));
    let name = |number: u32| format!("{OTHERS}-{number}");
    let everyone = ShownTo::new(Access::everyone()).unwrap();
    let remote =
        |number| RemoteTarget { shown_to: Some(everyone.clone()), ..unshown(&[portal(number)]) };
    let all: BTreeMap<String, RemoteTarget> =
        (0..5000).map(|number| (name(number), remote(number))).collect();
    asked.server().targets().set_elsewhere(all);
    for number in [0, 1, 255, 256, 4999] {
        assert_eq!(to(&name(number)).connect(asked.portal()).err(), moved(portal(number)));
    }
    assert_eq!(to(&name(5000)).connect(asked.portal()).err(), Some(NOT_FOUND));
    let told = found(&asked, "SendTargets=All");
    let names = told.iter().filter(|(key, _)| key == "TargetName").count();
    assert_eq!((names, told.len()), (5000, 10_000));
}
