//! Who may open a slice, and whom an opening lets in.

use block::BlockError;
use ring::wait::both;

use super::*;
use crate::access_request::SecretText;

#[test]
fn a_slice_is_opened_and_used_with_digests() {
    let holder = Holder::start();
    let device = ram();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        assert_eq!(holder.served().list(), [(slice.clone(), false)]);
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        assert_eq!(holder.served().list(), [(slice.clone(), true)]);
        let disk = attach(&opening).await.unwrap();
        write(&disk, 8 * BLOCK as u64, 1).await;
        assert!(read(&*device, 8 * BLOCK as u64).await == block(8 * BLOCK as u64, 1));
        let connections = holder.served().connections().await;
        assert_eq!(connections.len(), 1);
        assert!(connections[0].header_digest && connections[0].data_digest);
        assert!(connections[0].chap_user.is_some());
    });
}

#[test]
fn only_the_last_opening_lets_somebody_in() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let slices = holder.served();
        let first = slices.open(&slice, HOME, 1).await.unwrap();
        let used = attach(&first).await.unwrap();
        let second = slices.open(&slice, HOME, 2).await.unwrap();
        assert_ne!(first.target, second.target);
        assert_eq!(holder.sessions(), 0, "the first one has no session any more");
        assert!(attach(&first).await.is_err(), "its name leads nowhere");
        let written = used.write(0, data(&block(0, 9)), WriteFlags::DURABLE).await;
        let failed = [BlockError::Unreachable, BlockError::InDoubt].map(Err);
        assert!(failed.contains(&written), "{written:?}");
        // The new name does not let the old secrets in.
        let target = second.target.clone();
        assert!(attach(&Opening { target, ..first.clone() }).await.is_err());
        let secret = first.secret.clone();
        assert!(attach(&Opening { secret, ..second.clone() }).await.is_err());
        let disk = attach(&second).await.unwrap();
        write(&disk, 0, 2).await;
        assert_eq!(holder.sessions(), 1);
    });
}

#[test]
fn a_member_that_cannot_prove_itself_is_not_believed() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        let mutual_secret = SecretText("0123456789abcdef0123456789abcdef".to_owned());
        assert!(attach(&Opening { mutual_secret, ..opening.clone() }).await.is_err());
        assert!(attach(&opening).await.is_ok());
    });
}

#[test]
fn a_slice_is_opened_for_its_home_only() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let slices = holder.served();
        let opening = slices.open(&slice, HOME, 1).await.unwrap();
        let disk = attach(&opening).await.unwrap();
        let refused = slices.open(&slice, OTHER, 1).await;
        let Err(OpenError::NotHome { caller: OTHER, .. }) = refused else {
            panic!("another member opens it: {refused:?}");
        };
        // Who has it open has not noticed.
        write(&disk, 0, 1).await;
        let unknown = SliceId::draw().unwrap();
        assert!(matches!(slices.open(&unknown, HOME, 1).await, Err(OpenError::Unknown(_))));
    });
}

#[test]
fn of_two_openings_at_once_one_holds() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let slices = holder.served();
        let two = both(slices.open(&slice, HOME, 1), slices.open(&slice, HOME, 2)).await;
        let (one, other) = (two.0.unwrap(), two.1.unwrap());
        let (one, other) = (attach(&one).await, attach(&other).await);
        assert_eq!([one.is_ok(), other.is_ok()], [false, true]);
    });
}

#[test]
fn secrets_are_not_shown() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let opening = holder.served().open(&slice, HOME, 1).await.unwrap();
        let shown = format!("{opening:?}");
        for secret in [&opening.secret, &opening.mutual_secret] {
            assert!(secret.0.len() >= 2 * 16, "128 bits in hexadecimal digits");
            assert!(!shown.contains(&secret.0), "{shown}");
        }
        assert!(shown.contains(&opening.target), "{shown}");
    });
}

#[test]
fn an_identity_is_written_in_one_way() {
    let id = SliceId::draw().unwrap();
    assert_eq!(id.as_str().parse::<SliceId>().unwrap(), id);
    let digits = "0123456789abcdef0123456789abcdef";
    for text in ["", &digits[1..], &digits.to_uppercase(), &format!("{digits}0"), "x"] {
        assert!(text.parse::<SliceId>().is_err(), "{text}");
    }
}
