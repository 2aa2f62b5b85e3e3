//! A unit that has a target of its own for each opening, as with a server that lends it to one user at a time.
//!
//! ```text
//!  works ── its session is lost ──▶ waits for it ── it comes back by itself ──▶ works
//!                                       │ not within a moment
//!                                       ▼
//!                                 asks for an opening ── answered: all before it is over ──▶ logs in ──▶ works
//! ```
//!
//! Whoever answers an opening has ended the one before it: its sessions are gone, and what they had sent is over. So an
//! answer fences, as a login of the same nexus does (decision 0013): what was in doubt is sent again on the new target, and
//! not before that.

use std::error::Error;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use iscsi::chap::InitiatorChap;
use ring::wait::{Either, first};

use super::Disk;
use super::core::{Core, PathSlot};
use crate::address::TargetAddress;
use crate::options::SessionOptions;
use crate::session::Session;

/// How long a lost session has to come back by itself: mostly only the connection broke.
const HEAD_START: Duration = Duration::from_millis(250);

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
        ring::spawn(keep(core, session, opener));
    }
}

/// Runs until the disk is closed.
async fn keep(core: Rc<Core>, session: SessionOptions, opener: Rc<dyn Opener>) {
    let is_lost = || core.is_closed() || !works(&core);
    loop {
        core.reach_bell.until(is_lost).await;
        if core.is_closed() {
            return;
        }
        opener.heard(false);
        come_back(&core, &session, &*opener).await;
        if core.is_closed() {
            return;
        }
        opener.heard(true);
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

/// Waits until the disk works or is closed, and does what it takes.
async fn come_back(core: &Rc<Core>, session: &SessionOptions, opener: &dyn Opener) {
    let is_over = || core.is_closed() || works(core);
    let mut pause = REOPEN_PAUSE_MIN;
    while ring::timeout(HEAD_START, core.reach_bell.until(is_over)).await.is_none() {
        while !core.is_closed() && !has_session(core) {
            let Err(error) = open(core, session, opener).await else { break };
            opener.failed(&*error);
            let comes = core.reach_bell.until(|| core.is_closed() || has_session(core));
            ring::timeout(pause, comes).await;
            pause = (pause * 2).min(REOPEN_PAUSE_MAX);
        }
        core.reach_bell.until(|| is_over() || !has_session(core)).await;
    }
}

/// Opens the unit anew, and logs in there.
async fn open(
    core: &Rc<Core>,
    session: &SessionOptions,
    opener: &dyn Opener,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let closed = core.reach_bell.until(|| core.is_closed());
    let Either::Right(opened) = first(closed, opener.open()).await else { return Ok(()) };
    let Opened { address, chap } = opened?;
    debug_assert_eq!(address.lun, core.address.lun, "a unit keeps its number");
    forget_all(core);
    let options = SessionOptions { chap: Some(chap), ..session.clone() };
    let session = Session::open(&address, options.clone()).await?;
    if !core.is_closed() {
        let slot = PathSlot::new(address, options, None);
        slot.session.replace(Some(session));
        core.add_path(Rc::new(slot));
    }
    Ok(())
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
