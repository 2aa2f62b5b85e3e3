//! A session: one I_T nexus, over one connection or several at a time.
//!
//! ```text
//!            log in                    connection ends (a "loss")
//! open() -----------> up ------------------------------------> down
//!                     ^                                         |
//!                     +---- log in with the same ISID, TSIH 0 ---+
//! ```
//!
//! Its connections live and die together: each command is sent, and answered, on one of them
//! (RFC 7143 4.2.5.1), and at ErrorRecoveryLevel 0 no other can take it over. So when one ends, all are
//! ended, and that is one loss.
//!
//! A session never repeats a command. When its connections end, every command that was sent and not
//! answered ends as [`CommandError::InDoubt`] with the number of the loss: the target may have run
//! it, may be running it, and may have yet to read it from the network. The loss is *fenced* once
//! none of this can be true any more. That is so after the next successful login of the session:
//! it has the same initiator name, ISID and portal group and a TSIH of 0, so the target must end the
//! old session, its connections and its tasks, before it accepts the new one (RFC 7143 6.3.5), and
//! what it has not read of the old connection it never will. A repeated command is therefore sent
//! after [`Session::until_fenced`] only, unless doing it twice, late, does no harm (a read).
//!
//! Where the session's own portal stays away, any other portal of the same group does as well
//! ([`SessionOptions::alternates`]): a login there ends the lost session, and is where the session
//! lives until its own portal can be reached again. A login that ends in another portal group, as a
//! redirection may, is another nexus, which does not end the old one
//! ([`Session::needs_reset`]): then LOGICAL UNIT RESET does (SAM-5 7.4: it aborts the tasks of all
//! nexuses), which is not for one session to send.

mod command;
mod connection;
mod incoming;
mod management;
mod receive;
mod recovery;
mod serve;
mod task;
mod text;
mod write_plan;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use iscsi::discovery::PortalAddress;
use iscsi::ffp::{serial_le, serial_lt};
use iscsi::pdu::{DataOut, Isid, RESERVED_TAG, ScsiCommand, TaskAttribute, TaskResult};
use iscsi::text::IscsiName;
use ring::wait::{Answer, Bell};
use slab::Slab;

use crate::address::TargetAddress;
use crate::login::{FIRST_CMD_SN, LoggedIn, LoginError, Role};
use crate::options::{SessionOptions, random_isid};

use connection::{Connection, Ending};
use recovery::{Begun, Way, log_in_all};

pub use command::{CommandError, Pending, Reply, Request, Transfer};
pub(crate) use management::SETTLE;
pub use management::TaskError;

pub(crate) use task::Task;

use task::Phase;
use text::TextAnswer;
use write_plan::{Unsolicited, segments};

/// Tags of tasks: slot number below, a count above, so that a late PDU meets nobody else's task.
/// Tags from `TAG_OTHER` on belong to NOP, task management, logout.
const TAG_SLOT_BITS: u32 = 16;
const TAG_COUNT_MAX: u32 = 0x7fff;
const TAG_OTHER: u32 = 0x8000_0000;

/// One I_T nexus to a target. Clones share it; the last one dropped ends it without a logout.
#[derive(Debug, Clone)]
pub struct Session(Rc<Owner>);

/// What the handles share; the session's own tasks hold [`Inner`] only.
#[derive(Debug)]
struct Owner(Rc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Debug)]
enum State {
    /// In the order of their numbers.
    Up(Rc<[Rc<Connection>]>),
    Down {
        since: Instant,
    },
    Closed,
}

/// The session as its own tasks see it.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: SessionOptions,
    target: IscsiName,
    portal: PortalAddress,
    isid: Isid,
    state: RefCell<State>,
    /// Rings at each change of `state`, `losses` and `fenced`.
    changed: Bell,
    /// Rings when no command is under way any more.
    idle: Bell,
    tasks: RefCell<Slab<Rc<Task>>>,
    tag_count: Cell<u32>,
    queue: RefCell<VecDeque<Rc<Task>>>,
    cmd_sn: Cell<u32>,
    max_cmd_sn: Cell<u32>,
    losses: Cell<u64>,
    fenced: Cell<u64>,
    /// Something is in doubt.
    is_doubtful: Cell<bool>,
    /// Where it lives.
    way: RefCell<Way>,
    /// The portal group of the nexus, once known.
    group_tag: Cell<Option<u16>>,
    /// Something is in doubt that an earlier nexus of ours, in another portal group, may still do.
    pub(crate) has_moved: Cell<bool>,
    /// One of its connections is silent.
    is_silent: Cell<bool>,
    /// Task management functions that wait for their answer.
    management: RefCell<HashMap<u32, Rc<Answer<TaskResult>>>>,
    /// Text requests that wait for their answer.
    texts: RefCell<HashMap<u32, Rc<TextAnswer>>>,
    next_other_tag: Cell<u32>,
    /// The shortest timeout of any command so far: how often the watch must look.
    timeout_min: Cell<Duration>,
    last_trouble: RefCell<String>,
    /// A logout was asked for: no new commands.
    is_leaving: Cell<bool>,
    /// The target has asked for it.
    is_asked_to_leave: Cell<bool>,
    /// When it was last back after a loss.
    back_at: Cell<Option<Instant>>,
    /// How often in a row it left for its own portal and was not let in there.
    vain_returns: Cell<u32>,
    /// The last connection ended by a logout, and the next login has not failed yet.
    has_left: Cell<bool>,
    refusal: recovery::Refusal,
}

impl Session {
    /// Logs in. From then on the session keeps itself up until it is logged out or dropped.
    ///
    /// # Errors
    /// A [`LoginError`] of the first login. Later ones are repeated.
    pub async fn open(
        address: &TargetAddress,
        options: SessionOptions,
    ) -> Result<Self, LoginError> {
        let isid = options.isid.unwrap_or_else(random_isid);
        let role = Role::first(Some(&address.name), isid);
        let first = log_in_all(&address.portal, role, &options).await?;
        let inner = Rc::new(Inner {
            target: address.name.clone(),
            portal: address.portal.clone(),
            isid,
            state: RefCell::new(State::Down { since: ring::now() }),
            changed: Bell::default(),
            idle: Bell::default(),
            tasks: RefCell::default(),
            tag_count: Cell::new(0),
            queue: RefCell::default(),
            cmd_sn: Cell::new(FIRST_CMD_SN),
            max_cmd_sn: Cell::new(0),
            losses: Cell::new(0),
            fenced: Cell::new(0),
            is_doubtful: Cell::new(false),
            way: RefCell::new(Way::Own),
            group_tag: Cell::new(None),
            has_moved: Cell::new(false),
            is_silent: Cell::new(false),
            management: RefCell::default(),
            texts: RefCell::default(),
            next_other_tag: Cell::new(TAG_OTHER),
            timeout_min: Cell::new(options.nop_interval),
            last_trouble: RefCell::default(),
            is_leaving: Cell::new(false),
            is_asked_to_leave: Cell::new(false),
            back_at: Cell::new(None),
            vain_returns: Cell::new(0),
            has_left: Cell::new(false),
            refusal: recovery::Refusal::default(),
            options,
        });
        let begun = inner.begin(first, Way::Own);
        ring::spawn(recovery::live(inner.clone(), begun));
        Ok(Self(Rc::new(Owner(inner))))
    }

    /// Gives a command to the target, as soon as its window allows.
    pub fn execute(&self, request: Request) -> Pending {
        self.inner().execute(request)
    }

    /// Whether commands can be sent now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.inner().usable().is_some()
    }

    /// How many connections the session has now.
    #[must_use]
    pub fn connections(&self) -> usize {
        match &*self.inner().state.borrow() {
            State::Up(conns) => conns.len(),
            _ => 0,
        }
    }

    /// For how long the session has been without a connection; `None` while it has one.
    #[must_use]
    pub fn down_for(&self) -> Option<Duration> {
        match *self.inner().state.borrow() {
            State::Down { since } => Some(ring::now().saturating_duration_since(since)),
            _ => None,
        }
    }

    /// How often the connection was lost.
    #[must_use]
    pub fn losses(&self) -> u64 {
        self.inner().losses.get()
    }

    /// The number of the last loss of which nothing can come any more.
    #[must_use]
    pub fn fenced(&self) -> u64 {
        self.inner().fenced.get()
    }

    /// Waits until nothing can come any more of what was sent before the loss `loss`.
    ///
    /// # Errors
    /// [`CommandError::Closed`] when the session was closed before that was certain.
    pub async fn until_fenced(&self, loss: u64) -> Result<(), CommandError> {
        let inner = self.inner();
        inner.changed.until(|| inner.fenced.get() >= loss || inner.is_closed()).await;
        if inner.fenced.get() >= loss { Ok(()) } else { Err(CommandError::Closed) }
    }

    /// Notes that the loss `loss` is fenced by other means, such as a reset through another path.
    pub fn set_fenced(&self, loss: u64) {
        self.inner().set_fenced(loss);
    }

    /// Whether the session is back, in another portal group than before, so that its own login has
    /// not fenced what is in doubt.
    #[must_use]
    pub fn needs_reset(&self) -> bool {
        self.is_up() && self.inner().has_moved.get()
    }

    /// Where it lives while its own portal cannot be reached.
    #[must_use]
    pub fn detour(&self) -> Option<PortalAddress> {
        match &*self.inner().way.borrow() {
            Way::Other(portal) => Some(portal.clone()),
            Way::Own => None,
        }
    }

    /// Whether the target has asked the session to log out, and it has not begun to: whoever uses it
    /// has a moment to find another way before it does so by itself.
    #[must_use]
    pub fn is_asked_to_leave(&self) -> bool {
        self.inner().is_asked_to_leave.get() && self.is_up()
    }

    /// Whether the session is on its way from a logout in order to its next login: nothing has failed.
    #[must_use]
    pub fn is_between_logins(&self) -> bool {
        let inner = self.inner();
        !self.is_up() && (inner.is_leaving.get() || inner.has_left.get())
    }

    /// The tag of the portal group that the session belongs to, if the target has told it.
    #[must_use]
    pub fn group_tag(&self) -> Option<u16> {
        self.inner().group_tag.get()
    }

    /// Waits for the next change: a loss, its fencing, a return, the end.
    pub async fn changed(&self) {
        self.inner().changed.rung().await;
    }

    /// Ends the session without a logout: what was sent on it may yet be done.
    pub fn close(&self) {
        self.inner().close();
    }

    /// Where the session is meant to be.
    #[must_use]
    pub fn portal(&self) -> &PortalAddress {
        &self.inner().portal
    }

    /// What went wrong last; empty if nothing did.
    #[must_use]
    pub fn last_trouble(&self) -> String {
        self.inner().last_trouble.borrow().clone()
    }

    fn inner(&self) -> &Rc<Inner> {
        &self.0.0
    }
}

impl Inner {
    fn is_closed(&self) -> bool {
        matches!(*self.state.borrow(), State::Closed)
    }

    /// The connections, if they take new commands.
    fn usable(&self) -> Option<Rc<[Rc<Connection>]>> {
        match &*self.state.borrow() {
            State::Up(conns)
                if !self.is_leaving.get() && !conns.iter().any(|it| it.is_ending()) =>
            {
                Some(conns.clone())
            }
            _ => None,
        }
    }

    /// The first connection, if the session takes new commands.
    fn first_usable(&self) -> Option<Rc<Connection>> {
        self.usable().and_then(|conns| conns.first().cloned())
    }

    /// Takes fresh logins as the session's connections.
    fn begin(self: &Rc<Self>, logged_in: Vec<LoggedIn>, way: Way) -> Begun {
        self.way.replace(way);
        self.cmd_sn.set(FIRST_CMD_SN);
        self.max_cmd_sn.set(FIRST_CMD_SN.wrapping_sub(1));
        self.is_leaving.set(false);
        self.is_asked_to_leave.set(false);
        self.back_at.set((self.losses.get() > 0).then(ring::now));
        self.has_left.set(false);
        self.refusal.clear();
        let first = &logged_in.first().expect("a session has a first connection").outcome;
        let (tag, terms) = (first.portal_group_tag, first.session);
        for LoggedIn { outcome, .. } in &logged_in {
            self.note_window(outcome.exp_cmd_sn, outcome.max_cmd_sn);
        }
        let known = self.group_tag.replace(tag);
        let is_first = self.losses.get() == 0;
        let is_in_doubt = self.fenced.get() < self.losses.get();
        if known != tag && !is_first && is_in_doubt {
            self.has_moved.set(true);
        }
        let connection = |(cid, logged_in): (u16, LoggedIn)| {
            Connection::new(self.clone(), cid, terms, logged_in)
        };
        let begun: Begun = (0..).zip(logged_in).map(connection).collect();
        let conns: Rc<[Rc<Connection>]> = begun.iter().map(|(conn, _)| conn.clone()).collect();
        self.is_silent.set(false);
        *self.state.borrow_mut() = State::Up(conns);
        if !self.has_moved.get() {
            self.set_fenced(self.losses.get());
        }
        self.changed.ring();
        begun
    }

    fn close(&self) {
        let before = self.state.replace(State::Closed);
        if let State::Up(conns) = before {
            conns.iter().for_each(|conn| conn.end(Ending::Abandoned));
            // What was sent may yet be done, as after any loss.
            self.losses.set(self.losses.get() + 1);
        }
        self.fail_all();
        self.changed.ring();
    }

    fn set_fenced(&self, loss: u64) {
        // What has not happened yet is not over.
        let loss = loss.min(self.losses.get());
        if loss > self.fenced.get() {
            self.fenced.set(loss);
            self.changed.ring();
        }
        if self.fenced.get() == self.losses.get() {
            self.is_doubtful.set(false);
            self.has_moved.set(false);
        }
    }

    fn is_home(&self) -> bool {
        *self.way.borrow() == Way::Own
    }

    /// The connection is gone, and with it the nexus.
    fn lost(&self, ending: &Ending) {
        if self.is_closed() {
            return;
        }
        *self.last_trouble.borrow_mut() = ending.to_string();
        self.is_leaving.set(false);
        self.has_left.set(*ending == Ending::LoggedOut);
        *self.state.borrow_mut() = State::Down { since: ring::now() };
        self.losses.set(self.losses.get() + 1);
        self.fail_all();
        self.changed.ring();
    }

    /// Ends every command: none of them will be answered.
    fn fail_all(&self) {
        let loss = self.losses.get();
        let sent = std::mem::take(&mut *self.tasks.borrow_mut());
        for (_, task) in sent {
            self.is_doubtful.set(true);
            task.phase.set(Phase::Over);
            task.answer.set(Err(CommandError::InDoubt { loss }));
        }
        for task in self.queue.take() {
            task.phase.set(Phase::Over);
            task.answer.set(Err(CommandError::NotSent));
        }
        // Whoever waits sees its sender go: the answer of an aborting connection is "rejected".
        for (_, waiting) in self.management.take() {
            waiting.set(TaskResult::REJECTED);
        }
        self.end_texts();
        self.idle.ring();
        // Without any doubt there is nothing to fence.
        if !self.is_doubtful.get() {
            self.set_fenced(loss);
        }
    }

    fn execute(self: &Rc<Self>, request: Request) -> Pending {
        if self.is_closed() {
            return Pending::failed(CommandError::Closed);
        }
        let Some(conns) = self.usable() else { return Pending::failed(CommandError::NotSent) };
        let is_digested = conns.iter().any(|conn| conn.params.data_digest);
        self.timeout_min.set(self.timeout_min.get().min(request.timeout));
        let Some(task) = Task::new(is_digested, request) else {
            return Pending::failed(CommandError::NoMemory);
        };
        self.queue.borrow_mut().push_back(task.clone());
        self.pump();
        Pending::of(task)
    }

    /// Sends what the window allows, in order, each on the connection with the fewest commands.
    pub(crate) fn pump(&self) {
        if self.queue.borrow().is_empty() {
            return;
        }
        let Some(conns) = self.usable() else { return };
        loop {
            let has_room = self.tasks.borrow().len() < self.options.queue_depth as usize;
            if !has_room || !serial_le(self.cmd_sn.get(), self.max_cmd_sn.get()) {
                return;
            }
            let Some(task) = self.queue.borrow_mut().pop_front() else { return };
            let least = conns.iter().min_by_key(|conn| conn.in_flight.get());
            self.send(least.expect("a session has a connection"), &task);
        }
    }

    fn send(&self, conn: &Connection, task: &Rc<Task>) {
        let slot = self.tasks.borrow_mut().insert(task.clone());
        let count = self.tag_count.get().wrapping_add(1) & TAG_COUNT_MAX;
        self.tag_count.set(count);
        let slot = u32::try_from(slot).expect("the queue depth bounds the slots");
        task.itt.set(count << TAG_SLOT_BITS | slot);
        let cmd_sn = self.cmd_sn.get();
        self.cmd_sn.set(cmd_sn.wrapping_add(1));
        task.cmd_sn.set(cmd_sn);
        task.cid.set(conn.cid);
        conn.begin_command();
        task.phase.set(Phase::Sent);

        let is_write = !task.data_out.is_empty();
        let segment_max = conn.params.max_recv_data_segment_peer_bytes;
        let len = if is_write { task.expected_bytes } else { 0 };
        let plan = Unsolicited::plan(&conn.terms, segment_max, len);
        let command = ScsiCommand {
            is_immediate: false,
            is_final: plan.is_final(),
            is_read: task.is_read,
            is_write,
            attribute: TaskAttribute::SIMPLE,
            total_ahs_words: 0,
            data_segment_len_bytes: plan.immediate_bytes,
            lun: task.lun,
            itt: task.itt.get(),
            expected_data_transfer_len_bytes: task.expected_bytes,
            cmd_sn,
            exp_stat_sn: conn.exp_stat_sn.get(),
            cdb: task.cdb,
        };
        conn.mover
            .put_data(&command.to_bhs(), task.data_out.slice(0..plan.immediate_bytes as usize));
        send_data(conn, task, plan.immediate_bytes, plan.end_bytes, (0, RESERVED_TAG));
    }

    /// The task of a tag, if it is under way on this connection.
    pub(crate) fn task(&self, conn: &Connection, itt: u32) -> Option<Rc<Task>> {
        let slot = itt & ((1 << TAG_SLOT_BITS) - 1);
        let tasks = self.tasks.borrow();
        let is_it = |task: &&Rc<Task>| task.itt.get() == itt && task.cid.get() == conn.cid;
        tasks.get(slot as usize).filter(is_it).cloned()
    }

    /// The connection on which a task is under way.
    fn connection_of(&self, task: &Task) -> Option<Rc<Connection>> {
        match &*self.state.borrow() {
            State::Up(conns) => conns.get(usize::from(task.cid.get())).cloned(),
            _ => None,
        }
    }

    /// The task is over.
    fn finish(&self, task: &Task, result: Result<Reply, CommandError>) {
        if task.phase.replace(Phase::Over) == Phase::Over {
            return;
        }
        let slot = task.itt.get() & ((1 << TAG_SLOT_BITS) - 1);
        self.tasks.borrow_mut().try_remove(slot as usize);
        if let Some(conn) = self.connection_of(task) {
            conn.in_flight.set(conn.in_flight.get().saturating_sub(1));
        }
        task.answer.set(result);
        if self.tasks.borrow().is_empty() {
            self.idle.ring();
        }
        self.pump();
    }

    /// Takes ExpCmdSN and MaxCmdSN of a PDU; pairs that contradict themselves, and windows that
    /// shrink, are ignored (RFC 7143 4.2.2.1).
    pub(crate) fn note_window(&self, exp_cmd_sn: u32, max_cmd_sn: u32) {
        let is_sane = serial_le(exp_cmd_sn.wrapping_sub(1), max_cmd_sn);
        if is_sane && serial_lt(self.max_cmd_sn.get(), max_cmd_sn) {
            self.max_cmd_sn.set(max_cmd_sn);
        }
    }

    /// Whether a connection is silent, as its watch finds.
    pub(crate) fn set_silent(&self, conn: &Connection, is_silent: bool) {
        if conn.is_silent.replace(is_silent) == is_silent {
            return;
        }
        let conns = match &*self.state.borrow() {
            State::Up(conns) => conns.clone(),
            _ => return,
        };
        self.is_silent.set(conns.iter().any(|conn| conn.is_silent.get()));
        self.changed.ring();
    }

    /// How often time must be looked at.
    pub(crate) fn look_interval(&self) -> Duration {
        let commands = self.timeout_min.get() / 4;
        (self.options.nop_interval.min(self.options.nop_timeout) / 2).min(commands)
    }

    /// A tag for a PDU that is no SCSI command.
    fn other_tag(&self) -> u32 {
        let tag = self.next_other_tag.get();
        self.next_other_tag.set(if tag == RESERVED_TAG - 1 { TAG_OTHER } else { tag + 1 });
        tag
    }
}

/// Sends the bytes `start..end` of a write as one sequence, for this LUN and Target Transfer Tag.
fn send_data(conn: &Connection, task: &Task, start: u32, end: u32, (lun, ttt): (u64, u32)) {
    let segment_max = conn.params.max_recv_data_segment_peer_bytes;
    for segment in segments(start, end, segment_max) {
        let pdu = DataOut {
            is_final: segment.is_final,
            data_segment_len_bytes: segment.len_bytes,
            lun,
            itt: task.itt.get(),
            ttt,
            exp_stat_sn: conn.exp_stat_sn.get(),
            data_sn: segment.data_sn,
            buffer_offset_bytes: segment.offset_bytes,
        };
        let from = segment.offset_bytes as usize;
        conn.mover
            .put_data(&pdu.to_bhs(), task.data_out.slice(from..from + segment.len_bytes as usize));
    }
}
