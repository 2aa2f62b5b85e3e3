//! The keeper of one path: opens its session, looks at it when it changes, and lets it return.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use scsi::alua::AccessState;

use super::AttachError;
use super::core::Core;
use super::inspect::{ACCESS_LOOK, Inspection};
use super::judge::News;
use crate::paths::PathId;
use crate::session::{SETTLE, Session};

/// How long a path that could not be opened, or looks wrong, is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// Runs until the disk is closed.
pub(super) async fn tend(core: Rc<Core>, path: PathId) {
    while !core.is_closed() {
        let Some(session) = core.session(path) else {
            open(&core, path).await;
            continue;
        };
        core.tell(|router, now| router.fenced(path, session.fenced(), now));
        if !session.is_up() {
            note(&core, path, session.last_trouble());
            core.tell(|router, _| router.lost(path));
            change(&core, path, &session, None).await;
            continue;
        }
        let news = core.path(path).news.replace(News::None);
        if core.has_failed(path) || news == News::Unit {
            match look(&core, &session).await {
                Ok(access) => admit(&core, path, access),
                Err(error) => {
                    note(&core, path, error.to_string());
                    core.tell(|router, _| router.lost(path));
                    change(&core, path, &session, Some(RETRY_PAUSE)).await;
                    continue;
                }
            }
        } else if news == News::Access || !is_best(&core, path) {
            let inspection = Inspection { session: &session, lun: core.lun };
            if let Ok(access) = inspection.access().await {
                core.tell(|router, now| router.set_access(path, access, now));
            }
        }
        let look_again = (!is_best(&core, path)).then_some(ACCESS_LOOK);
        change(&core, path, &session, look_again).await;
    }
}

/// Opens the session of a path that was away when the disk was attached.
async fn open(core: &Rc<Core>, path: PathId) {
    let slot = core.path(path);
    match Session::open(&slot.address, slot.options.clone()).await {
        Ok(session) if !core.is_closed() => *slot.session.borrow_mut() = Some(session),
        Ok(_) => {}
        Err(error) => {
            note(core, path, error.to_string());
            pause(core, path, RETRY_PAUSE).await;
        }
    }
}

/// Whether what is behind the path is still this disk, and how it can be reached.
async fn look(core: &Core, session: &Session) -> Result<AccessState, AttachError> {
    let (facts, access) = Inspection { session, lun: core.lun }.facts().await?;
    if facts.identity != core.facts.identity {
        return Err(AttachError::AnotherDisk);
    }
    let (then, now) = (core.facts.geometry, facts.geometry);
    if now.block_bytes != then.block_bytes || now.blocks < then.blocks {
        return Err(AttachError::Shrunk);
    }
    if now.blocks > then.blocks {
        tracing::warn!("{} has grown: attach it again to use all of it", core.paths[0].address);
    }
    Ok(access)
}

fn admit(core: &Rc<Core>, path: PathId, access: AccessState) {
    core.path(path).trouble.borrow_mut().clear();
    core.tell(|router, now| {
        router.set_access(path, access, now);
        router.returned(path, now);
    });
    tracing::info!("path {} to {} works", path.0, core.path(path).address);
}

fn is_best(core: &Core, path: PathId) -> bool {
    let status = core.router.borrow().paths().nth(path.0);
    status.is_some_and(|status| status.access == AccessState::ActiveOptimized)
}

fn note(core: &Core, path: PathId, trouble: String) {
    let mut last = core.path(path).trouble.borrow_mut();
    if *last != trouble {
        tracing::warn!("path {} to {}: {trouble}", path.0, core.path(path).address);
        *last = trouble;
    }
}

/// Waits until something about the path may have changed, or `limit` is over.
async fn change(core: &Core, path: PathId, session: &Session, limit: Option<Duration>) {
    let mut by_session = pin!(session.changed());
    let mut by_bell = pin!(core.path(path).bell.notified());
    let either = std::future::poll_fn(|cx| {
        let is_ready =
            by_session.as_mut().poll(cx).is_ready() || by_bell.as_mut().poll(cx).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    });
    match limit {
        Some(limit) => drop(ring::timeout(limit, either).await),
        None => either.await,
    }
}

async fn pause(core: &Core, path: PathId, time: Duration) {
    let bell = &core.path(path).bell;
    ring::timeout(time, async {
        while !core.is_closed() {
            bell.notified().await;
        }
    })
    .await;
}

/// Ends what the lost nexus of one path may still do, by a reset through another path.
pub(super) async fn fence(core: Rc<Core>, lost: PathId, loss: u64, via: PathId) {
    let Some(session) = core.session(via) else { return };
    tracing::warn!(
        "path {} is lost with writes in doubt and does not come back: resetting the unit through path {}",
        lost.0,
        via.0
    );
    match session.reset_unit(core.lun).await {
        Ok(()) => {
            ring::sleep(SETTLE).await;
            // Tells the router as well, through the keeper of the lost path.
            if let Some(gone) = core.session(lost) {
                gone.set_fenced(loss);
            }
            core.tell(|router, now| router.fenced(lost, loss, now));
        }
        Err(error) => tracing::warn!("path {}: the reset failed: {error}", via.0),
    }
}
