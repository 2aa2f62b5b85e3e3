//! What the kernel and a ublk server tell each other, as in `linux/ublk_cmd.h`: structures of C in
//! the byte order of the machine.

use block::Geometry;
use ring::UBLK_DESCRIPTOR_BYTES;

/// The kernel's unit of lengths and addresses, whatever the blocks are.
pub(super) const SECTOR_BYTES: u64 = 512;

/// The size of `struct ublksrv_ctrl_dev_info`.
pub(super) const INFO_BYTES: usize = 64;

/// The part of `struct ublk_params` that is used: head, basic and discard.
pub(super) const PARAMS_BYTES: usize = 60;

/// The longest request of data: one operation on the device, unless it crosses a piece.
pub(super) const TRANSFER_BYTES_MAX: u32 = crate::pieces::PIECE_BYTES as u32;

/// The longest trim: it takes a target little, but other requests should come between.
const TRIM_BYTES_MAX: u64 = 1 << 30;

/// The longest run of zeroes: a target that cannot make them gets them written, and the kernel waits.
const ZEROES_BYTES_MAX: u64 = 128 << 20;

/// `UBLK_F_*`.
pub(super) mod feature {
    /// The block device outlives its server: requests wait for the next one.
    pub(in crate::ublk) const USER_RECOVERY: u64 = 1 << 3;
    /// Requests that a server took and did not answer go to the next one, rather than fail.
    pub(in crate::ublk) const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Data is copied by reads and writes of the queue's device.
    pub(in crate::ublk) const USER_COPY: u64 = 1 << 7;
    /// The block device can become longer, from Linux 6.16 on. An older one strikes it out.
    pub(in crate::ublk) const UPDATE_SIZE: u64 = 1 << 10;
}

/// `UBLK_S_DEV_DEAD`: there is no block device.
const STATE_DEAD: u16 = 0;

/// `UBLK_S_DEV_LIVE`: it is served.
const STATE_LIVE: u16 = 1;

/// `UBLK_PARAM_TYPE_*` and `UBLK_ATTR_*`.
mod param {
    pub(super) const BASIC: u32 = 1 << 0;
    pub(super) const DISCARD: u32 = 1 << 1;
    pub(super) const READ_ONLY: u32 = 1 << 0;
    pub(super) const ROTATIONAL: u32 = 1 << 1;
    pub(super) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(super) const FUA: u32 = 1 << 3;
}

/// `UBLK_IO_F_*`.
mod flag {
    pub(super) const FUA: u32 = 1 << 13;
    pub(super) const NOUNMAP: u32 = 1 << 15;
}

/// A device, as it is asked for and as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) transfer_bytes_max: u32,
    /// N in `/dev/ublkbN`.
    pub(super) number: u32,
    /// The process that serves it, -1 when none does any more.
    pub(super) pid: i32,
    /// Of `feature`.
    pub(super) features: u64,
    /// For the server's own use; the kernel keeps it.
    pub(super) mark: u64,
}

impl Info {
    /// A device with one queue, of any number, served by the process `pid`; `outlives` it if somebody
    /// will know it again.
    pub(super) fn wanted(depth: u16, pid: u32, mark: u64, outlives: bool) -> Info {
        let recovery = feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
        Info {
            queues: 1,
            depth,
            state: STATE_DEAD,
            transfer_bytes_max: TRANSFER_BYTES_MAX,
            number: u32::MAX,
            pid: i32::try_from(pid).unwrap_or(-1),
            features: feature::USER_COPY
                | feature::UPDATE_SIZE
                | if outlives { recovery } else { 0 },
            mark,
        }
    }

    /// Whether its block device stays when its server is gone.
    pub(super) fn outlives_its_server(&self) -> bool {
        self.features & feature::USER_RECOVERY != 0
    }

    /// Whether there is no block device of it: not yet, or not any more.
    pub(super) fn is_dead(&self) -> bool {
        self.state == STATE_DEAD
    }

    /// Whether it is served, as far as the kernel has heard.
    pub(super) fn is_live(&self) -> bool {
        self.state == STATE_LIVE
    }

    pub(super) fn to_bytes(self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.transfer_bytes_max.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    pub(super) fn of_bytes(bytes: &[u8; INFO_BYTES]) -> Info {
        Info {
            queues: u16::from_ne_bytes(part(bytes, 0)),
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state: u16::from_ne_bytes(part(bytes, 4)),
            transfer_bytes_max: u32::from_ne_bytes(part(bytes, 8)),
            number: u32::from_ne_bytes(part(bytes, 12)),
            pid: i32::from_ne_bytes(part(bytes, 16)),
            features: u64::from_ne_bytes(part(bytes, 24)),
            mark: u64::from_ne_bytes(part(bytes, 32)),
        }
    }
}

/// The `N` bytes at `at`, which are inside.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut part = [0; N];
    part.copy_from_slice(&bytes[at..at + N]);
    part
}

/// How the block device is to be.
pub(super) fn params(disk: &Geometry, transfer_bytes_max: u32) -> [u8; PARAMS_BYTES] {
    let mut attributes = param::VOLATILE_CACHE | param::FUA;
    attributes |= if disk.read_only { param::READ_ONLY } else { 0 };
    attributes |= if disk.rotational { param::ROTATIONAL } else { 0 };
    let logical = disk.block_bytes.trailing_zeros();
    let physical = disk.physical_block_bytes.trailing_zeros().clamp(logical, 31);
    // Hints are powers of two here: the largest one that divides what the disk says.
    let hint = |bytes: u32| (bytes.trailing_zeros().clamp(physical, 31)) as u8;
    let sectors = |bytes: u64| (bytes / SECTOR_BYTES) as u32;
    let trim = if disk.thin && !disk.read_only { sectors(TRIM_BYTES_MAX) } else { 0 };
    let zeroes = if disk.read_only { 0 } else { sectors(ZEROES_BYTES_MAX) };
    let granularity = disk.unmap_granularity_bytes.max(disk.block_bytes);
    let mut bytes = [0; PARAMS_BYTES];
    let mut put = |at: usize, word: u32| bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    put(0, PARAMS_BYTES as u32);
    put(4, param::BASIC | param::DISCARD);
    put(8, attributes);
    put(16, transfer_bytes_max / SECTOR_BYTES as u32);
    put(40, disk.unmap_alignment_bytes);
    put(44, granularity);
    put(48, trim);
    put(52, zeroes);
    bytes[12] = logical as u8;
    bytes[13] = physical as u8;
    bytes[14] = hint(disk.optimal_transfer_bytes);
    bytes[15] = hint(disk.transfer_granularity_bytes);
    bytes[24..32].copy_from_slice(&(disk.size_bytes() / SECTOR_BYTES).to_ne_bytes());
    bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes()); // ranges of one trim
    bytes
}

/// Room for the parameters of a device, to be filled in.
pub(super) fn params_wanted() -> [u8; PARAMS_BYTES] {
    let mut bytes = [0; PARAMS_BYTES];
    bytes[0..4].copy_from_slice(&(PARAMS_BYTES as u32).to_ne_bytes());
    bytes
}

/// The bytes of a logical block, and of the whole device.
pub(super) fn shape(params: &[u8; PARAMS_BYTES]) -> (u64, u64) {
    let sectors = u64::from_ne_bytes(part(params, 24));
    (1 << (params[12] & 63), sectors.saturating_mul(SECTOR_BYTES))
}

/// What a request wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write,
    Flush,
    Trim,
    WriteZeroes,
    /// One that devices of ours do not offer.
    Other(u8),
}

/// A request of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) command: Command,
    /// It must be durable when it is answered.
    pub(super) durable: bool,
    /// Zeroes may not give space back.
    pub(super) keep_space: bool,
    /// In bytes.
    pub(super) at: u64,
    /// In bytes.
    pub(super) len: u64,
}

impl Request {
    /// Reads a `struct ublksrv_io_desc`.
    pub(super) fn of_bytes(bytes: &[u8; UBLK_DESCRIPTOR_BYTES]) -> Request {
        let flags = u32::from_ne_bytes(part(bytes, 0));
        let command = match (flags & 0xff) as u8 {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Flush,
            3 => Command::Trim,
            5 => Command::WriteZeroes,
            other => Command::Other(other),
        };
        Request {
            command,
            durable: flags & flag::FUA != 0,
            keep_space: flags & flag::NOUNMAP != 0,
            at: u64::from_ne_bytes(part(bytes, 8)).saturating_mul(SECTOR_BYTES),
            len: u64::from(u32::from_ne_bytes(part(bytes, 4))) * SECTOR_BYTES,
        }
    }
}

#[cfg(test)]
mod tests;
