//! Giving space back, and telling what is mapped: UNMAP, WRITE SAME, GET LBA STATUS (SBC-4 §5.6,
//! §5.36, §5.49).

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use block::{BlockError, ExtentState, WriteFlags};
use ring::wait::{Either, Guard, Turns, first};
use ring::{Buf, Data};
use scsi::cdb::BlockRange;
use scsi::param::{LbaRun, Provisioning, lba_status, lba_status_runs_max, parse_unmap};

use super::output::room_to_read;
use crate::mutants::{self, Mutant};
use crate::outcome::{Doing, Outcome, failed};
use crate::pieces;
use crate::session::Task;
use crate::share;

/// Long operations go in steps of this, so that an abort ends them.
pub(super) const STEP_BYTES: u64 = 64 << 20;

/// A repeated block is written in pieces of this.
const PATTERN_BYTES: usize = 256 << 10;

/// The most extents that one GET LBA STATUS walks over before it answers with what it has.
const EXTENTS_MAX: usize = 1024;

/// So long a step of that may take; it ends with the extent that goes beyond.
const WALK_TIME: Duration = Duration::from_micros(100);

/// UNMAP.
pub(super) async fn unmap(task: &Rc<Task>) -> Outcome {
    let unit = &task.place.unit;
    let data = task.take_data();
    let list = data.as_deref().unwrap_or_default();
    let moved = task.command.data_out_bytes(unit.block_bytes);
    let ranges = match parse_unmap(list, unit.logical.medium()) {
        Ok(ranges) => ranges,
        Err(sense) => return Outcome::Check(sense),
    };
    for range in ranges {
        let len = unit.bytes_of(range.blocks.into());
        unit.tokens.changed(range.lba, range.blocks.into());
        let unmap = |at, len| unit.device.unmap(at, len);
        if let Err(outcome) = in_steps(task, unit.bytes_of(range.lba), len, unmap).await {
            return outcome;
        }
    }
    if unit.is_durable(false)
        && let Err(error) = unit.device.flush().await
    {
        return failed(unit, error, Doing::Writing);
    }
    Outcome::Good { moved }
}

/// Waits for the turn of a task to begin the next step of long work; `None` if it is aborted before.
///
/// One step at a time at each unit: a thousand of them at one place would wait for each other at the disk,
/// where no abort finds them and each holds memory, long after their host has gone.
async fn turn_of(task: &Task) -> Option<Guard<IpAddr>> {
    turn_at(task, &task.place.unit.long_work).await
}

/// The same for work of one kind.
async fn turn_at(task: &Task, turns: &Turns<IpAddr>) -> Option<Guard<IpAddr>> {
    let peer = task.conn().peer.ip();
    pieces::next(peer).await;
    let address = share::network(peer);
    if mutants::is(Mutant::AllAtOnce) {
        return Some(Turns::default().take(address).await);
    }
    match first(turns.take(address), task.wait_aborted()).await {
        Either::Left(turn) => (!task.is_aborted()).then_some(turn),
        Either::Right(()) => None,
    }
}

/// Does something to a range, step by step.
async fn in_steps(
    task: &Task,
    start: u64,
    len: u64,
    step: impl Fn(u64, u64) -> block::IoFuture<()>,
) -> Result<(), Outcome> {
    let mut done = 0;
    while done < len {
        let part = STEP_BYTES.min(len - done);
        let Some(_turn) = turn_of(task).await else { return Err(Outcome::Aborted) };
        let result = step(start + done, part).await;
        result.map_err(|error| failed(&task.place.unit, error, Doing::Writing))?;
        if task.is_aborted() {
            return Err(Outcome::Aborted);
        }
        done += part;
    }
    Ok(())
}

/// WRITE SAME(10) and (16).
pub(super) async fn write_same(task: &Rc<Task>, range: BlockRange, unmap: bool) -> Outcome {
    let unit = &task.place.unit;
    let (at, len) = (unit.bytes_of(range.lba), unit.bytes_of(range.blocks.into()));
    let flags = WriteFlags { durable: unit.is_durable(false), atomic: false };
    let moved = task.command.data_out_bytes(unit.block_bytes);
    // Without data (NDOB) the block is zeroes.
    let pattern = task.take_data().filter(|block| block.iter().any(|&byte| byte != 0));
    let result = match pattern {
        Some(block) => write_pattern(task, at, len, &block, flags).await,
        None => {
            let zero = |at, len| unit.device.write_zeroes(at, len, unmap, flags);
            in_steps(task, at, len, zero).await
        }
    };
    match result {
        Ok(()) => Outcome::Good { moved },
        Err(outcome) => outcome,
    }
}

/// Writes `pattern`, one block, again and again.
pub(super) async fn write_pattern(
    task: &Task,
    start: u64,
    len: u64,
    pattern: &[u8],
    flags: WriteFlags,
) -> Result<(), Outcome> {
    let unit = &task.place.unit;
    let failed = |error| failed(unit, error, Doing::Writing);
    let piece_bytes = usize::try_from(len).unwrap_or(usize::MAX).min(PATTERN_BYTES);
    let memory = room_to_read(task, Buf::capacity_of(piece_bytes)).await;
    let Some(_memory) = memory else { return Err(Outcome::Aborted) };
    // To make it costs as much as to write it.
    pieces::next(task.conn().peer.ip()).await;
    let piece = repeated(pattern, piece_bytes).ok_or_else(|| failed(BlockError::NoMemory))?;
    let mut done = 0;
    while done < len {
        let Some(_turn) = turn_of(task).await else { return Err(Outcome::Aborted) };
        let part = (piece.len() as u64).min(len - done);
        let data = piece.slice(0..part as usize);
        unit.device.write(start + done, data, flags).await.map_err(failed)?;
        if task.is_aborted() {
            return Err(Outcome::Aborted);
        }
        done += part;
    }
    Ok(())
}

/// As many copies of `block` as `len` bytes take.
fn repeated(block: &[u8], len: usize) -> Option<Data> {
    let mut piece = Buf::alloc(len)?;
    for copy in piece.chunks_mut(block.len()) {
        copy.copy_from_slice(&block[..copy.len()]);
    }
    Some(piece.into())
}

/// GET LBA STATUS(16).
pub(super) async fn get_lba_status(task: &Rc<Task>, lba: u64, allocation_bytes: u32) -> Outcome {
    match lba_runs(task, lba, lba_status_runs_max(allocation_bytes)).await {
        Ok(runs) => Outcome::Parameters(lba_status(&runs, allocation_bytes)),
        Err(outcome) => outcome,
    }
}

/// At most `runs_max` runs from `lba` on; neighbours of one state are one run. What is 16 bytes on the wire may be
/// a walk over all of a map: it is done step by step, and not at all for a host that has gone.
///
/// # Errors
/// How the command ends.
async fn lba_runs(task: &Task, lba: u64, runs_max: usize) -> Result<Vec<LbaRun>, Outcome> {
    let unit = &task.place.unit;
    let end = unit.device.geometry().blocks;
    let mut runs: Vec<LbaRun> = Vec::new();
    let mut at = lba;
    let mut step: Option<(Guard<IpAddr>, Instant)> = None;
    for _ in 0..EXTENTS_MAX {
        if at >= end {
            break;
        }
        step = step.filter(|(_, began)| began.elapsed() < WALK_TIME);
        if step.is_none() && !mutants::is(Mutant::WholeWalk) {
            let turn = turn_at(task, &unit.walks).await;
            let Some(turn) = turn else { return Err(Outcome::Aborted) };
            step = Some((turn, Instant::now()));
        }
        // A page of the map may be on a disk that does not answer.
        let looked = first(unit.device.extent(unit.bytes_of(at)), task.wait_aborted()).await;
        let Either::Left(extent) = looked else { return Err(Outcome::Aborted) };
        let extent = extent.map_err(|error| failed(unit, error, Doing::Reading))?;
        let blocks = extent.len_bytes / u64::from(unit.block_bytes);
        let state = match extent.state {
            ExtentState::Mapped => Provisioning::Mapped,
            ExtentState::Deallocated => Provisioning::Deallocated,
            ExtentState::Anchored => Provisioning::Anchored,
        };
        let length = blocks.min(u64::from(u32::MAX));
        let full = runs.len() == runs_max;
        match runs.last_mut() {
            Some(last)
                if last.state == state && u64::from(last.blocks) + length <= u32::MAX.into() =>
            {
                last.blocks += length as u32;
            }
            _ if full => break,
            _ => runs.push(LbaRun { lba: at, blocks: length as u32, state }),
        }
        at += length;
    }
    Ok(runs)
}
