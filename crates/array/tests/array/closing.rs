//! What is under way with labels when an array is closed.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::label::{ChangeId, Found};
use array::{Array, ArrayError, BLOCK_BYTES, DiskId, Env, Level, Member, RingEnv, crc32c};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError};
use ring::OneshotReceiver;

use crate::common::{Hasty, Paced, Shelf, bytes, in_turns, read, run, sound, spec, until, write};
use crate::copies::{MIB, label, put};
use crate::process::crash;

/// Where the first label of a disk is, at most.
const FRONT: std::ops::Range<u64> = 0..64 << 10;

/// An array of four disks with something on it.
async fn filled(env: Arc<dyn Env>) -> (Shelf, Array) {
    let shelf = Shelf::new(4, 32);
    let array = shelf.create_in(env, Level::Raid5).await;
    array.create_volume(spec("v", 8)).await.expect("it goes");
    write(&array.device("v").expect("it is there"), 0, &bytes(MIB, 1)).await;
    array.checkpoint().await.expect("it goes");
    (shelf, array)
}

/// The last disk has been out and answers again, maybe without its end. What it is given first then waits: its label, or
/// what sets it back.
async fn comes_back(shelf: &Shelf, array: &Array, is_cut: bool) {
    shelf.pull(3);
    write(&array.device("v").expect("it is there"), 0, &bytes(MIB, 2)).await;
    array.checkpoint().await.expect("it goes");
    until(array, "it is out", |a| a.disks()[3].state == DiskState::Missing).await;
    let layout = label(shelf, 0).await.layout;
    shelf.0[3].heal();
    if is_cut {
        // Nobody may find it before it is cut.
        let fault = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[3].inject(Rule::always(Operation::Read, fault));
        put(shelf, 3, 20 * MIB, &vec![0; 12 * MIB]).await;
        shelf.0[3].heal();
    }
    let waits = if is_cut { layout.checkpoint_at(0)..layout.redo_at() } else { FRONT };
    shelf.0[3].inject(Rule::always(Operation::Write, Fault::Hang).at(waits));
    until(array, "it gets something", |_| shelf.0[3].held() > 0).await;
}

/// The disk that is waited for is let go when the array is closed, and nothing comes to any disk then.
async fn is_left_alone(shelf: &Shelf, disk: usize) {
    let written = || shelf.0.iter().map(|disk| disk.written_bytes()).sum::<u64>();
    let at_the_end = written();
    shelf.0[disk].heal();
    shelf.0[disk].release();
    ring::sleep(Duration::from_millis(50)).await;
    assert_eq!(written(), at_the_end, "it goes on behind its end");
    let array = shelf.open().await;
    // Of a disk that was being added nobody has heard, or it is not here.
    let is_online = |array: &Array| {
        array.disks()[..shelf.0.len()].iter().all(|disk| disk.state == DiskState::Online)
    };
    until(&array, "all disks of the shelf are online", is_online).await;
    array.close().await.expect("it goes");
}

/// All disks carry one label, and whole.
async fn all_carry_one(shelf: &Shelf) {
    let newest = label(shelf, 1).await.change;
    for disk in &shelf.0 {
        match array::probe(&RingEnv, &**disk).await {
            Ok(Found::Label { label, rewrite: false, .. }) => assert_eq!(label.change, newest),
            other => panic!("no whole label: {other:?}"),
        }
    }
}

/// Begins to add the disk of this shelf; what comes of it.
fn adds(array: &Array, blank: &Shelf) -> OneshotReceiver<Result<DiskId, ArrayError>> {
    let (told, added) = ring::oneshot();
    let (adding, blank) = (array.clone(), blank.members().remove(0));
    let blank = Member { name: "blank".into(), ..blank };
    ring::spawn(async move { told.send(adding.add_disk(blank).await) });
    added
}

/// Begins to add a disk, and waits until the label that says so waits for the first one.
async fn begins_to_add(shelf: &Shelf, array: &Array) {
    shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(FRONT));
    drop(adds(array, &Shelf::new(1, 32)));
    until(array, "the labels are being changed", |_| shelf.0[0].held() > 0).await;
}

/// Begins to add a disk that takes no label, and waits for that.
async fn begins_to_join(array: &Array) -> (Shelf, OneshotReceiver<Result<DiskId, ArrayError>>) {
    let blank = Shelf::new(1, 32);
    blank.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(FRONT));
    let added = adds(array, &blank);
    until(array, "it gets its label", |_| blank.0[0].held() > 0).await;
    (blank, added)
}

/// Closes the array, and waits until nothing is begun on it any more; what comes of it.
async fn closes(array: &Array) -> OneshotReceiver<Result<(), ArrayError>> {
    let (told, closed) = ring::oneshot();
    let closing = array.clone();
    ring::spawn(async move { told.send(closing.close().await) });
    let is_closed =
        |array: &Array| array.info().warnings.iter().any(|text| text.contains("it was closed"));
    until(array, "it is being closed", is_closed).await;
    closed
}

/// Which change the label of each of these disks is of.
async fn changes(shelf: &Shelf) -> Vec<ChangeId> {
    let mut changes = Vec::new();
    for disk in 0..shelf.0.len() {
        changes.push(label(shelf, disk).await.change);
    }
    changes
}

/// Where the journal is on each disk.
async fn ring_of(shelf: &Shelf) -> std::ops::Range<u64> {
    let layout = label(shelf, 0).await.layout;
    layout.journal_at()..layout.journal_at() + layout.journal_bytes
}

/// Blocks of a part of a disk.
async fn blocks(shelf: &Shelf, disk: usize, part: std::ops::Range<u64>) -> Vec<Vec<u8>> {
    let disk: Arc<dyn BlockDevice> = Arc::clone(&shelf.0[disk]) as _;
    let all = read(&disk, part.start, (part.end - part.start) as usize).await;
    all.chunks_exact(BLOCK_BYTES).map(<[u8]>::to_vec).collect()
}

fn is_zero(block: &[u8]) -> bool {
    block.iter().all(|byte| *byte == 0)
}

/// Something of long ago lies behind the last batch of the journal on these disks; where.
async fn lies_behind(shelf: &Shelf, disks: [usize; 2]) -> std::ops::Range<u64> {
    let ring = ring_of(shelf).await;
    let used = blocks(shelf, disks[0], ring.clone()).await;
    let last = used.iter().rposition(|block| !is_zero(block)).expect("it is in use");
    let rest = ring.start + ((last + 1) * BLOCK_BYTES) as u64..ring.end;
    for disk in disks {
        put(shelf, disk, rest.start as usize, &vec![7; (rest.end - rest.start) as usize]).await;
    }
    rest
}

/// The journal says on these disks that nothing follows.
async fn has_its_end(shelf: &Shelf, disks: [usize; 2], rest: &std::ops::Range<u64>) {
    for disk in disks {
        let behind = blocks(shelf, disk, rest.clone()).await;
        let ends = behind.iter().filter(|block| is_zero(block)).count();
        assert_eq!(ends, 1, "disk {disk}");
    }
}

/// What waits for a disk goes on a moment later.
fn let_go_soon(shelf: &Shelf, disk: usize) {
    let disk = Arc::clone(&shelf.0[disk]);
    ring::spawn(async move {
        ring::sleep(Duration::from_millis(100)).await;
        disk.heal();
        disk.release();
    });
}

/// A disk was longer about its label than the end waits: its other label was written behind that.
#[test]
fn a_label_that_takes_too_long_is_not_gone_on_with() {
    run(async {
        let (shelf, array) = filled(Arc::new(Hasty)).await;
        begins_to_add(&shelf, &array).await;
        array.close().await.unwrap();
        is_left_alone(&shelf, 0).await;
    });
}

/// The same of what a disk is given that comes back: its label, or what sets it back and then its label.
#[test]
fn a_disk_that_comes_back_too_late_is_left_alone() {
    run(async {
        for is_cut in [false, true] {
            let (shelf, array) = filled(Arc::new(Hasty)).await;
            comes_back(&shelf, &array, is_cut).await;
            array.close().await.unwrap();
            is_left_alone(&shelf, 3).await;
        }
    });
}

/// What takes no longer than the end waits is in its place: the next start finds no label change.
#[test]
fn labels_that_are_being_written_are_waited_for() {
    run(async {
        let (shelf, array) = filled(Arc::new(RingEnv)).await;
        begins_to_add(&shelf, &array).await;
        let_go_soon(&shelf, 0);
        array.close().await.unwrap();
        all_carry_one(&shelf).await;
        assert_eq!(label(&shelf, 0).await.members.len(), 5, "the new disk is in it");
    });
}

/// The same of a disk that was out.
#[test]
fn a_disk_that_takes_its_label_is_waited_for() {
    run(async {
        let (shelf, array) = filled(Arc::new(RingEnv)).await;
        comes_back(&shelf, &array, false).await;
        let_go_soon(&shelf, 3);
        array.close().await.unwrap();
        all_carry_one(&shelf).await;
    });
}

/// A MiB of blocks that are equal, that end in their own CRC32C, that are zeroes, and others.
fn odd_blocks() -> Vec<u8> {
    let block = |number: usize| {
        let mut block = bytes(BLOCK_BYTES, number as u8);
        match number % 4 {
            0 => block = bytes(BLOCK_BYTES, 1),
            1 => block.fill(0),
            2 => {
                let crc = crc32c(&block[..BLOCK_BYTES - 4]);
                block[BLOCK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
            }
            _ => {}
        }
        block
    };
    (0..MIB / BLOCK_BYTES).flat_map(block).collect()
}

/// A disk took writes and never answered one: the last checkpoint waited for it, and so did whoever closed the
/// array, until the member was killed.
#[test]
fn a_last_checkpoint_that_stands_still_is_given_up() {
    run(async {
        let env = Paced::new();
        let (shelf, array) = filled(Arc::new(env.clone())).await;
        // It must be in the journal alone.
        env.slowly();
        let all = odd_blocks();
        let volume = array.device("v").unwrap();
        for (at, piece) in all.chunks(4 * BLOCK_BYTES).enumerate() {
            write(&volume, (at * piece.len()) as u64, piece).await;
        }
        let rest = lies_behind(&shelf, [1, 2]).await;
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang));
        env.fast();
        let closed = in_turns(30_000, array.close()).await.expect("it is closed");
        let Err(ArrayError::Unsettled { what, seconds }) = closed else { panic!("{closed:?}") };
        assert!(!what.is_empty() && (45..100).contains(&seconds), "{what}: {seconds}");
        has_its_end(&shelf, [1, 2], &rest).await;
        is_left_alone(&shelf, 0).await;
        let array = shelf.open().await;
        assert!(
            read(&array.device("v").unwrap(), 0, MIB).await == all,
            "it is not what was answered"
        );
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// The label of a new disk took longer than it was waited for, and came while the journal was ended: the others had
/// got theirs then, of which no start knows whether it counts.
#[test]
fn labels_that_take_too_long_are_not_gone_on_with_while_the_journal_ends() {
    run(async {
        let env = Paced::new();
        let (shelf, array) = filled(Arc::new(env.clone())).await;
        let (before, journal) = (changes(&shelf).await, ring_of(&shelf).await);
        let (blank, added) = begins_to_join(&array).await;
        env.slowly();
        let closed = closes(&array).await;
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(journal));
        env.fast();
        until(&array, "the journal is ended", |_| shelf.0[0].held() > 0).await;
        env.slowly();
        blank.0[0].heal();
        blank.0[0].release();
        let added = added.await.expect("it is sent");
        assert!(added.is_err(), "{added:?}");
        env.fast();
        closed.await.expect("it is sent").expect("all is in its place");
        assert_eq!(changes(&shelf).await, before);
        is_left_alone(&shelf, 0).await;
    });
}

/// A disk that is asked whether it is back answers when the array is being closed, or has been set back by then: it is
/// given no label, which no other one would come of.
#[test]
fn a_disk_that_answers_while_the_array_is_closed_gets_no_label() {
    run(async {
        for is_cut in [false, true] {
            let env = Paced::new();
            let (shelf, array) = filled(Arc::new(env.clone())).await;
            if is_cut {
                comes_back(&shelf, &array, true).await;
            } else {
                shelf.pull(3);
                write(&array.device("v").unwrap(), 0, &bytes(MIB, 2)).await;
                array.checkpoint().await.unwrap();
                let is_out = |array: &Array| array.disks()[3].state == DiskState::Missing;
                until(&array, "it is out", is_out).await;
                shelf.0[3].heal();
                shelf.0[3].inject(Rule::always(Operation::Read, Fault::Hang).at(FRONT));
                until(&array, "it is asked", |_| shelf.0[3].held() > 0).await;
            }
            env.slowly();
            let closed = closes(&array).await;
            shelf.0[3].heal();
            shelf.0[3].release();
            closed.await.expect("it is sent").expect("all is in its place");
            let [old, new] = [3, 1].map(|disk| label(&shelf, disk));
            let (old, new) = (old.await, new.await);
            assert!(old.generation < new.generation, "cut: {is_cut}");
            is_left_alone(&shelf, 3).await;
        }
    });
}

/// A member that is new carries a label before any other names it: else one that is cut off names a disk that is none.
#[test]
fn a_disk_that_joins_has_its_label_before_the_others() {
    run(async {
        let (shelf, array) = filled(Arc::new(RingEnv)).await;
        let before = changes(&shelf).await;
        let (blank, added) = begins_to_join(&array).await;
        assert_eq!(changes(&shelf).await, before);
        blank.0[0].heal();
        blank.0[0].release();
        added.await.expect("it is sent").expect("it has joined");
        assert!(changes(&shelf).await.iter().all(|change| !before.contains(change)));
        array.close().await.unwrap();
    });
}

/// A disk that lacks something is not asked whether a label counts: it gets one that does, and none that was cut off.
#[test]
fn a_disk_that_lacks_something_gets_no_label_before_it_counts() {
    run(async {
        let (shelf, array) = filled(Arc::new(Hasty)).await;
        shelf.pull(3);
        write(&array.device("v").unwrap(), 0, &bytes(MIB, 2)).await;
        array.checkpoint().await.unwrap();
        until(&array, "it is out", |a| a.disks()[3].state == DiskState::Missing).await;
        shelf.0[3].heal();
        // It takes its label, and nothing of what it lacks.
        let own = label(&shelf, 3).await;
        let chunks = own.layout.chunks_at()..own.own().size_bytes - own.layout.label_bytes;
        shelf.0[3].inject(Rule::always(Operation::Write, Fault::Hang).at(chunks));
        until(&array, "it is given what it lacks", |_| shelf.0[3].held() > 0).await;
        assert_eq!(array.disks()[3].state, DiskState::Resyncing);
        let before = changes(&shelf).await;
        begins_to_add(&shelf, &array).await;
        let now = changes(&shelf).await;
        let is_new = |disk: usize| now[disk] != before[disk];
        assert_eq!([0, 1, 2, 3].map(is_new), [false, true, true, false]);
        crash(array);
        for disk in &shelf.0 {
            disk.heal();
        }
        let array = shelf.open().await;
        until(&array, "it is whole", Array::is_settled).await;
        sound(&array).await;
        array.close().await.unwrap();
    });
}
