//! Says a thing once, not a thousand times: a flood of bad packets must not become a flood of log
//! lines.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long one kind of message stays quiet after it was said.
const QUIET: Duration = Duration::from_secs(10);

/// One kind of message. Shared by all cores.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// How often it is said in that time.
    often: u64,
    said: AtomicU64,
    /// Milliseconds after `START` from which it may be said again.
    again_ms: AtomicU64,
    held_back: AtomicU64,
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

impl Quiet {
    pub(crate) const fn new() -> Self {
        Self::often(1)
    }

    /// A message that may come so often before the rest is held back.
    pub(crate) const fn often(often: u64) -> Self {
        let [said, again_ms, held_back] = [const { AtomicU64::new(0) }; 3];
        Self { often, said, again_ms, held_back }
    }

    /// `Some(n)`: say it now, `n` were held back since the last time. `None`: hold it back.
    pub(crate) fn may_say(&self) -> Option<u64> {
        self.may_say_at(START.elapsed())
    }

    fn may_say_at(&self, now: Duration) -> Option<u64> {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let again_ms = self.again_ms.load(Ordering::Relaxed);
        let next_ms = now_ms + u64::try_from(QUIET.as_millis()).unwrap_or(u64::MAX);
        if now_ms < again_ms && self.said.fetch_add(1, Ordering::Relaxed) + 1 < self.often {
            return Some(0);
        }
        if now_ms < again_ms
            || self
                .again_ms
                .compare_exchange(again_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            self.held_back.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.said.store(0, Ordering::Relaxed);
        Some(self.held_back.swap(0, Ordering::Relaxed))
    }
}

/// `quietly!(KIND, warn, "text {}", x)`: logs at most once in ten seconds per kind and says how many
/// were held back. What is caused by peers, who need not even be let in, is logged under a target of its kind, so that
/// whoever keeps what is logged can tell how much of it to keep.
macro_rules! quietly {
    (LOGIN, $($rest:tt)+) => { quietly!(@LOGIN, "target::peers::login", $($rest)+) };
    (PROTOCOL, $($rest:tt)+) => { quietly!(@PROTOCOL, "target::peers::protocol", $($rest)+) };
    (STALL, $($rest:tt)+) => { quietly!(@STALL, "target::peers::stall", $($rest)+) };
    (FLOOD, $($rest:tt)+) => { quietly!(@FLOOD, "target::peers::flood", $($rest)+) };
    (@$kind:path, $target:expr, $level:ident, $($text:tt)+) => {
        if let Some(held_back) = $kind.may_say() {
            if held_back == 0 {
                tracing::$level!(target: $target, $($text)+);
            } else {
                tracing::$level!(target: $target, held_back, $($text)+);
            }
        }
    };
    ($kind:path, $($rest:tt)+) => { quietly!(@$kind, module_path!(), $($rest)+) };
}
pub(crate) use quietly;

/// A peer broke the protocol and its connection is dropped.
pub(crate) static PROTOCOL: Quiet = Quiet::new();
/// Hosts that log in: each is told of, a flood of them is counted.
pub(crate) static SESSION: Quiet = Quiet::often(100);
/// A login was refused.
pub(crate) static LOGIN: Quiet = Quiet::new();
/// A connection cannot be accepted.
pub(crate) static ACCEPT: Quiet = Quiet::new();
/// Too many connections.
pub(crate) static FLOOD: Quiet = Quiet::new();
/// A peer stopped reading, sending or answering.
pub(crate) static STALL: Quiet = Quiet::new();
/// What a unit is to keep could not be saved.
pub(crate) static UNSAVED: Quiet = Quiet::often(10);
/// A disk failed a command.
pub(crate) static MEDIUM: Quiet = Quiet::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_come_often_is_said_so_often() {
        let kind = Quiet::often(3);
        let said = |seconds| kind.may_say_at(Duration::from_secs(seconds));
        assert_eq!([1, 1, 2, 2, 3].map(said), [Some(0), Some(0), Some(0), None, None]);
        assert_eq!([12, 13, 13, 13].map(said), [Some(2), Some(0), Some(0), None]);
    }

    #[test]
    fn a_flood_is_one_line_and_a_count() {
        let kind = Quiet::new();
        assert_eq!(kind.may_say_at(Duration::from_secs(1)), Some(0));
        for _ in 0..1000 {
            assert_eq!(kind.may_say_at(Duration::from_secs(2)), None);
        }
        assert_eq!(kind.may_say_at(Duration::from_secs(12)), Some(1000));
        assert_eq!(kind.may_say_at(Duration::from_secs(13)), None);
    }
}
