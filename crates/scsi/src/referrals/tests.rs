use super::*;
use AccessState::{ActiveNonOptimized, ActiveOptimized};
use proptest::prelude::*;

fn segment(first_lba: u64, last_lba: u64, owner: u16) -> Segment {
    let groups = vec![
        GroupAccess::new(owner, ActiveOptimized),
        GroupAccess::new(owner + 1, ActiveNonOptimized),
    ];
    Segment { first_lba, last_lba, groups }
}

#[test]
fn the_report_is_laid_out_as_the_standard_says() {
    let map = ReferralMap::new(vec![segment(0, 9, 3), segment(10, 0x1ff, 0x104)]).unwrap();
    let data = map.report(0, false);
    assert_eq!(data[..4], [0, 0, 0, 56]);
    assert_eq!(data[4..8], [0, 0, 0, 2]);
    assert_eq!(data[16..24], [0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!(data[24..32], [0, 0, 0, 3, 1, 0, 0, 4]);
    assert_eq!(data[36..44], [0, 0, 0, 0, 0, 0, 0, 10]);
    assert_eq!(data[52..60], [0, 0, 1, 4, 1, 0, 1, 5]);
}

#[test]
fn one_segment_or_all_from_a_block_on() {
    let map = ReferralMap::new(vec![segment(0, 9, 1), segment(10, 19, 2), segment(20, 29, 1)]);
    let map = map.unwrap();
    let firsts = |lba, one| -> Vec<u64> {
        parse_report(&map.report(lba, one)).iter().map(|it| it.first_lba).collect()
    };
    assert_eq!(firsts(0, false), [0, 10, 20]);
    assert_eq!(firsts(19, false), [10, 20]);
    assert_eq!(firsts(19, true), [10]);
    assert_eq!(firsts(30, false), []);
}

#[test]
fn segments_out_of_order_are_no_map() {
    let bad = |segments| ReferralMap::new(segments).unwrap_err();
    assert_eq!(bad(vec![segment(5, 4, 1)]), BadSegment(5));
    assert_eq!(bad(vec![segment(0, 9, 1), segment(9, 12, 1)]), BadSegment(9));
    assert_eq!(bad(vec![segment(0, u64::MAX, 1), segment(3, 4, 1)]), BadSegment(3));
}

/// A map that is longer than the length field can tell comes in parts without gaps.
#[test]
fn a_long_map_is_asked_for_in_parts() {
    let all: Vec<Segment> = (0..5000).map(|n| segment(n * 8, n * 8 + 7, (n % 3) as u16)).collect();
    let map = ReferralMap::new(all.clone()).unwrap();
    let mut found: Vec<Segment> = Vec::new();
    loop {
        let next = found.last().map_or(0, |last| last.last_lba + 1);
        let part = parse_report(&map.report(next, false));
        if part.is_empty() {
            break;
        }
        found.extend(part);
    }
    assert_eq!(found, all);
}

/// The examples of SBC-4 annex F: two groups take turns, with and without a multiplier.
#[test]
fn stripes_are_unfolded() {
    let rule = SegmentRule::parse(&{
        let mut page = vec![0, 0xb3, 0, 12];
        page.extend([0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 2]);
        page
    });
    let runs: Vec<_> = rule.unwrap().runs(&segment(0, 34, 1)).collect();
    assert_eq!(runs, [(0, 9), (20, 29)]);
    let runs: Vec<_> = rule.unwrap().runs(&segment(10, 34, 2)).collect();
    assert_eq!(runs, [(10, 19), (30, 34)]);
    let plain: Vec<_> = SegmentRule::default().runs(&segment(10, 34, 2)).collect();
    assert_eq!(plain, [(10, 34)]);
    assert_eq!(SegmentRule::parse(&[0; 15]), None);
}

proptest! {
    #[test]
    fn what_is_reported_is_read_again(
        lens in proptest::collection::vec((1_u64..1000, 0_u64..5, 0_usize..4), 0..60),
    ) {
        let mut next = 0;
        let segments: Vec<Segment> = lens.iter().map(|&(len, gap, groups)| {
            let first_lba = next + gap;
            next = first_lba + len;
            let groups = (0..groups as u16).map(|n| GroupAccess::new(n, ActiveOptimized)).collect();
            Segment { first_lba, last_lba: next - 1, groups }
        }).collect();
        let map = ReferralMap::new(segments.clone()).unwrap();
        prop_assert_eq!(parse_report(&map.report(0, false)), segments);
    }

    #[test]
    fn no_bytes_make_it_panic(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        for segment in parse_report(&data) {
            prop_assert!(segment.first_lba <= segment.last_lba);
            let rule = SegmentRule::parse(&data).unwrap_or_default();
            for (first, last) in rule.runs(&segment).take(100) {
                prop_assert!(first <= last && last <= segment.last_lba);
            }
        }
    }
}

/// Sense data in descriptor format with an information descriptor in front of the referrals.
fn sense_with(list: &[u8]) -> Vec<u8> {
    let information = [0x00, 0x0a, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let referrals = [&[0x0b, list.len() as u8 + 2, 0x01, 0][..], list].concat();
    let descriptors = [&information[..], &referrals].concat();
    [&[0x72, 0x0b, 0x04, 0x04, 0, 0, 0, descriptors.len() as u8][..], &descriptors].concat()
}

#[test]
fn sense_data_tells_where_its_blocks_are() {
    let segment = Segment {
        first_lba: 64,
        last_lba: 127,
        groups: vec![GroupAccess::new(2, AccessState::ActiveOptimized)],
    };
    let list = ReferralMap::new(vec![segment.clone()]).unwrap().report(0, false);
    let sense = sense_with(&list[4..]);
    assert_eq!(parse_sense(&sense), [segment]);
    for len in 0..sense.len() {
        assert!(parse_sense(&sense[..len]).is_empty(), "cut short at {len}");
    }
    let mut fixed = sense;
    fixed[0] = 0x70;
    assert!(parse_sense(&fixed).is_empty(), "fixed format has no descriptors");
}
