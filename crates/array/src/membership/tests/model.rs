//! A few disks, one stripe, one journal: what the array does with the rules, one write of a disk
//! after the other, so that a crash can come between any two and tear any of them.
//!
//! Disks hold what counts here and nothing else: a label, the journal as a list of batches, two
//! checkpoint slots, two halves of the redo area, the version of one stripe that is changed in
//! place, and which stripes that were written whole.

// One step after the other, in the order in which they happen, reads best in one piece; and worlds
// are copied as a whole anyway.
#![allow(clippy::too_many_lines, clippy::large_enum_variant, clippy::needless_pass_by_value)]

use std::rc::Rc;

mod image;
mod key;
mod settle;

use super::*;
use crate::membership::{
    Event, LabelChange, Lack, OpenRefusal, Opening, Refusal, SetDisks, Step, WaveId,
    checkpoint_successors, choose, gets_checkpoint, gets_wave, has_missed, is_unflushed,
    journal_successors, lack_of, may_return, notes_redone, takes_place, waves_to_redo,
};

/// A mistake in what the model does by itself; those in the rules are [`crate::mutants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// A disk that stands in for one that is for the journal alone counts without having it.
    EmptyStandIn,
    /// A disk is written to again before it knows that it was out.
    LaxReturn,
    /// Who is not there is written down after the first changes.
    LateLabels,
    /// Memory follows a label before it is durable.
    EarlyLabel,
    /// What a disk lacks that was cut short counts as recorded before it is.
    HastyRecord,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Batch {
    /// A small write: its contents are in the journal.
    Small(u8),
    /// A stripe that was written whole, to a new place.
    Whole(u8),
    /// The stripe has this version in place.
    Written { checkpoint: u8, version: u8 },
}

/// A checkpoint record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    number: u8,
    /// Where the journal begins.
    mark: usize,
    /// The stripe in place, which of its seats lack that, and the seats.
    version: u8,
    stale: u8,
    seats: Vec<u8>,
    /// Stripes that were written whole, and who lacks which.
    whole: u8,
    lacks: Vec<u8>,
    /// The number that each disk was marked with last.
    marks: Vec<u8>,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) label: Option<Rc<Label>>,
    pub(super) refuses: bool,
    /// It was cut short, and its end is blank.
    is_cut: bool,
    /// It is what it was at an earlier time.
    is_image: bool,
    /// The last checkpoint that has marked it.
    mark: u8,
    ring: Rc<Vec<Batch>>,
    slots: [Option<Rc<Record>>; 2],
    waves: [Option<(WaveId, u8)>; 2],
    version: u8,
    whole: u8,
}

/// What goes on after the labels say it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum After {
    Idle,
    Open,
    Sealed,
    Ack(Batch),
    Go(Phase),
}

/// What the running array does next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Labels(Rc<LabelChange>, Rc<After>),
    /// Opening: copies of checkpoint and journal, redo, its note.
    Renew,
    Redo,
    NoteRedo,
    Idle,
    /// A checkpoint: waves of other stripes, its own, in place, noted, waves again, the record.
    Wave,
    Put,
    Note,
    Record,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Run {
    label: Rc<Label>,
    /// Disks that are written to.
    full: u8,
    phase: Phase,
    journal: Rc<Vec<Batch>>,
    /// The last durable one; its `stale`, `seats`, `version`, `whole` and `lacks` as memory has them
    /// are in `now`.
    last: Rc<Record>,
    now: Record,
    known: u8,
    redo: Vec<u8>,
    waves: Vec<(WaveId, u8)>,
    next_wave: u64,
    /// Seat and disk of a replacement that was given everything.
    replacement: Option<(usize, u8)>,
    joined: u8,
    /// Disks that were written to since they were marked last.
    touched: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct World {
    pub(super) disks: Vec<Disk>,
    run: Option<Run>,
    losses: usize,
    pub(super) crashes: u8,
    pub(super) faults: u8,
    pub(super) orders: u8,
    cuts: u8,
    /// Images that were taken, and those put back.
    images: u8,
    image: Option<(u8, Rc<Disk>)>,
    writes: u8,
    next_change: u64,
    /// Later changes have lower numbers: between labels that are alike the rules take the lowest.
    counts_down: bool,
    /// What was answered, under which label.
    acks: Vec<(Rc<Label>, Batch)>,
    /// Labels that were relied on and did not lead to each other.
    tips: Vec<Rc<Label>>,
}

/// What may happen how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) disks: u16,
    pub(super) journal_disks: u16,
    pub(super) spare: bool,
    pub(super) losses: usize,
    pub(super) crashes: u8,
    pub(super) faults: u8,
    pub(super) orders: u8,
    /// Disks that are cut short while the machine is off.
    pub(super) cuts: u8,
    /// Images of disks that are taken while the machine is off, and put back at a later such time.
    pub(super) images: u8,
    pub(super) writes: u8,
    /// Stripes are written whole as well.
    pub(super) whole: bool,
    /// Data disks without a seat in the stripe.
    pub(super) seatless: u16,
    /// Numbers of changes, which are drawn at random, become lower and not higher.
    pub(super) counts_down: bool,
}

impl Record {
    /// Nothing that a disk has counts.
    fn lack_all(&mut self, disk: u8) {
        if self.seats.contains(&disk) {
            self.stale |= bit(disk);
        }
        self.lacks[usize::from(disk)] = self.whole;
    }
}

/// What a disk has of the stripe that lost it.
const GARBAGE: u8 = 99;

fn found_cut(label: &Label, is_cut: bool) -> Found {
    Found::Label { label: Box::new(label.clone()), rewrite: is_cut, is_cut }
}

pub(super) type Next = Result<World, String>;

fn bit(disk: u8) -> u8 {
    1 << disk
}

fn ids(mask: u8) -> Vec<DiskId> {
    (0..8).filter(|disk| mask & bit(*disk) != 0).map(|disk| DiskId(disk.into())).collect()
}

fn mask(disks: &[DiskId]) -> u8 {
    disks.iter().fold(0, |mask, disk| mask | bit(disk.0 as u8))
}

fn subsets(mask: u8) -> impl Iterator<Item = u8> {
    (0..=mask).filter(move |subset| subset & !mask == 0)
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        let mut label = fresh(limits.disks, limits.journal_disks);
        // Nothing depends on them, and labels are copied often.
        label.members.iter_mut().for_each(|record| record.name.clear());
        let all = (limits.disks + limits.journal_disks) as u8;
        let label = Rc::new(label);
        let record = Rc::new(Record {
            number: 1,
            mark: 0,
            version: 0,
            stale: 0,
            seats: (0..(limits.disks - limits.seatless) as u8).collect(),
            whole: 0,
            lacks: vec![0; usize::from(all) + 1],
            marks: vec![0; usize::from(all) + 1],
        });
        let disk = |number: u8| Disk {
            label: (number < all).then(|| Rc::new(label.for_disk(DiskId(number.into())))),
            refuses: false,
            is_cut: false,
            is_image: false,
            mark: 1,
            ring: Rc::default(),
            slots: match label.holders.contains(&DiskId(number.into())) {
                true => [None, Some(Rc::clone(&record))],
                false => [None, None],
            },
            waves: [None, None],
            version: 0,
            whole: 0,
        };
        Self {
            disks: (0..all + u8::from(limits.spare)).map(disk).collect(),
            run: None,
            losses: limits.losses,
            crashes: 0,
            faults: 0,
            orders: 0,
            cuts: 0,
            images: 0,
            image: None,
            writes: 0,
            next_change: if limits.counts_down { u64::MAX } else { 10 },
            counts_down: limits.counts_down,
            acks: Vec::new(),
            tips: vec![label],
        }
    }

    fn change(&mut self) -> ChangeId {
        match self.counts_down {
            true => self.next_change -= 1,
            false => self.next_change += 1,
        }
        ChangeId(self.next_change)
    }

    fn run(&self) -> &Run {
        self.run.as_ref().expect("the machine runs")
    }

    fn run_mut(&mut self) -> &mut Run {
        self.run.as_mut().expect("the machine runs")
    }

    fn crashed(&self) -> Self {
        Self { run: None, crashes: self.crashes + 1, ..self.clone() }
    }

    /// Does `write` on each disk of `to` that takes it. Every crash in the middle goes to `out`;
    /// who did not take it is returned.
    fn write(
        &mut self,
        to: u8,
        limits: &Limits,
        out: &mut Vec<Next>,
        write: impl Fn(&mut Disk, u8),
    ) -> u8 {
        let takes = (0..self.disks.len() as u8)
            .filter(|disk| to & bit(*disk) != 0 && !self.disks[usize::from(*disk)].refuses)
            .fold(0, |mask, disk| mask | bit(disk));
        if self.crashes < limits.crashes {
            for subset in subsets(takes) {
                let mut torn = self.crashed();
                ids(subset)
                    .iter()
                    .for_each(|d| write(&mut torn.disks[usize::from(d.0)], d.0 as u8));
                out.push(Ok(torn));
            }
        }
        ids(takes).iter().for_each(|d| write(&mut self.disks[usize::from(d.0)], d.0 as u8));
        to & !takes
    }

    /// All that can happen next.
    pub(super) fn nexts(&self, limits: &Limits, flaw: Flaw) -> Vec<Next> {
        let mut out = Vec::new();
        for disk in 0..self.disks.len() {
            if self.disks[disk].refuses {
                let mut next = self.clone();
                next.disks[disk].refuses = false;
                out.push(Ok(next));
            }
        }
        match &self.run {
            None => {
                self.cut(limits, &mut out);
                self.image(limits, &mut out);
                self.start(limits, flaw, &mut out);
            }
            Some(run) => {
                self.fault(limits, &mut out);
                match run.phase.clone() {
                    Phase::Idle => self.idle(limits, flaw, &mut out),
                    phase => self.clone().go(phase, limits, flaw, &mut out),
                }
            }
        }
        out
    }

    fn fault(&self, limits: &Limits, out: &mut Vec<Next>) {
        // Where it makes a difference: before something is written.
        for disk in 0..self.disks.len() {
            if self.faults < limits.faults && !self.disks[disk].refuses {
                let mut next = self.clone();
                next.disks[disk].refuses = true;
                next.faults += 1;
                out.push(Ok(next));
            }
        }
    }

    /// A disk loses what lies in its tail, and keeps its head: labels, checkpoints, redo, journal.
    fn cut(&self, limits: &Limits, out: &mut Vec<Next>) {
        for disk in (0..self.disks.len()).filter(|disk| self.disks[*disk].label.is_some()) {
            if self.cuts < limits.cuts {
                let mut next = self.clone();
                next.cuts += 1;
                let disk = &mut next.disks[disk];
                (disk.is_cut, disk.version, disk.whole) = (true, GARBAGE, 0);
                out.push(Ok(next));
            }
        }
    }

    /// Whether disks that have lost all, and no others, are known to have.
    fn check_lacking(&self, opening: &Opening, there: u8) -> Result<(), String> {
        for number in ids(there) {
            let disk = &self.disks[usize::from(number.0)];
            let is_known = opening.lacking.iter().any(|(other, _)| *other == number);
            let own = disk.label.as_ref().and_then(|label| label.member(number));
            let knows = own.is_some_and(|own| own.state.lacks_all());
            let is_used = opening.label.member(number).is_some_and(MemberRecord::is_used);
            // An image that was put back lacks all until a checkpoint marks it again, whatever its label says.
            if is_known && !disk.is_cut && self.images == 0 && !knows {
                return Err(format!("disk {} has all, and passes for one that lacks it", number.0));
            }
            if is_used && disk.is_cut && !is_known {
                return Err(format!("disk {} was cut short, and nobody knows", number.0));
            }
        }
        Ok(())
    }

    /// Starts with some of the disks.
    fn start(&self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let labelled = self.labelled();
        for there in subsets(labelled).filter(|there| *there != 0) {
            self.start_with(there, limits, flaw, out);
        }
    }

    /// Disks with a label.
    fn labelled(&self) -> u8 {
        let labelled =
            (0..self.disks.len() as u8).filter(|d| self.disks[usize::from(*d)].label.is_some());
        labelled.fold(0, |mask, disk| mask | bit(disk))
    }

    fn start_with(&self, there: u8, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let labelled = self.labelled();
        let numbers = ids(there);
        let found: Vec<(String, Found)> = numbers
            .iter()
            .map(|disk| {
                let label = self.disks[usize::from(disk.0)].label.as_deref().expect("labelled");
                let is_cut = self.disks[usize::from(disk.0)].is_cut;
                (String::new(), found_cut(label, is_cut))
            })
            .collect();
        match choose(&found, false) {
            Err(refusal) => {
                let why = refusal.to_string();
                let wrong = self.must_open(there, labelled, &why);
                let wrong = wrong.and_then(|()| self.check_named(there, labelled, &refusal));
                out.extend(wrong.err().map(Err));
            }
            Ok(mut opening) => match self.load(&mut opening, &numbers) {
                Err(why) if why == image::NEEDED => {}
                Err(why) => out.extend(self.must_open(there, labelled, &why).err().map(Err)),
                Ok(mut run) => {
                    if let Err(why) = self.check_opened(&opening, &run, there) {
                        out.push(Err(why));
                        return;
                    }
                    // What has nobody else is used as it is: that is no loss of the rules.
                    if !opening.waived.is_empty() {
                        return;
                    }
                    if let Err(why) = self.check_lacking(&opening, there) {
                        out.push(Err(why));
                        return;
                    }
                    let mut next = self.clone();
                    let since = Since {
                        checkpoint: run.last.number.into(),
                        position: run.journal.len() as u64,
                    };
                    let first = opening.first_events(&found, since);
                    run.phase = Phase::Renew;
                    let label = run.label.clone();
                    next.run = Some(run);
                    if flaw != Flaw::LateLabels {
                        next.relabel(&label, first, After::Open, flaw);
                    }
                    next.clone().step(limits, flaw, out);
                }
            },
        }
    }

    fn step(self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        match self.run.as_ref().map(|run| run.phase.clone()) {
            Some(Phase::Idle) | None => out.push(Ok(self)),
            Some(phase) => self.go(phase, limits, flaw, out),
        }
    }

    /// What is believed of what the disks hold.
    fn load(&self, opening: &mut Opening, numbers: &[DiskId]) -> Result<Run, String> {
        let label = Rc::new(opening.label.clone());
        let disk = |id: &DiskId| &self.disks[usize::from(id.0)];
        let has_all = label.holders.iter().filter(|disk| opening.has_all(**disk));
        let holders: Vec<DiskId> = has_all.copied().collect();
        let records = holders.iter().flat_map(|holder| disk(holder).slots.iter().flatten());
        let last = records.max_by_key(|record| record.number).cloned().ok_or("no checkpoint")?;
        if self.images > 0 {
            self.leave_old_ones(opening, &last)?;
        }
        let opening = &*opening;
        let current = |wanted: &[DiskId]| -> Vec<DiskId> {
            wanted.iter().copied().filter(|disk| opening.has_all(*disk)).collect()
        };
        let holders = current(&label.holders);
        let rings = current(&label.journal);
        let rings = rings.iter().map(|holder| &disk(holder).ring);
        let journal = rings.max_by_key(|ring| ring.len()).cloned().ok_or("no journal")?;
        if journal.len() < last.mark {
            return Err("the journal ends before the checkpoint".into());
        }
        let mut now = Record::clone(&last);
        let mut known = last.version;
        for (position, batch) in journal.iter().enumerate().skip(last.mark) {
            let missed = |d: &u8| {
                let record = label.member(DiskId((*d).into()));
                record.is_none_or(|record| has_missed(record.state, position as u64))
            };
            match batch {
                Batch::Small(_) => {}
                Batch::Whole(write) => {
                    now.whole |= bit(*write);
                    for seat in now.seats.clone().iter().filter(|seat| missed(seat)) {
                        now.lacks[usize::from(*seat)] |= bit(*write);
                    }
                }
                Batch::Written { checkpoint, version } if *checkpoint > last.number => {
                    known = *version;
                    let missed = now.seats.iter().filter(|seat| missed(seat));
                    now.stale |= missed.fold(0, |mask, seat| mask | bit(*seat));
                }
                Batch::Written { .. } => {}
            }
        }
        let found: Vec<(WaveId, u8)> = holders
            .iter()
            .flat_map(|holder| disk(holder).waves.iter().flatten().copied())
            .collect();
        let waves: Vec<WaveId> = found.iter().map(|(id, _)| *id).collect();
        let redo = waves_to_redo(&waves, last.number.into());
        let next_wave = redo.last().map_or(0, |index| found[*index].0.wave + 1);
        let waves: Vec<(WaveId, u8)> = redo.into_iter().map(|index| found[index]).collect();
        let redo: Vec<u8> = waves.iter().map(|(_, version)| *version).filter(|v| *v > 0).collect();
        let full = opening.current.iter().chain(opening.stale.iter().map(|(p, _)| p));
        let full = full.fold(0, |mask, present| mask | bit(present.disk.0 as u8));
        let knows = opening
            .stale
            .iter()
            .map(|(present, _)| present.disk)
            .filter(|disk| label.member(*disk).is_some_and(|record| record.state.lacks_all()));
        for disk in opening.lacking.iter().map(|(disk, _)| *disk).chain(knows) {
            now.lack_all(disk.0 as u8);
        }
        let lacks = |seat: &u8| now.stale & bit(*seat) != 0 || now.lacks[usize::from(*seat)] != 0;
        let members = now.seats.iter().map(|seat| (DiskId((*seat).into()), lacks(seat)));
        let set = SetDisks { members: members.collect(), losses_max: self.losses };
        opening.check_sets([set.clone()]).map_err(|refusal| refusal.to_string())?;
        let there = set.members.iter().map(|(disk, _)| (*disk, false)).collect();
        let there = SetDisks { members: there, losses_max: self.losses };
        if !redo.is_empty() && !opening.bears(&there) {
            return Err("unfinished".into());
        }
        assert!(numbers.len() >= opening.current.len());
        let (phase, replacement, joined) = (Phase::Idle, None, 0);
        Ok(Run {
            label,
            full,
            phase,
            journal,
            last,
            now,
            known,
            redo,
            waves,
            next_wave,
            replacement,
            joined,
            touched: 0,
        })
    }

    /// A refusal must be right.
    fn must_open(&self, there: u8, labelled: u8, why: &str) -> Result<(), String> {
        let tips = self.newest_labels();
        let Some(tip) = tips.first().filter(|tip| tips.iter().all(|other| other.led_to(tip)))
        else {
            return Ok(());
        };
        let active = mask(&tip.active().collect::<Vec<_>>());
        let is_less = |disk: &Disk| disk.is_cut || disk.is_image;
        let cut =
            (0..self.disks.len() as u8).filter(|disk| is_less(&self.disks[usize::from(*disk)]));
        let has_images = ids(there).iter().any(|disk| self.disks[usize::from(disk.0)].is_image);
        let whole = there & !cut.fold(0, |mask, disk| mask | bit(disk));
        let missing = active & !whole;
        let holds = |holders: &[DiskId]| mask(holders) & whole != 0;
        let is_whole = active.count_ones() as usize == self.disks_of(tip);
        let few = missing.count_ones() as usize <= self.losses.min(1) && is_whole;
        // One that carries a change which was cut off may have been relied on with those missing.
        let is_known = ids(there).iter().all(|disk| {
            self.disks[usize::from(disk.0)].label.as_ref().is_some_and(|label| label.led_to(tip))
        });
        let bears = holds(&tip.journal) && holds(&tip.holders) && few && is_known;
        if there == labelled && !has_images || bears {
            return Err(format!("refused with disks {there:b} of {labelled:b}: {why}"));
        }
        Ok(())
    }

    /// The labels that may have been relied on, as far as anybody can tell by what the disks carry,
    /// and that led to no other such; two when two parts went on without each other.
    fn newest_labels(&self) -> Vec<&Label> {
        let carried = |disk: DiskId| self.disks[usize::from(disk.0)].label.as_deref();
        let labels: Vec<&Label> =
            self.disks.iter().filter_map(|disk| disk.label.as_deref()).collect();
        let is_complete = |label: &Label| {
            label.active().all(|disk| carried(disk).is_some_and(|other| label.led_to(other)))
        };
        let is_newest = |label: &&&Label| {
            let newer = |other: &&Label| {
                is_complete(other) && label.change != other.change && label.led_to(other)
            };
            is_complete(label) && !labels.iter().any(newer)
        };
        labels.iter().filter(is_newest).copied().chain(self.tips.iter().map(|tip| &**tip)).collect()
    }

    fn disks_of(&self, label: &Label) -> usize {
        label.members.iter().filter(|record| record.is_used()).count()
    }

    /// An opening that is allowed finds what was answered.
    fn check_opened(&self, opening: &Opening, run: &Run, there: u8) -> Result<(), String> {
        for (label, batch) in &self.acks {
            if !label.led_to(&opening.label) {
                let knows = ids(there).into_iter().find(|disk| {
                    let carried = self.disks[usize::from(disk.0)].label.as_ref();
                    carried.is_some_and(|carried| {
                        label.led_to(carried)
                            && label.member(*disk).is_some_and(|r| r.state == MemberState::Active)
                    })
                });
                match knows {
                    // Beside an image the newest label looks as if it had been cut off; what it says counts.
                    Some(_) if self.images > 0 => {}
                    Some(disk) => {
                        return Err(format!("disk {} went on alone and is overwritten", disk.0));
                    }
                    None => continue,
                }
            }
            let is_found = match batch {
                Batch::Whole(write) => run.now.whole & bit(*write) != 0,
                batch => run.journal.contains(batch),
            };
            if !is_found {
                return Err(format!("{batch:?} was answered and is not found"));
            }
        }
        Ok(())
    }

    /// What is believed of each disk is true.
    fn check_believed(&self) -> Result<(), String> {
        let run = self.run();
        let mut good = 0;
        for seat in &run.now.seats {
            let disk = &self.disks[usize::from(*seat)];
            if run.full & bit(*seat) == 0 || run.now.stale & bit(*seat) != 0 {
                continue;
            }
            if disk.version != run.known {
                let (has, known) = (disk.version, run.known);
                return Err(format!("disk {seat} has version {has}, believed is {known}"));
            }
            good += 1;
            let wanted = run.now.whole & !run.now.lacks[usize::from(*seat)];
            if disk.whole & wanted != wanted {
                return Err(format!("disk {seat} lacks a stripe that it is believed to have"));
            }
        }
        let enough = run.now.seats.len() - self.losses;
        let is_lost = good < enough && run.full.count_ones() as usize >= run.now.seats.len();
        let is_out = |record: &&MemberRecord| matches!(record.state, MemberState::Stale(_));
        let out = run.label.members.iter().filter(is_out).count();
        if is_lost && self.faults < 2 && out <= self.losses {
            return Err(format!("{good} of {enough} seats are left of the stripe, with all there"));
        }
        Ok(())
    }

    /// Begins a change of the label.
    fn relabel(&mut self, label: &Rc<Label>, events: Vec<Event>, after: After, flaw: Flaw) {
        let id = self.change();
        let begun = LabelChange::begin(label, &events, id);
        let begun = match begun {
            Err(Refusal::LastHolder { disk, journal: true }) => {
                let to = self.move_journal(bit(disk.0 as u8));
                let events = [vec![Event::HoldJournal(to)], events.clone()].concat();
                LabelChange::begin(label, &events, id)
            }
            begun => begun,
        };
        match begun {
            Ok(Some(change)) => {
                if flaw == Flaw::EarlyLabel {
                    self.acknowledge(Rc::clone(label), after.clone());
                }
                self.run_mut().phase = Phase::Labels(Rc::new(change), Rc::new(after));
            }
            Ok(None) => self.after(after),
            Err(_) => self.run = None,
        }
    }

    fn acknowledge(&mut self, label: Rc<Label>, after: After) {
        if let After::Ack(batch) = after
            && !self.acks.iter().any(|(_, acked)| *acked == batch)
        {
            self.acks.push((label, batch));
        }
    }

    fn after(&mut self, after: After) {
        let label = self.run().label.clone();
        match after {
            After::Idle | After::Ack(_) => {
                self.acknowledge(label, after);
                self.run_mut().phase = Phase::Idle;
            }
            After::Open => self.relabel(&label, vec![Event::Behind], After::Sealed, Flaw::None),
            After::Sealed if label.puts_out() => self.after(After::Open),
            After::Sealed => self.run_mut().phase = Phase::Renew,
            After::Go(phase) => self.run_mut().phase = phase,
        }
    }

    /// Disks that failed are out, then `after` goes on.
    fn out(&mut self, failed: u8, after: After, flaw: Flaw) {
        let run = self.run_mut();
        run.full &= !failed;
        // What they have by now: a batch that is on its way they may lack.
        let position = run.journal.len().saturating_sub(1) as u64;
        let since = Since { checkpoint: run.last.number.into(), position };
        let label = run.label.clone();
        let events = vec![Event::Out { disks: ids(failed), since }];
        self.relabel(&label, events, after, flaw);
    }

    fn move_journal(&mut self, failed: u8) -> Vec<DiskId> {
        let run = self.run();
        let (label, journal) = (run.label.clone(), run.journal.clone());
        let to = journal_successors(&label, &ids(run.full & !failed), &[], 3);
        let to: Vec<DiskId> =
            to.into_iter().filter(|disk| !self.disks[usize::from(disk.0)].refuses).collect();
        to.iter().for_each(|disk| self.disks[usize::from(disk.0)].ring = Rc::clone(&journal));
        to
    }

    /// One step of the running array.
    fn go(mut self, phase: Phase, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let run = self.run().clone();
        let holders = mask(&run.label.holders) & run.full;
        let journal = mask(&run.label.journal) & run.full;
        let seats = run.now.seats.iter().chain(run.replacement.iter().map(|(_, disk)| disk));
        let seats = seats.fold(0, |mask, seat| mask | bit(*seat));
        match phase {
            Phase::Idle => unreachable!("nothing is under way"),
            Phase::Labels(change, after) => return self.labels(&change, &after, limits, flaw, out),
            Phase::Renew => {
                let (last, ring) = (run.last.clone(), run.journal.clone());
                let waves = run.waves.clone();
                let lagging = |d: &DiskId| {
                    let disk = &self.disks[usize::from(d.0)];
                    let has = disk.slots[usize::from(last.number % 2)].as_ref() == Some(&last);
                    let has_waves = waves.iter().all(|wave| disk.waves.contains(&Some(*wave)));
                    let is_holder = run.label.holders.contains(d);
                    (is_holder && (gets_checkpoint(has) || gets_wave(has_waves)))
                        || (disk.ring != ring && run.label.journal.contains(d))
                };
                let lagging: Vec<DiskId> =
                    ids(holders | journal).into_iter().filter(lagging).collect();
                let (is_holder, is_journal) = (holders, journal);
                let failed = self.write(mask(&lagging), limits, out, |disk, number| {
                    if is_holder & bit(number) != 0 && gets_checkpoint(false) {
                        disk.slots[usize::from(last.number % 2)] = Some(Rc::clone(&last));
                    }
                    if is_holder & bit(number) != 0 && gets_wave(false) {
                        for wave in &waves {
                            disk.waves[(wave.0.wave % 2) as usize] = Some(*wave);
                        }
                    }
                    if is_journal & bit(number) != 0 {
                        disk.ring.clone_from(&ring);
                    }
                });
                self.then(failed, Phase::Redo, flaw);
            }
            Phase::Redo => {
                let Some(version) = run.redo.last().copied() else {
                    return self.note_or_open(run.known, limits, flaw, out);
                };
                let failed =
                    self.write(seats & run.full, limits, out, |disk, _| disk.version = version);
                let run = self.run_mut();
                run.now.stale |= seats & !(run.full & !failed);
                run.touched |= seats;
                let is_news = run.known != version;
                run.known = version;
                run.redo.clear();
                let next = if notes_redone(is_news) { Phase::NoteRedo } else { Phase::Record };
                self.then(failed, next, flaw);
            }
            Phase::NoteRedo | Phase::Note => {
                let checkpoint = run.last.number + 1;
                let batch = Batch::Written { checkpoint, version: run.known };
                let position = run.journal.len();
                Rc::make_mut(&mut self.run_mut().journal).push(batch.clone());
                let failed = self.write(journal, limits, out, |disk, _| {
                    let ring = Rc::make_mut(&mut disk.ring);
                    ring.truncate(position);
                    ring.push(batch.clone());
                });
                self.then(failed, Phase::Record, flaw);
            }
            Phase::Wave => {
                let version = self.written();
                let (checkpoint, wave) = (u64::from(run.last.number) + 1, run.next_wave);
                let id = WaveId { checkpoint, wave, carries: false };
                let half = (id.wave % 2) as usize;
                self.run_mut().next_wave += 1;
                let failed = self
                    .write(holders, limits, out, |disk, _| disk.waves[half] = Some((id, version)));
                self.then(failed, Phase::Put, flaw);
            }
            Phase::Put => return self.put(seats, limits, flaw, out),
            Phase::Record => return self.record(limits, flaw, out),
        }
        out.push(Ok(self));
    }

    /// The redo is done: what is believed is looked at.
    fn note_or_open(mut self, known: u8, _: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        assert_eq!(self.run().known, known);
        self.then(0, Phase::Record, flaw);
        out.push(self.check_believed().map(|()| self));
    }

    /// The last small write that the journal has.
    fn written(&self) -> u8 {
        let run = self.run();
        let small = run.journal.iter().filter_map(|batch| match batch {
            Batch::Small(write) => Some(*write),
            _ => None,
        });
        small.max().unwrap_or(0).max(run.known)
    }

    fn put(mut self, seats: u8, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let (version, full) = (self.written(), self.run().full);
        let before = self.clone();
        let failed = self.write(seats & full, limits, out, |disk, _| disk.version = version);
        // Flushes that fail once: what was put is gone.
        let flushed = seats & full & !failed;
        for lost in subsets(flushed) {
            let mut next = self.clone();
            next.faults += lost.count_ones() as u8;
            if next.faults > limits.faults {
                continue;
            }
            for disk in ids(lost) {
                let was = before.disks[usize::from(disk.0)].version;
                next.disks[usize::from(disk.0)].version = was;
            }
            let gone = seats & !(flushed & !lost);
            let losses = next.losses;
            let run = next.run_mut();
            run.now.stale |= gone;
            run.touched |= seats;
            run.known = version;
            let left = run.now.seats.iter().filter(|seat| run.now.stale & bit(**seat) == 0).count();
            if is_unflushed(run.now.seats.len() - left, losses) {
                // It stops: the journal and the wave have it.
                next.run = None;
                out.push(Ok(next));
                continue;
            }
            next.then(failed | lost, Phase::Note, flaw);
            out.push(Ok(next));
        }
    }

    /// The record, which makes the checkpoint count; disks that hold it for the first time become
    /// holders.
    fn record(mut self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let run = self.run().clone();
        let active = mask(&run.label.active().collect::<Vec<_>>());
        let is_data = |d: &DiskId| run.label.member(*d).is_some_and(|r| r.kind == MemberKind::Data);
        let leaving = self.leaving(limits);
        let usable = ids(active & run.full);
        let joining = mask(&checkpoint_successors(&run.label, &usable, &leaving, 3));
        let marked = match limits.images {
            0 => 0,
            _ => run.touched & run.full,
        };
        let number = run.last.number + 1;
        let failed = self.write(marked, limits, out, |disk, _| disk.mark = number);
        if failed != 0 {
            self.then(failed, Phase::Record, flaw);
            return out.push(Ok(self));
        }
        let run_mut = self.run_mut();
        run_mut.touched &= !marked;
        ids(marked).iter().for_each(|disk| run_mut.now.marks[usize::from(disk.0)] = number);
        let run = self.run().clone();
        let mut record =
            Record { number: run.last.number + 1, mark: run.journal.len(), ..run.now.clone() };
        record.version = run.known;
        if let Some((seat, disk)) = run.replacement.filter(|(_, disk)| run.full & bit(*disk) != 0) {
            let old = std::mem::replace(&mut record.seats[seat], disk);
            record.stale &= !bit(old);
        }
        // Small writes that are not in place stay in the journal.
        if self.written() != run.known {
            record.mark = run.last.mark;
        }
        if let Err(why) = self.check_trimmed(&record) {
            return out.push(Err(why));
        }
        let record = Rc::new(record);
        let slot = usize::from(record.number % 2);
        let holders = mask(&run.label.holders) & run.full;
        if self.crashes < limits.crashes {
            // Other stripes' waves take both halves of the redo area, then it is cut off.
            let mut torn = self.clone();
            torn.other_waves();
            out.push(Ok(torn.crashed()));
            // A record that is half written is none, and was none before either.
            for subset in subsets(holders | joining) {
                let mut torn = self.crashed();
                let broken =
                    torn.disks.iter_mut().zip(0u8..).filter(|(_, d)| subset & bit(*d) != 0);
                broken
                    .filter(|(disk, _)| !disk.refuses)
                    .for_each(|(disk, _)| disk.slots[slot] = None);
                out.push(Ok(torn));
            }
        }
        let has_own = run.label.active().any(|d| !is_data(&d));
        let in_journal = mask(&run.label.journal);
        let to_journal = match has_own {
            true => mask(&journal_successors(&run.label, &usable, &leaving, 3)) & !in_journal,
            false => {
                let holding = ids(active & run.full & (mask(&run.label.holders) | joining));
                mask(&journal_successors(&run.label, &holding, &leaving, 3)) & !in_journal
            }
        };
        let ring = run.journal.clone();
        let failed = self.write(holders | joining | to_journal, limits, out, |disk, number| {
            if (holders | joining) & bit(number) != 0 {
                disk.slots[slot] = Some(Rc::clone(&record));
            }
            if to_journal & bit(number) != 0 && flaw != Flaw::EmptyStandIn {
                disk.ring.clone_from(&ring);
            }
        });
        if holders & !failed == 0 {
            self.run = None;
            return out.push(Ok(self));
        }
        let joined = ids(joining & !failed);
        let run = self.run_mut();
        run.now = Record::clone(&record);
        run.last = record;
        run.replacement = None;
        run.full &= !failed;
        let since =
            Since { checkpoint: run.last.number.into(), position: run.journal.len() as u64 };
        let label = run.label.clone();
        let mut events = vec![Event::Out { disks: ids(failed), since }];
        if !joined.is_empty() || to_journal != 0 {
            let has_it = (in_journal | to_journal) & run.full;
            let journal = journal_successors(&label, &ids(active & has_it), &leaving, 3);
            events.extend([Event::HoldCheckpoints(joined), Event::HoldJournal(journal)]);
        }
        // Disks that were given everything before this record are members like others.
        let up = ids(std::mem::take(&mut run.joined) & run.full);
        events.extend(
            self.recorded(&self.run().last).into_iter().filter(
                |event| !matches!(event, Event::Recorded { disk, .. } if up.contains(disk)),
            ),
        );
        events.extend(up.into_iter().map(Event::UpToDate));
        self.relabel(&label, events, After::Idle, flaw);
        out.push(match &self.run {
            Some(run) if run.phase == Phase::Idle => self.check_believed().map(|()| self),
            _ => Ok(self),
        });
    }

    /// The journal lets go of a small write only when the stripe is where its level wants it. What is lost with a
    /// disk that was cut short beside one that is missing is more than the level survives; and the model does not carry
    /// on what a redo could not give to all.
    fn check_trimmed(&self, record: &Record) -> Result<(), String> {
        let run = self.run();
        let trimmed = &run.journal[run.last.mark.min(record.mark)..record.mark];
        let is_small = |batch: &Batch| matches!(batch, Batch::Small(_));
        let lacks = |seat: &&u8| record.stale & bit(**seat) != 0;
        let lacking = record.seats.iter().filter(lacks).count();
        if self.cuts == 0
            && self.crashes == 0
            && run.waves.is_empty()
            && trimmed.iter().any(is_small)
            && lacking > self.losses
        {
            return Err(format!("{lacking} seats lack what the journal lets go of"));
        }
        Ok(())
    }

    /// What a disk lacks that lacks all is known by this record.
    fn recorded(&self, record: &Record) -> Vec<Event> {
        let since = Since { checkpoint: record.number.into(), position: record.mark as u64 };
        let run = self.run();
        let lacks_all =
            |disk: &DiskId| run.label.member(*disk).is_some_and(|record| record.state.lacks_all());
        let lacking = ids(run.full).into_iter().filter(lacks_all);
        lacking.map(|disk| Event::Recorded { disk, since }).collect()
    }

    fn then(&mut self, failed: u8, phase: Phase, flaw: Flaw) {
        match failed {
            0 => self.run_mut().phase = phase,
            failed => self.out(failed, After::Go(phase), flaw),
        }
    }

    fn labels(
        mut self,
        change: &LabelChange,
        after: &Rc<After>,
        limits: &Limits,
        flaw: Flaw,
        out: &mut Vec<Next>,
    ) {
        let label = change.label().clone();
        let required = mask(&change.writes());
        let others = ids(self.run().full).into_iter().filter(|d| label.member(*d).is_some());
        let is_new = |disk: &DiskId| self.run().label.member(*disk).is_none();
        let new = mask(&change.writes().into_iter().filter(is_new).collect::<Vec<_>>());
        let others = mask(&others.collect::<Vec<_>>()) & !required;
        let not_there = required & !(self.run().full | new);
        let put = |disk: &mut Disk, number: u8| {
            disk.label = Some(Rc::new(label.for_disk(DiskId(number.into()))));
            (disk.is_cut, disk.is_image) = (false, false);
        };
        let mut written = self.write(required & !not_there, limits, out, put);
        // The others when it counts.
        if !change.is_joining() && written | not_there == 0 {
            written = self.write(others, limits, out, put);
        }
        let failed = ids((written | not_there) & required);
        let run = self.run_mut();
        // One that was out and is back must know that it was, too.
        run.full &=
            !mask(&failed) & !(written & !if flaw == Flaw::LaxReturn { written } else { 0 });
        let position = run.journal.len().saturating_sub(1) as u64;
        let since = Since { checkpoint: run.last.number.into(), position };
        let id = self.change();
        match change.clone().written(&failed, since, id) {
            Step::Write(change) => {
                self.run_mut().phase = Phase::Labels(Rc::new(*change), Rc::clone(after));
            }
            Step::Durable(label) => {
                let label = Rc::new(label);
                self.tips.retain(|tip| !tip.led_to(&label));
                self.tips.push(Rc::clone(&label));
                let run = self.run_mut();
                run.full |= mask(
                    &label.active().filter(|d| run.label.member(*d).is_none()).collect::<Vec<_>>(),
                );
                run.label = label;
                self.after(After::clone(after));
            }
            Step::Refused(Refusal::LastHolder { journal: true, .. }) => {
                let to = self.move_journal(mask(&failed));
                let id = self.change();
                match change.clone().moved(to.clone(), id) {
                    Ok(change) if !to.is_empty() => {
                        self.run_mut().phase = Phase::Labels(Rc::new(change), Rc::clone(after));
                    }
                    _ => self.run = None,
                }
            }
            Step::Refused(Refusal::DidNotJoin(_)) => self.run_mut().phase = Phase::Idle,
            Step::Refused(_) => self.run = None,
        }
        out.push(Ok(self));
    }

    /// What an array that has nothing under way may begin.
    fn idle(&self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        if let Err(why) = self.check_believed() {
            return out.push(Err(why));
        }
        if self.crashes < limits.crashes {
            out.push(Ok(self.crashed()));
        }
        let run = self.run();
        if self.writes < limits.writes {
            self.small_write(limits, flaw, out);
            if limits.whole {
                self.whole_write(limits, flaw, out);
            }
        }
        if self.written() != run.known {
            let mut own = self.clone();
            own.run_mut().phase = Phase::Wave;
            out.push(Ok(own));
            // Or others come first, and take both halves of the redo area.
            let mut other = self.clone();
            other.other_waves();
            other.run_mut().phase = Phase::Wave;
            out.push(Ok(other));
        }
        if run.redo.is_empty() && run.next_wave > 0 && self.crashes < limits.crashes {
            // Others come after, and the crash before the record.
            let mut other = self.crashed();
            other.run = self.run.clone();
            other.other_waves();
            other.run = None;
            out.push(Ok(other));
        }
        self.returns(flaw, out);
        if self.orders < limits.orders {
            self.order(limits, flaw, out);
        }
    }

    fn other_waves(&mut self) {
        let run = self.run().clone();
        let holders = mask(&run.label.holders) & run.full;
        for half in 0..2u64 {
            let wave = run.next_wave + half;
            let checkpoint = u64::from(run.last.number) + 1;
            let id = WaveId { checkpoint, wave, carries: false };
            for disk in ids(holders) {
                self.disks[usize::from(disk.0)].waves[(wave % 2) as usize] = Some((id, 0));
            }
        }
        self.run_mut().next_wave += 2;
    }

    fn small_write(&self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let mut next = self.clone();
        next.writes += 1;
        let batch = Batch::Small(next.writes);
        next.append(batch, 0, limits, flaw, out);
    }

    /// Appends to the journal, and answers.
    fn append(mut self, batch: Batch, lost: u8, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let run = self.run_mut();
        let position = run.journal.len();
        Rc::make_mut(&mut run.journal).push(batch.clone());
        let journal = mask(&run.label.journal) & run.full;
        let put = batch.clone();
        let failed = self.write(journal, limits, out, |disk, _| {
            let ring = Rc::make_mut(&mut disk.ring);
            ring.truncate(position);
            ring.push(put.clone());
        });
        match failed | lost {
            0 => self.after(After::Ack(batch)),
            failed => self.out(failed, After::Ack(batch), flaw),
        }
        out.push(Ok(self));
    }

    fn whole_write(&self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let mut next = self.clone();
        next.writes += 1;
        let write = next.writes;
        let run = next.run();
        let seats = run.now.seats.iter().chain(run.replacement.iter().map(|(_, disk)| disk));
        let seats = seats.fold(0, |mask, seat| mask | bit(*seat));
        let (full, count) = (run.full, run.now.seats.len());
        let failed = next.write(seats & full, limits, out, |disk, _| disk.whole |= bit(write));
        let missed = seats & !full | failed;
        let run = next.run_mut();
        if missed.count_ones() as usize > limits.losses || count == 0 {
            return;
        }
        run.now.whole |= bit(write);
        run.touched |= seats;
        ids(missed).iter().for_each(|disk| run.now.lacks[usize::from(disk.0)] |= bit(write));
        if failed == 0 {
            return next.append(Batch::Whole(write), 0, limits, flaw, out);
        }
        // First the labels, then the record.
        run.full &= !failed;
        let since =
            Since { checkpoint: run.last.number.into(), position: run.journal.len() as u64 };
        let label = run.label.clone();
        next.relabel(&label, vec![Event::Out { disks: ids(failed), since }], After::Idle, flaw);
        out.push(Ok(next));
    }

    /// Disks that were out answer again, and are given what they missed.
    fn returns(&self, flaw: Flaw, out: &mut Vec<Next>) {
        let run = self.run();
        for number in 0..self.disks.len() as u8 {
            let disk = &self.disks[usize::from(number)];
            let Some(record) = run.label.member(DiskId(number.into())) else { continue };
            let is_out = matches!(record.state, MemberState::Stale(_));
            if !is_out || disk.refuses || run.joined & bit(number) != 0 {
                continue;
            }
            let mut next = self.clone();
            if run.full & bit(number) == 0 {
                let theirs = disk.label.as_deref().expect("a member has a label");
                if !may_return(theirs, &run.label) {
                    continue;
                }
                let lack = lack_of(theirs, disk.is_cut, &run.label);
                let lack = lack.or_else(|| self.is_behind(number).then_some(Lack::Old));
                if lack == Some(Lack::Old) && !disk.is_image {
                    out.push(Err(format!("disk {number} is what it was, and passes for {lack:?}")));
                    continue;
                }
                if lack.is_some() && !record.state.lacks_all() {
                    let label = run.label.clone();
                    let lacks = vec![Event::LacksAll(vec![DiskId(number.into())])];
                    next.relabel(&label, lacks, After::Idle, flaw);
                    out.push(Ok(next));
                    continue;
                }
                if record.state.lacks_all() {
                    next.run_mut().now.lack_all(number);
                }
                next.run_mut().full |= bit(number);
                let label = run.label.clone();
                if flaw != Flaw::LaxReturn {
                    next.disks[usize::from(number)].label =
                        Some(Rc::new(label.for_disk(DiskId(number.into()))));
                    next.disks[usize::from(number)].is_cut = false;
                    next.disks[usize::from(number)].is_image = false;
                }
                let hasty = (flaw == Flaw::HastyRecord).then(|| next.recorded(&run.last));
                let events = [vec![Event::Behind], hasty.unwrap_or_default()].concat();
                next.relabel(&label, events, After::Idle, flaw);
                out.push(Ok(next));
                continue;
            }
            // One that lacks nothing needs nobody who gives it anything.
            let lacks = run.now.stale & bit(number) != 0 || run.now.lacks[usize::from(number)] != 0;
            let others = run.now.seats.iter().filter(|seat| {
                **seat != number && run.full & bit(**seat) != 0 && run.now.stale & bit(**seat) == 0
            });
            let is_seat = run.now.seats.contains(&number);
            if is_seat && lacks && others.count() + self.losses < run.now.seats.len() {
                continue;
            }
            if lacks || !is_seat {
                next.disks[usize::from(number)].version = run.known;
                next.disks[usize::from(number)].whole = run.now.whole;
            }
            let run = next.run_mut();
            run.now.stale &= !bit(number);
            run.now.lacks[usize::from(number)] = 0;
            run.joined |= bit(number);
            run.touched |= bit(number);
            run.phase = Phase::Record;
            out.push(Ok(next));
        }
    }

    /// The disk that was told to leave, once nothing is on it: its seat is another's by the last record.
    fn leaving(&self, limits: &Limits) -> Vec<DiskId> {
        let run = self.run();
        let has_left = !run.last.seats.contains(&0) && !run.now.seats.contains(&0);
        if limits.orders > 0 && has_left { vec![DiskId(0)] } else { Vec::new() }
    }

    /// What leaves in order leaves as many copies of checkpoints and journal as there can be.
    fn check_leaving(&self, disk: DiskId) -> Result<(), String> {
        let label = &self.run().label;
        let others = |disks: &[DiskId]| disks.iter().filter(|other| **other != disk).count();
        let holds = |disks: &[DiskId]| disks.contains(&disk);
        let is_data = |d: &DiskId| label.member(*d).is_some_and(|r| r.kind == MemberKind::Data);
        let active: Vec<DiskId> = label.active().filter(is_data).collect();
        let wanted = others(&active).min(3);
        let has_own = label.active().any(|disk| !is_data(&disk));
        if self.faults == 0
            && (holds(&label.holders) && others(&label.holders) < wanted
                || holds(&label.journal) && !has_own && others(&label.journal) < wanted)
        {
            return Err(format!("disk {} leaves too few holders", disk.0));
        }
        Ok(())
    }

    /// A disk is added, or one takes the place of another, which then leaves.
    fn order(&self, limits: &Limits, flaw: Flaw, out: &mut Vec<Next>) {
        let run = self.run();
        let spare = self.disks.len() as u8 - 1;
        let known = run.label.member(DiskId(spare.into()));
        let label = run.label.clone();
        if known.is_none() && !self.disks[usize::from(spare)].refuses {
            let mut next = self.clone();
            next.orders += 1;
            let uuid = [spare; 16];
            let (kind, name) = (MemberKind::Data, String::new());
            let joined = Event::Joined { uuid, kind, size_bytes: SIZE, name };
            next.relabel(&label, vec![joined], After::Idle, flaw);
            out.push(Ok(next));
        }
        let is_in = known.is_some_and(|record| record.state == MemberState::Active);
        if !is_in || run.full & bit(spare) == 0 {
            return;
        }
        if !run.now.seats.contains(&spare) && run.replacement.is_none() {
            let mut next = self.clone();
            next.orders += 1;
            next.disks[usize::from(spare)].version = run.known;
            next.disks[usize::from(spare)].whole = run.now.whole;
            let run = next.run_mut();
            run.now.lacks[usize::from(spare)] = 0;
            run.touched |= bit(spare);
            run.replacement = Some((0, spare));
            if takes_place(false) {
                run.now.seats[0] = spare;
                run.replacement = None;
            }
            out.push(Ok(next));
        }
        if run.replacement.is_some() {
            let mut next = self.clone();
            next.run_mut().phase = Phase::Record;
            out.push(Ok(next));
        }
        let old = DiskId(0);
        let is_left = run.last.seats.contains(&spare) && run.now.seats.contains(&spare);
        let active = ids(mask(&label.active().collect::<Vec<_>>()) & run.full);
        let leaving = self.leaving(limits);
        let holders = checkpoint_successors(&label, &active, &leaving, 3);
        let holding: Vec<DiskId> =
            active.into_iter().filter(|disk| label.holders.contains(disk)).collect();
        let mut journal = journal_successors(&label, &holding, &leaving, 3);
        journal.retain(|disk| !label.journal.contains(disk));
        let is_needed = label.holders.contains(&old) && !holders.is_empty()
            || label.journal.contains(&old) && !journal.is_empty();
        if is_left && is_needed {
            // Others get what it holds with the next checkpoint.
            let mut next = self.clone();
            next.run_mut().phase = Phase::Record;
            out.push(Ok(next));
        } else if is_left && label.member(old).is_some_and(MemberRecord::is_used) {
            if let Err(why) = self.check_leaving(old) {
                return out.push(Err(why));
            }
            let mut next = self.clone();
            next.run_mut().full &= !1;
            next.relabel(&label, vec![Event::Left(old)], After::Idle, flaw);
            out.push(Ok(next));
        }
    }
}

impl World {
    /// What is to be known when it goes wrong.
    pub(super) fn brief(&self) -> String {
        let states = |label: &Label| {
            let state = |record: &MemberRecord| match record.state {
                MemberState::Active => "A".to_owned(),
                MemberState::Stale(since) => format!("S{}", since.position),
                MemberState::Failed => "F".to_owned(),
                MemberState::Retired => "R".to_owned(),
            };
            let states: Vec<String> = label.members.iter().map(state).collect();
            let (change, journal) = (label.change.0, mask(&label.journal));
            let ancestors: Vec<u64> = label.ancestors.iter().map(|id| id.0).collect();
            format!("{change}<{ancestors:?} {} j{journal:b}", states.join(""))
        };
        let mut text = String::new();
        for (number, disk) in self.disks.iter().enumerate() {
            let label = disk.label.as_deref().map(states).unwrap_or_default();
            let slots: Vec<_> = disk.slots.iter().flatten().collect();
            text += &format!(
                "\ndisk {number}: {label} refuses {} ring {:?} v{} w{:b} waves {:?} slots {slots:?}",
                disk.refuses, disk.ring, disk.version, disk.whole, disk.waves
            );
        }
        let acks: Vec<_> = self.acks.iter().map(|(label, batch)| (label.change.0, batch)).collect();
        text += &format!("\nacks {acks:?} crashes {} faults {}", self.crashes, self.faults);
        if let Some(run) = &self.run {
            text += &format!(
                "\nruns: {} full {:b} {:?} journal {:?} known {} now {:?}",
                states(&run.label),
                run.full,
                run.phase,
                run.journal,
                run.known,
                run.now
            );
        }
        text
    }
}
