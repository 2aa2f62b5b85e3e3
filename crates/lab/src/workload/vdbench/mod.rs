//! Parameter files of Vdbench: `hd=`, `sd=`, `wd=`, `rd=`.
//!
//! What is understood stands in [`WORDS`]; any other word is an error that names its line. Meanings
//! are those of Vdbench 5.04 where the user of a file could see a difference.

mod expand;
mod line;
mod list;
#[cfg(test)]
mod tests;
mod words;

use super::Script;

pub use words::{WORDS, table_markdown};

/// What is wrong with a parameter file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParameterError {
    /// The line, from 1.
    pub line: usize,
    /// What it is.
    pub problem: Problem,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The line does not begin with one of the definitions.
    #[error("'{0}' begins no definition: write hd=, sd=, wd= or rd=")]
    Definition(String),
    /// File workloads.
    #[error("'{0}=' is for file workloads, which the lab does not run yet: it runs sd= and wd=")]
    FileWorkload(String),
    /// A word that is not understood.
    #[error("'{word}' is not a word of {kind}=: write one of {known}")]
    Word {
        /// The word.
        word: String,
        /// The definition it stands in.
        kind: &'static str,
        /// What is understood there.
        known: String,
    },
    /// A word without a value, or the other way round.
    #[error("'{0}' is not WORD=VALUE")]
    Form(String),
    /// The same word twice.
    #[error("'{0}' stands there twice")]
    Twice(String),
    /// A value that cannot be.
    #[error("{word}={value} cannot be: write {instead}")]
    Value {
        /// The word.
        word: String,
        /// Its value.
        value: String,
        /// What to write.
        instead: &'static str,
    },
    /// A name that is defined nowhere.
    #[error("there is no {kind}={name}")]
    Unknown {
        /// Of which kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A name that is defined twice.
    #[error("{kind}={name} is defined twice")]
    Defined {
        /// Of which kind.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// Brackets.
    #[error("a bracket is not closed, or was not opened")]
    Bracket,
    /// A comma at the end of the file.
    #[error(
        "the file ends with a comma, behind which its last definition was to go on; what stands behind a comma and \
         a blank is not read"
    )]
    OpenEnd,
    /// Another machine.
    #[error("system={0}: the lab works from this machine only: write system=localhost")]
    OtherSystem(String),
    /// Shares.
    #[error("the skews of the workloads add up to {0}, not to 100")]
    Skew(String),
    /// Nothing is run.
    #[error("the file runs nothing: it needs an rd=")]
    NoRun,
    /// Too many runs.
    #[error("the lists of rd={0} make more than {max} runs", max = expand::STEPS_MAX)]
    TooMany(String),
}

impl Problem {
    fn at(self, line: usize) -> ParameterError {
        ParameterError { line, problem: self }
    }
}

/// Reads a parameter file.
///
/// # Errors
/// What is wrong with it, and in which line.
pub fn parse(text: &str) -> Result<Script, ParameterError> {
    let (statements, notes) = line::statements(text)?;
    Ok(Script { notes, ..expand::script(&statements)? })
}
