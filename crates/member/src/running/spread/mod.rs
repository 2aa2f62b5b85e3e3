//! Volumes that lie on several members of the group (docs/decisions/0052): what a home does for those that are its own, and
//! what a member does for slices of others.
//!
//! ```text
//!  home                                                     members that have slices
//!  Make, Grow, Delete ─▶ stored
//!  Step ─▶ stored, own slice ─▶ Ask ── Letter ────────────▶ stored ─▶ a hidden volume ─▶ stored ─▶ served at the portal
//!  Heard ◀──────────────────────────────────────────────── done, or why not
//!  Step ─▶ ... ─▶ Rest, Forgotten
//!                                                           Says ◀─ what of this slice?
//!  SliceHeard ─▶ kept, left over, or goes
//! ```
//!
//! Numbered, for all that lies here:
//! 1. The rules say what is next ([`group::spread`]), and each change that they decide on is stored before the next is done.
//! 2. Changes of one member's spread volumes come one after the other, and so do those of one slice. Who has one of these
//!    turns may take that of the member, not the other way round.
//! 3. A slice of another home is deleted by a letter of its home, by the home's word that it has no such volume, or by an
//!    operator where it is left over; and never while somebody has it open.
//! 4. What this member has stored for another group, or as another member of it, is served to nobody and asked of nobody.

mod home;
mod own;
mod portal;
mod rebuild;
mod refusals;
mod removal;
mod shown;
mod slices;
mod strays;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use group::membership::{SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{Home, HomeSays, Opening};
use ring::wait::Turn;

use super::{Member, RequestError, SpreadRefusal};
use crate::reply::Answer;
use crate::spread_request::{SliceOpeners, SpreadPlan, SpreadRequest};
use portal::Portal;

/// The spread volumes and slices of a member, in this life of it.
#[derive(Debug, Default)]
pub(super) struct Spreads {
    /// Who has it changes spread volumes whose home the member is.
    changing: Turn,
    /// How those are driven that something is done with.
    homes: RefCell<BTreeMap<SpreadId, Home>>,
    /// What those are to be that are made in this life.
    plans: RefCell<BTreeMap<SpreadId, SpreadPlan>>,
    /// Who has that of a slice changes it. Others do not wait for one whose disks hang.
    slicing: RefCell<BTreeMap<SliceId, Rc<Turn>>>,
    /// The openings that were begun in this life: others are begun anew.
    begun: RefCell<BTreeMap<SliceId, Opening>>,
    /// What the homes of slices have said last, since they have opened them.
    heard: RefCell<BTreeMap<SliceId, (MemberId, HomeSays)>>,
    /// Why slices are not as they should be, as far as that was told.
    faults: RefCell<BTreeMap<SliceId, String>>,
    portal: Portal,
    /// Somebody looks for slices that are to be brought to where they are to be.
    is_finding: Cell<bool>,
    /// Those that somebody brings there.
    brought: RefCell<BTreeSet<SliceId>>,
    /// It was told of slices of which nothing is stored.
    told_strays: Cell<bool>,
}

impl Member {
    /// Slices of other members are reached by these.
    pub(crate) fn open_slices_by(&self, openers: Arc<dyn SliceOpeners>) {
        self.serving.spread().open_by(openers);
    }

    /// Carries out what is asked about volumes that lie on several members.
    pub(super) async fn spread(&self, request: SpreadRequest) -> Result<Answer, RequestError> {
        match request {
            SpreadRequest::Make { plan } => self.make_spread(*plan).await,
            SpreadRequest::Step { id } => self.step_spread(&id).await.map(Answer::SpreadStep),
            SpreadRequest::Heard { id, slice, order, answer } => {
                self.spread_heard(&id, slice, order, answer).await.map(|()| Answer::Done)
            }
            SpreadRequest::GiveUp { id } => self.give_up_spread(&id).await.map(|()| Answer::Done),
            SpreadRequest::Grow { name, size_bytes } => self.grow_spread(&name, size_bytes).await,
            SpreadRequest::Delete { name } => self.delete_spread(&name).await,
            SpreadRequest::ForgetSeat { id, slice } => {
                self.forget_seat(&id, slice).await.map(|()| Answer::Done)
            }
            SpreadRequest::Rebuild { records, despite_later } => {
                match records.first().and_then(|first| self.settings.spread(&first.spread)) {
                    Some(stored) => self.bring_forward(&stored.id, &records, despite_later).await,
                    None => self.rebuild_spread(&records).await,
                }
            }
            SpreadRequest::List => self.list_spreads().map(Answer::Spreads),
            SpreadRequest::Letter { from, letter } => {
                self.obey_letter(from, &letter).await.map(|()| Answer::Done)
            }
            SpreadRequest::Begin { from, slice, openings } => {
                self.begin_slice(from, &slice, openings).await.map(Answer::Begun)
            }
            SpreadRequest::Open { from, slice, asked } => {
                let opening = self.open_slice(from, &slice, asked).await?;
                Ok(Answer::Opening(Box::new(opening)))
            }
            SpreadRequest::Says { from, question } => {
                Ok(Answer::HomeSays(self.home_says(from, &question)))
            }
            SpreadRequest::Tell { from, slice } => self.tell_home(from, &slice),
            SpreadRequest::Slices => self.list_slices().map(Answer::Slices),
            SpreadRequest::SliceHeard { slice, heard } => {
                self.slice_heard(&slice, heard).await.map(|()| Answer::Done)
            }
            SpreadRequest::Discard { slice } => {
                self.discard_slice(&slice).await.map(|()| Answer::Done)
            }
            SpreadRequest::Damaged => Ok(Answer::Damaged(self.settings.damaged_spreads())),
            SpreadRequest::DiscardDamaged { id } => {
                self.discard_damaged(&id).await.map(|()| Answer::Done)
            }
        }
    }

    /// Refuses to say what there is while it does not read.
    fn check_spreads_known(&self) -> Result<(), RequestError> {
        match self.settings.unknown_spreads() {
            Some(why) => Err(SpreadRefusal::Unread(why).into()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
