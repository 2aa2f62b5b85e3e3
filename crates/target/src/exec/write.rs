//! Writes of all kinds (SBC-4 §5.3, §5.16, §5.40 ff).

use std::rc::Rc;

use block::{Compared, WriteFlags};
use ring::Data;
use scsi::cdb::{BlockRange, ByteCheck};
use scsi::{Sense, Status};

use super::{Patience, verify};
use crate::mutants::{self, Mutant};
use crate::outcome::{Doing, Outcome, failed};
use crate::session::Task;

/// The data of a task; what the initiator did not announce is not there.
fn data_of(task: &Task) -> Data {
    task.take_data().map(Data::from).unwrap_or_default()
}

/// The whole blocks of the data that came.
fn whole_blocks(task: &Task) -> Data {
    let data = data_of(task);
    let block_bytes = task.place.unit.block_bytes as usize;
    let len = data.len() / block_bytes * block_bytes;
    data.into_slice(0..len)
}

/// WRITE. When the initiator announced less than the CDB says, the blocks it did send are written
/// and the rest is residual.
pub(super) async fn write(task: &Rc<Task>, range: BlockRange, fua: bool) -> Outcome {
    let unit = &task.place.unit;
    let flags = WriteFlags { durable: unit.is_durable(fua), atomic: false };
    let (at, data) = (unit.bytes_of(range.lba), whole_blocks(task));
    let (patience, mut was_short) = (Patience::new(), false);
    loop {
        match unit.device.write(at, data.clone(), flags).await {
            Ok(()) if was_short && mutants::is(Mutant::BusyThoughRan) => {
                return Outcome::Status(Status::Busy);
            }
            Ok(()) => return Outcome::Good { moved: unit.bytes_of(range.blocks.into()) },
            // The same once more: it has not been answered, so nothing of it is old.
            Err(error) if patience.bears(error, task).await => was_short = true,
            Err(error) => return failed(unit, error, Doing::Writing),
        }
    }
}

/// WRITE ATOMIC(16): all or nothing, for readers and for other writers.
pub(super) async fn write_atomic(task: &Rc<Task>, range: BlockRange, fua: bool) -> Outcome {
    let unit = &task.place.unit;
    let flags = WriteFlags { durable: unit.is_durable(fua), atomic: true };
    match unit.device.write(unit.bytes_of(range.lba), data_of(task), flags).await {
        Ok(()) => Outcome::Good { moved: unit.bytes_of(range.blocks.into()) },
        Err(error) => failed(unit, error, Doing::Writing),
    }
}

/// WRITE AND VERIFY: on the medium before the answer, then read back.
pub(super) async fn write_and_verify(
    task: &Rc<Task>,
    range: BlockRange,
    check: ByteCheck,
) -> Outcome {
    let unit = &task.place.unit;
    let data = whole_blocks(task);
    let at = unit.bytes_of(range.lba);
    let flags = WriteFlags { durable: true, atomic: false };
    if let Err(error) = unit.device.write(at, data.clone(), flags).await {
        return failed(unit, error, Doing::Writing);
    }
    let expected = match check {
        ByteCheck::MediumOnly => verify::Expect::Readable,
        ByteCheck::EachBlock | ByteCheck::OneBlock => verify::Expect::Same(&data),
    };
    match verify::compare(task, at, data.len() as u64, expected).await {
        Ok(()) => Outcome::Good { moved: unit.bytes_of(range.blocks.into()) },
        Err(outcome) => outcome,
    }
}

/// COMPARE AND WRITE: the first half of the data is compared, the second written (SBC-4 §5.3).
pub(super) async fn compare_and_write(task: &Rc<Task>, range: BlockRange, fua: bool) -> Outcome {
    let unit = &task.place.unit;
    let data = data_of(task);
    let half = data.len() / 2;
    let moved = data.len() as u64;
    let flags = WriteFlags { durable: unit.is_durable(fua), atomic: false };
    let (compare, write) = (data.slice(0..half), data.slice(half..data.len()));
    let at = unit.bytes_of(range.lba);
    match unit.device.compare_and_write(at, compare, write, flags).await {
        Ok(Compared::Equal) => Outcome::Good { moved },
        Ok(Compared::Miscompare { offset_bytes }) => {
            Outcome::Check(Sense::miscompare(offset_bytes as u64))
        }
        Err(error) => failed(unit, error, Doing::Writing),
    }
}

/// ORWRITE(16).
pub(super) async fn or_write(task: &Rc<Task>, range: BlockRange, fua: bool) -> Outcome {
    let unit = &task.place.unit;
    let flags = WriteFlags { durable: unit.is_durable(fua), atomic: false };
    match unit.device.or_write(unit.bytes_of(range.lba), data_of(task), flags).await {
        Ok(()) => Outcome::Good { moved: unit.bytes_of(range.blocks.into()) },
        Err(error) => failed(unit, error, Doing::Writing),
    }
}
