//! What the copy manager says of itself, and that both places say the same.

use super::*;

/// The descriptors of VPD page 8Fh: (type, parameters).
fn descriptors(page: &[u8]) -> Vec<(u16, Vec<u8>)> {
    assert_eq!(page[..2], [0x00, 0x8f]);
    assert_eq!(usize::from(be16(page, 2)), page.len() - 4);
    let mut rest = &page[4..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let length = usize::from(be16(rest, 2));
        assert!(length.is_multiple_of(4), "every descriptor is a multiple of four");
        found.push((be16(rest, 0), rest[4..4 + length].to_vec()));
        rest = &rest[4 + length..];
    }
    found
}

fn parameters(kind: u16) -> Vec<u8> {
    let page = third_party_copy_page(4096);
    descriptors(&page).into_iter().find(|(other, _)| *other == kind).expect("it is there").1
}

#[test]
fn receive_copy_results_op_params() {
    let data = operating_parameters(512);
    assert_eq!(data.len(), 46);
    assert_eq!(data[..16], [0, 0, 0, 42, 1, 0, 0, 0, 0, 16, 0, 64, 0, 0, 0x09, 0x00]);
    assert_eq!(data[16..34], [0; 18], "nothing inline or held, no limit on a segment");
    assert_eq!(data[34..], [0, 16, 16, 9, 0, 0, 0, 0, 0, 2, 0x02, 0xe4]);
}

#[test]
fn the_page_lists_its_descriptors_in_ascending_order() {
    let page = third_party_copy_page(512);
    let kinds: Vec<u16> = descriptors(&page).iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [0x0000, 0x0001, 0x0004, 0x0008, 0x000c, 0x0106, 0x0108, 0x8001]);
}

#[test]
fn the_page_and_the_operating_parameters_agree() {
    let operating = operating_parameters(4096);
    assert_eq!(parameters(0x0004)[4..12], operating[8..16]);
    assert_eq!(parameters(0x0008)[..3], operating[43..46]);
    let general = parameters(0x8001);
    assert_eq!(general.len(), 32);
    assert_eq!((general[12], general[3]), (operating[37], operating[36]));
}

#[test]
fn supported_commands_are_those_of_the_command_table() {
    let list = parameters(0x0001);
    let used = usize::from(list[0]);
    let mut rest = &list[1..=used];
    for opcode in [0x83, 0x84] {
        let (head, more) = rest.split_at(2);
        let (actions, more) = more.split_at(usize::from(head[1]));
        assert_eq!(head[0], opcode);
        assert!(actions.is_sorted_by(|a, b| a < b));
        let known = crate::cdb::rows(opcode).iter().filter_map(|row| row.service_action);
        assert!(known.eq(actions.iter().copied()), "{opcode:#x}");
        rest = more;
    }
    assert_eq!(rest, []);
}

#[test]
fn rod_token_limits_are_in_blocks_of_the_unit() {
    let limits = parameters(0x0000);
    assert_eq!(limits.len(), 32);
    assert_eq!(be16(&limits, 6), 64);
    assert_eq!((be32(&limits, 8), be32(&limits, 12)), (300, 30));
    assert_eq!((be64(&limits, 16), be64(&limits, 24)), (1 << 18, 1 << 14));
    let features = parameters(0x0106);
    assert_eq!((features.len(), be16(&features, 42)), (92, 48));
    assert_eq!((be16(&features, 46), be64(&features, 52)), (0x2c, TOKEN_BYTES_MAX));
}

#[test]
fn rod_types_are_the_one_we_make_and_the_zero_token() {
    let types = parameters(0x0108);
    assert_eq!(be16(&types, 2), 128);
    let each: Vec<_> = types[4..].chunks(64).map(|bytes| (be32(bytes, 0), bytes[4])).collect();
    assert_eq!(each, [(0x0001_0000, 0x03), (0xffff_0001, 0x02)]);
}
