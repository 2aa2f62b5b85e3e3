//! The sessions that live on one core.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;

use super::{Ending, Session};
use crate::figures::PortalWork;

#[derive(Default)]
struct Sessions {
    sessions: RefCell<HashMap<u16, Rc<Session>>>,
    /// Discovery sessions: they have no place in the registry, but end with the target too.
    discoveries: RefCell<Vec<Rc<Session>>>,
    /// What had gone over connections that have ended, by the portal at which they arrived.
    ended: RefCell<BTreeMap<SocketAddr, PortalWork>>,
}

thread_local! {
    static CORE: Sessions = Sessions::default();
}

pub(crate) fn remember_session(session: &Rc<Session>) {
    CORE.with(|core| {
        if session.is_discovery() {
            core.discoveries.borrow_mut().push(session.clone());
        } else {
            core.sessions.borrow_mut().insert(session.tsih, session.clone());
        }
    });
}

pub(super) fn forget_session(session: &Rc<Session>) {
    CORE.with(|core| {
        if session.is_discovery() {
            core.discoveries.borrow_mut().retain(|other| !Rc::ptr_eq(other, session));
        } else {
            core.sessions.borrow_mut().remove(&session.tsih);
        }
    });
}

/// The session of this core with this TSIH.
pub(crate) fn session(tsih: u16) -> Option<Rc<Session>> {
    CORE.with(|core| core.sessions.borrow().get(&tsih).cloned())
}

/// All normal sessions of this core.
pub(crate) fn sessions() -> Vec<Rc<Session>> {
    CORE.with(|core| core.sessions.borrow().values().cloned().collect())
}

/// All sessions of this core, discovery sessions included.
pub(crate) fn all_sessions() -> Vec<Rc<Session>> {
    let mut all = sessions();
    CORE.with(|core| all.extend(core.discoveries.borrow().iter().cloned()));
    all
}

/// A connection of a session to a target has left its session.
pub(super) fn count_ended(portal: SocketAddr, work: PortalWork) {
    CORE.with(|core| *core.ended.borrow_mut().entry(portal).or_default() += work);
}

/// What had gone over connections of this core that have ended, by portal.
pub(crate) fn ended_work() -> BTreeMap<SocketAddr, PortalWork> {
    CORE.with(|core| core.ended.borrow().clone())
}

/// Ends a session that lives on this core.
pub(crate) fn end_session(tsih: u16, why: &Ending) {
    if let Some(session) = session(tsih) {
        session.end(why);
    }
}
