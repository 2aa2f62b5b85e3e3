//! Secrets open at their place with their key, and in no other way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

const PLACE: &str = "/chap/users/alice";

fn secret() -> Secret {
    Secret::new(b"hush-hush-hush".to_vec())
}

fn vault(dir: &Path) -> Vault {
    Vault::open(KeySource::find(None, dir.join("key"))).unwrap()
}

#[test]
fn a_secret_opens_again_after_a_restart_and_is_not_in_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let sealed = vault(dir.path()).seal(PLACE, &secret()).unwrap();
    let stored = sealed.encode();
    let text = String::from_utf8(stored.clone()).unwrap();
    assert!(!text.contains("hush") && !text.contains(&hex::encode(b"hush")), "{text}");
    let found = Sealed::decode(&stored).unwrap();
    assert_eq!(vault(dir.path()).unseal(PLACE, &found), Ok(secret()));
    let again = vault(dir.path()).seal(PLACE, &secret()).unwrap();
    assert_ne!(again, sealed, "equal secrets do not look equal");
    assert_eq!(again.key, sealed.key);
}

#[test]
fn a_key_is_made_when_it_is_first_needed_for_its_owner_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut vault = vault(dir.path());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was sealed yet");
    fs::write(dir.path().join("key.half-made"), "cut o").unwrap();
    vault.seal(PLACE, &secret()).unwrap();
    let mode = fs::metadata(dir.path().join("key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn without_its_key_a_secret_must_be_set_again() {
    let dir = tempfile::tempdir().unwrap();
    let sealed = vault(dir.path()).seal(PLACE, &secret()).unwrap();
    fs::remove_file(dir.path().join("key")).unwrap();
    let mut vault = vault(dir.path());
    let refused = vault.unseal(PLACE, &sealed).unwrap_err();
    assert!(refused.to_string().contains("set the secret again"), "{refused}");
    let new = vault.seal(PLACE, &secret()).unwrap();
    assert_ne!(new.key, sealed.key);
    assert_eq!(vault.unseal(PLACE, &new), Ok(secret()));
    assert!(matches!(vault.unseal(PLACE, &sealed), Err(SecretError::NoKey { .. })));
}

#[test]
fn what_was_moved_or_changed_does_not_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut vault = vault(dir.path());
    let sealed = vault.seal(PLACE, &secret()).unwrap();
    let is_refused = |place: &str, sealed: &Sealed| {
        matches!(vault.unseal(place, sealed), Err(SecretError::NotIntact { .. }))
    };
    assert!(is_refused("/chap/users/bob", &sealed));
    for at in 0..sealed.text.len() {
        let mut text = sealed.text.clone().into_bytes();
        text[at] = if text[at] == b'0' { b'1' } else { b'0' };
        let text = String::from_utf8(text).unwrap();
        assert!(is_refused(PLACE, &Sealed { text, ..sealed.clone() }), "digit {at}");
    }
    let nonces = ["", "0", "zz", &"0".repeat(48), &"é".repeat(24)];
    for nonce in nonces {
        assert!(is_refused(PLACE, &Sealed { nonce: nonce.to_owned(), ..sealed.clone() }));
    }
}

#[test]
fn a_key_that_is_none_or_no_secret_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let said = || Vault::open(KeySource::File(path.clone())).unwrap_err().to_string();
    let digits = "0123456789abcdef".repeat(4);
    let write = |text: &[u8], mode| {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let long = format!("{digits}00");
    for wrong in ["", "hush", &digits[1..], &digits[2..], &long, &format!(" {digits}")] {
        write(wrong.as_bytes(), 0o600);
        let said = said();
        let begins = format!("'{}' holds no key", path.display());
        assert!(
            said.starts_with(&begins) && said.contains(": put the key that was there"),
            "{wrong}"
        );
        assert!(
            said.contains("; or move the file away, so that another key is made, and set "),
            "{said}"
        );
    }
    write(&[0xff; 64], 0o600);
    assert!(said().contains("holds no key"));
    write(digits.as_bytes(), 0o640);
    assert!(said().contains("run chmod 600"));
    write(format!("{digits}\n").as_bytes(), 0o600);
    assert!(Vault::open(KeySource::File(path.clone())).is_ok());
    let hidden = KeySource::File(path.join("below"));
    assert!(matches!(Vault::open(hidden), Err(KeyError::System { .. })));
}

#[test]
fn a_key_that_cannot_be_used_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let source = KeySource::File(path.clone());
    let sealed = Vault::open(source.clone()).unwrap().seal(PLACE, &secret()).unwrap();
    let set_mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let mut vault = Vault::without_key(source);
    assert!(matches!(vault.unseal(PLACE, &sealed), Err(SecretError::NoKey { .. })));
    let before = fs::read(&path).unwrap();
    let refused = vault.seal(PLACE, &secret()).unwrap_err().to_string();
    assert!(refused.contains("run chmod 600"), "{refused}");
    assert_eq!(vault.fault().map(|fault| fault.to_string()), Some(refused));
    assert_eq!(fs::read(&path).unwrap(), before);
    set_mode(0o600);
    vault.seal(PLACE, &secret()).unwrap();
    assert_eq!(vault.unseal(PLACE, &sealed), Ok(secret()), "it is the same key");
    assert!(vault.fault().is_none());
}

#[test]
fn the_credential_of_systemd_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    let find = || KeySource::find(Some(dir.path()), file.clone());
    assert_eq!(find(), KeySource::File(file.clone()));
    let credential = dir.path().join(CREDENTIAL);
    fs::write(&credential, "ab".repeat(32)).unwrap();
    fs::set_permissions(&credential, fs::Permissions::from_mode(0o440)).unwrap();
    assert_eq!(find(), KeySource::Credential { path: credential.clone(), file: file.clone() });
    let mut vault = Vault::open(find()).unwrap();
    let sealed = vault.seal(PLACE, &secret()).unwrap();
    assert_eq!(vault.unseal(PLACE, &sealed), Ok(secret()));
    assert!(!file.exists());
    fs::write(&credential, "hush").unwrap();
    let said = Vault::open(find()).unwrap_err().to_string();
    assert!(said.starts_with("the credential '") && !said.contains("move"), "{said}");
}

/// A service that had its key in a file is given one by systemd later.
#[test]
fn what_was_sealed_with_the_file_opens_beside_a_credential() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    let open = || Vault::open(KeySource::find(Some(dir.path()), file.clone()));
    let old = open().unwrap().seal(PLACE, &secret()).unwrap();
    let credential = dir.path().join(CREDENTIAL);
    fs::write(&credential, "ab".repeat(32)).unwrap();
    let mut both = open().unwrap();
    assert_eq!(both.unseal(PLACE, &old), Ok(secret()));
    let new = both.seal(PLACE, &secret()).unwrap();
    assert_ne!(new.key, old.key, "new ones are sealed with the credential");
    assert_eq!(both.unseal(PLACE, &new), Ok(secret()));
    // A credential that is none keeps nothing from what it did not seal.
    fs::write(&credential, "hush").unwrap();
    let mut vault = Vault::without_key(KeySource::find(Some(dir.path()), file.clone()));
    assert!(matches!(open(), Err(KeyError::BadCredential(_))));
    assert!(matches!(vault.fault(), Some(KeyError::BadCredential(_))));
    assert_eq!(vault.unseal(PLACE, &old), Ok(secret()));
    assert!(vault.unseal(PLACE, &new).is_err() && vault.seal(PLACE, &secret()).is_err());
    // Nor does a file that cannot be used keep a credential from being used.
    fs::write(&credential, "ab".repeat(32)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let vault = open().unwrap();
    assert!(matches!(vault.fault(), Some(KeyError::Exposed(_))));
    assert_eq!(vault.unseal(PLACE, &new), Ok(secret()));
    // The way from one to the other: the same key in both places.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    fs::copy(&file, &credential).unwrap();
    fs::remove_file(&file).unwrap();
    assert_eq!(open().unwrap().unseal(PLACE, &old), Ok(secret()));
}

/// Members of a group have it from the key of their authority.
#[test]
fn a_derived_key_is_the_same_for_all_who_have_what_it_is_derived_from_and_lies_nowhere() {
    let of = |purpose: &str, from: &[u8]| Vault::of_key(Key::derived(purpose, from));
    let (mut one, mut other) = (of("settings", b"authority"), of("settings", b"authority"));
    let sealed = one.seal(PLACE, &secret()).unwrap();
    assert_eq!(other.unseal(PLACE, &sealed), Ok(secret()));
    let back = other.seal(PLACE, &secret()).unwrap();
    assert_eq!((back.key(), one.unseal(PLACE, &back)), (sealed.key(), Ok(secret())));
    let strangers: [(&str, &[u8]); 4] = [
        ("settings", b"another authority"),
        ("other", b"authority"),
        ("setting", b"sauthority"),
        ("settingsa", b"uthority"),
    ];
    for (purpose, from) in strangers {
        let refused = of(purpose, from).unseal(PLACE, &sealed);
        assert!(matches!(refused, Err(SecretError::NoKey { .. })), "{purpose}");
    }

    // There is nothing to make, to lose or to write back.
    one.make_ready().expect("it has its key");
    assert!(one.fault().is_none() && one.kept_key().is_none() && !one.has_credential());
    assert_eq!(one.path(), Path::new(""));
    let dir = tempfile::tempdir().unwrap();
    let mut filed = vault(dir.path());
    filed.make_ready().unwrap();
    one.remember(&filed.kept_key().expect("it is in its file"));
    assert_eq!(one.unseal(PLACE, &sealed), Ok(secret()), "a key of a file is none of its");
    assert_eq!(one.seal(PLACE, &secret()).unwrap().key(), sealed.key());
}

#[test]
fn nothing_shows_a_secret_or_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let mut vault = vault(dir.path());
    let sealed = vault.seal(PLACE, &secret()).unwrap();
    let key = fs::read_to_string(dir.path().join("key")).unwrap();
    let shown = format!("{vault:?} {:?} {sealed:?}", secret());
    assert!(!shown.contains("hush") && !shown.contains(key.trim()), "{shown}");
}
