//! A set's description as it stands in a checkpoint.
//!
//! ```text
//! set u32 | level u8 (0: metadata) | members u8 | replaced member u8 (255: none) | 0 u8
//! members x { disk u16 | 0 u16 | chunk u32 }
//! the replacement { disk u16 | 0 u16 | chunk u32 }, if there is one
//! the masks of `written`
//! the masks of `stale`
//!
//! masks: stripes u32 (0 or all) | form u8 | runs or planes, whichever is shorter
//! runs (form 0):   { count u32 | mask u16 } until all stripes are covered
//! planes (form 1): bits u16 | for each of these bits, a bit for each stripe, in whole bytes
//! ```
//!
//! All numbers are little-endian. Runs, because stripes are filled and missed in long rows: a set
//! of 4096 stripes mostly takes below 100 bytes. Planes, because a checkpoint must fit into its slot
//! whatever happened to the stripes: [`bytes_max`].

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

/// The longest record of a set.
#[must_use]
pub fn bytes_max(members: usize, columns: usize, stripes: u32) -> u64 {
    let masks = |bits: usize| MASKS_HEAD_BYTES + bits as u64 * u64::from(stripes.div_ceil(8));
    let seats = 8 * (members as u64 + 1);
    8 + seats + masks(columns) + masks(members + 1)
}

/// Count, form, and which planes there are.
const MASKS_HEAD_BYTES: u64 = 4 + 1 + 2;
const FORM_RUNS: u8 = 0;
const FORM_PLANES: u8 = 1;
const RUN_BYTES: usize = 4 + 2;

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
        let written: Vec<u16> = self.written.iter().map(|mask| u16::from(*mask)).collect();
        encode_masks(&written, to);
        encode_masks(&self.stale, to);
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
        let written = decode_masks(bytes)?.into_iter().map(|mask| mask as u8).collect();
        let stale = decode_masks(bytes)?;
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

fn encode_masks(masks: &[u16], to: &mut Vec<u8>) {
    to.extend((masks.len() as u32).to_le_bytes());
    let used = masks.iter().fold(0, |used, mask| used | mask);
    let planes_bytes = 2 + used.count_ones() as usize * masks.len().div_ceil(8);
    let runs = masks.chunk_by(|a, b| a == b);
    if runs.clone().count() * RUN_BYTES <= planes_bytes {
        to.push(FORM_RUNS);
        for run in runs {
            to.extend((run.len() as u32).to_le_bytes());
            to.extend(run[0].to_le_bytes());
        }
        return;
    }
    to.push(FORM_PLANES);
    to.extend(used.to_le_bytes());
    for bit in bits_of(used) {
        to.extend(masks.chunks(8).map(|eight| {
            let is_set = |(at, mask): (usize, &u16)| (mask >> bit & 1) << at;
            eight.iter().enumerate().map(is_set).fold(0, |byte, bit| byte | bit) as u8
        }));
    }
}

fn bits_of(mask: u16) -> impl Iterator<Item = u32> {
    (0..u16::BITS).filter(move |bit| mask >> bit & 1 == 1)
}

fn decode_masks(bytes: &mut &[u8]) -> Result<Vec<u16>, BadRecord> {
    let total = u32::from_le_bytes(take(bytes)?);
    if total > STRIPES_MAX {
        return Err(BadRecord);
    }
    match take(bytes)? {
        [FORM_RUNS] => decode_runs(bytes, total as usize),
        [FORM_PLANES] => decode_planes(bytes, total as usize),
        _ => Err(BadRecord),
    }
}

fn decode_runs(bytes: &mut &[u8], total: usize) -> Result<Vec<u16>, BadRecord> {
    let mut masks = Vec::new();
    while masks.len() < total {
        let count = u32::from_le_bytes(take(bytes)?) as usize;
        let mask = u16::from_le_bytes(take(bytes)?);
        if count == 0 || count > total - masks.len() {
            return Err(BadRecord);
        }
        masks.resize(masks.len() + count, mask);
    }
    Ok(masks)
}

fn decode_planes(bytes: &mut &[u8], total: usize) -> Result<Vec<u16>, BadRecord> {
    let used = u16::from_le_bytes(take(bytes)?);
    let mut masks = vec![0; total];
    for bit in bits_of(used) {
        let (plane, rest) = bytes.split_at_checked(total.div_ceil(8)).ok_or(BadRecord)?;
        *bytes = rest;
        for (stripe, mask) in masks.iter_mut().enumerate() {
            *mask |= u16::from(plane[stripe / 8] >> (stripe % 8) & 1) << bit;
        }
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
        assert_eq!(bytes.len(), 8 + 80 + 4 + 1 + 6 + 4 + 1);
    }

    #[test]
    fn no_record_is_longer_than_said() {
        let seat = Seat { disk: DiskId(1), chunk: 2 };
        for (members, columns, stripes) in [(2, 0, 4096), (10, 8, 4096), (3, 2, 16), (9, 8, 1001)] {
            let mixed = |bits: usize| {
                let mask =
                    move |stripe: u32| stripe.wrapping_mul(40_503) as u16 & ((1 << bits) - 1);
                (0..stripes).map(mask)
            };
            let written =
                if columns > 0 { mixed(columns).map(|mask| mask as u8).collect() } else { vec![] };
            let record = SetRecord {
                id: SetId(1),
                level: Some(if columns > 0 { Level::Raid6 } else { Level::Raid1 }),
                members: vec![seat; members],
                replacement: Some(Replacement { member: 0, seat }),
                written,
                stale: mixed(members + 1).collect(),
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let max = bytes_max(members, columns, stripes);
            assert!(bytes.len() as u64 <= max, "{} of {max}", bytes.len());
            assert_eq!(SetRecord::decode(&mut bytes.as_slice()), Ok(record));
        }
    }
}
