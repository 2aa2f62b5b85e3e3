//! Loading metadata pages.

use std::sync::Arc;

use super::{Core, State};
use crate::error::ArrayError;
use crate::tree::{Missing, PageRef};

impl Core {
    /// Does `step` under the lock, again and again until all pages that it needs are in memory.
    ///
    /// # Errors
    /// [`ArrayError::Damaged`] when a page cannot be had from any copy.
    pub(crate) async fn with_pages<T>(
        &self,
        mut step: impl FnMut(&mut State) -> Result<T, Missing>,
    ) -> Result<T, ArrayError> {
        let mut failed: Option<PageRef> = None;
        loop {
            let missing = match step(&mut self.lock()) {
                Ok(value) => return Ok(value),
                Err(missing) => missing,
            };
            self.bring(missing, &mut failed).await?;
        }
    }

    /// Brings a page into the cache for who looks again afterwards; `failed` is kept between two looks.
    ///
    /// # Errors
    /// [`ArrayError::Damaged`] when it is asked for again although no copy of it could be had.
    pub(crate) async fn bring(
        &self,
        Missing(wanted): Missing,
        failed: &mut Option<PageRef>,
    ) -> Result<(), ArrayError> {
        if *failed == Some(wanted) {
            let (set, index) = (wanted.addr.set().0, wanted.addr.index());
            let what = format!("no copy of metadata page {index} of set {set} is whole");
            tracing::error!("{what}");
            return Err(ArrayError::Damaged(what));
        }
        // A page that a checkpoint replaced meanwhile cannot be verified any more, and is not asked
        // for again.
        *failed = (!self.load(wanted).await).then_some(wanted);
        Ok(())
    }

    /// Brings a page into the cache; false when no copy of it is whole.
    async fn load(&self, wanted: PageRef) -> bool {
        // Hosts wait for pages with their buffers in hand.
        match ring::with_reserve(self.read_page(wanted)).await {
            Some(page) => {
                self.lock().pages.insert(wanted, Arc::new(page));
                true
            }
            None => false,
        }
    }
}
