//! What the rooms below a member warn of becomes an event, whatever is logged to stderr.

use member::events::{Event, EventLog, Kind, ObjectKind, Severity};
use std::fmt::{Debug, Write};
use std::net::SocketAddr;
use std::sync::OnceLock;
use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The rooms whose warnings are events, and of which kind. What happens in the others becomes events there.
const ROOMS: [(&str, Kind); 4] = [
    ("array", Kind::ArraySaid),
    ("block", Kind::DeviceSaid),
    ("ring", Kind::DeviceSaid),
    ("target", Kind::TargetSaid),
];

/// Before the kind of what peers of the target cause, in what it is logged under.
const OF_PEERS: &str = "target::peers::";

/// The events of the member of this process.
static EVENTS: OnceLock<EventLog> = OnceLock::new();

/// From now on `events` is told. There is one member in a process.
pub(crate) fn tell(events: &EventLog) {
    EVENTS.get_or_init(|| events.clone());
}

/// Passes on what those rooms warn of, to the member of this process.
pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    to(&EVENTS)
}

/// The same to a log. It waits for nobody.
fn to<S: Subscriber + for<'a> LookupSpan<'a>>(
    events: &'static OnceLock<EventLog>,
) -> impl Layer<S> {
    let rooms = ROOMS.map(|(room, _)| (room, Level::WARN));
    Rooms(events).with_filter(Targets::new().with_targets(rooms))
}

#[derive(Debug)]
struct Rooms(&'static OnceLock<EventLog>);

impl<S: Subscriber> Layer<S> for Rooms {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let Some(events) = self.0.get() else { return };
        let mut said = Said::default();
        event.record(&mut said);
        let metadata = event.metadata();
        events.hear(said.event(metadata.target(), *metadata.level()));
    }
}

/// The parts of what is said.
#[derive(Debug, Default)]
struct Said {
    message: String,
    /// The disk that it is about.
    disk: Option<String>,
    /// What else is told.
    more: String,
    /// How often it was not said.
    held_back: String,
}

impl Said {
    fn event(self, target: &str, level: Level) -> Event {
        let room = target.split("::").next().unwrap_or(target);
        let kind = ROOMS.iter().find(|(known, _)| *known == room);
        let kind = kind.map_or(Kind::DeviceSaid, |(_, kind)| *kind);
        let Self { message, disk, more, held_back } = self;
        let told = format!("{message}{more}");
        // A host that tries again and again comes from another port each time.
        let same = without_ports(&told);
        let text = told + &held_back;
        let event = match disk {
            Some(disk) => {
                Event::about(kind, ObjectKind::Disk, &disk, format!("disk {disk}: {text}"))
            }
            None => Event::of_array(kind, text),
        };
        let severity = if level == Level::ERROR { Severity::Error } else { Severity::Warning };
        let event = event.with_severity(severity);
        match target.strip_prefix(OF_PEERS) {
            // They choose what is said, and need not even be let in.
            Some(kind) => event.of_peers(kind),
            None => event.repeating(&same),
        }
    }
}

/// The same text, with addresses alone where it has addresses and ports.
fn without_ports(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let bare = word.trim_end_matches([':', ',', ';', '.']);
        bare.parse::<SocketAddr>().map_or_else(|_| word.to_owned(), |place| place.ip().to_string())
    });
    words.collect::<Vec<_>>().join(" ")
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "disk" => self.disk = Some(format!("{value:?}")),
            "held_back" => _ = write!(self.held_back, ", held_back {value:?}"),
            "error" => _ = write!(self.more, ": {value:?}"),
            name => _ = write!(self.more, ", {name} {value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt;

    /// A log of its own: others run beside this test.
    static HERE: OnceLock<EventLog> = OnceLock::new();

    #[test]
    fn what_is_said_of_a_disk_is_an_event_about_it() {
        let dir = tempfile::tempdir().unwrap();
        let logs = member::Logs::open(dir.path()).unwrap();
        HERE.get_or_init(|| logs.events.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(to(&HERE)), || {
            let (disk, error) = ("/dev/sdb", std::io::Error::other("it is gone"));
            tracing::warn!(target: "array::raid::io", disk, %error, "a flush failed");
            tracing::error!(target: "array::engine", "the array stops: {error}");
            tracing::info!(target: "array::engine", "all is well");
            tracing::error!(target: "lab", "not of a member");
        });
        let events: Vec<Event> =
            logs.events.after(0).iter().map(|record| record.what.clone()).collect();
        logs.end();
        let [flush, stop] = &events[..] else { panic!("{events:?}") };
        assert_eq!(flush.text, "disk /dev/sdb: a flush failed: it is gone");
        assert_eq!((flush.severity, flush.object.name.as_str()), (Severity::Warning, "/dev/sdb"));
        assert_eq!((stop.severity, stop.kind.as_str()), (Severity::Error, "array_said"));
    }

    /// Whoever it is and whatever it says: strangers must not push out what happened to disks.
    #[test]
    fn what_peers_cause_is_one_event_for_each_kind() {
        static HERE: OnceLock<EventLog> = OnceLock::new();
        let dir = tempfile::tempdir().unwrap();
        let logs = member::Logs::open(dir.path()).unwrap();
        HERE.get_or_init(|| logs.events.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(to(&HERE)), || {
            for n in 0..500 {
                let (login, peer) =
                    (format!("no such target 'x{n}'"), format!("[2001:db8::{n:x}]:9"));
                tracing::warn!(target: "target::peers::login", "refused a login from {peer}: {login}");
                tracing::warn!(target: "target::peers::protocol", "dropped the connection of x{n} at {peer}");
                tracing::warn!(target: "target::session", "{}: bad", n % 2);
            }
        });
        let events: Vec<String> =
            logs.events.after(0).iter().map(|record| record.what.text.clone()).collect();
        logs.end();
        let wanted = [
            "refused a login from [2001:db8::0]:9: no such target 'x0'",
            "dropped the connection of x0 at [2001:db8::0]:9",
            "0: bad",
            "1: bad",
        ];
        assert_eq!(events, wanted, "the rest is counts, an hour later");
    }
}
