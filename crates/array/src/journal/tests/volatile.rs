//! What is answered before it is durable.

use super::*;
use crate::label::Layout;

fn write_volatile(journal: &Journal, block: u64, blocks: u16) -> Appended {
    journal.append_volatile(&data(block, blocks), Some(&payload(block, blocks))).unwrap()
}

fn complete_all(executor: &mut Executor, disk: &TestDisk) {
    executor.turn();
    while disk.pending() > 0 {
        disk.complete(0);
        executor.turn();
    }
}

#[test]
fn a_volatile_batch_is_answered_when_written_and_durable_after_a_flush() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());

    let first = write_volatile(&journal, 0, 1).ticket;
    executor.turn();
    assert!(!is_answered(&journal, first));
    disk.complete(0);
    executor.turn();
    assert!(is_answered(&journal, first));
    assert_eq!(disk.pending(), 0, "nobody asked for more");
    let lost = TestDisk::with(disk.crash(&mut |_| 0));
    assert_eq!(recover(&[lost], Mark::default()).unwrap().0.len(), 0, "the power takes it");

    assert!(!is_durable(&journal, first));
    executor.turn();
    assert_eq!((disk.pending(), disk.flushes()), (1, 1));
    disk.complete(0);
    executor.turn();
    assert!(is_durable(&journal, first));
    let kept = TestDisk::with(disk.crash(&mut |_| 0));
    assert_eq!(recover(&[kept], Mark::default()).unwrap().0.len(), 1);

    // From here on nothing is in doubt, and a durable batch needs no flush.
    let second = write(&journal, 5, 1).unwrap().ticket;
    executor.turn();
    disk.complete(0);
    executor.turn();
    assert!(is_durable(&journal, second));
}

#[test]
fn a_durable_batch_behind_a_volatile_one_is_answered_after_a_flush() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    write_volatile(&journal, 0, 1);
    executor.turn();
    let durable = write(&journal, 1, 1).unwrap().ticket;
    executor.turn();
    assert_eq!((disk.pending(), disk.flushes()), (2, 0));

    // The second write ends first: it is no use without the first one.
    disk.complete(1);
    executor.turn();
    assert!(!is_answered(&journal, durable));
    disk.complete(0);
    executor.turn();
    assert!(!is_answered(&journal, durable), "both are written, and none is durable");
    executor.turn();
    assert_eq!((disk.pending(), disk.flushes()), (1, 1));
    disk.complete(0);
    executor.turn();
    assert!(is_answered(&journal, durable));
    let kept = TestDisk::with(disk.crash(&mut |_| 0));
    assert_eq!(recover(&[kept], Mark::default()).unwrap().0.len(), 2);
}

#[test]
fn no_more_is_in_doubt_than_a_recovery_looks_through() {
    let disk = TestDisk::with(vec![0; 32 << 20]);
    disk.set_slow(true);
    let layout = Layout { journal_bytes: 32 << 20, ..layout() };
    let scanned = Scanned::empty(&layout).unwrap();
    let disks = std::slice::from_ref(&disk);
    let journal = Journal::new(ARRAY, &layout, holders(disks), Mark::default(), scanned);
    let journal = Arc::new(journal);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    let mut last = None;
    for index in 0..100 {
        last = Some(write_volatile(&journal, index * 60, 60));
    }
    // All writes end, and no flush.
    executor.turn();
    while disk.complete_write() {
        executor.turn();
    }
    let last = last.unwrap();
    let written = journal.lock().written.position;
    assert!((FLUSH_BYTES..=IN_DOUBT_BYTES_MAX).contains(&written), "{written} bytes");
    assert!(!is_answered(&journal, last.ticket));
    complete_all(&mut executor, &disk);
    assert!(is_answered(&journal, last.ticket), "flushes make room for the rest");
}

#[test]
fn a_holder_that_cannot_be_flushed_is_out() {
    let (good, bad) = (TestDisk::new(), TestDisk::new());
    let journal = new_journal(&[good.clone(), bad.clone()]);
    let hook = Arc::<Hook>::default();
    let mut executor = Executor::default();
    start(&mut executor, &journal, &hook);
    let ticket = write_volatile(&journal, 0, 1).ticket;
    executor.turn();
    assert!(is_answered(&journal, ticket));
    bad.set_failing();
    assert!(!is_durable(&journal, ticket));
    executor.turn();
    assert!(is_durable(&journal, ticket), "the other one has it");
    assert_eq!(*hook.failed.lock().unwrap(), [DiskId(1)]);
    good.set_failing();
    let ticket = write_volatile(&journal, 1, 1).ticket;
    executor.turn();
    assert!(run(journal.answered(ticket, false)).is_err(), "nobody is left");
}
