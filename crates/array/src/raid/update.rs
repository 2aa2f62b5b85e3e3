//! Changes of parity stripes that hold live data: first worked out, then kept in the redo area,
//! then done.
//!
//! An update holds the full new contents of every block that changes, data and parity, of members
//! that are away too. So it can be done again after a crash, any number of times and also when a
//! disk has come back in between, and the outcome is the same.

use std::borrow::Cow;
use std::ops::Range;

use block::{BlockError, WriteFlags};
use ring::{Buf, Data};

use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, DiskId, SetId};

use super::geometry::Shape;
use super::record::Seat;
use super::rows::{Crcs, Rows, compute, mask_of, rows_of};
use super::set::Set;
use super::write::{Coverage, Put, coverage_of, still_now};
use super::{Raid, ReadError, WaitFor, WriteError};
use crate::mutants::{Mutant, is};

/// New contents of blocks of one column.
#[derive(Debug, Clone)]
pub struct Change {
    /// The data column.
    pub column: usize,
    /// Its block that the change begins with.
    pub first_block: usize,
    /// Whole blocks.
    pub data: Data,
}

/// All that changes on the disks of one stripe.
#[derive(Debug, Clone)]
pub struct Update {
    /// The set.
    pub set: SetId,
    /// The stripe.
    pub stripe: u32,
    /// The columns that the parity covers afterwards.
    pub written: u8,
    /// The parities come out of those before, and those were proved by nothing.
    pub is_unproved: bool,
    /// Columns that nobody could give: the parity takes them for zeroes, and whoever has them lacks the stripe.
    pub given_up: u8,
    /// Data and parity, each block at most once.
    pub puts: Vec<Put>,
}

/// What was looked at of a run before it changes.
struct Seen {
    /// Data and parity agree.
    agrees: bool,
    /// All that there is of the run, if it was looked at.
    rows: Option<Rows>,
}

/// Rows that change in the same columns.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    rows: Range<usize>,
    columns: u8,
}

/// For each row the columns that change, joined where neighbours are alike.
fn runs(changes: &[Change]) -> Vec<Run> {
    let mut columns = [0u8; CLUSTER_BLOCKS];
    for change in changes {
        let blocks = change.data.len() / BLOCK_BYTES;
        for row in &mut columns[change.first_block..change.first_block + blocks] {
            assert!(*row >> change.column & 1 == 0, "no block changes twice in one update");
            *row |= 1 << change.column;
        }
    }
    let mut runs: Vec<Run> = Vec::new();
    for (row, columns) in columns.into_iter().enumerate().filter(|(_, columns)| *columns != 0) {
        match runs.last_mut() {
            Some(last) if last.rows.end == row && last.columns == columns => last.rows.end += 1,
            _ => runs.push(Run { rows: row..row + 1, columns }),
        }
    }
    runs
}

/// The new contents of block `row` of `column`, if it changes.
fn changed(changes: &[Change], column: usize, row: usize) -> Option<&[u8]> {
    changes.iter().find_map(|change| {
        let offset = row.checked_sub(change.first_block)? * BLOCK_BYTES;
        let bytes = change.data.as_slice().expect("changes were made still");
        let is_there = change.column == column && offset < bytes.len();
        is_there.then(|| &bytes[offset..offset + BLOCK_BYTES])
    })
}

impl Raid {
    /// Works out what `changes` mean for a stripe with parity. Columns that were not written before
    /// join the parity; what the changes leave of them becomes zeroes. `crcs` gives the checksums
    /// of blocks as they are now (column, block), where the caller knows them: above all those of
    /// the blocks that change, or a damaged one of them damages the parity.
    ///
    /// A column that the parity covers and whose checksums are not known belonged to something that
    /// was freed. It may have rotted since, unseen by any read, and must not carry its rot into the
    /// parity: so data and parity of its rows must agree first. So they must where the parity goes to
    /// a new disk as well, which would get what has rotted on the old one.
    ///
    /// Until the update is applied nothing else may change the stripe.
    ///
    /// # Errors
    /// When what is needed cannot be read; [`ReadError::Unproved`] when data and parity disagree:
    /// then [`plan_anew`](Self::plan_anew) helps.
    pub async fn plan_update(
        &self,
        set: &Set,
        stripe: u32,
        changes: &[Change],
        crcs: &dyn Fn(usize, usize) -> Option<u32>,
    ) -> Result<Update, ReadError> {
        let shape = set.shape();
        assert!(shape.parity() > 0, "copies are written in place");
        assert!(changes.iter().all(|change| change.column < shape.columns()), "columns of the set");
        let changes = still_changes(changes)?;
        let _guard = self.locks.lock(set, stripe).await;
        let proofs = self.prove_parity(set, stripe, &changes, crcs).await?;
        let is_proved = proofs.iter().all(|proof| proof.agrees);
        let mut puts = Vec::new();
        for (run, proof) in runs(&changes).into_iter().zip(proofs) {
            let seen = proof.rows.filter(|_| !is(Mutant::LookAgain));
            let parities = self.new_parity((set, stripe), &run, &changes, crcs, seen).await?;
            for (i, buf) in parities.into_iter().enumerate() {
                let strip = shape.columns() + i;
                puts.push(Put { strip, first_block: run.rows.start, data: buf.freeze() });
            }
        }
        puts.extend(changes.iter().map(|change| Put {
            strip: change.column,
            first_block: change.first_block,
            data: change.data.clone(),
        }));
        let old = set.written(stripe);
        let joining = changes.iter().fold(0, |mask, change| mask | 1 << change.column) & !old;
        for strip in 0..shape.strips() {
            // What a stripe without data holds as its parity is whatever was there before.
            let is_parity = strip >= shape.columns();
            if if is_parity { old == 0 } else { joining >> strip & 1 == 1 } {
                fill_with_zeroes(&mut puts, strip);
            }
        }
        let is_unproved = old != 0 && !is_proved;
        Ok(Update { set: set.id(), stripe, written: old | joining, is_unproved, given_up: 0, puts })
    }

    /// Does an update, for the first time or again. Members that were `sound` before the first time, and
    /// have gone and come back since, are so again when they have taken their part. If too many go out in
    /// the middle they get it when they are [brought up to date](Self::refresh_stripe).
    ///
    /// # Errors
    /// Those of every write.
    pub async fn apply(
        &self,
        set: &Set,
        update: &Update,
        flags: WriteFlags,
        sound: &[Seat],
    ) -> Result<(), WriteError> {
        assert!(update.set == set.id(), "the update is for this set");
        let (stripe, puts) = (update.stripe, &update.puts);
        let _guard = self.locks.lock(set, stripe).await;
        let coverage = self.sound_coverage(set, stripe, puts, sound);
        if !self.survives(set, stripe, update.written, &coverage) {
            return Err(WriteError::Lost);
        }
        let done = self.put_update(set, update, flags, sound).await;
        match done {
            Ok(()) => self.done_over_half(update),
            Err(WriteError::Half) => self.keep_half(update, sound),
            Err(_) => return done,
        }
        set.set_written(stripe, update.written);
        done
    }

    /// What `puts` give: to whoever was `sound` before they were first tried, and is in, all that it lacks.
    pub(super) fn sound_coverage(
        &self,
        set: &Set,
        stripe: u32,
        puts: &[Put],
        sound: &[Seat],
    ) -> Coverage {
        let mut coverage = coverage_of(puts);
        let stale = set.stale_holders(stripe).into_iter();
        for (strip, seat) in stale.filter(|(_, seat)| self.is_sound(sound, *seat)) {
            match (coverage[strip], self.disks().get(seat.disk).filter(|disk| disk.is_writable())) {
                (_, None) => {}
                (0, Some(disk)) => self.credit(set, stripe, seat, &disk),
                (_, Some(_)) => coverage[strip] = u16::MAX,
            }
        }
        coverage
    }

    /// Whether a seat was `sound` before something began, and has what it had then.
    pub(super) fn is_sound(&self, sound: &[Seat], seat: Seat) -> bool {
        let has_lost = self.disks().lacks_all(seat.disk) && !is(Mutant::KeepSound);
        sound.contains(&seat) && !has_lost
    }

    /// Writes what an update says to everybody who is there. Call it under the stripe's lock.
    pub(super) async fn put_update(
        &self,
        set: &Set,
        update: &Update,
        flags: WriteFlags,
        sound: &[Seat],
    ) -> Result<(), WriteError> {
        let unproved = self.unproved_replacement(set, update);
        let written = (update.stripe, update.written);
        let done = self.put_anyway(set, written, &update.puts, flags, Some(sound)).await;
        if let Some(disk) = unproved {
            set.mark_stale(update.stripe, disk);
        }
        done
    }

    /// The disk of a replacement that is about to be given a parity which its member has too, and is not
    /// to count as having it: it lacks it until now, and gets it when all of the stripe is proved; or the
    /// update was planned before the replacement was there, has proved nothing of the old parity, and the
    /// new one has its rot.
    fn unproved_replacement(&self, set: &Set, update: &Update) -> Option<DiskId> {
        let new = set.replacement()?.seat;
        let holders = (set.shape().columns()..set.shape().strips())
            .map(|strip| set.holders(update.stripe, strip))
            .find(|holders| {
                let mut new = holders.iter().filter(|holder| holder.seat == new);
                new.any(|holder| holder.is_stale || update.is_unproved)
            })?;
        let is_there = |disk| self.disks().get(disk).is_some_and(|disk| disk.is_readable());
        let mut others = holders.iter().filter(|holder| holder.seat != new && !holder.is_stale);
        let is_held = others.any(|holder| is_there(holder.seat.disk));
        (is_held && !is(Mutant::BlindReuse)).then_some(new.disk)
    }

    /// Does an update again that was cut off. Whoever is there gets it, also where more is missing than
    /// the level survives: half of it is worth less than all of it to whoever comes back.
    ///
    /// # Errors
    /// Those of every write.
    pub async fn apply_again(
        &self,
        set: &Set,
        update: &Update,
        flags: WriteFlags,
    ) -> Result<(), WriteError> {
        assert!(update.set == set.id(), "the update is for this set");
        let _guard = self.locks.lock(set, update.stripe).await;
        let done = self.put_update(set, update, flags, &[]).await;
        if !matches!(done, Err(WriteError::Later(_))) {
            set.set_written(update.stripe, update.written);
            set.give_up(update.stripe, update.given_up);
        }
        done
    }

    /// Whether nothing of an update that was cut off is lost when it is done again with the disks that
    /// are there: each strip that it changes is taken by somebody, or comes out of the others. From
    /// disks that are gone for good nobody expects anything. Those that are `sound` lack nothing when
    /// what was half done before has been given to them.
    pub fn can_redo(
        &self,
        set: &Set,
        update: &Update,
        sound: &[Seat],
        is_gone: &dyn Fn(DiskId) -> bool,
    ) -> bool {
        let is_in = |disk| self.disks().get(disk).is_some_and(|disk| disk.is_writable());
        let takes = |put: &Put| {
            let holders = set.holders(update.stripe, put.strip);
            let mut disks = holders.iter().map(|holder| holder.seat.disk);
            disks.any(|disk| is_in(disk) || is_gone(disk))
        };
        let mut coverage = coverage_of(&update.puts);
        let stale = set.stale_holders(update.stripe).into_iter();
        for (strip, _) in stale.filter(|(_, seat)| self.is_sound(sound, *seat) && is_in(seat.disk))
        {
            coverage[strip] = u16::MAX;
        }
        update.puts.iter().all(takes)
            || self.survives(set, update.stripe, update.written, &coverage)
    }

    /// Makes sure that the parity agrees with what it covers, where that must not be taken for granted:
    /// for each run of `changes` what it saw.
    async fn prove_parity(
        &self,
        set: &Set,
        stripe: u32,
        changes: &[Change],
        crcs: Crcs<'_>,
    ) -> Result<Vec<Seen>, ReadError> {
        let written = set.written(stripe);
        let mut parities = set.shape().columns()..set.shape().strips();
        let moves = written != 0 && parities.any(|strip| set.holders(stripe, strip).len() > 1);
        let mut seen = Vec::new();
        for run in runs(changes) {
            let is_unknown =
                |column: usize| run.rows.clone().any(|row| crcs(column, row).is_none());
            let reused = rows_of(u16::from(run.columns & written)).any(is_unknown);
            if !(reused || moves) || is(Mutant::BlindReuse) {
                seen.push(Seen { agrees: false, rows: None });
                continue;
            }
            let rows = self.load_checked(set, stripe, u16::MAX, &run, crcs).await?;
            let mut agrees = true;
            for row in run.rows.clone() {
                match rows.is_consistent(row, crcs) {
                    Some(false) => return Err(ReadError::Unproved),
                    known => agrees &= known == Some(true),
                }
            }
            seen.push(Seen { agrees, rows: Some(rows) });
        }
        Ok(seen)
    }

    /// As [`plan_update`](Self::plan_update), without relying on the parity that there is: it is
    /// made anew of the columns in `live` and of the changes, and covers nothing else afterwards.
    /// `crcs` are those of all that lives in the stripe. Blocks that no disk can give count as what
    /// their disk holds: they are lost, and the parity gives all others.
    ///
    /// # Errors
    /// When what is needed cannot be read now; [`ReadError::Lost`] where more are out than the level bears.
    pub async fn plan_anew(
        &self,
        set: &Set,
        stripe: u32,
        changes: &[Change],
        live: u8,
        crcs: &dyn Fn(usize, usize) -> Option<u32>,
    ) -> Result<Update, ReadError> {
        let shape = set.shape();
        let changes = still_changes(changes)?;
        let _guard = self.locks.lock(set, stripe).await;
        let changing = changes.iter().fold(0, |mask, change| mask | 1 << change.column);
        let written = live & set.written(stripe) | changing;
        let whole = Run { rows: 0..CLUSTER_BLOCKS, columns: changing };
        let raw = self.load_rows(set, stripe, u16::MAX, &whole.rows, WaitFor::All).await;
        let raw = raw.map_err(ReadError::Later)?;
        let proved = self.load_checked(set, stripe, u16::MAX, &whole, crcs).await?;
        let mut bufs = parity_bufs(&shape, CLUSTER_BLOCKS)?;
        let mut given_up = 0_u8;
        for row in 0..CLUSTER_BLOCKS {
            let data = (0..shape.columns()).map(|column| {
                let joins = set.written(stripe) >> column & 1 == 0;
                match changed(&changes, column, row) {
                    Some(new) => Cow::Borrowed(new),
                    None if joins || written >> column & 1 == 0 => Cow::Borrowed(&[][..]),
                    None => {
                        let block = proved.get(column, row, crcs);
                        let as_it_is = || raw.block(column, row).map(Cow::Borrowed);
                        // The maps may have others as they were before a checkpoint that did not end:
                        // what comes out of what is there is right when its own checksum says so.
                        let is_known = crcs(column, row).is_some();
                        let solved = || raw.get(column, row, crcs).filter(|_| is_known);
                        block.or_else(as_it_is).or_else(solved).unwrap_or_else(|| {
                            given_up |= 1 << column;
                            Cow::Borrowed(&[])
                        })
                    }
                }
            });
            let data: Vec<Cow<'_, [u8]>> = data.collect();
            let data: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
            let at = row * BLOCK_BYTES..(row + 1) * BLOCK_BYTES;
            let mut parities: Vec<&mut [u8]> =
                bufs.iter_mut().map(|buf| &mut buf[at.clone()]).collect();
            compute(&data, &mut parities);
        }
        // A disk that is out, or lacks the stripe for having been out, may still give that.
        if given_up != 0 && !self.is_final(set, stripe) && !is(Mutant::AnewBeyond) {
            return Err(ReadError::Lost);
        }
        set.give_up(stripe, given_up);
        let mut puts: Vec<Put> = (shape.columns()..)
            .zip(bufs)
            .map(|(strip, buf)| Put { strip, first_block: 0, data: buf.freeze() })
            .collect();
        puts.extend(changes.iter().map(|change| Put {
            strip: change.column,
            first_block: change.first_block,
            data: change.data.clone(),
        }));
        for column in 0..shape.columns() {
            // Those that join begin with zeroes around what changes.
            if (written & !set.written(stripe)) >> column & 1 == 1 {
                fill_with_zeroes(&mut puts, column);
            }
        }
        Ok(Update { set: set.id(), stripe, written, is_unproved: false, given_up, puts })
    }

    /// The parities of a run of rows after the changes.
    ///
    /// Normally the old parity takes the difference that the changes make. That reads only what
    /// changes, and it keeps what the parity knows about the other columns: to compute it anew from
    /// a column that is silently damaged would make the damage final. So the other way is
    /// taken only when it reads no more and every block of it can be verified, or when old
    /// contents are missing. What was `seen` to agree is not read again: a disk may give something else.
    async fn new_parity(
        &self,
        (set, stripe): (&Set, u32),
        run: &Run,
        changes: &[Change],
        crcs: Crcs<'_>,
        seen: Option<Rows>,
    ) -> Result<Vec<Buf>, ReadError> {
        let shape = set.shape();
        let written = set.written(stripe);
        let parities = (1u16 << shape.parity()) - 1;
        let old = u16::from(written & run.columns) | parities << shape.columns();
        let others = u16::from(written & !run.columns);
        let is_known = |column| run.rows.clone().all(|row| crcs(column, row).is_some());
        let is_less = others.count_ones() <= old.count_ones();
        if seen.is_none() && is_less && rows_of(others).all(is_known) {
            let rows = self.load_checked(set, stripe, others, run, crcs).await?;
            if has_all(&rows, others, &run.rows)
                && let Some(parities) = recomputed(&rows, run, changes, crcs)?
            {
                return Ok(parities);
            }
        }
        let is_seen = seen.is_some();
        let mut rows = match seen {
            Some(rows) => rows,
            None => self.load_checked(set, stripe, old, run, crcs).await?,
        };
        if !is_seen && !has_all(&rows, old, &run.rows) {
            rows = self.load_checked(set, stripe, u16::MAX, run, crcs).await?;
        }
        let mut parities = modified(&rows, run, changes, crcs)?;
        if parities.iter().any(Option::is_none) {
            let anew = recomputed(&rows, run, changes, crcs)?.ok_or_else(|| {
                let is_there = self.is_final(set, stripe);
                let block = run.rows.start;
                if is_there { ReadError::Damaged { block } } else { ReadError::Lost }
            })?;
            for (parity, anew) in parities.iter_mut().zip(anew) {
                parity.get_or_insert(anew);
            }
        }
        Ok(parities.into_iter().map(|parity| parity.expect("filled above")).collect())
    }

    async fn load_checked(
        &self,
        set: &Set,
        stripe: u32,
        strips: u16,
        run: &Run,
        crcs: Crcs<'_>,
    ) -> Result<Rows, ReadError> {
        let loaded = self.load_rows(set, stripe, strips, &run.rows, WaitFor::Answering).await;
        let mut rows = loaded.map_err(ReadError::Later)?;
        let mut rejected = match is(Mutant::BlindChange) {
            true => Vec::new(),
            false => rows.reject_wrong(crcs),
        };
        if strips == u16::MAX && self.is_with_silent(set, &rows, run, crcs) {
            let loaded = self.load_rows(set, stripe, strips, &run.rows, WaitFor::All).await;
            rows = loaded.map_err(ReadError::Later)?;
            rejected = rows.reject_wrong(crcs);
        }
        for (column, row) in rejected {
            // Where it changes a checkpoint that did not end may have put the new contents already.
            if run.columns >> column & 1 == 0 && rows.is_proved_wrong(column, row, crcs) {
                rows.blame(column);
            }
        }
        Ok(rows)
    }

    /// Whether a block is missing that only a disk has which does not answer.
    fn is_with_silent(&self, set: &Set, rows: &Rows, run: &Run, crcs: Crcs<'_>) -> bool {
        (0..set.shape().columns()).filter(|column| rows.strips[*column].is_none()).any(|column| {
            let copies = self.copies(set, rows.stripe, column);
            copies.iter().any(|copy| copy.disk.is_silent())
                && run.rows.clone().any(|row| rows.get(column, row, crcs).is_none())
        })
    }
}

/// A buffer of so many blocks for each parity.
fn parity_bufs(shape: &Shape, blocks: usize) -> Result<Vec<Buf>, ReadError> {
    let bufs = (0..shape.parity()).map(|_| Buf::alloc(blocks * BLOCK_BYTES));
    bufs.collect::<Option<_>>().ok_or(ReadError::Later(BlockError::NoMemory))
}

static ZEROES: [u8; CLUSTER_BYTES] = [0; CLUSTER_BYTES];

/// Adds zeroes for the blocks of a strip that nothing else covers.
fn fill_with_zeroes(puts: &mut Vec<Put>, strip: usize) {
    let of_strip = puts.iter().filter(|put| put.strip == strip);
    let mut left = !of_strip.fold(0, |mask, put| mask | put.coverage());
    while left != 0 {
        let first_block = left.trailing_zeros() as usize;
        let blocks = (left >> first_block).trailing_ones() as usize;
        left &= !mask_of(&(first_block..first_block + blocks));
        let data = Data::from(&ZEROES[..blocks * BLOCK_BYTES]);
        puts.push(Put { strip, first_block, data });
    }
}

/// The same changes in memory that stands still.
fn still_changes(changes: &[Change]) -> Result<Vec<Change>, ReadError> {
    let still = |change: &Change| Ok(Change { data: still_now(&change.data)?, ..change.clone() });
    changes.iter().map(still).collect::<Result<_, _>>().map_err(later)
}

fn later(error: WriteError) -> ReadError {
    match error {
        WriteError::Later(error) => ReadError::Later(error),
        WriteError::Lost | WriteError::Half => ReadError::Lost,
    }
}

/// Whether every one of `strips` was loaded in full.
fn has_all(rows: &Rows, strips: u16, range: &Range<usize>) -> bool {
    let wanted = mask_of(range);
    let is_whole = |strip: usize| {
        rows.strips[strip].as_ref().is_some_and(|loaded| loaded.good & wanted == wanted)
    };
    (0..rows.strips.len()).filter(|strip| strips >> strip & 1 == 1).all(is_whole)
}

/// New parity = old parity + (old + new contents of each column that changes); `None` for a
/// parity whose old contents, or those of a column, cannot be had.
fn modified(
    rows: &Rows,
    run: &Run,
    changes: &[Change],
    crcs: Crcs<'_>,
) -> Result<Vec<Option<Buf>>, ReadError> {
    let columns = rows.shape.columns();
    let mut parities = Vec::new();
    for strip in columns..rows.shape.strips() {
        let is_there = has_all(rows, 1 << strip, &run.rows);
        let loaded = rows.strips[strip].as_ref().filter(|_| is_there);
        let copy = |buf: Option<Buf>| buf.ok_or(ReadError::Later(BlockError::NoMemory));
        parities.push(loaded.map(|loaded| copy(loaded.data.to_buf())).transpose()?);
    }
    for (i, row) in run.rows.clone().enumerate() {
        let at = i * BLOCK_BYTES..(i + 1) * BLOCK_BYTES;
        for column in rows_of(run.columns.into()) {
            let Some(old) = rows.get(column, row, crcs) else {
                return Ok(parities.iter().map(|_| None).collect());
            };
            let mut delta = [0; BLOCK_BYTES];
            delta.copy_from_slice(changed(changes, column, row).expect("the run changes it"));
            if !old.is_empty() {
                parity::xor_into(&mut delta, &old);
            }
            if let Some(p) = &mut parities[0] {
                parity::xor_into(&mut p[at.clone()], &delta);
            }
            if let Some(Some(q)) = parities.get_mut(1) {
                parity::update_q(&mut q[at.clone()], &delta, column);
            }
        }
    }
    Ok(parities)
}

/// New parity from all columns, those that change and those that do not; `None` when some of
/// them cannot be had.
fn recomputed(
    rows: &Rows,
    run: &Run,
    changes: &[Change],
    crcs: Crcs<'_>,
) -> Result<Option<Vec<Buf>>, ReadError> {
    let columns = rows.shape.columns();
    let mut bufs = parity_bufs(&rows.shape, run.rows.len())?;
    for (i, row) in run.rows.clone().enumerate() {
        let data = (0..columns).map(|column| match changed(changes, column, row) {
            Some(new) => Some(Cow::Borrowed(new)),
            None => rows.get(column, row, crcs),
        });
        let Some(data) = data.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let data: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
        let at = i * BLOCK_BYTES..(i + 1) * BLOCK_BYTES;
        let mut parities: Vec<&mut [u8]> =
            bufs.iter_mut().map(|buf| &mut buf[at.clone()]).collect();
        compute(&data, &mut parities);
    }
    Ok(Some(bufs))
}

#[cfg(test)]
mod tests;
