//! Changes of parity stripes that hold live data: in waves, each written to the redo area first.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::join_all;
use ring::Data;

use super::Checkpoint;
use super::gather::Writes;
use super::merge::PAUSES;
use crate::core::{Core, Knowledge, RETRY, Redone, Shapes, Stripe, batch_clusters, until_done};
use crate::error::ArrayError;
use crate::journal::{Changed, Holder, Record};
use crate::membership::{WaveId, gets_wave, notes_redone, waves_to_redo};
use crate::mutants::{self, Mutant};
use crate::raid::redo::{self, RedoError, Wave};
use crate::raid::{Disk, Half, Put, ReadError, Seat, Set, Shape, Update, WriteError};
use crate::{BLOCK_BYTES, DiskId, SetId, block_checksum};

/// Stripes whose changes are worked out at the same time. Each reads what lies there, in up to a few dozen steps one
/// after the other; one stripe at a time was nine tenths of a checkpoint on flash drives. All that so many take fits
/// into the half of what is [kept](crate::core::RESERVE_BYTES) for a batch.
const PLANS_AT_ONCE: usize = 16;

/// A wave that may be half done.
pub(crate) struct Unfinished {
    pub(crate) wave: Wave,
    /// Holders that do not have it.
    lacking: Vec<Holder>,
}

impl Checkpoint {
    pub(super) async fn update_stripes(
        &mut self,
        changes: Vec<((SetId, u32), Writes)>,
    ) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        let mut wave = Vec::new();
        let mut unproved = Vec::new();
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            // Of little memory each takes its part.
            let at_once = PLANS_AT_ONCE.min(batch_clusters() / 4).max(1);
            let some: Vec<_> = changes.by_ref().take(at_once).collect();
            // All to their end before any is done: who plans holds a stripe, and must not stand still with it.
            let plans =
                some.iter().map(|((set, stripe), writes)| core.plan_update(*set, *stripe, writes));
            let plans = join_all(plans).await;
            for (change, plan) in some.into_iter().zip(plans) {
                match plan? {
                    Some(update) => self.add_to_wave(&mut wave, update).await?,
                    None => unproved.push(change),
                }
            }
        }
        if !unproved.is_empty() {
            self.plan_anew(unproved, &mut wave).await?;
        }
        if wave.is_empty() { Ok(()) } else { self.do_wave(&wave).await }
    }

    /// Adds an update to the wave, which is done before if there is no room for both.
    async fn add_to_wave(
        &mut self,
        wave: &mut Vec<Update>,
        update: Update,
    ) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        let room = redo::half_bytes(core.layout.redo_bytes) as usize;
        let fits = |wave: &[Update]| redo::room_of(wave, &core.raid.halves()) <= room;
        wave.push(update);
        if fits(wave) {
            return Ok(());
        }
        let last = wave.pop().expect("just pushed");
        if !wave.is_empty() {
            self.do_wave(wave).await?;
        }
        *wave = vec![last];
        // It holds any one stripe, but perhaps not beside what waits for disks that are out.
        if fits(wave) { Ok(()) } else { Err(ArrayError::Lost) }
    }

    /// Plans changes of stripes whose data and parity disagree: what lives in them is looked up in
    /// all maps, and the parity is made anew of that.
    async fn plan_anew(
        &mut self,
        changes: Vec<((SetId, u32), Writes)>,
        wave: &mut Vec<Update>,
    ) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        core.note_disagreement(changes.len());
        let stripes: BTreeSet<(SetId, u32)> = changes.iter().map(|(stripe, _)| *stripe).collect();
        let ids = stripes.iter().map(|(set, _)| *set);
        let shapes: Shapes = ids.map(|set| (set, core.sets.get(set).shape())).collect();
        let mut pauses = PAUSES.into_iter();
        let known = loop {
            let is_wanted = |set, stripe| stripes.contains(&(set, stripe));
            let known = core.knowledge(shapes.clone(), &is_wanted).await?;
            let is_unknown =
                changes.iter().any(|(stripe, writes)| self.has_unknown(*stripe, writes, &known));
            match pauses.next().filter(|_| is_unknown) {
                Some(pause) => core.env.sleep(pause.max(RETRY)).await,
                None => break known,
            }
        };
        for ((set, stripe), writes) in changes {
            let update = core.plan_anew(set, stripe, &writes, &known).await?;
            self.add_to_wave(wave, update).await?;
        }
        Ok(())
    }

    /// One wave: written down, done, flushed. Then its half of the area may be used again.
    async fn do_wave(&mut self, updates: &[Update]) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        if !mutants::is(Mutant::NoRedo) {
            core.write_redo(self.number, updates, &[], &core.joining_holders()).await?;
        }
        let done = core.apply_all(updates).await;
        core.flush_disks().await?;
        let begun = updates.iter().zip(&done).filter(|(_, done)| **done != Err(WriteError::Lost));
        let begun: Vec<&Update> = begun.map(|(update, _)| update).collect();
        let whole = updates.iter().zip(&done).filter(|(_, done)| done.is_ok());
        let whole: Vec<_> = whole.map(|(update, _)| stripe_of(update)).collect();
        core.check_flushed(&whole)?;
        // Whoever looks at these stripes again in this checkpoint must know what they hold.
        for update in &begun {
            core.note_redone(&core.sets.get(update.set), update);
        }
        core.checkpoint_beat.tick();
        core.note_written(self.number, &begun).await?;
        Ok(done.into_iter().collect::<Result<(), WriteError>>()?)
    }
}

impl Core {
    /// Works out a change of a stripe; `None` when its data and parity disagree.
    async fn plan_update(
        self: &Arc<Self>,
        set: SetId,
        stripe: u32,
        writes: &Writes,
    ) -> Result<Option<Update>, ArrayError> {
        let set = self.sets.get(set);
        let redone = self.redone_in(&set, stripe);
        let crc_of = |column: usize, block: usize| {
            redone[column].and_then(|crcs| crcs[block]).or_else(|| writes.old_crc(column, block))
        };
        let mut pauses = PAUSES.into_iter();
        let may_come = || self.may_come_soon(set.id()).then_some(PAUSES[2]);
        loop {
            match self.raid.plan_update(&set, stripe, &writes.changes, &crc_of).await {
                Ok(update) => return Ok(Some(update)),
                // Too little may be there to tell: then nobody knows yet that they disagree.
                Err(ReadError::Unproved) => match may_come() {
                    Some(pause) if !self.raid.is_final(&set, stripe) => self.env.sleep(pause).await,
                    _ => return Ok(None),
                },
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                // What nobody can give any more must not keep the rest from its place. A disk that does
                // not answer may have it yet: what others lack would be lost for good with the parity.
                Err(ReadError::Damaged { .. }) => match pauses.next().or_else(may_come) {
                    Some(pause) => self.env.sleep(pause).await,
                    None if self.is_any_silent(&set).await => return Err(ArrayError::Lost),
                    None => return Ok(None),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The same from all that lives in the stripe.
    async fn plan_anew(
        &self,
        set: SetId,
        stripe: u32,
        writes: &Writes,
        known: &Knowledge,
    ) -> Result<Update, ArrayError> {
        let set = self.sets.get(set);
        let redone = self.redone_in(&set, stripe);
        let crc_of = |column: usize, block: usize| {
            let newest = redone[column].and_then(|crcs| crcs[block]);
            newest
                .or_else(|| writes.old_crc(column, block))
                .or_else(|| known.crc(&set, stripe, column, block))
        };
        let live = {
            let state = self.lock();
            let slots = state.space.pool.slots(set.id()).expect("every set has slots");
            let lives = |column: &usize| {
                // What was freed and is in no map any more needs no redundancy.
                slots.is_used(set.shape().slot(stripe, *column)) || crc_of(*column, 0).is_some()
            };
            (0..set.shape().columns()).filter(lives).fold(0, |mask, column| mask | 1 << column)
        };
        loop {
            match self.raid.plan_anew(&set, stripe, &writes.changes, live, &crc_of).await {
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                result => return Ok(result?),
            }
        }
    }

    /// What is known of the columns of a stripe beyond the maps.
    fn redone_in(&self, set: &Set, stripe: u32) -> Vec<Option<Redone>> {
        let state = self.lock();
        let of = |column| state.redone.get(&(set.id(), stripe, column)).copied();
        (0..set.shape().columns()).map(of).collect()
    }

    /// Space that nobody used has rotted, or a parity has.
    fn note_disagreement(&self, stripes: usize) {
        let text = format!(
            "data and parity of {stripes} stripes disagree, in space that was free: their parity \
             is made anew; scrub the array soon"
        );
        tracing::warn!("{text}");
        self.lock().note(self.env.unix_seconds(), text);
    }

    /// What is half done when a checkpoint ends is carried on to the next one, before its record is written:
    /// after that nobody would look at its waves any more.
    /// Not those of which the record says that nobody lacks them.
    pub(super) async fn carry_halves(
        self: &Arc<Self>,
        checkpoint: u64,
        given: &[Stripe],
        joining: &[Arc<Disk>],
    ) -> Result<(), ArrayError> {
        let is_left =
            self.raid.halves().iter().any(|half| !given.contains(&stripe_of(&half.update)));
        if !is_left || mutants::is(Mutant::DropHalf) {
            return Ok(());
        }
        self.write_redo(checkpoint + 1, &[], given, joining).await
    }

    /// Writes a wave to the redo area of every holder, durably.
    async fn write_redo(
        self: &Arc<Self>,
        checkpoint: u64,
        updates: &[Update],
        without: &[Stripe],
        joining: &[Arc<Disk>],
    ) -> Result<(), ArrayError> {
        let mut wave = self.next_wave(checkpoint, updates);
        // One that was taken back since is to be given once more.
        let may_go = |half: &Half| {
            without.contains(&stripe_of(&half.update))
                && !self.raid.has_half(half.update.set, half.update.stripe)
        };
        wave.halves.retain(|half| !may_go(half));
        if wave.bytes() as u64 > redo::half_bytes(self.layout.redo_bytes) {
            let what = "a wave of changes does not fit into the redo area";
            return Err(ArrayError::Damaged(what.into()));
        }
        let bytes = self.encode_wave(&wave).await;
        let at = self.wave_at(wave.wave);
        // Those that hold this checkpoint when it ends must have what it could not do.
        let joining =
            joining.iter().map(|disk| Holder { disk: disk.id(), device: disk.device().clone() });
        self.give_wave(&joining.collect::<Vec<_>>(), at, &bytes).await;
        self.write_to_holders(|device| {
            let (bytes, device) = (bytes.clone(), Arc::clone(device));
            Box::pin(async move { write_pieces(&*device, at, &bytes).await })
        })
        .await
    }

    fn next_wave(&self, checkpoint: u64, updates: &[Update]) -> Wave {
        let mut halves = self.raid.halves();
        let mut since = 0;
        if !halves.is_empty() {
            // First this: what is begun anew after it, and before the look at them, is not among them.
            since = self.journal.cut().position;
            halves = self.raid.halves();
        }
        let state = &mut *self.lock();
        state.next_wave += 1;
        Wave { checkpoint, wave: state.next_wave - 1, updates: updates.to_vec(), halves, since }
    }

    fn wave_at(&self, wave: u64) -> u64 {
        self.layout.redo_at() + redo::half_at(self.layout.redo_bytes, wave)
    }

    async fn give_wave(self: &Arc<Self>, holders: &[Holder], at: u64, bytes: &Data) {
        for holder in holders {
            if let Err(error) = write_pieces(&*holder.device, at, bytes).await {
                self.disk_refused(holder.disk, error);
                self.disk_failed(holder.disk, &format!("a write failed: {error}")).await;
            }
        }
    }

    /// Columns that joined a parity, before the record that said so is overwritten.
    async fn note_written(&self, checkpoint: u64, updates: &[&Update]) -> Result<(), ArrayError> {
        let columns = |update: &Update| u16::from_le_bytes([update.written, update.given_up]);
        let stripes = updates.iter().map(|update| (update.set, update.stripe, columns(update)));
        let changed = updates.iter().flat_map(|update| {
            let shape = self.sets.get(update.set).shape();
            let puts = update.puts.iter().filter(move |put| put.strip < shape.columns());
            puts.map(move |put| Changed {
                set: update.set,
                stripe: update.stripe,
                column: put.strip as u8,
                crcs: crcs_of_put(update, shape, put),
            })
        });
        let (stripes, changed) = (stripes.collect(), changed.collect());
        let record = Record::Written { checkpoint, stripes, changed };
        let Ok(added) = self.journal.append_reserved(&record, None) else {
            if let Some(error) = self.journal.failure() {
                return Err(error.into());
            }
            // To stop here would leave a journal that no start finds room in either. What is in place
            // is known as long as the array is open, and after a crash checksums tell.
            tracing::warn!("the journal has no room to note what checkpoint {checkpoint} has done");
            return Ok(());
        };
        Ok(self.journal.durable(added.ticket).await?)
    }

    /// The waves that were cut off in the middle of the checkpoint after `newest`, in order, as the
    /// `holders` that are there have them. Also one that lacks the newest checkpoint is asked: it is of the
    /// same history, so its waves are what was put in place, and what is older does not count by its number.
    /// `anew` are stripes that were written as if they were new since then, and where the journal says so.
    pub(crate) async fn unfinished(
        &self,
        holders: &[Holder],
        newest: u64,
        anew: &[(Stripe, u64)],
    ) -> Vec<Unfinished> {
        let mut found: Vec<(DiskId, Wave)> = Vec::new();
        for holder in holders {
            for half in 0..2 {
                let wave = self.read_wave(&*holder.device, half).await;
                found.extend(wave.map(|wave| (holder.disk, wave)));
            }
        }
        let last = found.iter().map(|(_, wave)| wave.wave).max();
        self.lock().next_wave = last.map_or(0, |last| last + 1);
        let ids: Vec<WaveId> = found.iter().map(|(_, wave)| id_of(wave)).collect();
        let waves = waves_to_redo(&ids, newest).into_iter().map(|index| {
            let has_it = |holder: &&Holder| {
                found.iter().any(|(disk, wave)| *disk == holder.disk && id_of(wave) == ids[index])
            };
            let lacking = holders.iter().filter(|holder| !has_it(holder)).cloned().collect();
            let mut wave = found[index].1.clone();
            wave.drop_halves_of(anew);
            Unfinished { wave, lacking }
        });
        waves.collect()
    }

    /// Gives waves to the holders that lack them: if one of them were the only one that had a wave
    /// which is being done again, and went, nobody could end that.
    pub(crate) async fn renew_waves(self: &Arc<Self>, waves: &[Unfinished]) {
        for Unfinished { wave, lacking } in waves.iter().filter(|_| gets_wave(false)) {
            let bytes = self.encode_wave(wave).await;
            self.give_wave(lacking, self.wave_at(wave.wave), &bytes).await;
        }
    }

    async fn encode_wave(&self, wave: &Wave) -> Data {
        loop {
            match redo::encode(&self.id.0, wave) {
                Ok(bytes) => return bytes.freeze(),
                Err(_) => self.env.sleep(RETRY).await,
            }
        }
    }

    /// Does waves again. What they put in place is noted in the journal before anything can
    /// overwrite them: another crash would leave stripes that nobody knows any more.
    pub(crate) async fn redo(self: &Arc<Self>, waves: &[Unfinished]) -> Result<(), ArrayError> {
        let mut done: Vec<(u64, Vec<&Update>)> = Vec::new();
        for (index, Unfinished { wave, .. }) in waves.iter().enumerate() {
            let is_newest = |update: &&Update| !is_said_again(waves, index, update);
            for half in wave.halves.iter().filter(|half| is_newest(&&half.update)) {
                self.redo_half(half).await;
            }
            let mut updates = Vec::new();
            for update in wave.updates.iter().filter(is_newest) {
                let Some(set) = self.sets.find(update.set) else { continue };
                let before = set.written(update.stripe);
                let apply = || self.raid.apply_again(&set, update, WriteFlags::VOLATILE);
                match until_done(apply, self).await {
                    Ok(()) => self.raid.done_over_half(update),
                    Err(error) => {
                        let (set, stripe) = (update.set.0, update.stripe);
                        tracing::warn!("stripe {stripe} of set {set} is not put right: {error}");
                        self.raid.add_to_half(update);
                    }
                }
                // The journal may know it already, of the attempt before; but not what the parity of this one covers.
                let is_other = update.given_up != 0 || update.written != before;
                let is_noted = is_other && !mutants::is(Mutant::UnnotedRedo);
                if self.note_redone(&set, update) || is_noted {
                    updates.push(update);
                }
            }
            done.push((wave.checkpoint, updates));
        }
        self.flush_disks().await?;
        let is_news = |updates: &[&Update]| notes_redone(!updates.is_empty());
        for (checkpoint, updates) in done.iter().filter(|(_, updates)| is_news(updates)) {
            self.note_written(*checkpoint, updates).await?;
        }
        // What was carried to a checkpoint beyond the next one must not count when that one has ended.
        if waves.iter().any(|unfinished| id_of(&unfinished.wave).carries) {
            let next = self.lock().checkpoint + 1;
            self.write_redo(next, &[], &[], &self.joining_holders()).await?;
        }
        Ok(())
    }

    /// Gives those who are there, if they are all, what they are to get; otherwise it is kept on.
    async fn redo_half(&self, half: &Half) {
        let Some(set) = self.sets.find(half.update.set) else { return };
        let (update, is_gone) = (&half.update, self.gone_for_good());
        self.raid.keep_half(update, &half.sound);
        loop {
            match self.raid.end_half(&set, update.stripe, &is_gone).await {
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                Err(_) => {
                    let (set, stripe) = (update.set.0, update.stripe);
                    return tracing::info!("stripe {stripe} of set {set} waits for its disks");
                }
                Ok(()) => return,
            }
        }
    }

    /// The checksums in the maps are those of what was there before. Whether that is news.
    fn note_redone(&self, set: &Set, update: &Update) -> bool {
        let state = &mut *self.lock();
        let mut is_news = false;
        for put in update.puts.iter().filter(|put| put.strip < set.shape().columns()) {
            let crcs = state.redone.entry((update.set, update.stripe, put.strip)).or_default();
            for (block, crc) in crcs_of_put(update, set.shape(), put) {
                is_news |= crcs[block as usize].replace(crc) != Some(crc);
            }
        }
        is_news
    }

    async fn read_wave(&self, device: &dyn BlockDevice, half: u64) -> Option<Wave> {
        let at = self.layout.redo_at() + redo::half_at(self.layout.redo_bytes, half);
        let len = redo::half_bytes(self.layout.redo_bytes) as usize;
        let mut buf = self.buffer(len).await;
        self.read_pieces(device, at, &mut buf).await?;
        let bytes = buf.freeze();
        match redo::decode(&self.id.0, &bytes) {
            Ok(wave) => Some(wave),
            Err(RedoError::Absent) => None,
            Err(error) => {
                // Torn: it was being written when everything ended, and nothing relied on it.
                tracing::debug!("redo area: {error}");
                None
            }
        }
    }
}

/// Whether a later wave says what became of an update: then that is to be done, and not this once more.
pub(crate) fn is_said_again(waves: &[Unfinished], index: usize, update: &Update) -> bool {
    let mut later = waves[index + 1..].iter().flat_map(|unfinished| &unfinished.wave.halves);
    later.any(|half| stripe_of(&half.update) == stripe_of(update))
}

/// Who lacks nothing of the stripe of an update once what was half done before is given.
pub(crate) fn sound_for(waves: &[Unfinished], index: usize, update: &Update) -> Vec<Seat> {
    let mut halves = waves[..=index].iter().rev().flat_map(|unfinished| &unfinished.wave.halves);
    let half = halves.find(|half| stripe_of(&half.update) == stripe_of(update));
    half.map(|half| half.sound.clone()).unwrap_or_default()
}

fn id_of(wave: &Wave) -> WaveId {
    WaveId { checkpoint: wave.checkpoint, wave: wave.wave, carries: wave.updates.is_empty() }
}

pub(super) fn stripe_of(update: &Update) -> Stripe {
    (update.set, update.stripe)
}

/// The checksums of what an update puts into a data column.
fn crcs_of_put(update: &Update, shape: Shape, put: &Put) -> Vec<(u8, u32)> {
    let slot = shape.slot(update.stripe, put.strip);
    let bytes = put.data.as_slice().expect("updates are in buffers");
    let blocks = (put.first_block..).zip(bytes.chunks_exact(BLOCK_BYTES));
    let crc = |(block, bytes)| (block as u8, block_checksum(update.set, slot, block, bytes));
    blocks.map(crc).collect()
}

/// What one I/O moves.
const PIECE_BYTES: usize = 1 << 20;

async fn write_pieces(device: &dyn BlockDevice, at: u64, data: &Data) -> Result<(), BlockError> {
    let mut done = 0;
    while done < data.len() {
        let end = (done + PIECE_BYTES).min(data.len());
        let piece = data.slice(done..end);
        device.write(at + done as u64, piece, WriteFlags::DURABLE).await?;
        done = end;
    }
    Ok(())
}

impl Core {
    /// Fills `buf` from `at` on; `None` when the device does not give it. That memory runs out
    /// must not look like a wave that is not there.
    async fn read_pieces(&self, device: &dyn BlockDevice, at: u64, buf: &mut [u8]) -> Option<()> {
        for (index, bytes) in buf.chunks_mut(PIECE_BYTES).enumerate() {
            let at = at + (index * PIECE_BYTES) as u64;
            let data = loop {
                match device.read(at, bytes.len()).await {
                    Ok(data) => break data,
                    Err(BlockError::NoMemory | BlockError::Busy) => self.env.sleep(RETRY).await,
                    Err(_) => return None,
                }
            };
            data.copy_to(0, bytes);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::raid::Change;
    use crate::testing::arrays::{filled, on_a_core, set_of};
    use ring::Buf;

    /// The start before has put the same data in place, in another way, and noted that. That the parity of this one
    /// does not cover a column was in the redo area alone, and forgotten when that was used again.
    #[test]
    fn what_a_redone_update_gave_up_is_noted_though_its_data_is_no_news() {
        on_a_core(async {
            let (array, _volume) = filled(Level::Raid5, 3).await;
            let core = &array.core;
            let set = set_of(core, Some(Level::Raid5));
            let stripe = (0..set.stripes()).find(|stripe| set.written(*stripe) == 0b11).unwrap();
            let mut data = Buf::alloc(BLOCK_BYTES).unwrap();
            data.fill(7);
            let changes = [Change { column: 0, first_block: 3, data: data.freeze() }];
            let planned = core.raid.plan_update(&set, stripe, &changes, &|_, _| None).await;
            let plain = planned.expect("all disks are there");
            let anew = Update { given_up: 0b10, ..plain.clone() };
            for (update, is_news) in [(&plain, true), (&plain, false), (&anew, true)] {
                let before = core.journal.cut().position;
                let (updates, halves) = (vec![update.clone()], Vec::new());
                let wave = Wave { checkpoint: 1, wave: 1, updates, halves, since: 0 };
                core.redo(&[Unfinished { wave, lacking: Vec::new() }]).await.unwrap();
                assert_eq!(core.journal.cut().position > before, is_news, "{}", update.given_up);
            }
        });
    }
}
