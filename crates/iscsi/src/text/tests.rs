use super::*;
use crate::params::{DigestPolicy, LocalLimits, SessionParams};
use proptest::prelude::*;

fn pairs(text: &str) -> Vec<Pair<'_>> {
    parse_pairs(text.as_bytes(), PAIRS_MAX).unwrap()
}

/// The target's answers to one text, as one string with spaces for NULs.
fn answers(negotiation: &mut Negotiation, text: &str) -> Result<String, NegotiationError> {
    let mut out = TextWriter::new();
    negotiation.take_all(&pairs(text), &mut out)?;
    let text = String::from_utf8(out.into_bytes()).unwrap();
    Ok(text.trim_end_matches('\0').replace('\0', " "))
}

fn target(limits: &LocalLimits) -> Negotiation {
    Negotiation::new(Role::Target, limits, true, false)
}

#[test]
fn pairs_are_split_at_nul_and_first_equals_sign() {
    let text = "A=1\0B=x=y\0\0C=\0D=last";
    let split: Vec<_> = pairs(text).iter().map(|p| (p.key, p.value)).collect();
    assert_eq!(split, [("A", "1"), ("B", "x=y"), ("C", ""), ("D", "last")]);
    assert!(pairs("").is_empty());
}

#[test]
fn malformed_texts_are_refused() {
    let long_key = format!("{}=1\0", "K".repeat(64));
    let long_value = format!("K={}\0", "v".repeat(256));
    let long_chap = format!("CHAP_R=0x{}\0", "0".repeat(2049));
    let cases: [(&[u8], TextError); 7] = [
        (b"Key\0", TextError::NoValue),
        (b"=1\0", TextError::KeyName),
        (b"Ke y=1\0", TextError::KeyName),
        (b"K=\xff\0", TextError::Encoding),
        (long_key.as_bytes(), TextError::KeyName),
        (long_value.as_bytes(), TextError::ValueTooLong),
        (long_chap.as_bytes(), TextError::ValueTooLong),
    ];
    for (text, error) in cases {
        assert_eq!(parse_pairs(text, PAIRS_MAX), Err(error), "{text:?}");
    }
    let longest = format!("{}={}\0", "K".repeat(63), "v".repeat(255));
    assert_eq!(pairs(&longest).len(), 1);
    let many = "K=1\0".repeat(PAIRS_MAX + 1);
    let refused = parse_pairs(many.as_bytes(), PAIRS_MAX);
    assert_eq!(refused, Err(TextError::TooManyPairs));
    let twice = refuse_repeated_keys(&pairs("A=1\0B=1\0A=2\0"));
    assert_eq!(twice, Err(TextError::RepeatedKey));
    assert_eq!(refuse_repeated_keys(&pairs("A=1\0B=1\0a=2\0")), Ok(()));
}

#[test]
fn continued_texts_are_put_together_within_bounds() {
    let mut text = Reassembly::new(8);
    assert_eq!(text.push(b"Key", true), Ok(None));
    assert!(text.is_partial());
    let whole = text.push(b"=1\0", false).unwrap();
    assert_eq!(whole.as_deref(), Some(&b"Key=1\0"[..]));
    assert!(!text.is_partial());
    assert_eq!(text.push(b"12345678", true), Ok(None));
    assert_eq!(text.push(b"9", false), Err(TextError::TooLong));
    assert!(!text.is_partial());
}

#[test]
fn numbers_are_decimal_or_hexadecimal() {
    assert_eq!(parse_number("262144"), Some(262_144));
    assert_eq!(parse_number("0x40000"), Some(262_144));
    assert_eq!(parse_number("0XfF"), Some(255));
    for wrong in ["", "+1", "-1", "0x", "0x+1", " 1", "1k", "18446744073709551616"] {
        assert_eq!(parse_number(wrong), None, "{wrong:?}");
    }
}

#[test]
fn binary_values_have_two_forms() {
    assert_eq!(decode_binary("0x0aFF", 9), Some(vec![10, 255]));
    assert_eq!(decode_binary("0x123", 9), Some(vec![1, 0x23]));
    assert_eq!(decode_binary("0bTWFu", 9), Some(b"Man".to_vec()));
    assert_eq!(decode_binary("0BTWE=", 9), Some(b"Ma".to_vec()));
    assert_eq!(decode_binary("0bTQ", 9), Some(b"M".to_vec()));
    assert_eq!(encode_base64(b"Ma"), "0bTWE=");
    assert_eq!(encode_base64(b"M"), "0bTQ==");
    for wrong in ["", "0", "0x", "0b", "12", "0xgg", "0bT", "0bTWF=x", "0bTR==", "0b====", "0é"] {
        assert_eq!(decode_binary(wrong, 9), None, "{wrong:?}");
    }
}

#[test]
fn names_have_three_forms_and_one_case() {
    let name = IscsiName::parse("IQN.2001-04.com.Example:Disk.1").unwrap();
    assert_eq!(name.as_str(), "iqn.2001-04.com.example:disk.1");
    for good in [
        "iqn.1993-08.org.debian:01:abc-def",
        "iqn.2026-11.dev.drystone:export",
        "eui.02004567A425678D",
        "naa.52004567BA64678D",
        "naa.62004567BA64678D0123456789ABCDEF",
    ] {
        assert!(IscsiName::parse(good).is_ok(), "{good}");
    }
    for (bad, error) in [
        ("", NameError::Form),
        ("disk", NameError::Form),
        ("iqn.2001-13.com.example", NameError::Form),
        ("iqn.2001-00.com.example", NameError::Form),
        ("iqn.2001-04", NameError::Form),
        ("iqn.2001-04.", NameError::Form),
        ("iqn.20x1-04.com", NameError::Form),
        ("eui.0123", NameError::Form),
        ("naa.0123456789abcdef0", NameError::Form),
        ("iqn.2001-04.com.exämple", NameError::Character),
        ("iqn.2001-04.com.example:a b", NameError::Character),
        ("iqn.2001-04.com.example:a/b", NameError::Character),
    ] {
        assert_eq!(IscsiName::parse(bad), Err(error), "{bad}");
    }
    let long = format!("iqn.2001-04.com:{}", "x".repeat(208));
    assert_eq!(IscsiName::parse(&long), Err(NameError::TooLong));
    assert!(IscsiName::parse(&long[..223]).is_ok());
}

#[test]
fn every_rule_gives_the_answer_of_its_clause() {
    let limits = LocalLimits {
        max_burst_len_bytes: 65536,
        first_burst_len_bytes: 131_072,
        default_time2wait_s: 3,
        data_digest: DigestPolicy::Prefer,
        ..LocalLimits::default()
    };
    let cases = [
        ("InitialR2T=No", "InitialR2T=No"),
        ("InitialR2T=Yes", "InitialR2T=Yes"),
        ("ImmediateData=Yes", "ImmediateData=Yes"),
        ("ImmediateData=No", "ImmediateData=No"),
        ("ImmediateData=yes", "ImmediateData=Reject"),
        ("DataPDUInOrder=No", "DataPDUInOrder=Yes"),
        ("DataSequenceInOrder=No", "DataSequenceInOrder=Yes"),
        ("MaxBurstLength=16776192", "MaxBurstLength=65536"),
        ("MaxBurstLength=0x400", "MaxBurstLength=1024"),
        ("MaxBurstLength=511", "MaxBurstLength=Reject"),
        ("MaxBurstLength=16777216", "MaxBurstLength=Reject"),
        ("DefaultTime2Wait=0", "DefaultTime2Wait=3"),
        ("DefaultTime2Wait=9", "DefaultTime2Wait=9"),
        ("DefaultTime2Retain=60", "DefaultTime2Retain=0"),
        ("ErrorRecoveryLevel=2", "ErrorRecoveryLevel=0"),
        ("MaxConnections=1", "MaxConnections=1"),
        ("MaxConnections=0", "MaxConnections=Reject"),
        ("MaxOutstandingR2T=16", "MaxOutstandingR2T=8"),
        ("HeaderDigest=None,CRC32C", "HeaderDigest=None"),
        ("HeaderDigest=CRC32C,None", "HeaderDigest=CRC32C"),
        ("HeaderDigest=SHA9", "HeaderDigest=Reject"),
        ("DataDigest=None,CRC32C", "DataDigest=CRC32C"),
        ("TaskReporting=FastAbort,RFC3720", "TaskReporting=RFC3720"),
        ("TaskReporting=FastAbort", "TaskReporting=Reject"),
        ("iSCSIProtocolLevel=31", "iSCSIProtocolLevel=2"),
        ("IFMarker=Yes", "IFMarker=No"),
        ("OFMarker=No", "OFMarker=No"),
        ("IFMarkInt=2048~8192", "IFMarkInt=Reject"),
        ("X-com.example.key=1", "X-com.example.key=NotUnderstood"),
        ("maxburstlength=512", "maxburstlength=NotUnderstood"),
        ("X-com.example.key=NotUnderstood", ""),
        ("SendTargets=All", "SendTargets=Reject"),
        ("TargetAlias=mine", "TargetAlias=Reject"),
        ("InitiatorAlias=mine", ""),
        ("MaxRecvDataSegmentLength=65536", ""),
    ];
    for (offer, answer) in cases {
        let text = format!("{offer}\0");
        assert_eq!(answers(&mut target(&limits), &text), Ok(answer.to_owned()), "{offer}");
    }
}

#[test]
fn first_burst_is_settled_after_max_burst() {
    let limits = LocalLimits::default();
    let mut negotiation = target(&limits);
    let answer = answers(&mut negotiation, "FirstBurstLength=262144\0MaxBurstLength=16384\0");
    assert_eq!(answer.unwrap(), "MaxBurstLength=16384 FirstBurstLength=16384");
    let (_, session) = negotiation.finish().unwrap();
    assert_eq!(session.first_burst_len_bytes, 16384);
}

#[test]
fn keys_that_mean_nothing_here_are_irrelevant() {
    let limits = LocalLimits::default();
    let text = "MaxBurstLength=4096\0DefaultTime2Wait=2\0HeaderDigest=None\0";
    let mut discovery = Negotiation::new(Role::Target, &limits, true, true);
    assert_eq!(
        answers(&mut discovery, text).unwrap(),
        "MaxBurstLength=Irrelevant DefaultTime2Wait=2 HeaderDigest=None"
    );
    let mut joining = Negotiation::new(Role::Target, &limits, false, false);
    assert_eq!(
        answers(&mut joining, text).unwrap(),
        "MaxBurstLength=Irrelevant DefaultTime2Wait=Irrelevant HeaderDigest=None"
    );
}

#[test]
fn a_key_is_negotiated_once() {
    let mut negotiation = target(&LocalLimits::default());
    answers(&mut negotiation, "MaxBurstLength=4096\0").unwrap();
    let again = answers(&mut negotiation, "MaxBurstLength=8192\0");
    assert_eq!(again, Err(NegotiationError::Repeated("MaxBurstLength")));
}

#[test]
fn declared_segment_length_must_be_in_range() {
    for value in ["511", "16777216", "many"] {
        let text = format!("MaxRecvDataSegmentLength={value}\0");
        let refused = answers(&mut target(&LocalLimits::default()), &text).unwrap_err();
        let expected = NegotiationError::Declaration("MaxRecvDataSegmentLength");
        assert_eq!(refused, expected, "{value}");
    }
}

#[test]
fn an_answer_must_fit_the_offer() {
    let limits = LocalLimits {
        max_burst_len_bytes: 65536,
        initial_r2t: true,
        immediate_data: false,
        header_digest: DigestPolicy::Refuse,
        default_time2wait_s: 5,
        ..LocalLimits::default()
    };
    let cases = [
        ("MaxBurstLength=65536", true),
        ("MaxBurstLength=65537", false),
        ("MaxBurstLength=Reject", true),
        ("InitialR2T=No", false),
        ("ImmediateData=Yes", false),
        ("HeaderDigest=CRC32C", false),
        ("HeaderDigest=None", true),
        ("DefaultTime2Wait=4", false),
        ("DefaultTime2Wait=6", true),
        ("TaskReporting=FastAbort", false),
        ("TaskReporting=NotUnderstood", true),
    ];
    for (answer, fits) in cases {
        let mut negotiation = Negotiation::new(Role::Initiator, &limits, true, false);
        negotiation.write_offers(&mut TextWriter::new());
        let taken = answers(&mut negotiation, &format!("{answer}\0"));
        assert_eq!(taken.is_ok(), fits, "{answer}");
        assert!(taken.is_err() || taken.unwrap().is_empty(), "answers are not answered");
    }
}

#[test]
fn a_declined_key_keeps_its_default() {
    let limits = LocalLimits::default();
    let mut negotiation = Negotiation::new(Role::Initiator, &limits, true, false);
    negotiation.write_offers(&mut TextWriter::new());
    let text = "MaxBurstLength=Reject\0InitialR2T=NotUnderstood\0";
    answers(&mut negotiation, text).unwrap();
    assert_eq!(negotiation.finish().unwrap().1, SessionParams::default());
}

#[test]
fn a_required_digest_must_be_agreed_on() {
    let limits = LocalLimits { data_digest: DigestPolicy::Require, ..LocalLimits::default() };
    let mut negotiation = target(&limits);
    assert_eq!(answers(&mut negotiation, "DataDigest=None\0").unwrap(), "DataDigest=Reject");
    let refused = negotiation.finish().unwrap_err();
    assert_eq!(refused, NegotiationError::DigestRequired("DataDigest"));
    let mut negotiation = target(&limits);
    answers(&mut negotiation, "DataDigest=None,CRC32C\0").unwrap();
    assert!(negotiation.finish().unwrap().0.data_digest);
}

#[test]
fn the_table_names_every_key_once_and_renders() {
    let table = table_markdown();
    for (index, key) in KEYS.iter().enumerate() {
        assert_eq!(find_key(key.name).unwrap().0, index, "{} comes twice", key.name);
        assert!(table.contains(&format!("| {} | ", key.name)));
    }
    assert_eq!(table.lines().count(), KEYS.len() + 2);
    assert!(table.contains(
        "| MaxBurstLength | RFC 7143 13.13 | both | leading login | session | \
         number 512 to 16777215, minimum | 262144 | 1048576 |"
    ));
}

#[test]
fn answers_to_the_longest_text_fit_one_login_pdu() {
    let mut text = TextWriter::new();
    for number in 0..PAIRS_MAX {
        text.push(&format!("{number:K>63}"), "x".repeat(VALUE_LEN_BYTES_MAX));
    }
    let bytes = text.into_bytes();
    let unknown = parse_pairs(&bytes, PAIRS_MAX).unwrap();
    let mut out = TextWriter::new();
    target(&LocalLimits::default()).take_all(&unknown, &mut out).unwrap();
    let len_bytes = out.len_bytes();
    assert!(len_bytes > 64 * 70 && len_bytes < 6 << 10, "{len_bytes}");
}

proptest! {
    #[test]
    fn any_bytes_are_pairs_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        if let Ok(pairs) = parse_pairs(&bytes, PAIRS_MAX) {
            prop_assert!(pairs.len() <= PAIRS_MAX);
            let _ = refuse_repeated_keys(&pairs);
        }
    }

    #[test]
    fn pairs_round_trip(keys in proptest::collection::vec("[A-Z][A-Za-z0-9.+@_-]{0,62}", 0..20),
                        value in "[^\0]{0,60}") {
        let mut text = TextWriter::new();
        for key in &keys {
            text.push(key, &value);
        }
        let bytes = text.into_bytes();
        let parsed = parse_pairs(&bytes, PAIRS_MAX).unwrap();
        prop_assert_eq!(parsed.len(), keys.len());
        for (pair, key) in parsed.iter().zip(&keys) {
            prop_assert_eq!((pair.key, pair.value), (key.as_str(), value.as_str()));
        }
    }

    #[test]
    fn any_value_of_any_key_is_taken_or_refused(index in 0..KEYS.len(), value in "[^\0]{0,255}",
                                                is_target in any::<bool>(), has_offered in any::<bool>()) {
        let role = if is_target { Role::Target } else { Role::Initiator };
        let mut negotiation = Negotiation::new(role, &LocalLimits::default(), true, false);
        if has_offered {
            negotiation.write_offers(&mut TextWriter::new());
        }
        let pair = Pair { key: KEYS[index].name, value: &value };
        let _ = negotiation.take_all(&[pair], &mut TextWriter::new());
        let _ = (decode_binary(&value, 255), parse_number(&value), IscsiName::parse(&value));
    }

    #[test]
    fn a_normalised_name_stays_itself(name in "(iqn\\.20[0-9]{2}-1[0-2]\\.[A-Za-z][A-Za-z0-9.:-]{0,200}|(eui|NAA)\\.[0-9A-Fa-f]{16})") {
        let parsed = IscsiName::parse(&name).unwrap();
        prop_assert_eq!(IscsiName::parse(parsed.as_str()), Ok(parsed));
    }
}
