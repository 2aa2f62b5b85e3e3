//! What a change is about: no volume too few, and for each kind of change none too many.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::access::Scope;
use crate::accounts::{Account, PasswordHash, Role};
use crate::secrets::{KeySource, Secret, Vault};
use crate::settings::{Rule, Settings};
use crate::store::suite::wait;
use crate::store::{Embedded, Options, Place};

fn settings(dir: &Path) -> Settings {
    let clock = Arc::new(|| Duration::ZERO);
    let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
    let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
    Settings::new(Arc::new(store), vault)
}

fn read(settings: &Settings) -> (Arc<State>, Known) {
    let state = wait(settings.read()).expect("it is read");
    let known = state.secrets(settings.vault());
    (state, known)
}

fn secret(number: usize) -> Secret {
    Secret::new(format!("a-secret-of-{number:08}").into_bytes())
}

fn record(text: &str) -> Entry {
    Entry::Record(text.parse().expect("a record"))
}

fn policy(name: &str) -> Entry {
    Entry::Policy { name: name.to_owned(), scope: Scope::Both }
}

fn volumes(numbers: impl IntoIterator<Item = u32>) -> Concerned {
    Concerned::Volumes(numbers.into_iter().collect())
}

/// What targets of a volume are given: its rule, and the secrets of those whom that names.
fn given(state: &State, known: &Known, volume: u32) -> (Rule, Vec<Credentials>) {
    let rule = state.rule(volume);
    let named: Vec<&str> = match &rule {
        Rule::General => Vec::new(),
        Rule::Records { records, .. } => {
            records.iter().filter_map(|record| record.parts().chap.as_deref()).collect()
        }
    };
    let users = known.users.iter().filter(|user| named.contains(&user.user()));
    let users = users.cloned().collect();
    (rule, users)
}

/// A hundred volumes of a policy, as many with a record each, one user.
#[test]
fn a_change_is_about_those_that_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path());
    wait(settings.add_user("al", &secret(1))).unwrap();
    for name in ["one", "other"] {
        wait(settings.create_policy(name)).unwrap();
    }
    for volume in 0..100 {
        let name = if volume < 3 { "one" } else { "other" };
        wait(settings.add_access(volume, policy(name))).unwrap();
        wait(settings.add_access(100 + volume, record("ip=10.0.0.1"))).unwrap();
    }
    wait(settings.add_access(150, record("chap=al"))).unwrap();
    let mut before = read(&settings);
    let mut concerned = |settings: &Settings| {
        let now = read(settings);
        let found = now.0.concerned_since(&now.1, (&before.0, &before.1));
        before = now;
        found
    };
    wait(settings.add_access(7, record("ip=10.0.0.2"))).unwrap();
    assert_eq!(concerned(&settings), volumes([7]));
    wait(settings.remove_access(7, 2)).unwrap();
    assert_eq!(concerned(&settings), volumes([7]));
    wait(settings.clear_access(107)).unwrap();
    assert_eq!(concerned(&settings), volumes([107]));
    wait(settings.add_to_policy("one", "ip=10.0.0.3".parse().unwrap())).unwrap();
    assert_eq!(concerned(&settings), volumes(0..3));
    wait(settings.set_user("al", &secret(2))).unwrap();
    assert_eq!(concerned(&settings), volumes([150]));
    wait(settings.add_to_policy("one", "chap=al".parse().unwrap())).unwrap();
    assert_eq!(concerned(&settings), volumes(0..3));
    wait(settings.set_user("al", &secret(3))).unwrap();
    assert_eq!(concerned(&settings), volumes([0, 1, 2, 150]));
    wait(settings.set_mutual("disk", &secret(4))).unwrap();
    assert_eq!(concerned(&settings), Concerned::All);
    let password = PasswordHash::of("a-good-password").unwrap();
    let (role, created_unix_seconds) = (Role::Operator, 0);
    let account = Account { role, password, disabled: false, created_unix_seconds };
    wait(settings.add_account("olga", account)).unwrap();
    assert_eq!(concerned(&settings), Concerned::default(), "no host sees it");
}

/// Whatever is changed, a volume that is not concerned is for those that it was for.
#[test]
fn who_is_not_concerned_has_the_rules_that_it_had() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(6);
    let mut settings = settings(dir.path());
    let mut before = read(&settings);
    let mut spared = 0;
    for step in 0..600 {
        let volume = random.u32(0..6);
        let user = ["al", "bo"][random.usize(0..2)];
        let name = ["one", "other"][random.usize(0..2)];
        let text = [format!("chap={user}"), format!("ip=10.0.0.{volume}")];
        let text = &text[random.usize(0..2)];
        // What cannot be is refused, and changes nothing.
        match random.u32(0..11) {
            0 => drop(wait(settings.add_access(volume, record(text)))),
            1 => drop(wait(settings.add_access(volume, policy(name)))),
            2 => drop(wait(settings.remove_access(volume, random.u32(1..4)))),
            3 => drop(wait(settings.clear_access(volume))),
            4 => drop(wait(settings.set_shared(volume, random.bool()))),
            5 => drop(wait(settings.create_policy(name))),
            6 => drop(wait(settings.add_to_policy(name, text.parse().unwrap()))),
            7 => drop(wait(settings.remove_from_policy(name, random.u32(1..4)))),
            8 => drop(wait(settings.delete_policy(name))),
            9 => drop(wait(settings.add_user(user, &secret(step)))),
            _ => match random.bool() {
                true => drop(wait(settings.set_user(user, &secret(step)))),
                false => drop(wait(settings.delete_user(user))),
            },
        }
        let now = read(&settings);
        let concerned = now.0.concerned_since(&now.1, (&before.0, &before.1));
        for volume in (0..6).filter(|volume| !concerned.includes(*volume)) {
            spared += 1;
            let (was, is) = (given(&before.0, &before.1, volume), given(&now.0, &now.1, volume));
            assert!(was == is, "step {step}, volume {volume}: {concerned:?}");
        }
        before = now;
    }
    assert!(spared > 600, "{spared}");
}

#[test]
fn what_is_added_is_never_less() {
    let mut all = volumes([1]);
    all.add(volumes([2]));
    assert_eq!(all, volumes([1, 2]));
    all.add(Concerned::All);
    all.add(volumes([3]));
    assert_eq!(all, Concerned::All);
}
