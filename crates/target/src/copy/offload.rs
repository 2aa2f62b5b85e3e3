//! POPULATE TOKEN and WRITE USING TOKEN (SBC-4 §5.12, §5.59), the ODX of Windows.

use std::sync::Arc;

use scsi::cdb::BlockRange;
use scsi::copy::{
    CopyAction, OperationStatus, PopulateToken, TokenRange, WriteUsingToken, underrun,
};
use scsi::reservation::Refusal;
use scsi::unit::CopyAccess;
use scsi::{AdditionalSense, Sense, SenseKey};

use super::Request;
use super::job::{NotBegun, Record, Running};
use super::manager::{CopyManager, Rod, unknown_token};
use super::transfer::{Failure, Piece, Side, Source, Work};
use crate::outcome::{Doing, Outcome, failed, refused};
use crate::unit::Unit;

/// POPULATE TOKEN. Making a token moves no data, so IMMED has nothing to put off.
pub(crate) fn populate(request: &Request, list_id: u32, list: &[u8]) -> Result<(), Outcome> {
    let unit = &request.unit;
    let medium = unit.logical.medium();
    let parsed = PopulateToken::parse(list, medium.block_bytes, medium.blocks.get());
    let Some(wanted) = parsed.map_err(Outcome::Check)? else { return Ok(()) };
    admit(request, &wanted.ranges, CopyAccess::Read)?;
    let id = request.copy_id(CopyAction::PopulateToken, list_id);
    let block_bytes = unit.block_bytes.into();
    let record = Record::begin(request, Some(id), block_bytes, false).map_err(Outcome::Check)?;
    if wanted.ranges.is_empty() {
        record.finish(OperationStatus::Completed, None, None);
        return Ok(());
    }
    match request.copies.create_token(unit, &request.key, &wanted) {
        Ok(token) => {
            record.arrived(unit.bytes_of(wanted.blocks()));
            record.finish(OperationStatus::Completed, None, Some(token));
            Ok(())
        }
        Err(sense) => {
            record.finish(OperationStatus::CompletedWithErrors, Some(sense), None);
            Err(Outcome::Check(sense))
        }
    }
}

/// Whether this nexus may do that with these ranges of the unit that the command was sent to.
fn admit(request: &Request, ranges: &[TokenRange], access: CopyAccess) -> Result<(), Outcome> {
    ranges.iter().try_for_each(|&TokenRange { lba, blocks }| {
        let range = BlockRange { lba, blocks };
        request.unit.logical.admit_copy(&request.key, range, access).map_err(refused)
    })
}

/// WRITE USING TOKEN, with a token of any of `units`. With IMMED the copy goes on by itself and its
/// record tells how it ends.
pub(crate) async fn write(
    mut request: Request,
    units: &[Arc<Unit>],
    list_id: u32,
    list: &[u8],
) -> Result<(), Outcome> {
    let medium = request.unit.logical.medium();
    let parsed = WriteUsingToken::parse(list, medium.block_bytes, medium.blocks.get());
    let Some(wanted) = parsed.map_err(Outcome::Check)? else { return Ok(()) };
    let rod = CopyManager::open_token(units, &wanted.token).map_err(Outcome::Check)?;
    let plan = plan(&request.unit, &rod, &wanted).map_err(Outcome::Check)?;
    admit(&request, &wanted.ranges, CopyAccess::Write)?;
    let id = request.copy_id(CopyAction::WriteUsingToken, list_id);
    let block_bytes = request.unit.block_bytes.into();
    let record = Record::begin(&request, Some(id), block_bytes, wanted.immediate);
    let record = record.map_err(Outcome::Check)?;
    let mut touched = vec![request.unit.clone()];
    if let Rod::Blocks { unit, .. } = &rod {
        touched.push(unit.clone());
    }
    let job = match request.copies.start(&request.key, touched) {
        Ok(job) => job,
        Err(why) => {
            let sense = match why {
                NotBegun::Gone => unknown_token(),
                NotBegun::TooMany => Sense::insufficient_resources(),
            };
            record.finish(OperationStatus::CompletedWithErrors, Some(sense), None);
            return Err(Outcome::Check(sense));
        }
    };
    if !wanted.immediate {
        return run((&request, &job), record, &wanted, &rod, &plan).await;
    }
    // The command is over when it is answered: what is aborted later is not this.
    request.aborted = Box::new(|| false);
    ring::spawn(async move {
        let _told_by_the_record = run((&request, &job), record, &wanted, &rod, &plan).await;
    });
    Ok(())
}

/// Copies, keeps the outcome in the record, and returns it.
async fn run(
    (request, job): (&Request, &Running),
    record: Record,
    wanted: &WriteUsingToken,
    rod: &Rod,
    plan: &[Piece],
) -> Result<(), Outcome> {
    // Before the first block changes: if the token stands for blocks that are to be overwritten,
    // it ends here, and nothing is copied. Half a copy would have damaged its own source.
    for range in &wanted.ranges {
        request.unit.tokens.changed(range.lba, range.blocks.into());
    }
    let tokens = match rod {
        Rod::Zeroes => None,
        Rod::Blocks { unit, .. } => Some(&*unit.tokens),
    };
    let token = tokens.map(|tokens| (tokens, &*wanted.token));
    let work = Work { request, job, record: &record, token };
    let mut result = Ok(());
    for piece in plan {
        result = work.copy(piece).await;
        if result.is_err() {
            break;
        }
    }
    if let Some(tokens) = tokens.filter(|_| wanted.delete_token) {
        tokens.delete(&wanted.token);
    }
    let (status, sense) = match result {
        Err(Failure::Aborted) => return Err(Outcome::Aborted),
        Err(failure) => {
            let sense = sense_of(&failure, &record, plan);
            (OperationStatus::CompletedWithErrors, Some(sense))
        }
        Ok(()) if record.transferred() < wanted.blocks() => {
            (OperationStatus::CompletedPartially, Some(underrun(record.transferred())))
        }
        Ok(()) => (OperationStatus::Completed, None),
    };
    record.finish(status, sense, None);
    sense.map_or(Ok(()), |sense| Err(Outcome::Check(sense)))
}

/// Lays what the token stands for, from the offset on, over the ranges to write. Ends where
/// either ends (SBC-4 §4.28.2).
///
/// COPY SEGMENT GRANULARITY VIOLATION if units of different block lengths meet in the middle of a
/// block, INVALID FIELD IN PARAMETER LIST for an offset behind the end.
fn plan(destination: &Arc<Unit>, rod: &Rod, wanted: &WriteUsingToken) -> Result<Vec<Piece>, Sense> {
    const OFFSET_AT: u16 = 8;
    let bad_offset = Sense::invalid_field_in_parameter_list(OFFSET_AT, None);
    let offset = wanted.offset_blocks.checked_mul(destination.block_bytes.into());
    let mut offset = offset.ok_or(bad_offset)?;
    let mut targets = Spans::new(&wanted.ranges, destination.block_bytes);
    let Rod::Blocks { unit, block_bytes, ranges } = rod else {
        let zeroes =
            |(at, len)| Piece { source: Source::Zeroes, destination: destination.clone(), at, len };
        return Ok(targets.0.into_iter().map(zeroes).collect());
    };
    let mut sources = Spans::new(ranges, *block_bytes);
    if offset > 0 && offset >= sources.len() {
        return Err(bad_offset);
    }
    while offset > 0 {
        offset -= sources.take(offset).map_or(offset, |(_, len)| len);
    }
    let granularity = u64::from(destination.block_bytes.max(*block_bytes));
    let mut plan = Vec::new();
    while let (Some((_, want)), Some((_, have))) = (targets.first(), sources.first()) {
        let len = want.min(have);
        let (Some((at, _)), Some((from, _))) = (targets.take(len), sources.take(len)) else {
            break;
        };
        let block = |at: u64, unit: &Unit| at.is_multiple_of(unit.block_bytes.into());
        if !len.is_multiple_of(granularity) || !block(from, unit) || !block(at, destination) {
            let code = AdditionalSense::COPY_SEGMENT_GRANULARITY_VIOLATION;
            return Err(Sense::new(SenseKey::CopyAborted, code));
        }
        let source = Source::Unit(unit.clone(), from);
        plan.push(Piece { source, destination: destination.clone(), at, len });
    }
    Ok(plan)
}

/// Runs of bytes, as start and length, taken from the front.
struct Spans(std::collections::VecDeque<(u64, u64)>);

impl Spans {
    fn new(ranges: &[TokenRange], block_bytes: u32) -> Self {
        let bytes = |blocks: u64| blocks * u64::from(block_bytes);
        Self(ranges.iter().map(|range| (bytes(range.lba), bytes(range.blocks.into()))).collect())
    }

    fn len(&self) -> u64 {
        self.0.iter().map(|(_, len)| len).sum()
    }

    fn first(&self) -> Option<(u64, u64)> {
        self.0.front().copied()
    }

    /// Takes at most `len` bytes, of one run.
    fn take(&mut self, len: u64) -> Option<(u64, u64)> {
        let (at, have) = self.0.pop_front()?;
        let len = len.min(have);
        if len < have {
            self.0.push_front((at + len, have - len));
        }
        Some((at, len))
    }
}

/// Why a copy did not come to its end. The record has the number of blocks that did.
fn sense_of(failure: &Failure, record: &Record, plan: &[Piece]) -> Sense {
    let copy_aborted = || {
        let code = AdditionalSense::THIRD_PARTY_DEVICE_FAILURE;
        Sense::new(SenseKey::CopyAborted, code).with_information(record.transferred())
    };
    match failure {
        Failure::Token(sense) | Failure::Refused(Side::Destination, Refusal::Check(sense)) => {
            *sense
        }
        Failure::Failed(side, error) => {
            let Some(piece) = plan.first() else { return copy_aborted() };
            match (side, &piece.source) {
                (Side::Source, Source::Unit(unit, _)) => {
                    let _logged = failed(unit, *error, Doing::Reading);
                    copy_aborted()
                }
                _ => match failed(&piece.destination, *error, Doing::Writing) {
                    Outcome::Check(sense) => sense,
                    _ => copy_aborted(),
                },
            }
        }
        Failure::Aborted | Failure::Stopped | Failure::Refused(..) => copy_aborted(),
    }
}
