//! Who may do what: rules over user, name and address, at login, at discovery, for further connections of a
//! session, and for a second host.

use std::time::Duration;

use iscsi::chap::{Credentials, InitiatorChap};
use iscsi::pdu::LogoutReason;
use target::{Access, AccessRule};

use crate::common::{
    ByHand, Connection, IQN, Login, NoLogin, Rig, UNAUTHORIZED, UNAVAILABLE, UNPROVED, WHERE, WHO,
    access, as_user, at, config, host, ram, set_access, target_of, user, wait_until,
};

/// A server of one target with these rules, on two cores.
fn ruled(access: Access) -> Rig {
    let mut config = config([ram()]);
    config.targets[0].access = Some(access);
    config.cores = 2;
    Rig::start(config)
}

/// What becomes of a login.
fn outcome(rig: &Rig, login: &Login) -> Result<(), NoLogin> {
    login.connect(rig.portal()).map(|mut session| {
        session.logout(LogoutReason::CLOSE_SESSION, 0);
    })
}

/// A host, the last byte of its address, what it proves, and what becomes of it.
type Row<'a> = (&'a str, u8, Option<Credentials>, &'a Result<(), NoLogin>);

#[test]
fn who_may_do_what() {
    let rig = ruled(access([
        AccessRule { chap_user: as_user("alice"), ..host("a") },
        AccessRule { chap_user: as_user("bob"), from: at("127.0.0.2"), ..AccessRule::anyone() },
        host("free"),
        AccessRule { from: at("127.0.0.3/32"), ..host("mixed") },
        AccessRule { chap_user: as_user("alice"), from: at("127.0.*.*"), ..host("both") },
        AccessRule { chap_user: as_user("lost"), ..host("lost") },
    ]));
    let guess = |name: &str| Credentials::new(name, "a wrong secret").unwrap();
    let (in_, unproved, unauthorized) = (Ok(()), Err(UNPROVED), Err(UNAUTHORIZED));
    let table: [Row<'_>; 22] = [
        ("free", 1, None, &in_),
        ("free", 1, Some(user("alice")), &in_),
        ("free", 1, Some(user("carol")), &in_),
        ("free", 1, Some(guess("alice")), &unproved),
        ("free", 1, Some(user("dave")), &unproved),
        ("a", 1, Some(user("alice")), &in_),
        ("a", 1, None, &unproved),
        ("a", 1, Some(guess("alice")), &unproved),
        ("a", 1, Some(user("bob")), &unproved),
        ("a", 1, Some(user("carol")), &unproved),
        ("a", 2, Some(user("alice")), &in_),
        ("a", 2, Some(user("bob")), &in_),
        ("other", 2, Some(user("bob")), &in_),
        ("other", 2, Some(user("alice")), &unproved),
        ("other", 2, None, &unproved),
        ("other", 1, Some(user("bob")), &unauthorized),
        ("other", 1, None, &unauthorized),
        ("mixed", 3, None, &in_),
        ("mixed", 1, None, &unauthorized),
        ("both", 3, Some(user("alice")), &in_),
        ("both", 3, None, &unproved),
        ("lost", 1, Some(user("lost")), &unproved),
    ];
    for (name, from, proof, expected) in table {
        let mut login = Login::new(name).from(from);
        let shown = format!("{name} from .{from} as {proof:?}");
        if let Some(proof) = proof {
            login = login.with(proof);
        }
        assert_eq!(outcome(&rig, &login), *expected, "{shown}");
    }
    set_access(&rig, IQN, Some(Access::nobody()));
    assert_eq!(outcome(&rig, &Login::new("free")), Err(UNAUTHORIZED), "no rule is for nobody");
    set_access(&rig, IQN, None);
    assert_eq!(outcome(&rig, &Login::new("other")), Ok(()), "the server's rules are for everyone");
}

/// All that is answered to `user` with this response, byte by byte; but for the challenge, which is random.
fn answers(rig: &Rig, user: &str, response: &str) -> Vec<Vec<u8>> {
    let mut stranger = ByHand::in_security(rig.portal());
    let texts: [&[&str]; 3] = [
        &[WHO, WHERE, "AuthMethod=CHAP"],
        &["CHAP_A=5"],
        &[&format!("CHAP_N={user}"), &format!("CHAP_R={response}")],
    ];
    let mut answers = Vec::new();
    for text in texts {
        let text = text.iter().map(|pair| format!("{pair}\0")).collect::<String>();
        let bhs = stranger.request.to_bhs();
        stranger.connection.send(&bhs, text.as_bytes());
        let reply = stranger.connection.receive();
        answers.push(reply.bhs.bytes().to_vec());
        let text = String::from_utf8(reply.data).unwrap();
        let pairs = text.split('\0').filter(|pair| !pair.starts_with("CHAP_"));
        answers.push(pairs.collect::<String>().into_bytes());
    }
    stranger.connection.expect_closed();
    answers
}

#[test]
fn nobody_learns_which_users_there_are() {
    let rig = ruled(access([AccessRule { chap_user: as_user("alice"), ..host("host") }]));
    let zeros = format!("0x{}", "00".repeat(16));
    let mut wrong = answers(&rig, "alice", &zeros);
    // How long the challenge is written depends on its identifier alone.
    let mut others: Vec<_> = ["carol", "dave", "al"].map(|name| answers(&rig, name, &zeros)).into();
    for answer in others.iter_mut().chain([&mut wrong]) {
        let challenge = &mut answer[2];
        challenge[5..8].fill(0);
    }
    assert_eq!(wrong[4][36..38], [2, 1], "authentication failure");
    for answer in others {
        assert_eq!(answer, wrong, "known elsewhere, unknown, shorter");
    }
}

#[test]
fn each_connection_and_each_successor_of_a_session_proves_itself() {
    let rig = ruled(access([
        AccessRule { chap_user: as_user("alice"), from: at("127.0.0.1"), ..host("host") },
        AccessRule { chap_user: as_user("bob"), from: at("127.0.0.2"), ..AccessRule::anyone() },
    ]));
    let portal = rig.portal();
    let login = Login::new("host").from(1).proving("alice");
    let mut first = login.connect(portal).unwrap();
    first.take_attentions(0);
    let refused = |login: Login| login.connect(portal).err();
    let without = Login { chap: None, ..login.clone() };
    assert_eq!(refused(without.joining(&first, 1)), Some(UNPROVED));
    assert_eq!(refused(login.clone().proving("bob").joining(&first, 1)), Some(UNPROVED));
    assert_eq!(refused(login.clone().from(3).joining(&first, 1)), Some(UNAUTHORIZED));
    // To begin anew takes as much: nobody ends a session in another's name.
    assert_eq!(refused(without), Some(UNPROVED));
    assert_eq!(refused(login.clone().from(3)), Some(UNAUTHORIZED));
    first.expect_alive();
    // Another user, whom the rules let in, is not the one whose session it is.
    let other = login.clone().from(2).proving("bob");
    assert_eq!(refused(other.joining(&first, 1)), Some(UNAVAILABLE));
    let mut second = login.joining(&first, 1).connect(portal).unwrap();
    second.expect_alive();
    let mut anew = login.connect(portal).unwrap();
    first.expect_closed();
    anew.take_attentions(0);
}

/// Names and ports of hosts are no secrets, and TSIHs can be guessed: who knows them, and has a user of its own
/// that may use the same target, came into the session of another user, or ended it.
#[test]
fn a_session_is_of_the_user_that_began_it() {
    let rig = ruled(access([AccessRule::user("alice"), AccessRule::user("bob"), host("free")]));
    let portal = rig.portal();
    let refused = |login: &Login| login.connect(portal).err();
    let (bob, eve) = (Login::new("host").proving("bob"), Login::new("host").proving("alice"));
    let mut first = bob.connect(portal).unwrap();
    first.take_attentions(0);
    // As one more connection, as the successor of one, and as that of the session.
    for other in [eve.joining(&first, 1), eve.joining(&first, 0), eve.clone()] {
        assert_eq!(refused(&other), Some(UNAVAILABLE));
    }
    first.expect_alive();
    assert_eq!(rig.server().sessions(), 1);
    // Who need not prove anything is another than who did.
    let (unproved, proved) = (Login::new("free"), Login::new("free").proving("alice"));
    let mut free = unproved.connect(portal).unwrap();
    free.take_attentions(0);
    for other in [proved.joining(&free, 1), proved.clone()] {
        assert_eq!(refused(&other), Some(UNAVAILABLE));
    }
    free.expect_alive();
    // Its own user goes on, and who has logged out is in nobody's way.
    let mut second = bob.joining(&first, 1).connect(portal).unwrap();
    second.expect_alive();
    let mut anew = bob.connect(portal).unwrap();
    first.expect_closed();
    anew.logout(LogoutReason::CLOSE_SESSION, 0);
    eve.connect(portal).unwrap().take_attentions(0);
    free.logout(LogoutReason::CLOSE_SESSION, 0);
    proved.connect(portal).unwrap().take_attentions(0);
}

/// What discovery shows.
fn shown(rig: &Rig, login: Login) -> Vec<String> {
    let finder = Login { target: None, ..login };
    let text = finder.connect(rig.portal()).unwrap().text("SendTargets=All");
    let last = |name: String| name.rsplit(':').next().unwrap().to_owned();
    let names = text.into_iter().filter(|(key, _)| key == "TargetName");
    names.map(|(_, name)| last(name)).collect()
}

const A: &str = "iqn.2026-11.dev.drystone:a";

#[test]
fn discovery_shows_a_host_what_it_may_use() {
    let targets = [
        ("a", AccessRule::user("alice")),
        ("b", AccessRule { chap_user: as_user("bob"), ..host("finder") }),
        ("c", host("finder")),
        ("d", host("other")),
        ("e", AccessRule { from: at("127.0.0.9"), ..AccessRule::anyone() }),
    ];
    let serve = |own: Access| {
        let mut config = config([ram()]);
        config.access = own;
        let spec = |(name, rule): &(&str, AccessRule)| {
            let mut spec = target_of(&format!("iqn.2026-11.dev.drystone:{name}"), [ram()]);
            spec.access = Some(access([rule.clone()]));
            spec
        };
        config.targets = targets.iter().map(spec).collect();
        Rig::start(config)
    };
    let finder = || Login::new("finder").from(1);
    let rig = serve(Access::everyone());
    assert_eq!(
        shown(&rig, finder()),
        ["b", "c"],
        "its name fits, it may be a user: not whoever comes"
    );
    assert_eq!(shown(&rig, finder().proving("alice")), ["a", "c"], "it sees what it has proved");
    assert_eq!(
        shown(&rig, finder().proving("carol")),
        ["c"],
        "a right user of no list loses nothing"
    );
    assert_eq!(shown(&rig, Login::new("other").from(1)), ["d"]);
    assert_eq!(shown(&rig, Login::new("third").from(9)), ["e"]);
    let wrong = Credentials::new("alice", "a wrong secret").unwrap();
    assert_eq!(cannot_discover(&rig, finder().with(wrong)), Some(UNPROVED));
    // By name, too, and as the rules are when it asks.
    let asks = Login { target: None, ..finder().proving("alice") };
    let mut session = asks.connect(rig.portal()).unwrap();
    assert_eq!(session.text(&format!("SendTargets={A}")).len(), 2);
    set_access(&rig, A, Some(access([host("other")])));
    assert_eq!(session.text(&format!("SendTargets={A}")), []);

    let rig = serve(access([AccessRule::user("alice"), AccessRule::user("bob")]));
    assert_eq!(shown(&rig, finder().proving("alice")), ["a", "c"]);
    assert_eq!(shown(&rig, finder().proving("bob")), ["b", "c"]);
    assert_eq!(shown(&rig, finder()), ["b", "c"], "it may prove more when it logs in");
    assert_eq!(shown(&rig, Login::new("other").from(1)), ["d"]);
    assert_eq!(shown(&rig, Login::new("third").from(9)), ["e"]);
    assert_eq!(cannot_discover(&rig, Login::new("third").from(1)), Some(UNPROVED));
}

/// A user that no list names, and so no target knows.
#[test]
fn a_right_user_that_is_on_no_list_discovers_what_its_name_lets_it_use() {
    let serve = |discovery: Option<Access>| {
        let mut config = config([ram()]);
        (config.access, config.discovery) = (Access::nobody(), discovery);
        let bobs = AccessRule { chap_user: as_user("bob"), ..host("finder") };
        let lists = [
            ("bobs", bobs, vec![user("bob")]),
            ("named", host("finder"), Vec::new()),
            ("proved", AccessRule::user("bob"), vec![user("bob")]),
        ];
        let spec = |(name, rule, users)| {
            let mut spec = target_of(&format!("iqn.2026-11.dev.drystone:{name}"), [ram()]);
            spec.access = Some(Access { users, ..access([rule]) });
            spec
        };
        config.targets = lists.map(spec).into();
        Rig::start(config)
    };
    for discovery in [Some(Access::everyone()), None] {
        let rig = serve(discovery);
        let finder = || Login::new("finder");
        assert_eq!(shown(&rig, finder()), ["bobs", "named"]);
        let dave = || finder().proving("dave");
        assert_eq!(cannot_discover(&rig, dave()), Some(UNPROVED), "it is not known yet");
        rig.server().targets().set_known_users(vec![user("bob"), user("dave")]);
        assert_eq!(shown(&rig, dave()), ["named"]);
        assert_eq!(shown(&rig, finder().proving("bob")), ["bobs", "named", "proved"]);
        let wrong = Credentials::new("dave", "a wrong secret").unwrap();
        assert_eq!(cannot_discover(&rig, finder().with(wrong)), Some(UNPROVED));
        // By such a proof alone it comes in nowhere.
        let target = Some("iqn.2026-11.dev.drystone:proved".to_owned());
        assert!(Login { target, ..dave() }.connect(rig.portal()).is_err());
    }
}

fn cannot_discover(rig: &Rig, login: Login) -> Option<NoLogin> {
    Login { target: None, ..login }.connect(rig.portal()).err()
}

/// A server whose rule knows an alice by a secret of its own.
fn server_of_two_alices() -> Rig {
    let mut config = config([ram()]);
    let own = Credentials::new("alice", "hers at the server").unwrap();
    config.access =
        Access::uniform(vec![AccessRule::from(at("127.0.0.1").unwrap())], Some(own), None);
    let lists = [
        ("general", None),
        ("hers", Some(AccessRule::user("alice"))),
        ("free", Some(host("free"))),
    ];
    let spec = |(name, rule): (&str, Option<AccessRule>)| {
        let mut spec = target_of(&format!("iqn.2026-11.dev.drystone:{name}"), [ram()]);
        spec.access = rule.map(|rule| access([rule]));
        spec
    };
    config.targets = lists.into_iter().map(spec).collect();
    Rig::start(config)
}

#[test]
fn a_user_of_the_server_and_one_of_a_target_are_two_though_they_have_one_name() {
    let rig = server_of_two_alices();
    let by = |secret: &str, name: &str| {
        let chap = InitiatorChap::new(Credentials::new("alice", secret).unwrap(), None).unwrap();
        Login { chap: Some(chap), ..Login::new(name).from(1) }
    };
    let as_own = |name: &str| by("hers at the server", name);
    assert_eq!(shown(&rig, as_own("a")), ["general"]);
    assert_eq!(shown(&rig, as_own("free")), ["free", "general"]);
    // Whom only a list lets in comes from anywhere, and proves what the list wants.
    assert_eq!(shown(&rig, Login::new("a").from(2).proving("alice")), ["hers"]);
    assert_eq!(shown(&rig, Login::new("free").from(2)), ["free"]);
    for stranger in [
        Login::new("a").from(1),
        Login::new("a").from(2),
        Login::new("a").from(2).proving("bob"),
        by("a wrong secret", "a"),
        as_own("a").from(2),
    ] {
        assert_eq!(cannot_discover(&rig, stranger), Some(UNPROVED));
    }
    let hers = "iqn.2026-11.dev.drystone:hers";
    set_access(&rig, hers, Some(access([host("other")])));
    assert_eq!(cannot_discover(&rig, Login::new("a").from(2)), Some(UNAUTHORIZED));
}

/// Another port of the host that `Login::new(name)` is.
fn another_path(name: &str) -> Login {
    Login { isid: [0x80, 0, 0, 1, 0, 1], ..Login::new(name) }
}

#[test]
fn a_second_host_waits_until_the_first_has_gone() {
    let rig = ruled(Access { rules: vec![AccessRule::anyone()], ..Access::nobody() });
    let connect = |login: Login| login.connect(rig.portal());
    let mut first = connect(Login::new("first")).unwrap();
    let mut path = connect(another_path("first")).unwrap();
    assert_eq!(connect(Login::new("second")).err(), Some(UNAUTHORIZED));
    // It may come back, which ends its own session and lets nobody in between.
    let mut again = connect(Login::new("first")).unwrap();
    first.expect_closed();
    assert_eq!(connect(Login::new("second")).err(), Some(UNAUTHORIZED));
    again.logout(LogoutReason::CLOSE_SESSION, 0);
    assert_eq!(connect(Login::new("second")).err(), Some(UNAUTHORIZED), "one path is left");
    path.logout(LogoutReason::CLOSE_SESSION, 0);
    path.expect_closed();
    wait_until("both have gone", || rig.server().sessions() == 0);
    let mut second = connect(Login::new("second")).unwrap();
    assert_eq!(connect(Login::new("first")).err(), Some(UNAUTHORIZED));
    // Shared, they live together, and go on to do so when it is not shared any more.
    set_access(&rig, IQN, Some(Access::everyone()));
    let mut first = connect(Login::new("first")).unwrap();
    let alone = Access { shared: false, ..Access::everyone() };
    assert_eq!(set_access(&rig, IQN, Some(alone)), 0);
    assert_eq!(connect(Login::new("third")).err(), Some(UNAUTHORIZED));
    first.take_attentions(0);
    second.take_attentions(0);
}

#[test]
fn of_many_hosts_at_once_one_gets_in() {
    let rig = ruled(Access { rules: vec![AccessRule::anyone()], ..Access::nobody() });
    let portal = rig.portal();
    for _ in 0..20 {
        let tries = ["a", "b", "c", "d"]
            .map(|name| std::thread::spawn(move || Login::new(name).connect(portal)));
        let mut in_: Vec<Connection> =
            tries.into_iter().filter_map(|each| each.join().unwrap().ok()).collect();
        assert_eq!((in_.len(), rig.server().sessions()), (1, 1));
        in_[0].logout(LogoutReason::CLOSE_SESSION, 0);
        wait_until("it has gone", || rig.server().sessions() == 0);
    }
}

#[test]
fn a_host_that_died_is_in_the_way_no_longer_than_its_session_lasts() {
    let mut config = config([ram()]);
    config.targets[0].access = Some(Access { shared: false, ..Access::everyone() });
    config.limits.nop_interval = Duration::from_millis(200);
    config.limits.nop_timeout = Duration::from_millis(200);
    let rig = Rig::start(config);
    let dead = Login::new("dead").connect(rig.portal()).unwrap();
    assert_eq!(Login::new("next").connect(rig.portal()).err(), Some(UNAUTHORIZED));
    wait_until("the next one gets in", || Login::new("next").connect(rig.portal()).is_ok());
    drop(dead);
}
