//! One record as a line of a file.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Record;

/// Digits of the checksum; a blank follows.
const SUM_DIGITS: usize = 8;

fn sum_of(json: &[u8]) -> u32 {
    // Its 64 bits hold any checksum; CRC-32C has 32.
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, json) as u32
}

/// The line, with its end.
pub(super) fn encode<T: Serialize>(record: &Record<T>) -> Vec<u8> {
    let json = serde_json::to_vec(record).expect("records have string keys and plain values");
    let mut line = format!("{:08x} ", sum_of(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    line
}

/// No member ever counts so far: what has a greater number was not written by one.
const NUMBER_MAX: u64 = 1 << 62;

/// The record of a line without its end; `None` if the line is not what was written, or of a later version.
pub(super) fn decode<T: DeserializeOwned>(line: &[u8]) -> Option<Record<T>> {
    let (sum, rest) = line.split_at_checked(SUM_DIGITS)?;
    let json = rest.strip_prefix(b" ")?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    let record = (sum == sum_of(json)).then(|| serde_json::from_slice(json).ok())?;
    record.filter(|record: &Record<T>| record.number <= NUMBER_MAX)
}
