//! GET LBA STATUS parameter data (SBC-4 5.6).

/// PROVISIONING STATUS. The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Provisioning {
    /// Backed by space, or of unknown state.
    Mapped = 0,
    /// Not backed by space; reads as zeroes.
    Deallocated = 1,
    /// Reads as zeroes, and has space set aside.
    Anchored = 2,
}

/// A run of blocks in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LbaRun {
    /// First block.
    pub lba: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Their state.
    pub state: Provisioning,
}

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// How many runs fit an ALLOCATION LENGTH: there is no use in finding out more.
pub fn lba_status_runs_max(allocation_bytes: u32) -> usize {
    (allocation_bytes as usize).saturating_sub(HEADER_BYTES).div_ceil(DESCRIPTOR_BYTES).max(1)
}

/// The parameter data for `runs`, which are in order and without gaps, cut to the allocation
/// length.
pub fn lba_status(runs: &[LbaRun], allocation_bytes: u32) -> Vec<u8> {
    let mut data = vec![0; HEADER_BYTES];
    for run in runs {
        data.extend(run.lba.to_be_bytes());
        data.extend(run.blocks.to_be_bytes());
        data.extend([run.state as u8, 0, 0, 0]);
    }
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data.truncate(allocation_bytes as usize);
    data
}
