//! The driver of a move, at its source: it asks the member for what is to be sent, sends it, and has it handed over.
//!
//! ```text
//!  Begin ─▶ arrive ─▶ Next, write … Freeze … Next, write ─▶ Seal ─▶ prepare ─▶ Commit ─▶ adopt ─▶ Gone
//!   │         │                       │                       │        │          │ until it is known
//!   ╰ refused ┴──────────── cancelled, or something fails ────┴────────╯          ╰─▶ it stays
//!                                     │
//!                                     ▼
//!                     GiveUp, until it is answered; discard
//! ```
//!
//! Up to where it cannot be cancelled any more, all is left at once when somebody cancels the move or the member stops,
//! whatever is waited for. What was asked for goes on where that is done: the member gives up a move behind what it is
//! at for it, and the destination throws away what has come behind the piece that it writes.

use std::sync::Arc;
use std::time::Duration;

use group::handover::SourceSays;
use group::membership::MoveId;
use member::events::Severity;
use member::{
    Answer, ArrivalStep, Leaving, MoveError, MoveRequest, Piece, Request, RequestError, Seal,
};
use tokio::time::{Instant, sleep, timeout};

use super::progress::{Meter, Progress};
use super::remote::{Destination, not_taken};
use super::{here, tell_given_up, tell_moved};
use crate::problem::{Code, Problem};
use crate::server::admit::Caller;
use crate::server::app::{App, stopping};
use crate::server::carry::OwnError;
use crate::server::runs::{self, Ended, Going};
use crate::types::{Nothing, Run, RunKind, VolumeMove};

/// How often it is told how far a move has come.
const PULSE: Duration = Duration::from_secs(1);

/// After how long it is asked again what has to be answered.
const PAUSE: Duration = Duration::from_secs(2);

/// How long who asks for a move waits until a move that is refused is given up.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// How long hosts wait for the last of a volume, at most: their own limits are 60 s and more.
const FROZEN_TIME: Duration = Duration::from_secs(45);

/// How long the destination has to say that it serves the volume. What takes longer goes on without the run.
const ADOPTION_TIME: Duration = Duration::from_secs(120);

/// How long the run of a volume that stays waits until the destination has thrown away what has come. If that is silent
/// it asks the source later, by itself.
const FAREWELL_TIME: Duration = Duration::from_secs(5);

/// Begins to move a volume of this member for somebody. What keeps it from moving is said at once, by either side.
pub(in crate::server) async fn begin(
    app: &Arc<App>,
    caller: &Caller,
    name: String,
    asked: VolumeMove,
) -> Result<Run, Problem> {
    let VolumeMove { to, pool } = asked;
    if to.is_some() && pool.is_some() {
        let sentence = "a volume moves to a member, or to the one with most room of a pool: send to or pool, not both";
        return Err(Problem::new(Code::Invalid, sentence));
    }
    if app.roll.now().is_none() {
        let sentence = "a volume moves from member to member of a group, and this member is in none, or has heard \
                        nothing of it since it was started";
        return Err(Problem::new(Code::NoGroup, sentence));
    }
    let run = runs::enter(app, RunKind::Move, caller)?;
    match ready(app, MoveRequest::Begin { name, to, pool }).await {
        Ok(drive) => {
            run.moves(&drive.leaving.passport.name, &drive.leaving.to_name);
            let begun = run.shown();
            tokio::spawn(go_on(drive, run));
            Ok(begun)
        }
        Err(problem) => {
            run.forget(app);
            Err(problem)
        }
    }
}

/// Both sides are ready for it.
async fn ready(app: &Arc<App>, request: MoveRequest) -> Result<Drive, Problem> {
    let leaving: Leaving = here(app, request).await?;
    let mut there = Destination::of(app, &leaving);
    let Err(error) = there.arrive(&leaving.passport).await else {
        let progress = Arc::new(Progress::of(&leaving));
        return Ok(Drive { app: app.clone(), leaving, there, progress });
    };
    let (app, id) = (app.clone(), leaving.id.clone());
    // The volume may have begun to come, unless that was refused.
    let is_refused = matches!(error, OwnError::Refused(_));
    let given_up = tokio::spawn(async move {
        if give_up(&app, &id).await.is_ok() && !is_refused {
            drop(there.discard().await);
        }
    });
    // Whoever asks again at once is not to hear that it moves already.
    drop(timeout(REFUSAL_TIME, given_up).await);
    Err(not_taken(&leaving, error))
}

/// Moves a volume until its run ends, and tells how it does meanwhile, also where nothing goes on: who follows it takes
/// silence for the end of the member.
async fn go_on(mut drive: Drive, run: Going) {
    let mut meter = Meter::new(drive.progress.clone());
    let ended = {
        let work = drive.finish(&run);
        tokio::pin!(work);
        loop {
            match timeout(PULSE, &mut work).await {
                Ok(ended) => break ended,
                Err(_) => run.tell(vec![meter.job()]),
            }
        }
    };
    run.tell(vec![meter.job()]);
    run.end(ended);
}

/// Why a volume stays.
#[derive(Debug)]
enum Stop {
    /// Somebody wants it to.
    Cancelled,
    /// It cannot go on.
    Failed(Problem),
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

/// A move that goes on.
struct Drive {
    app: Arc<App>,
    leaving: Leaving,
    there: Destination,
    progress: Arc<Progress>,
}

impl Drive {
    fn id(&self) -> MoveId {
        self.leaving.id.clone()
    }

    async fn finish(&mut self, run: &Going) -> Ended {
        if let Err(stop) = self.send_all(run).await {
            return self.stay(stop).await;
        }
        match self.commit().await {
            Ok(true) => self.arrived().await,
            Ok(false) => self.not_given().await,
            Err(problem) => Ended::Failed(problem),
        }
    }

    /// Has all of the volume there, unless somebody wants it to stay, or the member stops.
    async fn send_all(&mut self, run: &Going) -> Result<(), Stop> {
        let app = self.app.clone();
        tokio::select! {
            // These first: a move whose next step is always ready is left, too.
            biased;
            () = run.cancelled() => Err(Stop::Cancelled),
            () = app.ended() => Err(stopping().into()),
            sent = self.send_to_the_end(run) => sent,
        }
    }

    /// Has all of the volume there, whatever ends meanwhile. From then on it cannot be cancelled.
    async fn send_to_the_end(&mut self, run: &Going) -> Result<(), Stop> {
        let mut next = next_piece(&self.app, &self.leaving.id).await?;
        while next != Piece::CaughtUp {
            next = self.write_and_read(&next).await?;
        }
        match timeout(FROZEN_TIME, self.send_the_rest()).await {
            Ok(sent) => sent?,
            Err(_) => return Err(self.too_slow().into()),
        }
        // The last that is done here: whoever cancels it behind this is refused, and it goes on.
        if run.is_past_return(&self.app) { Ok(()) } else { Err(Stop::Cancelled) }
    }

    /// Takes the volume from its hosts, and has the rest of it there.
    async fn send_the_rest(&mut self) -> Result<(), Problem> {
        here::<Nothing>(&self.app, MoveRequest::Freeze { id: self.id() }).await?;
        let mut next = next_piece(&self.app, &self.leaving.id).await?;
        while next != Piece::End {
            next = self.write_and_read(&next).await?;
        }
        let seal: Seal = here(&self.app, MoveRequest::Seal { id: self.id() }).await?;
        self.there.prepare(&seal).await.map_err(|error| not_taken(&self.leaving, error))
    }

    /// Its hosts had to wait for longer than that.
    fn too_slow(&self) -> Problem {
        let Leaving { passport, to_name, .. } = &self.leaving;
        let sentence = format!(
            "the last of volume '{}' was not on member '{to_name}' within {} s, for which its hosts had to wait: move it when \
             they write less, or when the disks of both members are faster",
            passport.name,
            FROZEN_TIME.as_secs()
        );
        Problem::new(Code::Unavailable, sentence)
    }

    /// One piece is written while the next one is read. Neither waits for the other where one of them fails.
    async fn write_and_read(&mut self, piece: &Piece) -> Result<Piece, Problem> {
        let (leaving, there, progress) = (&self.leaving, &mut self.there, &self.progress);
        let writing = async {
            there.write(piece).await.map_err(|error| not_taken(leaving, error))?;
            progress.sent(piece);
            Ok::<_, Problem>(())
        };
        let ((), read) = tokio::try_join!(writing, next_piece(&self.app, &leaving.id))?;
        Ok(read)
    }

    /// Has the group asked to give the volume away until it is known whether it has.
    async fn commit(&mut self) -> Result<bool, Problem> {
        loop {
            let request = MoveRequest::Commit { id: self.id() };
            let (_, coming) = self.app.begin(Request::Move(request));
            match coming.await {
                Ok(Ok(Answer::Committed(is_given))) => return Ok(is_given),
                // An operator decides, and nobody else: the group says nothing of it any more.
                Ok(Err(error @ RequestError::Move(MoveError::NotDecided { .. }))) => {
                    return Err(self.app.problem(&error));
                }
                // It was decided by somebody else.
                Ok(Err(
                    RequestError::Move(MoveError::NoSuch(_))
                    | RequestError::Move(MoveError::OutOfStep { .. }),
                )) => {
                    give_up(&self.app, &self.leaving.id).await?;
                    return self.was_handed_over().await;
                }
                Ok(Err(error)) => {
                    let (name, why) = (&self.leaving.passport.name, self.app.problem(&error));
                    tracing::warn!("it is not known yet whether '{name}' has moved: {why}");
                }
                Ok(Ok(other)) => tracing::warn!("no answer to a hand-over: {other:?}"),
                Err(_) => return Err(stopping()),
            }
            self.app.check_not_ending()?;
            sleep(PAUSE).await;
        }
    }

    /// The group has given the volume away: waits until it is served there, and lets go of what is left of it here.
    async fn arrived(&mut self) -> Ended {
        let (name, to) = (&self.leaving.passport.name, &self.leaving.to_name);
        let text = format!("volume '{name}' has moved to member '{to}'");
        tell_moved(&self.app, &self.leaving.id, name, &text);
        self.app.whereabouts.moved(name, self.leaving.to);
        let end = Instant::now() + ADOPTION_TIME;
        let found = loop {
            let why = match self.there.look(Some(SourceSays::HandedOver)).await {
                Ok(found @ (ArrivalStep::Adopted | ArrivalStep::Unknown)) => break found,
                Ok(_) => "it has not heard yet that the group has given it the volume".to_owned(),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= end || self.app.check_not_ending().is_err() {
                return self.not_served(&format!("{why}; this goes on by itself"));
            }
            sleep(PAUSE).await;
        };
        // The janitor asks for it again if it is too early.
        drop(here::<Nothing>(&self.app, MoveRequest::Gone { id: self.id(), found }).await);
        if found == ArrivalStep::Unknown && self.is_left().await {
            return self.not_served(
                "it says that it has no such volume, so that what is here is kept: settle the move where it is undecided",
            );
        }
        Ended::Done(None)
    }

    /// Whether something is left here of a volume that was handed over: nobody has proved that it is there.
    async fn is_left(&self) -> bool {
        // While it is not known nobody is told that it is done.
        self.says().await.map_or(true, |says| says == SourceSays::HandedOver)
    }

    /// The group has given the volume to the destination, and that is not known to serve it.
    fn not_served(&self, why: &str) -> Ended {
        let (name, to) = (&self.leaving.passport.name, &self.leaving.to_name);
        let sentence = format!(
            "volume '{name}' is member '{to}''s now, which has not said yet that it serves it: {why}"
        );
        Ended::Failed(Problem::new(Code::Unavailable, sentence))
    }

    /// The group has not given the volume away, and will not.
    async fn not_given(&mut self) -> Ended {
        let (name, to) = (&self.leaving.passport.name, &self.leaving.to_name);
        let sentence = format!(
            "volume '{name}' stays here: the group did not give it to member '{to}', as one of both is no member any \
             more, or the name was given to another volume"
        );
        self.clean_up((&sentence, Severity::Warning)).await;
        Ended::Failed(Problem::new(Code::WrongState, sentence))
    }

    /// Has the volume stay, unless the group was asked for it already and has given it away.
    async fn stay(&mut self, stop: Stop) -> Ended {
        if let Err(problem) = give_up(&self.app, &self.leaving.id).await {
            // The next start gives it up, or an operator decides.
            return Ended::Failed(problem);
        }
        match self.was_handed_over().await {
            Ok(true) => return self.arrived().await,
            Ok(false) => {}
            // Nobody is told what is not known.
            Err(problem) => return self.unknown(&problem),
        }
        let (name, to) = (&self.leaving.passport.name, &self.leaving.to_name);
        let (why, severity) = match &stop {
            Stop::Cancelled => ("it was cancelled".to_owned(), Severity::Info),
            Stop::Failed(problem) => (problem.detail.clone(), Severity::Warning),
        };
        let text =
            format!("volume '{name}' stays here, its move to member '{to}' was given up: {why}");
        self.clean_up((&text, severity)).await;
        match stop {
            Stop::Cancelled => Ended::Cancelled,
            Stop::Failed(problem) => Ended::Failed(problem),
        }
    }

    /// How the move stands, as this member says it to the destination.
    async fn says(&self) -> Result<SourceSays, Problem> {
        let serial = Some(self.leaving.passport.serial.clone());
        here(&self.app, MoveRequest::Says { id: self.id(), serial }).await
    }

    /// Whether the volume was handed over, of a move that nobody drives any more.
    async fn was_handed_over(&self) -> Result<bool, Problem> {
        match self.says().await? {
            SourceSays::HandedOver => Ok(true),
            SourceSays::GivenUp | SourceSays::Unknown => Ok(false),
            SourceSays::UnderWay => Err(not_decided()),
        }
    }

    /// It is not known whether the volume stays.
    fn unknown(&self, why: &Problem) -> Ended {
        let name = &self.leaving.passport.name;
        let detail = format!(
            "the move of volume '{name}' is not driven any more, and it is not known yet whether it stays here: {}",
            why.detail
        );
        Ended::Failed(Problem { detail, ..why.clone() })
    }

    /// Tells that the volume stays, the destination too. One that does not hear of it asks by itself. That it was given up
    /// is said to it by the member alone: where the array has lost the volume meanwhile, what has come is all that there
    /// is, and is not to go.
    async fn clean_up(&mut self, told: (&str, Severity)) {
        tell_given_up(&self.app, &self.leaving.id, &self.leaving.passport.name, told);
        let says = self.says().await.ok();
        let there = &mut self.there;
        let telling = async {
            // What is not prepared first, then what is.
            if there.discard().await.is_ok() {
                drop(there.look(says).await);
            }
        };
        drop(timeout(FAREWELL_TIME, telling).await);
    }
}

fn not_decided() -> Problem {
    Problem::new(Code::Unavailable, "the group has not decided it; this goes on by itself")
}

/// What is to be sent next.
async fn next_piece(app: &App, id: &MoveId) -> Result<Piece, Problem> {
    here(app, MoveRequest::Next { id: id.clone() }).await
}

/// Has a volume stay: asks until that is done, unless the member stops, or an operator has to decide it.
async fn give_up(app: &App, id: &MoveId) -> Result<(), Problem> {
    loop {
        let (_, coming) = app.begin(Request::Move(MoveRequest::GiveUp { id: id.clone() }));
        match coming.await {
            Ok(Ok(Answer::Done)) => return Ok(()),
            Ok(Err(error @ RequestError::Move(MoveError::NotDecided { .. }))) => {
                return Err(app.problem(&error));
            }
            Ok(Err(error)) => {
                tracing::warn!("a move cannot be given up yet: {}", app.problem(&error));
            }
            Ok(Ok(other)) => tracing::warn!("no answer to a move that is given up: {other:?}"),
            Err(_) => return Err(stopping()),
        }
        app.check_not_ending()?;
        sleep(PAUSE).await;
    }
}
