//! The updates of a wave on their way to the disks: to their end, or kept as what is half done.

use std::cell::Cell;

use block::WriteFlags;
use futures_util::future::join_all;

use super::merge::PAUSES;
use super::redo::stripe_of;
use crate::core::{Core, until_done};
use crate::mutants::{self, Mutant};
use crate::raid::{Seat, Update, WriteError};
use crate::upkeep::GRACE;

impl Core {
    /// Does the updates of a wave, each to its end or as far as disks take it. Where too many go out
    /// meanwhile it waits for those that are back soon: what nobody took of an update nobody has after
    /// the next wave.
    pub(super) async fn apply_all(&self, updates: &[Update]) -> Vec<Result<(), WriteError>> {
        let is_borne = |update: &Update| {
            let set = self.sets.get(update.set);
            mutants::is(Mutant::BlindFlush)
                || set.losses_max() == 0
                || self.raid.is_final(&set, update.stripe)
        };
        let was_borne: Vec<bool> = updates.iter().map(is_borne).collect();
        // One that fails now may have lost what it was given since the last flush.
        let volatile = self.touched.all();
        let sound = updates.iter().map(|update| match volatile.contains(&stripe_of(update)) {
            true => Vec::new(),
            false => self.sets.get(update.set).sound_seats(update.stripe),
        });
        let sound: Vec<Vec<Seat>> = sound.collect();
        // The flush of the wave before has made the disks forget them.
        self.touch_stripes(updates.iter().map(stripe_of));
        let apply = |index: usize| {
            let (update, sound) = (&updates[index], &sound[index]);
            async move { self.apply_to_end(update, sound).await }
        };
        let mut done = join_all((0..updates.len()).map(apply)).await;
        self.let_others_run().await;
        let deadline = self.env.now() + GRACE;
        loop {
            for (index, update) in updates.iter().enumerate() {
                // One that took it is out since, and may have lost it.
                if done[index].is_ok() && was_borne[index] && !is_borne(update) {
                    done[index] = Err(WriteError::Half);
                    self.raid.keep_half(update, &sound[index]);
                }
            }
            let is_left = |index: &usize| was_borne[*index] && done[*index].is_err();
            let left: Vec<usize> = (0..updates.len()).filter(is_left).collect();
            let mut sets = left.iter().map(|index| updates[*index].set);
            let is_over = self.env.now() >= deadline || mutants::is(Mutant::DropRedo);
            if is_over || !sets.any(|set| self.may_come_soon(set)) {
                self.keep_refused(updates, &sound, |index| {
                    let is_kept = was_borne[index] || !mutants::is(Mutant::LiveRefused);
                    is_kept && done[index] == Err(WriteError::Lost)
                });
                return done;
            }
            self.checkpoint_beat.tick();
            self.env.sleep(PAUSES[2]).await;
            let again = join_all(left.iter().map(|index| apply(*index))).await;
            for (index, result) in left.into_iter().zip(again) {
                // Some of it is written, whether it can be done again now or not.
                let is_begun = done[index] != Err(WriteError::Lost);
                let is_half = is_begun && result == Err(WriteError::Lost);
                done[index] = if is_half { Err(WriteError::Half) } else { result };
            }
        }
    }

    /// What was refused without having begun stands in the redo area all the same. Later waves say that nothing of it
    /// is to be done: what is done to its stripe after it knows nothing of it.
    fn keep_refused(
        &self,
        updates: &[Update],
        sound: &[Vec<Seat>],
        is_refused: impl Fn(usize) -> bool,
    ) {
        for (index, update) in updates.iter().enumerate().filter(|(index, _)| is_refused(*index)) {
            let written = self.sets.get(update.set).written(update.stripe);
            let nothing = Update { written, puts: Vec::new(), ..update.clone() };
            self.raid.keep_half(&nothing, &sound[index]);
        }
    }

    /// Does an update, however often it has to be begun. One that was begun and cannot be ended is half
    /// done.
    async fn apply_to_end(&self, update: &Update, sound: &[Seat]) -> Result<(), WriteError> {
        let set = self.sets.get(update.set);
        let is_begun = Cell::new(false);
        let apply = || async {
            let done = self.raid.apply(&set, update, WriteFlags::VOLATILE, sound).await;
            is_begun.set(is_begun.get() || matches!(done, Err(WriteError::Later(_))));
            done
        };
        match until_done(apply, self).await {
            Err(WriteError::Lost) if is_begun.get() => {
                set.set_written(update.stripe, update.written);
                self.raid.keep_half(update, sound);
                Err(WriteError::Half)
            }
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raid::Change;
    use crate::testing::arrays::{filled, on_a_core, set_of};
    use crate::{DiskId, Level};
    use ring::Buf;

    /// An update that is refused at once stands in the redo area. Another one of its stripe came after it; a start did
    /// both again, with a parity that knew nothing of the first.
    #[test]
    fn what_was_refused_without_having_begun_is_not_done_by_a_later_start() {
        on_a_core(async {
            let (array, _volume) = filled(Level::Raid5, 3).await;
            let core = &array.core;
            let set = set_of(core, Some(Level::Raid5));
            let stripe = (0..set.stripes()).find(|stripe| set.written(*stripe) != 0).unwrap();
            let column = set.written(stripe).trailing_zeros() as usize;
            let mut data = Buf::alloc(crate::BLOCK_BYTES).unwrap();
            data.fill(7);
            let changes = [Change { column, first_block: 3, data: data.freeze() }];
            let planned = core.raid.plan_update(&set, stripe, &changes, &|_, _| None).await;
            let update = planned.expect("all disks are there");
            [0, 1].iter().for_each(|disk| set.mark_stale(stripe, DiskId(*disk)));
            let done = core.apply_all(std::slice::from_ref(&update)).await;
            assert_eq!(done, [Err(WriteError::Lost)]);
            let halves = core.raid.halves();
            let said: Vec<_> = halves.iter().map(|half| stripe_of(&half.update)).collect();
            assert_eq!(said, [stripe_of(&update)], "later waves say what became of it");
            assert!(halves[0].update.puts.is_empty(), "nothing of it is to be done");
        });
    }
}
