//! What stands still is told, and no longer when it goes on.

use std::sync::Arc;
use std::time::Duration;

use array::{Array, CreateOptions, Env, Level, RingEnv, Task};
use block::testing::{Fault, Operation, Rule};
use block::{BlockError, WriteFlags};

use crate::common::{Shelf, bytes, data, run, sound, spec, write};

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
