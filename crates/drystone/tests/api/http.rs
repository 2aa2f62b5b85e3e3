//! HTTP by hand, so that nothing of ours is on both ends.

use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// What was answered.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    /// Of all that came over a connection.
    #[track_caller]
    pub(crate) fn parse(bytes: &[u8]) -> Reply {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {text:?}"));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers: Vec<(String, String)> =
            headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let status = status.unwrap_or_else(|| panic!("no status: {head:?}"));
        let mut reply = Reply { status, headers, body: bytes[end + 4..].to_vec() };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = whole(&reply.body);
        }
        reply
    }

    /// Of a head, and what has come of a body so far.
    #[track_caller]
    pub(crate) fn of(head: &str, body: &str) -> Reply {
        let mut reply = Reply::parse(format!("{head}\r\n\r\n0\r\n\r\n").as_bytes());
        reply.body = body.as_bytes().to_vec();
        reply
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The code of the problem that this must be; its form is checked.
    #[track_caller]
    pub(crate) fn problem(&self) -> String {
        self.check_problem().unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// The same, or what is wrong with its form (RFC 9457).
    pub(crate) fn check_problem(&self) -> Result<String, String> {
        let fault =
            |what: &str| format!("this is no problem as it should be ({what}): {}", self.text());
        let problem: Value = serde_json::from_slice(&self.body).map_err(|_| fault("JSON"))?;
        let code = problem["code"].as_str().ok_or_else(|| fault("code"))?.to_owned();
        let is_told = |key: &str| problem[key].as_str().is_some_and(|text| text.len() > 3);
        let parts = [
            ("content-type", self.header("content-type") == Some("application/problem+json")),
            ("status", problem["status"] == self.status),
            ("type", problem["type"] == format!("urn:drystone:problem:{code}")),
            ("title", is_told("title")),
            ("detail", is_told("detail")),
        ];
        match parts.iter().find(|(_, is_right)| !is_right) {
            Some((part, _)) => Err(fault(part)),
            None => Ok(code),
        }
    }
}

/// What chunks hold.
fn whole(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let len = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let len = usize::from_str_radix(&len, 16).expect("the length of a chunk");
        body.extend_from_slice(&bytes[end + 2..end + 2 + len]);
        bytes = &bytes[end + 4 + len..];
    }
    body
}

/// A connection that gives up after half a minute.
pub(crate) fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).expect("a member listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    stream
}

/// Asks with these headers (lines without their ends), and hears until the connection is closed.
#[track_caller]
pub(crate) fn ask(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&Value>,
) -> Reply {
    raw(socket, &request(method, path, headers, body))
}

/// The same of a member that may be killed meanwhile: nothing, unless a whole answer has come. Not for streams: their
/// end cannot be told from such an end.
pub(crate) fn ask_mortal(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&Value>,
) -> Option<Reply> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(&request(method, path, headers, body)).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let reply = Reply::parse(&bytes);
    let is_whole = match reply.header("content-length") {
        Some(len) => len.parse() == Ok(reply.body.len()),
        None => bytes.len() == head,
    };
    is_whole.then_some(reply)
}

/// The bytes of a request that is the last of its connection.
fn request(method: &str, path: &str, headers: &[&str], body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string);
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    headers.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
    if let Some(body) = &body {
        let len = body.len();
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {len}\r\n"));
    }
    format!("{head}\r\n{}", body.unwrap_or_default()).into_bytes()
}

/// The same of bytes.
#[track_caller]
pub(crate) fn raw(socket: &Path, bytes: &[u8]) -> Reply {
    let mut stream = connect(socket);
    // One that is refused early may be closed before all was sent.
    drop(stream.write_all(bytes));
    hear(&mut stream)
}

/// All that comes.
#[track_caller]
pub(crate) fn hear(stream: &mut impl Read) -> Reply {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert!(!bytes.is_empty(), "nothing was answered: {error}");
    }
    Reply::parse(&bytes)
}
