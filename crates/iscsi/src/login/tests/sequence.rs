//! Stages, continued texts, and the bounds of a login.

use super::*;
use proptest::prelude::*;

fn fresh() -> (TargetLogin, Env) {
    (target_login(&LocalLimits::default()), Env::default())
}

#[test]
fn the_target_machine_may_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<TargetLogin>();
    assert_send::<LoginOutcome>();
    assert_send::<InitiatorLogin>();
}

#[test]
fn one_request_is_enough_without_authentication() {
    let (mut target, mut env) = fresh();
    let request = request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    let text = hello("HeaderDigest=None\0X-com.example.key=1\0");
    let (response, text, step) = send(&mut target, request, &text, &mut env);
    assert!(matches!(step, LoginStep::Accept { .. }));
    assert!(response.is_transit && response.next_stage == Stage::FULL_FEATURE);
    assert_eq!((response.stat_sn, response.tsih), (100, 7));
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (42, 105));
    assert_eq!(
        text,
        "TargetAlias=the alias TargetPortalGroupTag=3 HeaderDigest=None \
         X-com.example.key=NotUnderstood MaxRecvDataSegmentLength=262144"
    );
}

#[test]
fn security_may_lead_straight_to_full_feature() {
    let (mut target, mut env) = fresh();
    let request = request(Stage::SECURITY, Some(Stage::FULL_FEATURE));
    let (_, _, step) = send(&mut target, request, &hello("AuthMethod=None\0"), &mut env);
    let LoginStep::Accept { outcome, .. } = step else {
        panic!("{step:?}");
    };
    let local = outcome.connection.max_recv_data_segment_local_bytes;
    assert_eq!(local, 8192, "what was not declared is the default");
}

#[test]
fn a_discovery_session_is_with_no_target() {
    let (mut target, mut env) = fresh();
    env.lookup = TargetLookup::NotFound;
    let request = request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    let text = hello("SessionType=Discovery\0MaxConnections=4\0");
    let (_, text, step) = send(&mut target, request, &text, &mut env);
    let LoginStep::Accept { outcome, .. } = step else {
        panic!("{step:?}");
    };
    assert_eq!((outcome.target_name, outcome.portal_group_tag), (None, 0));
    assert!(text.starts_with("MaxConnections=Irrelevant "), "{text}");
}

#[test]
fn only_the_last_response_has_the_tsih_and_each_counts() {
    let (mut target, mut env) = fresh();
    let leaving = request(Stage::SECURITY, Some(Stage::OPERATIONAL));
    let (response, _, _) = send(&mut target, leaving, &hello("AuthMethod=None\0"), &mut env);
    assert_eq!((response.tsih, response.stat_sn), (0, 100));
    assert_eq!(target.claim().initiator, Some(name(INITIATOR)));
    let staying = request(Stage::OPERATIONAL, None);
    let (response, text, _) = send(&mut target, staying, "", &mut env);
    assert_eq!((response.tsih, response.stat_sn), (0, 101));
    assert_eq!(text, "MaxRecvDataSegmentLength=262144");
    let last = request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    let (response, text, _) = send(&mut target, last, "", &mut env);
    assert_eq!((response.tsih, response.stat_sn), (7, 102));
    assert_eq!(text, "", "declared once");
}

#[test]
fn a_text_may_come_in_pieces_even_within_a_key() {
    let (mut target, mut env) = fresh();
    let text = hello("AuthMethod=None\0");
    let (head, tail) = text.split_at(20);
    let mut piece = request(Stage::SECURITY, None);
    piece.is_continued = true;
    let (response, answer, _) = send(&mut target, piece, head, &mut env);
    assert!(!response.is_transit && !response.is_continued && answer.is_empty());
    let leaving = request(Stage::SECURITY, Some(Stage::OPERATIONAL));
    let (response, answer, _) = send(&mut target, leaving, tail, &mut env);
    assert!(response.is_transit && answer.contains("AuthMethod=None"));
}

#[test]
fn stages_must_follow_from_each_other() {
    let reserved = Stage(2);
    let mut both = request(Stage::SECURITY, Some(Stage::OPERATIONAL));
    both.is_continued = true;
    let wrong = [
        request(reserved, None),
        request(Stage::FULL_FEATURE, None),
        request(Stage::SECURITY, Some(Stage::SECURITY)),
        request(Stage::SECURITY, Some(reserved)),
        request(Stage::OPERATIONAL, Some(Stage::OPERATIONAL)),
        both,
    ];
    for request in wrong {
        let (mut target, mut env) = fresh();
        let (refusal, status) = refused(&mut target, request, &hello(""), &mut env);
        assert_eq!(refusal, LoginRefusal::Stage, "{request:?}");
        assert_eq!(status, LoginStatus::INITIATOR_ERROR);
    }
    let (mut target, mut env) = fresh();
    send(&mut target, request(Stage::OPERATIONAL, None), &hello(""), &mut env);
    let back = request(Stage::SECURITY, None);
    let (refusal, _) = refused(&mut target, back, "", &mut env);
    assert_eq!(refusal, LoginRefusal::Stage, "there is no way back");
}

#[test]
fn one_login_has_one_identity() {
    let changes: [fn(&mut LoginRequest); 4] = [
        |request| request.isid[5] ^= 1,
        |request| request.tsih ^= 1,
        |request| request.cid ^= 1,
        |request| request.itt ^= 1,
    ];
    for change in changes {
        let (mut target, mut env) = fresh();
        let mut request = request(Stage::SECURITY, None);
        send(&mut target, request, &hello(""), &mut env);
        change(&mut request);
        let (refusal, _) = refused(&mut target, request, "", &mut env);
        assert_eq!(refusal, LoginRefusal::Changed);
    }
}

#[test]
fn a_login_is_bounded_in_requests_and_text() {
    let (mut target, mut env) = fresh();
    let staying = request(Stage::SECURITY, None);
    send(&mut target, staying, &hello(""), &mut env);
    for _ in 1..LOGIN_REQUESTS_MAX {
        send(&mut target, staying, "", &mut env);
    }
    let (refusal, _) = refused(&mut target, staying, "", &mut env);
    assert_eq!(refusal, LoginRefusal::TooLong);

    let (mut target, mut env) = fresh();
    let mut piece = request(Stage::SECURITY, None);
    piece.is_continued = true;
    let segment = "x".repeat(8192);
    for _ in 0..4 {
        send(&mut target, piece, &segment, &mut env);
    }
    let (refusal, _) = refused(&mut target, piece, &segment, &mut env);
    assert_eq!(refusal, LoginRefusal::Text(crate::text::TextError::TooLong));
}

proptest! {
    #[test]
    fn any_pdus_are_answered(pdus in proptest::collection::vec(
        (any::<[u8; 32]>(), "[^\u{80}-\u{10ffff}]{0,120}", any::<bool>()), 1..6)) {
        let (mut target, mut env) = fresh();
        for (head, noise, is_named) in pdus {
            let mut raw = [0; 48];
            raw[..32].copy_from_slice(&head);
            raw[0] = 0x43;
            raw[3] = 0;
            let text = if is_named { hello(&noise) } else { noise };
            let step = target.on_request(&Bhs::new(raw), text.as_bytes(), &mut env);
            if !matches!(step, LoginStep::Respond { .. }) {
                break;
            }
        }
    }

    #[test]
    fn an_initiator_survives_any_response(flags in any::<u8>(), status in any::<u16>(), text in any::<Vec<u8>>(),
                                          tsih in any::<u16>()) {
        let config = initiator_config(&LocalLimits::default());
        let mut raw = [0; 48];
        (raw[0], raw[1]) = (0x23, flags);
        raw[8..14].copy_from_slice(&config.isid);
        raw[14..16].copy_from_slice(&tsih.to_be_bytes());
        raw[16..20].copy_from_slice(&config.itt.to_be_bytes());
        raw[36..38].copy_from_slice(&status.to_be_bytes());
        let mut login = InitiatorLogin::new(config);
        login.start();
        let _ = login.on_response(&Bhs::new(raw), &text, &mut |bytes| bytes.fill(1));
    }
}
