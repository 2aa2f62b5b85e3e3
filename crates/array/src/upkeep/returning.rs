//! Disks that were away: found again, or given up.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, BlockError};
use futures_util::future::{Either, select};

use crate::checkpoint::marks::set_back;
use crate::checkpoint::slots::is_older_than_out;
use crate::core::Core;
use crate::label::{self, Found, Label, MemberState};
use crate::membership::{Event, Lack, lack_of, may_return};
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Set, is_passing};
use crate::space::Gives;
use crate::sync::Turn;
use crate::{DiskId, SetId};

/// Failed reads after which a disk is asked whether it is there at all.
const READ_ERRORS_MAX: u64 = 8;
/// How long disks may take to give their labels while others wait.
const ANSWER: Duration = Duration::from_millis(100);
/// A disk that was in for so long has stayed.
const STAY: Duration = Duration::from_secs(10 * 60);
/// How often the pause before the next return doubles: to over an hour.
const DOUBLINGS_MAX: u32 = 10;
/// The same while a volume is set aside, as disks are out. It comes to more than [`GRACE`](super::GRACE): a checkpoint
/// that waits for a disk which was in a moment ago must find an end although that one comes and goes.
const DOUBLINGS_WAITING: u32 = 4;

/// That a disk came back, and how often before it had not stayed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Return {
    since: Duration,
    failed: u32,
}

impl Return {
    /// It comes back `now`; before this it was in since `last`, if it ever came back, and out since
    /// `out_since`.
    fn after(last: Option<Self>, out_since: Duration, now: Duration) -> Self {
        let failed = last.filter(|last| !last.has_stayed(out_since)).map_or(0, |l| l.failed + 1);
        Self { since: now, failed }
    }

    fn has_stayed(self, out_since: Duration) -> bool {
        out_since.saturating_sub(self.since) >= STAY
    }

    /// When it may be taken back that is out since then: at once the first time, but each time that
    /// it does not stay it waits twice as long. One that takes its label and nothing else would come
    /// and go all the time, and each time all labels are written.
    fn next(last: Option<Self>, out_since: Duration, doublings_max: u32) -> Duration {
        let pause = match last {
            Some(last) if !last.has_stayed(out_since) => {
                super::LOOK * (1 << last.failed.min(doublings_max))
            }
            _ => Duration::ZERO,
        };
        out_since + pause
    }
}

impl Core {
    /// Puts out disks that do not even give their labels: they are not bad in places, but gone. Want of
    /// memory says nothing about a disk: the next look asks again.
    pub(super) async fn put_out_silent_disks(self: &Arc<Self>) {
        for disk in self.raid.disks().all() {
            if disk.is_silent() && disk.access() == Access::Full {
                // Some drives try a bad sector for minutes: one that gives its label is there.
                match label::read(&**disk.device()).await {
                    Ok(_) => disk.speaks(),
                    Err(error) if is_passing(error) => {}
                    Err(_) => self.disk_failed(disk.id(), "it does not answer").await,
                }
                continue;
            }
            let is_odd = disk.counts().read_errors > READ_ERRORS_MAX;
            if is_odd
                && disk.access() == Access::Full
                && let Err(error) = label::read(&**disk.device()).await
                && !is_passing(error)
            {
                self.disk_failed(disk.id(), &format!("it does not answer: {error}")).await;
            }
        }
    }

    /// Whether a disk of a set that is still in does not even give its label: it is not bad in places, but gone,
    /// and is put out. One that has been out for long is not waited for: what it had would keep the volume
    /// from its place, and the journal full, for good.
    pub(crate) async fn is_any_silent(self: &Arc<Self>, set: &Set) -> bool {
        // One is enough to wait for: whether others are silent too is found out when they are asked.
        let Some((disk, error)) = self.silent_disk(set).await else { return false };
        self.disk_failed(disk, &format!("it does not answer: {error}")).await;
        true
    }

    /// The first disk of a set, its replacement included, that does not even give its label.
    async fn silent_disk(&self, set: &Set) -> Option<(DiskId, BlockError)> {
        for disk in set.seats().into_iter().filter_map(|seat| self.raid.disks().get(seat.disk)) {
            if disk.access() == Access::Full
                && let Err(error) = label::read(&**disk.device()).await
                && !is_passing(error)
            {
                return Some((disk.id(), error));
            }
        }
        None
    }

    /// Whether a disk of a set may be silent, as far as can be said while others wait: who takes long is.
    pub(super) async fn may_be_silent(&self, set: &Set) -> bool {
        let silent = pin!(self.silent_disk(set));
        match select(silent, self.env.sleep(ANSWER)).await {
            Either::Left((silent, _)) => silent.is_some(),
            Either::Right(_) => true,
        }
    }

    /// Begins to look whether disks that failed answer again. Nobody waits for that: one that does not may
    /// take minutes, and others are back meanwhile.
    pub(super) fn take_back_disks(self: &Arc<Self>) {
        let away: Vec<DiskId> = {
            let (state, now) = (self.lock(), self.env.now());
            // While volumes wait for their disks, one that does not stay is tried more often.
            let waits = state.live.values().any(|live| live.lost.is_some());
            let doublings_max = if waits { DOUBLINGS_WAITING } else { DOUBLINGS_MAX };
            let is_due = |(disk, (since, _)): &(&DiskId, &(Duration, String))| {
                now >= Return::next(state.returns.get(disk).copied(), *since, doublings_max)
            };
            state.away.iter().filter(is_due).map(|(disk, _)| *disk).collect()
        };
        for disk in away {
            if self.turn_to_take_back(disk).held().is_some() && !mutants::is(Mutant::TwoReturns) {
                // It is being asked, or somebody brings it.
                continue;
            }
            let core = Arc::clone(self);
            self.env.spawn(Box::pin(async move {
                if core.take_back(disk).await {
                    core.upkeep.ring();
                }
            }));
        }
    }

    /// Whether a disk of this set that went out a moment ago, or has just come back, may yet give
    /// what the others do not. One that was missing at the opening is not waited for.
    pub(crate) fn may_come_soon(&self, set: SetId) -> bool {
        let (state, now, set) = (self.lock(), self.env.now(), self.sets.get(set));
        let is_recent = |since: Duration| now.saturating_sub(since) < super::GRACE;
        let comes = |disk: DiskId| {
            let is_out = state.away.get(&disk).is_some_and(|(since, _)| is_recent(*since));
            let is_back = state.returns.get(&disk).is_some_and(|back| is_recent(back.since));
            is_out || is_back && set.is_stale_on(disk)
        };
        let disks = set.members().into_iter().map(|seat| seat.disk);
        disks.filter(|disk| self.raid.disks().get(*disk).is_some()).any(comes)
    }

    /// The turn to take this disk back. Whoever does it first writes a label that the disk may be long
    /// about, and that must not come over what another one has written meanwhile.
    pub(crate) fn turn_to_take_back(&self, disk: DiskId) -> Arc<Turn> {
        let turns = &mut *self.taking_back.lock().expect("no panic under this lock");
        Arc::clone(turns.entry(disk).or_default())
    }

    /// All that there are.
    pub(crate) fn turns_to_take_back(&self) -> Vec<Arc<Turn>> {
        let turns = self.taking_back.lock().expect("no panic under this lock");
        turns.values().map(Arc::clone).collect()
    }

    async fn take_back(self: &Arc<Self>, disk: DiskId) -> bool {
        let turn = self.turn_to_take_back(disk);
        let _turn = match mutants::is(Mutant::TwoReturns) {
            true => None,
            false => Some(turn.take().await),
        };
        self.take_back_in_turn(disk).await
    }

    /// Takes a disk back if it answers and is the one that it was. Whoever calls this has its
    /// [turn](Self::turn_to_take_back).
    pub(crate) async fn take_back_in_turn(self: &Arc<Self>, disk: DiskId) -> bool {
        let Some(member) = self.raid.disks().get(disk) else { return false };
        let state_of = |label: &Label| label.member(disk).map(|record| record.state);
        let is_welcome = matches!(state_of(&self.lock().label), Some(MemberState::Stale(_)));
        if !is_welcome || member.access() == Access::Full {
            return false;
        }
        // One that never forgets a failed flush would take no label any more. What it may have lost
        // then it lacks for the sets, and gets again.
        let device = member.reopened();
        let Some((label, is_cut)) = self.read_returning(disk, &*device).await else { return false };
        let mut ours = self.lock().label.clone();
        // Or that was known, and it went out before it could be given all.
        let waived = self.lock().waived.get(&disk).copied();
        let lack = match lack_of(&label, is_cut, &ours).or(waived) {
            None if is_older_than_out(&*device, &label, &ours).await => Some(Lack::Old),
            None if self.is_behind(disk, &*device).await => Some(Lack::Old),
            lack => lack,
        };
        let lacks_all = lack.is_some() || state_of(&ours).is_some_and(MemberState::lacks_all);
        if lacks_all {
            // Before its own labels are whole again, and nothing tells.
            let change = self.change_label(|_, _| vec![Event::LacksAll(vec![disk])]).await;
            if change.is_err() {
                return false;
            }
            ours = self.lock().label.clone();
        }
        // Whether it takes writes again is tried with the label that says that it was out: it must
        // know that before anything else is written to it.
        let own = ours.for_disk(disk);
        if !self.write_returning(&*device, &own, lacks_all).await {
            return false;
        }
        let name = (disk, member.name().to_owned());
        let mut is_taken = false;
        let changed = self.change_label(|label, state| {
            // It may have been given up meanwhile, or its label may be about to say so.
            let is_condemned =
                state.condemned.contains(&disk) && !mutants::is(Mutant::TakeCondemned);
            if is_condemned || !matches!(state_of(label), Some(MemberState::Stale(_))) {
                return Vec::new();
            }
            // From here on it is written to; what it lacks is known to the sets.
            if member.access() == Access::None || lacks_all {
                self.mark_lacking_all(disk);
                state.waived.remove(&disk);
            }
            self.raid.disks().put_back(&member, Arc::clone(&device));
            if let Some((out_since, _)) = state.away.remove(&disk) {
                let last = state.returns.get(&disk).copied();
                let now = self.env.now();
                state.returns.insert(disk, Return::after(last, out_since, now));
            }
            let gives = match state.tables.leaving.contains(&disk) {
                true => Gives::Nothing,
                false => Gives::Chunks,
            };
            state.space.set_gives(disk, gives);
            is_taken = true;
            vec![Event::Found(vec![name]), Event::Behind]
        });
        if changed.await != Ok(true) || !is_taken {
            return false;
        }
        let text = format!("disk {} is back", member.name());
        tracing::info!("{text}");
        self.lock().note(self.env.unix_seconds(), text);
        lack.into_iter().for_each(|lack| self.note_lacking(disk, lack));
        true
    }

    /// Gives a disk that comes back its label; whether it has taken it. None is given behind the end of the array, also
    /// where that came while the disk was set back.
    async fn write_returning(
        &self,
        device: &dyn BlockDevice,
        own: &Label,
        lacks_all: bool,
    ) -> bool {
        let is_open = || self.lock().check_open().is_ok() || mutants::is(Mutant::ReturnLate);
        if !lacks_all {
            return is_open() && label::renew(device, own).await.is_ok();
        }
        // What it knows of checkpoints may have been given up meanwhile.
        let number = self.lock().checkpoint;
        is_open()
            && set_back(device, &self.layout, self.id, number).await.is_ok()
            && is_open()
            && label::write(device, own).await.is_ok()
    }

    /// The label of a disk that may be back, and whether it was cut short, if it is that disk and nobody used it
    /// without the others.
    async fn read_returning(
        &self,
        disk: DiskId,
        device: &dyn BlockDevice,
    ) -> Option<(Box<Label>, bool)> {
        let (label, is_cut) = match label::read(device).await {
            Ok(Found::Label { label, is_cut, .. }) => (label, is_cut),
            Ok(Found::Damaged(why)) => {
                self.stays_out(disk, &why);
                return None;
            }
            _ => return None,
        };
        let ours = self.lock().label.clone();
        let known = ours.member(disk).map(|record| record.uuid);
        if label.array != self.id || label.disk != disk || known != Some(label.own().uuid) {
            return None;
        }
        if !may_return(&label, &ours) {
            let why = "it was used without the others: take it in as a blank disk when nothing that \
                       was written to it meanwhile is needed";
            self.stays_out(disk, why);
            return None;
        }
        Some((label, is_cut))
    }

    /// A disk answers and is not taken back: operators are told why, once.
    fn stays_out(&self, disk: DiskId, why: &str) {
        let state = &mut *self.lock();
        let Some((_, known)) = state.away.get_mut(&disk) else { return };
        if known != why {
            why.clone_into(known);
            let text = format!("disk {} stays out: {why}", state.label.name_of(disk));
            tracing::warn!("{text}");
            state.note(self.env.unix_seconds(), text);
        }
    }

    /// A disk that holds nothing leaves the array.
    pub(crate) async fn retire(self: &Arc<Self>, disk: DiskId) -> bool {
        let changed = self.change_label(|label, state| {
            // It was closed before, so nothing comes onto it any more.
            state.space.set_gives(disk, Gives::Nothing);
            if state.space.chunks.counts(disk).is_some_and(|(_, used)| used > 0) {
                return Vec::new();
            }
            let is_stale = label.member(disk).map(|record| record.state);
            let is_stale = matches!(is_stale, Some(MemberState::Stale(_)));
            let leaves = state.away.contains_key(&disk) || state.tables.leaving.contains(&disk);
            if is_stale && !leaves {
                // It came back in the meantime.
                state.space.set_gives(disk, Gives::Chunks);
                return Vec::new();
            }
            if !self.leaving_in(state).contains(&disk) && !mutants::is(Mutant::LeaveAnyway) {
                // It was to leave when somebody looked, and an operator keeps it since.
                let is_away = state.away.contains_key(&disk);
                state.space.set_gives(disk, if is_away { Gives::Seats } else { Gives::Chunks });
                return Vec::new();
            }
            if self.is_needed_for_checkpoints(state, disk)
                || self.is_needed_for_journal(state, disk)
            {
                // Until the next checkpoint others that fail would take the last copy of either with them.
                self.want_checkpoint(state);
                return Vec::new();
            }
            state.going.insert(disk);
            vec![Event::Left(disk)]
        });
        let changed = changed.await;
        if !matches!(changed, Ok(true)) {
            self.lock().going.remove(&disk);
        }
        let changed = match changed {
            Ok(changed) => changed,
            Err(error) => {
                // The last one with the checkpoints: until the next checkpoint gives it a company.
                tracing::debug!("disk {} cannot leave yet: {error}", self.disk_name(disk));
                self.want_checkpoint(&mut self.lock());
                false
            }
        };
        if changed {
            let text = format!("disk {} has left the array", self.disk_name(disk));
            tracing::info!("{text}");
            {
                let state = &mut *self.lock();
                state.note(self.env.unix_seconds(), text);
                state.away.remove(&disk);
                state.going.remove(&disk);
                let sizes = state.label.data_sizes();
                state.space.remove_disk(disk, &self.layout, &sizes);
                self.want_checkpoint(state);
            }
            self.journal.keep_holders(|holder| holder != disk);
            self.raid.disks().remove(disk);
            self.work.ring();
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};

    use super::*;
    use crate::testing::arrays::{disk, filled_on, on_a_core, write};
    use crate::{Array, CreateOptions, Level, Member, RingEnv};

    /// An operator says that it has failed while it is being taken back: it was in use then, and its label
    /// said that it never is again.
    #[test]
    fn a_disk_that_is_being_declared_failed_is_not_taken_back() {
        on_a_core(async {
            let faulty: Vec<_> = (0..3).map(|_| Arc::new(FaultyDisk::new(disk()))).collect();
            let disks = faulty.iter().map(|disk| Arc::clone(disk) as Arc<dyn BlockDevice>);
            let (array, volume) = filled_on(disks.collect(), Level::Raid5).await;
            let (core, id) = (&array.core, DiskId(0));
            let fault = Fault::Fail(BlockError::Medium { at: 0 });
            faulty[0].inject(Rule::always(Operation::Write, fault));
            write(&volume, 0, 1).await;
            let access = || core.raid.disks().get(id).map(|disk| disk.access());
            assert_eq!(access(), Some(Access::ReadOnly), "it is out");
            core.lock().condemned.insert(id);
            faulty[0].heal();
            assert!(!core.take_back_in_turn(id).await);
            assert_eq!(access(), Some(Access::ReadOnly));
            core.lock().condemned.remove(&id);
            assert!(core.take_back_in_turn(id).await, "nobody says so any more");
        });
    }

    /// Seed 809 of rot: the power went while the label was written by which one of three had left, and two were
    /// missing at the next start. None of the others had the newest checkpoint, or the journal.
    #[test]
    fn a_disk_leaves_when_others_hold_what_it_holds() {
        on_a_core(async {
            for (journal, leaves) in [(0, DiskId(1)), (2, DiskId(5))] {
                let all: Vec<Member> = (0..5 + journal)
                    .map(|at| Member { name: format!("{at}"), device: disk() })
                    .collect();
                let (data, own) = all.split_at(5);
                let options = CreateOptions {
                    level: Level::Raid6,
                    chunk_bytes: Some(1 << 20),
                    journal: own.to_vec(),
                    ..Default::default()
                };
                let array = Array::create(Arc::new(RingEnv), data.to_vec(), options).await.unwrap();
                let core = &array.core;
                let before = core.lock().label.clone();
                assert!(before.journal.contains(&leaves), "it holds something");
                core.lock().tables.leaving.insert(leaves);
                assert!(!core.retire(leaves).await, "it has not handed over");
                assert_eq!(core.lock().label, before);
                array.checkpoint().await.unwrap();
                while !core.lock().retired(leaves) {
                    core.env.sleep(Duration::from_millis(1)).await;
                }
                let state = core.lock();
                for (now, then) in [
                    (&state.label.holders, &before.holders),
                    (&state.label.journal, &before.journal),
                ] {
                    assert_eq!(now.len(), then.len(), "{now:?}");
                    assert!(!now.contains(&leaves));
                }
            }
        });
    }

    #[test]
    fn a_disk_that_does_not_stay_waits_longer_each_time_and_one_that_stayed_does_not() {
        let second = Duration::from_secs;
        let mut last = None;
        let mut pause = |out_since: Duration| {
            let next = Return::next(last, out_since, DOUBLINGS_MAX);
            last = Some(Return::after(last, out_since, next));
            (next - out_since).as_secs()
        };
        let pauses: Vec<u64> = (0..4).map(|time| pause(second(1000 + time * 100))).collect();
        assert_eq!(pauses, [0, 5, 10, 20]);
        assert_eq!(pause(second(1320 + 600)), 0, "it was in for ten minutes");
        assert_eq!(pause(second(2000)), 5);
        (0..40).for_each(|_| _ = pause(second(2100)));
        assert_eq!(pause(second(2100)), 5 << DOUBLINGS_MAX, "and not for ever");
        let next = Return::next(last, second(2100), DOUBLINGS_WAITING);
        assert_eq!(next, second(2100 + 80), "while a volume waits for it");
        assert!(next - second(2100) > super::super::GRACE, "a checkpoint has gone on by then");
    }
}
