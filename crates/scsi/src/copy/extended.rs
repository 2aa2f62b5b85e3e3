//! EXTENDED COPY(LID1) (SPC-4 6.5): from a parameter list to a plan.
//!
//! Supported descriptors: E4h, which names a logical unit by a designator, and 02h, block device
//! to block device. The whole list is judged before anything is copied.

use super::designator::Designator;
use super::limits::{
    CSCD_DESCRIPTOR_BYTES, CSCD_MAX, CSCD_TYPE_IDENTIFICATION, DESCRIPTOR_LIST_BYTES_MAX,
    SEGMENT_TYPE_BLOCK_TO_BLOCK, SEGMENTS_MAX,
};
use super::{be16, be32, be64, pointer};
use crate::sense::{AdditionalSense, Sense, SenseKey};

const HEADER_BYTES: usize = 16;
/// DESCRIPTOR LENGTH of a segment descriptor counts what follows its first four bytes.
const SEGMENT_HEADER_BYTES: usize = 4;
const BLOCK_TO_BLOCK_LENGTH: u16 = 0x18;
/// The CSCD descriptor ID of the unit that the command was sent to.
const ID_THIS_UNIT: u16 = 0xffff;
const UNREACHABLE_COPY_TARGET: AdditionalSense = AdditionalSense { asc: 0x08, ascq: 0x04 };

/// A logical unit to copy from or to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyTarget {
    /// The unit that the command was sent to.
    ThisUnit,
    /// The unit that a CSCD descriptor names.
    Named(Cscd),
}

/// An identification descriptor CSCD descriptor (SPC-4 6.4.5.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cscd {
    /// Which unit.
    pub designator: Designator,
    /// DISK BLOCK LENGTH in bytes; 0: ask the unit.
    pub block_bytes: u32,
    /// PAD: fill an incomplete last block.
    pub pad: bool,
}

/// A segment descriptor 02h (SPC-4 6.4.6.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where to read.
    pub source: CopyTarget,
    /// Where to write.
    pub destination: CopyTarget,
    /// First logical block to read.
    pub source_lba: u64,
    /// First logical block to write.
    pub destination_lba: u64,
    /// NUMBER OF BLOCKS: of the destination if `counts_destination`, else of the source.
    /// Zero is not an error.
    pub blocks: u16,
    /// DC.
    pub counts_destination: bool,
    /// CAT: residual data goes on to the next segment.
    pub concatenate: bool,
}

/// A whole EXTENDED COPY command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtendedCopy {
    /// LIST IDENTIFIER, unless LIST ID USAGE 11b says that there is none to ask about later.
    pub list_id: Option<u8>,
    /// PRIORITY: 0 is highest, other commands have 1.
    pub priority: u8,
    /// What to copy, in order.
    pub segments: Vec<Segment>,
}

impl ExtendedCopy {
    /// `list` is the parameter list, PARAMETER LIST LENGTH bytes of it. An empty list copies
    /// nothing, which is no error (SPC-4 6.4.1).
    ///
    /// Refusals, in this order: PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST,
    /// INLINE DATA LENGTH EXCEEDED, TOO MANY TARGET DESCRIPTORS, TOO MANY SEGMENT DESCRIPTORS,
    /// UNSUPPORTED TARGET or SEGMENT DESCRIPTOR TYPE CODE, and COPY ABORTED with UNREACHABLE COPY
    /// TARGET for a descriptor ID that names nothing.
    pub fn parse(list: &[u8]) -> Result<Self, Sense> {
        if list.is_empty() {
            return Ok(Self { list_id: None, priority: 1, segments: Vec::new() });
        }
        let header = Header::parse(list)?;
        let (cscds, rest) = list[HEADER_BYTES..].split_at(header.cscd_bytes);
        let segments = &rest[..header.segment_bytes];
        let segments_at = HEADER_BYTES + header.cscd_bytes;
        let segments = split_segments(segments, segments_at)?;
        let cscds = parse_cscds(cscds)?;
        let segments = segments.into_iter().enumerate();
        let segments: Result<Vec<_>, _> =
            segments.map(|(index, (at, bytes))| Segment::parse(bytes, at, index, &cscds)).collect();
        Ok(Self { list_id: header.list_id, priority: header.priority, segments: segments? })
    }
}

struct Header {
    list_id: Option<u8>,
    priority: u8,
    cscd_bytes: usize,
    segment_bytes: usize,
}

impl Header {
    fn parse(list: &[u8]) -> Result<Self, Sense> {
        let bad_field = |byte, bit| Err(Sense::invalid_field_in_parameter_list(byte, bit));
        if list.len() < HEADER_BYTES {
            return Err(Sense::parameter_list_length_error());
        }
        // SPC-4 table 129. The middle value is SPC-3's NRCR, which VMware sets.
        let list_id = match list[1] >> 3 & 0b11 {
            0b01 => return bad_field(1, Some(4)),
            0b11 if list[0] != 0 => return bad_field(0, None),
            0b11 => None,
            _ => Some(list[0]),
        };
        let cscd_bytes = usize::from(be16(list, 2));
        let segment_bytes = be32(list, 8) as usize;
        let inline_bytes = be32(list, 12);
        let descriptor_bytes = cscd_bytes.saturating_add(segment_bytes);
        if descriptor_bytes > DESCRIPTOR_LIST_BYTES_MAX {
            return Err(Sense::parameter_list_length_error()); // 6.4.3.5
        }
        if inline_bytes != 0 {
            let code = AdditionalSense::INLINE_DATA_LENGTH_EXCEEDED;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_parameter(12, None));
        }
        if list.len() < HEADER_BYTES + descriptor_bytes {
            return Err(Sense::parameter_list_length_error());
        }
        if !cscd_bytes.is_multiple_of(CSCD_DESCRIPTOR_BYTES) {
            return bad_field(2, None);
        }
        if cscd_bytes / CSCD_DESCRIPTOR_BYTES > CSCD_MAX {
            let code = AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_parameter(2, None));
        }
        Ok(Self { list_id, priority: list[1] & 0x07, cscd_bytes, segment_bytes })
    }
}

/// Cuts the segment descriptor list, and checks their number. Each piece comes with its offset.
fn split_segments(mut rest: &[u8], mut at: usize) -> Result<Vec<(usize, &[u8])>, Sense> {
    let mut segments = Vec::new();
    while !rest.is_empty() {
        if segments.len() == SEGMENTS_MAX {
            let code = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_parameter(8, None));
        }
        let length = if rest.len() < SEGMENT_HEADER_BYTES { 0 } else { usize::from(be16(rest, 2)) };
        let Some((segment, more)) = rest.split_at_checked(SEGMENT_HEADER_BYTES + length) else {
            return Err(Sense::invalid_field_in_parameter_list(pointer(at + 2), None));
        };
        segments.push((at, segment));
        at += segment.len();
        rest = more;
    }
    Ok(segments)
}

fn parse_cscds(list: &[u8]) -> Result<Vec<Cscd>, Sense> {
    let (descriptors, _) = list.as_chunks::<CSCD_DESCRIPTOR_BYTES>();
    let place = |n: usize| HEADER_BYTES + n * CSCD_DESCRIPTOR_BYTES;
    descriptors.iter().enumerate().map(|(n, bytes)| Cscd::parse(bytes, place(n))).collect()
}

impl Cscd {
    fn parse(bytes: &[u8; CSCD_DESCRIPTOR_BYTES], at: usize) -> Result<Self, Sense> {
        if bytes[0] != CSCD_TYPE_IDENTIFICATION {
            let code = AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_parameter(pointer(at), None));
        }
        // LU ID TYPE and the obsolete NUL are ignored; PERIPHERAL DEVICE TYPE is a disk's.
        if bytes[1] & 0x1f != 0 {
            return Err(Sense::invalid_field_in_parameter_list(pointer(at + 1), Some(4)));
        }
        let designator = Designator::parse(bytes)
            .map_err(|byte| Sense::invalid_field_in_parameter_list(pointer(at + byte), None))?;
        Ok(Self {
            designator,
            block_bytes: be32(bytes, 28) & 0x00ff_ffff,
            pad: bytes[28] & 0x04 != 0,
        })
    }
}

impl Segment {
    fn parse(bytes: &[u8], at: usize, index: usize, cscds: &[Cscd]) -> Result<Self, Sense> {
        if bytes[0] != SEGMENT_TYPE_BLOCK_TO_BLOCK {
            let code = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
            return Err(Sense::new(SenseKey::IllegalRequest, code).at_parameter(pointer(at), None));
        }
        if be16(bytes, 2) != BLOCK_TO_BLOCK_LENGTH {
            return Err(Sense::invalid_field_in_parameter_list(pointer(at + 2), None));
        }
        let target = |id: u16| match cscds.get(usize::from(id)) {
            Some(cscd) => Ok(CopyTarget::Named(*cscd)),
            None if id == ID_THIS_UNIT => Ok(CopyTarget::ThisUnit),
            None => Err(segment_failure(index, UNREACHABLE_COPY_TARGET)),
        };
        Ok(Self {
            source: target(be16(bytes, 4))?,
            destination: target(be16(bytes, 6))?,
            source_lba: be64(bytes, 12),
            destination_lba: be64(bytes, 20),
            blocks: be16(bytes, 10),
            counts_destination: bytes[1] & 0x02 != 0,
            concatenate: bytes[1] & 0x01 != 0,
        })
    }

    /// How many bytes to copy between units with these block lengths.
    ///
    /// COPY ABORTED with UNEXPECTED INEXACT SEGMENT if that is not a whole number of blocks on
    /// both sides: residual data and padding (CAT, PAD) are not kept (SPC-4 5.17.7.2).
    pub fn length_bytes(
        &self,
        index: usize,
        source_block_bytes: u32,
        destination_block_bytes: u32,
    ) -> Result<u64, Sense> {
        let counted =
            if self.counts_destination { destination_block_bytes } else { source_block_bytes };
        let bytes = u64::from(self.blocks) * u64::from(counted);
        let whole = |block_bytes: u32| bytes.is_multiple_of(block_bytes.into());
        if whole(source_block_bytes) && whole(destination_block_bytes) {
            Ok(bytes)
        } else {
            Err(segment_failure(index, AdditionalSense::UNEXPECTED_INEXACT_SEGMENT))
        }
    }
}

/// COPY ABORTED while segment `index` was processed (SPC-4 5.17.7.4): the segment number is in the
/// INFORMATION field. `code` is for example COPY TARGET DEVICE NOT REACHABLE for a unit that is
/// not here, THIRD PARTY DEVICE FAILURE for one that failed, NO ADDITIONAL SENSE for blocks beyond
/// its end.
pub fn segment_failure(index: usize, code: AdditionalSense) -> Sense {
    Sense::new(SenseKey::CopyAborted, code).with_information(index as u64)
}
