//! Colours of a terminal (ECMA-48 8.3.117), where there is one and nobody said otherwise.

use std::env;
use std::io::{self, IsTerminal};

/// A colour that says how much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// As it should be.
    Plain,
    /// It is new.
    Green,
    /// Somebody should look at it.
    Yellow,
    /// It is bad.
    Red,
    /// It is as bad as can be.
    BoldRed,
}

/// Whether stdout is a terminal that colours are wanted on (<https://no-color.org>).
pub(crate) fn is_wanted() -> bool {
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && io::stdout().is_terminal()
}

impl Colour {
    /// The text in this colour.
    pub(crate) fn paint(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Green => format!("\x1b[32m{text}\x1b[0m"),
            Self::Yellow => format!("\x1b[33m{text}\x1b[0m"),
            Self::Red => format!("\x1b[31m{text}\x1b[0m"),
            Self::BoldRed => format!("\x1b[1;31m{text}\x1b[0m"),
        }
    }
}
