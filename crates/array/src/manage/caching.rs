//! What operators set about the cache of blocks: how large it may be, and which volumes are not in it.

use std::sync::Arc;

use super::Array;
use crate::api::VolumeInfo;
use crate::core::{Core, UNCACHED_BYTES};
use crate::error::ArrayError;
use crate::tables::Tables;

/// Parts of the cache that go before whoever lowers its limit is answered.
const STEPS_AT_ONCE: usize = 8;

impl Array {
    /// Says whether what is read of a volume and its snapshots may be kept in memory.
    ///
    /// # Errors
    /// [`ArrayError::NoSuchVolume`]; [`ArrayError::TablesFull`] when there is no room to remember it.
    pub async fn set_volume_cached(
        &self,
        name: &str,
        cached: bool,
    ) -> Result<VolumeInfo, ArrayError> {
        let id = self.core.lock().volume(name)?.0;
        let (core, gone) = (Arc::clone(&self.core), name.to_owned());
        self.core
            .request(move |tables, state| {
                if !tables.volumes.contains_key(&id) {
                    return Err(ArrayError::NoSuchVolume(gone));
                }
                if cached {
                    tables.uncached.remove(&id);
                } else if !tables.uncached.contains(&id) {
                    core.grant_record(state, UNCACHED_BYTES)?;
                    tables.uncached.insert(id);
                }
                Ok(())
            })
            .await?;
        self.volume(name)
    }

    /// How much memory the cache of blocks may take from now on, until the array is closed. What it has beyond goes
    /// soon, some at once.
    pub fn set_block_cache_bytes(&self, bytes: u64) {
        let cache = &self.core.cache;
        cache.set_bytes_max(bytes);
        let has_more = (0..STEPS_AT_ONCE).all(|_| cache.shrink_some());
        if has_more && cache.begin_to_shrink() {
            let core = Arc::clone(&self.core);
            // Gigabytes take a while. Others on this core go on.
            self.core.env.spawn(Box::pin(async move {
                while core.cache.goes_on_shrinking() {
                    core.let_others_run().await;
                }
            }));
        }
    }
}

impl Core {
    /// The cache follows the tables of a checkpoint that is durable: volumes that are new or were changed are as these
    /// say, those that are gone are forgotten.
    pub(crate) fn settle_caching(&self, before: &Tables, now: &Tables) {
        for id in before.volumes.keys().filter(|id| !now.volumes.contains_key(*id)) {
            self.cache.forget_volume(*id);
        }
        for id in now.volumes.keys() {
            self.cache.volume(*id).set_cached(now.is_cached(*id));
        }
    }
}
