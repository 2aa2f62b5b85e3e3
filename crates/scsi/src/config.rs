//! What a logical unit is: identity, medium, ports.

use crate::Sense;
use crate::alua::PortGroups;
use crate::cdb::BlockRange;
use crate::referrals::ReferralMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names of a logical unit. All ASCII; longer ones are cut to their fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// T10 VENDOR IDENTIFICATION, up to 8 characters.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, up to 16 characters.
    pub product: String,
    /// PRODUCT REVISION LEVEL, up to 4 characters.
    pub revision: String,
    /// Unit serial number (VPD page 80h).
    pub serial: String,
    /// NAA IEEE Registered Extended designator (VPD page 83h): what multipath software knows the
    /// unit by, so it must be the same on every path and after every restart.
    pub naa: [u8; 16],
}

impl Identity {
    /// The names of a Drystone disk with this serial number.
    pub fn new(serial: &str, product: &str, revision: &str) -> Self {
        Self {
            vendor: "DRYSTONE".into(),
            product: product.into(),
            revision: revision.into(),
            serial: serial.into(),
            naa: naa_from(serial),
        }
    }
}

/// An NAA 6h designator that is made from `seed` alone.
///
/// The company identifier is D2-57-0E: its second hexadecimal digit, 2, marks an administratively
/// assigned local identifier (IEEE 802c), which needs no registration and can collide with no
/// vendor's. The other 100 bits are a hash of the seed.
pub fn naa_from(seed: &str) -> [u8; 16] {
    const NAA_AND_COMPANY: u128 = 0x6d2_570e << 100;
    const HASH_MASK: u128 = (1 << 100) - 1;
    // FNV-1a: stable by definition, and collisions need only be unlikely, not hard to make.
    let hash = seed.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    (NAA_AND_COMPANY | (hash ^ hash >> 100) & HASH_MASK).to_be_bytes()
}

/// What VPD page B0h promises and [`LogicalUnit::admit`](super::LogicalUnit::admit) enforces. In
/// logical blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// MAXIMUM TRANSFER LENGTH of READ, WRITE, VERIFY, WRITE AND VERIFY.
    pub transfer_blocks_max: u32,
    /// Longest ORWRITE, which is one atomic step. VPD page B0h has no field for it.
    pub or_write_blocks_max: u32,
    /// OPTIMAL TRANSFER LENGTH.
    pub transfer_blocks_optimal: u32,
    /// OPTIMAL TRANSFER LENGTH GRANULARITY: aligned multiples of this cost least.
    pub transfer_blocks_granularity: u16,
    /// MAXIMUM UNMAP LBA COUNT of one UNMAP command.
    pub unmap_blocks_max: u32,
    /// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
    pub unmap_descriptors_max: u32,
    /// MAXIMUM WRITE SAME LENGTH; 0 is no limit. Zero blocks are refused (WSNZ = 1).
    pub write_same_blocks_max: u64,
    /// MAXIMUM COMPARE AND WRITE LENGTH.
    pub compare_blocks_max: u8,
    /// MAXIMUM ATOMIC TRANSFER LENGTH; 0 is "no WRITE ATOMIC". At most `transfer_blocks_max`.
    pub atomic_blocks_max: u32,
}

/// Capacity in logical blocks, at least one. It may change while the unit is in use
/// ([`LogicalUnit::resize`](super::LogicalUnit::resize)); each command sees one value or the other.
#[derive(Debug)]
pub struct Capacity(AtomicU64);

impl Capacity {
    /// This many blocks.
    pub fn new(blocks: u64) -> Self {
        assert!(blocks > 0, "a medium has blocks");
        Self(AtomicU64::new(blocks))
    }

    /// The capacity now.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it, and returns what it was.
    pub(super) fn replace(&self, blocks: u64) -> u64 {
        assert!(blocks > 0, "a medium has blocks");
        self.0.swap(blocks, Ordering::Relaxed)
    }
}

impl Clone for Capacity {
    fn clone(&self) -> Self {
        Self::new(self.get())
    }
}

impl PartialEq for Capacity {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Capacity {}

/// The medium as the standard describes it. Nothing but its capacity changes while the unit exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediumInfo {
    /// Logical block length.
    pub block_bytes: u32,
    /// Capacity in logical blocks.
    pub blocks: Capacity,
    /// LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT.
    pub physical_exponent: u8,
    /// Writes are refused.
    pub read_only: bool,
    /// Thin provisioned (LBPME): UNMAP exists, and unmapped blocks read as zeroes.
    pub thin: bool,
    /// ANC_SUP: blocks can be anchored, so ANCHOR = 1 is honoured.
    pub anchors: bool,
    /// OPTIMAL UNMAP GRANULARITY in logical blocks.
    pub unmap_granularity_blocks: u32,
    /// UNMAP GRANULARITY ALIGNMENT in logical blocks.
    pub unmap_alignment_blocks: u32,
    /// MEDIUM ROTATION RATE: 1 is "does not rotate", 0 "not told".
    pub rotation_rate: u16,
    /// Transfer limits.
    pub limits: Limits,
}

impl MediumInfo {
    /// A thin, writable, solid medium with 4 KiB physical blocks and generous limits.
    pub fn new(block_bytes: u32, blocks: u64) -> Self {
        assert!(block_bytes.is_power_of_two(), "blocks are powers of two");
        let blocks_in = |bytes: u32| (bytes / block_bytes).max(1);
        Self {
            block_bytes,
            blocks: Capacity::new(blocks),
            physical_exponent: blocks_in(4096).trailing_zeros() as u8,
            read_only: false,
            thin: true,
            anchors: false,
            unmap_granularity_blocks: blocks_in(4096),
            unmap_alignment_blocks: 0,
            rotation_rate: 1,
            limits: Limits {
                transfer_blocks_max: blocks_in(16 << 20),
                transfer_blocks_optimal: blocks_in(256 << 10),
                transfer_blocks_granularity: blocks_in(4096) as u16,
                // "No limit".
                unmap_blocks_max: u32::MAX,
                unmap_descriptors_max: 256,
                write_same_blocks_max: 0,
                compare_blocks_max: 255,
                or_write_blocks_max: blocks_in(1 << 20),
                atomic_blocks_max: blocks_in(1 << 20),
            },
        }
    }

    /// Refuses a range that is not wholly inside the medium. An empty range may stand at its end.
    pub fn check_range(&self, range: BlockRange) -> Result<(), Sense> {
        let blocks = self.blocks.get();
        let end = range.lba.checked_add(range.blocks.into());
        match end {
            Some(end) if end <= blocks => Ok(()),
            // The first block that does not exist.
            _ => Err(Sense::lba_out_of_range(range.lba.max(blocks))),
        }
    }
}

/// One way to reach the unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPort {
    /// RELATIVE TARGET PORT IDENTIFIER, unique in the target, not zero.
    pub relative_id: u16,
    /// iSCSI target portal group tag: with the target name it is the port's SCSI name.
    pub portal_group_tag: u16,
}

/// Everything that is decided before a logical unit exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitConfig {
    /// Its names.
    pub identity: Identity,
    /// Its medium.
    pub medium: MediumInfo,
    /// The default of WCE: false is `cache = durable`.
    pub write_cache: bool,
    /// iSCSI name of the target that it belongs to.
    pub target_name: String,
    /// The ports through which it is reached; at least one.
    pub ports: Vec<TargetPort>,
    /// The target port groups at power on; each port is in one. Which ports a group has does not
    /// change, its state may.
    pub port_groups: PortGroups,
    /// Which groups lead best to which blocks, at power on; `None` is a unit without referrals. A
    /// unit has referrals or not for as long as it exists, the map may change.
    pub referrals: Option<Arc<ReferralMap>>,
}

impl UnitConfig {
    /// The port with this relative identifier, or the first one.
    pub(crate) fn port(&self, relative_id: u16) -> &TargetPort {
        let found = self.ports.iter().find(|port| port.relative_id == relative_id);
        found.or(self.ports.first()).expect("LogicalUnit::new has checked that there is a port")
    }
}
