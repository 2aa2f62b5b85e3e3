//! Files in the words of the command line: a key is an option of a command without its dashes, and its
//! value is read by the parser of the command line, so that there is one set of words, of checks and of
//! help.

use crate::cli::{Cli, refusal};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, CommandFactory, Parser};
use group::regular;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use toml_edit::{Document, Item, Value};

/// The longest file of a member or of a volume that is attached: a thousand times what anybody writes.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// What is wrong with a file, and in which line if it is one of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Refused {
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl From<String> for Refused {
    fn from(what: String) -> Self {
        Self { line: None, what }
    }
}

/// What stands behind a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plain {
    Text(String),
    Switch(bool),
    List(Vec<String>),
}

/// A key of a file, its value, and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: Plain,
    pub(crate) line: usize,
}

/// The words of one command.
#[derive(Debug)]
pub(crate) struct Words {
    command: clap::Command,
    /// The key for what stands without an option on the command line.
    positional: Option<&'static str>,
    /// Options that are for the command line only.
    kept_out: &'static [&'static str],
}

impl Words {
    pub(crate) fn of(
        command: &str,
        positional: Option<&'static str>,
        kept_out: &'static [&'static str],
    ) -> Words {
        let mut cli = Cli::command();
        cli.build();
        let command = cli.find_subcommand(command).expect("the command is there").clone();
        Words { command, positional, kept_out }
    }

    /// The keys of a file in their order, and all that is wrong with them one by one.
    pub(crate) fn read(&self, text: &str) -> (Vec<Entry>, Vec<Refused>) {
        let document = match Document::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let what = error.message().lines().next().unwrap_or_default();
                let what = format!("{what}: write KEY = \"TEXT\", KEY = NUMBER, or KEY = true");
                let line = error.span().map(|span| line_at(text, span.start));
                return (Vec::new(), vec![Refused { line, what }]);
            }
        };
        let (mut entries, mut refused) = (Vec::new(), Vec::new());
        for (key, item) in document.as_table() {
            let at = document.as_table().key(key).and_then(toml_edit::Key::span);
            let line = line_at(text, at.map_or(0, |span| span.start));
            match self.entry(key, item, line) {
                Ok(entry) => entries.push(entry),
                Err(what) => refused.push(Refused { line: Some(line), what }),
            }
        }
        (entries, refused)
    }

    fn entry(&self, key: &str, item: &Item, line: usize) -> Result<Entry, String> {
        if self.kept_out.contains(&key) {
            return Err(format!("'{key}' is for the command line: {}", instead_of(key)));
        }
        let option = self.option(key);
        let is_option = option.is_some() || self.positional == Some(key);
        if !is_option {
            // Whatever its value: the parser knows best what was probably meant.
            return Ok(Entry { key: key.to_owned(), value: Plain::Switch(true), line });
        }
        let takes_values = option.is_none_or(|option| option.get_action().takes_values());
        let repeats = option.is_some_and(|it| matches!(it.get_action(), ArgAction::Append));
        let value = match value(item) {
            Some(Plain::Text(text)) if takes_values && !text.is_empty() => Plain::Text(text),
            Some(Plain::Switch(on)) if !takes_values => Plain::Switch(on),
            Some(Plain::List(texts)) if repeats && !texts.iter().any(String::is_empty) => {
                Plain::List(texts)
            }
            _ if !takes_values => {
                return Err(format!("'{key}' is true or false: write {key} = true"));
            }
            _ if repeats => {
                return Err(format!(
                    "'{key}' needs texts: write {key} = \"...\" or {key} = [\"...\", \"...\"]"
                ));
            }
            _ => return Err(format!("'{key}' needs a text or a number: write {key} = \"...\"")),
        };
        Ok(Entry { key: key.to_owned(), value, line })
    }

    fn option(&self, key: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|argument| argument.get_long() == Some(key))
    }

    /// Reads the command line that the keys stand for.
    ///
    /// # Errors
    /// What does not read, in the words of a file.
    pub(crate) fn parse(&self, entries: &[Entry]) -> Result<Cli, Refused> {
        let mut line = vec!["drystone".to_owned(), self.command.get_name().to_owned()];
        let (mut options, mut positional) = (Vec::new(), Vec::new());
        for Entry { key, value, .. } in entries {
            match value {
                Plain::Text(text) if Some(key.as_str()) == self.positional => {
                    positional.push(text.clone());
                }
                // Without the equals sign a value could be taken for an option.
                Plain::Text(text) => options.push(format!("--{key}={text}")),
                Plain::Switch(on) => options.extend(on.then(|| format!("--{key}"))),
                Plain::List(texts) => {
                    options.extend(texts.iter().map(|text| format!("--{key}={text}")));
                }
            }
        }
        line.extend(options);
        // Behind the dashes nothing is an option.
        line.extend((!positional.is_empty()).then(|| "--".to_owned()));
        line.extend(positional);
        Cli::try_parse_from(line).map_err(|error| self.refused(&error, entries))
    }

    fn refused(&self, error: &clap::Error, entries: &[Entry]) -> Refused {
        let argument = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(text)) => text.clone(),
            _ => String::new(),
        };
        // `--sessions <N>`, or `--polcy` of what there is not.
        let word = argument.split([' ', '=']).next().unwrap_or_default();
        let key = word.strip_prefix("--").or(self.positional.filter(|_| !word.is_empty()));
        let line = entries.iter().find(|entry| Some(&*entry.key) == key).map(|entry| entry.line);
        Refused { line, what: self.in_keys(&refusal::sentence(error)) }
    }

    /// A sentence about options, as one about keys: `--sessions` is `sessions` in a file.
    pub(crate) fn in_keys(&self, sentence: &str) -> String {
        const ALL_OPTIONS: &str = ": --help lists them all";
        let all_keys = format!(
            ": the options in drystone {} --help, without dashes, are the keys",
            self.command.get_name()
        );
        let sentence = sentence.replace("there is no option '--", "there is no key '");
        let mut sentence = sentence.replace(ALL_OPTIONS, &all_keys);
        let mut options: Vec<&str> =
            self.command.get_arguments().filter_map(|it| it.get_long()).collect();
        // One may begin as another one does.
        options.sort_by_key(|option| std::cmp::Reverse(option.len()));
        for option in options.into_iter().filter(|option| *option != "help") {
            let dashed = format!("--{option}");
            // As the parser shows an option that takes a value.
            if let Some((before, rest)) = sentence.split_once(&format!("{dashed} <"))
                && let Some((_, after)) = rest.split_once('>')
            {
                sentence = format!("{before}{option}{after}");
            }
            sentence = sentence.replace(&dashed, option);
        }
        sentence
    }
}

/// The line of a byte, counted from 1.
pub(crate) fn line_at(text: &str, byte: usize) -> usize {
    text[..byte].matches('\n').count() + 1
}

fn instead_of(key: &str) -> String {
    match key {
        "chap" | "mutual-chap" => format!("write {key}-file, and the secret to that file"),
        _ => "leave it out".to_owned(),
    }
}

fn value(item: &Item) -> Option<Plain> {
    Some(match item.as_value()? {
        Value::Boolean(on) => Plain::Switch(*on.value()),
        Value::Array(values) => {
            Plain::List(values.iter().map(text).collect::<Option<Vec<String>>>()?)
        }
        other => Plain::Text(text(other)?),
    })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.value().clone()),
        Value::Integer(number) => Some(number.value().to_string()),
        _ => None,
    }
}

/// Reads a file of at most so many bytes whole. A pipe would be waited for without an end, and a file that was written by
/// mistake may have more bytes than the machine.
pub(crate) fn read_regular(path: &Path, bytes_max: u64) -> io::Result<String> {
    must_be_regular(path)?;
    Ok(regular::read_text(path, bytes_max)?.as_str().to_owned())
}

/// Refuses what is no regular file.
pub(crate) fn must_be_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path)?.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is no regular file: write one")),
    }
}
