//! Writes a file that reads as what it was written from.

use super::schema::KINDS;
use super::{San, Value};
use std::fmt::Write;

const HEAD: &str = "\
# What a member of Drystone is set to, as 'drystone export-config' wrote it. 'drystone diff -f FILE' tells where the
# member and the file differ. Secrets, passwords, tokens and URLs of webhooks are not
# in it: where 'signed', 'bearer' or 'user' say that there is one, 'secret-file', 'token-file', 'password-file' and
# 'url-file' have to name files with them for another member, or for another place. All times are UTC.
";

/// The text of a file.
pub(crate) fn write(san: &San) -> String {
    let mut text = HEAD.to_owned();
    for kind in KINDS {
        for (name, keys) in san.sections.get(kind.word).into_iter().flatten() {
            let name = toml_edit::Key::new(name);
            // Writing to a text does not fail.
            let _ = writeln!(text, "\n[{}.{name}]", kind.word);
            for (key, _) in kind.keys {
                if let Some(value) = keys.get(key) {
                    let _ = writeln!(text, "{key} = {}", shown(value));
                }
            }
        }
    }
    text
}

/// A value as it stands in a file.
pub(crate) fn shown(value: &Value) -> String {
    let quoted = |text: &str| toml_edit::Value::from(text).to_string();
    match value {
        Value::Switch(on) => on.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => quoted(text),
        Value::Texts(all) => {
            let all: Vec<String> = all.iter().map(|text| quoted(text)).collect();
            format!("[{}]", all.join(", "))
        }
    }
}
