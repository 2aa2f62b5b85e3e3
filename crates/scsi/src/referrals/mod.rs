//! Referrals (SBC-4 4.26): which target port groups lead best to which blocks of a unit that lies
//! on several members. Emitted by a target, parsed by an initiator.
//!
//! Invariant of [`ReferralMap`]: its segments do not overlap and are in the order of their blocks,
//! as SBC-4 4.18.4 asks for.

#[cfg(test)]
mod tests;

use crate::alua::AccessState;

/// Header of the REPORT REFERRALS parameter data (SBC-4 5.28.2).
const HEADER_BYTES: usize = 4;
/// A user data segment referral descriptor without its groups (SBC-4 table 18).
const SEGMENT_BYTES: usize = 20;
/// A target port group descriptor (SBC-4 table 19).
const GROUP_BYTES: usize = 4;
/// The length field of the parameter data has 16 bits.
const LIST_BYTES_MAX: usize = u16::MAX as usize;

/// How a segment is reached through one target port group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupAccess {
    /// TARGET PORT GROUP.
    pub group: u16,
    /// ASYMMETRIC ACCESS STATE, the low four bits as they stand on the wire: an initiator keeps
    /// those that it does not know.
    pub state: u8,
}

impl GroupAccess {
    /// A group and its state.
    pub const fn new(group: u16, state: AccessState) -> Self {
        Self { group, state: state as u8 }
    }
}

/// A user data segment referral descriptor: a run of blocks and the groups that lead to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// FIRST USER DATA SEGMENT LBA.
    pub first_lba: u64,
    /// LAST USER DATA SEGMENT LBA, inside of the run.
    pub last_lba: u64,
    /// At most 255.
    pub groups: Vec<GroupAccess>,
}

/// Why segments are no [`ReferralMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the segment that begins with block {0} is empty, overlaps or has too many groups")]
pub struct BadSegment(pub u64);

/// All segments of a unit. A block that is in none is reached through every group alike.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReferralMap {
    segments: Vec<Segment>,
}

impl ReferralMap {
    /// The map of these segments.
    ///
    /// # Errors
    /// The first segment that breaks the invariant.
    pub fn new(segments: Vec<Segment>) -> Result<Self, BadSegment> {
        let mut next = Some(0);
        for segment in &segments {
            let follows = next.is_some_and(|next| segment.first_lba >= next);
            if !follows || segment.last_lba < segment.first_lba || segment.groups.len() > 255 {
                return Err(BadSegment(segment.first_lba));
            }
            next = segment.last_lba.checked_add(1);
        }
        Ok(Self { segments })
    }

    /// The segments in the order of their blocks.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// REPORT REFERRALS parameter data (SBC-4 5.28.2): the segments from the one with block `lba`
    /// on, or that one alone. As many as its length field can tell: who wants the rest asks again
    /// from the end of the last one on.
    pub fn report(&self, lba: u64, one_segment: bool) -> Vec<u8> {
        let mut data = vec![0; HEADER_BYTES];
        let first = self.segments.partition_point(|segment| segment.last_lba < lba);
        let count = if one_segment { 1 } else { usize::MAX };
        for segment in self.segments[first..].iter().take(count) {
            let len = SEGMENT_BYTES + GROUP_BYTES * segment.groups.len();
            if data.len() - HEADER_BYTES + len > LIST_BYTES_MAX {
                break;
            }
            let groups = u8::try_from(segment.groups.len()).expect("ReferralMap::new has checked");
            data.extend([0, 0, 0, groups]);
            data.extend(segment.first_lba.to_be_bytes());
            data.extend(segment.last_lba.to_be_bytes());
            for GroupAccess { group, state } in &segment.groups {
                let [high, low] = group.to_be_bytes();
                data.extend([state & 0x0f, 0, high, low]);
            }
        }
        let list = u16::try_from(data.len() - HEADER_BYTES).expect("the loop above stops in time");
        data[2..HEADER_BYTES].copy_from_slice(&list.to_be_bytes());
        data
    }
}

/// Body of the Referrals VPD page (B3h, SBC-4 6.6.8): USER DATA SEGMENT SIZE 0, so each descriptor
/// stands for the one segment between its two LBAs. Pages move between members one by one, so there
/// is no stripe that a multiplier could describe.
pub(crate) fn page() -> Vec<u8> {
    vec![0; 12]
}

/// The Referrals VPD page as an initiator reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SegmentRule {
    /// USER DATA SEGMENT SIZE; 0: a descriptor is one segment.
    pub blocks: u32,
    /// USER DATA SEGMENT MULTIPLIER: segments from the beginning of one to that of the next one
    /// of the same descriptor.
    pub multiplier: u32,
}

impl SegmentRule {
    /// From the whole page B3h; `None` if it is short.
    pub fn parse(page: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<u32> {
            page.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
        };
        Some(Self { blocks: word(8)?, multiplier: word(12)? })
    }

    /// The first and last blocks of the segments that a descriptor stands for (SBC-4 4.26.2).
    pub fn runs(self, segment: &Segment) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (first, last) = (segment.first_lba, segment.last_lba);
        let blocks = u64::from(self.blocks);
        let step = blocks * u64::from(self.multiplier);
        let is_striped = step > 0;
        let ahead = move |start: &u64| start.checked_add(step).filter(|&next| next <= last);
        let starts =
            std::iter::successors(
                Some(first),
                move |start| {
                    if is_striped { ahead(start) } else { None }
                },
            );
        starts.map(move |start| {
            let end = if is_striped { start.saturating_add(blocks - 1).min(last) } else { last };
            (start, end)
        })
    }
}

/// The descriptors of REPORT REFERRALS parameter data, as far as they are whole and make sense.
pub fn parse_report(data: &[u8]) -> Vec<Segment> {
    let Some((header, rest)) = data.split_at_checked(HEADER_BYTES) else { return Vec::new() };
    let announced = usize::from(u16::from_be_bytes([header[2], header[3]]));
    parse_segments(&rest[..announced.min(rest.len())])
}

/// The user data segment referral descriptors in the sense data of a command that ended with
/// INSPECT REFERRALS SENSE DESCRIPTORS (sense data descriptor 0Bh, SBC-3 4.27.4 and SPC-4 4.5.2.1):
/// where the blocks of that command are reached. They need not tell of other blocks.
pub fn parse_sense(sense: &[u8]) -> Vec<Segment> {
    const HEADER_BYTES: usize = 8;
    const KIND: u8 = 0x0b;
    let (Some(header), Some(rest)) = (sense.get(..HEADER_BYTES), sense.get(HEADER_BYTES..)) else {
        return Vec::new();
    };
    // Only descriptor format, current (72h) or deferred (73h), has room for it.
    if !matches!(header[0] & 0x7f, 0x72 | 0x73) {
        return Vec::new();
    }
    let mut rest = &rest[..rest.len().min(usize::from(header[7]))];
    let mut segments = Vec::new();
    while let [kind, len, tail @ ..] = rest {
        // One that is cut short still tells what it holds.
        let (body, next) = tail.split_at(tail.len().min(usize::from(*len)));
        // In front of the list: NOT_ALL_R, and a reserved byte.
        if let (KIND, [_, _, list @ ..]) = (*kind, body) {
            segments.extend(parse_segments(list));
        }
        rest = next;
    }
    segments
}

fn parse_segments(list: &[u8]) -> Vec<Segment> {
    let mut rest = list;
    let mut segments = Vec::new();
    while let Some((head, tail)) = rest.split_at_checked(SEGMENT_BYTES) {
        let Some((groups, next)) = tail.split_at_checked(GROUP_BYTES * usize::from(head[3])) else {
            break;
        };
        let lba = |at: usize| {
            let bytes = head[at..].first_chunk().expect("the header has 20 bytes");
            u64::from_be_bytes(*bytes)
        };
        let group = |it: &[u8]| GroupAccess {
            group: u16::from_be_bytes([it[2], it[3]]),
            state: it[0] & 0x0f,
        };
        let (first_lba, last_lba) = (lba(4), lba(12));
        if first_lba <= last_lba {
            let groups = groups.chunks_exact(GROUP_BYTES).map(group).collect();
            segments.push(Segment { first_lba, last_lba, groups });
        }
        rest = next;
    }
    segments
}
