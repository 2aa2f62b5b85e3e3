//! Those who have the file open, each of whom hears of losses.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::FileHandle;

use crate::User;

/// Users by the handle that the kernel was given.
#[derive(Debug, Default)]
pub(super) struct Handles {
    next: AtomicU64,
    users: Mutex<HashMap<u64, Arc<User>>>,
}

impl Handles {
    fn users(&self) -> MutexGuard<'_, HashMap<u64, Arc<User>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, user: User) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.users().insert(handle, Arc::new(user));
        FileHandle(handle)
    }

    /// `None` for a handle that was never given or is closed.
    pub(super) fn user(&self, handle: FileHandle) -> Option<Arc<User>> {
        self.users().get(&handle.0).cloned()
    }

    pub(super) fn close(&self, handle: FileHandle) {
        self.users().remove(&handle.0);
    }
}
