//! Helper threads for the rare call that the ring cannot do.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use crate::wait::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Helpers of the process, all cores together: enough for directory syncs and renames.
const HELPERS: usize = 4;

/// The queue to the helpers, made with the first job.
static QUEUE: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

/// Runs `f` on a helper thread: for rename, sync of a directory and the like. Dropping the future
/// does not stop `f`.
///
/// # Panics
/// When `f` panics or no thread can be started.
pub async fn blocking<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = oneshot();
    let job: Job = Box::new(move || sender.send(f()));
    {
        let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = queue.get_or_insert_with(start_helpers);
        sender.send(job).expect("helpers live as long as the process");
    }
    receiver.await.expect("the blocking call panicked")
}

fn start_helpers() -> mpsc::Sender<Job> {
    let (sender, receiver) = mpsc::channel::<Job>();
    let receiver = std::sync::Arc::new(Mutex::new(receiver));
    for i in 0..HELPERS {
        let receiver = receiver.clone();
        let work = move || loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = next else { return };
            // A panic is the caller's: its receiver sees the sender go. The helper goes on.
            drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)));
        };
        let started = thread::Builder::new().name(format!("helper-{i}")).spawn(work);
        started.expect("helper threads can be started");
    }
    sender
}
