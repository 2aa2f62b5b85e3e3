//! A byte stream: where each PDU's parts lie, digests, and every header as every PDU.

use super::input::Input;
use iscsi::digest::digest;
use iscsi::framing::{AHS_LEN_BYTES_MAX, FrameAnswer, FrameHeader, FrameLimits};
use iscsi::pdu::ahs::{self, CommandAhs};
use iscsi::pdu::{
    AsyncMessage, BHS_LEN_BYTES, Bhs, DataIn, DataOut, LoginRequest, LoginResponse, LogoutRequest,
    LogoutResponse, NopIn, NopOut, Opcode, PduError, R2t, Reject, ScsiCommand, ScsiResponse, Snack,
    TaskRequest, TaskResponse, TextRequest, TextResponse, sense_segment, split_sense_segment,
};

/// Settings of the connection, then the stream.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.byte();
    let limits = FrameLimits {
        header_digest: flags & 1 != 0,
        data_digest: flags & 2 != 0,
        data_segment_len_bytes_max: 512 + u32::from(flags) * 64,
    };
    let mut stream = input.rest();
    while let Some(rest) = frame(stream, &limits) {
        stream = rest;
    }
}

/// Takes one PDU; `None` at the end of the stream or of the connection.
fn frame<'a>(stream: &'a [u8], limits: &FrameLimits) -> Option<&'a [u8]> {
    let bhs = Bhs::from_prefix(stream)?;
    headers(bhs.bytes());
    let frame = match FrameHeader::new(bhs, limits) {
        Ok(frame) => frame,
        Err(error) => {
            assert_eq!(error.answer(), FrameAnswer::Drop, "lengths that lie end a connection");
            return None;
        }
    };
    assert!(frame.data_len_bytes() <= limits.data_segment_len_bytes_max as usize);
    assert!(frame.header_len_bytes() <= BHS_LEN_BYTES + AHS_LEN_BYTES_MAX + 4);
    let payload = frame.data_len_bytes() + frame.padding_len_bytes();
    assert_eq!(payload % 4, 0);
    assert_eq!(frame.payload_len_bytes(), payload + usize::from(frame.has_data_digest()) * 4);
    assert_eq!(frame.total_len_bytes(), frame.header_len_bytes() + frame.payload_len_bytes());

    let (header, rest) = stream.split_at_checked(frame.header_len_bytes())?;
    let covered = BHS_LEN_BYTES + frame.ahs_len_bytes();
    let is_good = !limits.header_digest || digest(&header[..covered]) == header[covered..];
    assert_eq!(frame.verify_header(header).is_ok(), is_good);
    additional(&header[BHS_LEN_BYTES..covered]);

    let (payload, rest) = rest.split_at_checked(frame.payload_len_bytes())?;
    if let Err(error) = frame.verify_payload(payload) {
        assert!(matches!(error.answer(), FrameAnswer::Reject(_)), "one bad PDU costs that PDU");
    }
    sense(&payload[..frame.data_len_bytes()]);
    Some(rest)
}

macro_rules! round_trip {
    ($raw:expr, $($pdu:ident),*) => {
        $({
            let mut raw = *$raw;
            raw[0] = (raw[0] & 0xc0) | $pdu::OPCODE.0;
            match $pdu::parse(&Bhs::new(raw)) {
                Ok(parsed) => {
                    let emitted = parsed.to_bhs();
                    assert_eq!($pdu::parse(&emitted), Ok(parsed));
                    assert_eq!(emitted.opcode(), $pdu::OPCODE);
                }
                Err(error) => {
                    assert_eq!($pdu::OPCODE, Opcode::SCSI_COMMAND);
                    assert_eq!(error, PduError::UnsolicitedDataWithoutWrite);
                }
            }
        })*
    };
}

/// The header as each PDU: parsing and emitting are inverse.
fn headers(raw: &[u8; BHS_LEN_BYTES]) {
    round_trip!(
        raw,
        NopOut,
        ScsiCommand,
        TaskRequest,
        LoginRequest,
        TextRequest,
        DataOut,
        LogoutRequest,
        Snack,
        NopIn,
        ScsiResponse,
        TaskResponse,
        LoginResponse,
        TextResponse,
        DataIn,
        LogoutResponse,
        R2t,
        AsyncMessage,
        Reject
    );
}

/// Additional header segments stay inside their length, and what a command needs of them survives.
fn additional(bytes: &[u8]) {
    let walked: usize = ahs::segments(bytes).flatten().map(|part| part.specific.len() + 3).sum();
    assert!(walked <= bytes.len());
    if let Ok(parsed) = CommandAhs::parse(bytes) {
        let mut emitted = Vec::new();
        parsed.emit(&mut emitted);
        assert_eq!(CommandAhs::parse(&emitted), Ok(parsed));
    }
}

fn sense(data: &[u8]) {
    let Ok((sense, rest)) = split_sense_segment(data) else { return };
    assert!(sense.len() + rest.len() <= data.len());
    let mut emitted = Vec::new();
    sense_segment(sense, &mut emitted);
    assert_eq!(split_sense_segment(&emitted), Ok((sense, &[][..])));
}
