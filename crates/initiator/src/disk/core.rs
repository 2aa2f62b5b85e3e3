//! A disk on the core that owns it: its paths, and the router that directs its commands.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use block::{BlockError, Geometry};
use iscsi::discovery::PortalAddress;
use ring::wait::{Answer, Bell};
use scsi::alua::AccessState;
use scsi::param::encode_lun;

use super::cache::WriteBack;
use super::cdb::{Blocks, Cdb};
use super::facts::Facts;
use super::judge::{Judgement, failure_of, is_miscompare, judge};
use super::news::News;
use super::routes::{Places, TOLD_MAX};
use super::{AttachError, DiskOptions};
use super::{routes, tend};
use crate::address::{TargetAddress, show};
use crate::identity::Hold;
use crate::mutants::{self, Mutant};
use crate::options::SessionOptions;
use crate::paths::plan::Planned;
use crate::paths::{
    Action, Failure, OpId, PageMap, PathId, PathState, PathStatus, Router, Shape, Verdict,
};
use crate::session::{CommandError, Reply, Request, Session, Transfer};

/// One path: a session, once it has been opened.
#[derive(Debug)]
pub(super) struct PathSlot {
    pub(super) address: TargetAddress,
    /// Which session of the plan it is, if there is a plan.
    pub(super) planned: Option<Planned>,
    /// It is not wanted any more, and goes when nothing is under way on it.
    pub(super) is_retired: Cell<bool>,
    pub(super) options: SessionOptions,
    /// What gives its session the right to its ISID, if anything does.
    pub(super) hold: RefCell<Option<Box<dyn Hold>>>,
    pub(super) session: RefCell<Option<Session>>,
    /// Rings when the path should be looked at.
    pub(super) bell: Bell,
    /// What its keeper should look at.
    pub(super) news: Cell<News>,
    /// The losses of its session when what is behind it was looked at last: after another one it is
    /// not used before that was done again.
    pub(super) looked_at: Cell<Option<u64>>,
    /// Where it is noted that its session is.
    pub(super) noted: RefCell<Vec<PortalAddress>>,
    /// Why it is not used, for people.
    pub(super) trouble: RefCell<String>,
    /// What was found behind it is not this disk any more.
    pub(super) is_another_disk: Cell<bool>,
    /// The target has asked for a logout.
    pub(super) was_asked: Cell<bool>,
}

impl PathSlot {
    /// A path without a session.
    pub(super) fn new(
        address: TargetAddress,
        options: SessionOptions,
        planned: Option<Planned>,
    ) -> Self {
        Self {
            address,
            planned,
            options,
            is_retired: Cell::new(false),
            hold: RefCell::default(),
            session: RefCell::default(),
            bell: Bell::default(),
            news: Cell::new(News::NONE),
            looked_at: Cell::new(None),
            noted: RefCell::default(),
            trouble: RefCell::default(),
            is_another_disk: Cell::new(false),
            was_asked: Cell::new(false),
        }
    }

    /// Tells its keeper to look.
    pub(super) fn hear(&self, news: News) {
        self.news.set(self.news.get().with(news));
        self.bell.ring();
    }

    /// Its session, if what is behind it is known to be this disk.
    pub(super) fn trusted_session(&self) -> Option<Session> {
        let session = self.session.borrow().clone()?;
        (self.looked_at.get() == Some(session.losses())).then_some(session)
    }

    /// Why it is not used: what its session says while that is without a connection.
    pub(super) fn last_trouble(&self) -> String {
        let session = self.session.borrow();
        let down = session.as_ref().filter(|session| !session.is_up());
        let of_session = down.map(Session::last_trouble).filter(|text| !text.is_empty());
        if let Some(portal) = session.as_ref().and_then(Session::detour) {
            return format!("reached through {} for now", show(&portal));
        }
        of_session.unwrap_or_else(|| self.trouble.borrow().clone())
    }

    /// Notes where the session is, for a successor that would have to end what is left of it. One that
    /// cannot be noted must not be used: a successor would write while its commands are under way.
    pub(super) fn note_login(&self) -> Result<(), AttachError> {
        let (session, hold) = (self.session.borrow(), self.hold.borrow());
        let (Some(session), Some(hold)) = (&*session, &*hold) else { return Ok(()) };
        let here = PortalAddress { group_tag: session.group_tag(), ..session.portal().clone() };
        // While something is in doubt where it was before, both places count.
        let is_certain = session.fenced() == session.losses();
        let mut noted = self.noted.borrow_mut();
        let mut places = if is_certain { Vec::new() } else { noted.clone() };
        if !places.contains(&here) {
            places.push(here);
        }
        if *noted != places {
            hold.logged_in(&places).map_err(AttachError::NotNoted)?;
            *noted = places;
        }
        Ok(())
    }

    /// Ends its session in order.
    pub(super) async fn log_out(&self) {
        let session = self.session.borrow().clone();
        if let Some(session) = session
            && session.logout().await
            && let Some(hold) = &*self.hold.borrow()
        {
            hold.logged_out();
        }
    }
}

/// What the router has decided about an op, until the op has taken note.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Send(PathId),
    /// As well as where it is.
    Beside(PathId),
    Fail(Failure),
}

/// What the router has decided about the op that has one of its numbers.
#[derive(Debug, Default)]
struct Steps {
    op: Option<OpId>,
    next: Rc<Answer<Step>>,
}

/// A command on its way to the unit.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) cdb: Cdb,
    pub(super) transfer: Transfer,
    /// The first byte that it is about.
    pub(super) at: Option<u64>,
    /// The bytes that it changes.
    pub(super) changes: Option<Range<u64>>,
    /// What it changes is durable once it has its answer (FUA).
    pub(super) is_durable: bool,
    /// A COMPARE AND WRITE: what to look for when its answer cannot be taken at its word.
    pub(super) resolve: Option<Blocks>,
}

impl Command {
    /// One that changes nothing.
    pub(super) fn asking(cdb: Cdb, transfer: Transfer, at: u64) -> Self {
        Self { cdb, transfer, at: Some(at), changes: None, is_durable: false, resolve: None }
    }
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) address: TargetAddress,
    pub(super) lun: u64,
    /// What it was when it was attached; it may have grown since.
    pub(super) facts: Facts,
    /// How many blocks it has; only ever more. Shared with those who use the disk.
    pub(super) blocks: Arc<AtomicU64>,
    pub(super) command_timeout: Duration,
    /// See [`DiskOptions::is_sole_writer`].
    pub(super) is_sole_writer: bool,
    /// By slot; that of a path that has gone holds it until it is used again.
    paths: RefCell<Vec<(PathId, Rc<PathSlot>)>>,
    pub(super) router: RefCell<Router>,
    steps: RefCell<Vec<Steps>>,
    started: Instant,
    /// Rings when the router's next deadline may have come nearer, and at the end.
    timer: Bell,
    armed: Cell<Option<Duration>>,
    is_closed: Cell<bool>,
    /// The page map may be out of date.
    pub(super) is_map_stale: Cell<bool>,
    /// Rings when it is, and at the end.
    pub(super) map_bell: Bell,
    /// Rings when the plan of sessions should be looked at, and at the end.
    pub(super) plan_bell: Bell,
    /// Rings when a path works again, or one is lost, and at the end.
    pub(super) reach_bell: Bell,
    /// What a restart of the target would lose.
    pub(super) cache: WriteBack,
    /// The unit refused WRITE SAME once.
    pub(super) lacks_write_same: Cell<bool>,
}

impl Core {
    /// The shape of the disk now.
    pub(super) fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks.load(Ordering::Relaxed), ..self.facts.geometry }
    }

    pub(super) fn new(
        address: TargetAddress,
        facts: Facts,
        options: &DiskOptions,
        paths: Vec<Rc<PathSlot>>,
        mut router: Router,
    ) -> Rc<Self> {
        router.set_map(PageMap::new(facts.geometry.size_bytes()));
        let blocks = Arc::new(AtomicU64::new(facts.geometry.blocks));
        let lun = encode_lun(address.lun).expect("Disk::attach has checked the number");
        let cache = WriteBack::new(facts.is_volatile);
        let ids: Vec<PathId> = router.path_ids().collect();
        let paths = ids.into_iter().zip(paths).collect();
        let core = Rc::new(Self {
            address,
            cache,
            lun,
            facts,
            blocks,
            command_timeout: options.command_timeout,
            is_sole_writer: options.is_sole_writer,
            paths: RefCell::new(paths),
            router: RefCell::new(router),
            steps: RefCell::default(),
            started: Instant::now(),
            timer: Bell::default(),
            armed: Cell::new(None),
            is_closed: Cell::new(false),
            is_map_stale: Cell::new(true),
            map_bell: Bell::default(),
            plan_bell: Bell::default(),
            reach_bell: Bell::default(),
            lacks_write_same: Cell::new(false),
        });
        ring::spawn(watch_time(core.clone()));
        ring::spawn(routes::keep_map(core.clone()));
        for (path, slot) in core.all_paths() {
            ring::spawn(tend::tend(core.clone(), path, slot));
        }
        core
    }

    /// Adds a path that has yet to be opened.
    pub(super) fn add_path(self: &Rc<Self>, slot: Rc<PathSlot>) -> PathId {
        let path = self.tell(|router, _| {
            let path = router.add_path(AccessState::ActiveOptimized);
            router.lost(path);
            path
        });
        let mut paths = self.paths.borrow_mut();
        match paths.get_mut(path.slot()) {
            Some(place) => *place = (path, slot.clone()),
            None => paths.push((path, slot.clone())),
        }
        drop(paths);
        ring::spawn(tend::tend(self.clone(), path, slot));
        path
    }

    /// Lets go of a path: its keeper ends the session once nothing is under way on it.
    pub(super) fn retire(self: &Rc<Self>, path: PathId) {
        if !self.router.borrow().is_current(path) {
            return;
        }
        self.tell(|router, _| router.retire(path));
        let slot = self.path(path);
        slot.is_retired.set(true);
        slot.bell.ring();
    }

    /// The time as the router knows it.
    pub(super) fn now(&self) -> Duration {
        ring::now().saturating_duration_since(self.started)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Ends everything that runs for the disk. Nothing new starts, so the slots can all be failed.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        for steps in self.steps.borrow().iter() {
            steps.next.set(Step::Fail(Failure::Unreachable));
        }
        self.timer.ring();
        self.map_bell.ring();
        self.plan_bell.ring();
        self.reach_bell.ring();
        for (_, slot) in self.all_paths() {
            drop(slot.session.take());
            slot.bell.ring();
        }
    }

    pub(super) fn path(&self, path: PathId) -> Rc<PathSlot> {
        self.paths.borrow()[path.slot()].1.clone()
    }

    /// Every path that has not gone.
    pub(super) fn all_paths(&self) -> Vec<(PathId, Rc<PathSlot>)> {
        let paths = self.paths.borrow();
        paths.iter().filter(|(_, slot)| !slot.is_retired.get()).cloned().collect()
    }

    pub(super) fn session(&self, path: PathId) -> Option<Session> {
        self.paths.borrow()[path.slot()].1.session.borrow().clone()
    }

    pub(super) fn status(&self, path: PathId) -> PathStatus {
        self.router.borrow().status(path)
    }

    /// What was heard of one path concerns all.
    pub(super) fn spread_news(&self, news: News) {
        if news.lost_writes {
            tracing::error!("{}: a write that was answered has failed", self.address);
            self.cache.lost();
        }
        if !news.access && !news.unit {
            return;
        }
        self.is_map_stale.set(true);
        self.map_bell.ring();
        for (_, slot) in self.all_paths() {
            slot.hear(news);
        }
    }

    /// What is behind the paths may be another disk: nothing more is sent before that is clear.
    pub(super) fn suspend_all(self: &Rc<Self>) {
        for (path, slot) in self.all_paths() {
            slot.looked_at.set(None);
            self.tell(|router, _| router.suspend(path));
            if let Some(session) = slot.session.borrow().as_ref() {
                session.withdraw_queued();
            }
        }
    }

    /// The unit has lost its cache.
    pub(super) fn power_lost(&self) {
        if self.cache.power_lost() {
            tracing::error!(
                "{}: the target has restarted with a volatile cache, and writes that were not \
                 flushed are lost; the next flush fails",
                self.address
            );
        } else {
            // Users who are yet to be taken over may have written before.
            self.cache.note_start();
        }
    }

    /// Tells the router something, and does what it asks for.
    pub(super) fn tell<T>(self: &Rc<Self>, what: impl FnOnce(&mut Router, Duration) -> T) -> T {
        let told = what(&mut self.router.borrow_mut(), self.now());
        self.act();
        told
    }

    fn act(self: &Rc<Self>) {
        loop {
            let action = self.router.borrow_mut().poll_action();
            match action {
                None => break,
                Some(Action::Send { op, path }) => self.step(op, Step::Send(path)),
                Some(Action::Hedge { op, path }) => self.step(op, Step::Beside(path)),
                Some(Action::Fail { op, failure }) => self.step(op, Step::Fail(failure)),
                Some(Action::Fence { via }) => {
                    ring::spawn(tend::fence(self.clone(), via));
                }
            }
        }
        let next = self.router.borrow().next_deadline();
        let is_sooner = |armed: Duration| next.is_some_and(|next| next < armed);
        if self.armed.get().map_or(next.is_some(), is_sooner) {
            self.timer.ring();
        }
    }

    fn step(&self, op: OpId, step: Step) {
        self.steps_of(op).set(step);
    }

    /// Where an op, which the router knows, takes note of what it decides. They follow the router's numbers, of which one
    /// that is over for the router is given to another op before the first has taken note of its end.
    fn steps_of(&self, op: OpId) -> Rc<Answer<Step>> {
        let mut all = self.steps.borrow_mut();
        if all.len() <= op.slot {
            all.resize_with(op.slot + 1, Steps::default);
        }
        let steps = &mut all[op.slot];
        if steps.op != Some(op) && !mutants::is(Mutant::SharedSteps) {
            steps.op = Some(op);
            match Rc::get_mut(&mut steps.next) {
                Some(unused) => *unused = Answer::default(),
                None => steps.next = Rc::default(),
            }
        }
        steps.next.clone()
    }

    /// Runs a command to its end, over as many paths and tries as it takes. It must be polled to its
    /// end: dropped half-way, its blocks would stay closed.
    pub(super) async fn run(self: &Rc<Self>, command: Command) -> Result<Reply, BlockError> {
        if self.is_closed() {
            return Err(failure_of(Failure::Unreachable));
        }
        let len = match &command.transfer {
            Transfer::None => 0,
            Transfer::In(len) => *len,
            Transfer::Out(data) => u32::try_from(data.len()).unwrap_or(u32::MAX),
        };
        let shape = Shape { changes: command.changes.clone(), len_bytes: len, at: command.at };
        let op = self.tell(|router, now| router.submit(shape, now));
        let steps = self.steps_of(op);
        if command.changes.is_none() {
            return self.run_read(op, &steps, &command).await;
        }
        let mut was_sent = false;
        loop {
            let path = match steps.wait().await {
                Step::Send(path) => path,
                Step::Beside(_) => {
                    debug_assert!(false, "a change is never sent beside itself");
                    continue;
                }
                Step::Fail(failure) => return Err(given_up(self.failed(failure), was_sent)),
            };
            let result = self.try_once(path, (op, &command), was_sent).await;
            let was_sent_before = was_sent;
            was_sent |= !judge(&result).is_untouched;
            if self.is_closed() {
                return Err(given_up(failure_of(Failure::Unreachable), was_sent));
            }
            let judgement = self.hear_answer(path, &result);
            self.tell(|router, now| router.tried(op, judgement.verdict, now));
            if judgement.verdict == Verdict::Done {
                if command.changes.is_some() && !command.is_durable {
                    self.cache.wrote();
                }
                let reply = result.expect("only an answer is done");
                let may_be_own = was_sent_before && is_miscompare(&reply);
                return match may_be_own && !self.is_sole_writer {
                    // Its first copy may have written what this one has found, and so may somebody else.
                    true => Err(BlockError::InDoubt),
                    false => Ok(reply),
                };
            }
        }
    }

    pub(super) fn failed(&self, failure: Failure) -> BlockError {
        tracing::error!("{}: {failure}", self.address);
        failure_of(failure)
    }

    /// What an answer says, of the command and of the path. Before the command is sent again.
    pub(super) fn hear_answer(
        self: &Rc<Self>,
        path: PathId,
        result: &Result<Reply, CommandError>,
    ) -> Judgement {
        let judgement = judge(result);
        if let Ok(Reply { referrals, .. }) = result
            && !referrals.is_empty()
        {
            let runs = Places::of(&self.facts, self.geometry()).runs(referrals).take(TOLD_MAX);
            self.tell(|router, _| router.learn(runs));
        }
        self.spread(path, judgement);
        judgement
    }

    pub(super) fn request(&self, cdb: Cdb, transfer: Transfer) -> Request {
        Request { lun: self.lun, cdb, transfer, timeout: self.command_timeout }
    }

    /// Lets the paths' keepers know what an answer says about paths.
    fn spread(self: &Rc<Self>, path: PathId, judgement: Judgement) {
        let Judgement { verdict, news, .. } = judgement;
        let slot = self.path(path);
        let is_path_trouble = matches!(
            verdict,
            Verdict::NotSent | Verdict::InDoubt { .. } | Verdict::Inaccessible { .. }
        );
        if is_path_trouble {
            slot.bell.ring();
        }
        let is_leaving = || slot.session.borrow().as_ref().is_some_and(Session::is_between_logins);
        if verdict == Verdict::NotSent && is_leaving() {
            self.tell(|router, _| router.suspend(path));
        }
        if news.unit {
            self.suspend_all();
        }
        if news.power {
            // This nexus was there before: it has been looked at.
            self.power_lost();
        }
        if news.cleared {
            // A reset ends the tasks of all nexuses, and each is told by itself.
            for (other, slot) in self.all_paths() {
                if other != path {
                    slot.hear(News { poke: true, ..News::NONE });
                }
            }
            ring::spawn(tend::sweep(slot, self.lun));
        }
        self.spread_news(news);
    }

    /// Whether the router has given the path up.
    pub(super) fn has_failed(&self, path: PathId) -> bool {
        self.status(path).state == PathState::Failed
    }

    /// Whether nothing is heard of the path.
    pub(super) fn is_silent(&self, path: PathId) -> bool {
        self.status(path).state == PathState::Silent
    }

    /// A path has become better: silent ones are not needed any more.
    pub(super) fn wake_silent(&self) {
        for (path, slot) in self.all_paths() {
            if self.is_silent(path) {
                slot.bell.ring();
            }
        }
    }

    /// Whether the path is used, or would be if no other were better.
    pub(super) fn works(&self, path: PathId) -> bool {
        let is_out = matches!(
            self.status(path).state,
            PathState::Failed | PathState::Suspended | PathState::Retired
        );
        !is_out && self.router.borrow().is_current(path)
    }
}

/// What is told of a change that gets no answer.
fn given_up(error: BlockError, was_sent: bool) -> BlockError {
    match error {
        BlockError::Unreachable if was_sent && !mutants::is(Mutant::ForgetSent) => {
            BlockError::InDoubt
        }
        other => other,
    }
}

/// Calls the router whenever it wants to be called.
async fn watch_time(core: Rc<Core>) {
    while !core.is_closed() {
        let next = core.router.borrow().next_deadline();
        core.armed.set(next);
        match next {
            None => core.timer.rung().await,
            Some(next) => {
                let left = next.saturating_sub(core.now());
                if !left.is_zero() {
                    ring::timeout(left, core.timer.rung()).await;
                }
            }
        }
        core.tell(|router, now| router.tick(now));
    }
}

#[cfg(test)]
mod tests;
