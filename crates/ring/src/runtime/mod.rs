//! One core: a ring, the tasks that wait on it, and the loop that drives both.
//!
//! A turn of the loop: take completions, run the tasks they woke until none is ready, run the tasks
//! that asked for the end of the turn (they send what the others produced), then one system call
//! that submits everything and waits for more.

mod batch;
mod executor;
mod launch;
mod mailbox;
mod op;
mod probe;
mod recv_bufs;
mod spin;
mod task_box;
#[cfg(test)]
pub(crate) mod tests;
mod timer;
mod uring;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::mem;

pub use batch::SendBatch;
pub use launch::{CoreId, CorePanic, Cores, Remote, launch, remote};
pub use recv_bufs::RecvBuf;
pub use spin::SpinPolicy;
pub use timer::{Sleep, sleep, sleep_until, timeout};

pub(crate) use mailbox::Mailbox;
pub(crate) use op::{Completion, FdRef, Kept, Op};
pub(crate) use probe::explain;
pub(crate) use recv_bufs::RecvBufs;

use executor::Tasks;
use op::Ops;
use spin::Spin;
use task_box::TaskBox;
use timer::Timers;
use uring::Uring;

/// How a core is set up.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Size of one receive buffer: the most that one `recv` returns.
    pub recv_buf_bytes: usize,
    /// Receive buffers per core, shared by its connections and taken only while data waits in
    /// them; a power of two.
    pub recv_bufs: u16,
    /// What all [`Buf`](crate::Buf)s of the core together may take.
    pub buf_budget_bytes: usize,
    /// For tests: one in so many requests for a buffer is refused, as if there were no memory; 0
    /// refuses none.
    pub buf_refuse_one_in: u32,
    /// When to spin for the next event instead of sleeping.
    pub spin: SpinPolicy,
    /// Pin each thread of [`launch()`] to one of the processors this process may use.
    pub pin: bool,
}

impl Default for CoreConfig {
    fn default() -> CoreConfig {
        CoreConfig {
            recv_buf_bytes: 128 << 10,
            recv_bufs: 64,
            buf_budget_bytes: 256 << 20,
            buf_refuse_one_in: 0,
            spin: SpinPolicy::Balanced,
            pin: false,
        }
    }
}

/// Tasks polled in one turn before the ring is looked at again, so that tasks which wake each other
/// for ever do not keep input and output waiting.
const POLLS_PER_TURN_MAX: usize = 1024;
/// How long a core that ends waits for the kernel to let go of its buffers.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(10);

const NO_CORE: &str = "called outside of ring::block_on and ring::launch";

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

pub(crate) struct Core {
    id: CoreId,
    uring: Uring,
    ops: Ops,
    tasks: Tasks,
    /// Tasks that wait for the end of the turn.
    turn_end: RefCell<Vec<Waker>>,
    timers: Timers,
    spin: Spin,
    now: Cell<Instant>,
    mailbox: Arc<Mailbox>,
    peers: Arc<[Remote]>,
    pub(crate) recv_bufs: Rc<RecvBufs>,
}

impl Core {
    fn new(cfg: &CoreConfig, id: CoreId, peers: Arc<[Remote]>) -> io::Result<Rc<Core>> {
        let uring = Uring::new()?;
        let recv_bufs = RecvBufs::new(&uring, cfg.recv_bufs, cfg.recv_buf_bytes)?;
        mem::set_pool_budget(cfg.buf_budget_bytes);
        mem::refuse_one_in(cfg.buf_refuse_one_in, None);
        let mailbox = peers[usize::from(id)].mailbox().clone();
        Ok(Rc::new(Core {
            id,
            uring,
            ops: Ops::default(),
            tasks: Tasks::new(mailbox.core_uid()),
            turn_end: RefCell::default(),
            timers: Timers::default(),
            spin: Spin::new(cfg.spin),
            now: Cell::new(Instant::now()),
            mailbox,
            peers,
            recv_bufs,
        }))
    }

    /// The core that runs on this thread.
    ///
    /// # Panics
    /// On a thread that is not inside [`block_on`] or [`launch()`].
    pub(crate) fn current() -> Rc<Core> {
        Core::try_current().expect(NO_CORE)
    }

    pub(crate) fn try_current() -> Option<Rc<Core>> {
        CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
    }

    /// Runs turns until `done`.
    fn run_until(&self, done: impl Fn() -> bool) {
        let mut at_end = Vec::new();
        loop {
            self.now.set(Instant::now());
            self.reap();
            self.timers.fire(self.now.get());
            self.tasks.run(POLLS_PER_TURN_MAX);
            // Both keep their capacity: who is woken may ask for the end of the next turn.
            std::mem::swap(&mut at_end, &mut *self.turn_end.borrow_mut());
            at_end.drain(..).for_each(Waker::wake);
            self.tasks.run(POLLS_PER_TURN_MAX);
            if done() {
                return;
            }
            self.submit_and_wait();
        }
    }

    fn submit_and_wait(&self) {
        if self.tasks.any_ready() || !self.turn_end.borrow().is_empty() {
            self.uring.enter(0, None);
            return;
        }
        let deadline = self.timers.next_deadline();
        self.spin.wait(&self.uring, deadline);
    }

    /// Hands every completion that has arrived to its operation.
    fn reap(&self) {
        self.uring.drain(|user_data, completion| {
            self.ops.complete(user_data, completion, &self.recv_bufs);
        });
    }

    /// Ends all tasks and waits until the kernel has let go of every buffer.
    fn shut_down(&self) {
        self.mailbox.close();
        self.tasks.clear();
        self.turn_end.take();
        let deadline = Instant::now() + SHUTDOWN_WAIT;
        self.uring.cancel_all();
        while self.ops.in_flight() > 0 {
            if Instant::now() > deadline {
                tracing::error!(
                    operations = self.ops.in_flight(),
                    "a core ended with I/O that the kernel does not finish; its memory is leaked"
                );
                self.ops.leak();
                break;
            }
            self.uring.enter(1, Some(Duration::from_millis(100)));
            self.reap();
        }
        self.tasks.clear();
    }
}

/// Makes `core` the current one of this thread, and ends it properly even when a task panics.
struct Running(Rc<Core>);

impl Running {
    fn new(core: Rc<Core>) -> Running {
        CURRENT.with(|current| {
            let before = current.replace(Some(core.clone()));
            assert!(before.is_none(), "block_on inside of a running core");
        });
        Running(core)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shut_down();
        CURRENT.with(|current| current.take());
    }
}

fn run<T: 'static>(core: Rc<Core>, main: impl Future<Output = T> + 'static) -> T {
    let running = Running::new(core);
    let result = Rc::new(Cell::new(None));
    let slot = result.clone();
    let finished = Rc::new(Cell::new(false));
    let finish = finished.clone();
    spawn(mailbox::serve());
    spawn(async move {
        slot.set(Some(main.await));
        finish.set(true);
    });
    running.0.run_until(|| finished.get());
    drop(running);
    result.take().expect("`finished` is set after the result")
}

/// Runs `main`, and what it spawns, on a core of its own on the calling thread; returns what `main`
/// returns, when it does. Tasks that still run then are dropped.
///
/// # Errors
/// When io_uring is missing or forbidden; the message says what to do.
///
/// # Panics
/// Inside of a running core, and when a task panics.
pub fn block_on<T: 'static>(
    cfg: &CoreConfig,
    main: impl Future<Output = T> + 'static,
) -> io::Result<T> {
    let peers: Arc<[Remote]> = Arc::new([Remote::new(CoreId::from(0))?]);
    Ok(run(Core::new(cfg, CoreId::from(0), peers)?, main))
}

/// Starts a task on this core. It runs until it returns or the core ends.
///
/// # Panics
/// Outside of a core, as everything in this crate that needs one.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    Core::current().tasks.spawn(TaskBox::new(task));
}

/// Which core this is.
pub fn core_id() -> CoreId {
    Core::current().id
}

/// Changes when this core spins for the next event, from what [`CoreConfig::spin`] said at its start.
pub fn set_spin(policy: SpinPolicy) {
    Core::current().spin.set(policy);
}

/// The time at which this turn of the loop began: cheap, and at most one turn old.
pub fn now() -> Instant {
    let now = CURRENT.with_borrow(|core| core.as_ref().map(|core| core.now.get()));
    now.expect(NO_CORE)
}

/// Resumes when no other task of this turn is ready, before the ring is entered: the moment to send
/// in one go what this turn produced. Called again from there it means the end of the next turn.
pub fn turn_end() -> TurnEnd {
    TurnEnd { registered: false }
}

/// The future of [`turn_end`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct TurnEnd {
    registered: bool,
}

impl Future for TurnEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.registered {
            return Poll::Ready(());
        }
        self.registered = true;
        Core::current().turn_end.borrow_mut().push(cx.waker().clone());
        Poll::Pending
    }
}
