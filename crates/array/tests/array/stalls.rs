//! What stands still is told, and no longer when it goes on.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState::{self, Missing, Online};
use array::{
    Array, BLOCK_BYTES, CLUSTER_BYTES, CreateOptions, Env, Level, OpenOptions, RingEnv, Task,
};
use block::testing::{Fault, Operation, Rule};
use block::{BlockDevice, BlockError, WriteFlags};

use crate::common::{
    Hasty, Shelf, all_online, bytes, data, in_turns, read, run, sound, spec, write,
};
use crate::{common, process};

/// Ten times as fast as it is.
#[derive(Debug)]
struct Hurried;

const FASTER: u32 = 10;

impl Env for Hurried {
    fn now(&self) -> Duration {
        RingEnv.now() * FASTER
    }

    fn unix_seconds(&self) -> u64 {
        RingEnv.unix_seconds()
    }

    fn sleep(&self, time: Duration) -> Task {
        RingEnv.sleep(time / FASTER)
    }

    fn spawn(&self, task: Task) {
        RingEnv.spawn(task);
    }

    fn random(&self) -> u64 {
        RingEnv.random()
    }
}

async fn until(array: &Array, what: &str, is_so: impl Fn(&[String]) -> bool) {
    for _ in 0..1000 {
        if is_so(&array.info().stalls) {
            return;
        }
        ring::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited for long: {what}: {:?}", array.info().stalls);
}

#[test]
fn writes_that_wait_for_a_disk_are_named_until_it_answers() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let options =
            CreateOptions { level: Level::Raid5, chunk_bytes: Some(1 << 20), ..Default::default() };
        let array = Array::create(Arc::new(Hurried), shelf.members(), options).await.unwrap();
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(4096, 1)).await;
        assert_eq!(array.info().stalls, Vec::<String>::new());
        for disk in &shelf.0 {
            disk.inject(Rule::always(Operation::Write, Fault::HoldAnswer));
        }
        let (answer, answered) = ring::oneshot();
        let held = Arc::clone(&volume);
        ring::spawn(async move {
            answer.send(held.write(4096, data(&bytes(4096, 2)), WriteFlags::DURABLE).await);
        });
        let names = |text: &str| {
            let text = text.to_owned();
            move |stalls: &[String]| stalls.iter().any(|stall| stall.contains(&text))
        };
        until(&array, "the write is named", names("the disks that hold the journal")).await;
        // A command waits for the checkpoint, and that for the same disks.
        let asking = array.clone();
        let (done, checked) = ring::oneshot();
        ring::spawn(async move { done.send(asking.checkpoint().await) });
        until(&array, "the checkpoint is named", names("the checkpoint waits for")).await;
        for disk in &shelf.0 {
            disk.heal();
            disk.release();
        }
        answered.await.expect("it is sent").expect("the write is done");
        checked.await.expect("it is sent").expect("the checkpoint is done");
        until(&array, "nothing stands still", <[String]>::is_empty).await;
        sound(&array).await;
        array.close().await.unwrap();
    });
}

/// A write has to look up whether its place in the volume takes space. It asked for that page of the map
/// again and again without a pause, and nothing else ran on its core any more.
#[test]
fn a_write_whose_map_nobody_can_read_fails_instead_of_asking_for_ever() {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        run(async move {
            let shelf = Shelf::new(2, 48);
            let array = shelf.create(Level::Raid1).await;
            array.create_volume(spec("v", 24)).await.expect("there is space");
            write(&array.device("v").expect("it is served"), 0, &bytes(1 << 20, 1)).await;
            array.close().await.expect("it closes");
            // It knows no page of the map yet.
            let array = shelf.open().await;
            let volume = array.device("v").expect("it is served");
            for disk in &shelf.0 {
                let fault = Fault::Fail(BlockError::Medium { at: 0 });
                disk.inject(Rule::always(Operation::Read, fault));
            }
            let block = bytes(4096, 2);
            let one = volume.write(65536, data(&block), WriteFlags::VOLATILE).await;
            let two = volume.compare_and_write(0, data(&block), data(&block), WriteFlags::VOLATILE);
            tell.send((one.is_err(), two.await.is_err())).expect("somebody listens");
        });
    });
    let patience = std::time::Duration::from_secs(30);
    assert_eq!(told.recv_timeout(patience), Ok((true, true)), "an answer, and it is no");
}

/// A disk was pulled long ago, a block of another one has rotted beside it, and a host writes over that. What
/// cannot be given is given up: the volume is not set aside and taken back without end, with all that
/// is written waiting in the journal.
#[test]
fn rot_beside_a_disk_that_has_been_out_for_long_keeps_nobody_waiting() {
    run(async {
        let shelf = Shelf::new(3, 64);
        let array = shelf.create(Level::Raid5).await;
        for (name, mib) in [("v", 2), ("w", 16)] {
            array.create_volume(spec(name, mib)).await.unwrap();
        }
        let of = |number: u64| bytes(CLUSTER_BYTES, 2 * number as u8 + 2);
        // In halves, so that they go through the journal: what is written whole begins a stripe anew.
        for at in (0..32).map(|half| half * CLUSTER_BYTES / 2) {
            let half = of((at / CLUSTER_BYTES) as u64);
            let half = &half[at % CLUSTER_BYTES..][..CLUSTER_BYTES / 2];
            write(&array.device("v").unwrap(), at as u64, half).await;
        }
        array.close().await.unwrap();
        let home = rot(&shelf, &of(0)[..BLOCK_BYTES]).await;
        let away = (0..3).rfind(|disk| *disk != home).unwrap();
        // Here a minute is two seconds.
        let array = Array::open(Arc::new(Hasty), shelf.members(), Default::default());
        let array = array.await.unwrap();
        let (v, w) = (array.device("v").unwrap(), array.device("w").unwrap());
        shelf.pull(away);
        write(&v, 10 * CLUSTER_BYTES as u64, &bytes(BLOCK_BYTES, 77)).await;
        array.checkpoint().await.unwrap();
        ring::sleep(Duration::from_secs(4)).await;
        write(&v, 0, &bytes(BLOCK_BYTES, 55)).await;
        let writes = async {
            for number in 0..1500 {
                let at = (number * 7 % 30 * CLUSTER_BYTES as u64
                    + number % 16 * BLOCK_BYTES as u64)
                    % (2 << 20);
                write(&v, at, &bytes(BLOCK_BYTES, number as u8)).await;
                write(&w, 2 * at, &bytes(BLOCK_BYTES, number as u8)).await;
            }
        };
        assert!(ring::timeout(Duration::from_secs(60), writes).await.is_some(), "it stands still");
        let events = array.events(0).0;
        let flaps = events.iter().filter(|event| event.text.contains("is back: its")).count();
        assert_eq!(flaps, 0, "{:?}", events.iter().map(|event| &event.text).collect::<Vec<_>>());
    });
}

/// Overwrites the block that holds this; which disk has it.
async fn rot(shelf: &Shelf, wanted: &[u8]) -> usize {
    let mut home = None;
    for (index, disk) in shelf.0.iter().enumerate() {
        let disk: Arc<dyn BlockDevice> = Arc::clone(disk) as _;
        for at in (7 << 20..63 << 20).step_by(BLOCK_BYTES) {
            if read(&disk, at, BLOCK_BYTES).await == wanted {
                write(&disk, at, &bytes(BLOCK_BYTES, 99)).await;
                home = Some(index);
            }
        }
    }
    home.expect("the block is on a disk")
}

/// How many turns of a core it may take until nobody waits any more for a disk that was declared failed.
const PATIENCE: usize = 5000;

async fn is_over<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    in_turns(PATIENCE, waiting).await.unwrap_or_else(|| panic!("{what} waits still"))
}

/// A holder of the journal took writes and did not answer any: every durable write of the array waited for it,
/// also when an operator had declared it failed, and so did that command.
#[test]
fn a_disk_that_is_declared_failed_keeps_nobody_waiting() {
    run(async {
        let shelf = Shelf::new(4, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER_BYTES, 1)).await;
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang));
        let (answer, answered) = ring::oneshot();
        let host = Arc::clone(&volume);
        ring::spawn(async move {
            answer.send(host.write(4096, data(&bytes(4096, 2)), WriteFlags::DURABLE).await);
        });
        common::until(&array, "the journal is on it", |_| shelf.0[0].held() > 0).await;
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("others have it all");
        is_over("the host", answered).await.expect("it is sent").expect("three disks are left");
        is_over("another host", write(&volume, 65536, &bytes(CLUSTER_BYTES, 3))).await;
        is_over("a checkpoint", array.checkpoint()).await.unwrap();
        // What it was asked for reaches it after all: nobody believes it.
        process::end();
        shelf.0[0].heal();
        shelf.0[0].release();
        ring::sleep(Duration::from_millis(20)).await;
        drop((volume, array));
        let array = shelf.open().await;
        let volume = array.device("v").unwrap();
        assert_eq!(read(&volume, 4096, 4096).await, bytes(4096, 2));
        assert_eq!(read(&volume, 65536, CLUSTER_BYTES).await, bytes(CLUSTER_BYTES, 3));
        let is_used = |disk: &array::api::DiskInfo| {
            disk.name == "disk-0" && disk.state == array::api::DiskState::Online
        };
        assert!(!array.disks().iter().any(is_used), "{:?}", array.disks());
        array.close().await.unwrap();
    });
}

/// The same while another command about disks waits for the checkpoint that waits for the disk.
#[test]
fn a_disk_is_declared_failed_although_another_command_waits_for_it() {
    run(async {
        let shelf = Shelf::new(5, 64);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(CLUSTER_BYTES, 1)).await;
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang));
        let (told, retired) = ring::oneshot();
        let asking = array.clone();
        ring::spawn(async move { told.send(asking.retire_disk("disk-4").await) });
        common::until(&array, "the checkpoint is under way", |_| shelf.0[0].held() > 0).await;
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("others have it all");
        is_over("the other command", retired).await.expect("it is sent").expect("there is room");
        array.close().await.unwrap();
    });
}

/// Others are about to hold the checkpoints, and the one that is to bring them there waits for the disk.
#[test]
fn a_checkpoint_that_waits_for_a_disk_does_not_keep_it_from_being_declared_failed() {
    run(async {
        let shelf = Shelf::new(5, 64);
        // Here ten seconds are a third of one.
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid6).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        write(&array.device("v").unwrap(), 0, &bytes(CLUSTER_BYTES, 1)).await;
        array.checkpoint().await.unwrap();
        shelf.at_records(0, Fault::Hang);
        array.fail_disk("disk-1", false).await.unwrap();
        common::until(&array, "the checkpoint is under way", |_| shelf.0[0].held() > 0).await;
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("others have it all");
        is_over("a checkpoint", array.checkpoint()).await.unwrap();
        array.close().await.unwrap();
    });
}

/// The labels were being changed, and waited for the disk: so did whoever wanted to change them next. The label
/// that it takes late says what nothing has relied on.
#[test]
fn a_label_that_a_disk_does_not_take_does_not_keep_it_from_being_declared_failed() {
    run(async {
        let shelf = Shelf::new(5, 64);
        let array = shelf.create(Level::Raid6).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        write(&volume, 0, &bytes(CLUSTER_BYTES, 1)).await;
        array.checkpoint().await.unwrap();
        shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(0..64 << 10));
        let (told, failed) = ring::oneshot();
        let asking = array.clone();
        ring::spawn(async move { told.send(asking.fail_disk("disk-3", false).await) });
        common::until(&array, "the labels are being changed", |_| shelf.0[0].held() > 0).await;
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("others have it all");
        is_over("the other command", failed).await.expect("it is sent").expect("the same");
        is_over("a host", write(&volume, 0, &bytes(CLUSTER_BYTES, 2))).await;
        process::end();
        shelf.0[0].heal();
        shelf.0[0].release();
        ring::sleep(Duration::from_millis(20)).await;
        drop((volume, array));
        let array = shelf.open().await;
        assert_eq!(
            read(&array.device("v").unwrap(), 0, CLUSTER_BYTES).await,
            bytes(CLUSTER_BYTES, 2)
        );
        let online = array.disks().into_iter();
        let online = online.filter(|disk| disk.state == array::api::DiskState::Online).count();
        assert_eq!(online, 3, "{:?}", array.disks());
        array.close().await.unwrap();
    });
}

/// A disk alone has the newest checkpoint, and the next one waits for another disk: the command says so.
#[test]
fn the_only_disk_with_a_checkpoint_is_kept_when_the_next_one_does_not_end() {
    run(async {
        let shelf = Shelf::new(2, 64);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        shelf.pull(1);
        write(&volume, 0, &bytes(CLUSTER_BYTES, 2)).await;
        array.checkpoint().await.unwrap();
        shelf.0[1].heal();
        shelf.at_records(1, Fault::Hang);
        for _ in 0..1000 {
            if shelf.0[1].held() > 0 {
                break;
            }
            ring::sleep(Duration::from_millis(5)).await;
        }
        let refused = is_over("the command", array.fail_disk("disk-0", false)).await.unwrap_err();
        assert!(refused.to_string().contains("alone has the newest checkpoint"), "{refused}");
        shelf.0[1].heal();
        shelf.0[1].release();
        is_over("a checkpoint", array.checkpoint()).await.unwrap();
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("both have it now");
        array.close().await.unwrap();
    });
}

/// Another disk has just been given all that it missed, and no label says so yet. To give up the only one that
/// counts stopped the array, where the command should be refused.
#[test]
fn the_only_disk_with_a_checkpoint_is_kept_before_another_one_is_up_to_date() {
    run(async {
        let shelf = Shelf::new(2, 64);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid1).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let volume = array.device("v").unwrap();
        shelf.pull(1);
        write(&volume, 0, &bytes(CLUSTER_BYTES, 2)).await;
        array.checkpoint().await.unwrap();
        shelf.at_records(0, Fault::Hang);
        shelf.0[1].heal();
        for accepts_loss in [false, true] {
            let refused = in_turns(PATIENCE, async {
                loop {
                    let refused = array.fail_disk("disk-0", accepts_loss).await.unwrap_err();
                    if !refused.to_string().contains("no other copy") {
                        return refused;
                    }
                    ring::sleep(Duration::from_millis(5)).await;
                }
            });
            let refused = refused.await.expect("disk 1 is given what it missed");
            assert!(refused.to_string().contains("alone has the newest checkpoint"), "{refused}");
        }
        shelf.0[0].heal();
        shelf.0[0].release();
        all_online(&array).await;
        array.checkpoint().await.unwrap();
        is_over("the command", array.fail_disk("disk-0", false)).await.expect("both have it now");
        assert_eq!(read(&volume, 0, CLUSTER_BYTES).await, bytes(CLUSTER_BYTES, 2));
        array.close().await.unwrap();
    });
}

/// A disk that is being added takes no label. All labels wait for it, and so did every disk that failed meanwhile;
/// to declare it failed was refused, as no label knew it.
#[test]
fn a_disk_that_does_not_join_is_let_go() {
    run(async {
        let shelf = Shelf::new(4, 64);
        let array = shelf.create(Level::Raid5).await;
        let new = Shelf::new(2, 64);
        let member = |at: usize| array::Member {
            name: format!("new-{at}"),
            ..new.members().swap_remove(at)
        };
        new.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(0..4096));
        let (told, added) = ring::oneshot();
        let (asking, first) = (array.clone(), member(0));
        ring::spawn(async move { told.send(asking.add_disk(first).await) });
        for _ in 0..1000 {
            if new.0[0].held() > 1 || array.fail_disk("new-0", false).await.is_ok() {
                break;
            }
            ring::sleep(Duration::from_millis(5)).await;
        }
        let refused = is_over("who adds it", added).await.expect("it is sent").unwrap_err();
        assert!(refused.to_string().contains("does not take its label"), "{refused}");
        // Another one gets its number.
        is_over("another one", array.add_disk(member(1))).await.expect("it joins");
        all_online(&array).await;
        assert_eq!(array.disks().len(), 5);
        array.close().await.unwrap();
    });
}

/// A disk that hangs when the array is opened was waited for until it answered, and nobody said so.
#[test]
fn a_disk_that_does_not_answer_at_the_start_is_as_good_as_not_there() {
    run(async {
        let shelf = Shelf::new(3, 48);
        let array = shelf.create(Level::Raid5).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let written = bytes(1 << 20, 3);
        write(&array.device("v").unwrap(), 0, &written).await;
        array.close().await.unwrap();
        drop(array);
        let hang = |disk: usize| shelf.0[disk].inject(Rule::always(Operation::Read, Fault::Hang));
        let answers = |disk: usize| {
            shelf.0[disk].heal();
            shelf.0[disk].release();
        };
        // Here half a minute is a second.
        let open = || Array::open(Arc::new(Hasty), shelf.members(), OpenOptions::default());
        hang(2);
        let array = open().await.expect("two of three are enough");
        let missing = &array.disks()[2];
        assert_eq!(missing.state, DiskState::Missing);
        assert!(missing.reason.contains("has not answered for 30 seconds"), "{}", missing.reason);
        assert_eq!(read(&array.device("v").unwrap(), 0, written.len()).await, written);
        // Whoever brings it hears the same, and other commands do not wait for it.
        let brought = || shelf.members().remove(2);
        let refusal = array.add_disk(brought()).await.unwrap_err().to_string();
        assert!(refusal.contains("has not answered for 30 seconds"), "{refusal}");
        answers(2);
        array.add_disk(brought()).await.expect("it is back");
        all_online(&array).await;
        sound(&array).await;
        array.close().await.unwrap();
        drop(array);
        hang(1);
        hang(2);
        let refusal = open().await.unwrap_err().to_string();
        assert!(refusal.contains("disk-1") && refusal.contains("disk-2"), "{refusal}");
        answers(1);
        answers(2);
        sound(&open().await.expect("all of them answer")).await;
    });
}

/// Two disks are out. While one of them was asked whether it is back, and did not answer, nobody asked the other one.
#[test]
fn a_disk_is_taken_back_while_another_one_does_not_answer() {
    run(async {
        let shelf = Shelf::new(4, 48);
        let array = shelf.create_in(Arc::new(Hasty), Level::Raid6).await;
        array.create_volume(spec("v", 8)).await.unwrap();
        let refusal = Fault::Fail(BlockError::Medium { at: 0 });
        shelf.0[2].inject(Rule::always(Operation::Read, Fault::Hang));
        shelf.0[2].inject(Rule::always(Operation::Write, refusal));
        shelf.pull(3);
        write(&array.device("v").unwrap(), 0, &bytes(1 << 20, 3)).await;
        let state = |array: &Array, disk: usize| array.disks()[disk].state;
        let are_out = |array: &Array| [2, 3].iter().all(|at| state(array, *at) == Missing);
        crate::common::until(&array, "both are out", are_out).await;
        // It has been asked by now, and was not back.
        ring::sleep(Duration::from_millis(500)).await;
        shelf.0[3].heal();
        crate::common::until(&array, "one is back", |array| state(array, 3) == Online).await;
        assert_eq!(state(&array, 2), Missing);
        shelf.0[2].heal();
        shelf.0[2].release();
        all_online(&array).await;
        sound(&array).await;
    });
}
