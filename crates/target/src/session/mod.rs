//! A session: the I_T nexus with its command window, its tasks and its connections. It lives on
//! one core, and so do all of its connections.

mod answer;
mod connection;
mod counting;
mod early;
mod ends;
mod hearing;
mod pace;
mod per_core;
mod shortage;
mod task;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use iscsi::ffp::{CommandWindow, Placement};
use iscsi::login::SessionType;
use iscsi::params::SessionParams;
use iscsi::pdu::{Bhs, Isid};
use ring::wait::{Bell, Event};
use scsi::nexus::NexusKey;
use scsi::param::decode_lun;
use scsi::unit::Nexus;
use slab::Slab;

use crate::audit::{Happened, Who};
use crate::figures::UnitTally;
use crate::memory::{self, Owner};
use crate::mutants::{self, Mutant};
use crate::order::TaskOrder;
use crate::registry::SessionKey;
use crate::shared::Shared;
use crate::targets::Target;
use crate::unit::Unit;

use hearing::Hearing;

pub(crate) use answer::{Answer, Expected};
pub(crate) use connection::{Connection, Ending, Fault};
pub(crate) use early::{Due, EarlyPdu, EarlyPdus};
pub(crate) use ends::{Scope, abort, abort_everywhere, abort_tasks, all_ended, finish, tasks_in};
pub(crate) use pace::Pace;
pub(crate) use per_core::{
    all_sessions, end_session, ended_work, remember_session, session, sessions,
};
pub(crate) use shortage::watch as watch_room;
pub(crate) use task::{Inbound, Room, Task};

/// How many tags of ended tasks are remembered, so that data that was under way for them is
/// dropped without a complaint.
const STRAY_TAGS: usize = 256;

/// One logical unit as one session sees it: the I_T_L nexus.
#[derive(Debug)]
pub(crate) struct UnitNexus {
    pub(crate) unit: Arc<Unit>,
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) order: RefCell<TaskOrder<Rc<Task>>>,
    hearing: Hearing,
    pub(crate) tally: UnitTally,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    /// What it is logged in to; a discovery session has no target.
    target: Option<Arc<Target>>,
    pub(crate) initiator: Arc<str>,
    pub(crate) isid: Isid,
    pub(crate) tsih: u16,
    pub(crate) params: SessionParams,
    window: RefCell<CommandWindow>,
    pub(crate) early: RefCell<EarlyPdus>,
    connections: RefCell<Vec<Rc<Connection>>>,
    units: Vec<OnceCell<Rc<UnitNexus>>>,
    tasks: RefCell<Slab<Rc<Task>>>,
    next_tag: Cell<u16>,
    strays: RefCell<VecDeque<u32>>,
    /// Task management functions that wait for tasks to end.
    pub(crate) functions: Cell<usize>,
    connection_left: Bell,
    /// It takes no further connections.
    closing: Cell<bool>,
    /// Why it ends, and whose last connection it was.
    cause: RefCell<Option<Ending>>,
    last: RefCell<Option<Who>>,
    winding_up: Cell<bool>,
    ended: Event,
}

impl Session {
    /// A session of `target`, or a discovery session.
    pub(crate) fn new(
        shared: Arc<Shared>,
        target: Option<Arc<Target>>,
        outcome: &iscsi::login::LoginOutcome,
    ) -> Self {
        debug_assert_eq!(target.is_none(), outcome.session_type == SessionType::Discovery);
        let units = target.iter().flat_map(|target| &target.units);
        let units = units.map(|_| OnceCell::new()).collect();
        let depth = shared.limits.queue_depth;
        Self {
            shared,
            target,
            initiator: outcome.initiator_name.as_str().into(),
            isid: outcome.isid,
            tsih: outcome.tsih,
            params: outcome.session,
            window: RefCell::new(CommandWindow::new(outcome.exp_cmd_sn, depth)),
            early: RefCell::default(),
            connections: RefCell::default(),
            units,
            tasks: RefCell::default(),
            next_tag: Cell::new(1),
            strays: RefCell::default(),
            functions: Cell::new(0),
            connection_left: Bell::default(),
            closing: Cell::new(false),
            cause: RefCell::default(),
            last: RefCell::default(),
            winding_up: Cell::new(false),
            ended: Event::default(),
        }
    }

    /// Its place in the registry, which a discovery session has not.
    pub(crate) fn key(&self) -> Option<SessionKey> {
        let target = self.target.as_ref()?.name.as_str().into();
        Some(SessionKey { target, initiator: self.initiator.clone(), isid: self.isid })
    }

    pub(crate) fn is_discovery(&self) -> bool {
        self.target.is_none()
    }

    /// The target of a normal session: whoever runs commands has one.
    #[inline]
    pub(crate) fn target(&self) -> &Arc<Target> {
        self.target.as_ref().expect("a discovery session takes no commands")
    }

    pub(crate) fn target_name(&self) -> Option<&str> {
        self.target.as_ref().map(|target| target.name.as_str())
    }

    pub(crate) fn is_of(&self, target: &Arc<Target>) -> bool {
        self.target.as_ref().is_some_and(|own| Arc::ptr_eq(own, target))
    }

    // ---- numbering -----------------------------------------------------------------------------

    /// ExpCmdSN and MaxCmdSN.
    #[inline]
    pub(crate) fn window_edges(&self) -> (u32, u32) {
        let window = self.window.borrow();
        (window.exp_cmd_sn(), window.max_cmd_sn())
    }

    #[inline]
    pub(crate) fn place(&self, cmd_sn: u32) -> Placement {
        self.window.borrow_mut().place(cmd_sn)
    }

    /// A numbered command of `owner` has ended: its place in the window is free.
    #[inline]
    pub(crate) fn release_window(&self, owner: &Owner) {
        self.window.borrow_mut().complete(memory::is_short(owner));
    }

    // ---- units ---------------------------------------------------------------------------------

    /// The logical unit behind a LUN as it stands in a PDU (SAM-5 §4.7), attached at first use.
    pub(crate) fn unit(&self, lun_raw: u64) -> Option<&Rc<UnitNexus>> {
        let index = usize::from(decode_lun(lun_raw)?);
        let slot = self.units.get(index)?;
        Some(slot.get_or_init(|| {
            let unit = self.target().units[index].clone();
            let nexus = unit.logical.attach(self.nexus_key());
            let order = RefCell::new(TaskOrder::new());
            let (hearing, tally) = Default::default();
            Rc::new(UnitNexus { unit, nexus, order, hearing, tally })
        }))
    }

    /// A request that is no command has come: it acknowledges what its sender was told, too.
    pub(crate) fn hear(&self, conn: &Connection, bhs: &Bhs) {
        self.places().for_each(|place| place.acknowledge(conn, bhs));
    }

    /// The units that it has used.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Rc<UnitNexus>> {
        self.units.iter().filter_map(OnceCell::get)
    }

    pub(crate) fn nexus_key(&self) -> NexusKey {
        NexusKey {
            initiator: self.initiator.clone(),
            isid: self.isid,
            target_port: self.shared.port_group(),
        }
    }

    // ---- tasks ---------------------------------------------------------------------------------

    /// Enters a task and gives it its tag. The tag's low half is the slot; the high half changes
    /// from use to use, so that late data of an ended task meets nobody else's buffer.
    pub(crate) fn enter(&self, task: &Rc<Task>) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.insert(task.clone());
        let low = u32::try_from(slot).expect("a session has fewer than 65,535 tasks");
        assert!(low < 0xffff, "the command window is far below 65,535");
        let high = self.next_tag.get();
        self.next_tag.set(high.wrapping_add(1));
        task.ttt.set(u32::from(high) << 16 | low);
    }

    /// Immediate commands stand outside the command window, so their number has a bound of its own
    /// (RFC 7143 §4.2.2.1: a target may reject them).
    pub(crate) fn has_room_for_immediate(&self) -> bool {
        self.tasks.borrow().len() < 2 * self.shared.limits.queue_depth as usize
    }

    pub(crate) fn remove(&self, task: &Task) {
        let slot = (task.ttt.get() & 0xffff) as usize;
        let removed = self.tasks.borrow_mut().try_remove(slot);
        debug_assert!(removed.is_some(), "a task is entered and removed once");
        if task.awaits_data() {
            self.expect_stray(task.ttt.get());
            self.expect_stray(task.answer.itt);
        }
    }

    pub(crate) fn task_by_ttt(&self, ttt: u32) -> Option<Rc<Task>> {
        let tasks = self.tasks.borrow();
        tasks.get((ttt & 0xffff) as usize).filter(|task| task.ttt.get() == ttt).cloned()
    }

    pub(crate) fn task_by_itt(&self, itt: u32) -> Option<Rc<Task>> {
        let tasks = self.tasks.borrow();
        tasks.iter().map(|(_, task)| task).find(|task| task.answer.itt == itt).cloned()
    }

    pub(crate) fn tasks_where(&self, wanted: impl Fn(&Task) -> bool) -> Vec<Rc<Task>> {
        let tasks = self.tasks.borrow();
        tasks.iter().map(|(_, task)| task).filter(|task| wanted(task)).cloned().collect()
    }

    /// The tasks whose commands came over this connection.
    pub(crate) fn tasks_of(&self, conn: &Rc<Connection>) -> Vec<Rc<Task>> {
        self.tasks_where(|task| Rc::ptr_eq(task.conn(), conn))
    }

    /// Data for this tag may still come although its task is over.
    pub(crate) fn expect_stray(&self, tag: u32) {
        let mut strays = self.strays.borrow_mut();
        if strays.len() == STRAY_TAGS {
            strays.pop_front();
        }
        strays.push_back(tag);
    }

    pub(crate) fn is_stray(&self, tag: u32) -> bool {
        self.strays.borrow().contains(&tag)
    }

    /// Bytes of data that tasks of this connection wait for, and that its peer may send.
    pub(crate) fn missing_bytes(&self, conn: &Connection) -> u64 {
        let tasks = self.tasks.borrow();
        let own = tasks.iter().filter(|(_, task)| std::ptr::eq(&raw const **task.conn(), conn));
        own.map(|(_, task)| task.missing_bytes()).sum()
    }

    // ---- connections ---------------------------------------------------------------------------

    pub(crate) fn add_connection(&self, conn: Rc<Connection>) {
        self.connections.borrow_mut().push(conn);
        self.count_connections();
    }

    fn count_connections(&self) {
        let cids = self.connections.borrow().iter().map(|conn| conn.cid).collect();
        if let Some(key) = self.key() {
            self.shared.registry.set_connections(&key, self.tsih, cids);
        }
    }

    /// Commands of this connection that have not been answered.
    pub(crate) fn waiting_on(&self, conn: &Rc<Connection>) -> usize {
        let tasks = self.tasks.borrow();
        tasks.iter().filter(|(_, task)| Rc::ptr_eq(task.conn(), conn)).count()
    }

    pub(crate) fn connections(&self) -> Vec<Rc<Connection>> {
        self.connections.borrow().clone()
    }

    pub(crate) fn connection(&self, cid: u16) -> Option<Rc<Connection>> {
        self.connections.borrow().iter().find(|conn| conn.cid == cid).cloned()
    }

    /// A connection has come to its end. At ErrorRecoveryLevel 0 its loss takes the session along
    /// (RFC 7143 §7.1.4.2), a logout of this connection alone does not.
    pub(crate) fn connection_ended(self: &Rc<Self>, ended: &Rc<Connection>) {
        self.connections.borrow_mut().retain(|conn| !Rc::ptr_eq(conn, ended));
        if !self.is_discovery() {
            per_core::count_ended(ended.counted_at, ended.work());
        }
        self.count_connections();
        for task in self.tasks_of(ended) {
            abort(&task);
        }
        let stays = matches!(ended.ending(), Some(Ending::LoggedOut | Ending::Replaced));
        self.last.replace(Some(ended.who()));
        if !stays || self.connections.borrow().is_empty() {
            ended.ending().iter().for_each(|why| self.note_cause(why));
        }
        if !stays {
            self.end(&Ending::SessionEnded);
        }
        self.connection_left.ring();
        // One that was replaced leaves its place to its successor.
        if ended.ending() != Some(Ending::Replaced) || self.closing.get() {
            self.wind_up_if_left();
        }
    }

    /// Waits until this connection is gone, and all of its tasks are over.
    pub(crate) async fn wait_without(&self, gone: &Rc<Connection>) {
        let is_gone = || !self.connections.borrow().iter().any(|conn| Rc::ptr_eq(conn, gone));
        self.connection_left.until(is_gone).await;
        for task in self.tasks_of(gone) {
            task.ended.wait().await;
        }
    }

    /// No connection can join it any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// It takes no further connections. That is known before its host hears of a logout: it may log
    /// in again at once, also as another user.
    fn close(&self) {
        if !self.closing.replace(true)
            && let Some(key) = self.key()
        {
            self.shared.registry.set_ending(&key, self.tsih);
        }
    }

    /// Ends all connections; the last one winds the session up.
    pub(crate) fn end(self: &Rc<Self>, why: &Ending) {
        self.close();
        self.note_cause(why);
        for conn in self.connections() {
            conn.end(why.clone());
        }
        self.wind_up_if_left();
    }

    /// The first reason stays.
    fn note_cause(&self, why: &Ending) {
        self.cause.borrow_mut().get_or_insert_with(|| why.clone());
    }

    /// Winds the session up, once, when it has no connections.
    fn wind_up_if_left(self: &Rc<Self>) {
        if self.connections.borrow().is_empty() && !self.winding_up.replace(true) {
            self.close();
            let session = self.clone();
            ring::spawn(async move { session.wind_up().await });
        }
    }

    /// Waits for tasks that cannot be stopped, then leaves the units and the registry.
    async fn wind_up(self: Rc<Self>) {
        for task in self.tasks_where(|_| true) {
            abort(&task);
            task.ended.wait().await;
        }
        self.early.borrow_mut().clear();
        if let Some(target) = &self.target {
            self.shared.copies.nexus_lost(&target.units, &self.nexus_key()).await;
        }
        for place in self.places() {
            place.unit.logical.detach(&place.nexus);
        }
        // In one step: what is counted is either that of a session that lives or of one that has ended.
        per_core::forget_session(&self);
        for place in self.places().filter(|_| !mutants::is(Mutant::ForgetFigures)) {
            place.unit.ended.add(ring::core_id(), place.tally.figures());
        }
        if let Some(key) = self.key() {
            self.shared.registry.remove(&key, self.tsih);
            self.tell_end();
        }
        self.ended.set();
    }

    fn tell_end(&self) {
        let Some(who) = self.last.take() else { return };
        let reason = self.cause.borrow().as_ref().map(Ending::reason).unwrap_or_default();
        self.shared.feed.push(|| Happened::Ended { who, tsih: self.tsih, reason });
    }

    pub(crate) async fn wait_ended(&self) {
        self.ended.wait().await;
    }
}
