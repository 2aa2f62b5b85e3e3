//! Refused logins by address: a host that tries again and again is told of a few times and then counted.
//! It reads no clock: the time is given to it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::REFUSALS_TOLD_MAX;

/// The time in which so many of one address are told one by one.
pub(super) const REFUSALS_TIME: Duration = Duration::from_secs(10);

/// How many addresses are told apart; what is refused of others counts as missed.
const ADDRESSES_MAX: usize = 1024;

#[derive(Debug)]
struct Address {
    since: Instant,
    told: u64,
    held_back: u64,
}

/// Who was refused lately.
#[derive(Debug, Default)]
pub(super) struct Flood(HashMap<IpAddr, Address>);

impl Flood {
    /// Whether a refusal is told by itself, or only counted.
    pub(super) fn may_tell(&mut self, from: IpAddr, now: Instant) -> Verdict {
        let from = from.to_canonical();
        if self.0.len() >= ADDRESSES_MAX && !self.0.contains_key(&from) {
            return Verdict::TooMany;
        }
        let new = Address { since: now, told: 0, held_back: 0 };
        let address = self.0.entry(from).or_insert(new);
        if address.told < REFUSALS_TOLD_MAX {
            address.told += 1;
            return Verdict::Tell;
        }
        address.held_back += 1;
        Verdict::HoldBack
    }

    /// The addresses whose time is over, with what was held back of each.
    pub(super) fn over(&mut self, now: Instant) -> Vec<(IpAddr, u64)> {
        let is_over = |address: &Address| now >= address.since + REFUSALS_TIME;
        let over = self.0.extract_if(|_, address| is_over(address));
        over.map(|(from, address)| (from, address.held_back)).filter(|(_, n)| *n > 0).collect()
    }

    /// When to ask for those [over](Self::over) again.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().map(|address| address.since + REFUSALS_TIME).min()
    }
}

/// What becomes of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Tell,
    /// It is in the count of its address.
    HoldBack,
    /// There are too many addresses to count it by its own.
    TooMany,
}
