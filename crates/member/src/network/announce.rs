//! Tells neighbours that an address is at this host now. They remember for minutes which hardware address had it before,
//! and switches do so too.
//!
//! For IPv4 the kernel is made to ask all of them for somebody: an ARP request goes to everybody, and has the address of
//! who asks and its hardware address, which all take over that know the address (RFC 826; RFC 5227 §3). It needs no right
//! of its own, as a raw socket would. Whoever is asked for need not be there, best is not.
//!
//! For IPv6 it is told by an unsolicited neighbour advertisement (RFC 4861 §7.2.6), which takes a raw socket and so the
//! capability CAP_NET_RAW. Without that neighbours find out by themselves, when what they send is not confirmed (§7.3).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV6, UdpSocket};

use group::address::GroupAddress;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

/// How many are asked for at once: one of them may be there, and known.
const ASKED: u32 = 2;

/// The service that throws away what it is sent (RFC 863).
const DISCARD: u16 = 9;

/// All hosts of a network.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
/// What was known before does not count any more.
const OVERRIDE: u8 = 0x20;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;

/// Tells them. `seed` chooses who is asked for.
///
/// # Errors
/// What the system says. The address is where it is all the same.
pub(super) fn announce(
    address: GroupAddress,
    (interface, hardware): (u32, &[u8]),
    seed: u32,
) -> io::Result<()> {
    match address.ip() {
        ip if ip.is_loopback() => Ok(()),
        IpAddr::V4(_) => {
            let socket = UdpSocket::bind((address.ip(), 0))?;
            let mut first_fault = Ok(());
            for other in neighbours(address, seed) {
                // One that cannot be sent to says nothing of the next.
                let sent = socket.send_to(&[], (other, DISCARD)).map(drop);
                first_fault = first_fault.and(sent);
            }
            first_fault
        }
        IpAddr::V6(ip) => {
            let kind = (AddressFamily::INET6, SocketType::RAW, SocketFlags::CLOEXEC);
            let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, Some(ipproto::ICMPV6))?;
            rustix::net::bind(&socket, &SocketAddrV6::new(ip, 0, 0, 0))?;
            // Whoever hears it knows by that that it comes from the same network (RFC 4861 §7.1.2).
            sockopt::set_ipv6_multicast_hops(&socket, 255)?;
            let all = SocketAddrV6::new(ALL_NODES, 0, 0, interface);
            let message = advertisement(ip, hardware);
            rustix::net::sendto(&socket, &message, SendFlags::empty(), &all)?;
            Ok(())
        }
    }
}

/// Some addresses of the network that are neither this one nor its first nor its last.
fn neighbours(address: GroupAddress, seed: u32) -> impl Iterator<Item = Ipv4Addr> {
    let own = match address.ip() {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(_) => 0,
    };
    let hosts = u32::MAX.checked_shr(u32::from(address.prefix_bits())).unwrap_or(0);
    // A number without a common divisor with any power of two: all are met.
    let step = move |count: u32| seed.wrapping_add(count).wrapping_mul(0x9e37_79b1) >> 7;
    let others = (0..).map(step).map(move |step| own & !hosts | step & hosts);
    let is_host = move |other: &u32| {
        let is_edge = other & hosts == 0 || other & hosts == hosts;
        *other != own && !(is_edge && hosts > 1)
    };
    let tries = others.take(64).filter(is_host).take(ASKED as usize);
    tries.map(Ipv4Addr::from_bits)
}

/// The kernel reckons the checksum of what goes over a raw socket of ICMPv6 (RFC 3542 §3.1).
fn advertisement(ip: Ipv6Addr, hardware: &[u8]) -> Vec<u8> {
    let mut message = vec![NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, OVERRIDE, 0, 0, 0];
    message.extend_from_slice(&ip.octets());
    // Of other lengths than that of Ethernet the option would need padding, and hosts ask then.
    if let Ok(hardware) = <[u8; 6]>::try_from(hardware) {
        message.extend_from_slice(&[TARGET_LINK_LAYER_ADDRESS, 1]);
        message.extend_from_slice(&hardware);
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_of_the_network_are_asked_for() {
        for text in ["192.0.2.100/24", "10.1.2.3/8", "192.0.2.1/30", "192.0.2.0/31"] {
            let address: GroupAddress = text.parse().unwrap();
            let mut met = Vec::new();
            for seed in 0..50 {
                for other in neighbours(address, seed) {
                    assert!(address.is_beside(other.into()), "{text}: {other}");
                    assert_ne!(IpAddr::from(other), address.ip());
                    let beside: Result<GroupAddress, _> =
                        format!("{other}/{}", address.prefix_bits()).parse();
                    assert!(beside.is_ok(), "{text}: {other} is no host");
                    met.push(other);
                }
            }
            assert!(!met.is_empty(), "{text}");
        }
    }

    #[test]
    fn an_advertisement_has_the_hardware_address() {
        let ip: Ipv6Addr = "2001:db8::100".parse().unwrap();
        let message = advertisement(ip, &[2, 0, 0, 0, 0, 7]);
        assert_eq!(message.len(), 32);
        assert_eq!((message[0], message[4], &message[8..24]), (136, 0x20, &ip.octets()[..]));
        assert_eq!(message[24..], [2, 1, 2, 0, 0, 0, 0, 7]);
        assert_eq!(advertisement(ip, &[]).len(), 24);
    }

    #[test]
    fn a_loopback_has_no_neighbours() {
        announce("127.0.0.9/8".parse().unwrap(), (1, &[]), 0).unwrap();
    }
}
