//! Whether small durable writes keep being answered while the journal is full and is destaged.

use std::time::Duration;

use anyhow::Result;

use super::bed::Bed;
use super::column::{Column, LONGEST, P999, SILENT, TAILS};
use super::durable::{self, LEVELS, WRITES};
use super::sheet::Part;
use crate::report::Mark;

/// The slowest of a thousand answers takes less than this.
const P999_US_MAX: f64 = 20_000.0;

pub(super) fn run(bed: &Bed<'_>, part: &mut Part) -> Result<()> {
    let size_bytes: u64 = if bed.settings.quick { 128 << 20 } else { 512 << 20 };
    let (rounds, length) = bed.settings.endurance();
    part.columns = TAILS;
    part.note(format!(
        "Volumes of {} MiB, written over and over: {rounds} round(s) of {} s each. Of the slowest \
         answers the worst round counts, and of seconds without an answer all rounds.",
        size_bytes >> 20,
        length.as_secs_f64()
    ));
    let member = durable::member(bed, "writes", part)?;
    let mut entrants = Vec::new();
    for (level, _) in LEVELS {
        let entrant = member.volume(level, size_bytes, level)?;
        bed.fill(&entrant)?;
        entrants.push(entrant);
    }
    part.lines = bed.turns_of(&[WRITES], &entrants, (rounds, length))?;
    marks(part, length);
    Ok(())
}

/// Judges lines whose runs counted for `length` each.
pub(super) fn marks(part: &mut Part, length: Duration) {
    for (level, name) in LEVELS {
        let slowest = tail(part, level, &P999).map(|us| {
            let longest = tail(part, level, &LONGEST).unwrap_or(f64::NAN);
            let found = format!("{:.1} ms, the longest answer {:.1} ms", us / 1e3, longest / 1e3);
            (us < P999_US_MAX, found)
        });
        let rounds = part.line(WRITES.title, level).map_or(0, |line| line.runs.len() as u64);
        let seconds = rounds * length.as_secs();
        // A run of less than a second has no whole second that could have been silent.
        let silent = tail(part, level, &SILENT).filter(|_| seconds > 0);
        let silent =
            silent.map(|silent| (silent < 0.5, format!("{silent:.0} of {seconds} seconds")));
        let most_ms = P999_US_MAX / 1e3;
        part.marks.push(Mark::new(
            format!("durable writes of {name}: p99.9 below {most_ms:.0} ms in each round"),
            slowest,
        ));
        part.marks.push(Mark::new(
            format!("durable writes of {name}: no second without an answer"),
            silent,
        ));
    }
}

/// A figure of a level whose rounds all ended well: one that broke off may have hidden the worst.
fn tail(part: &Part, level: &str, column: &Column) -> Option<f64> {
    let line = part.line(WRITES.title, level)?;
    let whole = line.is_sound() && line.failures.is_empty();
    whole.then(|| column.of(&line.runs)).flatten()
}
