//! What a disk knows of checkpoints: the number of the last one before which it was written to.
//!
//! A disk alone does not tell whether it is what it was, or an image of an hour ago that was put back: its label is
//! the same as long as no disk goes or comes. So a checkpoint writes its number to each disk that was written to
//! since the one before, with what it flushes, and its record says which number each disk was given last. A disk
//! with a smaller one is older than that.

use std::collections::BTreeMap;

use block::{BlockDevice, BlockError, WriteFlags};
use ring::{Buf, Data};

use super::slots::{Known, number_in, void_other};
use crate::label::{ArrayId, Layout};
use crate::mutants::{self, Mutant};
use crate::{BLOCK_BYTES, DiskId};

/// The last number that disks were given, of those that were given any.
pub type Marks = BTreeMap<DiskId, u64>;

/// Where checkpoint `number` marks a disk, and with what; `None` when there is no memory for it. It lies where a
/// holder gets the head of that record next, and has the record before the last one.
#[must_use]
pub fn mark(layout: &Layout, array: ArrayId, number: u64) -> Option<(u64, Data)> {
    let mut block = Buf::alloc(BLOCK_BYTES)?;
    super::slots::encode_mark(array, number, &mut block);
    Some((layout.checkpoint_at(number % 2), block.freeze()))
}

/// Whether a disk that was given `number` has only older ones, or none: it is an old copy. In the slot of that number
/// it never has a smaller one again, and nothing only if the other slot has a larger one. One that does not give what
/// it has there, or something else, cannot tell.
pub async fn is_behind(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    number: u64,
) -> bool {
    let own = number_in(device, layout, array, number % 2).await;
    let is_behind = match own {
        Known::Number(known) => known < number,
        Known::Unclear => false,
        Known::Nothing => match number_in(device, layout, array, (number + 1) % 2).await {
            Known::Number(known) => known < number,
            Known::Nothing => true,
            Known::Unclear => false,
        },
    };
    // The other ways to tell are for arrays that an older build opened last: their mistakes show without marks.
    let is_blind =
        [Mutant::BlindToMarks, Mutant::KeepOldCopy, Mutant::KeepOldLabel, Mutant::KeepOldImage];
    is_behind && !is_blind.into_iter().any(mutants::is)
}

/// Whether a disk knows of a checkpoint that comes after record `newest`, and after the one that may have been cut
/// off behind it: whoever has no newer one than `newest` is older than this disk, or what it had has rotted.
pub async fn is_ahead(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    newest: u64,
) -> bool {
    let mut is_ahead = false;
    for slot in 0..2 {
        let known = number_in(device, layout, array, slot).await;
        is_ahead |= matches!(known, Known::Number(known) if known > newest + 1);
    }
    is_ahead && !mutants::is(Mutant::BlindToLater)
}

/// A disk forgets that there were checkpoints after `number`, durably: they are given up.
///
/// # Errors
/// Those of the device.
pub async fn set_back(
    device: &dyn BlockDevice,
    layout: &Layout,
    array: ArrayId,
    number: u64,
) -> Result<(), BlockError> {
    let (at, block) = mark(layout, array, number).ok_or(BlockError::NoMemory)?;
    device.write(at, block, WriteFlags::DURABLE).await?;
    void_other(device, layout, number).await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::checkpoint::slots::{read_slots, write_slot};
    use crate::testing::{flip, poke, ram_disk, run};

    const ARRAY: ArrayId = ArrayId([3; 16]);

    fn give(device: &dyn BlockDevice, layout: &Layout, number: u64) {
        let (at, data) = mark(layout, ARRAY, number).unwrap();
        let mut block = vec![0; BLOCK_BYTES];
        data.copy_to(0, &mut block);
        poke(device, at, &block);
    }

    #[test]
    fn a_disk_with_smaller_numbers_or_none_is_behind() {
        let layout = Layout::choose(&[16 << 20], None).unwrap();
        let disk = ram_disk(16 << 20);
        let is_behind = |number| run(is_behind(&*disk, &layout, ARRAY, number));
        assert!(is_behind(1), "nothing is on it");
        give(&*disk, &layout, 7);
        assert_eq!([6, 7, 8].map(is_behind), [false, false, true]);
        give(&*disk, &layout, 12);
        assert_eq!([7, 12, 13].map(is_behind), [false, false, true]);
        let other = run(super::is_behind(&*disk, &layout, ArrayId([4; 16]), 99));
        assert!(!other, "what is not of this array tells nothing");
        flip(&*disk, (layout.checkpoint_at(1) + 30) * 8);
        assert!(is_behind(14), "its own slot tells, whatever is in the other");
        flip(&*disk, (layout.checkpoint_at(0) + 30) * 8);
        assert!(!is_behind(99), "one that is damaged tells nothing");
    }

    #[test]
    fn a_disk_that_knows_of_later_checkpoints_is_ahead_until_they_are_given_up() {
        let layout = Layout::choose(&[16 << 20], None).unwrap();
        let disk = ram_disk(16 << 20);
        let is_ahead = |newest| run(is_ahead(&*disk, &layout, ARRAY, newest));
        assert!(!is_ahead(1), "nothing is on it");
        give(&*disk, &layout, 9);
        give(&*disk, &layout, 6);
        assert_eq!([7, 8, 9].map(is_ahead), [true, false, false]);
        assert!(!run(super::is_ahead(&*disk, &layout, ArrayId([4; 16]), 1)));
        for number in [4, 3] {
            give(&*disk, &layout, 9);
            run(set_back(&*disk, &layout, ARRAY, number)).unwrap();
            assert!(!is_ahead(number - 1) && is_ahead(number - 2));
            for given in 1..=number {
                assert!(!run(is_behind(&*disk, &layout, ARRAY, given)), "it is none the older");
            }
        }
    }

    #[test]
    fn the_records_of_a_holder_count_and_a_mark_is_none() {
        let layout = Layout::choose(&[16 << 20], None).unwrap();
        let disks: Vec<Arc<dyn BlockDevice>> = vec![ram_disk(16 << 20)];
        let written = run(write_slot(&disks, &layout, ARRAY, (4, b"four"), &|_, _| {})).unwrap();
        assert!(written.iter().all(Result::is_ok));
        assert!(!run(is_behind(&*disks[0], &layout, ARRAY, 4)));
        assert!(run(is_behind(&*disks[0], &layout, ARRAY, 5)));
        give(&*disks[0], &layout, 9);
        let found = run(read_slots(&disks, &layout, ARRAY)).unwrap();
        assert_eq!((found.number, found.payload.as_slice()), (4, &b"four"[..]));
    }
}
