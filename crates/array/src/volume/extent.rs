//! Which parts of a volume hold space.

use block::{BlockError, Extent, ExtentState};

use super::Device;
use super::read::in_block;
use crate::CLUSTER_BYTES;

/// Clusters that one answer covers at most.
const CLUSTERS_MAX: u64 = 1 << 14;

impl Device {
    /// The provisioning state from `at` on.
    pub(super) async fn find_extent(self, at: u64) -> Result<Extent, BlockError> {
        let first = at / CLUSTER_BYTES as u64;
        let size_bytes = self.shape().size_bytes();
        let last = size_bytes.div_ceil(CLUSTER_BYTES as u64).min(first + CLUSTERS_MAX);
        let mut next = first;
        let mut state = None;
        let found = self.core.with_pages(|core| {
            while next < last {
                let is_mapped = core.cluster(self.of, next)?.is_mapped();
                if *state.get_or_insert(is_mapped) != is_mapped {
                    break;
                }
                next += 1;
            }
            Ok(())
        });
        found.await.map_err(|error| in_block(&error, at / crate::BLOCK_BYTES as u64))?;
        let end = (next * CLUSTER_BYTES as u64).min(size_bytes);
        let state = match state {
            Some(true) => ExtentState::Mapped,
            _ => ExtentState::Deallocated,
        };
        Ok(Extent { len_bytes: end - at, state })
    }
}
