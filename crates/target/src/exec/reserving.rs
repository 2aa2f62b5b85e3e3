//! PERSISTENT RESERVE OUT (SPC-5 §6.16): changes of the reservations of one unit, one at a time in the
//! order in which they come from all cores.
//!
//! A change is made on a copy, which is saved if it must outlive a loss of power, then installed, then
//! answered. So nobody is in the way of, or sees, what may still fail, and nothing is ever taken back.
//! What comes while one is being saved waits, and is saved together: a save takes milliseconds.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;
use scsi::Sense;
use scsi::cdb::Command;
use scsi::nexus::NexusKey;
use scsi::unit::{Draft, Outcome as Done};

use crate::mutants::{self, Mutant};
use crate::task::Task;
use crate::turns::{Turn, Turns};
use crate::unit::Unit;

/// Who changes the reservations of a unit, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct Reserving {
    turns: Turns,
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
    pub(crate) async fn turn(&self) -> Turn {
        self.turns.take().await
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

/// Lets the change of a task be made; `None` if the core ends before.
pub(super) async fn change(task: &Rc<Task>) -> Option<Done> {
    let unit = &task.place.unit;
    let (answer, done) = ring::oneshot();
    let change = Change {
        nexus: task.place.nexus.key().clone(),
        command: task.command,
        list: task.take_data().as_deref().unwrap_or_default().to_vec(),
        answer,
    };
    if unit.reserving.enter(change) {
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
