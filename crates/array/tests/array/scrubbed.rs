//! A scrub beside hosts that write: it takes its time, and must not take their space.

use std::time::Duration;

use array::Level;
use array::api::{JobKind, SettingsChange};
use block::testing::{Fault, Operation, Rule};
use block::{BlockError, WriteFlags};

use crate::common::{Shelf, bytes, data, run, sound, spec, write};

const CLUSTER: usize = 65536;
/// Of the volume that is written anew all the time.
const CLUSTERS: u64 = 64;

#[test]
fn a_scrub_takes_no_space_from_hosts_that_write() {
    run(async {
        let shelf = Shelf::new(2, 64);
        let array = shelf.create(Level::Raid1).await;
        for name in ["v", "still", "old"] {
            array.create_volume(spec(name, 4)).await.unwrap();
            let volume = array.device(name).unwrap();
            for cluster in 0..CLUSTERS {
                write(&volume, cluster * CLUSTER as u64, &bytes(CLUSTER, 1)).await;
            }
        }
        array.set_volume_online("old", false).await.unwrap();
        array.delete_volume("old").await.unwrap();
        array.checkpoint().await.unwrap();
        let used_bytes = array.info().used_bytes;
        let share = SettingsChange { rebuild_share_percent: Some(5), ..Default::default() };
        array.set(share).await.unwrap();
        let slow = Fault::Delay(Duration::from_millis(3));
        shelf.0.iter().for_each(|disk| disk.inject(Rule::always(Operation::Read, slow)));

        let (done, mut answer) = ring::oneshot();
        let asked = array.clone();
        ring::spawn(async move { done.send(asked.scrub().await) });
        ring::sleep(Duration::from_millis(20)).await;
        let volume = array.device("v").unwrap();
        // More than twice as much as there is.
        for round in 0..128 / 4 {
            for cluster in 0..CLUSTERS {
                let whole = data(&bytes(CLUSTER, round as u8));
                match volume.write(cluster * CLUSTER as u64, whole, WriteFlags::DURABLE).await {
                    Err(BlockError::NoSpace) => {
                        panic!("round {round}: no space: {:?}", array.info())
                    }
                    result => result.expect("the write is done"),
                }
            }
            // What was written over is free then, unless somebody holds it.
            array.checkpoint().await.unwrap();
        }
        // What one step of the scrub holds is free when it rests, which it does most of the time.
        let mut now_bytes = array.info().used_bytes;
        for _ in 0..200 {
            if now_bytes <= used_bytes + (24 << 20) {
                break;
            }
            ring::sleep(Duration::from_millis(20)).await;
            array.checkpoint().await.unwrap();
            now_bytes = array.info().used_bytes;
        }
        assert!(now_bytes <= used_bytes + (24 << 20), "{used_bytes} became {now_bytes}");
        assert!(array.jobs().iter().any(|job| job.kind == JobKind::Scrub), "it goes on");
        array.undelete_volume("old").await.expect("it is in the recycle bin still");

        shelf.0.iter().for_each(|disk| disk.heal());
        let share = SettingsChange { rebuild_share_percent: Some(100), ..Default::default() };
        array.set(share).await.unwrap();
        drop(volume);
        let report = ring::timeout(Duration::from_secs(60), &mut answer).await;
        let report = report.expect("it ends").expect("it answers").expect("it is scrubbed");
        assert_eq!((report.wrong_blocks, report.problems), (0, vec![]));
        sound(&array).await;
        array.close().await.unwrap();
    });
}
