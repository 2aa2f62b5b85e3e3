//! Memory that all cores share, in size classes, under one budget.
//!
//! Chunks of 4 MiB are mapped and divided into blocks of 16 pages. A block has no list of its pieces:
//! which of its pages are used is one bit each, and a piece is a run of pages whose place is a multiple
//! of its length. So pieces that were given back are joined, and split anew for another class, without
//! anybody doing so: classes that alternate use the same pages again.
//!
//! ```text
//! chunk   | block 0 | block 1 | ...                        | block 63 |   4 MiB, one mapping
//! block   used   1000 0011 0000 0000   a piece of 4 KiB at page 0, one of 8 KiB at page 6
//!         mapped 1100 0011 1111 1111   page 1 and the last half are kept for later
//! ```
//!
//! Invariants, which `State::change` and who calls it keep:
//!
//! 1. A used page is mapped, and belongs to one [`Piece`].
//! 2. `used_bytes` and `mapped_bytes` count these pages of all blocks, and `mapped_bytes` is never more
//!    than the larger of `budget_bytes` and `used_bytes`, once `set_budget` has returned.
//! 3. A block is in the set of the largest class that it has room for, if any, and in that of blocks
//!    with pages for later if it has some.
//! 4. A chunk without mapped pages is unmapped.
//!
//! What is bounded is memory. Of address space, which costs nothing, up to 16 times as much may be held,
//! if of each block one page stays in use.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Map, PAGE_BYTES};

/// Of a block, each with a bit in its masks.
const BLOCK_PAGES: usize = u16::BITS as usize;
const BLOCK_BYTES: usize = BLOCK_PAGES * PAGE_BYTES;
const CHUNK_BLOCKS: usize = 64;
const CHUNK_BYTES: usize = CHUNK_BLOCKS * BLOCK_BYTES;
/// A piece of class `c` has `1 << c` pages.
const CLASSES: usize = BLOCK_PAGES.ilog2() as usize + 1;
const CLASS_MAX: usize = CLASSES - 1;
/// By class, the pages at which a piece may begin.
const BEGINNINGS: [u16; CLASSES] = [0xffff, 0x5555, 0x1111, 0x0101, 0x0001];
/// The set of blocks with pages for later, behind those by class.
const SPARE: usize = CLASSES;

/// Memory that all cores share, in size classes, under one budget. A clone is another handle of the same
/// memory; buffers may outlive all handles and may be dropped on any thread.
///
/// A lock is held while a buffer is taken or given back, and for nothing else: references to its bytes
/// are counted without.
#[derive(Clone, Debug)]
pub struct SharedPool(Arc<Shared>);

impl SharedPool {
    /// The largest buffer.
    pub const LARGEST_BYTES: usize = BLOCK_BYTES;

    /// A pool that may have so much memory of the system. It has none yet.
    #[must_use]
    pub fn new(budget_bytes: usize) -> Self {
        let state = State { budget_bytes, ..State::default() };
        Self(Arc::new(Shared(Mutex::new(state))))
    }

    /// May be lowered below what is used: nothing new is given then until enough came back. What is kept
    /// for later beyond the budget goes back to the system now, what is used as soon as it is given back.
    pub fn set_budget(&self, bytes: usize) {
        self.0.lock().budget_bytes = bytes;
        self.trim(bytes);
    }

    /// What the pool may have of the system.
    #[must_use]
    pub fn budget_bytes(&self) -> usize {
        self.0.lock().budget_bytes
    }

    /// In buffers that somebody holds, rounded up to their classes.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.lock().used_bytes
    }

    /// What the pool has of the system: used, and kept for later.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.0.lock().mapped_bytes
    }

    /// Gives back to the system what nobody uses, until no more than `bytes` are mapped or nothing unused
    /// is left.
    pub fn trim(&self, bytes: usize) {
        // One lock for each step: gigabytes take the system a second, and others must not wait for it.
        while self.0.lock().release_beyond(bytes) {}
    }

    /// A buffer of `len` bytes. `None` when it and all that is used exceed the budget, when the system has
    /// no memory, and when `len` is zero or above [`LARGEST_BYTES`](Self::LARGEST_BYTES).
    #[must_use]
    pub fn take(&self, len: usize) -> Option<SharedBuf> {
        if len == 0 || len > Self::LARGEST_BYTES {
            return None;
        }
        let class = (Self::capacity_of(len) / PAGE_BYTES).ilog2() as usize;
        let (block, page, ptr) = self.0.lock().take(class)?;
        let piece = Piece { pool: self.0.clone(), ptr, block, page, class };
        Some(SharedBuf { piece, len })
    }

    /// What a buffer of `len` bytes takes: a power of two from 4 KiB to 64 KiB, nothing for none, and more
    /// than there is for what no buffer holds.
    #[must_use]
    pub fn capacity_of(len: usize) -> usize {
        match len {
            0 => 0,
            1..=BLOCK_BYTES => len.max(PAGE_BYTES).next_power_of_two(),
            _ => usize::MAX,
        }
    }
}

/// What the handles of a pool and its pieces have in common.
struct Shared(Mutex<State>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Only assertions panic in here, and in production a panic ends the process.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Shared")
            .field("budget_bytes", &state.budget_bytes)
            .field("used_bytes", &state.used_bytes)
            .field("mapped_bytes", &state.mapped_bytes)
            .finish()
    }
}

/// The pages of a pool. See the invariants above.
#[derive(Default)]
struct State {
    budget_bytes: usize,
    used_bytes: usize,
    mapped_bytes: usize,
    /// `None` where there is none any more, until the next one comes there.
    chunks: Vec<Option<Map>>,
    /// Where in `chunks` there is none.
    gone: Vec<usize>,
    /// [`CHUNK_BLOCKS`] of each chunk; those of one that is gone are all zero and in no set.
    blocks: Vec<Block>,
    /// Blocks by the largest class that they have room for, then those with pages for later.
    sets: [Vec<usize>; CLASSES + 1],
}

/// Bit `i` of its masks is page `i`.
#[derive(Clone, Copy, Default)]
struct Block {
    used: u16,
    mapped: u16,
    /// Where it stands in each of its [`sets`](Self::sets).
    at: [usize; 2],
}

impl Block {
    /// The set for its room and the one for its pages for later.
    fn sets(&self) -> [Option<usize>; 2] {
        [room(self.used), (self.mapped != self.used).then_some(SPARE)]
    }
}

/// A mask of `count` pages from `page` on: at least one, all inside a block.
fn pages(page: usize, count: usize) -> u16 {
    debug_assert!(count > 0 && page + count <= BLOCK_PAGES, "pages outside the block");
    (u16::MAX >> (BLOCK_PAGES - count)) << page
}

/// By class, where unused runs of its length begin.
fn unused_runs(used: u16) -> [u16; CLASSES] {
    let mut runs = [!used; CLASSES];
    for (class, beginnings) in BEGINNINGS.into_iter().enumerate().skip(1) {
        let halves = runs[class - 1];
        let half_pages = 1_usize << (class - 1);
        runs[class] = halves & (halves >> half_pages) & beginnings;
    }
    runs
}

/// The largest class that a block has room for.
fn room(used: u16) -> Option<usize> {
    unused_runs(used).iter().rposition(|&runs| runs != 0)
}

/// Where a piece of `class` goes in a block that has room for it: into the smallest gap, so that larger
/// ones stay whole.
fn best_page(used: u16, class: usize) -> Option<usize> {
    let runs = unused_runs(used);
    let not_in_larger = |class: usize| {
        let both_halves = |&larger: &u16| larger | (larger << (1_usize << class));
        runs[class] & !runs.get(class + 1).map_or(0, both_halves)
    };
    let gaps = (class..CLASSES).map(not_in_larger).find(|&gaps| gaps != 0)?;
    Some(gaps.trailing_zeros() as usize)
}

/// So many bytes are the pages of a mask.
fn bytes_of(mask: u16) -> usize {
    mask.count_ones() as usize * PAGE_BYTES
}

impl State {
    /// Block and page of a new piece, and its address.
    fn take(&mut self, class: usize) -> Option<(usize, usize, NonNull<u8>)> {
        let cap = PAGE_BYTES << class;
        if cap > self.budget_bytes.saturating_sub(self.used_bytes) {
            return None;
        }
        let block = self.with_room(class)?;
        let Block { used, mapped, .. } = self.blocks[block];
        let page = best_page(used, class).expect("a block is in the set of what it has room for");
        let piece = pages(page, 1 << class);
        self.change(block, used | piece, mapped | piece);
        // Those of others, for pages of this piece that were not mapped: nobody touched them yet.
        while self.release_beyond(self.budget_bytes) {}
        debug_assert!(self.mapped_bytes <= self.budget_bytes, "all that is not used was released");
        let at = block % CHUNK_BLOCKS * BLOCK_BYTES + page * PAGE_BYTES;
        // SAFETY: a block and all of its pages lie inside the mapping of its chunk.
        let ptr = unsafe { self.map_of(block).ptr().add(at) };
        Some((block, page, ptr))
    }

    /// Takes back a piece that [`take`](Self::take) gave.
    fn give_back(&mut self, block: usize, page: usize, class: usize) {
        let Block { used, mapped, .. } = self.blocks[block];
        let piece = pages(page, 1 << class);
        assert_eq!(used & piece, piece, "a piece is given back once");
        self.change(block, used & !piece, mapped);
        while self.release_beyond(self.budget_bytes) {}
    }

    /// The mapping of a block that is in some set.
    fn map_of(&self, block: usize) -> &Map {
        self.chunks[block / CHUNK_BLOCKS].as_ref().expect("blocks in use have a chunk")
    }

    /// A block with room for a piece of `class` and as little more as there is.
    fn with_room(&mut self, class: usize) -> Option<usize> {
        let found = self.sets[class..=CLASS_MAX].iter().find_map(|set| set.last().copied());
        if found.is_some() {
            return found;
        }
        let map = Map::anonymous(CHUNK_BYTES).ok()?;
        map.use_small_pages();
        let chunk = self.gone.pop().unwrap_or_else(|| {
            self.chunks.push(None);
            self.blocks.resize(self.chunks.len() * CHUNK_BLOCKS, Block::default());
            self.chunks.len() - 1
        });
        self.chunks[chunk] = Some(map);
        let first = chunk * CHUNK_BLOCKS;
        for block in (first..first + CHUNK_BLOCKS).rev() {
            self.put_in(CLASS_MAX, 0, block);
        }
        Some(first)
    }

    /// The one place where pages change hands: counts them, and moves the block to its sets.
    fn change(&mut self, block: usize, used: u16, mapped: u16) {
        assert_eq!(used & !mapped, 0, "a used page is mapped");
        let before = self.blocks[block];
        let after = Block { used, mapped, ..before };
        self.used_bytes = self.used_bytes + bytes_of(used) - bytes_of(before.used);
        self.mapped_bytes = self.mapped_bytes + bytes_of(mapped) - bytes_of(before.mapped);
        self.blocks[block] = after;
        for (which, (old, new)) in before.sets().into_iter().zip(after.sets()).enumerate() {
            if old == new {
                continue;
            }
            if let Some(set) = old {
                self.take_out(set, which, block);
            }
            if let Some(set) = new {
                self.put_in(set, which, block);
            }
        }
    }

    /// Puts a block into a set, the `which`th of its own.
    fn put_in(&mut self, set: usize, which: usize, block: usize) {
        self.blocks[block].at[which] = self.sets[set].len();
        self.sets[set].push(block);
    }

    /// Takes a block out of a set; the last one of the set goes where it stood.
    fn take_out(&mut self, set: usize, which: usize, block: usize) {
        let at = self.blocks[block].at[which];
        let taken = self.sets[set].swap_remove(at);
        assert_eq!(taken, block, "a block knows where it stands");
        if let Some(&moved) = self.sets[set].get(at) {
            self.blocks[moved].at[which] = at;
        }
    }

    /// Gives what one block keeps for later back to the system if more than `bytes` are mapped. Whether
    /// it did: if not, so few are mapped, or all are used.
    ///
    /// The lock is held meanwhile: else somebody could be given the pages that are about to be lost.
    fn release_beyond(&mut self, bytes: usize) -> bool {
        if self.mapped_bytes <= bytes {
            return false;
        }
        let Some(&block) = self.sets[SPARE].first() else { return false };
        let Block { used, mapped, .. } = self.blocks[block];
        let begin = block % CHUNK_BLOCKS * BLOCK_BYTES;
        let mut spare = mapped & !used;
        while spare != 0 {
            let page = spare.trailing_zeros() as usize;
            let count = (spare >> page).trailing_ones() as usize;
            self.map_of(block).release(begin + page * PAGE_BYTES, count * PAGE_BYTES);
            spare &= !pages(page, count);
        }
        self.change(block, used, used);
        self.unmap_if_empty(block / CHUNK_BLOCKS);
        true
    }

    /// Unmaps a chunk if none of its pages is mapped, and so none is used.
    fn unmap_if_empty(&mut self, chunk: usize) {
        let blocks = chunk * CHUNK_BLOCKS..(chunk + 1) * CHUNK_BLOCKS;
        if self.blocks[blocks.clone()].iter().any(|block| block.mapped != 0) {
            return;
        }
        for block in blocks {
            self.take_out(CLASS_MAX, 0, block);
            self.blocks[block] = Block::default();
        }
        self.chunks[chunk] = None;
        self.gone.push(chunk);
    }
}

/// A run of pages that is given back when it is dropped.
///
/// Invariant: `ptr` is the address of `1 << class` pages that are marked as used in `pool` for this piece
/// alone, so they stay mapped as long as it lives.
struct Piece {
    pool: Arc<Shared>,
    ptr: NonNull<u8>,
    block: usize,
    page: usize,
    class: usize,
}

// SAFETY: its pages belong to the process, not to the thread that took them, and are given back under the
// lock of the pool; the piece itself only holds their address.
unsafe impl Send for Piece {}
// SAFETY: as above; `&Piece` gives no access to the contents.
unsafe impl Sync for Piece {}

impl Piece {
    fn capacity(&self) -> usize {
        PAGE_BYTES << self.class
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.pool.lock().give_back(self.block, self.page, self.class);
    }
}

/// A buffer of a [`SharedPool`] that one has to itself, to be written before it is shared: 4096-aligned,
/// its contents initialized but arbitrary (whatever its last user left).
pub struct SharedBuf {
    piece: Piece,
    /// Of bytes as asked for, at most the capacity of the piece.
    len: usize,
}

impl SharedBuf {
    /// This buffer as shared, read-only bytes.
    #[must_use]
    pub fn freeze(self) -> SharedData {
        let Self { piece, len } = self;
        SharedData { piece: Arc::new(piece), len }
    }
}

impl Deref for SharedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece holds at least `len` initialized bytes (fresh mappings are zero), and this
        // `SharedBuf` is its only user.
        unsafe { std::slice::from_raw_parts(self.piece.ptr.as_ptr(), self.len) }
    }
}

impl DerefMut for SharedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.piece.ptr.as_ptr(), self.len) }
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cap = self.piece.capacity();
        f.debug_struct("SharedBuf").field("len", &self.len).field("cap", &cap).finish()
    }
}

/// Bytes of a [`SharedPool`] that do not change any more. A clone is one more reference to them, from any
/// thread; the last one gives them back.
#[derive(Clone)]
pub struct SharedData {
    piece: Arc<Piece>,
    len: usize,
}

impl SharedData {
    /// How many bytes of the pool it holds, however many others refer to the same.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.piece.capacity()
    }
}

impl Deref for SharedData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the piece holds at least `len` initialized bytes, which nobody writes: the `SharedBuf`
        // that could is gone, and the piece is not given back while `self` counts.
        unsafe { std::slice::from_raw_parts(self.piece.ptr.as_ptr(), self.len) }
    }
}

impl fmt::Debug for SharedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedData").field("len", &self.len).field("cap", &self.capacity()).finish()
    }
}

#[cfg(test)]
mod tests;
