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
use crate::options::SessionOptions;
use crate::session::Session;

/// How long a lost session has to come back by itself, unless it is refused before: mostly only the connection broke.
const HEAD_START: Duration = Duration::from_secs(2);

/// The pauses between attempts to open the unit anew; each is twice as long as the one before, up to the longest.
pub const REOPEN_PAUSE_MIN: Duration = Duration::from_millis(100);
/// See [`REOPEN_PAUSE_MIN`].
pub const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(2);

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

impl Disk {
    /// Keeps a disk that was attached with one opening of its unit: another one is asked for when that is gone. `session` is
    /// how sessions are made, but for what they prove.
    ///
    /// # Panics
    /// Elsewhere than on the core that attached the disk.
    pub fn keep_open(&self, session: SessionOptions, opener: Rc<dyn Opener>) {
        let core = self.home.here().expect("a disk is kept open where it lives");
        let keeper = Keeper { core, session, opener, asked_at: Cell::default() };
        ring::spawn(async move { keeper.keep().await });
    }
}

/// Looks after one disk.
#[derive(Debug)]
struct Keeper {
    core: Rc<Core>,
    session: SessionOptions,
    opener: Rc<dyn Opener>,
    /// When the last opening was asked for.
    asked_at: Cell<Option<Instant>>,
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
        let is_over = || core.is_closed() || works(core);
        let mut pause = REOPEN_PAUSE_MIN;
        loop {
            let is_refused = ring::timeout(HEAD_START, refused(core));
            first(core.reach_bell.until(is_over), is_refused).await;
            if is_over() {
                return;
            }
            while !core.is_closed() && !has_session(core) {
                let Err(error) = self.open().await else { break };
                self.opener.failed(&*error);
                let comes = core.reach_bell.until(|| core.is_closed() || has_session(core));
                ring::timeout(pause, comes).await;
                pause = (pause * 2).min(REOPEN_PAUSE_MAX);
            }
            core.reach_bell.until(|| is_over() || !has_session(core)).await;
        }
    }

    /// Opens the unit anew, and logs in there.
    async fn open(&self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let core = &self.core;
        // Where two have one unit, each ends what the other one has opened.
        let last = self.asked_at.replace(Some(ring::now()));
        let since = last.map(|last| ring::now().saturating_duration_since(last));
        let early = since.map_or(Duration::ZERO, |since| REOPEN_PAUSE_MIN.saturating_sub(since));
        let asked = async {
            ring::sleep(early).await;
            self.opener.open().await
        };
        let closed = core.reach_bell.until(|| core.is_closed());
        let Either::Right(opened) = first(closed, asked).await else { return Ok(()) };
        let Opened { address, chap } = opened?;
        debug_assert_eq!(address.lun, core.address.lun, "a unit keeps its number");
        forget_all(core);
        let options = SessionOptions { chap: Some(chap), ..self.session.clone() };
        let session = Session::open(&address, options.clone()).await?;
        if !core.is_closed() {
            let slot = PathSlot::new(address, options, None);
            slot.session.replace(Some(session));
            core.add_path(Rc::new(slot));
        }
        Ok(())
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
            session.close();
            session.losses()
        });
        core.tell(|router, now| {
            router.lost(path);
            router.fenced(path, loss, now);
        });
        core.retire(path);
    }
}
