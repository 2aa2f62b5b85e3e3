//! CHAP in both directions, and the ways around it.

use super::*;
use crate::chap::Algorithm;
use crate::text::encode_hex;

fn limits() -> LocalLimits {
    LocalLimits::default()
}

fn chap_env(target: Option<Credentials>) -> Env {
    Env { auth: Some(chap(target)), ..Env::default() }
}

/// What a target's challenge is that draws bytes of `seed`.
fn challenge(seed: u8) -> Vec<u8> {
    let key = Env::default().key;
    key.challenge(Algorithm::Md5, &mut |bytes| bytes.fill(seed)).bytes
}

/// A target that was told CHAP and MD5, and has sent its challenge, of bytes of 2.
fn challenged(env: &mut Env) -> TargetLogin {
    let mut target = target_login(&limits());
    let security = request(Stage::SECURITY, None);
    let (_, text, _) = send(&mut target, security, &hello("AuthMethod=CHAP,None\0"), env);
    assert_eq!(text, "TargetAlias=the alias TargetPortalGroupTag=3 AuthMethod=CHAP");
    let (_, text, _) = send(&mut target, security, "CHAP_A=5\0", env);
    assert_eq!(text, format!("CHAP_A=5 CHAP_I=1 CHAP_C={}", encode_hex(&challenge(2))));
    target
}

fn answer(who: &Credentials) -> String {
    let response = who.respond(Algorithm::Md5, 1, &challenge(2));
    format!("CHAP_N={}\0CHAP_R={}\0", who.user(), encode_hex(&response))
}

fn leaving() -> LoginRequest {
    request(Stage::SECURITY, Some(Stage::OPERATIONAL))
}

#[test]
fn every_algorithm_works_in_both_directions() {
    for algorithm in Algorithm::ALL {
        let mut env = chap_env(Some(node()));
        let config = InitiatorConfig {
            chap: initiator_chap(Some(node())).map(|chap| chap.with_algorithms(&[algorithm])),
            ..initiator_config(&limits())
        };
        let (_, target) = run_done(config, &limits(), &mut env);
        assert_eq!(target.chap_user(), Some("alice"), "{algorithm:?}");
    }
}

#[test]
fn discovery_is_protected_by_its_own_policy() {
    let mut env = Env { discovery_auth: chap(None), ..Env::default() };
    let config = InitiatorConfig {
        target_name: None,
        chap: initiator_chap(None),
        ..initiator_config(&limits())
    };
    run_done(config, &limits(), &mut env);
    let config = InitiatorConfig { target_name: None, ..initiator_config(&limits()) };
    let End::Refused(refusal, _) = run(config, &limits(), &mut env) else {
        panic!("an initiator without credentials got in");
    };
    assert_eq!(refusal, AuthRefusal::Method.into());
}

#[test]
fn a_right_answer_passes_and_may_be_in_base64() {
    let mut env = chap_env(None);
    let mut target = challenged(&mut env);
    let response = alice().respond(Algorithm::Md5, 1, &challenge(2));
    let text = format!("CHAP_N=alice\0CHAP_R={}\0", crate::text::encode_base64(&response));
    let (response, _, step) = send(&mut target, leaving(), &text, &mut env);
    assert!(matches!(step, LoginStep::Respond { .. }));
    assert!(response.is_transit && response.next_stage == Stage::OPERATIONAL);
}

#[test]
fn a_wrong_secret_user_or_answer_is_refused() {
    let bob = credentials("bob", "secret-of-alice");
    let wrong = credentials("alice", "secret-of-malice");
    let cases = [
        (answer(&wrong), AuthRefusal::Response),
        (answer(&bob), AuthRefusal::Response),
        ("CHAP_N=alice\0CHAP_R=0x00\0".to_owned(), AuthRefusal::Response),
        ("CHAP_N=alice\0CHAP_R=garbage\0".to_owned(), AuthRefusal::Malformed),
        ("CHAP_N=alice\0".to_owned(), AuthRefusal::Malformed),
        (format!("{}CHAP_I=1\0", answer(&alice())), AuthRefusal::Malformed),
    ];
    for (text, why) in cases {
        let mut env = chap_env(None);
        let mut target = challenged(&mut env);
        let (refusal, status) = refused(&mut target, leaving(), &text, &mut env);
        assert_eq!(refusal, why.into(), "{text}");
        assert_eq!(status, LoginStatus::AUTHENTICATION_FAILURE);
    }
}

#[test]
fn an_answer_recorded_from_another_login_is_refused() {
    let recorded = answer(&alice());
    let mut env = chap_env(None);
    let mut first = challenged(&mut env);
    let (_, _, step) = send(&mut first, leaving(), &recorded, &mut env);
    assert!(matches!(step, LoginStep::Respond { .. }));
    let mut second = target_login(&limits());
    let security = request(Stage::SECURITY, None);
    send(&mut second, security, &hello("AuthMethod=CHAP\0"), &mut env);
    send(&mut second, security, "CHAP_A=5\0", &mut env);
    let (refusal, _) = refused(&mut second, leaving(), &recorded, &mut env);
    assert_eq!(refusal, AuthRefusal::Response.into());
}

#[test]
fn our_own_challenge_is_not_answered() {
    // That of this login, and that of another: who has two targets' challenges asks one for the other's answer.
    for seed in [2, 9] {
        let mut env = chap_env(Some(node()));
        let mut target = challenged(&mut env);
        let reflected = encode_hex(&challenge(seed));
        let reflected = format!("{}CHAP_I=9\0CHAP_C={reflected}\0", answer(&alice()));
        let (refusal, _) = refused(&mut target, leaving(), &reflected, &mut env);
        assert_eq!(refusal, AuthRefusal::Reflected.into(), "{seed}");
    }
}

#[test]
fn mutual_chap_without_target_credentials_is_refused() {
    let mut env = chap_env(None);
    let mut target = challenged(&mut env);
    let text = format!("{}CHAP_I=9\0CHAP_C=0x0102\0", answer(&alice()));
    let (refusal, _) = refused(&mut target, leaving(), &text, &mut env);
    assert_eq!(refusal, AuthRefusal::NoMutual.into());
}

#[test]
fn authentication_cannot_be_skipped() {
    let ways = [
        (request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE)), ""),
        (request(Stage::OPERATIONAL, None), ""),
        (request(Stage::SECURITY, Some(Stage::FULL_FEATURE)), ""),
        (leaving(), ""),
    ];
    for (request, more) in ways {
        let mut env = chap_env(None);
        let mut target = target_login(&limits());
        let (refusal, _) = refused(&mut target, request, &hello(more), &mut env);
        assert_eq!(refusal, AuthRefusal::Skipped.into(), "{request:?}");
    }
}

#[test]
fn the_target_does_not_move_on_while_authentication_is_open() {
    let mut env = chap_env(None);
    let mut target = target_login(&limits());
    let text = hello("AuthMethod=CHAP\0");
    let (response, _, _) = send(&mut target, leaving(), &text, &mut env);
    assert!(!response.is_transit, "the method is chosen, but nothing is proved");
    let (response, _, _) = send(&mut target, leaving(), "", &mut env);
    assert!(!response.is_transit);
    let operational = request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    let (refusal, _) = refused(&mut target, operational, "", &mut env);
    assert_eq!(refusal, LoginRefusal::Stage);
}

#[test]
fn chap_keys_out_of_order_are_refused() {
    let orders: [&[&str]; 4] = [
        &["CHAP_A=5\0"],
        &["CHAP_N=alice\0CHAP_R=0x00\0"],
        &["AuthMethod=CHAP\0", "AuthMethod=CHAP\0"],
        &["AuthMethod=CHAP\0", "CHAP_N=alice\0CHAP_R=0x00\0"],
    ];
    for texts in orders {
        let mut env = chap_env(None);
        let mut target = target_login(&limits());
        let security = request(Stage::SECURITY, None);
        let (last, first) = texts.split_last().unwrap();
        send(&mut target, security, &hello(""), &mut env);
        for text in first {
            send(&mut target, security, text, &mut env);
        }
        let (refusal, _) = refused(&mut target, security, last, &mut env);
        assert_eq!(refusal, AuthRefusal::Malformed.into(), "{texts:?}");
    }
}

#[test]
fn without_a_method_or_algorithm_in_common_login_fails() {
    let mut env = chap_env(None);
    let security = request(Stage::SECURITY, None);
    let text = hello("AuthMethod=KRB5,None\0");
    let (refusal, _) = refused(&mut target_login(&limits()), security, &text, &mut env);
    assert_eq!(refusal, AuthRefusal::Method.into());
    let mut target = target_login(&limits());
    send(&mut target, security, &hello("AuthMethod=CHAP\0"), &mut env);
    let (refusal, _) = refused(&mut target, security, "CHAP_A=4,99\0", &mut env);
    assert_eq!(refusal, AuthRefusal::Algorithm.into());
}

#[test]
fn an_initiator_with_credentials_accepts_an_open_target_unless_it_wants_proof() {
    let config = InitiatorConfig { chap: initiator_chap(None), ..initiator_config(&limits()) };
    let (_, target) = run_done(config, &limits(), &mut Env::default());
    assert_eq!(target.chap_user(), None);
    let config =
        InitiatorConfig { chap: initiator_chap(Some(node())), ..initiator_config(&limits()) };
    let End::Refused(refusal, _) = run(config, &limits(), &mut Env::default()) else {
        panic!("the initiator must not offer None");
    };
    assert_eq!(refusal, AuthRefusal::Method.into());
}

#[test]
fn who_offers_chap_where_nothing_is_asked_for_has_to_prove_itself() {
    let policy = ChapPolicy::new(vec![alice()], None).unwrap();
    let mut env = Env { auth: Some(AuthPolicy::Optional(Arc::new(policy))), ..Env::default() };
    let (_, target) = run_done(initiator_config(&limits()), &limits(), &mut env);
    assert_eq!(target.chap_user(), None);
    let config = InitiatorConfig { chap: initiator_chap(None), ..initiator_config(&limits()) };
    let (_, target) = run_done(config, &limits(), &mut env);
    assert_eq!(target.chap_user(), Some("alice"));
    env.seed = 0;
    let mut login = challenged(&mut env);
    let (refusal, _) =
        refused(&mut login, leaving(), &answer(&credentials("bob", "secret-of-bob")), &mut env);
    assert_eq!(refusal, AuthRefusal::Response.into());
    assert_eq!(login.claim().chap_user.as_deref(), Some("bob"), "for the record");
    // The order of the initiator decides, and a transit without a word is None.
    let security = request(Stage::SECURITY, None);
    let first = hello("AuthMethod=None,CHAP\0");
    let (_, text, _) = send(&mut target_login(&limits()), security, &first, &mut env);
    assert!(text.ends_with("AuthMethod=None"), "{text}");
}

#[test]
fn an_initiator_refuses_a_target_that_proves_something_else() {
    let impostor = credentials("node", "not-the-nodes-secret");
    let End::InitiatorError(error) = run(
        InitiatorConfig { chap: initiator_chap(Some(node())), ..initiator_config(&limits()) },
        &limits(),
        &mut chap_env(Some(impostor)),
    ) else {
        panic!("the initiator took an impostor");
    };
    assert_eq!(error, InitiatorError::TargetNotProved);
}
