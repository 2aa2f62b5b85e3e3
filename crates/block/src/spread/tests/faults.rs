//! A slice that fails or hangs, and what the others have to do with it.

use super::*;

fn everything(fault: Fault) -> Rule {
    Rule { operations: Vec::new(), bytes: 0..u64::MAX, times: u32::MAX, fault }
}

/// All that can be asked of `len` bytes, each once, but to compare.
async fn answers(disk: &SpreadDisk, at: u64, len: u64) -> Vec<Result<(), BlockError>> {
    let now = disk.write_now(at, &vec![1; len as usize], VOLATILE);
    let mut answers = vec![
        disk.read(at, len as usize).await.map(drop),
        disk.write(at, equal(len, 1), VOLATILE).await,
        disk.write(at, equal(len, 1), ATOMIC).await,
        disk.or_write(at, equal(len, 1), VOLATILE).await,
        disk.write_zeroes(at, len, true, VOLATILE).await,
        disk.write_zeroes(at, len, false, VOLATILE).await,
        disk.unmap(at, len).await,
    ];
    answers.extend(now);
    answers
}

async fn compared(disk: &SpreadDisk, at: u64, len: u64) -> Result<(), BlockError> {
    disk.compare_and_write(at, equal(len, 1), equal(len, 1), VOLATILE).await.map(drop)
}

#[test]
fn a_slice_that_is_gone_fails_for_its_pages_and_for_no_others() {
    on_a_core(async {
        let faulty = Faulty::new(3, dealing(MIB, &[0, 1, 2]), 6 * MIB);
        let gone = BlockError::Unreachable;
        faulty.slices[1].inject(everything(Fault::Fail(gone)));
        let disk = &faulty.disk;
        for page in 0..6 {
            let at = page * MIB;
            let wanted = if page % 3 == 1 { Err(gone) } else { Ok(()) };
            for (place, len) in [(at, BLOCK), (at + MIB / 2, 8 * BLOCK), (at + MIB - BLOCK, BLOCK)]
            {
                for answer in answers(disk, place, len).await {
                    assert_eq!(answer, wanted, "at {place}");
                }
                assert_eq!(disk.extent(place).await.map(drop), wanted, "at {place}");
                assert_eq!(compared(disk, place, len).await, wanted, "at {place}");
            }
        }
        // Over a border it is told to who needs it.
        for (border, wanted) in [(1, Err(gone)), (2, Err(gone)), (3, Ok(())), (4, Err(gone))] {
            for answer in answers(disk, border * MIB - BLOCK, 2 * BLOCK).await {
                assert_eq!(answer, wanted, "border {border}");
            }
            let compared = compared(disk, border * MIB - BLOCK, 2 * BLOCK).await;
            assert_eq!(compared, wanted, "border {border}");
        }
        faulty.slices[1].heal();
        for answer in answers(disk, MIB - BLOCK, 2 * BLOCK).await {
            assert_eq!(answer, Ok(()), "it is there again");
        }
    });
}

/// Plain work that waits for a slice keeps nobody from working on others, nor near its borders, as long as no atomic
/// operation over one of these waits for it.
#[test]
fn a_slice_that_hangs_holds_up_its_pages_and_no_others() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let disk = &faulty.disk;
        faulty.slices[1].inject(everything(Fault::Hang));
        let mut waiting = vec![
            disk.write(MIB, equal(BLOCK, 1), VOLATILE),
            disk.write(MIB - BLOCK, equal(2 * BLOCK, 1), VOLATILE),
            disk.unmap(2 * MIB - BLOCK, BLOCK),
            disk.write_zeroes(MIB - BLOCK, 2 * MIB, false, VOLATILE),
        ];
        let mut read = disk.read(2 * MIB - BLOCK, 1024);
        for future in &mut waiting {
            assert!(is_waiting(future).await, "nothing is answered before it is done");
        }
        assert!(is_waiting(&mut read).await);
        for at in [0, MIB / 2, MIB - BLOCK, 2 * MIB, 3 * MIB - BLOCK] {
            let mut others = vec![
                disk.write(at, equal(BLOCK, 2), VOLATILE),
                disk.unmap(at, BLOCK),
                disk.write(at, equal(BLOCK, 2), ATOMIC),
            ];
            for other in &mut others {
                assert_eq!(polled(other).await, Some(Ok(())), "at {at}");
            }
            assert_eq!(disk.write_now(at, &[3; 512], VOLATILE), Some(Ok(())), "at {at}");
        }
        faulty.slices[1].heal();
        while faulty.slices[1].held() > 0 {
            faulty.slices[1].release();
            ring::turn_end().await;
        }
        for future in waiting {
            future.await.unwrap();
        }
        read.await.unwrap();
    });
}

/// What is long and waits for a slice does not keep an atomic operation from borders between others. A page is
/// longer than what is near its two ends.
#[test]
fn a_long_unmap_that_hangs_leaves_borders_of_others_free() {
    const PAGE: u64 = 4 * MIB;
    on_a_core(async {
        let faulty = Faulty::new(3, dealing(PAGE, &[0, 1, 2]), 6 * PAGE);
        let disk = &faulty.disk;
        faulty.slices[1].inject(Rule::always(Operation::Unmap, Fault::Hang));
        let mut unmap = disk.unmap(0, 6 * PAGE);
        assert!(is_waiting(&mut unmap).await);
        // Between slices 2 and 0.
        let at = 3 * PAGE - BLOCK;
        let mut atomic = disk.write(at, summed(2 * BLOCK, 1), ATOMIC);
        assert!(!is_waiting(&mut atomic).await, "it waits for slice 1");
        assert!(read(&**disk, at, 2 * BLOCK).await == bytes_of(&summed(2 * BLOCK, 1)));
        let mut beside = disk.write(PAGE - BLOCK, summed(2 * BLOCK, 1), ATOMIC);
        assert!(is_waiting(&mut beside).await, "an atomic write in the middle of an unmap");
        faulty.slices[1].heal();
        faulty.slices[1].release();
        unmap.await.unwrap();
        beside.await.unwrap();
        assert!(read(&**disk, PAGE - BLOCK, 2 * BLOCK).await == bytes_of(&summed(2 * BLOCK, 1)));
    });
}

/// Who hears of an error may begin the same anew: no piece of it is under way by then, and its border is free.
#[test]
fn an_error_is_told_when_all_pieces_are_over() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let (disk, full) = (&faulty.disk, BlockError::NoSpace);
        faulty.slices[0].inject(Rule::always(Operation::Write, Fault::Fail(full)).times(1));
        faulty.slices[1].inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let mut plain = disk.write(MIB - BLOCK, equal(2 * BLOCK, 1), VOLATILE);
        assert!(is_waiting(&mut plain).await, "the other piece is still under way");
        faulty.slices[1].release();
        assert_eq!(plain.await, Err(full));
        assert!(read(&**disk, MIB, BLOCK).await == [1; 512], "it was done before");
    });
}

/// A place that a slice cannot read is the same place in the volume, and of two places the first is told.
#[test]
fn errors_name_places_of_the_volume() {
    on_a_core(async {
        let faulty = Faulty::of_two();
        let disk = &faulty.disk;
        let bad = |at: u64| {
            let fault = Fault::Fail(BlockError::Medium { at });
            Rule::always(Operation::Read, fault).at(at..at + BLOCK)
        };
        faulty.slices[1].inject(bad(MIB + 3 * BLOCK));
        faulty.slices[0].inject(bad(2 * MIB + BLOCK));
        let told = |at| Err(BlockError::Medium { at });
        let read = async |at: u64, len: u64| disk.read(at, len as usize).await.map(drop);
        assert_eq!(read(MIB, MIB).await, told(MIB + 3 * BLOCK));
        assert_eq!(read(2 * MIB - BLOCK, 4 * BLOCK).await, told(2 * MIB + BLOCK));
        assert_eq!(read(0, 4 * MIB).await, told(MIB + 3 * BLOCK));
        assert_eq!(read(2 * MIB - BLOCK, 2 * BLOCK).await, Ok(()), "beside the bad place");
        let busy = Fault::Fail(BlockError::Busy);
        faulty.slices[1].heal();
        faulty.slices[1].inject(Rule::always(Operation::Read, busy));
        assert_eq!(read(0, 4 * MIB).await, told(2 * MIB + BLOCK), "to try again does not help");
        assert_eq!(read(0, 2 * MIB).await, Err(BlockError::Busy));
        let size_bytes = 4 * MIB;
        let beyond = BlockError::OutOfRange { at: 4 * MIB - BLOCK, len: 2 * BLOCK, size_bytes };
        assert_eq!(read(4 * MIB - BLOCK, 2 * BLOCK).await, Err(beyond));
    });
}
