//! Checkpoints that fail, and memory that runs out: whoever waits is answered, and what only lacks
//! memory goes on when there is some.

use std::sync::Arc;
use std::time::Duration;

use array::api::{DiskState, VolumeState};
use array::{Array, ArrayError, Level, OpenOptions, RingEnv};
use block::testing::{Fault, Operation, Rule};
use block::{BlockError, WriteFlags};
use ring::Buf;

use crate::common::{Shelf, all_online, bytes, data, read, run, sound, spec, until, write};

const CLUSTER: u64 = 64 << 10;

/// No disk takes a write any more.
fn refuse_writes(shelf: &Shelf) {
    for disk in &shelf.0 {
        let fault = Fault::Fail(BlockError::Medium { at: 0 });
        disk.inject(Rule::always(Operation::Write, fault));
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let result = ring::timeout(Duration::from_secs(10), future).await;
    result.unwrap_or_else(|| panic!("nobody answers: {what}"))
}

/// Takes all memory that hosts may have.
fn hog() -> Vec<Buf> {
    let mut all = Vec::new();
    for len in [1 << 20, 64 << 10, 4 << 10] {
        all.extend(std::iter::from_fn(|| Buf::alloc(len)));
    }
    all
}

#[test]
fn a_command_in_a_checkpoint_that_fails_is_answered() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        array.create_volume(spec("bin", 8)).await.unwrap();
        array.set_volume_online("bin", false).await.unwrap();
        array.delete_volume("bin").await.unwrap();
        refuse_writes(&shelf);
        let refused = soon("the command", array.create_volume(spec("w", 8))).await;
        refused.expect_err("no disk takes the record");
        // Nor does one hang that comes after it.
        let later = soon("a later command", array.checkpoint()).await;
        assert!(matches!(later, Err(ArrayError::Stopped(_))), "{later:?}");
        let volume = array.volume("v").unwrap();
        assert_eq!(volume.state, VolumeState::Lost);
        assert!(volume.reason.starts_with("the array has stopped"), "{}", volume.reason);
        let deleted = array.volume("bin").unwrap();
        assert_eq!(deleted.state, VolumeState::Deleted, "it is still in the recycle bin");
        let warnings = array.info().warnings;
        assert!(warnings.iter().any(|text| text.starts_with("the array has stopped")));
        soon("close", array.close()).await.expect_err("there was no last checkpoint");
    });
}

#[test]
fn opening_on_disks_that_take_nothing_ends() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        array.close().await.unwrap();
        refuse_writes(&shelf);
        let opened = Array::open(Arc::new(RingEnv), shelf.members(), OpenOptions::default());
        soon("opening", opened).await.expect_err("no disk takes the first checkpoint");
        shelf.0.iter().for_each(|disk| disk.heal());
    });
}

#[test]
fn a_command_beside_closing_is_answered() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        let (closing, asking) = (array.clone(), array.clone());
        let both = async move {
            let mut last = Ok(());
            for _ in 0..50 {
                last = asking.checkpoint().await;
            }
            last
        };
        let close = async move { closing.close().await };
        let (closed, asked) = soon("both", futures_util::future::join(close, both)).await;
        closed.unwrap();
        assert!(matches!(asked, Err(ArrayError::Stopped(_))), "{asked:?}");
    });
}

#[test]
fn a_checkpoint_goes_on_while_hosts_have_all_memory() {
    for level in [Level::Raid10, Level::Raid5, Level::Raid6] {
        run(async move {
            let shelf = Shelf::new(6, 32);
            let array = shelf.create(level).await;
            array.create_volume(spec("v", 16)).await.unwrap();
            let volume = array.device("v").unwrap();
            let whole = bytes(16 * CLUSTER as usize, 1);
            write(&volume, 0, &whole).await;
            array.checkpoint().await.unwrap();
            array.snapshot(&[("v", Some("s"))]).await.unwrap();
            for cluster in 0..16 {
                write(&volume, cluster * CLUSTER + 4096, &bytes(4096, 2)).await;
            }
            let held = hog();
            let block = volume.read(0, 4096 * 3).await;
            let again = [BlockError::NoMemory, BlockError::Busy];
            assert!(block.is_err_and(|error| again.contains(&error)), "hosts are to try again");
            soon("a checkpoint", array.checkpoint()).await.expect("it has memory of its own");
            drop(held);
            assert_eq!(read(&volume, 4096, 4096).await, bytes(4096, 2), "{level}");
            assert_eq!(read(&volume, 0, 4096).await, whole[..4096], "{level}");
            sound(&array).await;
            array.close().await.unwrap();
        });
    }
}

#[test]
fn a_checkpoint_without_any_memory_waits_for_some() {
    run(async {
        let shelf = Shelf::new(5, 32);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 16)).await.unwrap();
        let volume = array.device("v").unwrap();
        for cluster in 0..8 {
            write(&volume, cluster * CLUSTER + 4096, &bytes(4096, 2)).await;
        }
        let budget_bytes = ring::pool_usage().budget_bytes + ring::pool_reserve();
        ring::set_pool_budget(ring::pool_usage().used_bytes);
        let (sender, asking) = (array.clone(), ring::oneshot());
        let (answer, answered) = asking;
        ring::spawn(async move {
            answer.send(sender.checkpoint().await);
        });
        ring::sleep(Duration::from_millis(300)).await;
        assert_eq!(array.info().warnings, Vec::<String>::new(), "it goes on and waits");
        ring::set_pool_budget(budget_bytes);
        let done = soon("the checkpoint", answered).await;
        done.expect("it is asked").expect("now there is memory");
        let more = data(&bytes(4096, 3));
        volume.write(0, more, WriteFlags::DURABLE).await.expect("all is well");
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// Whoever flushes the disk next would hear that all is well, and take for durable what is not.
#[test]
fn a_disk_whose_flush_fails_is_out_before_the_others_have_answered() {
    run(async {
        let shelf = Shelf::new(4, 32);
        let array = shelf.create(Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(1 << 20, 1)).await;
        // The record of a checkpoint: one holder is slow, and its flush fails; another one hangs.
        shelf.at_records(0, Fault::Delay(Duration::from_millis(300)));
        shelf.at_records(2, Fault::Hang);
        let asking = array.clone();
        ring::spawn(async move { drop(asking.checkpoint().await) });
        until(&array, "the record", |_| shelf.0[2].held() > 0).await;
        let error = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[0].inject(Rule::always(Operation::Flush, error).times(1));
        let is_out = |array: &Array| array.disks()[0].state != DiskState::Online;
        until(&array, "it is out", is_out).await;
        assert!(shelf.0[2].held() > 0, "nobody waited for the slowest");
        shelf.0.iter().for_each(|disk| disk.heal());
        shelf.0[2].release();
        all_online(&array).await;
        assert_eq!(read(&volume, 0, 1 << 20).await, bytes(1 << 20, 1));
        sound(&array).await;
    });
}
