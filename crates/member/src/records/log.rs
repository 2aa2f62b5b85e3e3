//! What is recorded: in memory at once, on the disk a moment later.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::part::Part;
use super::{Files, Record, Recorded, line};

/// How long a write that failed is not tried again.
const RETRY: Duration = Duration::from_secs(10);

/// How long the end waits for the last writes.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Up to where somebody has been given one part of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlace {
    /// The number up to which all of the part is done.
    pub number: u64,
    /// How many records of the part that is in this start; `None` where it is not known, as after a start.
    passed: Option<u64>,
}

impl PartPlace {
    /// The place of a number that was kept over a start.
    #[must_use]
    pub const fn of(number: u64) -> Self {
        Self { number, passed: None }
    }
}

/// What comes next of one part.
#[derive(Debug, Clone)]
pub struct Next<T> {
    /// The records, oldest first.
    pub records: Vec<Arc<Record<T>>>,
    /// How many more came before the first of them and are not kept: at most so many where the place is of an
    /// earlier start, as what numbers that are gone were of is known to nobody.
    pub missing: u64,
    /// Those have numbers up to this one.
    pub missing_to: u64,
    /// There are no more.
    pub is_all: bool,
    /// Where it goes on behind them.
    pub place: PartPlace,
}

/// A log of records. All copies of the value are one log.
#[derive(Clone)]
pub struct Log<T>(Arc<Shared<T>>);

impl<T> fmt::Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.what).finish()
    }
}

/// Between two times at which it is told that young records are pushed out.
const PUSHED_OUT_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// What is told of a log.
#[derive(Debug)]
pub(crate) enum Heard<'a> {
    /// Records cannot be written to the disk.
    NotWritten(&'a io::Error),
    /// They are again.
    Written,
    /// Records of a part, as [`Recorded::PARTS`] counts, were pushed out by others, of which the newest is so old.
    PushedOut {
        /// Which part.
        part: usize,
        /// How old.
        age_seconds: u64,
    },
}

/// Hears of it, on the thread that writes.
type Hears = Box<dyn Fn(Heard<'_>) + Send>;

struct Shared<T> {
    /// A word for people.
    what: &'static str,
    state: Mutex<State<T>>,
    /// Something is to be written, or it ends.
    came: Condvar,
    /// All has been written, after the end.
    done: Condvar,
}

/// Invariant: all records of all parts have numbers below `next`, each another one.
struct State<T> {
    /// As [`Recorded::PARTS`] names them.
    parts: Vec<Part<T>>,
    next: u64,
    /// The number of the last record of earlier starts.
    begun_after: u64,
    /// Why the last write failed.
    fault: Option<String>,
    ends: bool,
    is_done: bool,
}

/// What is to be written to the files of one part.
struct Batch<T> {
    part: usize,
    records: Vec<Arc<Record<T>>>,
}

impl<T: Recorded> State<T> {
    fn push(&mut self, what: T, count: u64) {
        let unix_seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let part = what.part();
        self.parts[part].push(Record { number: self.next, unix_seconds, count, what });
        self.next += 1;
    }

    /// How many numbers between these two no part has a record of.
    fn missing(&self, after: u64, before: u64) -> u64 {
        let numbers = before.saturating_sub(after + 1);
        let kept = |part: &Part<T>| part.passed(before.saturating_sub(1)) - part.passed(after);
        numbers.saturating_sub(self.parts.iter().map(kept).sum())
    }

    /// Records what was only counted for long enough.
    fn push_due(&mut self, now: Instant) {
        let is_end = self.ends;
        let due = self.parts.iter_mut().flat_map(|part| part.folds.due(now, is_end));
        for (what, count) in due.collect::<Vec<_>>() {
            self.push(what, count);
        }
    }
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics while it holds the records")
    }
}

#[expect(private_bounds, reason = "only this room has things that are recorded")]
impl<T: Recorded> Log<T> {
    /// Reads what there is in the directory `dir`, and goes on there. `what` is a word for people; `hears` is
    /// called on the thread that writes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start(what: &'static str, dir: &Path, hears: Hears) -> io::Result<Self> {
        let mut files: Vec<Files> = T::PARTS.iter().map(|name| Files::new(dir, name)).collect();
        let (parts, last) = read_all::<T>(what, &mut files);
        let state = State {
            parts,
            next: last + 1,
            begun_after: last,
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
        let part = what.part();
        let told = state.parts[part].folds.take(what, times, Instant::now());
        let is_told = told.is_some();
        if let Some(what) = told {
            state.push(what, times);
        }
        drop(state);
        self.0.came.notify_one();
        is_told
    }

    /// Records of all parts behind this number that are kept, oldest first; all behind 0.
    #[must_use]
    pub fn after(&self, number: u64) -> Vec<Arc<Record<T>>> {
        let state = self.0.state();
        let mut found: Vec<_> = state.parts.iter().flat_map(|part| part.after(number)).collect();
        drop(state);
        found.sort_by_key(|record| record.number);
        found
    }

    /// What there is of one part behind a place, at most so many; and how many more the log has pushed out.
    #[must_use]
    pub fn next_of(&self, part: usize, at: PartPlace, records_max: usize) -> Next<T> {
        let state = self.0.state();
        let of = &state.parts[part];
        let records: Vec<_> = of.after(at.number).take(records_max).collect();
        let before = records.first().map_or(state.next, |record| record.number);
        let missing = match at.passed {
            Some(passed) => of.behind(passed).1,
            None if of.may_have_pushed_out() => state.missing(at.number, before),
            None => 0,
        };
        // Where no more are kept, all up to the last of the log is done.
        let is_all = records.len() < records_max;
        let last = records.last().filter(|_| !is_all).map(|record| record.number);
        let number = last.unwrap_or(state.next - 1).max(at.number);
        let place = PartPlace { number, passed: Some(of.passed(number)) };
        Next { records, missing, missing_to: before.saturating_sub(1), is_all, place }
    }

    /// How many records of a part are behind this place.
    #[must_use]
    pub fn behind(&self, part: usize, at: PartPlace) -> u64 {
        let state = self.0.state();
        let of = &state.parts[part];
        of.behind(at.passed.unwrap_or_else(|| of.passed(at.number))).0
    }

    /// The last record before this time, as far as records are kept; 0 if there is none.
    #[must_use]
    pub fn last_before(&self, unix_seconds: u64) -> u64 {
        let all = self.after(0);
        let old = all.iter().take_while(|record| record.unix_seconds < unix_seconds);
        match (old.last(), all.first()) {
            (Some(record), _) => record.number,
            (None, first) => first.map_or(self.last_number(), |record| record.number - 1),
        }
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

    /// Up to which number all of the first part is on the disk.
    #[cfg(test)]
    pub(crate) fn written(&self) -> u64 {
        self.0.state().parts[0].written()
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
    /// Writes until the end. Parts whose files cannot be written keep none of the others from theirs.
    fn write_all(&self, mut files: Vec<Files>, hears: &Hears) {
        let mut failed_at: Vec<Option<Instant>> = vec![None; files.len()];
        let mut told_at: Vec<Option<Instant>> = vec![None; files.len()];
        while let Some(batches) = self.next_batches(&failed_at) {
            let is_failing = |failed_at: &[Option<Instant>]| failed_at.iter().any(Option::is_some);
            let was_failing = is_failing(&failed_at);
            let mut failure = None;
            for Batch { part, records } in batches {
                let lines: Vec<Vec<u8>> =
                    records.iter().map(|record| line::encode(record)).collect();
                let outcome = files[part].append(&lines);
                failed_at[part] = outcome.is_err().then(Instant::now);
                if let Some(lines) = files[part].take_left() {
                    self.tell_pushed_out((part, lines), &mut told_at[part], hears);
                }
                match (outcome, records.last()) {
                    (Ok(()), Some(last)) => self.state().parts[part].set_written(last.number),
                    (Ok(()), None) => {}
                    (Err(error), _) => failure = Some(error),
                }
            }
            if let Some(error) = failure {
                self.state().fault = Some(error.to_string());
                if !was_failing {
                    tracing::warn!("{}", not_written(self.what, &error.to_string()));
                    hears(Heard::NotWritten(&error));
                }
            } else if was_failing && !is_failing(&failed_at) {
                self.state().fault = None;
                tracing::info!("the {} is written to the disk again", self.what);
                hears(Heard::Written);
            }
        }
        self.state().is_done = true;
        self.done.notify_all();
    }

    /// Tells of young records that are gone from the files of a part, which has so many lines of before left; once a day.
    fn tell_pushed_out(
        &self,
        (part, lines): (usize, usize),
        told_at: &mut Option<Instant>,
        hears: &Hears,
    ) {
        let last = self.state().parts[part].last_but(lines).map(|record| record.unix_seconds);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let age_seconds = last.map_or(u64::MAX, |last| now.saturating_sub(last));
        let is_due = told_at.is_none_or(|at| at.elapsed() >= PUSHED_OUT_PAUSE);
        if age_seconds < T::YOUNG_SECONDS && is_due {
            *told_at = Some(Instant::now());
            hears(Heard::PushedOut { part, age_seconds });
        }
    }

    /// What is to be written next, where the files of each part failed at these times; `None` at the end, when
    /// all is written or cannot be.
    fn next_batches(&self, failed_at: &[Option<Instant>]) -> Option<Vec<Batch<T>>> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            state.push_due(now);
            let mut next = state.parts.iter().filter_map(|part| part.folds.next()).min();
            let mut due = Vec::new();
            for (part, failed_at) in failed_at.iter().enumerate() {
                let records = state.parts[part].unwritten();
                let retry = failed_at.map(|at| at + RETRY);
                match retry {
                    _ if records.is_empty() => {}
                    // It cannot be written in the end.
                    Some(_) if state.ends => {}
                    Some(at) if at > now => next = next.into_iter().chain([at]).min(),
                    _ => due.push(Batch { part, records }),
                }
            }
            if !due.is_empty() {
                return Some(due);
            }
            if state.ends {
                return None;
            }
            let waits = "nothing panics while it holds the records";
            state = match next.map(|at| at.saturating_duration_since(now)) {
                None => self.came.wait(state).expect(waits),
                Some(pause) => self.came.wait_timeout(state, pause).expect(waits).0,
            };
        }
    }
}

/// What is in the files of each part, and the number of the last record of all. Where an earlier version put
/// something into the files of another part, it is of its own from now on, and is to be written there.
fn read_all<T: Recorded>(what: &str, files: &mut [Files]) -> (Vec<Part<T>>, u64) {
    let mut records: Vec<Vec<Record<T>>> = files.iter().map(|_| Vec::new()).collect();
    let mut written = vec![0; files.len()];
    let mut last = 0;
    for (own, files) in files.iter_mut().enumerate() {
        let (found, read) = files.read::<T>();
        if let Err(error) = &read {
            tracing::warn!("the {what} of earlier starts cannot be read as a whole: {error}");
        }
        for record in found {
            let part = record.what.part();
            last = last.max(record.number);
            if part == own {
                written[own] = record.number;
            }
            records[part].push(record);
        }
    }
    let parts =
        records.into_iter().zip(written).map(|(records, written)| Part::new(records, written));
    (parts.collect(), last)
}

/// What is told of a log that is in memory only.
pub(crate) fn not_written(what: &str, why: &str) -> String {
    format!("the {what} cannot be written to the data directory and is kept in memory: {why}")
}
