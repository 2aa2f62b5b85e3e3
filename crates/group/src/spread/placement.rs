//! Which members of a pool a new volume is spread over, and how its pages are dealt to them.
//!
//! Those with the most room take it, each in proportion to its room: a place of the pattern goes to the member that would
//! have the most room left for each of its places. So the one that is full first is full as late as a pattern of that
//! length lets it be. Whose room is not worth a place of [`PATTERN_MAX`] has no slice, but for the home, which has one always.
//!
//! With `q` for the part that a member has of the room of all that are chosen, `n` for how many these are and `len` for
//! the places of the pattern, each but a home that is nearly full has from `len * q - 1` places on, and at most
//! `(1 + n / 64) * q` of all.
//!
//! What is spread is thin: it takes no room at first, and what does not fit yet is said and not refused.

use std::cmp::Reverse;
use std::fmt::{self, Display, Formatter};

use super::{PATTERN_MAX, Pattern, SLICES_MAX, SPREAD_FROM_BYTES, SpreadError};
use crate::membership::Roll;
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::words::bytes_in_words;

/// A volume that is to be spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its size.
    pub size_bytes: u64,
    /// The unit that is dealt: [`PAGE_BYTES`](super::PAGE_BYTES).
    pub page_bytes: u64,
    /// The member that hosts reach it at.
    pub home: MemberId,
    /// On how many members it may lie, with its home.
    pub members_max: usize,
}

/// What a member has said of its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Which member.
    pub member: MemberId,
    /// What a new volume may take there.
    pub free_bytes: u64,
}

/// Where a volume is to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The members, each by the number of its slice: the home is the first one.
    pub members: Vec<MemberId>,
    /// How pages are dealt to them.
    pub pattern: Pattern,
    /// What the operator is to be told where not all of it fits yet.
    pub shortage: Option<Shortage>,
}

/// Not all of a volume fits on its members as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// The member that is full first.
    pub member: MemberId,
    /// What hosts can write by then, if they write the whole of the volume alike.
    pub fits_bytes: u64,
    /// The size of the volume.
    pub size_bytes: u64,
}

impl Display for Shortage {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { member, fits_bytes, size_bytes } = self;
        let (fits, size) = (bytes_in_words(*fits_bytes), bytes_in_words(*size_bytes));
        write!(
            out,
            "{member} is full when about {fits} of {size} are written: add disks there before that, or spread the volume \
             over more members"
        )
    }
}

/// What the members of a pool have said of their room: those that are present and have said something.
///
/// # Errors
/// [`SpreadError::NoSuchPool`]
pub fn rooms(roll: &Roll, pool: &str) -> Result<Vec<Room>, SpreadError> {
    let members = roll.members_of_pool(pool);
    let members = members.ok_or_else(|| SpreadError::NoSuchPool(pool.to_owned()))?;
    let present = members.into_iter().filter(|member| roll.is_present(*member));
    let told = present.filter_map(|member| {
        let inventory = roll.inventories.get(&member)?;
        let is_told = inventory.capacity_bytes > 0 || inventory.free_bytes > 0;
        is_told.then_some(Room { member, free_bytes: inventory.free_bytes })
    });
    Ok(told.collect())
}

/// Says where a new volume lies. The same members with the same room give the same answer, in whatever order they come.
///
/// # Errors
/// A volume without a size, a number of members that cannot be, or a home that has no room or has not said so.
pub fn place(wanted: &Wanted, rooms: &[Room]) -> Result<Placed, SpreadError> {
    let Wanted { size_bytes, page_bytes, home, members_max } = *wanted;
    if size_bytes == 0 || page_bytes == 0 {
        return Err(SpreadError::NoSize);
    }
    if !(1..=SLICES_MAX).contains(&members_max) {
        return Err(SpreadError::Members(members_max));
    }
    let own = rooms.iter().find(|room| room.member == home).ok_or(SpreadError::NoHome(home))?;
    if own.free_bytes == 0 {
        return Err(SpreadError::HomeFull(home));
    }
    let mut chosen = vec![*own];
    if size_bytes >= SPREAD_FROM_BYTES {
        let has_page = |room: &&Room| room.free_bytes >= page_bytes;
        let mut others = rooms.iter().filter(|room| room.member != home).filter(has_page).copied();
        let mut others: Vec<Room> = others.by_ref().collect();
        others.sort_unstable_by_key(|room| (Reverse(room.free_bytes), room.member));
        others.dedup_by_key(|room| room.member);
        chosen.extend(others.into_iter().take(members_max - 1));
    }
    let weights = weigh(&mut chosen);
    let pattern = Pattern::deal(&weights);
    debug_assert_eq!(pattern.slices(), chosen.len(), "each has a slice");
    let shortage = shortage(wanted, &chosen, (&pattern, &weights));
    Ok(Placed { members: chosen.iter().map(|room| room.member).collect(), pattern, shortage })
}

/// How many places each of the chosen has. Those that are worth none are chosen no more; the first one is the home.
fn weigh(chosen: &mut Vec<Room>) -> Vec<u8> {
    let all = places(chosen, PATTERN_MAX).last().expect("there are places");
    let mut weights = all.iter();
    chosen.retain(|_| {
        let has_place = weights.next().is_some_and(|weight| *weight > 0);
        has_place || mutants::is(Mutant::SliceForAll)
    });
    let mut best: Option<Vec<u8>> = None;
    for mut weights in places(chosen, PATTERN_MAX) {
        if mutants::is(Mutant::SliceForAll) {
            weights.iter_mut().for_each(|weight| *weight = (*weight).max(1));
        }
        let is_better = best.as_ref().is_none_or(|best| fits_more(chosen, &weights, best));
        if !weights.contains(&0) && is_better {
            best = Some(weights);
        }
    }
    best.expect("in the longest pattern each has a place")
}

/// How places are given away, one after the other: after the first, after the second, up to the last.
fn places(chosen: &[Room], places_max: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut weights = vec![0_u8; chosen.len()];
    (0..places_max).map(move |place| {
        let most = |best: usize, at: usize| {
            // Room for each place, compared as fractions.
            let room = |at: usize, other: usize| {
                u128::from(chosen[at].free_bytes) * (u128::from(weights[other]) + 1)
            };
            if room(at, best) > room(best, at) { at } else { best }
        };
        // The home has a place, whatever room it has.
        let next = if place == 0 { 0 } else { (0..chosen.len()).fold(0, most) };
        weights[next] += 1;
        weights.clone()
    })
}

/// Whether more fits on the members before one of them is full if they have so many places than with the others.
fn fits_more(chosen: &[Room], weights: &[u8], others: &[u8]) -> bool {
    let ((at, places), (other, other_places)) = (fullest(chosen, weights), fullest(chosen, others));
    let left = u128::from(chosen[at].free_bytes) * places * u128::from(others[other]);
    let right = u128::from(chosen[other].free_bytes) * other_places * u128::from(weights[at]);
    left > right
}

/// Who is full first, and how many places there are in all.
fn fullest(chosen: &[Room], weights: &[u8]) -> (usize, u128) {
    let room =
        |at: usize, other: usize| u128::from(chosen[at].free_bytes) * u128::from(weights[other]);
    let least = |full: usize, at: usize| if room(at, full) < room(full, at) { at } else { full };
    let places = weights.iter().copied().map(u128::from).sum();
    ((0..chosen.len()).fold(0, least), places)
}

/// Whether a member has less room than all pages that it is dealt take.
fn shortage(
    wanted: &Wanted,
    chosen: &[Room],
    (pattern, weights): (&Pattern, &[u8]),
) -> Option<Shortage> {
    let pages = wanted.size_bytes.div_ceil(wanted.page_bytes);
    let is_short = (0_u8..).zip(chosen).any(|(slice, room)| {
        let bytes = u128::from(pattern.pages_of(slice, pages)) * u128::from(wanted.page_bytes);
        // The last page may be a short one: it takes as much as a whole one here.
        bytes > u128::from(room.free_bytes)
    });
    let (first, places) = fullest(chosen, weights);
    let Room { member, free_bytes } = chosen[first];
    let fits = u128::from(free_bytes) * places / u128::from(weights[first]);
    let fits_bytes = u64::try_from(fits).unwrap_or(u64::MAX).min(wanted.size_bytes);
    is_short.then_some(Shortage { member, fits_bytes, size_bytes: wanted.size_bytes })
}
