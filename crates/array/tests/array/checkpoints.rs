//! Checkpoints that an opening cannot read: an older one is not taken for the newest behind anybody's back.

use std::sync::Arc;
use std::time::Duration;

use array::checkpoint::slots::read_slots;
use array::label::{Found, Label};
use array::{Array, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};
use ring::Buf;

use crate::common::{Shelf, bytes, read, run, spec, write};
use crate::process;

const CLUSTER: usize = 64 << 10;

async fn label(shelf: &Shelf) -> Label {
    match array::probe(&array::RingEnv, &*shelf.0[0]).await {
        Ok(Found::Label { label, .. }) => *label,
        other => panic!("no label: {other:?}"),
    }
}

async fn newest(shelf: &Shelf, disks: std::ops::Range<usize>) -> u64 {
    let label = label(shelf).await;
    let devices: Vec<Arc<dyn BlockDevice>> =
        shelf.0[disks].iter().map(|disk| Arc::clone(disk) as _).collect();
    let slot = read_slots(&devices, &label.layout, label.array).await;
    slot.expect("there is a checkpoint").number
}

async fn spoil(shelf: &Shelf, disk: usize, at: u64) {
    let nothing = Buf::zeroed(4096).expect("memory").freeze();
    shelf.0[disk].write(at, nothing, WriteFlags::DURABLE).await.expect("it takes writes");
}

async fn open(shelf: &Shelf) -> Result<Array, array::ArrayError> {
    Array::open(Arc::new(RingEnv), shelf.members(), OpenOptions::default()).await
}

/// Nothing was left of the journal, and what its disk said of that did not tell how far it had gone: the
/// write that the newest checkpoint has was gone without a word.
#[test]
fn a_newest_checkpoint_that_rotted_does_not_take_what_was_answered_with_it() {
    run(async {
        let shelf = Shelf::new(1, 32);
        let array = shelf.create(Level::Raid0).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER, 1)).await;
        array.checkpoint().await.unwrap();
        write(&volume, 0, &bytes(CLUSTER, 2)).await;
        array.close().await.unwrap();
        drop((volume, array));
        let (label, number) = (label(&shelf).await, newest(&shelf, 0..1).await);
        spoil(&shelf, 0, label.layout.checkpoint_at(number % 2) + 4096).await;
        assert_eq!(newest(&shelf, 0..1).await, number - 1, "the one before is whole");
        match open(&shelf).await {
            Err(error) => assert!(error.to_string().contains("journal is damaged"), "{error}"),
            Ok(array) => {
                let found = read(&array.device("v").unwrap(), 0, CLUSTER).await;
                assert_eq!(found, bytes(CLUSTER, 2), "it was answered");
            }
        }
    });
}

/// Only one holder had got the newest checkpoint when the power went, and one start could not read it there:
/// the next one believed it, when its pages had been used for others.
#[test]
fn a_checkpoint_that_a_start_could_not_read_is_not_believed_by_the_next() {
    run(async {
        let shelf = Shelf::new(2, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(CLUSTER, 1)).await;
        array.checkpoint().await.unwrap();
        array.checkpoint().await.unwrap();
        write(&array.device("v").unwrap(), CLUSTER as u64, &bytes(CLUSTER, 2)).await;
        process::end();
        let (label, number) = (label(&shelf).await, newest(&shelf, 0..2).await);
        let slot = label.layout.checkpoint_at(number % 2);
        spoil(&shelf, 1, slot).await;
        let unreadable = Fault::Fail(BlockError::Medium { at: slot });
        shelf.0[0].inject(Rule::always(Operation::Read, unreadable).at(slot..slot + 1));
        // It gets as far as its first checkpoint, which has not marked the disk yet.
        let chunks = label.layout.chunks_at()..30 << 20;
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(chunks));
        let opening = ring::timeout(Duration::from_millis(500), open(&shelf)).await;
        assert!(opening.is_none(), "what the journal has does not get to its place");
        process::end();
        shelf.0[0].heal();
        assert_eq!(newest(&shelf, 0..1).await, number - 1);
    });
}

/// The record of the newest checkpoint rotted, and the one before it knows nothing of a volume that a host had
/// written to since: what the journal has of it was dropped without a word.
#[test]
fn a_journal_that_names_what_no_checkpoint_knows_is_not_taken_for_less() {
    run(async {
        let shelf = Shelf::new(1, 32);
        let array = shelf.create(Level::Raid0).await;
        for name in ["a", "b"] {
            array.create_volume(spec(name, 4)).await.unwrap();
        }
        write(&array.device("b").unwrap(), 0, &bytes(4096, 1)).await;
        process::end();
        let (label, number) = (label(&shelf).await, newest(&shelf, 0..1).await);
        let record = label.layout.checkpoint_at(number % 2) + 4096;
        let device: Arc<dyn BlockDevice> = shelf.0[0].clone();
        let whole = read(&device, record, 4096).await;
        spoil(&shelf, 0, record).await;
        assert_eq!(newest(&shelf, 0..1).await, number - 1, "the one before is whole");
        let refused = open(&shelf).await.expect_err("volume b is not known").to_string();
        assert!(refused.contains("newest checkpoint"), "{refused}");
        // Nothing was written: with the disk that has it all is there.
        write(&device, record, &whole).await;
        let array = open(&shelf).await.unwrap();
        assert_eq!(read(&array.device("b").unwrap(), 0, 4096).await, bytes(4096, 1));
    });
}
