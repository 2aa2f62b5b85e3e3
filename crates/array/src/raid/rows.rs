//! Blocks of one stripe in memory, and what can be computed from them: no I/O.

use std::borrow::Cow;
use std::ops::Range;

use ring::Data;
use smallvec::SmallVec;

use crate::{BLOCK_BYTES, SetId, block_checksum};

use super::geometry::Shape;
use super::io::Copy;

/// The checksum that a block of a data column must have, where that is known.
pub type Crcs<'a> = &'a dyn Fn(usize, usize) -> Option<u32>;

/// Nothing is known about any block.
pub const NO_CRCS: Crcs<'static> = &|_, _| None;

/// A bit for each block of `rows`.
pub(super) fn mask_of(rows: &Range<usize>) -> u16 {
    debug_assert!(rows.end <= 16);
    rows.clone().fold(0, |mask, row| mask | 1 << row)
}

/// The blocks of a mask.
pub(super) fn rows_of(mask: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |row| mask >> row & 1 == 1)
}

/// The shortest range with all blocks of a mask; empty for none.
pub(super) fn hull(mask: u16) -> Range<usize> {
    if mask == 0 {
        0..0
    } else {
        mask.trailing_zeros() as usize..16 - mask.leading_zeros() as usize
    }
}

/// Blocks of one strip, as a disk gave them.
#[derive(Debug, Clone)]
pub(super) struct Loaded {
    /// Memory that stands still.
    pub(super) data: Data,
    /// The block that `data` begins with.
    pub(super) first: usize,
    /// Which blocks are there and not known to be wrong (bit = block of the strip).
    pub(super) good: u16,
}

impl Loaded {
    /// Block `row` of the strip.
    pub(super) fn block(&self, row: usize) -> Option<&[u8]> {
        if self.good >> row & 1 == 0 {
            return None;
        }
        let bytes = self.data.as_slice().expect("what is loaded stands still");
        Some(&bytes[(row - self.first) * BLOCK_BYTES..][..BLOCK_BYTES])
    }
}

/// How a block was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Solved {
    /// A strip that must hold something wrong, as the block's checksum proves.
    pub(super) wrong: Option<usize>,
}

/// Blocks of the strips of a stripe with parity.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) set: SetId,
    pub(super) stripe: u32,
    pub(super) shape: Shape,
    /// Columns that the parity covers; the others count as zeroes.
    pub(super) written: u8,
    /// By strip: data columns, P, Q.
    pub(super) strips: Vec<Option<Loaded>>,
    /// Which copy each strip was read from: with a replacement there are two.
    pub(super) copies: Vec<Option<Copy>>,
}

impl Rows {
    /// A block of this strip must be wrong: counts it against the disk that gave it.
    pub(super) fn blame(&self, strip: usize) {
        if let Some(copy) = &self.copies[strip] {
            copy.disk.count_mismatch();
        }
    }

    /// The checksum of a block of a data column.
    pub(super) fn checksum(&self, column: usize, row: usize, block: &[u8]) -> u32 {
        block_checksum(self.set, self.shape.slot(self.stripe, column), row, block)
    }

    /// A block; the empty slice, which stands for zeroes, where nothing was written.
    pub(super) fn block(&self, strip: usize, row: usize) -> Option<&[u8]> {
        if strip < self.shape.columns() && self.written >> strip & 1 == 0 {
            return Some(&[]);
        }
        self.strips[strip].as_ref()?.block(row)
    }

    /// P, and Q if the set has it.
    fn parity(&self, row: usize) -> (Option<&[u8]>, Option<&[u8]>) {
        let columns = self.shape.columns();
        let q = if self.shape.parity() == 2 { self.block(columns + 1, row) } else { None };
        (self.block(columns, row), q)
    }

    /// Computes a block of any strip into `to`, without looking at what is there.
    pub(super) fn compute(
        &self,
        row: usize,
        strip: usize,
        crcs: Crcs<'_>,
        to: &mut [u8],
    ) -> Option<Solved> {
        let columns = self.shape.columns();
        if strip < columns {
            return self.solve(row, strip, crcs(strip, row), to);
        }
        let data = self.complete(row, crcs)?;
        let data: SmallVec<[&[u8]; 8]> = data.iter().map(AsRef::as_ref).collect();
        if strip == columns {
            parity::p(&data, to);
        } else {
            parity::pq(&data, &mut [0; BLOCK_BYTES], to);
        }
        Some(Solved { wrong: None })
    }

    /// Computes a block of data column `lost` into `to`, without looking at what is there. With a
    /// checksum every way to compute it is tried until the result fits: that the block itself is
    /// gone, that one more column is, and, where two parities allow it, that one more strip is
    /// silently wrong.
    pub(super) fn solve(
        &self,
        row: usize,
        lost: usize,
        crc: Option<u32>,
        to: &mut [u8],
    ) -> Option<Solved> {
        if self.written >> lost & 1 == 0 {
            return None;
        }
        let fits = |to: &[u8]| crc.is_none_or(|crc| self.checksum(lost, row, to) == crc);
        let columns = 0..self.shape.columns();
        let data: SmallVec<[Option<&[u8]>; 8]> =
            columns.clone().map(|column| self.block(column, row)).collect();
        let known: SmallVec<[&[u8]; 8]> = data.iter().map(|block| block.unwrap_or(&[])).collect();
        let gone: SmallVec<[usize; 8]> =
            columns.filter(|column| *column != lost && data[*column].is_none()).collect();
        let (p, q) = self.parity(row);
        let mut other = [0; BLOCK_BYTES];
        if let [gone] = gone[..] {
            parity::data_from_pq(&known, (lost, gone), p?, q?, (to, &mut other));
            return fits(to).then_some(Solved { wrong: None });
        }
        if !gone.is_empty() {
            return None;
        }
        if let Some(p) = p {
            parity::data_from_p(&known, lost, p, to);
            if fits(to) {
                return Some(Solved { wrong: None });
            }
        }
        if let Some(q) = q {
            parity::data_from_q(&known, lost, q, to);
            if fits(to) {
                return Some(Solved { wrong: p.map(|_| self.shape.columns()) });
            }
        }
        let (p, q) = (p?, q?);
        for wrong in (0..self.shape.columns()).filter(|wrong| !known[*wrong].is_empty()) {
            if wrong != lost {
                parity::data_from_pq(&known, (lost, wrong), p, q, (to, &mut other));
                if fits(to) {
                    return Some(Solved { wrong: Some(wrong) });
                }
            }
        }
        None
    }

    /// Whether a block of a data column that nobody owns is what the parity counts on: some parity
    /// gives it too, or with it what is gone comes out as its checksum says.
    pub(super) fn confirms(
        &mut self,
        row: usize,
        column: usize,
        held: Loaded,
        crcs: Crcs<'_>,
    ) -> bool {
        let before = self.strips[column].replace(held);
        let is_right = self.is_right(row, column, crcs);
        self.strips[column] = before;
        is_right
    }

    fn is_right(&self, row: usize, column: usize, crcs: Crcs<'_>) -> bool {
        let columns = 0..self.shape.columns();
        let gone: SmallVec<[usize; 8]> =
            columns.clone().filter(|at| self.block(*at, row).is_none()).collect();
        let mut to = [0; BLOCK_BYTES];
        if !gone.is_empty() {
            return gone.into_iter().all(|gone| {
                let Some(crc) = crcs(gone, row) else { return false };
                let solved = self.solve(row, gone, Some(crc), &mut to);
                solved.is_some_and(|solved| solved.wrong != Some(column))
            });
        }
        let data: SmallVec<[&[u8]; 8]> =
            columns.filter_map(|column| self.block(column, row)).collect();
        let (p, q) = self.parity(row);
        let by_p = p.is_some_and(|p| {
            parity::data_from_p(&data, column, p, &mut to);
            to == *data[column]
        });
        let by_q = q.is_some_and(|q| {
            parity::data_from_q(&data, column, q, &mut to);
            to == *data[column]
        });
        by_p || by_q || self.wrong_strip(row, crcs).is_some_and(|wrong| wrong != column)
    }

    /// The one strip of a row that does not agree with all others, where two parities tell: a data
    /// column that nobody owns, for which nothing else does, or a parity.
    fn wrong_strip(&self, row: usize, crcs: Crcs<'_>) -> Option<usize> {
        let columns = self.shape.columns();
        let data: Option<SmallVec<[&[u8]; 8]>> =
            (0..columns).map(|column| self.block(column, row)).collect();
        self.wrong_beside(row, &data?, crcs, &mut [0; BLOCK_BYTES])
    }

    /// The same where the `data` of the row is what these are. If it is a column both parities agree on
    /// what it must be: that is put into `to` then.
    pub(super) fn wrong_beside(
        &self,
        row: usize,
        data: &[&[u8]],
        crcs: Crcs<'_>,
        to: &mut [u8; BLOCK_BYTES],
    ) -> Option<usize> {
        let columns = self.shape.columns();
        let (Some(p), Some(q)) = self.parity(row) else { return None };
        let mut right = [[0; BLOCK_BYTES]; 2];
        let [right_p, right_q] = &mut right;
        parity::pq(data, right_p, right_q);
        match (p == right_p, q == right_q) {
            (true, true) => return None,
            (false, true) => return Some(columns),
            (true, false) => return Some(columns + 1),
            (false, false) => {}
        }
        let mut by_q = [0; BLOCK_BYTES];
        (0..columns)
            .filter(|column| crcs(*column, row).is_none() && !data[*column].is_empty())
            .find(|column| {
                parity::data_from_p(data, *column, p, to);
                parity::data_from_q(data, *column, q, &mut by_q);
                *to == by_q
            })
    }

    /// The parity of a row, all of which is there, that is to be made anew of the data: the other
    /// one agrees with that, or neither does, and no block that nobody owns explains both.
    pub(super) fn odd_parity(&self, row: usize, crcs: Crcs<'_>) -> Option<usize> {
        let columns = self.shape.columns();
        if (0..self.shape.strips()).any(|strip| self.block(strip, row).is_none()) {
            return None;
        }
        match self.wrong_strip(row, crcs) {
            Some(wrong) => (wrong >= columns).then_some(wrong),
            None => (self.is_consistent(row, crcs) == Some(false)).then_some(columns),
        }
    }

    /// Leaves out blocks that nobody owns and that do not agree with all others, `held` among them,
    /// which is what the holder of a parity has that is to be made anew: with them it would not
    /// agree with the other parity, and what is gone later could not be computed from both.
    pub(super) fn reject_odd(&mut self, strip: usize, held: Loaded, crcs: Crcs<'_>) {
        let good = held.good;
        let before = self.strips[strip].replace(held);
        for row in rows_of(good) {
            let wrong = self.wrong_strip(row, crcs).filter(|wrong| *wrong < self.shape.columns());
            if let Some(odd) = wrong.and_then(|wrong| self.strips[wrong].as_mut()) {
                odd.good &= !(1 << row);
            }
        }
        self.strips[strip] = before;
    }

    /// A block of a data column, computed if it is missing; `None` if it cannot be. Empty where
    /// nothing was written.
    pub(super) fn get(&self, column: usize, row: usize, crcs: Crcs<'_>) -> Option<Cow<'_, [u8]>> {
        if let Some(block) = self.block(column, row) {
            return Some(Cow::Borrowed(block));
        }
        let mut block = vec![0; BLOCK_BYTES];
        self.solve(row, column, crcs(column, row), &mut block)?;
        Some(Cow::Owned(block))
    }

    /// All data columns of a row, likewise.
    pub(super) fn complete(&self, row: usize, crcs: Crcs<'_>) -> Option<Vec<Cow<'_, [u8]>>> {
        (0..self.shape.columns()).map(|column| self.get(column, row, crcs)).collect()
    }

    /// Takes out the blocks of data columns that do not match their checksums: (column, row).
    /// Whether it is they that are wrong, or the checksums, [`is_proved_wrong`](Self::is_proved_wrong)
    /// tells.
    pub(super) fn reject_wrong(&mut self, crcs: Crcs<'_>) -> Vec<(usize, usize)> {
        let mut wrong = Vec::new();
        for column in 0..self.shape.columns() {
            let Some(strip) = &self.strips[column] else { continue };
            let is_wrong = |row: &usize| {
                let block = strip.block(*row).expect("its bit is set");
                crcs(column, *row).is_some_and(|crc| self.checksum(column, *row, block) != crc)
            };
            let rows: Vec<usize> = rows_of(strip.good).filter(is_wrong).collect();
            let strip = self.strips[column].as_mut().expect("looked at above");
            rows.iter().for_each(|row| strip.good &= !(1 << row));
            wrong.extend(rows.into_iter().map(|row| (column, row)));
        }
        wrong
    }

    /// Whether a block that was rejected is wrong for sure: the rest of the stripe gives one that
    /// matches, so the checksum is that of what should be there.
    pub(super) fn is_proved_wrong(&self, column: usize, row: usize, crcs: Crcs<'_>) -> bool {
        let crc = crcs(column, row);
        crc.is_some() && self.solve(row, column, crc, &mut [0; BLOCK_BYTES]).is_some()
    }

    /// Whether data and parity of a row agree; `None` when too little of it is there to tell.
    pub(super) fn is_consistent(&self, row: usize, crcs: Crcs<'_>) -> Option<bool> {
        let columns = self.shape.columns();
        let is_gone = |column: &usize| self.block(*column, row).is_none();
        if (0..columns).filter(is_gone).any(|column| crcs(column, row).is_some()) {
            // The checksum of what had to be computed tells.
            return Some(self.complete(row, crcs).is_some());
        }
        let data = self.complete(row, NO_CRCS)?;
        let data: SmallVec<[&[u8]; 8]> = data.iter().map(AsRef::as_ref).collect();
        let gone = (0..columns).filter(is_gone).count();
        let (p, q) = self.parity(row);
        let held = usize::from(p.is_some()) + usize::from(q.is_some());
        // As many parities as columns are gone went into computing these.
        if held <= gone {
            return None;
        }
        let mut right = [[0; BLOCK_BYTES]; 2];
        let [right_p, right_q] = &mut right;
        parity::pq(&data, right_p, right_q);
        let agrees = |held: Option<&[u8]>, right: &[u8]| held.is_none_or(|held| held == right);
        Some(agrees(p, right_p) && agrees(q, right_q))
    }
}

/// The parity of a row: P, then Q where `to` has room for it.
pub(super) fn compute(data: &[&[u8]], to: &mut [&mut [u8]]) {
    match to {
        [p] => parity::p(data, p),
        [p, q] => parity::pq(data, p, q),
        _ => unreachable!("a stripe has one or two parities"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use ring::Buf;

    use crate::Level;

    fn loaded(byte: u8) -> Loaded {
        let mut buf = Buf::zeroed(BLOCK_BYTES).unwrap();
        buf.iter_mut().enumerate().for_each(|(i, to)| *to = (i as u8).wrapping_mul(7) ^ byte);
        Loaded { data: buf.freeze(), first: 3, good: 1 << 3 }
    }

    /// Row 3 of a RAID 6 stripe of four columns, of which column 2 was never written.
    fn row() -> Rows {
        let shape = Shape::of(Some(Level::Raid6), 6).unwrap();
        let mut strips: Vec<_> = [10, 20, 0, 40].map(|byte| Some(loaded(byte))).into();
        strips[2] = None;
        let copies = vec![None; 6];
        let mut rows = Rows { set: SetId(5), stripe: 2, shape, written: 0b1011, strips, copies };
        let mut parities = [Buf::zeroed(BLOCK_BYTES).unwrap(), Buf::zeroed(BLOCK_BYTES).unwrap()];
        let [p, q] = &mut parities;
        let data: Vec<_> = (0..4).map(|column| rows.block(column, 3).unwrap()).collect();
        compute(&data, &mut [p, q]);
        for parity in parities {
            rows.strips.push(Some(Loaded { data: parity.freeze(), first: 3, good: 1 << 3 }));
        }
        rows
    }

    fn crcs(column: usize, row_at: usize) -> Option<u32> {
        let block = loaded([10, 20, 0, 40][column]);
        Some(row().checksum(column, row_at, block.block(3)?))
    }

    #[test]
    fn two_lost_columns_or_one_and_any_parity_come_back() {
        for lost in [0, 1, 3] {
            for other in [0, 1, 3, 4, 5].into_iter().filter(|other| *other != lost) {
                let mut rows = row();
                rows.strips[lost] = None;
                rows.strips[other] = None;
                let data = rows.complete(3, NO_CRCS).unwrap();
                assert_eq!(Some(rows.checksum(lost, 3, &data[lost])), crcs(lost, 3));
                drop(data);
                let third = [0, 1, 3].into_iter().find(|third| ![lost, other].contains(third));
                rows.strips[third.unwrap()] = None;
                assert!(rows.complete(3, NO_CRCS).is_none());
            }
        }
    }

    #[test]
    fn one_lost_and_one_silently_wrong_strip_are_told_apart_by_the_checksum() {
        for wrong in [1, 3, 4, 5] {
            let mut rows = row();
            rows.strips[0] = None;
            rows.strips[wrong] = Some(loaded(99));
            let mut to = [0; BLOCK_BYTES];
            let solved = rows.solve(3, 0, crcs(0, 3), &mut to).unwrap();
            // A wrong Q is never looked at: P gave the block already.
            assert_eq!(solved.wrong, Some(wrong).filter(|wrong| *wrong != 5));
            assert_eq!(Some(rows.checksum(0, 3, &to)), crcs(0, 3));
            rows.strips[if wrong == 1 { 3 } else { 1 }] = None;
            assert_eq!(rows.solve(3, 0, crcs(0, 3), &mut to), None);
        }
    }

    #[test]
    fn blocks_that_do_not_match_are_taken_out() {
        let mut rows = row();
        rows.strips[1] = Some(loaded(21));
        assert_eq!(rows.reject_wrong(&crcs), [(1, 3)]);
        let data = rows.complete(3, &crcs).unwrap();
        assert_eq!(Some(rows.checksum(1, 3, &data[1])), crcs(1, 3));
        drop(data);
        assert!(rows.is_proved_wrong(1, 3, &crcs));
        assert!(!rows.is_proved_wrong(1, 3, &|_, _| Some(7)), "a checksum that nothing matches");
        assert_eq!(rows.solve(3, 2, None, &mut [0; BLOCK_BYTES]), None, "never written");
    }

    #[test]
    fn a_row_is_consistent_until_any_strip_of_it_changes() {
        assert_eq!(row().is_consistent(3, NO_CRCS), Some(true));
        for wrong in [0, 1, 3, 4, 5] {
            let mut rows = row();
            rows.strips[wrong] = Some(loaded(99));
            assert_eq!(rows.is_consistent(3, NO_CRCS), Some(false), "strip {wrong}");
            // One strip less, and the second parity still tells.
            let gone = if wrong == 0 { 1 } else { 0 };
            rows.strips[gone] = None;
            assert_eq!(
                rows.is_consistent(3, NO_CRCS),
                Some(false),
                "strip {wrong}, {gone} is gone"
            );
        }
        let mut rows = row();
        rows.strips[0] = None;
        assert_eq!(rows.is_consistent(3, NO_CRCS), Some(true));
        rows.strips[5] = None;
        assert_eq!(rows.is_consistent(3, NO_CRCS), None, "nothing is left to tell by");
    }

    proptest! {
        #[test]
        fn masks_and_ranges_agree(first in 0usize..16, len in 0usize..16) {
            let rows = first..(first + len).min(16);
            prop_assert_eq!(rows_of(mask_of(&rows)).collect::<Vec<_>>(), rows.clone().collect::<Vec<_>>());
            if !rows.is_empty() {
                prop_assert_eq!(hull(mask_of(&rows)), rows);
            }
        }
    }
}
