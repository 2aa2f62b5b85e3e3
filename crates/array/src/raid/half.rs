//! Updates that were begun and could not be ended, because more disks went out than the level survives.
//!
//! What these were to get nobody else has. So it is kept, as long as the array is open, until they
//! are back and take it, or until the stripe is written otherwise: at most one wave for each time that
//! disks go out, for nothing is begun without them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use block::{BlockError, WriteFlags};
use ring::Buf;

use super::record::Seat;
use super::set::Set;
use super::update::Update;
use super::write::Put;
use super::{Raid, ReadError, WriteError};
use crate::mutants::{Mutant, is};
use crate::{DiskId, SetId};

/// An update, and who lacked nothing before it began. Its contents are no buffers of a core: those are
/// few, and it may take long.
#[derive(Debug, Clone)]
struct Half {
    written: u8,
    /// Strip, first block, and contents.
    puts: Vec<(usize, usize, Vec<u8>)>,
    sound: Vec<Seat>,
}

impl Half {
    fn of(update: &Update, sound: &[Seat]) -> Self {
        let put = |put: &Put| {
            let mut bytes = vec![0; put.data.len()];
            put.data.copy_to(0, &mut bytes);
            (put.strip, put.first_block, bytes)
        };
        let puts = update.puts.iter().map(put).collect();
        Self { written: update.written, puts, sound: sound.to_vec() }
    }

    /// `None`: no memory is left.
    fn update(&self, (set, stripe): (SetId, u32)) -> Option<Update> {
        let put = |(strip, first_block, bytes): &(usize, usize, Vec<u8>)| {
            let mut buf = Buf::alloc(bytes.len())?;
            buf.copy_from_slice(bytes);
            Some(Put { strip: *strip, first_block: *first_block, data: buf.freeze() })
        };
        let puts = self.puts.iter().map(put).collect::<Option<_>>()?;
        Some(Update { set, stripe, written: self.written, puts })
    }
}

/// By stripe.
#[derive(Debug, Default)]
pub(super) struct HalfDone(Mutex<HashMap<(SetId, u32), Half>>);

impl HalfDone {
    fn lock(&self) -> MutexGuard<'_, HashMap<(SetId, u32), Half>> {
        self.0.lock().expect("no panic under this lock")
    }
}

impl Raid {
    /// Keeps what some disks are to get of an update when they are back: nothing, if it was not begun. But
    /// who went out beside it counts as having lost what it took of it.
    pub fn keep_half(&self, update: &Update, sound: &[Seat]) {
        if !is(Mutant::ForgetHalf) {
            let half = Half::of(update, sound);
            self.half.lock().insert((update.set, update.stripe), half);
        }
    }

    /// The stripe holds something else, or all of it.
    pub fn forget_half(&self, set: SetId, stripe: u32) {
        self.half.lock().remove(&(set, stripe));
    }

    /// Whether somebody is to get his part of an update of this stripe.
    pub(super) fn has_half(&self, set: SetId, stripe: u32) -> bool {
        self.half.lock().contains_key(&(set, stripe))
    }

    /// Ends the update that a stripe was left in the middle of, if there is one. Call it under the stripe's
    /// lock, before anybody is given anything else.
    ///
    /// # Errors
    /// [`ReadError::Lost`] when those who are to take it are not back, and not gone for good either.
    pub(super) async fn end_half(
        &self,
        set: &Set,
        stripe: u32,
        is_gone: &dyn Fn(DiskId) -> bool,
    ) -> Result<(), ReadError> {
        let at = (set.id(), stripe);
        let Some(half) = self.half.lock().get(&at).cloned() else { return Ok(()) };
        let no_memory = ReadError::Later(BlockError::NoMemory);
        let (update, sound) = (half.update(at).ok_or(no_memory)?, half.sound);
        let is_in = |disk| self.disks().get(disk).is_some_and(|disk| disk.is_writable());
        let are_in = || {
            let lacking = set.stale_seats(stripe).into_iter().filter(|seat| sound.contains(seat));
            lacking.map(|seat| seat.disk).all(|disk| is_in(disk) || is_gone(disk))
        };
        let coverage = self.sound_coverage(set, stripe, &update.puts, &sound);
        if !self.survives(set, stripe, update.written, &coverage) && !are_in() {
            return Err(ReadError::Lost);
        }
        let written = (stripe, update.written);
        let flags = WriteFlags::VOLATILE;
        let done = self.put_anyway(set, written, &update.puts, flags, &sound).await;
        set.set_written(stripe, update.written);
        match done {
            Err(WriteError::Later(error)) => return Err(ReadError::Later(error)),
            // One may have gone out again.
            Err(_) if !are_in() => return Err(ReadError::Lost),
            _ => {}
        }
        self.forget_half(set.id(), stripe);
        Ok(())
    }
}
