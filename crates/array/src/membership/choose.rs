//! Which array is opened, and which of its disks can be relied on.

use std::cmp::Reverse;

use super::change::{Event, short};
use super::lacking::{self, Lack};
use super::refusal::OpenRefusal;
use crate::DiskId;
use crate::label::{ChangeId, Found, Label, MemberRecord, MemberState, Since};
use crate::mutants::{self, Mutant};

/// A disk that was given and is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Where it stands in the list that was given.
    pub index: usize,
    /// Its number.
    pub disk: DiskId,
}

/// The array that is opened, as its labels say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The newest label, as the first current disk carries or should carry it.
    pub label: Label,
    /// Disks that hold everything.
    pub current: Vec<Present>,
    /// Disks that were out, and since when.
    pub stale: Vec<(Present, Since)>,
    /// Members that should be there and are not.
    pub missing: Vec<DiskId>,
    /// The names under which current and stale disks were given now.
    pub given: Vec<(DiskId, String)>,
    /// Disks that were given and are not used, with the reason; nothing may be written to them.
    pub foreign: Vec<(usize, String)>,
    /// Current or stale disks whose labels are not both the newest.
    pub rewrite: Vec<Present>,
    /// Current or stale disks that lack all that they should have, and why.
    pub lacking: Vec<(DiskId, Lack)>,
    /// Those that count as having all the same, until others have the checkpoints and the journal too.
    pub waived: Vec<(DiskId, Lack)>,
    /// An operator accepts that disks are missing.
    pub accepted: bool,
    /// And that what is known of newer checkpoints than those that are there is given up.
    pub goes_back: bool,
}

/// The disks of a RAID set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetDisks {
    /// One for each member; and whether it missed a change of some stripe.
    pub members: Vec<(DiskId, bool)>,
    /// Members that may be lost.
    pub losses_max: usize,
}

/// A disk with a label, as it was given.
struct Carrier<'a> {
    index: usize,
    name: &'a str,
    label: &'a Label,
    rewrite: bool,
    is_cut: bool,
}

/// Decides which array the disks `found` (name and contents, in any order) make up.
///
/// The newest label says who is a member and in which state, also of disks that carry an older
/// one: a label is written to all active members before anything relies on it, so a disk that an
/// interrupted change did not reach has missed nothing.
///
/// `accept_missing` goes on with less than the sets need, see [`Opening::check_sets`].
///
/// # Errors
/// [`OpenRefusal`], one sentence with the disk and the way out.
pub fn choose(found: &[(String, Found)], accept_missing: bool) -> Result<Opening, OpenRefusal> {
    let mut carriers = Vec::new();
    let mut foreign = Vec::new();
    for (index, (name, found)) in found.iter().enumerate() {
        match found {
            Found::Label { label, rewrite, is_cut } => {
                let (rewrite, is_cut) = (*rewrite, *is_cut);
                carriers.push(Carrier { index, name, label, rewrite, is_cut });
            }
            Found::Version(version) => {
                return Err(OpenRefusal::Version { name: name.clone(), version: *version });
            }
            Found::Blank => foreign.push((index, "blank".to_owned())),
            Found::Foreign(what) => foreign.push((index, what.clone())),
            Found::Damaged(why) => foreign.push((index, format!("damaged: {why}"))),
        }
    }
    let Some(first) = carriers.first() else {
        let first = foreign.first().map(|(index, why)| (found[*index].0.clone(), why.clone()));
        return Err(OpenRefusal::NoArray { disks: found.len(), first });
    };
    one_array_of_distinct_disks(first, &carriers)?;
    let label = newest(&carriers)?;
    if label.generation == 0 {
        return Err(OpenRefusal::HalfMade { name: first.name.to_owned(), array: label.array });
    }
    let mut opening = sort_out(label, &carriers, foreign);
    for carrier in &carriers {
        if let Some(lack) = lacking::lack_of(carrier.label, carrier.is_cut, label) {
            opening.lacks_all(carrier.label.disk, lack);
        }
    }
    if was_cut_off(label, &carriers) {
        opening.forget_change();
    }
    opening.accepted = accept_missing;
    opening.check_holders()?;
    let carries_it = |carrier: &&Carrier| carrier.label.change == label.change;
    let newer = carriers.iter().filter(carries_it).map(|carrier| carrier.name.to_owned());
    opening.check_ages(newer.collect())?;
    Ok(opening)
}

fn one_array_of_distinct_disks(first: &Carrier, all: &[Carrier]) -> Result<(), OpenRefusal> {
    for (at, carrier) in all.iter().enumerate() {
        if carrier.label.array != first.label.array {
            return Err(OpenRefusal::TwoArrays {
                a: first.name.to_owned(),
                array_a: first.label.array,
                b: carrier.name.to_owned(),
                array_b: carrier.label.array,
            });
        }
        // Two of one number and different marks: one was about to join when all ended, and
        // the number went to another.
        let same = |other: &&Carrier| other.label.own().uuid == carrier.label.own().uuid;
        if let Some(other) = all[..at].iter().find(same) {
            return Err(OpenRefusal::SameDisk {
                a: other.name.to_owned(),
                b: carrier.name.to_owned(),
                disk: carrier.label.disk,
                array: carrier.label.array,
            });
        }
    }
    Ok(())
}

/// The newest label: that which all others led to.
///
/// If there are several, those go first that were cut off before anything relied on them: some
/// member that they call active does not carry them. If two are left, two parts of the array went on
/// without each other; so they may have when a label that was cut off came of one that the newest
/// does not know. If all were cut off, that one goes on which came of the newest that was not, and for which nobody who
/// is there carries what a member cannot carry: each start had other disks, and knew less or more of the others.
fn newest<'a>(carriers: &[Carrier<'a>]) -> Result<&'a Label, OpenRefusal> {
    let is_newest = |carrier: &&Carrier| {
        let label = carrier.label;
        !carriers.iter().any(|c| c.label.change != label.change && label.led_to(c.label))
    };
    let tops: Vec<&Label> = carriers.iter().filter(is_newest).map(|c| c.label).collect();
    let key = |label: &&Label| (label.generation, Reverse(label.change));
    let relied_on = tops.iter().copied().filter(|label| !was_cut_off(label, carriers));
    // If all were cut off: what none of them can have been relied on for, was never answered.
    let is_old = |carrier: &Carrier, label: &Label| {
        lacking::lack_of(carrier.label, carrier.is_cut, label) == Some(Lack::Old)
    };
    let cut_key = |label: &&Label| {
        let knows_all = !carriers.iter().any(|carrier| is_old(carrier, label));
        (relied_on_before(label, carriers), knows_all, key(label))
    };
    let newest = relied_on.max_by_key(key).or_else(|| tops.iter().copied().max_by_key(cut_key));
    let newest = newest.expect("no label came of itself");
    let is_other = |label: &Label| !label.led_to(newest) && !is_harmless(label, newest, carriers);
    let Some(other) = carriers.iter().find(|carrier| is_other(carrier.label)) else {
        return Ok(newest);
    };
    let (mut one, mut rest) = (Vec::new(), Vec::new());
    for carrier in carriers {
        let part = match other.label.led_to(carrier.label) || is_other(carrier.label) {
            true => &mut rest,
            false => &mut one,
        };
        part.push(carrier.name.to_owned());
    }
    Err(OpenRefusal::TwoHistories { array: newest.array, one, other: rest })
}

/// Whether a member that `label` calls active is there and does not carry it.
fn was_cut_off(label: &Label, carriers: &[Carrier]) -> bool {
    let own = |carrier: &&Carrier| {
        let record = label.member(carrier.label.disk);
        record.is_some_and(|record| {
            record.state == MemberState::Active && record.uuid == carrier.label.own().uuid
        })
    };
    carriers.iter().filter(own).any(|carrier| !label.led_to(carrier.label))
}

/// The generation of the last change that `label` came of and that may have been relied on.
fn relied_on_before(label: &Label, carriers: &[Carrier]) -> u64 {
    let mut before = label.lineage();
    before.find(|change| !came_of_cut(label, *change, carriers)).map_or(0, |change| change.0)
}

/// Whether nothing that was relied on is forgotten when `newest` is believed instead of `label`: that was cut off,
/// and so were those that it came of and `newest` did not.
fn is_harmless(label: &Label, newest: &Label, carriers: &[Carrier]) -> bool {
    let is_cut_off = |change| came_of_cut(label, change, carriers);
    was_cut_off(label, carriers) && parted_by_cuts(label, newest, is_cut_off)
}

/// Whether a change that `label` came of was cut off: by its own label where somebody carries it, or by `label`.
fn came_of_cut(label: &Label, change: (u64, ChangeId), carriers: &[Carrier]) -> bool {
    let lacks = |record: &MemberRecord| {
        let is_own =
            |c: &&Carrier| c.label.disk == record.disk && c.label.own().uuid == record.uuid;
        let carrier = carriers.iter().find(is_own);
        carrier.is_some_and(|carrier| !carrier.label.came_of(change.0, change.1, label))
    };
    let is_it = |other: &Label| (other.generation, other.change) == change;
    let mut labels = carriers.iter().map(|carrier| carrier.label);
    was_cut_off_before(label, change.0, lacks)
        || labels.any(|other| is_it(other) && was_cut_off(other, carriers))
}

/// Whether all changes that `label` came of and `newest` did not were cut off before anything relied on them.
fn parted_by_cuts(
    label: &Label,
    newest: &Label,
    is_cut_off: impl Fn((u64, ChangeId)) -> bool,
) -> bool {
    let is_common =
        |(generation, change): &(u64, ChangeId)| newest.came_of(*generation, *change, label);
    // Where the labels part, as far as this one remembers.
    let Some(common) = label.lineage().position(|change| is_common(&change)) else { return false };
    mutants::is(Mutant::TrustLine) || label.lineage().take(common).all(is_cut_off)
}

/// Whether what `label` came of in a generation was cut off, by what `label` says. Who shows that did not take it, and was
/// not there when the next one came of it, or that would have come of the one before. So the next one put it out: it was
/// in until then, and lacks it now.
fn was_cut_off_before(
    label: &Label,
    generation: u64,
    lacks: impl Fn(&MemberRecord) -> bool,
) -> bool {
    let went_out = |record: &&MemberRecord| label.went_out_in(record.disk) == Some(generation + 1);
    label.members.iter().filter(went_out).any(lacks)
}

/// Whether a disk that was away may come back to members that carry `ours`: its own label, `theirs`,
/// led to that one, or was cut off before anything relied on it, and so was all that it came of since they parted.
#[must_use]
pub fn may_return(theirs: &Label, ours: &Label) -> bool {
    let carries_ours = |record: &MemberRecord| {
        let own = ours.member(record.disk).filter(|own| own.state == MemberState::Active);
        own.is_some_and(|own| own.uuid == record.uuid)
    };
    let mut active = theirs.members.iter().filter(|record| record.state == MemberState::Active);
    let is_cut_off = |change: (u64, _)| was_cut_off_before(theirs, change.0, carries_ours);
    theirs.led_to(ours) || active.any(carries_ours) && parted_by_cuts(theirs, ours, is_cut_off)
}

fn sort_out(label: &Label, carriers: &[Carrier], foreign: Vec<(usize, String)>) -> Opening {
    let mut opening = Opening {
        label: label.clone(),
        current: Vec::new(),
        stale: Vec::new(),
        missing: Vec::new(),
        given: Vec::new(),
        foreign,
        rewrite: Vec::new(),
        lacking: Vec::new(),
        waived: Vec::new(),
        accepted: false,
        goes_back: false,
    };
    for carrier in carriers {
        let present = Present { index: carrier.index, disk: carrier.label.disk };
        let state = match label.member(present.disk) {
            None => Err("not a member of its array any more"),
            Some(record) if record.uuid != carrier.label.own().uuid => {
                Err("another disk than the one of its number")
            }
            Some(record) => Ok(record.state),
        };
        match state {
            Ok(MemberState::Active) => opening.current.push(present),
            Ok(MemberState::Stale(since)) => opening.stale.push((present, since)),
            Ok(MemberState::Failed) => opening.put_aside(present, "a member that failed"),
            Ok(MemberState::Retired) => opening.put_aside(present, "a member that was retired"),
            Err(why) => opening.put_aside(present, why),
        }
        let used = matches!(state, Ok(MemberState::Active | MemberState::Stale(_)));
        if used {
            opening.given.push((present.disk, carrier.name.to_owned()));
        }
        if used && (carrier.rewrite || carrier.label.change != label.change) {
            opening.rewrite.push(present);
        }
    }
    let used = label.members.iter().filter(|record| record.is_used());
    opening.missing = used.map(|record| record.disk).filter(|disk| !opening.uses(*disk)).collect();
    if let Some(present) = opening.current.first() {
        opening.label.disk = present.disk;
    }
    opening
}

impl Opening {
    fn put_aside(&mut self, present: Present, why: &str) {
        self.foreign.push((present.index, why.to_owned()));
    }

    fn uses(&self, disk: DiskId) -> bool {
        let stale = self.stale.iter().map(|(present, _)| present);
        self.current.iter().chain(stale).any(|present| present.disk == disk)
    }

    /// This disk lacks all that it should have. That is [waived](Self::waive) if nobody else has the
    /// checkpoints, or the journal.
    pub fn lacks_all(&mut self, disk: DiskId, lack: Lack) {
        if !self.uses(disk) || self.lack(disk).is_some() {
            return;
        }
        self.lacking.push((disk, lack));
        let has_others = |holders: &[DiskId]| {
            holders.iter().any(|holder| self.has_all(*holder))
                || !holders.iter().any(|holder| self.is_current(*holder))
        };
        if !has_others(&self.label.holders) || !has_others(&self.label.journal) {
            self.waive(disk);
        }
    }

    /// Nobody else gives what this disk has of checkpoints or journal: what it has is all that there is, and
    /// checksums tell what of its data is right.
    pub fn waive(&mut self, disk: DiskId) {
        self.waived.extend(self.lacking.extract_if(.., |(other, _)| *other == disk));
    }

    /// It lacks all after all: another one gives what is newer.
    pub fn condemn(&mut self, disk: DiskId) {
        self.lacking.extend(self.waived.extract_if(.., |(other, _)| *other == disk));
    }

    /// What is wrong with a disk.
    fn lack(&self, disk: DiskId) -> Option<Lack> {
        let mut all = self.lacking.iter().chain(&self.waived);
        all.find(|(other, _)| *other == disk).map(|(_, lack)| *lack)
    }

    /// Whether what a disk has of checkpoints and journal can be the newest: those lie in its head, which a
    /// disk that was cut short still has.
    #[must_use]
    pub fn may_give(&self, disk: DiskId) -> bool {
        self.has_all(disk) || self.is_current(disk) && self.lack(disk) == Some(Lack::Cut)
    }

    /// Whether a disk is there and has what the labels say.
    #[must_use]
    pub fn has_all(&self, disk: DiskId) -> bool {
        self.is_current(disk) && self.is_whole(disk)
    }

    /// Whether a disk holds everything it should.
    #[must_use]
    pub fn is_current(&self, disk: DiskId) -> bool {
        self.current.iter().any(|present| present.disk == disk)
    }

    /// The names of disks, for people. Of one that is not there it is where it was last. Of one that is there it is
    /// where it is, and where it was last only beside that: a good disk may lie there now, and an old image here.
    pub fn names(&self, disks: impl Iterator<Item = DiskId>) -> Vec<String> {
        let name = |disk: DiskId| {
            let last = self.label.name_of(disk);
            match self.given.iter().find(|(other, _)| *other == disk) {
                Some((_, name)) if short(name) != last => format!("{name} (last at {last})"),
                Some((_, name)) => name.clone(),
                None => last,
            }
        };
        disks.map(name).collect()
    }

    /// Members that are not there, by the paths where they were last.
    #[must_use]
    pub fn missing_names(&self) -> Vec<String> {
        self.names(self.missing.iter().copied())
    }

    /// The newest label was cut off before anything relied on it. What it says is right all the same,
    /// but the next one comes of the one before: a label always came of one that was relied on.
    fn forget_change(&mut self) {
        if !self.label.ancestors.is_empty() {
            self.label.change = self.label.ancestors.remove(0);
            self.label.generation -= 1;
        }
    }

    /// One holder of the checkpoints and one of the journal are enough: each has all of it. Without
    /// the journal the last checkpoint is what there is, if an operator accepts that.
    fn check_holders(&self) -> Result<(), OpenRefusal> {
        let array = self.label.array;
        let is_there = |holders: &[DiskId]| holders.iter().any(|disk| self.is_current(*disk));
        let names = |holders: &[DiskId]| self.names(holders.iter().copied());
        // First what nobody can accept.
        if !is_there(&self.label.holders) {
            return Err(OpenRefusal::NoHolders { array, missing: names(&self.label.holders) });
        }
        if !is_there(&self.label.journal) && !self.accepted {
            return Err(OpenRefusal::NoJournal { array, missing: names(&self.label.journal) });
        }
        Ok(())
    }

    /// One holder of the checkpoints that is not older than the others is enough: what was acknowledged since is in
    /// those that are not there. `newer` disks know that there are any. The journal says itself what it lacks. Where
    /// that is accepted all of them are asked: one may be less old than another.
    fn check_ages(&mut self, newer: Vec<String>) -> Result<(), OpenRefusal> {
        let holders = self.label.holders.iter().copied();
        let there: Vec<DiskId> = holders.filter(|disk| self.is_current(*disk)).collect();
        let is_old = |disk: &DiskId| self.lack(*disk) == Some(Lack::Old);
        if !there.iter().all(is_old) || mutants::is(Mutant::BelieveOld) {
            return Ok(());
        }
        if self.accepted {
            there.into_iter().for_each(|disk| self.waive(disk));
            self.goes_back = true;
            return Ok(());
        }
        let disks = self.names(there.into_iter());
        Err(OpenRefusal::OldDisks { array: self.label.array, disks, newer })
    }

    /// Whether the array may be opened with the disks that are there. With most of its disks it is,
    /// whatever volumes that loses for the time being: these are the array. With half of them or
    /// less it is when all sets can be read.
    ///
    /// # Errors
    /// [`OpenRefusal::TooFew`], unless an operator accepts that.
    pub fn check_sets(&self, sets: impl IntoIterator<Item = SetDisks>) -> Result<(), OpenRefusal> {
        let active = self.label.active().count();
        let present = self.current.len();
        assert!(present <= active, "only active members are current");
        if self.accepted || present * 2 > active || sets.into_iter().all(|set| self.bears(&set)) {
            return Ok(());
        }
        let away = |disk: &DiskId| !self.is_current(*disk);
        let missing = self.names(self.label.active().filter(away));
        Err(OpenRefusal::TooFew { array: self.label.array, present, active, missing })
    }

    /// Whether a set can be read with the disks that are there.
    #[must_use]
    pub fn bears(&self, set: &SetDisks) -> bool {
        let has_all = |(disk, lacks): &&(DiskId, bool)| self.uses(*disk) && !lacks;
        set.members.len() - set.members.iter().filter(has_all).count() <= set.losses_max
    }

    /// Old copies lack all, and so does what takes their place later: not where the RAID sets need what was there,
    /// in which case nothing is written, and the right disks are as good as they were.
    ///
    /// # Errors
    /// [`OpenRefusal::OldDisks`], unless an operator accepts that.
    pub fn check_old(&self, sets: impl IntoIterator<Item = SetDisks>) -> Result<(), OpenRefusal> {
        let is_cut = |disk: DiskId| self.lacking.contains(&(disk, Lack::Cut));
        let is_needed = |set: SetDisks| self.is_needed(&set, &is_cut, &|disk| !self.is_whole(disk));
        if self.accepted || !sets.into_iter().any(is_needed) || mutants::is(Mutant::CondemnOld) {
            return Ok(());
        }
        let old = self.lacking.iter().filter(|(_, lack)| *lack == Lack::Old);
        let whole = self.current.iter().map(|present| present.disk);
        Err(OpenRefusal::OldDisks {
            array: self.label.array,
            disks: self.names(old.map(|(disk, _)| *disk)),
            newer: self.names(whole.filter(|disk| self.is_whole(*disk))),
        })
    }

    /// Whether a set can be read where those `with` lack all, and cannot where those `without` do: now, or when
    /// all that are missing are back.
    fn is_needed(
        &self,
        set: &SetDisks,
        with: &dyn Fn(DiskId) -> bool,
        without: &dyn Fn(DiskId) -> bool,
    ) -> bool {
        let bears = |are_back: bool, lacks: &dyn Fn(DiskId) -> bool| {
            let is_there = |disk| self.uses(disk) || are_back && self.missing.contains(&disk);
            let is_good =
                |(disk, lack): &&(DiskId, bool)| is_there(*disk) && !lack && !lacks(*disk);
            set.members.len() - set.members.iter().filter(is_good).count() <= set.losses_max
        };
        [false, true].into_iter().any(|are_back| bears(are_back, with) && !bears(are_back, without))
    }

    /// Whether nothing is wrong with a disk, there or not.
    fn is_whole(&self, disk: DiskId) -> bool {
        self.lacking.iter().all(|(other, _)| *other != disk)
    }

    /// Whether a set that can be read can be read without these disks too, which are there.
    #[must_use]
    pub fn bears_without(&self, set: &SetDisks, disks: &[DiskId]) -> bool {
        let lacks = |disk: DiskId| !self.is_whole(disk);
        !self.is_needed(set, &lacks, &|disk| lacks(disk) || disks.contains(&disk))
    }

    /// What has to be durable before the opening changes anything else: who is not there, and
    /// where the others are. `since` is what a disk that was there at the end has.
    #[must_use]
    pub fn first_events(&self, found: &[(String, Found)], since: Since) -> Vec<Event> {
        let away = self.label.active().filter(|disk| !self.is_current(*disk)).collect();
        let stale = self.stale.iter().map(|(present, _)| present);
        let names = self.current.iter().chain(stale);
        let names = names.map(|present| (present.disk, found[present.index].0.clone())).collect();
        let mut lacking: Vec<DiskId> = self.lacking.iter().map(|(disk, _)| *disk).collect();
        if self.goes_back && !mutants::is(Mutant::KeepFuture) {
            // Who is out may have what is given up.
            let used = self.label.members.iter().filter(|record| record.is_used());
            lacking.extend(used.map(|record| record.disk).filter(|disk| !self.is_current(*disk)));
        }
        let mut events = vec![Event::Out { disks: away, since }, Event::Found(names)];
        events.push(Event::LacksAll(lacking));
        // Also when all are there and nothing has changed: what is not there, or a copy of it that goes on
        // elsewhere, may carry a label that came of this one, and that must not pass for the newest, or
        // for the same, when they meet.
        if !mutants::is(Mutant::QuietStart) || !self.rewrite.is_empty() || !self.missing.is_empty()
        {
            events.push(Event::Behind);
        }
        events
    }
}
