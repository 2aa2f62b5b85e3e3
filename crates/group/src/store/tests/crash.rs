//! The power is cut at every write of a run of transactions: what opens again has every transaction that
//! was answered, and none by halves.

use futures_util::{FutureExt, StreamExt};

use super::model::Model;
use super::{Disk, Opened, Time, everything, wait};
use crate::bytes::testing::Unsynced;
use crate::store::suite::Subject;
use crate::store::*;

/// What the store is at one time.
#[derive(Debug, Clone, PartialEq)]
struct Moment {
    range: Range,
    history: Vec<Batch>,
}

/// A run of transactions on a disk.
struct Run {
    disk: Disk,
    /// After each transaction; the first is the empty store.
    moments: Vec<Moment>,
    /// How many steps of the disk each of them had taken when it was answered.
    answered: Vec<usize>,
}

const DISK_BYTES: usize = 4 << 20;

fn of_model(model: &Model) -> Moment {
    let kvs = model.range(&Selection::prefix(""));
    Moment { range: Range { revision: model.revision, kvs }, history: model.history.clone() }
}

fn of_store(opened: &Opened) -> Moment {
    let mut watch = opened.store().watch(Selection::prefix(""), 1);
    let mut history = Vec::new();
    while let Some(said) = watch.next().now_or_never() {
        history.push(said.expect("the store is open").expect("nothing was compacted"));
    }
    Moment { range: everything(opened), history }
}

/// Some puts and deletes of a few keys; some values are larger than a page of the database.
fn transaction(random: &mut fastrand::Rng) -> Transaction {
    let first = random.usize(..16);
    let mut ops: Vec<Op> = (0..random.usize(1..5))
        .map(|at| {
            let len =
                if random.u8(..8) == 0 { random.usize(..30_000) } else { random.usize(..200) };
            Op::put(format!("key/{}", (first + at) % 16), vec![random.u8(..); len])
        })
        .collect();
    if random.bool() {
        ops.push(Op::Delete(Selection::key(format!("key/{}", (first + 8) % 16))));
    }
    Transaction::always(ops)
}

fn run(seed: u64, transactions: usize) -> Run {
    let disk = Disk::new(DISK_BYTES);
    let opened = Opened::at(Place::Device(disk.shared()));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut model = Model::new();
    let mut run =
        Run { moments: vec![of_model(&model)], answered: vec![disk.steps()], disk: disk.clone() };
    for _ in 0..transactions {
        let transaction = transaction(&mut random);
        wait(opened.store().commit(transaction.clone())).expect("it is taken");
        model.commit(&transaction).expect("it is taken");
        run.moments.push(of_model(&model));
        run.answered.push(disk.steps());
    }
    drop(opened);
    run
}

/// The store as it opens on what a cut left.
fn reopened(image: Vec<u8>) -> Result<(Disk, Opened), StoreError> {
    let disk = Disk::with(image);
    let time = Time::default();
    let place = Place::Device(disk.shared());
    let store = Embedded::open(place, time.clock(), Options::default())?;
    Ok((disk, Opened { store, time }))
}

/// The number of the moment that the store is at, or what is wrong with it after a cut at `steps`.
fn moment(run: &Run, steps: usize, opened: &Opened) -> Result<usize, String> {
    let answered = run.answered.iter().filter(|at| **at <= steps).count().saturating_sub(1);
    let found = of_store(opened);
    let may = &run.moments[answered..run.moments.len().min(answered + 2)];
    let at = may.iter().position(|moment| *moment == found);
    let wrong = || {
        let revision = found.range.revision;
        format!("cut at step {steps}: {answered} were answered, found revision {revision}")
    };
    Ok(answered + at.ok_or_else(wrong)?)
}

fn cuts(seed: u64, torn: u64) -> impl Iterator<Item = Unsynced> {
    let torn = (0..torn).map(move |number| Unsynced::Torn(seed.wrapping_mul(1009) + number));
    torn.chain([Unsynced::Lost, Unsynced::Kept])
}

#[test]
fn every_cut_leaves_what_was_answered_and_nothing_by_halves() {
    let run = run(1, 24);
    let mut kept_in_flight = 0;
    for steps in 0..=run.disk.steps() {
        for unsynced in cuts(steps as u64, 4) {
            let (_, opened) = reopened(run.disk.cut(steps, unsynced)).unwrap();
            let at = moment(&run, steps, &opened).unwrap();
            kept_in_flight += usize::from(run.answered[at] > steps);
        }
    }
    assert!(kept_in_flight > 0, "some cuts lie behind the point at which a transaction counts");
}

/// Opening after a cut writes too, and may be cut as well; what it showed stays, and goes on.
#[test]
fn a_cut_while_opening_loses_nothing_either() {
    let run = run(2, 12);
    for steps in (0..=run.disk.steps()).step_by(5) {
        let image = run.disk.cut(steps, Unsynced::Torn(steps as u64));
        let (disk, opened) = reopened(image).unwrap();
        let seen = moment(&run, steps, &opened).unwrap();
        for second in 0..=disk.steps() {
            let (_, again) = reopened(disk.cut(second, Unsynced::Torn(second as u64))).unwrap();
            assert_eq!(of_store(&again), run.moments[seen], "cut at {steps}, then at {second}");
        }
        let later = Transaction::always(vec![Op::put("later", "")]);
        wait(opened.store().commit(later)).expect("what was opened takes transactions");
    }
}

/// These tests find a device that says it kept what it did not.
#[test]
fn a_device_that_lies_about_its_syncs_is_found() {
    let mut run = run(3, 8);
    run.disk = run.disk.without_syncs();
    let is_wrong = |steps: usize| {
        let opened = reopened(run.disk.cut(steps, Unsynced::Torn(steps as u64)));
        opened.map_or(true, |(_, opened)| moment(&run, steps, &opened).is_err())
    };
    assert!((0..run.disk.steps()).any(is_wrong));
}
