use super::*;
use crate::text::{decode_binary, encode_base64, encode_hex};
use proptest::prelude::*;

fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials::new(user, secret).unwrap()
}

fn fixed(fill: u8) -> impl FnMut(&mut [u8]) {
    move |bytes| bytes.fill(fill)
}

/// The hashes of `01 "secret-of-alice" 00..0f`, computed with `hashlib` of Python.
#[test]
fn responses_match_an_independent_implementation() {
    let alice = credentials("alice", "secret-of-alice");
    let challenge: Vec<u8> = (0..16).collect();
    let expected = [
        (Algorithm::Md5, MD5_RESPONSE),
        (Algorithm::Sha1, SHA1_RESPONSE),
        (Algorithm::Sha256, SHA256_RESPONSE),
        (Algorithm::Sha3, SHA3_RESPONSE),
    ];
    for (algorithm, response) in expected {
        let computed = alice.respond(algorithm, 1, &challenge);
        assert_eq!(encode_hex(&computed), response, "{algorithm:?}");
        assert_eq!(computed.len(), algorithm.len_bytes());
    }
}

const MD5_RESPONSE: &str = "0x07f37509b4786111bcc8acb29fa30f9b";
const SHA1_RESPONSE: &str = "0x0d7f0bd220768b333ba8d4c3cd8e2514d767f4f4";
const SHA256_RESPONSE: &str = "0x483e9cc8cb62f04582b2d0f05cdb17cff09ad4f85beeb0678be44221bb936bee";
const SHA3_RESPONSE: &str = "0x436eb611c0cb1bd064090f01b04f32199df318f43517ca5a3ff46c2135e2ae86";

#[test]
fn only_the_right_user_and_secret_pass() {
    let policy = ChapPolicy::new(
        vec![credentials("alice", "secret-of-alice"), credentials("bob", "secret-of-bob")],
        None,
    )
    .unwrap();
    let challenge = Challenge::new(Algorithm::Sha256, &mut fixed(7));
    let answer = |secret: &str| {
        credentials("any", secret).respond(
            challenge.algorithm,
            challenge.identifier,
            &challenge.bytes,
        )
    };
    let alices = answer("secret-of-alice");
    assert!(policy.verify(&challenge, "alice", &alices).is_some());
    assert!(policy.verify(&challenge, "bob", &answer("secret-of-bob")).is_some());
    assert!(policy.verify(&challenge, "bob", &alices).is_none());
    assert!(policy.verify(&challenge, "Alice", &alices).is_none());
    assert!(policy.verify(&challenge, "alice", &answer("secret-of-alicf")).is_none());
    assert!(policy.verify(&challenge, "alice", &alices[..31]).is_none());
    assert!(policy.verify(&challenge, "alice", &[]).is_none());
    let proved = policy.verify(&challenge, "alice", &alices).unwrap();
    assert_eq!(**proved, credentials("alice", "secret-of-alice"));
}

#[test]
fn who_is_left_out_is_unknown() {
    let all = vec![credentials("alice", "secret-of-alice"), credentials("bob", "secret-of-bob")];
    let policy = ChapPolicy::new(all, None).unwrap();
    let challenge = Challenge::new(Algorithm::Md5, &mut fixed(7));
    let proves = |policy: &ChapPolicy, user: &str, secret: &str| {
        let answer = credentials(user, secret).respond(
            challenge.algorithm,
            challenge.identifier,
            &challenge.bytes,
        );
        policy.verify(&challenge, user, &answer).is_some()
    };
    let bobs = policy.only(|user| user == "bob");
    assert!(proves(&bobs, "bob", "secret-of-bob"));
    assert!(!proves(&bobs, "alice", "secret-of-alice"));
    let nobodys = policy.only(|_| false);
    assert!(!proves(&nobodys, "bob", "secret-of-bob"));
    assert!(!proves(&nobodys, "bob", &"\0".repeat(SECRET_LEN_BYTES_MIN)), "not even so");
    assert_eq!(policy.users().len(), 2, "the policy itself is as it was");
}

#[test]
fn a_response_is_good_for_one_challenge_only() {
    let alice = credentials("alice", "secret-of-alice");
    let policy = ChapPolicy::new(vec![alice.clone()], None).unwrap();
    let first = Challenge::new(Algorithm::Md5, &mut fixed(1));
    let recorded = alice.respond(first.algorithm, first.identifier, &first.bytes);
    assert!(policy.verify(&first, "alice", &recorded).is_some());
    let second = Challenge::new(Algorithm::Md5, &mut fixed(2));
    assert!(policy.verify(&second, "alice", &recorded).is_none());
}

#[test]
fn a_target_knows_its_own_challenges_and_no_others() {
    let key = ChallengeKey::new(&mut fixed(1));
    for algorithm in Algorithm::ALL {
        let ours = key.challenge(algorithm, &mut fixed(2));
        assert_eq!(ours.bytes.len(), algorithm.len_bytes() + TAG_LEN_BYTES);
        assert!(key.is_ours(&ours.bytes));
        assert!(!ChallengeKey::new(&mut fixed(3)).is_ours(&ours.bytes), "another target's");
        for bit in 0..ours.bytes.len() * 8 {
            let mut theirs = ours.bytes.clone();
            theirs[bit / 8] ^= 1 << (bit % 8);
            assert!(!key.is_ours(&theirs), "bit {bit}");
        }
    }
    for short in 0..=TAG_LEN_BYTES {
        assert!(!key.is_ours(&vec![0; short]), "{short} bytes");
    }
}

#[test]
fn weak_configurations_are_refused() {
    let short = Credentials::new("alice", "elevenbytes").unwrap_err();
    assert_eq!(short, CredentialsError::SecretTooShort);
    assert!(Credentials::new("alice", "twelve bytes").is_ok());
    for user in ["", "a\0b", &"x".repeat(256)] {
        let refused = Credentials::new(user, "twelve bytes").unwrap_err();
        assert_eq!(refused, CredentialsError::User);
    }
    let (alice, target) =
        (credentials("alice", "one secret for both"), credentials("target", "one secret for both"));
    let refused = ChapPolicy::new(vec![alice.clone()], Some(target.clone())).unwrap_err();
    assert_eq!(refused, CredentialsError::SameSecret);
    let refused = InitiatorChap::new(alice, Some(target)).unwrap_err();
    assert_eq!(refused, CredentialsError::SameSecret);
}

#[test]
fn secrets_are_not_shown() {
    let shown = format!("{:?}", credentials("alice", "secret-of-alice"));
    assert!(shown.contains("alice") && !shown.contains("secret-of"));
}

#[test]
fn the_initiators_order_decides() {
    let all = Algorithm::ALL;
    assert_eq!(choose_algorithm("5,7", &all), Some(Algorithm::Md5));
    assert_eq!(choose_algorithm("7,5", &all), Some(Algorithm::Sha256));
    assert_eq!(choose_algorithm("99,0x8,5", &all), Some(Algorithm::Sha3));
    assert_eq!(choose_algorithm("5,6", &[Algorithm::Sha1]), Some(Algorithm::Sha1));
    assert_eq!(choose_algorithm("5", &[Algorithm::Sha256]), None);
    assert_eq!(choose_algorithm("", &all), None);
}

proptest! {
    #[test]
    fn both_binary_forms_carry_any_challenge(bytes in proptest::collection::vec(any::<u8>(), 1..1024)) {
        prop_assert_eq!(decode_binary(&encode_hex(&bytes), 1024), Some(bytes.clone()));
        prop_assert_eq!(decode_binary(&encode_base64(&bytes), 1024), Some(bytes.clone()));
        prop_assert_eq!(decode_binary(&encode_hex(&bytes), bytes.len() - 1), None);
    }
}
