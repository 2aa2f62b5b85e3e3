//! A label as bytes; the drawing is at [`Label`].

use serde::{Deserialize, Serialize};

use super::{ArrayId, ChangeId, LABEL_BYTES, Label, Layout, MemberRecord, MemberState};
use crate::wire::{array_at, put, u16_at, u32_at, u64_at};
use crate::{DiskId, crc32c};

/// The version of everything on disk that this program writes; it reads no other.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"DRYSTONE";
const HEAD_BYTES: usize = 64;
const HEAD_CRC_AT: usize = 60;
const LABEL_LEN: usize = LABEL_BYTES as usize;

/// Why a label cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// The member list outgrew the label.
    #[error("an array of {members} disks, those that left included, does not fit into its labels")]
    TooManyMembers {
        /// How many there are.
        members: usize,
    },
    /// The disk lost its tail since it had its last label.
    #[error("the disk was cut short: make it as large again, and what it lost is restored")]
    CutShort,
    /// The disk failed.
    #[error("the label cannot be written: {0}")]
    Disk(#[from] block::BlockError),
}

/// What one place for a label holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Copy {
    /// A whole label.
    Good(Box<Label>),
    /// Nothing but zeroes.
    Blank,
    /// A whole header of another version.
    Version(u32),
    /// Begins like a label, and is none.
    Damaged(&'static str),
    /// Something else.
    Other,
    /// Unknown: the disk did not give it.
    Unreadable,
}

#[derive(Serialize, Deserialize)]
struct Body {
    layout: Layout,
    change: ChangeId,
    ancestors: Vec<ChangeId>,
    members: Vec<MemberRecord>,
    holders: Vec<DiskId>,
    journal: Vec<DiskId>,
}

/// Fills `to`, the 64 KiB at byte `at` of the disk.
pub(super) fn encode(label: &Label, at: u64, to: &mut [u8]) -> Result<(), LabelError> {
    assert_eq!(to.len(), LABEL_LEN, "a label fills its place");
    assert!(is_sound(label), "only labels that keep their own rules are written");
    let body = Body {
        layout: label.layout,
        change: label.change,
        ancestors: label.ancestors.clone(),
        members: label.members.clone(),
        holders: label.holders.clone(),
        journal: label.journal.clone(),
    };
    let body = postcard::to_allocvec(&body).expect("plain numbers always have a postcard form");
    if body.len() > LABEL_LEN - HEAD_BYTES {
        return Err(LabelError::TooManyMembers { members: label.members.len() });
    }
    to.fill(0);
    put(to, HEAD_BYTES, &body);
    put_went_out(&label.went_out, &mut to[HEAD_BYTES + body.len()..]);
    let body_crc = crc32c(&to[HEAD_BYTES..]);
    put(to, 0, &MAGIC);
    put(to, 8, &FORMAT_VERSION.to_le_bytes());
    put(to, 12, &(body.len() as u32).to_le_bytes());
    put(to, 16, &label.array.0);
    put(to, 32, &label.generation.to_le_bytes());
    put(to, 40, &label.disk.0.to_le_bytes());
    put(to, 44, &body_crc.to_le_bytes());
    put(to, 48, &at.to_le_bytes());
    let head_crc = crc32c(&to[..HEAD_CRC_AT]);
    put(to, HEAD_CRC_AT, &head_crc.to_le_bytes());
    Ok(())
}

/// What follows the body. It is left out where there is no room: without it some disks are believed that
/// are older than they seem, and nothing else.
fn put_went_out(went_out: &[(DiskId, u64)], to: &mut [u8]) {
    let bytes = postcard::to_allocvec(went_out).expect("plain numbers always have a postcard form");
    if !went_out.is_empty() && 4 + bytes.len() <= to.len() {
        put(to, 0, &(bytes.len() as u32).to_le_bytes());
        put(to, 4, &bytes);
    }
}

fn went_out_of(rest: &[u8]) -> Option<Vec<(DiskId, u64)>> {
    let Some((len, rest)) = rest.split_first_chunk::<4>() else { return Some(Vec::new()) };
    match u32::from_le_bytes(*len) as usize {
        0 => Some(Vec::new()),
        len => postcard::from_bytes(rest.get(..len)?).ok(),
    }
}

/// Reads the 64 KiB found at byte `at` of a disk, whatever they are.
pub(super) fn decode(bytes: &[u8], at: u64) -> Copy {
    assert_eq!(bytes.len(), LABEL_LEN, "a label fills its place");
    if bytes[..8] != MAGIC {
        return if bytes.iter().all(|byte| *byte == 0) { Copy::Blank } else { Copy::Other };
    }
    if u32_at(bytes, HEAD_CRC_AT) != crc32c(&bytes[..HEAD_CRC_AT]) {
        return Copy::Damaged("the checksum of its header is wrong");
    }
    // What follows the header of another version is unknown, so it is looked at no further.
    let version = u32_at(bytes, 8);
    if version != FORMAT_VERSION {
        return Copy::Version(version);
    }
    if u64_at(bytes, 48) != at {
        return Copy::Damaged("it lies in the wrong place");
    }
    if u32_at(bytes, 44) != crc32c(&bytes[HEAD_BYTES..]) {
        return Copy::Damaged("the checksum of its contents is wrong");
    }
    match decode_body(bytes) {
        Some(label) if is_sound(&label) => Copy::Good(Box::new(label)),
        _ => Copy::Damaged("its contents make no sense"),
    }
}

fn decode_body(bytes: &[u8]) -> Option<Label> {
    let len = u32_at(bytes, 12) as usize;
    let (body, behind) = bytes[HEAD_BYTES..].split_at_checked(len)?;
    let went_out = went_out_of(behind)?;
    let (body, rest) = postcard::take_from_bytes::<Body>(body).ok()?;
    rest.is_empty().then(|| Label {
        array: ArrayId(array_at(bytes, 16)),
        generation: u64_at(bytes, 32),
        disk: DiskId(u16_at(bytes, 40)),
        change: body.change,
        ancestors: body.ancestors,
        layout: body.layout,
        members: body.members,
        holders: body.holders,
        journal: body.journal,
        went_out,
    })
}

/// Invariant 3, and that its layout can be computed with.
fn is_sound(label: &Label) -> bool {
    let mut numbers: Vec<DiskId> = label.members.iter().map(|member| member.disk).collect();
    numbers.sort_unstable();
    let distinct = numbers.windows(2).all(|pair| pair[0] != pair[1]);
    let holds = |disk: &DiskId| {
        label.member(*disk).is_some_and(|member| member.state == MemberState::Active)
    };
    distinct
        && label.layout.is_sound()
        && label.member(label.disk).is_some()
        && label.holders.iter().chain(&label.journal).all(holds)
}
