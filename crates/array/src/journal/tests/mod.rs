//! The journal in a world where writes end late, out of order, or half.

mod crash;
mod damage;
mod format;
mod share;
mod volatile;
mod world;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::BlockError;
use ring::{Buf, Data};

use self::world::{Executor, Hook, TestDisk, holders, layout};
use super::*;
use crate::VersionId;
use crate::label::ArrayId;
use crate::testing::run;

const ARRAY: ArrayId = ArrayId([5; 16]);

fn new_journal(disks: &[TestDisk]) -> Arc<Journal> {
    let scanned = Scanned::empty(&layout()).unwrap();
    Arc::new(Journal::new(ARRAY, &layout(), holders(disks), Mark::default(), scanned))
}

fn start(executor: &mut Executor, journal: &Arc<Journal>, hook: &Arc<Hook>) -> usize {
    executor.spawn(Arc::clone(journal).run(Arc::<Hook>::clone(hook)))
}

fn bytes_of(block: u64) -> [u8; 8] {
    block.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Payload that tells which blocks it is of.
fn payload(first: u64, blocks: u16) -> Data {
    let mut buf = Buf::alloc(usize::from(blocks) * BLOCK_BYTES).unwrap();
    for (index, part) in buf.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&bytes_of(first + (index * 8 / BLOCK_BYTES) as u64));
    }
    buf.freeze()
}

fn data(block: u64, blocks: u16) -> Record {
    Record::Data { volume: VersionId(1), block, blocks }
}

fn zero(block: u64) -> Record {
    Record::Zero { volume: VersionId(1), block, blocks: 1 }
}

fn write(journal: &Journal, block: u64, blocks: u16) -> Result<Appended, Refused> {
    journal.append(&data(block, blocks), Some(&payload(block, blocks)))
}

fn is_ready(future: impl Future) -> bool {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut cx).is_ready()
}

fn is_durable(journal: &Journal, ticket: Ticket) -> bool {
    is_ready(journal.durable(ticket))
}

fn is_durable_until(journal: &Journal, mark: Mark) -> bool {
    is_ready(journal.durable_until(mark))
}

fn is_answered(journal: &Journal, ticket: Ticket) -> bool {
    is_ready(journal.answered(ticket, false))
}

type Found = Result<(Vec<(Record, u64)>, Scanned), JournalDamage>;

fn recover(disks: &[TestDisk], from: Mark) -> Found {
    let mut records = Vec::new();
    let mut each = |record, position| records.push((record, position));
    let believed = Believed { from, since: from.position, holders: Vec::new() };
    let scanned = run(scan(&holders(disks), &layout(), ARRAY, &believed, &mut each))?;
    Ok((records, scanned))
}

#[test]
fn records_share_batches_while_the_disks_are_busy() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    executor.turn();
    let first = write(&journal, 0, 1).unwrap();
    executor.turn();
    let second = write(&journal, 1, 2).unwrap();
    executor.turn();
    assert_eq!(disk.pending(), 2, "two batches are in flight");
    let rest: Vec<_> = (10..60).map(|block| write(&journal, block, 1).unwrap()).collect();
    executor.turn();
    assert_eq!(disk.pending(), 2, "and not a third");
    assert!(rest.iter().all(|appended| appended.ticket == rest[0].ticket), "they share a batch");
    assert_eq!(journal.used_blocks(), 2 + 3 + 51);
    disk.complete(1);
    executor.turn();
    assert!(!is_durable(&journal, second.ticket), "answers keep the order");
    assert_eq!(disk.pending(), 1, "a batch that ended early makes no room for a third");
    disk.complete(0);
    executor.turn();
    assert!(is_durable(&journal, first.ticket) && is_durable(&journal, second.ticket));
    assert!(!is_durable(&journal, rest[0].ticket));
    disk.complete(0);
    executor.turn();
    assert!(is_durable(&journal, rest[49].ticket));
    let (records, scanned) = recover(&[disk], Mark::default()).unwrap();
    assert_eq!(records.len(), 52);
    assert_eq!(records[1], (data(1, 2), second.position));
    assert_eq!(scanned.end, journal.cut());
    assert!(scanned.lagging.is_empty());
}

#[test]
fn who_waits_is_woken() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    executor.turn();
    let ticket = write(&journal, 0, 1).unwrap().ticket;
    let waiting = Arc::clone(&journal);
    let durable = executor.spawn(async move { waiting.durable(ticket).await.unwrap() });
    let waiting = Arc::clone(&journal);
    let flushed = executor.spawn(async move { waiting.flush().await.unwrap() });
    executor.turn();
    assert!(!executor.is_done(durable) && !executor.is_done(flushed));
    disk.complete(0);
    executor.turn();
    assert!(executor.is_done(durable) && executor.is_done(flushed));
}

#[test]
fn payload_is_readable_at_once_and_until_it_is_trimmed() {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let first = write(&journal, 7, 3).unwrap();
    let mut block = [0; BLOCK_BYTES];
    journal.read(first.position + 2 * BLOCK, &mut block);
    assert_eq!(block[..8], bytes_of(9));
    let mark = journal.cut();
    let second = write(&journal, 20, 1).unwrap();
    assert!(second.position > mark.position && second.ticket.batch > first.ticket.batch);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    executor.turn();
    run(journal.durable_until(mark)).unwrap();
    journal.trim(mark);
    assert_eq!((journal.tail(), journal.used_blocks()), (mark.position, 2));
    journal.read(second.position, &mut block);
    assert_eq!(block[..8], bytes_of(20));
    let read = std::panic::AssertUnwindSafe(|| journal.read(first.position, &mut [0; 4096]));
    assert!(std::panic::catch_unwind(read).is_err(), "what was trimmed cannot be read");
}

#[test]
fn payload_of_shared_memory_counts_as_it_was_copied() {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let region = ring::Region::new(2 * BLOCK_BYTES).unwrap();
    region.write(0, &[1; 2 * BLOCK_BYTES]);
    let lent = region.slice(0, 2 * BLOCK_BYTES);
    assert!(lent.as_slice().is_none());
    journal.append(&data(0, 2), Some(&lent)).unwrap();
    region.write(0, &[2; BLOCK_BYTES]);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    executor.turn();
    assert_eq!(recover(&[disk], Mark::default()).unwrap().0.len(), 1);
}

#[test]
fn a_full_ring_refuses_waits_and_goes_on() {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    let mut block = 0;
    while write(&journal, block, 100).is_ok() {
        block += 100;
        executor.turn();
    }
    assert_eq!(block, 800, "896 of 1,024 blocks are for everyone");
    assert_eq!(write(&journal, block, 100), Err(Refused::Full));
    let reserved = journal.append_reserved(&zero(1), None).unwrap();
    executor.turn();
    assert!(is_durable(&journal, reserved.ticket));
    let gone = Rc::new(Cell::new(0));
    for _ in 0..2 {
        let (waiting, gone) = (Arc::clone(&journal), Rc::clone(&gone));
        executor.spawn(async move {
            waiting.room(100).await.unwrap();
            gone.set(gone.get() + 1);
        });
    }
    executor.turn();
    assert_eq!(gone.get(), 0);
    let mark = journal.cut();
    journal.trim(mark);
    executor.turn();
    assert_eq!((gone.get(), journal.used_blocks()), (2, 0));
    // 809 blocks are behind: the next 230 do not fit before the end and skip it.
    let wrapped = write(&journal, 1000, 230).unwrap();
    assert_eq!(wrapped.position, layout().journal_bytes + BLOCK);
    executor.turn();
    let (records, scanned) = recover(&[disk], mark).unwrap();
    assert_eq!(records, [(data(1000, 230), wrapped.position)]);
    assert_eq!(scanned.end, journal.cut());
}

#[test]
fn long_records_go_behind_the_payload_and_too_long_ones_nowhere() {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let stripes = |count: u32| Record::Written {
        checkpoint: 1,
        stripes: (0..count).map(|stripe| (crate::SetId(9), stripe << 12, 0xffff)).collect(),
        changed: Vec::new(),
    };
    write(&journal, 5, 2).unwrap();
    journal.append(&stripes(9_000), None).unwrap();
    write(&journal, 7, 2).unwrap();
    let refused = journal.append(&stripes(40_000), None);
    assert!(matches!(refused, Err(Refused::TooLong { .. })));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    executor.turn();
    let records = recover(&[disk], Mark::default()).unwrap().0;
    let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
    assert_eq!(records, [data(5, 2), stripes(9_000), data(7, 2)]);
}

#[test]
fn nothing_is_answered_before_the_labels_know_of_a_failed_holder() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks);
    let hook = Arc::new(Hook::default());
    hook.held.store(true, Ordering::Relaxed);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &hook);
    disks[1].set_failing();
    let ticket = write(&journal, 1, 1).unwrap().ticket;
    executor.turn();
    assert!(!is_durable(&journal, ticket));
    assert_eq!(*hook.failed.lock().unwrap(), [DiskId(1)]);
    let later = write(&journal, 2, 1).unwrap().ticket;
    hook.go_on();
    executor.turn();
    assert!(is_durable(&journal, ticket) && is_durable(&journal, later));
    assert_eq!(hook.failed.lock().unwrap().len(), 1, "told once");
    assert_eq!(recover(&disks[..1], Mark::default()).unwrap().0.len(), 2);
}

/// A holder was dropped, and its disk put out, when there was no memory for a moment to write to it.
#[test]
fn a_holder_is_not_dropped_for_want_of_memory() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks);
    let hook = Arc::new(Hook::default());
    let mut executor = Executor::default();
    start(&mut executor, &journal, &hook);
    disks[1].set_scarce(3);
    let ticket = write(&journal, 1, 1).unwrap().ticket;
    executor.turn();
    assert!(is_durable(&journal, ticket));
    assert_eq!(*hook.failed.lock().unwrap(), []);
    assert_eq!(recover(&disks[1..], Mark::default()).unwrap().0.len(), 1, "it has it");
    disks[1].set_scarce(u32::MAX);
    let ticket = write(&journal, 2, 1).unwrap().ticket;
    executor.turn();
    assert!(is_durable(&journal, ticket), "nobody waits for it for ever");
    assert_eq!(*hook.failed.lock().unwrap(), [DiskId(1)]);
}

#[test]
fn two_batches_that_meet_one_failing_holder_wait_for_one_answer() {
    let disks = [TestDisk::new(), TestDisk::new()];
    disks[0].set_slow(true);
    disks[1].set_failing();
    let journal = new_journal(&disks);
    let hook = Arc::new(Hook::default());
    hook.held.store(true, Ordering::Relaxed);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &hook);
    executor.turn();
    let tickets: Vec<Ticket> = (0..2)
        .map(|block| {
            let ticket = write(&journal, block, 1).unwrap().ticket;
            executor.turn();
            ticket
        })
        .collect();
    disks[0].complete(1);
    disks[0].complete(0);
    executor.turn();
    assert!(tickets.iter().all(|ticket| !is_durable(&journal, *ticket)));
    hook.go_on();
    executor.turn();
    assert!(tickets.iter().all(|ticket| is_durable(&journal, *ticket)));
    assert_eq!(hook.failed.lock().unwrap().len(), 1);
}

#[test]
fn without_holders_everybody_gets_the_error() {
    let disks = [TestDisk::new()];
    let journal = new_journal(&disks);
    let mut executor = Executor::default();
    let writer = start(&mut executor, &journal, &Arc::default());
    disks[0].set_failing();
    let ticket = write(&journal, 1, 1).unwrap().ticket;
    let waiting = Arc::clone(&journal);
    let task = executor.spawn(async move {
        assert!(matches!(waiting.durable(ticket).await, Err(BlockError::Medium { .. })));
    });
    executor.turn();
    assert!(executor.is_done(task) && executor.is_done(writer));
    assert_eq!(write(&journal, 2, 1), Err(Refused::Full));
    assert!(run(journal.room(1)).is_err());
}

#[test]
fn stop_ends_the_writer_and_all_who_wait() {
    let disk = TestDisk::new();
    disk.set_slow(true);
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    let writer = start(&mut executor, &journal, &Arc::default());
    let ticket = write(&journal, 1, 1).unwrap().ticket;
    let waiting = Arc::clone(&journal);
    let task = executor.spawn(async move {
        assert_eq!(waiting.durable(ticket).await, Err(BlockError::LostWrites));
    });
    executor.turn();
    journal.stop();
    executor.turn();
    assert!(executor.is_done(writer) && executor.is_done(task));
}

#[test]
fn a_new_holder_is_filled() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks[..1]);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    for block in 0..300 {
        write(&journal, block, 1).unwrap();
    }
    executor.turn();
    let (filling, new) = (Arc::clone(&journal), holders(&disks).remove(1));
    journal.add_holder(new.clone());
    write(&journal, 300, 1).unwrap();
    let task = executor.spawn(async move { filling.fill(&new).await.unwrap() });
    executor.turn();
    assert!(executor.is_done(task));
    let (records, scanned) = recover(&disks[1..], Mark::default()).unwrap();
    assert_eq!((records.len(), scanned.lagging.len()), (301, 0));
}

#[test]
fn a_holder_that_was_filled_has_that_when_the_power_goes() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks[..1]);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    for block in 0..300 {
        write(&journal, block, 1).unwrap();
    }
    executor.turn();
    run(journal.join(&holders(&disks).remove(1))).unwrap();
    let left = TestDisk::with(disks[1].crash(&mut |_| 0));
    let (records, scanned) = recover(&[left], Mark::default()).unwrap();
    assert_eq!((records.len(), scanned.lagging.len()), (300, 0));
}

/// What it holds was answered with an error, in part: whoever had it would be believed at the next start.
#[test]
fn nobody_is_given_what_a_journal_holds_that_has_failed() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks[..1]);
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    write(&journal, 1, 1).unwrap();
    executor.turn();
    disks[0].set_failing();
    let ticket = write(&journal, 2, 1).unwrap().ticket;
    executor.turn();
    assert!(run(journal.durable(ticket)).is_err());
    assert!(run(journal.join(&holders(&disks).remove(1))).is_err());
    assert!(!journal.is_holder(DiskId(1)));
}

#[test]
fn the_journal_moves_when_its_only_holder_fails() {
    let disks = [TestDisk::new(), TestDisk::new()];
    let journal = new_journal(&disks[..1]);
    let hook = Arc::new(Hook::default());
    hook.successors.lock().unwrap().extend(holders(&disks));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &hook);
    for block in 0..300 {
        write(&journal, block, 1).unwrap();
    }
    executor.turn();
    disks[0].set_failing();
    // Two batches are on their way when it fails, and more come behind them.
    let tickets: Vec<_> = (300..500).map(|b| write(&journal, b, 1).unwrap().ticket).collect();
    executor.turn();
    let last = *tickets.last().unwrap();
    run(journal.durable(last)).unwrap();
    assert_eq!(*hook.moved.lock().unwrap(), [DiskId(1)]);
    assert_eq!(*hook.failed.lock().unwrap(), [DiskId(0)]);
    let (records, scanned) = recover(&disks[1..], Mark::default()).unwrap();
    assert_eq!((records.len(), scanned.lagging.len()), (500, 0));
}
