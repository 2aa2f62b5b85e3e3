//! EXTENDED COPY and RECEIVE COPY RESULTS.

use block::BlockError;
use block::testing::{Fault, Operation, Rule};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use scsi::copy::segment_failure;

use super::*;

/// CSCD number, first block.
type End = (u16, u64);

/// The descriptor of a unit by its NAA name.
fn cscd(unit: &Unit) -> Vec<u8> {
    let mut bytes = vec![0xe4, 0, 0, 0, 0x01, 0x03, 0, 16];
    bytes.extend(unit.logical.config().identity.naa);
    bytes.extend([0; 4]);
    bytes.extend(unit.block_bytes.to_be_bytes());
    bytes
}

pub(super) fn list(id: u8, units: &[&Unit], segments: &[(End, End, u16)]) -> Vec<u8> {
    let cscds: Vec<u8> = units.iter().flat_map(|unit| cscd(unit)).collect();
    let mut list = vec![id, 0];
    list.extend((cscds.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((segments.len() as u32 * 28).to_be_bytes());
    list.extend([0; 4]);
    list.extend(cscds);
    for ((source, from), (destination, to), blocks) in segments {
        list.extend([0x02, 0, 0, 0x18]);
        list.extend(source.to_be_bytes());
        list.extend(destination.to_be_bytes());
        list.extend([0, 0]);
        list.extend(blocks.to_be_bytes());
        list.extend(from.to_be_bytes());
        list.extend(to.to_be_bytes());
    }
    list
}

/// From unit 0 to unit 1, sent to unit 0.
async fn across(bench: &Bench, id: u8, segments: &[(u64, u64, u16)]) -> Result<(), Outcome> {
    let segments: Vec<_> = segments.iter().map(|&(a, b, n)| ((0, a), (1, b), n)).collect();
    let list = list(id, &[&bench.units[0], &bench.units[1]], &segments);
    extended::copy(&bench.request(0, 0), &bench.units, &list).await
}

/// RECEIVE COPY STATUS(LID1): status, segments, and bytes.
fn status(bench: &Bench, id: u8) -> Result<(u8, u16, u32), Sense> {
    let command = Command::ReceiveCopyStatus { list_id: id, allocation_bytes: 12 };
    match bench.ask(0, 0, command) {
        Outcome::Parameters(data) => {
            let count = u32::from_be_bytes(data[8..12].try_into().unwrap());
            assert_eq!(data[7], 0, "counted in bytes");
            Ok((data[4], u16::from_be_bytes([data[5], data[6]]), count))
        }
        Outcome::Check(sense) => Err(sense),
        other => panic!("{other:?}"),
    }
}

#[test]
fn copies_between_units_of_any_block_length_and_tells_of_it() {
    on_core(|| async {
        let bench = Bench::new(&[512, 4096]);
        let bytes = bench.fill(0, 8192, 3 * MIB, 1).await;
        assert!(across(&bench, 7, &[(16, 5, 2048), (2064, 261, 4096)]).await.is_ok());
        assert_eq!(bench.read(1, 5 * 4096, 3 * MIB).await, bytes);
        assert_eq!(bench.read(1, 0, 5 * 4096).await, [0; 5 * 4096]);
        assert_eq!(bench.read(1, 5 * 4096 + 3 * MIB, 4096).await, [0; 4096]);
        assert_eq!(status(&bench, 7), Ok((0x01, 2, 3 << 20)));
        assert!(status(&bench, 7).is_err(), "it is told once");
        assert!(across(&bench, 8, &[(1, 5, 8)]).await.is_ok(), "a block of the source is a unit");
        let inexact = sense_of(across(&bench, 8, &[(0, 0, 8), (1, 5, 7)]).await);
        let code = AdditionalSense::UNEXPECTED_INEXACT_SEGMENT;
        assert_eq!(inexact, segment_failure(1, code));
        assert_eq!(status(&bench, 8), Ok((0x02, 2, 4096)), "the first segment was copied");
    });
}

#[test]
fn overlapping_ranges_of_one_unit_keep_what_the_source_held() {
    on_core(|| async {
        let bench = Bench::new(&[512]);
        // The inner runner has no async: collect the cases first.
        let cases = (0_u64..8192, 0_u64..8192, 1_u16..8192);
        let mut runner = TestRunner::deterministic();
        for _ in 0..24 {
            let (from, to, blocks) = cases.new_tree(&mut runner).unwrap().current();
            let mut model = bench.fill(0, 0, 8 * MIB, 3).await;
            let segment = ((0, from), (0, to), blocks);
            let list = list(1, &[&bench.units[0]], &[segment]);
            assert!(extended::copy(&bench.request(0, 0), &bench.units, &list).await.is_ok());
            let bytes = |block: u64| block as usize * 512;
            let source = bytes(from)..bytes(from + u64::from(blocks));
            model.copy_within(source, bytes(to));
            assert!(bench.read(0, 0, 8 * MIB).await == model, "{from} to {to}, {blocks} blocks");
            assert_eq!(status(&bench, 1), Ok((0x01, 1, u32::from(blocks) * 512)));
        }
    });
}

#[test]
fn units_are_found_by_each_of_their_names() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 4096, 5).await;
        let mut list = list(1, &[&bench.units[0], &bench.units[1]], &[((0, 0), (1, 0), 8)]);
        let t10 = b"DRYSTONEunit-1";
        list[16 + 32 + 4..16 + 32 + 8].copy_from_slice(&[0x02, 0x01, 0, t10.len() as u8]);
        list[16 + 32 + 8..16 + 64 - 4].fill(0);
        list[16 + 32 + 8..][..t10.len()].copy_from_slice(t10);
        let copy = |list: Vec<u8>| {
            let (request, units) = (bench.request(0, 0), bench.units.clone());
            async move { extended::copy(&request, &units, &list).await }
        };
        assert!(copy(list.clone()).await.is_ok());
        assert_eq!(bench.read(1, 0, 4096).await, bytes);
        list[16 + 32 + 8] ^= 1;
        let code = AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE;
        assert_eq!(sense_of(copy(list.clone()).await), segment_failure(0, code));
        list[16 + 32 + 8] ^= 1;
        list[16 + 62] = 16;
        let code = AdditionalSense::INVALID_OPERATION_FOR_COPY_SOURCE_OR_DESTINATION;
        assert_eq!(sense_of(copy(list).await), segment_failure(0, code), "blocks of 4,096 bytes");
    });
}

#[test]
fn blocks_behind_the_end_of_either_unit_are_refused_in_their_turn() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let last = 8 * MIB / 512;
        for (n, (from, to)) in
            [(last - 7, 0), (0, last - 7), (u64::MAX, 0), (0, u64::MAX)].into_iter().enumerate()
        {
            let id = n as u8;
            let sense = sense_of(across(&bench, id, &[(0, 0, 8), (from, to, 8)]).await);
            assert_eq!(sense, segment_failure(1, AdditionalSense::NO_ADDITIONAL_SENSE));
            assert_eq!(status(&bench, id), Ok((0x02, 2, 4096)));
        }
        assert!(across(&bench, 9, &[(last - 8, last - 8, 8)]).await.is_ok());
    });
}

#[test]
fn a_reservation_or_protection_of_the_other_unit_holds() {
    on_core(|| async {
        let bench = Bench::with(&[512, 512, 512], |n| n == 2);
        bench.reserve(1, 9);
        let conflict = segment_failure(0, AdditionalSense::THIRD_PARTY_DEVICE_FAILURE);
        assert_eq!(sense_of(across(&bench, 1, &[(0, 0, 8)]).await), conflict);
        let list = |from: usize, to: usize| {
            list(1, &[&bench.units[from], &bench.units[to]], &[((0, 0), (1, 0), 8)])
        };
        let copy = |host, list: Vec<u8>| {
            let (request, units) = (bench.request(0, host), bench.units.clone());
            async move { extended::copy(&request, &units, &list).await }
        };
        assert_eq!(sense_of(copy(0, list(1, 0)).await), conflict, "as a source too");
        assert!(copy(9, list(0, 1)).await.is_ok(), "the holder may");
        let protected = segment_failure(0, AdditionalSense::WRITE_PROTECTED);
        assert_eq!(sense_of(copy(0, list(0, 2)).await), protected);
        assert!(copy(0, list(2, 0)).await.is_ok());
    });
}

#[test]
fn a_failing_disk_ends_the_copy_where_it_fails() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 4 * MIB, 1).await;
        let fail = Fault::Fail(BlockError::Medium { at: 2 * MIB });
        let failure = segment_failure(0, AdditionalSense::THIRD_PARTY_DEVICE_FAILURE);
        bench.disks[0].inject(Rule::always(Operation::Read, fail).at(2 * MIB..2 * MIB + 512));
        assert_eq!(sense_of(across(&bench, 1, &[(0, 0, 8192)]).await), failure);
        assert_eq!(status(&bench, 1), Ok((0x02, 1, 2 << 20)));
        bench.disks[0].heal();
        assert!(bench.read(1, 0, 2 * MIB).await == bytes[..2 << 20]);
        assert!(bench.read(1, 2 * MIB, 2 * MIB).await.iter().all(|&byte| byte == 0));
        bench.disks[1].inject(Rule::always(Operation::Write, fail).at(0..512));
        assert_eq!(sense_of(across(&bench, 2, &[(0, 0, 8192)]).await), failure);
        let details = Command::ReceiveCopyFailureDetails { list_id: 2, allocation_bytes: 255 };
        let details = parameters(bench.ask(0, 0, details));
        assert_eq!(details[56], Status::CheckCondition.code());
        assert_eq!(details[60..], *failure.to_bytes(false));
        assert_eq!(status(&bench, 2), Ok((0x02, 1, 0)));
    });
}

#[test]
fn a_disk_that_is_busy_for_a_moment_is_asked_again() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 2 * MIB, 1).await;
        let busy = |operation, error| Rule::always(operation, Fault::Fail(error)).times(3);
        bench.disks[0].inject(busy(Operation::Read, BlockError::NoMemory));
        bench.disks[1].inject(busy(Operation::Write, BlockError::Busy));
        assert!(across(&bench, 1, &[(0, 0, 4096)]).await.is_ok());
        assert!(bench.read(1, 0, 2 * MIB).await == bytes);
    });
}

#[test]
fn nothing_to_copy_is_no_error_and_lists_are_checked_first() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let request = bench.request(0, 0);
        assert!(extended::copy(&request, &bench.units, &[]).await.is_ok());
        assert!(across(&bench, 1, &[(0, 0, 0)]).await.is_ok());
        let cut = extended::copy(&request, &bench.units, &[0; 15]).await;
        assert_eq!(sense_of(cut), Sense::parameter_list_length_error());
        let operating = Command::ReceiveCopyOperatingParameters { allocation_bytes: 20 };
        assert_eq!(parameters(bench.ask(0, 0, operating)).len(), 20);
        let held = |list_id| Command::ReceiveCopyData { list_id, allocation_bytes: 99 };
        assert_eq!(parameters(bench.ask(0, 0, held(1))), [0; 4]);
        assert!(matches!(bench.ask(0, 0, held(2)), Outcome::Check(_)));
    });
}
