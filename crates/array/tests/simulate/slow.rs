//! An array on disks as slow as real ones, in virtual time: what hosts wait for while disks come and go.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use array::api::{Cache, VolumeSpec};
use array::{Array, BLOCK_BYTES, CreateOptions, Env, Level, Member, Task};
use block::{
    BlockDevice, BlockError, Compared, DriveClass, Extent, Geometry, IoFuture, ModelDisk,
    ModelTime, RamDisk, WriteFlags,
};
use ring::{Buf, Data};

use crate::env::SimEnv;
use crate::executor::Ended;
use crate::random::Random;

/// Polls that one of these histories may take.
const STEPS: u64 = 200_000_000;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Virtual time for the disks.
#[derive(Debug)]
struct SimTime(SimEnv);

impl ModelTime for SimTime {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn sleep_until(&self, until: Duration) -> Task {
        self.0.sleep(until.saturating_sub(self.0.now()))
    }

    fn spawn(&self, task: Task) {
        self.0.spawn(task);
    }
}

fn nl_sas(env: &SimEnv, number: usize, mib: u64) -> Member {
    let below = RamDisk::new(BLOCK_BYTES as u32, (mib << 20) / BLOCK).expect("memory");
    let time = Arc::new(SimTime(env.clone()));
    let device = Arc::new(ModelDisk::in_time(time, DriveClass::NlSas, Arc::new(below)));
    Member { name: format!("slow-{number}"), device }
}

/// A disk of which a test says whether it answers reads.
#[derive(Debug)]
struct Hanging {
    below: Arc<dyn BlockDevice>,
    hangs: Arc<AtomicBool>,
}

impl BlockDevice for Hanging {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        match self.hangs.load(Ordering::Relaxed) {
            true => IoFuture::boxed(std::future::pending()),
            false => self.below.read(at, len),
        }
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        self.below.write_now(at, bytes, flags)
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.below.write(at, data, flags)
    }

    fn flush(&self) -> IoFuture<()> {
        self.below.flush()
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.below.unmap(at, len)
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.below.write_zeroes(at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.below.compare_and_write(at, compare, write, flags)
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.below.or_write(at, data, flags)
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.below.extent(at)
    }
}

fn run(seed: u64, main: impl AsyncFnOnce(SimEnv)) {
    let env = SimEnv::new(seed, false);
    let (ended, _) = env.boot(Some(STEPS), main(env.clone()));
    assert_eq!(ended, Ended::Done(()), "it takes too many steps");
}

fn some(bytes: usize, byte: u8) -> Data {
    let mut buf = Buf::alloc(bytes).expect("memory");
    buf.fill(byte);
    buf.freeze()
}

/// RAID 5 on so many disks, with a volume that is full.
async fn filled(
    env: &SimEnv,
    members: Vec<Member>,
    volume_mib: u64,
) -> (Array, Arc<dyn BlockDevice>) {
    let options = CreateOptions { level: Level::Raid5, ..CreateOptions::default() };
    let array = Array::create(Arc::new(env.clone()), members, options).await.expect("blank disks");
    let spec = VolumeSpec {
        name: "v".into(),
        size_bytes: volume_mib << 20,
        level: None,
        thick: false,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    };
    array.create_volume(spec).await.expect("room for it");
    let volume = array.device("v").expect("it is there");
    for mib in 0..volume_mib {
        let data = some(1 << 20, mib as u8);
        volume.write(mib << 20, data, WriteFlags::DURABLE).await.expect("written");
    }
    (array, volume)
}

/// When something ended last, and how long nothing did at most.
#[derive(Default)]
struct Gaps {
    count: Cell<u64>,
    last: Cell<Duration>,
    longest: Cell<Duration>,
    is_over: Cell<bool>,
}

impl Gaps {
    fn ended(&self, now: Duration) {
        let gap = now - self.last.replace(now);
        self.count.set(self.count.get() + 1);
        self.longest.set(self.longest.get().max(gap));
    }
}

/// So many writers of 4 KiB anywhere, each with one write under way.
fn hosts(env: &SimEnv, volume: &Arc<dyn BlockDevice>, depth: usize) -> Rc<Gaps> {
    let gaps = Rc::new(Gaps::default());
    gaps.last.set(env.now());
    for _ in 0..depth {
        let (env2, volume, gaps) = (env.clone(), Arc::clone(volume), Rc::clone(&gaps));
        let random: Random = env.fork_random();
        env.spawn(Box::pin(async move {
            let blocks = volume.geometry().size_bytes() / BLOCK;
            while !gaps.is_over.get() {
                let at = random.below(blocks) * BLOCK;
                let data = some(BLOCK_BYTES, random.below(256) as u8);
                volume.write(at, data, WriteFlags::DURABLE).await.expect("written");
                gaps.ended(env2.now());
            }
        }));
    }
    gaps
}

/// A host that gets no answer for so long notices.
const GAP_MAX: Duration = Duration::from_secs(1);

/// One disk of three is replaced while hosts write as fast as they are answered: for how long no write ended, and what
/// stood still.
async fn replaced(env: SimEnv) -> (Duration, Vec<String>) {
    const DISK_MIB: u64 = 2048;
    let members = (0..3).map(|number| nl_sas(&env, number, DISK_MIB)).collect();
    let (array, volume) = filled(&env, members, 1024).await;
    let gaps = hosts(&env, &volume, 64);
    env.sleep(Duration::from_secs(5)).await;
    let (asking, new) = (array.clone(), nl_sas(&env, 3, DISK_MIB));
    let is_replaced = Rc::new(Cell::new(false));
    let replaced = Rc::clone(&is_replaced);
    env.spawn(Box::pin(async move {
        asking.replace_disk("slow-0", new).await.expect("there is room");
        replaced.set(true);
    }));
    let mut stalls = Vec::new();
    for _ in 0..100 {
        env.sleep(Duration::from_secs(1)).await;
        stalls.extend(array.info().stalls);
    }
    assert!(is_replaced.get() && gaps.count.get() > 1000, "hosts and operators were served");
    gaps.is_over.set(true);
    (gaps.longest.get().max(env.now() - gaps.last.get()), stalls)
}

#[test]
fn hosts_go_on_while_a_disk_is_replaced_and_nothing_is_said_to_stand_still() {
    run(1, async |env| {
        let (longest, stalls) = replaced(env).await;
        assert!(longest < GAP_MAX, "no write ended for {longest:?}");
        assert_eq!(stalls, Vec::<String>::new());
    });
}

#[cfg(feature = "mutants")]
#[test]
fn hosts_that_are_held_back_too_little_stop_while_a_disk_is_replaced() {
    use array::mutants::{Mutant, plant};
    plant(Some(Mutant::HastyWriters));
    run(1, async |env| {
        let (longest, _) = replaced(env).await;
        assert!(longest > GAP_MAX, "no write ended for {longest:?}");
    });
    plant(None);
}

/// So many readers of 4 KiB anywhere, each with one read under way; how long nobody got an answer, and for how long each
/// waited at most.
fn readers(
    env: &SimEnv,
    volume: &Arc<dyn BlockDevice>,
    depth: usize,
) -> (Rc<Gaps>, Rc<Cell<Duration>>) {
    let (gaps, longest) = (Rc::new(Gaps::default()), Rc::new(Cell::new(Duration::ZERO)));
    gaps.last.set(env.now());
    for _ in 0..depth {
        let (env2, volume, random) = (env.clone(), Arc::clone(volume), env.fork_random());
        let (gaps, longest) = (Rc::clone(&gaps), Rc::clone(&longest));
        env.spawn(Box::pin(async move {
            let blocks = volume.geometry().size_bytes() / BLOCK;
            while !gaps.is_over.get() {
                let (at, began) = (random.below(blocks) * BLOCK, env2.now());
                let data = volume.read(at, BLOCK_BYTES).await.expect("it is there");
                let bytes = data.as_slice().expect("it stands still");
                assert!(bytes.iter().all(|byte| *byte == (at >> 20) as u8), "what was written");
                longest.set(longest.get().max(env2.now() - began));
                gaps.ended(env2.now());
            }
        }));
    }
    (gaps, longest)
}

/// Longer than the patience with a disk that is slow.
const HANG_MAX: Duration = Duration::from_secs(4);

/// One disk of five hangs: how many reads ended before, in the same time beside it, and how long one took beside it.
async fn beside_a_hung_disk(env: SimEnv) -> (u64, u64, Duration) {
    let hangs = Arc::new(AtomicBool::new(false));
    let mut members: Vec<_> = (0..5).map(|number| nl_sas(&env, number, 512)).collect();
    let below = Arc::clone(&members[2].device);
    members[2].device = Arc::new(Hanging { below, hangs: Arc::clone(&hangs) });
    let (array, volume) = filled(&env, members, 256).await;
    array.checkpoint().await.expect("all is in its place");
    let (gaps, longest) = readers(&env, &volume, 32);
    env.sleep(Duration::from_secs(20)).await;
    let (before, alone) = (gaps.count.get(), longest.take());
    assert!(alone < Duration::from_secs(2), "a slow disk is waited for: {alone:?}");
    hangs.store(true, Ordering::Relaxed);
    env.sleep(Duration::from_secs(20)).await;
    gaps.is_over.set(true);
    (before, gaps.count.get() - before, longest.get())
}

#[test]
fn reads_go_on_beside_a_disk_that_hangs() {
    run(2, async |env| {
        let (before, beside, longest) = beside_a_hung_disk(env).await;
        assert!(longest < HANG_MAX, "a read took {longest:?}");
        assert!(beside * 4 > before, "{beside} reads beside it, {before} before");
    });
}

#[cfg(feature = "mutants")]
#[test]
fn reads_that_wait_for_a_disk_that_hangs_stop() {
    use array::mutants::{Mutant, plant};
    plant(Some(Mutant::WaitForLate));
    run(2, async |env| {
        let (before, beside, _) = beside_a_hung_disk(env).await;
        assert!(beside * 10 < before, "{beside} reads beside it, {before} before");
    });
    plant(None);
}
