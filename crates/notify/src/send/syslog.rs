//! Events as lines of RFC 5424, by UDP (RFC 5426), TCP (RFC 6587) or TLS (RFC 5425).
//!
//! Nothing in syslog says that a line was taken: one that was sent counts as taken, unless the system says that
//! nobody is there.

use std::io;
use std::time::Duration;

use group::calendar::Moment;
use group::destinations::{HostPort, Severity, Syslog, SyslogTransport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::{SendError, Sender, connect, place_of, tls};
use crate::message::{Message, cut, line};

/// What a receiver has to take (RFC 5424 §6.1).
const LINE_BYTES_MAX: usize = 2048;

/// The longest name in a line: room is left for what happened.
const NAME_BYTES_MAX: usize = 300;

/// `daemon` (RFC 5424 §6.2.1).
const FACILITY: u8 = 3;

/// The name of the structured data. 32473 is the number that RFC 5612 gives to whoever has none.
const DATA_ID: &str = "event@32473";

/// How long a refusal of what was sent is waited for.
pub(super) const REFUSAL_TIME: Duration = Duration::from_millis(200);

/// How long a server may take to end the connection, too.
pub(super) const END_TIME: Duration = Duration::from_secs(2);

/// A line to be.
pub(super) struct Line<'a> {
    /// Facility and severity (RFC 5424 §6.2.1).
    pub(super) priority: u8,
    pub(super) unix_seconds: u64,
    /// What it is a line of (MSGID).
    pub(super) id: &'a str,
    pub(super) data_id: &'a str,
    pub(super) data: Vec<(&'static str, String)>,
    /// In one line.
    pub(super) text: String,
}

/// Sends each message as one line.
pub(super) async fn send(
    sender: &Sender,
    syslog: &Syslog,
    messages: &[Message],
) -> Result<(), SendError> {
    let lines: Vec<String> = messages.iter().map(|message| of_event(sender, message)).collect();
    send_lines(syslog, &lines).await
}

/// Sends lines, all of them or an error; then some may have been taken.
pub(super) async fn send_lines(syslog: &Syslog, lines: &[String]) -> Result<(), SendError> {
    let mut link = Link::open(syslog).await?;
    link.write(lines, REFUSAL_TIME).await?;
    link.end(END_TIME).await
}

/// A way to a server, for as many lines as there are.
pub(super) struct Link {
    place: String,
    to: To,
}

enum To {
    Datagrams(HostPort),
    Stream(Box<dyn Stream>),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Link {
    pub(super) async fn open(syslog: &Syslog) -> Result<Self, SendError> {
        let place = place_of(&syslog.server);
        let to = match syslog.transport {
            SyslogTransport::Udp => To::Datagrams(syslog.server.clone()),
            SyslogTransport::Tcp => {
                let port = syslog.server.port_or(514);
                To::Stream(Box::new(connect(&syslog.server, port, &place).await?))
            }
            SyslogTransport::Tls => {
                let port = syslog.server.port_or(6514);
                let stream = connect(&syslog.server, port, &place).await?;
                let roots = syslog.roots.as_deref();
                To::Stream(Box::new(tls::shake(stream, &syslog.server, roots, &place).await?))
            }
        };
        Ok(Self { place, to })
    }

    /// Sends lines; waits so long for the word that nobody takes datagrams.
    pub(super) async fn write(
        &mut self,
        lines: &[String],
        refusal_time: Duration,
    ) -> Result<(), SendError> {
        let written = match &mut self.to {
            To::Datagrams(server) => {
                let to = (server.host.as_str(), server.port_or(514));
                datagrams(to, lines, refusal_time).await
            }
            To::Stream(stream) => counted(stream, lines).await,
        };
        written.map_err(|error| SendError::unreachable(&self.place, &error))
    }

    /// Ends it, and waits so long for the server to do so, too.
    pub(super) async fn end(self, end_time: Duration) -> Result<(), SendError> {
        let To::Stream(stream) = self.to else { return Ok(()) };
        let ended = end(stream, end_time).await;
        ended.map_err(|error| SendError::unreachable(&self.place, &error))
    }
}

async fn datagrams(to: (&str, u16), lines: &[String], refusal_time: Duration) -> io::Result<()> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in tokio::net::lookup_host(to).await? {
        let from = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(from).await?;
        let sent = async {
            socket.connect(address).await?;
            for line in lines {
                socket.send(line.as_bytes()).await?;
            }
            // ICMP says it a moment later that nobody listens.
            match timeout(refusal_time, socket.recv(&mut [0; 1])).await {
                Ok(Err(error)) => Err(error),
                _ => Ok(()),
            }
        };
        match sent.await {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Each line with its length before it.
async fn counted(stream: &mut Box<dyn Stream>, lines: &[String]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(format!("{} {line}", line.len()).as_bytes());
    }
    stream.write_all(&bytes).await?;
    stream.flush().await
}

async fn end(mut stream: Box<dyn Stream>, end_time: Duration) -> io::Result<()> {
    stream.shutdown().await?;
    // One that has ended meanwhile resets the connection; one that says nothing has it.
    match timeout(end_time, stream.read(&mut [0; 64])).await {
        Ok(Err(error)) if error.kind() != io::ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(()),
    }
}

fn of_event(sender: &Sender, message: &Message) -> String {
    let record = message.record();
    let severity = match record.what.severity {
        Severity::Info => 6,
        Severity::Warning => 4,
        Severity::Error => 3,
        Severity::Critical => 2,
    };
    let data = [
        ("number", record.number.to_string()),
        ("kind", record.what.kind.clone()),
        ("object", record.what.object.kind.word().to_owned()),
        ("name", record.what.object.name.clone()),
        ("count", record.count.to_string()),
    ];
    let line = Line {
        priority: FACILITY * 8 + severity,
        unix_seconds: record.unix_seconds,
        id: &message_id(&record.what.kind),
        data_id: DATA_ID,
        data: data.into(),
        text: message.text(),
    };
    line_of(sender, &line)
}

/// `<PRI>1 TIME HOST APP - ID [data] text`.
pub(super) fn line_of(sender: &Sender, line: &Line<'_>) -> String {
    let Line { priority, unix_seconds, id, data_id, data, text } = line;
    let data = data.iter().map(|(name, value)| format!(" {name}=\"{}\"", quoted(value)));
    let head = format!(
        "<{priority}>1 {} {} drystone - {id} [{data_id}{}] \u{feff}",
        timestamp(Moment::of(*unix_seconds)),
        sender.host,
        data.collect::<String>(),
    );
    cut(&format!("{head}{text}"), LINE_BYTES_MAX)
}

/// A time as TIMESTAMP, whose years have four digits.
fn timestamp(moment: Moment) -> String {
    match moment.year {
        ..=9999 => moment.to_string().replace(' ', "T"),
        _ => "-".to_owned(),
    }
}

/// What a kind is as MSGID: printable and at most 32 characters.
fn message_id(kind: &str) -> String {
    let id: String = kind.chars().filter(char::is_ascii_graphic).take(32).collect();
    if id.is_empty() { "-".to_owned() } else { id }
}

/// A value of structured data (RFC 5424 §6.3.3).
fn quoted(value: &str) -> String {
    let value = cut(&line(value), NAME_BYTES_MAX);
    let mut quoted = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '"' | '\\' | ']') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

#[cfg(test)]
mod tests {
    use member::Record;
    use member::events::{Event, Kind, Object, ObjectKind};

    use super::*;

    fn sender() -> Sender {
        Sender::new("1", |_| String::new(), |_| String::new())
    }

    #[test]
    fn a_name_that_a_host_chose_ends_no_data_and_no_line() {
        let object =
            Object { kind: ObjectKind::Target, name: "iqn.x\"] evil=\"1\r\n<0>1".to_owned() };
        let what = Event::of_member(Kind::SecondHostRefused, "refused");
        let what = Event { object, text: "a\nb\u{1b}[2J".to_owned(), ..what };
        let message = Message::first(Record { number: 9, unix_seconds: 0, count: 1, what });
        let line = of_event(&sender(), &message);
        assert!(line.starts_with("<28>1 1970-01-01T00:00:00Z "), "{line}");
        assert!(line.contains(r#"name="iqn.x\"\] evil=\"1  <0>1" count="1"] "#), "{line}");
        assert!(line.ends_with("\u{feff}a b [2J") && !line.contains(char::is_control), "{line}");
    }

    #[test]
    fn a_year_that_a_line_cannot_tell_is_left_out() {
        assert_eq!(timestamp(Moment::of(253_402_300_799)), "9999-12-31T23:59:59Z");
        assert_eq!(timestamp(Moment::of(253_402_300_800)), "-");
    }

    #[test]
    fn a_line_is_no_longer_than_a_server_has_to_take() {
        let what =
            Event::about(Kind::VolumeLost, ObjectKind::Volume, &"ä".repeat(600), "ö".repeat(600));
        let message = Message::first(Record { number: 9, unix_seconds: 0, count: 1, what });
        let line = of_event(&sender(), &message);
        assert!(line.len() <= LINE_BYTES_MAX && line.contains("] \u{feff}ööö"), "{line}");
        assert!(line.starts_with("<26>1 "), "{line}");
    }
}
