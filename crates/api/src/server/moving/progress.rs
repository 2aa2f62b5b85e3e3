//! How far a move has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use member::{Leaving, Piece};
use tokio::time::Instant;

use crate::types::{Job, JobKind};

/// How much of a volume was sent.
#[derive(Debug)]
pub(super) struct Progress {
    volume: String,
    total_bytes: u64,
    done_bytes: AtomicU64,
}

impl Progress {
    /// Of a move that has begun.
    pub(super) fn of(leaving: &Leaving) -> Self {
        let (volume, total_bytes) = (leaving.passport.name.clone(), leaving.total_bytes);
        Self { volume, total_bytes, done_bytes: AtomicU64::new(0) }
    }

    /// The destination has this piece.
    pub(super) fn sent(&self, piece: &Piece) {
        let bytes = match piece {
            Piece::Data { bytes, .. } => bytes.len() as u64,
            Piece::Zeroes { len_bytes, .. } => *len_bytes,
            _ => 0,
        };
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Tells how far a move has come, and how fast it was since the last time.
pub(super) struct Meter {
    progress: Arc<Progress>,
    last: (Instant, u64),
}

impl Meter {
    /// Of a move that begins now.
    pub(super) fn new(progress: Arc<Progress>) -> Self {
        Self { progress, last: (Instant::now(), 0) }
    }

    /// As it is now.
    pub(super) fn job(&mut self) -> Job {
        let Progress { volume, total_bytes, done_bytes } = &*self.progress;
        let (now, done_bytes) = (Instant::now(), done_bytes.load(Ordering::Relaxed));
        let (at, before) = self.last;
        debug_assert!(done_bytes >= before, "what was sent stays sent");
        let ms = now.duration_since(at).as_millis().max(1);
        let rate = u128::from(done_bytes - before) * 1000 / ms;
        self.last = (now, done_bytes);
        Job {
            kind: JobKind::Move,
            subject: volume.clone(),
            done_bytes,
            // What hosts write meanwhile comes on top.
            total_bytes: (*total_bytes).max(done_bytes),
            rate_bytes: u64::try_from(rate).unwrap_or(u64::MAX),
            member: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_job_says_how_much_was_sent_and_how_fast_it_was_of_late() {
        let (volume, done_bytes) = ("vm".to_owned(), AtomicU64::new(0));
        let progress = Arc::new(Progress { volume, total_bytes: 8192, done_bytes });
        let mut meter = Meter::new(progress.clone());
        for piece in [
            Piece::data(0, vec![1; 4096]),
            Piece::Zeroes { at: 4096, len_bytes: 1 << 20 },
            Piece::Size { bytes: 1 << 30 },
        ] {
            progress.sent(&piece);
        }
        advance(Duration::from_secs(2)).await;
        let job = meter.job();
        let sent = 4096 + (1 << 20);
        assert_eq!((job.kind, &*job.subject, job.done_bytes), (JobKind::Move, "vm", sent));
        assert_eq!((job.total_bytes, job.rate_bytes), (sent, sent / 2), "hosts wrote meanwhile");
        advance(Duration::from_secs(1)).await;
        assert_eq!(meter.job().rate_bytes, 0, "of late");
    }
}
