//! Bringing chunks up to date that missed something: a replacement that is being filled, and a
//! member whose disk was away. Both are the same to a stripe.

use block::{BlockError, WriteFlags};
use ring::Buf;

use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, DiskId};

use super::heal::Heal;
use super::io::{Copy, Target, WaitFor};
use super::read::{Fetched, Wanted, lost_block, lost_parity};
use super::record::Seat;
use super::rows::{Crcs, NO_CRCS, hull, rows_of};
use super::set::Set;
use super::{Raid, ReadError, WriteError};

/// What became of a stripe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// Bytes written.
    pub written_bytes: u64,
    /// Data blocks (column, block) that no disk gives as they must be. Until the caller says that
    /// it is sure of their checksums whoever lacks them lacks them still; then they are lost, and
    /// stay as they are where they are lacked, so that reads find them damaged there too.
    pub unproved: Vec<(usize, usize)>,
    /// Chunks that still miss something: their disks are not there, or something is unproved.
    pub left: u32,
    /// Copies that turned out to be wrong on disks that should have been a help.
    pub heals: Vec<Heal>,
    /// The proof was not current any more: nothing was done.
    pub is_outdated: bool,
    /// Who was given what the parity need not agree with.
    doubtful: Vec<Seat>,
}

/// What the caller knows of the data of a stripe.
#[derive(Clone, Copy)]
pub struct Proof<'a> {
    /// The checksums of data (column, block) that lives there; what has none is nobody's, and taken
    /// as it is.
    pub crcs: Crcs<'a>,
    /// They were looked up anew: what does not match is lost.
    pub is_sure: bool,
    /// Nobody has written, or is about to write, other contents since the checksums were looked up;
    /// asked while the stripe is locked.
    pub is_current: &'a dyn Fn() -> bool,
    /// Whether a disk that is not there has left for good: nobody waits for what it had.
    pub is_gone: &'a dyn Fn(DiskId) -> bool,
}

impl Proof<'static> {
    /// Nothing lives there that could be proved.
    pub const NOTHING: Self =
        Self { crcs: NO_CRCS, is_sure: true, is_current: &|| true, is_gone: &|_| false };
}

impl<'a> Proof<'a> {
    /// What is compared before a chunk is given it.
    fn compared(&self) -> Crcs<'a> {
        if is(Mutant::BlindRefresh) { NO_CRCS } else { self.crcs }
    }
}

impl std::fmt::Debug for Proof<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proof").field("is_sure", &self.is_sure).finish_non_exhaustive()
    }
}

impl Raid {
    /// Gives everybody who missed something of a stripe what they lack, as far as their disks are
    /// there: the replacement, and members that are back. Nothing is written as data that does not
    /// match the `proof`.
    ///
    /// # Errors
    /// When the stripe cannot be read now, or a disk failed meanwhile; nothing is counted as up to
    /// date then.
    pub async fn refresh_stripe(
        &self,
        set: &Set,
        stripe: u32,
        proof: Proof<'_>,
    ) -> Result<Refreshed, ReadError> {
        let mut refreshed = Refreshed::default();
        if set.stale(stripe) == 0 {
            return Ok(refreshed);
        }
        let _guard = self.locks.lock(set, stripe).await;
        if !(proof.is_current)() {
            refreshed.is_outdated = true;
            return Ok(refreshed);
        }
        self.end_locked_half(set, stripe, proof.is_gone).await?;
        let given = self.refresh_holders_and_parities(set, stripe, proof, &mut refreshed).await;
        if !refreshed.doubtful.is_empty()
            && (given.is_err() || !self.distrust_parity(set, stripe, proof.is_gone))
        {
            // Whoever is away may lack what only this parity gives; with it they are given it again.
            for seat in &refreshed.doubtful {
                set.mark_stale(stripe, seat.disk);
                refreshed.left += 1;
            }
        }
        // A block may keep several strips from being proved.
        refreshed.unproved.sort_unstable();
        refreshed.unproved.dedup();
        given.map(|()| refreshed)
    }

    /// Gives everybody what they lack, and makes parities anew that do not agree with each other then.
    async fn refresh_holders_and_parities(
        &self,
        set: &Set,
        stripe: u32,
        proof: Proof<'_>,
        refreshed: &mut Refreshed,
    ) -> Result<(), ReadError> {
        self.refresh_holders(set, stripe, proof, refreshed).await?;
        // Each round leaves one parity less that does not agree.
        for _ in 0..set.shape().parity() {
            if !self.part_parities(set, stripe, refreshed, proof.crcs).await? {
                break;
            }
            self.refresh_holders(set, stripe, proof, refreshed).await?;
        }
        Ok(())
    }

    /// Gives everybody who lacks something of a stripe what they lack.
    async fn refresh_holders(
        &self,
        set: &Set,
        stripe: u32,
        proof: Proof<'_>,
        refreshed: &mut Refreshed,
    ) -> Result<(), ReadError> {
        let shape = set.shape();
        let written = set.written(stripe);
        for (strip, seat) in set.stale_holders(stripe) {
            let disk = self.disks().get(seat.disk).filter(|disk| disk.is_writable());
            if disk.is_none() {
                refreshed.left += 1;
                continue;
            }
            let holds_data =
                if strip < shape.columns() { written >> strip & 1 == 1 } else { written != 0 };
            if !holds_data {
                set.clear_stale(stripe, seat);
                continue;
            }
            // With too many that lack something each is asked for what it does not lack. What nobody
            // has then may still come back with a disk that is away: also where the parity is about to be
            // made of what another one was given that need not agree with it.
            let doubtful = match is(Mutant::ForgetDoubt) {
                true => &[][..],
                false => &refreshed.doubtful,
            };
            let may_come_back = !self.is_final_beside(set, stripe, doubtful)
                && !self.are_all_in(set, stripe, proof.is_gone);
            self.refresh_holder(set, stripe, (strip, seat), (proof, may_come_back), refreshed)
                .await?;
        }
        Ok(())
    }

    /// Of two parities one may count on other contents of what nobody owns than the other: a disk
    /// rotted there, and what was restored a moment ago was computed from that, or from one parity
    /// alone. With two disks gone both would be needed, and give wrong blocks of others. The odd one
    /// counts as lacking the stripe, so that it is made anew; whether there is one. Nothing is
    /// looked at while anything of the stripe is missing.
    async fn part_parities(
        &self,
        set: &Set,
        stripe: u32,
        refreshed: &Refreshed,
        crcs: Crcs<'_>,
    ) -> Result<bool, ReadError> {
        let shape = set.shape();
        let written = set.written(stripe);
        let is_unowned =
            |column: usize, row: usize| written >> column & 1 == 1 && crcs(column, row).is_none();
        let unowned = (0..CLUSTER_BLOCKS)
            .filter(|row| (0..shape.columns()).any(|column| is_unowned(column, *row)))
            .fold(0, |mask, row| mask | 1 << row);
        let is_whole = set.stale(stripe) == 0 && refreshed.left == 0;
        if shape.parity() < 2 || unowned == 0 || refreshed.written_bytes == 0 || !is_whole {
            return Ok(false);
        }
        let loaded =
            self.load_rows(set, stripe, u16::MAX, &(0..CLUSTER_BLOCKS), WaitFor::Answering).await;
        let mut rows = loaded.map_err(ReadError::Later)?;
        rows.reject_wrong(crcs);
        let odd = rows_of(unowned).find_map(|row| rows.odd_parity(row, crcs));
        let Some(odd) = odd.filter(|_| !is(Mutant::PartedParities)) else { return Ok(false) };
        // In another row it may be all that gives a block, or nobody can make it anew.
        let is_needed = (0..CLUSTER_BLOCKS)
            .any(|row| (0..shape.columns()).any(|column| rows.block(column, row).is_none()))
            && !is(Mutant::HastyParity);
        let is_writable =
            |seat: Seat| self.disks().get(seat.disk).is_some_and(|disk| disk.is_writable());
        let holders = set.holders(stripe, odd);
        if is_needed || !holders.iter().all(|holder| is_writable(holder.seat)) {
            return Ok(false);
        }
        let others = (0..shape.strips()).filter(|strip| *strip != odd);
        if !self.make_durable(&rows, others).await {
            return Ok(false);
        }
        holders.iter().for_each(|holder| set.mark_stale(stripe, holder.seat.disk));
        Ok(true)
    }

    /// The rows, of these, in which what a chunk holds of a parity that it lacks gives data that nobody has,
    /// as its checksum says: to write over them would be to lose that.
    async fn rows_that_prove(
        &self,
        set: &Set,
        (stripe, strip, seat): (u32, usize, Seat),
        crcs: Crcs<'_>,
        asked: u16,
    ) -> Result<u16, BlockError> {
        let disk = self.disks().get(seat.disk).filter(|disk| disk.is_readable());
        let Some(disk) = disk.filter(|_| !is(Mutant::BlindParity)) else { return Ok(0) };
        let (columns, copy) = (set.shape().columns(), Copy { disk, seat });
        let mut rows =
            self.load_rows(set, stripe, !(1 << strip), &hull(asked), WaitFor::All).await?;
        rows.reject_wrong(crcs);
        rows.strips[strip] = Some(self.load_strip(set, (stripe, strip), &copy, hull(asked)).await?);
        let mut to = [0; BLOCK_BYTES];
        let mut proves = |row: &usize| {
            let gone = |column: &usize| rows.block(*column, *row).is_none();
            let mut gone = (0..columns).filter(gone).filter(|column| crcs(*column, *row).is_some());
            gone.any(|column| {
                let solved = rows.solve(*row, column, crcs(column, *row), &mut to);
                // Zeroes of a parity go with zeroes of the other one, whatever the columns are.
                let is_right = |at: usize| crcs(at, *row).is_some() && !is(Mutant::ChanceProof);
                solved.is_some_and(|solved| {
                    solved.wrong.is_none_or(|wrong| wrong != strip && !is_right(wrong))
                })
            })
        };
        Ok(rows_of(asked).filter(|row| proves(row)).fold(0, |mask, row| mask | 1 << row))
    }

    /// Writes a strip to one chunk, as far as it is proved.
    async fn refresh_holder(
        &self,
        set: &Set,
        stripe: u32,
        (strip, seat): (usize, Seat),
        (proof, may_come_back): (Proof<'_>, bool),
        refreshed: &mut Refreshed,
    ) -> Result<(), ReadError> {
        let is_parity = strip >= set.shape().columns();
        let rows = 0..CLUSTER_BLOCKS;
        let mut wanted = Wanted::any(set, (stripe, strip), rows, proof.compared());
        wanted.is_computed = is_parity;
        wanted.may_be_stale = proof.is_sure && !is_parity;
        wanted.is_by_parity = set.shape().parity() > 0;
        wanted.is_in_doubt = !refreshed.doubtful.is_empty();
        let mut fetched = self.fetch(&wanted).await.map_err(ReadError::Later)?;
        refreshed.heals.extend(self.heals_of(&wanted, &fetched));
        let unproved = self.unproved_of(&wanted, fetched.missing, proof.is_sure).await?;
        let is_proved = unproved.is_empty();
        refreshed.unproved.extend(unproved);
        if !is_proved && !proof.is_sure {
            refreshed.left += 1;
            return Ok(());
        }
        if may_come_back && fetched.missing != 0 {
            return Err(ReadError::Lost);
        }
        if is_parity && is_proved && fetched.missing != 0 {
            // Only what nobody owns is in the way.
            self.blank_unowned(&wanted, fetched.missing).await?;
            fetched = self.fetch(&wanted).await.map_err(ReadError::Later)?;
        }
        if set.shape().parity() > 0 && !is_parity && (fetched.missing | fetched.stale) != 0 {
            let is_blank = |row: &usize| (proof.crcs)(strip, *row).is_none();
            let blank =
                rows_of(fetched.missing).filter(is_blank).fold(0, |mask, row| mask | 1 << row);
            self.leave_blank(set, (stripe, seat), blank, &mut fetched).await?;
            // The parity is made anew of what there is.
            refreshed.doubtful.push(seat);
        }
        if is_parity && fetched.missing != 0 {
            // The parity as its member holds it, or of what there is, right or wrong: it still
            // gives the other columns.
            (wanted.crcs, wanted.is_computed) = (NO_CRCS, false);
            let raw = self.fetch(&wanted).await.map_err(ReadError::Later)?;
            let at = (stripe, strip, seat);
            let kept = self.rows_that_prove(set, at, proof.crcs, fetched.missing);
            let kept = kept.await.map_err(ReadError::Later)?;
            for row in rows_of(fetched.missing & !raw.missing & !kept) {
                let at = row * BLOCK_BYTES..(row + 1) * BLOCK_BYTES;
                fetched.bytes[at.clone()].copy_from_slice(&raw.bytes[at]);
            }
            // Else it would be what was there before, and look as if this disk had rotted.
            for row in rows_of(fetched.missing & raw.missing & !kept) {
                let lost = lost_parity(set.id(), stripe, row);
                fetched.bytes[row * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&lost);
            }
            fetched.missing &= kept;
        }
        let lost_blocks = fetched.missing.count_ones();
        if set.shape().parity() == 0 && set.level().is_some() {
            for row in rows_of(fetched.missing).filter(|_| !is(Mutant::BareLoss)) {
                let lost = lost_block(set.id(), set.shape().slot(stripe, strip), row);
                fetched.bytes[row * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&lost);
            }
            fetched.missing = 0;
        }
        if self.write_strip(set, stripe, seat, fetched).await? {
            let blocks = u64::from(u16::BITS - lost_blocks);
            refreshed.written_bytes += blocks * BLOCK_BYTES as u64;
        } else {
            refreshed.left += 1;
        }
        Ok(())
    }

    /// What nobody owns stays as it is, and becomes zeroes where that cannot be read: the parity may count on
    /// it still, and give what another disk lacks.
    async fn leave_blank(
        &self,
        set: &Set,
        (stripe, seat): (u32, Seat),
        blank: u16,
        fetched: &mut Fetched,
    ) -> Result<(), ReadError> {
        let disk = self.disks().get(seat.disk).filter(|_| blank != 0);
        let disk = disk.filter(|_| !is(Mutant::ZeroBlank) && !is(Mutant::ForgetUnowned));
        if let Some(disk) = disk {
            let held = self.load(set, stripe, &Copy { disk, seat }, hull(blank)).await;
            let held = held.map_err(ReadError::Later)?;
            for (row, block) in rows_of(blank).filter_map(|row| Some((row, held.block(row)?))) {
                fetched.bytes[row * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(block);
            }
        }
        fetched.missing &= !blank;
        Ok(())
    }

    /// Gives a chunk what was found of its strip; whether it took that.
    async fn write_strip(
        &self,
        set: &Set,
        stripe: u32,
        seat: Seat,
        fetched: Fetched,
    ) -> Result<bool, ReadError> {
        let bytes = fetched.bytes.freeze();
        let target = |first: usize, end: usize| Target {
            seat,
            at: set.byte_at(seat, stripe, first),
            data: bytes.slice(first * BLOCK_BYTES..end * BLOCK_BYTES),
        };
        let targets: Vec<_> = match fetched.missing {
            0 => vec![target(0, CLUSTER_BLOCKS)],
            missing => rows_of(!missing).map(|row| target(row, row + 1)).collect(),
        };
        match self.write_targets(set, stripe, &targets, WriteFlags::VOLATILE).await {
            Ok(done) if done.iter().all(Option::is_some) => {
                match done.first() {
                    Some(disk) => {
                        disk.iter().for_each(|disk| self.credit(set, stripe, seat, disk));
                    }
                    // All of it is lost, so there was nothing to write.
                    None => set.clear_stale(stripe, seat),
                }
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(WriteError::Later(error)) => Err(ReadError::Later(error)),
            Err(WriteError::Lost | WriteError::Half) => Err(ReadError::Lost),
        }
    }

    /// Blocks of live data, and in what lacks `missing` blocks, that keep those from being proved.
    async fn unproved_of(
        &self,
        wanted: &Wanted<'_>,
        missing: u16,
        is_sure: bool,
    ) -> Result<Vec<(usize, usize)>, ReadError> {
        if !is_sure && is(Mutant::BlindLoss) {
            return Ok(Vec::new());
        }
        let Wanted { set, stripe, strip, crcs, is_in_doubt, .. } = *wanted;
        let (columns, parity) = (set.shape().columns(), set.shape().parity());
        let is_live = |column: usize, row: usize| column < columns && crcs(column, row).is_some();
        let is_own = |row: &usize| parity == 0 || is_live(strip, *row);
        let (own, rest): (Vec<usize>, Vec<usize>) = rows_of(missing).partition(is_own);
        // What lives nowhere needs no proof.
        let lives = |(column, row): &(usize, usize)| crcs(*column, *row).is_some();
        let mut unproved: Vec<_> = own.into_iter().map(|row| (strip, row)).filter(lives).collect();
        if !rest.is_empty() {
            // What keeps a parity, or what nobody owns, from being computed.
            let rest = rest.into_iter().fold(0, |mask, row| mask | 1 << row);
            let rest = self.unproved_data(wanted, rest).await?.into_iter();
            for (column, row) in rest.filter(lives) {
                let rows = row..row + 1;
                let any = Wanted::any(set, (stripe, column), rows, crcs);
                // One that missed something gives it itself when it is its turn.
                let own = Wanted { may_be_stale: is_sure, is_in_doubt, ..any };
                if self.fetch(&own).await.map_err(ReadError::Later)?.missing != 0 {
                    unproved.push((column, row));
                }
            }
        }
        Ok(unproved)
    }

    /// Writes zeroes where nobody can read what nobody owns: the parity is about to be made anew, and
    /// must agree with it.
    async fn blank_unowned(&self, wanted: &Wanted<'_>, missing: u16) -> Result<(), ReadError> {
        let Wanted { set, stripe, crcs, .. } = *wanted;
        let rows = self.load_rows(set, stripe, u16::MAX, &hull(missing), WaitFor::All).await;
        let rows = rows.map_err(ReadError::Later)?;
        let zeroes = Buf::zeroed(BLOCK_BYTES).ok_or(ReadError::Later(BlockError::NoMemory))?;
        let zeroes = zeroes.freeze();
        for row in rows_of(missing) {
            for column in 0..set.shape().columns() {
                if crcs(column, row).is_some() || rows.block(column, row).is_some() {
                    continue;
                }
                let holders = set.holders(stripe, column);
                let holders = holders.iter().filter(|holder| !holder.is_stale);
                let target = |seat| Target {
                    seat,
                    at: set.byte_at(seat, stripe, row),
                    data: zeroes.clone(),
                };
                let targets: Vec<_> = holders.map(|holder| target(holder.seat)).collect();
                match self.write_targets(set, stripe, &targets, WriteFlags::VOLATILE).await {
                    Ok(_) | Err(WriteError::Lost | WriteError::Half) => {}
                    Err(WriteError::Later(error)) => return Err(ReadError::Later(error)),
                }
            }
        }
        Ok(())
    }

    /// The parity of a stripe need not agree with what some columns were given: it is to be made anew,
    /// when somebody has each of them. Of a column that is gone for good it gives what it still can.
    /// Whether nothing else is to be done; not when somebody who is away may come for his part.
    fn distrust_parity(&self, set: &Set, stripe: u32, is_gone: &dyn Fn(DiskId) -> bool) -> bool {
        let columns = rows_of(set.written(stripe).into());
        let lacking: Vec<usize> =
            columns.filter(|column| self.copies(set, stripe, *column).is_empty()).collect();
        if lacking.is_empty() {
            for strip in set.shape().columns()..set.shape().strips() {
                let holders = set.holders(stripe, strip);
                holders.iter().for_each(|holder| set.mark_stale(stripe, holder.seat.disk));
            }
        }
        let mut holders = lacking.into_iter().flat_map(|column| set.holders(stripe, column));
        holders.all(|holder| is_gone(holder.seat.disk))
    }

    /// Blocks of data columns that keep these rows of the parity from being proved: what cannot be
    /// read and fits what the parity that its member holds makes of it proves that.
    async fn unproved_data(
        &self,
        wanted: &Wanted<'_>,
        missing: u16,
    ) -> Result<Vec<(usize, usize)>, ReadError> {
        let Wanted { set, stripe, crcs, .. } = *wanted;
        let loaded = self.load_rows(set, stripe, u16::MAX, &hull(missing), WaitFor::All).await;
        let mut rows = loaded.map_err(ReadError::Later)?;
        rows.reject_wrong(crcs);
        let columns = 0..set.shape().columns();
        let gone = rows_of(missing).flat_map(|row| {
            let rows = &rows;
            columns
                .clone()
                .filter(move |column| rows.get(*column, row, crcs).is_none())
                .map(move |column| (column, row))
        });
        Ok(gone.collect())
    }

    /// What a look at a strip found wrong, to be rewritten.
    fn heals_of(&self, wanted: &Wanted<'_>, fetched: &Fetched) -> Vec<Heal> {
        let Wanted { set, stripe, strip, crcs, .. } = *wanted;
        let shape = set.shape();
        let heal = |column: usize, block: usize, disk| {
            let slot =
                if column < shape.columns() { shape.slot(stripe, column) } else { return None };
            Some(Heal { set: set.id(), slot, block, crc: crcs(column, block)?, disk })
        };
        let own = fetched.bad.iter().filter_map(|(disk, row)| heal(strip, *row, *disk));
        let wrong = fetched.wrong.iter();
        let others = wrong.filter_map(|(disk, column, row)| heal(*column, *row, *disk));
        own.chain(others).collect()
    }
}
