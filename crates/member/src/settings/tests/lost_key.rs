//! The file of the key of secrets while the member runs.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn warnings(rig: &Rig) -> Vec<String> {
    match rig.ask(Request::Array(ArrayRequest::Show)) {
        Ok(Answer::Array(info)) => info.warnings,
        other => panic!("{other:?}"),
    }
}

fn is_known(rig: &Rig) -> bool {
    rig.with(async |member| member.settings().known().missing.is_empty())
}

#[test]
fn a_key_that_is_removed_while_the_member_runs_is_there_for_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let rig = Rig::start(dir.path(), &data);
    let secret = SecretText("hush-hush-hush".to_owned());
    rig.ask(Request::Chap(ChapRequest::Add { user: "al".to_owned(), secret })).expect("a user");
    let (key, other) = (data.join(KEY_FILE), dir.path().join("other"));
    let before = fs::read(&key).expect("it is there");
    // Nobody asks for anything.
    rig.watch();
    fs::remove_file(&key).expect("it was there");
    crate::running::tests::wait_until("it is written back", || key.exists());
    assert_eq!(fs::read(&key).expect("it is there"), before);
    assert_eq!(fs::metadata(&key).expect("it is there").permissions().mode() & 0o777, 0o600);
    crate::running::tests::wait_until("it is told", || rig.told(Kind::KeyRestored).len() == 1);
    assert_eq!(warnings(&rig), [""; 0]);

    // What somebody put there is left alone, and told for as long as it lies there.
    fs::write(&other, "ab".repeat(32)).expect("it is written");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600)).expect("its mode is set");
    fs::rename(&other, &key).expect("it is put there");
    let said = warnings(&rig);
    let wanted = format!("'{}' does not hold the key any more ", key.display());
    assert!(said.len() == 1 && said[0].starts_with(&wanted), "{said:?}");
    assert_eq!(warnings(&rig), said);
    assert_eq!(rig.told(Kind::KeyLost), said, "it is told once");
    assert_eq!(fs::read(&key).expect("it is there"), "ab".repeat(32).as_bytes());
    // Disks that come and go do not have it read anew.
    rig.with(async |member| {
        let settings = member.settings();
        let _turn = settings.hold().await;
        settings.fail().await;
    });
    assert!(rig.with(async |member| member.settings().recover().await));
    assert!(is_known(&rig), "all secrets open");
    // It does what it says.
    fs::rename(&key, &other).expect("it is moved away");
    assert_eq!(warnings(&rig), [""; 0]);
    assert_eq!(fs::read(&key).expect("it is there"), before);
    rig.stop();
    let rig = Rig::start(dir.path(), &data);
    assert!(is_known(&rig), "the next start has all secrets");
    rig.stop();
}
