//! What an initiator does with targets that are unusual or wrong.

use super::*;

/// An initiator that has sent its first request.
fn started(change: impl FnOnce(&mut InitiatorConfig)) -> InitiatorLogin {
    let mut config = initiator_config(&LocalLimits::default());
    change(&mut config);
    let mut login = InitiatorLogin::new(config);
    login.start();
    login
}

/// A response in `stage`, to be changed by the test.
fn response(stage: Stage, next_stage: Option<Stage>) -> LoginResponse {
    LoginResponse {
        is_transit: next_stage.is_some(),
        is_continued: false,
        stage,
        next_stage: next_stage.unwrap_or(Stage::SECURITY),
        version_max: 0,
        version_active: 0,
        data_segment_len_bytes: 0,
        isid: [0x80, 1, 2, 3, 4, 5],
        tsih: 0,
        itt: 0x1234,
        stat_sn: 1,
        exp_cmd_sn: 42,
        max_cmd_sn: 42,
        status: LoginStatus::SUCCESS,
    }
}

fn feed(
    login: &mut InitiatorLogin,
    response: LoginResponse,
    text: &str,
) -> Result<InitiatorStep, InitiatorError> {
    login.on_response(&response.to_bhs(), text.as_bytes(), &mut |bytes| bytes.fill(1))
}

fn sent(step: Result<InitiatorStep, InitiatorError>) -> (LoginRequest, String) {
    let Ok(InitiatorStep::Send(pdu)) = step else {
        panic!("{step:?}");
    };
    let request = LoginRequest::parse(Bhs::from_ref(&pdu.bhs)).unwrap();
    (request, String::from_utf8(pdu.data).unwrap())
}

#[test]
fn a_refusal_is_reported_with_its_status() {
    let mut refusal = response(Stage::SECURITY, None);
    refusal.status = LoginStatus::OUT_OF_RESOURCES;
    let error = feed(&mut started(|_| {}), refusal, "").unwrap_err();
    assert_eq!(error, InitiatorError::Refused(LoginStatus::OUT_OF_RESOURCES));
    assert!(error.to_string().contains("out of resources (0302)"));
    let nameless = LoginResponse { isid: [0; 6], ..refusal };
    let error = feed(&mut started(|_| {}), nameless, "").unwrap_err();
    assert_eq!(error, InitiatorError::Refused(LoginStatus::OUT_OF_RESOURCES), "tgtd says it so");
    refusal.status = LoginStatus::MOVED_TEMPORARILY;
    let error = feed(&mut started(|_| {}), refusal, "").unwrap_err();
    assert_eq!(error, InitiatorError::Refused(LoginStatus::MOVED_TEMPORARILY), "to nowhere");
}

#[test]
fn responses_that_do_not_follow_are_refused() {
    let leaving = response(Stage::SECURITY, Some(Stage::OPERATIONAL));
    let wrong: [fn(&mut LoginResponse); 6] = [
        |response| response.itt = 1,
        |response| response.isid = [0; 6],
        |response| response.version_active = 1,
        |response| response.stage = Stage::OPERATIONAL,
        |response| response.next_stage = Stage::FULL_FEATURE,
        |response| response.is_continued = true,
    ];
    for change in wrong {
        let mut response = leaving;
        change(&mut response);
        let error = feed(&mut started(|_| {}), response, "AuthMethod=None\0").unwrap_err();
        assert_eq!(error, InitiatorError::Unexpected, "{response:?}");
    }
    assert!(feed(&mut started(|_| {}), leaving, "AuthMethod=None\0").is_ok());
}

#[test]
fn a_continued_response_is_fetched_piece_by_piece() {
    let mut login = started(|_| {});
    let mut piece = response(Stage::SECURITY, None);
    piece.is_continued = true;
    let (request, text) = sent(feed(&mut login, piece, "TargetAlias=long nam"));
    assert!(!request.is_transit && text.is_empty());
    let leaving = response(Stage::SECURITY, Some(Stage::OPERATIONAL));
    let (request, text) = sent(feed(&mut login, leaving, "e\0AuthMethod=None\0"));
    assert_eq!(request.stage, Stage::OPERATIONAL);
    assert!(request.is_transit && text.contains("MaxBurstLength=1048576\0"));
    let mut done = response(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    done.tsih = 5;
    let Ok(InitiatorStep::Done(outcome)) = feed(&mut login, done, "") else {
        panic!("the login is complete");
    };
    assert_eq!(outcome.target_alias.as_deref(), Some("long name"));
    assert_eq!(outcome.tsih, 5);
}

#[test]
fn a_target_that_hesitates_is_asked_again_but_not_for_ever() {
    let mut login = started(|_| {});
    let staying = response(Stage::SECURITY, None);
    for _ in 1..LOGIN_REQUESTS_MAX {
        let (request, _) = sent(feed(&mut login, staying, ""));
        assert!(request.is_transit);
    }
    let error = feed(&mut login, staying, "").unwrap_err();
    assert_eq!(error, InitiatorError::TooLong);
}

#[test]
fn a_session_without_tsih_is_refused() {
    let mut login = started(|_| {});
    let leaving = response(Stage::SECURITY, Some(Stage::OPERATIONAL));
    sent(feed(&mut login, leaving, "AuthMethod=None\0"));
    let done = response(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    let error = feed(&mut login, done, "").unwrap_err();
    assert_eq!(error, InitiatorError::Unexpected);
}

#[test]
fn a_method_or_algorithm_that_was_not_offered_is_refused() {
    let staying = response(Stage::SECURITY, None);
    let error = feed(&mut started(|_| {}), staying, "AuthMethod=CHAP\0").unwrap_err();
    assert_eq!(error, InitiatorError::Authentication);
    for challenge in [
        "CHAP_A=5\0CHAP_I=1\0CHAP_C=0x01\0",
        "CHAP_A=7\0CHAP_I=256\0CHAP_C=0x01\0",
        "CHAP_A=7\0CHAP_I=1\0CHAP_C=zz\0",
        "CHAP_A=7\0CHAP_I=1\0",
    ] {
        let mut login = started(|config| {
            let only = [crate::chap::Algorithm::Sha256];
            config.chap = initiator_chap(None).map(|chap| chap.with_algorithms(&only));
        });
        let (request, text) = sent(feed(&mut login, staying, "AuthMethod=CHAP\0"));
        assert!(!request.is_transit && text == "CHAP_A=7\0");
        let error = feed(&mut login, staying, challenge).unwrap_err();
        assert_eq!(error, InitiatorError::Authentication, "{challenge}");
    }
}

#[test]
fn an_initiator_that_wants_proof_takes_no_shortcut() {
    let want_proof = |config: &mut InitiatorConfig| config.chap = initiator_chap(Some(node()));
    let leaving = response(Stage::SECURITY, Some(Stage::OPERATIONAL));
    for text in ["AuthMethod=None\0", ""] {
        let error = feed(&mut started(want_proof), leaving, text).unwrap_err();
        assert_eq!(error, InitiatorError::TargetNotProved);
    }
    let error = feed(&mut started(want_proof), leaving, "AuthMethod=CHAP\0").unwrap_err();
    assert_eq!(error, InitiatorError::Unexpected, "nothing was proved");
    let staying = response(Stage::SECURITY, None);
    let mut login = started(want_proof);
    sent(feed(&mut login, staying, "AuthMethod=CHAP\0"));
    let (_, text) = sent(feed(&mut login, staying, "CHAP_A=5\0CHAP_I=1\0CHAP_C=0x0102\0"));
    assert!(text.contains("CHAP_N=alice\0") && text.contains("CHAP_C=0x01010101"));
    let error = feed(&mut login, leaving, "").unwrap_err();
    assert_eq!(error, InitiatorError::TargetNotProved, "the target kept silent");
}
