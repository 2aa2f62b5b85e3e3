//! The array as a whole.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};

use super::Level;

/// The array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Array {
    /// Drawn at random when the array was made; 32 hexadecimal digits.
    pub id: String,
    /// Level of volumes that name none.
    pub raid: Level,
    /// What can be used, before redundancy.
    pub size_bytes: u64,
    /// What holds data, its copies or parity, or metadata, or is set aside.
    pub used_bytes: u64,
    /// The rest.
    pub free_bytes: u64,
    /// Kept free for rebuilds.
    pub spare_bytes: u64,
    /// Unit of RAID sets.
    pub chunk_bytes: u64,
    /// How many disks.
    pub disks: u32,
    /// How many of them are online.
    pub disks_online: u32,
    /// The journal.
    pub journal_bytes: u64,
    /// What of it has not reached its place.
    pub journal_used_bytes: u64,
    /// Checkpoints since the array was made.
    pub checkpoint: u64,
    /// Generation of the labels.
    pub generation: u64,
    /// When the last scrub ended; at first, when the array was made.
    pub scrubbed_unix_seconds: u64,
    /// Share of the time that a rebuild or scrub takes while hosts are busy, 1 to 100.
    pub rebuild_share_percent: u8,
    /// Days from the end of a scrub to the next one; 0 for none but those that are asked for.
    pub scrub_days: u16,
    /// Operators and hosts are warned as the space in use reaches each of these.
    pub warn_percents: Vec<u8>,
    /// What needs an operator, one sentence each.
    pub warnings: Vec<String>,
    /// Why it has stopped, so that nothing on it is served any more; null while it has not. It is among the warnings,
    /// too.
    #[serde(default)]
    pub stopped: Option<String>,
    /// What volumes of each level can still store, if the others store nothing more.
    pub free_by_level: Vec<LevelSpace>,
    /// The sizes of all volumes: what hosts were told they may store.
    pub promised_bytes: u64,
    /// What has stood still for ten seconds or more, and what it waits for; one sentence each.
    pub stalls: Vec<String>,
    /// The read cache: blocks of volumes in memory.
    #[serde(default)]
    pub cache_memory: CacheMemory,
}

/// The read cache. Hits, misses and evictions count blocks of 4 KiB since the member was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheMemory {
    /// Memory that it takes now.
    pub bytes: u64,
    /// Memory that it may take now: less than was set while the machine is short of memory.
    pub bytes_max: u64,
    /// Blocks that were in memory when hosts read them.
    pub hits: u64,
    /// Blocks that had to be read from disks.
    pub misses: u64,
    /// Blocks that made room for others.
    pub evicted: u64,
}

impl From<array::api::CacheFigures> for CacheMemory {
    fn from(theirs: array::api::CacheFigures) -> Self {
        let array::api::CacheFigures { bytes, bytes_max, hits, misses, evicted } = theirs;
        Self { bytes, bytes_max, hits, misses, evicted }
    }
}

impl From<array::api::ArrayInfo> for Array {
    fn from(info: array::api::ArrayInfo) -> Self {
        let stopped = member::stop_reason(&info).map(str::to_owned);
        let space = info.free_by_level.into_iter().map(Into::into).collect();
        Self {
            id: info.id,
            raid: info.raid.into(),
            size_bytes: info.size_bytes,
            used_bytes: info.used_bytes,
            free_bytes: info.free_bytes,
            spare_bytes: info.spare_bytes,
            chunk_bytes: info.chunk_bytes,
            disks: info.disks,
            disks_online: info.disks_online,
            journal_bytes: info.journal_bytes,
            journal_used_bytes: info.journal_used_bytes,
            checkpoint: info.checkpoint,
            generation: info.generation,
            scrubbed_unix_seconds: info.scrubbed_unix_seconds,
            rebuild_share_percent: info.settings.rebuild_share_percent,
            scrub_days: info.settings.scrub_days,
            warn_percents: info.settings.warn_percents,
            warnings: info.warnings,
            stopped,
            free_by_level: space,
            promised_bytes: info.promised_bytes,
            stalls: info.stalls,
            cache_memory: info.cache_memory.into(),
        }
    }
}

/// Space for volumes of a level, as hosts count it: without copies and parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LevelSpace {
    /// The level.
    pub raid: Level,
    /// What can still be stored.
    pub free_bytes: u64,
    /// What holds data or is kept for thick volumes.
    pub used_bytes: u64,
}

impl From<array::api::LevelSpace> for LevelSpace {
    fn from(space: array::api::LevelSpace) -> Self {
        let array::api::LevelSpace { raid, free_bytes, used_bytes } = space;
        Self { raid: raid.into(), free_bytes, used_bytes }
    }
}

/// Changes of what operators set; what is left out stays as it is. All are made, or none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayChange {
    /// Share of the time that a rebuild or scrub takes while hosts are busy, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub rebuild_share_percent: Option<u8>,
    /// Days from the end of a scrub to the next one; 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 65_535)]
    pub scrub_days: Option<u16>,
    /// When operators and hosts are warned; any number of 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = percents)]
    pub warn_percents: Option<Vec<u8>>,
    /// Memory that the read cache may take until the member stops, at least 16 MiB; 0 for a quarter of what the member
    /// may use. What the member is started with decides again at the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_memory_bytes: Option<u64>,
}

/// A list of percents, or nothing.
fn percents() -> utoipa::openapi::schema::Array {
    let percent = ObjectBuilder::new().schema_type(Type::Integer);
    ArrayBuilder::new()
        .schema_type(SchemaType::Array(vec![Type::Array, Type::Null]))
        .items(percent.minimum(Some(1)).maximum(Some(100)))
        .description(Some("When operators and hosts are warned; any number of 1 to 100."))
        .build()
}

impl From<ArrayChange> for member::ArrayRequest {
    fn from(change: ArrayChange) -> Self {
        let ArrayChange { rebuild_share_percent, scrub_days, warn_percents, cache_memory_bytes } =
            change;
        let settings =
            array::api::SettingsChange { rebuild_share_percent, scrub_days, warn_percents };
        let cache_memory = cache_memory_bytes.map(|bytes| match bytes {
            0 => member::memory::CacheMemory::Auto,
            bytes => member::memory::CacheMemory::Bytes(bytes),
        });
        Self::Set { settings, cache_memory }
    }
}

/// What a scrub or a check found; `problems` is empty when all is well.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Report {
    /// Metadata pages read and verified.
    pub pages: u64,
    /// Clusters of data read and verified, each copy counted.
    pub clusters: u64,
    /// Parity stripes recomputed.
    pub stripes: u64,
    /// Blocks that a disk could not give or gave wrong.
    pub wrong_blocks: u64,
    /// How many of them were rewritten.
    pub repaired_blocks: u64,
    /// How many of them no disk has: their data is lost.
    pub lost_blocks: u64,
    /// One sentence each.
    pub problems: Vec<String>,
}

impl From<array::api::CheckReport> for Report {
    fn from(report: array::api::CheckReport) -> Self {
        Self {
            pages: report.pages,
            clusters: report.clusters,
            stripes: report.stripes,
            wrong_blocks: report.wrong_blocks,
            repaired_blocks: report.repaired_blocks,
            lost_blocks: report.lost_blocks,
            problems: report.problems,
        }
    }
}
