//! Whether a slice can be reached, and since when not.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::wait::SharedBell;

/// What all who use a link see of it. Each request asks, so that is one atomic load while all is well.
#[derive(Debug)]
pub(super) struct Reach {
    began: Instant,
    /// Milliseconds since it began, and one; 0 while the slice works.
    down_since: AtomicU64,
    /// Why it does not; empty where that is not known.
    why: Mutex<String>,
    /// Rings when it works.
    bell: SharedBell,
}

impl Reach {
    /// Of a slice that was not reached yet.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            down_since: AtomicU64::new(1),
            why: Mutex::default(),
            bell: SharedBell::default(),
        }
    }

    /// It works since now, or does not since now.
    pub(super) fn set(&self, works: bool) {
        if works {
            self.down_since.store(0, Ordering::Release);
            self.note(String::new());
            self.bell.ring();
        } else {
            let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1;
            let since = |before| (before == 0).then_some(now);
            let _ = self.down_since.fetch_update(Ordering::AcqRel, Ordering::Acquire, since);
        }
    }

    /// For how long it does not work.
    pub(super) fn down_for(&self) -> Option<Duration> {
        match self.down_since.load(Ordering::Acquire) {
            0 => None,
            since => Some(self.began.elapsed().saturating_sub(Duration::from_millis(since - 1))),
        }
    }

    /// Why it does not. Whether that is news.
    pub(super) fn note(&self, why: String) -> bool {
        let mut last = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *last != why;
        *last = why;
        is_news
    }

    pub(super) fn why(&self) -> String {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it works, for so long at most. On a core.
    pub(super) async fn until_up(&self, limit: Duration) {
        let up = async {
            loop {
                let mark = self.bell.mark();
                if self.down_for().is_none() {
                    return;
                }
                self.bell.after(mark).await;
            }
        };
        ring::timeout(limit, up).await;
    }
}
