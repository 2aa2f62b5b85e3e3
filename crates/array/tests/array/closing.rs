//! What is under way with labels when an array is closed.

use std::sync::Arc;
use std::time::Duration;

use array::api::DiskState;
use array::label::Found;
use array::{Array, Env, Level, Member, RingEnv};
use block::BlockError;
use block::testing::{Fault, Operation, Rule};

use crate::common::{Hasty, Shelf, bytes, run, spec, until, write};
use crate::copies::{MIB, label, put};

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

/// Begins to add a disk, and waits until the label that says so waits for the first one.
async fn begins_to_add(shelf: &Shelf, array: &Array) {
    shelf.0[0].inject(Rule::always(Operation::Write, Fault::Hang).at(FRONT));
    let adding = array.clone();
    let blank = Shelf::new(1, 32).members().remove(0);
    let blank = Member { name: "blank".into(), ..blank };
    ring::spawn(async move { drop(adding.add_disk(blank).await) });
    until(array, "the labels are being changed", |_| shelf.0[0].held() > 0).await;
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
