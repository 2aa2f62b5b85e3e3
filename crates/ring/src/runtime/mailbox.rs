//! How other threads reach a core: a queue under a mutex and an eventfd that the ring reads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use io_uring::opcode;

use super::executor::TaskId;
use super::{Core, FdRef, Kept, Op};

type Closure = Box<dyn FnOnce() + Send>;

enum Job {
    Run(Closure),
    Wake(TaskId),
}

/// All mailboxes, so that a waker, which is only a number, finds its core.
static MAILBOXES: Mutex<Vec<Weak<Mailbox>>> = Mutex::new(Vec::new());
static NEXT_UID: AtomicU16 = AtomicU16::new(0);

pub(crate) struct Mailbox {
    core_uid: u16,
    /// `None` once the core has ended.
    jobs: Mutex<Option<Vec<Job>>>,
    bell: Arc<OwnedFd>,
    /// Set from ringing the bell until the core begins to look into the queue.
    rung: AtomicBool,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Arc<Mailbox>> {
        // SAFETY: eventfd takes two numbers and returns a descriptor or -1.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and belongs to nobody else.
        let bell = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let mailbox = Arc::new(Mailbox {
            core_uid: NEXT_UID.fetch_add(1, Ordering::Relaxed),
            jobs: Mutex::new(Some(Vec::new())),
            bell,
            rung: AtomicBool::new(false),
        });
        let mut all = lock(&MAILBOXES);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&mailbox));
        Ok(mailbox)
    }

    pub(super) fn core_uid(&self) -> u16 {
        self.core_uid
    }

    /// Queues `closure`; `false` (and it is dropped) when the core has ended.
    pub(super) fn run(&self, closure: Closure) -> bool {
        self.post(Job::Run(closure))
    }

    fn post(&self, job: Job) -> bool {
        match lock(&self.jobs).as_mut() {
            Some(jobs) => jobs.push(job),
            None => return false,
        }
        if !self.rung.swap(true, Ordering::AcqRel) {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: writes eight bytes from a live array. It cannot block: the counter is far
            // from its limit, for `rung` lets one write pass per read.
            unsafe { libc::write(self.bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
        true
    }

    /// Refuses new jobs and drops those that wait.
    pub(super) fn close(&self) {
        let jobs = lock(&self.jobs).take();
        drop(jobs);
    }

    fn take(&self) -> Vec<Job> {
        // Before the queue is looked at: who posts after that rings again.
        self.rung.store(false, Ordering::Release);
        lock(&self.jobs).as_mut().map(std::mem::take).unwrap_or_default()
    }
}

/// A panic under one of these locks leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The task of each core that serves its mailbox.
pub(super) async fn serve() {
    let core = Core::current();
    let mailbox = core.mailbox.clone();
    drop(core);
    loop {
        let mut word = Box::new(0_u64);
        let fd = FdRef::Shared(mailbox.bell.clone());
        let entry = opcode::Read::new(fd.raw(), (&raw mut *word).cast(), 8).build();
        // SAFETY: the entry points into the box that is kept, and names the kept descriptor.
        let mut read = unsafe { Op::start(entry, fd, Kept::Word { _word: word }) };
        std::future::poll_fn(|cx| read.poll(cx)).await;
        for job in mailbox.take() {
            match job {
                Job::Run(closure) => closure(),
                Job::Wake(task) => Core::current().tasks.wake(task),
            }
        }
    }
}

/// Wakes a task of another core, if that core still runs.
pub(super) fn wake_remote(task: TaskId) {
    let mailbox = lock(&MAILBOXES)
        .iter()
        .filter_map(Weak::upgrade)
        .find(|mailbox| mailbox.core_uid == task.core_uid());
    if let Some(mailbox) = mailbox {
        mailbox.post(Job::Wake(task));
    }
}
