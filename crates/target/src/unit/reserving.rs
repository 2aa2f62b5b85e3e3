//! PERSISTENT RESERVE OUT (SPC-5 §6.16): changes of the reservations of one unit, one at a time in the
//! order in which they come from all cores.
//!
//! A change is made on a copy, which is saved if it must outlive a loss of power, then installed, then
//! answered. So nobody is in the way of, or sees, what may still fail, and nothing is ever taken back.
//! What comes while one is being saved waits, and is saved together: a save takes milliseconds.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::OneshotSender;
use ring::wait::{Guard, Turn};
use scsi::cdb::Command;
use scsi::reservation::Registrar;
use scsi::unit::{Draft, Outcome as Done};
use scsi::{AdditionalSense, Sense, SenseKey};

use super::Unit;
use crate::mutants::{self, Mutant};
use crate::quiet::{self, quietly};

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
    by: Registrar,
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

/// Lets a change be made that is asked for with `command` and its parameter `list`; `None` if the core
/// ends before.
pub(crate) async fn change(
    unit: &Arc<Unit>,
    by: Registrar,
    command: Command,
    list: Vec<u8>,
) -> Option<Done> {
    let (answer, done) = ring::oneshot();
    if unit.reserving.enter(Change { by, command, list, answer }) {
        // By itself: it is for others, too.
        ring::spawn(make_all(unit.clone()));
    }
    done.await
}

/// Ends all reservations, for an operator. How many registrations there were.
///
/// # Errors
/// It cannot be saved: nothing has changed then.
pub(crate) async fn clear(unit: &Unit) -> io::Result<usize> {
    let _turn = unit.reserving.turn().await;
    // It is not saved, and there are no registrations beside it.
    unit.logical.end_legacy_reservation();
    let mut draft = unit.logical.draft();
    let registrations = unit.logical.clear_reservations(&mut draft);
    if draft.is_to_save() && !mutants::is(Mutant::EarlyReservation) {
        unit.save_reservations(draft.image()).await?;
    }
    unit.logical.install(draft);
    Ok(registrations)
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
        Err(alone) if alone.changes.len() == 1 => alone.tell(),
        // An answer given beside a change that cannot be saved would be as if that had been made.
        Err(together) => {
            for change in together.changes {
                make(&unit, vec![change]).await.unwrap_or_else(Unsaved::tell);
            }
        }
    }
}

/// Changes that could not be saved.
struct Unsaved {
    changes: Vec<Change>,
    sense: Sense,
}

impl Unsaved {
    fn new(changes: Vec<Change>, error: &io::Error) -> Self {
        let sense = match error.kind() {
            io::ErrorKind::QuotaExceeded => Sense::new(
                SenseKey::IllegalRequest,
                AdditionalSense::INSUFFICIENT_REGISTRATION_RESOURCES,
            ),
            _ => Sense::internal_failure(),
        };
        Self { changes, sense }
    }

    fn tell(self) {
        let Self { changes, sense } = self;
        changes.into_iter().for_each(|change| change.answer.send(Done::check(sense)));
    }
}

/// Makes changes together, and answers them; gives them back if they cannot be saved, and then nothing has
/// changed.
async fn make(unit: &Unit, changes: Vec<Change>) -> Result<(), Unsaved> {
    let mut draft = unit.logical.draft();
    let run = |draft: &mut Draft, change: &Change| {
        unit.logical.persistent_out(draft, change.by.clone(), &change.command, &change.list)
    };
    let done: Vec<_> = changes.iter().map(|change| run(&mut draft, change)).collect();
    let (is_to_save, image) = (draft.is_to_save(), draft.image());
    if mutants::is(Mutant::EarlyInstall) {
        unit.logical.install(std::mem::replace(&mut draft, unit.logical.draft()));
    }
    if is_to_save
        && !mutants::is(Mutant::EarlyReservation)
        && let Err(error) = unit.save_reservations(image).await
    {
        quietly!(quiet::UNSAVED, error, "{}: cannot save its reservations: {error}", unit.name);
        return Err(Unsaved::new(changes, &error));
    }
    unit.logical.install(draft);
    changes.into_iter().zip(done).for_each(|(change, done)| change.answer.send(done));
    Ok(())
}
