//! What is recorded: in memory at once, on the disk a moment later.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::fold::Folds;
use super::{Files, KEPT_MAX, Record, Recorded, line};

/// How long a write that failed is not tried again.
const RETRY: Duration = Duration::from_secs(10);

/// How long the end waits for the last writes.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A log of records. All copies of the value are one log.
#[derive(Clone)]
pub struct Log<T>(Arc<Shared<T>>);

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.what).finish()
    }
}

/// Hears that records cannot be written to the disk, and later that they are again (`None`).
type Hears = Box<dyn Fn(Option<&io::Error>) + Send>;

struct Shared<T> {
    /// A word for people.
    what: &'static str,
    state: Mutex<State<T>>,
    /// Something is to be written, or it ends.
    came: Condvar,
    /// All has been written, after the end.
    done: Condvar,
}

/// Invariant: `records` have the numbers up to `next`, without it, and those up to `written` are on the disk.
struct State<T> {
    records: VecDeque<Arc<Record<T>>>,
    next: u64,
    written: u64,
    /// The number of the last record of earlier starts.
    begun_after: u64,
    folds: Folds<T>,
    /// Why the last write failed.
    fault: Option<String>,
    ends: bool,
    is_done: bool,
}

impl<T: Recorded> State<T> {
    fn push(&mut self, what: T, count: u64) {
        let unix_seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        if self.records.len() == KEPT_MAX {
            self.records.pop_front();
        }
        self.records.push_back(Arc::new(Record { number: self.next, unix_seconds, count, what }));
        self.next += 1;
        debug_assert!(self.written < self.next && self.records.len() <= KEPT_MAX);
    }

    /// Those that are not on the disk, and the number of the last of them.
    fn unwritten(&self) -> (Vec<Arc<Record<T>>>, u64) {
        let from = self.records.partition_point(|record| record.number <= self.written);
        (self.records.range(from..).cloned().collect(), self.next - 1)
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics while it holds the records")
    }
}

#[expect(private_bounds, reason = "only this room has things that are recorded")]
impl<T: Recorded> Log<T> {
    /// Reads what there is in `files`, and goes on there. `what` is a word for people; `hears` is called on
    /// the thread that writes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(what: &'static str, mut files: Files, hears: Hears) -> io::Result<Self> {
        let (records, read) = files.read::<T>();
        if let Err(error) = &read {
            tracing::warn!("the {what} of earlier starts cannot be read: {error}");
        }
        let mut records: VecDeque<_> = records.into_iter().map(Arc::new).collect();
        records.drain(..records.len().saturating_sub(KEPT_MAX));
        let last = records.back().map_or(0, |record| record.number);
        let state = State {
            records,
            next: last + 1,
            written: last,
            begun_after: last,
            folds: Folds::new(),
            fault: None,
            ends: false,
            is_done: false,
        };
        let (came, done) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { what, state: Mutex::new(state), came, done });
        let writes = shared.clone();
        // It ends by itself: a disk that hangs must not keep the end of the member.
        drop(thread::Builder::new().name(what.replace(' ', "-")).spawn(move || {
            writes.write_all(files, &hears);
        })?);
        Ok(Self(shared))
    }

    /// Something happened so many `times`. It waits for no disk. Says whether it is recorded by itself, or
    /// only counted.
    pub(crate) fn record(&self, what: T, times: u64) -> bool {
        let mut state = self.0.state();
        let told = state.folds.take(what, times, Instant::now());
        let is_told = told.is_some();
        if let Some(what) = told {
            state.push(what, times);
        }
        drop(state);
        self.0.came.notify_one();
        is_told
    }

    /// Records behind this number that are kept, oldest first; all behind 0.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<Arc<Record<T>>> {
        let state = self.0.state();
        let from = state.records.partition_point(|record| record.number <= number);
        state.records.range(from..).cloned().collect()
    }

    /// The number of the last record; 0 if there never was one.
    #[must_use]
    pub fn last_number(&self) -> u64 {
        self.0.state().next - 1
    }

    /// The number of the last record of earlier starts; 0 if there was none. Numbers behind it are new, whatever
    /// was recorded under them before and lost by a crash.
    #[must_use]
    pub fn begun_after(&self) -> u64 {
        self.0.state().begun_after
    }

    /// That it is in memory only, and why, if that is so.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let state = self.0.state();
        state.fault.as_ref().map(|why| not_written(self.0.what, why))
    }

    /// Nothing is recorded any more: waits a moment until all is on the disk.
    pub fn end(&self) {
        let mut state = self.0.state();
        state.ends = true;
        self.0.came.notify_one();
        let waits = "nothing panics while it holds the records";
        let over = self.0.done.wait_timeout_while(state, LAST_WRITES, |state| !state.is_done);
        if over.expect(waits).1.timed_out() {
            tracing::warn!("the last of the {} could not be written in time", self.0.what);
        }
    }
}

impl<T: Recorded> Shared<T> {
    /// Writes until the end.
    fn write_all(&self, mut files: Files, hears: &Hears) {
        let mut failed_at: Option<Instant> = None;
        while let Some((batch, last)) = self.next_batch(failed_at) {
            let lines: Vec<Vec<u8>> = batch.iter().map(|record| line::encode(record)).collect();
            match files.append(&lines) {
                Ok(()) => {
                    let mut state = self.state();
                    (state.written, state.fault) = (last, None);
                    drop(state);
                    if failed_at.take().is_some() {
                        tracing::info!("the {} is written to the disk again", self.what);
                        hears(None);
                    }
                }
                Err(error) => {
                    self.state().fault = Some(error.to_string());
                    if failed_at.replace(Instant::now()).is_none() {
                        tracing::warn!("{}", not_written(self.what, &error.to_string()));
                        hears(Some(&error));
                    }
                }
            }
        }
        self.state().is_done = true;
        self.done.notify_all();
    }

    /// What is to be written next, and the number of the last of it; `None` at the end, when all is written
    /// or cannot be.
    fn next_batch(&self, failed_at: Option<Instant>) -> Option<(Vec<Arc<Record<T>>>, u64)> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            let is_end = state.ends;
            for (what, count) in state.folds.due(now, is_end) {
                state.push(what, count);
            }
            let (batch, last) = state.unwritten();
            let retry = failed_at.map(|at| at + RETRY);
            if is_end && (batch.is_empty() || failed_at.is_some()) {
                return None;
            }
            if !batch.is_empty() && retry.is_none_or(|at| at <= now) {
                return Some((batch, last));
            }
            let retry = retry.filter(|_| !batch.is_empty());
            let next = state.folds.next().into_iter().chain(retry).min();
            let waits = "nothing panics while it holds the records";
            state = match next.map(|at| at.saturating_duration_since(now)) {
                None => self.came.wait(state).expect(waits),
                Some(pause) => self.came.wait_timeout(state, pause).expect(waits).0,
            };
        }
    }
}

/// What is told of a log that is in memory only.
pub(crate) fn not_written(what: &str, why: &str) -> String {
    format!("the {what} cannot be written to the data directory and is kept in memory: {why}")
}
