//! Text: pairs, values, names, SendTargets, operational negotiation and Text Requests.

use super::input::Input;
use iscsi::discovery::{
    Portal, PortalAddress, SendTargets, TargetText, TextEnv, TextStep, parse_records, write_record,
};
use iscsi::params::{ConnectionParams, DigestPolicy, LocalLimits, TaskReporting};
use iscsi::pdu::{RESERVED_TAG, TextRequest};
use iscsi::text::{
    BINARY_LEN_BYTES_MAX, IscsiName, Negotiation, PAIRS_MAX, Pair, Role, TextWriter, decode_binary,
    encode_base64, encode_hex, parse_boolean, parse_number, parse_pairs, refuse_repeated_keys,
};

/// What to do with the text, then the text.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    match input.byte() % 4 {
        0 => pairs(input.rest()),
        1 => values(input.rest()),
        2 => negotiate(input),
        _ => requests(input),
    }
}

/// Pairs survive being written, and their text is read the same way as a list of targets.
fn pairs(text: &[u8]) {
    if let Ok(pairs) = parse_pairs(text, PAIRS_MAX) {
        assert!(pairs.len() <= PAIRS_MAX);
        let text = write(&pairs);
        assert_eq!(parse_pairs(&text, PAIRS_MAX).as_deref(), Ok(&pairs[..]));
        let is_repeated = |at: usize| pairs[..at].iter().any(|pair| pair.key == pairs[at].key);
        let has_repeated = (0..pairs.len()).any(is_repeated);
        assert_eq!(refuse_repeated_keys(&pairs).is_err(), has_repeated);
    }
    if let Ok(targets) = parse_records(text) {
        let mut again = TextWriter::new();
        for target in &targets {
            let portals: Vec<_> = target.addresses.iter().filter_map(portal).collect();
            write_record(&target.name, &portals, &mut again);
        }
        let names = parse_records(&again.into_bytes()).expect("our own records are well formed");
        assert!(names.iter().map(|t| &t.name).eq(targets.iter().map(|t| &t.name)));
    }
}

fn write(pairs: &[Pair<'_>]) -> Vec<u8> {
    let mut out = TextWriter::new();
    for pair in pairs {
        out.push(pair.key, pair.value);
    }
    out.into_bytes()
}

fn portal(address: &PortalAddress) -> Option<Portal> {
    Some(Portal { address: address.socket_addr()?, group_tag: address.group_tag.unwrap_or(1) })
}

/// What is read from a value is written back to the same.
fn values(text: &[u8]) {
    let Ok(value) = std::str::from_utf8(text) else { return };
    if let Some(number) = parse_number(value) {
        assert_eq!(parse_number(&number.to_string()), Some(number));
        assert_eq!(parse_number(&format!("{number:#x}")), Some(number));
    }
    assert_eq!(parse_boolean(value).is_some(), ["Yes", "No"].contains(&value));
    if let Some(bytes) = decode_binary(value, BINARY_LEN_BYTES_MAX) {
        assert!(bytes.len() <= BINARY_LEN_BYTES_MAX);
        for again in [encode_hex(&bytes), encode_base64(&bytes)] {
            assert_eq!(decode_binary(&again, BINARY_LEN_BYTES_MAX).as_ref(), Some(&bytes));
        }
    }
    if let Ok(name) = IscsiName::parse(value) {
        assert_eq!(IscsiName::parse(name.as_str()).as_ref(), Ok(&name));
        assert!(name.as_str().eq_ignore_ascii_case(value));
        assert_eq!(SendTargets::parse(value), Some(SendTargets::One(name)));
    }
    if let Ok(address) = value.parse::<PortalAddress>()
        && let Some(literal) = address.socket_addr()
    {
        let again = portal(&address).expect("a literal address").to_string();
        let again: PortalAddress = again.parse().expect("our own addresses are well formed");
        assert_eq!(again.socket_addr(), Some(literal));
    }
}

/// What one side of a negotiation brings.
fn limits(input: &mut Input<'_>) -> LocalLimits {
    let flags = input.byte();
    let digest = |bits: u8| match bits & 3 {
        0 => DigestPolicy::Allow,
        1 => DigestPolicy::Refuse,
        2 => DigestPolicy::Prefer,
        _ => DigestPolicy::Require,
    };
    LocalLimits {
        header_digest: digest(flags),
        data_digest: digest(flags >> 2),
        initial_r2t: flags & 0x10 != 0,
        immediate_data: flags & 0x20 == 0,
        task_reporting: if flags & 0x40 == 0 {
            TaskReporting::Rfc3720
        } else {
            TaskReporting::FastAbort
        },
        max_burst_len_bytes: 65536 + u32::from(input.be16()),
        first_burst_len_bytes: 512 + u32::from(input.be16()),
        ..LocalLimits::default()
    }
}

/// Any texts from the peer, to either role: what is settled is within both sides' limits.
fn negotiate(mut input: Input<'_>) {
    let flags = input.byte();
    let limits = limits(&mut input);
    let role = if flags & 1 == 0 { Role::Target } else { Role::Initiator };
    let mut negotiation = Negotiation::new(role, &limits, flags & 2 == 0, flags & 4 != 0);
    if role == Role::Initiator {
        let mut offers = TextWriter::new();
        negotiation.write_offers(&mut offers);
        negotiation.write_declaration(&mut offers);
        assert!(parse_pairs(&offers.into_bytes(), PAIRS_MAX).is_ok());
    }
    while !input.is_empty() {
        let Ok(pairs) = parse_pairs(input.chunk(), PAIRS_MAX) else { return };
        let mut answers = TextWriter::new();
        if negotiation.take_all(&pairs, &mut answers).is_err() {
            return;
        }
        let answers = answers.into_bytes();
        let answers = parse_pairs(&answers, PAIRS_MAX).expect("our answers are well formed");
        assert!(answers.len() <= pairs.len(), "at most one answer to a key");
    }
    let Ok((connection, session)) = negotiation.finish() else { return };
    assert!(session.first_burst_len_bytes <= session.max_burst_len_bytes);
    let segment = connection.max_recv_data_segment_peer_bytes;
    assert!((512..1 << 24).contains(&segment));
    assert!((512..1 << 24).contains(&session.max_burst_len_bytes));
    assert!(session.first_burst_len_bytes >= 512);
    assert!(session.max_connections >= 1 && session.max_connections <= limits.max_connections);
    assert!(session.max_outstanding_r2t >= 1);
    assert!(session.max_outstanding_r2t <= limits.max_outstanding_r2t);
    assert!(session.error_recovery_level <= limits.error_recovery_level);
    assert!(session.task_reporting <= limits.task_reporting);
    for (policy, is_on) in [
        (limits.header_digest, connection.header_digest),
        (limits.data_digest, connection.data_digest),
    ] {
        assert!(!is_on || policy != DigestPolicy::Refuse);
        assert!(is_on || policy != DigestPolicy::Require);
    }
}

/// A node with some targets.
struct Node {
    targets: u8,
}

impl TextEnv for Node {
    fn send_targets(&mut self, which: &SendTargets, out: &mut TextWriter) -> bool {
        if *which == SendTargets::All {
            for number in 0..self.targets {
                let name = IscsiName::parse(&format!("iqn.2026-11.dev.drystone:{number}"));
                let portal = Portal { address: ([10, 0, 0, number], 3260).into(), group_tag: 1 };
                write_record(&name.expect("a sound name"), &[portal], out);
            }
        }
        *which != SendTargets::Current
    }
}

/// Any sequence of Text Requests in full feature phase.
fn requests(mut input: Input<'_>) {
    let mut node = Node { targets: input.byte() };
    let mut connection = ConnectionParams::default();
    let mut target = TargetText::new();
    let mut open = RESERVED_TAG;
    while !input.is_empty() {
        let flags = input.byte();
        let request = TextRequest {
            is_immediate: false,
            is_final: flags & 1 == 0,
            is_continued: flags & 2 != 0,
            data_segment_len_bytes: 0,
            lun: 0,
            itt: u32::from(flags & 4),
            ttt: if flags & 8 == 0 { open } else { input.be32() },
            cmd_sn: 0,
            exp_stat_sn: 0,
        };
        match target.on_request(&request, input.chunk(), &mut connection, &mut node) {
            TextStep::Respond { is_final, is_continued, ttt, data } => {
                assert!(data.len() <= connection.max_recv_data_segment_peer_bytes as usize);
                assert!(!is_final || (request.is_final && !is_continued), "F only answers F");
                assert_eq!(is_final, ttt == RESERVED_TAG, "an open exchange has a tag");
                assert_eq!(target.is_open(), !is_final);
                open = ttt;
            }
            TextStep::Reject(_) => {
                assert!(!target.is_open(), "nothing is kept of what was rejected");
                open = RESERVED_TAG;
            }
        }
    }
}
