//! What the destination of a move is given, in which order.
//!
//! Each snapshot of the volume is sent, oldest first, as what differs from the one before. Behind them come rounds: a
//! snapshot that the move takes, whose difference is sent, and which is deleted when the next one was. A snapshot that
//! somebody takes meanwhile comes in its turn, by its number.
//!
//! ```text
//!   s1 ─▶ s2 ─▶ moving-1 ─▶ moving-2 ─▶ s3 ─▶ moving-3 ─▶ caught up ║ frozen ─▶ moving-4 ─▶ end
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::api::{ChangedExtent, SnapshotInfo};
use array::{Array, ArrayError};
use block::BlockDevice;

use super::super::{MoveError, RequestError};
use crate::move_request::{PIECE_BYTES_MAX, Piece};
use crate::mutants::{self, Mutant};
use crate::settings::hidden::OF_MOVE;
pub(super) use crate::settings::hidden::is_of_move;

/// After a round of no more bytes comes the last one: so much is sent within a moment, for which hosts can wait.
const LAST_ROUND_BYTES: u64 = 32 << 20;

/// Rounds, at most: hosts may write faster than a move can send.
const ROUNDS_MAX: u32 = 12;

/// What the last round may have, at most: hosts wait about as long as the one before took, and lose the disk when that is
/// longer than their time limits.
const LAST_ROUND_BYTES_MAX: u64 = 1 << 30;

/// How long it may have taken, at most.
const LAST_ROUND_TIME: Duration = Duration::from_secs(30);

/// The name of a snapshot that a move is to take.
pub(super) fn drawn_name() -> Result<String, getrandom::Error> {
    Ok(format!("{OF_MOVE}{:016x}", getrandom::u64()?))
}

/// The snapshots of a volume that move along, oldest first.
pub(super) fn snapshots_to_move(
    array: &Array,
    volume: &str,
) -> Result<Vec<SnapshotInfo>, ArrayError> {
    let mut all = array.snapshots(volume)?;
    all.retain(|snapshot| !snapshot.deleting && !is_of_move(&snapshot.name));
    all.sort_by_key(|snapshot| snapshot.id);
    Ok(all)
}

/// What is being sent: a snapshot, as what differs from the one before.
#[derive(Debug)]
struct Sending {
    snapshot: SnapshotInfo,
    device: Arc<dyn BlockDevice>,
    /// What is still to be sent.
    left: VecDeque<ChangedExtent>,
    /// How much it was.
    bytes: u64,
}

/// How far a move has come with the contents of its volume.
#[derive(Debug)]
pub(super) struct Copying {
    /// The size that the volume has at the destination.
    size_bytes: u64,
    /// The snapshot that the destination has, and its number; nothing is there before the first.
    base: Option<(u32, String)>,
    sending: Option<Sending>,
    /// Snapshots that were sent and are to be there at the end, by number and name.
    sent: Vec<(u32, String)>,
    /// Snapshots of the move that are there.
    own: Vec<String>,
    rounds: u32,
    /// When what is being sent was begun.
    begun: Instant,
}

/// What is to be done so that there is a next piece.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing: here it is.
    Piece(Piece),
    /// A snapshot is to be taken and given to [`Copying::took`].
    Take,
    /// Little is missing, or it will not become less.
    CaughtUp,
    /// All is sent.
    End,
}

impl Copying {
    /// Of a volume that will have this size at the destination at first.
    pub(super) fn new(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            base: None,
            sending: None,
            sent: Vec::new(),
            own: Vec::new(),
            rounds: 0,
            begun: Instant::now(),
        }
    }

    /// The move has taken this one.
    pub(super) fn took(&mut self, name: String) {
        debug_assert!(is_of_move(&name), "else nobody deletes it after a crash");
        self.own.push(name);
    }

    /// The next piece of a volume, which is `frozen` when no host has it any more.
    pub(super) async fn next(
        &mut self,
        array: &Array,
        volume: &str,
        frozen: bool,
    ) -> Result<Next, RequestError> {
        if frozen && mutants::is(Mutant::LastDifference) {
            return Ok(Next::End);
        }
        loop {
            if let Some(piece) = self.read_next().await? {
                return Ok(Next::Piece(piece));
            }
            if let Some(Sending { snapshot, bytes, .. }) = self.sending.take() {
                match self.finish(array, volume, snapshot).await {
                    Some(piece) => return Ok(Next::Piece(piece)),
                    None if frozen => return Ok(Next::End),
                    None if is_caught_up(self.rounds, (bytes, self.begun.elapsed()), volume)? => {
                        return Ok(Next::CaughtUp);
                    }
                    None => continue,
                }
            }
            let Some(snapshot) = self.following(array, volume)? else { return Ok(Next::Take) };
            let resized = snapshot.size_bytes != self.size_bytes;
            self.begin(array, volume, snapshot).await?;
            if resized {
                return Ok(Next::Piece(Piece::Size { bytes: self.size_bytes }));
            }
        }
    }

    /// The oldest snapshot that was not sent yet.
    fn following(&self, array: &Array, volume: &str) -> Result<Option<SnapshotInfo>, RequestError> {
        let last = self.base.as_ref().map_or(0, |(id, _)| *id);
        let is_meant = |snapshot: &SnapshotInfo| {
            !is_of_move(&snapshot.name) || self.own.contains(&snapshot.name)
        };
        let all = array.snapshots(volume)?.into_iter();
        let further = all.filter(|it| it.id > last && !it.deleting && is_meant(it));
        Ok(further.min_by_key(|snapshot| snapshot.id))
    }

    /// Looks where a snapshot differs from what the destination has.
    async fn begin(
        &mut self,
        array: &Array,
        volume: &str,
        snapshot: SnapshotInfo,
    ) -> Result<(), RequestError> {
        self.begun = Instant::now();
        let base = self.base.as_ref().map(|(_, name)| name.as_str());
        let changed = array.diff(volume, base, Some(&snapshot.name)).await?;
        let device = array.snapshot_device(volume, &snapshot.name)?;
        let left = within(changed, snapshot.size_bytes);
        let bytes = left.iter().map(|extent| extent.len_bytes).sum();
        self.size_bytes = snapshot.size_bytes;
        self.sending = Some(Sending { snapshot, device, left, bytes });
        Ok(())
    }

    /// Reads what comes next of the snapshot that is being sent.
    async fn read_next(&mut self) -> Result<Option<Piece>, RequestError> {
        let Some(sending) = &mut self.sending else { return Ok(None) };
        let Some(extent) = sending.left.front_mut() else { return Ok(None) };
        let (at, len) = (extent.at, extent.len_bytes.min(PIECE_BYTES_MAX as u64));
        // It is at most `PIECE_BYTES_MAX`.
        let data = sending.device.read(at, len as usize).await.map_err(ArrayError::from)?;
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        debug_assert_eq!(bytes.len() as u64, len, "a device gives what was asked for");
        // Only what was read is done: whoever asks again after an error gets it.
        extent.at += len;
        extent.len_bytes -= len;
        if extent.len_bytes == 0 {
            sending.left.pop_front();
        }
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        Ok(Some(match is_zero {
            true => Piece::Zeroes { at, len_bytes: len },
            false => Piece::data(at, bytes),
        }))
    }

    /// A snapshot was sent to its end, and is what the next one is compared with. One of the move itself is a round.
    async fn finish(
        &mut self,
        array: &Array,
        volume: &str,
        snapshot: SnapshotInfo,
    ) -> Option<Piece> {
        let SnapshotInfo { id, name, size_bytes, created_unix_seconds, .. } = snapshot;
        debug_assert!(self.base.as_ref().is_none_or(|(base, _)| *base < id), "oldest first");
        self.base = Some((id, name.clone()));
        let is_round = self.own.contains(&name);
        // What is younger is still to be sent.
        let is_older = |own: &SnapshotInfo| own.id < id && self.own.contains(&own.name);
        let there = array.snapshots(volume).unwrap_or_default().into_iter();
        let older: Vec<String> = there.filter(is_older).map(|own| own.name).collect();
        for gone in older {
            match array.delete_snapshot(volume, &gone).await {
                Ok(()) => self.own.retain(|own| *own != gone),
                // The end of the move tries it again.
                Err(error) => {
                    tracing::warn!("snapshot {gone} of {volume} is kept for now: {error}");
                }
            }
        }
        if is_round {
            self.rounds += 1;
            return None;
        }
        self.sent.push((id, name.clone()));
        Some(Piece::Snapshot { name, unix_seconds: created_unix_seconds, size_bytes })
    }

    /// Refuses to go on when the snapshots that were sent are not those that there are.
    pub(super) fn check_sent(&self, array: &Array, volume: &str) -> Result<(), RequestError> {
        let there = snapshots_to_move(array, volume)?;
        let there: Vec<(u32, String)> = there.into_iter().map(|it| (it.id, it.name)).collect();
        if there == self.sent {
            return Ok(());
        }
        let what = "its snapshots are not those that were sent".to_owned();
        Err(RequestError::Move(MoveError::Changed { name: volume.to_owned(), what }))
    }
}

/// Whether so little is missing behind so many rounds, the last one of so many bytes and so long, that hosts can wait for
/// the rest. Where they write too much for that, the volume stays.
fn is_caught_up(
    rounds: u32,
    (round_bytes, took): (u64, Duration),
    volume: &str,
) -> Result<bool, RequestError> {
    if round_bytes < LAST_ROUND_BYTES && took <= LAST_ROUND_TIME {
        return Ok(true);
    }
    if rounds < ROUNDS_MAX {
        return Ok(false);
    }
    if round_bytes <= LAST_ROUND_BYTES_MAX && took <= LAST_ROUND_TIME {
        return Ok(true);
    }
    Err(RequestError::Move(MoveError::NotCaughtUp {
        name: volume.to_owned(),
        missing_bytes: round_bytes,
    }))
}

/// What lies within a volume of this size: behind its end there is nothing any more.
fn within(changed: Vec<ChangedExtent>, size_bytes: u64) -> VecDeque<ChangedExtent> {
    let cut = |extent: ChangedExtent| {
        let end = (extent.at + extent.len_bytes).min(size_bytes);
        let len_bytes = end.checked_sub(extent.at).filter(|len| *len > 0)?;
        Some(ChangedExtent { at: extent.at, len_bytes })
    };
    changed.into_iter().filter_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_exact_name_is_one_of_a_move() {
        assert!(is_of_move(&drawn_name().expect("randomness")));
        assert!(is_of_move(".moving-0123abcd0123abcd"));
        let others = [
            ".moving-0123ABCD0123abcd",
            ".moving-0123abcd0123abc",
            ".moving-0123abcd0123abcde",
            "moving-0123abcd0123abcd",
            "moving-20261101",
            ".moving-",
            "x",
        ];
        for other in others {
            assert!(!is_of_move(other), "{other}");
        }
    }

    #[test]
    fn hosts_that_write_more_than_is_sent_keep_their_volume() {
        let soon = Duration::from_secs(1);
        let caught_up = |rounds, bytes| is_caught_up(rounds, (bytes, soon), "vm");
        assert!(caught_up(1, LAST_ROUND_BYTES - 1).expect("little is missing"));
        assert!(!caught_up(ROUNDS_MAX - 1, LAST_ROUND_BYTES).expect("one more is tried"));
        assert!(!caught_up(ROUNDS_MAX - 1, LAST_ROUND_BYTES_MAX + 1).expect("one more is tried"));
        assert!(caught_up(ROUNDS_MAX, LAST_ROUND_BYTES_MAX).expect("they can wait for so much"));
        let refused = caught_up(ROUNDS_MAX, LAST_ROUND_BYTES_MAX + 1).expect_err("too much");
        assert!(matches!(refused, RequestError::Move(MoveError::NotCaughtUp { .. })), "{refused}");
        // A destination that is slow counts as hosts that are fast.
        let long = LAST_ROUND_TIME + Duration::from_secs(1);
        assert!(!is_caught_up(1, (1, long), "vm").expect("one more is tried"));
        is_caught_up(ROUNDS_MAX, (1, long), "vm").expect_err("hosts would wait too long");
    }

    #[test]
    fn nothing_behind_the_end_is_sent() {
        let extent = |at, len_bytes| ChangedExtent { at, len_bytes };
        let all = vec![extent(0, 4), extent(6, 4), extent(8, 2), extent(20, 1)];
        assert_eq!(within(all, 8), [extent(0, 4), extent(6, 2)]);
    }
}
