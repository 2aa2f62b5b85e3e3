//! Events: what operators should know of, with severity, object and text, kept over restarts.

mod changes;
mod kind;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::records::{Fold, Log, PAUSE, Recorded, clipped};

pub(crate) use changes::Look;
pub use group::destinations::Severity;
pub use kind::Kind;

/// What kind of thing an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// The member as a whole.
    Member,
    /// Its array.
    Array,
    /// A disk of the array.
    Disk,
    /// A volume.
    Volume,
    /// A target, by its iSCSI name.
    Target,
    /// A snapshot schedule.
    Schedule,
    /// Where events go on to.
    Destination,
}

impl ObjectKind {
    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Array => "array",
            Self::Disk => "disk",
            Self::Volume => "volume",
            Self::Target => "target",
            Self::Schedule => "schedule",
            Self::Destination => "destination",
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// What it is.
    pub kind: ObjectKind,
    /// Its name; empty for what there is one of.
    #[serde(default)]
    pub name: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// How much it matters.
    pub severity: Severity,
    /// A word that stays: that of a [`Kind`], or one of another version.
    pub kind: String,
    /// What it is about.
    pub object: Object,
    /// What happened, in one sentence.
    pub text: String,
    /// What is the same in all that repeat it, where the text is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same: Option<String>,
}

/// Before the kind of what peers cause.
const OF_PEERS: &str = "of peers: ";

/// How long what peers cause is only counted: a few lines an hour push out nothing for months.
const PEERS_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The target under which critical events are logged, which the levels of a log know no word for.
pub const CRITICAL: &str = "member::events::critical";

/// The events of a member.
pub type EventLog = Log<Event>;

impl Event {
    /// About something that has a name.
    #[must_use]
    pub fn about(kind: Kind, object: ObjectKind, name: &str, text: impl AsRef<str>) -> Self {
        let object = Object { kind: object, name: clipped(name) };
        let text = clipped(text.as_ref());
        let kind_word = kind.word().to_owned();
        Self { severity: kind.severity(), kind: kind_word, object, text, same: None }
    }

    /// About the member.
    #[must_use]
    pub fn of_member(kind: Kind, text: impl AsRef<str>) -> Self {
        Self::about(kind, ObjectKind::Member, "", text)
    }

    /// About the array.
    #[must_use]
    pub fn of_array(kind: Kind, text: impl AsRef<str>) -> Self {
        Self::about(kind, ObjectKind::Array, "", text)
    }

    /// About a destination of events.
    #[must_use]
    pub fn of_destination(kind: Kind, name: &str, text: impl AsRef<str>) -> Self {
        Self::about(kind, ObjectKind::Destination, name, text)
    }

    /// What is the same in all that repeat one event, whether the log counts those or not.
    #[must_use]
    pub fn repeats(&self) -> String {
        let Object { kind, name } = &self.object;
        let key = format!("{} {} {name}", self.kind, kind.word());
        match Kind::from_word(&self.kind) {
            // What is said in many words is the same only if the words are.
            Some(kind) if kind.is_said() => {
                format!("{key} {}", self.same.as_deref().unwrap_or(&self.text))
            }
            _ => key,
        }
    }

    /// The same, which repeats all that have this in common.
    #[must_use]
    pub fn repeating(self, same: &str) -> Self {
        let same = clipped(same);
        Self { same: (same != self.text).then_some(same), ..self }
    }

    /// The same, which repeats all that peers of the target cause of this kind, whatever the text says: it names whom
    /// they claim to be, and what they sent.
    #[must_use]
    pub fn of_peers(self, kind: &str) -> Self {
        Self { same: Some(format!("{OF_PEERS}{kind}")), ..self }
    }

    /// Whether hosts, of which some are not let in, can cause it as often as they like.
    fn is_of_peers(&self) -> bool {
        let kinds = [Kind::SecondHostRefused, Kind::WriteProtected, Kind::WriteProtectionEnded];
        kinds.iter().any(|kind| self.kind == kind.word())
            || self.same.as_deref().is_some_and(|same| same.starts_with(OF_PEERS))
    }

    /// The same, with another severity than is usual for its kind.
    #[must_use]
    pub fn with_severity(self, severity: Severity) -> Self {
        Self { severity, ..self }
    }
}

impl Recorded for Event {
    const FOLDS_MAX: usize = 1024;

    const PARTS: &'static [&'static str] = &["events"];

    fn fold(&self) -> Fold {
        match Kind::from_word(&self.kind) {
            Some(kind) if kind.is_once() => Fold::Never,
            _ => Fold::By(self.repeats()),
        }
    }

    fn pause(&self) -> Duration {
        if self.is_of_peers() { PEERS_PAUSE } else { PAUSE }
    }

    /// So many things that go wrong in a minute are all told of.
    fn others(&self) -> Option<Self> {
        None
    }
}

impl EventLog {
    /// Records an event, and logs it, unless it repeats itself.
    pub fn tell(&self, event: Event) {
        let (severity, text) = (event.severity, event.text.clone());
        if self.record(event, 1) {
            match severity {
                Severity::Info => tracing::info!("{text}"),
                Severity::Warning => tracing::warn!("{text}"),
                Severity::Error => tracing::error!("{text}"),
                Severity::Critical => tracing::error!(target: CRITICAL, "{text}"),
            }
        }
    }

    /// Records what a room below has logged itself.
    pub fn hear(&self, event: Event) {
        self.record(event, 1);
    }

    /// Records why the member has not started, unless the same was said within the hour and it has not started
    /// since: a service manager tries again every few seconds, and would push out all else in a night.
    pub fn hear_of_failed_start(&self, text: &str) {
        self.hear_of_start(Event::of_member(Kind::MemberNotStarted, text));
    }

    /// Records what a start has found that may fail, with the same exception.
    pub(crate) fn hear_of_start(&self, event: Event) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let all = self.after(0);
        let mut lately = all.iter().rev().take_while(|record| {
            let is_start = [Kind::MemberStarted, Kind::MemberStartedUnclean]
                .into_iter()
                .any(|kind| record.what.kind == kind.word());
            let is_lately = (now.saturating_sub(60 * 60)..=now).contains(&record.unix_seconds);
            !is_start && is_lately
        });
        let is_same = |it: &Event| {
            (&it.kind, &it.object, &it.text) == (&event.kind, &event.object, &event.text)
        };
        if !lately.any(|record| is_same(&record.what)) {
            self.record(event, 1);
        }
    }

    /// Whether an event of this text was recorded since then.
    pub(crate) fn has_said(&self, text: &str, since_unix_seconds: u64) -> bool {
        let all = self.after(0);
        let lately = all.iter().rev().take_while(|it| it.unix_seconds >= since_unix_seconds);
        lately.into_iter().any(|record| record.what.text == text)
    }

    /// Whether the last start was followed by a stop in order. So it is where there was none.
    pub(crate) fn ended_in_order(&self) -> bool {
        let is = |event: &Event, kind: Kind| event.kind == kind.word();
        let all = self.after(0);
        let last = all.iter().rev().map(|record| &record.what).find(|event| {
            is(event, Kind::MemberStopped)
                || is(event, Kind::MemberStarted)
                || is(event, Kind::MemberStartedUnclean)
        });
        last.is_none_or(|event| is(event, Kind::MemberStopped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_kinds_lead_back_to_them_and_none_is_there_twice() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_word(kind.word()), Some(kind));
        }
        assert_eq!(Kind::from_word("of-tomorrow"), None);
    }

    /// A service manager tried every two seconds, and a night of that was all that the log held.
    #[test]
    fn why_a_member_does_not_start_is_said_once_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let said = || {
            let logs = crate::Logs::open(dir.path()).unwrap();
            logs.events.hear_of_failed_start("a disk is not there");
            logs.events.hear_of_failed_start("a disk is not there");
            let all = logs.events.after(0);
            logs.end();
            all.iter().filter(|it| it.what.kind == Kind::MemberNotStarted.word()).count()
        };
        assert_eq!((said(), said()), (1, 1));
        let logs = crate::Logs::open(dir.path()).unwrap();
        logs.events.hear_of_failed_start("another is not there");
        logs.started("1");
        logs.end();
        assert_eq!(said(), 3, "it had started meanwhile");
    }

    /// With nine disks away, what each of these starts found of them pushed all else out of the log in half an hour.
    #[test]
    fn what_failed_starts_find_of_a_disk_is_said_once_an_hour() {
        let dir = tempfile::tempdir().unwrap();
        let missing = |disk: &str, why: &str| {
            Event::about(Kind::DiskNotUsed, ObjectKind::Disk, disk, format!("it is missing: {why}"))
        };
        let start = || {
            let logs = crate::Logs::open(dir.path()).unwrap();
            for disk in ["sda", "sdb"] {
                logs.events.hear_of_start(missing(disk, "there is none"));
            }
            logs.events.hear_of_failed_start("disks are missing");
            logs
        };
        let said = |logs: &crate::Logs| {
            let all = logs.events.after(0);
            all.iter().filter(|it| it.what.kind == Kind::DiskNotUsed.word()).count()
        };
        for _ in 0..3 {
            let logs = start();
            assert_eq!(said(&logs), 2, "both, and once");
            logs.end();
        }
        let logs = start();
        logs.events.hear_of_start(missing("sda", "it does not answer"));
        assert_eq!(said(&logs), 3, "this is new");
        logs.started("1");
        logs.end();
        let logs = start();
        assert_eq!(said(&logs), 5, "it had started meanwhile");
        logs.end();
    }

    #[test]
    fn what_rooms_say_is_the_same_only_in_the_same_words() {
        let said = |text: &str| Event::about(Kind::ArraySaid, ObjectKind::Disk, "sda", text).fold();
        assert_ne!(said("reads failed"), said("a write failed"));
        let lost =
            |text: &str| Event::about(Kind::DiskMissing, ObjectKind::Disk, "sda", text).fold();
        assert_eq!(lost("one reason"), lost("another"));
        assert_eq!(Event::of_member(Kind::MemberStarted, "it has").fold(), Fold::Never);
    }

    #[test]
    fn what_peers_cause_is_folded_by_its_kind_and_for_longer() {
        let of = |text: &str, kind| Event::of_array(Kind::TargetSaid, text).of_peers(kind);
        assert_eq!(of("one", "login").fold(), of("another", "login").fold());
        assert_ne!(of("one", "login").fold(), of("one", "stall").fold());
        let said = Event::of_array(Kind::TargetSaid, "one");
        assert_eq!((of("one", "login").pause(), said.pause()), (PEERS_PAUSE, PAUSE));
    }

    /// Of many hosts that were refused at one volume only the first was named.
    #[test]
    fn each_host_that_is_refused_is_told_of_and_so_is_each_limit() {
        let dir = tempfile::tempdir().unwrap();
        let logs = crate::Logs::open(dir.path()).unwrap();
        let kind = Kind::ConnectionsRefused;
        for (host, port) in [("a", 1), ("b", 1), ("a", 2)] {
            let text = format!("{host} at 192.0.2.1:{port} was refused");
            let event = Event::about(kind, ObjectKind::Volume, "vm", text);
            logs.events.tell(event.repeating(&format!("{host} at vm")));
        }
        for kind in [Kind::ConnectionsHigh, Kind::ConnectionsEased] {
            for (bound, taken) in [("the group", 95), ("the pool", 95), ("the group", 96)] {
                let text = format!("hosts have {taken} connections to {bound}");
                logs.events.tell(Event::of_member(kind, text).repeating(bound));
            }
        }
        let said = |kind: Kind| {
            logs.events.after(0).iter().filter(|it| it.what.kind == kind.word()).count()
        };
        let told = [kind, Kind::ConnectionsHigh, Kind::ConnectionsEased].map(said);
        assert_eq!(told, [2, 2, 2], "what repeats itself is counted");
        logs.end();
    }

    #[test]
    fn names_of_others_are_kept_as_one_line_that_ends() {
        let event = Event::about(Kind::SecondHostRefused, ObjectKind::Target, "a\x1b[2Jb", "x\ny");
        assert_eq!((event.object.name.as_str(), event.text.as_str()), ("a [2Jb", "x y"));
        let long = Event::of_member(Kind::TargetSaid, "ä".repeat(10_000));
        assert!(long.text.len() < 1300 && long.text.ends_with("..."));
    }
}
