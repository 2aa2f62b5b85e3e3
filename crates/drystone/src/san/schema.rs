//! Which kinds of sections there are, which keys each has, and what stands behind those.

use super::{Keys, Value};
use crate::cli::logins::parse_time;
use group::access::{Record, Scope};
use group::schedules::Timing;
use member::spec::size;

/// A kind of sections.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) word: &'static str,
    pub(crate) keys: &'static [(&'static str, Shape)],
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// Bytes, written as a size.
    Size,
    /// The same, or 0.
    SizeOrNone,
    Switch,
    Number,
    /// Anything.
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    /// Names in any order.
    Names,
    /// Hosts of a policy, in any order.
    Records,
    /// Hosts and policies, in any order, or [`UNLISTED`].
    Access,
    /// When a schedule is due.
    When,
    /// A file that holds a secret, or a URL that is one: it is never told, so it is not compared.
    SecretFile,
}

/// What stands for a volume without an access list.
pub(crate) const UNLISTED: &str = "unlisted";

const SEVERITIES: [&str; 4] = ["info", "warning", "error", "critical"];

const LEVELS: [&str; 6] = ["raid0", "raid1", "raid10", "raid5", "raid6", "raid50"];

/// All kinds, in the order in which they are written.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        word: "volume",
        keys: &[
            ("size", Shape::Size),
            ("raid", Shape::Word(&LEVELS)),
            ("thick", Shape::Switch),
            ("block", Shape::Number),
            ("cache", Shape::Word(&["durable", "volatile"])),
            ("read-ahead", Shape::SizeOrNone),
            ("read-cache", Shape::Switch),
            ("online", Shape::Switch),
            ("shared", Shape::Switch),
            ("access", Shape::Access),
        ],
    },
    Kind {
        word: "schedule",
        keys: &[
            ("volumes", Shape::Names),
            ("when", Shape::When),
            ("keep", Shape::Number),
            ("paused", Shape::Switch),
        ],
    },
    Kind { word: "policy", keys: &[("hosts", Shape::Records)] },
    Kind { word: "chap", keys: &[("secret-file", Shape::SecretFile)] },
    Kind { word: "mutual-chap", keys: &[("secret-file", Shape::SecretFile)] },
    Kind {
        word: "account",
        keys: &[
            ("role", Shape::Word(&["read-only", "operator", "administrator"])),
            ("disabled", Shape::Switch),
            ("password-file", Shape::SecretFile),
        ],
    },
    Kind {
        word: "webhook",
        keys: &[
            ("server", Shape::Text),
            ("url-file", Shape::SecretFile),
            ("signed", Shape::Switch),
            ("secret-file", Shape::SecretFile),
            ("bearer", Shape::Switch),
            ("token-file", Shape::SecretFile),
            ("trust", Shape::Text),
            ("severity", Shape::Word(&SEVERITIES)),
            ("fold-seconds", Shape::Number),
            ("paused", Shape::Switch),
        ],
    },
    Kind {
        word: "email",
        keys: &[
            ("to", Shape::Names),
            ("from", Shape::Text),
            ("smtp", Shape::Text),
            ("tls", Shape::Word(&["none", "starttls", "tls"])),
            ("user", Shape::Text),
            ("password-file", Shape::SecretFile),
            ("trust", Shape::Text),
            ("severity", Shape::Word(&SEVERITIES)),
            ("fold-seconds", Shape::Number),
            ("paused", Shape::Switch),
        ],
    },
    Kind {
        word: "syslog",
        keys: &[
            ("server", Shape::Text),
            ("transport", Shape::Word(&["udp", "tcp", "tls"])),
            ("audit", Shape::Switch),
            ("trust", Shape::Text),
            ("severity", Shape::Word(&SEVERITIES)),
            ("fold-seconds", Shape::Number),
            ("paused", Shape::Switch),
        ],
    },
];

/// The kinds that are destinations of events.
pub(crate) const DESTINATIONS: [&str; 3] = ["webhook", "email", "syslog"];

/// What stands for the authorities that the member's machine trusts.
pub(crate) const SYSTEM_TRUST: &str = "system";

/// What stands for no user.
pub(crate) const NO_USER: &str = "";

/// The keys that name files with the secrets of a section, all that it has by what a file says of it, or else a member.
pub(super) fn secret_keys(kind: &str, member: &Keys, file: &Keys) -> Vec<&'static str> {
    let said = |key: &str| file.get(key).or_else(|| member.get(key));
    let is_on = |key: &str| said(key) == Some(&Value::Switch(true));
    match kind {
        "webhook" => {
            let more = [("signed", "secret-file"), ("bearer", "token-file")];
            let more = more.into_iter().filter(|(switch, _)| is_on(switch)).map(|(_, key)| key);
            ["url-file"].into_iter().chain(more).collect()
        }
        "email" => match said("user") {
            Some(Value::Text(user)) if user != NO_USER => vec!["password-file"],
            _ => Vec::new(),
        },
        "chap" | "mutual-chap" => vec!["secret-file"],
        _ => Vec::new(),
    }
}

impl Kind {
    /// The kind of this word.
    pub(crate) fn of(word: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.word == word)
    }

    /// A key as it stands in the schema, and what it holds.
    pub(crate) fn key(&self, word: &str) -> Option<(&'static str, Shape)> {
        self.keys.iter().copied().find(|(key, _)| *key == word)
    }
}

impl Shape {
    /// A value in its normal form; `None` for what is not compared.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub(crate) fn normal(self, value: Value) -> Result<Option<Value>, String> {
        Ok(Some(match (self, value) {
            (Self::SecretFile, Value::Text(_)) => return Ok(None),
            (Self::Switch, value @ Value::Switch(_)) | (Self::Number, value @ Value::Number(_)) => {
                value
            }
            (Self::SizeOrNone, Value::Number(0)) => Value::Text("0".to_owned()),
            (Self::SizeOrNone, Value::Text(text)) if text == "0" => Value::Text(text),
            (Self::Size | Self::SizeOrNone, Value::Number(bytes)) => of_size(&bytes.to_string())?,
            (Self::Size | Self::SizeOrNone, Value::Text(text)) => of_size(&text)?,
            (Self::Text, Value::Text(text)) => Value::Text(text),
            (Self::Word(words), Value::Text(text)) if words.contains(&text.as_str()) => {
                Value::Text(text)
            }
            (Self::When, Value::Text(text)) => Value::Text(when(&text)?.to_string()),
            (Self::Names, Value::Texts(names)) => in_order(names),
            (Self::Access, Value::Text(text)) if text == UNLISTED => Value::Text(text),
            (Self::Access, Value::Texts(all)) => in_order(each(&all, entry)?),
            (Self::Records, Value::Texts(all)) => in_order(each(&all, record)?),
            _ => return Err(format!("write {}", self.wanted())),
        }))
    }

    /// What is to be written.
    fn wanted(self) -> String {
        match self {
            Self::Size => "a size such as \"100G\"".to_owned(),
            Self::SizeOrNone => "a size such as \"1M\", or \"0\"".to_owned(),
            Self::Switch => "true or false".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Text => "a text".to_owned(),
            Self::Word(words) => format!("one of \"{}\"", words.join("\", \"")),
            Self::Names => "names: [\"vm1\", \"vm2\"]".to_owned(),
            Self::Records => "hosts: [\"ip=10.1.0.0/16 for=both\"]".to_owned(),
            Self::Access => format!(
                "hosts and policies, [\"ip=10.1.0.0/16 for=both\", \"policy=rack1 for=volume\"], or \"{UNLISTED}\" for no list"
            ),
            Self::When => "\"every 15m\", \"daily 03:00\" or \"weekly sun 03:00\" (UTC)".to_owned(),
            Self::SecretFile => "the path of a file".to_owned(),
        }
    }
}

/// Each once, and always in the same order.
pub(crate) fn in_order(mut texts: Vec<String>) -> Value {
    texts.sort();
    texts.dedup();
    Value::Texts(texts)
}

fn each(
    texts: &[String],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<String>, String> {
    texts.iter().map(|text| read(text)).collect()
}

fn record(text: &str) -> Result<String, String> {
    let read = text.parse::<Record>();
    read.map(|record| record.to_string()).map_err(|error| error.to_string())
}

fn entry(text: &str) -> Result<String, String> {
    let Some(rest) = text.trim_start().strip_prefix("policy=") else { return record(text) };
    let mut words = rest.split_whitespace();
    let name = words.next().unwrap_or_default();
    let scope = match words.next() {
        None => Scope::Both,
        Some(word) => {
            let word = word.strip_prefix("for=").unwrap_or(word);
            word.parse::<Scope>().map_err(|error| error.to_string())?
        }
    };
    match words.next() {
        None if !name.is_empty() => Ok(policy_text(name, scope)),
        _ => Err(format!("'{text}' names no policy: write policy=NAME for=both")),
    }
}

/// An entry of a policy as it is written.
pub(crate) fn policy_text(name: &str, scope: Scope) -> String {
    format!("policy={name} for={}", scope.word())
}

fn of_size(text: &str) -> Result<Value, String> {
    let bytes = size::parse(text).map_err(|error| error.to_string())?;
    Ok(Value::Text(size::short(bytes)))
}

/// When a schedule is due.
pub(super) fn when(text: &str) -> Result<Timing, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["every", time] => Ok(Timing::Every { seconds: parse_time(time)?.as_secs() }),
        ["daily", at] => Ok(Timing::Daily { at: at.parse().map_err(sentence)? }),
        ["weekly", day, at] => Ok(Timing::Weekly {
            day: day.parse().map_err(sentence)?,
            at: at.parse().map_err(sentence)?,
        }),
        _ => Err(format!("write {}", Shape::When.wanted())),
    }
}

fn sentence(error: impl std::error::Error) -> String {
    error.to_string()
}
