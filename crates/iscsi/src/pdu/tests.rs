use super::ahs::CommandAhs;
use super::*;
use proptest::prelude::*;

/// A header in which every byte differs from its neighbours, so that a field read from the wrong place shows.
fn numbered(opcode: Opcode, flags: u8) -> Bhs {
    let mut raw: [u8; BHS_LEN_BYTES] = std::array::from_fn(|i| 0x80 | i as u8);
    raw[0] = opcode.0;
    raw[1] = flags;
    Bhs::new(raw)
}

/// The four bytes of [`numbered`] at `at`.
fn word(at: u8) -> u32 {
    u32::from_be_bytes([0x80 | at, 0x80 | (at + 1), 0x80 | (at + 2), 0x80 | (at + 3)])
}

fn half(at: u8) -> u16 {
    (word(at) >> 16) as u16
}

fn long(at: u8) -> u64 {
    (u64::from(word(at)) << 32) | u64::from(word(at + 4))
}

#[test]
fn header_accessors_read_the_common_fields() {
    let bhs = numbered(Opcode(0x41), 0x80);
    assert_eq!(bhs.opcode(), Opcode::SCSI_COMMAND);
    assert!(bhs.is_immediate() && bhs.is_final());
    assert_eq!(bhs.total_ahs_len_bytes(), 0x84 * 4);
    assert_eq!(bhs.data_segment_len_bytes(), 0x85_86_87);
    assert_eq!(bhs.lun_raw(), long(8));
    assert_eq!(bhs.itt(), word(16));
    assert_eq!(bhs.ttt(), word(20));
    assert_eq!((bhs.cmd_sn(), bhs.stat_sn()), (word(24), word(24)));
    assert_eq!((bhs.exp_stat_sn(), bhs.exp_cmd_sn()), (word(28), word(28)));
    assert_eq!(bhs.max_cmd_sn(), word(32));
    assert_eq!(Bhs::from_prefix(bhs.bytes()), Some(&bhs));
    assert_eq!(Bhs::from_prefix(&bhs.bytes()[1..]), None);
}

#[test]
fn scsi_command_fields_lie_where_11_3_draws_them() {
    let bhs = numbered(Opcode(0x41), 0x80 | 0x40 | 0x20 | 0x03);
    let command = ScsiCommand::parse(&bhs).unwrap();
    let expected = ScsiCommand {
        is_immediate: true,
        is_final: true,
        is_read: true,
        is_write: true,
        attribute: TaskAttribute::HEAD_OF_QUEUE,
        total_ahs_words: 0x84,
        data_segment_len_bytes: 0x85_86_87,
        lun: long(8),
        itt: word(16),
        expected_data_transfer_len_bytes: word(20),
        cmd_sn: word(24),
        exp_stat_sn: word(28),
        cdb: std::array::from_fn(|i| 0xa0 | i as u8),
    };
    assert_eq!(command, expected);
}

#[test]
fn scsi_command_that_announces_data_but_writes_none_is_refused() {
    let bhs = numbered(Opcode::SCSI_COMMAND, 0x40);
    assert_eq!(ScsiCommand::parse(&bhs), Err(PduError::UnsolicitedDataWithoutWrite));
    let write = numbered(Opcode::SCSI_COMMAND, 0x20);
    assert!(ScsiCommand::parse(&write).is_ok());
}

#[test]
fn scsi_response_fields_lie_where_11_4_draws_them() {
    let response =
        ScsiResponse::parse(&numbered(Opcode::SCSI_RESPONSE, 0x80 | 0x10 | 0x02)).unwrap();
    assert!(response.is_bidirectional_overflow && response.is_underflow);
    assert!(!response.is_bidirectional_underflow && !response.is_overflow);
    assert_eq!(response.response, ServiceResponse(0x82));
    assert_eq!(response.status, 0x83);
    assert_eq!(response.snack_tag, word(20));
    assert_eq!(response.stat_sn, word(24));
    assert_eq!(response.exp_data_sn, word(36));
    assert_eq!(response.bidirectional_residual_bytes, word(40));
    assert_eq!(response.residual_bytes, word(44));
}

#[test]
fn data_pdus_fields_lie_where_11_7_draws_them() {
    let out = DataOut::parse(&numbered(Opcode::DATA_OUT, 0x80)).unwrap();
    assert!(out.is_final);
    assert_eq!((out.ttt, out.exp_stat_sn), (word(20), word(28)));
    assert_eq!((out.data_sn, out.buffer_offset_bytes), (word(36), word(40)));
    let data_in = DataIn::parse(&numbered(Opcode::DATA_IN, 0x80 | 0x04 | 0x01)).unwrap();
    assert!(data_in.is_final && data_in.has_status && data_in.is_overflow);
    assert!(!data_in.is_ack_wanted && !data_in.is_underflow);
    assert_eq!((data_in.status, data_in.stat_sn), (0x83, word(24)));
    assert_eq!(data_in.max_cmd_sn, word(32));
    assert_eq!(data_in.residual_bytes, word(44));
}

#[test]
fn r2t_task_and_async_fields_lie_where_the_standard_draws_them() {
    let r2t = R2t::parse(&numbered(Opcode::R2T, 0x80)).unwrap();
    assert_eq!((r2t.r2t_sn, r2t.buffer_offset_bytes), (word(36), word(40)));
    assert_eq!(r2t.desired_data_transfer_len_bytes, word(44));
    let task = TaskRequest::parse(&numbered(Opcode::TASK_REQUEST, 0x85)).unwrap();
    assert_eq!(task.function, TaskFunction::LOGICAL_UNIT_RESET);
    assert_eq!(task.referenced_task_tag, word(20));
    assert_eq!((task.ref_cmd_sn, task.exp_data_sn), (word(32), word(36)));
    let done = TaskResponse::parse(&numbered(Opcode::TASK_RESPONSE, 0x80)).unwrap();
    assert_eq!(done.response, TaskResult(0x82));
    assert_eq!(done.additional_response, word(36) >> 8);
    let message = AsyncMessage::parse(&numbered(Opcode::ASYNC_MESSAGE, 0x80)).unwrap();
    assert_eq!(message.event, AsyncEvent(0xa4));
    assert_eq!(message.vendor_code, 0xa5);
    assert_eq!(message.parameter1, half(38));
    assert_eq!(message.parameter2, half(40));
    assert_eq!(message.parameter3, half(42));
}

#[test]
fn login_fields_lie_where_11_12_and_11_13_draw_them() {
    let request = LoginRequest::parse(&numbered(Opcode(0x43), 0x80 | 0x04 | 0x03)).unwrap();
    assert!(request.is_transit && !request.is_continued && request.is_immediate);
    assert_eq!(request.stage, Stage::OPERATIONAL);
    assert_eq!(request.next_stage, Stage::FULL_FEATURE);
    assert_eq!((request.version_max, request.version_min), (0x82, 0x83));
    assert_eq!(request.isid, [0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d]);
    assert_eq!((request.tsih, request.cid), (half(14), half(20)));
    let response = LoginResponse::parse(&numbered(Opcode::LOGIN_RESPONSE, 0x40)).unwrap();
    assert!(response.is_continued && !response.is_transit);
    assert_eq!(response.stage, Stage::SECURITY);
    assert_eq!(response.version_active, 0x83);
    assert_eq!(response.status, LoginStatus(half(36)));
    assert_eq!(response.status.class(), 0xa4);
    assert_eq!(response.status.detail(), 0xa5);
}

#[test]
fn the_other_pdus_fields_lie_where_the_standard_draws_them() {
    let logout = LogoutRequest::parse(&numbered(Opcode::LOGOUT_REQUEST, 0x81)).unwrap();
    assert_eq!(logout.reason, LogoutReason::CLOSE_CONNECTION);
    assert_eq!(logout.cid, half(20));
    let out = LogoutResponse::parse(&numbered(Opcode::LOGOUT_RESPONSE, 0x80)).unwrap();
    assert_eq!((out.time2wait_s, out.time2retain_s), (half(40), half(42)));
    let snack = Snack::parse(&numbered(Opcode::SNACK, 0x82)).unwrap();
    assert_eq!(snack.kind, SnackType::DATA_ACK);
    assert_eq!((snack.begin_run, snack.run_length), (word(40), word(44)));
    let reject = Reject::parse(&numbered(Opcode::REJECT, 0x80)).unwrap();
    assert_eq!((reject.reason, reject.data_sn), (RejectReason(0x82), word(36)));
    let text = TextRequest::parse(&numbered(Opcode::TEXT_REQUEST, 0x40)).unwrap();
    assert!(text.is_continued && !text.is_final);
    assert_eq!((text.ttt, text.cmd_sn), (word(20), word(24)));
    let answer = TextResponse::parse(&numbered(Opcode::TEXT_RESPONSE, 0x80)).unwrap();
    assert_eq!((answer.ttt, answer.stat_sn), (word(20), word(24)));
    let nop_out = NopOut::parse(&numbered(Opcode(0x40), 0x80)).unwrap();
    assert!(nop_out.is_immediate);
    assert_eq!(nop_out.ttt, word(20));
    let nop_in = NopIn::parse(&numbered(Opcode::NOP_IN, 0x80)).unwrap();
    assert_eq!((nop_in.lun, nop_in.max_cmd_sn), (long(8), word(32)));
}

#[test]
fn unassigned_codes_keep_their_value_and_have_no_name() {
    assert_eq!(RejectReason(0x7e).name(), None);
    assert_eq!(format!("{:?}", RejectReason(0x7e)), "RejectReason(0x7e)");
    assert_eq!(format!("{:?}", RejectReason::SNACK_REJECT), "SNACK_REJECT");
    assert!(Opcode::SNACK.is_from_initiator() && !Opcode::NOP_IN.is_from_initiator());
}

#[test]
fn residual_says_by_how_much_and_which_way() {
    let response = ScsiResponse::parse(&numbered(Opcode::SCSI_RESPONSE, 0x80)).unwrap();
    let over = response.with_residual(100, 612);
    assert!(over.is_overflow && !over.is_underflow);
    assert_eq!(over.residual_bytes, 512);
    let under = response.with_residual(4096, 36);
    assert!(!under.is_overflow && under.is_underflow);
    assert_eq!(under.residual_bytes, 4060);
    let exact = response.with_residual(512, 512);
    assert!(!exact.is_overflow && !exact.is_underflow && exact.residual_bytes == 0);
    assert_eq!(response.with_residual(0, 1 << 40).residual_bytes, u32::MAX);
}

#[test]
fn sense_segment_carries_its_length() {
    let mut segment = Vec::new();
    sense_segment(&[0x70, 0, 5], &mut segment);
    assert_eq!(segment, [0, 3, 0x70, 0, 5]);
    segment.push(0xee);
    assert_eq!(split_sense_segment(&segment), Ok((&[0x70, 0, 5][..], &[0xee][..])));
    assert_eq!(split_sense_segment(&[]), Ok((&[][..], &[][..])));
    assert_eq!(split_sense_segment(&[0, 9, 1]), Err(PduError::ShortDataSegment));
    assert_eq!(split_sense_segment(&[0]), Err(PduError::ShortDataSegment));
}

#[test]
fn ahs_of_a_32_byte_cdb_and_a_bidirectional_length() {
    let cdb: Vec<u8> = (16..32).collect();
    let ahs = CommandAhs { extended_cdb: &cdb, bidirectional_read_len_bytes: Some(0x0102_0304) };
    let mut bytes = Vec::new();
    ahs.emit(&mut bytes);
    assert_eq!(bytes.len(), 20 + 8);
    assert_eq!(bytes[..4], [0, 17, 1, 0]);
    assert_eq!(bytes[20..], [0, 5, 2, 0, 1, 2, 3, 4]);
    assert_eq!(CommandAhs::parse(&bytes), Ok(ahs));
}

#[test]
fn malformed_ahs_is_refused() {
    let bidirectional = [0, 5, 2, 0, 1, 2, 3, 4];
    let cases: [&[u8]; 6] = [
        &[0, 5, 2, 0],                                  // reaches over the end
        &[0, 5, 2],                                     // no room for the header's padding
        &[0, 4, 2, 0, 1, 2, 3, 0],                      // too short for its type
        &[0, 1, 1, 0],                                  // an extended CDB without a byte
        &[&bidirectional[..], &bidirectional].concat(), // twice
        &[0, 0, 1, 0],                                  // not even the reserved byte
    ];
    for case in cases {
        assert_eq!(CommandAhs::parse(case), Err(PduError::Ahs), "{case:?}");
    }
    let unknown = [&[0, 1, 0x3f, 0][..], &bidirectional].concat();
    let parsed = CommandAhs::parse(&unknown).unwrap();
    assert_eq!(parsed.bidirectional_read_len_bytes, Some(0x0102_0304));
}

#[test]
fn cdb_longer_than_spc_allows_is_refused() {
    for (len, fits) in [(244_u16, true), (245, false)] {
        let mut bytes = (len + 1).to_be_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.resize(padded_len_bytes(4 + usize::from(len)), 7);
        assert_eq!(CommandAhs::parse(&bytes).is_ok(), fits);
    }
}

/// Parses any bytes as `$pdu`, emits and parses again: equal, and emitting is stable.
macro_rules! assert_round_trip {
    ($raw:expr, $($pdu:ident),*) => {
        $({
            let mut raw = $raw;
            raw[0] = (raw[0] & 0xc0) | $pdu::OPCODE.0;
            if let Ok(parsed) = $pdu::parse(&Bhs::new(raw)) {
                let emitted = parsed.to_bhs();
                prop_assert_eq!($pdu::parse(&emitted), Ok(parsed));
                prop_assert_eq!($pdu::parse(&emitted).unwrap().to_bhs(), emitted);
            } else {
                prop_assert!($pdu::OPCODE == Opcode::SCSI_COMMAND && raw[1] & 0xa0 == 0);
            }
            raw[0] ^= 0x01;
            let refused = matches!($pdu::parse(&Bhs::new(raw)), Err(PduError::Opcode { .. }));
            prop_assert!(refused);
        })*
    };
}

proptest! {
    #[test]
    fn every_pdu_round_trips(raw in proptest::array::uniform32(any::<u8>()),
                             more in proptest::array::uniform16(any::<u8>())) {
        let raw: [u8; 48] = [&raw[..], &more].concat().try_into().unwrap();
        assert_round_trip!(raw, NopOut, ScsiCommand, TaskRequest, LoginRequest, TextRequest, DataOut,
            LogoutRequest, Snack, NopIn, ScsiResponse, TaskResponse, LoginResponse, TextResponse, DataIn,
            LogoutResponse, R2t, AsyncMessage, Reject);
    }

    #[test]
    fn any_ahs_is_parsed_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..1024)) {
        let walked: usize = ahs::segments(&bytes)
            .map(|segment| segment.map_or(0, |s| s.specific.len() + 3))
            .sum();
        prop_assert!(walked <= bytes.len());
        let _ = CommandAhs::parse(&bytes);
    }

    #[test]
    fn command_ahs_round_trips(cdb in proptest::collection::vec(any::<u8>(), 0..=244),
                               bidirectional in any::<Option<u32>>()) {
        let ahs = CommandAhs { extended_cdb: &cdb, bidirectional_read_len_bytes: bidirectional };
        let mut bytes = Vec::new();
        ahs.emit(&mut bytes);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(CommandAhs::parse(&bytes), Ok(ahs));
    }

    #[test]
    fn any_sense_segment_is_split_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok((sense, rest)) = split_sense_segment(&bytes) {
            prop_assert!(bytes.is_empty() || sense.len() + rest.len() + 2 == bytes.len());
        }
    }
}
