//! Logs: to stderr, filtered as with `RUST_LOG`; and what rooms warn of, to the events of a member.

mod journal;
mod rooms;

use std::env;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

pub(crate) use rooms::tell;

/// What is logged unless the user says otherwise.
const FILTER_DEFAULT: &str = "info";

/// Environment variables that hold a filter, the first that is set counts.
const VARIABLES: [&str; 2] = ["DRYSTONE_LOG", SHARED];

/// The one of them that is not Drystone's alone.
const SHARED: &str = "RUST_LOG";

/// The option that holds one.
const OPTION: &str = "--log";

/// The same in the file of a member.
const KEY: &str = "log";

/// The same for commands whose output is for people to read.
const FILTER_QUIET: &str = "warn";

/// Lines that wait to be written; those that find no room are lost. A terminal that was stopped, or a pipe that
/// nobody reads, must not keep anybody waiting.
const LINES_MAX: usize = 4096;

/// What writes the lines, while there is such a thread.
static WRITES: Mutex<Option<WorkerGuard>> = Mutex::new(None);

/// Has what was logged written before the program ends, if that takes no longer than a moment.
pub(crate) fn finish() {
    drop(WRITES.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// The way to stderr for programs that run on: by a thread of its own.
fn writer() -> NonBlocking {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES_MAX);
    let (writer, guard) = builder.thread_name("log").finish(io::stderr());
    *WRITES.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
    writer
}

/// Refuses what was given with `--log` if it is none, also for commands that log nothing.
pub(crate) fn check(filter: Option<&str>) -> Result<(), String> {
    filter.map_or(Ok(()), |text| parse(OPTION, text).map(drop))
}

/// The same of what the file of a member says.
pub(crate) fn check_key(filter: &str) -> Result<(), String> {
    parse(KEY, filter).map(drop)
}

/// Starts logging by `filter`, or by the environment; the error is a sentence for the user.
pub(crate) fn start(filter: Option<&str>) -> Result<(), String> {
    start_at(filter, FILTER_DEFAULT, || BoxMakeWriter::new(writer()))
}

/// As [`start`], with warnings only unless the user says otherwise.
pub(crate) fn start_quiet(filter: Option<&str>) -> Result<(), String> {
    start_at(filter, FILTER_QUIET, || BoxMakeWriter::new(io::stderr))
}

fn start_at(
    filter: Option<&str>,
    default: &str,
    writer: impl FnOnce() -> BoxMakeWriter,
) -> Result<(), String> {
    let variable = VARIABLES
        .iter()
        .find_map(|name| env::var(name).ok().filter(|text| !text.is_empty()).map(|f| (*name, f)));
    let filter = match (filter, &variable) {
        (Some(text), _) => parse(OPTION, text)?,
        (None, Some((name, text))) => parse(name, text)?,
        (None, None) => parse(OPTION, default)?,
    };
    // A second start would be a slip in this program; the first one's filter stays in force.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer())
        // A line that cannot be written is lost: to say so on the same stderr would end the process.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal());
    let lines = match journal::is_reading() {
        true => lines.event_format(journal::Prioritized).with_filter(filter).boxed(),
        false => lines.with_filter(filter).boxed(),
    };
    let _ = tracing_subscriber::registry().with(lines).with(rooms::layer()).try_init();
    Ok(())
}

/// Reads a filter that came from `origin`.
fn parse(origin: &str, text: &str) -> Result<EnvFilter, String> {
    let filter = EnvFilter::builder().parse(text).ok();
    // A word alone would be a room with all that it says: a level that is misspelt is none, nor is one that is left
    // out. RUST_LOG is for other programs, too.
    let is_odd =
        origin != SHARED && text.split(',').any(|part| !is_level(part) && !is_by_room(part));
    filter.filter(|_| !is_odd).ok_or_else(|| {
        format!(
            "{origin}: '{text}' is not a log filter: write error, warn, info, debug or trace, or by room such as info,target=debug"
        )
    })
}

/// `ROOM=LEVEL`.
fn is_by_room(part: &str) -> bool {
    part.split_once('=').is_some_and(|(room, level)| !room.is_empty() && !level.is_empty())
}

fn is_level(word: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    levels.iter().any(|level| level.eq_ignore_ascii_case(word.trim()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn levels_and_levels_by_room_are_filters() {
        for text in ["info", "off", "WARN", "info,target=debug", "warn,ring=trace,block=info"] {
            assert!(parse("--log", text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_where_drystone_is_meant() {
        for text in ["bogus", "info,bogus", "inf", "debug,target", "target=", ""] {
            assert!(parse("--log", text).is_err(), "{text}");
            assert!(parse("DRYSTONE_LOG", text).is_err(), "{text}");
            assert!(parse("RUST_LOG", text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_refused_filter_is_named_with_its_origin() {
        for origin in ["--log", "RUST_LOG"] {
            let sentence = parse(origin, "target=loud").unwrap_err();
            assert_eq!(
                sentence,
                format!(
                    "{origin}: 'target=loud' is not a log filter: write error, warn, info, debug or trace, or by room such as info,target=debug"
                )
            );
        }
    }
}
