//! The thread on which requests to etcd run.

use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::store::StoreError;

/// A thread with a runtime, until it is dropped: what runs on it then is given up.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    /// Dropped to end the thread.
    _alive: oneshot::Sender<()>,
}

impl Runtime {
    pub(super) fn start() -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        let run = move || {
            // It ends with an error, when the other end is gone.
            let _ = runtime.block_on(ended);
        };
        thread::Builder::new().name("drystone-etcd".into()).spawn(run)?;
        Ok(Self { handle, _alive: alive })
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(work)
    }
}
