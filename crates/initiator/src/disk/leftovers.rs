//! What an attachment that was killed has left at the target is ended before the next one writes.
//!
//! Its sockets threw away what the kernel had not sent. But the target may hold writes that it has
//! received and not done, and if it did them after writes of ours, older data would win.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select_ok;
use iscsi::discovery::PortalAddress;
use ring::wait::Bell;

use super::AttachError;
use super::core::Core;
use super::planner::Planner;
use crate::address::TargetAddress;
use crate::identity::Leftover;
use crate::options::SessionOptions;
use crate::session::{SETTLE, Session, TaskError};

/// How long each portal of a group is tried before the next one is too: one may take a connection and
/// never answer.
const HEAD_START: Duration = Duration::from_millis(250);

/// Sessions that are ended at one time.
const AT_ONCE: usize = 16;

/// Logs in once with the ISID of each session that is left, which ends it (RFC 7143 6.3.5), and out
/// again. Those whose portal group cannot be reached are given back; and whether there were any.
pub(super) async fn end(
    volume: &TargetAddress,
    planner: &Planner,
) -> Result<(Vec<Leftover>, bool), AttachError> {
    let Some(identities) = &planner.options.identities else { return Ok((Vec::new(), false)) };
    let mut waiting = identities.leftovers(volume)?;
    let (mut left, were_some) = (Vec::new(), !waiting.is_empty());
    while !waiting.is_empty() {
        let rest = waiting.split_off(waiting.len().min(AT_ONCE));
        left.extend(end_some(volume, planner, waiting).await);
        waiting = rest;
    }
    Ok((left, were_some))
}

async fn end_some(
    volume: &TargetAddress,
    planner: &Planner,
    leftovers: Vec<Leftover>,
) -> Vec<Leftover> {
    let (over, bell) = (Rc::new(Cell::new(0)), Rc::new(Bell::default()));
    let left = Rc::new(RefCell::new(Vec::new()));
    let count = leftovers.len();
    for leftover in leftovers {
        let (over, bell, left) = (over.clone(), bell.clone(), left.clone());
        let groups: Vec<Vec<PortalAddress>> =
            leftover.places.iter().map(|place| portals_of(place, &planner.known)).collect();
        let options = SessionOptions {
            isid: Some(leftover.isid),
            local: None,
            connections: 1,
            alternates: Vec::new(),
            ..planner.session.clone()
        };
        let volume = volume.clone();
        ring::spawn(async move {
            let mut is_over = true;
            for portals in &groups {
                is_over &= is_ended(&volume, portals, &options).await;
            }
            if is_over {
                tracing::info!("{volume}: an earlier session of this host has been ended");
                leftover.hold.logged_out();
            } else {
                left.borrow_mut().push(leftover);
            }
            over.set(over.get() + 1);
            bell.ring();
        });
    }
    bell.until(|| over.get() == count).await;
    left.take()
}

/// The portals of the group of a place; its own first.
fn portals_of(own: &PortalAddress, known: &[PortalAddress]) -> Vec<PortalAddress> {
    let is_other = |it: &&PortalAddress| {
        it.group_tag == own.group_tag && (&it.host, it.port) != (&own.host, own.port)
    };
    std::iter::once(own).chain(known.iter().filter(is_other)).cloned().collect()
}

/// Whether a login in the portal group of `portals` has ended what was left there.
async fn is_ended(
    volume: &TargetAddress,
    portals: &[PortalAddress],
    options: &SessionOptions,
) -> bool {
    let attempts = portals.iter().zip(0..).map(|(portal, turn)| {
        let address = TargetAddress { portal: portal.clone(), ..volume.clone() };
        Box::pin(async move {
            ring::sleep(HEAD_START * turn).await;
            match Session::open(&address, options.clone()).await {
                Ok(session) if session.group_tag() == portal.group_tag => Ok(session),
                Ok(session) => {
                    session.logout().await;
                    Err(())
                }
                Err(error) => {
                    tracing::debug!("{error}");
                    Err(())
                }
            }
        })
    });
    if portals.is_empty() {
        return false;
    }
    match select_ok(attempts).await {
        Ok((session, others)) => {
            // Before the logout: they would end this session, and it would log in again.
            drop(others);
            session.logout().await;
            true
        }
        Err(()) => false,
    }
}

/// Ends what the others may still do by a reset of the unit, before anything is written.
pub(super) async fn reset(core: &Rc<Core>, left: Vec<Leftover>) -> Result<(), AttachError> {
    if left.is_empty() {
        return Ok(());
    }
    tracing::warn!(
        "{}: {} sessions of an attachment that was killed cannot be reached: resetting the unit",
        core.address,
        left.len()
    );
    let mut last = TaskError::NotConnected;
    for (_, slot) in core.all_paths() {
        let Some(session) = slot.trusted_session() else { continue };
        match session.reset_unit(core.lun).await {
            Ok(()) => {
                ring::sleep(SETTLE).await;
                left.iter().for_each(|leftover| leftover.hold.logged_out());
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    core.close();
    Err(AttachError::Leftovers(last))
}
