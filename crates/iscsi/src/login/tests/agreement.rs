//! Whatever the two sides bring, they end with the same parameters, and these follow the keys' rules.

use super::*;
use crate::params::{DigestPolicy, SessionParams, TaskReporting};
use proptest::prelude::*;

/// Any policy, and any limits within their ranges.
fn any_limits() -> impl Strategy<Value = LocalLimits> {
    let digest = prop_oneof![
        Just(DigestPolicy::Refuse),
        Just(DigestPolicy::Allow),
        Just(DigestPolicy::Prefer)
    ];
    let reporting = prop_oneof![
        Just(TaskReporting::Rfc3720),
        Just(TaskReporting::ResponseFence),
        Just(TaskReporting::FastAbort)
    ];
    let lengths = 512_u32..1 << 24;
    let bits = (any::<bool>(), any::<bool>(), digest.clone(), digest, reporting);
    let bytes = (lengths.clone(), lengths.clone(), lengths);
    let counts = (1..=65535_u32, 1..=65535_u32, 0..=3600_u32, 0..=3600_u32, 0..=2_u32, 0..=31_u32);
    (bits, bytes, counts).prop_map(|(bits, bytes, counts)| LocalLimits {
        initial_r2t: bits.0,
        immediate_data: bits.1,
        header_digest: bits.2,
        data_digest: bits.3,
        task_reporting: bits.4,
        max_recv_data_segment_len_bytes: bytes.0,
        max_burst_len_bytes: bytes.1,
        first_burst_len_bytes: bytes.2,
        max_connections: counts.0,
        max_outstanding_r2t: counts.1,
        default_time2wait_s: counts.2,
        default_time2retain_s: counts.3,
        error_recovery_level: counts.4,
        protocol_level: counts.5,
    })
}

/// What the digest key gives for an initiator and a target policy.
fn digest_of(initiator: DigestPolicy, target: DigestPolicy) -> bool {
    use DigestPolicy::{Allow, Prefer, Refuse, Require};
    match (initiator, target) {
        (Refuse, _) | (_, Refuse) | (Allow, Allow) => false,
        (Require | Prefer, _) | (_, Require | Prefer) => true,
    }
}

/// What section 13 gives for two sides, key by key.
fn expected_session(one: &LocalLimits, other: &LocalLimits) -> SessionParams {
    let max_burst_len_bytes = one.max_burst_len_bytes.min(other.max_burst_len_bytes);
    let first_burst = one.first_burst_len_bytes.min(other.first_burst_len_bytes);
    SessionParams {
        initial_r2t: one.initial_r2t || other.initial_r2t,
        immediate_data: one.immediate_data && other.immediate_data,
        max_burst_len_bytes,
        first_burst_len_bytes: first_burst.min(max_burst_len_bytes),
        max_outstanding_r2t: one.max_outstanding_r2t.min(other.max_outstanding_r2t),
        max_connections: one.max_connections.min(other.max_connections),
        default_time2wait_s: one.default_time2wait_s.max(other.default_time2wait_s),
        default_time2retain_s: one.default_time2retain_s.min(other.default_time2retain_s),
        data_pdu_in_order: true,
        data_sequence_in_order: true,
        error_recovery_level: one.error_recovery_level.min(other.error_recovery_level),
        task_reporting: one.task_reporting.min(other.task_reporting),
        protocol_level: one.protocol_level.min(other.protocol_level),
    }
}

proptest! {
    #[test]
    fn both_sides_agree_and_every_key_follows_its_rule(ours in any_limits(), theirs in any_limits(),
                                                       with_chap in any::<bool>(), mutual in any::<bool>()) {
        let mut env = Env::default();
        let mut config = initiator_config(&theirs);
        if with_chap {
            let proof = mutual.then(node);
            env.auth = Some(chap(proof.clone()));
            config.chap = initiator_chap(proof);
        }
        let (initiator, target) = run_done(config, &ours, &mut env);
        prop_assert_eq!(initiator.session, target.session);
        prop_assert_eq!(target.session, expected_session(&ours, &theirs));
        prop_assert_eq!(target.proved.is_some(), with_chap);

        let (there, here) = (initiator.connection, target.connection);
        prop_assert_eq!(here.header_digest, digest_of(theirs.header_digest, ours.header_digest));
        prop_assert_eq!(here.data_digest, digest_of(theirs.data_digest, ours.data_digest));
        prop_assert_eq!((there.header_digest, there.data_digest), (here.header_digest, here.data_digest));
        prop_assert_eq!(here.max_recv_data_segment_local_bytes, ours.max_recv_data_segment_len_bytes);
        prop_assert_eq!(here.max_recv_data_segment_peer_bytes, theirs.max_recv_data_segment_len_bytes);
        prop_assert_eq!(there.max_recv_data_segment_local_bytes, theirs.max_recv_data_segment_len_bytes);
        prop_assert_eq!(there.max_recv_data_segment_peer_bytes, ours.max_recv_data_segment_len_bytes);
    }

    #[test]
    fn a_discovery_session_settles_connection_keys_only(ours in any_limits(), theirs in any_limits()) {
        let mut config = initiator_config(&theirs);
        config.target_name = None;
        let (initiator, target) = run_done(config, &ours, &mut Env::default());
        prop_assert_eq!(target.session_type, SessionType::Discovery);
        prop_assert_eq!(initiator.session, target.session);
        let settled = expected_session(&ours, &theirs);
        let expected = SessionParams {
            default_time2wait_s: settled.default_time2wait_s,
            default_time2retain_s: settled.default_time2retain_s,
            error_recovery_level: settled.error_recovery_level,
            ..SessionParams::default()
        };
        prop_assert_eq!(target.session, expected);
        prop_assert_eq!(initiator.connection.header_digest, target.connection.header_digest);
    }
}

#[test]
fn the_outcome_tells_who_logged_in_where() {
    let limits = LocalLimits::default();
    let (initiator, target) = run_done(initiator_config(&limits), &limits, &mut Env::default());
    assert_eq!(target.session_type, SessionType::Normal);
    assert_eq!(target.initiator_name, name(INITIATOR));
    assert_eq!(target.initiator_alias.as_deref(), Some("my host"));
    assert_eq!(target.target_name, Some(name(TARGET)));
    assert_eq!((target.isid, target.tsih, target.cid), ([0x80, 1, 2, 3, 4, 5], 7, 9));
    assert_eq!((target.portal_group_tag, target.chap_user()), (3, None));
    assert_eq!((target.exp_cmd_sn, target.max_cmd_sn), (42, 42 + 63));
    assert_eq!(target.next_stat_sn, 102, "two responses were sent");
    assert_eq!(initiator.tsih, 7);
    assert_eq!(initiator.target_alias.as_deref(), Some("the alias"));
    assert_eq!(initiator.portal_group_tag, Some(3));
    assert_eq!((initiator.exp_cmd_sn, initiator.max_cmd_sn), (42, 105));
    assert_eq!(initiator.exp_stat_sn, target.next_stat_sn);
}

#[test]
fn a_joining_connection_takes_the_sessions_parameters() {
    let limits = LocalLimits::default();
    let session = SessionParams { max_burst_len_bytes: 4096, ..SessionParams::default() };
    let mut env = Env {
        decision: SessionDecision::Join { session, exp_cmd_sn: 500, max_cmd_sn: 531 },
        ..Env::default()
    };
    let config = InitiatorConfig { tsih: 7, ..initiator_config(&limits) };
    let (initiator, target) = run_done(config, &limits, &mut env);
    assert_eq!(target.session, session);
    assert_eq!((target.tsih, initiator.tsih), (7, 7));
    assert_eq!((initiator.exp_cmd_sn, initiator.max_cmd_sn), (500, 531));
}

#[test]
fn a_reinstated_session_has_a_tsih_of_its_own() {
    let limits = LocalLimits::default();
    let mut env = Env { decision: SessionDecision::Reinstate { tsih: 8 }, ..Env::default() };
    let (initiator, target) = run_done(initiator_config(&limits), &limits, &mut env);
    assert_eq!((initiator.tsih, target.tsih), (8, 8));
    assert_eq!(target.decision, SessionDecision::Reinstate { tsih: 8 });
}
