//! A readable range of bytes that is passed on by reference.

use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::buf::SlotRef;
use super::{Buf, Map, SharedData};

/// A counted reference to bytes of a [`Buf`], a [`SharedPool`](super::SharedPool), a
/// [`Region`](super::Region), the heap or a static: cloning and slicing copy nothing. Bytes of a region
/// may be overwritten by another core at any time, so they are only ever copied, never borrowed; all
/// others never change.
#[derive(Clone)]
pub struct Data {
    owner: Owner,
    ptr: NonNull<u8>,
    len: usize,
}

/// What keeps the bytes alive.
#[derive(Clone)]
enum Owner {
    Static,
    Buf { _slot: SlotRef },
    Heap { _bytes: Arc<[u8]> },
    Region { _map: Arc<Map> },
    Shared { _data: SharedData },
}

impl Data {
    pub(super) fn of_slot(slot: SlotRef, ptr: NonNull<u8>, len: usize) -> Data {
        Data { owner: Owner::Buf { _slot: slot }, ptr, len }
    }

    /// `ptr` and `len` must lie inside `map`.
    pub(super) fn of_map(map: Arc<Map>, ptr: NonNull<u8>, len: usize) -> Data {
        Data { owner: Owner::Region { _map: map }, ptr, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of these bytes lie in a buffer of the core's pool, which is not free as long as they are
    /// used.
    pub fn pooled_bytes(&self) -> usize {
        match self.owner {
            Owner::Buf { .. } => self.len,
            Owner::Static | Owner::Heap { .. } | Owner::Region { .. } | Owner::Shared { .. } => 0,
        }
    }

    /// A part of these bytes.
    ///
    /// # Panics
    /// When `range` is not within `0..len()`.
    pub fn slice(&self, range: Range<usize>) -> Data {
        self.clone().into_slice(range)
    }

    /// A part of these bytes, without touching the reference count.
    ///
    /// # Panics
    /// When `range` is not within `0..len()`.
    pub fn into_slice(self, range: Range<usize>) -> Data {
        assert!(range.start <= range.end && range.end <= self.len, "slice outside the data");
        // SAFETY: `range.start` is at most `len`, so it stays inside (or one past) the bytes.
        let ptr = unsafe { self.ptr.add(range.start) };
        Data { owner: self.owner, ptr, len: range.end - range.start }
    }

    /// The bytes themselves, where they cannot change: `None` for those of a region, which must be
    /// copied first (a digest over moving bytes would not match what is sent).
    pub fn as_slice(&self) -> Option<&[u8]> {
        match self.owner {
            Owner::Region { .. } => None,
            Owner::Static | Owner::Buf { .. } | Owner::Heap { .. } | Owner::Shared { .. } => {
                // SAFETY: static, frozen and shared bytes are initialized, immutable, and alive while
                // `self` holds their owner.
                Some(unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) })
            }
        }
    }

    /// Whether the first byte lies at a multiple of `unit_bytes` in memory, as direct I/O wants it.
    ///
    /// # Panics
    /// When `unit_bytes` is zero.
    pub fn is_aligned_to(&self, unit_bytes: usize) -> bool {
        self.ptr.as_ptr().addr().is_multiple_of(unit_bytes)
    }

    /// Copies the bytes from `at` on into `to`.
    ///
    /// # Panics
    /// When there are fewer than `at + to.len()` bytes.
    pub fn copy_to(&self, at: usize, to: &mut [u8]) {
        let end = at.checked_add(to.len());
        assert!(end.is_some_and(|end| end <= self.len), "copy from outside the data");
        // SAFETY: the source range is inside the bytes (checked above), which `self` keeps alive;
        // `to` is exclusively borrowed and cannot overlap: no `&mut` into frozen or region bytes
        // exists. A region may change meanwhile, as any shared memory: the copy is then a mix.
        unsafe {
            std::ptr::copy_nonoverlapping(self.ptr.as_ptr().add(at), to.as_mut_ptr(), to.len());
        }
    }

    /// A private copy in this thread's pool, or `None` when the pool's budget is used up.
    pub fn to_buf(&self) -> Option<Buf> {
        let mut buf = Buf::alloc(self.len)?;
        self.copy_to(0, &mut buf);
        Some(buf)
    }

    /// The same bytes where they cannot change: these, or a copy of those of a region; `None` when the
    /// pool's budget is used up. For whatever must fit them later, as a digest must fit what is sent.
    #[inline]
    pub fn into_stable(self) -> Option<Self> {
        match self.as_slice() {
            Some(_) => Some(self),
            None => self.to_buf().map(Self::from),
        }
    }

    /// What `f` makes of these bytes, which do not change meanwhile: those of a region are copied first;
    /// `None` when the pool's budget is used up.
    pub fn with_stable<T>(&self, f: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self.as_slice() {
            Some(bytes) => Some(f(bytes)),
            None => self.to_buf().map(|copy| f(&copy)),
        }
    }

    /// Address and length, for the kernel to read from.
    pub(crate) fn raw(&self) -> (*const u8, usize) {
        (self.ptr.as_ptr(), self.len)
    }
}

impl Default for Data {
    fn default() -> Data {
        Data::from(&[][..])
    }
}

impl From<Buf> for Data {
    fn from(buf: Buf) -> Data {
        buf.freeze()
    }
}

impl From<&'static [u8]> for Data {
    fn from(bytes: &'static [u8]) -> Data {
        Data { owner: Owner::Static, ptr: NonNull::from(bytes).cast(), len: bytes.len() }
    }
}

impl From<Arc<[u8]>> for Data {
    fn from(bytes: Arc<[u8]>) -> Data {
        let (ptr, len) = (NonNull::from(&*bytes).cast(), bytes.len());
        Data { owner: Owner::Heap { _bytes: bytes }, ptr, len }
    }
}

impl From<SharedData> for Data {
    fn from(data: SharedData) -> Data {
        let (ptr, len) = (NonNull::from(&*data).cast(), data.len());
        Data { owner: Owner::Shared { _data: data }, ptr, len }
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.owner {
            Owner::Static => "static",
            Owner::Buf { .. } => "buf",
            Owner::Heap { .. } => "heap",
            Owner::Region { .. } => "region",
            Owner::Shared { .. } => "shared",
        };
        f.debug_struct("Data").field("kind", &kind).field("len", &self.len).finish()
    }
}
