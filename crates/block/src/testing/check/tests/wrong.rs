//! Devices with one mistake each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ring::Data;

use super::super::{bytes_of, data};
use crate::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    Nothing,
    ReadsPastTheEnd,
    WrapsAround,
    SaysMedium,
    RefusesEmpty,
    WritesWhatFits,
    TakesTwoLengths,
    TakesLongAtomics,
    ForgetsUnmap,
    DeallocatesZeroes,
    HidesData,
    MiscomparesAtZero,
    ChangesShape,
    MixesBytes,
    ZeroesFirst,
    UndoesNeighbours,
    TearsAtomics,
    ComparesThenWrites,
    ReadsThenOrs,
    SpoilsWhenDropped,
    HoldsWhenDropped,
    /// No mistake: it is read-only.
    ReadOnly,
    UnmapsReadOnly,
    WritesQuietly,
    SwallowsErrors,
    SaysOs,
    /// Writes behind.
    AnswersEarly,
    AnswersBeforeTheEnd,
    ForgetsFua,
    IgnoresFlush,
    NeverRecovers,
    LosesOld,
}

use Mistake::*;

#[derive(Debug, Clone)]
pub(super) struct Wrong {
    below: Arc<dyn BlockDevice>,
    /// The same, around its faults.
    around: Arc<dyn BlockDevice>,
    mistake: Mistake,
    writes: Arc<AtomicU64>,
    is_broken: Arc<AtomicBool>,
}

/// Does something unless it is kept from it.
struct Guard<F: FnMut()>(bool, F);

impl<F: FnMut()> Drop for Guard<F> {
    fn drop(&mut self) {
        if self.0 {
            (self.1)();
        }
    }
}

impl Wrong {
    pub(super) fn new(below: Arc<dyn BlockDevice>, mistake: Mistake) -> Self {
        let around = Arc::clone(&below);
        Self { below, around, mistake, writes: Arc::default(), is_broken: Arc::default() }
    }

    pub(super) fn with_way_around(self, around: Arc<dyn BlockDevice>) -> Self {
        Self { around, ..self }
    }

    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }

    fn refuses_changes(&self) -> bool {
        matches!(self.mistake, ReadOnly | UnmapsReadOnly | WritesQuietly)
    }

    fn is_outside(&self, at: u64, len: u64) -> bool {
        at.checked_add(len).is_none_or(|end| end > self.below.geometry().size_bytes())
    }

    /// Every write, where the mistake lies in how bytes get there.
    async fn put(self, at: u64, bytes: Vec<u8>, flags: WriteFlags) -> Result<(), BlockError> {
        let below = &self.below;
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let plain = WriteFlags { atomic: false, ..flags };
        match self.mistake {
            MixesBytes => {
                for part in [number % 2, (number + 1) % 2] {
                    let mut mixed = bytes_of(&below.read(at, bytes.len()).await?);
                    let own = (0..bytes.len()).filter(|at| at % 2 == part as usize);
                    own.for_each(|at| mixed[at] = bytes[at]);
                    below.write(at, data(&mixed), plain).await?;
                    ring::turn_end().await;
                }
                Ok(())
            }
            ZeroesFirst => {
                below.write_zeroes(at, bytes.len() as u64, true, plain).await?;
                ring::turn_end().await;
                below.write(at, data(&bytes), flags).await
            }
            UndoesNeighbours => {
                let first = at / 4096 * 4096;
                let end = (at + bytes.len() as u64).next_multiple_of(4096);
                let mut whole = bytes_of(&below.read(first, (end - first) as usize).await?);
                ring::turn_end().await;
                let skip = (at - first) as usize;
                whole[skip..skip + bytes.len()].copy_from_slice(&bytes);
                below.write(first, data(&whole), plain).await
            }
            TearsAtomics if flags.atomic && !bytes.is_empty() => {
                let (one, other) = bytes.split_at(bytes.len() / 1024 * 512);
                below.write(at, data(one), plain).await?;
                ring::turn_end().await;
                below.write(at + one.len() as u64, data(other), plain).await
            }
            SpoilsWhenDropped | HoldsWhenDropped => {
                let spoil = || {
                    self.is_broken.store(self.is(HoldsWhenDropped), Ordering::Relaxed);
                    let spoiled = vec![0x99; bytes.len()];
                    if self.is(SpoilsWhenDropped) {
                        drop(self.below.write(at, data(&spoiled), plain));
                    }
                };
                let mut guard = Guard(true, spoil);
                ring::turn_end().await;
                guard.0 = false;
                below.write(at, data(&bytes), flags).await
            }
            _ => below.write(at, data(&bytes), flags).await,
        }
    }

    fn broken<T>(&self) -> Option<IoFuture<T>> {
        let is_broken = self.is_broken.load(Ordering::Relaxed);
        is_broken.then(|| IoFuture::ready(Err(BlockError::Busy)))
    }

    fn write_over_faults(&self, at: u64, bytes: Data, flags: WriteFlags) -> IoFuture<()> {
        let flags = match self.mistake {
            ForgetsFua => WriteFlags { durable: false, ..flags },
            _ => flags,
        };
        if self.is(LosesOld) {
            drop(self.around.write_zeroes(at, bytes.len() as u64, false, WriteFlags::VOLATILE));
        }
        let work = self.below.write(at, bytes, flags);
        let wrong = self.clone();
        match self.mistake {
            AnswersEarly | AnswersBeforeTheEnd => IoFuture::boxed(async move {
                match work.into_ready() {
                    Ok(done) if wrong.is(AnswersBeforeTheEnd) => done,
                    Ok(_) => Ok(()),
                    Err(running) => {
                        ring::spawn(async {
                            _ = running.await;
                        });
                        Ok(())
                    }
                }
            }),
            _ => IoFuture::boxed(async move {
                match work.await {
                    Err(_) if wrong.is(SwallowsErrors) => Ok(()),
                    Err(_) if wrong.is(SaysOs) => Err(BlockError::Os { errno: 5 }),
                    Err(error) => {
                        wrong.is_broken.store(wrong.is(NeverRecovers), Ordering::Relaxed);
                        Err(error)
                    }
                    Ok(()) => Ok(()),
                }
            }),
        }
    }
}

impl BlockDevice for Wrong {
    fn geometry(&self) -> Geometry {
        let geometry = self.below.geometry();
        let optimal_transfer_bytes = match self.mistake {
            ChangesShape if self.writes.load(Ordering::Relaxed) > 0 => 4096,
            _ => geometry.optimal_transfer_bytes,
        };
        Geometry { read_only: self.refuses_changes(), optimal_transfer_bytes, ..geometry }
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        match self.mistake {
            ReadsPastTheEnd if self.is_outside(at, len as u64) => {
                IoFuture::ready(Ok(data(&vec![0; len])))
            }
            _ => self.below.read(at, len),
        }
    }

    fn write_now(&self, _: u64, _: &[u8], _: WriteFlags) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, bytes: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(broken) = self.broken() {
            return broken;
        }
        if self.refuses_changes() {
            if self.is(WritesQuietly) {
                drop(self.below.write(at, bytes, flags));
            }
            return IoFuture::ready(Err(BlockError::ReadOnly));
        }
        let size_bytes = self.below.geometry().size_bytes();
        match self.mistake {
            RefusesEmpty if bytes.is_empty() => IoFuture::ready(Err(BlockError::Busy)),
            WritesWhatFits if at < size_bytes && self.is_outside(at, bytes.len() as u64) => {
                let fits = bytes.slice(0..(size_bytes - at) as usize);
                drop(self.below.write(at, fits, flags));
                self.below.write(at, bytes, flags)
            }
            TakesLongAtomics => self.below.write(at, bytes, WriteFlags { atomic: false, ..flags }),
            // What is refused is not put there either.
            _ if self.geometry().check(at, bytes.len() as u64).is_err()
                || bytes.len() > crate::ATOMIC_BYTES_MAX as usize =>
            {
                self.below.write(at, bytes, flags)
            }
            MixesBytes | ZeroesFirst | UndoesNeighbours | TearsAtomics | SpoilsWhenDropped
            | HoldsWhenDropped | ChangesShape => {
                IoFuture::boxed(self.clone().put(at, bytes_of(&bytes), flags))
            }
            _ => self.write_over_faults(at, bytes, flags),
        }
    }

    fn flush(&self) -> IoFuture<()> {
        match self.mistake {
            IgnoresFlush => IoFuture::ready(Ok(())),
            _ => self.below.flush(),
        }
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        let refused = self.geometry().check_change(at, len);
        match self.mistake {
            WrapsAround if at.checked_add(len).is_none() => IoFuture::ready(Ok(())),
            SaysMedium if !at.is_multiple_of(512) => {
                IoFuture::ready(Err(BlockError::Medium { at: 0 }))
            }
            ForgetsUnmap => IoFuture::ready(refused),
            UnmapsReadOnly => self.below.unmap(at, len),
            _ if self.refuses_changes() => IoFuture::ready(refused),
            _ => self.below.unmap(at, len),
        }
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if self.refuses_changes() {
            return IoFuture::ready(Err(BlockError::ReadOnly));
        }
        let may_unmap = may_unmap || self.is(DeallocatesZeroes);
        self.below.write_zeroes(at, len, may_unmap, flags)
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        if self.refuses_changes() {
            return IoFuture::ready(Err(BlockError::ReadOnly));
        }
        match self.mistake {
            TakesTwoLengths if compare.len() != write.len() => IoFuture::ready(Ok(Compared::Equal)),
            ComparesThenWrites if compare.len() == 512 && write.len() == 512 => {
                let wrong = self.clone();
                IoFuture::boxed(async move {
                    let found = bytes_of(&wrong.below.read(at, compare.len()).await?);
                    ring::turn_end().await;
                    let wanted = bytes_of(&compare);
                    if let Some(offset_bytes) = (0..512).find(|&at| found[at] != wanted[at]) {
                        return Ok(Compared::Miscompare { offset_bytes });
                    }
                    wrong.below.write(at, write, flags).await?;
                    Ok(Compared::Equal)
                })
            }
            _ => {
                let at_zero = self.is(MiscomparesAtZero);
                let compared = self.below.compare_and_write(at, compare, write, flags);
                IoFuture::boxed(async move {
                    Ok(match compared.await? {
                        Compared::Miscompare { .. } if at_zero => {
                            Compared::Miscompare { offset_bytes: 0 }
                        }
                        other => other,
                    })
                })
            }
        }
    }

    fn or_write(&self, at: u64, bytes: Data, flags: WriteFlags) -> IoFuture<()> {
        if self.refuses_changes() {
            return IoFuture::ready(Err(BlockError::ReadOnly));
        }
        match self.mistake {
            ReadsThenOrs if bytes.len() == 512 && at > 0 => {
                let below = Arc::clone(&self.below);
                IoFuture::boxed(async move {
                    let mut merged = bytes_of(&below.read(at, bytes.len()).await?);
                    ring::turn_end().await;
                    merged.iter_mut().zip(bytes_of(&bytes)).for_each(|(into, byte)| *into |= byte);
                    below.write(at, data(&merged), flags).await
                })
            }
            _ => self.below.or_write(at, bytes, flags),
        }
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let size_bytes = self.below.geometry().size_bytes();
        match self.mistake {
            HidesData if at < size_bytes && at.is_multiple_of(512) => {
                let (len_bytes, state) = (size_bytes - at, ExtentState::Deallocated);
                IoFuture::ready(Ok(Extent { len_bytes, state }))
            }
            _ => self.below.extent(at),
        }
    }
}
