//! Memory that I/O works on: pooled aligned buffers of a core, those of a pool that all cores share, shared
//! regions, and references to parts of all of them.

mod arenas;
mod buf;
mod data;
mod map;
mod region;
mod shared;
#[cfg(test)]
mod tests;

pub use arenas::limit_arenas;
pub use buf::{
    Buf, PoolUsage, keep_pool_reserve, pool_reserve, pool_usage, refuse_one_in, set_pool_budget,
    with_reserve,
};
pub use data::Data;
pub use region::Region;
pub use shared::{SharedBuf, SharedData, SharedPool};

pub(crate) use map::Map;

/// The unit of mapping, and the alignment of every [`Buf`].
pub const PAGE_BYTES: usize = 4096;
