//! Accounts whose password was right, and from where: they do not wait behind strangers, however many these are. Who was
//! let in elsewhere is a stranger here, so nothing is known of a name alone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::place::Place;

/// How long it counts: somebody who comes once a week is known.
const MEMORY: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Of these, more than there are people; beyond that the oldest is forgotten.
const KNOWN_MAX: usize = 1024;

/// When somebody got in last.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<(Place, String), Instant>>);

impl Known {
    /// The password of this account was right, from there.
    pub(super) fn got_in(&self, place: Place, account: &str) {
        self.got_in_at(place, account, Instant::now());
    }

    /// Whether it was lately.
    pub(super) fn has(&self, place: Place, account: &str) -> bool {
        self.has_at(place, account, Instant::now())
    }

    fn got_in_at(&self, place: Place, account: &str, now: Instant) {
        // Each change is one call.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((place, account.to_owned()), now);
        if all.len() > KNOWN_MAX {
            let oldest = all.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            oldest.and_then(|key| all.remove(&key));
        }
    }

    fn has_at(&self, place: Place, account: &str, now: Instant) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.get(&(place, account.to_owned()));
        at.is_some_and(|at| now.saturating_duration_since(*at) < MEMORY)
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn who_got_in_is_known_from_there_for_a_while_and_few_are() {
        let (known, begun) = (Known::default(), Instant::now());
        let place = |text: &str| Place::from(text.parse::<IpAddr>().unwrap());
        known.got_in_at(place("2001:db8::1"), "ada", begun);
        assert!(known.has_at(place("2001:db8::2"), "ada", begun), "one network of 64 bits");
        assert!(!known.has_at(place("2001:db8:0:1::1"), "ada", begun));
        assert!(!known.has_at(place("2001:db8::1"), "bob", begun));
        assert!(!known.has_at(place("2001:db8::1"), "ada", begun + MEMORY));
        for number in 1..=KNOWN_MAX as u64 {
            let at = begun + Duration::from_millis(number);
            known.got_in_at(place("192.0.2.1"), &number.to_string(), at);
        }
        assert_eq!(known.0.lock().unwrap().len(), KNOWN_MAX);
        assert!(!known.has_at(place("2001:db8::1"), "ada", begun), "the oldest is forgotten");
    }
}
