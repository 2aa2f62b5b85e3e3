use super::*;
use crate::params::ConnectionParams;
use crate::pdu::{RESERVED_TAG, RejectReason, TextRequest, TextResponse};
use crate::text::{IscsiName, TextWriter};
use proptest::prelude::*;

fn name(number: usize) -> IscsiName {
    IscsiName::parse(&format!("iqn.2026-11.dev.drystone:volume-{number}")).unwrap()
}

fn portal(address: &str) -> Portal {
    Portal { address: address.parse().unwrap(), group_tag: 1 }
}

/// A discovery session that may see `targets` targets.
struct Discovery {
    targets: usize,
}

impl TextEnv for Discovery {
    fn send_targets(&mut self, which: &SendTargets, out: &mut TextWriter) -> bool {
        let portals = [portal("10.0.0.1:3260"), portal("[2001:db8::1]:3261")];
        match which {
            SendTargets::All => {
                for number in 0..self.targets {
                    write_record(&name(number), &portals, out);
                }
                true
            }
            SendTargets::One(wanted) => {
                if (0..self.targets).any(|number| name(number) == *wanted) {
                    write_record(wanted, &portals, out);
                }
                true
            }
            SendTargets::Current => false,
        }
    }
}

fn request(ttt: u32, is_final: bool, is_continued: bool) -> TextRequest {
    TextRequest {
        is_immediate: true,
        is_final,
        is_continued,
        data_segment_len_bytes: 0,
        lun: 0,
        itt: 5,
        ttt,
        cmd_sn: 1,
        exp_stat_sn: 1,
    }
}

fn respond(is_final: bool, is_continued: bool, ttt: u32, text: &str) -> TextStep {
    TextStep::Respond { is_final, is_continued, ttt, data: text.as_bytes().to_vec() }
}

/// One request of one PDU to a fresh connection.
fn ask(text: &str) -> TextStep {
    let mut env = Discovery { targets: 1 };
    let mut connection = ConnectionParams::default();
    let request = request(RESERVED_TAG, true, false);
    TargetText::new().on_request(&request, text.as_bytes(), &mut connection, &mut env)
}

#[test]
fn send_targets_lists_names_and_addresses() {
    let record = "TargetName=iqn.2026-11.dev.drystone:volume-0\0\
                  TargetAddress=10.0.0.1:3260,1\0TargetAddress=[2001:db8::1]:3261,1\0";
    let whole = respond(true, false, RESERVED_TAG, record);
    assert_eq!(ask("SendTargets=All\0"), whole);
    assert_eq!(ask("SendTargets=IQN.2026-11.dev.drystone:volume-0\0"), whole);
    let nothing = respond(true, false, RESERVED_TAG, "");
    assert_eq!(ask("SendTargets=iqn.2026-11.dev.drystone:other\0"), nothing);
    let rejected = respond(true, false, RESERVED_TAG, "SendTargets=Reject\0");
    assert_eq!(ask("SendTargets=\0"), rejected, "a discovery session has no current target");
    assert_eq!(ask("SendTargets=everything\0"), rejected);
}

#[test]
fn addresses_do_not_carry_a_scope() {
    let mut link_local = portal("[fe80::1]:3260");
    if let std::net::SocketAddr::V6(address) = &mut link_local.address {
        address.set_scope_id(3);
    }
    assert_eq!(link_local.to_string(), "[fe80::1]:3260,1");
}

#[test]
fn other_keys_are_answered_by_their_rules() {
    for (text, answer) in [
        ("MaxBurstLength=4096\0", "MaxBurstLength=Reject\0"),
        ("InitiatorName=iqn.2001-04.com.example\0", "InitiatorName=Reject\0"),
        ("X-com.example.key=1\0", "X-com.example.key=NotUnderstood\0"),
        ("X-com.example.key=NotUnderstood\0", ""),
        ("InitiatorAlias=me\0", ""),
    ] {
        assert_eq!(ask(text), respond(true, false, RESERVED_TAG, answer), "{text}");
    }
    let malformed = TextStep::Reject(RejectReason::INVALID_PDU_FIELD);
    assert_eq!(ask("NoValue\0"), malformed);
    assert_eq!(ask("SendTargets=All\0SendTargets=All\0"), malformed);
    assert_eq!(ask("MaxRecvDataSegmentLength=100\0"), malformed);
}

#[test]
fn the_segment_length_can_change_at_any_time() {
    let mut connection = ConnectionParams::default();
    let text = b"MaxRecvDataSegmentLength=65536\0";
    let request = request(RESERVED_TAG, true, false);
    let mut env = Discovery { targets: 0 };
    let step = TargetText::new().on_request(&request, text, &mut connection, &mut env);
    assert_eq!(step, respond(true, false, RESERVED_TAG, ""));
    assert_eq!(connection.max_recv_data_segment_peer_bytes, 65536);
    assert_eq!(connection.max_recv_data_segment_local_bytes, 8192);
}

#[test]
fn a_request_in_pieces_is_answered_once_whole() {
    let (mut target, mut env) = (TargetText::new(), Discovery { targets: 0 });
    let mut connection = ConnectionParams::default();
    let piece = request(RESERVED_TAG, false, true);
    let step = target.on_request(&piece, b"X-com.exam", &mut connection, &mut env);
    assert_eq!(step, respond(false, false, 0, ""));
    assert!(target.is_open());
    let last = request(0, true, false);
    let step = target.on_request(&last, b"ple=1\0", &mut connection, &mut env);
    let answer = "X-com.example=NotUnderstood\0";
    assert_eq!(step, respond(true, false, RESERVED_TAG, answer));
    assert!(!target.is_open());
}

#[test]
fn an_exchange_without_f_stays_open() {
    let (mut target, mut env) = (TargetText::new(), Discovery { targets: 0 });
    let mut connection = ConnectionParams::default();
    let open = request(RESERVED_TAG, false, false);
    let step = target.on_request(&open, b"X-a=1\0", &mut connection, &mut env);
    assert_eq!(step, respond(false, false, 0, "X-a=NotUnderstood\0"));
    let step = target.on_request(&request(0, true, false), b"", &mut connection, &mut env);
    assert_eq!(step, respond(true, false, RESERVED_TAG, ""));
}

#[test]
fn requests_that_do_not_follow_are_rejected() {
    let protocol_error = TextStep::Reject(RejectReason::PROTOCOL_ERROR);
    let mut connection =
        ConnectionParams { max_recv_data_segment_peer_bytes: 512, ..ConnectionParams::default() };
    let mut env = Discovery { targets: 20 };
    let mut target = TargetText::new();
    let both = request(RESERVED_TAG, true, true);
    let step = target.on_request(&both, b"", &mut connection, &mut env);
    assert_eq!(step, protocol_error);
    let unknown = request(77, true, false);
    let step = target.on_request(&unknown, b"", &mut connection, &mut env);
    assert_eq!(step, protocol_error);
    let all = request(RESERVED_TAG, true, false);
    let step = target.on_request(&all, b"SendTargets=All\0", &mut connection, &mut env);
    assert!(matches!(step, TextStep::Respond { is_continued: true, ttt: 0, .. }));
    let talking = request(0, true, false);
    let step = target.on_request(&talking, b"X-a=1\0", &mut connection, &mut env);
    assert_eq!(step, protocol_error, "a response is under way");
    assert!(!target.is_open(), "the exchange is forgotten");
    let too_long = vec![b'x'; 40 << 10];
    let step = target.on_request(&all, &too_long, &mut connection, &mut env);
    assert_eq!(step, TextStep::Reject(RejectReason::INVALID_PDU_FIELD));
}

#[test]
fn a_new_exchange_ends_one_that_was_left() {
    let (mut target, mut env) = (TargetText::new(), Discovery { targets: 20 });
    let mut connection =
        ConnectionParams { max_recv_data_segment_peer_bytes: 512, ..ConnectionParams::default() };
    let all = request(RESERVED_TAG, true, false);
    target.on_request(&all, b"SendTargets=All\0", &mut connection, &mut env);
    let step = target.on_request(&all, b"X-a=1\0", &mut connection, &mut env);
    assert_eq!(step, respond(true, false, RESERVED_TAG, "X-a=NotUnderstood\0"));
    let old = request(0, true, false);
    let step = target.on_request(&old, b"", &mut connection, &mut env);
    assert_eq!(step, TextStep::Reject(RejectReason::PROTOCOL_ERROR));
}

/// Runs a whole exchange; returns the answer and how many requests it took.
fn exchange(
    text: &[u8],
    targets: usize,
    target_takes: u32,
    initiator_takes: u32,
) -> (Vec<u8>, u32) {
    let mut connection = ConnectionParams {
        max_recv_data_segment_peer_bytes: initiator_takes,
        ..ConnectionParams::default()
    };
    let (mut target, mut env) = (TargetText::new(), Discovery { targets });
    let mut initiator = InitiatorText::new(text.to_vec(), target_takes);
    let mut pdu = initiator.start();
    for requests in 1.. {
        assert!(pdu.data.len() <= target_takes as usize);
        let asked = request(pdu.ttt, pdu.is_final, pdu.is_continued);
        let TextStep::Respond { is_final, is_continued, ttt, data } =
            target.on_request(&asked, &pdu.data, &mut connection, &mut env)
        else {
            panic!("rejected");
        };
        assert!(data.len() <= initiator_takes as usize);
        let response = response(is_final, is_continued, ttt);
        match initiator.on_response(&response, &data).unwrap() {
            InitiatorTextStep::Send(next) => pdu = next,
            InitiatorTextStep::Done(answer) => {
                assert!(!target.is_open());
                return (answer, requests);
            }
        }
    }
    unreachable!("the loop has no end")
}

fn response(is_final: bool, is_continued: bool, ttt: u32) -> TextResponse {
    TextResponse {
        is_final,
        is_continued,
        data_segment_len_bytes: 0,
        lun: 0,
        itt: 5,
        ttt,
        stat_sn: 1,
        exp_cmd_sn: 1,
        max_cmd_sn: 1,
    }
}

#[test]
fn an_initiator_refuses_responses_that_contradict_themselves() {
    let wrong = [
        response(true, true, RESERVED_TAG),
        response(true, false, 3),
        response(false, false, RESERVED_TAG),
    ];
    for response in wrong {
        let mut initiator = InitiatorText::new(b"SendTargets=All\0".to_vec(), 8192);
        initiator.start();
        let error = initiator.on_response(&response, b"").unwrap_err();
        assert_eq!(error, InitiatorTextError::Unexpected, "{response:?}");
    }
    let mut initiator = InitiatorText::new(vec![b'x'; 600], 512);
    assert!(initiator.start().is_continued);
    let early = response(true, false, RESERVED_TAG);
    let error = initiator.on_response(&early, b"").unwrap_err();
    assert_eq!(error, InitiatorTextError::Unexpected, "half of the request was not sent");
}

#[test]
fn an_initiator_collects_within_bounds() {
    let more = response(false, true, 1);
    let mut initiator = InitiatorText::new(Vec::new(), 8192);
    initiator.start();
    let segment = vec![b'x'; 1 << 20];
    for _ in 0..4 {
        initiator.on_response(&more, &segment).unwrap();
    }
    assert!(initiator.on_response(&more, b"x").is_err());
    let mut initiator = InitiatorText::new(Vec::new(), 8192);
    initiator.start();
    let endless = (0..100_000).find(|_| initiator.on_response(&more, b"").is_err());
    assert_eq!(endless, Some(8192), "empty responses have an end too");
}

#[test]
fn addresses_are_read_in_all_forms() {
    for (text, host, port, group_tag) in [
        ("10.0.0.1:3261,7", "10.0.0.1", 3261, Some(7)),
        ("10.0.0.1", "10.0.0.1", 3260, None),
        ("[2001:db8::1]:99,1", "2001:db8::1", 99, Some(1)),
        ("[::1]", "::1", 3260, None),
        ("san.example.com:3260", "san.example.com", 3260, None),
    ] {
        let expected = PortalAddress { host: host.to_owned(), port, group_tag };
        assert_eq!(text.parse(), Ok(expected), "{text}");
    }
    for wrong in
        ["", ":3260", "a:b", "a:3260,x", "[::1", "[::1]3260", "[a]:1", "::1", "a b", "a:70000"]
    {
        assert_eq!(wrong.parse::<PortalAddress>(), Err(AddressError), "{wrong:?}");
    }
    let literal: PortalAddress = "[::1]:9".parse().unwrap();
    assert_eq!(literal.socket_addr(), "[::1]:9".parse().ok());
    let named: PortalAddress = "san:9".parse().unwrap();
    assert_eq!(named.socket_addr(), None);
}

#[test]
fn one_odd_record_does_not_hide_the_others() {
    let text = b"TargetAddress=10.0.0.9:1,1\0TargetName=odd\0TargetAddress=10.0.0.1:1,1\0\
                 TargetName=iqn.2026-11.dev.drystone:volume-3\0TargetAddress=odd:port\0\
                 TargetAddress=10.0.0.2:1,1\0X-a=1\0TargetName=iqn.2026-11.dev.drystone:volume-4\0";
    let records = parse_records(text).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].name, name(3));
    assert_eq!(records[0].addresses, ["10.0.0.2:1,1".parse().unwrap()]);
    assert_eq!((&records[1].name, records[1].addresses.len()), (&name(4), 0));
}

proptest! {
    #[test]
    fn any_list_arrives_whole_through_any_segments(targets in 0_usize..60, target_takes in 4_u32..600,
                                                   initiator_takes in 512_u32..4096) {
        let (answer, requests) = exchange(b"SendTargets=All\0", targets, target_takes, initiator_takes);
        let records = parse_records(&answer).unwrap();
        prop_assert_eq!(records.len(), targets);
        for (number, record) in records.iter().enumerate() {
            prop_assert_eq!(&record.name, &name(number));
            prop_assert_eq!(record.addresses.len(), 2);
        }
        let asked = 16_u32.div_ceil(target_takes);
        let answered = (answer.len() as u32).div_ceil(initiator_takes).max(1);
        prop_assert_eq!(requests, asked + answered - 1);
    }

    #[test]
    fn any_requests_are_answered_or_rejected(
        requests in proptest::collection::vec((any::<bool>(), any::<bool>(), 0_u32..3, any::<Vec<u8>>()), 1..8)) {
        let (mut target, mut env) = (TargetText::new(), Discovery { targets: 9 });
        let mut connection = ConnectionParams::default();
        for (is_final, is_continued, ttt, text) in requests {
            let ttt = if ttt == 2 { RESERVED_TAG } else { ttt };
            let asked = request(ttt, is_final, is_continued);
            if let TextStep::Respond { is_final: done, .. } =
                target.on_request(&asked, &text, &mut connection, &mut env) {
                prop_assert!(is_final || !done, "F only answers F");
            }
        }
    }

    #[test]
    fn any_records_and_addresses_are_read_or_refused(text in any::<Vec<u8>>(), address in ".{0,60}") {
        let _ = parse_records(&text);
        let _ = address.parse::<PortalAddress>();
        let _ = SendTargets::parse(&address);
    }
}
