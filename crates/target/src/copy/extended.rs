//! EXTENDED COPY(LID1) (SPC-4 §6.5), the XCOPY of VMware and of others.

use std::sync::Arc;

use scsi::copy::{
    CopyAction, CopyTarget, Cscd, Designator, ExtendedCopy, OperationStatus, Segment,
    segment_failure,
};
use scsi::reservation::Refusal;
use scsi::{AdditionalSense, Sense};

use super::Request;
use super::job::{NotBegun, Record};
use super::transfer::{Failure, Piece, Side, Source, Work};
use crate::outcome::{Doing, Outcome, failed};
use crate::unit::Unit;

/// A segment with the units that it names.
struct Placed<'a> {
    segment: &'a Segment,
    source: Arc<Unit>,
    destination: Arc<Unit>,
}

/// Copies segment by segment. The units are all looked up before anything is copied; whether they
/// may be read and written is asked when their turn comes (SPC-4 §5.17.7).
pub(crate) async fn copy(
    request: &Request,
    units: &[Arc<Unit>],
    list: &[u8],
) -> Result<(), Outcome> {
    let plan = ExtendedCopy::parse(list).map_err(Outcome::Check)?;
    let placed = place(request, units, &plan.segments).map_err(Outcome::Check)?;
    let mut touched = vec![request.unit.clone()];
    for unit in placed.iter().flat_map(|each| [&each.source, &each.destination]) {
        if !touched.iter().any(|other| Arc::ptr_eq(other, unit)) {
            touched.push(unit.clone());
        }
    }
    let id = plan.list_id.map(|id| request.copy_id(CopyAction::ExtendedCopy, id.into()));
    let record = Record::begin(request, id, 1, false).map_err(Outcome::Check)?;
    let job = match request.copies.start(&request.key, touched) {
        Ok(job) => job,
        Err(why) => {
            let sense = match why {
                // Which one has just gone nobody asks: all segments were to be copied, or none.
                NotBegun::Gone => {
                    segment_failure(0, AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE)
                }
                NotBegun::TooMany => Sense::insufficient_resources(),
            };
            record.finish(OperationStatus::CompletedWithErrors, Some(sense), None);
            return Err(Outcome::Check(sense));
        }
    };
    let work = Work { request, job: &job, record: &record, token: None };
    for (index, placed) in placed.iter().enumerate() {
        record.next_segment();
        if let Err(end) = copy_segment(&work, index, placed).await {
            if let Outcome::Check(sense) = end {
                record.finish(OperationStatus::CompletedWithErrors, Some(sense), None);
            }
            return Err(end);
        }
    }
    record.finish(OperationStatus::Completed, None, None);
    Ok(())
}

/// Looks up the units of all segments. Each name is looked for once: there may be a thousand units.
fn place<'a>(
    request: &Request,
    units: &[Arc<Unit>],
    segments: &'a [Segment],
) -> Result<Vec<Placed<'a>>, Sense> {
    let mut known: Vec<(Cscd, Arc<Unit>)> = Vec::new();
    let mut find = |target: &CopyTarget, index: usize| {
        let CopyTarget::Named(cscd) = target else { return Ok(request.unit.clone()) };
        if let Some((_, unit)) = known.iter().find(|(other, _)| other == cscd) {
            return Ok(unit.clone());
        }
        let unit = find(units, cscd, index)?;
        known.push((*cscd, unit.clone()));
        Ok(unit)
    };
    let mut place = |(index, segment): (usize, &'a Segment)| {
        let (source, destination) =
            (find(&segment.source, index)?, find(&segment.destination, index)?);
        Ok(Placed { segment, source, destination })
    };
    segments.iter().enumerate().map(&mut place).collect()
}

/// The unit that a CSCD descriptor names, with the block length that it says.
fn find(units: &[Arc<Unit>], cscd: &Cscd, index: usize) -> Result<Arc<Unit>, Sense> {
    let named = units.iter().find(|unit| is_named(unit, &cscd.designator));
    let unit = named
        .ok_or_else(|| segment_failure(index, AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE))?;
    if cscd.block_bytes != 0 && cscd.block_bytes != unit.block_bytes {
        let code = AdditionalSense::INVALID_OPERATION_FOR_COPY_SOURCE_OR_DESTINATION;
        return Err(segment_failure(index, code));
    }
    Ok(unit.clone())
}

/// Whether this is one of the designators of VPD page 83h that name the unit, as far as a CSCD
/// descriptor has room.
fn is_named(unit: &Unit, designator: &Designator) -> bool {
    const ASCII: u8 = 2;
    const T10_VENDOR_ID: u8 = 1;
    let identity = &unit.logical.config().identity;
    if designator.is_in(&[Designator::naa(&identity.naa)]) {
        return true;
    }
    let t10 = format!("{:<8}{}", identity.vendor, identity.serial);
    let t10 = Designator::new(ASCII, 0, T10_VENDOR_ID, t10.as_bytes());
    t10.is_some_and(|name| designator.is_in(&[name]))
}

async fn copy_segment(work: &Work<'_>, index: usize, placed: &Placed<'_>) -> Result<(), Outcome> {
    let Placed { segment, source, destination } = placed;
    let len = segment
        .length_bytes(index, source.block_bytes, destination.block_bytes)
        .map_err(Outcome::Check)?;
    let beyond = || Outcome::Check(segment_failure(index, AdditionalSense::NO_ADDITIONAL_SENSE));
    let piece = Piece {
        source: Source::Unit(
            source.clone(),
            start_of(source, segment.source_lba, len).ok_or_else(beyond)?,
        ),
        destination: destination.clone(),
        at: start_of(destination, segment.destination_lba, len).ok_or_else(beyond)?,
        len,
    };
    work.copy(&piece).await.map_err(|failure| ended_by(&failure, index, placed))
}

/// The first byte of a range that is wholly on the medium.
fn start_of(unit: &Unit, lba: u64, len: u64) -> Option<u64> {
    let end = lba.checked_add(len / u64::from(unit.block_bytes))?;
    (end <= unit.logical.medium().blocks.get()).then(|| unit.bytes_of(lba))
}

/// What the host hears of a segment that failed (SPC-4 §5.17.7.4): COPY ABORTED with its number,
/// and as much of the reason as the unit would have told it.
fn ended_by(failure: &Failure, index: usize, placed: &Placed<'_>) -> Outcome {
    let code = match failure {
        Failure::Aborted => return Outcome::Aborted,
        Failure::Refused(_, Refusal::Check(sense)) => sense.additional,
        Failure::Failed(side, error) => {
            let (unit, doing) = match side {
                Side::Source => (&placed.source, Doing::Reading),
                Side::Destination => (&placed.destination, Doing::Writing),
            };
            let _logged = failed(unit, *error, doing);
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE
        }
        Failure::Stopped | Failure::Token(_) | Failure::Refused(_, Refusal::Conflict) => {
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE
        }
    };
    Outcome::Check(segment_failure(index, code))
}
