//! Reading the journal back into memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::core::{Core, State, Stripe};
use crate::engine::Payload;
use crate::error::ArrayError;
use crate::journal::{Placed, Record};
use crate::membership::has_missed;
use crate::mutants::{self, Mutant};
use crate::overlay::{Overlay, Room, Taken};
use crate::{DiskId, Place, VersionId};

/// Which records count of volumes whose changes were written to the journal once more.
#[derive(Debug, Default)]
struct Repetitions {
    /// From the last repetition on that was finished.
    from: HashMap<VersionId, usize>,
    /// Not those of repetitions that were cut off.
    cut: HashMap<VersionId, Vec<Range<usize>>>,
    /// Where no word says so yet.
    open: Vec<VersionId>,
    /// All of them, finished or not.
    all: HashMap<VersionId, Vec<Range<usize>>>,
}

impl Repetitions {
    fn of(records: &[(Record, u64)]) -> Self {
        let mut all = Self::default();
        let mut open: HashMap<VersionId, usize> = HashMap::new();
        for (index, (record, _)) in records.iter().enumerate() {
            match record {
                Record::AgainBegins { volume, .. } => _ = open.insert(*volume, index),
                Record::AgainEnds { volume } => {
                    let from = open.remove(volume);
                    all.from.extend(from.map(|from| (*volume, from)));
                    all.all.entry(*volume).or_default().extend(from.map(|from| from..index));
                }
                Record::AgainCut { volume } => {
                    let range = open.remove(volume).map(|from| from..index);
                    all.all.entry(*volume).or_default().extend(range.clone());
                    all.cut.entry(*volume).or_default().extend(range);
                }
                _ => {}
            }
        }
        all.open = open.keys().copied().collect();
        all.open.sort_unstable();
        for (volume, from) in open {
            all.all.entry(volume).or_default().push(from..records.len());
            all.cut.entry(volume).or_default().push(from..records.len());
        }
        all
    }

    /// Whether record number `index` counts for a volume.
    fn count(&self, index: usize, volume: VersionId) -> bool {
        self.from.get(&volume).is_none_or(|from| index >= *from) && !is_in(&self.cut, index, volume)
    }

    /// Whether record number `index` only says again what one before it has said of a volume.
    fn repeats(&self, index: usize, volume: VersionId) -> bool {
        is_in(&self.all, index, volume)
    }
}

fn is_in(ranges: &HashMap<VersionId, Vec<Range<usize>>>, index: usize, volume: VersionId) -> bool {
    ranges.get(&volume).is_some_and(|ranges| ranges.iter().any(|range| range.contains(&index)))
}

/// Refuses a journal that names what the checkpoint cannot know: the newest one is on no disk that is there, or
/// has rotted on all, and an older one would be taken for it. Volumes come with a checkpoint, and are written to
/// when that is durable; what a checkpoint puts in place is noted under its own number, one beyond the last.
/// Where an operator accepts what is lost with missing disks it is only told.
pub(super) fn check_newest(
    payload: &Payload,
    records: &[(Record, u64)],
    is_accepted: bool,
) -> Result<(), ArrayError> {
    let is_known = |volume: &VersionId| volume.0 < payload.next_version;
    let fits = |(record, _): &(Record, u64)| match record {
        Record::Data { volume, .. }
        | Record::Zero { volume, .. }
        | Record::AgainBegins { volume, .. }
        | Record::AgainEnds { volume }
        | Record::AgainCut { volume } => is_known(volume),
        Record::Map { clusters } => clusters.iter().all(|placed| is_known(&placed.volume)),
        Record::Snapshot { taken, .. } => taken.iter().all(|one| is_known(&one.volume)),
        Record::Written { checkpoint, .. } => *checkpoint <= payload.number + 1,
        Record::NewSet { .. } => true,
    };
    if records.iter().all(fits) || mutants::is(Mutant::OldRecord) {
        return Ok(());
    }
    let what = "the newest checkpoint is on no disk that is there, and the journal has changes that an older one \
                cannot take: add the missing disks";
    if is_accepted {
        tracing::warn!(
            "what the journal has beyond the checkpoint is gone, as was accepted: {what}"
        );
        return Ok(());
    }
    Err(ArrayError::Damaged(what.into()))
}

impl Core {
    /// Does in memory what the records of the journal say, in their order. Which stripes were written as if
    /// they were new, and the positions of the records that say so.
    pub(super) fn replay(
        &self,
        records: &[(Record, u64)],
    ) -> Result<Vec<(Stripe, u64)>, ArrayError> {
        let state = &mut *self.lock();
        let members = state.label.members.clone();
        let again = Repetitions::of(records);
        let since = state.since.position;
        let kept = state.live.iter().filter_map(|(id, live)| Some((*id, live.kept?.from.position)));
        let kept: HashMap<VersionId, u64> = kept.collect();
        // The position of a record is behind the begin of its batch, and may be the end.
        let before = records.partition_point(|(_, position)| *position <= since);
        for (index, (record, position)) in records[..before].iter().enumerate() {
            let is_kept = |volume: &VersionId| kept.get(volume).is_some_and(|from| position > from);
            let counts = |volume: &VersionId| is_kept(volume) && again.count(index, *volume);
            self.replay_kept(state, (record, *position), &counts)?;
        }
        self.claim_kept(state)?;
        let mut anew = Vec::new();
        for (index, (record, position)) in records.iter().enumerate().skip(before) {
            let counts = |volume: &VersionId| again.count(index, *volume);
            // Who was out when it was written missed what it says was written to the disks.
            let missed = members.iter().filter(|record| has_missed(record.state, *position));
            let away: Vec<DiskId> = missed.map(|record| record.disk).collect();
            if let Record::Map { clusters } = record {
                let written = clusters.iter().filter(|one| !again.repeats(index, one.volume));
                let stripes = written.filter_map(|placed| self.note_missed(placed.place, &away));
                anew.extend(stripes.map(|stripe| (stripe, *position)));
            }
            self.replay_record(state, (record, *position), &counts, &away)?;
        }
        // What comes from now on is no part of a repetition that was cut off.
        for volume in again.open {
            self.log_mark(&Record::AgainCut { volume })?;
        }
        Ok(anew)
    }

    /// Does what a record from before the last checkpoint says of volumes that it could not destage:
    /// all else is in its place, and what is known of the disks with it.
    fn replay_kept(
        &self,
        state: &mut State,
        (record, position): (&Record, u64),
        counts: &dyn Fn(&VersionId) -> bool,
    ) -> Result<(), ArrayError> {
        match record {
            Record::NewSet { .. } | Record::Written { .. } => {}
            Record::Map { clusters } => {
                let live = clusters.iter().filter(|placed| counts(&placed.volume));
                live.for_each(|placed| state.enter_moved(placed));
            }
            _ => self.replay_record(state, (record, position), counts, &[])?,
        }
        Ok(())
    }

    /// The places that volumes have which the last checkpoint could not destage. Others that they had
    /// before are free since then, and may be somebody else's.
    fn claim_kept(&self, state: &mut State) -> Result<(), ArrayError> {
        state.replaced.clear();
        let live = state.live.values().filter(|live| live.kept.is_some());
        let places: Vec<Place> = live.flat_map(|live| live.overlay.placed()).collect();
        places.into_iter().try_for_each(|place| claim(state, place))
    }

    fn replay_record(
        &self,
        state: &mut State,
        (record, position): (&Record, u64),
        counts: &dyn Fn(&VersionId) -> bool,
        away: &[DiskId],
    ) -> Result<(), ArrayError> {
        match record {
            Record::Data { volume, .. } | Record::Zero { volume, .. } if !counts(volume) => {}
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
                for placed in clusters.iter().filter(|placed| counts(&placed.volume)) {
                    self.replay_placed(state, placed)?;
                }
                self.replay_parity(clusters);
            }
            Record::Snapshot { epoch, unix_seconds, taken } => {
                for one in taken.iter().filter(|one| counts(&one.volume)) {
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
                        set.set_written(*stripe, columns.to_le_bytes()[0]);
                        set.give_up(*stripe, columns.to_le_bytes()[1]);
                        if !mutants::is(Mutant::ForgetWritten) {
                            away.iter().for_each(|disk| set.mark_stale(*stripe, *disk));
                        }
                    }
                    for one in changed.iter().filter(|_| !mutants::is(Mutant::ForgetChanged)) {
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
            Record::AgainBegins { volume, epoch } if counts(volume) => {
                state.live.entry(*volume).and_modify(|live| live.overlay = Overlay::new(*epoch));
            }
            Record::AgainBegins { .. } | Record::AgainEnds { .. } | Record::AgainCut { .. } => {}
        }
        Ok(())
    }

    /// Who was away lacks what was written directly to new space, whether it counts by now or not. The
    /// stripe that it lies in.
    fn note_missed(&self, place: Place, away: &[DiskId]) -> Option<Stripe> {
        let set = self.sets.find(place.set())?;
        let (stripe, _) = set.shape().locate(place.slot());
        if !mutants::is(Mutant::ForgetPlaced) {
            away.iter().for_each(|disk| set.mark_stale(stripe, *disk));
        }
        Some((set.id(), stripe))
    }

    fn replay_placed(&self, state: &mut State, placed: &Placed) -> Result<(), ArrayError> {
        claim(state, placed.place)?;
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

fn claim(state: &mut State, place: Place) -> Result<(), ArrayError> {
    if state.space.pool.claim(place) {
        return Ok(());
    }
    let (set, slot) = (place.set().0, place.slot());
    Err(ArrayError::Damaged(format!("slot {slot} of set {set} is taken twice")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the records that count for volume 1.
    fn counting(records: &[Record]) -> (Vec<usize>, Vec<VersionId>) {
        let records: Vec<_> = records.iter().map(|record| (record.clone(), 0)).collect();
        let all = Repetitions::of(&records);
        let counts = |index: &usize| all.count(*index, VersionId(1));
        ((0..records.len()).filter(counts).collect(), all.open)
    }

    #[test]
    fn what_was_repeated_counts_once_and_a_repetition_that_was_cut_off_does_not() {
        let (one, two) = (VersionId(1), VersionId(2));
        let zero = |volume| Record::Zero { volume, block: 0, blocks: 1 };
        let begins = |volume| Record::AgainBegins { volume, epoch: crate::Epoch(1) };
        let ends = |volume| Record::AgainEnds { volume };
        assert_eq!(counting(&[zero(one), zero(two)]), (vec![0, 1], vec![]));
        let whole = [zero(one), begins(one), zero(one), ends(one), zero(one)];
        assert_eq!(counting(&whole), (vec![1, 2, 3, 4], vec![]));
        let cut = [zero(one), zero(two), begins(one), zero(one)];
        assert_eq!(counting(&cut), (vec![0, 1], vec![one]));
        let after = [&cut[..], &[Record::AgainCut { volume: one }, zero(one)]].concat();
        assert_eq!(counting(&after), (vec![0, 1, 4, 5], vec![]));
        let both = [&whole[..], &[begins(one), zero(one)]].concat();
        assert_eq!(counting(&both), (vec![1, 2, 3, 4], vec![one]));
        let twice = [&whole[..], &[begins(one), zero(one), ends(one)]].concat();
        assert_eq!(counting(&twice), (vec![5, 6, 7], vec![]));
        assert_eq!(counting(&[begins(two), zero(two)]), (vec![0, 1], vec![two]));
    }
}
