//! The ports of this host: the local addresses from which a portal can be reached.
//!
//! An address counts if it is in the same network as the portal, or if it is the one that the
//! kernel's routes choose. A way from any other address would depend on rules that only the
//! administrator knows.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The local addresses for `portal`, the one that the kernel would choose first. Looks into files of
/// the kernel, which does not take long, but is no work for a core.
pub(super) fn reaching(portal: SocketAddr) -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let on_link: Vec<IpAddr> = match portal.ip() {
        IpAddr::V4(portal) => {
            let (routes, trie) = (read("/proc/net/route"), read("/proc/net/fib_trie"));
            on_link_v4(&routes, &trie, portal).into_iter().map(IpAddr::V4).collect()
        }
        IpAddr::V6(portal) => {
            on_link_v6(&read("/proc/net/if_inet6"), portal).into_iter().map(IpAddr::V6).collect()
        }
    };
    let mut found: Vec<IpAddr> = chosen(portal).into_iter().collect();
    for address in on_link {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// The source address of the kernel's route: connecting a datagram socket sends nothing.
fn chosen(portal: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match portal {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(portal).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Addresses of our own in the network of a route without a gateway that leads to `portal`.
fn on_link_v4(routes: &str, trie: &str, portal: Ipv4Addr) -> Vec<Ipv4Addr> {
    // The fields are the bytes of the address in the order of this machine, as one number.
    let number = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::swap_bytes);
    let network = |line: &str| -> Option<(u32, u32)> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (destination, gateway) = (number(fields.get(1)?)?, number(fields.get(2)?)?);
        let mask = number(fields.get(7)?)?;
        (gateway == 0 && mask != 0 && portal.to_bits() & mask == destination)
            .then_some((destination, mask))
    };
    let networks: Vec<(u32, u32)> = routes.lines().filter_map(network).collect();
    let is_in = |own: &Ipv4Addr| networks.iter().any(|(net, mask)| own.to_bits() & mask == *net);
    let mut own: Vec<Ipv4Addr> = own_v4(trie).into_iter().filter(is_in).collect();
    own.sort_unstable();
    own.dedup();
    own
}

/// The addresses of this host: leaves of the trie that are followed by a local host route.
fn own_v4(trie: &str) -> Vec<Ipv4Addr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut own = Vec::new();
    for line in trie.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            leaf = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            own.extend(leaf);
        }
    }
    own
}

/// Our own addresses of global scope whose prefix the portal has.
fn on_link_v6(if_inet6: &str, portal: Ipv6Addr) -> Vec<Ipv6Addr> {
    const GLOBAL: &str = "00";
    const TEMPORARY: u32 = 0x01;
    let address = |line: &str| -> Option<Ipv6Addr> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let own = Ipv6Addr::from_bits(u128::from_str_radix(fields.first()?, 16).ok()?);
        let prefix_bits = u32::from_str_radix(fields.get(2)?, 16).ok()?;
        let flags = u32::from_str_radix(fields.get(4)?, 16).ok()?;
        let host_bits = 128_u32.checked_sub(prefix_bits)?;
        let network = |it: Ipv6Addr| it.to_bits().checked_shr(host_bits).unwrap_or(0);
        let fits = *fields.get(3)? == GLOBAL && flags & TEMPORARY == 0 && prefix_bits > 0;
        (fits && network(own) == network(portal)).then_some(own)
    };
    if_inet6.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROUTES: &str = "\
Iface Destination Gateway  Flags RefCnt Use Metric Mask  MTU Window IRTT
eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0
eth0 000200C0 00000000 0001 0 0 0 00FFFFFF 0 0 0
eth1 00010A0A 00000000 0001 0 0 0 00FFFFFF 0 0 0
";
    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 127.0.0.1
        /32 host LOCAL
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
        |-- 192.0.2.255
           /32 link BROADCAST
     |-- 10.10.1.7
        /32 host LOCAL
     |-- 192.0.2.9
        /32 host LOCAL
Local:
     |-- 192.0.2.2
        /32 host LOCAL
";

    #[test]
    fn own_addresses_in_the_network_of_the_portal() {
        let own = |portal: [u8; 4]| on_link_v4(ROUTES, TRIE, portal.into());
        assert_eq!(own([192, 0, 2, 77]), [Ipv4Addr::new(192, 0, 2, 2), [192, 0, 2, 9].into()]);
        assert_eq!(own([10, 10, 1, 1]), [Ipv4Addr::new(10, 10, 1, 7)]);
        assert_eq!(own([198, 51, 100, 1]), [Ipv4Addr::LOCALHOST; 0], "behind a gateway");
    }

    #[test]
    fn of_ipv6_only_lasting_global_ones() {
        let table = "\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
fd000000000000000000000000000003 04 40 00 01     eth0
";
        let own = |portal: &str| on_link_v6(table, portal.parse().unwrap());
        assert_eq!(own("fd00::99"), ["fd00::2".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!(own("fd01::99"), [Ipv6Addr::LOCALHOST; 0]);
    }

    #[test]
    fn the_kernel_knows_a_way_to_this_host() {
        let portal = SocketAddr::from(([127, 0, 0, 1], 3260));
        assert_eq!(reaching(portal), [IpAddr::from([127, 0, 0, 1])]);
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(lines in proptest::collection::vec("[0-9a-f|/. -]{0,60}", 0..8)) {
            let text = lines.join("\n");
            let _ = on_link_v4(&text, &text, Ipv4Addr::LOCALHOST);
            let _ = on_link_v6(&text, Ipv6Addr::LOCALHOST);
        }
    }
}
