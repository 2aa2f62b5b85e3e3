//! How an array is opened.

/// How an array is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Go on although data is on missing disks only: volumes that need them are lost until they are
    /// back. See [`OpenRefusal::can_be_accepted`](crate::membership::OpenRefusal::can_be_accepted).
    pub accept_missing: bool,
    /// Memory for metadata pages.
    pub cache_bytes: usize,
    /// Memory for blocks of volumes; with none, nothing is fetched ahead either.
    pub block_cache_bytes: u64,
    /// Disks that should be there and are not, by name, and why: what operators are told of them.
    pub absent: Vec<(String, String)>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            accept_missing: false,
            cache_bytes: 128 << 20,
            block_cache_bytes: 0,
            absent: Vec::new(),
        }
    }
}
