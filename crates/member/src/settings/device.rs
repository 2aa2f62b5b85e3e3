//! A volume of the array as the bytes that a store lives on.
//!
//! A store blocks, and devices are used from the cores: so each call of the store's thread is done by a
//! task on the member's core, and waited for. Writes that do not begin and end with a block read
//! the rest of it first; nobody else writes to the volume.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use block::{BlockDevice, BlockError, IoFuture, WriteFlags};
use group::bytes::Bytes;
use ring::{Buf, Remote};

/// Bytes of one request to the device.
const AT_ONCE: usize = 64 * 1024;

/// How long a device may be short of memory, or busy.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A volume, used by a thread that is not a core.
pub(super) struct VolumeBytes {
    core: Remote,
    device: Arc<dyn BlockDevice>,
    size_bytes: u64,
    block_bytes: usize,
}

impl Debug for VolumeBytes {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("VolumeBytes").field("device", &self.device).finish_non_exhaustive()
    }
}

impl VolumeBytes {
    /// The device, whose calls are to be made on `core`.
    pub(super) fn new(core: Remote, device: Arc<dyn BlockDevice>) -> Self {
        let geometry = device.geometry();
        let size_bytes = geometry.size_bytes();
        let block_bytes = geometry.block_bytes as usize;
        assert!(AT_ONCE.is_multiple_of(block_bytes), "requests are whole blocks");
        Self { core, device, size_bytes, block_bytes }
    }

    /// Does something with the device on its core, and waits for it on this thread. Where memory or
    /// the device is short for the moment it is done again.
    fn on_core<T: Send + 'static>(
        &self,
        begin: impl Fn(&dyn BlockDevice) -> IoFuture<T> + Clone + Send + 'static,
    ) -> io::Result<T> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.once(begin.clone())? {
                Err(BlockError::NoMemory | BlockError::Busy) if Instant::now() < until => {
                    thread::sleep(PAUSE);
                }
                done => return done.map_err(io::Error::other),
            }
        }
    }

    fn once<T: Send + 'static>(
        &self,
        begin: impl FnOnce(&dyn BlockDevice) -> IoFuture<T> + Send + 'static,
    ) -> io::Result<Result<T, BlockError>> {
        let (done, answer) = mpsc::channel();
        let device = self.device.clone();
        let is_there = self.core.run(move || {
            ring::spawn(async move {
                // The thread waits for it, unless the process ends.
                drop(done.send(begin(&*device).await));
            });
        });
        let gone = || io::Error::other("the member is stopping");
        if !is_there {
            return Err(gone());
        }
        answer.recv().map_err(|_| gone())
    }

    /// The parts of a range that lie between whole requests.
    fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize)> {
        let end = offset + len as u64;
        let mut at = offset;
        std::iter::from_fn(move || {
            let next = (at / AT_ONCE as u64 + 1) * AT_ONCE as u64;
            let part = (at, usize::try_from(next.min(end) - at).unwrap_or(AT_ONCE));
            at = next.min(end);
            (part.1 > 0).then_some(part)
        })
    }

    /// The blocks that a part touches: where they begin, and how many bytes they have.
    fn blocks(&self, at: u64, len: usize) -> (u64, usize) {
        let block_bytes = self.block_bytes as u64;
        let start = at / block_bytes * block_bytes;
        let end = (at + len as u64).next_multiple_of(block_bytes);
        (start, usize::try_from(end - start).unwrap_or(AT_ONCE))
    }

    fn read_blocks(&self, start: u64, len: usize) -> io::Result<Vec<u8>> {
        let read = self.on_core(move |device| {
            let read = device.read(start, len);
            IoFuture::boxed(async move {
                let data = read.await?;
                let mut bytes = vec![0; data.len()];
                data.copy_to(0, &mut bytes);
                Ok(bytes)
            })
        });
        let bytes = read?;
        if bytes.len() == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn check(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.size_bytes);
        end.map(drop).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

impl Bytes for VolumeBytes {
    fn len_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check(offset, out.len())?;
        for (at, len) in Self::parts(offset, out.len()) {
            let (start, whole) = self.blocks(at, len);
            let bytes = self.read_blocks(start, whole)?;
            let (from, to) = (index(at - start), index(at - offset));
            out[to..to + len].copy_from_slice(&bytes[from..from + len]);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(offset, data.len())?;
        for (at, len) in Self::parts(offset, data.len()) {
            let (start, whole) = self.blocks(at, len);
            let part = &data[index(at - offset)..][..len];
            let bytes = if whole == len {
                part.to_vec()
            } else {
                let mut bytes = self.read_blocks(start, whole)?;
                bytes[index(at - start)..][..len].copy_from_slice(part);
                bytes
            };
            self.on_core(move |device| {
                let Some(mut buf) = Buf::alloc(bytes.len()) else {
                    return IoFuture::ready(Err(BlockError::NoMemory));
                };
                buf.copy_from_slice(&bytes);
                device.write(start, buf.freeze(), WriteFlags::default())
            })?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.on_core(|device| device.flush())
    }
}

/// An offset within one call of the store, which fits memory.
fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("the store asks for less than memory has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::RamDisk;

    /// Ranges of any place and length, against plain memory.
    #[test]
    fn any_range_is_written_and_read() {
        ring::block_on(&ring::CoreConfig::default(), async {
            let core = ring::remote(ring::core_id());
            let bytes = VolumeBytes::new(core, Arc::new(RamDisk::new(4096, 256).unwrap()));
            ring::blocking(move || {
                let mut model = vec![0; 1 << 20];
                let ranges = [(0, 36), (4096, 36), (8191, 2), (65_000, 70_000), (4096, 4096)];
                for (number, (offset, len)) in ranges.into_iter().enumerate() {
                    let data = vec![number as u8 + 1; len];
                    bytes.write_at(offset as u64, &data).unwrap();
                    model[offset..offset + len].copy_from_slice(&data);
                }
                bytes.sync().unwrap();
                let mut found = vec![9; 1 << 20];
                bytes.read_at(0, &mut found).unwrap();
                assert!(found == model);
                let mut part = vec![9; 5000];
                bytes.read_at(64_990, &mut part).unwrap();
                assert!(part == model[64_990..69_990]);
                assert!(bytes.write_at((1 << 20) - 1, &[0; 2]).is_err());
                assert!(bytes.read_at(u64::MAX, &mut [0]).is_err());
            })
            .await;
        })
        .unwrap();
    }
}
