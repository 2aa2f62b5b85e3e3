//! The world of a simulated machine: virtual time and seeded chance, in which everything else runs.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use array::{Env, Task};

use crate::executor;
use crate::random::Random;
use crate::trace::{Step, Trace};

/// Some day of 2026, when every history begins.
const UNIX_SECONDS: u64 = 1_780_000_000;

/// Time, tasks and chance from one seed. Clones are handles to the same world.
///
/// Tasks are not `Send` but an [`Env`] is, so the tasks live with the thread (see
/// [`executor`](crate::executor)) and only what wakers and clocks need lives here.
#[derive(Clone)]
pub(crate) struct SimEnv(Arc<World>);

struct World {
    seed: u64,
    clock: Mutex<Clock>,
    ready: Arc<executor::Ready>,
    trace: Trace,
    /// What `Env::random` gives.
    random: Random,
    /// Which ready task runs next, and how long it takes.
    order: Random,
    /// Set while the machine is without power: nothing begins any more.
    dead: AtomicBool,
    /// Writes that matter most until the power goes ...
    telling: AtomicU64,
    /// ... and steps until it does.
    cut_in: AtomicU64,
    /// How many of those writes there have been, and who waits for the next one.
    told: AtomicU64,
    listeners: Mutex<Vec<Waker>>,
}

#[derive(Default)]
struct Clock {
    now: Duration,
    /// By deadline, then by age.
    timers: BTreeMap<(Duration, u64), Waker>,
    next_timer: u64,
}

impl SimEnv {
    /// A new world; `loud` prints every step as it happens.
    pub(crate) fn new(seed: u64, loud: bool) -> Self {
        let random = Random::new(seed);
        Self(Arc::new(World {
            seed,
            clock: Mutex::default(),
            ready: Arc::default(),
            trace: Trace::new(loud),
            order: random.fork(),
            random,
            dead: AtomicBool::new(false),
            telling: AtomicU64::new(u64::MAX),
            cut_in: AtomicU64::new(u64::MAX),
            told: AtomicU64::new(0),
            listeners: Mutex::default(),
        }))
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.seed
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.trace.note(self.now(), text.into());
    }

    pub(crate) fn step(&self, step: Step) {
        self.0.trace.disk(self.now(), step);
    }

    /// A stream of chance for one purpose.
    pub(crate) fn fork_random(&self) -> Random {
        self.0.random.fork()
    }

    /// Does something as if it had drawn nothing.
    pub(crate) fn aside<T>(&self, something: impl FnOnce() -> T) -> T {
        self.0.random.aside(|| self.0.order.aside(something))
    }

    pub(crate) fn order(&self) -> &Random {
        &self.0.order
    }

    pub(crate) fn ready(&self) -> &Arc<executor::Ready> {
        &self.0.ready
    }

    /// Whether the machine is without power.
    pub(crate) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::Relaxed)
    }

    pub(crate) fn set_dead(&self, dead: bool) {
        self.0.dead.store(dead, Ordering::Relaxed);
    }

    /// The power is to go soon after so many writes of labels, of checkpoints or to the redo area:
    /// most that can go wrong goes wrong between two of those. `None`: it is not.
    pub(crate) fn arm_cut(&self, writes: Option<u64>) {
        self.0.telling.store(writes.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.0.cut_in.store(u64::MAX, Ordering::Relaxed);
    }

    /// Until the next such write begins.
    pub(crate) async fn next_telling_write(&self) {
        let before = self.0.told.load(Ordering::Relaxed);
        std::future::poll_fn(|context| {
            if self.0.told.load(Ordering::Relaxed) != before {
                return Poll::Ready(());
            }
            self.listeners().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn listeners(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.listeners.lock().expect("nothing panics while it holds the listeners")
    }

    /// Such a write begins.
    pub(crate) fn telling_write(&self) {
        self.0.told.fetch_add(1, Ordering::Relaxed);
        std::mem::take(&mut *self.listeners()).into_iter().for_each(Waker::wake);
        let left = self.0.telling.load(Ordering::Relaxed);
        if left == 0 {
            self.0.cut_in.store(self.0.order.below(100), Ordering::Relaxed);
        }
        if left != u64::MAX {
            self.0.telling.store(left.wrapping_sub(1), Ordering::Relaxed);
        }
    }

    /// Counts a step; whether the power goes now.
    pub(crate) fn is_cut(&self) -> bool {
        let left = self.0.cut_in.load(Ordering::Relaxed);
        if left != u64::MAX {
            self.0.cut_in.store(left.saturating_sub(1), Ordering::Relaxed);
        }
        left == 0
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.0.clock.lock().expect("nothing panics while it holds the clock")
    }

    /// Lets `time` pass and wakes who waited for it.
    pub(crate) fn pass(&self, time: Duration) {
        let mut due = Vec::new();
        let mut clock = self.clock();
        clock.now += time;
        let now = clock.now;
        while let Some(first) = clock.timers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        // Wakers may ask for the time, so the clock is let go first.
        drop(clock);
        due.into_iter().for_each(Waker::wake);
    }

    /// Moves on to the next deadline; false if there is none.
    pub(crate) fn skip(&self) -> bool {
        let clock = self.clock();
        let Some(&(deadline, _)) = clock.timers.keys().next() else { return false };
        let time = deadline.saturating_sub(clock.now);
        drop(clock);
        self.pass(time);
        true
    }

    /// Forgets all timers: their tasks are gone.
    pub(crate) fn stop_timers(&self) {
        let timers = std::mem::take(&mut self.clock().timers);
        drop(timers);
    }
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimEnv").field("seed", &self.0.seed).field("now", &self.now()).finish()
    }
}

impl Env for SimEnv {
    fn now(&self) -> Duration {
        self.clock().now
    }

    fn unix_seconds(&self) -> u64 {
        UNIX_SECONDS + self.now().as_secs()
    }

    fn sleep(&self, time: Duration) -> Task {
        Box::pin(Sleep { env: self.clone(), deadline: self.now() + time, timer: None })
    }

    fn spawn(&self, task: Task) {
        if self.is_dead() {
            return;
        }
        executor::spawn(self, task);
    }

    fn random(&self) -> u64 {
        self.0.random.word()
    }
}

struct Sleep {
    env: SimEnv,
    deadline: Duration,
    /// Its number among the timers, once it was polled.
    timer: Option<u64>,
}

impl Sleep {
    fn cancel(&mut self) {
        if let Some(timer) = self.timer.take() {
            let waker = self.env.clock().timers.remove(&(self.deadline, timer));
            drop(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.cancel();
        if self.env.now() >= self.deadline {
            return Poll::Ready(());
        }
        let deadline = self.deadline;
        let mut clock = self.env.clock();
        let timer = clock.next_timer;
        clock.next_timer += 1;
        clock.timers.insert((deadline, timer), cx.waker().clone());
        drop(clock);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}
