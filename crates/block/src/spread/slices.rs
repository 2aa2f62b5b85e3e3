//! The slices, who has which bytes, and who may work near a border between two of them.

use std::sync::Arc;
use std::time::Duration;

use ring::Data;

use super::borders::{Borders, Near};
use super::dealing::{Dealing, Piece};
use super::under_way::{Held, UnderWay, Work};
use crate::locks::Access;
use crate::mutants::{self, Mutant};
use crate::{BlockDevice, BlockError, IoFuture, WriteFlags};

/// How long it is tried to end an atomic operation that is half done, which nobody can mend later: nearly as long as
/// hosts that wait for it do.
const HALF_DONE_PATIENCE: Duration = Duration::from_secs(20);

/// What requests need of a spread volume, and what keeps on as long as they run.
///
/// **Borders.** Within one slice the slice itself keeps what is atomic apart. An atomic operation over a border holds
/// it exclusively, and only who works [near to it](Borders) holds it at all. Changes hold it shared. A read within one
/// slice does so only where such an operation has been before; one over a border always, as its parts are read at
/// different moments.
#[derive(Debug)]
pub(super) struct Slices {
    devices: Box<[Arc<dyn BlockDevice>]>,
    dealing: Dealing,
    borders: Borders,
    /// How long an atomic operation that is half done is gone on with.
    pub(super) patience: Duration,
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
        let borders = Borders::new(&dealing, atomic_bytes_max);
        Self { devices: devices.into(), dealing, borders, patience: HALF_DONE_PATIENCE }
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
        let enough = match mutants::is(Mutant::FlushFirst) {
            true => self.devices.len(),
            false => self.dealing.pattern().len(),
        };
        let pieces = self.pieces(at, len).take(enough);
        let mut numbers: Vec<usize> = pieces.map(|piece| piece.slice).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether a border is near, so that these bytes, which one slice has, are not only its own matter.
    #[cfg(test)]
    pub(super) fn is_near_border(&self, at: u64, len: u64) -> bool {
        self.borders.near(at, len).is_some()
    }

    /// Begins a read that one slice does.
    #[inline]
    pub(super) fn read_on_one(self: &Arc<Self>, at: u64, len: usize) -> IoFuture<Data> {
        let marked =
            |near: &Near| self.borders.is_marked(*near) && !mutants::is(Mutant::IgnoreMark);
        match self.borders.near(at, len as u64).filter(marked) {
            None => self.at(at).read(at, len),
            Some(near) => self.beside(near, Work::Read, move |slices| slices.at(at).read(at, len)),
        }
    }

    /// Writes within one slice, if that and the borders can be had now.
    #[inline]
    pub(super) fn write_on_one_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        let Some(near) = self.borders.near(at, bytes.len() as u64) else {
            return self.at(at).write_now(at, bytes, flags);
        };
        let _held = self.borders.try_lock(near, Access::Shared)?;
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
        match self.borders.near(at, len) {
            Some(near) if !mutants::is(Mutant::UnheldChange) => {
                self.beside(near, Work::Change, move |slices| begin(slices.at(at)))
            }
            _ => begin(self.at(at)),
        }
    }

    /// Begins work over borders, beside other plain work.
    pub(super) fn shared<T: 'static>(
        self: &Arc<Self>,
        at: u64,
        len: u64,
        kind: Work,
        begin: impl FnOnce(&Self) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        match self.borders.near(at, len) {
            Some(near) => self.beside(near, kind, begin),
            // There are no atomic operations.
            None => begin(self),
        }
    }

    /// Begins work beside other plain work: now if no atomic operation holds the borders, else when it has let go of
    /// them.
    fn beside<T: 'static>(
        self: &Arc<Self>,
        near: Near,
        kind: Work,
        begin: impl FnOnce(&Self) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        if let Some(held) = self.borders.try_lock(near, Access::Shared) {
            return match begin(self).into_ready() {
                Ok(result) => IoFuture::ready(result),
                Err(work) => IoFuture::boxed(UnderWay::new(kind, work, self.borders.keep(held))),
            };
        }
        let slices = Arc::clone(self);
        IoFuture::boxed(async move {
            let held = slices.borders.lock(near, Access::Shared).await;
            UnderWay::new(kind, begin(&slices), held).await
        })
    }

    /// Waits for all borders near bytes that lie over one.
    pub(super) async fn lock(&self, at: u64, len: u64, access: Access) -> Held {
        let near = self.borders.near(at, len);
        let near = near.expect("an atomic operation over a border is near it");
        self.borders.lock(near, access).await
    }
}
