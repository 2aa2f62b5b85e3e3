//! What an open connection counts against, until it is gone.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::doors::Entered;
use crate::shared::Shared;

/// One connection: of the target's total, and of its core's load.
#[derive(Debug)]
pub(crate) struct Admission {
    _entered: Entered,
    shared: Arc<Shared>,
    core: usize,
}

impl Admission {
    pub(crate) fn new(entered: Entered, shared: &Arc<Shared>, core: usize) -> Self {
        shared.loads[core].fetch_add(1, Ordering::Relaxed);
        Self { _entered: entered, shared: shared.clone(), core }
    }

    /// The connection goes on on another core.
    pub(crate) fn move_to(&mut self, core: usize) {
        self.shared.loads[self.core].fetch_sub(1, Ordering::Relaxed);
        self.shared.loads[core].fetch_add(1, Ordering::Relaxed);
        self.core = core;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.shared.loads[self.core].fetch_sub(1, Ordering::Relaxed);
    }
}
