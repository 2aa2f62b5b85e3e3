//! The target's side of a text exchange.

use super::SendTargets;
use crate::params::ConnectionParams;
use crate::pdu::{RESERVED_TAG, RejectReason, TextRequest};
use crate::text::{
    NOT_UNDERSTOOD, PAIRS_MAX, Pair, Phase, REJECT, Reassembly, Rule, TEXT_LEN_BYTES_MAX,
    TextWriter, find_key, parse_pairs, parse_segment_length, refuse_repeated_keys,
};

/// What a text exchange must ask of the target.
pub trait TextEnv {
    /// Writes the records of the targets that are asked for, with [`super::write_record`]; none if there
    /// are none that this session may see. Returns whether the request is allowed at all: `All` is not in
    /// a normal session, nor is another target's name (appendix C).
    fn send_targets(&mut self, which: &SendTargets, out: &mut TextWriter) -> bool;
}

/// What to do after a Text Request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextStep {
    /// Send a Text Response with this.
    Respond {
        /// F.
        is_final: bool,
        /// C.
        is_continued: bool,
        /// Target Transfer Tag.
        ttt: u32,
        /// Data segment, without padding.
        data: Vec<u8>,
    },
    /// Send a Reject; the exchange is forgotten.
    Reject(RejectReason),
}

/// The text exchange of one connection, of which there is at most one at a time (11.10.4).
#[derive(Debug)]
pub struct TargetText {
    /// The exchange that goes on, by Initiator Task Tag and Target Transfer Tag.
    open: Option<(u32, u32)>,
    next_ttt: u32,
    text: Reassembly,
    /// What of the response was not sent.
    rest: Vec<u8>,
    rest_at: usize,
}

impl Default for TargetText {
    fn default() -> Self {
        Self::new()
    }
}

impl TargetText {
    /// No exchange.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            open: None,
            next_ttt: 0,
            text: Reassembly::new(TEXT_LEN_BYTES_MAX),
            rest: Vec::new(),
            rest_at: 0,
        }
    }

    /// Whether an exchange goes on, and keeps memory.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Takes one Text Request, `text` being its data segment without padding. A new MaxRecvDataSegmentLength
    /// of the initiator's is stored in `connection`.
    pub fn on_request(
        &mut self,
        request: &TextRequest,
        text: &[u8],
        connection: &mut ConnectionParams,
        env: &mut dyn TextEnv,
    ) -> TextStep {
        let step = self.advance(request, text, connection, env);
        if let TextStep::Reject(_) = step {
            self.reset();
        }
        step
    }

    fn advance(
        &mut self,
        request: &TextRequest,
        text: &[u8],
        connection: &mut ConnectionParams,
        env: &mut dyn TextEnv,
    ) -> TextStep {
        if request.is_final && request.is_continued {
            return TextStep::Reject(RejectReason::PROTOCOL_ERROR);
        }
        if request.ttt == RESERVED_TAG {
            // A new exchange ends one that was left (11.10.4).
            self.reset();
        } else if self.open != Some((request.itt, request.ttt)) {
            return TextStep::Reject(RejectReason::PROTOCOL_ERROR);
        }
        if self.rest_at < self.rest.len() {
            // The initiator fetches the rest, and has nothing to say meanwhile (6.2).
            return if text.is_empty() && !request.is_continued {
                self.send(request, connection)
            } else {
                TextStep::Reject(RejectReason::PROTOCOL_ERROR)
            };
        }
        let text = match self.text.push(text, request.is_continued) {
            Ok(Some(text)) => text,
            Ok(None) => {
                let ttt = self.keep_open(request.itt);
                return respond(false, false, ttt, Vec::new());
            }
            Err(_) => return TextStep::Reject(RejectReason::INVALID_PDU_FIELD),
        };
        let mut out = TextWriter::new();
        if answer_all(&text, connection, env, &mut out).is_none() {
            return TextStep::Reject(RejectReason::INVALID_PDU_FIELD);
        }
        (self.rest, self.rest_at) = (out.into_bytes(), 0);
        self.send(request, connection)
    }

    /// Sends as much of the response as the initiator takes in one PDU (6.2, 13.12).
    fn send(&mut self, request: &TextRequest, connection: &ConnectionParams) -> TextStep {
        let segment_len_bytes = connection.max_recv_data_segment_peer_bytes as usize;
        let rest = &self.rest[self.rest_at..];
        let data = rest[..rest.len().min(segment_len_bytes)].to_vec();
        let is_continued = data.len() < rest.len();
        self.rest_at += data.len();
        if is_continued {
            let ttt = self.keep_open(request.itt);
            return respond(false, true, ttt, data);
        }
        (self.rest, self.rest_at) = (Vec::new(), 0);
        if request.is_final {
            self.open = None;
            return respond(true, false, RESERVED_TAG, data);
        }
        let ttt = self.keep_open(request.itt);
        respond(false, false, ttt, data)
    }

    /// The tag of the exchange, a new one if it begins.
    fn keep_open(&mut self, itt: u32) -> u32 {
        if let Some((_, ttt)) = self.open {
            return ttt;
        }
        let ttt = self.next_ttt;
        self.next_ttt = match ttt.wrapping_add(1) {
            RESERVED_TAG => 0,
            next => next,
        };
        self.open = Some((itt, ttt));
        ttt
    }

    fn reset(&mut self) {
        self.open = None;
        self.text.clear();
        (self.rest, self.rest_at) = (Vec::new(), 0);
    }
}

const fn respond(is_final: bool, is_continued: bool, ttt: u32, data: Vec<u8>) -> TextStep {
    TextStep::Respond { is_final, is_continued, ttt, data }
}

/// Answers each key of a text; `None` if the text is malformed.
fn answer_all(
    text: &[u8],
    connection: &mut ConnectionParams,
    env: &mut dyn TextEnv,
    out: &mut TextWriter,
) -> Option<()> {
    let pairs = parse_pairs(text, PAIRS_MAX).ok()?;
    refuse_repeated_keys(&pairs).ok()?;
    for pair in &pairs {
        answer(pair, connection, env, out)?;
    }
    Some(())
}

fn answer(
    pair: &Pair<'_>,
    connection: &mut ConnectionParams,
    env: &mut dyn TextEnv,
    out: &mut TextWriter,
) -> Option<()> {
    match find_key(pair.key) {
        None if pair.value == NOT_UNDERSTOOD => {}
        None => out.push(pair.key, NOT_UNDERSTOOD),
        Some((_, key)) if key.name == "SendTargets" => {
            let which = SendTargets::parse(pair.value);
            if !which.is_some_and(|which| env.send_targets(&which, out)) {
                out.push(key.name, REJECT);
            }
        }
        Some((_, key)) => match (&key.rule, key.phase) {
            (Rule::SegmentLength, _) => {
                connection.max_recv_data_segment_peer_bytes = parse_segment_length(pair.value)?;
            }
            (Rule::Declared, Phase::Any) => {}
            // Everything else was settled at login (section 13: LO and IO).
            _ => out.push(key.name, REJECT),
        },
    }
    Some(())
}
