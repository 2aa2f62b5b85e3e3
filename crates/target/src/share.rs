//! How initiators share what there is a fixed number of.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Bits that tell one network from another: a host with IPv6 may have all addresses of its own
/// (RFC 4291 §2.5.4).
const NETWORK_BITS: u32 = 64;

/// Whom an address counts as: itself, or its network of 64 bits in IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> NETWORK_BITS << NETWORK_BITS;
            Ipv6Addr::from_bits(network).into()
        }
        address => address,
    }
}

/// Nobody has more than what is left for all others: alone half of all.
pub(crate) fn may_have_one_more(held: usize, all: usize, max: usize) -> bool {
    held < max.saturating_sub(all)
}

/// One less is held. Who has none is forgotten.
pub(crate) fn give_back(held: &mut HashMap<Arc<str>, usize>, initiator: &Arc<str>) {
    let left = held.get_mut(initiator).map(|held| {
        *held -= 1;
        *held
    });
    debug_assert!(left.is_some(), "who gives something back had it");
    if left == Some(0) {
        held.remove(initiator);
    }
}

/// Those who wait, by keys that have turns; those at one key stand in the order of asking.
///
/// Invariant: no key without somebody who waits.
#[derive(Debug)]
pub(crate) struct FairQueue<Key, Waiter>(VecDeque<(Key, VecDeque<Waiter>)>);

impl<Key, Waiter> Default for FairQueue<Key, Waiter> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Key, Waiter> FairQueue<Key, Waiter> {
    pub(crate) fn enter(&mut self, key: Key, waiter: Waiter)
    where
        Key: Eq,
    {
        match self.0.iter_mut().find(|(other, _)| *other == key) {
            Some((_, waiters)) => waiters.push_back(waiter),
            None => self.0.push_back((key, VecDeque::from([waiter]))),
        }
    }

    /// The next one. Its key goes to the end.
    pub(crate) fn leave(&mut self) -> Option<Waiter> {
        let (key, mut waiters) = self.0.pop_front()?;
        let waiter = waiters.pop_front();
        debug_assert!(waiter.is_some(), "somebody waits at each key");
        if !waiters.is_empty() {
            self.0.push_back((key, waiters));
        }
        waiter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_counts_as_one_in_ipv6_only() {
        let of = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("2001:db8:1:3::1"), "2001:db8:1:3::");
        assert_eq!(of("192.0.2.7"), "192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
