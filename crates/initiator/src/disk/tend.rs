//! The keeper of one path: opens its session, looks at it when it changes, and lets it return.

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use scsi::alua::AccessState;

use super::AttachError;
use super::core::{Core, PathSlot};
use super::inspect::{ACCESS_LOOK, Inspection, Reach};
use super::judge::News;
use crate::paths::PathId;
use crate::session::{SETTLE, Session};

/// How long a path that could not be opened, or looks wrong, is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How often the keeper of a path that was retired looks whether it may go.
const QUIET_LOOK: Duration = Duration::from_millis(50);

/// Runs until the disk is closed or the path has gone.
pub(super) async fn tend(core: Rc<Core>, path: PathId, slot: Rc<PathSlot>) {
    while !core.is_closed() {
        if slot.is_retired.get() && core.router.borrow().is_quiet(path) {
            return leave(&core, path, &slot).await;
        }
        let session = slot.session.borrow().clone();
        let Some(session) = session else {
            open(&core, &slot).await;
            continue;
        };
        core.tell(|router, now| router.fenced(path, session.fenced(), now));
        if !session.is_up() {
            note(&slot, session.last_trouble());
            core.tell(|router, _| router.lost(path));
            core.plan_bell.notify();
            change(&slot, &session, None).await;
            continue;
        }
        if slot.is_retired.get() {
            change(&slot, &session, None).await;
            continue;
        }
        let news = slot.news.replace(News::None);
        if core.has_failed(path) || news == News::Unit {
            match look(&core, &session).await {
                Ok(reach) => admit(&core, path, &slot, reach),
                Err(error) => {
                    note(&slot, error.to_string());
                    core.tell(|router, _| router.lost(path));
                    change(&slot, &session, Some(RETRY_PAUSE)).await;
                    continue;
                }
            }
        } else if news == News::Access || !is_best(&core, path) {
            let heard = Cell::new(News::None);
            let inspection = Inspection { session: &session, lun: core.lun, news: &heard };
            if let Ok(access) = inspection.access().await {
                core.tell(|router, now| router.set_access(path, access, now));
            }
            core.spread_news(heard.get());
        }
        let look_again = (!is_best(&core, path)).then_some(ACCESS_LOOK);
        change(&slot, &session, look_again).await;
    }
}

/// Ends the session of a path on which nothing is under way any more.
async fn leave(core: &Rc<Core>, path: PathId, slot: &PathSlot) {
    let session = slot.session.take();
    if let Some(session) = session {
        session.logout().await;
    }
    slot.hold.take();
    tracing::info!("the path to {} is not used any more", slot.address);
    if !core.is_closed() {
        core.tell(|router, _| router.release(path));
    }
}

/// Opens the session of a path that was away when the disk was attached, or is new.
async fn open(core: &Rc<Core>, slot: &PathSlot) {
    match Session::open(&slot.address, slot.options.clone()).await {
        Ok(session) if !core.is_closed() => *slot.session.borrow_mut() = Some(session),
        Ok(_) => {}
        Err(error) => {
            note(slot, error.to_string());
            ring::timeout(RETRY_PAUSE, async {
                while !core.is_closed() && !slot.is_retired.get() {
                    slot.bell.notified().await;
                }
            })
            .await;
        }
    }
}

/// Whether what is behind the path is still this disk, and how it can be reached.
async fn look(core: &Core, session: &Session) -> Result<Reach, AttachError> {
    // Whatever it has to tell, it is looked at from the ground up.
    let heard = Cell::new(News::None);
    let (facts, reach) = Inspection { session, lun: core.lun, news: &heard }.facts().await?;
    if facts.identity != core.facts.identity {
        return Err(AttachError::AnotherDisk);
    }
    let (then, now) = (core.facts.geometry, facts.geometry);
    if now.block_bytes != then.block_bytes || now.blocks < then.blocks {
        return Err(AttachError::Shrunk);
    }
    if now.blocks > then.blocks {
        tracing::warn!("{} has grown: attach it again to use all of it", core.address);
    }
    Ok(reach)
}

fn admit(core: &Rc<Core>, path: PathId, slot: &PathSlot, reach: Reach) {
    slot.trouble.borrow_mut().clear();
    // While there was no nexus, nobody was told of changes.
    core.is_map_stale.set(true);
    core.map_bell.notify();
    core.tell(|router, now| {
        router.set_group(path, reach.group);
        router.set_access(path, reach.access, now);
        router.returned(path, now);
    });
    tracing::info!("path {} to {} works", path.0, slot.address);
}

fn is_best(core: &Core, path: PathId) -> bool {
    core.status(path).access == AccessState::ActiveOptimized
}

fn note(slot: &PathSlot, trouble: String) {
    let mut last = slot.trouble.borrow_mut();
    if *last != trouble {
        tracing::warn!("the path to {}: {trouble}", slot.address);
        *last = trouble;
    }
}

/// Waits until something about the path may have changed, or `limit` is over.
async fn change(slot: &PathSlot, session: &Session, limit: Option<Duration>) {
    let mut by_session = pin!(session.changed());
    let mut by_bell = pin!(slot.bell.notified());
    let either = std::future::poll_fn(|cx| {
        let is_ready =
            by_session.as_mut().poll(cx).is_ready() || by_bell.as_mut().poll(cx).is_ready();
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    });
    match limit.or_else(|| slot.is_retired.get().then_some(QUIET_LOOK)) {
        Some(limit) => drop(ring::timeout(limit, either).await),
        None => either.await,
    }
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
