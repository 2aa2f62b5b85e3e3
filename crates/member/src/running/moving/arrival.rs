//! The destination of a move, up to where the volume is prepared.
//!
//! ```text
//!  Arrive ─ checks ─▶ Open: a hidden volume, offline ── Write ─▶ Open
//!                       │      ╰─ Discard, nothing heard for long, a start ─▶ Ended: it is deleted
//!                       ╰─ Prepare ─▶ Sealed: nothing is written any more ─ stored ─▶ Ended: there is a record
//! ```
//!
//! Numbered, for what arrives:
//! 1. It has another name than hosts know it by until the group's store says that it is this member's.
//! 2. Pieces are done one after the other, and each may be done twice: a second time it changes nothing.
//! 3. A hidden volume without a record is nobody's: what was copied is at the source too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use array::api::{VolumeInfo, VolumeSpec};
use array::{ArrayError, Level};
use block::{BlockError, WriteFlags};
use group::membership::{GroupId, ListedMove, MoveId, folded};
use group::settings::{Adopted, Arrival, UnitKey, UnitRecord, Units};
use ring::Buf;
use ring::wait::{Guard, Turn};

use super::super::{Member, MoveError, RequestError};
use crate::membership::GroupError;
use crate::move_request::{PIECE_BYTES_MAX, Passport, Piece, Seal};
use crate::mutants::{self, Mutant};
use crate::settings::Unlisted;
use crate::settings::hidden::{ARRIVING, ARRIVING_DIGITS, is_hidden_name};

/// Letters of the longest name that an array gives.
const NAME_LEN_MAX: usize = 63;

/// Characters of a serial number, and of the name of a target (RFC 7143 4.2.7.1), at most.
const SERIAL_LEN_MAX: usize = 36;
const IQN_LEN_MAX: usize = 223;

/// So long nothing is heard of a move whose source is gone. A difference of a large volume takes minutes to find.
const IDLE: Duration = Duration::from_secs(15 * 60);

/// The name that a volume has while it arrives.
pub(super) fn hidden_name(id: &MoveId) -> String {
    let digits = id.to_string();
    format!("{ARRIVING}{}", digits.get(..ARRIVING_DIGITS).unwrap_or(&digits))
}

/// What arrives in this life of the member, and is not prepared.
#[derive(Debug, Default)]
pub(in super::super) struct Arriving {
    all: RefCell<BTreeMap<MoveId, Rc<Incoming>>>,
    /// Why what is prepared is not adopted, as it turned out when that was looked at last.
    faults: RefCell<BTreeMap<MoveId, String>>,
}

/// A volume that arrives.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) passport: Passport,
    /// The group that it comes in.
    group: GroupId,
    /// The name of its source there; empty where that is not known.
    from_name: String,
    /// The hidden volume.
    volume: u32,
    step: Cell<Step>,
    /// Bytes of data that have come.
    pub(super) came_bytes: Cell<u64>,
    /// When something was asked about it last.
    heard: Cell<Instant>,
    /// Who has it does the next thing.
    turn: Turn,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Pieces come.
    Open,
    /// It is being stored that it is prepared, or that failed: nobody knows whether it is stored.
    Sealed,
    /// It is prepared, or deleted.
    Ended,
}

impl Arriving {
    /// Why it is not adopted, or that nothing keeps it from that.
    pub(super) fn note_fault(&self, id: &MoveId, fault: Option<String>) {
        let mut faults = self.faults.borrow_mut();
        match fault {
            None => drop(faults.remove(id)),
            Some(fault) => {
                if faults.get(id) != Some(&fault) {
                    tracing::warn!(
                        "a volume that has come by the move {id} is not served yet: {fault}"
                    );
                }
                faults.insert(id.clone(), fault);
            }
        }
    }

    /// The same, for who asks.
    pub(super) fn fault_of(&self, id: &MoveId) -> Option<String> {
        self.faults.borrow().get(id).cloned()
    }

    /// How many arrive.
    pub(super) fn len(&self) -> usize {
        self.all.borrow().len()
    }

    pub(super) fn find(&self, id: &MoveId) -> Option<Rc<Incoming>> {
        self.all.borrow().get(id).cloned()
    }

    /// Whether the volume of this name, a hidden one, arrives in this life.
    pub(super) fn has_hidden(&self, name: &str) -> bool {
        self.all.borrow().keys().any(|id| hidden_name(id) == name)
    }

    /// What arrives, and from whom.
    pub(super) fn parts(&self) -> Vec<ListedMove> {
        let all = self.all.borrow();
        let part = |incoming: &Rc<Incoming>| ListedMove {
            volume: incoming.passport.name.clone(),
            other: incoming.passport.from,
        };
        all.values().map(part).collect()
    }

    /// What those that arrive still need on this level.
    pub(super) fn awaited_bytes(&self, level: Level) -> u64 {
        let all = self.all.borrow();
        // A thick one has its room.
        let awaited = all.values().filter(|it| it.passport.level == level && !it.passport.thick);
        awaited.map(|it| it.passport.needs_bytes.saturating_sub(it.came_bytes.get())).sum()
    }

    /// It does not arrive any more.
    pub(super) fn end(&self, id: &MoveId) {
        if let Some(incoming) = self.all.borrow_mut().remove(id) {
            incoming.step.set(Step::Ended);
        }
    }

    /// Those that nothing was heard of for so long, and that nobody waits for.
    fn idle_for(&self, time: Duration) -> Vec<MoveId> {
        let all = self.all.borrow();
        let idle = all.iter().filter(|(_, incoming)| {
            incoming.turn.held().is_none() && incoming.heard.get().elapsed() >= time
        });
        idle.map(|(id, _)| id.clone()).collect()
    }
}

impl Incoming {
    /// Waits for the turn of the caller.
    pub(super) async fn take_turn(&self) -> Guard<()> {
        self.turn.take().await
    }

    /// The same, for who goes on only if it is at one of these steps then.
    async fn take_turn_at(&self, steps: &[Step]) -> Result<Guard<()>, RequestError> {
        let guard = self.turn.take().await;
        self.heard.set(Instant::now());
        match self.step.get() {
            step if steps.contains(&step) => Ok(guard),
            Step::Ended => Err(RequestError::Move(MoveError::NoSuch(self.passport.id.to_string()))),
            Step::Open | Step::Sealed => Err(RequestError::Move(MoveError::OutOfStep {
                name: self.passport.name.clone(),
                step: "being prepared",
            })),
        }
    }
}

impl Member {
    /// Makes room for a volume of another member.
    pub(super) async fn arrive(&self, passport: Passport) -> Result<(), RequestError> {
        if let Some(incoming) = self.moving.arriving().find(&passport.id) {
            let _turn = incoming.take_turn_at(&[Step::Open]).await?;
            return match incoming.passport == passport {
                true => Ok(()),
                false => Err(bad("what is said of the volume is not what was said before")),
            };
        }
        self.check_source(&passport)?;
        self.end_former(&passport).await?;
        let group = self.membership.group_id()?.ok_or(GroupError::NotInGroup)?;
        self.make_hidden(passport, group).await
    }

    /// Refuses what is not of a member that shares the settings of the group with this one.
    fn check_source(&self, passport: &Passport) -> Result<(), RequestError> {
        let (me, roll) = (self.membership.me()?, self.membership.roll_now()?);
        if passport.from == me || !roll.members.contains_key(&passport.from) {
            return Err(RequestError::Move(MoveError::NotFromMember(passport.name.clone())));
        }
        if !self.membership.shares() {
            let (name, member) = (passport.name.clone(), self.member_name(me));
            return Err(RequestError::Move(MoveError::KeepsOwn { name, member }));
        }
        self.check_list(passport, passport.has_list)
    }

    /// Refuses a volume without an access list that would be for others here than it was for: what a member was started with
    /// says whom it lets in.
    fn check_list(&self, passport: &Passport, has_list: bool) -> Result<(), RequestError> {
        let is_same = passport.unlisted == self.unlisted && self.unlisted != Unlisted::Rule;
        match has_list || is_same {
            true => Ok(()),
            false => Err(RequestError::Move(MoveError::WithoutList(passport.name.clone()))),
        }
    }

    /// Throws away what came of the same volume before: its source moves it once at a time, so that is given up.
    async fn end_former(&self, passport: &Passport) -> Result<(), RequestError> {
        let former: Vec<MoveId> = {
            let all = self.moving.arriving().all.borrow();
            let of_it = all.values().map(|incoming| &incoming.passport);
            let of_it =
                of_it.filter(|other| other.from == passport.from && other.name == passport.name);
            of_it.map(|other| other.id.clone()).collect()
        };
        for id in former {
            self.discard_arrival(&id).await?;
        }
        Ok(())
    }

    /// Makes the hidden volume, if nothing here stands in the way.
    pub(super) async fn make_hidden(
        &self,
        passport: Passport,
        group: GroupId,
    ) -> Result<(), RequestError> {
        let _turn = self.turn.take().await;
        self.moving.check_room()?;
        // Else it could be copied, and not be stored who may use it.
        self.settings.state()?;
        self.check_name_for(&passport)?;
        self.check_room_for(&passport)?;
        if self.settings.are_to_be_made() {
            self.make_room_for(&passport.name).await?;
        }
        let spec = VolumeSpec {
            name: hidden_name(&passport.id),
            size_bytes: passport.size_bytes,
            level: Some(passport.level),
            thick: passport.thick,
            block_bytes: passport.block_bytes,
            cache: passport.cache,
            read_ahead_bytes: Some(passport.read_ahead_bytes),
            cached: passport.cached,
        };
        let made = self.array.create_volume_offline(spec).await?;
        let (id, heard) = (passport.id.clone(), Cell::new(Instant::now()));
        let (step, turn) = (Cell::new(Step::Open), Turn::default());
        let came_bytes = Cell::new(0);
        let from_name = self.known_name(passport.from).unwrap_or_default();
        let volume = made.id;
        let incoming =
            Incoming { passport, group, from_name, volume, step, came_bytes, heard, turn };
        let former = self.moving.arriving().all.borrow_mut().insert(id, Rc::new(incoming));
        debug_assert!(former.is_none(), "a second volume of its hidden name is refused");
        // The others hear that it has a part in a move.
        self.serving.tell_settled();
        Ok(())
    }

    /// Refuses a volume that could not have its name here, or its target. The recycle bin counts, and what waits to be
    /// purged as it has moved away.
    fn check_name_for(&self, passport: &Passport) -> Result<(), RequestError> {
        let name = &passport.name;
        let is_good = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        let fits = (1..=NAME_LEN_MAX).contains(&name.len()) && name.chars().all(is_good);
        if !fits || is_hidden_name(name) {
            return Err(ArrayError::BadName(name.clone()).into());
        }
        let is_serial = (1..=SERIAL_LEN_MAX).contains(&passport.serial.len())
            && passport.serial.bytes().all(|byte| byte.is_ascii_graphic());
        let is_prefix = passport.iqn_prefix.starts_with("iqn.")
            && passport.iqn_prefix.chars().all(is_good)
            && passport.iqn_prefix.len() + NAME_LEN_MAX < IQN_LEN_MAX;
        if !is_serial || !is_prefix {
            return Err(bad("what hosts are to know it by does not read"));
        }
        let is_taken = |volume: VolumeInfo| folded(&volume.name) == folded(name);
        if self.array.volumes().into_iter().any(is_taken) {
            let me = self.membership.me().ok();
            let member = me.map_or_else(String::new, |me| self.member_name(me));
            return Err(RequestError::Move(MoveError::NameThere { name: name.clone(), member }));
        }
        let names = self.serving.names();
        let has_serial = |volume: VolumeInfo| names.volume_serial(&volume) == passport.serial;
        if self.array.volumes().into_iter().any(has_serial) {
            return Err(bad("its serial number is that of a volume here"));
        }
        let iqn = format!("{}:{}", passport.iqn_prefix, folded(name));
        if self.serving.sessions().contains_key(&iqn) {
            return Err(RequestError::TargetInUse { name: name.clone(), iqn });
        }
        Ok(())
    }

    fn incoming(&self, id: &MoveId) -> Result<Rc<Incoming>, RequestError> {
        let found = self.moving.arriving().find(id);
        found.ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))
    }

    /// Does what a piece says.
    pub(super) async fn write_piece(&self, id: &MoveId, piece: Piece) -> Result<(), RequestError> {
        let incoming = self.incoming(id)?;
        if !piece.is_sound() {
            return Err(bad("its data have changed on the way"));
        }
        let _turn = incoming.take_turn_at(&[Step::Open]).await?;
        let hidden = hidden_name(id);
        let done = match piece {
            Piece::Data { at, bytes, .. } => {
                self.check_room_on(&incoming, bytes.len())?;
                self.write_data(&hidden, at, &bytes).await
            }
            Piece::Zeroes { at, len_bytes } => self.write_zeroes(&hidden, at, len_bytes).await,
            Piece::Snapshot { name, unix_seconds, size_bytes } => {
                self.take_snapshot(&hidden, &name, (unix_seconds, size_bytes)).await
            }
            Piece::Size { bytes } => self.set_size(&hidden, bytes).await,
            Piece::CaughtUp | Piece::End => Ok(()),
        };
        // Who waits for a slow disk is not idle.
        incoming.heard.set(Instant::now());
        done
    }

    async fn write_data(&self, hidden: &str, at: u64, bytes: &[u8]) -> Result<(), RequestError> {
        if bytes.is_empty() || bytes.len() > PIECE_BYTES_MAX {
            return Err(bad(format!("it has {} bytes of data", bytes.len())));
        }
        let device = self.array.device(hidden)?;
        device.geometry().check(at, bytes.len() as u64).map_err(|error| bad(error.to_string()))?;
        let mut buf = Buf::alloc(bytes.len()).ok_or_else(|| failed(BlockError::NoMemory))?;
        buf.copy_from_slice(bytes);
        device.write(at, buf.freeze(), WriteFlags::default()).await.map_err(failed)
    }

    async fn write_zeroes(&self, hidden: &str, at: u64, len: u64) -> Result<(), RequestError> {
        let device = self.array.device(hidden)?;
        device.geometry().check(at, len).map_err(|error| bad(error.to_string()))?;
        device.unmap(at, len).await.map_err(failed)
    }

    /// Takes a snapshot, unless the same one is there: then it was asked for before.
    async fn take_snapshot(
        &self,
        hidden: &str,
        name: &str,
        (unix_seconds, size_bytes): (u64, u64),
    ) -> Result<(), RequestError> {
        let there = self.array.snapshots(hidden)?.into_iter().find(|taken| taken.name == name);
        if let Some(there) = there {
            let is_same =
                there.size_bytes == size_bytes && there.created_unix_seconds == unix_seconds;
            return match is_same {
                true => Ok(()),
                false => Err(bad(format!("another snapshot '{name}' has come before"))),
            };
        }
        let has_bytes = self.array.volume(hidden)?.size_bytes;
        if has_bytes != size_bytes {
            let what = format!("snapshot '{name}' has {size_bytes} bytes, the copy {has_bytes}");
            return Err(bad(what));
        }
        self.array.snapshot_at(hidden, name, unix_seconds).await?;
        Ok(())
    }

    async fn set_size(&self, hidden: &str, bytes: u64) -> Result<(), RequestError> {
        if self.array.volume(hidden)?.size_bytes != bytes {
            self.array.resize_volume(hidden, bytes).await?;
        }
        Ok(())
    }

    /// Has all that came survive whatever comes, with what hosts rely on beside it. May be asked for again.
    pub(super) async fn prepare_arrival(
        &self,
        id: &MoveId,
        seal: Seal,
    ) -> Result<(), RequestError> {
        // All of it may have changed since it began to come.
        if let Some(incoming) = self.moving.arriving().find(id) {
            self.check_group(&incoming.passport.name, &incoming.group)?;
            self.check_source(&incoming.passport)?;
        }
        self.prepare_now(id, seal).await
    }

    /// The same for who has asked the group.
    pub(super) async fn prepare_now(&self, id: &MoveId, seal: Seal) -> Result<(), RequestError> {
        if self.settings.state()?.arrivals.contains_key(id) {
            return Ok(());
        }
        let incoming = self.incoming(id)?;
        let _turn = incoming.take_turn_at(&[Step::Open, Step::Sealed]).await?;
        self.check_list(&incoming.passport, seal.settings.access.is_some())?;
        let units = self.units_of_seal(&incoming.passport, &seal)?;
        let hidden = hidden_name(id);
        self.array.set_read_ahead(&hidden, seal.read_ahead_bytes).await?;
        self.array.set_volume_cached(&hidden, seal.cached).await?;
        // Whatever hosts may rely on after a write: at the source all of this was acknowledged.
        self.array.device(&hidden)?.flush().await.map_err(failed)?;
        let passport = &incoming.passport;
        let arrival = Arrival {
            id: id.clone(),
            group: incoming.group.clone(),
            volume: incoming.volume,
            name: passport.name.clone(),
            from: passport.from,
            from_name: incoming.from_name.clone(),
            serial: passport.serial.clone(),
            online: seal.online,
        };
        let adopted =
            Adopted { prefix: passport.iqn_prefix.clone(), serial: passport.serial.clone() };
        incoming.step.set(Step::Sealed);
        // What outlives no loss of power is saved nowhere. It is in memory before it is stored that the volume is here:
        // who asks again behind that finds nothing to do.
        let reservations = self.reservations_of_seal(&seal)?;
        self.serving.targets().keep_reservations(&passport.serial, reservations);
        self.settings.arrive(&arrival, &seal.settings, &adopted, &units).await?;
        self.moving.arriving().end(id);
        Ok(())
    }

    /// What is saved of the unit of the volume, as it counts here. That nothing is is stored too: the volume may have
    /// been here before.
    fn units_of_seal(&self, passport: &Passport, seal: &Seal) -> Result<Units, RequestError> {
        if seal.units.iter().any(|unit| unit.record() == UnitRecord::Sanitize) {
            return Err(RequestError::Move(MoveError::Sanitized(passport.name.clone())));
        }
        let saved = match self.reservations_of_seal(seal)? {
            Some(image) => is_persistent(&image)?.then_some(image),
            None => None,
        };
        let key = |record| UnitKey { serial: passport.serial.clone(), record };
        Ok(Units::from([(key(UnitRecord::Reservations), saved), (key(UnitRecord::Sanitize), None)]))
    }

    /// An image of the reservations of the volume, as it counts here.
    fn reservations_of_seal(&self, seal: &Seal) -> Result<Option<Vec<u8>>, RequestError> {
        let mut units = seal.units.iter();
        let Some(unit) = units.find(|unit| unit.record() == UnitRecord::Reservations) else {
            return Ok(None);
        };
        let image = unit.image().ok_or_else(|| bad("what a unit keeps does not read"))?;
        with_port(image, (seal.portal_group, self.serving.port_group())).map(Some)
    }

    /// Throws away what has come, unless it is prepared: what becomes of that, [`adopt`](Self::adopt) decides.
    pub(super) async fn discard_arrival(&self, id: &MoveId) -> Result<(), RequestError> {
        let Some(incoming) = self.moving.arriving().find(id) else { return Ok(()) };
        let _alone = incoming.take_turn().await;
        let _turn = self.turn.take().await;
        if incoming.step.get() == Step::Ended {
            return Ok(());
        }
        // It may be stored that it is prepared, although that failed: the source was never told so, and has not asked
        // the store. Unless it is known that there is no record, nothing of it goes.
        if incoming.step.get() == Step::Sealed {
            self.settings.forget_arrival(id).await?;
        }
        if self.settings.state()?.arrivals.contains_key(id) {
            return Ok(());
        }
        self.delete_hidden(&hidden_name(id)).await?;
        self.serving.targets().keep_reservations(&incoming.passport.serial, None);
        self.moving.arriving().end(id);
        Ok(())
    }

    /// Throws away what nothing was heard of for long: its source has ended, and knows nothing of it any more. So goes
    /// what could not be deleted before.
    pub(in super::super) async fn discard_idle_arrivals(&self) {
        self.discard_idle_for(IDLE).await;
        self.discard_cut_off().await;
    }

    pub(super) async fn discard_idle_for(&self, time: Duration) {
        for id in self.moving.arriving().idle_for(time) {
            tracing::info!("nothing is heard of the move {id} any more: what has come is deleted");
            if let Err(error) = self.discard_arrival(&id).await {
                tracing::warn!("what has come by the move {id} is kept for now: {error}");
            }
        }
    }
}

/// An image of reservations that names the portal group by which hosts have the volume here.
fn with_port(image: Vec<u8>, (from, to): (u16, u16)) -> Result<Vec<u8>, RequestError> {
    if from == to || mutants::is(Mutant::KeepOldPort) {
        return Ok(image);
    }
    target::with_port(&image, from, to).map_err(|error| bad(error.to_string()))
}

/// Whether an image is to be saved.
fn is_persistent(image: &[u8]) -> Result<bool, RequestError> {
    target::is_persistent(image).map_err(|error| bad(error.to_string()))
}

fn bad(what: impl Into<String>) -> RequestError {
    RequestError::Move(MoveError::BadPiece(what.into()))
}

fn failed(error: BlockError) -> RequestError {
    ArrayError::Io(error).into()
}

#[cfg(test)]
mod tests;
