//! Volumes that move from one member of the group to another, while hosts use them.
//!
//! ```text
//!  source                                                        destination
//!  Begin ── checks ─▶ Copying                                    Arrive ─ checks ─▶ a hidden volume
//!             Next ─▶ snapshots, then rounds of what has changed ─▶ Write
//!             Next ─▶ caught up
//!  Freeze ── departure is stored ─▶ no host has it
//!             Next ─▶ the last difference, the end ──────────────▶ Write
//!  Seal ──── what hosts rely on ─────────────────────────────────▶ Prepare ─▶ all is stored
//!  Commit ── the group's store gives the name away ──────────────▶ Adopt ───▶ served
//!  Gone ──── deleted and purged
//! ```
//!
//! Numbered, for all that lies here:
//! 1. The claim of a volume's name in the group's store says whose the volume is. No member serves one that it has a
//!    departure or an arrival of.
//! 2. A departure is stored before hosts lose the volume, and forgotten only when the claim is the source's and was
//!    written anew by it: what was sent to the store before comes too late then.
//! 3. The destination answers that it is prepared when no loss of power undoes that; the source asks the store after
//!    this, and not before.
//! 4. What was copied without a departure is nothing: a start of either side deletes it.
//! 5. What is stored of a move counts in the group that it was begun in. Where that decides nothing any more, an operator
//!    does.

mod adopting;
mod arrival;
mod checks;
mod copying;
mod handing;
mod room;
mod source;
mod undecided;
mod vouching;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use group::membership::{ListedMove, MoveId};

use super::{Member, MoveError, RequestError};
use crate::move_request::MoveRequest;
use crate::reply::Answer;
pub(super) use arrival::Arriving;
use source::Source;

/// Moves under way at one member, in both roles together, at most.
const MOVES_MAX: usize = 4;

/// The moves of a member that go on in this life of it.
#[derive(Debug, Default)]
pub(super) struct Moving {
    /// Those of which it is the source.
    sources: RefCell<BTreeMap<MoveId, Rc<Source>>>,
    /// Those of which it is the destination.
    arriving: Arriving,
    /// Some of those that were given up, with the serial numbers of their volumes, the last one last.
    given_up: RefCell<VecDeque<(MoveId, String)>>,
}

impl Moving {
    /// How many go on, in both roles.
    fn count(&self) -> usize {
        self.sources.borrow().len() + self.arriving.len()
    }

    /// Refuses one more than may go on.
    fn check_room(&self) -> Result<(), RequestError> {
        if self.count() >= MOVES_MAX {
            return Err(RequestError::Move(MoveError::TooMany { max: MOVES_MAX }));
        }
        Ok(())
    }

    /// The parts that the member has in moves of this life.
    fn parts(&self) -> Vec<ListedMove> {
        let sources = self.sources.borrow();
        let leave = sources.values();
        let mut parts: Vec<_> =
            leave.map(|it| ListedMove { volume: it.name.clone(), other: it.to }).collect();
        parts.extend(self.arriving.parts());
        parts
    }

    /// Those of which the member is the destination.
    fn arriving(&self) -> &Arriving {
        &self.arriving
    }

    /// The volumes that are copied, and the names of the members that they go to.
    pub(super) fn under_way(&self) -> BTreeMap<String, String> {
        let sources = self.sources.borrow();
        sources.values().map(|it| (it.name.clone(), it.to_name.clone())).collect()
    }

    fn note_given_up(&self, id: &MoveId, serial: &str) {
        let mut given_up = self.given_up.borrow_mut();
        given_up.push_back((id.clone(), serial.to_owned()));
        while given_up.len() > handing::GIVEN_UP_MAX {
            given_up.pop_front();
        }
    }

    /// The serial number of the volume of a move that was given up.
    fn given_up(&self, id: &MoveId) -> Option<String> {
        let given_up = self.given_up.borrow();
        given_up.iter().find(|(its, _)| its == id).map(|(_, serial)| serial.clone())
    }

    fn source(&self, id: &MoveId) -> Result<Rc<Source>, RequestError> {
        let found = self.sources.borrow().get(id).cloned();
        found.ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))
    }

    /// The move of this volume away from here, if there is one in this life.
    fn source_of(&self, volume: u32) -> Option<Rc<Source>> {
        self.sources.borrow().values().find(|source| source.volume == volume).cloned()
    }
}

impl Member {
    /// Carries out what is asked about volumes that move.
    pub(super) async fn moves(&self, request: MoveRequest) -> Result<Answer, RequestError> {
        match request {
            MoveRequest::Begin { name, to, pool } => {
                self.begin_move(&name, to.as_deref(), pool.as_deref()).await
            }
            MoveRequest::Next { id } => self.next_piece(&id).await.map(Answer::Piece),
            MoveRequest::Freeze { id } => self.freeze(&id).await.map(|()| Answer::Done),
            MoveRequest::Seal { id } => self.seal(&id).map(|seal| Answer::Seal(Box::new(seal))),
            MoveRequest::Commit { id } => self.commit_move(&id).await.map(Answer::Committed),
            MoveRequest::GiveUp { id } => self.give_up_move(&id).await.map(|()| Answer::Done),
            MoveRequest::Says { id, serial } => {
                self.source_says(&id, serial.as_deref()).map(Answer::SourceSays)
            }
            MoveRequest::Departures => Ok(Answer::Departures(self.departures_that_wait())),
            MoveRequest::Gone { id, found } => {
                self.move_is_done(&id, found).await.map(|()| Answer::Done)
            }
            MoveRequest::Arrive { passport } => self.arrive(passport).await.map(|()| Answer::Done),
            MoveRequest::Write { id, piece } => {
                self.write_piece(&id, piece).await.map(|()| Answer::Done)
            }
            MoveRequest::Prepare { id, seal } => {
                self.prepare_arrival(&id, seal).await.map(|()| Answer::Done)
            }
            MoveRequest::Adopt { id, says, serial } => {
                self.adopt(&id, says, serial.as_deref()).await.map(Answer::Arrived)
            }
            MoveRequest::Discard { id } => self.discard_arrival(&id).await.map(|()| Answer::Done),
            MoveRequest::Transits => self.transits().await.map(Answer::Transits),
            MoveRequest::Settle { id, keep } => {
                self.settle_move(&id, keep).await.map(|()| Answer::Done)
            }
            MoveRequest::Arrivals => Ok(Answer::Arrivals(self.arrivals_that_wait())),
        }
    }
}

#[cfg(test)]
mod tests;
