//! Reading the journal back into memory.

use std::sync::Arc;

use crate::core::{Core, State};
use crate::error::ArrayError;
use crate::journal::{Placed, Record};
use crate::membership::has_missed;
use crate::mutants::{self, Mutant};
use crate::overlay::{Room, Taken};
use crate::{DiskId, VersionId};

impl Core {
    /// Does in memory what the records of the journal say, in their order.
    pub(super) fn replay(&self, records: &[(Record, u64)]) -> Result<(), ArrayError> {
        let state = &mut *self.lock();
        let members = state.label.members.clone();
        for (record, position) in records {
            // Who was out when it was written missed what it says was written to the disks.
            let missed = members.iter().filter(|record| has_missed(record.state, *position));
            let away: Vec<DiskId> = missed.map(|record| record.disk).collect();
            self.replay_record(state, record, *position, &away)?;
        }
        Ok(())
    }

    fn replay_record(
        &self,
        state: &mut State,
        record: &Record,
        position: u64,
        away: &[DiskId],
    ) -> Result<(), ArrayError> {
        match record {
            Record::Data { volume, block, blocks } => {
                if let Some(live) = state.live.get_mut(volume) {
                    live.overlay.open().write(*block, u64::from(*blocks), position);
                }
            }
            Record::Zero { volume, block, blocks } => {
                if state.live.contains_key(volume) {
                    state.zero(*volume, *block, *blocks);
                }
            }
            Record::Map { clusters, .. } => {
                for placed in clusters {
                    self.replay_placed(state, placed, away)?;
                }
                self.replay_parity(clusters);
            }
            Record::Snapshot { epoch, unix_seconds, taken } => {
                for one in taken {
                    let size_bytes =
                        state.tables.volumes.get(&one.volume).map_or(0, |volume| volume.size_bytes);
                    let taken = Taken {
                        snapshot: one.snapshot,
                        name: one.name.clone(),
                        epoch: *epoch,
                        size_bytes,
                        unix_seconds: *unix_seconds,
                    };
                    state.enter_snapshot(one.volume, taken);
                }
            }
            Record::NewSet { id, level, members } => {
                if self.sets.find(*id).is_none() {
                    for (disk, chunk) in members {
                        if !state.space.chunks.claim(*disk, *chunk) {
                            let what = format!("chunk {chunk} of disk {} has two owners", disk.0);
                            return Err(ArrayError::Damaged(what));
                        }
                    }
                    self.enter_set(state, *id, *level, members);
                }
            }
            Record::Written { checkpoint, stripes, changed } => {
                if *checkpoint > state.checkpoint {
                    for (set, stripe, columns) in stripes {
                        let Some(set) = self.sets.find(*set) else { continue };
                        set.set_written(*stripe, *columns as u8);
                        if !mutants::is(Mutant::ForgetWritten) {
                            away.iter().for_each(|disk| set.mark_stale(*stripe, *disk));
                        }
                    }
                    for one in changed {
                        let key = (one.set, one.stripe, usize::from(one.column));
                        let crcs = state.redone.entry(key).or_default();
                        for (block, crc) in &one.crcs {
                            if let Some(known) = crcs.get_mut(usize::from(*block)) {
                                *known = Some(*crc);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn replay_placed(
        &self,
        state: &mut State,
        placed: &Placed,
        away: &[DiskId],
    ) -> Result<(), ArrayError> {
        if !state.space.pool.claim(placed.place) {
            let (set, slot) = (placed.place.set().0, placed.place.slot());
            return Err(ArrayError::Damaged(format!("slot {slot} of set {set} is taken twice")));
        }
        let set = self.sets.get(placed.place.set());
        let (stripe, _) = set.shape().locate(placed.place.slot());
        if !mutants::is(Mutant::ForgetPlaced) {
            away.iter().for_each(|disk| set.mark_stale(stripe, *disk));
        }
        if state.live.contains_key(&placed.volume) {
            state.enter_moved(placed);
        } else {
            state.replaced.push(placed.place);
        }
        Ok(())
    }

    /// Whole stripes were written with these clusters.
    fn replay_parity(&self, clusters: &[Placed]) {
        for placed in clusters {
            let set = self.sets.get(placed.place.set());
            let (stripe, column) = set.shape().locate(placed.place.slot());
            set.mark_written(stripe, 1 << column);
        }
    }

    /// Sets space aside for what will need it, as it was when these changes were made.
    pub(super) async fn decide_rooms(self: &Arc<Self>) -> Result<(), ArrayError> {
        let all: Vec<(VersionId, Vec<(usize, u64)>)> = {
            let state = self.lock();
            let undecided = |(id, live): (&VersionId, &crate::core::Live)| {
                (*id, live.overlay.undecided().collect())
            };
            state.live.iter().map(undecided).collect()
        };
        for (volume, patches) in all {
            for (segment, cluster) in patches {
                let room = self.with_pages(|state| state.room_at(volume, segment, cluster)).await?;
                let state = &mut *self.lock();
                let room = self.promise_again(state, volume, room);
                let live = state.live.get_mut(&volume).expect("volumes do not go meanwhile");
                live.overlay.decide(segment, cluster, room);
            }
        }
        Ok(())
    }

    /// Sets a cluster aside for a change that had one before. It goes before what is kept for
    /// thick volumes.
    fn promise_again(&self, state: &mut State, volume: VersionId, room: Room) -> Room {
        if !room.is_promised() {
            return room;
        }
        let level = state.tables.volumes[&volume].level;
        let live = state.live.get_mut(&volume).expect("volumes do not go meanwhile");
        let room = if live.thick_left > 0 { room } else { Room::Reserved };
        match room {
            Room::Thick => live.thick_left -= 1,
            _ => state.space.pool.keep(level, 1),
        }
        if self.reserve_kept(state, level, 1) {
            return room;
        }
        // There was space when the change was made; a checkpoint will find it.
        tracing::warn!("no space is left for a change of {}", state.tables.volumes[&volume].name);
        state.space.pool.unkeep(level, 1);
        Room::InPlace
    }
}
