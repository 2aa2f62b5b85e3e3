//! What a checkpoint record holds.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::checkpoint::marks::Marks;
use crate::core::Image;
use crate::error::ArrayError;
use crate::journal::Mark;
use crate::tables::Tables;
use crate::{Epoch, Level, VersionId};

/// From where on the journal counts for a volume that could not be destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) from: Mark,
    /// Of what is written from there on, up to the first snapshot.
    pub(crate) epoch: Epoch,
}

/// The array as of a checkpoint. The frame around it carries checksums and the array's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Payload {
    /// Its own number, which says what redo records are still to be carried out.
    pub(crate) number: u64,
    /// Where the journal begins.
    pub(crate) mark: Mark,
    /// From where on it counts for all volumes that are not `kept`.
    #[serde(skip)]
    pub(crate) since: Mark,
    /// Volumes that the journal has to keep for.
    #[serde(skip)]
    pub(crate) kept: BTreeMap<VersionId, Kept>,
    /// What tells old images of disks. Older builds say nothing of it.
    #[serde(skip)]
    pub(crate) marks: Marks,
    /// Of what is written after it.
    pub(crate) epoch: Epoch,
    pub(crate) next_version: u32,
    pub(crate) next_set: u32,
    /// Level of volumes that name none.
    pub(crate) level: Level,
    pub(crate) tables: Tables,
    /// The RAID sets, each as its own record.
    pub(crate) sets: Vec<u8>,
    /// Which of their slots hold something.
    pub(crate) space: Image,
}

impl Payload {
    pub(crate) fn encode(&self) -> Vec<u8> {
        const PLAIN: &str = "plain data in memory can be encoded";
        let mut bytes = postcard::to_stdvec(self).expect(PLAIN);
        // Each is found behind the one before it, which is there for that even if it is empty.
        let has_departed = !self.tables.departed.is_empty();
        let has_uncached = !self.tables.uncached.is_empty() || has_departed;
        let has_marks = !self.marks.is_empty() || has_uncached;
        if !self.kept.is_empty() || has_marks {
            bytes.extend(postcard::to_stdvec(&(self.since, &self.kept)).expect(PLAIN));
        }
        if has_marks {
            bytes.extend(postcard::to_stdvec(&self.marks).expect(PLAIN));
        }
        if has_uncached {
            bytes.extend(postcard::to_stdvec(&self.tables.uncached).expect(PLAIN));
        }
        if has_departed {
            bytes.extend(postcard::to_stdvec(&self.tables.departed).expect(PLAIN));
        }
        bytes
    }

    /// What all but the sets and their slots takes of the record, which has `len` bytes.
    pub(crate) fn tables_bytes(&self, len: usize) -> u64 {
        let images = self.space.values().map(Vec::len).sum::<usize>();
        (len - self.sets.len() - images) as u64
    }

    /// # Errors
    /// [`ArrayError::Damaged`] when these bytes, although whole, make no sense.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, ArrayError> {
        let other = |_| {
            ArrayError::Damaged("its checkpoint was written by another version of Drystone".into())
        };
        let (mut payload, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(other)?;
        let ((since, kept), rest) = match rest {
            [] => ((payload.mark, BTreeMap::new()), rest),
            rest => postcard::take_from_bytes(rest).map_err(other)?,
        };
        let (marks, rest) = match rest {
            [] => (Marks::new(), rest),
            rest => postcard::take_from_bytes(rest).map_err(other)?,
        };
        let (uncached, rest): (BTreeSet<VersionId>, _) = match rest {
            [] => (BTreeSet::new(), rest),
            rest => postcard::take_from_bytes(rest).map_err(other)?,
        };
        payload.tables.uncached = uncached;
        payload.tables.departed = match rest {
            [] => BTreeMap::new(),
            rest => postcard::from_bytes(rest).map_err(other)?,
        };
        Ok(Self { since, kept, marks, ..payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DiskId;
    use crate::tables::{Contents, Departure, Volume};

    fn volume(name: &str) -> Volume {
        Volume {
            name: name.to_owned(),
            size_bytes: 1 << 20,
            level: Level::Raid5,
            thick: false,
            block_bytes: 512,
            cache: crate::api::Cache::Durable,
            read_ahead_bytes: 0,
            created_unix_seconds: 1,
            online: true,
            deleted_unix_seconds: None,
            origin: None,
            view_of: None,
            head: Contents { root: None, parent: None, mapped: 0 },
        }
    }

    /// Of an array with volumes 1 and 2, both of which are cached.
    fn payload() -> Payload {
        let mark = Mark { position: 5, sequence: 4 };
        let mut tables = Tables::default();
        tables.volumes.insert(VersionId(1), volume("a"));
        tables.volumes.insert(VersionId(2), volume("b"));
        Payload {
            number: 7,
            mark,
            since: mark,
            kept: BTreeMap::new(),
            marks: Marks::new(),
            epoch: Epoch(3),
            next_version: 3,
            next_set: 1,
            level: Level::Raid5,
            tables,
            sets: vec![1, 2, 3],
            space: Image::new(),
        }
    }

    #[test]
    fn a_record_without_volumes_that_are_not_cached_is_as_older_builds_write_it() {
        let plain = payload();
        assert_eq!(plain.encode(), postcard::to_stdvec(&plain).unwrap());
        assert_eq!(Payload::decode(&plain.encode()).unwrap(), plain);
        let marked = Payload { marks: Marks::from([(DiskId(2), 6)]), ..payload() };
        let mut older = postcard::to_stdvec(&marked).unwrap();
        older.extend(postcard::to_stdvec(&(marked.since, &marked.kept)).unwrap());
        older.extend(postcard::to_stdvec(&marked.marks).unwrap());
        assert_eq!(marked.encode(), older);
        assert_eq!(Payload::decode(&older).unwrap(), marked);
    }

    #[test]
    fn volumes_that_are_not_cached_are_behind_all_that_older_builds_read() {
        for marks in [Marks::new(), Marks::from([(DiskId(2), 6)])] {
            let before = Payload { marks, ..payload() };
            let mut now = before.clone();
            now.tables.uncached.insert(VersionId(2));
            let bytes = now.encode();
            assert_eq!(Payload::decode(&bytes).unwrap(), now);
            // What an older build makes of it: the same without that.
            let (read, rest) = postcard::take_from_bytes::<Payload>(&bytes).unwrap();
            assert_eq!(read.tables, before.tables);
            let ((since, kept), rest): ((Mark, BTreeMap<VersionId, Kept>), _) =
                postcard::take_from_bytes(rest).unwrap();
            assert_eq!((since, kept), (before.since, before.kept));
            assert_eq!(postcard::from_bytes::<Marks>(rest).unwrap(), before.marks);
        }
    }

    #[test]
    fn disks_that_have_left_are_behind_all_that_older_builds_read() {
        for uncached in [None, Some(VersionId(2))] {
            let mut now = payload();
            now.tables.uncached.extend(uncached);
            let before = now.tables.uncached.clone();
            now.tables.departed.insert(DiskId(2), Departure::Away);
            let bytes = now.encode();
            assert_eq!(Payload::decode(&bytes).unwrap(), now);
            // An older build reads what is left out of the cache, and nothing behind it.
            let (_, rest) = postcard::take_from_bytes::<Payload>(&bytes).unwrap();
            let ((_, _), rest): ((Mark, BTreeMap<VersionId, Kept>), _) =
                postcard::take_from_bytes(rest).unwrap();
            let (_, rest): (Marks, _) = postcard::take_from_bytes(rest).unwrap();
            assert_eq!(postcard::from_bytes::<BTreeSet<VersionId>>(rest).unwrap(), before);
        }
    }

    #[test]
    fn a_record_that_ends_within_its_last_part_is_not_believed() {
        let mut cut = payload();
        cut.tables.uncached.insert(VersionId(2));
        let bytes = cut.encode();
        assert!(Payload::decode(&bytes[..bytes.len() - 1]).is_err());
        cut.tables.departed.insert(DiskId(3), Departure::Errors);
        let bytes = cut.encode();
        assert!(Payload::decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
