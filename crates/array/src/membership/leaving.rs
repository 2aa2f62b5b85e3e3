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

/// Chunks that a set is to get, and of which disks not: it is on them already.
struct Move {
    taken: Vec<DiskId>,
    count: usize,
    /// How many of them it must get.
    needed: usize,
}

impl Move {
    /// `None` where nothing of the set is on `leaving` disks, or something takes its place already.
    fn of(set: &SetSeats, leaving: &[DiskId]) -> Option<Self> {
        let is_served = |(index, disk): &(usize, DiskId)| {
            set.replacement.is_some_and(|(member, on)| member == *index && !leaving.contains(&on))
                || !leaving.contains(disk)
        };
        let seats = set.members.iter().copied().enumerate();
        let count = seats.filter(|seat| !is_served(seat)).count();
        let stays = set.members.len() - count;
        let needed = if set.may_shrink && stays > 0 { 0 } else { count };
        let taken = set.members.iter().copied().chain(set.replacement.map(|(_, on)| on));
        (count > 0).then(|| Self { taken: taken.collect(), count, needed })
    }

    /// Takes chunks of the disks with the most room; how many are missing.
    fn place(mut self, free: &mut BTreeMap<DiskId, u32>) -> usize {
        for got in 0..self.count {
            let usable =
                free.iter_mut().filter(|(disk, left)| **left > 0 && !self.taken.contains(disk));
            let Some((disk, left)) = usable.max_by_key(|(_, left)| **left) else {
                return self.needed.saturating_sub(got);
            };
            *left -= 1;
            self.taken.push(*disk);
        }
        0
    }
}

/// How many chunks of sets that are on `leaving` disks find no other disk: one that has a chunk
/// left of `free`, does not leave itself and is not in the set already. Metadata goes first; of what is
/// then left `keep` takes off what data must not use. Sets that have the least choice go first, each to
/// the disk with the most room.
#[must_use]
pub fn without_place(
    sets: &[SetSeats],
    leaving: &[DiskId],
    mut free: BTreeMap<DiskId, u32>,
    keep: impl FnOnce(&mut BTreeMap<DiskId, u32>),
) -> usize {
    free.retain(|disk, _| !leaving.contains(disk));
    let (metadata, data): (Vec<_>, Vec<_>) = sets.iter().partition(|set| set.may_shrink);
    let homeless = all_without_place(&metadata, leaving, &mut free);
    keep(&mut free);
    homeless + all_without_place(&data, leaving, &mut free)
}

fn all_without_place(
    sets: &[&SetSeats],
    leaving: &[DiskId],
    free: &mut BTreeMap<DiskId, u32>,
) -> usize {
    let mut moves: Vec<Move> = sets.iter().filter_map(|set| Move::of(set, leaving)).collect();
    moves.sort_by_key(|set| {
        let choice = free.iter().filter(|(disk, left)| **left > 0 && !set.taken.contains(disk));
        choice.count().saturating_sub(set.count)
    });
    moves.into_iter().map(|set| set.place(free)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u16]) -> Vec<DiskId> {
        numbers.iter().map(|number| DiskId(*number)).collect()
    }

    fn homeless(set: &SetSeats, leaving: &[u16], chunks: &[u32]) -> usize {
        without_place(std::slice::from_ref(set), &ids(leaving), free(chunks), |_| ())
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
        assert_eq!(
            without_place(&two, &ids(&[2]), free(&[9, 9, 9, 1]), |_| ()),
            1,
            "one chunk is free"
        );
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
        assert_eq!(without_place(&sets, &ids(&[0]), free(&[9, 1, 0, 0, 1]), |_| ()), 0);
    }

    #[test]
    fn metadata_takes_its_chunks_first_and_data_none_of_what_is_kept() {
        let metadata = SetSeats { may_shrink: true, ..set(&[0, 1]) };
        let sets = [set(&[0, 1]), metadata];
        let homeless = |free, keep: fn(&mut BTreeMap<DiskId, u32>)| {
            without_place(&sets, &ids(&[0]), free, keep)
        };
        assert_eq!(homeless(free(&[0, 0, 1]), |_| ()), 1);
        assert_eq!(homeless(free(&[0, 0, 2]), |_| ()), 0);
        assert_eq!(homeless(free(&[0, 0, 2]), |free| *free.get_mut(&DiskId(2)).unwrap() -= 1), 1);
    }
}
