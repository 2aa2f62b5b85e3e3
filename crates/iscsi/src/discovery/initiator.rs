//! The initiator's side of a text exchange.

use super::RESPONSE_LEN_BYTES_MAX;
use crate::pdu::{RESERVED_TAG, TextResponse};
use crate::text::{Reassembly, TextError};

/// The fields of a Text Request that the exchange decides; sequence numbers are the session's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPdu {
    /// F.
    pub is_final: bool,
    /// C.
    pub is_continued: bool,
    /// Logical unit number, as the target's last response had it.
    pub lun: u64,
    /// Target Transfer Tag.
    pub ttt: u32,
    /// Data segment, without padding.
    pub data: Vec<u8>,
}

/// What to do after a Text Response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitiatorTextStep {
    /// Send this and wait for the next response.
    Send(TextPdu),
    /// The whole answer.
    Done(Vec<u8>),
}

/// Why an exchange failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InitiatorTextError {
    /// A response whose flags or tags do not follow from the request.
    #[error("the Text Response does not follow from the request")]
    Unexpected,
    /// More than [`RESPONSE_LEN_BYTES_MAX`].
    #[error(transparent)]
    Text(#[from] TextError),
}

/// One text and its answer.
#[derive(Debug)]
pub struct InitiatorText {
    request: Vec<u8>,
    sent: usize,
    segment_len_bytes: usize,
    answer: Reassembly,
    responses_left: u32,
}

/// Responses that one exchange may take: the longest answer in segments of the shortest length allowed.
const RESPONSES_MAX: u32 = (RESPONSE_LEN_BYTES_MAX / 512) as u32;

impl InitiatorText {
    /// Will send `request` in segments of at most `segment_len_bytes`, the target's MaxRecvDataSegmentLength.
    #[must_use]
    pub const fn new(request: Vec<u8>, segment_len_bytes: u32) -> Self {
        Self {
            request,
            sent: 0,
            segment_len_bytes: segment_len_bytes as usize,
            answer: Reassembly::new(RESPONSE_LEN_BYTES_MAX),
            responses_left: RESPONSES_MAX,
        }
    }

    /// The first request.
    pub fn start(&mut self) -> TextPdu {
        self.next(RESERVED_TAG, 0)
    }

    /// Takes one Text Response, `text` being its data segment without padding.
    ///
    /// # Errors
    /// An [`InitiatorTextError`], after which the exchange is over.
    pub fn on_response(
        &mut self,
        response: &TextResponse,
        text: &[u8],
    ) -> Result<InitiatorTextStep, InitiatorTextError> {
        let is_all_sent = self.sent == self.request.len();
        let is_contradictory = response.is_final
            && (response.is_continued || response.ttt != RESERVED_TAG || !is_all_sent);
        let is_tag_missing = !response.is_final && response.ttt == RESERVED_TAG;
        if is_contradictory || is_tag_missing || self.responses_left == 0 {
            return Err(InitiatorTextError::Unexpected);
        }
        self.responses_left -= 1;
        // Only F ends the answer: a target may also answer in several texts.
        let whole = self.answer.push(text, !response.is_final)?;
        Ok(match whole {
            Some(answer) => InitiatorTextStep::Done(answer),
            None => InitiatorTextStep::Send(self.next(response.ttt, response.lun)),
        })
    }

    fn next(&mut self, ttt: u32, lun: u64) -> TextPdu {
        let rest = &self.request[self.sent..];
        let data = rest[..rest.len().min(self.segment_len_bytes)].to_vec();
        self.sent += data.len();
        let is_final = self.sent == self.request.len();
        TextPdu { is_final, is_continued: !is_final, lun, ttt, data }
    }
}
