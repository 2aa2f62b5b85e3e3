//! What recovery makes of a journal that is not as it was written.

use super::*;

/// A disk with some batches of two blocks, and the border after each.
fn written(batches: u64) -> (Vec<u8>, Vec<Mark>) {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    let marks = (0..batches).map(|block| {
        write(&journal, block, 1).unwrap();
        executor.turn();
        journal.cut()
    });
    let marks = marks.collect();
    (disk.bytes(), marks)
}

fn blocks_of(records: &[(Record, u64)]) -> Vec<u64> {
    let block = |(record, _): &(Record, u64)| match record {
        Record::Data { block, .. } | Record::Zero { block, .. } => *block,
        other => panic!("{other:?} was never written"),
    };
    records.iter().map(block).collect()
}

#[test]
fn damage_to_what_was_acknowledged_is_refused_and_never_dropped() {
    let (bytes, _) = written(4);
    let count = 2 * BLOCK_BYTES * 8;
    for bit in (0..120 * 8).step_by(7).chain((120 * 8..count).step_by(977)) {
        for (batch, lost) in [(0, true), (1, true), (3, false)] {
            let mut bytes = bytes.clone();
            let at = batch * 2 * BLOCK_BYTES + bit / 8;
            bytes[at] ^= 1 << (bit % 8);
            match recover(&[TestDisk::with(bytes)], Mark::default()) {
                Err(JournalDamage::Lost { position, .. }) => {
                    assert!(lost);
                    assert_eq!(position, (batch * 2 * BLOCK_BYTES) as u64);
                }
                // Nothing behind it says that it was acknowledged: it looks like a torn one.
                Ok((records, _)) => {
                    assert!(!lost, "bit {bit} of batch {batch}");
                    assert_eq!(blocks_of(&records), [0, 1, 2]);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn a_holder_that_is_whole_makes_up_for_another() {
    let (bytes, marks) = written(4);
    let mut first = bytes.clone();
    first[2 * BLOCK_BYTES + 200] ^= 1;
    let mut second = bytes.clone();
    second[6 * BLOCK_BYTES + 5000] ^= 1;
    let disks = [TestDisk::with(first), TestDisk::with(second), TestDisk::with(bytes)];
    let (records, scanned) = recover(&disks[..2], Mark::default()).unwrap();
    assert_eq!(blocks_of(&records), [0, 1, 2, 3]);
    assert_eq!(scanned.lagging, [DiskId(0), DiskId(1)]);
    assert_eq!(scanned.end, marks[3]);
    assert_eq!(recover(&disks, Mark::default()).unwrap().1.lagging.len(), 2);
    // From a later checkpoint on, only what follows is looked at.
    let (records, scanned) = recover(&disks[..1], marks[1]).unwrap();
    assert_eq!((blocks_of(&records), scanned.lagging.len()), (vec![2, 3], 0));
}

#[test]
fn a_batch_torn_at_any_sector_is_not_there() {
    let (bytes, marks) = written(3);
    let last = marks[1].position as usize;
    for sectors in 0..=16 {
        let mut torn = bytes.clone();
        torn[last + sectors * 512..].fill(0x11);
        let (records, scanned) = recover(&[TestDisk::with(torn)], Mark::default()).unwrap();
        assert_eq!(records.len(), if sectors == 16 { 3 } else { 2 });
        assert!(scanned.next_sequence > scanned.end.sequence);
        // A head that survived has used its number, even if the rest of its batch did not.
        assert!(scanned.next_sequence >= if sectors > 0 { 4 } else { 3 });
    }
}

#[test]
fn an_unreadable_block_hides_only_its_own_batch() {
    let (bytes, _) = written(4);
    let bad = || {
        let disk = TestDisk::with(bytes.clone());
        disk.make_unreadable(3);
        disk
    };
    let good = TestDisk::with(bytes.clone());
    let (records, scanned) = recover(&[bad(), good], Mark::default()).unwrap();
    assert_eq!((records.len(), scanned.lagging), (4, vec![DiskId(0)]));
    let refused = recover(&[bad()], Mark::default()).unwrap_err();
    assert!(matches!(refused, JournalDamage::Unreadable { position: 8192, .. }));
    // The last batch of all: nothing behind it tells, so it must not pass for absent.
    let disk = TestDisk::with(bytes.clone());
    disk.make_unreadable(7);
    assert!(matches!(recover(&[disk], Mark::default()), Err(JournalDamage::Unreadable { .. })));
    assert!(matches!(recover(&[], Mark::default()), Err(JournalDamage::Unreadable { .. })));
}

#[test]
fn another_array_left_nothing_that_counts() {
    let (bytes, _) = written(4);
    let mut each = |_, _| panic!("a record of another array");
    let holders = holders(&[TestDisk::with(bytes)]);
    let layout = layout();
    let believed = Believed { from: Mark::default(), since: 0, holders: Vec::new() };
    let found = scan(&holders, &layout, ArrayId([6; 16]), &believed, &mut each);
    assert_eq!(run(found).unwrap().next_sequence, scan::LIFE);
}

/// Two batches are in flight; the crash leaves the second one whole and nothing of the first. The
/// next life writes the very same first batch.
#[test]
fn a_batch_of_a_former_life_is_no_successor() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    for block in 0..2 {
        executor.turn();
        write(&journal, block, 1).unwrap();
    }
    executor.turn();
    disk.complete(1);
    let disk = TestDisk::with(disk.bytes());
    let (records, scanned) = recover(std::slice::from_ref(&disk), Mark::default()).unwrap();
    assert!(records.is_empty());
    let holders = holders(std::slice::from_ref(&disk));
    let journal = Journal::new(ARRAY, &layout(), holders, Mark::default(), scanned);
    let journal = Arc::new(journal);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    write(&journal, 0, 1).unwrap();
    executor.turn();
    let (records, _) = recover(&[disk], Mark::default()).unwrap();
    assert_eq!(blocks_of(&records), [0]);
}

/// Two disks after a crash: both have two batches, and the second has more that were never answered.
fn parted(more: u64) -> [TestDisk; 2] {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    for block in 0..2 + more {
        disks[0].set_slow(block >= 2);
        write(&journal, block, 1).unwrap();
        executor.turn();
    }
    disks.map(|disk| TestDisk::with(disk.bytes()))
}

/// Goes on with what the first disk has, takes in the second as a holder too, and writes so many
/// batches of its own, of block 100 and on.
fn next_life([known, other]: [&TestDisk; 2], own: u64) {
    let (_, scanned) = recover(std::slice::from_ref(known), Mark::default()).unwrap();
    let first = holders(std::slice::from_ref(known));
    let journal = Journal::new(ARRAY, &layout(), first, Mark::default(), scanned);
    let journal = Arc::new(journal);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    let holder = holders(&[known.clone(), other.clone()]).remove(1);
    let joining = Arc::clone(&journal);
    let task = executor.spawn(async move { joining.join(&holder).await.unwrap() });
    executor.turn();
    assert!(executor.is_done(task));
    for block in 0..own {
        write(&journal, 100 + block, 1).unwrap();
        executor.turn();
    }
}

/// The life before left batches on a disk that the next one does not look at before it is a holder
/// again: whatever that life writes, nothing of the former comes back.
#[test]
fn what_a_new_holder_has_of_a_former_life_does_not_come_back() {
    for former in 1..4 {
        for own in 0..4 {
            let [known, other] = parted(former);
            next_life([&known, &other], own);
            let (records, _) = recover(&[other], Mark::default()).unwrap();
            let expected: Vec<u64> = (0..2).chain(100..100 + own).collect();
            assert_eq!(blocks_of(&records), expected, "{former} before");
        }
    }
}

/// A batch that was never answered could not be read at one opening, after which the journal was
/// trimmed: when its disk alone is there at the next, with the sector well again, it stays gone.
#[test]
fn what_could_not_be_read_once_does_not_come_back() {
    for begins in [true, false] {
        let [known, other] = parted(1);
        let disks = [known, other];
        disks[1].make_unreadable(2 * 2);
        let (records, scanned) = recover(&disks, Mark::default()).unwrap();
        assert_eq!(blocks_of(&records), [0, 1]);
        let journal = Journal::new(ARRAY, &layout(), holders(&disks), Mark::default(), scanned);
        let journal = Arc::new(journal);
        if begins {
            journal.begin_life();
        }
        let mut executor = Executor::default();
        start(&mut executor, &journal, &Arc::default());
        executor.turn();
        let mark = journal.cut();
        let flushing = Arc::clone(&journal);
        let task = executor.spawn(async move { flushing.flush().await.unwrap() });
        executor.turn();
        assert!(executor.is_done(task));
        let alone = TestDisk::with(disks[1].bytes());
        let (records, _) = recover(&[alone], mark).unwrap();
        assert_eq!(records.is_empty(), begins, "it is there when no batch was put in its place");
    }
}

/// The journal was closed, and the block behind its last batch could not be read for long: the next
/// opening finds its end all the same.
#[test]
fn a_journal_that_was_closed_needs_no_sector_behind_its_end() {
    for is_closed in [true, false] {
        let disk = TestDisk::new();
        let journal = new_journal(std::slice::from_ref(&disk));
        let mut executor = Executor::default();
        start(&mut executor, &journal, &Arc::default());
        write(&journal, 0, 1).unwrap();
        executor.turn();
        disk.make_unreadable(2);
        journal.stop();
        if is_closed {
            let closing = Arc::clone(&journal);
            let task = executor.spawn(async move { closing.put_end().await });
            executor.turn();
            assert!(executor.is_done(task));
        }
        let found = recover(std::slice::from_ref(&disk), Mark::default());
        match is_closed {
            true => assert_eq!(blocks_of(&found.unwrap().0), [0]),
            false => assert!(matches!(found, Err(JournalDamage::Unreadable { .. })), "{found:?}"),
        }
    }
}

/// A journal was given up with its only disk, and that comes back: what it acknowledged then is not
/// what this life has lost.
#[test]
fn what_was_given_up_with_a_disk_is_no_damage_when_that_is_back() {
    for own in 1..4 {
        let (former, _) = written(6);
        let (fresh, back) = (TestDisk::new(), TestDisk::with(former));
        // The operator accepts that.
        next_life([&fresh, &back], own);
        let (records, _) = recover(&[fresh, back], Mark::default()).expect("nothing is lost");
        assert_eq!(blocks_of(&records), (100..100 + own).collect::<Vec<_>>());
    }
}

/// Lives that came after the checkpoint, and were lost with the journal before they made one of their own, had
/// larger numbers than the life that gave it up: when one of their disks was back, its batches were taken for
/// what is missing, and nobody could accept that.
#[test]
fn a_life_that_gives_the_journal_up_is_beyond_all_that_were_lost() {
    let from = |sequence| Mark { position: 2 * BLOCK, sequence };
    let given_up = |from, generation, chance| {
        let mut scanned = scan::given_up(&[], &layout(), from, generation).unwrap();
        scanned.stand_apart(chance);
        scanned.next_sequence
    };
    let largest = u64::MAX;
    for sequence in [0, 7, scan::LIFE * 5] {
        // Each life counts on from the last batch of the one before.
        let life = |before: u64| before + 1000 + 2 * scan::LIFE;
        let two_lives = life(life(sequence));
        for generation in [0, 1, 30] {
            assert!(given_up(from(sequence), generation, 0) > two_lives, "{generation}");
            // It was given up before, and that life was lost as well, with one more.
            let before = life(given_up(from(sequence), generation.max(1), largest));
            assert!(given_up(from(sequence), generation.max(1) + 1, 0) > before, "{generation}");
        }
    }
    // However often the labels change, there are numbers for many lives more, and none comes again.
    for sequence in [0, 1 << 62, (1 << 63) + scan::LIFE] {
        let next = given_up(from(sequence), u64::MAX, largest);
        assert!(next > sequence && next < u64::MAX / 2 + (1 << 40), "{next}");
    }
}

/// Batches of two blocks that are a lap and four more.
fn second_lap_batches() -> u64 {
    layout().journal_bytes / (2 * BLOCK) + 4
}

/// A ring in its second lap, cut off where the first lap left whole batches.
fn second_lap() -> (TestDisk, Mark) {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    let mut mark = Mark::default();
    for block in 0..second_lap_batches() {
        journal.trim(mark);
        write(&journal, block, 1).unwrap();
        executor.turn();
        mark = journal.cut();
    }
    (disk, mark)
}

#[test]
fn batches_of_a_former_lap_are_past() {
    let (disk, mark) = second_lap();
    assert_eq!(mark.position, second_lap_batches() * 2 * BLOCK);
    assert!(mark.position > layout().journal_bytes, "it is the second lap");
    let (records, scanned) = recover(&[disk], mark).unwrap();
    assert!(records.is_empty());
    assert_eq!(scanned.end, mark);
}

#[cfg(feature = "mutants")]
#[test]
fn the_planted_mistakes_show() {
    use crate::mutants::{Mutant, plant};
    let (disk, mark) = second_lap();
    plant(Some(Mutant::NoSequence));
    assert!(!recover(&[disk], mark).unwrap().0.is_empty());
    plant(Some(Mutant::EarlyAck));
    let journal = new_journal(&[TestDisk::new()]);
    let ticket = write(&journal, 0, 1).unwrap().ticket;
    assert!(is_durable(&journal, ticket));
    plant(None);
    assert!(!is_durable(&journal, ticket));
}

/// An old copy of a disk ends where the journal was then: it is not asked, and alone it is refused.
#[test]
fn an_old_copy_of_a_holder_is_not_believed() {
    let (now, marks) = written(6);
    let (old, _) = written(2);
    let (old, now) = (|| TestDisk::with(old.clone()), || TestDisk::with(now.clone()));
    let blank = TestDisk::new;
    // A checkpoint relied on the third batch, or on the last.
    for (mark, left) in [(marks[3], vec![4, 5]), (marks[5], vec![])] {
        for disk in [old(), blank()] {
            let refused = recover(std::slice::from_ref(&disk), mark);
            assert!(matches!(refused, Err(JournalDamage::Old { .. })), "{refused:?}");
            for (disks, lagging) in [([disk.clone(), now()], 0), ([now(), disk.clone()], 1)] {
                let (records, scanned) = recover(&disks, mark).unwrap();
                assert_eq!(blocks_of(&records), left);
                assert_eq!(scanned.lagging, [holders(&disks)[lagging].disk]);
            }
        }
    }
    // It kept more than the checkpoint needed: of that the old one knows, and not of all that came then.
    let scanned = |disk: TestDisk, since: u64| {
        let holders = holders(&[disk]);
        let believed = Believed { from: marks[0], since, holders: Vec::new() };
        run(scan(&holders, &layout(), ARRAY, &believed, &mut |_, _| {})).map(|_| ())
    };
    assert_eq!(scanned(now(), marks[3].position), Ok(()));
    assert_eq!(scanned(old(), marks[1].position), Ok(()));
    let position = marks[1].position;
    assert_eq!(scanned(old(), marks[2].position), Err(JournalDamage::Old { position }));
    // One that has the checkpoint had all before it: what nobody needs any more has rotted.
    let holders = holders(&[blank()]);
    let believed =
        Believed { from: marks[5], since: marks[5].position, holders: vec![holders[0].disk] };
    let scanned = run(scan(&holders, &layout(), ARRAY, &believed, &mut |_, _| panic!("nothing")));
    assert_eq!(scanned.unwrap().end, marks[5]);
}

/// What cannot be read may be what is looked for.
#[test]
fn a_holder_is_not_old_because_a_sector_cannot_be_read() {
    let (bytes, marks) = written(4);
    let disk = TestDisk::with(bytes);
    // The head of the last batch, which ends where the checkpoint did.
    disk.make_unreadable(marks[2].position / BLOCK);
    let (records, scanned) = recover(&[disk], marks[3]).unwrap();
    assert_eq!((blocks_of(&records), scanned.end), (vec![], marks[3]));
}

#[test]
fn a_disk_that_joins_when_all_was_trimmed_is_believed() {
    for batches in [0, 40] {
        let (known, other) = (TestDisk::new(), TestDisk::new());
        let journal = new_journal(std::slice::from_ref(&known));
        let mut executor = Executor::default();
        start(&mut executor, &journal, &Arc::default());
        for block in 0..batches {
            write(&journal, block, 1).unwrap();
            executor.turn();
        }
        let mark = journal.cut();
        journal.trim(mark);
        let holder = holders(&[known, other.clone()]).remove(1);
        let joining = Arc::clone(&journal);
        let task = executor.spawn(async move { joining.join(&holder).await.unwrap() });
        executor.turn();
        assert!(executor.is_done(task));
        let (records, scanned) = recover(std::slice::from_ref(&other), mark).unwrap();
        assert_eq!((blocks_of(&records), scanned.end), (vec![], mark));
        if batches > 0 {
            // One block of those that say so may rot.
            let mut bytes = other.bytes();
            bytes[mark.position as usize - BLOCK_BYTES..][..BLOCK_BYTES].fill(9);
            let scanned = recover(&[TestDisk::with(bytes)], mark).unwrap().1;
            assert_eq!(scanned.end, mark);
        }
    }
}
