//! Which rules are for whom, and what they ask.

use std::net::IpAddr;

use iscsi::chap::{AuthPolicy, Credentials};

use super::{Access, AccessError, AccessRule, Proved, Rules};

const HOST: &str = "iqn.2026-11.example:host";

fn here() -> IpAddr {
    [127, 0, 0, 1].into()
}

fn user(name: &str) -> Credentials {
    Credentials::new(name, format!("the secret of {name}")).expect("good credentials")
}

fn rules(rules: Vec<AccessRule>) -> Rules {
    let users = vec![user("alice"), user("bob")];
    Rules::new(Access { rules, users, ..Access::nobody() }).expect("good rules")
}

/// The users that may log in; `None` if nobody may, whatever it proves.
fn asks(rules: &Rules) -> Option<(&'static str, Vec<String>)> {
    let names = |policy: &iscsi::chap::ChapPolicy| {
        policy.users().iter().map(|user| user.user().to_owned()).collect()
    };
    Some(match rules.auth(HOST, here())? {
        AuthPolicy::None => ("none", Vec::new()),
        AuthPolicy::Optional(policy) => ("optional", names(&policy)),
        AuthPolicy::Chap(policy) => ("chap", names(&policy)),
    })
}

#[test]
fn names_match_in_any_case_and_all_parts_must() {
    let rule = AccessRule::initiator(HOST);
    assert!(rule.fits("IQN.2026-11.example:HOST", here()));
    assert!(!rule.fits("iqn.2026-11.example:host2", here()));
    let both = AccessRule { from: Some(IpAddr::from([10, 0, 0, 1]).into()), ..rule };
    assert!(!both.fits(HOST, here()));
    assert!(both.fits(HOST, [10, 0, 0, 1].into()));
    assert!(!both.fits("iqn.2026-11.example:host2", [10, 0, 0, 1].into()));
}

#[test]
fn no_rule_is_for_nobody() {
    assert_eq!(asks(&rules(Vec::new())), None);
    assert_eq!(asks(&rules(vec![AccessRule::initiator("iqn.2026-11.example:other")])), None);
    assert!(!rules(Vec::new()).admits(HOST, here(), None));
}

#[test]
fn one_rule_without_a_user_suffices() {
    let (alice, open) = (AccessRule::user("alice"), AccessRule::initiator(HOST));
    assert_eq!(asks(&rules(vec![alice.clone()])), Some(("chap", vec!["alice".into()])));
    let both = rules(vec![alice, open]);
    assert_eq!(asks(&both), Some(("optional", vec!["alice".into(), "bob".into()])));
    assert!(both.admits(HOST, here(), None) && both.admits(HOST, here(), Some(&user("bob"))));
    let everyone = Rules::new(Access::everyone()).unwrap();
    assert_eq!(asks(&everyone), Some(("none", Vec::new())));
    assert!(everyone.is_shared && everyone.admits(HOST, here(), None));
}

#[test]
fn what_was_proved_must_still_hold() {
    let alices = rules(vec![AccessRule::user("alice")]);
    assert!(alices.admits(HOST, here(), Some(&user("alice"))));
    assert!(!alices.admits(HOST, here(), None));
    assert!(!alices.admits(HOST, here(), Some(&user("bob"))), "known, but of no rule");
    let former = Credentials::new("alice", "her former secret").unwrap();
    assert!(!alices.admits(HOST, here(), Some(&former)));
    let open = rules(vec![AccessRule::anyone()]);
    assert!(!open.admits(HOST, here(), Some(&former)), "she would be refused now");
}

#[test]
fn who_has_proved_nothing_yet_sees_what_its_name_or_address_fits() {
    let alices = rules(vec![AccessRule::user("alice")]);
    let hosts =
        |host: &str| AccessRule { initiator: Some(host.into()), ..AccessRule::user("alice") };
    let shows = |rule: AccessRule| rules(vec![rule]).shows(HOST, here(), Proved::NotYet);
    assert!(shows(hosts(HOST)) && !shows(hosts("iqn.2026-11.example:other")));
    let at = |from: IpAddr| AccessRule { from: Some(from.into()), ..AccessRule::user("alice") };
    assert!(shows(at(here())) && !shows(at([10, 0, 0, 1].into())));
    let (alice, bob) = (user("alice"), user("bob"));
    assert!(!alices.shows(HOST, here(), Proved::NotYet), "that may be anybody");
    assert!(alices.shows(HOST, here(), Proved::User(&alice)));
    assert!(!alices.shows(HOST, here(), Proved::User(&bob)));
}

#[test]
fn a_user_without_a_secret_is_asked_for_and_never_there() {
    let unknown = rules(vec![AccessRule::user("carol")]);
    assert_eq!(asks(&unknown), Some(("chap", Vec::new())));
    assert!(!unknown.admits(HOST, here(), Some(&user("carol"))));
}

#[test]
fn one_rule_for_all_is_what_the_options_say() {
    let places = vec![AccessRule::initiator(HOST), AccessRule::from(IpAddr::from([10, 0, 0, 1]))];
    let access = Access::uniform(places, Some(user("alice")), Some(user("disk")));
    assert!(access.rules.iter().all(|rule| rule.chap_user.as_deref() == Some("alice")));
    let uniform = Rules::new(access).unwrap();
    assert_eq!(asks(&uniform), Some(("chap", vec!["alice".into()])));
    assert!(uniform.auth("iqn.2026-11.example:other", here()).is_none());
    assert!(uniform.auth("iqn.2026-11.example:other", [10, 0, 0, 1].into()).is_some());
}

#[test]
fn rules_that_cannot_be_are_refused() {
    let twice =
        vec![user("alice"), user("bob"), Credentials::new("alice", "another secret").unwrap()];
    let refused = Rules::new(Access { users: twice, ..Access::nobody() }).unwrap_err();
    assert_eq!(refused, AccessError::UserTwice("alice".into()));
    let same = Access { mutual: Some(user("bob")), users: vec![user("bob")], ..Access::nobody() };
    assert!(matches!(Rules::new(same), Err(AccessError::Credentials(_))));
}
