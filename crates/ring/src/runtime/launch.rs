//! Several cores: starting them, reaching them, waiting for their end.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use super::{Core, CoreConfig, Mailbox, run};

/// The number of a core among those launched together, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(u16);

impl From<u16> for CoreId {
    fn from(number: u16) -> CoreId {
        CoreId(number)
    }
}

impl From<CoreId> for usize {
    fn from(id: CoreId) -> usize {
        usize::from(id.0)
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A way to run something on a core, from any thread.
#[derive(Clone)]
pub struct Remote {
    id: CoreId,
    mailbox: Arc<Mailbox>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.id.0).finish()
    }
}

impl Remote {
    pub(super) fn new(id: CoreId) -> io::Result<Remote> {
        Ok(Remote { id, mailbox: Mailbox::new()? })
    }

    pub(super) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The core this leads to.
    pub fn id(&self) -> CoreId {
        self.id
    }

    /// Runs `closure` on the core, soon, after those given before. It must not block; it may
    /// [`spawn`](super::spawn). `false` when the core has ended: the closure was dropped.
    pub fn run(&self, closure: impl FnOnce() + Send + 'static) -> bool {
        self.mailbox.run(Box::new(closure))
    }
}

/// The way to another core of those launched together with this one.
///
/// # Panics
/// When there is no such core, or outside of a core.
pub fn remote(core: CoreId) -> Remote {
    Core::current().peers[usize::from(core)].clone()
}

/// A core ended by a panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("core {core} panicked: {message}")]
pub struct CorePanic {
    /// Which one.
    pub core: CoreId,
    /// What it said.
    pub message: String,
}

/// The cores started by one [`launch`]. Dropping this does not stop them.
#[derive(Debug)]
pub struct Cores {
    remotes: Arc<[Remote]>,
    ends: mpsc::Receiver<Result<(), CorePanic>>,
}

impl Cores {
    /// The way to a core.
    ///
    /// # Panics
    /// When there is no such core.
    pub fn remote(&self, core: CoreId) -> Remote {
        self.remotes[usize::from(core)].clone()
    }

    /// The ways to all cores, in order.
    pub fn remotes(&self) -> &[Remote] {
        &self.remotes
    }

    /// Waits until `main` has returned on every core.
    ///
    /// # Errors
    /// As soon as a core panics, without waiting for the others: half of a program is not worth
    /// keeping, so the caller ends the process.
    pub fn join(self) -> Result<(), CorePanic> {
        for _ in 0..self.remotes.len() {
            self.ends.recv().expect("each core reports its end")?;
        }
        Ok(())
    }
}

/// Starts `n` threads, each with a core of its own, and runs `main(its number)` on each until that
/// returns.
///
/// # Errors
/// When a ring or thread cannot be made; the message says what to do. Cores that had started by
/// then end without having run `main`.
pub fn launch<F, Fut>(n: u16, cfg: &CoreConfig, main: F) -> io::Result<Cores>
where
    F: Fn(CoreId) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let remotes: Arc<[Remote]> =
        (0..n).map(|i| Remote::new(CoreId(i))).collect::<io::Result<Vec<_>>>()?.into();
    let processors = if cfg.pin { allowed_processors() } else { Vec::new() };
    let (end, ends) = mpsc::channel();
    let (ready, readies) = mpsc::channel();
    let mut starts = Vec::new();
    for id in (0..n).map(CoreId) {
        let (start, started) = mpsc::channel::<()>();
        starts.push(start);
        let (cfg, remotes, main) = (cfg.clone(), remotes.clone(), main.clone());
        let (end, ready) = (end.clone(), ready.clone());
        let processor = processors.get(usize::from(id) % processors.len().max(1)).copied();
        thread::Builder::new().name(format!("core-{id}")).spawn(move || {
            if let Some(processor) = processor {
                pin_to(processor);
            }
            let (core, outcome) = match Core::new(&cfg, id, remotes) {
                Ok(core) => (Some(core), Ok(())),
                Err(error) => (None, Err(error)),
            };
            drop(ready.send(outcome));
            drop(ready); // so that the launcher sees it when a thread dies without a word
            let Some(core) = core else { return };
            if started.recv().is_err() {
                return; // another core could not be made
            }
            let ended = catch_unwind(AssertUnwindSafe(|| run(core, main(id))));
            let report = ended.map_err(|panic| CorePanic { core: id, message: text_of(&*panic) });
            drop(end.send(report)); // nobody listens when `Cores` was dropped
        })?;
    }
    drop(ready);
    for _ in 0..n {
        readies.recv().map_err(|_| io::Error::other("a core ended while it was set up"))??;
    }
    for start in starts {
        start.send(()).expect("the core waits for this");
    }
    Ok(Cores { remotes, ends })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}

/// The processors that this process may use.
fn allowed_processors() -> Vec<usize> {
    // SAFETY: a CPU set is a plain bit array, for which zeroes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the set, whose size is given.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if rc != 0 {
        return Vec::new();
    }
    let all = 0..libc::CPU_SETSIZE as usize;
    // SAFETY: reads one bit, below CPU_SETSIZE.
    all.filter(|&processor| unsafe { libc::CPU_ISSET(processor, &set) }).collect()
}

/// Best effort: an unpinned core works as well, only slower.
fn pin_to(processor: usize) {
    // SAFETY: a CPU set is a plain bit array, for which zeroes are valid.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `processor` came out of a set of this size; the kernel only reads the set.
    unsafe {
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}
