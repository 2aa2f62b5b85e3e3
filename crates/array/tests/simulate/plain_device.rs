//! The volumes of the plain subject as devices.

use std::future::{Future, pending};
use std::ops::Range;

use array::{BLOCK_BYTES, CLUSTER_BYTES, Env};
use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
};
use ring::{Buf, Data};

use crate::plain::{Flaw, Plain, PlainVolume};

/// A volume, or one of its snapshots.
#[derive(Debug, Clone)]
pub(crate) struct PlainDevice {
    plain: Plain,
    volume: String,
    snapshot: Option<String>,
    geometry: Geometry,
}

impl PlainDevice {
    pub(crate) fn new(plain: Plain, volume: &str, snapshot: Option<&str>) -> Self {
        let store = plain.store();
        let of = &store.volumes[volume];
        let size_bytes = match snapshot {
            Some(name) => of.snapshots[name].1.len() as u64,
            None => of.info.size_bytes,
        };
        let block_bytes = of.info.block_bytes;
        let geometry = Geometry {
            read_only: snapshot.is_some(),
            ..Geometry::new(block_bytes, size_bytes / u64::from(block_bytes))
        };
        drop(store);
        let (volume, snapshot) = (volume.to_owned(), snapshot.map(str::to_owned));
        Self { plain, volume, snapshot, geometry }
    }

    fn with<T>(&self, change: impl FnOnce(&mut PlainVolume) -> T) -> T {
        let mut store = self.plain.store();
        change(store.volumes.get_mut(&self.volume).expect("hosts use volumes that are there"))
    }

    /// Puts bytes there, each block at a moment of its own.
    async fn put(self, at: usize, bytes: Vec<u8>) -> Result<(), BlockError> {
        self.plain.moment().await;
        if self.plain.errs(Flaw::LosesWrites) {
            return Ok(());
        }
        let at = if self.plain.errs(Flaw::Misplaces) { self.elsewhere(at) } else { at };
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let room = BLOCK_BYTES - (at + start) % BLOCK_BYTES;
            let end = (start + room).min(bytes.len());
            pieces.push(start..end);
            start = end;
        }
        for piece in pieces {
            if self.plain.flaw == Flaw::TearsBlocks && piece.len() > 512 {
                let half = piece.start..piece.start + 512;
                self.store(at + half.start, &bytes[half]);
                self.plain.moment().await;
            }
            self.store(at + piece.start, &bytes[piece]);
            if self.plain.env.random().is_multiple_of(4) {
                self.plain.moment().await;
            }
        }
        Ok(())
    }

    /// A cluster further on, or back.
    fn elsewhere(&self, at: usize) -> usize {
        if at >= CLUSTER_BYTES { at - CLUSTER_BYTES } else { at }
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        let leaks = self.plain.flaw == Flaw::SharesSnapshots;
        self.with(|volume| {
            let range = at..at + bytes.len();
            let PlainVolume { bytes: now, before, .. } = volume;
            before[range.clone()].copy_from_slice(&now[range.clone()]);
            now[range].copy_from_slice(bytes);
            let newest = volume.snapshots.values_mut().next_back();
            if let Some((_, taken)) = newest.filter(|_| leaks) {
                let end = (at + bytes.len()).min(taken.len());
                if at < end {
                    taken[at..end].copy_from_slice(&bytes[..end - at]);
                }
            }
        });
    }

    fn range(&self, range: Range<usize>) -> Vec<u8> {
        let stale = self.plain.errs(Flaw::ReadsStale);
        self.with(|volume| match &self.snapshot {
            Some(name) => volume.snapshots[name].1[range].to_vec(),
            None if stale => volume.before[range].to_vec(),
            None => volume.bytes[range].to_vec(),
        })
    }

    fn boxed<T, F>(&self, future: impl FnOnce(Self) -> F) -> IoFuture<T>
    where
        F: Future<Output = Result<T, BlockError>> + 'static,
    {
        IoFuture::boxed(future(self.clone()))
    }
}

fn bytes_of(data: &Data) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(0, &mut bytes);
    bytes
}

impl BlockDevice for PlainDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Err(error) = self.geometry.check(at, len as u64) {
            return IoFuture::ready(Err(error));
        }
        self.boxed(|device| async move {
            device.plain.moment().await;
            let bytes = device.range(at as usize..at as usize + len);
            let mut buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
            buf.copy_from_slice(&bytes);
            device.plain.moment().await;
            Ok(buf.freeze())
        })
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, _: WriteFlags) -> IoFuture<()> {
        if let Err(error) = self.geometry.check_change(at, data.len() as u64) {
            return IoFuture::ready(Err(error));
        }
        self.boxed(|device| device.put(at as usize, bytes_of(&data)))
    }

    fn flush(&self) -> IoFuture<()> {
        if self.plain.errs(Flaw::Hangs) {
            return IoFuture::boxed(pending());
        }
        self.boxed(|device| async move {
            device.plain.moment().await;
            Ok(())
        })
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if self.plain.flaw == Flaw::IgnoresUnmap {
            return IoFuture::ready(Ok(()));
        }
        self.write_zeroes(at, len, true, WriteFlags::VOLATILE)
    }

    fn write_zeroes(&self, at: u64, len: u64, _: bool, _: WriteFlags) -> IoFuture<()> {
        if let Err(error) = self.geometry.check_change(at, len) {
            return IoFuture::ready(Err(error));
        }
        self.boxed(|device| device.put(at as usize, vec![0; len as usize]))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        _: WriteFlags,
    ) -> IoFuture<Compared> {
        if let Err(error) = self.geometry.check_atomic(at, compare.len() as u64) {
            return IoFuture::ready(Err(error));
        }
        self.boxed(|device| async move {
            device.plain.moment().await;
            let (at, compare) = (at as usize, bytes_of(&compare));
            let there = device.range(at..at + compare.len());
            let length = if device.plain.flaw == Flaw::EqualAtOnce { 16 } else { compare.len() };
            let differs = there.iter().zip(&compare).take(length).position(|(a, b)| a != b);
            if let Some(offset_bytes) = differs {
                return Ok(Compared::Miscompare { offset_bytes });
            }
            device.store(at, &bytes_of(&write));
            Ok(Compared::Equal)
        })
    }

    fn or_write(&self, _: u64, _: Data, _: WriteFlags) -> IoFuture<()> {
        IoFuture::ready(Err(BlockError::Unsupported))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let len_bytes = self.geometry.size_bytes() - at;
        IoFuture::ready(Ok(Extent { len_bytes, state: ExtentState::Mapped }))
    }
}
