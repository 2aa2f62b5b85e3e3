//! What an operator asks of an array and what it answers: the types of its public face, which
//! also travel over the control socket as JSON. Sizes are in bytes.

use block::Latency;
use serde::{Deserialize, Serialize};

use crate::{DiskId, Level};

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// When it would survive a loss of power.
    #[default]
    Durable,
    /// When it would survive the end of this process; durable at a flush (WCE=1).
    Volatile,
}

/// A volume to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeSpec {
    /// Unique in the array: letters, digits, `-`, `.`, `_`, `:`; 1 to 63 characters.
    pub name: String,
    /// Whole blocks.
    pub size_bytes: u64,
    /// `None` takes the array's.
    pub level: Option<Level>,
    /// Reserves its space at once.
    pub thick: bool,
    /// 512 or 4096.
    pub block_bytes: u32,
    /// When writes are answered.
    pub cache: Cache,
    /// What sequential reads fetch ahead; 0 for none, `None` for the default.
    pub read_ahead_bytes: Option<u32>,
    /// Whether what is read of it may be kept in memory.
    #[serde(default = "yes")]
    pub cached: bool,
}

/// What holds where an older build says nothing.
fn yes() -> bool {
    true
}

/// How a volume, snapshot or disk set does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Served, and protected as its level promises.
    Online,
    /// Served, but some of its sets miss a member.
    Degraded,
    /// Not served: an operator said so.
    Offline,
    /// Not served: more disks are missing than its level survives.
    Lost,
    /// In the recycle bin.
    Deleted,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInfo {
    /// Its number, never used again.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// What hosts see.
    pub size_bytes: u64,
    /// Its level.
    pub raid: Level,
    /// How it does.
    pub state: VolumeState,
    /// Why it is not online, in words; empty when it is.
    pub reason: String,
    /// Space is reserved.
    pub thick: bool,
    /// Logical block.
    pub block_bytes: u32,
    /// When writes are answered.
    pub cache: Cache,
    /// What sequential reads fetch ahead.
    pub read_ahead_bytes: u32,
    /// Clusters that its present contents map.
    pub used_bytes: u64,
    /// Space set aside beyond that.
    pub reserved_bytes: u64,
    /// How many snapshots it has.
    pub snapshots: u32,
    /// The snapshot it was cloned from, as `volume@snapshot`.
    pub origin: Option<String>,
    /// When it was made.
    pub created_unix_seconds: u64,
    /// Whether what is read of it and of its snapshots may be kept in memory.
    #[serde(default = "yes")]
    pub cached: bool,
    /// Blocks of 4 KiB of it and of its snapshots that were in memory when hosts read them, since the array was opened.
    #[serde(default)]
    pub cache_hits: u64,
    /// And those that had to be read from disks.
    #[serde(default)]
    pub cache_misses: u64,
}

/// What hosts may do with a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotAccess {
    /// Read what was there when it was taken.
    #[default]
    ReadOnly,
    /// Read that and write over it; the snapshot itself does not change.
    ReadWrite,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotInfo {
    /// Its number, never used again.
    pub id: u32,
    /// Its volume.
    pub volume: String,
    /// Its name, unique in its volume.
    pub name: String,
    /// Size of the volume at that time.
    pub size_bytes: u64,
    /// When it was taken.
    pub created_unix_seconds: u64,
    /// Served to hosts.
    pub online: bool,
    /// How it is served, or was last.
    pub access: SnapshotAccess,
    /// The number of the disk that hosts see while it is served read-write; what they wrote to it
    /// is kept while there is one.
    pub view_id: Option<u32>,
    /// Being deleted in the background.
    pub deleting: bool,
}

/// What a snapshot or volume holds; counted by a walk, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SpaceInfo {
    /// Held by it alone: what its deletion gives back.
    pub unique_bytes: u64,
    /// Held together with others.
    pub shared_bytes: u64,
    /// Of a snapshot: what hosts wrote to it, which its deletion gives back too.
    pub written_bytes: u64,
}

/// How a disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// In use.
    Online,
    /// In use, with errors above the limit: its data is being copied to others.
    Suspect,
    /// Its data is moving to other disks because an operator asked.
    Retiring,
    /// Came back, and gets what changed in the meantime.
    Resyncing,
    /// Not there.
    Missing,
    /// Failed, or was declared failed.
    Failed,
}

/// What a disk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskRole {
    /// Data, and the journal as long as no disk is for that alone.
    Data,
    /// The journal alone.
    Journal,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskInfo {
    /// Its number in the array.
    pub id: DiskId,
    /// Where it was found: a path, or a word of the caller.
    pub name: String,
    /// What it is for.
    pub role: DiskRole,
    /// How it does.
    pub state: DiskState,
    /// Why, in words; empty when it is online.
    pub reason: String,
    /// All of it.
    pub size_bytes: u64,
    /// In chunks of RAID sets.
    pub used_bytes: u64,
    /// Reads that failed or whose data did not match its checksum.
    pub errors_read: u64,
    /// Writes that failed.
    pub errors_write: u64,
    /// Blocks rewritten from redundancy.
    pub healed_blocks: u64,
}

/// What runs in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Restores redundancy: on other disks, or on one that was away; also empties disks that are to
    /// leave.
    Rebuild,
    /// Reads and compares everything.
    Scrub,
    /// Gives back the space of a deleted snapshot or volume.
    Delete,
    /// Moves data to disks that are emptier than others.
    Rebalance,
}

/// Long work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobInfo {
    /// What it does.
    pub kind: JobKind,
    /// To what: a disk or volume by name.
    pub subject: String,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes per second of late; 0 when not known.
    pub rate_bytes: u64,
}

/// The array as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayInfo {
    /// Drawn at random when the array was made; 32 hexadecimal digits.
    pub id: String,
    /// Level of volumes that name none.
    pub raid: Level,
    /// What can be used: [`used_bytes`](Self::used_bytes) and [`free_bytes`](Self::free_bytes).
    pub size_bytes: u64,
    /// What holds data, its copies or parity, or metadata, or is set aside.
    pub used_bytes: u64,
    /// The rest, before redundancy. What chunks in RAID sets have of it is for volumes of their
    /// level.
    pub free_bytes: u64,
    /// Kept free for rebuilds.
    pub spare_bytes: u64,
    /// Unit of RAID sets.
    pub chunk_bytes: u64,
    /// How many disks, and how many of them online.
    pub disks: u32,
    /// Disks that are online.
    pub disks_online: u32,
    /// Journal: all of it, and what is not yet destaged.
    pub journal_bytes: u64,
    /// Journal in use.
    pub journal_used_bytes: u64,
    /// Checkpoints since the array was made.
    pub checkpoint: u64,
    /// Label generation.
    pub generation: u64,
    /// When the last scrub ended; at first, when the array was made.
    pub scrubbed_unix_seconds: u64,
    /// What operators have set.
    #[serde(flatten)]
    pub settings: Settings,
    /// What needs an operator, one sentence each.
    pub warnings: Vec<String>,
    /// What volumes of each level can still store, if the others store nothing more.
    #[serde(default)]
    pub free_by_level: Vec<LevelSpace>,
    /// The sizes of all volumes that are not in the recycle bin: what hosts were told they may
    /// store.
    #[serde(default)]
    pub promised_bytes: u64,
    /// What has stood still for ten seconds or more, and what it waits for; one sentence each.
    #[serde(default)]
    pub stalls: Vec<String>,
    /// What the cache of blocks holds, and how it does.
    #[serde(default)]
    pub cache_memory: CacheFigures,
}

/// The cache of verified blocks of volumes. Hits, misses and evictions count blocks of 4 KiB since the array was
/// opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheFigures {
    /// Memory that it takes now.
    pub bytes: u64,
    /// Memory that it may take now.
    pub bytes_max: u64,
    /// Blocks that were in memory when hosts read them.
    pub hits: u64,
    /// Blocks that had to be read from disks.
    pub misses: u64,
    /// Blocks that made room for others.
    pub evicted: u64,
}

/// Space for volumes of a level, as hosts count it: without copies and parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelSpace {
    /// The level.
    pub raid: Level,
    /// What can still be stored.
    pub free_bytes: u64,
    /// What holds data or is kept for thick volumes.
    #[serde(default)]
    pub used_bytes: u64,
}

impl LevelSpace {
    /// How full it is.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        self.used_bytes * 100 / (self.used_bytes + self.free_bytes).max(1)
    }
}

impl ArrayInfo {
    /// How full it is: the fullest of the levels that hold something. Disks of unequal sizes can be
    /// full for one level while others have room.
    #[must_use]
    pub fn used_percent(&self) -> u64 {
        let raw = self.used_bytes * 100 / self.size_bytes.max(1);
        let levels = self.free_by_level.iter().filter(|space| space.used_bytes > 0);
        levels.map(LevelSpace::used_percent).max().unwrap_or(raw)
    }
}

/// How many RAID sets there are of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetFigures {
    /// Their level; `None` for those that hold metadata.
    pub raid: Option<Level>,
    /// All of them.
    pub sets: u64,
    /// Those of which a disk is not there or not up to date.
    pub degraded: u64,
    /// How long sets of this level, also those that are gone, took for reads since the array was opened: of blocks of
    /// one cluster, from when a disk was asked to the data, checked and mended if need be; of metadata, of one copy.
    pub reads: Latency,
    /// And for writes to one stripe, with parity and all copies, from when its disks were asked.
    pub writes: Latency,
}

/// Figures of an array beside [`ArrayInfo`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArrayFigures {
    /// RAID sets, by level.
    pub sets: Vec<SetFigures>,
    /// Metadata in memory.
    pub cache_bytes: u64,
    /// How much of it is kept there at most, without what waits to be written.
    pub cache_bytes_max: u64,
    /// How often a page of it was asked for and in memory, since the array was opened.
    pub cache_hits: u64,
    /// And had to be loaded first.
    pub cache_misses: u64,
    /// How long batches took to be on all holders of the journal.
    pub journal_writes: Latency,
    /// How long these took to make them durable, where that needs a flush.
    pub journal_flushes: Latency,
    /// The cache of blocks of volumes.
    pub block_cache: CacheFigures,
}

/// What operators set for the whole array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Share of the time that a rebuild or scrub takes while hosts are busy, 1 to 100.
    pub rebuild_share_percent: u8,
    /// Days from the end of a scrub to the next one; 0 for none but those that are asked for.
    pub scrub_days: u16,
    /// Operators and hosts are warned as the space in use reaches each of these.
    pub warn_percents: Vec<u8>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { rebuild_share_percent: 50, scrub_days: 30, warn_percents: vec![80] }
    }
}

/// Changes of [`Settings`]; `None` leaves one as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SettingsChange {
    /// 1 to 100.
    pub rebuild_share_percent: Option<u8>,
    /// 0 for never.
    pub scrub_days: Option<u16>,
    /// Any number of 1 to 100.
    pub warn_percents: Option<Vec<u8>>,
}

/// What a check of everything found; `problems` is empty when all is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct CheckReport {
    /// Metadata pages read and verified.
    pub pages: u64,
    /// Clusters of data read and verified, each copy counted.
    pub clusters: u64,
    /// Parity stripes recomputed.
    pub stripes: u64,
    /// Blocks of data, metadata and parity that a disk could not give or gave wrong.
    pub wrong_blocks: u64,
    /// How many of them were rewritten.
    pub repaired_blocks: u64,
    /// How many of them no disk has: their data is lost.
    pub lost_blocks: u64,
    /// One sentence each.
    pub problems: Vec<String>,
}

/// A range of a volume that differs between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedExtent {
    /// First byte, a multiple of 64 KiB.
    pub at: u64,
    /// Length.
    pub len_bytes: u64,
}

/// Something that happened, for a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub unix_seconds: u64,
    /// What, in one sentence.
    pub text: String,
}
