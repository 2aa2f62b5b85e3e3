//! Arrays to try things on.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use array::api::{Cache, DiskState, VolumeSpec};
use array::label::Layout;
use array::{Array, CreateOptions, Env, Level, Member, OpenOptions, RingEnv, Task};
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, RamDisk, WriteFlags};
use futures_util::future::{Either, select};
use ring::{Buf, Data};

use crate::process::Held;

/// Runs a test on a core.
pub(crate) fn run(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).expect("a core can be made");
}

/// Disks that keep their contents from one array to the next.
#[derive(Clone)]
pub(crate) struct Shelf(pub(crate) Vec<Arc<FaultyDisk>>);

impl Shelf {
    pub(crate) fn new(count: usize, mib: u64) -> Self {
        let disk = |_| {
            let ram = RamDisk::new(4096, mib * 256).expect("address space");
            Arc::new(FaultyDisk::new(Arc::new(ram)))
        };
        Self((0..count).map(disk).collect())
    }

    pub(crate) fn members(&self) -> Vec<Member> {
        let member = |(index, disk): (usize, &Arc<FaultyDisk>)| Member {
            name: format!("disk-{index}"),
            device: Arc::new(Held::new(disk)) as Arc<dyn BlockDevice>,
        };
        self.0.iter().enumerate().map(member).collect()
    }

    /// Writes of checkpoint records end so on this disk from now on; those of marks, which lie where a record
    /// has its head, do not.
    pub(crate) fn at_records(&self, disk: usize, fault: Fault) {
        let sizes: Vec<u64> = self.0.iter().map(|disk| disk.geometry().size_bytes()).collect();
        let layout = Layout::choose(&sizes, Some(1 << 20)).expect("an array fits");
        for slot in 0..2 {
            let at = layout.checkpoint_at(slot) + 4096;
            self.0[disk].inject(Rule::always(Operation::Write, fault).at(at..at + 4096));
        }
    }

    pub(crate) async fn create(&self, level: Level) -> Array {
        self.create_in(Arc::new(RingEnv), level).await
    }

    pub(crate) async fn create_in(&self, env: Arc<dyn Env>, level: Level) -> Array {
        let options = CreateOptions { level, chunk_bytes: Some(1 << 20), ..Default::default() };
        let made = Array::create(env, self.members(), options).await;
        made.expect("an array of blank disks")
    }

    /// With disks for the journal alone.
    pub(crate) async fn create_with_journal(&self, fast: &Shelf) -> Array {
        let journal = fast.members().into_iter().enumerate();
        let journal = journal.map(|(at, m)| Member { name: format!("fast-{at}"), ..m }).collect();
        let options = CreateOptions {
            level: Level::Raid5,
            chunk_bytes: Some(1 << 20),
            journal,
            ..Default::default()
        };
        let made = Array::create(Arc::new(RingEnv), self.members(), options).await;
        made.expect("an array of blank disks")
    }

    /// A disk fails whatever it is asked for, until it is healed.
    pub(crate) fn pull(&self, disk: usize) {
        for operation in [Operation::Read, Operation::Write, Operation::Flush] {
            let fault = Fault::Fail(BlockError::Medium { at: 0 });
            self.0[disk].inject(Rule::always(operation, fault));
        }
    }

    /// A disk refuses writes for lack of space, until it is healed.
    pub(crate) fn refuse_writes(&self, disk: usize) {
        self.0[disk].inject(Rule::always(Operation::Write, Fault::Fail(BlockError::NoSpace)));
    }

    pub(crate) async fn open(&self) -> Array {
        let opened = Array::open(Arc::new(RingEnv), self.members(), OpenOptions::default()).await;
        opened.expect("the array is whole")
    }
}

/// A world in which a minute is two seconds.
#[derive(Debug)]
pub(crate) struct Hasty;

const HASTE: u32 = 30;

impl Env for Hasty {
    fn now(&self) -> Duration {
        RingEnv.now() * HASTE
    }

    fn unix_seconds(&self) -> u64 {
        RingEnv.unix_seconds()
    }

    fn sleep(&self, time: Duration) -> Task {
        RingEnv.sleep(time / HASTE)
    }

    fn spawn(&self, task: Task) {
        RingEnv.spawn(task);
    }

    fn random(&self) -> u64 {
        RingEnv.random()
    }
}

/// Time goes as fast as a test says, from now on.
#[derive(Debug, Clone)]
pub(crate) struct Paced(Arc<Mutex<Pace>>);

/// How fast time goes, and since when.
#[derive(Debug)]
struct Pace {
    times: u32,
    since: Duration,
    was: Duration,
}

impl Pace {
    fn now(&self) -> Duration {
        self.was + (RingEnv.now() - self.since) * self.times
    }
}

impl Paced {
    pub(crate) fn new() -> Self {
        let now = RingEnv.now();
        Self(Arc::new(Mutex::new(Pace { times: HASTE, since: now, was: now })))
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().expect("nothing panics while it holds the pace")
    }

    fn go(&self, times: u32) {
        let pace = &mut *self.pace();
        *pace = Pace { times, since: RingEnv.now(), was: pace.now() };
    }

    /// As on the clock.
    pub(crate) fn slowly(&self) {
        self.go(1);
    }

    /// As [`Hasty`].
    pub(crate) fn fast(&self) {
        self.go(HASTE);
    }
}

impl Env for Paced {
    fn now(&self) -> Duration {
        self.pace().now()
    }

    fn unix_seconds(&self) -> u64 {
        RingEnv.unix_seconds()
    }

    fn sleep(&self, time: Duration) -> Task {
        let (paced, end) = (self.clone(), self.now() + time);
        Box::pin(async move {
            while let Some(left) = end.checked_sub(paced.now()).filter(|left| !left.is_zero()) {
                // Not for long, as the pace may change meanwhile.
                let left = left / paced.pace().times;
                RingEnv.sleep(left.clamp(SLICE_MIN, SLICE_MAX)).await;
            }
        })
    }

    fn spawn(&self, task: Task) {
        RingEnv.spawn(task);
    }

    fn random(&self) -> u64 {
        RingEnv.random()
    }
}

const SLICE_MIN: Duration = Duration::from_micros(1);
const SLICE_MAX: Duration = Duration::from_millis(20);

pub(crate) fn spec(name: &str, mib: u64) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        size_bytes: mib << 20,
        level: None,
        thick: false,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    }
}

pub(crate) fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed | 1).collect()
}

pub(crate) fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).expect("buffers");
    buf.copy_from_slice(bytes);
    buf.freeze()
}

pub(crate) async fn write(device: &Arc<dyn BlockDevice>, at: u64, bytes: &[u8]) {
    device.write(at, data(bytes), WriteFlags::DURABLE).await.expect("the write is done");
}

pub(crate) async fn read(device: &Arc<dyn BlockDevice>, at: u64, len: usize) -> Vec<u8> {
    let data = device.read(at, len).await.expect("the read is done");
    let mut bytes = vec![0; len];
    data.copy_to(0, &mut bytes);
    bytes
}

/// Nothing is wrong with the array.
pub(crate) async fn sound(array: &Array) {
    let report = array.check().await.expect("it can be checked");
    assert_eq!(report.problems, Vec::<String>::new());
}

/// What becomes of this while its core takes so many turns of a millisecond and more; `None` when it waits still. By the
/// clock it would seem to wait where somebody else has the machine: then its core has no turns either.
pub(crate) async fn in_turns<T>(turns: usize, waiting: impl Future<Output = T>) -> Option<T> {
    let mut waiting = pin!(waiting);
    for _ in 0..turns {
        match select(waiting.as_mut(), pin!(ring::sleep(Duration::from_millis(1)))).await {
            Either::Left((done, _)) => return Some(done),
            Either::Right(_) => {}
        }
    }
    None
}

/// Waits until something is so, which must not take long.
pub(crate) async fn until(array: &Array, what: &str, mut is_so: impl FnMut(&Array) -> bool) {
    for _ in 0..6000 {
        if is_so(array) {
            return;
        }
        ring::sleep(Duration::from_millis(5)).await;
    }
    panic!("waited for long: {what}: {:?} {:?} {:?}", array.disks(), array.jobs(), array.events(0));
}

pub(crate) async fn all_online(array: &Array) {
    let is_online = |array: &Array| array.disks().iter().all(|d| d.state == DiskState::Online);
    until(array, "all disks are online", is_online).await;
}
