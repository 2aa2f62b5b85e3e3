//! Where a member and a file differ.

use super::schema::KINDS;
use super::write::shown;
use super::{Keys, San, Value};
use crate::print::colour::Colour;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One section that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) how: How,
    /// The keys that differ, where both have the section.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) keys: Vec<KeyDifference>,
}

/// How it differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum How {
    OnlyInFile,
    OnlyOnMember,
    Differs,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct KeyDifference {
    pub(super) key: &'static str,
    pub(super) member: Option<Value>,
    pub(super) file: Value,
}

/// All sections that differ. A key that the file does not have is not compared.
pub(crate) fn diff(member: &San, file: &San) -> Vec<Difference> {
    let nothing = BTreeMap::new();
    let mut all = Vec::new();
    for kind in KINDS {
        let of = |san: &'_ San| san.0.get(kind.word).cloned().unwrap_or_else(|| nothing.clone());
        let (there, wanted) = (of(member), of(file));
        let names: BTreeSet<&String> = there.keys().chain(wanted.keys()).collect();
        for name in names {
            let (how, keys) = match (there.get(name), wanted.get(name)) {
                (None, _) => (How::OnlyInFile, Vec::new()),
                (_, None) => (How::OnlyOnMember, Vec::new()),
                (Some(there), Some(wanted)) => (How::Differs, of_keys(there, wanted)),
            };
            if how != How::Differs || !keys.is_empty() {
                all.push(Difference { kind: kind.word, name: name.clone(), how, keys });
            }
        }
    }
    all
}

fn of_keys(member: &Keys, file: &Keys) -> Vec<KeyDifference> {
    let differ = file.iter().filter(|(key, value)| member.get(*key) != Some(value));
    let difference = |(key, value): (&&'static str, &Value)| KeyDifference {
        key,
        member: member.get(key).cloned(),
        file: value.clone(),
    };
    differ.map(difference).collect()
}

/// As people read it, one line for each section and each key.
pub(crate) fn text(differences: &[Difference], colours: bool) -> String {
    let mut text = String::new();
    for Difference { kind, name, how, keys } in differences {
        let (sign, colour, told) = match how {
            How::OnlyInFile => ('+', Colour::Green, ": only the file has it"),
            How::OnlyOnMember => ('-', Colour::Red, ": only the member has it"),
            How::Differs => ('~', Colour::Yellow, ""),
        };
        let line = format!("{sign} {kind} '{name}'{told}");
        text.push_str(&if colours { colour.paint(&line) } else { line });
        text.push('\n');
        for KeyDifference { key, member, file } in keys {
            let member = member.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            text.push_str(&format!(
                "    {key}: {member} on the member, {} in the file\n",
                shown(file)
            ));
        }
    }
    text
}
