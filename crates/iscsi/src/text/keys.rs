//! The table of keys (RFC 7143 section 13, RFC 7144 7.1.1). Negotiation, the initiator's offers and the
//! table in the documentation derive from it.

use crate::params::{ConnectionParams, DigestPolicy, LocalLimits, SessionParams};
use std::ops::RangeInclusive;

/// When a key may be sent (section 13: "Use").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// During the login of any connection (IO).
    Login,
    /// During the login of a session's first connection (LO).
    LeadingLogin,
    /// In full feature phase (FFPO).
    FullFeature,
    /// At any time (ALL).
    Any,
}

/// Who may send a key first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
    /// Both.
    Both,
}

/// What a key's value holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All connections of the session (SW).
    Session,
    /// One connection (CO).
    Connection,
}

/// How two sides agree on a key, and where the result goes.
#[derive(Debug, Clone)]
pub enum Rule {
    /// Yes if both want it.
    And(BooleanKey),
    /// Yes if one wants it.
    Or(BooleanKey),
    /// The lower number of both.
    Min(NumberKey),
    /// The higher number of both.
    Max(NumberKey),
    /// The first of the offered digests that the other side accepts.
    Digest {
        /// What we want.
        wish: fn(&LocalLimits) -> DigestPolicy,
        /// Where the result goes.
        slot: fn(&mut ConnectionParams) -> &mut bool,
    },
    /// The first of the offered ways that the other side has.
    TaskReporting,
    /// Each side declares what it receives; there is no answer.
    SegmentLength,
    /// Declared by one side; read by what owns the exchange.
    Declared,
    /// Chosen from a list, as part of authentication.
    Security,
    /// No longer in use; gets this answer (13.25).
    Obsolete(&'static str),
}

/// A boolean that is negotiated.
#[derive(Debug, Clone)]
pub struct BooleanKey {
    /// What we want.
    pub wish: fn(&LocalLimits) -> bool,
    /// Where the result goes.
    pub slot: fn(&mut SessionParams) -> &mut bool,
}

/// A number that is negotiated.
#[derive(Debug, Clone)]
pub struct NumberKey {
    /// Values that may be offered.
    pub range: RangeInclusive<u32>,
    /// What we want.
    pub wish: fn(&LocalLimits) -> u32,
    /// Where the result goes.
    pub slot: fn(&mut SessionParams) -> &mut u32,
}

/// One key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its name, as it is on the wire.
    pub name: &'static str,
    /// How the sides agree on it.
    pub rule: Rule,
    /// When it may be sent.
    pub phase: Phase,
    /// Who may send it first.
    pub sender: Sender,
    /// What it holds for.
    pub scope: Scope,
    /// Whether it means nothing in a discovery session.
    pub is_irrelevant_in_discovery: bool,
    /// Where it is defined.
    pub clause: &'static str,
}

/// Lengths of bursts and segments: 512 to 2^24 - 1 bytes.
const LENGTHS: RangeInclusive<u32> = 512..=(1 << 24) - 1;

/// A key of the leading login that both sides negotiate for normal sessions.
const fn leading(name: &'static str, clause: &'static str, rule: Rule) -> Key {
    Key {
        name,
        rule,
        phase: Phase::LeadingLogin,
        sender: Sender::Both,
        scope: Scope::Session,
        is_irrelevant_in_discovery: true,
        clause,
    }
}

/// As [`leading`], for discovery sessions too.
const fn leading_any(name: &'static str, clause: &'static str, rule: Rule) -> Key {
    let mut key = leading(name, clause, rule);
    key.is_irrelevant_in_discovery = false;
    key
}

/// A key of one connection's login.
const fn connection(name: &'static str, clause: &'static str, rule: Rule) -> Key {
    let mut key = leading_any(name, clause, rule);
    key.phase = Phase::Login;
    key.scope = Scope::Connection;
    key
}

/// A key that one side declares.
const fn declared(name: &'static str, clause: &'static str, phase: Phase, sender: Sender) -> Key {
    let mut key = leading_any(name, clause, Rule::Declared);
    key.phase = phase;
    key.sender = sender;
    key
}

const fn number(
    range: RangeInclusive<u32>,
    wish: fn(&LocalLimits) -> u32,
    slot: fn(&mut SessionParams) -> &mut u32,
) -> NumberKey {
    NumberKey { range, wish, slot }
}

const fn boolean(
    wish: fn(&LocalLimits) -> bool,
    slot: fn(&mut SessionParams) -> &mut bool,
) -> BooleanKey {
    BooleanKey { wish, slot }
}

/// Every key that we know; all others are answered with `NotUnderstood`.
pub static KEYS: &[Key] = &[
    connection("AuthMethod", "12", Rule::Security),
    connection("CHAP_A", "12.1.3", Rule::Security),
    connection("CHAP_I", "12.1.3", Rule::Security),
    connection("CHAP_C", "12.1.3", Rule::Security),
    connection("CHAP_N", "12.1.3", Rule::Security),
    connection("CHAP_R", "12.1.3", Rule::Security),
    connection(
        "HeaderDigest",
        "13.1",
        Rule::Digest {
            wish: |limits| limits.header_digest,
            slot: |params| &mut params.header_digest,
        },
    ),
    connection(
        "DataDigest",
        "13.1",
        Rule::Digest { wish: |limits| limits.data_digest, slot: |params| &mut params.data_digest },
    ),
    leading(
        "MaxConnections",
        "13.2",
        Rule::Min(number(
            1..=65535,
            |limits| limits.max_connections,
            |params| &mut params.max_connections,
        )),
    ),
    declared("SendTargets", "13.3", Phase::FullFeature, Sender::Initiator),
    declared("TargetName", "13.4", Phase::Login, Sender::Initiator),
    declared("InitiatorName", "13.5", Phase::Login, Sender::Initiator),
    declared("TargetAlias", "13.6", Phase::Any, Sender::Target),
    declared("InitiatorAlias", "13.7", Phase::Any, Sender::Initiator),
    declared("TargetAddress", "13.8", Phase::Any, Sender::Target),
    declared("TargetPortalGroupTag", "13.9", Phase::Login, Sender::Target),
    leading(
        "InitialR2T",
        "13.10",
        Rule::Or(boolean(|limits| limits.initial_r2t, |params| &mut params.initial_r2t)),
    ),
    leading(
        "ImmediateData",
        "13.11",
        Rule::And(boolean(|limits| limits.immediate_data, |params| &mut params.immediate_data)),
    ),
    Key {
        phase: Phase::Any,
        ..connection("MaxRecvDataSegmentLength", "13.12", Rule::SegmentLength)
    },
    leading(
        "MaxBurstLength",
        "13.13",
        Rule::Min(number(
            LENGTHS,
            |limits| limits.max_burst_len_bytes,
            |params| &mut params.max_burst_len_bytes,
        )),
    ),
    leading(
        FIRST_BURST_LENGTH,
        "13.14",
        Rule::Min(number(
            LENGTHS,
            |limits| limits.first_burst_len_bytes,
            |params| &mut params.first_burst_len_bytes,
        )),
    ),
    leading_any(
        "DefaultTime2Wait",
        "13.15",
        Rule::Max(number(
            0..=3600,
            |limits| limits.default_time2wait_s,
            |params| &mut params.default_time2wait_s,
        )),
    ),
    leading_any(
        "DefaultTime2Retain",
        "13.16",
        Rule::Min(number(
            0..=3600,
            |limits| limits.default_time2retain_s,
            |params| &mut params.default_time2retain_s,
        )),
    ),
    leading(
        "MaxOutstandingR2T",
        "13.17",
        Rule::Min(number(
            1..=65535,
            |limits| limits.max_outstanding_r2t,
            |params| &mut params.max_outstanding_r2t,
        )),
    ),
    // We neither send nor accept data out of order: it would gain nothing over TCP.
    leading(
        "DataPDUInOrder",
        "13.18",
        Rule::Or(boolean(|_| true, |params| &mut params.data_pdu_in_order)),
    ),
    leading(
        "DataSequenceInOrder",
        "13.19",
        Rule::Or(boolean(|_| true, |params| &mut params.data_sequence_in_order)),
    ),
    leading_any(
        "ErrorRecoveryLevel",
        "13.20",
        Rule::Min(number(
            0..=2,
            |limits| limits.error_recovery_level,
            |params| &mut params.error_recovery_level,
        )),
    ),
    declared("SessionType", "13.21", Phase::LeadingLogin, Sender::Initiator),
    leading("TaskReporting", "13.23", Rule::TaskReporting),
    declared("X#NodeArchitecture", "13.26", Phase::LeadingLogin, Sender::Both),
    leading(
        "iSCSIProtocolLevel",
        "RFC 7144 7.1.1",
        Rule::Min(number(
            0..=31,
            |limits| limits.protocol_level,
            |params| &mut params.protocol_level,
        )),
    ),
    leading_any("IFMarker", "13.25", Rule::Obsolete("No")),
    leading_any("OFMarker", "13.25", Rule::Obsolete("No")),
    leading_any("IFMarkInt", "13.25", Rule::Obsolete(super::REJECT)),
    leading_any("OFMarkInt", "13.25", Rule::Obsolete(super::REJECT)),
];

/// Must not exceed MaxBurstLength, so it is settled after it (13.14).
pub(super) const FIRST_BURST_LENGTH: &str = "FirstBurstLength";

/// The key of this name and its place in [`KEYS`]; names are case-sensitive (6.1).
#[must_use]
pub fn find_key(name: &str) -> Option<(usize, &'static Key)> {
    KEYS.iter().enumerate().find(|(_, key)| key.name == name)
}

/// The table as Markdown, for the conformance page.
#[must_use]
pub fn table_markdown() -> String {
    use std::fmt::Write as _;
    let mut table = String::from(
        "| key | clause | sent by | when | holds for | rule | default | we offer |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for key in KEYS {
        let by = match key.sender {
            Sender::Initiator => "initiator",
            Sender::Target => "target",
            Sender::Both => "both",
        };
        let when = match key.phase {
            Phase::Login => "login",
            Phase::LeadingLogin => "leading login",
            Phase::FullFeature => "full feature phase",
            Phase::Any => "any time",
        };
        let scope = match key.scope {
            Scope::Session => "session",
            Scope::Connection => "connection",
        };
        let (rule, default, offer) = describe(&key.rule);
        let clause = if key.clause.starts_with("RFC") {
            key.clause.to_owned()
        } else {
            format!("RFC 7143 {}", key.clause)
        };
        writeln!(
            table,
            "| {} | {clause} | {by} | {when} | {scope} | {rule} | {default} | {offer} |",
            key.name
        )
        .expect("writing to a string cannot fail");
    }
    table
}

/// A rule in words, the value without negotiation, and what the default limits offer.
fn describe(rule: &Rule) -> (String, String, String) {
    let (mut session, limits) = (SessionParams::default(), LocalLimits::default());
    let yes_no = |yes: bool| if yes { "Yes" } else { "No" }.to_owned();
    let none = String::new;
    match rule {
        Rule::And(key) | Rule::Or(key) => {
            let word = if matches!(rule, Rule::And(_)) { "AND" } else { "OR" };
            let default = yes_no(*(key.slot)(&mut session));
            (format!("boolean, {word}"), default, yes_no((key.wish)(&limits)))
        }
        Rule::Min(key) | Rule::Max(key) => {
            let word = if matches!(rule, Rule::Min(_)) { "minimum" } else { "maximum" };
            let (low, high) = (key.range.start(), key.range.end());
            let default = (key.slot)(&mut session).to_string();
            let offer = (key.wish)(&limits).to_string();
            (format!("number {low} to {high}, {word}"), default, offer)
        }
        Rule::Digest { wish, .. } => {
            let offer = super::negotiation::digest_offer(wish(&limits)).to_owned();
            ("list: None, CRC32C".to_owned(), "None".to_owned(), offer)
        }
        Rule::TaskReporting => {
            let rule = "list: RFC3720, ResponseFence, FastAbort".to_owned();
            let offer = super::negotiation::task_reporting_offer(limits.task_reporting);
            (rule, "RFC3720".to_owned(), offer.to_owned())
        }
        Rule::SegmentLength => {
            let rule = format!("number {} to {}, declared", LENGTHS.start(), LENGTHS.end());
            let default = crate::params::DEFAULT_MAX_RECV_DATA_SEGMENT_BYTES.to_string();
            (rule, default, limits.max_recv_data_segment_len_bytes.to_string())
        }
        Rule::Declared => ("declared".to_owned(), none(), none()),
        Rule::Security => ("authentication".to_owned(), none(), none()),
        Rule::Obsolete(answer) => (format!("obsolete, answered {answer}"), none(), none()),
    }
}
