//! Where a member and a file differ.

use super::read::SecretFiles;
use super::schema::{KINDS, secret_keys};
use super::write::shown;
use super::{Keys, SCHEDULE, San, Value, is_idle};
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
    /// The keys that name files with its secrets, where those that the member had are lost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) lost_secrets: Vec<&'static str>,
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
        let of =
            |san: &'_ San| san.sections.get(kind.word).cloned().unwrap_or_else(|| nothing.clone());
        let (there, wanted) = (of(member), of(file));
        let names: BTreeSet<&String> = there.keys().chain(wanted.keys()).collect();
        for name in names {
            let (kind, is_lost) = (kind.word, member.lost.contains(&(kind.word, name.clone())));
            let (how, keys, lost_secrets) = match (there.get(name), wanted.get(name)) {
                // Nobody wrote it into a file, and it goes on as it is.
                (Some(there), None) if kind == SCHEDULE && is_idle(there) => continue,
                (None, _) => (How::OnlyInFile, Vec::new(), Vec::new()),
                (_, None) => (How::OnlyOnMember, Vec::new(), Vec::new()),
                (Some(there), Some(wanted)) => {
                    let secrets = is_lost.then(|| secret_keys(kind, there, wanted));
                    (How::Differs, of_keys(there, wanted), secrets.unwrap_or_default())
                }
            };
            if how != How::Differs || !(keys.is_empty() && lost_secrets.is_empty()) {
                all.push(Difference { kind, name: name.clone(), how, keys, lost_secrets });
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

impl Difference {
    /// What is lost of it and what that is set anew from; `None` where nothing is lost.
    ///
    /// # Errors
    /// What the file has to name for that.
    pub(super) fn renewed(&self, files: &SecretFiles) -> Result<Option<String>, String> {
        let file_of = |key| (key, files.get(&(self.kind, self.name.clone(), key)));
        let of_keys: Vec<_> = self.lost_secrets.iter().copied().map(file_of).collect();
        let (lost, they) = match of_keys.len() {
            0 => return Ok(None),
            1 => ("its secret is lost", "it is"),
            _ => ("its secrets are lost", "they are"),
        };
        let missing = of_keys.iter().filter(|(_, file)| file.is_none());
        let missing: Vec<String> = missing.map(|(key, _)| format!("{key} = \"FILE\"")).collect();
        if !missing.is_empty() {
            return Err(format!(
                "{lost}: write {} for what {they} set anew from",
                missing.join(" and ")
            ));
        }
        let given = of_keys.iter().filter_map(|(_, file)| Some(format!("'{}'", (*file)?)));
        let given = given.collect::<Vec<_>>().join(" and ");
        Ok(Some(format!("{lost}: {they} set anew from {given}")))
    }
}

/// As people read it, one line for each section, each key and what is lost.
pub(crate) fn text(differences: &[Difference], files: &SecretFiles, colours: bool) -> String {
    let mut text = String::new();
    for difference in differences {
        let Difference { kind, name, how, keys, .. } = difference;
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
        if let Some(lost) = difference.renewed(files).unwrap_or_else(Some) {
            text.push_str(&format!("    {lost}\n"));
        }
    }
    text
}
