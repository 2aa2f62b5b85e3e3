//! Images of disks that are put back, and the marks by which they are told.
//!
//! As [`read_newest`](crate::open) and what comes after it do with real disks.

use super::*;

/// An old image is used all the same, as the stripe is on no other disks: what it lacks is found block by block.
pub(super) const NEEDED: &str = "needed";

impl World {
    /// An image is taken of a disk, or put back, while the machine is off.
    pub(super) fn image(&self, limits: &Limits, out: &mut Vec<Next>) {
        match &self.image {
            Some((number, image)) => {
                let mut next = self.clone();
                next.image = None;
                let disk = &mut next.disks[usize::from(*number)];
                *disk = Disk { is_image: true, refuses: disk.refuses, ..Disk::clone(image) };
                out.push(Ok(next));
            }
            None if self.images < limits.images => {
                for number in ids(self.labelled()) {
                    let mut next = self.clone();
                    next.images += 1;
                    let disk = next.disks[usize::from(number.0)].clone();
                    next.image = Some((number.0 as u8, Rc::new(disk)));
                    out.push(Ok(next));
                }
            }
            None => {}
        }
    }

    /// A disk that comes back while the array runs is older than what the last checkpoint says of it.
    pub(super) fn is_behind(&self, number: u8) -> bool {
        let disk = &self.disks[usize::from(number)];
        disk.is_image && disk.known() < self.run().last.marks[usize::from(number)]
    }

    /// What checkpoints and marks tell of those that are older than their labels say.
    pub(super) fn leave_old_ones(
        &self,
        opening: &mut Opening,
        last: &Record,
    ) -> Result<(), String> {
        let disk = |disk: DiskId| &self.disks[usize::from(disk.0)];
        let mut holders = opening.label.holders.clone();
        holders.retain(|holder| opening.has_all(*holder));
        for holder in holders {
            let has = disk(holder).slots.iter().flatten().any(|slot| **slot == *last);
            if !has && disk(holder).known() + 1 < last.number {
                opening.lacks_all(holder, Lack::Old);
            }
        }
        for (present, since) in opening.stale.clone() {
            let theirs = disk(present.disk).label.as_deref().expect("a member has a label");
            let was_holder =
                theirs.own().state == MemberState::Active && theirs.holders.contains(&present.disk);
            if was_holder && u64::from(disk(present.disk).known()) + 1 < since.checkpoint {
                opening.lacks_all(present.disk, Lack::Old);
            }
        }
        let stale = opening.stale.iter().map(|(present, _)| present);
        let there: Vec<DiskId> =
            opening.current.iter().chain(stale).map(|present| present.disk).collect();
        let knows_more = |number: &&DiskId| {
            let record = opening.label.member(**number);
            disk(**number).known() > last.number + 1
                && record.is_some_and(|record| !record.state.lacks_all())
        };
        if there.iter().any(|number| knows_more(&number)) {
            return Err("there are newer checkpoints".into());
        }
        let lacks = |seat: &u8| last.stale & bit(*seat) != 0 || last.lacks[usize::from(*seat)] != 0;
        let members = last.seats.iter().map(|seat| (DiskId((*seat).into()), lacks(seat)));
        let set = SetDisks { members: members.collect(), losses_max: self.losses };
        let mut old = Vec::new();
        for number in there {
            if disk(number).known() < last.marks[usize::from(number.0)] {
                old.push(number);
                if !opening.bears_without(&set, &old) {
                    return Err(NEEDED.into());
                }
            }
        }
        old.into_iter().for_each(|disk| opening.lacks_all(disk, Lack::Old));
        opening.check_old([set]).map_err(|refusal| refusal.to_string())
    }
}

impl Disk {
    /// The last checkpoint that it knows of.
    fn known(&self) -> u8 {
        let records = self.slots.iter().flatten().map(|record| record.number);
        records.max().unwrap_or(0).max(self.mark)
    }
}
