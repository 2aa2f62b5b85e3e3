//! Requests to the socket of a member, by hand: what is timed is the member, and no client that reads JSON.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Longest silence of a member that is asked. A member that joins has to hear of others first.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask<'a> {
    method: &'static str,
    path: &'a str,
    /// The member that it is for, where that is not left to the group.
    on: Option<&'static str>,
    body: Option<&'a Value>,
}

impl<'a> Ask<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self { method: "GET", path, on: None, body: None }
    }

    pub(super) fn post(path: &'a str, body: &'a Value) -> Self {
        Self { method: "POST", path, on: None, body: Some(body) }
    }

    pub(super) fn patch(path: &'a str, body: &'a Value) -> Self {
        Self { method: "PATCH", path, on: None, body: Some(body) }
    }

    /// Of the member that is asked alone, also where that is in a group.
    pub(super) fn of_it_alone(self) -> Self {
        Self { on: Some("@here"), ..self }
    }

    /// The bytes of a request that is the last of its connection.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let body = self.body.map(Value::to_string).unwrap_or_default();
        let mut head = format!("{} {} HTTP/1.1\r\nhost: localhost\r\n", self.method, self.path);
        head.push_str("connection: close\r\n");
        if let Some(on) = self.on {
            head.push_str(&format!("drystone-member: {on}\r\n"));
        }
        if self.body.is_some() {
            let len = body.len();
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {len}\r\n"));
        }
        format!("{head}\r\n{body}").into_bytes()
    }

    /// Asks, and hears the whole answer, which must be a good one.
    pub(super) fn of(&self, socket: &Path) -> Result<Reply> {
        self.heard(socket)
            .and_then(Reply::good)
            .with_context(|| format!("{} {} at {}", self.method, self.path, socket.display()))
    }

    fn heard(&self, socket: &Path) -> Result<Reply> {
        let mut stream = UnixStream::connect(socket).context("nobody listens")?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        stream.write_all(&self.bytes()).context("it does not listen to the end")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).context("it does not answer to the end")?;
        Reply::parse(&bytes)
    }
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    /// Of all that came over a connection.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.context("the answer has no head")?;
        let head = std::str::from_utf8(&bytes[..end]).context("the head of the answer")?;
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(':'));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()));
        let mut reply = Self {
            status: status.context("the answer has no status")?,
            headers: headers.collect(),
            body: bytes[end + 4..].to_vec(),
        };
        if reply.header("transfer-encoding") == Some("chunked") {
            reply.body = unchunked(&reply.body).context("the answer breaks off")?;
        } else if let Some(len) = reply.header("content-length") {
            ensure!(len.parse() == Ok(reply.body.len()), "the answer breaks off");
        }
        Ok(reply)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).context("the answer is no JSON")
    }

    /// How many things are in the list that it is.
    pub(super) fn count(&self) -> Result<usize> {
        self.json()?.as_array().map(Vec::len).context("the answer is no list")
    }

    /// Itself, unless it is a refusal.
    fn good(self) -> Result<Self> {
        if self.status < 300 {
            return Ok(self);
        }
        let problem = self.json().unwrap_or_default();
        bail!("{}: {}", self.status, problem["detail"].as_str().unwrap_or("no reason given"))
    }
}

/// What chunks hold (RFC 9112 7.1); `None` if the last of them is missing.
fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[..end]).ok()?;
        // Behind a semicolon there may be what nobody here asked for.
        let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
        let rest = &bytes[end + 2..];
        if size == 0 {
            return Some(body);
        }
        let behind = size.checked_add(2)?;
        body.extend_from_slice(rest.get(..size)?);
        bytes = rest.get(behind..)?;
    }
}
