//! The messages by which Linux is asked for the addresses of its interfaces, and told to change them (rtnetlink(7)).
//!
//! ```text
//!  0      4    6     8   12   16                     24
//!  ├ length ┼ type ┼ flags ┼ seq ┼ port ┼ a fixed part ┼ attributes: length (2), type (2), value, padded to 4 ┄
//! ```
//!
//! Numbers are in the byte order of the machine. What does not read is passed over: the kernel of a later version says
//! more than is known here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use group::address::GroupAddress;

const HEADER_BYTES: usize = 16;
/// Of a message about an address: family, length of the prefix, flags, scope, and the number of the interface.
const ADDRESS_BYTES: usize = 8;
/// Of one about an interface: family, type, number, flags, mask of changes.
const LINK_BYTES: usize = 16;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;

const REQUEST: u16 = 0x001;
const ACKNOWLEDGE: u16 = 0x004;
const DUMP: u16 = 0x300;
const REPLACE: u16 = 0x100;
const CREATE: u16 = 0x400;

const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_CACHEINFO: u16 = 6;
const IFA_FLAGS: u16 = 8;
const IFLA_ADDRESS: u16 = 1;

/// Nobody else has it: whoever has the key knows that, and waits for no detection of duplicates.
const NO_DETECTION: u32 = 0x02;
/// The network is reached as before.
const NO_ROUTE: u32 = 0x200;

/// The host does not choose it for what it sends by itself.
const DEPRECATED: u8 = 0x20;
/// It has no lifetime.
const PERMANENT: u8 = 0x80;

const SCOPE_GLOBAL: u8 = 0;
const SCOPE_HOST: u8 = 254;

/// The interface is up, and has a link.
const UP: u32 = 0x01;
const RUNNING: u32 = 0x40;

/// An address of an interface of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterfaceAddress {
    pub(super) interface: u32,
    pub(super) ip: IpAddr,
    pub(super) prefix_bits: u8,
    /// It is there for a while only, and not chosen for what the host sends by itself: as members put that of their group.
    pub(super) is_lent: bool,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// What is sent there goes somewhere.
    pub(super) is_up: bool,
    /// Its hardware address, which not each kind of interface has.
    pub(super) hardware: Vec<u8>,
}

/// What the kernel answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Address(InterfaceAddress),
    Link(Link),
    /// That was all, or it is done; or the number of an error.
    End(i32),
}

/// Asks for all addresses.
pub(super) fn get_addresses(sequence: u32) -> Vec<u8> {
    let fixed = [0; ADDRESS_BYTES];
    message(GET_ADDRESS, REQUEST | DUMP, sequence, &fixed, &[])
}

/// Asks for one interface.
pub(super) fn get_link(sequence: u32, interface: u32) -> Vec<u8> {
    let mut fixed = [0; LINK_BYTES];
    fixed[4..8].copy_from_slice(&interface.to_ne_bytes());
    message(GET_LINK, REQUEST | ACKNOWLEDGE, sequence, &fixed, &[])
}

/// Puts an address on an interface for so many seconds, or gives it so many more if it is there. The host does not
/// choose it for what it sends by itself, where it has another one: it is deprecated from the beginning (RFC 4862 §5.5.4).
pub(super) fn put_address(
    sequence: u32,
    interface: u32,
    address: GroupAddress,
    lifetime_seconds: NonZeroU32,
) -> Vec<u8> {
    let mut cache = [0; 16];
    // Preferred, valid, and two times that the kernel fills in. Linux does not look at the second of one that is
    // preferred for ever.
    cache[4..8].copy_from_slice(&lifetime_seconds.get().to_ne_bytes());
    let flags = (NO_DETECTION | NO_ROUTE).to_ne_bytes();
    let attributes = [(IFA_CACHEINFO, &cache[..]), (IFA_FLAGS, &flags[..])];
    let kind = REQUEST | ACKNOWLEDGE | REPLACE | CREATE;
    of_address(NEW_ADDRESS, kind, sequence, (interface, address), &attributes)
}

/// Takes an address off an interface. Of interface 0, which there is not, it changes nothing and tells who may change
/// addresses.
pub(super) fn delete_address(sequence: u32, interface: u32, address: GroupAddress) -> Vec<u8> {
    of_address(DELETE_ADDRESS, REQUEST | ACKNOWLEDGE, sequence, (interface, address), &[])
}

fn of_address(
    kind: u16,
    flags: u16,
    sequence: u32,
    (interface, address): (u32, GroupAddress),
    more: &[(u16, &[u8])],
) -> Vec<u8> {
    // Of a network of its own: the first address of one takes the others with it when it goes.
    let (family, own, bits) = match address.ip() {
        IpAddr::V4(v4) => (FAMILY_V4, v4.octets().to_vec(), 32),
        IpAddr::V6(v6) => (FAMILY_V6, v6.octets().to_vec(), 128),
    };
    let scope = if address.ip().is_loopback() { SCOPE_HOST } else { SCOPE_GLOBAL };
    let mut fixed = [0; ADDRESS_BYTES];
    fixed[..4].copy_from_slice(&[family, bits, 0, scope]);
    fixed[4..].copy_from_slice(&interface.to_ne_bytes());
    let mut attributes = vec![(IFA_LOCAL, own.as_slice()), (IFA_ADDRESS, own.as_slice())];
    attributes.extend_from_slice(more);
    message(kind, flags, sequence, &fixed, &attributes)
}

fn message(
    kind: u16,
    flags: u16,
    sequence: u32,
    fixed: &[u8],
    attributes: &[(u16, &[u8])],
) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes.extend_from_slice(fixed);
    for (kind, value) in attributes {
        let length = u16::try_from(4 + value.len()).expect("attributes here are short");
        bytes.extend_from_slice(&length.to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    let length = u32::try_from(bytes.len()).expect("messages here are short");
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

/// What one datagram of the kernel says in answer to the request of that number.
pub(super) fn read(datagram: &[u8], sequence: u32) -> Vec<Said> {
    let mut said = Vec::new();
    let mut rest = datagram;
    while let (Some(length), Some(kind), Some(number)) =
        (u32_at(rest, 0), u16_at(rest, 4), u32_at(rest, 8))
    {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let Some(body) = rest.get(HEADER_BYTES..length) else { break };
        if number == sequence {
            said.extend(read_one(kind, body));
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    said
}

fn read_one(kind: u16, body: &[u8]) -> Option<Said> {
    match kind {
        DONE => Some(Said::End(0)),
        // A number below zero, or zero where it is done.
        ERROR => Some(Said::End(i32::from_ne_bytes(*body.first_chunk()?).wrapping_neg())),
        NEW_ADDRESS => read_address(body).map(Said::Address),
        NEW_LINK => {
            let flags = u32_at(body, 8)?;
            let is_up = flags & (UP | RUNNING) == UP | RUNNING;
            let hardware = attribute(body.get(LINK_BYTES..)?, IFLA_ADDRESS).unwrap_or_default();
            Some(Said::Link(Link { is_up, hardware: hardware.to_vec() }))
        }
        _ => None,
    }
}

fn read_address(body: &[u8]) -> Option<InterfaceAddress> {
    let (&family, &prefix_bits, &flags) = (body.first()?, body.get(1)?, body.get(2)?);
    let is_lent = flags & (PERMANENT | DEPRECATED) == DEPRECATED;
    let attributes = body.get(ADDRESS_BYTES..)?;
    // At the end of a tunnel the first is that of this host, and the second that of the other end.
    let own = attribute(attributes, IFA_LOCAL).or_else(|| attribute(attributes, IFA_ADDRESS))?;
    let ip = match family {
        FAMILY_V4 => Ipv4Addr::from(<[u8; 4]>::try_from(own).ok()?).into(),
        FAMILY_V6 => Ipv6Addr::from(<[u8; 16]>::try_from(own).ok()?).into(),
        _ => return None,
    };
    Some(InterfaceAddress { interface: u32_at(body, 4)?, ip, prefix_bits, is_lent })
}

/// The value of the first attribute of this kind.
fn attribute(attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    let mut rest = attributes;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let length = usize::from(length);
        let value = rest.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> GroupAddress {
        text.parse().expect("it is one")
    }

    /// As `ip address` writes them on the wire; the machines of tests are little-endian.
    #[test]
    #[cfg(target_endian = "little")]
    fn an_address_is_put_with_its_lifetime_and_taken_away() {
        let put = put_address(7, 3, address("192.0.2.100/24"), NonZeroU32::new(9).unwrap());
        let mut wanted = vec![68, 0, 0, 0, 20, 0, 5, 5, 7, 0, 0, 0, 0, 0, 0, 0];
        wanted.extend([2, 32, 0, 0, 3, 0, 0, 0]);
        wanted.extend([8, 0, 2, 0, 192, 0, 2, 100, 8, 0, 1, 0, 192, 0, 2, 100]);
        wanted.extend([20, 0, 6, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        wanted.extend([8, 0, 8, 0, 2, 2, 0, 0]);
        assert_eq!(put, wanted);
        let delete = delete_address(8, 1, address("127.0.0.9/8"));
        let mut wanted = vec![40, 0, 0, 0, 21, 0, 5, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        wanted.extend([2, 32, 0, 254, 1, 0, 0, 0]);
        wanted.extend([8, 0, 2, 0, 127, 0, 0, 9, 8, 0, 1, 0, 127, 0, 0, 9]);
        assert_eq!(delete, wanted);
    }

    /// What the kernel says of an address reads as what was put, for both families.
    #[test]
    fn what_is_said_of_an_address_is_read() {
        for (text, prefix_bits) in [("192.0.2.100/24", 32), ("2001:db8::100/64", 128)] {
            let mut said = put_address(7, 3, address(text), NonZeroU32::MIN);
            let one = InterfaceAddress {
                interface: 3,
                ip: address(text).ip(),
                prefix_bits,
                is_lent: false,
            };
            assert_eq!(read(&said, 7), [Said::Address(one)]);
            assert_eq!(read(&said, 8), [], "that is an answer to somebody else");
            said.extend(message(DONE, 0, 7, &[0; 4], &[]));
            assert_eq!(read(&said, 7), [Said::Address(one), Said::End(0)]);
        }
        for (flags, is_lent) in [(0x20, true), (0x80, false), (0xa0, false), (0, false)] {
            let mut said = put_address(7, 3, address("192.0.2.100/24"), NonZeroU32::MIN);
            said[HEADER_BYTES + 2] = flags;
            let read = read(&said, 7);
            let [Said::Address(one)] = &read[..] else { panic!("{read:?}") };
            assert_eq!(one.is_lent, is_lent, "{flags:#x}");
        }
        let refused = message(ERROR, 0, 7, &(-1_i32).to_ne_bytes(), &[]);
        assert_eq!(read(&refused, 7), [Said::End(1)]);
    }

    #[test]
    fn an_interface_is_up_where_it_has_a_link() {
        let link = |flags: u32| {
            let mut fixed = [0; LINK_BYTES];
            fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
            let said = message(NEW_LINK, 0, 1, &fixed, &[(IFLA_ADDRESS, &[1, 2, 3, 4, 5, 6])]);
            match &read(&said, 1)[..] {
                [Said::Link(link)] => link.clone(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(link(0x1043), Link { is_up: true, hardware: vec![1, 2, 3, 4, 5, 6] });
        assert!(!link(0x1003).is_up, "its cable is out");
        assert!(!link(0x1042).is_up, "somebody has taken it down");
    }

    #[test]
    fn what_was_cut_short_is_passed_over() {
        let whole = put_address(7, 3, address("192.0.2.100/24"), NonZeroU32::MIN);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length], 7), []);
        }
        let mut lying = whole.clone();
        for at in [0, 24, 32] {
            lying[at..at + 2].copy_from_slice(&1_u16.to_ne_bytes());
            // A length that is shorter than its own head ends the reading, and nothing is read twice.
            assert!(read(&lying, 7).len() <= 1, "{at}");
        }
    }
}
