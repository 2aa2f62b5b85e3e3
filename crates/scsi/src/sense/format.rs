//! The two wire formats of sense data (SPC-5 4.4.2 descriptor, 4.4.3 fixed).

use super::{AdditionalSense, FieldPointer, Sense, SenseKey};
use std::ops::Deref;

/// The longest sense data that [`Sense::to_bytes`] makes: header and three descriptors.
pub const SENSE_BYTES_MAX: usize = 40;

const FIXED_CURRENT: u8 = 0x70;
const FIXED_DEFERRED: u8 = 0x71;
const DESCRIPTOR_CURRENT: u8 = 0x72;
const DESCRIPTOR_DEFERRED: u8 = 0x73;
const FIXED_BYTES: usize = 18;
const DESCRIPTOR_HEADER_BYTES: usize = 8;

/// Sense data on the wire, held inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenseBytes {
    bytes: [u8; SENSE_BYTES_MAX],
    len: u8,
}

impl SenseBytes {
    const EMPTY: Self = Self { bytes: [0; SENSE_BYTES_MAX], len: 0 };

    fn push(&mut self, part: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + part.len()].copy_from_slice(part);
        self.len += part.len() as u8;
    }
}

impl Deref for SenseBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Why bytes are not sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The response code is none of 70h to 73h.
    #[error("unknown sense data response code {0:#04x}")]
    ResponseCode(u8),
    /// Shorter than its own format allows.
    #[error("sense data of {0} bytes is cut short")]
    Truncated(usize),
}

impl Sense {
    /// Renders the sense data in descriptor format, or else in fixed format.
    ///
    /// Fixed format has 32 bits for INFORMATION: a value that does not fit is left out and VALID
    /// stays zero (SPC-5 4.4.3).
    pub fn to_bytes(&self, descriptor_format: bool) -> SenseBytes {
        if descriptor_format { self.to_descriptors() } else { self.to_fixed() }
    }

    fn to_fixed(self) -> SenseBytes {
        let mut bytes = [0; FIXED_BYTES];
        bytes[0] = if self.deferred { FIXED_DEFERRED } else { FIXED_CURRENT };
        bytes[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = (FIXED_BYTES - 8) as u8;
        if let Some(value) = self.command_specific.and_then(|value| u32::try_from(value).ok()) {
            bytes[8..12].copy_from_slice(&value.to_be_bytes());
        }
        bytes[12] = self.additional.asc;
        bytes[13] = self.additional.ascq;
        if let Some(specific) = self.key_specific() {
            bytes[15..18].copy_from_slice(&specific);
        }
        let mut out = SenseBytes::EMPTY;
        out.push(&bytes);
        out
    }

    fn to_descriptors(self) -> SenseBytes {
        let code = if self.deferred { DESCRIPTOR_DEFERRED } else { DESCRIPTOR_CURRENT };
        let mut out = SenseBytes::EMPTY;
        let AdditionalSense { asc, ascq } = self.additional;
        out.push(&[code, self.key as u8, asc, ascq, 0, 0, 0, 0]);
        if let Some(information) = self.information {
            out.push(&[0x00, 0x0a, 0x80, 0]);
            out.push(&information.to_be_bytes());
        }
        if let Some(value) = self.command_specific {
            out.push(&[0x01, 0x0a, 0, 0]);
            out.push(&value.to_be_bytes());
        }
        if let Some([a, b, c]) = self.key_specific() {
            out.push(&[0x02, 0x06, 0, 0, a, b, c, 0]);
        }
        out.bytes[7] = out.len - DESCRIPTOR_HEADER_BYTES as u8;
        out
    }

    /// The three sense key specific bytes with SKSV set (SPC-5 4.4.2.4).
    fn key_specific(self) -> Option<[u8; 3]> {
        const SKSV: u8 = 0x80;
        if let Some(FieldPointer { in_cdb, byte, bit }) = self.field {
            let [high, low] = byte.to_be_bytes();
            let bit_pointer = bit.map_or(0, |bit| 0x08 | (bit & 0x07));
            return Some([SKSV | u8::from(in_cdb) << 6 | bit_pointer, high, low]);
        }
        self.progress.map(|progress| {
            let [high, low] = progress.to_be_bytes();
            [SKSV, high, low]
        })
    }

    /// Reads sense data of either format, as an initiator gets it.
    ///
    /// Unknown descriptors are skipped; a zero COMMAND-SPECIFIC field in fixed format reads as
    /// absent, because that format has no bit to tell.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let code = *bytes.first().ok_or(ParseError::Truncated(0))? & 0x7f;
        match code {
            FIXED_CURRENT | FIXED_DEFERRED => Self::parse_fixed(bytes),
            DESCRIPTOR_CURRENT | DESCRIPTOR_DEFERRED => Self::parse_descriptors(bytes),
            other => Err(ParseError::ResponseCode(other)),
        }
    }

    fn parse_fixed(bytes: &[u8]) -> Result<Self, ParseError> {
        if bytes.len() < 3 {
            return Err(ParseError::Truncated(bytes.len()));
        }
        // ADDITIONAL SENSE LENGTH may end the data early; what is missing reads as zero.
        let announced = 8 + usize::from(bytes.get(7).copied().unwrap_or(0));
        let mut fixed = [0; FIXED_BYTES];
        let available = bytes.len().min(announced).min(FIXED_BYTES);
        fixed[..available].copy_from_slice(&bytes[..available]);
        let additional = AdditionalSense { asc: fixed[12], ascq: fixed[13] };
        let mut sense = Self::new(SenseKey::from_code(fixed[2]), additional);
        sense.deferred = fixed[0] & 0x7f == FIXED_DEFERRED;
        let word = |at: usize| {
            u64::from(u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]))
        };
        sense.information = (fixed[0] & 0x80 != 0).then(|| word(3));
        sense.command_specific = Some(word(8)).filter(|&value| value != 0);
        sense.read_key_specific([fixed[15], fixed[16], fixed[17]]);
        Ok(sense)
    }

    fn parse_descriptors(bytes: &[u8]) -> Result<Self, ParseError> {
        let header = bytes.get(..DESCRIPTOR_HEADER_BYTES);
        let header = header.ok_or(ParseError::Truncated(bytes.len()))?;
        let additional = AdditionalSense { asc: header[2], ascq: header[3] };
        let mut sense = Self::new(SenseKey::from_code(header[1]), additional);
        sense.deferred = header[0] & 0x7f == DESCRIPTOR_DEFERRED;
        let end = bytes.len().min(DESCRIPTOR_HEADER_BYTES + usize::from(header[7]));
        let mut rest = &bytes[DESCRIPTOR_HEADER_BYTES..end];
        while let [kind, len, tail @ ..] = rest {
            let Some(body) = tail.get(..usize::from(*len)) else { break };
            match (kind, body) {
                (0x00, [flags, _, value @ ..]) if flags & 0x80 != 0 => {
                    sense.information = value.first_chunk().map(|v| u64::from_be_bytes(*v));
                }
                (0x01, [_, _, value @ ..]) => {
                    sense.command_specific = value.first_chunk().map(|v| u64::from_be_bytes(*v));
                }
                (0x02, [_, _, a, b, c, ..]) => sense.read_key_specific([*a, *b, *c]),
                _ => {}
            }
            rest = &tail[usize::from(*len)..];
        }
        Ok(sense)
    }

    fn read_key_specific(&mut self, [flags, high, low]: [u8; 3]) {
        if flags & 0x80 == 0 {
            return;
        }
        let value = u16::from_be_bytes([high, low]);
        match self.key {
            SenseKey::IllegalRequest => {
                let bit = (flags & 0x08 != 0).then_some(flags & 0x07);
                self.field = Some(FieldPointer { in_cdb: flags & 0x40 != 0, byte: value, bit });
            }
            SenseKey::NoSense | SenseKey::NotReady => self.progress = Some(value),
            _ => {}
        }
    }
}
