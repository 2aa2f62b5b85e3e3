//! Moving the data: chunk by chunk, reading the next one while the last one is written.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockError, WriteFlags};
use ring::Data;
use ring::wait::both;
use scsi::Sense;
use scsi::cdb::BlockRange;
use scsi::copy::ROD_TOKEN_BYTES;
use scsi::reservation::Refusal;
use scsi::unit::CopyAccess;

use super::Request;
use super::job::{Record, Running};
use super::slots::Slot;
use crate::pieces;
use crate::tokens::UnitTokens;
use crate::unit::Unit;

/// Large enough that a disk with a moving head works at half its speed or better while it reads
/// here and writes there; small enough that a core is not kept from its other work.
pub(super) const CHUNK_BYTES: u64 = 1 << 20;
/// Zeroes need no memory, so their steps are longer.
const ZERO_STEP_BYTES: u64 = 64 << 20;
/// A disk that is busy, or a pool that is used up, is asked again this often ...
const RETRIES: usize = 50;
/// ... with this pause: half a second in all. The host's own commands would get BUSY and come
/// again; a copy that is half done has no such answer.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// Where data comes from.
pub(super) enum Source {
    /// This unit, from this byte on.
    Unit(Arc<Unit>, u64),
    /// The zero ROD token.
    Zeroes,
}

/// One run of bytes to copy. All numbers are whole blocks of both units.
pub(super) struct Piece {
    pub(super) source: Source,
    pub(super) destination: Arc<Unit>,
    /// First byte to write.
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Which of the two units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Destination,
}

/// Why copying ended early.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command was aborted.
    Aborted,
    /// The copy was stopped: PREEMPT AND ABORT, a reset, the end of the session or of a unit.
    Stopped,
    /// The token is no longer good.
    Token(Sense),
    /// The unit does not let this initiator read or write there, now.
    Refused(Side, Refusal),
    /// The disk failed.
    Failed(Side, BlockError),
}

/// A copy at work.
pub(super) struct Work<'a> {
    pub(super) request: &'a Request,
    pub(super) job: &'a Running,
    pub(super) record: &'a Record,
    /// The token whose data is copied, and those of its unit. It must be good from the first chunk
    /// to the last.
    pub(super) token: Option<(&'a UnitTokens, &'a [u8; ROD_TOKEN_BYTES])>,
}

impl Work<'_> {
    /// Copies one piece. Within a unit the ranges may overlap: the destination then holds what the
    /// source held before.
    pub(super) async fn copy(&self, piece: &Piece) -> Result<(), Failure> {
        match &piece.source {
            Source::Zeroes => self.zero(piece).await,
            Source::Unit(unit, from) => self.pump(piece, unit, *from).await,
        }
    }

    async fn pump(&self, piece: &Piece, source: &Arc<Unit>, from: u64) -> Result<(), Failure> {
        // Reading ahead is safe either way: what is read next lies on the far side of the write.
        let backwards = Arc::ptr_eq(source, &piece.destination)
            && from < piece.at
            && piece.at - from < piece.len;
        let mut steps = steps(piece.len, CHUNK_BYTES, backwards);
        let Some(mut step) = steps.next() else { return Ok(()) };
        self.check(piece, step)?;
        let mut chunk = self.read(source, from + step.at, step.len).await?;
        loop {
            pieces::next(self.request.host).await;
            // After the read and before the write: what was read is still what may be written.
            self.check(piece, step)?;
            self.announce(piece, step);
            let write = self.write(&piece.destination, piece.at + step.at, chunk);
            let next = steps.next();
            let ahead = async {
                match next {
                    Some(next) => Some(self.read(source, from + next.at, next.len).await),
                    None => None,
                }
            };
            let (written, ahead) = both(write, ahead).await;
            written?;
            if !backwards {
                self.record.arrived(step.len);
            }
            let (Some(next), Some(ahead)) = (next, ahead) else { break };
            (step, chunk) = (next, ahead?);
        }
        if backwards {
            self.record.arrived(piece.len); // only now is it there from the start on
        }
        Ok(())
    }

    async fn zero(&self, piece: &Piece) -> Result<(), Failure> {
        let unit = &piece.destination;
        let flags = WriteFlags { durable: unit.is_durable(false), atomic: false };
        for step in steps(piece.len, ZERO_STEP_BYTES, false) {
            pieces::next(self.request.host).await;
            self.check(piece, step)?;
            self.announce(piece, step);
            let at = piece.at + step.at;
            let at_work = self.job.begin_at(unit).ok_or(Failure::Stopped)?;
            let zeroed = patiently(|| unit.device.write_zeroes(at, step.len, true, flags)).await;
            zeroed.map_err(|error| Failure::Failed(Side::Destination, error))?;
            drop(at_work);
            self.record.arrived(step.len);
        }
        Ok(())
    }

    async fn read(&self, unit: &Arc<Unit>, at: u64, len: u64) -> Result<Chunk, Failure> {
        let initiator = &self.request.key.initiator;
        let slot = Slot::take(initiator, || self.check_wanted().is_err()).await;
        let Some(slot) = slot else {
            return Err(self.check_wanted().err().unwrap_or(Failure::Stopped));
        };
        let _at_work = self.job.begin_at(unit).ok_or(Failure::Stopped)?;
        // Bytes that stand still: a check that follows the read is about these bytes.
        let data = patiently(|| unit.read_stable(at, len as usize)).await;
        let data = data.map_err(|error| Failure::Failed(Side::Source, error))?;
        Ok(Chunk { data, _slot: slot })
    }

    async fn write(&self, unit: &Arc<Unit>, at: u64, chunk: Chunk) -> Result<(), Failure> {
        let _at_work = self.job.begin_at(unit).ok_or(Failure::Stopped)?;
        let flags = WriteFlags { durable: unit.is_durable(false), atomic: false };
        let written = patiently(|| unit.device.write(at, chunk.data.clone(), flags)).await;
        written.map_err(|error| Failure::Failed(Side::Destination, error))
    }

    /// Whether this step may be done now. Asked anew for each one: a reservation that was taken,
    /// or a write protection that was set meanwhile, holds from the next step on.
    fn check(&self, piece: &Piece, step: Step) -> Result<(), Failure> {
        self.check_wanted()?;
        if let Some((tokens, token)) = self.token {
            tokens.use_token(token).map_err(Failure::Token)?;
        }
        let admit = |unit: &Unit, at: u64, access| {
            unit.logical.admit_copy(&self.request.key, blocks_of(unit, at, step.len), access)
        };
        if let Source::Unit(unit, from) = &piece.source {
            admit(unit, from + step.at, CopyAccess::Read)
                .map_err(|refusal| Failure::Refused(Side::Source, refusal))?;
        }
        admit(&piece.destination, piece.at + step.at, CopyAccess::Write)
            .map_err(|refusal| Failure::Refused(Side::Destination, refusal))
    }

    /// Nobody has aborted or stopped it.
    fn check_wanted(&self) -> Result<(), Failure> {
        if (self.request.aborted)() {
            return Err(Failure::Aborted);
        }
        if self.job.is_stopped() {
            return Err(Failure::Stopped);
        }
        Ok(())
    }

    /// Tokens for the blocks that are written next end.
    fn announce(&self, piece: &Piece, step: Step) {
        let unit = &piece.destination;
        let range = blocks_of(unit, piece.at + step.at, step.len);
        unit.tokens.changed(range.lba, range.blocks.into());
    }
}

fn blocks_of(unit: &Unit, at: u64, len: u64) -> BlockRange {
    let block_bytes = u64::from(unit.block_bytes);
    let blocks = u32::try_from(len / block_bytes).expect("a step is far below 2^32 blocks");
    BlockRange { lba: at / block_bytes, blocks }
}

/// A part of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Where it starts in the piece.
    at: u64,
    len: u64,
}

fn steps(len: u64, step_bytes: u64, backwards: bool) -> impl Iterator<Item = Step> {
    let count = len.div_ceil(step_bytes);
    (0..count).map(move |n| {
        let at = if backwards { count - 1 - n } else { n } * step_bytes;
        Step { at, len: step_bytes.min(len - at) }
    })
}

/// Data in memory, counted against those of its core until it is dropped.
struct Chunk {
    data: Data,
    _slot: Slot,
}

/// Asks again where asking again may help.
async fn patiently<T, Operation>(ask: impl Fn() -> Operation) -> Result<T, BlockError>
where
    Operation: Future<Output = Result<T, BlockError>>,
{
    for _ in 0..RETRIES {
        match ask().await {
            Err(BlockError::NoMemory | BlockError::Busy) => ring::sleep(RETRY_PAUSE).await,
            result => return result,
        }
    }
    ask().await
}
