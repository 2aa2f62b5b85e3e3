//! EXTENDED COPY(LID1): the cases of libiscsi's ExtendedCopy family, and round trips.

use super::*;

fn cscd(unit: u8) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0] = 0xe4;
    naa(unit).emit(&mut bytes);
    bytes[28..32].copy_from_slice(&512_u32.to_be_bytes());
    bytes
}

fn segment(source: u16, destination: u16, blocks: u16, lbas: (u64, u64)) -> Vec<u8> {
    let mut bytes = vec![0x02, 0, 0, 0x18];
    bytes.extend(source.to_be_bytes());
    bytes.extend(destination.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(blocks.to_be_bytes());
    bytes.extend(lbas.0.to_be_bytes());
    bytes.extend(lbas.1.to_be_bytes());
    bytes
}

/// The whole parameter list: `first` is bytes 0 and 1.
fn list(first: [u8; 2], cscds: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (cscds, segments) = (cscds.concat(), segments.concat());
    let mut list = first.to_vec();
    list.extend((cscds.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((segments.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    list.extend(cscds);
    list.extend(segments);
    list
}

fn refusal(list: &[u8]) -> Sense {
    ExtendedCopy::parse(list).unwrap_err()
}

/// One of each, as libiscsi's tests begin.
fn simple() -> Vec<u8> {
    list([1, 0], &[cscd(1)], &[segment(0, 0, 2048, (0, 9000))])
}

#[test]
fn extended_copy_simple() {
    let copy = ExtendedCopy::parse(&simple()).unwrap();
    let here = CopyTarget::Named(Cscd { designator: naa(1), block_bytes: 512, pad: false });
    let expected = Segment {
        source: here,
        destination: here,
        source_lba: 0,
        destination_lba: 9000,
        blocks: 2048,
        counts_destination: false,
        concatenate: false,
    };
    assert_eq!(copy, ExtendedCopy { list_id: Some(1), priority: 0, segments: vec![expected] });
}

#[test]
fn extended_copy_param_hdr() {
    let whole = simple();
    let error = Sense::parameter_list_length_error();
    assert!(ExtendedCopy::parse(&[]).unwrap().segments.is_empty(), "no list is no error");
    for bytes in 1..whole.len() {
        assert_eq!(refusal(&whole[..bytes]), error, "cut to {bytes}");
    }
}

#[test]
fn extended_copy_descr_limits() {
    let many = |cscds, segments| {
        list([1, 0], &vec![cscd(1); cscds], &vec![segment(0, 0, 1, (0, 0)); segments])
    };
    assert!(ExtendedCopy::parse(&many(CSCD_MAX, SEGMENTS_MAX)).is_ok());
    let targets = illegal(AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS).at_parameter(2, None);
    assert_eq!(refusal(&many(CSCD_MAX + 1, 1)), targets);
    let segments = illegal(AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS).at_parameter(8, None);
    assert_eq!(refusal(&many(1, SEGMENTS_MAX + 1)), segments);
    let both = refusal(&many(CSCD_MAX + 1, SEGMENTS_MAX + 1));
    assert_eq!(both, Sense::parameter_list_length_error(), "MAXIMUM DESCRIPTOR LIST LENGTH");
}

#[test]
fn extended_copy_descr_type() {
    let mut fibre = simple();
    fibre[16] = 0xe0;
    let code = AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE;
    assert_eq!(refusal(&fibre), illegal(code).at_parameter(16, None));
    let code = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
    for other in [0x00, 0x01, 0x03, 0x04, 0x0a, 0x0d, 0x15, 0xbe] {
        let mut stream = simple();
        stream[48] = other;
        assert_eq!(refusal(&stream), illegal(code).at_parameter(48, None), "{other:#x}");
    }
}

#[test]
fn extended_copy_valid_tgt_descr() {
    let with = |at: usize, value: u8| {
        let mut list = simple();
        list[at] = value;
        ExtendedCopy::parse(&list)
    };
    assert!(with(17, 0xe0).is_ok(), "LU ID TYPE and NUL are ignored since SPC-4");
    assert_eq!(with(17, 0x01), Err(bad_parameter(17, Some(4))), "a tape");
    assert_eq!(with(23, 21), Err(bad_parameter(23, None)), "a designator longer than its field");
    assert_eq!(with(3, 31), Err(bad_parameter(2, None)), "half a CSCD descriptor");
}

#[test]
fn extended_copy_valid_seg_descr() {
    for id in [1, 0x07ff, 0xc000, 0xc001, 0xf800] {
        let list = list([1, 0], &[cscd(1)], &[segment(0, 0, 1, (0, 0)), segment(0, id, 1, (0, 0))]);
        let code = AdditionalSense { asc: 0x08, ascq: 0x04 };
        let unreachable = Sense::new(SenseKey::CopyAborted, code).with_information(1);
        assert_eq!(refusal(&list), unreachable, "{id:#x} in the second segment");
    }
    let this = list([1, 0], &[], &[segment(0xffff, 0xffff, 1, (0, 0))]);
    let copy = ExtendedCopy::parse(&this).unwrap();
    assert_eq!(copy.segments[0].source, CopyTarget::ThisUnit);
    let mut long = simple();
    long[51] = 0x19;
    long.push(0);
    long[11] += 1;
    assert_eq!(refusal(&long), bad_parameter(50, None), "DESCRIPTOR LENGTH");
    let mut overrun = simple();
    overrun[51] = 0x20;
    assert_eq!(refusal(&overrun), bad_parameter(50, None), "beyond the segment list");
}

#[test]
fn list_identifier_usage() {
    let with = |first| ExtendedCopy::parse(&list(first, &[cscd(1)], &[segment(0, 0, 1, (0, 1))]));
    assert_eq!(with([7, 0x05]).map(|copy| (copy.list_id, copy.priority)), Ok((Some(7), 5)));
    assert_eq!(with([7, 0x10]).map(|copy| copy.list_id), Ok(Some(7)), "NRCR");
    assert_eq!(with([0, 0x18]).map(|copy| copy.list_id), Ok(None));
    assert_eq!(with([7, 0x18]), Err(bad_parameter(0, None)));
    assert_eq!(with([7, 0x08]), Err(bad_parameter(1, Some(4))), "reserved");
}

#[test]
fn inline_data_is_not_supported() {
    let mut list = simple();
    list[15] = 4;
    list.extend([0; 4]);
    let code = AdditionalSense::INLINE_DATA_LENGTH_EXCEEDED;
    assert_eq!(refusal(&list), illegal(code).at_parameter(12, None));
}

#[test]
fn a_segment_is_whole_blocks_on_both_sides() {
    let mut segment = ExtendedCopy::parse(&simple()).unwrap().segments[0];
    assert_eq!(segment.length_bytes(0, 512, 512), Ok(1 << 20));
    assert_eq!(segment.length_bytes(0, 512, 4096), Ok(1 << 20));
    segment.counts_destination = true;
    assert_eq!(segment.length_bytes(0, 512, 4096), Ok(8 << 20));
    segment = Segment { blocks: 3, counts_destination: false, ..segment };
    let inexact = segment_failure(5, AdditionalSense::UNEXPECTED_INEXACT_SEGMENT);
    assert_eq!(segment.length_bytes(5, 512, 4096), Err(inexact));
    assert_eq!((inexact.key, inexact.information), (SenseKey::CopyAborted, Some(5)));
}

proptest! {
    #[test]
    fn a_list_comes_back_as_its_plan(
        units in prop::collection::vec(any::<u8>(), 1..=CSCD_MAX),
        wanted in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u16>(),
             any::<(u64, u64)>(), 0_u8..4),
            0..=SEGMENTS_MAX),
        list_id in any::<u8>(), priority in 0_u8..8,
    ) {
        let cscds: Vec<_> = units.iter().map(|&unit| cscd(unit)).collect();
        let pick = |index: &prop::sample::Index| index.index(units.len());
        let segments: Vec<_> = wanted.iter().map(|(from, to, blocks, lbas, flags)| {
            let mut bytes = segment(pick(from) as u16, pick(to) as u16, *blocks, *lbas);
            bytes[1] = *flags;
            bytes
        }).collect();
        let copy = ExtendedCopy::parse(&list([list_id, priority], &cscds, &segments)).unwrap();
        prop_assert_eq!((copy.list_id, copy.priority), (Some(list_id), priority));
        prop_assert_eq!(copy.segments.len(), wanted.len());
        for (got, (from, to, blocks, lbas, flags)) in copy.segments.iter().zip(&wanted) {
            let named = |index| CopyTarget::Named(
                Cscd { designator: naa(units[pick(index)]), block_bytes: 512, pad: false });
            prop_assert_eq!((got.source, got.destination), (named(from), named(to)));
            prop_assert_eq!(got.blocks, *blocks);
            prop_assert_eq!((got.source_lba, got.destination_lba), *lbas);
            prop_assert_eq!(got.counts_destination, flags & 2 != 0);
            prop_assert_eq!(got.concatenate, flags & 1 != 0);
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = ExtendedCopy::parse(&bytes);
    }

    /// Damage that leaves the header's sums mostly intact reaches the descriptors.
    #[test]
    fn no_damage_panics(at in 0_usize..76, value in any::<u8>(), cut in 0_usize..80) {
        let mut list = simple();
        list[at] = value;
        list.truncate(cut);
        let _ = ExtendedCopy::parse(&list);
    }
}
