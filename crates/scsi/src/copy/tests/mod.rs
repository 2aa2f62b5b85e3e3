//! Tests of the third-party copy formats.

mod extended;
mod limits;
mod offload;
mod registry;
mod tokens;

use super::*;
use crate::nexus::NexusKey;
use crate::sense::{AdditionalSense, Sense, SenseKey};
use proptest::prelude::*;

pub(super) fn illegal(additional: AdditionalSense) -> Sense {
    Sense::new(SenseKey::IllegalRequest, additional)
}

pub(super) fn bad_parameter(byte: u16, bit: Option<u8>) -> Sense {
    Sense::invalid_field_in_parameter_list(byte, bit)
}

pub(super) fn naa(n: u8) -> Designator {
    Designator::naa(&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n])
}

/// A block device range descriptor list with its length field and the six reserved bytes that
/// WRITE USING TOKEN has before it left out.
pub(super) fn range_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = ((ranges.len() * 16) as u16).to_be_bytes().to_vec();
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

#[test]
fn designators_name_units_by_all_their_fields() {
    let identity = [naa(1), Designator::new(2, 0, 1, b"DRYSTONEserial").unwrap()];
    assert!(naa(1).is_in(&identity));
    assert!(!naa(2).is_in(&identity));
    let t10 = |bytes: &[u8]| Designator::new(2, 0, 1, bytes).unwrap();
    assert!(t10(b"DRYSTONEserial").is_in(&identity));
    assert!(!t10(b"DRYSTONEseria").is_in(&identity), "a prefix is another name");
    assert!(!Designator::new(1, 0, 1, b"DRYSTONEserial").unwrap().is_in(&identity), "code set");
    let port = Designator::new(1, 1, 3, naa(1).bytes()).unwrap();
    assert!(!port.is_in(&[port]), "a target port's name does not name a unit");
    assert_eq!(Designator::new(1, 0, 3, &[0; 21]), None);
}
