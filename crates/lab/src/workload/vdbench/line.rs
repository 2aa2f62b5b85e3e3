//! From lines to words: comments, continuation, brackets.

use super::words::{self, Kind};
use super::{ParameterError, Problem};

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// Words and values, each with its line.
    pub(super) words: Vec<Word>,
    pub(super) line: usize,
}

/// A word, its value, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) line: usize,
}

impl Word {
    /// The error of a value that cannot be.
    pub(super) fn wrong(&self, instead: &'static str) -> ParameterError {
        let (word, value) = (self.key.clone(), self.value.clone());
        Problem::Value { word, value, instead }.at(self.line)
    }
}

/// All definitions of a file, and what its author should know of how it was read.
pub(super) fn statements(text: &str) -> Result<(Vec<Statement>, Vec<String>), ParameterError> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let mut last = 0;
    let mut open: Option<Statement> = None;
    for (index, text) in text.lines().enumerate() {
        let line = index + 1;
        let Some((content, rest)) = content_of(text) else { continue };
        last = line;
        let continues = content.ends_with(',');
        let words = words_of(content.trim_end_matches(','), line)?;
        match &mut open {
            Some(statement) => statement.words.extend(words),
            None => open = Some(begin(words, line)?),
        }
        if !continues {
            found.extend(open.take());
        } else if has_word(rest) {
            notes.push(format!(
                "line {line}: '{rest}' is not read, for it stands behind a comma and a blank"
            ));
        }
    }
    if open.is_some() {
        return Err(Problem::OpenEnd.at(last));
    }
    for statement in &found {
        check(statement)?;
    }
    Ok((found, notes))
}

/// What counts of a line: all before the first blank, as Vdbench reads it. A blank inside brackets or before a
/// comma does not end it; one behind a comma does, and the next line goes on. What does not count comes with it.
fn content_of(line: &str) -> Option<(String, &str)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', '*', '/']) {
        return None;
    }
    let (mut content, mut depth) = (String::new(), 0_i32);
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            blank if blank.is_whitespace() => {
                let joins = depth > 0 || chars.peek().is_some_and(|(_, next)| *next == ',');
                if joins { continue } else { return Some((content, line[at..].trim())) }
            }
            _ => {}
        }
        content.push(c);
    }
    Some((content, ""))
}

/// Whether a text that is not read looks as if it was meant to be.
fn has_word(text: &str) -> bool {
    let mut words = text.split(|c: char| c == ',' || c.is_whitespace());
    words.any(|word| word.split_once('=').is_some_and(|(key, _)| words::is_any(key)))
}

/// `word=value,word=(value,value)`: commas inside brackets part nothing.
fn words_of(content: &str, line: usize) -> Result<Vec<Word>, ParameterError> {
    let mut words = Vec::new();
    let (mut depth, mut from) = (0_i32, 0);
    for (at, c) in content.char_indices().chain([(content.len(), ',')]) {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 || at == content.len() => {
                words.push(word(&content[from..at], line)?);
                from = at + 1;
            }
            _ => {}
        }
        if depth < 0 {
            return Err(Problem::Bracket.at(line));
        }
    }
    if depth == 0 { Ok(words) } else { Err(Problem::Bracket.at(line)) }
}

fn word(text: &str, line: usize) -> Result<Word, ParameterError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            let key = match key.to_ascii_lowercase().as_str() {
                // As the manual of Vdbench writes it in its first example.
                "readpct" => "rdpct".to_owned(),
                key => key.to_owned(),
            };
            Ok(Word { key, value: value.to_owned(), line })
        }
        _ => Err(Problem::Form(text.to_owned()).at(line)),
    }
}

/// The first word of a definition says what it is.
fn begin(words: Vec<Word>, line: usize) -> Result<Statement, ParameterError> {
    let mut words = words.into_iter();
    let first = words.next().ok_or_else(|| Problem::Form(String::new()).at(line))?;
    if ["fsd", "fwd"].contains(&first.key.as_str()) {
        return Err(Problem::FileWorkload(first.key).at(line));
    }
    let kind = Kind::from_key(&first.key).ok_or(Problem::Definition(first.key).at(line))?;
    Ok(Statement { kind, name: first.value, words: words.collect(), line })
}

/// Each word is one of the kind, and stands there once.
fn check(statement: &Statement) -> Result<(), ParameterError> {
    for (index, word) in statement.words.iter().enumerate() {
        if !words::is_known(statement.kind, &word.key) {
            let known = words::known(statement.kind);
            let (word_text, kind) = (word.key.clone(), statement.kind.key());
            return Err(Problem::Word { word: word_text, kind, known }.at(word.line));
        }
        if statement.words[..index].iter().any(|before| before.key == word.key) {
            return Err(Problem::Twice(word.key.clone()).at(word.line));
        }
    }
    Ok(())
}
