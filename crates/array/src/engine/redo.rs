//! Changes of parity stripes that hold live data: in waves, each written to the redo area first.

use std::sync::Arc;

use block::{BlockDevice, BlockError, WriteFlags};
use futures_util::future::{join_all, try_join_all};
use ring::{Buf, Data};

use super::Checkpoint;
use super::gather::Writes;
use crate::core::{Core, RETRY, Redone, until_done};
use crate::error::ArrayError;
use crate::journal::{Changed, Record};
use crate::mutants::{self, Mutant};
use crate::raid::redo::{self, RedoError, Wave};
use crate::raid::{Put, ReadError, Set, Update};
use crate::{BLOCK_BYTES, SetId, crc32c};

impl Checkpoint {
    pub(super) async fn update_stripes(
        &mut self,
        changes: Vec<((SetId, u32), Writes)>,
    ) -> Result<(), ArrayError> {
        let room = redo::half_bytes(self.core.layout.redo_bytes) as usize;
        let mut wave: Vec<Update> = Vec::new();
        for ((set, stripe), writes) in changes {
            let update = self.core.plan_update(set, stripe, writes).await?;
            wave.push(update);
            if redo::bytes_of(&wave) > room {
                let last = wave.pop().expect("just pushed");
                assert!(!wave.is_empty(), "the redo area holds any one stripe");
                self.do_wave(&wave).await?;
                wave = vec![last];
            }
        }
        if wave.is_empty() { Ok(()) } else { self.do_wave(&wave).await }
    }

    /// One wave: written down, done, flushed. Then its half of the area may be used again.
    async fn do_wave(&mut self, updates: &[Update]) -> Result<(), ArrayError> {
        let core = Arc::clone(&self.core);
        let number = {
            let state = &mut *core.lock();
            state.next_wave += 1;
            state.next_wave - 1
        };
        if !mutants::is(Mutant::NoRedo) {
            core.write_redo(self.number, number, updates).await?;
        }
        // The flush of the wave before has made the disks forget them.
        core.touch_stripes(updates.iter().map(|update| (update.set, update.stripe)));
        let applies = updates.iter().map(|update| {
            let core = &core;
            async move {
                let set = core.sets.get(update.set);
                until_done(|| core.raid.apply(&set, update, WriteFlags::VOLATILE), core).await
            }
        });
        try_join_all(applies).await?;
        core.flush_disks().await;
        core.note_written(self.number, updates).await
    }
}

impl Core {
    async fn plan_update(
        &self,
        set: SetId,
        stripe: u32,
        Writes { changes, old, .. }: Writes,
    ) -> Result<Update, ArrayError> {
        let set = self.sets.get(set);
        let columns = 0..set.shape().columns();
        let redone: Vec<Option<Redone>> = {
            let state = self.lock();
            columns.map(|column| state.redone.get(&(set.id(), stripe, column)).copied()).collect()
        };
        let crc_of = |column: usize, block: usize| {
            let known = redone[column].and_then(|crcs| crcs[block]);
            known.or_else(|| {
                old.iter().find(|(other, _)| *other == column).map(|(_, crcs)| crcs[block])
            })
        };
        loop {
            match self.raid.plan_update(&set, stripe, &changes, &crc_of).await {
                Ok(update) => return Ok(update),
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes a wave to the redo area of every holder, durably.
    async fn write_redo(
        self: &Arc<Self>,
        checkpoint: u64,
        wave: u64,
        updates: &[Update],
    ) -> Result<(), ArrayError> {
        let bytes = loop {
            match redo::encode(&self.id.0, checkpoint, wave, updates) {
                Ok(bytes) => break bytes.freeze(),
                Err(_) => self.env.sleep(RETRY).await,
            }
        };
        let at = self.layout.redo_at() + redo::half_at(self.layout.redo_bytes, wave);
        self.write_to_holders(|device| {
            let (bytes, device) = (bytes.clone(), Arc::clone(device));
            Box::pin(async move { write_pieces(&*device, at, &bytes).await })
        })
        .await
    }

    /// Columns that joined a parity, before the record that said so is overwritten.
    async fn note_written(&self, checkpoint: u64, updates: &[Update]) -> Result<(), ArrayError> {
        let stripes =
            updates.iter().map(|update| (update.set, update.stripe, u16::from(update.written)));
        let changed = updates.iter().flat_map(|update| {
            let columns = self.sets.get(update.set).shape().columns();
            let puts = update.puts.iter().filter(move |put| put.strip < columns);
            puts.map(|put| Changed {
                set: update.set,
                stripe: update.stripe,
                column: put.strip as u8,
                crcs: crcs_of_put(put),
            })
        });
        let (stripes, changed) = (stripes.collect(), changed.collect());
        let record = Record::Written { checkpoint, stripes, changed };
        let added = self.journal.append_reserved(&record, None);
        let added = added.map_err(|_| ArrayError::Io(BlockError::NoSpace))?;
        Ok(self.journal.durable(added.ticket).await?)
    }

    /// Does again what was cut off in the middle of checkpoint `number`.
    pub(crate) async fn redo(
        &self,
        devices: &[Arc<dyn BlockDevice>],
        number: u64,
    ) -> Result<(), ArrayError> {
        let mut waves: Vec<Wave> = Vec::new();
        for device in devices {
            for half in 0..2 {
                if let Some(wave) = self.read_wave(&**device, half).await
                    && wave.checkpoint == number
                    && waves.iter().all(|other| other.wave != wave.wave)
                {
                    waves.push(wave);
                }
            }
        }
        waves.sort_by_key(|wave| wave.wave);
        for update in waves.iter().flat_map(|wave| &wave.updates) {
            let Some(set) = self.sets.find(update.set) else { continue };
            match until_done(|| self.raid.apply(&set, update, WriteFlags::VOLATILE), self).await {
                // A set that is not there cannot be served either; it is done when it is back.
                Ok(()) => self.note_redone(&set, update),
                Err(error) => tracing::warn!("redo of a stripe of set {}: {error}", update.set.0),
            }
        }
        self.lock().next_wave = waves.last().map_or(0, |last| last.wave + 1);
        self.flush_disks().await;
        Ok(())
    }

    /// The checksums in the maps are those of what was there before.
    fn note_redone(&self, set: &Set, update: &Update) {
        let state = &mut *self.lock();
        for put in update.puts.iter().filter(|put| put.strip < set.shape().columns()) {
            let crcs = state.redone.entry((update.set, update.stripe, put.strip)).or_default();
            crcs_of_put(put).into_iter().for_each(|(block, crc)| crcs[block as usize] = Some(crc));
        }
    }

    async fn read_wave(&self, device: &dyn BlockDevice, half: u64) -> Option<Wave> {
        let at = self.layout.redo_at() + redo::half_at(self.layout.redo_bytes, half);
        let bytes = read_pieces(device, at, redo::half_bytes(self.layout.redo_bytes)).await?;
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

fn crcs_of_put(put: &Put) -> Vec<(u8, u32)> {
    let bytes = put.data.as_slice().expect("updates are in buffers");
    let blocks = bytes.chunks_exact(BLOCK_BYTES).map(crc32c);
    (put.first_block as u8..).zip(blocks).collect()
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

async fn read_pieces(device: &dyn BlockDevice, at: u64, len: u64) -> Option<Data> {
    let mut buf = Buf::alloc(usize::try_from(len).ok()?)?;
    let reads = (0..len).step_by(PIECE_BYTES).map(|from| {
        let piece = (len - from).min(PIECE_BYTES as u64) as usize;
        async move { (from as usize, device.read(at + from, piece).await) }
    });
    for (from, read) in join_all(reads).await {
        let data = read.ok()?;
        data.copy_to(0, &mut buf[from..from + data.len()]);
    }
    Some(buf.freeze())
}
