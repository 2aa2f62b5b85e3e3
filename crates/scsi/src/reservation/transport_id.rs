//! iSCSI TransportIDs (SPC-4 7.6.4.6): the wire name of an initiator port.
//!
//! ```text
//!        7   6   5   4   3   2   1   0
//!      +-------+-------+---------------+
//!  0   | FORMAT| 0   0 | PROTOCOL (5h) |   FORMAT 00b: the node name alone,
//!  1   |           reserved            |          01b: "<name>,i,0x<ISID in hexadecimal>"
//!  2   |   ADDITIONAL LENGTH (n - 3)   |   at least 20 and a multiple of four
//!  3   |                               |
//!  4   |   text, ended by a NUL and    |
//!  n   |   padded with NULs            |
//!      +-------------------------------+
//! ```

use crate::nexus::NexusKey;

/// PROTOCOL IDENTIFIER of iSCSI (SPC-4 7.6.1).
const PROTOCOL_ISCSI: u8 = 0x5;
const HEADER_BYTES: usize = 4;
/// The least ADDITIONAL LENGTH that SPC-4 allows.
const TEXT_BYTES_MIN: usize = 20;
/// The longest iSCSI name (RFC 7143 4.2.7.2), which also bounds what a registration costs.
pub(super) const NAME_BYTES_MAX: usize = 223;
/// What stands between the name and the twelve hexadecimal digits of the ISID.
const ISID_SEPARATOR: &str = ",i,0x";

/// An initiator port as a parameter list names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportId {
    /// The iSCSI name of the initiator node.
    pub name: String,
    /// The initiator part of the session identifier; `None` means every port of the node.
    pub isid: Option<[u8; 6]>,
}

/// Where in a TransportID the error is: a byte offset, and the bit of a field within a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadTransportId {
    /// Offset from the start of the TransportID.
    pub byte: usize,
    /// Most significant bit of the field in error.
    pub bit: Option<u8>,
}

impl TransportId {
    /// Reads the TransportID at the start of `bytes`. Returns it and the number of bytes it takes.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), BadTransportId> {
        let at = |byte| BadTransportId { byte, bit: None };
        let [first, _, high, low, rest @ ..] = bytes else { return Err(at(0)) };
        if first & 0x0f != PROTOCOL_ISCSI {
            return Err(BadTransportId { byte: 0, bit: Some(3) });
        }
        let text_bytes = usize::from(u16::from_be_bytes([*high, *low]));
        if text_bytes < TEXT_BYTES_MIN || !text_bytes.is_multiple_of(4) || text_bytes > rest.len() {
            return Err(at(2));
        }
        let text = rest[..text_bytes].split(|&byte| byte == 0).next().unwrap_or_default();
        if text.len() == text_bytes {
            return Err(at(HEADER_BYTES)); // not ended by a NUL
        }
        let text = std::str::from_utf8(text).map_err(|_| at(HEADER_BYTES))?;
        let (name, isid) = match first >> 6 {
            0b00 => (text, None),
            0b01 => {
                let (name, digits) = text.split_once(ISID_SEPARATOR).ok_or(at(HEADER_BYTES))?;
                (name, Some(parse_isid(digits).ok_or(at(HEADER_BYTES + name.len()))?))
            }
            _ => return Err(BadTransportId { byte: 0, bit: Some(7) }),
        };
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(at(HEADER_BYTES));
        }
        Ok((Self { name: name.to_owned(), isid }, HEADER_BYTES + text_bytes))
    }

    /// Appends the TransportID to `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let (format, text) = match self.isid {
            None => (0b00, self.name.clone()),
            Some(isid) => {
                let digits: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
                (0b01, format!("{}{ISID_SEPARATOR}{digits}", self.name))
            }
        };
        let text_bytes = (text.len() + 1).next_multiple_of(4).max(TEXT_BYTES_MIN);
        out.extend([format << 6 | PROTOCOL_ISCSI, 0]);
        out.extend((text_bytes as u16).to_be_bytes());
        let start = out.len();
        out.extend(text.as_bytes());
        out.resize(start + text_bytes, 0);
    }
}

/// The initiator port of a nexus.
impl From<&NexusKey> for TransportId {
    fn from(nexus: &NexusKey) -> Self {
        Self { name: nexus.initiator.to_string(), isid: Some(nexus.isid) }
    }
}

fn parse_isid(digits: &str) -> Option<[u8; 6]> {
    // `from_str_radix` alone would also take a sign.
    if digits.len() != 12 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let [_, _, isid @ ..] = u64::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some(isid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(name: &str, isid: Option<[u8; 6]>) -> TransportId {
        TransportId { name: name.into(), isid }
    }

    #[test]
    fn the_wire_form_is_the_standards() {
        let mut bytes = Vec::new();
        id("iqn.1991-05.com.x:h", Some([0x00, 0x02, 0x3d, 0, 0, 0xff])).emit(&mut bytes);
        let mut expected = vec![0x45, 0, 0, 40];
        expected.extend(b"iqn.1991-05.com.x:h,i,0x00023d0000ff\0\0\0\0");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_short_name_is_padded_to_twenty_bytes() {
        let mut bytes = Vec::new();
        id("iqn.x", None).emit(&mut bytes);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..4], [0x05, 0, 0, 20]);
    }

    #[test]
    fn errors_point_at_the_field() {
        let mut good = Vec::new();
        id("iqn.x", Some([1; 6])).emit(&mut good);
        let broken = |change: fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            TransportId::parse(&bytes).unwrap_err()
        };
        let bad = |byte, bit| BadTransportId { byte, bit };
        assert_eq!(broken(|b| b[0] = 0x40), bad(0, Some(3)), "Fibre Channel");
        assert_eq!(broken(|b| b[0] = 0x85), bad(0, Some(7)), "reserved format");
        assert_eq!(broken(|b| b[3] = 19), bad(2, None), "not a multiple of four");
        assert_eq!(broken(|b| b[3] = 16), bad(2, None), "too short");
        assert_eq!(broken(|b| b[3] = 200), bad(2, None), "longer than the list");
        assert_eq!(broken(|b| b[4..].fill(b'a')), bad(4, None), "no NUL");
        assert_eq!(broken(|b| b[4] = 0xff), bad(4, None), "not UTF-8");
        assert_eq!(broken(|b| b[14] = b'g'), bad(9, None), "ISID digit");
        assert_eq!(broken(|b| b.truncate(3)), bad(0, None), "no header");
    }

    proptest! {
        #[test]
        fn emit_then_parse_is_the_identity(
            name in "[a-z0-9.:-]{1,223}", isid in any::<Option<[u8; 6]>>(), tail in 0_usize..9
        ) {
            let sent = TransportId { name, isid };
            let mut bytes = Vec::new();
            sent.emit(&mut bytes);
            let len = bytes.len();
            bytes.resize(len + tail, 0xee);
            prop_assert_eq!(TransportId::parse(&bytes), Ok((sent, len)));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok((_, used)) = TransportId::parse(&bytes) {
                prop_assert!(used <= bytes.len() && used >= 24);
            }
        }
    }
}
