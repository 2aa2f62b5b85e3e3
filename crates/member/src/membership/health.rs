//! Whether the part of the store that this member runs does its work, as it is told of: an etcd that runs again within
//! seconds was not away, and one that ends again and again does not run, however often it is started.
//!
//! ```text
//!            a fault                 for SETTLED               well for SETTLED
//!   Well ──────────────▶ Failing ─────────────────▶ Told ───────────────────────▶ Well
//!     ▲                    │        Down                             Up
//!     ╰────────────────────╯
//!        well for SETTLED
//! ```

use std::time::{Duration, Instant};

/// So long it must be one or the other before anybody is told.
const SETTLED: Duration = Duration::from_secs(10);

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// It does not run, and why.
    Down(String),
    /// It does again.
    Up,
}

/// What was seen of it.
#[derive(Debug, Default)]
pub(super) struct Health {
    /// The first fault since it was well.
    failing_since: Option<Instant>,
    /// Since when there is no fault.
    well_since: Option<Instant>,
    /// What is wrong with it, of which somebody was told.
    told: Option<String>,
}

impl Health {
    /// Looks at it: what is wrong with it now, if anything.
    pub(super) fn look(&mut self, fault: Option<String>, now: Instant) -> Option<News> {
        let has_settled = |since: Instant| now.saturating_duration_since(since) >= SETTLED;
        let Some(fault) = fault else {
            if has_settled(*self.well_since.get_or_insert(now)) {
                self.failing_since = None;
                return self.told.take().map(|_| News::Up);
            }
            return None;
        };
        self.well_since = None;
        if !has_settled(*self.failing_since.get_or_insert(now)) {
            return None;
        }
        let before = self.told.replace(fault.clone());
        before.is_none().then_some(News::Down(fault))
    }

    /// What is wrong with it, as it was told; in its latest words.
    pub(super) fn fault(&self) -> Option<String> {
        self.told.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at it each second, as long as there are words: `x` is a fault.
    fn told(health: &mut Health, begun: Instant, seconds: u64, faults: &str) -> Vec<(u64, News)> {
        let mut told = Vec::new();
        for (second, letter) in (seconds..).zip(faults.chars()) {
            let fault = (letter == 'x').then(|| format!("at {second}"));
            let news = health.look(fault, begun + Duration::from_secs(second));
            told.extend(news.map(|news| (second, news)));
        }
        told
    }

    #[test]
    fn an_etcd_that_is_started_again_was_not_away() {
        let (mut health, begun) = (Health::default(), Instant::now());
        assert!(told(&mut health, begun, 0, "..xxx................x........x").is_empty());
        assert_eq!(health.fault(), None);
    }

    #[test]
    fn one_that_ends_whenever_it_is_started_does_not_run() {
        let (mut health, begun) = (Health::default(), Instant::now());
        let down = (13, News::Down("at 13".to_owned()));
        assert!(told(&mut health, begun, 0, "..x.x..x.....").is_empty());
        assert_eq!(told(&mut health, begun, 13, "x..x.........x"), [down], "that is told once");
        assert_eq!(health.fault().as_deref(), Some("at 26"), "its last words");
        assert!(told(&mut health, begun, 27, "..........").is_empty());
        assert!(health.fault().is_some(), "it may end again");
        assert_eq!(told(&mut health, begun, 37, "."), [(37, News::Up)]);
        assert_eq!(health.fault(), None);
        assert!(told(&mut health, begun, 38, ".....x..........").is_empty(), "another time");
    }
}
