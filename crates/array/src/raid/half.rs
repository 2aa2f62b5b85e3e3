//! Updates that were begun and could not be ended, because more disks went out than the level survives.
//!
//! What these were to get nobody else has. So it is kept until they are back and take it, or until the
//! stripe is written otherwise: in memory, and with each later wave in the [redo area](super::redo). Whoever
//! took it may lose it again, or go out again, until a checkpoint has recorded that nobody lacks anything:
//! until then it is only *given*. It is never more than one wave: what a wave leaves half done is part of
//! that wave.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use block::WriteFlags;
use ring::Data;

use super::record::Seat;
use super::rows::rows_of;
use super::set::Set;
use super::update::Update;
use super::write::Put;
use super::{Raid, ReadError, WriteError};
use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, DiskId, SetId};

/// An update, and who lacked nothing before it began.
#[derive(Debug, Clone)]
pub struct Half {
    /// What is to be written.
    pub update: Update,
    /// Members that have all of the stripe once they have taken their part of the update. None at all if what
    /// they had was not flushed when it began: then everybody counts who is to get something.
    pub sound: Vec<Seat>,
}

impl Half {
    /// Whether it is given only when this chunk has its part, for one of a `set`.
    fn waits_for(&self, set: &Set, seat: Seat) -> bool {
        if !self.sound.is_empty() || is(Mutant::NobodySound) {
            return self.sound.contains(&seat);
        }
        let holds = |put: &Put| {
            let holders = set.holders(self.update.stripe, put.strip);
            holders.iter().any(|holder| holder.seat == seat)
        };
        self.update.puts.iter().any(holds)
    }
}

/// The same for any core. Its contents are no buffers: those are few, and it may take long.
#[derive(Debug, Clone)]
struct Kept {
    written: u8,
    is_unproved: bool,
    given_up: u8,
    /// Strip, first block, and contents.
    puts: Vec<(usize, usize, Arc<[u8]>)>,
    sound: Vec<Seat>,
    /// All have taken it; no record says so yet.
    is_given: bool,
}

impl Kept {
    fn of(half: &Half) -> Self {
        let put = |put: &Put| {
            let mut bytes = vec![0; put.data.len()];
            put.data.copy_to(0, &mut bytes);
            (put.strip, put.first_block, Arc::from(bytes))
        };
        let Update { written, is_unproved, given_up, ref puts, .. } = half.update;
        let puts = puts.iter().map(put).collect();
        Self { written, is_unproved, given_up, puts, sound: half.sound.clone(), is_given: false }
    }

    fn half(&self, (set, stripe): (SetId, u32)) -> Half {
        let put = |(strip, first_block, bytes): &(usize, usize, Arc<[u8]>)| Put {
            strip: *strip,
            first_block: *first_block,
            data: Data::from(Arc::clone(bytes)),
        };
        let puts = self.puts.iter().map(put).collect();
        let Self { written, is_unproved, given_up, .. } = *self;
        let update = Update { set, stripe, written, is_unproved, given_up, puts };
        Half { update, sound: self.sound.clone() }
    }
}

/// By stripe.
#[derive(Debug, Default)]
pub(super) struct HalfDone(Mutex<BTreeMap<(SetId, u32), Kept>>);

impl HalfDone {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(SetId, u32), Kept>> {
        self.0.lock().expect("no panic under this lock")
    }
}

impl Raid {
    /// Keeps what some disks are to get of an update when they are back: nothing, if it was not begun. But
    /// who went out beside it counts as having lost what it took of it.
    pub fn keep_half(&self, update: &Update, sound: &[Seat]) {
        let says_nothing = update.puts.is_empty() && self.has_half(update.set, update.stripe);
        if says_nothing || is(Mutant::ForgetHalf) {
            return;
        }
        let half = Half { update: update.clone(), sound: sound.to_vec() };
        self.half.lock().insert((update.set, update.stripe), Kept::of(&half));
    }

    /// The stripe holds something else.
    pub fn forget_half(&self, set: SetId, stripe: u32) {
        self.half.lock().remove(&(set, stripe));
    }

    /// Whether somebody is to get his part of an update of this stripe.
    pub fn has_half(&self, set: SetId, stripe: u32) -> bool {
        self.half.lock().get(&(set, stripe)).is_some_and(|kept| !kept.is_given)
    }

    /// Whether anything is kept, also what was given.
    pub fn has_halves(&self) -> bool {
        !self.half.lock().is_empty()
    }

    /// All that is kept.
    pub fn halves(&self) -> Vec<Half> {
        self.half.lock().iter().map(|(stripe, kept)| kept.half(*stripe)).collect()
    }

    /// Those that were given, and of whose stripes nobody would lack anything after a loss of power: the
    /// record that is made now says so, and nobody needs them when it is durable.
    pub fn given_halves(&self, set_of: &dyn Fn(SetId) -> Option<Arc<Set>>) -> Vec<(SetId, u32)> {
        let is_whole = |at: &(SetId, u32), kept: &Kept| {
            let Some(set) = set_of(at.0) else { return kept.is_given };
            let (half, lacking) = (kept.half(*at), set.lacking_seats(at.1));
            kept.is_given && !lacking.iter().any(|seat| half.waits_for(&set, *seat))
        };
        let kept = self.half.lock();
        kept.iter().filter(|(at, kept)| is_whole(at, kept)).map(|(at, _)| *at).collect()
    }

    /// Of these a record says that nobody lacks them.
    pub fn forget_given(&self, halves: &[(SetId, u32)]) {
        self.half.lock().retain(|at, kept| !kept.is_given || !halves.contains(at));
    }

    /// A disk is out, with chunks in the sets that `is_on` names: what it took may be gone, and it is to get
    /// it once more.
    pub fn take_halves_back(&self, disk: DiskId, is_on: &dyn Fn(SetId) -> bool) {
        if is(Mutant::EarlyForget) {
            return;
        }
        let mut halves = self.half.lock();
        // Of whom nobody was sound it is not known here who took it.
        let had = halves.iter_mut().filter(|(at, kept)| {
            let is_unknown = kept.sound.is_empty() && !is(Mutant::NobodySound);
            is_unknown && is_on(at.0) || kept.sound.iter().any(|seat| seat.disk == disk)
        });
        had.for_each(|(_, kept)| kept.is_given = false);
    }

    /// An update has been done to its end: what was to be given before is not needed by anybody, and what
    /// was given is given with it if that has to be done once more.
    pub fn done_over_half(&self, update: &Update) {
        let at = (update.set, update.stripe);
        let is_given = self.half.lock().get(&at).map(|kept| kept.is_given);
        match is_given {
            None => {}
            Some(false) => self.forget_half(update.set, update.stripe),
            Some(true) => {
                self.add_to_half(update);
                self.half_is_given(at);
            }
        }
    }

    fn half_is_given(&self, at: (SetId, u32)) {
        match is(Mutant::EarlyForget) {
            true => _ = self.half.lock().remove(&at),
            false => _ = self.half.lock().get_mut(&at).map(|kept| kept.is_given = true),
        }
    }

    /// An update that came after what is kept of its stripe has been done again, as far as there is anybody
    /// to take it: whoever takes the one takes the other.
    pub fn add_to_half(&self, update: &Update) {
        let at = (update.set, update.stripe);
        let Some(half) = self.half.lock().get(&at).map(|kept| kept.half(at)) else { return };
        let older = half.update.puts.iter().flat_map(|put| without(put, &update.puts));
        let puts = older.chain(update.puts.iter().cloned()).collect();
        let is_unproved = half.update.is_unproved || update.is_unproved;
        let given_up = half.update.given_up | update.given_up;
        self.keep_half(&Update { puts, is_unproved, given_up, ..*update }, &half.sound);
    }

    /// As [`refresh_stripe`](Self::refresh_stripe), for nothing but the update that the stripe was left in
    /// the middle of.
    ///
    /// # Errors
    /// [`ReadError::Lost`] when those who are to take it are not there.
    pub async fn end_half(
        &self,
        set: &Set,
        stripe: u32,
        is_gone: &dyn Fn(DiskId) -> bool,
    ) -> Result<(), ReadError> {
        let _guard = self.locks.lock(set, stripe).await;
        self.end_locked_half(set, stripe, is_gone).await
    }

    /// Ends the update that a stripe was left in the middle of, if there is one. Call it under the stripe's
    /// lock, before anybody is given anything else.
    ///
    /// # Errors
    /// [`ReadError::Lost`] when those who are to take it are not back, and not gone for good either.
    pub(super) async fn end_locked_half(
        &self,
        set: &Set,
        stripe: u32,
        is_gone: &dyn Fn(DiskId) -> bool,
    ) -> Result<(), ReadError> {
        let at = (set.id(), stripe);
        let half = self.half.lock().get(&at).filter(|kept| !kept.is_given).map(|k| k.half(at));
        let Some(half) = half else { return Ok(()) };
        let (update, sound) = (&half.update, &half.sound[..]);
        let is_in = |disk| self.disks().get(disk).is_some_and(|disk| disk.is_writable());
        let are_in = || {
            let stale = set.stale_seats(stripe).into_iter();
            let lacking = stale.filter(|seat| half.waits_for(set, *seat));
            lacking.map(|seat| seat.disk).all(|disk| is_in(disk) || is_gone(disk))
        };
        let coverage = self.sound_coverage(set, stripe, &update.puts, sound);
        if !self.survives(set, stripe, update.written, &coverage) && !are_in() {
            return Err(ReadError::Lost);
        }
        let done = self.put_update(set, update, WriteFlags::VOLATILE, sound).await;
        set.set_written(stripe, update.written);
        set.give_up(stripe, update.given_up);
        match done {
            Err(WriteError::Later(error)) => return Err(ReadError::Later(error)),
            // One may have gone out again.
            Err(_) if !are_in() => return Err(ReadError::Lost),
            _ => {}
        }
        self.half_is_given(at);
        Ok(())
    }
}

/// What is left of a put after others of the same stripe.
fn without(put: &Put, newer: &[Put]) -> Vec<Put> {
    let of_strip = newer.iter().filter(|other| other.strip == put.strip);
    let left = of_strip.fold(put.coverage(), |left, other| left & !other.coverage());
    let one = |block: usize| {
        let at = (block - put.first_block) * BLOCK_BYTES;
        Put { strip: put.strip, first_block: block, data: put.data.slice(at..at + BLOCK_BYTES) }
    };
    if left == put.coverage() { vec![put.clone()] } else { rows_of(left).map(one).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_over_is_no_part_of_what_is_left() {
        let bytes: Vec<u8> = (0..4).flat_map(|block| [block; BLOCK_BYTES]).collect();
        let put = Put { strip: 1, first_block: 3, data: Data::from(&*bytes.leak()) };
        let zeroes = |strip, first_block| {
            let data = Data::from(&[0; 2 * BLOCK_BYTES][..]);
            Put { strip, first_block, data }
        };
        let left = |newer: &[Put]| -> Vec<(usize, u8)> {
            let left = without(&put, newer);
            let blocks = left.iter().flat_map(|put| {
                let bytes = put.data.as_slice().unwrap().chunks(BLOCK_BYTES);
                (put.first_block..).zip(bytes.map(|block| block[0]))
            });
            blocks.collect()
        };
        assert_eq!(left(&[zeroes(0, 3), zeroes(1, 7)]), [(3, 0), (4, 1), (5, 2), (6, 3)]);
        assert_eq!(left(&[zeroes(1, 4)]), [(3, 0), (6, 3)]);
        assert_eq!(left(&[zeroes(1, 2), zeroes(1, 6)]), [(4, 1), (5, 2)]);
        assert_eq!(left(&[zeroes(1, 3), zeroes(1, 5)]), []);
    }
}
