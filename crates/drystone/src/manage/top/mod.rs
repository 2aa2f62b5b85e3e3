//! `drystone top`: what a member is busy with, live.
//!
//! From the top: `live`, the terminal and its keys; `screen`, what is drawn; `state`, what the operator
//! looks at; `rates`, lines made of two looks at the member; `sample`, one look.

mod live;
mod rates;
mod sample;
mod screen;
mod state;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Desk;
use crate::Failure;
use crate::cli::top::TopArgs;
use crate::print;
use crate::print::table::{Column, table};
use rates::Rates;
use sample::Sample;
use serde::Serialize;
use state::State;

/// A line of JSON.
#[derive(Debug, Serialize)]
struct Line<'a> {
    /// When it was measured.
    unix_seconds: f64,
    /// Over how long.
    seconds: f64,
    #[serde(flatten)]
    rates: &'a Rates,
}

/// Looks again and again, and shows what has come between.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    Ok(show(args)?)
}

fn show(args: &TopArgs) -> anyhow::Result<()> {
    let mut desk = Desk::new(&args.member)?.of_one_member();
    if desk.on_member.is_none() && !desk.client.is_local() {
        desk = desk.of_who_answers()?;
    }
    if args.member.json {
        return lines(args, &desk);
    }
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return once(args, &desk);
    }
    live::run(args, desk)
}

/// One line of JSON for each interval.
fn lines(args: &TopArgs, desk: &Desk) -> anyhow::Result<()> {
    let mut left = if args.once { Some(1) } else { args.count };
    let mut before = Sample::take(desk)?;
    while left != Some(0) {
        thread::sleep(args.interval);
        let now = Sample::take(desk)?;
        let rates = Rates::between(&before, &now);
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = Line {
            unix_seconds: since_1970.map_or(0.0, |time| time.as_secs_f64()),
            seconds: now.seconds_since(&before),
            rates: &rates,
        };
        if !print::is_taken(&format!("{}\n", serde_json::to_string(&line)?))? {
            return Ok(());
        }
        left = left.map(|left| left - 1);
        before = now;
    }
    Ok(())
}

/// One table.
fn once(args: &TopArgs, desk: &Desk) -> anyhow::Result<()> {
    let before = Sample::take(desk)?;
    thread::sleep(args.interval);
    let now = Sample::take(desk)?;
    let state = State::new(args);
    let rates = Rates::between(&before, &now);
    print::out(&table(state.columns(), state.rows(&rates)))
}

/// Where a column stands.
fn is_number(column: Column) -> bool {
    matches!(column, Column::Number(_))
}
