//! Failed logins: who tries too often from one place waits, and nobody else does.
//!
//! Failures are counted for each place together with the account that it tried, and for each place as a
//! whole. Nothing is counted for an account alone: else anybody could lock anybody out. A right token
//! gets in from any place: it cannot be found by trying.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::place::Place;

/// Failures that cost nothing: of one account from a place, and of all from there.
const FREE_OF_ACCOUNT: u32 = 5;
const FREE_OF_PLACE: u32 = 20;

/// The longest wait; each further failure doubles it from one second on.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How long a failure counts.
const MEMORY: Duration = Duration::from_secs(15 * 60);

/// Counts that are kept. Beyond that the oldest is forgotten.
const COUNTS_MAX: usize = 4096;

/// The longest name that an account can have, and then some: longer ones count for the place only.
const NAME_BYTES_MAX: usize = 64;

type Key = (Place, Option<String>);

#[derive(Debug, Clone, Copy)]
struct Count {
    failures: u32,
    last: Instant,
}

impl Count {
    /// When the next try is heard.
    fn until(&self, free: u32) -> Instant {
        let Some(more) = self.failures.checked_sub(free) else { return self.last };
        let wait = Duration::from_secs(1 << more.min(10)).min(WAIT_MAX);
        self.last + wait
    }
}

/// Who failed, and how often.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<HashMap<Key, Count>>);

impl Throttle {
    fn counts(&self) -> MutexGuard<'_, HashMap<Key, Count>> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long this one has to wait until it is heard; `None` if it is now. An account that is known there waits for its
    /// own failures, and for nobody else's of the same place.
    pub(super) fn wait(
        &self,
        place: Place,
        account: Option<(&str, bool)>,
        now: Instant,
    ) -> Option<Duration> {
        let counts = self.counts();
        let until = |key: &Key, free| counts.get(key).map(|count| count.until(free));
        let is_known = account.is_some_and(|(_, is_known)| is_known);
        let of_place = until(&(place, None), FREE_OF_PLACE).filter(|_| !is_known);
        let of_account = account.and_then(|(name, _)| until(&key(place, name)?, FREE_OF_ACCOUNT));
        let until = of_place.max(of_account)?;
        until.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// It failed.
    pub(super) fn failed(&self, place: Place, account: Option<&str>, now: Instant) {
        let mut counts = self.counts();
        let keys = [Some((place, None)), account.and_then(|name| key(place, name))];
        for key in keys.into_iter().flatten() {
            if !counts.contains_key(&key) && counts.len() >= COUNTS_MAX {
                make_room(&mut counts, now);
            }
            let count = counts.entry(key).or_insert(Count { failures: 0, last: now });
            if now.duration_since(count.last) > MEMORY {
                count.failures = 0;
            }
            *count = Count { failures: count.failures.saturating_add(1), last: now };
        }
    }

    /// It got in: what it mistyped before is forgotten.
    pub(super) fn got_in(&self, place: Place, account: &str) {
        if let Some(key) = key(place, account) {
            self.counts().remove(&key);
        }
    }

    /// The same of one that was counted as a failure before it was known how it ends.
    pub(super) fn got_in_after_all(&self, place: Place, account: &str) {
        self.got_in(place, account);
        if let Some(count) = self.counts().get_mut(&(place, None)) {
            count.failures = count.failures.saturating_sub(1);
        }
    }
}

fn key(place: Place, account: &str) -> Option<Key> {
    (account.len() <= NAME_BYTES_MAX).then(|| (place, Some(account.to_owned())))
}

fn make_room(counts: &mut HashMap<Key, Count>, now: Instant) {
    counts.retain(|_, count| now.duration_since(count.last) <= MEMORY);
    if counts.len() >= COUNTS_MAX {
        let oldest = counts.iter().min_by_key(|(_, count)| count.last).map(|(key, _)| key.clone());
        oldest.and_then(|key| counts.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn place(text: &str) -> Place {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn who_was_counted_before_it_got_in_has_not_failed() {
        let (throttle, now, here) = (Throttle::default(), Instant::now(), place("192.0.2.1"));
        for number in 0..2 * FREE_OF_PLACE {
            let token = number.to_string();
            assert_eq!(throttle.wait(here, Some((&token, false)), now), None, "{number}");
            throttle.failed(here, Some(&token), now);
            throttle.got_in_after_all(here, &token);
        }
        for _ in 0..FREE_OF_PLACE {
            assert_eq!(throttle.wait(here, None, now), None);
            throttle.failed(here, None, now);
        }
        assert!(throttle.wait(here, None, now).is_some(), "failures count as ever");
    }

    #[test]
    fn who_tries_too_often_waits_longer_and_longer_and_nobody_else_does() {
        let (throttle, begun) = (Throttle::default(), Instant::now());
        let (here, there) = (place("192.0.2.1"), place("192.0.2.2"));
        let wait = |who, account, seconds| {
            throttle.wait(who, Some((account, false)), begun + Duration::from_secs(seconds))
        };
        for _ in 0..FREE_OF_ACCOUNT {
            assert_eq!(wait(here, "ada", 0), None);
            throttle.failed(here, Some("ada"), begun);
        }
        assert_eq!(wait(here, "ada", 0), Some(Duration::from_secs(1)));
        assert_eq!(wait(here, "ada", 1), None);
        for _ in 0..6 {
            throttle.failed(here, Some("ada"), begun);
        }
        assert_eq!(wait(here, "ada", 0), Some(WAIT_MAX));
        assert_eq!((wait(there, "ada", 0), wait(here, "bob", 0)), (None, None));
        throttle.got_in(here, "ada");
        assert_eq!(wait(here, "ada", 0), None);
        // Many names from one place.
        for number in 0..FREE_OF_PLACE {
            throttle.failed(here, Some(&number.to_string()), begun);
        }
        assert!(wait(here, "bob", 0).is_some() && wait(there, "bob", 0).is_none());
        assert_eq!(throttle.wait(here, Some(("bob", true)), begun), None, "he is known there");
        let later = begun + MEMORY + Duration::from_secs(1);
        throttle.failed(here, None, later);
        assert_eq!(
            throttle.wait(here, Some(("bob", false)), later),
            None,
            "what was long ago is over"
        );
    }

    #[test]
    fn what_is_kept_is_bounded_and_one_machine_is_one_place() {
        let (throttle, begun) = (Throttle::default(), Instant::now());
        for number in 0..2 * COUNTS_MAX as u32 {
            let from = Place::from(IpAddr::from(number.to_be_bytes()));
            throttle.failed(from, Some("ada"), begun + Duration::from_millis(number.into()));
        }
        assert_eq!(throttle.counts().len(), COUNTS_MAX);
        throttle.failed(place("192.0.2.1"), Some(&"x".repeat(1 << 16)), begun);
        assert!(
            throttle.counts().keys().all(|(_, name)| name.as_ref().is_none_or(|it| it == "ada"))
        );
        assert_eq!(place("2001:db8::1"), place("2001:db8::ffff:1"));
        assert_ne!(place("2001:db8::1"), place("2001:db8:0:1::1"));
        assert_eq!(place("::ffff:192.0.2.1"), place("192.0.2.1"));
    }
}
