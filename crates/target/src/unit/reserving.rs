//! PERSISTENT RESERVE OUT (SPC-5 §6.16): changes of the reservations of one unit, one at a time in the
//! order in which they come from all cores.
//!
//! A change is made on a copy, which is saved if it must outlive a loss of power, then installed, then
//! answered. So nobody is in the way of, or sees, what may still fail, and nothing is ever taken back.
//! What comes while one is being saved waits, and is saved together: a save takes milliseconds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;
use ring::wait::{Guard, Turn};
use scsi::Sense;
use scsi::cdb::Command;
use scsi::nexus::NexusKey;
use scsi::unit::{Draft, Outcome as Done};

use super::Unit;
use crate::mutants::{self, Mutant};

/// Who changes the reservations of a unit, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Reserving {
    turn: Turn,
    /// Invariant: while there are any, somebody waits for the turn to make them.
    waiting: Mutex<Vec<Change>>,
}

/// One command.
#[derive(Debug)]
struct Change {
    nexus: NexusKey,
    command: Command,
    list: Vec<u8>,
    answer: OneshotSender<Done>,
}

impl Reserving {
    /// Waits until nobody else changes them.
    pub(crate) async fn turn(&self) -> Guard<()> {
        self.turn.take().await
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Change>> {
        // Nothing panics while it is locked, and each change is one step.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a change; whether it is the first.
    fn enter(&self, change: Change) -> bool {
        let mut waiting = self.waiting();
        waiting.push(change);
        waiting.len() == 1
    }
}

/// Lets a change be made that `nexus` asks for with `command` and its parameter `list`; `None` if the core
/// ends before.
pub(crate) async fn change(
    unit: &Arc<Unit>,
    nexus: NexusKey,
    command: Command,
    list: Vec<u8>,
) -> Option<Done> {
    let (answer, done) = ring::oneshot();
    if unit.reserving.enter(Change { nexus, command, list, answer }) {
        // By itself: it is for others, too.
        ring::spawn(make_all(unit.clone()));
    }
    done.await
}

/// Makes all changes that have come until it is their turn.
async fn make_all(unit: Arc<Unit>) {
    let _turn = match mutants::is(Mutant::NoTurn) {
        false => Some(unit.reserving.turn().await),
        true => None,
    };
    let changes = std::mem::take(&mut *unit.reserving.waiting());
    match make(&unit, changes).await {
        Ok(()) => {}
        Err(alone) if alone.len() == 1 => fail(alone),
        // An answer given beside a change that cannot be saved would be as if that had been made.
        Err(together) => {
            for change in together {
                make(&unit, vec![change]).await.unwrap_or_else(fail);
            }
        }
    }
}

fn fail(changes: Vec<Change>) {
    let failure = || Done::check(Sense::internal_failure());
    changes.into_iter().for_each(|change| change.answer.send(failure()));
}

/// Makes changes together, and answers them; gives them back if they cannot be saved, and then nothing has
/// changed.
async fn make(unit: &Unit, changes: Vec<Change>) -> Result<(), Vec<Change>> {
    let mut draft = unit.logical.draft();
    let run = |draft: &mut Draft, change: &Change| {
        unit.logical.persistent_out(draft, &change.nexus, &change.command, &change.list)
    };
    let done: Vec<_> = changes.iter().map(|change| run(&mut draft, change)).collect();
    let image = draft.image();
    if mutants::is(Mutant::EarlyInstall) {
        unit.logical.install(std::mem::replace(&mut draft, unit.logical.draft()));
    }
    if let Some(image) = image.filter(|_| !mutants::is(Mutant::EarlyReservation))
        && let Err(error) = unit.save_reservations(image).await
    {
        tracing::error!("{}: cannot save its reservations: {error}", unit.name);
        return Err(changes);
    }
    unit.logical.install(draft);
    changes.into_iter().zip(done).for_each(|(change, done)| change.answer.send(done));
    Ok(())
}
