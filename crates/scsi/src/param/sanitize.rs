//! SANITIZE: OVERWRITE parameter list (SBC-4 5.26.2.2).

use crate::Sense;

const HEADER_BYTES: usize = 4;

/// What to write over the medium, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwrite {
    /// INITIALIZATION PATTERN, repeated to fill each logical block, cut off at its end.
    pub pattern: Vec<u8>,
    /// OVERWRITE COUNT, 1 to 31.
    pub passes: u8,
    /// INVERT: flip every bit of the pattern on each further pass.
    pub invert: bool,
}

impl Overwrite {
    /// Reads the parameter list of a medium of `block_bytes` blocks.
    ///
    /// Every refusal is INVALID FIELD IN CDB that points at PARAMETER LIST LENGTH. The standard
    /// asks for that where the length is wrong; where the list contradicts itself initiators (the
    /// conformance suite of libiscsi among them) expect the same.
    pub fn parse(list: &[u8], block_bytes: u32) -> Result<Self, Sense> {
        let refusal = Sense::invalid_field_in_cdb(7, None);
        let block_bytes = block_bytes as usize;
        if list.len() <= HEADER_BYTES || list.len() > HEADER_BYTES + block_bytes {
            return Err(refusal);
        }
        let (header, pattern) = list.split_at(HEADER_BYTES);
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let passes = header[0] & 0x1f;
        if passes == 0 || length == 0 || length > pattern.len() {
            return Err(refusal);
        }
        Ok(Self { pattern: pattern[..length].to_vec(), passes, invert: header[0] & 0x80 != 0 })
    }
}
