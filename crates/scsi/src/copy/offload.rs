//! POPULATE TOKEN and WRITE USING TOKEN (SBC-4 5.12, 5.59): their parameter lists.

use super::limits::{
    INACTIVITY_TIMEOUT_DEFAULT_S, INACTIVITY_TIMEOUT_MAX_S, TOKEN_BYTES_MAX, TOKEN_RANGES_MAX,
};
use super::token::{ROD_TOKEN_BYTES, ROD_TYPE_ACCESS_UPON_REFERENCE};
use super::{be16, be32, be64, pointer};
use crate::sense::{AdditionalSense, Sense, SenseKey};

const RANGE_BYTES: usize = 16;
const IMMED: u8 = 0x01;

/// A block device range descriptor (SBC-4 5.12.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenRange {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks, not zero.
    pub blocks: u32,
}

/// A checked POPULATE TOKEN command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PopulateToken {
    /// IMMED: answer now, work afterwards.
    pub immediate: bool,
    /// How long the token lives without being used, in seconds.
    pub inactivity_timeout_s: u32,
    /// What the token stands for, in order; no block twice, all of them on the medium.
    pub ranges: Vec<TokenRange>,
}

/// A checked WRITE USING TOKEN command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteUsingToken {
    /// IMMED.
    pub immediate: bool,
    /// DEL_TKN: the token ends with this command.
    pub delete_token: bool,
    /// OFFSET INTO ROD, in logical blocks of the unit that is written.
    pub offset_blocks: u64,
    /// The token as sent, not yet looked up.
    pub token: Box<[u8; ROD_TOKEN_BYTES]>,
    /// Where to write, in order; no block twice, all of them on the medium.
    pub ranges: Vec<TokenRange>,
}

impl PopulateToken {
    /// `list` is the parameter list; the unit has `blocks` logical blocks of `block_bytes`. `None`
    /// for an empty list: nothing to do, and no error.
    ///
    /// RTV is honoured for the one type that tokens have here, access upon reference, which VPD
    /// page 8Fh reports; every point in time copy type is refused, since there is nothing that
    /// could keep the old data.
    pub fn parse(list: &[u8], block_bytes: u32, blocks: u64) -> Result<Option<Self>, Sense> {
        const HEADER_BYTES: usize = 16;
        const RTV: u8 = 0x02;
        if list.is_empty() {
            return Ok(None);
        }
        let bad_field = |byte, bit| Err(Sense::invalid_field_in_parameter_list(byte, bit));
        if list.len() < HEADER_BYTES {
            return Err(Sense::parameter_list_length_error());
        }
        if be16(list, 0) < 30 {
            return bad_field(0, None);
        }
        let inactivity_timeout_s = match be32(list, 4) {
            0 => INACTIVITY_TIMEOUT_DEFAULT_S,
            1..=INACTIVITY_TIMEOUT_MAX_S => be32(list, 4),
            _ => return bad_field(4, None),
        };
        if list[2] & RTV != 0 && be32(list, 8) != ROD_TYPE_ACCESS_UPON_REFERENCE {
            return bad_field(8, None);
        }
        let ranges = ranges(list, 14, block_bytes, blocks)?;
        Ok(Some(Self { immediate: list[2] & IMMED != 0, inactivity_timeout_s, ranges }))
    }

    /// Logical blocks that the token stands for.
    pub fn blocks(&self) -> u64 {
        sum_blocks(&self.ranges)
    }
}

impl WriteUsingToken {
    /// Arguments as for [`PopulateToken::parse`].
    pub fn parse(list: &[u8], block_bytes: u32, blocks: u64) -> Result<Option<Self>, Sense> {
        const TOKEN_AT: usize = 16;
        const RANGES_LENGTH_AT: usize = 534;
        const DATA_BYTES_MIN: u16 = 550;
        const DEL_TKN: u8 = 0x02;
        if list.is_empty() {
            return Ok(None);
        }
        if list.len() < RANGES_LENGTH_AT + 2 {
            return Err(Sense::parameter_list_length_error());
        }
        let data_bytes = be16(list, 0);
        let range_bytes = be16(list, RANGES_LENGTH_AT);
        if data_bytes < DATA_BYTES_MIN || data_bytes != range_bytes.saturating_add(534) {
            return Err(Sense::invalid_field_in_parameter_list(0, None));
        }
        let token = list[TOKEN_AT..].first_chunk().expect("the list is longer than the token");
        Ok(Some(Self {
            immediate: list[2] & IMMED != 0,
            delete_token: list[2] & DEL_TKN != 0,
            offset_blocks: be64(list, 8),
            token: Box::new(*token),
            ranges: ranges(list, RANGES_LENGTH_AT, block_bytes, blocks)?,
        }))
    }

    /// Logical blocks to write.
    pub fn blocks(&self) -> u64 {
        sum_blocks(&self.ranges)
    }
}

/// The block device range descriptor list whose length is at `length_at`. Incomplete and cut-off
/// descriptors are ignored, as are those of no blocks (SBC-4 5.12.2, 5.12.3).
fn ranges(
    list: &[u8],
    length_at: usize,
    block_bytes: u32,
    unit_blocks: u64,
) -> Result<Vec<TokenRange>, Sense> {
    let start = length_at + 2;
    let length = usize::from(be16(list, length_at));
    if length < RANGE_BYTES {
        return Err(Sense::invalid_field_in_parameter_list(pointer(length_at), None));
    }
    let (complete, _) = list[start..list.len().min(start + length)].as_chunks::<RANGE_BYTES>();
    if complete.len() > TOKEN_RANGES_MAX {
        let code = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
        return Err(
            Sense::new(SenseKey::IllegalRequest, code).at_parameter(pointer(length_at), None)
        );
    }
    let mut ranges: Vec<TokenRange> = Vec::with_capacity(complete.len());
    for (n, bytes) in complete.iter().enumerate() {
        let at = start + n * RANGE_BYTES;
        let range = TokenRange { lba: be64(bytes, 0), blocks: be32(bytes, 8) };
        let end = range.lba.checked_add(range.blocks.into());
        if end.is_none_or(|end| end > unit_blocks) {
            return Err(Sense::lba_out_of_range(range.lba.max(unit_blocks)));
        }
        if range.blocks == 0 {
            continue;
        }
        if ranges.iter().any(|other| range.overlaps(other)) {
            return Err(Sense::invalid_field_in_parameter_list(pointer(at), None));
        }
        ranges.push(range);
        if sum_blocks(&ranges) > TOKEN_BYTES_MAX / u64::from(block_bytes) {
            return Err(Sense::invalid_field_in_parameter_list(pointer(at + 8), None));
        }
    }
    Ok(ranges)
}

fn sum_blocks(ranges: &[TokenRange]) -> u64 {
    ranges.iter().map(|range| u64::from(range.blocks)).sum()
}

impl TokenRange {
    /// Whether the ranges have a block in common. Ends fit in 64 bits: they are on a medium.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let end = |range: &Self| range.lba.saturating_add(range.blocks.into());
        self.lba < end(other) && other.lba < end(self)
    }
}

/// COPY TARGET DEVICE DATA UNDERRUN (SBC-4 4.28.2): only `done_blocks` blocks were copied, fewer
/// than asked for.
pub fn underrun(done_blocks: u64) -> Sense {
    let key = if done_blocks == 0 { SenseKey::IllegalRequest } else { SenseKey::CopyAborted };
    Sense::new(key, AdditionalSense::COPY_TARGET_DEVICE_DATA_UNDERRUN).with_information(done_blocks)
}
