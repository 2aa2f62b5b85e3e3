//! What whoever runs the server hears of logins.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use iscsi::chap::Credentials;
use iscsi::pdu::{LogoutReason, TaskFunction, TaskResult};
use target::{
    Access, AccessEvent, AccessListener, AccessRule, Happened, REFUSALS_TOLD_MAX, RefusalKind, Who,
};

use crate::common::{
    Command, Connection, IQN, Login, Rig, UNAUTHORIZED, UNAVAILABLE, UNPROVED, access, config,
    host, mode_select, mode_sense, pattern, ram, set_access, test_unit_ready, wait_until,
};

/// Keeps what it hears.
#[derive(Debug, Default)]
struct Record(Mutex<Vec<Happened>>);

impl AccessListener for Record {
    fn hear(&self, event: &AccessEvent) {
        assert!(event.at.elapsed().is_ok(), "it was before now");
        self.0.lock().unwrap().push(event.what.clone());
    }
}

impl Record {
    /// The next event that is there, once it is.
    fn next(&self) -> Happened {
        wait_until("something is heard", || !self.0.lock().unwrap().is_empty());
        self.0.lock().unwrap().remove(0)
    }
}

fn recorded(access: Access) -> (Rig, Arc<Record>) {
    let record = Arc::new(Record::default());
    let mut config = config([ram()]);
    config.cores = 2;
    config.targets[0].access = Some(access);
    config.listener = Some(record.clone());
    (Rig::start(config), record)
}

/// Initiator, CHAP user and target of an event.
fn names(who: &Who) -> (Option<&str>, Option<&str>, Option<&str>) {
    (who.initiator.as_deref(), who.chap_user.as_deref(), who.target.as_deref())
}

#[test]
fn logins_refusals_and_ends_are_heard() {
    let (rig, record) =
        recorded(Access { shared: false, ..access([AccessRule::user("alice"), host("free")]) });
    let refused = || match record.next() {
        Happened::Refused { who, why, reason } => (who, why, reason),
        other => panic!("{other:?}"),
    };
    let ended = || match record.next() {
        Happened::Ended { who, reason, .. } => (who, reason),
        other => panic!("{other:?}"),
    };

    let login = Login::new("a").from(2);
    let mut a = login.clone().proving("alice").connect(rig.portal()).unwrap();
    let Happened::LoggedIn { who, tsih, cid } = record.next() else { panic!("a login") };
    assert_eq!(names(&who), (Some(&*login.initiator), Some("alice"), Some(IQN)));
    assert_eq!((who.from.ip(), who.portal), ([127, 0, 0, 2].into(), rig.portal()));
    assert_eq!((tsih, cid), (a.tsih, 0));

    let guess = Credentials::new("alice", "a wrong secret").unwrap();
    assert_eq!(login.clone().with(guess).connect(rig.portal()).err(), Some(UNPROVED));
    let (who, why, _) = refused();
    assert_eq!(names(&who), (Some(&*login.initiator), Some("alice"), Some(IQN)));
    assert_eq!(why, RefusalKind::Authentication);

    assert_eq!(Login::new("free").connect(rig.portal()).err(), Some(UNAUTHORIZED));
    let (who, why, reason) = refused();
    assert_eq!((who.chap_user, why), (None, RefusalKind::InUse));
    assert!(reason.contains(&login.initiator), "who is in the way: {reason}");

    a.logout(LogoutReason::CLOSE_SESSION, 0);
    let (who, reason) = ended();
    assert_eq!((who.initiator.as_deref(), &*reason), (Some(&*login.initiator), "it logged out"));

    let mut free = Login::new("free").connect(rig.portal()).unwrap();
    assert!(matches!(record.next(), Happened::LoggedIn { .. }));
    let other = Login::new("free").proving("alice");
    assert_eq!(other.connect(rig.portal()).err(), Some(UNAVAILABLE));
    let (who, why, reason) = refused();
    assert_eq!((who.chap_user.as_deref(), why), (Some("alice"), RefusalKind::NotAuthorized));
    assert!(reason.contains("another CHAP user"), "{reason}");
    set_access(&rig, IQN, Some(access([host("other")])));
    let (_, reason) = ended();
    assert!(reason.contains("rules"), "{reason}");
    free.expect_closed();
    assert_eq!(Login::new("free").connect(rig.portal()).err(), Some(UNAUTHORIZED));
    assert_eq!(refused().1, RefusalKind::NotAuthorized);
    let nowhere = Login { target: Some("iqn.2026-11.example:no".into()), ..Login::new("free") };
    assert!(nowhere.connect(rig.portal()).is_err());
    assert_eq!(refused().1, RefusalKind::NoTarget);
}

#[test]
fn a_host_that_tries_again_and_again_is_a_count() {
    let (rig, record) = recorded(access([host("good")]));
    let tries = 3 * REFUSALS_TOLD_MAX;
    for _ in 0..tries {
        assert_eq!(Login::new("bad").connect(rig.portal()).err(), Some(UNAUTHORIZED));
    }
    assert_eq!(Login::new("bad").from(2).connect(rig.portal()).err(), Some(UNAUTHORIZED));
    // The end of the server tells what was held back.
    let (stopped, _state) = rig.stop(std::time::Duration::ZERO);
    stopped.unwrap();
    let heard = std::mem::take(&mut *record.0.lock().unwrap());
    let told = |from: u8| {
        let address = IpAddr::from([127, 0, 0, from]);
        let is_from = |event: &&Happened| match event {
            Happened::Refused { who, .. } => who.from.ip() == address,
            _ => false,
        };
        heard.iter().filter(is_from).count() as u64
    };
    assert_eq!((told(1), told(2)), (REFUSALS_TOLD_MAX, 1), "{heard:?}");
    let counted = |event: &Happened| match event {
        Happened::RefusedMore { count, .. } => *count,
        _ => 0,
    };
    assert_eq!(heard.iter().map(counted).sum::<u64>(), tries - REFUSALS_TOLD_MAX);
}

/// Sets or clears SWP of the control mode page.
fn write_protect(host: &mut Connection, on: bool) {
    let mut list = host.run(&Command::new(mode_sense(0x0a)).reading(252)).good().clone();
    (list[0], list[2]) = (0, 0);
    list[4] &= 0x3f;
    list[8] = if on { 0x08 } else { 0 };
    host.run(&Command::new(mode_select(list.len() as u8)).writing(&list)).good();
}

#[test]
fn a_host_that_write_protects_a_unit_for_all_is_named_until_it_ends() {
    let (rig, record) = recorded(access([host("a"), host("b")]));
    let (mut a, mut b) = (rig.ready("a"), rig.ready("b"));
    let name = Login::new("a").initiator;
    for _ in 0..2 {
        assert!(matches!(record.next(), Happened::LoggedIn { .. }));
    }
    let heard = || match record.next() {
        Happened::WriteProtection { who, unit, on } => (who.initiator.unwrap(), unit, on),
        other => panic!("{other:?}"),
    };
    let targets = rig.server().targets();
    assert!(targets.write_protections().is_empty());
    write_protect(&mut a, true);
    let (host, unit, on) = heard();
    assert_eq!((host.as_str(), on), (&*name, true));
    assert_eq!(targets.write_protections().into_values().collect::<Vec<_>>(), [(&*name).into()]);
    b.run(&Command::new(test_unit_ready())).check();
    assert_eq!(b.run(&Command::write(0, &pattern(512, 1))).check(), (7, 0x27, 0));
    // Whoever may use it can end it, by the page or by a reset.
    write_protect(&mut b, false);
    assert_eq!(heard(), (Login::new("b").initiator, unit.clone(), false));
    assert!(targets.write_protections().is_empty());
    b.run(&Command::write(0, &pattern(512, 1))).good();
    a.run(&Command::new(test_unit_ready())).check();
    write_protect(&mut a, true);
    assert!(heard().2);
    b.run(&Command::new(test_unit_ready())).check();
    assert_eq!(b.manage_unit(TaskFunction::LOGICAL_UNIT_RESET, 0), TaskResult::COMPLETE);
    assert_eq!(heard(), (Login::new("b").initiator, unit, false));
    assert!(targets.write_protections().is_empty());
}
