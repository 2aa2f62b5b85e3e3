use super::*;
use crate::alua::{AccessState, PortGroup, PortGroups};
use crate::unit::{Identity, MediumInfo, TargetPort, naa_from};

fn config() -> UnitConfig {
    let group = |id, port| PortGroup::new(id, AccessState::ActiveOptimized, vec![port]);
    let port = |relative_id| TargetPort { relative_id, portal_group_tag: relative_id };
    UnitConfig {
        identity: Identity::new("SN-1", "VOLUME", "0.1"),
        medium: MediumInfo::new(512, 1 << 21),
        write_cache: false,
        target_name: "iqn.2026-11.dev.drystone:export".into(),
        ports: vec![port(1), port(2)],
        port_groups: PortGroups::new(vec![group(10, 1), group(20, 2)], true, 0).unwrap(),
        referrals: None,
    }
}

fn page(code: u8) -> Vec<u8> {
    let data = inquiry(&config(), Some(code), 1).unwrap();
    assert_eq!(data[..2], [0, code]);
    assert_eq!(usize::from(u16::from_be_bytes([data[2], data[3]])), data.len() - 4);
    data
}

#[test]
fn standard_data() {
    let data = inquiry(&config(), None, 1).unwrap();
    assert_eq!(data.len(), 96);
    assert_eq!(data[..8], [0, 0, 6, 0x12, 91, 0x38, 0x10, 0x02]);
    assert_eq!(&data[8..36], b"DRYSTONEVOLUME          0.1 ");
    assert_eq!(data[58..64], [0x00, 0xa0, 0x09, 0x60, 0x05, 0xc0]);
    let single = UnitConfig {
        ports: config().ports[..1].to_vec(),
        port_groups: PortGroups::uniform(vec![1]).unwrap(),
        ..config()
    };
    let data = inquiry(&single, None, 1).unwrap();
    assert_eq!(data[5..7], [0x18, 0], "implicit access only, one port");
}

#[test]
fn page_00_lists_exactly_the_pages_there_are() {
    let listed = page(0)[4..].to_vec();
    assert_eq!(listed, [0x00, 0x80, 0x83, 0x86, 0x8f, 0xb0, 0xb1, 0xb2]);
    for code in 0..=255 {
        let found = inquiry(&config(), Some(code), 1);
        assert_eq!(found.is_ok(), listed.contains(&code), "{code:02x}");
    }
    assert_eq!(inquiry(&config(), Some(0x81), 1), Err(Sense::invalid_field_in_cdb(2, None)));
}

/// (first two header bytes, designator) of each designation descriptor.
fn designators(data: &[u8]) -> Vec<([u8; 2], Vec<u8>)> {
    let mut rest = &data[4..];
    let mut found = Vec::new();
    while let [a, b, _, len, tail @ ..] = rest {
        found.push(([*a, *b], tail[..usize::from(*len)].to_vec()));
        rest = &tail[usize::from(*len)..];
    }
    found
}

#[test]
fn device_identification_names_unit_port_and_device() {
    let found = designators(&page(0x83));
    assert_eq!(found[0], ([0x01, 0x03], naa_from("SN-1").to_vec()));
    assert_eq!(found[1], ([0x02, 0x01], b"DRYSTONESN-1".to_vec()));
    assert_eq!(found[2], ([0x51, 0x94], vec![0, 0, 0, 1]));
    assert_eq!(found[3], ([0x51, 0x95], vec![0, 0, 0, 10]));
    let port = b"iqn.2026-11.dev.drystone:export,t,0x0001\0\0\0\0".to_vec();
    assert_eq!(found[4], ([0x53, 0x98], port));
    assert_eq!(found[5], ([0x53, 0xa8], b"iqn.2026-11.dev.drystone:export\0".to_vec()));
    assert_eq!(found.len(), 6);

    let other = designators(&inquiry(&config(), Some(0x83), 2).unwrap());
    assert_eq!(other[..2], found[..2], "the unit is the same through every port");
    assert_eq!(other[2].1, [0, 0, 0, 2]);
    assert_eq!(other[3].1, [0, 0, 0, 20]);
}

#[test]
fn naa_is_stable_and_local() {
    // Fixed: hosts keep this name in their configuration.
    assert_eq!(naa_from("SN-1"), naa_from("SN-1"));
    assert_ne!(naa_from("SN-1"), naa_from("SN-2"));
    for serial in ["", "SN-1", "a much longer serial number than that"] {
        assert_eq!(naa_from(serial)[..3], [0x6d, 0x25, 0x70]);
        assert_eq!(naa_from(serial)[3] >> 4, 0xe);
    }
}

#[test]
fn block_limits_report_the_medium() {
    let mut config = config();
    config.medium.unmap_alignment_blocks = 5;
    let data = inquiry(&config, Some(0xb0), 1).unwrap();
    let word = |at: usize| u32::from_be_bytes(data[at..at + 4].try_into().unwrap());
    assert_eq!(data.len(), 64);
    assert_eq!(data[4..8], [1, 255, 0, 8]);
    let limits = &config.medium.limits;
    assert_eq!(word(8), limits.transfer_blocks_max);
    assert_eq!(word(12), limits.transfer_blocks_optimal);
    assert_eq!([word(20), word(24)], [limits.unmap_blocks_max, limits.unmap_descriptors_max]);
    assert_eq!([word(28), word(32)], [8, 0x8000_0005]);
    assert_eq!([word(36), word(40)], [0, 0]);
    assert_eq!([word(44), word(48), word(52)], [limits.atomic_blocks_max, 0, 0]);
    assert!(limits.atomic_blocks_max <= limits.transfer_blocks_max);

    config.medium.unmap_granularity_blocks = 1;
    let data = inquiry(&config, Some(0xb0), 1).unwrap();
    assert_eq!(data[28..36], [0; 8], "any range will do");

    config.medium.thin = false;
    let data = inquiry(&config, Some(0xb0), 1).unwrap();
    assert_eq!(data[20..36], [0; 16], "no UNMAP, no limits of it");
}

#[test]
fn characteristics_and_provisioning() {
    assert_eq!(page(0xb1)[4..10], [0, 1, 0, 0x40, 0x01, 0]);
    assert_eq!(page(0xb2)[4..], [0, 0xe4, 2, 0]);
    let mut config = config();
    config.medium.anchors = true;
    assert_eq!(inquiry(&config, Some(0xb2), 1).unwrap()[5], 0xe6);
    config.medium.thin = false;
    assert_eq!(inquiry(&config, Some(0xb2), 1).unwrap()[4..], [0; 4]);
    assert_eq!(inquiry(&config, Some(0xb1), 1).unwrap()[7], 0);
}

#[test]
fn extended_and_serial() {
    assert_eq!(&page(0x80)[4..], b"SN-1");
    let data = page(0x86);
    assert_eq!(data.len(), 64);
    assert_eq!([data[5], data[6], data[13]], [7, 1, 40]);
}

#[test]
fn text_fields_are_ascii_of_fixed_length() {
    let mut field = [0; 6];
    ascii("a\u{e9}", &mut field);
    assert_eq!(&field, b"a??   ");
    ascii("longer than six", &mut field);
    assert_eq!(&field, b"longer");
}

#[test]
fn absent_unit_has_qualifier_3() {
    let data = absent();
    assert_eq!(data[0], 0x7f);
    assert_eq!(usize::from(data[4]) + 5, data.len());
}
