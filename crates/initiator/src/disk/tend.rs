//! The keeper of one path: opens its session, looks at it when it changes, and lets it return.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ring::wait::first;
use scsi::alua::AccessState;

use super::AttachError;
use super::core::{Core, PathSlot};
use super::facts::is_same;
use super::inspect::{ACCESS_LOOK, Inspection, Reach};
use super::news::News;
use crate::paths::PathId;
use crate::session::{SETTLE, Session, TaskError};

/// How long a path that could not be opened, or looks wrong, is left alone.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How often a silent path is looked at where there is no other.
const SILENT_LOOK: Duration = Duration::from_millis(100);

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
        let seen = state(&session);
        core.tell(|router, now| router.fenced(path, session.fenced(), now));
        if session.is_between_logins() {
            core.tell(|router, _| router.suspend(path));
            core.reach_bell.ring();
            change(&slot, &session, seen, None).await;
            continue;
        }
        if !session.is_up() {
            note(&slot, session.last_trouble());
            core.tell(|router, _| router.lost(path));
            core.plan_bell.ring();
            core.reach_bell.ring();
            change(&slot, &session, seen, None).await;
            continue;
        }
        if let Err(error) = slot.note_login() {
            slot.looked_at.set(None);
            note(&slot, error.to_string());
            core.tell(|router, _| router.lost(path));
            change(&slot, &session, seen, Some(RETRY_PAUSE)).await;
            continue;
        }
        let is_asked = session.is_asked_to_leave();
        if is_asked {
            if !slot.was_asked.get() {
                ring::spawn(core.clone().settle_cache());
            }
            make_way(&core, path, &session);
        }
        slot.was_asked.set(is_asked);
        let is_stuck = listen(&core, path, &session);
        if slot.is_retired.get() {
            change(&slot, &session, seen, None).await;
            continue;
        }
        let wait = match mend(&core, path, &slot, &session).await {
            Ok(()) => (!is_best(&core, path)).then_some(ACCESS_LOOK),
            Err(error) => {
                let is_another = matches!(error, AttachError::AnotherDisk | AttachError::Shrunk);
                slot.is_another_disk.set(is_another);
                note(&slot, error.to_string());
                core.tell(|router, _| router.lost(path));
                core.reach_bell.ring();
                Some(RETRY_PAUSE)
            }
        };
        // Once it can be used: there may be no other path to send the reset through.
        ask_for_reset(&core, path, &session);
        let wait = if is_stuck { Some(SILENT_LOOK) } else { wait };
        change(&slot, &session, seen, wait).await;
    }
}

/// The target asks for a logout: at once where another path works, else when there is one.
fn make_way(core: &Core, path: PathId, session: &Session) {
    let stays = |slot: &PathSlot| slot.trusted_session().is_some_and(|it| !it.is_asked_to_leave());
    let mut others = core.all_paths().into_iter().filter(|(other, _)| *other != path);
    match others.any(|(other, slot)| core.works(other) && stays(&slot)) {
        true => session.step_aside(),
        false => core.plan_bell.ring(),
    }
}

/// The session is back in another portal group, so that its login has ended nothing.
fn ask_for_reset(core: &Rc<Core>, path: PathId, session: &Session) {
    if session.needs_reset() {
        core.tell(|router, now| match router.is_in_doubt(path) {
            true => router.needs_reset(path, now),
            // Nothing was to be repeated: there is nothing to wait for.
            false => session.set_fenced(session.losses()),
        });
    }
}

/// Reads that wait for a silent target are taken elsewhere, as soon as there is another path. Where
/// there is none, the session looks for another way; whether it may have to do so yet.
fn listen(core: &Rc<Core>, path: PathId, session: &Session) -> bool {
    let (was_silent, is_silent) = (core.is_silent(path), session.is_silent());
    let has_other = core.tell(|router, _| router.set_silent(path, is_silent));
    match is_silent {
        true if has_other => session.abandon_reads(),
        true => session.give_up_silent(),
        false if was_silent => core.wake_silent(),
        false => {}
    }
    is_silent && !has_other
}

/// Looks at what is behind the path, where something was heard of it or it is not used.
async fn mend(
    core: &Rc<Core>,
    path: PathId,
    slot: &PathSlot,
    session: &Session,
) -> Result<(), AttachError> {
    let news = slot.news.replace(News::NONE);
    let losses = session.losses();
    let is_known = slot.looked_at.get() == Some(losses) && core.works(path);
    if !is_known || news.unit {
        core.tell(|router, _| router.suspend(path));
        slot.looked_at.set(None);
        let reach = look(core, path, session).await?;
        // Another nexus than the one that was looked at is looked at, too.
        if session.is_up() && session.losses() == losses && !slot.news.get().unit {
            slot.looked_at.set(Some(losses));
            admit(core, path, slot, reach);
        } else {
            slot.bell.ring();
        }
        return Ok(());
    }
    let heard = Cell::new(News::NONE);
    let inspection = Inspection { session, lun: core.lun, news: &heard };
    let ready = if news.poke { inspection.is_ready().await } else { Ok(()) };
    if ready.is_ok()
        && !heard.get().unit
        && (news.access || !is_best(core, path))
        && let Ok(access) = inspection.access().await
    {
        core.tell(|router, now| router.set_access(path, access, now));
    }
    // Whatever the answer was: an attention is told once.
    if heard.get().unit {
        core.suspend_all();
    }
    hear(core, path, session, heard.get()).await;
    ready?;
    if heard.get().cleared {
        sweep(core.path(path), core.lun).await;
    }
    Ok(())
}

/// Ends the session of a path on which nothing is under way any more.
async fn leave(core: &Rc<Core>, path: PathId, slot: &PathSlot) {
    slot.log_out().await;
    slot.session.take();
    slot.hold.take();
    tracing::info!("the path to {} is not used any more", slot.address);
    if !core.is_closed() {
        core.tell(|router, _| router.release(path));
    }
}

/// Opens the session of a path that was away when the disk was attached, or is new.
async fn open(core: &Rc<Core>, slot: &PathSlot) {
    match Session::open(&slot.address, slot.options.clone()).await {
        Ok(session) if !core.is_closed() => {
            *slot.session.borrow_mut() = Some(session);
        }
        Ok(_) => {}
        Err(error) => {
            note(slot, error.to_string());
            ring::timeout(RETRY_PAUSE, async {
                while !core.is_closed() && !slot.is_retired.get() {
                    slot.bell.rung().await;
                }
            })
            .await;
        }
    }
}

/// Whether what is behind the path is still this disk, and how it can be reached.
async fn look(core: &Rc<Core>, path: PathId, session: &Session) -> Result<Reach, AttachError> {
    let heard = Cell::new(News::NONE);
    let found = Inspection { session, lun: core.lun, news: &heard }.facts().await;
    hear(core, path, session, News { unit: false, ..heard.get() }).await;
    let (facts, reach) = found?;
    if !is_same(&facts, &core.facts) {
        return Err(AttachError::AnotherDisk);
    }
    let (then, now) = (core.geometry(), facts.geometry);
    if now.block_bytes != then.block_bytes || now.blocks < then.blocks {
        return Err(AttachError::Shrunk);
    }
    if now.blocks > then.blocks {
        tracing::info!("{} has grown to {} bytes", core.address, now.size_bytes());
        core.blocks.store(now.blocks, Ordering::Relaxed);
        core.is_map_stale.set(true);
        core.map_bell.ring();
    }
    core.cache.set_volatile(facts.is_volatile);
    Ok(reach)
}

/// What the keeper of a path was told while it looked.
async fn hear(core: &Rc<Core>, path: PathId, session: &Session, news: News) {
    let may_be_lost = news.power || news.maybe_power;
    if may_be_lost && core.cache.is_dirty() && !is_continued(core, path, session, news).await {
        core.power_lost();
    } else if news.power {
        // Users who are yet to be taken over may have written before.
        core.cache.note_start();
    }
    core.spread_news(news);
}

/// Whether another nexus to the unit, which was there before, is there now: then the unit has not
/// restarted. Many targets tell every new session that power came on, whenever that was. A unit of
/// several members loses the cache of one when that says so, whatever the others have kept: only a
/// nexus of the same portal group speaks for it then.
async fn is_continued(core: &Rc<Core>, path: PathId, session: &Session, news: News) -> bool {
    for (other, slot) in core.all_paths() {
        if other == path || !core.works(other) {
            continue;
        }
        let Some(witness) = slot.trusted_session() else { continue };
        let is_same_group = witness.group_tag() == session.group_tag();
        if news.power && !is_same_group {
            continue;
        }
        let before = witness.losses();
        if is_undisturbed(core, slot, &witness).await && witness.losses() == before {
            return session.is_up();
        }
    }
    false
}

/// Whether the unit tells a nexus that was there nothing of a start.
async fn is_undisturbed(core: &Rc<Core>, slot: Rc<PathSlot>, witness: &Session) -> bool {
    let heard = Cell::new(News::NONE);
    let inspection = Inspection { session: witness, lun: core.lun, news: &heard };
    let is_ready = inspection.is_ready().await.is_ok();
    let news = heard.get();
    if news.unit {
        core.suspend_all();
    }
    if news.cleared {
        ring::spawn(sweep(slot, core.lun));
    }
    core.spread_news(news);
    is_ready && !news.power && !news.maybe_power
}

fn admit(core: &Rc<Core>, path: PathId, slot: &PathSlot, reach: Reach) {
    slot.trouble.borrow_mut().clear();
    slot.is_another_disk.set(false);
    // While there was no nexus, nobody was told of changes.
    core.is_map_stale.set(true);
    core.map_bell.ring();
    core.tell(|router, now| {
        router.set_group(path, reach.group);
        router.set_access(path, reach.access, now);
        router.returned(path, now);
    });
    core.wake_silent();
    core.reach_bell.ring();
    tracing::info!("path {} to {} works", path.slot(), slot.address);
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

/// What the keeper acts on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    losses: u64,
    is_up: bool,
    is_silent: bool,
    is_asked_to_leave: bool,
}

fn state(session: &Session) -> Seen {
    Seen {
        losses: session.losses(),
        is_up: session.is_up(),
        is_silent: session.is_silent(),
        is_asked_to_leave: session.is_asked_to_leave(),
    }
}

/// Waits until something about the path may have changed since it was `seen`, or `limit` is over. The
/// bell of a session has several listeners, so what rang while the keeper was busy may be gone.
async fn change(slot: &PathSlot, session: &Session, seen: Seen, limit: Option<Duration>) {
    if state(session) != seen {
        return;
    }
    let rung = first(session.changed(), slot.bell.rung());
    match limit.or_else(|| slot.is_retired.get().then_some(QUIET_LOOK)) {
        Some(limit) => drop(ring::timeout(limit, rung).await),
        None => drop(rung.await),
    }
}

/// Tasks on this nexus may be gone without an answer, as a reset of another nexus leaves them: they
/// are ended here, and repeated, before their time is up.
pub(super) async fn sweep(slot: Rc<PathSlot>, lun: u64) {
    let session = slot.session.borrow().clone();
    if let Some(session) = session
        && let Err(error) = session.abort_task_set(lun).await
    {
        tracing::debug!("{}: its tasks cannot be ended: {error}", slot.address);
    }
}

/// Ends what lost nexuses may still do, by a reset through a path that works.
pub(super) async fn fence(core: Rc<Core>, via: PathId) {
    let doubts = core.router.borrow().doubts();
    let doubts: Vec<_> = doubts.iter().map(|&(lost, loss)| (lost, core.path(lost), loss)).collect();
    tracing::warn!(
        "{}: writes are in doubt and {} of its paths do not come back: resetting the unit",
        core.address,
        doubts.len()
    );
    let reset = async {
        let session = core.path(via).trusted_session().ok_or(TaskError::NotConnected)?;
        session.reset_unit(core.lun).await
    };
    match reset.await {
        Ok(()) => {
            for (path, slot) in core.all_paths() {
                if path != via {
                    ring::spawn(sweep(slot, core.lun));
                }
            }
            ring::sleep(SETTLE).await;
            for (lost, slot, loss) in doubts {
                if let Some(gone) = slot.session.borrow().as_ref() {
                    gone.set_fenced(loss);
                }
                core.tell(|router, now| router.fenced(lost, loss, now));
            }
        }
        Err(error) => tracing::warn!("path {}: the reset failed: {error}", via.slot()),
    }
    core.tell(|router, now| router.fence_ended(now));
}
