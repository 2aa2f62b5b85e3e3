//! Whether there is room for a move: at its destination for the volume, at its source for what its hosts write over
//! meanwhile, and at both for the volumes that stay there.

use array::Level;

use super::super::{Member, MoveError, RequestError};
use super::arrival::Incoming;
use super::source::Source;
use crate::move_request::Passport;

/// This part of the room of a level stays for the volumes that are here already, in any case.
const RESERVE_PART: u64 = 32;

/// After so many bytes that have come it is looked again whether there is room.
const ROOM_STEP_BYTES: u64 = 64 << 20;

/// A move goes on down to this part of the room of its source, and below it as long as its hosts write nothing over.
const SOURCE_PART: u64 = 128;

/// After so many pieces it is looked again whether there is room at the source.
const ROOM_STEP_PIECES: u64 = 64;

impl Member {
    /// What is free on a level, and the room of it in all; all that can be counted where it has no disks.
    pub(super) fn room_of(&self, level: Level) -> (u64, u64) {
        let info = self.array.info();
        let space = info.free_by_level.iter().find(|space| space.raid == level);
        space.map_or((u64::MAX, 0), |space| (space.free_bytes, space.free_bytes + space.used_bytes))
    }

    /// Looks now and then whether there is room at the source: what its hosts write over is kept by the snapshots of the
    /// move, and hosts of all its volumes would find the array full.
    pub(super) fn check_room_to_go_on(
        &self,
        source: &Source,
        level: Level,
    ) -> Result<(), RequestError> {
        let pieces = source.pieces.replace(source.pieces.get() + 1);
        if !pieces.is_multiple_of(ROOM_STEP_PIECES) {
            return Ok(());
        }
        let (free_bytes, all_bytes) = self.room_of(level);
        if is_running_out((free_bytes, all_bytes), source.free_bytes) {
            let name = source.name.clone();
            return Err(MoveError::NoRoomToGoOn { name, free_bytes }.into());
        }
        Ok(())
    }

    /// Refuses what there is no room for beside what arrives already. Whether there are disks for its level is asked when
    /// it is made.
    pub(super) fn check_room_for(&self, passport: &Passport) -> Result<(), RequestError> {
        let thick_bytes = if passport.thick { passport.size_bytes } else { 0 };
        let awaited_bytes = self.moving.arriving().awaited_bytes(passport.level);
        let asked_bytes = passport.needs_bytes.max(thick_bytes).saturating_add(awaited_bytes);
        self.check_room_of_hosts(&passport.name, passport.level, asked_bytes)
    }

    /// Refuses to take so much that what is here already has no room left to grow: the source has room for the volume, and
    /// hosts of other volumes must not find the array full because one has come.
    fn check_room_of_hosts(
        &self,
        name: &str,
        level: Level,
        asked_bytes: u64,
    ) -> Result<(), RequestError> {
        let (free_bytes, all_bytes) = self.room_of(level);
        let free_bytes = free_bytes.saturating_sub(all_bytes / RESERVE_PART);
        if asked_bytes > free_bytes {
            let (name, in_mib) = (name.to_owned(), |bytes: u64| bytes.div_ceil(1 << 20));
            let (free_mib, asked_mib) = (free_bytes >> 20, in_mib(asked_bytes));
            return Err(MoveError::NoRoom { name, free_mib, asked_mib }.into());
        }
        Ok(())
    }

    /// Looks now and then whether there is still room: hosts here and at the source go on writing.
    pub(super) fn check_room_on(
        &self,
        incoming: &Incoming,
        len: usize,
    ) -> Result<(), RequestError> {
        let came = incoming.came_bytes.get();
        let now = came.saturating_add(len as u64);
        incoming.came_bytes.set(now);
        if incoming.passport.thick || came / ROOM_STEP_BYTES == now / ROOM_STEP_BYTES {
            return Ok(());
        }
        let Passport { name, level, .. } = &incoming.passport;
        self.check_room_of_hosts(name, *level, len as u64)
    }
}

/// Whether little is free, and less than there was.
fn is_running_out((free_bytes, all_bytes): (u64, u64), before_bytes: u64) -> bool {
    let little_bytes = all_bytes / SOURCE_PART;
    free_bytes < little_bytes && free_bytes.saturating_add(little_bytes / 4) < before_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_is_nearly_full_is_left_as_long_as_hosts_write_nothing_over() {
        let all = 128 << 20;
        assert!(!is_running_out((2 << 20, all), 100 << 20), "there is room");
        assert!(is_running_out((1 << 19, all), 100 << 20));
        assert!(!is_running_out((1 << 19, all), 1 << 19), "nothing of it was taken");
        assert!(is_running_out((1 << 17, all), 1 << 19), "more and more is taken");
        assert!(!is_running_out((u64::MAX, 0), u64::MAX), "it is not known");
    }
}
