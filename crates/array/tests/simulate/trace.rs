//! What happened last, for whoever reads a failure; and a digest of all that ever happened.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::random::mix;

/// Lines kept.
const KEPT: usize = 400;

/// What an operation of a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    WriteDurable,
    Flush,
    Unmap,
    Zero,
    ZeroDurable,
}

/// One step of a disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) disk: usize,
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// Begun, or ended and how.
    pub(crate) phase: &'static str,
}

/// One line.
#[derive(Debug)]
enum Line {
    Disk(Step),
    Note(String),
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<(Duration, Line)>,
    count: u64,
    digest: u64,
    /// Print each line at once: for the replay of one seed.
    loud: bool,
}

/// The last lines of a history.
#[derive(Debug, Default)]
pub(crate) struct Trace(Mutex<Lines>);

impl Trace {
    /// `loud` prints each line when it happens.
    pub(crate) fn new(loud: bool) -> Self {
        Self(Mutex::new(Lines { loud, ..Lines::default() }))
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // A trace must still be readable after a panic: that is when it is wanted.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Says something that is no step of a disk.
    pub(crate) fn note(&self, now: Duration, text: String) {
        let word = text.bytes().fold(1, |sum, byte| mix(sum ^ u64::from(byte)));
        self.lines().push(now, word, Line::Note(text));
    }

    /// A step of a disk; formatted only when it is shown.
    pub(crate) fn disk(&self, now: Duration, step: Step) {
        let word = mix(step.at ^ mix(step.len ^ mix((step.disk as u64) << 8 | step.kind as u64)));
        self.lines().push(now, word, Line::Disk(step));
    }

    /// Depends on every line and its time: equal digests, equal histories.
    pub(crate) fn digest(&self) -> u64 {
        self.lines().digest
    }
}

impl Lines {
    fn push(&mut self, now: Duration, word: u64, line: Line) {
        self.digest = mix(self.digest ^ mix(word ^ now.as_nanos() as u64));
        self.count += 1;
        if self.loud {
            eprintln!("{}", Shown(now, &line));
        }
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((now, line));
    }
}

struct Shown<'a>(Duration, &'a Line);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12.6} ", self.0.as_secs_f64())?;
        match self.1 {
            Line::Note(text) => f.write_str(text),
            Line::Disk(Step { disk, kind, at, len, phase }) => {
                write!(f, "  disk {disk} {kind:?} {at:#x}+{len:#x} {phase}")
            }
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.lines();
        if lines.loud {
            return Ok(());
        }
        let mut all = String::new();
        for (now, line) in &lines.kept {
            writeln!(all, "{}", Shown(*now, line))?;
        }
        write!(f, "last {} of {} steps:\n{all}", lines.kept.len(), lines.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(at: u64) -> Step {
        Step { disk: 1, kind: Kind::Write, at, len: 4096, phase: "begins" }
    }

    #[test]
    fn the_digest_tells_histories_apart() {
        let digest = |at, micros| {
            let trace = Trace::default();
            trace.disk(Duration::from_micros(micros), step(at));
            trace.note(Duration::from_micros(9), "cut".into());
            trace.digest()
        };
        assert_eq!(digest(0, 1), digest(0, 1));
        assert_ne!(digest(0, 1), digest(4096, 1));
        assert_ne!(digest(0, 1), digest(0, 2));
    }

    #[test]
    fn the_last_lines_are_kept() {
        let trace = Trace::default();
        for at in 0..KEPT as u64 + 10 {
            trace.disk(Duration::from_secs(at), step(at << 12));
        }
        let shown = trace.to_string();
        assert!(shown.starts_with("last 400 of 410 steps"), "{shown}");
        assert!(!shown.contains("disk 1 Write 0x9000+"), "the first ones are gone");
        assert!(shown.contains("409.000000   disk 1 Write 0x199000+0x1000 begins"), "{shown}");
    }
}
