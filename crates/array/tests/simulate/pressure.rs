//! Hosts that write as fast as they are answered, while checkpoints bring parity up to date: nobody waits
//! for the end of one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::api::{Cache, VolumeSpec};
use array::{Array, BLOCK_BYTES, CreateOptions, Env, Level, Member, OpenOptions};
use block::{BlockDevice, WriteFlags};
use ring::Buf;

use crate::disk::Drive;
use crate::env::SimEnv;
use crate::executor;
use crate::random::Random;

/// Each with a journal of 8 MiB.
const DRIVE_BYTES: u64 = 512 << 20;
const DRIVES: usize = 4;
const VOLUME_BYTES: u64 = 24 << 20;
const WRITERS: u64 = 32;
/// By all of them: several journals full.
const WRITES: u64 = 6_000;
/// The longest write: a drive takes up to 20 ms for one request in 64, and a write of the journal and the line before
/// it may both meet some. A writer that waits for the end of a checkpoint waits three times as long and more.
const WAIT_MAX: Duration = Duration::from_millis(150);

fn block(random: &Random) -> Buf {
    let mut block = Buf::alloc(BLOCK_BYTES).expect("memory for a block");
    block.fill(random.below(255) as u8 + 1);
    block
}

async fn array(env: &SimEnv, level: Level) -> (Array, Arc<dyn BlockDevice>) {
    let drives = (0..DRIVES).map(|number| Drive::new(env, number, DRIVE_BYTES));
    let members = drives.map(|drive| Member { name: drive.name(), device: drive.plug() }).collect();
    let options = CreateOptions {
        level,
        chunk_bytes: Some(8 << 20),
        open: OpenOptions::default(),
        journal: vec![],
    };
    let array = Array::create(Arc::new(env.clone()), members, options).await.expect("blank drives");
    let spec = VolumeSpec {
        name: "v".into(),
        size_bytes: VOLUME_BYTES,
        level: None,
        thick: false,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    };
    array.create_volume(spec).await.expect("there is room");
    let volume = array.device("v").expect("it is served");
    for at in (0..VOLUME_BYTES).step_by(1 << 20) {
        let mut data = Buf::alloc(1 << 20).expect("memory for a MiB");
        data.fill(at as u8 | 1);
        volume.write(at, data.freeze(), WriteFlags::DURABLE).await.expect("it is written");
    }
    array.checkpoint().await.expect("all is in place");
    (array, volume)
}

/// The longest wait of all writers, and how much was in the journal at most, in percent.
async fn pressed(env: SimEnv, level: Level) -> (Duration, u64) {
    let (array, volume) = array(&env, level).await;
    let longest = Rc::new(Cell::new(Duration::ZERO));
    let fullest = Rc::new(Cell::new(0));
    let left = Rc::new(Cell::new(WRITERS));
    for _ in 0..WRITERS {
        let (volume, array, env, random) =
            (volume.clone(), array.clone(), env.clone(), env.fork_random());
        let (longest, fullest, left) = (longest.clone(), fullest.clone(), left.clone());
        env.clone().spawn(Box::pin(async move {
            for _ in 0..WRITES / WRITERS {
                let at = random.below(VOLUME_BYTES / BLOCK_BYTES as u64) * BLOCK_BYTES as u64;
                let began = env.now();
                let write = volume.write(at, block(&random).freeze(), WriteFlags::DURABLE);
                write.await.expect("it is written");
                longest.set(longest.get().max(env.now() - began));
                let info = array.info();
                fullest.set(fullest.get().max(info.journal_used_bytes * 100 / info.journal_bytes));
            }
            left.set(left.get() - 1);
        }));
    }
    while left.get() > 0 {
        env.sleep(Duration::from_millis(10)).await;
    }
    array.close().await.expect("it closes");
    (longest.get(), fullest.get())
}

#[test]
fn no_writer_waits_for_the_end_of_a_checkpoint() {
    for level in [Level::Raid5, Level::Raid6] {
        for seed in 0..3 {
            let (longest, fullest) = executor::run(seed, |env| pressed(env, level));
            eprintln!("{level}, seed {seed}: {longest:?}, {fullest} % full");
            assert!(fullest > 40, "{level}, seed {seed}: no checkpoint had to hurry");
            assert!(longest < WAIT_MAX, "{level}, seed {seed}: a write took {longest:?}");
        }
    }
}

#[cfg(feature = "mutants")]
#[test]
fn writers_that_rush_on_wait_for_the_end_of_a_checkpoint() {
    use array::mutants::{Mutant, plant};
    plant(Some(Mutant::RushOn));
    let (longest, fullest) = executor::run(0, |env| pressed(env, Level::Raid5));
    plant(None);
    assert!(longest > WAIT_MAX, "a write took {longest:?} in a journal {fullest} % full");
}
