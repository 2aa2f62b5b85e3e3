//! How initiators share what there is a fixed number of.

use std::collections::HashMap;
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
