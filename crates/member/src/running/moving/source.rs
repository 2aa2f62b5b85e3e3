//! The side of a move that has the volume: from its beginning until all is sent.
//!
//! ```text
//!  Copying ─▶ CaughtUp ─ freeze ─▶ Frozen ─▶ Sent ─ seal ─▶ Sealed ─ commit is asked ─▶ Asked
//!     │           │                  │         │               │                         │
//!     ╰───────────┴──────────────────┴─────────┴───────────────┴── given up ◀────────────╯ only behind the fence
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use array::api::{VolumeInfo, VolumeState};
use group::membership::{GroupId, MoveId};
use group::ownership::MemberId;
use group::settings::{Departure, SettingsError, Stage, UnitKey, UnitRecord, VolumeSettings};
use ring::wait::Turn;

use super::super::{Member, MoveError, RequestError};
use super::copying::{Copying, Next, drawn_name, is_of_move, snapshots_to_move};
use crate::membership::GroupError;
use crate::move_request::{Leaving, Passport, Piece, Seal, UnitImage};
use crate::reply::Answer;
use crate::settings::KeptError;

/// How far a move has come at its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The destination is given what there is.
    Copying,
    /// It has nearly all.
    CaughtUp,
    /// No host has the volume any more; its departure is stored, or may be.
    Frozen,
    /// The destination was given all of it.
    Sent,
    /// It was given what hosts rely on too.
    Sealed,
    /// The store was asked to give the name away.
    Asked,
}

impl Step {
    const fn word(self) -> &'static str {
        match self {
            Self::Copying => "being copied",
            Self::CaughtUp => "copied but for what hosts have written last",
            Self::Frozen => "being copied to its end, and has no hosts",
            Self::Sent => "copied",
            Self::Sealed => "ready to be handed over",
            Self::Asked => "being handed over",
        }
    }
}

/// A move away from here, in this life of the member.
#[derive(Debug)]
pub(super) struct Source {
    /// The number of the volume.
    pub(super) volume: u32,
    pub(super) name: String,
    /// The group that it goes on in, and who the source is there.
    group: GroupId,
    from: MemberId,
    pub(super) to: MemberId,
    /// The name of the destination.
    pub(super) to_name: String,
    /// What is asked about it comes one after the other. Who has it may take the turns of the member, not the other way
    /// round.
    pub(super) turn: Turn,
    step: Cell<Step>,
    copying: RefCell<Option<Copying>>,
    /// How often a piece of it was asked for.
    pub(super) pieces: Cell<u64>,
    /// What was free on its level when it began.
    pub(super) free_bytes: u64,
}

impl Source {
    pub(super) fn step(&self) -> Step {
        self.step.get()
    }

    /// It has come so far.
    pub(super) fn reached(&self, step: Step) {
        debug_assert!(step as u8 >= self.step.get() as u8, "a move goes on, or is given up");
        self.step.set(step);
    }

    /// Refuses what is not asked for at this step.
    pub(super) fn check_step(&self, steps: &[Step]) -> Result<(), RequestError> {
        if steps.contains(&self.step.get()) {
            return Ok(());
        }
        Err(RequestError::Move(MoveError::OutOfStep {
            name: self.name.clone(),
            step: self.step.get().word(),
        }))
    }

    /// Whether a departure of it is stored, or may be.
    pub(super) fn has_departure(&self) -> bool {
        self.step.get() as u8 >= Step::Frozen as u8
    }

    /// What it is about, for a sentence about what has changed.
    fn changed(&self, what: &str) -> RequestError {
        RequestError::Move(MoveError::Changed { name: self.name.clone(), what: what.to_owned() })
    }
}

impl Member {
    /// Begins a move: all is looked at that is known here, and nothing is changed.
    pub(super) async fn begin_move(
        &self,
        name: &str,
        to: Option<&str>,
        pool: Option<&str>,
    ) -> Result<Answer, RequestError> {
        let volume = self.find(name)?;
        let group = self.membership.group_id()?.ok_or(GroupError::NotInGroup)?;
        self.check_not_moving(&volume)?;
        self.check_movable(&volume)?;
        let (to, to_name) = self.destination_of_move(&volume, (to, pool))?;
        let holder = self.membership.holder_of(&volume.name).await?;
        let me = self.membership.me()?;
        if holder.is_none_or(|holder| holder.member != me) {
            return Err(RequestError::Move(MoveError::NameNotHeld(volume.name)));
        }
        let id = MoveId::draw().map_err(GroupError::from)?;
        let (passport, total_bytes) = self.passport(&id, me, &volume).await?;
        // It may have begun to move, or to have a part in a set, while that was asked and counted.
        self.check_not_moving(&volume)?;
        self.check_decided_of(&volume.name)?;
        self.moving.check_room()?;
        let source = Source {
            volume: volume.id,
            name: volume.name,
            group,
            from: me,
            to,
            to_name: to_name.clone(),
            turn: Turn::default(),
            step: Cell::new(Step::Copying),
            copying: RefCell::new(Some(Copying::new(passport.size_bytes))),
            pieces: Cell::new(0),
            free_bytes: self.room_of(passport.level).0,
        };
        self.moving.sources.borrow_mut().insert(id.clone(), Rc::new(source));
        // The others hear that it has a part in a move.
        self.serving.tell_settled();
        Ok(Answer::Leaving(Box::new(Leaving { id, to, to_name, passport, total_bytes })))
    }

    /// Refuses to move what moves.
    fn check_not_moving(&self, volume: &VolumeInfo) -> Result<(), RequestError> {
        let name = || volume.name.clone();
        if let Some(source) = self.moving.source_of(volume.id) {
            return Err(RequestError::Move(MoveError::MovesAlready {
                name: name(),
                to: source.to_name.clone(),
            }));
        }
        if let Some(departure) = self.settings.departure(volume.id) {
            let to = self.member_name(departure.to);
            return Err(RequestError::Move(MoveError::MovesAlready { name: name(), to }));
        }
        self.moving.check_room()
    }

    /// The name of a member, or its number where that is not known now.
    pub(in super::super) fn member_name(&self, id: MemberId) -> String {
        self.known_name(id).unwrap_or_else(|| id.0.to_string())
    }

    /// The name of a member, as far as this one has heard of it.
    pub(super) fn known_name(&self, id: MemberId) -> Option<String> {
        let roll = self.membership.roll_now().ok()?;
        roll.members.get(&id).map(|record| record.name.clone())
    }

    /// What a destination is to know, and how much it will be given.
    async fn passport(
        &self,
        id: &MoveId,
        from: MemberId,
        volume: &VolumeInfo,
    ) -> Result<(Passport, u64), RequestError> {
        let snapshots = snapshots_to_move(&self.array, &volume.name)?;
        let names: Vec<&str> = snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
        let (mut total_bytes, mut base) = (0, None);
        for to in names.iter().copied().map(Some).chain([None]) {
            let changed = self.array.diff(&volume.name, base, to).await?;
            total_bytes += changed.iter().map(|extent| extent.len_bytes).sum::<u64>();
            base = to;
        }
        let size_bytes = snapshots.first().map_or(volume.size_bytes, |first| first.size_bytes);
        let iqn = self.iqn_of(volume);
        let prefix = iqn.rsplit_once(':').map_or(iqn.as_str(), |(prefix, _)| prefix);
        let needs_bytes =
            if volume.thick { total_bytes.max(volume.size_bytes) } else { total_bytes };
        let passport = Passport {
            id: id.clone(),
            from,
            name: volume.name.clone(),
            size_bytes,
            level: volume.raid,
            thick: volume.thick,
            block_bytes: volume.block_bytes,
            cache: volume.cache,
            read_ahead_bytes: volume.read_ahead_bytes,
            cached: volume.cached,
            online: volume.state != VolumeState::Offline,
            created_unix_seconds: volume.created_unix_seconds,
            iqn_prefix: prefix.to_owned(),
            serial: self.serving.names().volume_serial(volume),
            needs_bytes,
            unlisted: self.unlisted,
            has_list: self.has_list(volume.id)?,
        };
        Ok((passport, total_bytes))
    }

    /// Whether it has an access list.
    fn has_list(&self, volume: u32) -> Result<bool, RequestError> {
        let state = self.settings.state()?;
        let set = state.volumes.get(&volume).and_then(|set| set.as_ref().ok());
        Ok(set.is_some_and(|set| set.access.is_some()))
    }

    /// How many of its snapshots a move of the volume has taken for itself, and deletes: they are no operator's.
    pub(in super::super) fn snapshots_of_move(&self, volume: &VolumeInfo) -> u32 {
        let moves = self.moving.source_of(volume.id).is_some()
            || self.settings.departing(volume.id).is_some();
        // What is said of each volume is not to cost a look at its snapshots.
        if !moves {
            return 0;
        }
        let all = self.array.snapshots(&volume.name).unwrap_or_default().into_iter();
        all.filter(|it| is_of_move(&it.name)).count() as u32
    }

    /// The name of the target of a volume.
    pub(super) fn iqn_of(&self, volume: &VolumeInfo) -> String {
        self.serving.iqn_of_volume(volume)
    }

    /// The volume of a move, if it is still what it was.
    fn volume_of(&self, source: &Source) -> Result<VolumeInfo, RequestError> {
        let found = self.array.volume(&source.name).ok();
        let found = found.filter(|volume| volume.id == source.volume);
        let volume =
            found.ok_or_else(|| source.changed("it is not there by this name any more"))?;
        match volume.state {
            VolumeState::Deleted => Err(RequestError::InRecycleBin(volume.name)),
            VolumeState::Lost => Err(RequestError::Move(MoveError::Lost(volume.name))),
            VolumeState::Online | VolumeState::Degraded | VolumeState::Offline => Ok(volume),
        }
    }

    /// What the destination is to be given next.
    pub(super) async fn next_piece(&self, id: &MoveId) -> Result<Piece, RequestError> {
        let source = self.moving.source(id)?;
        let _turn = source.turn.take().await;
        self.moving.source(id)?;
        match source.step() {
            Step::CaughtUp => return Ok(Piece::CaughtUp),
            Step::Sent => return Ok(Piece::End),
            _ => source.check_step(&[Step::Copying, Step::Frozen])?,
        }
        let volume = self.volume_of(&source)?;
        let frozen = source.step() == Step::Frozen;
        if !frozen {
            self.check_room_to_go_on(&source, volume.raid)?;
        }
        // Nobody else has it: what is asked comes one after the other.
        let taken = source.copying.take();
        let mut copying = taken.ok_or_else(|| source.changed("it was cut off"))?;
        let next = self.advance(&source, &mut copying, frozen).await;
        source.copying.replace(Some(copying));
        match next? {
            Next::Piece(piece) => Ok(piece),
            Next::CaughtUp => {
                source.reached(Step::CaughtUp);
                Ok(Piece::CaughtUp)
            }
            Next::End => {
                source.reached(Step::Sent);
                Ok(Piece::End)
            }
            Next::Take => Err(source.changed("its last snapshot is gone")),
        }
    }

    /// Goes on to the next piece, and takes the snapshot of a round where one is due.
    async fn advance(
        &self,
        source: &Source,
        copying: &mut Copying,
        frozen: bool,
    ) -> Result<Next, RequestError> {
        let next = copying.next(&self.array, &source.name, frozen).await?;
        if frozen || !matches!(next, Next::Take) {
            return Ok(next);
        }
        let _alone = self.taking.take().await;
        copying.took(self.take_for_move(source).await?);
        copying.next(&self.array, &source.name, frozen).await
    }

    /// Takes a snapshot of what is to be sent. For who keeps others from taking some.
    async fn take_for_move(&self, source: &Source) -> Result<String, RequestError> {
        let name = drawn_name().map_err(GroupError::from)?;
        self.take_snapshots(std::slice::from_ref(&source.name), Some(&name)).await?;
        Ok(name)
    }

    /// Takes the volume from its hosts, behind a departure that survives whatever ends meanwhile.
    pub(super) async fn freeze(&self, id: &MoveId) -> Result<(), RequestError> {
        let source = self.moving.source(id)?;
        let _its_turn = source.turn.take().await;
        self.moving.source(id)?;
        source.check_step(&[Step::CaughtUp])?;
        let _alone = self.taking.take().await;
        let _turn = self.turn.take().await;
        let volume = self.volume_of(&source)?;
        self.check_movable(&volume)?;
        self.check_shares(&volume)?;
        let (iqn, from) = (self.iqn_of(&volume), self.membership.me()?);
        let group = self.membership.group_id()?.ok_or(GroupError::NotInGroup)?;
        if group != source.group || from != source.from {
            return Err(source.changed("this member is in another group"));
        }
        // From here on it may be stored, whatever the store answers.
        source.reached(Step::Frozen);
        let departure = Departure {
            id: id.clone(),
            group,
            volume: source.volume,
            name: source.name.clone(),
            from,
            to: source.to,
            to_name: source.to_name.clone(),
            serial: self.serving.names().volume_serial(&volume),
            iqns: vec![iqn.clone()],
            stage: Stage::Leaving,
        };
        self.settings.depart(&departure).await?;
        // Hosts are told to come back later, and none of their tasks is left: a disk that is still at work for one could
        // write behind the last snapshot, so that this is the end of the move.
        self.serving.withdraw(&iqn).await?;
        self.serving.settle().await;
        self.check_no_sanitize(&volume)?;
        let last = self.take_for_move(&source).await?;
        if let Some(copying) = source.copying.borrow_mut().as_mut() {
            copying.took(last);
        }
        Ok(())
    }

    /// What hosts rely on beside the data. Nothing of it changes any more, as nobody has the volume.
    pub(super) fn seal(&self, id: &MoveId) -> Result<Seal, RequestError> {
        let source = self.moving.source(id)?;
        source.check_step(&[Step::Sent, Step::Sealed])?;
        let volume = self.volume_of(&source)?;
        if let Some(copying) = source.copying.borrow().as_ref() {
            copying.check_sent(&self.array, &source.name)?;
        }
        self.check_no_sanitize(&volume)?;
        let state = self.settings.state()?;
        let settings = match state.volumes.get(&volume.id) {
            None => VolumeSettings::default(),
            Some(Ok(settings)) => settings.clone(),
            Some(Err(error)) => {
                return Err(KeptError::from(SettingsError::Unreadable(error.to_string())).into());
            }
        };
        let kept = self.reservations_of(&volume)?;
        let kept = kept.map(|image| UnitImage::new(UnitRecord::Reservations, &image));
        let seal = Seal {
            settings,
            units: kept.into_iter().collect(),
            portal_group: self.serving.port_group(),
            online: volume.state != VolumeState::Offline,
            read_ahead_bytes: volume.read_ahead_bytes,
            cached: volume.cached,
        };
        source.reached(Step::Sealed);
        Ok(seal)
    }

    /// An image of the reservations of a volume that nobody has. What outlives no loss of power is in memory alone, and
    /// a move is none; a volume that was not served in this life has what is saved.
    fn reservations_of(&self, volume: &VolumeInfo) -> Result<Option<Vec<u8>>, RequestError> {
        let unreadable = |source| {
            RequestError::Move(MoveError::UnitUnreadable { name: volume.name.clone(), source })
        };
        let serial = self.serving.names().volume_serial(volume);
        let mut units = self.settings.units_of(&serial).map_err(unreadable)?;
        let key = UnitKey { serial, record: UnitRecord::Reservations };
        let saved = units.remove(&key).flatten();
        Ok(self.serving.targets().kept_reservations(&key.serial).or(saved))
    }
}
