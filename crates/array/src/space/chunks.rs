//! Chunks of disks, and which disks a set gets them from.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::bits::Bits;
use crate::DiskId;
use crate::checksum::mix;

/// The chunks of all disks.
///
/// Invariant: a chunk is handed out once until it is released, and a set never gets two of the
/// same disk.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    disks: BTreeMap<DiskId, Disk>,
    spare_chunks: u64,
    /// Of what is kept free: sets for metadata, and how many copies they have.
    spare_sets: (u64, usize),
}

#[derive(Debug, Clone)]
struct Disk {
    used: Bits,
    gives: Gives,
}

/// Whether sets get new chunks of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// Yes.
    Chunks,
    /// Only seats for the time when it is back, where too few other disks are left for a set: it is
    /// not there, and lacks what is written to the set meanwhile.
    Seats,
    /// No: it is to be emptied.
    Nothing,
}

/// A disk that could give a chunk.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: DiskId,
    free: u32,
    total: u32,
    /// Decides between equals.
    lot: u64,
}

/// Copies that metadata has at least, where there are disks for them: what one disk takes with it when
/// it fails is not the last one.
pub const COPIES_MIN: usize = 2;
/// By how much of its space a disk may be fuller than those that would be next.
const UNEVEN_PERCENT_MAX: u64 = 5;

impl Candidate {
    /// Orders by free share of the disk, the largest first.
    fn by_share(&self, other: &Self) -> Ordering {
        let (a, b) = (u64::from(self.free), u64::from(other.free));
        let order = (b * u64::from(self.total)).cmp(&(a * u64::from(other.total)));
        order.then(self.lot.cmp(&other.lot))
    }

    fn share_percent(&self) -> u64 {
        u64::from(self.free) * 100 / u64::from(self.total)
    }

    /// Orders by free chunks, the most first.
    fn by_free(&self, other: &Self) -> Ordering {
        other.free.cmp(&self.free).then(self.lot.cmp(&other.lot))
    }
}

impl Chunks {
    /// Adds an empty disk that takes new chunks.
    ///
    /// # Panics
    /// When there is a disk of this number.
    pub fn add_disk(&mut self, id: DiskId, chunks: u32) {
        let disk = Disk { used: Bits::new(chunks), gives: Gives::Chunks };
        assert!(self.disks.insert(id, disk).is_none(), "{id:?} is here already");
    }

    /// Takes out a disk that no set is on any more.
    ///
    /// # Panics
    /// When there is none of this number, or its chunks are in use.
    pub fn remove_disk(&mut self, id: DiskId) {
        let disk = self.disks.remove(&id).expect("only disks of the array leave it");
        assert_eq!(disk.used.ones(), 0, "{id:?} is still in use");
    }

    /// Says what a disk gives.
    pub fn set_gives(&mut self, id: DiskId, gives: Gives) {
        self.disk_mut(id).gives = gives;
    }

    /// Keeps so many chunks free for rebuilds.
    pub fn set_spare(&mut self, chunks: u64) {
        self.spare_chunks = chunks;
    }

    /// Keeps room for so many sets of metadata with so many copies.
    pub fn set_spare_sets(&mut self, sets: u64, copies: usize) {
        self.spare_sets = (sets, copies);
    }

    /// What is kept free for rebuilds.
    #[must_use]
    pub fn spare(&self) -> u64 {
        self.spare_chunks
    }

    /// Marks a chunk of a set that exists; `false` when there is no such chunk or it is in use.
    #[must_use]
    pub fn claim(&mut self, id: DiskId, chunk: u32) -> bool {
        let Some(disk) = self.disks.get_mut(&id) else { return false };
        let is_free = chunk < disk.used.len() && !disk.used.get(chunk);
        if is_free {
            disk.used.set(chunk);
        }
        is_free
    }

    /// Chunks for a new set, each of another disk and of none in `avoid`; `None` when there are
    /// too few, or the rest would not do as spare space.
    ///
    /// Disks with the largest free share come first, so that all fill up evenly; but where that
    /// would leave chunks over in the end (disks of very different sizes), those with the most
    /// free chunks do, which never leaves more over than it must.
    pub fn allocate(&mut self, width: usize, avoid: &[DiskId]) -> Option<Vec<(DiskId, u32)>> {
        assert!(width > 0, "a set lies on disks");
        let mut candidates = self.candidates(avoid);
        if candidates.len() < width || self.free() < self.spare_chunks + width as u64 {
            return None;
        }
        candidates.sort_by(Candidate::by_share);
        let possible = self.sets_beside_maps(free_of(&candidates), width);
        let left = less(&candidates, width);
        let keeps_maps = self.keeps_maps(&left);
        if !keeps_maps || self.sets_beside_maps(left, width) + 1 < possible {
            candidates.sort_by(Candidate::by_free);
        }
        if !self.keeps_maps(&less(&candidates, width)) {
            return None;
        }
        Some(candidates[..width].iter().map(|disk| (disk.id, self.take(disk.id))).collect())
    }

    /// As [`allocate`](Self::allocate), of other disks than `busy`, so that sets which are filled
    /// side by side do not share disks; `None` where that would fill disks less evenly, or leave
    /// more over in the end.
    pub fn allocate_apart(&mut self, width: usize, busy: &[DiskId]) -> Option<Vec<(DiskId, u32)>> {
        let mut all = self.candidates(&[]);
        if busy.is_empty() || all.len() < width || self.free() < self.spare_chunks + width as u64 {
            return None;
        }
        all.sort_by(Candidate::by_share);
        let mut apart: Vec<Candidate> = all.clone();
        apart.retain(|disk| !busy.contains(&disk.id));
        let (wished, last) = (&all[width - 1], apart.get(width - 1)?);
        if last.share_percent() + UNEVEN_PERCENT_MAX < wished.share_percent() {
            return None;
        }
        apart.truncate(width);
        let is_chosen = |disk: &Candidate| apart.iter().any(|other| other.id == disk.id);
        let rest: Vec<u32> =
            all.iter().map(|disk| disk.free - u32::from(is_chosen(disk))).collect();
        let keeps_maps = self.keeps_maps(&rest);
        let possible = self.sets_beside_maps(free_of(&all), width);
        if !keeps_maps || self.sets_beside_maps(rest, width) + 1 < possible {
            return None;
        }
        Some(apart.iter().map(|disk| (disk.id, self.take(disk.id))).collect())
    }

    /// As [`allocate`](Self::allocate) where too few disks are there: `seats` of the chunks are of
    /// disks that are away. May use what is kept for rebuilds if it `may_spare` that.
    pub fn allocate_seats(
        &mut self,
        width: usize,
        seats: usize,
        may_spare: bool,
    ) -> Option<Vec<(DiskId, u32)>> {
        assert!(seats < width, "somebody is there");
        let there = width - seats;
        let (mut here, mut away) = (self.candidates(&[]), self.candidates_of(Gives::Seats));
        let is_room = here.len() >= there && away.len() >= seats;
        if !is_room || !may_spare && self.free() < self.spare_chunks + there as u64 {
            return None;
        }
        here.sort_by(Candidate::by_share);
        away.sort_by(Candidate::by_share);
        if !self.keeps_maps(&less(&here, there)) {
            here.sort_by(Candidate::by_free);
        }
        if !may_spare && !self.keeps_maps(&less(&here, there)) {
            return None;
        }
        let chosen = here[..there].iter().chain(&away[..seats]);
        Some(chosen.map(|disk| (disk.id, self.take(disk.id))).collect())
    }

    /// A chunk for a rebuild of data, of no disk in `avoid` or `leaving`. Spare space is there for this,
    /// but not what metadata could need.
    pub fn allocate_beside_maps(
        &mut self,
        avoid: &[DiskId],
        leaving: &[DiskId],
    ) -> Option<(DiskId, u32)> {
        let mut candidates = self.candidates(avoid);
        candidates.retain(|disk| self.leaves_maps(disk.id, leaving));
        let id = candidates.into_iter().min_by(Candidate::by_share)?.id;
        Some((id, self.take(id)))
    }

    /// A chunk for a rebuild of metadata, of no disk in `avoid`.
    pub fn allocate_one(&mut self, avoid: &[DiskId]) -> Option<(DiskId, u32)> {
        let id = self.candidates(avoid).into_iter().min_by(Candidate::by_share)?.id;
        Some((id, self.take(id)))
    }

    /// A chunk of this very disk, for data that moves there.
    pub fn allocate_on(&mut self, id: DiskId) -> Option<u32> {
        let disk = self.disks.get(&id)?;
        (disk.gives == Gives::Chunks && disk.used.zeros() > 0).then(|| self.take(id))
    }

    /// All disks.
    pub fn disks(&self) -> impl Iterator<Item = DiskId> {
        self.disks.keys().copied()
    }

    /// Gives a chunk back.
    ///
    /// # Panics
    /// When it is not in use.
    pub fn release(&mut self, id: DiskId, chunk: u32) {
        self.disk_mut(id).used.clear(chunk);
    }

    /// Chunks of a disk, and how many of them are in use.
    #[must_use]
    pub fn counts(&self, id: DiskId) -> Option<(u32, u32)> {
        self.disks.get(&id).map(|disk| (disk.used.len(), disk.used.ones()))
    }

    /// All chunks of all disks.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.disks.values().map(|disk| u64::from(disk.used.len())).sum()
    }

    /// Free chunks of disks that take new ones; spare space is among them.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.open().map(|(_, disk)| u64::from(disk.used.zeros())).sum()
    }

    /// Whether a disk takes new chunks.
    #[must_use]
    pub fn is_open(&self, id: DiskId) -> bool {
        self.disks.get(&id).is_some_and(|disk| disk.gives == Gives::Chunks)
    }

    /// Disks that take new chunks, full ones as well.
    #[must_use]
    pub fn disks_open(&self) -> usize {
        self.open().count()
    }

    /// Disks that give seats only.
    #[must_use]
    pub fn disks_away(&self) -> usize {
        self.disks.values().filter(|disk| disk.gives == Gives::Seats).count()
    }

    /// How many more sets of this width there is room for, each with so many seats of disks that
    /// are away.
    #[must_use]
    pub fn sets_possible_with_seats(&self, width: usize, seats: usize) -> u64 {
        assert!(seats < width, "somebody is there");
        let of_others = self.sets_possible(width - seats);
        match seats {
            0 => of_others,
            _ => of_others.min(sets_possible(&free_of(&self.candidates_of(Gives::Seats)), seats)),
        }
    }

    /// How many more sets of this width there is room for beside the spare space.
    #[must_use]
    pub fn sets_possible(&self, width: usize) -> u64 {
        self.sets_possible_of(&self.candidates(&[]), width)
    }

    /// How many sets of this width there were room for if `disk` took no new chunks.
    #[must_use]
    pub fn sets_possible_without(&self, disk: DiskId, width: usize) -> u64 {
        self.sets_possible_of(&self.candidates(&[disk]), width)
    }

    fn sets_possible_of(&self, disks: &[Candidate], width: usize) -> u64 {
        assert!(width > 0, "a set lies on disks");
        let all = disks.iter().map(|disk| u64::from(disk.free)).sum::<u64>();
        let beside_spare = all.saturating_sub(self.spare_chunks) / width as u64;
        self.sets_beside_maps(free_of(disks), width).min(beside_spare)
    }

    /// How many sets so many free chunks make beside what is kept for metadata.
    fn sets_beside_maps(&self, mut free: Vec<u32>, width: usize) -> u64 {
        keep(free.iter_mut().collect(), self.spare_sets.0, self.maps_width());
        sets_possible(&free, width)
    }

    /// Whether metadata finds as much room on the disks that take chunks as with this one, which works.
    #[must_use]
    pub fn maps_do_without(&self, disk: DiskId) -> bool {
        let others = self.open().filter(|(id, _)| *id != disk);
        let mut free: Vec<u32> = others.map(|(_, disk)| disk.used.zeros()).collect();
        let without = self.maps_possible(&free, free.len());
        free.extend(self.disks.get(&disk).map(|disk| disk.used.zeros()));
        without >= self.maps_possible(&free, free.len())
    }

    /// Disks that would take a chunk of a rebuild of data, if those that are `leaving` take none.
    #[must_use]
    pub fn takers(&self, leaving: &[DiskId]) -> Vec<DiskId> {
        let candidates = self.candidates(leaving).into_iter().map(|disk| disk.id);
        candidates.filter(|id| self.leaves_maps(*id, leaving)).collect()
    }

    /// Takes off what is free, by disk, what a rebuild of data leaves there for metadata.
    pub fn keep_maps(&self, free: &mut BTreeMap<DiskId, u32>) {
        let chunks: Vec<u32> = free.values().copied().collect();
        let sets = self.maps_possible(&chunks, chunks.len());
        keep(free.values_mut().collect(), sets, self.copies_min(chunks.len()));
    }

    /// Whether as much metadata finds room on the disks that stay when this one has a chunk less: as
    /// many of the sets kept for it as have room now, with their last copies but one. Without them no
    /// checkpoint ends, and the array stops. Their other copies follow when there is room for those.
    fn leaves_maps(&self, id: DiskId, leaving: &[DiskId]) -> bool {
        let mut staying = self.candidates(&[]);
        staying.retain(|disk| !leaving.contains(&disk.id));
        let disks = self.open().filter(|(id, _)| !leaving.contains(id)).count();
        let less: Vec<u32> =
            staying.iter().map(|disk| disk.free - u32::from(disk.id == id)).collect();
        self.maps_possible(&less, disks) == self.maps_possible(&free_of(&staying), disks)
    }

    /// How many of the sets kept for metadata have room in what is free on so many disks.
    fn maps_possible(&self, free: &[u32], disks: usize) -> u64 {
        sets_possible(free, self.copies_min(disks)).min(self.spare_sets.0)
    }

    /// Copies that metadata must have at least, of so many disks.
    fn copies_min(&self, disks: usize) -> usize {
        self.spare_sets.1.min(disks).clamp(1, COPIES_MIN)
    }

    /// Whether what is kept for metadata is there when this is what is free.
    fn keeps_maps(&self, free: &[u32]) -> bool {
        let (sets, _) = self.spare_sets;
        let kept = free.iter().map(|free| u64::from(*free).min(sets)).sum::<u64>();
        kept >= sets * self.maps_width() as u64
    }

    /// On how many disks what is kept for metadata lies: as many as it has copies, if the disks are
    /// large enough for twice as much.
    fn maps_width(&self) -> usize {
        let (sets, copies) = self.spare_sets;
        let sizes: Vec<u32> = self.open().map(|(_, disk)| disk.used.len()).collect();
        let widths = (1..=copies.min(sizes.len())).rev();
        widths.into_iter().find(|width| sets_possible(&sizes, *width) >= 2 * sets).unwrap_or(1)
    }

    fn open(&self) -> impl Iterator<Item = (DiskId, &Disk)> {
        self.disks_that_give(Gives::Chunks)
    }

    fn disks_that_give(&self, gives: Gives) -> impl Iterator<Item = (DiskId, &Disk)> {
        let disks = self.disks.iter().filter(move |(_, disk)| disk.gives == gives);
        disks.map(|(id, disk)| (*id, disk))
    }

    fn candidates(&self, avoid: &[DiskId]) -> Vec<Candidate> {
        let mut all = self.candidates_of(Gives::Chunks);
        all.retain(|disk| !avoid.contains(&disk.id));
        all
    }

    fn candidates_of(&self, gives: Gives) -> Vec<Candidate> {
        let used = self.disks.values().map(|disk| u64::from(disk.used.ones())).sum::<u64>();
        let free = self.disks_that_give(gives).filter(|(_, disk)| disk.used.zeros() > 0);
        free.map(|(id, disk)| Candidate {
            id,
            free: disk.used.zeros(),
            total: disk.used.len(),
            // Lots depend on how many chunks are in use, so that equal disks do not form the same
            // groups again and again, and a rebuild reads from all of them.
            lot: mix(used << 16 | u64::from(id.0)),
        })
        .collect()
    }

    fn take(&mut self, id: DiskId) -> u32 {
        let used = &mut self.disk_mut(id).used;
        let chunk = used.next_zero(0).expect("candidates have free chunks");
        used.set(chunk);
        chunk
    }

    fn disk_mut(&mut self, id: DiskId) -> &mut Disk {
        self.disks.get_mut(&id).expect("only disks of the array are asked for")
    }
}

fn free_of(disks: &[Candidate]) -> Vec<u32> {
    disks.iter().map(|disk| disk.free).collect()
}

/// What is free when the first `width` disks have a chunk less.
fn less(disks: &[Candidate], width: usize) -> Vec<u32> {
    let taken = |at: usize| u32::from(at < width);
    disks.iter().enumerate().map(|(at, disk)| disk.free - taken(at)).collect()
}

/// Takes `sets` sets of this width off what is free, or narrower ones where there are too few disks with
/// something left: of the disks with the most, down to the same level, at most one for each set.
fn keep(mut free: Vec<&mut u32>, sets: u64, width: usize) {
    let most = u32::try_from(sets).unwrap_or(u32::MAX);
    let above = |free: u32, level: u32| free.saturating_sub(level).min(most);
    let all = |free: &[&mut u32], level| {
        free.iter().map(|free| u64::from(above(**free, level))).sum::<u64>()
    };
    let wanted = sets * width as u64;
    let (mut level, mut enough) = (0, free.iter().map(|free| **free).max().unwrap_or(0));
    while level < enough {
        let middle = level.midpoint(enough);
        if all(&free, middle) > wanted { level = middle + 1 } else { enough = middle }
    }
    let mut over = wanted - all(&free, level);
    for free in &mut free {
        let more =
            u32::from(over > 0 && above(**free, level) < above(**free, level.saturating_sub(1)));
        over -= u64::from(more);
        **free -= above(**free, level) + more;
    }
}

/// How many sets of this width so many free chunks of each disk make: the largest `n` for which `n`
/// chunks of each disk at most are enough, because no set takes two of the same disk.
fn sets_possible(free: &[u32], width: usize) -> u64 {
    let enough = |sets: u64| {
        let chunks = free.iter().map(|free| u64::from(*free).min(sets)).sum::<u64>();
        chunks >= sets * width as u64
    };
    let all = free.iter().map(|free| u64::from(*free)).sum::<u64>();
    let (mut least, mut most) = (0, all / width as u64);
    while least < most {
        let middle = (least + most).div_ceil(2);
        if enough(middle) { least = middle } else { most = middle - 1 }
    }
    least
}

#[cfg(test)]
mod tests;
