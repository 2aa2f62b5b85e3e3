//! More snapshots than a checkpoint can keep track of: the one that does not fit is refused, and
//! everything goes on.

use array::{Array, ArrayError, Level};

use crate::common::{Shelf, bytes, read, run, sound, spec, write};
use crate::process::crash;

const VOLUMES: usize = 40;

fn volume(index: usize) -> String {
    format!("{index:063}")
}

/// Takes snapshots of all volumes at once until the array refuses; how many of each.
async fn fill(array: &Array, names: std::ops::Range<usize>) -> Result<usize, ArrayError> {
    let volumes: Vec<String> = (0..VOLUMES).map(volume).collect();
    for number in names.clone() {
        let name = format!("{number:063}");
        let all: Vec<(&str, Option<&str>)> =
            volumes.iter().map(|volume| (&**volume, Some(&*name))).collect();
        match array.snapshot(&all).await {
            Ok(_) => {}
            Err(ArrayError::TablesFull) => return Ok(number),
            Err(error) => return Err(error),
        }
    }
    Ok(names.end)
}

#[test]
fn one_snapshot_too_many_is_refused_before_it_is_taken() {
    run(async {
        let shelf = Shelf::new(3, 32);
        let array = shelf.create(Level::Raid5).await;
        for index in 0..VOLUMES {
            array.create_volume(spec(&volume(index), 1)).await.unwrap();
        }
        let device = array.device(&volume(7)).unwrap();
        write(&device, 0, &bytes(4096, 1)).await;
        // Half of them wait for a checkpoint when the array refuses, and more are written.
        let first = fill(&array, 0..60).await.unwrap();
        array.checkpoint().await.expect("there is room for all that was accepted");
        let mut taken = first;
        loop {
            let more = fill(&array, taken..1000).await.unwrap();
            array.checkpoint().await.unwrap();
            if more == taken {
                break;
            }
            taken = more;
        }
        assert!((VOLUMES * taken) as u64 * 64 > 400 << 10, "{taken} of each use the slot");
        assert!(taken < 1000, "a slot has an end");
        let more = array.create_volume(spec("more", 1)).await;
        assert!(matches!(more, Err(ArrayError::TablesFull) | Ok(_)), "{more:?}");
        let warnings = array.info().warnings;
        assert!(warnings.iter().any(|text| text.contains("keep track of")), "{warnings:?}");
        write(&device, 0, &bytes(4096, 2)).await;
        // As in a crash: nothing of the last ones is in a checkpoint.
        crash((device, array));
        let array = shelf.open().await;
        array.checkpoint().await.expect("it fits after a crash too");
        let name = format!("{:063}", taken - 1);
        assert_eq!(array.snapshots(&volume(7)).unwrap().len(), taken);
        let refused = array.snapshot(&[(&volume(7), Some("last"))]).await;
        // What was accepted counts as long as it can get until a checkpoint has it.
        let last = usize::from(refused.is_ok());
        let refused = refused.map(|_| "it was taken");
        assert!(matches!(refused, Ok(_) | Err(ArrayError::TablesFull)), "{refused:?}");
        // Deleting works at the brink, and makes room.
        for index in 0..VOLUMES {
            array.delete_snapshot(&volume(index), &name).await.expect("deleting needs no room");
        }
        array.checkpoint().await.unwrap();
        array.snapshot(&[(&volume(7), Some("again"))]).await.expect("there is room again");
        let device = array.device(&volume(7)).unwrap();
        assert_eq!(read(&device, 0, 4096).await, bytes(4096, 2));
        sound(&array).await;
        array.close().await.unwrap();
        let array = shelf.open().await;
        assert_eq!(array.snapshots(&volume(7)).unwrap().len(), taken + last);
        array.close().await.unwrap();
    });
}
