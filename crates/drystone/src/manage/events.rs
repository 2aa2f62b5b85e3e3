//! `drystone events`: what happened, and what to do about it.

use super::Desk;
use crate::Failure;
use crate::advice::advised;
use crate::cli::events::EventsArgs;
use crate::print::colour::{self, Colour};
use crate::print::{self, units};
use anyhow::{Context, bail};
use api::client::{ClientError, WhichEvents};
use api::problem::Code;
use api::types::{Event, Severity};
use std::thread;
use std::time::{Duration, Instant};

/// Columns of the longest severity.
const SEVERITY_WIDTH: usize = 8;

/// Before a member that is away is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Prints what happened, and what happens.
pub(crate) fn run(args: &EventsArgs) -> Result<(), Failure> {
    Ok(show(args)?)
}

fn show(args: &EventsArgs) -> anyhow::Result<()> {
    let desk = Desk::new(&args.member)?;
    let which = WhichEvents {
        since: args.since,
        severity: args.severity,
        object: args.object.as_deref(),
        last: Some(args.limit),
    };
    if args.follow {
        return follow(&desk, &which, args.timeout);
    }
    let before = desk.ask(|member| member.events(&which))?;
    let colours = colour::is_wanted();
    desk.show(&before, |events| {
        Ok(match events.is_empty() {
            true => "nothing has happened\n".to_owned(),
            false => events.iter().map(|event| lines(event, colours)).collect(),
        })
    })
}

fn follow(desk: &Desk, which: &WhichEvents<'_>, timeout: Option<Duration>) -> anyhow::Result<()> {
    let colours = colour::is_wanted();
    let print = |event: &Event| -> anyhow::Result<bool> {
        let text = match desk.json {
            true => format!("{}\n", serde_json::to_string(event).context("cannot write JSON")?),
            false => lines(event, colours),
        };
        print::is_taken(&text)
    };
    // What comes after this one is among those before, or is told by the stream.
    let newest = WhichEvents { last: Some(1), ..WhichEvents::default() };
    let newest = desk.ask(|member| member.events(&newest))?;
    let before = desk.ask(|member| member.events(which))?;
    for event in &before {
        if !print(event)? {
            return Ok(());
        }
    }
    let last = newest.last().into_iter().chain(before.last()).map(|event| event.number).max();
    let mut last = last.unwrap_or(0);
    loop {
        let mut printed = Ok(true);
        let followed = desk.client.follow_events(last + 1, which, &mut |event| {
            last = event.number;
            printed = print(&event);
            matches!(printed, Ok(true))
        });
        printed?;
        match followed {
            Ok(()) => return Ok(()),
            Err(error) if is_away(&error) => last = wait_for_return(desk, last, timeout)?,
            Err(error) => return Err(advised(error)),
        }
    }
}

/// Whether the member may answer again, as after it was started anew.
fn is_away(error: &ClientError) -> bool {
    match error {
        ClientError::Nobody(_)
        | ClientError::Ended(_)
        | ClientError::Silent(_)
        | ClientError::Unreachable { .. } => true,
        ClientError::Problem(problem) => {
            matches!(problem.code, Code::Stopping | Code::Unavailable)
        }
        _ => false,
    }
}

/// Waits until a member that is away answers again; the number behind which its events are to come. One that
/// has lost all its events begins anew.
fn wait_for_return(desk: &Desk, last: u64, timeout: Option<Duration>) -> anyhow::Result<u64> {
    let begun = Instant::now();
    crate::say("the member has ended or hangs: its events go on here when it answers again");
    loop {
        thread::sleep(RETRY_PAUSE);
        let newest = WhichEvents { last: Some(1), ..WhichEvents::default() };
        match desk.client.events(&newest) {
            Ok(newest) => {
                let newest = newest.last().map_or(0, |event| event.number);
                return Ok(if newest < last { 0 } else { last });
            }
            Err(error) if !is_away(&error) => return Err(advised(error)),
            Err(error) => {
                if let Some(timeout) = timeout.filter(|timeout| begun.elapsed() >= *timeout) {
                    let error = advised(error);
                    bail!("the member did not come back within {} s: {error:#}", timeout.as_secs());
                }
            }
        }
    }
}

/// An event for people: when, how bad, what it is about and what happened; below that what to do.
fn lines(event: &Event, colours: bool) -> String {
    let severity = format!("{:<SEVERITY_WIDTH$}", event.severity.word());
    let severity = if colours { of(event.severity).paint(&severity) } else { severity };
    let time = units::time(event.time_unix_seconds);
    let times = match event.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    let mut text = format!("{time}  {severity}  {}{times}\n", event.text);
    if !event.advice.is_empty() {
        let indent = " ".repeat(time.len() + SEVERITY_WIDTH + 4);
        text.push_str(&format!("{indent}to do: {}\n", event.advice));
    }
    text
}

const fn of(severity: Severity) -> Colour {
    match severity {
        Severity::Info => Colour::Plain,
        Severity::Warning => Colour::Yellow,
        Severity::Error => Colour::Red,
        Severity::Critical => Colour::BoldRed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_says_when_how_bad_and_what_and_the_next_what_to_do() {
        let event = |severity: &str, advice: &str, count: u64| -> Event {
            let json = json!({
                "number": 7, "time_unix_seconds": 1_795_262_400, "severity": severity,
                "kind": "disk_failed", "object": {"kind": "disk", "name": "sdb"},
                "text": "disk sdb has failed", "advice": advice, "count": count,
            });
            serde_json::from_value(json).unwrap()
        };
        assert_eq!(
            lines(&event("error", "replace it", 1), false),
            "2026-11-21 12:00:00Z  error     disk sdb has failed\n                                \
             to do: replace it\n"
        );
        assert_eq!(
            lines(&event("critical", "", 3), true),
            "2026-11-21 12:00:00Z  \u{1b}[1;31mcritical\u{1b}[0m  disk sdb has failed (3 times)\n"
        );
    }
}
