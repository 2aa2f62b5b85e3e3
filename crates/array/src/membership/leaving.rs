//! Whether disks that are to leave have somewhere to leave their data.

use std::collections::BTreeMap;

use crate::DiskId;

/// Where a RAID set lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSeats {
    /// Its members.
    pub members: Vec<DiskId>,
    /// Which of them has a replacement that is being filled, and on which disk.
    pub replacement: Option<(usize, DiskId)>,
    /// Whether it can do with a member less: metadata, as long as there is another copy.
    pub may_shrink: bool,
}

/// How many chunks of sets that are on `leaving` disks find no other disk: one that has a chunk
/// left of `free`, does not leave itself and is not in the set already. Sets that have the least
/// choice go first, each to the disk with the most room.
#[must_use]
pub fn without_place(
    sets: &[SetSeats],
    leaving: &[DiskId],
    mut free: BTreeMap<DiskId, u32>,
) -> usize {
    free.retain(|disk, chunks| *chunks > 0 && !leaving.contains(disk));
    let mut moves: Vec<(Vec<DiskId>, usize)> = Vec::new();
    for set in sets {
        let is_served = |(index, disk): &(usize, DiskId)| {
            set.replacement.is_some_and(|(member, on)| member == *index && !leaving.contains(&on))
                || !leaving.contains(disk)
        };
        let seats = set.members.iter().copied().enumerate();
        let count = seats.filter(|seat| !is_served(seat)).count();
        let stays = set.members.len() - count;
        if count > 0 && !(set.may_shrink && stays > 0) {
            let taken = set.members.iter().copied().chain(set.replacement.map(|(_, on)| on));
            moves.push((taken.collect(), count));
        }
    }
    let choices = |(taken, count): &(Vec<DiskId>, usize), free: &BTreeMap<DiskId, u32>| {
        free.keys().filter(|disk| !taken.contains(disk)).count().saturating_sub(*count)
    };
    moves.sort_by_key(|set| choices(set, &free));
    let mut homeless = 0;
    for (mut taken, count) in moves {
        for _ in 0..count {
            let usable = free.iter_mut().filter(|(disk, left)| **left > 0 && !taken.contains(disk));
            match usable.max_by_key(|(_, left)| **left) {
                Some((disk, left)) => {
                    *left -= 1;
                    taken.push(*disk);
                }
                None => homeless += 1,
            }
        }
    }
    homeless
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u16]) -> Vec<DiskId> {
        numbers.iter().map(|number| DiskId(*number)).collect()
    }

    fn homeless(set: &SetSeats, leaving: &[u16], chunks: &[u32]) -> usize {
        without_place(std::slice::from_ref(set), &ids(leaving), free(chunks))
    }

    fn set(members: &[u16]) -> SetSeats {
        SetSeats { members: ids(members), replacement: None, may_shrink: false }
    }

    fn free(chunks: &[u32]) -> BTreeMap<DiskId, u32> {
        (0..).map(DiskId).zip(chunks.iter().copied()).collect()
    }

    #[test]
    fn a_disk_leaves_only_when_each_set_on_it_has_a_disk_that_it_is_not_on() {
        let three = set(&[0, 1, 2]);
        assert_eq!(homeless(&three, &[0], &[9, 9, 9]), 1);
        assert_eq!(homeless(&three, &[0], &[9, 9, 9, 1]), 0);
        assert_eq!(homeless(&three, &[0, 1], &[9, 9, 9, 9]), 1);
        let two = [three.clone(), three];
        assert_eq!(without_place(&two, &ids(&[2]), free(&[9, 9, 9, 1])), 1, "one chunk is free");
    }

    #[test]
    fn a_replacement_under_way_needs_no_place_and_metadata_shrinks() {
        let moving = SetSeats { replacement: Some((0, DiskId(3))), ..set(&[0, 1, 2]) };
        assert_eq!(homeless(&moving, &[0], &[1, 1, 1, 0]), 0);
        assert_eq!(homeless(&moving, &[0, 3], &[1, 1, 1, 1]), 1);
        let metadata = SetSeats { may_shrink: true, ..set(&[0, 1]) };
        assert_eq!(homeless(&metadata, &[0], &[1, 1]), 0);
        assert_eq!(homeless(&metadata, &[0, 1], &[1, 1, 0]), 2);
    }

    #[test]
    fn sets_with_the_least_choice_go_first() {
        // Only disk 4 is left for the first, the second can go to 2, 3 or 4.
        let sets = [set(&[0, 1]), set(&[0, 2, 3])];
        assert_eq!(without_place(&sets, &ids(&[0]), free(&[9, 1, 0, 0, 1])), 0);
    }
}
