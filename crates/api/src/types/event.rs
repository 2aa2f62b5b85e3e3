//! Events.

use member::Record;
use member::events;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody should look at it.
    Warning,
    /// Something does not work, or has lost its redundancy.
    Error,
    /// Hosts do not reach their data, or data is lost.
    Critical,
}

same_words!(Severity, events::Severity: Info, Warning, Error, Critical);

impl Severity {
    /// The severity of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        let all = events::Severity::ALL.into_iter();
        all.map(Self::from).find(|severity| severity.word() == word)
    }

    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventObject {
    /// What it is: `member`, `array`, `disk`, `volume`, `target`, `schedule` or `destination`; others may come.
    #[schema(example = "disk")]
    pub kind: String,
    /// Its name; empty for what there is one of.
    pub name: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// One more than that of the event before.
    pub number: u64,
    /// When it happened.
    pub time_unix_seconds: u64,
    /// How much it matters.
    pub severity: Severity,
    /// A word that programs can rely on; new ones may come.
    #[schema(example = "disk_failed")]
    pub kind: String,
    /// What it is about.
    pub object: EventObject,
    /// What happened, in one sentence.
    pub text: String,
    /// What to do; empty where nothing is to be done.
    pub advice: String,
    /// How often it happened: more than 1 where repeats were counted.
    pub count: u64,
}

impl Event {
    /// As JSON: what a webhook is sent.
    #[must_use]
    pub fn json(record: &Record<events::Event>, advice: String) -> String {
        serde_json::to_string(&Self::new(record, advice)).expect("plain values can be written out")
    }

    /// With what to do about it.
    pub(crate) fn new(record: &Record<events::Event>, advice: String) -> Self {
        let Record { number, unix_seconds, count, what } = record;
        let object = EventObject {
            kind: what.object.kind.word().to_owned(),
            name: what.object.name.clone(),
        };
        Self {
            number: *number,
            time_unix_seconds: *unix_seconds,
            severity: what.severity.into(),
            kind: what.kind.clone(),
            object,
            text: what.text.clone(),
            advice,
            count: *count,
        }
    }
}
