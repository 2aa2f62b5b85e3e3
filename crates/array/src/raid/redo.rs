//! The redo area: updates of parity stripes that may be half done when the power goes.
//!
//! An update must stand here, durable, before its first block is written in place. Updates are
//! collected in waves; a wave is encoded as one piece and takes one half of the area, alternating
//! by its number, so that one wave can be written here while the one before is done in place. A half
//! may be used again once its former wave is in place and flushed. After a crash both halves
//! are read, and the waves of the checkpoint that did not commit are applied in order.
//!
//! What earlier waves have left [half done](super::half) each wave carries on. At the end of a checkpoint
//! one that has nothing else does: it counts as one of the checkpoint that follows.
//!
//! ```text
//! wave    magic "DRYSREDO" | checksum u32 of all that follows, to the end | bytes u32 of the wave
//!         array id [u8; 16] | checkpoint u64 | wave u64 | updates u32 | half done u32
//!         update...  since u64, half...: if anything is half done  zeroes up to a multiple of 4096
//! update  set u32 | stripe u32 | written u8 | flags u8 | puts u16 | given up u8, if flagged | put...
//! put     strip u8 | first block u8 | blocks u16 | contents, blocks x 4096
//! half    update | seats u32 | (disk u32 | chunk u32)...
//! ```
//!
//! All numbers are little-endian. The area is as long as the contents of a checkpoint are many: a
//! wave that does not fit ([`bytes_of`]) is cut into several.

use ring::{Buf, Data};

use crate::checksum::checksum;
use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, DiskId, SetId};

use super::geometry::MEMBERS_MAX;
use super::half::Half;
use super::record::Seat;
use super::update::Update;
use super::write::Put;

const MAGIC: [u8; 8] = *b"DRYSREDO";
/// Of its checksum.
const SALT: u64 = u64::from_le_bytes(MAGIC);
const HEADER_BYTES: usize = 56;
/// What the checksum does not cover: the magic and itself.
const CRC_END: usize = 12;
const UPDATE_BYTES: usize = 12;
/// Flags of an update.
const UNPROVED: u8 = 1;
const GIVEN_UP: u8 = 2;
const PUT_BYTES: usize = 4;
const SEAT_BYTES: usize = 8;

/// What is written to the redo area as one.
#[derive(Debug, Clone)]
pub struct Wave {
    /// The checkpoint that it belongs to.
    pub checkpoint: u64,
    /// Its number; waves are applied in order.
    pub wave: u64,
    /// What it is about to do.
    pub updates: Vec<Update>,
    /// What those before have left half done, to be done first.
    pub halves: Vec<Half>,
    /// Where the journal ended then: what is half done does not count in a stripe that a later record says
    /// was written as if it were new.
    pub since: u64,
}

impl Wave {
    /// Its length in the area, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        bytes_of(&self.updates, &self.halves)
    }

    /// Nothing is to be done of what is half done in stripes that were written as if they were new since
    /// then: `anew` are such, with the positions in the journal where it says so.
    pub fn drop_halves_of(&mut self, anew: &[((SetId, u32), u64)]) {
        let since = self.since;
        let is_over = |half: &Half| {
            let stripe = (half.update.set, half.update.stripe);
            anew.iter().any(|(other, position)| *other == stripe && *position > since)
        };
        self.halves.retain(|half| !is_over(half) || is(Mutant::KeepHalf));
    }
}

/// Why bytes are no wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedoError {
    /// No wave begins here: the area was never used.
    #[error("there is no redo record here")]
    Absent,
    /// A wave that was not written to its end, or that was damaged.
    #[error("a redo record is torn or damaged")]
    Torn,
    /// The wave of another array.
    #[error("a redo record belongs to another array")]
    Foreign,
    /// No memory for its bytes now.
    #[error("out of I/O buffers")]
    NoMemory,
}

/// Where in an area of `area_bytes` the wave begins.
#[must_use]
pub fn half_at(area_bytes: u64, wave: u64) -> u64 {
    wave % 2 * half_bytes(area_bytes)
}

/// The longest wave.
#[must_use]
pub fn half_bytes(area_bytes: u64) -> u64 {
    area_bytes / 2 / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

fn update_bytes(update: &Update) -> usize {
    let puts = update.puts.iter().map(|put| PUT_BYTES + put.data.len());
    UPDATE_BYTES + usize::from(update.given_up != 0) + puts.sum::<usize>()
}

fn half_done_bytes(half: &Half) -> usize {
    update_bytes(&half.update) + size_of::<u32>() + half.sound.len() * SEAT_BYTES
}

/// What a wave of these needs, counting that all of it may be left half done: then each later wave says it
/// again.
#[must_use]
pub fn room_of(updates: &[Update], halves: &[Half]) -> usize {
    let as_half = size_of::<u32>() + (MEMBERS_MAX + 1) * SEAT_BYTES;
    let more = updates.len() * as_half + size_of::<u64>();
    bytes_of(updates, halves) + more.next_multiple_of(BLOCK_BYTES)
}

/// The length of a wave of these.
#[must_use]
fn bytes_of(updates: &[Update], halves: &[Half]) -> usize {
    let updates = updates.iter().map(update_bytes).sum::<usize>();
    let since = if halves.is_empty() { 0 } else { size_of::<u64>() };
    let halves = since + halves.iter().map(half_done_bytes).sum::<usize>();
    (HEADER_BYTES + updates + halves).next_multiple_of(BLOCK_BYTES)
}

/// The bytes of a wave.
///
/// # Errors
/// [`RedoError::NoMemory`].
pub fn encode(array: &[u8; 16], wave: &Wave) -> Result<Buf, RedoError> {
    let len = wave.bytes();
    let mut buf = Buf::alloc(len).ok_or(RedoError::NoMemory)?;
    let mut to = Writer { buf: &mut buf, at: 0 };
    to.put(&MAGIC);
    to.put(&[0; 4]);
    to.put(&u32::try_from(len).expect("a wave is below 4 GiB").to_le_bytes());
    to.put(array);
    to.put(&wave.checkpoint.to_le_bytes());
    to.put(&wave.wave.to_le_bytes());
    to.put(&(wave.updates.len() as u32).to_le_bytes());
    to.put(&(wave.halves.len() as u32).to_le_bytes());
    wave.updates.iter().for_each(|update| to.update(update));
    if !wave.halves.is_empty() {
        to.put(&wave.since.to_le_bytes());
    }
    for half in &wave.halves {
        to.update(&half.update);
        to.put(&(half.sound.len() as u32).to_le_bytes());
        for seat in &half.sound {
            to.put(&u32::from(seat.disk.0).to_le_bytes());
            to.put(&seat.chunk.to_le_bytes());
        }
    }
    let end = to.at;
    buf[end..].fill(0);
    let crc = checksum(&buf[CRC_END..], SALT);
    buf[8..CRC_END].copy_from_slice(&crc.to_le_bytes());
    Ok(buf)
}

/// Reads a wave from the beginning of `half`; contents are passed on by reference.
///
/// # Errors
/// Why there is none; none of the reasons is a fault, as a crash can leave any of them.
pub fn decode(array: &[u8; 16], half: &Data) -> Result<Wave, RedoError> {
    let half = match half.as_slice() {
        Some(_) => half.clone(),
        None => half.to_buf().ok_or(RedoError::NoMemory)?.freeze(),
    };
    let bytes = half.as_slice().expect("made still above");
    let mut from = Reader { bytes, at: 0 };
    if from.take::<8>() != Ok(MAGIC) {
        return Err(RedoError::Absent);
    }
    let crc = u32::from_le_bytes(from.take()?);
    let len = u32::from_le_bytes(from.take()?) as usize;
    if len < HEADER_BYTES || len > bytes.len() || checksum(&bytes[CRC_END..len], SALT) != crc {
        return Err(RedoError::Torn);
    }
    from.bytes = &bytes[..len];
    if from.take::<16>()? != *array {
        return Err(RedoError::Foreign);
    }
    let checkpoint = u64::from_le_bytes(from.take()?);
    let wave = u64::from_le_bytes(from.take()?);
    let count = u32::from_le_bytes(from.take()?);
    let halves = u32::from_le_bytes(from.take()?);
    let updates = (0..count).map(|_| from.update(&half)).collect::<Result<_, _>>()?;
    let since = if halves == 0 { 0 } else { u64::from_le_bytes(from.take()?) };
    let halves = (0..halves).map(|_| from.half_done(&half)).collect::<Result<_, _>>()?;
    Ok(Wave { checkpoint, wave, updates, halves, since })
}

struct Writer<'a> {
    buf: &'a mut Buf,
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.buf[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn update(&mut self, update: &Update) {
        assert!(update.puts.len() <= usize::from(u16::MAX), "puts of one stripe");
        self.put(&update.set.0.to_le_bytes());
        self.put(&update.stripe.to_le_bytes());
        let unproved = if update.is_unproved { UNPROVED } else { 0 };
        let given_up = if update.given_up != 0 { GIVEN_UP } else { 0 };
        self.put(&[update.written, unproved | given_up]);
        self.put(&(update.puts.len() as u16).to_le_bytes());
        if update.given_up != 0 {
            self.put(&[update.given_up]);
        }
        for put in &update.puts {
            let blocks = put.coverage().count_ones() as u16;
            self.put(&[put.strip as u8, put.first_block as u8]);
            self.put(&blocks.to_le_bytes());
            let at = self.at;
            put.data.copy_to(0, &mut self.buf[at..at + put.data.len()]);
            self.at += put.data.len();
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], RedoError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let head = rest.first_chunk().ok_or(RedoError::Torn)?;
        self.at += N;
        Ok(*head)
    }

    fn update(&mut self, half: &Data) -> Result<Update, RedoError> {
        let set = SetId(u32::from_le_bytes(self.take()?));
        let stripe = u32::from_le_bytes(self.take()?);
        let [written, flags] = self.take()?;
        let count = u16::from_le_bytes(self.take()?);
        let [given_up] = if flags & GIVEN_UP == 0 { [0] } else { self.take()? };
        let puts = (0..count).map(|_| self.put(half)).collect::<Result<_, _>>()?;
        Ok(Update { set, stripe, written, is_unproved: flags & UNPROVED != 0, given_up, puts })
    }

    fn half_done(&mut self, half: &Data) -> Result<Half, RedoError> {
        let update = self.update(half)?;
        let count = u32::from_le_bytes(self.take()?);
        let seats = (0..count).map(|_| {
            let disk = u32::from_le_bytes(self.take()?);
            let chunk = u32::from_le_bytes(self.take()?);
            let disk = DiskId(u16::try_from(disk).map_err(|_| RedoError::Torn)?);
            Ok(Seat { disk, chunk })
        });
        Ok(Half { update, sound: seats.collect::<Result<_, _>>()? })
    }

    fn put(&mut self, half: &Data) -> Result<Put, RedoError> {
        let [strip, first_block] = self.take()?.map(usize::from);
        let blocks = usize::from(u16::from_le_bytes(self.take()?));
        if strip >= MEMBERS_MAX || blocks == 0 || first_block + blocks > CLUSTER_BLOCKS {
            return Err(RedoError::Torn);
        }
        let end = self.at + blocks * BLOCK_BYTES;
        if end > self.bytes.len() {
            return Err(RedoError::Torn);
        }
        let data = half.slice(self.at..end);
        self.at = end;
        Ok(Put { strip, first_block, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARRAY: [u8; 16] = [7; 16];

    fn data(bytes: &[u8]) -> Data {
        let mut buf = Buf::alloc(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        buf.freeze()
    }

    fn updates() -> impl Strategy<Value = Vec<Update>> {
        let put = (0..MEMBERS_MAX, 0usize..14, 1usize..3, any::<u8>()).prop_map(
            |(strip, first_block, blocks, byte)| Put {
                strip,
                first_block,
                data: data(&vec![byte; blocks * BLOCK_BYTES]),
            },
        );
        let puts = prop::collection::vec(put, 0..4);
        let update = (any::<u32>(), any::<u32>(), any::<(u8, bool, u8)>(), puts).prop_map(
            |(set, stripe, (written, is_unproved, given_up), puts)| {
                let set = SetId(set);
                Update { set, stripe, written, is_unproved, given_up, puts }
            },
        );
        prop::collection::vec(update, 0..4)
    }

    fn wave(updates: Vec<Update>, halves: Vec<(Update, Vec<(u16, u32)>)>) -> Wave {
        let seat = |(disk, chunk)| Seat { disk: DiskId(disk), chunk };
        let half = |(update, seats): (Update, Vec<_>)| Half {
            update,
            sound: seats.into_iter().map(seat).collect(),
        };
        let halves: Vec<Half> = halves.into_iter().map(half).collect();
        let since = if halves.is_empty() { 0 } else { 4711 };
        Wave { checkpoint: 5, wave: 9, updates, halves, since }
    }

    fn waves() -> impl Strategy<Value = Wave> {
        let seats = prop::collection::vec((any::<u16>(), any::<u32>()), 0..4);
        let seats = prop::collection::vec(seats, 4);
        (updates(), updates(), seats).prop_map(|(updates, halves, seats)| {
            wave(updates, halves.into_iter().zip(seats).collect())
        })
    }

    /// In a form that can be compared.
    #[allow(clippy::type_complexity)]
    fn plain(update: &Update) -> Vec<((u32, u32), (u8, bool, u8), (usize, usize), Vec<u8>)> {
        let Update { set, stripe, written, is_unproved, given_up, puts } = update;
        let bytes = |put: &Put| put.data.as_slice().unwrap().to_vec();
        let (at, state) = ((set.0, *stripe), (*written, *is_unproved, *given_up));
        let part = |put: &Put| (at, state, (put.strip, put.first_block), bytes(put));
        puts.iter().map(part).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_wave_comes_back_as_it_was(wave in waves()) {
            let bytes = encode(&ARRAY, &wave).unwrap();
            prop_assert_eq!(bytes.len(), wave.bytes());
            let mut area = bytes.to_vec();
            area.resize(area.len() + BLOCK_BYTES, 0xee);
            let read = decode(&ARRAY, &data(&area)).unwrap();
            let numbers = |wave: &Wave| (wave.checkpoint, wave.wave, wave.since);
            prop_assert_eq!(numbers(&read), numbers(&wave));
            let all = |wave: &Wave| wave.updates.iter().map(plain).collect::<Vec<_>>();
            prop_assert_eq!(all(&read), all(&wave));
            let halves = |wave: &Wave| {
                let half = |half: &Half| (plain(&half.update), half.sound.clone());
                wave.halves.iter().map(half).collect::<Vec<_>>()
            };
            prop_assert_eq!(halves(&read), halves(&wave));
            prop_assert_eq!(decode(&[8; 16], &data(&area)).unwrap_err(), RedoError::Foreign);
        }

        #[test]
        fn a_torn_or_damaged_wave_is_none(wave in waves(), at: prop::sample::Index, flip in 1u8..) {
            let whole = encode(&ARRAY, &wave).unwrap().to_vec();
            let at = at.index(whole.len());
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            prop_assert!(decode(&ARRAY, &data(&bytes)).is_err());
            prop_assert!(decode(&ARRAY, &data(&whole[..at])).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            // With a right frame around them, so that the inner parts are reached.
            let mut framed = [&MAGIC[..], &[0; 8], &ARRAY, &bytes].concat();
            let len = (framed.len() as u32).to_le_bytes();
            framed[12..16].copy_from_slice(&len);
            let crc = checksum(&framed[CRC_END..], SALT).to_le_bytes();
            framed[8..12].copy_from_slice(&crc);
            let _ = decode(&ARRAY, &data(&framed));
            let _ = decode(&ARRAY, &data(&bytes));
        }
    }

    #[test]
    fn what_is_half_done_is_over_when_its_stripe_is_written_anew() {
        let of = |set, stripe| Update {
            set: SetId(set),
            stripe,
            written: 1,
            is_unproved: false,
            given_up: 0,
            puts: Vec::new(),
        };
        let halves = || [(1, 1), (1, 2), (2, 1)].map(|(set, stripe)| (of(set, stripe), Vec::new()));
        let mut wave = wave(Vec::new(), halves().into());
        let anew = [((SetId(1), 2), wave.since + 1), ((SetId(2), 1), wave.since)];
        wave.drop_halves_of(&anew);
        let left = wave.halves.iter().map(|half| (half.update.set.0, half.update.stripe));
        assert_eq!(left.collect::<Vec<_>>(), [(1, 1), (2, 1)], "what came before counts");
    }

    #[test]
    fn waves_alternate_between_two_halves() {
        assert_eq!((half_at(81920, 6), half_at(81920, 7)), (0, 40960));
        assert_eq!(half_bytes(3 * 4096), 4096);
        assert_eq!(decode(&ARRAY, &data(&[0; 4096])).unwrap_err(), RedoError::Absent);
    }
}
