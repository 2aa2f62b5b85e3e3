use super::*;
use crate::Sense;
use crate::cdb::BlockRange;
use crate::unit::{Capacity, MediumInfo};
use proptest::prelude::*;

fn medium() -> MediumInfo {
    MediumInfo::new(512, 1000)
}

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = Vec::new();
    list.extend((ranges.len() as u16 * 16 + 6).to_be_bytes());
    list.extend((ranges.len() as u16 * 16).to_be_bytes());
    list.extend([0; 4]);
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

#[test]
fn unmap_takes_ranges_and_drops_empty_ones() {
    let list = unmap_list(&[(0, 8), (5, 0), (1000, 0), (992, 8)]);
    let expected = [BlockRange { lba: 0, blocks: 8 }, BlockRange { lba: 992, blocks: 8 }];
    assert_eq!(parse_unmap(&list, &medium()).unwrap(), expected);
    assert_eq!(parse_unmap(&[], &medium()).unwrap(), []);
    assert_eq!(parse_unmap(&unmap_list(&[]), &medium()).unwrap(), []);
}

#[test]
fn unmap_refuses_what_does_not_fit() {
    let refused = |list: &[u8]| parse_unmap(list, &medium()).unwrap_err();
    assert_eq!(refused(&[0; 7]), Sense::parameter_list_length_error());
    let mut cut = unmap_list(&[(0, 1), (1, 1)]);
    cut.truncate(30);
    assert_eq!(refused(&cut), Sense::parameter_list_length_error());
    assert_eq!(refused(&unmap_list(&[(0, 1), (999, 2)])), Sense::lba_out_of_range(1000));
    assert_eq!(refused(&unmap_list(&[(1001, 0)])), Sense::lba_out_of_range(1001));
    assert_eq!(refused(&unmap_list(&[(u64::MAX, 2)])), Sense::lba_out_of_range(u64::MAX));

    let mut medium = medium();
    medium.limits.unmap_descriptors_max = 1;
    let list = unmap_list(&[(0, 1), (1, 1)]);
    let expected = Err(Sense::invalid_field_in_parameter_list(2, None));
    assert_eq!(parse_unmap(&list, &medium), expected);
    medium.limits.unmap_descriptors_max = 8;
    medium.limits.unmap_blocks_max = 15;
    let list = unmap_list(&[(0, 8), (8, 8)]);
    let expected = Err(Sense::invalid_field_in_parameter_list(8 + 16 + 8, None));
    assert_eq!(parse_unmap(&list, &medium), expected);
}

#[test]
fn lba_status_data() {
    let run = |lba, state| LbaRun { lba, blocks: 4, state };
    let runs = [run(8, Provisioning::Deallocated), run(12, Provisioning::Mapped)];
    let data = lba_status(&runs, 255);
    assert_eq!(data.len(), 40);
    assert_eq!(data[..8], [0, 0, 0, 36, 0, 0, 0, 0]);
    assert_eq!(data[8..24], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 4, 1, 0, 0, 0]);
    assert_eq!(lba_status(&runs, 24)[..4], [0, 0, 0, 36]);
    assert_eq!(lba_status(&runs, 24).len(), 24);
    assert_eq!([0, 8, 24, 25, 40].map(lba_status_runs_max), [1, 1, 1, 2, 2]);
}

#[test]
fn capacity_data() {
    let mut medium = MediumInfo::new(4096, 1 << 32);
    assert_eq!(read_capacity10(&medium), [255, 255, 255, 255, 0, 0, 16, 0]);
    medium.blocks = Capacity::new((1 << 32) + 1);
    assert_eq!(read_capacity10(&medium)[..4], [255; 4]);
    medium.physical_exponent = 3;
    let data = read_capacity16(&medium);
    assert_eq!(data[..16], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 16, 0, 0, 3, 0xc0, 0]);
    medium.thin = false;
    assert_eq!(read_capacity16(&medium)[14], 0);
}

#[test]
fn report_luns_selects() {
    let luns = [0, 1 << 48];
    let data = report_luns(0, &luns).unwrap();
    assert_eq!(data[..8], [0, 0, 0, 16, 0, 0, 0, 0]);
    assert_eq!(data[16..], [0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(report_luns(2, &luns).unwrap(), data);
    assert_eq!(report_luns(1, &luns).unwrap(), [0; 8]);
    assert_eq!(report_luns(0x10, &luns), Err(Sense::invalid_field_in_cdb(2, None)));
}

#[test]
fn luns_have_two_forms() {
    assert_eq!(encode_lun(255), Some(0x00ff << 48));
    assert_eq!(encode_lun(256), Some(0x4100 << 48));
    assert_eq!(encode_lun(0x4000), None);
    assert_eq!(decode_lun(0x4001 << 48), Some(1), "flat space below 256 is also valid");
    assert_eq!(decode_lun(0x0100 << 48), None, "another bus");
    assert_eq!(decode_lun(0xc101 << 48), None, "well-known");
    assert_eq!(decode_lun(0x0000_0001_0000_0000), None, "second level");
}

#[test]
fn overwrite_list() {
    let list = [0x83, 0, 0, 2, 0xaa, 0x55, 0xff];
    let expected = Overwrite { pattern: vec![0xaa, 0x55], passes: 3, invert: true };
    assert_eq!(Overwrite::parse(&list, 512), Ok(expected));
    let refused = Err(Sense::invalid_field_in_cdb(7, None));
    assert_eq!(Overwrite::parse(&list[..4], 512), refused);
    assert_eq!(Overwrite::parse(&[0, 0, 0, 1, 1], 512), refused, "no pass");
    assert_eq!(Overwrite::parse(&[1, 0, 0, 0, 1], 512), refused, "no pattern");
    assert_eq!(Overwrite::parse(&[1, 0, 0, 2, 1], 512), refused, "longer than sent");
    assert_eq!(Overwrite::parse(&[1; 517], 512), refused, "longer than a block");
}

proptest! {
    #[test]
    fn every_lun_up_to_the_limit_round_trips(index in 0u16..0x4000) {
        prop_assert_eq!(encode_lun(index).and_then(decode_lun), Some(index));
    }

    #[test]
    fn unmap_takes_any_bytes(mut list in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Some(high) = list.get_mut(2) {
            *high = 0;
        }
        for range in parse_unmap(&list, &medium()).unwrap_or_default() {
            prop_assert!(range.lba + u64::from(range.blocks) <= 1000);
        }
    }
}
