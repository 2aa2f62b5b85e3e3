//! Settings that have filled their room, and a store that has filled its device.

use group::accounts::{Role, Token, TokenHash};
use group::settings::{Batch, UnitKey, UnitRecord, Units};

use super::*;
use crate::access_request::PolicyRequest;
use crate::login_request::TokenRequest;

/// Policies of as many long names as one may have.
fn policies(names: impl Iterator<Item = usize>) -> Batch {
    let record = |number: usize| format!("iqn=iqn.2026-01.com.example:{number:0190}").parse();
    let records: Vec<_> = (0..256).map(|number| record(number).expect("a record")).collect();
    let policies = names.map(|name| (format!("policy-{name}"), Some(records.clone()))).collect();
    Batch { policies, ..Batch::default() }
}

/// Makes policies, 20 at once and then one by one, until no more are taken; says why, and how many there are.
fn fill(rig: &Rig, count_max: usize) -> (KeptError, usize) {
    let (mut count, mut at_once) = (0, 20);
    while count < count_max {
        let batch = policies(count..count + at_once);
        let change = async move |settings: &mut Settings| settings.apply(&batch, 1).await;
        let made = rig.with(async move |member| member.settings().change(change).await);
        match made {
            Ok(()) => count += at_once,
            Err(_) if at_once > 1 => at_once = 1,
            Err(why) => return (why, count),
        }
    }
    panic!("{count} policies are taken");
}

fn revoke(rig: &Rig) -> Result<Answer, String> {
    let revoke = TokenRequest::Revoke { name: "ci".to_owned() };
    rig.ask(Request::Token(revoke)).map_err(|error| error.to_string())
}

fn add_token(rig: &Rig) {
    let token = Token {
        hash: TokenHash::of("x"),
        role: Role::Administrator,
        created_unix_seconds: 1,
        expires_unix_seconds: None,
        used_unix_seconds: None,
    };
    let add = async move |settings: &mut Settings| settings.add_token("ci", token.clone()).await;
    rig.with(async move |member| member.settings().change(add).await).expect("it is added");
}

fn delete_policy(rig: &Rig, number: usize) {
    let delete = PolicyRequest::Delete { name: format!("policy-{number}") };
    rig.ask(Request::Policy(delete)).expect("it is deleted");
}

fn warnings(rig: &Rig) -> Vec<String> {
    match rig.ask(Request::Array(ArrayRequest::Show)) {
        Ok(Answer::Array(info)) => info.warnings,
        other => panic!("{other:?}"),
    }
}

/// 366 policies of 256 long names filled the device: nothing could be taken from anybody any more.
#[test]
fn full_settings_still_take_rights_away() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    rig.create("a");
    for host in ["ip=10.0.0.1", "ip=10.0.0.2", "ip=10.0.0.3"] {
        let entry = Entry::Record(host.parse().expect("a record"));
        let add = AccessRequest::Add { volume: "a".to_owned(), entry };
        rig.ask(Request::Access(add)).expect("it is added");
    }
    add_token(&rig);
    assert_eq!(warnings(&rig), [""; 0]);
    let (why, count) = fill(&rig, 200);
    assert!(matches!(why, KeptError::Settings(SettingsError::Full { .. })), "{count} {why}");
    assert!(why.to_string().contains("delete access policies"), "{why}");
    let warned = warnings(&rig);
    assert!(warned.len() == 1 && warned[0].starts_with("the settings take 9"), "{warned:?}");

    let remove = |rig: &Rig, number| {
        let remove = AccessRequest::Remove { volume: "a".to_owned(), number };
        rig.ask(Request::Access(remove)).expect("the host is removed");
    };
    remove(&rig, 1);
    delete_policy(&rig, 0);
    save(&rig, &serial(&rig, 1), Some(IMAGE)).expect("what a unit keeps is saved");
    // As a crash leaves it: the store is not closed.
    drop(rig);
    let rig = Rig::start(dir.path(), &data);
    revoke(&rig).expect("the token is revoked");
    remove(&rig, 2);
    delete_policy(&rig, 1);
    save(&rig, &serial(&rig, 2), Some(IMAGE)).expect("what a unit keeps is saved");
    for number in 2..count - 70 {
        delete_policy(&rig, number);
    }
    assert_eq!(warnings(&rig), [""; 0]);
    rig.stop();
}

/// As an earlier version may have left it, which took whatever the device took.
#[test]
fn a_store_that_has_filled_its_device_says_so_and_takes_rights_away() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Rig::start(dir.path(), &dir.path().join("data"));
    add_token(&rig);
    let batch = policies(0..2);
    let make = async move |settings: &mut Settings| settings.apply(&batch, 1).await;
    rig.with(async move |member| member.settings().change(make).await).expect("they are made");
    let fill = async move |settings: &mut Settings| {
        for number in 0..1000 {
            let (serial, record) = (format!("unit-{number}"), UnitRecord::Reservations);
            let units = Units::from([(UnitKey { serial, record }, Some(vec![1; 100_000]))]);
            settings.save_units(&units).await?;
        }
        Ok(())
    };
    let why = rig.with(async move |member| member.settings().change(fill).await);
    let why = why.expect_err("there is an end").to_string();
    let sentence = "the configuration store on the array is full, and nothing was changed: delete ";
    assert!(why.starts_with(sentence), "{why}");
    revoke(&rig).expect("the token is revoked");
    for number in 0..2 {
        delete_policy(&rig, number);
    }
    rig.stop();
}
