//! From any core to the one that owns the disk.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use block::{BlockError, IoFuture};
use ring::Data;
use slab::Slab;

use super::Owner;
use super::core::Core;

thread_local! {
    /// The disks that this core owns; a disk that is shared by all cores knows its number.
    static CORES: RefCell<Slab<Rc<Core>>> = const { RefCell::new(Slab::new()) };
}

/// The disk has gone before it was asked,
const GONE: BlockError = BlockError::Unreachable;
/// or while it worked on it, with its core.
const LOST: BlockError = BlockError::InDoubt;

/// The disk on its core.
#[derive(Debug)]
pub(super) struct Home(Owner);

impl Home {
    /// A disk of this core.
    pub(super) fn new(core: Rc<Core>) -> Self {
        let key = CORES.with_borrow_mut(|cores| cores.insert(core));
        let remote = ring::remote(ring::core_id());
        Self(Owner { thread: thread::current().id(), remote, key })
    }

    /// The disk itself, on its core only.
    pub(super) fn here(&self) -> Option<Rc<Core>> {
        if thread::current().id() == self.0.thread { find(self.0.key) } else { None }
    }

    /// Runs something without data on the disk.
    pub(super) fn call<T, F, Fut>(&self, work: F) -> IoFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, BlockError>> + 'static,
    {
        match self.here() {
            // Detached: a command that has begun must come to its end.
            Some(core) => IoFuture::detached(work(core)),
            None => IoFuture::boxed(self.hand_over(work)),
        }
    }

    /// The same, for whoever is no device.
    pub(super) fn hand_over<T, F, Fut>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, BlockError>> + use<T, F, Fut>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, BlockError>> + 'static,
    {
        let (sender, receiver) = ring::oneshot();
        let key = self.0.key;
        self.0.remote.run(move || match find(key) {
            Some(core) => ring::spawn(async move { sender.send(work(core).await) }),
            None => sender.send(Err(GONE)),
        });
        async move { receiver.await.unwrap_or(Err(LOST)) }
    }

    pub(super) fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(core) = self.here() {
            return IoFuture::detached(core.read(at, len));
        }
        let bytes = self.hand_over(move |core| async move {
            let data = core.read(at, len).await?;
            Ok(shared(&data))
        });
        IoFuture::boxed(async move { Ok(Data::from(bytes.await?)) })
    }

    /// Runs something that takes data.
    pub(super) fn send<T, F, Fut>(&self, data: Data, work: F) -> IoFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>, Data) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, BlockError>> + 'static,
    {
        if let Some(core) = self.here() {
            return IoFuture::detached(work(core, data));
        }
        let bytes = shared(&data);
        self.call(move |core| work(core, bytes.into()))
    }

    /// Runs something that takes two pieces of data.
    pub(super) fn send_two<T, F, Fut>(&self, one: Data, two: Data, work: F) -> IoFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(Rc<Core>, Data, Data) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, BlockError>> + 'static,
    {
        if let Some(core) = self.here() {
            return IoFuture::detached(work(core, one, two));
        }
        let (one, two) = (shared(&one), shared(&two));
        self.call(move |core| work(core, one.into(), two.into()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let key = self.0.key;
        let close = move || {
            let core = CORES.with_borrow_mut(|cores| cores.try_remove(key));
            if let Some(core) = core {
                core.close();
            }
        };
        if thread::current().id() == self.0.thread {
            close();
        } else {
            self.0.remote.run(close);
        }
    }
}

fn find(key: usize) -> Option<Rc<Core>> {
    // The core may end, and its thread's values with it, before the disk does.
    CORES.try_with(|cores| cores.borrow().get(key).cloned()).ok().flatten()
}

/// The data in memory that belongs to no core: the one copy on its way from a core to another.
fn shared(data: &Data) -> Arc<[u8]> {
    if let Some(bytes) = data.as_slice() {
        return bytes.into();
    }
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, data.len()).collect();
    data.copy_to(0, Arc::get_mut(&mut bytes).expect("nobody else has it yet"));
    bytes
}
