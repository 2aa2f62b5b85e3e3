//! Labels on a disk.

use block::{BlockDevice, BlockError, WriteFlags};
use ring::Region;

use super::foreign::name_of;
use super::format::{Copy, LabelError, decode, encode};
use super::{LABEL_BYTES, Label, Layout};
use crate::BLOCK_BYTES;
use crate::mutants::{self, Mutant};

/// How much of a disk's head must be zero before it counts as blank: file systems leave the
/// first sectors alone, btrfs even the first 64 KiB.
pub(super) const HEAD_BYTES: u64 = 256 << 10;

/// What a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Zeroes at both ends: free to be taken.
    Blank,
    /// A disk of an array.
    Label {
        /// Its label; of two different ones that with the higher generation.
        label: Box<Label>,
        /// One copy is damaged or older: write both again.
        rewrite: bool,
        /// Its end is blank where the second copy should be: it was cut short and made as large
        /// again. Or its very first label was cut off, and nothing is on it yet.
        is_cut: bool,
    },
    /// Somebody else's; must not be written to. What it looks like, in words.
    Foreign(String),
    /// Labelled by a program that writes another format.
    Version(u32),
    /// Was a disk of an array, and none of its labels can be used. Why, in words.
    Damaged(String),
}

/// Reads what `device` is; writes nothing.
///
/// # Errors
/// Those of the device, when neither label can be read.
pub async fn read(device: &dyn BlockDevice) -> Result<Found, BlockError> {
    let size_bytes = device.geometry().size_bytes();
    let Some(b_at) = Layout::label_b_at(size_bytes) else {
        return Ok(Found::Foreign(format!("a disk of {size_bytes} bytes, too small for labels")));
    };
    let first = read_patiently(device, 0).await;
    let tail = read_patiently(device, b_at).await;
    let a = match &first {
        Ok(first) => decode(first, 0),
        Err(_) => Copy::Unreadable,
    };
    let b = match &tail {
        Ok(tail) => decode(tail, b_at),
        Err(_) => Copy::Unreadable,
    };
    match from_copies(&a, &b, size_bytes) {
        Some(Found::Label { label, rewrite, is_cut: true }) => {
            let is_cut = !has_grown(device, label.own().size_bytes).await?;
            return Ok(Found::Label { label, rewrite, is_cut });
        }
        Some(found) => return Ok(found),
        None => {}
    }
    // No label at all. A disk that cannot be read must never pass for a blank one.
    let head = read_bytes(device, 0, HEAD_BYTES.min(b_at + LABEL_BYTES)).await?;
    let tail = tail?;
    let blank = head.iter().chain(&tail).all(|byte| *byte == 0);
    Ok(if blank {
        Found::Blank
    } else {
        Found::Foreign(name_of(&head).unwrap_or("data of unknown kind").to_owned())
    })
}

/// Whether the second copy is where the end of the disk was when it joined, with `size_bytes`: then it was
/// made larger since, and all that is used of it is there. So it is believed to be when that place cannot
/// be read: what was cut off there reads as zeroes.
///
/// # Errors
/// Such as say nothing about the disk.
async fn has_grown(device: &dyn BlockDevice, size_bytes: u64) -> Result<bool, BlockError> {
    let is_larger = device.geometry().size_bytes() > size_bytes;
    let Some(b_at) = Layout::label_b_at(size_bytes).filter(|_| is_larger) else { return Ok(false) };
    match read_patiently(device, b_at).await {
        Ok(tail) => Ok(matches!(decode(&tail, b_at), Copy::Good(_))),
        Err(error) if error.is_passing() => Err(error),
        Err(_) => Ok(!mutants::is(Mutant::BlameGrown)),
    }
}

/// What two copies say together; `None` when neither ever was a label.
fn from_copies(a: &Copy, b: &Copy, size_bytes: u64) -> Option<Found> {
    let newest = match (a, b) {
        (Copy::Good(a), Copy::Good(b)) if (a.array, a.disk) != (b.array, b.disk) => {
            let text = "its two labels are of different disks, as after a copy or a cut: wipe it when \
                        nothing on it is needed";
            return Some(Found::Damaged(text.to_owned()));
        }
        (Copy::Good(a), Copy::Good(b)) => Some(if b.generation > a.generation { b } else { a }),
        (Copy::Good(label), _) | (_, Copy::Good(label)) => Some(label),
        _ => None,
    };
    // A whole label beside one of another version is a disk in the middle of an upgrade: only the
    // newer program knows how to go on.
    if let (Copy::Version(version), _) | (_, Copy::Version(version)) = (a, b) {
        return Some(Found::Version(*version));
    }
    if let Some(label) = newest {
        let needed_bytes = label.own().size_bytes;
        if size_bytes < needed_bytes {
            let text = format!(
                "it is too short, with {size_bytes} of the {needed_bytes} bytes that it had when it joined: \
                 make it as large again, and what it lost is restored, or replace it"
            );
            return Some(Found::Damaged(text));
        }
        // Label A is never blank beside a label B: a disk that was cut has its first part.
        let is_cut = *b == Copy::Blank && !mutants::is(Mutant::KeepCut);
        return Some(Found::Label { label: label.clone(), rewrite: a != b, is_cut });
    }
    match (a, b) {
        (Copy::Damaged(why), _) | (_, Copy::Damaged(why)) => {
            let text =
                format!("no label of it is whole ({why}): wipe it when nothing on it is needed");
            Some(Found::Damaged(text))
        }
        _ => None,
    }
}

/// A label, at the second attempt if need be: a read that fails once must not keep a disk out.
async fn read_patiently(device: &dyn BlockDevice, at: u64) -> Result<Vec<u8>, BlockError> {
    match read_bytes(device, at, LABEL_BYTES).await {
        Err(_) => read_bytes(device, at, LABEL_BYTES).await,
        read => read,
    }
}

pub(super) async fn read_bytes(
    device: &dyn BlockDevice,
    at: u64,
    len: u64,
) -> Result<Vec<u8>, BlockError> {
    let data = device.read(at, len as usize).await?;
    let mut bytes = vec![0; len as usize];
    data.copy_to(0, &mut bytes);
    Ok(bytes)
}

/// Writes both copies of `label` over those that a member has. Not over the blank end of one that was cut short:
/// its own labels would make it as long as it was, and nothing would tell any more.
///
/// # Errors
/// [`LabelError`]; the disk may then hold the old or the new label.
pub async fn renew(device: &dyn BlockDevice, label: &Label) -> Result<(), LabelError> {
    let is_cut = is_cut_short(device, label.own().size_bytes).await;
    if is_cut && !mutants::is(Mutant::BlindLabel) {
        return Err(LabelError::CutShort);
    }
    write(device, label).await
}

/// Whether a member is shorter than when it joined, with `size_bytes`, or blank where its second label should
/// be. A place that cannot be read may be a bad sector, which the next label mends.
async fn is_cut_short(device: &dyn BlockDevice, size_bytes: u64) -> bool {
    let now_bytes = device.geometry().size_bytes();
    let Some(b_at) = Layout::label_b_at(now_bytes).filter(|_| now_bytes >= size_bytes) else {
        return true;
    };
    let tail = ring::with_reserve(read_patiently(device, b_at)).await;
    tail.is_ok_and(|tail| decode(&tail, b_at) == Copy::Blank)
        && !has_grown(device, size_bytes).await.unwrap_or(true)
}

/// Writes both copies of `label`, each durable before the next step, whatever is there.
///
/// # Errors
/// [`LabelError`]; the disk may then hold the old or the new label.
pub async fn write(device: &dyn BlockDevice, label: &Label) -> Result<(), LabelError> {
    let size_bytes = device.geometry().size_bytes();
    let b_at = Layout::label_b_at(size_bytes).expect("members are large enough for their layout");
    assert!(b_at.is_multiple_of(BLOCK_BYTES as u64), "labels lie on whole blocks");
    // Memory of its own: which disks take part must be written when hosts have used up the pool.
    let image = Region::new(LABEL_BYTES as usize).map_err(|_| BlockError::NoMemory)?;
    let mut bytes = vec![0; LABEL_BYTES as usize];
    for at in [0, b_at] {
        encode(label, at, &mut bytes)?;
        image.write(0, &bytes);
        device.write(at, image.slice(0, bytes.len()), WriteFlags::DURABLE).await?;
    }
    Ok(())
}
