//! What the copy manager can do, and the two places that say so: RECEIVE COPY OPERATING PARAMETERS
//! (SPC-4 6.22) and the Third-party Copy VPD page (SPC-4 7.8.17, SBC-4 6.6.9).

use super::token::{ROD_TYPE_ACCESS_UPON_REFERENCE, ROD_TYPE_ZERO};
use crate::cdb;

/// CSCD descriptors of one EXTENDED COPY.
pub const CSCD_MAX: usize = 16;
/// Segment descriptors of one EXTENDED COPY.
pub const SEGMENTS_MAX: usize = 64;
pub(super) const CSCD_DESCRIPTOR_BYTES: usize = 32;
const SEGMENT_DESCRIPTOR_BYTES: usize = 28;
/// Both lists together.
pub(super) const DESCRIPTOR_LIST_BYTES_MAX: usize =
    CSCD_MAX * CSCD_DESCRIPTOR_BYTES + SEGMENTS_MAX * SEGMENT_DESCRIPTOR_BYTES;
pub(super) const CSCD_TYPE_IDENTIFICATION: u8 = 0xe4;
pub(super) const SEGMENT_TYPE_BLOCK_TO_BLOCK: u8 = 0x02;
/// Segment descriptor types come before CSCD descriptor types: the list is in ascending order.
const DESCRIPTOR_TYPES: [u8; 2] = [SEGMENT_TYPE_BLOCK_TO_BLOCK, CSCD_TYPE_IDENTIFICATION];

/// Ranges of one POPULATE TOKEN or WRITE USING TOKEN.
pub const TOKEN_RANGES_MAX: usize = 64;
/// Bytes that one token stands for, and that one WRITE USING TOKEN copies, so that a command ends
/// well within a host's time limit.
pub const TOKEN_BYTES_MAX: u64 = 1 << 30;
/// What a token command copies best.
const TOKEN_BYTES_OPTIMAL: u64 = 64 << 20;
/// Longest INACTIVITY TIMEOUT.
pub const INACTIVITY_TIMEOUT_MAX_S: u32 = 300;
/// INACTIVITY TIMEOUT where the command does not say.
pub const INACTIVITY_TIMEOUT_DEFAULT_S: u32 = 30;
/// EXTENDED COPY commands at one time.
const CONCURRENT_COPIES: u8 = 16;

/// Parameter data of RECEIVE COPY OPERATING PARAMETERS (SPC-4 table 244) for a unit with logical
/// blocks of `block_bytes`, a power of two.
pub fn operating_parameters(block_bytes: u32) -> Vec<u8> {
    let mut data = vec![0; 44];
    data[4] = 0x01; // SNLID
    data[8..10].copy_from_slice(&(CSCD_MAX as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(SEGMENTS_MAX as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(DESCRIPTOR_LIST_BYTES_MAX as u32).to_be_bytes());
    // No limit on a segment, no inline data, no held data, no stream devices: zeroes.
    data[34..36].copy_from_slice(&u16::from(CONCURRENT_COPIES).to_be_bytes());
    data[36] = CONCURRENT_COPIES;
    data[37] = block_bytes.ilog2() as u8;
    data[43] = DESCRIPTOR_TYPES.len() as u8;
    data.extend(DESCRIPTOR_TYPES);
    let available = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}

/// VPD page 8Fh, header included, for a unit with logical blocks of `block_bytes`.
pub fn third_party_copy_page(block_bytes: u32) -> Vec<u8> {
    let mut page = vec![0x00, 0x8f, 0, 0];
    descriptor(&mut page, 0x0000, &rod_token_limits(block_bytes));
    descriptor(&mut page, 0x0001, &supported_commands());
    descriptor(&mut page, 0x0004, &parameter_data());
    let mut types = vec![DESCRIPTOR_TYPES.len() as u8];
    types.extend(DESCRIPTOR_TYPES);
    descriptor(&mut page, 0x0008, &types);
    // CSCD ID FFFFh: the unit itself.
    descriptor(&mut page, 0x000c, &[0, 2, 0xff, 0xff]);
    descriptor(&mut page, 0x0106, &rod_token_features());
    descriptor(&mut page, 0x0108, &supported_rod_types());
    descriptor(&mut page, 0x8001, &general_copy_operations(block_bytes));
    let length = (page.len() - 4) as u16;
    page[2..4].copy_from_slice(&length.to_be_bytes());
    page
}

/// One third-party copy descriptor, padded to a multiple of four.
fn descriptor(page: &mut Vec<u8>, kind: u16, parameters: &[u8]) {
    let length = parameters.len().next_multiple_of(4);
    page.extend(kind.to_be_bytes());
    page.extend((length as u16).to_be_bytes());
    page.extend(parameters);
    page.resize(page.len() + length - parameters.len(), 0);
}

/// Block Device ROD Token Limits (SBC-4 6.6.9.3).
fn rod_token_limits(block_bytes: u32) -> [u8; 32] {
    let block_bytes = u64::from(block_bytes);
    let mut body = [0; 32];
    body[6..8].copy_from_slice(&(TOKEN_RANGES_MAX as u16).to_be_bytes());
    body[8..12].copy_from_slice(&INACTIVITY_TIMEOUT_MAX_S.to_be_bytes());
    body[12..16].copy_from_slice(&INACTIVITY_TIMEOUT_DEFAULT_S.to_be_bytes());
    body[16..24].copy_from_slice(&(TOKEN_BYTES_MAX / block_bytes).to_be_bytes());
    body[24..32].copy_from_slice(&(TOKEN_BYTES_OPTIMAL / block_bytes).to_be_bytes());
    body
}

/// Supported Commands (SPC-4 7.8.17.4), from the table that dispatches them.
fn supported_commands() -> Vec<u8> {
    let mut list = Vec::new();
    for opcode in [0x83, 0x84] {
        let mut actions: Vec<u8> =
            cdb::rows(opcode).iter().filter_map(|row| row.service_action).collect();
        actions.sort_unstable();
        list.extend([opcode, actions.len() as u8]);
        list.extend(actions);
    }
    list.insert(0, list.len() as u8);
    list
}

/// Parameter Data (SPC-4 7.8.17.5).
fn parameter_data() -> [u8; 28] {
    let mut body = [0; 28];
    body[4..6].copy_from_slice(&(CSCD_MAX as u16).to_be_bytes());
    body[6..8].copy_from_slice(&(SEGMENTS_MAX as u16).to_be_bytes());
    body[8..12].copy_from_slice(&(DESCRIPTOR_LIST_BYTES_MAX as u32).to_be_bytes());
    body
}

/// ROD Token Features with its block device part (SPC-4 7.8.17.8). REMOTE TOKENS is 0h: tokens of
/// this copy manager only.
fn rod_token_features() -> Vec<u8> {
    const BLOCK_FEATURES_BYTES: usize = 48;
    let mut body = vec![0; 44];
    body[12..16].copy_from_slice(&1_u32.to_be_bytes());
    body[16..20].copy_from_slice(&INACTIVITY_TIMEOUT_MAX_S.to_be_bytes());
    body[20..24].copy_from_slice(&INACTIVITY_TIMEOUT_MAX_S.to_be_bytes());
    body[42..44].copy_from_slice(&(BLOCK_FEATURES_BYTES as u16).to_be_bytes());
    let mut block = [0; BLOCK_FEATURES_BYTES];
    block[2..4].copy_from_slice(&0x002c_u16.to_be_bytes());
    block[8..16].copy_from_slice(&TOKEN_BYTES_MAX.to_be_bytes());
    for optimal in [16, 24, 32] {
        block[optimal..optimal + 8].copy_from_slice(&TOKEN_BYTES_OPTIMAL.to_be_bytes());
    }
    body.extend(block);
    body
}

/// Supported ROD Types (SPC-4 7.8.17.9), in ascending order.
fn supported_rod_types() -> Vec<u8> {
    const TOKEN_IN: u8 = 0x02;
    const TOKEN_OUT: u8 = 0x01;
    const DESCRIPTOR_BYTES: usize = 64;
    let types = [
        (ROD_TYPE_ACCESS_UPON_REFERENCE, TOKEN_IN | TOKEN_OUT),
        (ROD_TYPE_ZERO, TOKEN_IN), // returning it is prohibited
    ];
    let mut body = vec![0, 0];
    body.extend(((types.len() * DESCRIPTOR_BYTES) as u16).to_be_bytes());
    for (rod_type, flags) in types {
        let start = body.len();
        body.extend(rod_type.to_be_bytes());
        body.push(flags);
        body.resize(start + DESCRIPTOR_BYTES, 0);
    }
    body
}

/// General Copy Operations (SPC-4 7.8.17.10).
fn general_copy_operations(block_bytes: u32) -> [u8; 32] {
    let mut body = [0; 32];
    body[..4].copy_from_slice(&u32::from(CONCURRENT_COPIES).to_be_bytes());
    body[4..8].copy_from_slice(&u32::from(CONCURRENT_COPIES).to_be_bytes());
    body[12] = block_bytes.ilog2() as u8;
    body
}
