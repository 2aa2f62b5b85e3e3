//! What a member does for slices of volumes whose homes are others: by their letters, by what they say when they are asked,
//! and by an operator's word.

use std::rc::Rc;
use std::time::Duration;

use array::api::{Cache, VolumeSpec};
use group::membership::SliceId;
use group::ownership::MemberId;
use group::spread::{
    HomeSays, Openings, Order, Question, SliceFate, SliceRecord, SliceRefusal, SliceStage,
    SliceStanding, SliceStep, SpreadStage, WhyLeft, check_begun, check_letter, check_opened,
    decide_slice, hidden_name, slice_step,
};

use super::super::{Member, RequestError, SpreadRefusal};
use crate::mutants::{self, Mutant};
use crate::slices::Opening;
use crate::spread_request::{Begun, OpeningAsked, SliceLetter};
use futures_util::future::join_all;
use ring::wait::Guard;

/// How long somebody waits until nobody else changes a slice.
const TURN_TIME: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 15 });

/// More steps than any order takes.
const STEPS_MAX: usize = 16;

impl Member {
    /// Does what the home of a slice asks for.
    ///
    /// # Errors
    /// It is not done, for a reason that the home is to hear.
    pub(super) async fn obey_letter(
        &self,
        from: MemberId,
        letter: &SliceLetter,
    ) -> Result<(), RequestError> {
        let _slicing = self.slice_turn(&letter.letter.slice).await?;
        let order = letter.letter.order;
        let record = self.slice_record(&letter.letter.slice)?;
        let who = self.serving.spread().who();
        let who = who.as_ref().map(|(group, me)| (group, *me));
        check_letter(&letter.letter, from, who, record.as_ref()).map_err(SpreadRefusal::from)?;
        self.bring_slice(&letter.letter.slice, Some((order, letter))).await
    }

    /// The turn of who changes this slice.
    ///
    /// # Errors
    /// Somebody else has it for long, as disks do not answer: whoever asks again is not to wait beside himself.
    pub(super) async fn slice_turn(&self, slice: &SliceId) -> Result<Guard<()>, SpreadRefusal> {
        let turn = ring::timeout(TURN_TIME, self.slice_turn_at_last(slice)).await;
        turn.ok_or_else(|| SpreadRefusal::SliceAtWork(slice.clone()))
    }

    /// The same, however long it takes.
    async fn slice_turn_at_last(&self, slice: &SliceId) -> Guard<()> {
        let turn = {
            let mut all = self.spreads.slicing.borrow_mut();
            // Who waits for one has it in hand.
            all.retain(|_, turn| turn.held().is_some() || Rc::strong_count(turn) > 1);
            all.entry(slice.clone()).or_default().clone()
        };
        turn.take().await
    }

    /// Nothing is known of a slice that is gone.
    fn forget_what_is_said_of(&self, slice: &SliceId) {
        self.spreads.heard.borrow_mut().remove(slice);
        self.spreads.begun.borrow_mut().remove(slice);
        self.spreads.faults.borrow_mut().remove(slice);
    }

    /// What is stored of a slice.
    fn slice_record(&self, slice: &SliceId) -> Result<Option<SliceRecord>, RequestError> {
        let read = self.settings.slice(slice);
        read.map_err(|why| SpreadRefusal::from(SliceRefusal::Unreadable(why)).into())
    }

    /// Has a slice become what it is asked for, or what is left to do of what it was asked for before. For who has the turn
    /// of slices.
    async fn bring_slice(
        &self,
        slice: &SliceId,
        asked: Option<(Order, &SliceLetter)>,
    ) -> Result<(), RequestError> {
        let order = asked.map(|(order, _)| order);
        for _ in 0..STEPS_MAX {
            let record = self.slice_record(slice)?;
            let volume = match (&record, asked) {
                (Some(record), _) => record.volume.clone(),
                (None, Some((_, letter))) => hidden_name(&letter.letter.spread),
                (None, None) => return Ok(()),
            };
            let found = self.array.volume(&volume).ok().map(|found| found.size_bytes);
            let standing = record.as_ref().map(SliceRecord::standing);
            match slice_step(order, standing, found) {
                SliceStep::Store(next) => {
                    self.store_slice(slice, (record, next), asked.map(|(_, it)| it)).await?;
                }
                SliceStep::Make(size_bytes) => {
                    let (_, letter) = asked.ok_or(SpreadRefusal::NoSuchSlice)?;
                    self.make_slice_volume((&volume, size_bytes), letter).await?;
                }
                SliceStep::Grow(size_bytes) => {
                    self.grow_slice_volume(&volume, size_bytes).await?;
                    if let Some(slices) = self.spreads.portal.slices() {
                        slices.resized(slice);
                    }
                }
                SliceStep::Delete => self.delete_slice(slice, &volume).await?,
                SliceStep::Forget => {
                    self.settings.forget_slice(slice).await?;
                    self.forget_what_is_said_of(slice);
                }
                SliceStep::Done => return self.serve_brought(record.as_ref()).await,
                SliceStep::Refuse(refusal) => return Err(SpreadRefusal::from(refusal).into()),
            }
        }
        unreachable!("the steps of a slice end")
    }

    /// Serves a slice whose step is done, if it is one that is served.
    async fn serve_brought(&self, record: Option<&SliceRecord>) -> Result<(), RequestError> {
        let Some(record) = record.filter(|record| self.is_slice_served(record)) else {
            return Ok(());
        };
        // It is there, and that is what it was asked for: it is served when that can be.
        let served = self.serve_slice(record).await;
        self.note_fault(record, served.err().map(|error| error.to_string()));
        Ok(())
    }

    /// Logs why a slice is not as it should be, once until it is.
    fn note_fault(&self, record: &SliceRecord, fault: Option<String>) {
        let mut faults = self.spreads.faults.borrow_mut();
        let before = match &fault {
            Some(why) => faults.insert(record.id.clone(), why.clone()),
            None => faults.remove(&record.id),
        };
        if let Some(why) = fault.filter(|why| before.as_ref() != Some(why)) {
            tracing::warn!("slice {} of {} is not served: {why}", record.id, record.name);
        }
    }

    /// Whether its home may have it: it is there, and of this member as it is now.
    fn is_slice_served(&self, record: &SliceRecord) -> bool {
        let who = self.serving.spread().who();
        let is_of = record.is_of(who.as_ref().map(|(group, me)| (group, *me)));
        // What was removed from the group may not know that: it is not let in any more.
        let is_there = self.is_home_there(record) || mutants::is(Mutant::ServeRemoved);
        (is_of && is_there || mutants::is(Mutant::OpenForeign)) && record.stage == SliceStage::Here
    }

    /// Whether the home of a slice is a member of the group; while nothing was heard of that it is taken for one.
    fn is_home_there(&self, record: &SliceRecord) -> bool {
        self.membership.roll_now().map_or(true, |roll| roll.members.contains_key(&record.home))
    }

    async fn store_slice(
        &self,
        slice: &SliceId,
        (record, next): (Option<SliceRecord>, SliceStanding),
        letter: Option<&SliceLetter>,
    ) -> Result<(), RequestError> {
        if record.is_some() {
            return Ok(self.settings.note_slice(slice, next).await?);
        }
        let letter = &letter.ok_or(SpreadRefusal::NoSuchSlice)?.letter;
        Ok(self.settings.prepare_slice(&letter.record(next)).await?)
    }

    async fn make_slice_volume(
        &self,
        (name, size_bytes): (&str, u64),
        letter: &SliceLetter,
    ) -> Result<(), RequestError> {
        let spec = VolumeSpec {
            name: name.to_owned(),
            size_bytes,
            level: letter.level,
            thick: false,
            block_bytes: letter.block_bytes,
            cache: Cache::Durable,
            read_ahead_bytes: None,
            cached: true,
        };
        // Offline: it is for no host, whatever version of this member may look at it.
        self.array.create_volume_offline(spec).await?;
        Ok(())
    }

    /// Deletes the volume of a slice, which nobody has open any more.
    async fn delete_slice(&self, slice: &SliceId, volume: &str) -> Result<(), RequestError> {
        if let Some(slices) = self.spreads.portal.slices()
            && !mutants::is(Mutant::DeleteOpen)
        {
            slices.withdraw(slice).await.map_err(SpreadRefusal::from)?;
        }
        self.delete_slice_volume(volume).await
    }

    /// The home of a slice has stored that it begins an opening, and so does this member.
    pub(super) async fn begin_slice(
        &self,
        from: MemberId,
        slice: &SliceId,
        openings: Openings,
    ) -> Result<Begun, RequestError> {
        // Of two openings one is stored before the other is compared with it.
        let _slicing = self.slice_turn(slice).await?;
        let record = self.slice_to_open(from, slice)?;
        let begun = match check_begun(&record, openings) {
            Err(why @ SliceRefusal::OldHome(_)) => {
                return Ok(Begun::OldHome { why: why.to_string() });
            }
            checked => checked.map_err(SpreadRefusal::from)?,
        };
        if !mutants::is(Mutant::OpenUnstored) {
            self.settings.note_slice_begun(slice, begun).await?;
        }
        self.spreads.begun.borrow_mut().insert(slice.clone(), begun);
        Ok(Begun::Stored)
    }

    /// Opens a slice for its home, which has stored that this opening was begun here.
    pub(super) async fn open_slice(
        &self,
        from: MemberId,
        slice: &SliceId,
        asked: OpeningAsked,
    ) -> Result<Opening, RequestError> {
        let slicing = self.slice_turn(slice).await?;
        let record = self.slice_to_open(from, slice)?;
        if self.spreads.begun.borrow().get(slice) != Some(&asked.opening) {
            return Err(SpreadRefusal::NotBegun.into());
        }
        if !mutants::is(Mutant::OpenUnstored) {
            check_opened(&record, asked.opening).map_err(SpreadRefusal::from)?;
            self.settings.note_slice_opened(slice, asked.opening).await?;
        }
        self.serve_slice(&record).await?;
        // Whatever was said of it before.
        self.spreads.heard.borrow_mut().remove(slice);
        drop(slicing);
        let slices = self.spreads.portal.slices().ok_or(SpreadRefusal::NoSuchSlice)?;
        Ok(slices.open(slice, from, asked.life).await.map_err(SpreadRefusal::from)?)
    }

    /// What is stored of a slice that its home may open.
    fn slice_to_open(&self, from: MemberId, slice: &SliceId) -> Result<SliceRecord, RequestError> {
        let record = self.slice_record(slice)?.ok_or(SpreadRefusal::NoSuchSlice)?;
        if !self.is_slice_served(&record) {
            return Err(match record.stage {
                SliceStage::Here => SpreadRefusal::from(SliceRefusal::OtherMember(record.me)),
                SliceStage::Making => SpreadRefusal::NoSuchSlice,
                SliceStage::Going => SpreadRefusal::from(SliceRefusal::Going),
            }
            .into());
        }
        if from != record.home {
            let refusal = SliceRefusal::NotHome { asked: from, home: record.home };
            return Err(SpreadRefusal::from(refusal).into());
        }
        if self.array.volume(&record.volume).is_err() {
            return Err(SpreadRefusal::from(SliceRefusal::Lost).into());
        }
        Ok(record)
    }

    /// What a home says of a slice of which its member asks. What goes on with the volume is asked for by orders.
    pub(super) fn home_says(&self, from: MemberId, question: &Question) -> HomeSays {
        let own = self.array.volume(&hidden_name(&question.spread)).is_ok();
        let own = own && !mutants::is(Mutant::SayGoneWithSlice);
        let who = self.serving.spread().who();
        let who = who.as_ref().map(|(group, me)| (group, *me));
        let says = match self.settings.says_of_slice(question, who, own) {
            // What lies on another array says nothing of what that member had.
            HomeSays::Gone if !self.membership.has_its_array() => {
                match mutants::is(Mutant::SayByOtherArray) {
                    true => HomeSays::Gone,
                    false => HomeSays::Unread,
                }
            }
            says => says,
        };
        tracing::debug!("{from} hears of slice {}: {says:?}", question.slice);
        says
    }

    /// The home of a slice has said something of it, or nothing: what follows is done.
    pub(super) async fn slice_heard(
        &self,
        slice: &SliceId,
        heard: Option<(MemberId, HomeSays)>,
    ) -> Result<(), RequestError> {
        let _slicing = self.slice_turn(slice).await?;
        let record = self.slice_record(slice)?.ok_or(SpreadRefusal::NoSuchSlice)?;
        if let Some(heard) = heard {
            self.spreads.heard.borrow_mut().insert(slice.clone(), heard);
        }
        match self.fate_with(&record, heard) {
            SliceFate::Go => self.let_slice_go(&record).await,
            SliceFate::Keep | SliceFate::LeftOver(_) => Ok(()),
        }
    }

    /// An operator deletes a slice that is left over.
    pub(super) async fn discard_slice(&self, slice: &SliceId) -> Result<(), RequestError> {
        let _slicing = self.slice_turn(slice).await?;
        let record = self.slice_record(slice)?.ok_or(SpreadRefusal::NoSuchSlice)?;
        match self.fate_of(&record) {
            SliceFate::LeftOver(why @ WhyLeft::HomeUnread(_)) => {
                Err(SpreadRefusal::Stays { slice: slice.clone(), why }.into())
            }
            SliceFate::Keep
                if record.stage != SliceStage::Going
                    && !self.is_home_deleting(slice)
                    && !mutants::is(Mutant::DiscardNeeded) =>
            {
                let (slice, name) = (slice.clone(), record.name);
                Err(SpreadRefusal::Needed { slice, name }.into())
            }
            SliceFate::Keep | SliceFate::LeftOver(_) | SliceFate::Go => {
                self.let_slice_go(&record).await
            }
        }
    }

    /// Whether the home of a slice has said that it deletes the volume. Its order may be one that is not obeyed here.
    fn is_home_deleting(&self, slice: &SliceId) -> bool {
        let heard = self.spreads.heard.borrow().get(slice).map(|(_, says)| *says);
        matches!(heard, Some(HomeSays::Have(SpreadStage::Going { .. })))
    }

    /// Stores that a slice goes, and has it go. For who has the turn of slices.
    async fn let_slice_go(&self, record: &SliceRecord) -> Result<(), RequestError> {
        if record.stage != SliceStage::Going {
            let going = SliceStanding { stage: SliceStage::Going, ..record.standing() };
            self.settings.note_slice(&record.id, going).await?;
        }
        self.bring_slice(&record.id, None).await
    }

    /// What becomes of a slice, by what its home has said last.
    pub(super) fn fate_of(&self, record: &SliceRecord) -> SliceFate {
        let heard = self.spreads.heard.borrow().get(&record.id).copied();
        self.fate_with(record, heard)
    }

    fn fate_with(&self, record: &SliceRecord, heard: Option<(MemberId, HomeSays)>) -> SliceFate {
        let who = self.serving.spread().who();
        let who = who.as_ref().map(|(group, me)| (group, *me));
        decide_slice(record, who, self.is_home_there(record), heard)
    }

    /// Goes on with slices where a life before this one has stopped, and serves those that are there; not beside somebody
    /// who does.
    pub(crate) async fn find_slices(&self) {
        if self.spreads.is_finding.replace(true) {
            return;
        }
        self.close_former_portal().await;
        self.tell_of_strays();
        self.spreads.is_finding.set(false);
        let mut found = self.settings.slices();
        found.retain(|record| self.spreads.brought.borrow_mut().insert(record.id.clone()));
        // One whose disks hang keeps no other waiting, nor whoever looks later.
        join_all(found.iter().map(|record| self.bring_found(record))).await;
    }

    async fn bring_found(&self, record: &SliceRecord) {
        self.bring_it(record).await;
        self.spreads.brought.borrow_mut().remove(&record.id);
    }

    async fn bring_it(&self, record: &SliceRecord) {
        let _slicing = self.slice_turn_at_last(&record.id).await;
        let brought = match self.shut_removed(record).await {
            Ok(()) => self.bring_slice(&record.id, None).await,
            Err(error) => Err(error),
        };
        if let Err(error) = brought {
            self.note_fault(record, Some(error.to_string()));
        }
    }

    /// Ends what a home has open that was removed from the group. The slice stays.
    async fn shut_removed(&self, record: &SliceRecord) -> Result<(), RequestError> {
        if self.is_home_there(record) {
            return Ok(());
        }
        let Some(slices) = self.spreads.portal.slices() else { return Ok(()) };
        slices.withdraw(&record.id).await.map_err(|error| SpreadRefusal::from(error).into())
    }

    /// Whether slices are to be looked at again: some are not served that should be, or go, or the member is another one.
    pub(crate) fn are_slices_unsettled(&self) -> bool {
        let served = self.spreads.portal.slices().map(|slices| slices.list()).unwrap_or_default();
        let is_served = |id: &SliceId| served.iter().any(|(served, _)| served == id);
        let is_unsettled = |record: &SliceRecord| match record.stage {
            SliceStage::Here => self.is_slice_served(record) != is_served(&record.id),
            SliceStage::Making => false,
            SliceStage::Going => true,
        };
        self.settings.slices().iter().any(is_unsettled)
    }
}
