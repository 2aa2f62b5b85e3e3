//! What a label says after something has happened, and the order in which it is written.

use crate::DiskId;
use crate::label::{ANCESTORS_MAX, ChangeId, Label, MemberKind, MemberRecord, MemberState, Since};
use crate::mutants::{self, Mutant};

/// Longest name that is remembered of a disk, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Event {
    /// The array goes on without these: they failed, or were not there when it was opened.
    Out {
        /// The disks.
        disks: Vec<DiskId>,
        /// What they have.
        since: Since,
    },
    /// These lack all that they should have: they were cut short, or are older than their labels say.
    LacksAll(Vec<DiskId>),
    /// What a disk lacks that lacked all is recorded by a checkpoint, and the journal says the rest: from here on
    /// it is one that was out since then, and what it is given counts.
    Recorded {
        /// The disk.
        disk: DiskId,
        /// The checkpoint, and where it had the journal begin.
        since: Since,
    },
    /// The journal is lost and begins anew where the last checkpoint had it begin: positions since then are
    /// used again, and who went out in between has nothing of what they stand for now.
    JournalLost(Since),
    /// An operator declared it failed.
    Failed(DiskId),
    /// A disk that was out lacks nothing any more, and that is durable.
    UpToDate(DiskId),
    /// A blank disk is taken in. It gets the next free number.
    Joined {
        /// Drawn at random.
        uuid: [u8; 16],
        /// What it is for.
        kind: MemberKind,
        /// Its size.
        size_bytes: u64,
        /// Where it is.
        name: String,
    },
    /// Nothing is on it any more.
    Left(DiskId),
    /// These hold the newest checkpoint, durably.
    HoldCheckpoints(Vec<DiskId>),
    /// These hold all of the journal, durably, and nobody else is relied on for it.
    HoldJournal(Vec<DiskId>),
    /// Where disks were found.
    Found(Vec<(DiskId, String)>),
    /// Some disk carries an older label.
    Behind,
}

/// Why an event cannot become a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The last disk with the journal, or with the checkpoints, stays in the label.
    #[error("disk {} is the last one that holds the {}", .disk.0, if *.journal { "journal" } else { "checkpoints" })]
    LastHolder {
        /// The disk.
        disk: DiskId,
        /// What only it has: the journal, or the checkpoints.
        journal: bool,
    },
    /// The disk that was to join did not take its label.
    #[error("disk {} does not take its label", .0.0)]
    DidNotJoin(DiskId),
}

/// The label after `events`; `None` when they change nothing.
///
/// # Errors
/// [`Refusal::LastHolder`].
pub fn next_label(
    label: &Label,
    events: &[Event],
    change: ChangeId,
) -> Result<Option<Label>, Refusal> {
    let mut next = label.clone();
    let mut is_changed = false;
    for event in events {
        is_changed |= apply(&mut next, event)?;
    }
    if !is_changed {
        return Ok(None);
    }
    next.generation += 1;
    next.went_out = went_out(label, &next);
    next.change = change;
    next.ancestors.insert(0, label.change);
    next.ancestors.truncate(ANCESTORS_MAX);
    assert!(label.led_to(&next), "a label comes of the one before");
    Ok(Some(next))
}

/// Who is out by the label `next`, and since which one.
fn went_out(label: &Label, next: &Label) -> Vec<(DiskId, u64)> {
    let out = next.members.iter().filter(|record| matches!(record.state, MemberState::Stale(_)));
    let since = |disk: DiskId| {
        let was_in = label.member(disk).is_some_and(|was| was.state == MemberState::Active);
        if was_in { Some(next.generation) } else { label.went_out_in(disk) }
    };
    out.filter_map(|record| Some((record.disk, since(record.disk)?))).collect()
}

/// The number of the next disk that joins: none is used twice.
#[must_use]
pub fn next_number(label: &Label) -> DiskId {
    DiskId(label.members.iter().map(|record| record.disk.0 + 1).max().unwrap_or(0))
}

fn apply(label: &mut Label, event: &Event) -> Result<bool, Refusal> {
    match event {
        Event::Out { disks, since } => {
            let mut any = false;
            for disk in disks {
                any |= leave(label, *disk, MemberState::Active, MemberState::Stale(*since))?;
            }
            Ok(any)
        }
        Event::LacksAll(disks) => {
            let mut any = false;
            for disk in disks {
                any |= lack_all(label, *disk)?;
            }
            Ok(any)
        }
        Event::Recorded { disk, since } => {
            assert!(*since > Since::NEVER, "a checkpoint has recorded it");
            let record = label.members.iter_mut().find(|record| record.disk == *disk);
            let lacking = record.filter(|record| record.state.lacks_all());
            Ok(lacking.map(|record| record.state = MemberState::Stale(*since)).is_some())
        }
        Event::JournalLost(since) => Ok(begin_anew(label, *since)),
        Event::Failed(disk) => {
            let Some(state) = label.member(*disk).map(|record| record.state) else {
                return Ok(false);
            };
            let is_in = matches!(state, MemberState::Active | MemberState::Stale(_));
            Ok(is_in && leave(label, *disk, state, MemberState::Failed)?)
        }
        Event::Left(disk) => {
            let Some(state) = label.member(*disk).map(|record| record.state) else {
                return Ok(false);
            };
            Ok(state != MemberState::Retired && leave(label, *disk, state, MemberState::Retired)?)
        }
        Event::UpToDate(disk) => {
            let record = label.members.iter_mut().find(|record| record.disk == *disk);
            let stale = record.filter(|record| matches!(record.state, MemberState::Stale(_)));
            Ok(stale.map(|record| record.state = MemberState::Active).is_some())
        }
        Event::Joined { uuid, kind, size_bytes, name } => {
            label.members.push(MemberRecord {
                disk: next_number(label),
                uuid: *uuid,
                size_bytes: *size_bytes,
                state: MemberState::Active,
                kind: *kind,
                name: short(name),
            });
            Ok(true)
        }
        Event::HoldCheckpoints(disks) => {
            let new = active_of(label, disks);
            let new: Vec<_> = new.into_iter().filter(|d| !label.holders.contains(d)).collect();
            label.holders.extend(&new);
            Ok(!new.is_empty())
        }
        Event::HoldJournal(disks) => {
            let mut now = active_of(label, disks);
            now.sort_unstable();
            now.dedup();
            let is_new = !now.is_empty() && now != label.journal;
            if is_new {
                label.journal = now;
            }
            Ok(is_new)
        }
        Event::Found(names) => Ok(rename(label, names)),
        Event::Behind => Ok(true),
    }
}

/// Takes a member out of `from`, and out of what it held.
fn leave(
    label: &mut Label,
    disk: DiskId,
    from: MemberState,
    to: MemberState,
) -> Result<bool, Refusal> {
    let record = label.members.iter_mut().find(|record| record.disk == disk);
    let Some(record) = record.filter(|record| record.state == from) else { return Ok(false) };
    record.state = to;
    let bare = mutants::is(Mutant::BareHolders).then(|| label.active().collect::<Vec<DiskId>>());
    for (journal, holders) in [(true, &mut label.journal), (false, &mut label.holders)] {
        if !holders.is_empty() && holders.iter().all(|holder| *holder == disk) {
            if let Some(others) = bare.as_ref().filter(|_| journal) {
                holders.clone_from(others);
            } else if !mutants::is(Mutant::LastLeaves) {
                return Err(Refusal::LastHolder { disk, journal });
            }
        }
        holders.retain(|holder| *holder != disk);
    }
    Ok(true)
}

/// Who went out beyond where the journal begins anew has nothing of what it says from there on.
fn begin_anew(label: &mut Label, since: Since) -> bool {
    let mut any = false;
    for record in &mut label.members {
        if let MemberState::Stale(was) = &mut record.state
            && was.position > since.position
            && !mutants::is(Mutant::OldDates)
        {
            *was = Since { checkpoint: was.checkpoint.min(since.checkpoint), ..since };
            any = true;
        }
    }
    any
}

/// Nothing that a member has counts any more.
fn lack_all(label: &mut Label, disk: DiskId) -> Result<bool, Refusal> {
    let Some(record) = label.member(disk).filter(|record| record.is_used()) else {
        return Ok(false);
    };
    let state = record.state;
    Ok(!state.lacks_all() && leave(label, disk, state, MemberState::Stale(Since::NEVER))?)
}

fn active_of(label: &Label, disks: &[DiskId]) -> Vec<DiskId> {
    let is_active = |disk: &&DiskId| {
        label.member(**disk).is_some_and(|record| record.state == MemberState::Active)
    };
    disks.iter().filter(is_active).copied().collect()
}

fn rename(label: &mut Label, names: &[(DiskId, String)]) -> bool {
    let mut any = false;
    for (disk, name) in names {
        let name = short(name);
        if let Some(record) = label.members.iter_mut().find(|record| record.disk == *disk)
            && record.name != name
        {
            record.name = name;
            any = true;
        }
    }
    any
}

/// As much of a name as a label holds.
pub(super) fn short(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

/// A change of the label on its way to the disks. Whatever has to be added to it on the way, its
/// label comes straight of one that was relied on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LabelChange {
    /// The label that counts until this one does.
    pub(super) base: Label,
    pub(super) events: Vec<Event>,
    /// What is to be written.
    pub(super) next: Label,
    /// Members that are new in it and do not carry it yet: they take it before anybody else, so
    /// that a cut leaves a member that is there, or none.
    pub(super) joining: Vec<DiskId>,
}

/// How a change goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Write again: see [`LabelChange::writes`].
    Write(Box<LabelChange>),
    /// It counts from now on.
    Durable(Label),
    /// It cannot be. Some disks may carry it; it was not relied on.
    Refused(Refusal),
}

impl LabelChange {
    /// Begins a change; `None` when there is nothing to change.
    ///
    /// # Errors
    /// [`Refusal::LastHolder`].
    pub fn begin(
        label: &Label,
        events: &[Event],
        change: ChangeId,
    ) -> Result<Option<Self>, Refusal> {
        let Some(next) = next_label(label, events, change)? else { return Ok(None) };
        let is_beside = mutants::is(Mutant::JoinBeside);
        let is_new = |disk: &DiskId| label.member(*disk).is_none() && !is_beside;
        let joining = next.active().filter(is_new).collect();
        Ok(Some(Self { base: label.clone(), events: events.to_vec(), next, joining }))
    }

    /// The label that is to be written.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.next
    }

    /// Whether those that join are to take it, and nobody else yet.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        !self.joining.is_empty()
    }

    /// The disks that must take it now; others may.
    #[must_use]
    pub fn writes(&self) -> Vec<DiskId> {
        match self.joining.is_empty() {
            true => self.next.active().collect(),
            false => self.joining.clone(),
        }
    }

    /// All writes ended, and these disks did not take theirs. They are out, with what they have
    /// by `since`; then a label that says so too has to be written.
    #[must_use]
    pub fn written(self, failed: &[DiskId], since: Since, change: ChangeId) -> Step {
        if let Some(disk) = self.joining.iter().find(|disk| failed.contains(disk)) {
            return Step::Refused(Refusal::DidNotJoin(*disk));
        }
        if !self.joining.is_empty() {
            return Step::Write(Box::new(Self { joining: Vec::new(), ..self }));
        }
        let out: Vec<DiskId> = self.next.active().filter(|disk| failed.contains(disk)).collect();
        if out.is_empty() {
            return Step::Durable(self.next);
        }
        let mut events = self.events.clone();
        events.push(Event::Out { disks: out, since });
        self.again(events, change).map_or_else(Step::Refused, |next| Step::Write(Box::new(next)))
    }

    /// The journal is on other disks now: one of those that held it did not take this label.
    ///
    /// # Errors
    /// [`Refusal::LastHolder`].
    pub fn moved(self, journal: Vec<DiskId>, change: ChangeId) -> Result<Self, Refusal> {
        let mut events = self.events.clone();
        events.push(Event::HoldJournal(journal));
        self.again(events, change)
    }

    fn again(self, events: Vec<Event>, change: ChangeId) -> Result<Self, Refusal> {
        let next = next_label(&self.base, &events, change)?;
        let next = next.expect("more happened than before");
        Ok(Self { events, next, joining: Vec::new(), base: self.base })
    }
}
