//! Every status that a login can be refused with (RFC 7143 11.13.5).

use super::*;
use crate::pdu::{NopOut, RESERVED_TAG};

/// Sends `text` as a first request to a fresh target.
fn first(text: &str, mut env: Env) -> (LoginRefusal, LoginStatus) {
    let request = request(Stage::OPERATIONAL, Some(Stage::FULL_FEATURE));
    refused(&mut target_login(&LocalLimits::default()), request, text, &mut env)
}

fn with_lookup(lookup: TargetLookup) -> Env {
    Env { lookup, ..Env::default() }
}

#[test]
fn moved_targets_redirect_both_ways() {
    for (is_temporary, status) in
        [(true, LoginStatus::MOVED_TEMPORARILY), (false, LoginStatus::MOVED_PERMANENTLY)]
    {
        let mut env = with_lookup(TargetLookup::Moved {
            address: "[2001:db8::1]:3260".to_owned(),
            is_temporary,
        });
        let limits = LocalLimits::default();
        let End::Refused(refusal, seen) = run(initiator_config(&limits), &limits, &mut env) else {
            panic!("a redirection ends the login");
        };
        assert_eq!(refusal.status(), status);
        let Ok(InitiatorStep::Redirect { address, is_temporary: seen_temporary }) = seen else {
            panic!("{seen:?}");
        };
        assert_eq!(address, "[2001:db8::1]:3260");
        assert_eq!(seen_temporary, is_temporary);
    }
}

#[test]
fn targets_that_are_not_there_or_not_allowed() {
    let (_, status) = first(&hello(""), with_lookup(TargetLookup::NotFound));
    assert_eq!(status, LoginStatus::NOT_FOUND);
    let (_, status) = first(&hello(""), with_lookup(TargetLookup::Removed));
    assert_eq!(status, LoginStatus::TARGET_REMOVED);
    let (_, status) = first(&hello(""), with_lookup(TargetLookup::Offline));
    assert_eq!(status, LoginStatus::SERVICE_UNAVAILABLE, "the initiator tries again later");
    let env = Env { auth: None, ..Env::default() };
    let (_, status) = first(&hello(""), env);
    assert_eq!(status, LoginStatus::AUTHORIZATION_FAILURE);
    let (_, status) = first(&hello(""), Env { auth: Some(chap(None)), ..Env::default() });
    assert_eq!(status, LoginStatus::AUTHENTICATION_FAILURE);
}

#[test]
fn missing_and_malformed_names() {
    let no_initiator = format!("TargetName={TARGET}\0");
    let (refusal, status) = first(&no_initiator, Env::default());
    assert_eq!(refusal, LoginRefusal::Missing("InitiatorName"));
    assert_eq!(status, LoginStatus::MISSING_PARAMETER);
    let no_target = format!("InitiatorName={INITIATOR}\0");
    let (refusal, status) = first(&no_target, Env::default());
    assert_eq!(refusal, LoginRefusal::Missing("TargetName"));
    assert_eq!(status, LoginStatus::MISSING_PARAMETER);
    let (refusal, status) = first("InitiatorName=me\0", Env::default());
    assert!(matches!(refusal, LoginRefusal::Name { key: "InitiatorName", .. }));
    assert_eq!(status, LoginStatus::INITIATOR_ERROR);
}

#[test]
fn sessions_that_have_no_place() {
    for status in [
        LoginStatus::TOO_MANY_CONNECTIONS,
        LoginStatus::CANT_INCLUDE_IN_SESSION,
        LoginStatus::SESSION_DOES_NOT_EXIST,
        LoginStatus::TARGET_ERROR,
        LoginStatus::SERVICE_UNAVAILABLE,
        LoginStatus::OUT_OF_RESOURCES,
    ] {
        let env = Env { decision: SessionDecision::Refuse(status), ..Env::default() };
        assert_eq!(first(&hello(""), env), (LoginRefusal::Session(status), status));
    }
    let env = Env { decision: SessionDecision::NotAuthorized, ..Env::default() };
    let refused = (LoginRefusal::NotAuthorized, LoginStatus::AUTHORIZATION_FAILURE);
    assert_eq!(first(&hello(""), env), refused, "it was until a moment ago");
}

#[test]
fn session_types_and_versions_that_are_not_supported() {
    let (_, status) = first(&hello("SessionType=Parallel\0"), Env::default());
    assert_eq!(status, LoginStatus::SESSION_TYPE_NOT_SUPPORTED);
    let mut newer = request(Stage::SECURITY, None);
    (newer.version_min, newer.version_max) = (1, 2);
    let mut target = target_login(&LocalLimits::default());
    let (refusal, status) = refused(&mut target, newer, &hello(""), &mut Env::default());
    assert_eq!(refusal, LoginRefusal::Version(1));
    assert_eq!(status, LoginStatus::UNSUPPORTED_VERSION);
}

#[test]
fn other_pdus_during_login() {
    let nop = NopOut {
        is_immediate: true,
        data_segment_len_bytes: 0,
        lun: 0,
        itt: 0x77,
        ttt: RESERVED_TAG,
        cmd_sn: 1,
        exp_stat_sn: 1,
    };
    let mut target = target_login(&LocalLimits::default());
    let step = target.on_request(&nop.to_bhs(), &[], &mut Env::default());
    let LoginStep::Fail { bhs, refusal, .. } = step else {
        panic!("{step:?}");
    };
    assert_eq!(refusal, LoginRefusal::NotALogin(NopOut::OPCODE));
    let response = LoginResponse::parse(Bhs::from_ref(&bhs)).unwrap();
    assert_eq!(response.status, LoginStatus::INVALID_DURING_LOGIN);
    assert_eq!(response.itt, 0x77);
}

#[test]
fn malformed_text_and_keys_out_of_bounds() {
    for more in
        ["NoValue\0", "MaxBurstLength=4096\0MaxBurstLength=4096\0", "MaxRecvDataSegmentLength=1\0"]
    {
        let (_, status) = first(&hello(more), Env::default());
        assert_eq!(status, LoginStatus::INITIATOR_ERROR, "{more}");
    }
}

#[test]
fn a_key_is_settled_once_in_a_login() {
    let (mut target, mut env) = (target_login(&LocalLimits::default()), Env::default());
    let operational = request(Stage::OPERATIONAL, None);
    send(&mut target, operational, &hello("MaxBurstLength=4096\0"), &mut env);
    let (refusal, status) = refused(&mut target, operational, "MaxBurstLength=4096\0", &mut env);
    assert!(matches!(refusal, LoginRefusal::Negotiation(_)));
    assert_eq!(status, LoginStatus::INITIATOR_ERROR);
}
