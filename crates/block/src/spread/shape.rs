//! The shape of a spread volume, from those of its slices.

use std::sync::Arc;

use super::dealing::Dealing;
use super::error::SpreadError;
use crate::{ATOMIC_BYTES_MAX, BlockDevice, Geometry};

/// Refuses slices that do not fit each other, or the volume.
pub(super) fn shape_of(
    slices: &[Arc<dyn BlockDevice>],
    dealing: &Dealing,
    blocks: u64,
) -> Result<Geometry, SpreadError> {
    let shapes: Vec<Geometry> = slices.iter().map(|slice| slice.geometry()).collect();
    let first = shapes[0];
    let is_other = |shape: &Geometry| shape.block_bytes != first.block_bytes;
    if let Some(slice) = shapes.iter().position(is_other) {
        let (found, block_bytes) = (shapes[slice].block_bytes, first.block_bytes);
        return Err(SpreadError::OtherBlocks { slice, found, block_bytes });
    }
    check_room(slices, blocks)?;
    let shape = shapes[1..].iter().fold(first, both);
    let page_bytes = u32::try_from(dealing.page_bytes()).unwrap_or(u32::MAX);
    Ok(Geometry {
        blocks,
        atomic_bytes_max: shape.atomic_bytes_max.min(ATOMIC_BYTES_MAX),
        optimal_transfer_bytes: shape.optimal_transfer_bytes.min(page_bytes),
        ..shape
    })
}

/// Each slice has an address for each block of the volume.
pub(super) fn check_room(slices: &[Arc<dyn BlockDevice>], blocks: u64) -> Result<(), SpreadError> {
    let found = slices.iter().map(|slice| slice.geometry().blocks);
    match found.enumerate().find(|(_, found)| *found < blocks) {
        Some((slice, found)) => Err(SpreadError::SmallSlice { slice, found, blocks }),
        None => Ok(()),
    }
}

/// What two slices can both do. Units are powers of two on nearly all devices, so those of the coarser one suit
/// the other too; where they are not, they are a hint that does not help.
fn both(one: Geometry, other: &Geometry) -> Geometry {
    let unmap_unit_of = match one.unmap_granularity_bytes >= other.unmap_granularity_bytes {
        true => &one,
        false => other,
    };
    Geometry {
        block_bytes: one.block_bytes,
        blocks: one.blocks.min(other.blocks),
        physical_block_bytes: one.physical_block_bytes.max(other.physical_block_bytes),
        transfer_granularity_bytes: one
            .transfer_granularity_bytes
            .max(other.transfer_granularity_bytes),
        unmap_granularity_bytes: unmap_unit_of.unmap_granularity_bytes,
        unmap_alignment_bytes: unmap_unit_of.unmap_alignment_bytes,
        atomic_bytes_max: one.atomic_bytes_max.min(other.atomic_bytes_max),
        optimal_transfer_bytes: one.optimal_transfer_bytes.max(other.optimal_transfer_bytes),
        read_only: one.read_only || other.read_only,
        rotational: one.rotational || other.rotational,
        thin: one.thin && other.thin,
    }
}
