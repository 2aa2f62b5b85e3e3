//! Requests over a border between slices.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ring::{Buf, Data};

use super::dealing::Piece;
use super::join;
use super::slices::Slices;
use super::under_way::Work;
use crate::locks::Access;
use crate::mutants::{self, Mutant};
use crate::{BlockDevice, BlockError, Compared, IoFuture, WriteFlags, bytes};

/// Pieces of a long change that run at once: the queues of slices stay short.
const STEP_PIECES: usize = 16;

/// The first pause between attempts to end an atomic operation that is half done, which double,
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// and the longest one.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Reads all pieces into one buffer.
pub(super) fn read(slices: &Arc<Slices>, at: u64, len: usize) -> IoFuture<Data> {
    if mutants::is(Mutant::UnheldRead) {
        return gathered(slices, at, len);
    }
    slices.shared(at, len as u64, Work::Read, move |slices| gathered(slices, at, len))
}

/// The same, beside whoever holds the borders. What slices lend is copied before its future is over.
fn gathered(slices: &Slices, at: u64, len: usize) -> IoFuture<Data> {
    let read = |piece: Piece| slices.at(piece.at).read(piece.at, piece.len as usize);
    join::all(slices.pieces(at, len as u64).map(read), move |pieces| {
        let mut whole = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
        let mut done = 0;
        for piece in pieces {
            piece.copy_to(0, &mut whole[done..done + piece.len()]);
            done += piece.len();
        }
        assert_eq!(done, len, "reads give all they were asked for");
        Ok(whole.freeze())
    })
}

/// The bytes of one piece out of `data`, which begins at byte `at` of the volume.
fn part(data: &Data, at: u64, piece: &Piece) -> Data {
    let first = (piece.at - at) as usize;
    data.slice(first..first + piece.len as usize)
}

pub(super) fn write(slices: &Arc<Slices>, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
    debug_assert!(!flags.atomic, "that is another way");
    let len = data.len() as u64;
    slices.shared(at, len, Work::Change, move |slices| {
        let write =
            |piece: Piece| slices.at(piece.at).write(piece.at, part(&data, at, &piece), flags);
        join::all(slices.pieces(at, len).map(write), |_| Ok(()))
    })
}

pub(super) fn write_zeroes(
    slices: &Arc<Slices>,
    at: u64,
    len: u64,
    may_unmap: bool,
    flags: WriteFlags,
) -> IoFuture<()> {
    let slices = Arc::clone(slices);
    IoFuture::detached(async move {
        in_steps(&slices, at, len, move |slice, piece| {
            slice.write_zeroes(piece.at, piece.len, may_unmap, flags)
        })
        .await
    })
}

/// Gives the space of all pieces back, and then makes that durable on each slice that had some of them.
pub(super) fn unmap(slices: &Arc<Slices>, at: u64, len: u64) -> IoFuture<()> {
    let slices = Arc::clone(slices);
    IoFuture::detached(async move {
        in_steps(&slices, at, len, |slice, piece| slice.unmap(piece.at, piece.len)).await?;
        let numbers = slices.numbers(at, len);
        let flushes = numbers.into_iter().map(|number| flush(&slices.devices()[number], at));
        join::all(flushes, |_| Ok(())).await
    })
}

/// Unmaps what one slice has, durably.
pub(super) fn unmap_on_one(slice: &Arc<dyn BlockDevice>, at: u64, len: u64) -> IoFuture<()> {
    match slice.unmap(at, len).into_ready() {
        Ok(Ok(())) => flush(slice, at),
        Ok(failed) => IoFuture::ready(failed),
        Err(unmap) => {
            let slice = Arc::clone(slice);
            IoFuture::boxed(async move {
                unmap.await?;
                flush(&slice, at).await
            })
        }
    }
}

/// Flushes a slice for what was changed at `at`. A flush names no place of its own, so this one is told.
fn flush(slice: &Arc<dyn BlockDevice>, at: u64) -> IoFuture<()> {
    if mutants::is(Mutant::UnflushedUnmap) {
        return IoFuture::ready(Ok(()));
    }
    let placed = move |error| match error {
        BlockError::Medium { .. } => BlockError::Medium { at },
        other => other,
    };
    match slice.flush().into_ready() {
        Ok(result) => IoFuture::ready(result.map_err(placed)),
        Err(flush) => IoFuture::boxed(async move { flush.await.map_err(placed) }),
    }
}

/// Changes all pieces, some at once, and ends with those of which one fails. Each holds what it is near to, and no
/// longer than its slice works on it: borders between other slices than one that hangs are free.
async fn in_steps(
    slices: &Arc<Slices>,
    at: u64,
    len: u64,
    change: impl Fn(&Arc<dyn BlockDevice>, Piece) -> IoFuture<()> + Copy + 'static,
) -> Result<(), BlockError> {
    let end = at + len;
    let mut at = at;
    while at < end {
        let pieces: Vec<Piece> = slices.pieces(at, end - at).take(STEP_PIECES).collect();
        at = pieces.last().map_or(end, Piece::end);
        let begin = |piece: Piece| {
            slices.change_on_one(piece.at, piece.len, move |slice| change(slice, piece))
        };
        join::all(pieces.into_iter().map(begin), |_| Ok(())).await?;
        if at < end {
            ring::turn_end().await;
        }
    }
    Ok(())
}

pub(super) fn write_atomic(
    slices: &Arc<Slices>,
    at: u64,
    data: Data,
    flags: WriteFlags,
) -> IoFuture<()> {
    alone(slices, at, data.len() as u64, move |slices| async move {
        write_sides(&slices, at, &data, flags).await
    })
}

pub(super) fn compare_and_write(
    slices: &Arc<Slices>,
    at: u64,
    compare: Data,
    write: Data,
    flags: WriteFlags,
) -> IoFuture<Compared> {
    alone(slices, at, write.len() as u64, move |slices| async move {
        let found = gathered(&slices, at, compare.len()).await?;
        let difference = |found: &[u8]| bytes::first_difference(found, &compare);
        if let Some(offset_bytes) = bytes::with_stable(&found, difference)?? {
            return Ok(Compared::Miscompare { offset_bytes });
        }
        write_sides(&slices, at, &write, flags).await.map_err(untold)?;
        Ok(Compared::Equal)
    })
}

/// Compares and writes what one slice has.
pub(super) fn compare_on_one(
    slice: &Arc<dyn BlockDevice>,
    at: u64,
    compare: Data,
    write: Data,
    flags: WriteFlags,
) -> IoFuture<Compared> {
    let compared = slice.compare_and_write(at, compare, write, flags);
    if !mutants::is(Mutant::RepeatInDoubt) {
        return compared;
    }
    IoFuture::boxed(async move { compared.await.map_err(as_not_sent) })
}

pub(super) fn or_write(
    slices: &Arc<Slices>,
    at: u64,
    data: Data,
    flags: WriteFlags,
) -> IoFuture<()> {
    let len = data.len() as u64;
    alone(slices, at, len, move |slices| async move {
        let or = |slice: &dyn BlockDevice, piece: &Piece| {
            slice.or_write(piece.at, part(&data, at, piece), flags)
        };
        each_side(&slices, at, len, or).await
    })
}

/// Makes a change over a border while nobody else reads or changes any of it. It runs to its end, whoever
/// drops its future.
fn alone<T: 'static, F>(
    slices: &Arc<Slices>,
    at: u64,
    len: u64,
    change: impl FnOnce(Arc<Slices>) -> F + 'static,
) -> IoFuture<T>
where
    F: Future<Output = Result<T, BlockError>>,
{
    let slices = Arc::clone(slices);
    IoFuture::detached(async move {
        let access = match mutants::is(Mutant::SharedAtomic) {
            true => Access::Shared,
            false => Access::Exclusive,
        };
        let _held = slices.lock(at, len, access).await;
        change(Arc::clone(&slices)).await
    })
}

/// Each side is atomic on its slice: who began to read there before the borders were held sees all of it or nothing.
async fn write_sides(
    slices: &Slices,
    at: u64,
    data: &Data,
    flags: WriteFlags,
) -> Result<(), BlockError> {
    let flags = WriteFlags { atomic: !mutants::is(Mutant::PlainSides), ..flags };
    let write = |slice: &dyn BlockDevice, piece: &Piece| {
        slice.write(piece.at, part(data, at, piece), flags)
    };
    each_side(slices, at, data.len() as u64, write).await
}

/// Changes one side after the other, the home's own last: the others are the ones that fail, and then nothing
/// is done yet.
///
/// # Errors
/// That of the first side, if it fails. Where another one was changed before it is that of [`half_done`].
async fn each_side(
    slices: &Slices,
    at: u64,
    len: u64,
    change: impl Fn(&dyn BlockDevice, &Piece) -> IoFuture<()>,
) -> Result<(), BlockError> {
    let mut pieces: Vec<Piece> = slices.pieces(at, len).collect();
    // Stable: the others stay in the order of their addresses.
    pieces.sort_by_key(|piece| (piece.slice == 0) != mutants::is(Mutant::OwnSideFirst));
    for (done, piece) in pieces.iter().enumerate() {
        let begin = || change(&**slices.at(piece.at), piece);
        let result = begin().await;
        if done == 0 {
            result?;
            continue;
        }
        let ended = match result {
            Err(error) if error.is_passing() && !mutants::is(Mutant::PassHalfDone) => {
                until_it_lasts(begin, slices.patience).await
            }
            result => result,
        };
        ended.map_err(|error| half_done(error, piece.at))?;
    }
    Ok(())
}

/// Tries again while the answer is one that passes, for a while.
async fn until_it_lasts(
    begin: impl Fn() -> IoFuture<()>,
    patience: Duration,
) -> Result<(), BlockError> {
    let (until, mut pause) = (ring::now() + patience, PAUSE_MIN);
    loop {
        ring::sleep(pause).await;
        match begin().await {
            Err(error) if error.is_passing() && ring::now() < until => {}
            result => return result,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// What is told where an operation may be, or is, done on one side only: the same request would find neither what it
/// found nor what it was to write. The target makes HARDWARE ERROR of it, which hosts give to whoever has asked, and
/// repeat neither on this path nor on another one. ABORTED COMMAND they repeat, NOT READY and BUSY too, and Linux
/// repeats a MEDIUM ERROR where it is a write that failed; no block is bad here either.
const HALF_DONE: BlockError = BlockError::Os { errno: libc::EIO };

/// What is told of a compare-and-write over a border whose first side failed. If that side may have been done, the other
/// one was not: who looks at the medium sees half of it, and would take that for the work of somebody else. What was never
/// sent is begun on no side, and hosts ask for pages that are away again.
///
/// Within one slice all is done or nothing, so [`BlockError::InDoubt`] says it: who looks at the medium sees which.
fn untold(error: BlockError) -> BlockError {
    match error {
        BlockError::InDoubt if mutants::is(Mutant::RepeatInDoubt) => as_not_sent(error),
        BlockError::InDoubt => HALF_DONE,
        other => other,
    }
}

/// A planted mistake.
fn as_not_sent(error: BlockError) -> BlockError {
    match error {
        BlockError::InDoubt => BlockError::Unreachable,
        other => other,
    }
}

/// What is told of an atomic operation that failed on the side at byte `at`, when another one was changed: whatever has
/// happened, nothing that says that it was not begun, or that it will work later.
fn half_done(error: BlockError, at: u64) -> BlockError {
    tracing::error!(%error, at, "an atomic command over two slices was done on one of them only");
    if mutants::is(Mutant::RepeatHalfDone) { error } else { HALF_DONE }
}
