//! On which member a new volume is made.
//!
//! A volume is whole and on one member, so the member of the pool with the most room takes it: then the members of a
//! pool fill up alike. What is thin takes no room at first, so that of several with as much the one with the fewest
//! volumes takes it: else one server would have them all. It is judged by what members have said of themselves, some seconds ago: the one that is chosen
//! judges once more when it makes the volume, and refuses it if its room is gone.

use std::cmp::Reverse;

use super::Roll;
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::words::bytes_in_words;

/// A volume that somebody wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// Its size.
    pub size_bytes: u64,
    /// All of its room is taken when it is made; another one takes room as it is written.
    pub thick: bool,
    /// The pool that it is to be in; that of the member that is asked if nobody says.
    pub pool: Option<&'a str>,
    /// The member that is asked for it.
    pub asked: MemberId,
}

/// Why no member takes a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// No pool has this name.
    #[error("the group has no pool '{0}'")]
    NoSuchPool(String),
    /// Nobody of the pool is there, or those that are have not said yet what they have.
    #[error("no member of the pool '{0}' is present and has said how much room it has")]
    NobodyPresent(String),
    /// Nobody has as much room as a thick volume takes.
    #[error(
        "no member of the pool '{pool}' has room for {}: of those that are present none has more than {}",
        bytes_in_words(*.size_bytes),
        bytes_in_words(*.free_bytes)
    )]
    NoRoom {
        /// Which pool.
        pool: String,
        /// What is wanted.
        size_bytes: u64,
        /// The most that one of them has.
        free_bytes: u64,
    },
    /// Nobody has any room.
    #[error(
        "no member of the pool '{0}' that is present has room for a new volume: add disks, or delete volumes or \
         snapshots"
    )]
    Full(String),
}

/// The member that a new volume is made on: of those of the pool that are present the one with the most free room, of
/// several with as much the one with the fewest volumes, and of several with as many the one of the lowest number.
///
/// # Errors
/// No such pool, nobody of it that is there, or none with enough room.
pub fn place(roll: &Roll, wanted: &Wanted<'_>) -> Result<MemberId, PlacementError> {
    let pool = wanted.pool.unwrap_or_else(|| roll.pool_of(wanted.asked));
    let members = roll.members_of_pool(pool);
    let members = members.ok_or_else(|| PlacementError::NoSuchPool(pool.to_owned()))?;
    let present = members.into_iter().filter(|member| roll.is_present(*member));
    let free = present.filter_map(|member| {
        let inventory = roll.inventories.get(&member)?;
        // A member of an earlier version says nothing of its room.
        let is_told = inventory.capacity_bytes > 0 || inventory.free_bytes > 0;
        let volumes = inventory.volumes.len() + inventory.deleted.len();
        is_told.then_some((inventory.free_bytes, Reverse((volumes, member))))
    });
    // Where a volume does not fit on this one, it fits on none.
    let Some((free_bytes, Reverse((_, member)))) = free.max() else {
        return Err(PlacementError::NobodyPresent(pool.to_owned()));
    };
    if free_bytes == 0 {
        return Err(PlacementError::Full(pool.to_owned()));
    }
    if wanted.thick && free_bytes < wanted.size_bytes {
        let (pool, size_bytes) = (pool.to_owned(), wanted.size_bytes);
        return Err(PlacementError::NoRoom { pool, size_bytes, free_bytes });
    }
    Ok(if mutants::is(Mutant::PlacedHere) { wanted.asked } else { member })
}
