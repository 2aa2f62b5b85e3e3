//! A disk that does not do what it says it did.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use block::{Compared, Extent, Geometry, IoFuture, WriteFlags};
use ring::{Buf, Data};

/// What it does wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lie {
    /// Its so many-th write is answered and not done.
    LoseWrite(u64),
    /// Writes of the one byte address go to the other, and back.
    Swap(u64, u64),
    /// From one write on it shows what it held at another, earlier one.
    Rewind { copied_at: u64, back_at: u64 },
    /// From its so many-th write on it does what it is asked and answers nothing.
    Mute(u64),
    /// Its so many-th write fails as one over a broken connection does, and is done right after the next one.
    DoLate(u64),
}

#[derive(Debug)]
pub(super) struct LyingDisk {
    inner: Arc<dyn BlockDevice>,
    lie: Lie,
    writes: AtomicU64,
    lied_at: Mutex<Option<u64>>,
    copy: Mutex<Option<Vec<u8>>>,
    late: Mutex<Option<(u64, Vec<u8>)>>,
}

impl LyingDisk {
    pub(super) fn new(inner: Arc<dyn BlockDevice>, lie: Lie) -> Self {
        let (writes, lied_at, copy, late) = Default::default();
        Self { inner, lie, writes, lied_at, copy, late }
    }

    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Where the write that was lost should have gone.
    pub(super) fn lied_at(&self) -> Option<u64> {
        *self.lied_at.lock().unwrap()
    }

    /// All bytes: memory answers at once.
    fn contents(&self) -> Vec<u8> {
        let bytes = self.inner.geometry().size_bytes() as usize;
        let data = self.inner.read(0, bytes).into_ready().unwrap().unwrap();
        let mut all = vec![0; bytes];
        data.copy_to(0, &mut all);
        all
    }

    fn rewind(&self, write: u64, copied_at: u64, back_at: u64) {
        if write == copied_at {
            *self.copy.lock().unwrap() = Some(self.contents());
        }
        if write == back_at {
            let copy = self.copy.lock().unwrap().take().unwrap();
            self.put(0, &copy);
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        let mut buf = Buf::alloc(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        let done = self.inner.write(at, buf.freeze(), WriteFlags::VOLATILE);
        done.into_ready().unwrap().unwrap();
    }
}

impl BlockDevice for LyingDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        self.inner.read(at, len)
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let write = self.writes.fetch_add(1, Ordering::Relaxed) + 1;
        match self.lie {
            Lie::LoseWrite(lost) if write == lost => {
                *self.lied_at.lock().unwrap() = Some(at);
                IoFuture::ready(Ok(()))
            }
            Lie::Swap(one, other) if at == one => self.inner.write(other, data, flags),
            Lie::Swap(one, other) if at == other => self.inner.write(one, data, flags),
            Lie::Rewind { copied_at, back_at } => {
                let done = self.inner.write(at, data, flags);
                self.rewind(write, copied_at, back_at);
                done
            }
            Lie::Mute(from) if write >= from => {
                self.inner.write(at, data, flags).into_ready().unwrap().unwrap();
                IoFuture::boxed(std::future::pending())
            }
            Lie::DoLate(late) if write == late => {
                *self.late.lock().unwrap() = Some((at, data.as_slice().unwrap().to_vec()));
                IoFuture::ready(Err(BlockError::Unreachable))
            }
            Lie::DoLate(late) if write == late + 1 => {
                let done = self.inner.write(at, data, flags);
                let (at, bytes) = self.late.lock().unwrap().take().unwrap();
                self.put(at, &bytes);
                done
            }
            Lie::LoseWrite(_) | Lie::Swap(..) | Lie::Mute(_) | Lie::DoLate(_) => {
                self.inner.write(at, data, flags)
            }
        }
    }

    fn flush(&self) -> IoFuture<()> {
        match self.lie {
            Lie::Mute(_) => IoFuture::boxed(std::future::pending()),
            _ => self.inner.flush(),
        }
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        self.inner.unmap(at, len)
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        self.inner.write_zeroes(at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        a: Data,
        b: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        self.inner.compare_and_write(at, a, b, flags)
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        self.inner.or_write(at, data, flags)
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        self.inner.extent(at)
    }
}
