//! A unit that has a target of its own for each opening, as with a server that lends it to one user at a time.
//!
//! ```text
//!  works ── its session is lost ──▶ waits for it ── it comes back by itself ──▶ works
//!                                       │ its login fails, or takes long
//!                                       ▼
//!                                 asks for an opening ── answered: all before it is over ──▶ logs in ──▶ works
//! ```
//!
//! Whoever answers an opening has ended the one before it: its sessions are gone, and what they had sent is over. So an
//! answer fences, as a login of the same nexus does (decision 0013): what was in doubt is sent again on the new target, and
//! not before that.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use iscsi::chap::InitiatorChap;
use ring::wait::{Either, first};

use super::Disk;
use super::core::{Core, PathSlot};
use crate::address::TargetAddress;
use crate::login::LoginError;
use crate::mutants::{self, Mutant};
use crate::options::{SessionOptions, share_of};
use crate::session::Session;

/// How long a lost session has to come back by itself, unless it is refused before: mostly only the connection broke.
const HEAD_START: Duration = Duration::from_secs(2);

/// The pauses between attempts to open the unit anew; each is twice as long as the one before, up to the longest, and half of
/// each is random: those who have lost the same server do not come together.
pub const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(100);
/// See [`REOPEN_PAUSE_MIN`].
pub const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(2);

/// An opening that was lost sooner counts as an attempt that has failed: where two have one unit, each ends what the other one
/// has opened.
const LASTING: Duration = Duration::from_secs(10);

/// How often a login is tried again whose connection the target has closed, as where too many come at once: another opening
/// would not be let in sooner, and costs the server the end of this one.
const LOGINS_AGAIN: u32 = 3;

/// Said where an opening was lost that soon.
const SHORT_LIVED: &str = "what was opened has ended soon after: its server has restarted, or somebody else opens it, too";

/// Where a unit is after an opening.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its target, for this opening only, and its number there, which is always the same.
    pub address: TargetAddress,
    /// What both sides prove.
    pub chap: InitiatorChap,
}

/// Opens a unit anew, and hears how it is.
pub trait Opener: fmt::Debug {
    /// Asks for an opening. When it is answered, nothing can come any more of what was sent to any opening before it. It
    /// is to fail after a time of its own; then it is called again.
    fn open(&self) -> LocalBoxFuture<'_, Result<Opened, Box<dyn Error + Send + Sync>>>;

    /// The unit does not work since now, or does again.
    fn heard(&self, works: bool);

    /// Why it does not.
    fn failed(&self, why: &dyn fmt::Display);
}

/// When the next attempt to open a unit is due.
#[derive(Debug)]
pub struct Pace {
    pause: Cell<Duration>,
    /// When the last attempt was over, however it ended.
    over_at: Cell<Option<Instant>>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { pause: Cell::new(REOPEN_PAUSE_MIN), over_at: Cell::default() }
    }
}

impl Pace {
    /// How long the last attempt is over, if that is not long.
    fn since(&self) -> Option<Duration> {
        let since = ring::now().saturating_duration_since(self.over_at.get()?);
        (since < LASTING).then_some(since)
    }

    /// An attempt is over.
    pub fn over(&self) {
        self.over_at.set(Some(ring::now()));
    }

    /// How long to wait before one more. Asked once for each.
    pub fn due_in(&self) -> Duration {
        let Some(since) = self.since() else {
            self.pause.set(REOPEN_PAUSE_MIN);
            return Duration::ZERO;
        };
        let pause = self.pause.get();
        self.pause.set((pause * 2).min(REOPEN_PAUSE_MAX));
        (pause / 2 + share_of(pause / 2)).saturating_sub(since)
    }
}

impl Disk {
    /// Keeps a disk that was attached with one opening of its unit: another one is asked for when that is gone. `session` is
    /// how sessions are made, but for what they prove.
    ///
    /// # Panics
    /// Elsewhere than on the core that attached the disk.
    pub fn keep_open(&self, session: SessionOptions, opener: Rc<dyn Opener>) {
        let core = self.home.here().expect("a disk is kept open where it lives");
        let keeper = Keeper { core, session, opener, pace: Pace::default() };
        // It was opened just now.
        keeper.pace.over();
        ring::spawn(async move { keeper.keep().await });
    }
}

/// Looks after one disk.
#[derive(Debug)]
struct Keeper {
    core: Rc<Core>,
    session: SessionOptions,
    opener: Rc<dyn Opener>,
    pace: Pace,
}

impl Keeper {
    /// Runs until the disk is closed.
    async fn keep(&self) {
        let core = &self.core;
        loop {
            core.reach_bell.until(|| core.is_closed() || !works(core)).await;
            if core.is_closed() {
                return;
            }
            self.opener.heard(false);
            self.come_back().await;
            if core.is_closed() {
                return;
            }
            self.opener.heard(true);
        }
    }

    /// Waits until the disk works or is closed, and does what it takes.
    async fn come_back(&self) {
        let core = &self.core;
        let is_over = || {
            self.tell_trouble();
            core.is_closed() || works(core)
        };
        let has_come = || core.is_closed() || has_session(core);
        // An attempt that has failed says why.
        let mut is_short_lived = self.pace.since().is_some();
        loop {
            let is_refused = ring::timeout(HEAD_START, refused(core));
            first(core.reach_bell.until(is_over), is_refused).await;
            if is_over() {
                return;
            }
            if std::mem::take(&mut is_short_lived) {
                self.opener.failed(&SHORT_LIVED);
            }
            while !has_come() {
                let pause = self.pace.due_in();
                if !mutants::is(Mutant::NoPause) && !pause.is_zero() {
                    let comes = core.reach_bell.until(has_come);
                    if ring::timeout(pause, comes).await.is_some() {
                        break;
                    }
                }
                let opened = self.open().await;
                self.pace.over();
                let Err(error) = opened else { break };
                self.opener.failed(&*error);
            }
            core.reach_bell.until(|| is_over() || !has_session(core)).await;
        }
    }

    /// Hands on why the disk does not work, as far as its path knows.
    fn tell_trouble(&self) {
        let core = &self.core;
        if core.is_closed() || works(core) {
            return;
        }
        for (_, slot) in core.all_paths() {
            let why = slot.last_trouble();
            if !why.is_empty() {
                self.opener.failed(&why);
            }
        }
    }

    /// Opens the unit anew, and logs in there.
    async fn open(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let core = &self.core;
        if mutants::is(Mutant::EarlyFence) {
            forget_all(core);
        }
        let closed = core.reach_bell.until(|| core.is_closed());
        let Either::Right(opened) = first(closed, self.opener.open()).await else { return Ok(()) };
        let Opened { address, chap } = opened?;
        debug_assert_eq!(address.lun, core.address.lun, "a unit keeps its number");
        forget_all(core);
        let options = SessionOptions { chap: Some(chap), ..self.session.clone() };
        let session = log_in(&address, &options).await?;
        if !core.is_closed() {
            let slot = PathSlot::new(address, options, None);
            slot.session.replace(Some(session));
            core.add_path(Rc::new(slot));
        }
        Ok(())
    }
}

/// Logs in to what was opened.
async fn log_in(address: &TargetAddress, options: &SessionOptions) -> Result<Session, LoginError> {
    let (mut again, mut pause) = (0, REOPEN_PAUSE_MIN);
    loop {
        match Session::open(address, options.clone()).await {
            Err(LoginError::Io { .. }) if again < LOGINS_AGAIN => {}
            over => return over,
        }
        ring::sleep(pause / 2 + share_of(pause / 2)).await;
        (again, pause) = (again + 1, pause * 2);
    }
}

fn works(core: &Core) -> bool {
    core.all_paths().iter().any(|(path, _)| core.works(*path))
}

/// Whether there is a session: what is behind it is being looked at, or is another disk, which asking would not change.
fn has_session(core: &Core) -> bool {
    let is_up = |slot: &PathSlot| slot.session.borrow().as_ref().is_some_and(Session::is_up);
    core.all_paths().iter().any(|(_, slot)| is_up(slot))
}

/// Waits until a login of the session has failed, as where its target is not there any more.
async fn refused(core: &Core) {
    let session = core.all_paths().into_iter().find_map(|(_, slot)| slot.session.borrow().clone());
    if let Some(session) = session {
        session.until_refused().await;
    }
}

/// The opening that the disk had is over, and what was sent to it.
fn forget_all(core: &Rc<Core>) {
    for (path, slot) in core.all_paths() {
        let session = slot.session.borrow().clone();
        let loss = session.map_or(0, |session| {
            // It stays where it is, closed: without one the keeper of the path would open another.
            if !mutants::is(Mutant::KeepSession) {
                session.close();
            }
            session.losses()
        });
        core.tell(|router, now| {
            router.lost(path);
            router.fenced(path, loss, now);
        });
        if !mutants::is(Mutant::KeepPath) {
            core.retire(path);
        }
    }
}
