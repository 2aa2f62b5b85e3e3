//! A file behind a write cache that forgets: killing the process is to it what a loss of power is
//! to a disk.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::{Buf, Data};

use crate::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, FileDisk, FileOptions, Geometry,
    IoFuture, OpenError, WriteFlags, arguments, bytes,
};

/// What a disk writes as a whole even when its power goes.
const SECTOR_BYTES: usize = 512;

/// One in so many sectors that are written reaches the file at once, as a disk writes behind when it
/// likes: what is lost is neither the end of what was written, nor whole writes.
const EARLY_ONE_IN: u64 = 4;

/// **For tests of crashes.** What was written and not flushed is kept in memory, except some sectors
/// here and there. It waits for the file in the middle of a core, and is slow.
#[derive(Debug)]
pub struct VolatileDisk {
    geometry: Geometry,
    file: fs::File,
    /// Holds the lock of the file.
    _locked: FileDisk,
    cache: Mutex<Cache>,
}

/// Invariant: what the disk holds is the file with `sectors` over it.
#[derive(Debug)]
struct Cache {
    sectors: BTreeMap<u64, [u8; SECTOR_BYTES]>,
    random: u64,
}

impl VolatileDisk {
    /// Opens the file at `path`, or creates it sparse.
    ///
    /// # Errors
    /// Those of [`FileDisk::open_file`].
    pub fn open(path: &Path, options: &FileOptions) -> Result<Self, OpenError> {
        let locked = FileDisk::open_file(path, options)?;
        let file = fs::OpenOptions::new().read(true).write(!options.read_only).open(path);
        let file = file.map_err(|source| OpenError::System {
            action: "open",
            path: path.to_owned(),
            source,
        })?;
        let geometry = Geometry { thin: false, rotational: false, ..locked.geometry() };
        let cache = Mutex::new(Cache { sectors: BTreeMap::new(), random: seed() });
        Ok(Self { geometry, file, _locked: locked, cache })
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // A sector is put into the map whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, cache: &Cache, at: u64, to: &mut [u8]) -> Result<(), BlockError> {
        self.file.read_exact_at(to, at).map_err(|error| BlockError::from_io(&error, at))?;
        let first = at / SECTOR_BYTES as u64;
        let sectors = to.len() / SECTOR_BYTES;
        for (sector, bytes) in cache.sectors.range(first..first + sectors as u64) {
            let place = (sector - first) as usize * SECTOR_BYTES;
            to[place..place + SECTOR_BYTES].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn store(&self, sector: u64, bytes: &[u8; SECTOR_BYTES]) -> Result<(), BlockError> {
        let at = sector * SECTOR_BYTES as u64;
        self.file.write_all_at(bytes, at).map_err(|error| BlockError::from_io(&error, at))
    }

    fn get(&self, cache: &Cache, at: u64, len: usize) -> Result<Buf, BlockError> {
        let mut buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
        self.fill(cache, at, &mut buf)?;
        Ok(buf)
    }

    fn put(
        &self,
        cache: &mut Cache,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Result<(), BlockError> {
        for (number, bytes) in bytes.chunks_exact(SECTOR_BYTES).enumerate() {
            let sector = at / SECTOR_BYTES as u64 + number as u64;
            let bytes: &[u8; SECTOR_BYTES] = bytes.try_into().expect("chunks are sectors");
            if flags.durable || cache.is_early() {
                self.store(sector, bytes)?;
                cache.sectors.remove(&sector);
            } else {
                cache.sectors.insert(sector, *bytes);
            }
        }
        Ok(())
    }

    fn write_bytes(&self, at: u64, bytes: &[u8], flags: WriteFlags) -> Result<(), BlockError> {
        let write = || self.put(&mut self.cache(), at, bytes, flags);
        arguments::write(&self.geometry, at, bytes.len(), flags).unwrap_or_else(write)
    }

    fn zero(&self, at: u64, len: u64, flags: WriteFlags) -> Result<(), BlockError> {
        let mut cache = self.cache();
        let end = at + len;
        for at in (at..end).step_by(SECTOR_BYTES) {
            self.put(&mut cache, at, &[0; SECTOR_BYTES], flags)?;
        }
        Ok(())
    }
}

impl Cache {
    /// Draws whether a sector is written early (xorshift64).
    fn is_early(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random.is_multiple_of(EARLY_ONE_IN)
    }
}

/// Another one in each process: never zero, which would stay zero.
fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |now| now.as_nanos() as u64) | 1
}

impl BlockDevice for VolatileDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        let read = || self.get(&self.cache(), at, len).map(Buf::freeze);
        IoFuture::ready(arguments::read(&self.geometry, at, len).unwrap_or_else(read))
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        Some(self.write_bytes(at, bytes, flags))
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        IoFuture::ready(self.write_bytes(at, &bytes, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        let mut cache = self.cache();
        let sectors = std::mem::take(&mut cache.sectors);
        // The file survives the process, which is all that is asked of it.
        let mut all = sectors.iter();
        let written = all.try_for_each(|(sector, bytes)| self.store(*sector, bytes));
        if written.is_err() {
            cache.sectors = sectors;
        }
        IoFuture::ready(written)
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        let zero = || self.zero(at, len, WriteFlags::VOLATILE);
        IoFuture::ready(arguments::unmap(&self.geometry, at, len).unwrap_or_else(zero))
    }

    fn write_zeroes(&self, at: u64, len: u64, _may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        let answer = arguments::write_zeroes(&self.geometry, at, len, flags);
        IoFuture::ready(answer.unwrap_or_else(|| self.zero(at, len, flags)))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let run = || {
            let mut cache = self.cache();
            let found = self.get(&cache, at, compare.len())?;
            if let Some(offset_bytes) = bytes::first_difference(&found, &compare)? {
                return Ok(Compared::Miscompare { offset_bytes });
            }
            let mut bytes = vec![0; write.len()];
            write.copy_to(0, &mut bytes);
            self.put(&mut cache, at, &bytes, flags)?;
            Ok(Compared::Equal)
        };
        let answer = arguments::compare_and_write(&self.geometry, at, &compare, &write);
        IoFuture::ready(answer.unwrap_or_else(run))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        let run = || {
            let mut cache = self.cache();
            let mut merged = self.get(&cache, at, data.len())?;
            bytes::or_into(&mut merged, &data)?;
            self.put(&mut cache, at, &merged, flags)
        };
        IoFuture::ready(arguments::or_write(&self.geometry, at, data.len()).unwrap_or_else(run))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        IoFuture::ready(arguments::extent(&self.geometry, at).map(|()| Extent {
            len_bytes: self.geometry.size_bytes() - at,
            state: ExtentState::Mapped,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{check_device, check_read_only};

    const BYTES: u64 = 4 << 20;

    fn options() -> FileOptions {
        FileOptions {
            block_bytes: 512,
            read_only: false,
            size_bytes: Some(BYTES),
            write_through: false,
            direct: false,
        }
    }

    fn open(path: &Path) -> VolatileDisk {
        VolatileDisk::open(path, &options()).unwrap()
    }

    fn done<T>(future: IoFuture<T>) -> T {
        future.into_ready().expect("it waits for nothing").unwrap()
    }

    #[test]
    fn it_is_a_device_like_any_other() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Arc::new(open(&dir.path().join("disk")));
        ring::block_on(&ring::CoreConfig::default(), check_device(disk, 21)).unwrap();
        let path = dir.path().join("disk");
        let written: Vec<u8> = (0..BYTES).map(|at| (at / 4096) as u8).collect();
        fs::write(&path, written).unwrap();
        let options = FileOptions { read_only: true, ..options() };
        let disk = Arc::new(VolatileDisk::open(&path, &options).unwrap());
        ring::block_on(&ring::CoreConfig::default(), check_read_only(disk)).unwrap();
    }

    #[test]
    fn what_was_not_flushed_is_lost_in_part_and_what_was_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let disk = open(&path);
        let written = [7; 64 << 10];
        assert_eq!(disk.write_now(0, &written, WriteFlags::VOLATILE), Some(Ok(())));
        done(disk.flush());
        let newer = [9; 64 << 10];
        assert_eq!(disk.write_now(0, &newer, WriteFlags::VOLATILE), Some(Ok(())));
        assert_eq!(disk.write_now(1 << 20, &newer, WriteFlags::DURABLE), Some(Ok(())));
        // As the next process finds it.
        let found = fs::read(&path).unwrap();
        let sectors = found[..64 << 10].chunks(SECTOR_BYTES);
        let early = sectors.clone().filter(|sector| **sector == [9; SECTOR_BYTES]).count();
        assert!((1..128).contains(&early), "{early} of 128 sectors");
        assert!(sectors.clone().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        assert!(found[1 << 20..].starts_with(&newer));
        let mut read = vec![0; 64 << 10];
        done(disk.read(0, 64 << 10)).copy_to(0, &mut read);
        assert!(read == newer, "this process sees all of it");
    }
}
