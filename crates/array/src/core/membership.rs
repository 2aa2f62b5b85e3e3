//! The I/O of [`membership`](crate::membership): labels to the disks, and what follows from them.
//!
//! Invariant: before anything relies on a disk being out, the labels of all disks that are in say
//! so, with a higher generation than the one that the disk itself may carry.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use block::BlockError;
use futures_util::future::join_all;

use super::{Core, State};
use crate::DiskId;
use crate::error::ArrayError;
use crate::journal::{Holder, HolderFailed};
use crate::label::{self, ChangeId, Label, LabelError, MemberKind, MemberState, Since};
use crate::membership::{
    Event, LabelChange, Refusal, Step, checkpoint_successors, journal_successors,
};
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Disk, DiskFailed, Heal, Set, is_passing};
use crate::space::Gives;

/// Disks that hold journal and checkpoints, if there are so many.
pub(crate) const HOLDERS: usize = 3;

/// Tells the array of disks that fail. It is made before the array itself.
#[derive(Debug, Default)]
pub(crate) struct Alarm(OnceLock<Weak<Core>>);

impl Alarm {
    pub(crate) fn connect(&self, core: &Arc<Core>) {
        self.0.set(Arc::downgrade(core)).expect("an alarm belongs to one array");
    }

    fn core(&self) -> Option<Arc<Core>> {
        self.0.get().and_then(Weak::upgrade)
    }
}

impl DiskFailed for Alarm {
    fn disk_failed(&self, disk: DiskId, error: BlockError) -> Pin<Box<dyn Future<Output = ()>>> {
        let core = self.core();
        Box::pin(async move {
            if let Some(core) = core {
                core.disk_refused(disk, error);
                core.disk_failed(disk, &format!("a write failed: {error}")).await;
            }
        })
    }

    fn disk_silent(&self, _: DiskId) {
        if let Some(core) = self.core() {
            core.upkeep.ring();
        }
    }

    fn now(&self) -> Duration {
        self.core().map_or(Duration::ZERO, |core| core.env.now())
    }

    fn heal(&self, heals: Vec<Heal>) {
        if let Some(core) = self.core() {
            core.queue_heals(heals);
        }
    }

    fn sleep(&self, time: Duration) -> crate::Task {
        match self.core() {
            Some(core) => core.env.sleep(time),
            // It is being opened, or is no more: nobody is asked instead of the one that was asked.
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, task: crate::Task) {
        if let Some(core) = self.core() {
            core.env.spawn(task);
        }
    }

    fn disk_behind(&self, _: DiskId) {
        if let Some(core) = self.core() {
            core.upkeep.ring();
        }
    }
}

impl HolderFailed for Alarm {
    fn holder_failed(&self, disk: DiskId, error: BlockError) -> crate::Task {
        DiskFailed::disk_failed(self, disk, error)
    }

    fn flush_failed(&self, disk: DiskId, error: BlockError) {
        let member = self.core().and_then(|core| core.raid.disks().get(disk));
        member.into_iter().for_each(|member| member.flush_failed(error));
    }

    fn pause(&self) -> crate::Task {
        let core = self.core();
        Box::pin(async move {
            if let Some(core) = core {
                core.env.sleep(super::RETRY).await;
            }
        })
    }

    fn now(&self) -> Duration {
        DiskFailed::now(self)
    }

    fn successors(&self, failed: &[DiskId]) -> Vec<Holder> {
        self.core().map_or(Vec::new(), |core| core.journal_successors(failed))
    }

    fn moved(&self, to: Vec<DiskId>) -> Pin<Box<dyn Future<Output = bool>>> {
        let core = self.core();
        Box::pin(async move {
            let Some(core) = core else { return false };
            core.note_journal_moved(&to);
            core.change_label(|_, _| vec![Event::HoldJournal(to)]).await.is_ok()
        })
    }
}

/// Why a disk is out that an operator has declared failed.
pub(crate) const CONDEMNED: &str = "an operator declared it failed";

impl Core {
    /// Puts a disk out; returns when that is durable.
    pub(crate) async fn disk_failed(self: &Arc<Self>, disk: DiskId, reason: &str) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        let since = self.since();
        self.shut(disk);
        let (mut is_new, mut reason, mut is_back) = (false, reason, false);
        let changed = self.change_label(|label, state| {
            // It was out before, and came back while this waited for its turn.
            is_back = self.raid.disks().get(disk).is_some_and(|now| !Arc::ptr_eq(&now, &member));
            if is_back {
                return Vec::new();
            }
            // Closed by an operator's word, it fails whoever has just asked it for something.
            let is_condemned = state.condemned.contains(&disk);
            reason = if is_condemned { CONDEMNED } else { reason };
            is_new = self.note_away(label, state, disk, reason);
            match is_condemned {
                true => vec![Event::Failed(disk)],
                false => vec![Event::Out { disks: vec![disk], since }],
            }
        });
        if let Err(error) = changed.await {
            // One that is being closed keeps that reason. But its journal must not answer behind this what is on other
            // disks alone, unless the labels have said before that this one is out.
            if !self.is_called_out(disk) {
                self.stop(&error);
            }
        }
        if is_back {
            return;
        }
        if is_new {
            self.tell_out(disk, reason);
        }
        self.journal.keep_holders(|holder| holder != disk);
        self.work.ring();
        self.upkeep.ring();
    }

    /// Whether the labels say already that a disk is not in.
    fn is_called_out(&self, disk: DiskId) -> bool {
        let state = self.lock();
        state.label.member(disk).is_none_or(|member| member.state != MemberState::Active)
    }

    /// A disk refused a write; it may go out for that.
    pub(crate) fn disk_refused(&self, disk: DiskId, error: BlockError) {
        let member = self.raid.disks().get(disk);
        member.into_iter().for_each(|member| member.refused(error));
    }

    /// What operators are told of an error that ends the array or keeps it from being opened: the reason
    /// behind it, if that is space which disks lack.
    pub(crate) fn reason_of(&self, error: &ArrayError) -> ArrayError {
        let follows = matches!(
            error,
            ArrayError::Io(_)
                | ArrayError::LastHolder(_)
                | ArrayError::Lost
                | ArrayError::Unflushed
                | ArrayError::Incomplete(_)
        );
        let full = self.raid.disks().all().into_iter().filter(|disk| disk.is_full());
        let full: Vec<String> = full.map(|disk| disk.name().to_owned()).collect();
        if follows && !full.is_empty() { ArrayError::DisksFull(full) } else { error.clone() }
    }

    /// What a disk has that goes out now.
    pub(crate) fn since(&self) -> Since {
        Since { checkpoint: self.lock().checkpoint, position: self.journal.since() }
    }

    /// Nothing is written to a disk any more. Who finds it so waits until the labels say it.
    pub(crate) fn shut(&self, disk: DiskId) {
        let Some(member) = self.raid.disks().get(disk) else { return };
        member.close();
        // What it took since the last flush may be gone when it is back. If that is so of more disks
        // than the level survives, checksums tell what is not.
        for (set, stripe) in self.touched.all() {
            // One that was dissolved since holds nothing.
            if let Some(set) = self.sets.find(set) {
                set.mark_stale(stripe, disk);
            }
        }
        let has_seat = |set: Arc<Set>| set.seats().iter().any(|seat| seat.disk == disk);
        self.raid.take_halves_back(disk, &|set| self.sets.find(set).is_some_and(has_seat));
        for set in self.sets.all() {
            set.take_back(disk);
            if member.access() == Access::None {
                set.mark_all_stale(disk);
            }
        }
        // At once, before hosts take the room that volumes need which it was one disk too many for.
        self.keep_room();
    }

    /// Nothing is read from a disk any more either.
    pub(crate) fn give_up(&self, disk: DiskId) {
        self.shut(disk);
        if let Some(member) = self.raid.disks().get(disk) {
            member.set_access(Access::None);
        }
        self.sets.all().iter().for_each(|set| set.mark_all_stale(disk));
    }

    /// Nothing that a disk has counts, whatever is known of what it had.
    pub(crate) fn mark_lacking_all(&self, disk: DiskId) {
        self.sets.all().iter().for_each(|set| set.mark_all_stale(disk));
        self.raid.disks().set_lacks_all(disk, true);
    }

    /// Whether a disk that is put out was in until now; then it is away.
    pub(crate) fn note_away(
        &self,
        label: &Label,
        state: &mut State,
        disk: DiskId,
        reason: &str,
    ) -> bool {
        let is_new = match label.member(disk).map(|record| record.state) {
            Some(MemberState::Active) => true,
            // One that came back and was not up to date yet can fail again.
            Some(MemberState::Stale(_)) => !state.away.contains_key(&disk),
            _ => false,
        };
        if is_new {
            state.away.insert(disk, (self.env.now(), reason.to_owned()));
            if !state.going.contains(&disk) {
                state.space.set_gives(disk, Gives::Seats);
            }
        }
        is_new
    }

    pub(crate) fn tell_out(&self, disk: DiskId, reason: &str) {
        let text = format!("disk {} is out: {reason}", self.disk_name(disk));
        tracing::warn!("{text}");
        let state = &mut *self.lock();
        state.note(self.env.unix_seconds(), text);
        // The journal gets another holder with the next checkpoint.
        self.want_checkpoint(state);
    }

    /// Changes the labels of all disks as [`LabelChange`] says; false when there was nothing to
    /// change. One change at a time, and memory follows when it is durable. None follows when the array has
    /// stopped: nobody is answered any more who could rely on it, and disks that fail one after the other
    /// would leave one that went on alone, by what its label says.
    ///
    /// # Errors
    /// When no label can say it; then nothing counts.
    pub(crate) async fn change_label(
        self: &Arc<Self>,
        decide: impl FnOnce(&Label, &mut State) -> Vec<Event>,
    ) -> Result<bool, ArrayError> {
        let _turn = self.labelling.take().await;
        let (label, events) = {
            let state = &mut *self.lock();
            state.check_open()?;
            let label = state.label.clone();
            let events = decide(&label, state);
            (label, events)
        };
        let Some(mut change) = self.begin_change(&label, events).await? else { return Ok(false) };
        let mut lost: Vec<(DiskId, String)> = Vec::new();
        loop {
            self.lock().check_working()?;
            let refused_it = self.write_label(&change).await;
            let failed: Vec<DiskId> = refused_it.iter().map(|(disk, _)| *disk).collect();
            let since = self.since();
            failed.iter().for_each(|disk| self.shut(*disk));
            lost.extend(refused_it.into_iter().filter(|(disk, _)| label.member(*disk).is_some()));
            match change.clone().written(&failed, since, self.draw_change()) {
                Step::Write(next) => change = *next,
                Step::Durable(label) => {
                    self.follow_label(label, &lost);
                    return Ok(true);
                }
                Step::Refused(Refusal::LastHolder { journal: true, .. }) => {
                    let to = self.move_journal(&failed).await?;
                    let moved = change.moved(to, self.draw_change());
                    change = moved.map_err(|refusal| refused(&refusal))?;
                }
                Step::Refused(refusal) => return Err(refused(&refusal)),
            }
        }
    }

    /// The change that `events` make. If the last disk with the journal is to go, the journal
    /// goes to others first.
    async fn begin_change(
        self: &Arc<Self>,
        label: &Label,
        mut events: Vec<Event>,
    ) -> Result<Option<LabelChange>, ArrayError> {
        match LabelChange::begin(label, &events, self.draw_change()) {
            Err(Refusal::LastHolder { disk, journal: true }) => {
                let to = self.move_journal(&[disk]).await?;
                events.insert(0, Event::HoldJournal(to));
                let begun = LabelChange::begin(label, &events, self.draw_change());
                begun.map_err(|refusal| refused(&refusal))
            }
            begun => begun.map_err(|refusal| refused(&refusal)),
        }
    }

    /// The label is durable: memory says the same, and disks that did not take it are away.
    fn follow_label(&self, label: Label, lost: &[(DiskId, String)]) {
        let mut out = Vec::new();
        {
            let state = &mut *self.lock();
            let old = std::mem::replace(&mut state.label, label);
            for (disk, why) in lost {
                // Nothing is written any more to one that is about to be declared failed.
                let reason = match state.condemned.contains(disk) {
                    true => CONDEMNED,
                    false => why,
                };
                if self.note_away(&old, state, *disk, reason) {
                    out.push((*disk, reason));
                }
            }
        }
        for (disk, reason) in out {
            self.tell_out(disk, reason);
            self.journal.keep_holders(|holder| holder != disk);
            self.work.ring();
            self.upkeep.ring();
        }
    }

    fn draw_change(&self) -> ChangeId {
        ChangeId(self.env.random())
    }

    /// Writes a label to those that must have it, and then to others that are in: disks that were out and get what they
    /// missed. Those carry no label that was cut off, as it counts by then. Who did not take it, and why.
    async fn write_label(&self, change: &LabelChange) -> Vec<(DiskId, String)> {
        let (label, required) = (change.label(), change.writes());
        if mutants::is(Mutant::NoGeneration) && !change.is_joining() {
            return Vec::new();
        }
        let is_early = mutants::is(Mutant::EarlyOthers) && !change.is_joining();
        let is_required = |disk: &Disk| is_early || required.contains(&disk.id());
        let is_other = |disk: &Disk| !is_required(disk) && label.member(disk.id()).is_some();
        let written = self.write_to(label, is_required).await;
        // Who was not asked is out for a reason that is known by now.
        let unasked = required.iter().filter(|d| written.iter().all(|(disk, _)| disk != *d));
        let unasked: Vec<_> =
            unasked.map(|disk| (*disk, "it does not take its label".into())).collect();
        let refused = written.into_iter().filter_map(|(disk, why)| Some((disk, why?)));
        let refused: Vec<_> = refused.chain(unasked).collect();
        if change.is_joining() || !refused.is_empty() {
            return refused;
        }
        let written = self.write_to(label, is_other).await;
        written.into_iter().filter_map(|(disk, why)| Some((disk, why?))).collect()
    }

    /// Writes a label to those of the disks in use that are meant: which they were, and why one did not take it.
    async fn write_to(
        &self,
        label: &Label,
        is_meant: impl Fn(&Disk) -> bool,
    ) -> Vec<(DiskId, Option<String>)> {
        let mut disks = self.raid.disks().all();
        disks.retain(|disk| disk.access() == Access::Full && is_meant(disk));
        let writes = disks.iter().map(|disk| async move {
            let (device, own) = (&**disk.device(), label.for_disk(disk.id()));
            let written = match self.is_renewed(&own) {
                true => label::renew(device, &own).await,
                false => label::write(device, &own).await,
            };
            if let Err(error) = &written {
                tracing::warn!(disk = disk.name(), %error, "its label could not be written");
                if let LabelError::Disk(error) = error {
                    disk.refused(*error);
                }
            }
            (disk.id(), written.err().map(|error| format!("it does not take its label: {error}")))
        });
        join_all(writes).await
    }

    /// Whether a disk must have a whole label before it gets this one: not if it joins with it, or is known
    /// to have lost its tail.
    fn is_renewed(&self, own: &Label) -> bool {
        let state = self.lock();
        let is_known = own.own().state.lacks_all() || state.waived.contains_key(&own.disk);
        state.label.member(own.disk).is_some() && !is_known
    }

    /// Others than `failed` get all of the journal, which is in memory.
    async fn move_journal(self: &Arc<Self>, failed: &[DiskId]) -> Result<Vec<DiskId>, ArrayError> {
        let whole = self.journal.filled_holders().into_iter();
        let is_in = |disk: &DiskId| {
            let member = self.raid.disks().get(*disk);
            member.is_some_and(|member| member.access() == Access::Full)
        };
        let mut to: Vec<DiskId> =
            whole.filter(|disk| !failed.contains(disk) && is_in(disk)).collect();
        if to.is_empty() {
            for holder in self.journal_successors(failed) {
                match self.journal.join(&holder).await {
                    Ok(()) => to.push(holder.disk),
                    Err(error) => self.put_out_refusing(holder.disk, error),
                }
            }
        }
        let Some(first) = failed.first().filter(|_| to.is_empty()) else {
            self.note_journal_moved(&to);
            return Ok(to);
        };
        Err(refused(&Refusal::LastHolder { disk: *first, journal: true }))
    }

    /// A disk did not take the journal. A flush of it that failed may be the reason: nothing that it took
    /// before is to be relied on, and the labels say so when whoever changes them now is done.
    fn put_out_refusing(self: &Arc<Self>, disk: DiskId, error: BlockError) {
        tracing::warn!(%error, "disk {} is no holder", disk.0);
        let Some(member) = self.raid.disks().get(disk).filter(|_| !is_passing(error)) else {
            return;
        };
        member.refused(error);
        member.flush_failed(error);
        let core = Arc::clone(self);
        self.env.spawn(Box::pin(async move {
            core.disk_failed(disk, &format!("it cannot hold the journal: {error}")).await;
        }));
    }

    fn note_journal_moved(&self, to: &[DiskId]) {
        let names: Vec<String> = to.iter().map(|disk| self.disk_name(*disk)).collect();
        let text = format!("the journal is on {} now", names.join(", "));
        tracing::warn!("{text}");
        self.lock().note(self.env.unix_seconds(), text);
    }

    fn journal_successors(&self, failed: &[DiskId]) -> Vec<Holder> {
        let (label, leaving) = self.label_and_leaving();
        self.journal_successors_in(&label, &leaving, failed)
    }

    fn label_and_leaving(&self) -> (Label, Vec<DiskId>) {
        let state = self.lock();
        (state.label.clone(), state.about_to_leave())
    }

    fn journal_successors_in(
        &self,
        label: &Label,
        leaving: &[DiskId],
        failed: &[DiskId],
    ) -> Vec<Holder> {
        let disks = self.raid.disks().all();
        let is_usable =
            |disk: &&Arc<Disk>| disk.access() == Access::Full && !failed.contains(&disk.id());
        let usable: Vec<DiskId> = disks.iter().filter(is_usable).map(|disk| disk.id()).collect();
        let chosen = journal_successors(label, &usable, leaving, HOLDERS);
        chosen.into_iter().filter_map(|disk| self.holder(disk)).collect()
    }

    fn holder(&self, disk: DiskId) -> Option<Holder> {
        let member = self.raid.disks().get(disk)?;
        Some(Holder { disk, device: Arc::clone(member.device()) })
    }

    /// What nobody has who is in but this disk, and nobody can take over from it, in words: the newest
    /// checkpoint, or the journal.
    pub(crate) fn held_alone(&self, label: &Label, disk: DiskId) -> Option<&'static str> {
        let is_last =
            |holders: &[DiskId]| holders.contains(&disk) && !self.is_any_left(holders, disk);
        if is_last(&label.holders) {
            return Some("the newest checkpoint");
        }
        let has_heirs = || !self.journal_successors_in(label, &[], &[disk]).is_empty();
        (is_last(&label.journal) && !has_heirs()).then_some("the journal")
    }

    /// Whether another one of these disks is in.
    pub(crate) fn is_any_left(&self, holders: &[DiskId], without: DiskId) -> bool {
        let others = holders.iter().filter(|other| **other != without);
        let mut others = others.filter_map(|other| self.raid.disks().get(*other));
        others.any(|other| other.access() == Access::Full)
    }

    /// The disks that hold checkpoints, as the label says.
    pub(crate) fn holders(&self) -> Vec<Arc<Disk>> {
        let holders = self.lock().label.holders.clone();
        holders.iter().filter_map(|holder| self.raid.disks().get(*holder)).collect()
    }

    /// Disks that should hold the checkpoints too, when some have gone or are about to.
    pub(crate) fn joining_holders(&self) -> Vec<Arc<Disk>> {
        self.next_holders(&self.lock())
    }

    /// Whether a member has yet to begin to hold the checkpoints or the journal, with the next
    /// checkpoint: without it there are too few.
    pub(crate) fn is_to_hold(&self, state: &State, disk: DiskId) -> bool {
        self.next_in_journal(state, &[]).contains(&disk)
            || self.next_holders(state).iter().any(|next| next.id() == disk)
    }

    /// Whether the checkpoints are on fewer disks than they could be, not counting those that are about to
    /// leave, and on this one: it stays until the next checkpoint has brought them to others.
    pub(crate) fn is_needed_for_checkpoints(&self, state: &State, disk: DiskId) -> bool {
        state.label.holders.contains(&disk) && !self.next_holders(state).is_empty()
    }

    /// The same for the journal.
    pub(crate) fn is_needed_for_journal(&self, state: &State, disk: DiskId) -> bool {
        state.label.journal.contains(&disk) && !self.next_in_journal(state, &[]).is_empty()
    }

    fn is_in(&self, disk: DiskId) -> bool {
        self.raid.disks().get(disk).is_some_and(|member| member.access() == Access::Full)
    }

    fn next_holders(&self, state: &State) -> Vec<Arc<Disk>> {
        let label = &state.label;
        let usable: Vec<DiskId> = label.active().filter(|disk| self.is_in(*disk)).collect();
        let next = checkpoint_successors(label, &usable, &state.about_to_leave(), HOLDERS);
        next.into_iter().filter_map(|disk| self.raid.disks().get(disk)).collect()
    }

    /// Disks that should hold the journal and do not.
    pub(crate) fn joining_journal(&self, new: &[Arc<Disk>]) -> Vec<Holder> {
        let new: Vec<DiskId> = new.iter().map(|disk| disk.id()).collect();
        let joining = self.next_in_journal(&self.lock(), &new).into_iter();
        joining.filter_map(|disk| self.holder(disk)).collect()
    }

    /// The same by number: all that are for it alone and those that stand in for others of that kind, or, if
    /// there are none, those that hold the checkpoints and `new` ones that begin to.
    fn next_in_journal(&self, state: &State, new: &[DiskId]) -> Vec<DiskId> {
        let label = &state.label;
        let is_alone = |disk: DiskId| {
            label.member(disk).is_some_and(|record| record.kind == MemberKind::Journal)
        };
        let mut usable: Vec<DiskId> = label.active().filter(|disk| self.is_in(*disk)).collect();
        if !label.active().any(is_alone) {
            usable.retain(|disk| label.holders.contains(disk) || new.contains(disk));
        }
        let mut next = journal_successors(label, &usable, &state.about_to_leave(), HOLDERS);
        next.retain(|disk| !label.journal.contains(disk));
        next
    }

    /// Who holds the journal from now on, of those that have it all: disks that are for it
    /// alone, if there are any.
    pub(crate) fn journal_on(&self, state: &State) -> Vec<DiskId> {
        let label = &state.label;
        let now = self.journal.holders();
        let whole = self.journal.filled_holders();
        let has_it = |disk: &DiskId| {
            now.iter().any(|holder| holder.disk == *disk)
                && (label.journal.contains(disk) || whole.contains(disk))
        };
        let usable: Vec<DiskId> = label.active().filter(has_it).collect();
        journal_successors(label, &usable, &state.about_to_leave(), HOLDERS)
    }
}

fn refused(refusal: &Refusal) -> ArrayError {
    match refusal {
        Refusal::LastHolder { .. } => ArrayError::LastHolder(refusal.to_string()),
        Refusal::DidNotJoin(_) => ArrayError::BadDisk(refusal.to_string()),
    }
}
