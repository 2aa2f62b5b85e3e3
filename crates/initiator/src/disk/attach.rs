//! Attaching and detaching a disk, and what there is to tell about it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use ring::Notify;
use scsi::Sense;
use scsi::param::encode_lun;

use super::Disk;
use super::core::{Core, PathSlot};
use super::inspect::Inspection;
use super::judge::News;
use super::remote::Home;
use crate::address::TargetAddress;
use crate::login::LoginError;
use crate::options::SessionOptions;
use crate::paths::{PathStatus, Router, RouterOptions};
use crate::session::{CommandError, Session};

/// How a disk is attached.
#[derive(Debug, Clone)]
pub struct DiskOptions {
    /// How sessions are made. CHAP of an address goes before that of these options.
    pub session: SessionOptions,
    /// How paths are chosen, and how long trouble may last.
    pub router: RouterOptions,
    /// The time of one command; then it is aborted and tried again.
    pub command_timeout: Duration,
}

impl DiskOptions {
    /// What suits most hosts.
    #[must_use]
    pub fn new(session: SessionOptions) -> Self {
        let command_timeout = Duration::from_secs(30);
        Self { session, router: RouterOptions::default(), command_timeout }
    }
}

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
    #[error("the path leads to another disk")]
    AnotherDisk,
    /// The disk has lost blocks, or has other ones.
    #[error("the disk is smaller than it was")]
    Shrunk,
}

/// One path of a disk.
#[derive(Debug, Clone)]
pub struct PathReport {
    /// Where it leads.
    pub address: TargetAddress,
    /// What it does.
    pub status: PathStatus,
    /// Why it is not used; empty if it is.
    pub trouble: String,
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
        let lun = encode_lun(first.lun).ok_or(AttachError::NoDisk)?;
        let mut router = Router::new(options.router);
        let mut found = None;
        let mut last_error = AttachError::NoPath;
        let mut slots = Vec::new();
        for address in addresses {
            let slot = slot(address, addresses, &options.session)?;
            let opened = open(&slot, lun).await;
            let id = router.add_path(scsi::alua::AccessState::ActiveOptimized);
            match opened {
                Ok((session, facts, access)) => {
                    router.set_access(id, access, Duration::ZERO);
                    // A path to another disk is refused by its keeper, with a word in the log.
                    if found.get_or_insert_with(|| facts.clone()).identity != facts.identity {
                        router.lost(id);
                    }
                    *slot.session.borrow_mut() = Some(session);
                }
                Err(error) => {
                    router.lost(id);
                    *slot.trouble.borrow_mut() = error.to_string();
                    last_error = error;
                }
            }
            slots.push(slot);
        }
        let facts = found.ok_or(last_error)?;
        let geometry = facts.geometry;
        let core = Core::new(lun, facts, options.command_timeout, slots, router);
        Ok(Self { geometry, address: first.to_string(), home: Home::new(core) })
    }

    /// Logs all sessions out, after the commands under way. What was written must have been
    /// flushed before.
    pub async fn detach(self) {
        let logged_out = self.home.hand_over(|core| async move {
            for path in &core.paths {
                let session = path.session.borrow().clone();
                if let Some(session) = session {
                    session.logout().await;
                }
            }
            Ok(())
        });
        let _: Result<(), _> = logged_out.await;
    }

    /// All paths, from any core.
    pub async fn paths(&self) -> Vec<PathReport> {
        let reports = self.home.hand_over(|core| async move {
            let router = core.router.borrow();
            let report = |(slot, status): (&PathSlot, PathStatus)| PathReport {
                address: slot.address.clone(),
                status,
                trouble: slot.trouble.borrow().clone(),
            };
            Ok(core.paths.iter().zip(router.paths()).map(report).collect())
        });
        reports.await.unwrap_or_default()
    }
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
    Ok(PathSlot {
        address: address.clone(),
        options,
        session: RefCell::new(None),
        bell: Notify::new(),
        news: Cell::new(News::None),
        trouble: RefCell::default(),
    })
}

async fn open(
    slot: &PathSlot,
    lun: u64,
) -> Result<(Session, super::facts::Facts, scsi::alua::AccessState), AttachError> {
    let session = Session::open(&slot.address, slot.options.clone()).await?;
    let (facts, access) = Inspection { session: &session, lun }.facts().await?;
    Ok((session, facts, access))
}
