//! Whether the next checkpoint record will fit into its slot.
//!
//! A record that outgrows its slot would stop the array for good. So whatever would make it longer
//! is refused before it is done, while there is still room for all that cannot be refused: what
//! changes by itself, deletions, and sets for the data and metadata that is there.

use super::{Core, State};
use crate::Level;
use crate::checkpoint::slots::payload_bytes_max;
use crate::error::ArrayError;
use crate::label::Layout;
use crate::overlay::Taken;
use crate::raid::{Shape, bytes_max};
use crate::space::{Kind, METADATA_COPIES};
use crate::{BLOCK_BYTES, CLUSTER_BYTES};

/// A version without its name, a volume without its names; and by how much each may grow by
/// itself, or by being deleted.
pub(crate) const VERSION_BYTES: u64 = 112;
const VERSION_GROWS_BYTES: u64 = 8;
pub(crate) const VOLUME_BYTES: u64 = 160;
const VOLUME_GROWS_BYTES: u64 = 64;
/// A volume of which nothing is kept in memory: its number once more.
pub(crate) const UNCACHED_BYTES: u64 = 5;
/// Counters, settings, disks that are to leave, what a deletion leaves behind.
const OTHERS_BYTES: u64 = 16 << 10;
/// Number, length and form of a set's slots.
const IMAGE_HEAD_BYTES: u64 = 16;
/// Sets of metadata that may always be made: checkpoints need them.
const METADATA_SETS: u64 = 4;
/// Share of the slot in use from which operators are warned.
const WARN_PERCENT: u64 = 90;

/// What a record is made of, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRoom {
    /// What a slot holds.
    max_bytes: u64,
    /// All but the sets and their slots, as of the last checkpoint.
    pub(crate) tables_bytes: u64,
    /// What requests of the checkpoint that runs have added to that.
    granted_bytes: u64,
}

impl RecordRoom {
    pub(crate) fn new(layout: &Layout, tables_bytes: u64) -> Self {
        Self { max_bytes: payload_bytes_max(layout), tables_bytes, granted_bytes: 0 }
    }

    /// A checkpoint is durable.
    pub(crate) fn settle(&mut self, tables_bytes: u64) {
        *self = Self { tables_bytes, granted_bytes: 0, ..*self };
    }
}

/// The longest that a record may say about a set.
pub(crate) fn set_bytes_max(kind: Kind, members: usize, stripes: u32) -> u64 {
    let (members, columns, slots) = match kind {
        // Copies may join later.
        Kind::Metadata => {
            let pages = u64::from(stripes) * (CLUSTER_BYTES / BLOCK_BYTES) as u64;
            (members.max(METADATA_COPIES), 0, pages)
        }
        Kind::Data(level) => {
            let shape = Shape::of(Some(level), members).expect("members as the level has them");
            let columns = if level.parity() > 0 { shape.columns() } else { 0 };
            (members, columns, u64::from(stripes) * shape.columns() as u64)
        }
    };
    bytes_max(members, columns, stripes) + IMAGE_HEAD_BYTES + slots.div_ceil(64) * 8
}

impl State {
    /// The rest of the record, with all that is accepted and not in it yet.
    fn tables_bytes(&self) -> u64 {
        let waiting = self.live.values().flat_map(|live| live.overlay.waiting());
        let waiting = waiting.map(taken_bytes).sum::<u64>();
        let versions = self.tables.versions.len() as u64 * VERSION_GROWS_BYTES;
        let volumes = self.tables.volumes.len() as u64 * VOLUME_GROWS_BYTES;
        let now = self.record.tables_bytes + self.record.granted_bytes;
        now + waiting + versions + volumes + OTHERS_BYTES
    }

    /// How full a slot may get, in percent, if that is worth a warning.
    pub(crate) fn record_warning(&self, layout: &Layout) -> Option<u64> {
        let bytes = self.tables_bytes() + self.sets_to_come(layout);
        let percent = bytes * 100 / self.record.max_bytes;
        (percent >= WARN_PERCENT).then_some(percent.min(100))
    }

    /// What is kept of a slot for sets: those that there are, and those that can be made of the
    /// chunks that there are; of the latter not more than half of the slot has.
    fn sets_to_come(&self, layout: &Layout) -> u64 {
        let per_chunk = set_bytes_max(Kind::Data(Level::Raid0), 1, stripes_of(layout));
        let possible = self.space.chunks.total() * per_chunk;
        self.space.record_bytes.max(possible.min(self.record.max_bytes / 2))
    }

    /// Room in the record for something that an operator asks for.
    ///
    /// # Errors
    /// [`ArrayError::TablesFull`].
    pub(crate) fn check_record(&self, layout: &Layout, bytes: u64) -> Result<(), ArrayError> {
        let needed = self.tables_bytes() + self.sets_to_come(layout) + bytes;
        if needed <= self.record.max_bytes { Ok(()) } else { Err(ArrayError::TablesFull) }
    }

    /// Whether the record has room for one more set.
    pub(crate) fn has_record_for(&self, kind: Kind, members: usize, layout: &Layout) -> bool {
        let kept = match kind {
            Kind::Metadata => 0,
            Kind::Data(_) => {
                METADATA_SETS * set_bytes_max(Kind::Metadata, METADATA_COPIES, stripes_of(layout))
            }
        };
        let sets = self.space.record_bytes + set_bytes_max(kind, members, stripes_of(layout));
        self.tables_bytes() + sets + kept <= self.record.max_bytes
    }
}

fn stripes_of(layout: &Layout) -> u32 {
    (layout.chunk_bytes / CLUSTER_BYTES as u64) as u32
}

/// What a snapshot takes of a record.
pub(crate) fn taken_bytes(taken: &Taken) -> u64 {
    VERSION_BYTES + taken.name.len() as u64
}

impl Core {
    /// As [`State::check_record`], in a checkpoint that grants what is asked for.
    pub(crate) fn grant_record(&self, state: &mut State, bytes: u64) -> Result<(), ArrayError> {
        state.check_record(&self.layout, bytes)?;
        state.record.granted_bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Contents, Snapshot, Tables, Version, Volume};
    use crate::tree::{PageAddr, PageRef};
    use crate::{Epoch, SetId, VersionId};

    /// As long as they can be encoded.
    fn contents() -> Contents {
        let addr = PageAddr::new(SetId(u32::MAX), u32::MAX);
        let root = PageRef { addr, birth: Epoch(u32::MAX), crc: u32::MAX };
        Contents { root: Some(root), parent: Some(VersionId(u32::MAX)), mapped: u64::MAX }
    }

    fn len(tables: &Tables) -> u64 {
        postcard::to_stdvec(tables).unwrap().len() as u64
    }

    #[test]
    fn nothing_takes_more_of_a_record_than_is_counted_for_it() {
        let mut tables = Tables::default();
        let empty = len(&tables);
        let name = "n".repeat(63);
        let snapshot = Snapshot {
            volume: VersionId(u32::MAX),
            name: name.clone(),
            size_bytes: u64::MAX,
            created_unix_seconds: u64::MAX,
            online: true,
            access: crate::api::SnapshotAccess::ReadWrite,
        };
        let version = Version {
            contents: contents(),
            epoch: Epoch(u32::MAX),
            snapshot: Some(snapshot),
            deleting_from_leaf: Some(u32::MAX),
        };
        tables.versions.insert(VersionId(u32::MAX), version);
        let with_version = len(&tables);
        assert!(with_version - empty <= VERSION_BYTES + 63, "{}", with_version - empty);
        let volume = Volume {
            name: name.clone(),
            size_bytes: u64::MAX,
            level: Level::Raid50,
            thick: true,
            block_bytes: 4096,
            cache: crate::api::Cache::Volatile,
            read_ahead_bytes: u32::MAX,
            created_unix_seconds: u64::MAX,
            online: true,
            deleted_unix_seconds: Some(u64::MAX),
            origin: Some(name.clone()),
            view_of: Some(VersionId(u32::MAX)),
            head: contents(),
        };
        tables.volumes.insert(VersionId(u32::MAX), volume);
        let volume_bytes = len(&tables) - with_version;
        assert!(volume_bytes <= VOLUME_BYTES + 2 * 63, "{volume_bytes}");
        let number = postcard::to_stdvec(&VersionId(u32::MAX)).unwrap().len() as u64;
        assert!(number <= UNCACHED_BYTES, "{number}");
    }
}
