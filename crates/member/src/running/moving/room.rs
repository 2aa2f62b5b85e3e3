//! Whether there is room at the destination of a move, for the volume and for those that are there.

use array::{ArrayError, Level};

use super::super::{Member, RequestError};
use super::arrival::Incoming;
use crate::move_request::Passport;

/// This part of the room of a level stays for the volumes that are here already, in any case.
const RESERVE_PART: u64 = 32;

/// After so many bytes that have come it is looked again whether there is room.
const ROOM_STEP_BYTES: u64 = 64 << 20;

impl Member {
    /// Refuses what there is no room for beside what arrives already. Whether there are disks for its level is asked when
    /// it is made.
    pub(super) fn check_room_for(&self, passport: &Passport) -> Result<(), RequestError> {
        let thick_bytes = if passport.thick { passport.size_bytes } else { 0 };
        let awaited_bytes = self.moving.arriving().awaited_bytes(passport.level);
        let asked_bytes = passport.needs_bytes.max(thick_bytes).saturating_add(awaited_bytes);
        self.check_room_of_hosts(passport.level, asked_bytes)
    }

    /// Refuses to take so much that what is here already has no room left to grow: the source has room for the volume, and
    /// hosts of other volumes must not find the array full because one has come.
    fn check_room_of_hosts(&self, level: Level, asked_bytes: u64) -> Result<(), RequestError> {
        let info = self.array.info();
        let mut levels = info.free_by_level.iter();
        let Some(space) = levels.find(|space| space.raid == level) else { return Ok(()) };
        let reserve_bytes = (space.free_bytes + space.used_bytes) / RESERVE_PART;
        let free_bytes = space.free_bytes.saturating_sub(reserve_bytes);
        if asked_bytes > free_bytes {
            return Err(ArrayError::NoSpace { free_bytes, asked_bytes }.into());
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
        self.check_room_of_hosts(incoming.passport.level, len as u64)
    }
}
