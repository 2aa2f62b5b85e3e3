//! The time that a modelled disk lives in.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A task without a result.
pub(super) type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What a [`ModelDisk`](super::ModelDisk) waits by: the real time, or that of a simulation.
pub trait Time: Send + Sync + Debug {
    /// Since some moment; never goes back.
    fn now(&self) -> Duration;

    /// Ends at that time, and not before.
    fn sleep_until(&self, until: Duration) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Runs `task` beside its caller, until it ends.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()>>>);
}

/// That of the cores of `ring`.
#[derive(Debug)]
pub(super) struct RealTime;

fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

impl Time for RealTime {
    fn now(&self) -> Duration {
        start().elapsed()
    }

    fn sleep_until(&self, until: Duration) -> Task {
        Box::pin(ring::sleep_until(start() + until))
    }

    fn spawn(&self, task: Task) {
        ring::spawn(task);
    }
}
