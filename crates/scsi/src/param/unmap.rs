//! UNMAP parameter list (SBC-4 5.34).

use crate::Sense;
use crate::cdb::BlockRange;
use crate::config::MediumInfo;

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// The ranges to unmap, without the empty ones. All of them are inside the medium and within the
/// limits that VPD page B0h reports, or the whole list is refused.
pub fn parse_unmap(list: &[u8], medium: &MediumInfo) -> Result<Vec<BlockRange>, Sense> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let Some((header, rest)) = list.split_at_checked(HEADER_BYTES) else {
        return Err(Sense::parameter_list_length_error());
    };
    let announced = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // An incomplete descriptor at the end is ignored; one that was cut off is an error.
    let descriptors = announced / DESCRIPTOR_BYTES;
    let rest =
        rest.get(..descriptors * DESCRIPTOR_BYTES).ok_or(Sense::parameter_list_length_error())?;
    if descriptors > medium.limits.unmap_descriptors_max as usize {
        return Err(Sense::invalid_field_in_parameter_list(2, None));
    }
    let mut ranges = Vec::with_capacity(descriptors);
    let mut total: u64 = 0;
    for (at, descriptor) in rest.chunks_exact(DESCRIPTOR_BYTES).enumerate() {
        let range = parse_descriptor(descriptor);
        medium.check_range(range)?;
        total += u64::from(range.blocks);
        if total > u64::from(medium.limits.unmap_blocks_max) {
            let byte = HEADER_BYTES + at * DESCRIPTOR_BYTES + 8;
            return Err(Sense::invalid_field_in_parameter_list(byte as u16, None));
        }
        if range.blocks > 0 {
            ranges.push(range);
        }
    }
    Ok(ranges)
}

fn parse_descriptor(bytes: &[u8]) -> BlockRange {
    let (lba, rest) = bytes.split_first_chunk().expect("a descriptor has 16 bytes");
    let (blocks, _) = rest.split_first_chunk().expect("a descriptor has 16 bytes");
    BlockRange { lba: u64::from_be_bytes(*lba), blocks: u32::from_be_bytes(*blocks) }
}
