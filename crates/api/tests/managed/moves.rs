//! The moves of members of which only this is real: who is asked for what, and what passes between them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use api::server::Done;
use array::Level;
use array::api::Cache;
use group::handover::SourceSays;
use group::membership::{GroupId, MoveId};
use group::ownership::MemberId;
use group::settings::{Arrival, Departure, Stage, VolumeSettings};
use member::{
    Answer, ArrivalStep, GroupError, Leaving, MoveError, MoveRequest, PIECE_BYTES_MAX, Passport,
    Piece, RequestError, Seal, Transit, TransitState, Unlisted,
};

/// Whose the volumes are that have moved, and by which move: what the store of the group has.
pub(crate) type Claims = Arc<Mutex<BTreeMap<String, (MemberId, MoveId)>>>;

/// What a member has of moves.
#[derive(Default)]
pub(crate) struct Moves(Mutex<State>);

#[derive(Default)]
struct State {
    me: Option<MemberId>,
    members: Vec<(&'static str, MemberId)>,
    claims: Claims,
    /// The words of what it was asked.
    asked: Vec<&'static str>,
    /// What it does not do, and how often.
    fails: BTreeMap<&'static str, usize>,
    /// What it does not answer, and who waits for that.
    hangs: Vec<&'static str>,
    waiting: Vec<Done>,
    /// What it says of this is that only an operator decides it.
    undecided: Option<&'static str>,
    /// It has more and more to send.
    is_endless: bool,
    /// The group does not give its volumes away.
    is_kept: bool,
    /// Its array has lost what it had, and what comes to it.
    has_lost: bool,
    /// What leaves, and how many pieces of it were given.
    leaving: BTreeMap<MoveId, (Leaving, usize)>,
    given_up: Vec<MoveId>,
    departures: Vec<Departure>,
    coming: BTreeMap<MoveId, Passport>,
    /// What came, of all moves.
    pieces: Vec<Piece>,
    seals: Vec<Seal>,
    arrivals: Vec<Arrival>,
    /// What it says of how they stand, and what it was told about them.
    transits: Vec<Transit>,
    settled: Vec<(MoveId, bool)>,
}

/// By which hosts know the volumes.
pub(crate) const SERIAL: &str = "DRYSTONE-0123_4567.89~";

/// All that is sent of a volume, with when hosts lose it and when it is all there.
pub(crate) fn script() -> Vec<Piece> {
    vec![
        Piece::data(0, vec![1; PIECE_BYTES_MAX]),
        Piece::Snapshot { name: "monday".to_owned(), unix_seconds: 7, size_bytes: 8 << 20 },
        Piece::Size { bytes: 16 << 20 },
        Piece::data(8 << 20, b"\n{}\n".repeat(1024)),
        Piece::CaughtUp,
        Piece::Zeroes { at: 4096, len_bytes: 4096 },
        Piece::data(4 << 20, vec![3; 4096]),
        Piece::End,
    ]
}

/// What hosts rely on.
pub(crate) fn seal() -> Seal {
    Seal {
        settings: VolumeSettings::default(),
        units: Vec::new(),
        portal_group: 7,
        online: true,
        read_ahead_bytes: 4096,
        cached: true,
    }
}

const fn word(request: &MoveRequest) -> &'static str {
    match request {
        MoveRequest::Begin { .. } => "begin",
        MoveRequest::Next { .. } => "next",
        MoveRequest::Freeze { .. } => "freeze",
        MoveRequest::Seal { .. } => "seal",
        MoveRequest::Commit { .. } => "commit",
        MoveRequest::GiveUp { .. } => "give-up",
        MoveRequest::Says { .. } => "says",
        MoveRequest::Departures => "departures",
        MoveRequest::Gone { .. } => "gone",
        MoveRequest::Arrive { .. } => "arrive",
        MoveRequest::Write { .. } => "write",
        MoveRequest::Prepare { .. } => "prepare",
        MoveRequest::Adopt { .. } => "adopt",
        MoveRequest::Discard { .. } => "discard",
        MoveRequest::Arrivals => "arrivals",
        MoveRequest::Transits => "transits",
        MoveRequest::Settle { .. } => "settle",
    }
}

impl Moves {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test has failed")
    }

    /// It is this member of these.
    pub(crate) fn join(&self, me: MemberId, members: &[(&'static str, MemberId)], claims: &Claims) {
        let mut state = self.state();
        (state.me, state.members, state.claims) = (Some(me), members.to_vec(), claims.clone());
    }

    /// It does not do this, so often.
    pub(crate) fn fails(&self, word: &'static str, times: usize) {
        self.state().fails.insert(word, times);
    }

    /// It does not answer these, until it is told others; who has waited for one until then hears that it has ended.
    pub(crate) fn hangs(&self, words: &[&'static str]) {
        let mut state = self.state();
        state.hangs = words.to_vec();
        state.waiting.clear();
    }

    /// Whether somebody waits for what it does not answer.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.state().waiting.is_empty()
    }

    /// The group does not decide what this asks for.
    pub(crate) fn undecided(&self, word: &'static str) {
        self.state().undecided = Some(word);
    }

    /// Who is to be answered, unless that never is.
    pub(crate) fn unless_it_hangs(&self, request: &MoveRequest, done: Done) -> Option<Done> {
        let word = word(request);
        let mut state = self.state();
        if !state.hangs.contains(&word) {
            return Some(done);
        }
        state.asked.push(word);
        state.waiting.push(done);
        None
    }

    pub(crate) fn is_endless(&self, is_endless: bool) {
        self.state().is_endless = is_endless;
    }

    pub(crate) fn is_kept(&self) {
        self.state().is_kept = true;
    }

    pub(crate) fn has_lost(&self) {
        self.state().has_lost = true;
    }

    /// What it was asked, but for how moves stand.
    pub(crate) fn asked(&self) -> Vec<&'static str> {
        let looks = ["departures", "arrivals", "transits"];
        self.state().asked.iter().copied().filter(|word| !looks.contains(word)).collect()
    }

    pub(crate) fn was_asked(&self, word: &'static str) -> bool {
        self.state().asked.contains(&word)
    }

    pub(crate) fn pieces(&self) -> Vec<Piece> {
        self.state().pieces.clone()
    }

    /// How many of them.
    pub(crate) fn came(&self) -> usize {
        self.state().pieces.len()
    }

    pub(crate) fn seals(&self) -> Vec<Seal> {
        self.state().seals.clone()
    }

    /// What it knows of volumes that leave or come.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        let is_here = state.leaving.is_empty() && state.departures.is_empty();
        is_here && state.coming.is_empty() && state.arrivals.is_empty()
    }

    /// A volume has left in a life before, or was about to.
    pub(crate) fn leave(&self, departure: Departure) {
        self.state().departures.push(departure);
    }

    /// A volume has come in a life before.
    pub(crate) fn come(&self, arrival: Arrival) {
        self.state().arrivals.push(arrival);
    }

    /// It says this of a move.
    pub(crate) fn stands(&self, transit: Transit) {
        self.state().transits.push(transit);
    }

    /// What was settled here, and whether the volume was kept.
    pub(crate) fn settled(&self) -> Vec<(MoveId, bool)> {
        self.state().settled.clone()
    }

    pub(crate) fn answer(
        &self,
        request: MoveRequest,
        volumes: &mut Vec<String>,
    ) -> Result<Answer, RequestError> {
        let mut state = self.state();
        let word = word(&request);
        state.asked.push(word);
        if let Some(left) = state.fails.get_mut(word).filter(|left| **left > 0) {
            *left -= 1;
            return Err(RequestError::NoResult);
        }
        if state.undecided == Some(word) {
            let (name, why) = ("vm".to_owned(), "its name is another volume's".to_owned());
            return Err(RequestError::Move(MoveError::NotDecided { name, why }));
        }
        state.answer(request, volumes)
    }
}

impl State {
    fn answer(
        &mut self,
        request: MoveRequest,
        volumes: &mut Vec<String>,
    ) -> Result<Answer, RequestError> {
        match request {
            MoveRequest::Begin { name, to, pool } => {
                self.begin(&name, to.or(pool).as_deref(), volumes)
            }
            MoveRequest::Next { id } => self.next(&id).map(Answer::Piece),
            MoveRequest::Freeze { id } => self.leaving(&id).map(|_| Answer::Done),
            MoveRequest::Seal { id } => self.leaving(&id).map(|_| Answer::Seal(Box::new(seal()))),
            MoveRequest::Commit { id } => self.commit(&id, volumes).map(Answer::Committed),
            MoveRequest::GiveUp { id } => {
                self.leaving.remove(&id);
                self.departures.retain(|it| it.id != id || it.stage == Stage::Gone);
                self.given_up.push(id);
                Ok(Answer::Done)
            }
            MoveRequest::Says { id, serial } => {
                Ok(Answer::SourceSays(self.says(&id, serial.as_deref())))
            }
            MoveRequest::Departures => Ok(Answer::Departures(self.departures.clone())),
            MoveRequest::Gone { id, found } => {
                // What its destination has not is all that there is.
                let has_it = found == ArrivalStep::Adopted;
                self.departures.retain(|departure| departure.id != id || !has_it);
                Ok(Answer::Done)
            }
            MoveRequest::Arrive { passport } => {
                self.coming.insert(passport.id.clone(), passport);
                Ok(Answer::Done)
            }
            MoveRequest::Write { id, piece } => {
                self.coming(&id)?;
                self.pieces.push(piece);
                Ok(Answer::Done)
            }
            MoveRequest::Prepare { id, seal } => self.prepare(id, seal),
            MoveRequest::Adopt { id, says, serial } => {
                Ok(Answer::Arrived(self.adopt(&id, (says, serial.as_deref()), volumes)))
            }
            MoveRequest::Discard { id } => {
                self.coming.remove(&id);
                Ok(Answer::Done)
            }
            MoveRequest::Arrivals => Ok(Answer::Arrivals(self.arrivals.clone())),
            MoveRequest::Transits => Ok(Answer::Transits(self.transits.clone())),
            MoveRequest::Settle { id, keep } => self.settle(id, keep),
        }
    }

    fn begin(
        &mut self,
        name: &str,
        to: Option<&str>,
        volumes: &[String],
    ) -> Result<Answer, RequestError> {
        if !volumes.iter().any(|its| its == name) {
            return Err(RequestError::NoSuchVolume(name.to_owned()));
        }
        let me = self.me.expect("it is a member");
        let is_it = |(its, number): &&(&'static str, MemberId)| {
            *number != me && to.is_none_or(|to| to == *its)
        };
        let found = self.members.iter().find(is_it);
        let (to_name, to) =
            found.ok_or_else(|| RequestError::Move(MoveError::Here(name.to_owned())))?;
        let id = MoveId::draw().map_err(GroupError::from)?;
        let passport = Passport {
            id: id.clone(),
            from: me,
            name: name.to_owned(),
            size_bytes: 8 << 20,
            level: Level::Raid1,
            thick: false,
            block_bytes: 512,
            cache: Cache::Durable,
            read_ahead_bytes: 0,
            cached: true,
            online: true,
            created_unix_seconds: 7,
            iqn_prefix: "iqn.2026-11.dev.drystone".to_owned(),
            serial: SERIAL.to_owned(),
            needs_bytes: 16 << 20,
            unlisted: Unlisted::Nobody,
            has_list: true,
        };
        let (to, to_name) = (*to, (*to_name).to_owned());
        let total_bytes = 1 << 20;
        let leaving = Leaving { id: id.clone(), to, to_name, passport, total_bytes };
        self.leaving.insert(id, (leaving.clone(), 0));
        Ok(Answer::Leaving(Box::new(leaving)))
    }

    fn settle(&mut self, id: MoveId, keep: bool) -> Result<Answer, RequestError> {
        let found = self.transits.iter().position(|transit| transit.id == id);
        let at = found.ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))?;
        if self.transits[at].state != TransitState::Undecided {
            return Err(RequestError::Move(MoveError::GroupDecides(
                self.transits[at].name.clone(),
            )));
        }
        self.transits.remove(at);
        self.settled.push((id, keep));
        Ok(Answer::Done)
    }

    fn leaving(&mut self, id: &MoveId) -> Result<&mut (Leaving, usize), RequestError> {
        self.leaving
            .get_mut(id)
            .ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))
    }

    fn next(&mut self, id: &MoveId) -> Result<Piece, RequestError> {
        let is_endless = self.is_endless;
        let (_, given) = self.leaving(id)?;
        if is_endless {
            return Ok(Piece::data(0, vec![1; 4096]));
        }
        let piece = script().into_iter().nth(*given).expect("there was an end");
        *given += 1;
        Ok(piece)
    }

    fn commit(&mut self, id: &MoveId, volumes: &mut Vec<String>) -> Result<bool, RequestError> {
        let me = self.me.expect("it is a member");
        let (Leaving { to, passport, .. }, _) = self.leaving(id)?.clone();
        self.leaving.remove(id);
        if self.is_kept {
            self.given_up.push(id.clone());
            return Ok(false);
        }
        let name = passport.name;
        volumes.retain(|volume| *volume != name);
        let mut claims = self.claims.lock().expect("no test has failed");
        claims.insert(name.clone(), (to, id.clone()));
        let (iqns, stage) = (Vec::new(), Stage::Gone);
        let (id, from) = (id.clone(), me);
        let group = group_of_tests();
        let (volume, to_name) = (1, String::new());
        let serial = passport.serial;
        let departure =
            Departure { id, group, volume, name, from, to, to_name, serial, iqns, stage };
        self.departures.push(departure);
        Ok(true)
    }

    /// As members do, it says of nothing that it has lost that it stays, also where it remembers that it was given up.
    fn says(&self, id: &MoveId, serial: Option<&str>) -> SourceSays {
        let is_kept = self.given_up.contains(id) || serial == Some(SERIAL);
        let departure = self.departures.iter().find(|departure| departure.id == *id);
        match departure.map(|departure| departure.stage) {
            _ if self.leaving.contains_key(id) => SourceSays::UnderWay,
            Some(Stage::Leaving) => SourceSays::UnderWay,
            Some(Stage::Gone) => SourceSays::HandedOver,
            None if is_kept && !self.has_lost => SourceSays::GivenUp,
            None => SourceSays::Unknown,
        }
    }

    fn coming(&self, id: &MoveId) -> Result<&Passport, RequestError> {
        self.coming.get(id).ok_or_else(|| RequestError::Move(MoveError::NoSuch(id.to_string())))
    }

    fn prepare(&mut self, id: MoveId, seal: Seal) -> Result<Answer, RequestError> {
        let Passport { name, from, serial, .. } = self.coming(&id)?.clone();
        self.coming.remove(&id);
        let (group, online) = (group_of_tests(), seal.online);
        let from_name = String::new();
        let volume = 2;
        self.arrivals.push(Arrival { id, group, volume, name, from, from_name, serial, online });
        self.seals.push(seal);
        Ok(Answer::Done)
    }

    fn adopt(
        &mut self,
        id: &MoveId,
        (says, serial): (Option<SourceSays>, Option<&str>),
        volumes: &mut Vec<String>,
    ) -> ArrivalStep {
        let Some(at) = self.arrivals.iter().position(|arrival| arrival.id == *id) else {
            let has_it = serial == Some(SERIAL) && !volumes.is_empty() && !self.has_lost;
            return if has_it { ArrivalStep::Adopted } else { ArrivalStep::Unknown };
        };
        let name = self.arrivals[at].name.clone();
        let claim = self.claims.lock().expect("no test has failed").get(&name).cloned();
        match (claim, says) {
            (Some((member, by)), _) if Some(member) == self.me && by == *id => {
                self.arrivals.remove(at);
                if self.has_lost {
                    return ArrivalStep::Unknown;
                }
                volumes.push(name);
                ArrivalStep::Adopted
            }
            (_, None) => ArrivalStep::AskSource,
            (_, Some(SourceSays::GivenUp)) => {
                self.arrivals.remove(at);
                ArrivalStep::Discarded
            }
            _ => ArrivalStep::Waiting,
        }
    }
}

/// The group that all of it is of.
pub(crate) fn group_of_tests() -> GroupId {
    "0".repeat(32).parse().expect("it is one")
}
