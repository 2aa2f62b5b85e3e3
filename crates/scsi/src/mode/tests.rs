use super::page::PAGES;
use super::*;
use crate::cdb::{ModeHeader, ModeSense};
use crate::unit::{Capacity, MediumInfo};
use crate::{AdditionalSense, Sense};
use proptest::prelude::*;

fn medium() -> MediumInfo {
    MediumInfo::new(512, 0x1234)
}

fn request(page_control: u8, page: u8, subpage: u8) -> ModeSense {
    ModeSense {
        header: ModeHeader::Short,
        disable_block_descriptors: true,
        long_lba_accepted: false,
        page_control,
        page,
        subpage,
        allocation_bytes: 255,
    }
}

fn page(pages: &ModePages, control: u8, code: u8, subpage: u8) -> Vec<u8> {
    pages.sense(&request(control, code, subpage), &medium()).unwrap()[4..].to_vec()
}

/// A MODE SELECT(6) list with one page of which one byte is replaced.
fn list_with(pages: &ModePages, code: u8, byte: usize, value: u8) -> Vec<u8> {
    let mut list = vec![0; 4];
    list.extend(page(pages, 0, code, 0));
    list[4 + byte] = value;
    list
}

fn select(pages: &mut ModePages, list: &[u8]) -> Result<bool, Sense> {
    pages.select(ModeHeader::Short, true, list, &medium())
}

#[test]
fn pages_are_sorted_and_well_formed() {
    assert!(PAGES.is_sorted_by_key(|page| (page.code, page.subpage)));
    for page in PAGES {
        assert_eq!(page.default.len(), page.changeable.len());
        assert_eq!(page.default[0] & 0x3f, page.code);
        let length = if page.subpage == 0 {
            usize::from(page.default[1])
        } else {
            assert_eq!(page.default[1], page.subpage);
            usize::from(u16::from_be_bytes([page.default[2], page.default[3]]))
        };
        assert_eq!(length + page.header_bytes(), page.default.len());
        assert!(page.changeable[..page.header_bytes()].iter().all(|&byte| byte == 0));
    }
    let total: usize = PAGES.iter().map(|page| page.default.len()).sum();
    assert!(4 + 8 + total <= 255, "MODE SENSE(6) must be able to return all pages");
}

#[test]
fn header_and_block_descriptors() {
    let pages = ModePages::new(false);
    let mut request = request(0, 0x08, 0);
    request.disable_block_descriptors = false;
    let data = pages.sense(&request, &medium()).unwrap();
    assert_eq!(data[..12], [31, 0, 0x10, 8, 0, 0, 0x12, 0x34, 0, 0, 2, 0]);
    assert_eq!(data.len(), 32);

    request.header = ModeHeader::Long;
    let data = pages.sense(&request, &medium()).unwrap();
    assert_eq!(data[..8], [0, 34, 0, 0x10, 0, 0, 0, 8]);

    request.long_lba_accepted = true;
    let data = pages.sense(&request, &medium()).unwrap();
    assert_eq!(data[..8], [0, 42, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(data[8..24], [0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 2, 0]);

    let read_only = MediumInfo { read_only: true, ..medium() };
    assert_eq!(pages.sense(&request, &read_only).unwrap()[3], 0x90);
    let huge = MediumInfo { blocks: Capacity::new(1 << 33), ..medium() };
    request.long_lba_accepted = false;
    assert_eq!(pages.sense(&request, &huge).unwrap()[8..12], [255; 4]);
}

#[test]
fn page_control_selects_the_values() {
    let mut pages = ModePages::new(true);
    assert_eq!(page(&pages, 0, 0x08, 0)[2], 0x04);
    let list = list_with(&pages, 0x08, 2, 0);
    assert_eq!(select(&mut pages, &list), Ok(true));
    assert_eq!(page(&pages, 0, 0x08, 0)[2], 0);
    assert_eq!(page(&pages, 1, 0x08, 0)[..3], [0x08, 0x12, 0x04]);
    assert_eq!(page(&pages, 2, 0x08, 0)[2], 0x04);
    let refused = pages.sense(&request(3, 0x08, 0), &medium()).unwrap_err();
    assert_eq!(refused.additional, AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED);
}

#[test]
fn page_and_subpage_codes() {
    let pages = ModePages::new(false);
    let all: Vec<u8> = PAGES.iter().flat_map(|page| page.default).copied().collect();
    assert_eq!(page(&pages, 0, 0x3f, 0xff), all);
    assert_eq!(page(&pages, 0, 0x3f, 0).len(), all.len() - 32);
    assert_eq!(page(&pages, 0, 0x0a, 0xff).len(), 12 + 32);
    assert_eq!(page(&pages, 0, 0x0a, 1)[..4], [0x4a, 1, 0, 0x1c]);
    let refused = |code, subpage| pages.sense(&request(0, code, subpage), &medium()).unwrap_err();
    assert_eq!(refused(0x05, 0), Sense::invalid_field_in_cdb(2, Some(5)));
    assert_eq!(refused(0x0a, 2), Sense::invalid_field_in_cdb(3, None));
    assert_eq!(refused(0x3f, 1), Sense::invalid_field_in_cdb(3, None));
}

#[test]
fn select_takes_effect_and_reset_takes_it_back() {
    let mut pages = ModePages::new(false);
    let list = list_with(&pages, 0x0a, 2, 0x24);
    assert_eq!(select(&mut pages, &list), Ok(true));
    assert!(pages.descriptor_sense());
    assert_eq!(select(&mut pages, &list), Ok(false), "the same again changes nothing");
    let list = list_with(&pages, 0x0a, 4, 0x08);
    assert_eq!(select(&mut pages, &list), Ok(true));
    assert!(pages.software_write_protect() && pages.descriptor_sense());
    assert_eq!(pages.sense(&request(0, 0x0a, 0), &medium()).unwrap()[2], 0x90);
    let list = list_with(&pages, 0x08, 2, 0x04);
    assert_eq!(select(&mut pages, &list), Ok(true));
    assert!(pages.write_cache_enabled());
    assert!(pages.reset());
    assert_eq!(pages, ModePages::new(false));
    assert!(!pages.reset());
}

#[test]
fn select_refuses_precisely_and_changes_nothing() {
    let mut pages = ModePages::new(false);
    let before = pages.clone();
    let bad = Sense::invalid_field_in_parameter_list;
    // RCD beside a WCE that would be allowed: nothing of the list is applied.
    let list = list_with(&pages, 0x08, 2, 0x05);
    assert_eq!(select(&mut pages, &list), Err(bad(6, Some(0))));
    let list = list_with(&pages, 0x0a, 3, 0);
    assert_eq!(select(&mut pages, &list), Err(bad(7, Some(4))));
    // Unknown page, wrong page length, subpage that is none.
    assert_eq!(select(&mut pages, &[0, 0, 0, 0, 0x05, 0]), Err(bad(4, Some(5))));
    assert_eq!(select(&mut pages, &[0, 0, 0, 0, 0x08, 0x0a]), Err(bad(5, None)));
    assert_eq!(select(&mut pages, &[0, 0, 0, 0, 0x48, 0, 0, 0x12]), Err(bad(4, Some(5))));
    // Medium type, block descriptor length, capacity, block length.
    assert_eq!(select(&mut pages, &[0, 1, 0, 0]), Err(bad(1, None)));
    assert_eq!(select(&mut pages, &[0, 0, 0, 7]), Err(bad(3, None)));
    let descriptor = |blocks: u8, bytes: u8| [0, 0, 0, 8, 0, 0, blocks, 0x34, 0, 0, bytes, 0];
    assert_eq!(select(&mut pages, &descriptor(0x12, 2)), Ok(false));
    assert_eq!(select(&mut pages, &descriptor(0x11, 2)), Err(bad(4, None)));
    assert_eq!(select(&mut pages, &descriptor(0x12, 4)), Err(bad(9, None)));
    // Cut off in the header, the descriptor, the page header and the page.
    let cut = Err(Sense::parameter_list_length_error());
    assert_eq!(select(&mut pages, &[0, 0, 0]), cut);
    assert_eq!(select(&mut pages, &descriptor(0x12, 2)[..9]), cut);
    let list = list_with(&pages, 0x08, 2, 0x04);
    assert_eq!(select(&mut pages, &list[..5]), cut);
    assert_eq!(select(&mut pages, &list[..23]), cut);
    // Pages in a vendor's format.
    let refused = pages.select(ModeHeader::Short, false, &list, &medium());
    assert_eq!(refused, Err(Sense::invalid_field_in_cdb(1, Some(4))));
    assert_eq!(select(&mut pages, &[]), Ok(false));
    assert_eq!(pages, before);
}

#[test]
fn long_header_and_long_descriptor_are_understood() {
    let mut pages = ModePages::new(false);
    let mut list = vec![0, 0, 0, 0, 1, 0, 0, 16];
    list.extend(0x1234u64.to_be_bytes());
    list.extend([0; 4]);
    list.extend(512u32.to_be_bytes());
    list.extend(page(&pages, 0, 0x08, 0));
    list[24 + 2] = 0x04;
    assert_eq!(pages.select(ModeHeader::Long, true, &list, &medium()), Ok(true));
    list[15] += 1;
    let refused = Sense::invalid_field_in_parameter_list(8, None);
    assert_eq!(pages.select(ModeHeader::Long, true, &list, &medium()), Err(refused));
    list[15] -= 1;
    list[22] += 1;
    let refused = Sense::invalid_field_in_parameter_list(8 + 12, None);
    assert_eq!(pages.select(ModeHeader::Long, true, &list, &medium()), Err(refused));
}

proptest! {
    #[test]
    fn what_sense_returns_select_accepts(code in prop_oneof![Just(1u8), Just(8), Just(10), Just(0x1c), Just(0x3f)], ps in any::<bool>()) {
        let mut pages = ModePages::new(true);
        let mut list = vec![0; 4];
        list.extend(page(&pages, 0, code, 0xff));
        list[4] |= if ps { 0x80 } else { 0 };
        prop_assert_eq!(select(&mut pages, &list), Ok(false));
    }

    #[test]
    fn any_list_is_applied_or_refused_without_trace(
        mut list in proptest::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..80),
        start in 0..PAGES.len(),
        long in any::<bool>(),
    ) {
        // Often put a real page in the place where one is looked for.
        let header = if long { ModeHeader::Long } else { ModeHeader::Short };
        let at = if long { 8 } else { 4 };
        if list.len() > at {
            list[..at].fill(0);
            list.splice(at.., PAGES[start].default.iter().copied());
        }
        let mut pages = ModePages::new(false);
        let before = pages.clone();
        match pages.select(header, true, &list, &medium()) {
            Ok(changed) => prop_assert_eq!(changed, pages != before),
            Err(_) => prop_assert_eq!(pages, before),
        }
    }

    #[test]
    fn one_flipped_bit_is_taken_exactly_if_it_is_changeable(
        which in 0..PAGES.len(), byte in any::<proptest::sample::Index>(), bit in 0u8..8
    ) {
        let spec = &PAGES[which];
        let byte = byte.index(spec.default.len() - spec.header_bytes()) + spec.header_bytes();
        let mut list = vec![0; 4];
        list.extend(spec.default);
        list[4 + byte] ^= 1 << bit;
        let mut pages = ModePages::new(false);
        let result = select(&mut pages, &list);
        if spec.changeable[byte] & 1 << bit != 0 {
            prop_assert_eq!(result, Ok(true));
        } else {
            let expected = Sense::invalid_field_in_parameter_list(4 + byte as u16, Some(bit));
            prop_assert_eq!(result, Err(expected));
        }
    }
}
