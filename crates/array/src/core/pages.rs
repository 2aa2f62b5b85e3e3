//! Loading metadata pages.

use std::sync::Arc;

use super::{Core, State};
use crate::DiskId;
use crate::error::ArrayError;
use crate::mutants::{self, Mutant};
use crate::raid::Access;
use crate::tree::{Missing, PageRef};

impl Core {
    /// Does `step` under the lock, again and again until all pages that it needs are in memory.
    ///
    /// It must look up the roots of its trees itself, each time: only pages of trees that are current
    /// when they are asked for are sure to be at their addresses until they are read. Else whoever
    /// calls this holds the [readers](crate::pages::PageCache::readers) since it took the roots, or
    /// keeps checkpoints from running.
    ///
    /// # Errors
    /// [`ArrayError::Damaged`], [`ArrayError::Missing`] when a page cannot be read from any copy.
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
    /// The same when it is asked for again although no copy of it could be read.
    pub(crate) async fn bring(
        &self,
        missing: Missing,
        failed: &mut Option<PageRef>,
    ) -> Result<(), ArrayError> {
        let wanted = missing.page;
        if *failed == Some(wanted) && !mutants::is(Mutant::AskForEver) {
            let error = self.why_unreadable(wanted);
            tracing::error!("{error}");
            return Err(error);
        }
        *failed = (!self.load(&missing).await).then_some(wanted);
        Ok(())
    }

    /// A page of which no copy was whole: is it damaged, or may a disk have it that is not there?
    fn why_unreadable(&self, wanted: PageRef) -> ArrayError {
        let (set, index) = (wanted.addr.set(), wanted.addr.index());
        let is_away = |disk: &DiskId| {
            let member = self.raid.disks().get(*disk);
            member.is_none_or(|member| member.access() == Access::None)
        };
        let disks = self.sets.find(set).into_iter().flat_map(|set| set.seats());
        let away: Vec<DiskId> = disks.map(|seat| seat.disk).filter(is_away).collect();
        let what = format!("metadata page {index} of set {}", set.0);
        if away.is_empty() {
            return ArrayError::Damaged(format!("no copy of {what} is whole"));
        }
        let label = &self.lock().label;
        let missing = away.into_iter().map(|disk| label.name_of(disk)).collect();
        ArrayError::Missing { what, missing }
    }

    /// Brings a page into the cache; false when no copy of it is whole.
    async fn load(&self, missing: &Missing) -> bool {
        // Hosts wait for pages with their buffers in hand.
        match ring::with_reserve(self.read_page(missing)).await {
            Some(page) => {
                self.lock().pages.insert(missing.page, Arc::new(page));
                true
            }
            None => false,
        }
    }
}
