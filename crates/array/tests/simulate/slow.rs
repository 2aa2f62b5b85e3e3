//! An array on disks as slow as real ones, in virtual time: what hosts wait for while disks come and go.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use array::api::{Cache, VolumeSpec};
use array::{Array, BLOCK_BYTES, CreateOptions, Env, Level, Member, Task};
use block::{BlockDevice, DriveClass, ModelDisk, ModelTime, RamDisk, WriteFlags};
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
