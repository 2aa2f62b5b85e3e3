//! The token commands, and what becomes of tokens.

use block::BlockError;
use block::testing::{Fault, Operation, Rule};
use scsi::copy::{ROD_TOKEN_BYTES, underrun};

use super::*;

type Token = [u8; ROD_TOKEN_BYTES];

fn range_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = ((ranges.len() * 16) as u16).to_be_bytes().to_vec();
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn with_length(mut list: Vec<u8>) -> Vec<u8> {
    let length = (list.len() - 2) as u16;
    list[..2].copy_from_slice(&length.to_be_bytes());
    list
}

pub(super) fn populate_list(timeout_s: u32, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; 4];
    list.extend(timeout_s.to_be_bytes());
    list.extend([0; 6]);
    list.extend(range_list(ranges));
    with_length(list)
}

/// `flags`: 01h IMMED, 02h DEL_TKN.
pub(super) fn write_list(flags: u8, offset: u64, token: &Token, ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0, 0, flags, 0, 0, 0, 0, 0];
    list.extend(offset.to_be_bytes());
    list.extend(token);
    list.extend([0; 6]);
    list.extend(range_list(ranges));
    with_length(list)
}

/// RECEIVE ROD TOKEN INFORMATION: the header of 32 bytes, and the token.
pub(super) fn information(bench: &Bench, unit: usize, list_id: u32) -> (Vec<u8>, Option<Token>) {
    let command = Command::ReceiveRodTokenInformation { list_id, allocation_bytes: 4096 };
    let data = parameters(bench.ask(unit, 0, command));
    let token = data.last_chunk::<ROD_TOKEN_BYTES>().filter(|_| data.len() > ROD_TOKEN_BYTES);
    (data[..32].to_vec(), token.copied())
}

/// Host 0 makes a token for blocks of a unit.
pub(super) fn token(bench: &Bench, unit: usize, ranges: &[(u64, u32)]) -> Token {
    token_for(bench, unit, 30, ranges)
}

fn token_for(bench: &Bench, unit: usize, timeout_s: u32, ranges: &[(u64, u32)]) -> Token {
    let list = populate_list(timeout_s, ranges);
    assert!(offload::populate(&bench.request(unit, 0), 1, &list).is_ok());
    let (header, token) = information(bench, unit, 1);
    assert_eq!((header[4], header[5]), (0x10, 0x01));
    token.unwrap()
}

async fn write(bench: &Bench, unit: usize, host: u8, list: &[u8]) -> Result<(), Outcome> {
    offload::write(bench.request(unit, host), &bench.units, 2, list).await
}

/// Status, and blocks transferred, of the write.
fn result(bench: &Bench, unit: usize) -> (u8, u64) {
    let (header, _) = information(bench, unit, 2);
    (header[5], u64::from_be_bytes(header[16..24].try_into().unwrap()))
}

fn zero_token() -> Token {
    let mut token = [0; ROD_TOKEN_BYTES];
    token[..8].copy_from_slice(&[0xff, 0xff, 0x00, 0x01, 0, 0, 0x01, 0xf8]);
    token
}

#[test]
fn a_token_carries_data_to_another_unit_for_another_host() {
    on_core(|| async {
        let bench = Bench::new(&[512, 4096]);
        let bytes = bench.fill(0, 0, 4 * MIB, 1).await;
        let token = token(&bench, 0, &[(4096, 4096), (0, 2048)]);
        let list = write_list(0, 1, &token, &[(300, 100), (0, 256)]);
        assert!(offload::write(bench.request(1, 5), &bench.units, 9, &list).await.is_ok());
        let mut rod = bytes[2 << 20..].to_vec();
        rod.extend(&bytes[..1 << 20]);
        assert!(bench.read(1, 300 * 4096, 100 * 4096).await == rod[4096..101 * 4096]);
        assert!(bench.read(1, 0, 256 * 4096).await == rod[101 * 4096..357 * 4096]);
        let status = Command::ReceiveCopyStatusLid4 { list_id: 9, allocation_bytes: 255 };
        let status = parameters(bench.ask(1, 5, status));
        assert_eq!((status[4], status[5], status[15]), (0x11, 0x01, 0xf1));
        assert_eq!(status[16..24], 356_u64.to_be_bytes());
        let all = Command::ReportAllRodTokens { allocation_bytes: 4096 };
        assert_eq!(parameters(bench.ask(1, 5, all)).len(), 8 + 96);
    });
}

#[test]
fn the_zero_token_writes_zeroes() {
    on_core(|| async {
        let bench = Bench::new(&[512]);
        let bytes = bench.fill(0, 0, MIB, 1).await;
        let list = write_list(0, 77, &zero_token(), &[(8, 8), (1000, 24)]);
        assert!(write(&bench, 0, 0, &list).await.is_ok());
        assert_eq!(result(&bench, 0), (0x01, 32));
        let mut expected = bytes;
        expected[8 * 512..16 * 512].fill(0);
        expected[1000 * 512..1024 * 512].fill(0);
        assert!(bench.read(0, 0, MIB).await == expected);
    });
}

#[test]
fn a_range_longer_than_the_token_is_written_as_far_as_it_goes() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 8192, 1).await;
        let token = token(&bench, 0, &[(0, 16)]);
        let list = write_list(0, 4, &token, &[(100, 100)]);
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), underrun(12));
        assert_eq!(result(&bench, 1), (0x03, 12));
        assert_eq!(bench.read(1, 51200, 12 * 512).await, bytes[2048..]);
        assert_eq!(bench.read(1, 51200 + 12 * 512, 512).await, [0; 512]);
        for offset in [16, 17, u64::MAX] {
            let list = write_list(0, offset, &token, &[(0, 1)]);
            let sense = sense_of(write(&bench, 1, 0, &list).await);
            assert_eq!(sense, Sense::invalid_field_in_parameter_list(8, None), "{offset}");
        }
    });
}

#[test]
fn wrong_deleted_and_expired_tokens_say_why() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        bench.fill(0, 0, 4096, 1).await;
        let good = token(&bench, 0, &[(0, 8)]);
        let short_lived = token_for(&bench, 0, 1, &[(0, 8)]);
        let refusal = |token: Token, flags| {
            let list = write_list(flags, 0, &token, &[(0, 8)]);
            let (request, units) = (bench.request(1, 0), bench.units.clone());
            async move { offload::write(request, &units, 2, &list).await }
        };
        let mut wrong = good;
        wrong[511] ^= 1;
        let code = AdditionalSense::INVALID_TOKEN_CORRUPT;
        assert_eq!(sense_of(refusal(wrong, 0).await), illegal(code));
        wrong = good;
        wrong[8] = 9;
        let code = AdditionalSense::INVALID_TOKEN_UNKNOWN;
        assert_eq!(sense_of(refusal(wrong, 0).await), illegal(code));
        wrong = good;
        wrong[1] = 0x80;
        let code = AdditionalSense::UNSUPPORTED_REQUEST_TOKEN_TYPE;
        assert_eq!(sense_of(refusal(wrong, 0).await), illegal(code));
        assert!(refusal(good, 0x02).await.is_ok(), "DEL_TKN");
        let code = AdditionalSense::INVALID_TOKEN_DELETED;
        assert_eq!(sense_of(refusal(good, 0).await), illegal(code));
        ring::sleep(Duration::from_millis(1050)).await;
        let code = AdditionalSense::INVALID_TOKEN_EXPIRED;
        assert_eq!(sense_of(refusal(short_lived, 0).await), illegal(code));
    });
}

#[test]
fn a_change_of_its_blocks_revokes_a_token() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        bench.fill(0, 0, 65536, 1).await;
        let revoked = illegal(AdditionalSense::INVALID_TOKEN_REVOKED);
        let token = token(&bench, 0, &[(0, 8), (32, 8)]);
        let list = write_list(0, 0, &token, &[(0, 16)]);
        bench.units[0].tokens.changed(8, 24);
        bench.units[1].tokens.changed(0, 1 << 40);
        assert!(write(&bench, 1, 0, &list).await.is_ok(), "its blocks are as they were");
        bench.units[0].tokens.changed(39, 1);
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), revoked);
    });
}

#[test]
fn copies_are_changes_too() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 65536, 1).await;
        let revoked = illegal(AdditionalSense::INVALID_TOKEN_REVOKED);
        let first = token(&bench, 0, &[(0, 8)]);
        // Onto itself: half a copy would have damaged the source.
        let list = write_list(0, 0, &first, &[(4, 8)]);
        assert_eq!(sense_of(write(&bench, 0, 0, &list).await), revoked);
        assert_eq!(result(&bench, 0), (0x02, 0));
        assert_eq!(bench.read(0, 0, 65536).await, bytes, "nothing was written");
        let second = token(&bench, 0, &[(0, 8)]);
        let list = super::xcopy::list(1, &[&bench.units[0]], &[((0, 64), (0, 7), 1)]);
        assert!(extended::copy(&bench.request(0, 0), &bench.units, &list).await.is_ok());
        let list = write_list(0, 0, &second, &[(0, 8)]);
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), revoked);
    });
}

#[test]
fn a_change_during_the_copy_stops_it() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let bytes = bench.fill(0, 0, 4 * MIB, 1).await;
        let token = token(&bench, 0, &[(0, 8192)]);
        let disk = bench.disks[1].clone();
        disk.inject(Rule::always(Operation::Write, Fault::Hang).at(MIB..MIB + 1));
        let list = write_list(0, 0, &token, &[(0, 8192)]);
        let unit = bench.units[0].clone();
        ring::spawn(async move {
            while disk.held() == 0 {
                ring::sleep(Duration::from_micros(100)).await;
            }
            unit.tokens.changed(8191, 1);
            disk.release();
        });
        let revoked = illegal(AdditionalSense::INVALID_TOKEN_REVOKED);
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), revoked);
        assert_eq!(result(&bench, 1), (0x02, 4096), "the chunk under way was of the old data");
        assert!(bench.read(1, 0, 2 * MIB).await == bytes[..2 << 20]);
        assert!(bench.read(1, 2 * MIB, 2 * MIB).await.iter().all(|&byte| byte == 0));
    });
}

#[test]
fn reservations_hold_for_both_ends_of_a_token() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        let token = token(&bench, 0, &[(0, 8)]);
        let list = write_list(0, 0, &token, &[(0, 8)]);
        bench.reserve(0, 9);
        let sense = sense_of(write(&bench, 1, 0, &list).await);
        assert_eq!(sense.key, SenseKey::CopyAborted);
        assert_eq!(sense.additional, AdditionalSense::THIRD_PARTY_DEVICE_FAILURE);
        assert!(write(&bench, 1, 9, &list).await.is_ok(), "the holder of the source");
        bench.reserve(1, 8);
        let refused = write(&bench, 1, 9, &list).await;
        assert!(matches!(refused, Err(Outcome::Status(Status::ReservationConflict))));
        let populate = offload::populate(&bench.request(0, 1), 1, &populate_list(9, &[(0, 8)]));
        assert!(matches!(populate, Err(Outcome::Status(Status::ReservationConflict))));
    });
}

#[test]
fn failures_of_a_disk_are_told_with_the_blocks_that_were_done() {
    on_core(|| async {
        let bench = Bench::new(&[512, 512]);
        bench.fill(0, 0, 2 * MIB, 1).await;
        let token = token(&bench, 0, &[(0, 4096)]);
        let list = write_list(0, 0, &token, &[(0, 4096)]);
        let fail = Fault::Fail(BlockError::Medium { at: MIB + 512 });
        bench.disks[1].inject(Rule::always(Operation::Write, fail).at(MIB..MIB + 1));
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), Sense::write_error(2049));
        assert_eq!(result(&bench, 1), (0x02, 2048));
        bench.disks[1].heal();
        bench.disks[0].inject(Rule::always(Operation::Read, fail).at(MIB..MIB + 1));
        let sense = sense_of(write(&bench, 1, 0, &list).await);
        let code = AdditionalSense::THIRD_PARTY_DEVICE_FAILURE;
        assert_eq!(sense, Sense::new(SenseKey::CopyAborted, code).with_information(2048));
        bench.disks[0].heal();
        bench.disks[1].inject(Rule::always(Operation::Write, Fault::Fail(BlockError::NoSpace)));
        let sense = sense_of(write(&bench, 1, 0, &list).await);
        assert_eq!(sense, Sense::space_allocation_failed());
    });
}

#[test]
fn blocks_of_two_lengths_meet_at_whole_blocks_only() {
    on_core(|| async {
        let bench = Bench::new(&[512, 4096]);
        let token = token(&bench, 0, &[(0, 4), (8, 12)]);
        let code = AdditionalSense::COPY_SEGMENT_GRANULARITY_VIOLATION;
        let list = write_list(0, 0, &token, &[(0, 2)]);
        let violation = Sense::new(SenseKey::CopyAborted, code);
        assert_eq!(sense_of(write(&bench, 1, 0, &list).await), violation);
    });
}

#[test]
fn blocks_that_a_smaller_unit_lost_are_others_when_it_grows_again() {
    on_core(|| async {
        let bench = Bench::new(&[512; 2]);
        let (stays, goes) = (token(&bench, 0, &[(0, 8)]), token(&bench, 0, &[(992, 16)]));
        for blocks in [1000, 2000] {
            bench.disks[0].resize(blocks);
            bench.units[0].look_at_size();
        }
        let write = async |token| {
            let list = write_list(0, 0, token, &[(0, 8)]);
            offload::write(bench.request(1, 1), &bench.units, 2, &list).await
        };
        assert!(write(&stays).await.is_ok());
        let revoked = illegal(AdditionalSense::INVALID_TOKEN_REVOKED);
        assert_eq!(sense_of(write(&goes).await), revoked);
    });
}
