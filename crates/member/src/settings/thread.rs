//! The thread of the store: its database blocks, and no core may.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use group::settings::Settings;
use ring::{OneshotReceiver, oneshot};

type Job = Box<dyn FnOnce(&mut Settings) + Send>;

/// The thread, which ends when this is dropped and what was asked before is done.
#[derive(Debug)]
pub(super) struct StoreThread {
    jobs: mpsc::Sender<Job>,
    ended: OneshotReceiver<()>,
}

impl StoreThread {
    /// Starts it; `open` is the first that it does.
    ///
    /// # Errors
    /// No thread can be started. `open`'s own error comes with the second answer.
    pub(super) async fn start<E: Send + 'static>(
        open: impl FnOnce() -> Result<Settings, E> + Send + 'static,
    ) -> io::Result<Result<Self, E>> {
        let (jobs, asked) = mpsc::channel::<Job>();
        let (opened, is_open) = oneshot();
        let (ends, ended) = oneshot();
        let work = move || {
            match open() {
                Ok(mut settings) => {
                    opened.send(Ok(()));
                    for job in asked {
                        job(&mut settings);
                    }
                    // The database is closed before anybody hears of the end.
                    drop(settings);
                }
                Err(error) => opened.send(Err(error)),
            }
            ends.send(());
        };
        thread::Builder::new().name("store".to_owned()).spawn(work)?;
        let gone = || io::Error::other("the thread of the configuration store ended");
        let opened = is_open.await.ok_or_else(gone)?;
        Ok(opened.map(|()| Self { jobs, ended }))
    }

    /// Does something with the settings on the thread; `None` if the thread is gone.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot();
        let job: Job = Box::new(move |settings| done.send(wait(work(settings))));
        self.jobs.send(job).ok()?;
        answer.await
    }

    /// Does what was asked, closes the store and ends.
    pub(super) async fn end(self) {
        let Self { jobs, ended } = self;
        drop(jobs);
        ended.await;
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
