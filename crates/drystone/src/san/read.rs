//! Reads a file. All that is wrong is told at once, with its line and what was probably meant.

use super::schema::{KINDS, Kind, Shape};
use super::{Keys, San, Value};
use crate::cli::words::{Refused, line_at};
use std::collections::BTreeMap;
use toml_edit::{Document, Item, TableLike};

/// So much alike are words of which one was probably meant (Jaro, as the command line does it).
const ALIKE: f64 = 0.7;

/// Reads what a file says, for tests of that alone.
#[cfg(test)]
pub(crate) fn read(text: &str) -> Result<San, Vec<Refused>> {
    read_with_files(text).map(|(san, _)| san)
}

/// The files that hold secrets, by the kinds and names of their sections, and their keys.
pub(crate) type SecretFiles = BTreeMap<(&'static str, String, &'static str), String>;

/// Reads what a file says, and which files hold the secrets of it.
///
/// # Errors
/// All that does not read, in the order of the lines.
pub(crate) fn read_with_files(text: &str) -> Result<(San, SecretFiles), Vec<Refused>> {
    let document = Document::parse(text).map_err(|error| {
        let what = error.message().lines().next().unwrap_or_default().to_owned();
        vec![Refused { line: error.span().map(|span| line_at(text, span.start)), what }]
    })?;
    let (refused, san, files) = (Vec::new(), San::default(), SecretFiles::new());
    let mut reader = Reader { text, refused, san, files };
    reader.sections(document.as_table());
    reader.refused.sort_by_key(|refused| refused.line);
    if reader.refused.is_empty() { Ok((reader.san, reader.files)) } else { Err(reader.refused) }
}

struct Reader<'a> {
    text: &'a str,
    refused: Vec<Refused>,
    san: San,
    files: SecretFiles,
}

impl Reader<'_> {
    fn refuse(&mut self, table: &dyn TableLike, key: &str, what: String) {
        let span = table.key(key).and_then(toml_edit::Key::span);
        // A table that only its sections name has its line there.
        let span = span.or_else(|| table.get(key).and_then(Item::span));
        self.refused.push(Refused { line: span.map(|span| line_at(self.text, span.start)), what });
    }

    fn sections(&mut self, root: &dyn TableLike) {
        for (word, item) in root.iter() {
            let Some(kind) = Kind::of(word) else {
                let all: Vec<&str> = KINDS.iter().map(|kind| kind.word).collect();
                let write = match probably(word, &all) {
                    Some(meant) => format!("[{meant}.NAME]"),
                    None => format!("[KIND.NAME], where KIND is one of {}", all.join(", ")),
                };
                let what = format!("there is no kind '{word}': write {write}");
                self.refuse(root, word, what);
                continue;
            };
            let Some(named) = item.as_table_like() else {
                self.refuse(root, word, format!("'{word}' needs a name: write [{word}.NAME]"));
                continue;
            };
            for (name, item) in named.iter() {
                match item.as_table_like() {
                    Some(table) => {
                        let keys = self.keys(kind, name, table);
                        self.san.put(kind.word, name.to_owned(), keys);
                    }
                    None => {
                        let what =
                            format!("'{name}' stands in no section: write [{word}.NAME] above");
                        self.refuse(named, name, what);
                    }
                }
            }
        }
    }

    fn keys(&mut self, kind: &Kind, name: &str, table: &dyn TableLike) -> Keys {
        let mut keys = Keys::new();
        for (word, item) in table.iter() {
            let Some((key, shape)) = kind.key(word) else {
                let all: Vec<&str> = kind.keys.iter().map(|(key, _)| *key).collect();
                let write = match probably(word, &all) {
                    Some(meant) => format!("'{meant}'"),
                    None => format!("one of {}", all.join(", ")),
                };
                let what = format!("'{}' has no key '{word}': write {write}", kind.word);
                self.refuse(table, word, what);
                continue;
            };
            let read = value(item)
                .ok_or_else(|| "write true, a number, \"a text\" or [\"texts\"]".to_owned());
            if let (Shape::SecretFile, Ok(Value::Text(path))) = (shape, &read) {
                self.files.insert((kind.word, name.to_owned(), key), path.clone());
            }
            match read.and_then(|value| shape.normal(value)) {
                Ok(Some(value)) => drop(keys.insert(key, value)),
                Ok(None) => {}
                Err(what) => self.refuse(table, word, format!("'{word}': {what}")),
            }
        }
        keys
    }
}

/// The word that was probably meant, if one is alike.
fn probably<'a>(word: &str, all: &[&'a str]) -> Option<&'a str> {
    let alike = all.iter().map(|known| (strsim::jaro(word, known), *known));
    let best = alike.max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness > ALIKE).map(|(_, known)| known)
}

fn value(item: &Item) -> Option<Value> {
    let text = |value: &toml_edit::Value| value.as_str().map(str::to_owned);
    Some(match item.as_value()? {
        toml_edit::Value::Boolean(on) => Value::Switch(*on.value()),
        toml_edit::Value::Integer(number) => Value::Number(u64::try_from(*number.value()).ok()?),
        toml_edit::Value::Array(all) => Value::Texts(all.iter().map(text).collect::<Option<_>>()?),
        other => Value::Text(text(other)?),
    })
}
