//! Which disks take no new chunks because their data is to go to others.
//!
//! A disk that is to be emptied and still works stays open as long as new sets could not do without
//! it: hosts must not run out of space because a disk is under suspicion.

use crate::DiskId;
use crate::core::{Core, State};
use crate::label::{MemberKind, MemberRecord, MemberState};
use crate::mutants::{self, Mutant};
use crate::raid::{Access, Disk};
use crate::space::Gives;

impl Core {
    /// Closes a disk that is to be emptied, or leaves it open as long as nothing else helps; whether
    /// it is closed.
    pub(super) fn close_disk(&self, state: &mut State, disk: DiskId) -> bool {
        let works = self.raid.disks().get(disk).is_some_and(|disk| disk.access() == Access::Full);
        let is_needed = works && state.needs_open(disk, self.level);
        let gives = match (works, is_needed) {
            (true, true) => Gives::Chunks,
            (true, false) => Gives::Nothing,
            (false, _) => Gives::Seats,
        };
        state.space.set_gives(disk, gives);
        !is_needed
    }

    /// Disks that are not to be emptied any more, because they are needed or were forgiven, take new
    /// chunks again.
    pub(super) fn reopen_disks(&self, leaving: &[DiskId]) {
        let state = &mut *self.lock();
        let is_in = |record: &&MemberRecord| {
            record.state == MemberState::Active && record.kind == MemberKind::Data
        };
        let members: Vec<DiskId> =
            state.label.members.iter().filter(is_in).map(|record| record.disk).collect();
        for disk in members.into_iter().filter(|disk| !leaving.contains(disk)) {
            let works =
                self.raid.disks().get(disk).is_some_and(|disk| disk.access() == Access::Full);
            let is_closed = !state.space.chunks.is_open(disk) && !mutants::is(Mutant::KeepClosed);
            if works && is_closed {
                state.space.set_gives(disk, Gives::Chunks);
            }
        }
    }

    /// Whether every set that lies on a disk has another to go to, and metadata finds as much room without
    /// it. Where not, an operator has to do something.
    pub(crate) fn can_be_emptied(&self, state: &State, disk: DiskId) -> bool {
        if !state.space.chunks.maps_do_without(disk) {
            return false;
        }
        // As it is once the disk is closed.
        let takers = state.space.chunks.takers(&[disk]);
        self.sets.all().iter().all(|set| {
            let members = set.members();
            let is_on = members.iter().any(|seat| seat.disk == disk);
            let is_free = |taker: &DiskId| members.iter().all(|seat| seat.disk != *taker);
            let is_served = set.replacement().is_some();
            !is_on || is_served || takers.iter().any(is_free)
        })
    }

    /// Suspect disks, without those that new sets or their own data cannot do without: nothing
    /// would be won if those were emptied.
    pub(super) fn suspects_to_empty(&self, state: &State) -> Vec<DiskId> {
        let (disks, now) = (self.raid.disks().all(), self.env.now());
        let suspect = disks.iter().filter(|disk| super::is_suspect(disk, now));
        let suspect = suspect.map(|disk| disk.id());
        let may_go = |disk: &DiskId| {
            !state.needs_open(*disk, self.level) && self.can_be_emptied(state, *disk)
        };
        suspect.filter(may_go).collect()
    }

    /// Why a suspect disk is still in use, and what to do.
    pub(crate) fn suspicion(&self, state: &State, disk: &Disk) -> String {
        let is_stuck =
            state.needs_open(disk.id(), self.level) || !self.can_be_emptied(state, disk.id());
        let what = match is_stuck {
            true => "and no other disk can take over from it: add a disk, or forgive its errors",
            false => "its data is being copied to other disks",
        };
        format!("it has too many errors, {what}")
    }
}
