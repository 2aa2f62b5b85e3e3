//! SANITIZE (SBC-4 §4.11, §5.26): all of the medium is overwritten or given back, and until that
//! has ended well the unit does nothing else, also after a restart.

use std::net::IpAddr;
use std::rc::Rc;

use block::{BlockError, WriteFlags};
use ring::Data;
use ring::wait::{Either, first};
use scsi::param::Overwrite;
use scsi::unit::SanitizeMethod;

use super::provisioning::STEP_BYTES;
use crate::memory::{Held, Owner, Use};
use crate::outcome::{Doing, Outcome, failed};
use crate::pieces;
use crate::session::Task;
use crate::unit::Unit;

/// How much of a pattern is written at once, and kept in memory until the end.
const PIECE_BYTES: u64 = 256 << 10;

/// Who asked for it: its time and its memory are those of others, too, also when its session is gone.
struct Asker {
    address: IpAddr,
    owner: Rc<Owner>,
}

/// Does what an accepted SANITIZE asks for. Once begun, no abort, reset or lost session ends it
/// (SBC-4 §4.11.2): it goes on by itself, and the command waits for it unless IMMED is set. How it
/// ended is kept by the unit, which tells it to whoever asks.
pub(super) async fn sanitize(
    task: &Task,
    method: SanitizeMethod,
    immediate: bool,
) -> Result<(), Outcome> {
    let (done, result) = ring::oneshot();
    let unit = task.place.unit.clone();
    let conn = task.conn();
    let asker = Asker { address: conn.peer.ip(), owner: conn.owner.clone() };
    ring::spawn(async move { done.send(work(&unit, &method, &asker).await) });
    if immediate {
        return Ok(());
    }
    match first(result, task.wait_aborted()).await {
        Either::Left(Some(result)) => {
            result.map_err(|error| failed(&task.place.unit, error, Doing::Writing))
        }
        // Nobody waits for the answer, or the target ends.
        Either::Left(None) | Either::Right(()) => Err(Outcome::Aborted),
    }
}

async fn work(unit: &Unit, method: &SanitizeMethod, asker: &Asker) -> Result<(), BlockError> {
    let result = match method {
        SanitizeMethod::BlockErase => erase(unit, asker).await,
        SanitizeMethod::Overwrite(plan) => overwrite(unit, plan, asker).await,
    };
    let result = match result {
        Ok(()) => unit.device.flush().await,
        failed => failed,
    };
    match result {
        Err(error) => tracing::error!("{}: SANITIZE failed: {error}", unit.name),
        Ok(()) => {
            if let Err(error) = unit.forget_sanitize().await {
                // It is as it should be, but the next start does not know.
                tracing::error!("{}: cannot note that it is sanitized: {error}", unit.name);
            }
        }
    }
    unit.logical.sanitize_end(result.is_ok());
    result
}

/// The unit is still served: otherwise the disk is not to be touched any more.
fn check_served(unit: &Unit) -> Result<(), BlockError> {
    if unit.is_gone() { Err(BlockError::Unreachable) } else { Ok(()) }
}

/// BLOCK ERASE: all blocks are given back and read as zeroes afterwards.
async fn erase(unit: &Unit, asker: &Asker) -> Result<(), BlockError> {
    let size = unit.device.geometry().size_bytes();
    let flags = WriteFlags::VOLATILE;
    let mut at = 0;
    while at < size {
        let len = STEP_BYTES.min(size - at);
        pieces::next(asker.address).await;
        check_served(unit)?;
        unit.device.write_zeroes(at, len, true, flags).await?;
        at += len;
        report(unit, at, size);
    }
    Ok(())
}

/// OVERWRITE: the pattern in every block, as often as asked for.
async fn overwrite(unit: &Unit, plan: &Overwrite, asker: &Asker) -> Result<(), BlockError> {
    let size = unit.device.geometry().size_bytes();
    let passes = u64::from(plan.passes);
    let piece_bytes = PIECE_BYTES.min(size) as usize;
    for pass in 0..passes {
        let Held { mut buf, claim: _claim } =
            Held::wait(&asker.owner, Use::Read, piece_bytes).await;
        fill(&mut buf, plan, unit.block_bytes, plan.invert && pass % 2 == 1);
        let piece = Data::from(buf);
        let mut at = 0;
        while at < size {
            let data = piece.slice(0..PIECE_BYTES.min(size - at) as usize);
            pieces::next(asker.address).await;
            check_served(unit)?;
            let len = data.len() as u64;
            unit.device.write(at, data, WriteFlags::VOLATILE).await?;
            at += len;
            report(unit, pass * size + at, passes * size);
        }
    }
    Ok(())
}

/// Blocks that hold the pattern.
fn fill(piece: &mut [u8], plan: &Overwrite, block_bytes: u32, invert: bool) {
    let flip = if invert { 0xff } else { 0 };
    for block in piece.chunks_mut(block_bytes as usize) {
        for (byte, pattern) in block.iter_mut().zip(plan.pattern.iter().cycle()) {
            *byte = pattern ^ flip;
        }
    }
}

/// PROGRESS INDICATION: parts of 65,536 (SPC-5 §4.4.2.4.6).
fn report(unit: &Unit, done: u64, all: u64) {
    let share = u128::from(done) * 0xffff / u128::from(all.max(1));
    unit.logical.sanitize_progress(share as u16);
}
