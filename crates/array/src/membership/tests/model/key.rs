//! Which worlds are the same: those that differ in nothing but the numbers of changes, generations
//! and disks.
//!
//! Of changes and generations it matters which label led to which. Disks that do the same (those
//! that hold journal and checkpoints, those that hold neither, those for the journal alone) are
//! put in the order of what they have and what is said of them. Two that have the same in that keep
//! their order: some worlds are walked twice then, and none is left out for it.
//!
//! Where the rules take the lowest number among equals ([`journal_successors`], the record's new
//! holders), worlds that are mirror images go on with different ones of them. Only one of the two
//! is walked.

use super::*;

/// Where each disk goes.
type Places = [u8; 8];

/// A hash that takes words; multiplications of 64 by 64 bits mix them.
#[derive(Clone, Copy)]
struct Mix(u64);

impl Mix {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn word(&mut self, word: u64) {
        let product =
            u128::from(self.0 ^ word.wrapping_add(0xa076_1d64_78bd_642f)) * 0xe703_7ed1_a0b4_28db;
        self.0 = (product as u64) ^ (product >> 64) as u64 ^ self.0.rotate_left(23);
    }

    fn words(&mut self, words: impl IntoIterator<Item = u64>) {
        words.into_iter().for_each(|word| self.word(word));
    }
}

fn placed(mask: u8, places: &Places) -> u64 {
    (0..8).filter(|disk| mask & bit(*disk) != 0).map(|disk| 1u64 << places[usize::from(disk)]).sum()
}

fn place(disk: DiskId, places: &Places) -> u64 {
    places[usize::from(disk.0)].into()
}

fn since_words(since: Since) -> [u64; 2] {
    [since.checkpoint, since.position]
}

fn state_word(state: MemberState) -> u64 {
    match state {
        MemberState::Active => 1,
        MemberState::Failed => 2,
        MemberState::Retired => 3,
        MemberState::Stale(since) => 4 + (since.checkpoint << 32 | since.position << 3),
    }
}

fn batch_word(batch: &Batch) -> u64 {
    match batch {
        Batch::Small(write) => 1 << 16 | u64::from(*write),
        Batch::Whole(write) => 2 << 16 | u64::from(*write),
        Batch::Written { checkpoint, version } => {
            3 << 16 | u64::from(*checkpoint) << 8 | u64::from(*version)
        }
    }
}

fn wave_words(wave: &Option<(WaveId, u8)>) -> [u64; 2] {
    wave.map_or([0, 0], |(id, version)| {
        [1 + (id.checkpoint << 1 | u64::from(id.carries)), id.wave << 8 | u64::from(version)]
    })
}

fn event_words(event: &Event, places: &Places, mix: &mut Mix) {
    let set = |disks: &[DiskId]| placed(mask(disks), places);
    match event {
        Event::Out { disks, since } => {
            mix.words([1, set(disks)]);
            mix.words(since_words(*since));
        }
        Event::LacksAll(disks) => mix.words([2, set(disks)]),
        Event::Recorded { disk, since } => {
            mix.words([3, place(*disk, places)]);
            mix.words(since_words(*since));
        }
        Event::JournalLost(since) => {
            mix.word(4);
            mix.words(since_words(*since));
        }
        Event::Failed(disk) => mix.words([5, place(*disk, places)]),
        Event::UpToDate(disk) => mix.words([6, place(*disk, places)]),
        Event::Joined { .. } => mix.word(7),
        Event::Left(disk) => mix.words([8, place(*disk, places)]),
        Event::HoldCheckpoints(disks) => mix.words([9, set(disks)]),
        Event::HoldJournal(disks) => mix.words([10, set(disks)]),
        Event::Found(_) => mix.word(11),
        Event::Behind => mix.word(12),
    }
}

impl Record {
    fn words(&self, places: &Places, mix: &mut Mix) {
        // Only the first seat is ever given to another disk: to the last one, which is spare.
        let is_replaced = usize::from(self.seats[0]) + 1 == self.lacks.len();
        let seats = self.seats.iter().fold(0, |mask, seat| mask | bit(*seat));
        mix.words([self.number.into(), self.mark as u64, self.version.into(), self.whole.into()]);
        mix.words([placed(self.stale, places), is_replaced.into(), placed(seats, places)]);
        let mut lacks = 0u64;
        for (disk, lack) in self.lacks.iter().enumerate() {
            lacks |= u64::from(*lack) << (8 * places[disk]);
        }
        mix.word(lacks);
        let marks = self.marks.iter().zip(places);
        mix.word(marks.map(|(mark, place)| u64::from(*mark) << (8 * place)).sum());
    }
}

impl World {
    /// The same for all worlds that are the same.
    pub(in crate::membership::tests) fn key(&self, limits: &Limits) -> u64 {
        let labels = self.carried();
        let places = self.places(limits, &labels);
        // Labels by their changes, in the order in which they come when the disks are put in theirs.
        let mut order: Vec<usize> = (0..self.disks.len()).collect();
        order.sort_unstable_by_key(|disk| places[*disk]);
        let mut known: Vec<&Label> = Vec::with_capacity(16);
        let mut mix = Mix::new();
        for disk in &order {
            let disk = &self.disks[*disk];
            disk.words(&places, &mut mix);
            match &disk.label {
                Some(label) => label_words(label, &places, &mut known, &mut mix),
                None => mix.word(0),
            }
        }
        self.counters(&mut mix);
        let mut tips: Vec<&Rc<Label>> = self.tips.iter().collect();
        tips.sort_by_key(|tip| tip.generation);
        tips.into_iter().for_each(|tip| label_words(tip, &places, &mut known, &mut mix));
        for (label, batch) in &self.acks {
            mix.word(batch_word(batch));
            label_words(label, &places, &mut known, &mut mix);
        }
        mix.word(self.acks.len() as u64);
        if let Some((disk, image)) = &self.image {
            mix.word(1 << places[usize::from(*disk)]);
            image.words(&places, &mut mix);
            let label = image.label.as_deref().expect("images are of members");
            label_words(label, &places, &mut known, &mut mix);
        }
        if let Some(run) = &self.run {
            run.words(&places, &mut known, &mut mix);
        }
        relations(&known, &places, &mut mix);
        mix.0
    }

    fn counters(&self, mix: &mut Mix) {
        let all = [self.crashes, self.faults, self.orders, self.cuts, self.images, self.writes];
        mix.words(all.map(u64::from));
        mix.word(self.tips.len() as u64);
    }

    fn carried(&self) -> Vec<&Label> {
        let mut labels: Vec<&Label> =
            self.disks.iter().filter_map(|disk| disk.label.as_deref()).collect();
        if let Some(run) = &self.run {
            labels.push(&run.label);
            if let Phase::Labels(change, _) = &run.phase {
                labels.extend([&change.base, &change.next]);
            }
        }
        labels
    }

    /// Puts disks that do the same in the order of what they have.
    fn places(&self, limits: &Limits, labels: &[&Label]) -> Places {
        let mut places: Places = std::array::from_fn(|disk| disk as u8);
        let count = self.disks.len();
        let colours: Vec<u64> = (0..count).map(|disk| self.colour(disk as u8, labels)).collect();
        let first = usize::from(limits.orders > 0);
        let (holders, data) = (usize::from(limits.disks.min(3)), usize::from(limits.disks));
        let all = data + usize::from(limits.journal_disks);
        for class in [first..holders, holders..data, data..all] {
            let mut order: Vec<usize> = class.clone().collect();
            order.sort_by_key(|disk| colours[*disk]);
            for (place, disk) in class.zip(order) {
                places[disk] = place as u8;
            }
        }
        places
    }

    /// What a disk has, and what is said of it; nothing of that depends on the numbers of others.
    fn colour(&self, number: u8, labels: &[&Label]) -> u64 {
        let disk = &self.disks[usize::from(number)];
        let id = DiskId(number.into());
        let mut mix = Mix::new();
        let is_imaged = self.image.as_ref().is_some_and(|(other, _)| *other == number);
        mix.words([is_imaged.into(), disk.is_image.into(), disk.mark.into()]);
        mix.words([disk.refuses.into(), disk.is_cut.into(), disk.ring.len() as u64]);
        mix.words(disk.ring.iter().map(batch_word));
        let said = |record: &Record| {
            let said = [
                u64::from(record.number),
                u64::from(record.stale & bit(number) != 0),
                record.lacks[usize::from(number)].into(),
                record.mark as u64,
            ];
            said.into_iter().fold(1, |all, word| all * 31 + word)
        };
        mix.words(disk.slots.iter().map(|slot| slot.as_deref().map_or(0, said)));
        disk.waves.iter().for_each(|wave| mix.words(wave_words(wave)));
        mix.words([disk.version.into(), disk.whole.into()]);
        let mut about = 0u64;
        for label in labels {
            let mut one = Mix::new();
            one.word(label.member(id).map_or(0, |record| state_word(record.state)));
            one.words([label.holders.contains(&id).into(), label.journal.contains(&id).into()]);
            if let Some(own) = &disk.label {
                one.words([own.led_to(label).into(), label.led_to(own).into()]);
                one.words([own.generation.saturating_sub(label.generation).min(3)]);
            }
            about = about.wrapping_add(one.0);
        }
        mix.word(about);
        if let Some(run) = &self.run {
            mix.words([u64::from(run.full & bit(number) != 0), said(&run.now)]);
            mix.word(u64::from(run.joined & bit(number) != 0));
        }
        mix.0
    }
}

impl Disk {
    fn words(&self, places: &Places, mix: &mut Mix) {
        mix.words([self.is_image.into(), self.mark.into()]);
        mix.words([self.refuses.into(), self.is_cut.into(), self.ring.len() as u64]);
        mix.words(self.ring.iter().map(batch_word));
        for slot in &self.slots {
            match slot {
                Some(record) => record.words(places, mix),
                None => mix.word(0),
            }
        }
        self.waves.iter().for_each(|wave| mix.words(wave_words(wave)));
        mix.words([self.version.into(), self.whole.into()]);
    }
}

impl Run {
    fn words<'a>(&'a self, places: &Places, known: &mut Vec<&'a Label>, mix: &mut Mix) {
        label_words(&self.label, places, known, mix);
        mix.words([placed(self.full, places), placed(self.joined, places), self.known.into()]);
        mix.word(placed(self.touched, places));
        mix.word(self.journal.len() as u64);
        mix.words(self.journal.iter().map(batch_word));
        self.last.words(places, mix);
        self.now.words(places, mix);
        mix.word(self.redo.len() as u64);
        mix.words(self.redo.iter().map(|version| u64::from(*version)));
        mix.word(self.waves.len() as u64);
        self.waves.iter().for_each(|wave| mix.words(wave_words(&Some(*wave))));
        mix.word(self.next_wave);
        let replacement = self.replacement.map_or(0, |(seat, disk)| {
            ((1 + seat as u64) << 8) | u64::from(places[usize::from(disk)])
        });
        mix.word(replacement);
        mix.word(self.phase.number());
        if let Phase::Labels(change, after) = &self.phase {
            label_words(&change.base, places, known, mix);
            label_words(&change.next, places, known, mix);
            mix.word(placed(mask(&change.joining), places));
            mix.word(change.events.len() as u64);
            change.events.iter().for_each(|event| event_words(event, places, mix));
            mix.words(after.words());
        }
    }
}

impl Phase {
    fn number(&self) -> u64 {
        match self {
            Self::Labels(..) => 1,
            Self::Renew => 2,
            Self::Redo => 3,
            Self::NoteRedo => 4,
            Self::Idle => 5,
            Self::Wave => 6,
            Self::Put => 7,
            Self::Note => 8,
            Self::Record => 9,
        }
    }
}

impl After {
    fn words(&self) -> [u64; 2] {
        match self {
            Self::Idle => [1, 0],
            Self::Open => [2, 0],
            Self::Sealed => [3, 0],
            Self::Ack(batch) => [4, batch_word(batch)],
            Self::Go(phase) => [5, phase.number()],
        }
    }
}

/// What a label says, and which one it is; its disk is where it lies.
fn label_words<'a>(label: &'a Label, places: &Places, known: &mut Vec<&'a Label>, mix: &mut Mix) {
    let at = known.iter().position(|other| other.change == label.change);
    let at = at.unwrap_or_else(|| {
        known.push(label);
        known.len() - 1
    });
    let mut members = [0; 8];
    for record in &label.members {
        members[places[usize::from(record.disk.0)] as usize] = state_word(record.state);
    }
    mix.words([at as u64, label.members.len() as u64]);
    mix.words(members.into_iter().take(label.members.len() + 1));
    mix.words([placed(mask(&label.holders), places), placed(mask(&label.journal), places)]);
    mix.word(label.went_out.iter().map(|(disk, _)| 1 << place(*disk, places)).sum());
}

/// Which label led to which.
fn relations(known: &[&Label], places: &Places, mix: &mut Mix) {
    for one in known {
        for other in known {
            // By how many changes they differ matters as far as a rule counts them.
            let ahead = one.generation.abs_diff(other.generation).min(3);
            let ahead = if one.generation < other.generation { 4 + ahead } else { ahead };
            let parent = one.ancestors.first();
            let bits = [
                one.led_to(other),
                is_parent_of(one, other),
                parent == Some(&other.change),
                parent == other.ancestors.first(),
                // Of two of one generation the lower number is preferred.
                ahead == 0 && one.change < other.change,
            ];
            let bits = bits.into_iter().fold(0, |all, one| all << 1 | u64::from(one));
            mix.word(ahead << 8 | bits);
            // How much older than its going out a disk may pass for.
            let ago = |generation: u64| generation.saturating_sub(other.generation).min(4);
            let gone = one.went_out.iter();
            mix.word(gone.map(|(disk, out)| (1 + ago(*out)) << (8 * place(*disk, places))).sum());
        }
        lineage(one, known, places, mix);
    }
}

fn is_parent_of(label: &Label, other: &Label) -> bool {
    label.lineage().next().is_some_and(|(number, change)| other.came_of(number, change, label))
}

/// What a label came of, back to what all came of: who else came of it, who carries it, and who was put out next. Of
/// two in a row that are the same in that one is enough: what comes later is the same in that, too.
fn lineage(label: &Label, known: &[&Label], places: &Places, mix: &mut Mix) {
    let mut last = 0;
    for (generation, change) in label.lineage() {
        let which = |is: &dyn Fn(&Label) -> bool| {
            known.iter().enumerate().map(|(at, other)| u64::from(is(other)) << at).sum::<u64>()
        };
        let came = which(&|other| other.came_of(generation, change, label));
        if came.count_ones() as usize == known.len() {
            break;
        }
        let out = label.went_out.iter().filter(|(_, out)| *out == generation + 1);
        let out: u64 = out.map(|(disk, _)| 1 << place(*disk, places)).sum();
        let carried = which(&|other| other.change == change);
        let word = came << 40 | carried << 8 | out;
        if word != last {
            mix.word(word);
        }
        last = word;
    }
    mix.word(0);
}
