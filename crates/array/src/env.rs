//! What the array asks of the world: time, tasks and chance. One implementation runs on the cores
//! of `ring`, one in the simulation, where a seed decides everything.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A task without a result.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Time, tasks and chance.
pub trait Env: Send + Sync + Debug {
    /// Time since some moment before the array was opened; never goes back.
    fn now(&self) -> Duration;

    /// Seconds since 1970 by the wall clock, for people.
    fn unix_seconds(&self) -> u64;

    /// Ends after `time`.
    fn sleep(&self, time: Duration) -> Task;

    /// Runs `task` on this core, until it ends.
    fn spawn(&self, task: Task);

    /// A random number.
    fn random(&self) -> u64;
}

/// The world of a core of `ring`.
#[derive(Debug, Default, Clone, Copy)]
pub struct RingEnv;

impl Env for RingEnv {
    fn now(&self) -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }

    fn unix_seconds(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |time| time.as_secs())
    }

    fn sleep(&self, time: Duration) -> Task {
        Box::pin(ring::sleep(time))
    }

    fn spawn(&self, task: Task) {
        ring::spawn(task);
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        u64::from_le_bytes(bytes)
    }
}
