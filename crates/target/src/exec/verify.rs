//! VERIFY: that blocks can be read, or hold what the host says (SBC-4 §5.38).

use std::rc::Rc;

use block::{BlockError, stable};
use ring::{Buf, Data};
use scsi::Sense;
use scsi::cdb::{BlockRange, ByteCheck};

use super::output::room_to_read;
use super::{Patience, READ_CHUNK_BYTES};
use crate::outcome::{Doing, Outcome, failed};
use crate::pieces;
use crate::session::Task;

/// What the medium should hold.
pub(super) enum Expect<'a> {
    /// Anything that can be read.
    Readable,
    /// These bytes.
    Same(&'a Data),
    /// This block, again and again.
    Repeated(&'a Data),
}

pub(super) async fn verify(task: &Rc<Task>, range: BlockRange, check: ByteCheck) -> Outcome {
    let unit = &task.place.unit;
    let data = task.take_data().map(Data::from).unwrap_or_default();
    let needed = task.command.data_out_bytes(unit.block_bytes);
    let len = unit.bytes_of(range.blocks.into());
    let (expected, len) = match check {
        ByteCheck::MediumOnly => (Expect::Readable, len),
        ByteCheck::EachBlock => (Expect::Same(&data), len.min(data.len() as u64)),
        ByteCheck::OneBlock if (data.len() as u64) < needed => {
            return Outcome::Check(Sense::invalid_field_in_cdb(1, Some(2)));
        }
        ByteCheck::OneBlock => (Expect::Repeated(&data), len),
    };
    match compare(task, unit.bytes_of(range.lba), len, expected).await {
        Ok(()) => Outcome::Good { moved: needed },
        Err(outcome) => outcome,
    }
}

/// Reads `len` bytes from `at` and compares them; the error is what ends the command.
pub(super) async fn compare(
    task: &Task,
    at: u64,
    len: u64,
    expect: Expect<'_>,
) -> Result<(), Outcome> {
    let unit = &task.place.unit;
    let mut done = 0;
    while done < len {
        let step = READ_CHUNK_BYTES.min((len - done).next_multiple_of(unit.block_bytes.into()));
        pieces::next(task.conn().peer.ip()).await;
        let memory = room_to_read(task, Buf::capacity_of(step as usize)).await;
        let Some(_memory) = memory else { return Err(Outcome::Aborted) };
        let read = read_piece(task, at + done, step as usize, &expect).await;
        let data = read.map_err(|error| failed(unit, error, Doing::Reading))?;
        if task.is_aborted() {
            return Err(Outcome::Aborted);
        }
        let take = step.min(len - done) as usize;
        if let Some(offset) = first_difference(&data.into_slice(0..take), &expect, done as usize) {
            return Err(Outcome::Check(Sense::miscompare(done + offset as u64)));
        }
        done += step;
    }
    Ok(())
}

/// Reads a piece, into memory that does not change if it is compared with anything. If the disk has none
/// for it this waits.
async fn read_piece(
    task: &Task,
    at: u64,
    len: usize,
    expect: &Expect<'_>,
) -> Result<Data, BlockError> {
    let device = &task.place.unit.device;
    let patience = Patience::new();
    loop {
        let read = device.read(at, len).await.and_then(|data| match expect {
            Expect::Readable => Ok(data),
            Expect::Same(_) | Expect::Repeated(_) => stable(data),
        });
        match read {
            Err(error) if patience.bears(error, task).await => {}
            read => return read,
        }
    }
}

/// Where `found`, which lies `done` bytes into the range, first differs from what is expected.
fn first_difference(found: &Data, expect: &Expect<'_>, done: usize) -> Option<usize> {
    let found = || found.as_slice().expect("read_piece gives such bytes");
    match expect {
        Expect::Readable => None,
        Expect::Same(data) => {
            let wanted = &data.as_slice().expect("received data is stable")[done..];
            differ(found(), wanted)
        }
        Expect::Repeated(block) => {
            let wanted = block.as_slice().expect("received data is stable");
            let blocks = found().chunks(wanted.len()).enumerate();
            blocks
                .filter_map(|(index, part)| Some(index * wanted.len() + differ(part, wanted)?))
                .next()
        }
    }
}

fn differ(found: &[u8], wanted: &[u8]) -> Option<usize> {
    if found == &wanted[..found.len()] {
        return None;
    }
    found.iter().zip(wanted).position(|(a, b)| a != b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found_to_the_byte() {
        let first = |found: &'static [u8], expect: &Expect<'_>, done| {
            first_difference(&Data::from(found), expect, done)
        };
        let block = Data::from(&b"abcd"[..]);
        let repeated = Expect::Repeated(&block);
        assert_eq!(first(b"abcdabcd", &repeated, 0), None);
        assert_eq!(first(b"abcdabXd", &repeated, 0), Some(6));
        let all = Data::from(&b"abcdefgh"[..]);
        assert_eq!(first(b"efgh", &Expect::Same(&all), 4), None);
        assert_eq!(first(b"efgX", &Expect::Same(&all), 4), Some(3));
        assert_eq!(first(b"zzzz", &Expect::Readable, 0), None);
    }
}
