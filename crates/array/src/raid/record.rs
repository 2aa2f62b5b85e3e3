//! A set's description as it stands in a checkpoint.
//!
//! ```text
//! set u32 | level u8 (0: metadata) | members u8 | replaced member u8 (255: none) | 0 u8
//! members x { disk u16 | 0 u16 | chunk u32 }
//! the replacement { disk u16 | 0 u16 | chunk u32 }, if there is one
//! stripes in `written` u32 (0 or all) | runs { count u32 | mask u16 } until they are covered
//! stripes in `stale` u32 (0 or all)   | runs likewise
//! ```
//!
//! All numbers are little-endian. Runs, because stripes are filled and missed in long rows: a set
//! of 4096 stripes mostly takes below 100 bytes.

use crate::{DiskId, Level, SetId};

use super::geometry::MEMBERS_MAX;

/// A chunk of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The disk.
    pub disk: DiskId,
    /// Its chunk, from 0 on.
    pub chunk: u32,
}

/// A chunk that is to take a member's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    /// Index of the member.
    pub member: usize,
    /// What replaces it.
    pub seat: Seat,
}

/// All that has to be kept about a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRecord {
    /// Its number.
    pub id: SetId,
    /// `None`: metadata, mirrored.
    pub level: Option<Level>,
    /// Its chunks.
    pub members: Vec<Seat>,
    /// What is being made ready to replace one of them.
    pub replacement: Option<Replacement>,
    /// For each stripe, the columns that its parity covers; empty without parity.
    pub written: Vec<u8>,
    /// For each stripe, the members that missed a change (bit = index; bit 15: the replacement).
    /// Empty when nobody missed any.
    pub stale: Vec<u16>,
}

/// Bytes that are no record of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no description of a RAID set")]
pub struct BadRecord;

/// More stripes than any chunk has: a bound for what a damaged record can make us allocate.
const STRIPES_MAX: u32 = 1 << 22;
const NO_REPLACEMENT: u8 = 255;

impl SetRecord {
    /// Appends its bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        assert!(self.members.len() <= MEMBERS_MAX, "a set has at most {MEMBERS_MAX} members");
        let level = self.level.map_or(0, |level| level_code(level) + 1);
        let replaced = self.replacement.map_or(NO_REPLACEMENT, |new| new.member as u8);
        to.extend(self.id.0.to_le_bytes());
        to.extend([level, self.members.len() as u8, replaced, 0]);
        let seats = self.members.iter().copied().chain(self.replacement.map(|new| new.seat));
        for seat in seats {
            to.extend(seat.disk.0.to_le_bytes());
            to.extend([0; 2]);
            to.extend(seat.chunk.to_le_bytes());
        }
        encode_runs(self.written.iter().map(|mask| u16::from(*mask)), to);
        encode_runs(self.stale.iter().copied(), to);
    }

    /// Takes a record from the front of `bytes`.
    ///
    /// # Errors
    /// [`BadRecord`]; what is left of `bytes` is then of no use.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, BadRecord> {
        let id = SetId(u32::from_le_bytes(take(bytes)?));
        let [level, members, replaced, 0] = take(bytes)? else { return Err(BadRecord) };
        let level = match level {
            0 => None,
            code => Some(*Level::ALL.get(usize::from(code) - 1).ok_or(BadRecord)?),
        };
        if usize::from(members) > MEMBERS_MAX {
            return Err(BadRecord);
        }
        let members = (0..members).map(|_| take_seat(bytes)).collect::<Result<_, _>>()?;
        let replacement = match replaced {
            NO_REPLACEMENT => None,
            member => Some(Replacement { member: member.into(), seat: take_seat(bytes)? }),
        };
        let written = decode_runs(bytes)?.into_iter().map(|mask| mask as u8).collect();
        let stale = decode_runs(bytes)?;
        Ok(Self { id, level, members, replacement, written, stale })
    }
}

fn level_code(level: Level) -> u8 {
    let index = Level::ALL.iter().position(|other| *other == level);
    index.expect("ALL holds every level") as u8
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], BadRecord> {
    let (head, rest) = bytes.split_first_chunk().ok_or(BadRecord)?;
    *bytes = rest;
    Ok(*head)
}

fn take_seat(bytes: &mut &[u8]) -> Result<Seat, BadRecord> {
    let [low, high, 0, 0] = take(bytes)? else { return Err(BadRecord) };
    let disk = DiskId(u16::from_le_bytes([low, high]));
    Ok(Seat { disk, chunk: u32::from_le_bytes(take(bytes)?) })
}

fn encode_runs(masks: impl ExactSizeIterator<Item = u16>, to: &mut Vec<u8>) {
    to.extend((masks.len() as u32).to_le_bytes());
    let mut run: Option<(u32, u16)> = None;
    let mut put = |run: Option<(u32, u16)>| {
        if let Some((count, mask)) = run {
            to.extend(count.to_le_bytes());
            to.extend(mask.to_le_bytes());
        }
    };
    for mask in masks {
        match &mut run {
            Some((count, last)) if *last == mask => *count += 1,
            _ => put(run.replace((1, mask))),
        }
    }
    put(run);
}

fn decode_runs(bytes: &mut &[u8]) -> Result<Vec<u16>, BadRecord> {
    let total = u32::from_le_bytes(take(bytes)?);
    if total > STRIPES_MAX {
        return Err(BadRecord);
    }
    let mut masks = Vec::new();
    while masks.len() < total as usize {
        let count = u32::from_le_bytes(take(bytes)?) as usize;
        let mask = u16::from_le_bytes(take(bytes)?);
        if count == 0 || count > total as usize - masks.len() {
            return Err(BadRecord);
        }
        masks.resize(masks.len() + count, mask);
    }
    Ok(masks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seats(max: usize) -> impl Strategy<Value = Vec<Seat>> {
        let seat = (any::<u16>(), any::<u32>());
        let seat = seat.prop_map(|(disk, chunk)| Seat { disk: DiskId(disk), chunk });
        prop::collection::vec(seat, 1..=max)
    }

    fn records() -> impl Strategy<Value = SetRecord> {
        let level = prop::option::of(prop::sample::select(Level::ALL.to_vec()));
        let masks = (prop::collection::vec(0u8..3, 0..40), prop::collection::vec(0u16..3, 0..40));
        (any::<u32>(), level, seats(MEMBERS_MAX), prop::option::of(0usize..4), masks).prop_map(
            |(id, level, members, replaced, (written, stale))| {
                let seat = Seat { disk: DiskId(7), chunk: 8 };
                let replacement = replaced.map(|member| Replacement { member, seat });
                SetRecord { id: SetId(id), level, members, replacement, written, stale }
            },
        )
    }

    proptest! {
        #[test]
        fn a_record_comes_back_as_it_was(record in records(), behind in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            bytes.extend(&behind);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(SetRecord::decode(&mut rest), Ok(record));
            prop_assert_eq!(rest, behind);
        }

        #[test]
        fn any_bytes_are_read_without_harm(record in records(), at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let (at, cut) = (at.index(bytes.len()), cut.index(bytes.len()));
            prop_assert_eq!(SetRecord::decode(&mut &bytes[..cut]), Err(BadRecord));
            bytes[at] = byte;
            let _ = SetRecord::decode(&mut bytes.as_slice());
        }
    }

    #[test]
    fn a_full_set_is_small() {
        let seat = Seat { disk: DiskId(1), chunk: 2 };
        let mut bytes = Vec::new();
        SetRecord {
            id: SetId(1),
            level: Some(Level::Raid6),
            members: vec![seat; 10],
            replacement: None,
            written: vec![0xff; 4096],
            stale: Vec::new(),
        }
        .encode(&mut bytes);
        assert_eq!(bytes.len(), 8 + 80 + 4 + 6 + 4);
    }
}
