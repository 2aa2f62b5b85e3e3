//! Text for people: tables, sizes, times; and the way to stdout.

pub(crate) mod details;
pub(crate) mod table;
pub(crate) mod units;

use anyhow::Context;
use serde::Serialize;
use std::io::{self, ErrorKind, Write};

/// Writes to stdout; a reader that has seen enough (`| head`) is no error.
pub(crate) fn out(text: &str) -> anyhow::Result<()> {
    is_heard(text).map(drop)
}

/// The same; whether somebody reads on.
pub(crate) fn is_heard(text: &str) -> anyhow::Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        outcome => outcome.map(|()| true).context("cannot print"),
    }
}

/// Writes JSON to stdout.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    out(&format!("{}\n", serde_json::to_string_pretty(value).context("cannot write JSON")?))
}
