//! What a checkpoint record holds.

use std::collections::BTreeMap;

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
        let has_marks = !self.marks.is_empty();
        if !self.kept.is_empty() || has_marks {
            bytes.extend(postcard::to_stdvec(&(self.since, &self.kept)).expect(PLAIN));
        }
        if has_marks {
            bytes.extend(postcard::to_stdvec(&self.marks).expect(PLAIN));
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
        let (payload, rest) = postcard::take_from_bytes::<Self>(bytes).map_err(other)?;
        let ((since, kept), rest) = match rest {
            [] => ((payload.mark, BTreeMap::new()), rest),
            rest => postcard::take_from_bytes(rest).map_err(other)?,
        };
        let marks = match rest {
            [] => Marks::new(),
            rest => postcard::from_bytes(rest).map_err(other)?,
        };
        Ok(Self { since, kept, marks, ..payload })
    }
}
