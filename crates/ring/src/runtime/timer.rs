//! Timers of one core.
//!
//! A sleep of a second or more ends on a grid of 250 ms: thousands of keepalive timers then share a
//! few wake-ups a second, and an idle core stays asleep.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::Core;

const COARSE_FROM: Duration = Duration::from_secs(1);
const GRID_NS: u128 = 250_000_000;

type Key = (Instant, u64);

pub(super) struct Timers {
    epoch: Instant,
    waiting: RefCell<BTreeMap<Key, Waker>>,
    serial: Cell<u64>,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { epoch: Instant::now(), waiting: RefCell::default(), serial: Cell::new(0) }
    }
}

impl Timers {
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.borrow().first_key_value().map(|(key, _)| key.0)
    }

    /// Wakes everyone whose time has come.
    pub(super) fn fire(&self, now: Instant) {
        loop {
            let mut waiting = self.waiting.borrow_mut();
            let Some(entry) = waiting.first_entry().filter(|entry| entry.key().0 <= now) else {
                return;
            };
            let waker = entry.remove();
            drop(waiting);
            waker.wake();
        }
    }

    fn add(&self, deadline: Instant, waker: Waker) -> Key {
        let key = (deadline, self.serial.get());
        self.serial.set(key.1 + 1);
        self.waiting.borrow_mut().insert(key, waker);
        key
    }

    /// `deadline` moved up to the grid.
    fn coarse(&self, deadline: Instant) -> Instant {
        let past_grid_ns = deadline.saturating_duration_since(self.epoch).as_nanos() % GRID_NS;
        let late_ns = u64::try_from((GRID_NS - past_grid_ns) % GRID_NS).expect("below GRID_NS");
        deadline.checked_add(Duration::from_nanos(late_ns)).unwrap_or(deadline)
    }
}

/// The future of [`sleep`] and [`sleep_until`].
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    core: Rc<Core>,
    deadline: Instant,
    key: Option<Key>,
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish()
    }
}

/// Resumes after `duration`; from one second on up to 250 ms later.
pub fn sleep(duration: Duration) -> Sleep {
    const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);
    sleep_until(Instant::now() + duration.min(FAR))
}

/// Resumes at `deadline`; up to 250 ms later when that is a second or more away.
pub fn sleep_until(deadline: Instant) -> Sleep {
    let core = Core::current();
    let far = deadline.saturating_duration_since(core.now.get()) >= COARSE_FROM;
    let deadline = if far { core.timers.coarse(deadline) } else { deadline };
    Sleep { core, deadline, key: None }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.core.now.get() >= self.deadline {
            return Poll::Ready(());
        }
        let this = &mut *self;
        match this.key {
            None => this.key = Some(this.core.timers.add(this.deadline, cx.waker().clone())),
            Some(key) => {
                if let Some(waker) = this.core.timers.waiting.borrow_mut().get_mut(&key) {
                    waker.clone_from(cx.waker());
                }
            }
        }
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.core.timers.waiting.borrow_mut().remove(&key);
        }
    }
}

/// Runs `future` for `duration` at most; `None` when the time was up first.
pub async fn timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut sleep = pin!(sleep(duration));
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        if let Poll::Ready(value) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(value));
        }
        sleep.as_mut().poll(cx).map(|()| None)
    })
    .await
}
