//! The parameter lists of POPULATE TOKEN and WRITE USING TOKEN.

use super::*;

const BLOCKS: u64 = 1 << 20;

fn populate_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; 14];
    list.extend(range_list(ranges));
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
    list
}

fn write_list(offset: u64, token: &[u8; ROD_TOKEN_BYTES], ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; 8];
    list.extend(offset.to_be_bytes());
    list.extend(token);
    list.extend([0; 6]);
    list.extend(range_list(ranges));
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
    list
}

fn populate(list: &[u8]) -> Result<Option<PopulateToken>, Sense> {
    PopulateToken::parse(list, 512, BLOCKS)
}

fn with(ranges: &[(u64, u32)], at: usize, bytes: &[u8]) -> Result<Option<PopulateToken>, Sense> {
    let mut list = populate_list(ranges);
    list[at..at + bytes.len()].copy_from_slice(bytes);
    populate(&list)
}

#[test]
fn populate_token_fields() {
    let request = populate(&populate_list(&[(100, 8), (0, 1)])).unwrap().unwrap();
    let ranges = vec![TokenRange { lba: 100, blocks: 8 }, TokenRange { lba: 0, blocks: 1 }];
    assert_eq!((request.ranges.clone(), request.blocks()), (ranges, 9));
    assert_eq!((request.immediate, request.inactivity_timeout_s), (false, 30));
    let request = with(&[(0, 1)], 2, &[0x01]).unwrap().unwrap();
    assert!(request.immediate);
    assert_eq!(with(&[(0, 1)], 4, &[0, 0, 0, 9]).unwrap().unwrap().inactivity_timeout_s, 9);
    assert_eq!(populate(&[]), Ok(None));
}

#[test]
fn populate_token_refusals() {
    let one = &[(0, 1)];
    for bytes in 1..16 {
        let cut = &populate_list(one)[..bytes];
        assert_eq!(populate(cut), Err(Sense::parameter_list_length_error()), "{bytes}");
    }
    assert_eq!(with(one, 0, &[0, 29]), Err(bad_parameter(0, None)), "data length");
    assert_eq!(with(one, 4, &[0, 0, 1, 45]), Err(bad_parameter(4, None)), "301 s");
    assert_eq!(with(one, 14, &[0, 15]), Err(bad_parameter(14, None)), "no whole range");
    let rod_type = |code: u32| {
        let mut fields = vec![0x02, 0, 0, 0, 0, 0];
        fields.extend(code.to_be_bytes());
        with(one, 2, &fields).map(|_| ())
    };
    assert_eq!(rod_type(0x0001_0000), Ok(()), "the type we make");
    for point_in_time in [0x0080_0000, 0x0080_0001, 0x0080_0002, 0x0080_ffff, 0xffff_0001, 0] {
        assert_eq!(rod_type(point_in_time), Err(bad_parameter(8, None)), "{point_in_time:#x}");
    }
}

#[test]
fn ranges_are_on_the_medium_once_and_bounded() {
    let run = |ranges: &[(u64, u32)]| populate(&populate_list(ranges)).map(|_| ());
    assert_eq!(run(&[(BLOCKS - 1, 1)]), Ok(()));
    assert_eq!(run(&[(BLOCKS - 1, 2)]), Err(Sense::lba_out_of_range(BLOCKS)));
    assert_eq!(run(&[(u64::MAX, 2)]), Err(Sense::lba_out_of_range(u64::MAX)));
    assert_eq!(run(&[(0, 8), (7, 2)]), Err(bad_parameter(32, None)), "block 7 twice");
    assert_eq!(run(&[(0, 8), (8, 2), (4, 0)]), Ok(()), "no blocks are no overlap");
    let many: Vec<_> = (0..=TOKEN_RANGES_MAX as u64).map(|n| (n * 2, 1)).collect();
    assert_eq!(run(&many[1..]), Ok(()));
    let code = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
    assert_eq!(run(&many), Err(illegal(code).at_parameter(14, None)));
    let huge = u32::try_from(TOKEN_BYTES_MAX / 512).unwrap() + 1;
    let big_unit = PopulateToken::parse(&populate_list(&[(0, huge)]), 512, 1 << 40);
    assert_eq!(big_unit, Err(bad_parameter(24, None)), "more than a token may stand for");
}

#[test]
fn cut_off_ranges_are_ignored() {
    let list = populate_list(&[(0, 1), (5, 1)]);
    let request = populate(&list[..list.len() - 1]).unwrap().unwrap();
    assert_eq!(request.ranges, [TokenRange { lba: 0, blocks: 1 }]);
}

#[test]
fn write_using_token_fields_and_refusals() {
    let parse = |list: &[u8]| WriteUsingToken::parse(list, 4096, BLOCKS);
    let token = [0x5a; ROD_TOKEN_BYTES];
    let mut list = write_list(7, &token, &[(3, 4)]);
    list[2] = 0x03;
    let request = parse(&list).unwrap().unwrap();
    assert!(request.immediate && request.delete_token);
    assert_eq!((request.offset_blocks, request.blocks(), *request.token), (7, 4, token));
    assert_eq!(parse(&[]), Ok(None));
    for bytes in [1, 15, 528, 535] {
        assert_eq!(parse(&list[..bytes]), Err(Sense::parameter_list_length_error()), "{bytes}");
    }
    let mut wrong = list.clone();
    wrong[1] += 1;
    assert_eq!(parse(&wrong), Err(bad_parameter(0, None)), "the two lengths disagree");
    let empty = write_list(0, &token, &[]);
    assert_eq!(parse(&empty), Err(bad_parameter(0, None)), "no ranges at all");
}

#[test]
fn an_underrun_tells_how_far_it_came() {
    let some = underrun(12);
    assert_eq!((some.key, some.information), (SenseKey::CopyAborted, Some(12)));
    assert_eq!(underrun(0).key, SenseKey::IllegalRequest);
}

proptest! {
    #[test]
    fn no_bytes_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..700), mend in any::<bool>()
    ) {
        if mend && bytes.len() > 536 {
            // Reaches the ranges: a list that agrees with itself.
            bytes[..2].copy_from_slice(&(534_u16 + 64).to_be_bytes());
            bytes[534..536].copy_from_slice(&64_u16.to_be_bytes());
        }
        for block_bytes in [512, 4096] {
            let _ = PopulateToken::parse(&bytes, block_bytes, BLOCKS);
            let _ = WriteUsingToken::parse(&bytes, block_bytes, u64::MAX);
        }
    }

    /// What is accepted is what the rest may rely on.
    #[test]
    fn accepted_ranges_keep_the_promise(
        ranges in prop::collection::vec((0_u64..200, 0_u32..20), 1..8)
    ) {
        if let Ok(Some(request)) = PopulateToken::parse(&populate_list(&ranges), 512, 200) {
            let mut seen = std::collections::BTreeSet::new();
            for range in &request.ranges {
                for lba in range.lba..range.lba + u64::from(range.blocks) {
                    prop_assert!(lba < 200 && seen.insert(lba));
                }
            }
            prop_assert_eq!(seen.len() as u64, request.blocks());
        }
    }
}
