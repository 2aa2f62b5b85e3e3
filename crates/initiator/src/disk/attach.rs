//! Attaching and detaching a disk, and what there is to tell about it.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::wait::{Bell, Either, first, join_all};
use scsi::Sense;
use scsi::param::encode_lun;

use super::Disk;
use super::core::{Core, PathSlot};
use super::facts::Facts;
use super::facts::is_same;
use super::inspect::{Inspection, Reach};
use super::leftovers;
use super::news::News;
use super::planner::{self, Planner};
use super::remote::Home;
use super::ways::HostWays;
use crate::address::{TargetAddress, show};
use crate::identity::{ClaimError, Identities};
use crate::login::LoginError;
use crate::options::SessionOptions;
use crate::paths::plan::Rules;
use crate::paths::{PathId, PathStatus, Router, RouterOptions};
use crate::session::{CommandError, Session, TaskError};

/// How a disk is attached.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// How sessions are made. CHAP of an address goes before that of these options.
    pub session: SessionOptions,
    /// How paths are chosen, and how long trouble may last.
    pub router: RouterOptions,
    /// The time of one command; then it is aborted and tried again.
    pub command_timeout: Duration,
    /// A COMPARE AND WRITE that was sent again and miscompares counts as done where the medium holds what it was to write,
    /// as nobody else writes that (decision 0013). Where hosts of others are behind this disk some may: then it ends
    /// in doubt.
    pub is_sole_writer: bool,
}

impl DiskOptions {
    /// What suits most hosts.
    #[must_use]
    pub fn new(session: SessionOptions) -> Self {
        let command_timeout = Duration::from_secs(30);
        let router = RouterOptions::default();
        Self { session, router, command_timeout, is_sole_writer: true }
    }
}

/// How many sessions a disk has, and between which ports.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// So many, whatever the rules say.
    pub sessions: Option<u32>,
    /// The bounds of the plan.
    pub rules: Rules,
    /// Sessions that the pool allows. No target tells it: 1024 is what pools of this kind take.
    pub pool_sessions_max: u32,
    /// How often the target is asked for its portals, while nothing is lost.
    pub look_interval: Duration,
    /// The addresses of this host to use; `None` takes those that lead to the target.
    pub host_ports: Option<Vec<IpAddr>>,
    /// Gives the sessions their ISIDs; without, each draws a random one.
    pub identities: Option<Arc<dyn Identities>>,
    /// What the disks of this host share, so that they spread over its ports and none asks what
    /// another one knows.
    pub ways: HostWays,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            sessions: None,
            rules: Rules::default(),
            pool_sessions_max: 1024,
            look_interval: Duration::from_secs(60),
            host_ports: None,
            identities: None,
            ways: HostWays::default(),
        }
    }
}

/// How long an attach waits for further paths when one works.
const LATE: Duration = Duration::from_secs(2);

/// Losses of a session before it was looked at, and what is behind it.
type Opened = (u64, Facts, Reach);

/// Why a disk cannot be attached, or a path to it not be used.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No address was given.
    #[error("a disk needs at least one path")]
    NoPath,
    /// The addresses name different logical units.
    #[error("the paths of one disk must lead to the same logical unit number")]
    DifferentUnits,
    /// CHAP credentials that must not be used.
    #[error(transparent)]
    Credentials(#[from] iscsi::chap::CredentialsError),
    /// The host may have no further session.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The login failed.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// A command got no answer.
    #[error(transparent)]
    Command(CommandError),
    /// A command was refused.
    #[error("the unit refused {what}: {sense:?}")]
    Refused {
        /// Which command.
        what: &'static str,
        /// Why.
        sense: Option<Sense>,
    },
    /// An answer that makes no sense.
    #[error("the unit's answer to {0} makes no sense")]
    Answer(&'static str),
    /// There is nothing behind the number, or it is no disk.
    #[error("there is no disk behind this logical unit number")]
    NoDisk,
    /// Another host has reserved it.
    #[error("another host has reserved the disk")]
    Reserved,
    /// It stayed busy.
    #[error("the unit did not become ready")]
    NotReady,
    /// This path does not lead there now (ALUA).
    #[error("the unit is not accessible through this path")]
    Inaccessible,
    /// Blocks of another size than 512 or 4096 bytes.
    #[error("blocks of {0} bytes are not supported")]
    BlockSize(u32),
    /// The path leads to another disk than the first one.
    #[error(
        "the path leads to another disk than the one that was attached, as when a volume is made anew: \
         detach that one, then attach again"
    )]
    AnotherDisk,
    /// An attachment that was killed may have left writes at the target.
    #[error(
        "an earlier attachment was killed, and the target cannot be told to drop its writes: {0}"
    )]
    Leftovers(TaskError),
    /// Nothing was written through the session, for a successor would not know of it.
    #[error("a session is not used, for it cannot be noted which ones this host has: {0}")]
    NotNoted(std::io::Error),
    /// The disk has lost blocks, or has other ones.
    #[error("the disk is smaller than it was")]
    Shrunk,
}

impl AttachError {
    /// Whether trying again is of no use until somebody changes a setting, here or at the target.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            Self::Login(error) => error.is_final(),
            Self::Credentials(_) | Self::BlockSize(_) => true,
            _ => false,
        }
    }
}

/// One path of a disk.
#[derive(Debug, Clone)]
pub struct PathReport {
    /// Which path of the disk it is: no later one is ever called so.
    pub id: PathId,
    /// Where it leads.
    pub address: TargetAddress,
    /// What it does.
    pub status: PathStatus,
    /// Why it is not used; empty if it is.
    pub trouble: String,
    /// What was found behind it, when it was looked at last, is not this disk any more.
    pub is_another_disk: bool,
}

impl Disk {
    /// Attaches the unit behind `addresses`, one session for each, on this core. An address may
    /// stand several times, for as many sessions. One path that works is enough: the others are
    /// tried until they work.
    ///
    /// # Errors
    /// An [`AttachError`] of the last path, if none works.
    ///
    /// # Panics
    /// Outside of a core of the engine.
    pub async fn attach(
        addresses: &[TargetAddress],
        options: DiskOptions,
    ) -> Result<Self, AttachError> {
        let first = addresses.first().ok_or(AttachError::NoPath)?;
        if addresses.iter().any(|address| address.lun != first.lun) {
            return Err(AttachError::DifferentUnits);
        }
        let slot = |address| slot(address, addresses, &options.session);
        let slots: Result<Vec<PathSlot>, AttachError> = addresses.iter().map(slot).collect();
        Ok(Self::of(attach_paths(first, slots?, &options, LATE).await?))
    }

    /// Attaches the unit behind `address` on this core, with as many sessions as the plan says,
    /// between the ports of this host and the portals that the target names. While the disk is
    /// attached, sessions are opened and closed as ports come and go.
    ///
    /// # Errors
    /// An [`AttachError`] of the last path, if none works.
    ///
    /// # Panics
    /// Outside of a core of the engine.
    pub async fn attach_planned(
        address: &TargetAddress,
        options: DiskOptions,
        plan: PlanOptions,
    ) -> Result<Self, AttachError> {
        let mut session = options.session.clone();
        if let Some(chap) = address.chap()? {
            session.chap = Some(chap);
        }
        let mut planner = Planner::new(address, session, plan);
        let planned = planner.look(&[], false).await;
        let (left, had_predecessor) = leftovers::end(address, &planner).await?;
        let mut slots = Vec::new();
        for session in &planned {
            match planner.slot(session) {
                Ok(slot) => slots.push(slot),
                // Some paths are better than none.
                Err(error) if !slots.is_empty() => tracing::warn!("no further path: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
        if slots.is_empty() {
            // Nothing answers: the attempt tells why.
            let mut only = slot(address, &[], &planner.session)?;
            planner.identify(&mut only)?;
            slots.push(only);
        }
        // Whoever takes users over must hear of a loss from all members before their next flush.
        let late = if had_predecessor { options.session.login_timeout } else { LATE };
        let core = attach_paths(address, slots, &options, late).await?;
        leftovers::reset(&core, left).await?;
        ring::spawn(planner::keep(core.clone(), planner));
        Ok(Self::of(core))
    }

    fn of(core: Rc<Core>) -> Self {
        let (geometry, address) = (core.facts.geometry, core.address.to_string());
        let naa = core.facts.naa.clone();
        let identity = core.facts.identity.clone();
        let blocks = core.blocks.clone();
        Self { geometry, blocks, address, naa, identity, home: Home::new(core) }
    }

    /// What the unit calls itself: its worldwide name or, without one, its serial number, which
    /// others of another make may have too. Empty if it says nothing.
    #[must_use]
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// The worldwide name of the unit, if it has one of type NAA: 8 or 16 bytes (SPC-4 7.8.6.6).
    #[must_use]
    pub fn naa(&self) -> Option<&[u8]> {
        self.naa.as_deref()
    }

    /// Says that who uses the disk used it before, through a process that is gone: their unflushed
    /// writes are answered for here from now on. If the target tells that it has started since, or that
    /// process `knew` of a loss which it may not have told them ([`super::LossNote`]), the next flush fails.
    /// Before anything is sent for them.
    pub async fn take_over(&self, knew: bool) {
        let told = self.home.hand_over(move |core| async move {
            if core.cache.take_over(knew) {
                tracing::error!(
                    "{}: writes that an earlier process had answered are lost with the volatile cache of \
                     the target; the next flush fails",
                    core.address
                );
            }
            Ok(())
        });
        let _: Result<(), _> = told.await;
    }

    /// From now on losses are noted, until users know.
    pub async fn keep_losses(&self, note: Box<dyn super::LossNote>) {
        let kept = self.home.hand_over(move |core| async move {
            core.cache.keep(note);
            Ok(())
        });
        let _: Result<(), _> = kept.await;
    }

    /// Logs all sessions out, after the commands under way. What was written must have been
    /// flushed before.
    pub async fn detach(self) {
        let logged_out = self.home.hand_over(|core| async move {
            for (_, slot) in core.all_paths() {
                slot.log_out().await;
            }
            Ok(())
        });
        let _: Result<(), _> = logged_out.await;
    }

    /// All paths, from any core.
    pub async fn paths(&self) -> Vec<PathReport> {
        let reports = self.home.hand_over(|core| async move {
            let report = |(path, slot): (PathId, Rc<PathSlot>)| PathReport {
                id: path,
                address: slot.address.clone(),
                status: core.status(path),
                trouble: slot.last_trouble(),
                is_another_disk: slot.is_another_disk.get(),
            };
            Ok(core.all_paths().into_iter().map(report).collect())
        });
        reports.await.unwrap_or_default()
    }
}

/// Opens the paths of a disk, all at once: one that does not answer holds up none of the others.
async fn attach_paths(
    first: &TargetAddress,
    slots: Vec<PathSlot>,
    options: &DiskOptions,
    late: Duration,
) -> Result<Rc<Core>, AttachError> {
    let lun = encode_lun(first.lun).ok_or(AttachError::NoDisk)?;
    let mut router = Router::new(options.router);
    let mut found = None;
    let mut last_error = AttachError::NoPath;
    let attempts = open_all(&slots, lun, late).await;
    for (slot, opened) in slots.iter().zip(attempts) {
        let id = router.add_path(scsi::alua::AccessState::ActiveOptimized);
        match opened {
            Ok((losses, facts, reach)) => {
                router.set_access(id, reach.access, Duration::ZERO);
                router.set_group(id, reach.group);
                // A path to another disk is refused by its keeper, with a word in the log.
                match &found {
                    Some(known) if !is_same(known, &facts) => router.lost(id),
                    _ => slot.looked_at.set(Some(losses)),
                }
                found.get_or_insert(facts);
            }
            Err(error) => {
                router.lost(id);
                *slot.trouble.borrow_mut() = error.to_string();
                last_error = error;
            }
        }
    }
    let facts = found.ok_or(last_error)?;
    let heard: Vec<News> = slots.iter().map(|slot| slot.news.take()).collect();
    let slots = slots.into_iter().map(Rc::new).collect();
    let core = Core::new(first.clone(), facts, options, slots, router);
    if heard.iter().any(|news| news.power) {
        core.cache.note_start();
    }
    Ok(core)
}

/// Opens the sessions of all paths at once. Those that take so much longer than one that works come later.
async fn open_all(
    slots: &[PathSlot],
    lun: u64,
    late: Duration,
) -> Vec<Result<Opened, AttachError>> {
    let (works, bell) = (&Cell::new(false), &Bell::default());
    join_all(slots.iter().map(async |slot| {
        let over = async {
            bell.until(|| works.get()).await;
            ring::sleep(late).await;
        };
        match first(open(slot, lun), over).await {
            Either::Left(opened) => {
                works.set(works.get() || opened.is_ok());
                bell.ring();
                opened
            }
            Either::Right(()) => {
                let portal = show(&slot.address.portal);
                Err(LoginError::TimedOut { portal }.into())
            }
        }
    }))
    .await
}

fn slot(
    address: &TargetAddress,
    all: &[TargetAddress],
    options: &SessionOptions,
) -> Result<PathSlot, AttachError> {
    let mut options = options.clone();
    if let Some(chap) = address.chap()? {
        options.chap = Some(chap);
    }
    for other in all.iter().filter(|other| other.name == address.name) {
        if other.portal != address.portal && !options.alternates.contains(&other.portal) {
            options.alternates.push(other.portal.clone());
        }
    }
    Ok(PathSlot::new(address.clone(), options, None))
}

/// Opens the session of a path: its losses before it was looked at, and what is behind it.
async fn open(slot: &PathSlot, lun: u64) -> Result<Opened, AttachError> {
    let session = Session::open(&slot.address, slot.options.clone()).await?;
    let losses = session.losses();
    // An attention is told once: it is kept also if this attempt does not come to its end.
    let (facts, reach) = Inspection { session: &session, lun, news: &slot.news }.facts().await?;
    *slot.session.borrow_mut() = Some(session.clone());
    if let Err(error) = slot.note_login() {
        slot.session.take();
        session.logout().await;
        return Err(error);
    }
    Ok((losses, facts, reach))
}
