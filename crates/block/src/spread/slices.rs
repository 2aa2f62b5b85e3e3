//! The slices, who has which bytes, and who may work near a border between two of them.

use std::sync::Arc;

use ring::Data;

use super::dealing::{Dealing, Piece};
use super::under_way::{Held, UnderWay, Work};
use crate::locks::{Access, StripeLocks};
use crate::mutants::{self, Mutant};
use crate::{BlockDevice, BlockError, IoFuture, WriteFlags};

/// What requests need of a spread volume, and what keeps on as long as they run.
///
/// **Stripes.** Within one slice the slice itself keeps what is atomic apart. An atomic operation over a border
/// holds its stripes exclusively, and reaches no further from the border than its greatest length: so only who
/// works that near to a border holds stripes at all. Changes hold theirs shared. A read within one slice does so
/// only where such an operation has been before; one over a border always, as its parts are read at
/// different moments.
#[derive(Debug)]
pub(super) struct Slices {
    devices: Box<[Arc<dyn BlockDevice>]>,
    dealing: Dealing,
    /// What one atomic operation changes at most; zero where there are none.
    atomic_bytes_max: u64,
    locks: Arc<StripeLocks>,
}

impl Slices {
    /// The pattern names none but these `devices`.
    pub(super) fn new(
        devices: Vec<Arc<dyn BlockDevice>>,
        dealing: Dealing,
        atomic_bytes_max: u32,
    ) -> Self {
        let last = dealing.pattern().iter().max().copied().map(usize::from);
        assert!(
            last.is_some_and(|last| last < devices.len()),
            "pages for a slice that is not there"
        );
        let atomic_bytes_max = u64::from(atomic_bytes_max);
        Self { devices: devices.into(), dealing, atomic_bytes_max, locks: Arc::default() }
    }

    pub(super) fn devices(&self) -> &[Arc<dyn BlockDevice>] {
        &self.devices
    }

    #[inline]
    pub(super) fn at(&self, at: u64) -> &Arc<dyn BlockDevice> {
        &self.devices[self.dealing.slice_at(at)]
    }

    /// How many of `len` bytes from `at` on follow each other on one slice.
    #[inline]
    pub(super) fn run_bytes(&self, at: u64, len: u64) -> u64 {
        self.dealing.run_bytes(at, len)
    }

    pub(super) fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = Piece> + '_ {
        self.dealing.pieces(at, len)
    }

    /// Whether one slice has all of it.
    #[inline]
    pub(super) fn is_on_one(&self, at: u64, len: u64) -> bool {
        self.run_bytes(at, len) == len
    }

    /// The numbers of all slices that have some of it.
    pub(super) fn numbers(&self, at: u64, len: u64) -> Vec<usize> {
        // As many pieces as the pattern has entries are of all slices that it names.
        let pieces = self.pieces(at, len).take(self.dealing.pattern().len());
        let mut numbers: Vec<usize> = pieces.map(|piece| piece.slice).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether an atomic operation over a border may be about some of these bytes, which are on one slice. Each end
    /// of a page counts as a border.
    #[inline]
    pub(super) fn is_near_border(&self, at: u64, len: u64) -> bool {
        let reach = self.atomic_bytes_max;
        if reach == 0 || self.dealing.is_uniform() {
            return false;
        }
        let first = self.dealing.place_in_page(at);
        first < reach || first + len > self.dealing.page_bytes().saturating_sub(reach)
    }

    /// Begins a read that one slice does.
    #[inline]
    pub(super) fn read_on_one(self: &Arc<Self>, at: u64, len: usize) -> IoFuture<Data> {
        let bytes = len as u64;
        if !self.is_near_border(at, bytes)
            || !self.locks.is_marked(at, bytes)
            || mutants::is(Mutant::IgnoreMark)
        {
            return self.at(at).read(at, len);
        }
        self.shared(at, bytes, Work::Read, move |slices| slices.at(at).read(at, len))
    }

    /// Writes within one slice, if that and the stripes can be had now.
    #[inline]
    pub(super) fn write_on_one_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        let len = bytes.len() as u64;
        if !self.is_near_border(at, len) {
            return self.at(at).write_now(at, bytes, flags);
        }
        let _held = self.locks.try_lock(at, len, Access::Shared)?;
        self.at(at).write_now(at, bytes, flags)
    }

    /// Begins a change that one slice does.
    #[inline]
    pub(super) fn change_on_one<T: 'static>(
        self: &Arc<Self>,
        at: u64,
        len: u64,
        begin: impl FnOnce(&Arc<dyn BlockDevice>) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        if !self.is_near_border(at, len) || mutants::is(Mutant::UnheldChange) {
            return begin(self.at(at));
        }
        self.shared(at, len, Work::Change, move |slices| begin(slices.at(at)))
    }

    /// Begins work beside other plain work: now if no atomic operation holds the stripes, else when it has
    /// let go of them.
    pub(super) fn shared<T: 'static>(
        self: &Arc<Self>,
        at: u64,
        len: u64,
        kind: Work,
        begin: impl FnOnce(&Self) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        if let Some(held) = self.locks.try_lock(at, len, Access::Shared) {
            return match begin(self).into_ready() {
                Ok(result) => IoFuture::ready(result),
                Err(work) => {
                    IoFuture::boxed(UnderWay::new(kind, work, held.into_owned(&self.locks)))
                }
            };
        }
        let slices = Arc::clone(self);
        IoFuture::boxed(async move {
            let held = slices.lock(at, len, Access::Shared).await;
            UnderWay::new(kind, begin(&slices), held).await
        })
    }

    pub(super) async fn lock(&self, at: u64, len: u64, access: Access) -> Held {
        Arc::clone(&self.locks).lock(at, len, access).await
    }
}
