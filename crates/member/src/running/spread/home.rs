//! What a home does for a volume of its own: it stores each change before the next one, does what concerns its own slice,
//! and says which members are to be asked.

use array::ArrayError;
use array::api::{Cache, VolumeState};
use group::membership::SpreadId;
use group::record::Setting;
use group::spread::{
    Answer as Said, Home, HomeStep, Letter, Openings, Order, PAGE_BYTES, SliceSet, SpreadRecord,
    SpreadStage, SpreadStanding, hidden_name,
};

use super::super::{Member, RequestError, SpreadRefusal};
use crate::reply::Answer;
use crate::spread_request::{SliceLetter, SpreadPlan, SpreadStep};

impl Member {
    /// Stores that a volume is being made. Whoever asks again has it done once.
    pub(super) async fn make_spread(&self, plan: SpreadPlan) -> Result<Answer, RequestError> {
        let record = self.planned(&plan)?;
        let name = record.name.clone();
        // Before any turn, as it may wait for the group's store; kept until the name is stored.
        let _claim = self.claim(vec![name.clone()]).await?;
        let _changing = self.spreads.changing.take().await;
        self.check_spreads_known()?;
        if let Some(made) = self.settings.spread(&plan.id) {
            return self.shown_spread(made);
        }
        {
            let _turn = self.turn.take().await;
            if self.array.volume(&name).is_ok() {
                return Err(ArrayError::VolumeExists(name).into());
            }
            self.check_free(&name, None)?;
            self.settings.prepare_spread(&record).await?;
        }
        let mut home = Home::create(seats_of(&record), record.size_bytes);
        home.stored(record.standing());
        self.spreads.plans.borrow_mut().insert(plan.id.clone(), plan);
        self.keep_home(&record.id, home);
        self.membership.look_at_names();
        self.shown_spread(record)
    }

    /// What is stored of a new volume.
    fn planned(&self, plan: &SpreadPlan) -> Result<SpreadRecord, RequestError> {
        let SpreadPlan { id, group, spec, pattern, seats, .. } = plan;
        let refused = |why: &str| RequestError::from(SpreadRefusal::Plan(why.to_owned()));
        if seats.is_empty() {
            return Err(refused("it has no slices"));
        }
        let record = SpreadRecord {
            id: id.clone(),
            group: group.clone(),
            home_array: self.array.info().id,
            name: spec.name.clone(),
            size_bytes: spec.size_bytes,
            page_bytes: PAGE_BYTES,
            pattern: pattern.clone(),
            openings: vec![Openings::default(); seats.len()],
            seats: seats.clone(),
            stage: SpreadStage::Making,
        };
        if !self.serving.spread().is_of(&record) {
            return Err(SpreadRefusal::OtherSeat.into());
        }
        record.check_sound().map_err(|why| refused(&why))?;
        array::check_name(&spec.name)?;
        if spec.thick {
            return Err(refused("its space cannot be reserved yet, so make it thin"));
        }
        if spec.cache != Cache::Durable {
            return Err(refused("what its members answer is durable, so make it so"));
        }
        if !spec.size_bytes.is_multiple_of(u64::from(spec.block_bytes.max(1))) {
            return Err(refused("its size is no multiple of its blocks"));
        }
        Ok(record)
    }

    /// Does what is next for a volume, until members are to be asked, or nothing is left to be done.
    pub(super) async fn step_spread(&self, id: &SpreadId) -> Result<SpreadStep, RequestError> {
        let _changing = self.spreads.changing.take().await;
        if self.settings.spread(id).is_none() && self.settings.unknown_spreads().is_none() {
            return Ok(SpreadStep::Forgotten);
        }
        loop {
            let home = self.home(id)?;
            match home.step() {
                HomeStep::Store(standing) => self.store_standing(id, standing).await?,
                HomeStep::ShutOut => self.shut_out(id).await?,
                HomeStep::Ask(order, slices) if slices.has(0) => {
                    self.do_own(id, order).await?;
                }
                HomeStep::Ask(order, slices) => return self.letters(id, (order, slices)),
                HomeStep::Forget => {
                    self.forget_spread(id).await?;
                    return Ok(SpreadStep::Forgotten);
                }
                HomeStep::Rest => return Ok(SpreadStep::Rest),
            }
        }
    }

    /// A member has answered an order.
    pub(super) async fn spread_heard(
        &self,
        id: &SpreadId,
        slice: u8,
        order: Order,
        answer: Said,
    ) -> Result<(), RequestError> {
        let _changing = self.spreads.changing.take().await;
        let mut home = self.home(id)?;
        let seats = self.record_of(id)?.seats.len();
        if slice == 0 || usize::from(slice) >= seats {
            return Err(SpreadRefusal::NoSuchSlice.into());
        }
        home.heard(slice, order, answer);
        self.keep_home(id, home);
        Ok(())
    }

    /// What is being made goes, and what is being made larger stays as it is.
    pub(super) async fn give_up_spread(&self, id: &SpreadId) -> Result<(), RequestError> {
        let _changing = self.spreads.changing.take().await;
        let mut home = self.home(id)?;
        home.give_up();
        self.keep_home(id, home);
        self.store_next(id).await
    }

    pub(super) async fn grow_spread(
        &self,
        name: &str,
        size_bytes: u64,
    ) -> Result<Answer, RequestError> {
        let _changing = self.spreads.changing.take().await;
        let record = self.record_named(name)?;
        if !self.serving.spread().is_of(&record) {
            return Err(SpreadRefusal::OtherSeat.into());
        }
        self.check_not_old(&record)?;
        let own = self.array.volume(&hidden_name(&record.id))?;
        if !size_bytes.is_multiple_of(u64::from(own.block_bytes)) {
            let why = "its size is no multiple of its blocks".to_owned();
            return Err(SpreadRefusal::Plan(why).into());
        }
        let mut home = self.home(&record.id)?;
        home.grow(size_bytes).map_err(SpreadRefusal::from)?;
        self.keep_home(&record.id, home);
        self.store_next(&record.id).await?;
        self.shown_spread(self.record_of(&record.id)?)
    }

    /// Refuses to change what a slice has seen a later home of.
    fn check_not_old(&self, record: &SpreadRecord) -> Result<(), RequestError> {
        match self.serving.spread().why_old(&record.id) {
            Some(why) => Err(SpreadRefusal::OldHome { name: record.name.clone(), why }.into()),
            None => Ok(()),
        }
    }

    /// Stores that a volume goes for good. Whoever asks again has it done.
    pub(super) async fn delete_spread(&self, name: &str) -> Result<Answer, RequestError> {
        let _changing = self.spreads.changing.take().await;
        let record = self.record_named(name)?;
        self.check_not_old(&record)?;
        let id = &record.id;
        let is_online = |volume: array::api::VolumeInfo| {
            matches!(volume.state, VolumeState::Online | VolumeState::Degraded)
        };
        if self.serving.spread().volume(name).is_some_and(is_online) {
            return Err(SpreadRefusal::Online(name.to_owned()).into());
        }
        let mut home = self.home(id)?;
        home.delete().map_err(SpreadRefusal::from)?;
        self.keep_home(id, home);
        self.store_next(id).await?;
        self.shown_spread(self.record_of(id)?)
    }

    /// An operator gives a slice up whose member is none any more.
    pub(super) async fn forget_seat(&self, id: &SpreadId, slice: u8) -> Result<(), RequestError> {
        let record = self.record_of(id)?;
        let seat = record.seats.get(usize::from(slice)).ok_or(SpreadRefusal::NoSuchSlice)?;
        // Numbers of members say nothing in another group: there it is none.
        let is_member = match self.serving.spread().is_of(&record) {
            true => self.membership.is_member(seat.member).await?,
            false => false,
        };
        let _changing = self.spreads.changing.take().await;
        let mut home = self.home(id)?;
        home.forget_seat(slice, (seat.member, is_member)).map_err(SpreadRefusal::from)?;
        self.keep_home(id, home);
        self.store_next(id).await
    }

    /// How a volume is driven: as in this life, or as a start finds it.
    fn home(&self, id: &SpreadId) -> Result<Home, RequestError> {
        let record = self.record_of(id)?;
        let known = self.spreads.homes.borrow().get(id).copied();
        let mut home = known.unwrap_or_else(|| Home::found(seats_of(&record), record.standing()));
        // Something was stored of which it was not heard whether it is.
        if home.standing() != Some(record.standing()) {
            home.reread(record.standing());
        }
        if home.may_serve().is_some() {
            home.served();
        }
        Ok(home)
    }

    fn keep_home(&self, id: &SpreadId, home: Home) {
        self.spreads.homes.borrow_mut().insert(id.clone(), home);
    }

    /// Whatever is thought of a volume is forgotten: what is stored counts.
    fn forget_home(&self, id: &SpreadId) {
        self.spreads.homes.borrow_mut().remove(id);
    }

    /// What is stored of a volume.
    pub(super) fn record_of(&self, id: &SpreadId) -> Result<SpreadRecord, RequestError> {
        match self.settings.spread(id) {
            Some(record) => Ok(record),
            None => {
                self.check_spreads_known()?;
                Err(SpreadRefusal::NoSuch.into())
            }
        }
    }

    /// What is stored of the volume of this name.
    fn record_named(&self, name: &str) -> Result<SpreadRecord, RequestError> {
        match self.serving.spread().named(name) {
            Some(record) => Ok(record),
            None => {
                self.check_spreads_known()?;
                Err(RequestError::NoSuchVolume(name.to_owned()))
            }
        }
    }

    /// Stores what is to be stored, if anything is.
    async fn store_next(&self, id: &SpreadId) -> Result<(), RequestError> {
        while let HomeStep::Store(standing) = self.home(id)?.step() {
            self.store_standing(id, standing).await?;
        }
        Ok(())
    }

    async fn store_standing(
        &self,
        id: &SpreadId,
        standing: SpreadStanding,
    ) -> Result<(), RequestError> {
        let mut home = self.home(id)?;
        if let Err(error) = self.settings.note_spread(id, standing).await {
            // It may be stored for all that: what reads counts.
            match self.settings.spread(id) {
                Some(record) => {
                    home.reread(record.standing());
                    self.keep_home(id, home);
                    self.follow(id, record.standing()).await?;
                }
                None => self.forget_home(id),
            }
            return Err(error.into());
        }
        home.stored(standing);
        self.keep_home(id, home);
        self.follow(id, standing).await
    }

    /// Brings what hosts see in line with what is stored.
    async fn follow(&self, id: &SpreadId, standing: SpreadStanding) -> Result<(), RequestError> {
        if standing.stage == SpreadStage::Whole {
            self.spreads.plans.borrow_mut().remove(id);
            let record = self.record_of(id)?;
            if let Err(error) = self.serving.spread().resize(&record) {
                tracing::warn!("{} keeps its size for now: {error}", record.name);
            }
            self.serving.targets().resized(&self.serving.iqn_of(&record.name));
        }
        let _turn = self.turn.take().await;
        self.serving.settle().await;
        Ok(())
    }

    /// Ends what hosts have under way, before a slice goes.
    async fn shut_out(&self, id: &SpreadId) -> Result<(), RequestError> {
        let record = self.record_of(id)?;
        {
            let _turn = self.turn.take().await;
            self.serving.settle().await;
        }
        if let Ok(own) = self.array.volume(&hidden_name(id)) {
            let serial = self.serving.names().volume_serial(&own);
            let is_at_work = self.serving.targets().is_at_work(&serial);
            if is_at_work {
                return Err(SpreadRefusal::AtWork(record.name).into());
            }
        }
        let mut home = self.home(id)?;
        home.shut_out();
        self.spreads.homes.borrow_mut().insert(id.clone(), home);
        Ok(())
    }

    /// Has the own slice do what all are asked for. A refusal counts as that of any other member.
    async fn do_own(&self, id: &SpreadId, order: Order) -> Result<(), RequestError> {
        let done = self.own_slice(id, order).await;
        let mut home = self.home(id)?;
        match (&done, order) {
            (Ok(()), _) => home.heard(0, order, Said::Done),
            // It is asked again.
            (Err(_), Order::Go) => return done,
            (Err(_), Order::Make { .. } | Order::Grow { .. }) => {
                home.heard(0, order, Said::Refused);
            }
        }
        self.keep_home(id, home);
        done
    }

    /// What other members are to be asked.
    fn letters(
        &self,
        id: &SpreadId,
        (order, slices): (Order, SliceSet),
    ) -> Result<SpreadStep, RequestError> {
        let record = self.record_of(id)?;
        if !self.serving.spread().is_of(&record) {
            return Ok(SpreadStep::Rest);
        }
        let plan = self.spreads.plans.borrow().get(id).cloned();
        let own = self.array.volume(&hidden_name(id)).ok();
        let block_bytes = own.map_or(0, |own| own.block_bytes);
        let level = plan.and_then(|plan| plan.spec.level);
        let letter = |slice: u8| {
            let seat = record.seats.get(usize::from(slice))?;
            let letter = Letter::of(&record, slice, order);
            Some((slice, seat.member, SliceLetter { letter, block_bytes, level }))
        };
        Ok(SpreadStep::Ask { letters: slices.iter().filter_map(letter).collect() })
    }

    /// Nothing is left of a volume.
    async fn forget_spread(&self, id: &SpreadId) -> Result<(), RequestError> {
        self.settings.forget_spread(id).await?;
        self.forget_home(id);
        self.spreads.plans.borrow_mut().remove(id);
        self.serving.spread().let_go();
        // Its name is free.
        self.membership.look_at_names();
        Ok(())
    }
}

fn seats_of(record: &SpreadRecord) -> u8 {
    u8::try_from(record.seats.len()).expect("a sound record has few seats")
}
