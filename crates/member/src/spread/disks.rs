//! The disk of one spread volume at its home.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::{Array, ArrayError};
use block::{BlockDevice, Dealing, Geometry, SpreadDisk, SpreadError};
use group::spread::{Opening, Seat, SpreadRecord, hidden_name};
use iscsi::text::{IscsiName, NameError};
use thiserror::Error;

use super::waiting::Openers;
use crate::mutants::{self, Mutant};
use crate::names::Names;
use crate::slices::{LinkOptions, SliceLink};

/// A member that runs answers within that.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// A group whose store does not answer for so long after a start may be lost for good: what lies at the home is served.
const FIRST_ROLL: Duration = Duration::from_secs(60);

/// Why slices make no disk.
#[derive(Debug, Error)]
pub(crate) enum DiskError {
    /// It is being made, or goes, or is another member's.
    #[error("it is not this member that serves the volume, or not all of it is there")]
    NotThere,
    /// The own slice is not there.
    #[error("the slice of this member is not on its array: {0}")]
    OwnSlice(#[from] ArrayError),
    /// Another member has seen a later home than this.
    #[error("another member does not open its slice for this one: {0}")]
    OldHome(String),
    /// They do not fit each other.
    #[error(transparent)]
    Spread(#[from] SpreadError),
    /// The home has no name at slices of other members.
    #[error("this member has no name that it could log in by: {0}")]
    Name(#[from] NameError),
}

/// A disk over all slices of a volume.
#[derive(Debug)]
pub(super) struct HomeDisk {
    disk: Arc<SpreadDisk>,
    /// Those of other members, by number from 1 on.
    links: Vec<Arc<SliceLink>>,
    block_bytes: u32,
    /// Slices may have data of which this home is to know.
    is_used: bool,
    /// When they were begun to be asked whether there is a later home.
    asked_at: Cell<Instant>,
    /// What was heard before that counts no more.
    is_asked_again: Cell<bool>,
}

impl HomeDisk {
    /// Opens it. Slices of other members need not be there: requests wait for them.
    pub(super) fn open(
        array: &Array,
        record: &SpreadRecord,
        (openers, patience): (&Openers, Duration),
    ) -> Result<Self, DiskError> {
        let own = array.device(&hidden_name(&record.id))?;
        let shape = own.geometry();
        let block_bytes = shape.block_bytes;
        let blocks = record.size_bytes / u64::from(block_bytes);
        let initiator =
            IscsiName::parse(&format!("{}:home", Names::usual_prefix(&array.info().id)))?;
        let core = ring::remote(ring::core_id());
        let seats = (0_u8..).zip(&record.seats).skip(1);
        let link = |(number, seat): (u8, &Seat)| {
            let options = LinkOptions {
                name: format!("slice {number} of {}, on {}", record.name, seat.member),
                geometry: Geometry { blocks, ..shape },
                initiator: initiator.clone(),
                patience,
            };
            let opener = openers.opener((&record.id, number), (&seat.slice, seat.member));
            Arc::new(SliceLink::start(&core, opener, options))
        };
        let links: Vec<Arc<SliceLink>> = seats.map(link).collect();
        let others = links.iter().map(|link| link.clone() as Arc<dyn BlockDevice>);
        let mut slices: Vec<_> = std::iter::once(own).chain(others).collect();
        if mutants::is(Mutant::OwnForAll) {
            let own = slices[0].clone();
            slices.fill(own);
        }
        let dealing = Dealing::new(record.page_bytes, record.pattern.clone().into())?;
        let disk = Arc::new(SpreadDisk::new(slices, dealing, blocks)?);
        let is_used = record.openings.iter().any(|openings| openings.begun != Opening::NEVER);
        Ok(Self {
            disk,
            links,
            block_bytes,
            is_used,
            asked_at: Cell::new(ring::now()),
            is_asked_again: Cell::new(false),
        })
    }

    pub(super) fn device(&self) -> Arc<dyn BlockDevice> {
        self.disk.clone()
    }

    /// Whether all slices have been asked that can be: one of them may have seen a later home than this, and hosts are not
    /// to use what this one has before that is heard.
    /// Since when others can be asked is said; `None` where they cannot.
    pub(super) fn has_asked(&self, since: Option<Instant>) -> bool {
        let is_over = || ring::now() >= waits_until(self.asked_at.get(), since);
        let has_answered = |link: &Arc<SliceLink>| match self.is_asked_again.get() {
            true => link.is_reached(),
            false => link.was_reached(),
        };
        !self.is_used
            || mutants::is(Mutant::ServeUnasked)
            || self.links.iter().all(has_answered)
            || is_over()
    }

    /// Hosts are kept out until the slices have been asked anew.
    pub(super) fn ask_again(&self) {
        if !mutants::is(Mutant::ForwardUnasked) {
            self.asked_at.set(ring::now());
            self.is_asked_again.set(true);
        }
    }

    /// Has this size from now on: all slices have it.
    pub(super) fn grow(&self, size_bytes: u64) -> Result<(), DiskError> {
        let blocks = size_bytes / u64::from(self.block_bytes);
        for link in &self.links {
            link.grow(blocks);
        }
        Ok(self.disk.grow(blocks)?)
    }

    /// For how long each slice cannot be reached, and why, by number.
    pub(super) fn troubles(&self) -> Vec<Option<(Duration, String)>> {
        std::iter::once(None).chain(self.links.iter().map(|link| link.trouble())).collect()
    }
}

/// Until when hosts are kept out of a volume whose slices are to be asked from this time on, where not all have answered;
/// others can be asked `since` then.
fn waits_until(asked_at: Instant, since: Option<Instant>) -> Instant {
    match since {
        Some(since) => since.max(asked_at) + FIRST_ANSWER,
        None if mutants::is(Mutant::ServeUnheard) => asked_at + FIRST_ANSWER,
        None => asked_at + FIRST_ROLL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a loss of power the store of the group may need longer than any member: until then nobody is asked.
    #[test]
    fn hosts_wait_from_when_others_can_be_asked() {
        let asked_at = Instant::now();
        let later = asked_at + Duration::from_secs(30);
        assert_eq!(waits_until(asked_at, Some(asked_at)), asked_at + FIRST_ANSWER);
        assert_eq!(waits_until(later, Some(asked_at)), later + FIRST_ANSWER);
        assert_eq!(waits_until(asked_at, Some(later)), later + FIRST_ANSWER);
        assert!(waits_until(asked_at, None) > later, "they may be asked in a moment");
    }
}
