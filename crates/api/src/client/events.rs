//! Server-sent events, up to the last one.

use http_body_util::BodyExt;
use tokio::time::timeout;

use super::error::{ClientError, SILENCE};
use super::http::{Sent, begin, block_on, good, while_alive};
use super::printed::printed;
use super::way::Way;
use crate::problem::Problem;

/// The longest line of an event.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Hears one event, its name and what it holds. Says whether to go on.
pub(super) type Hear<'a> = &'a mut dyn FnMut(&str, &str) -> serde_json::Result<bool>;

/// Hears events until `done`, and gives what that holds; nothing if it was not to go on.
pub(super) fn follow(way: &Way, sent: &Sent, hear: Hear<'_>) -> Result<String, ClientError> {
    block_on(way, async {
        let begun = async { good(way, begin(way, sent).await?).await };
        let mut body = while_alive(way, begun).await?.into_body();
        let mut lines = Lines::default();
        loop {
            let frame = timeout(SILENCE, body.frame()).await;
            let frame = frame.map_err(|_| ClientError::Silent(way.to_string()))?;
            let frame = frame.ok_or_else(|| ClientError::Ended(way.to_string()))?;
            let frame = frame.map_err(|error| ClientError::hearing(way, &error))?;
            let Ok(data) = frame.into_data() else { continue };
            lines.take(&data);
            if lines.bytes.len() > LINE_BYTES_MAX {
                return Err(ClientError::strange(way, "a line of it has no end"));
            }
            while let Some(event) = lines.event() {
                if let Some(last) = heard(way, event, &mut *hear)? {
                    return Ok(last);
                }
            }
        }
    })
}

/// What the last event holds; `None` for another one.
fn heard(way: &Way, event: Event, hear: Hear<'_>) -> Result<Option<String>, ClientError> {
    let strange = |error: serde_json::Error| ClientError::strange(way, &error.to_string());
    match event.name.as_str() {
        "problem" => {
            let problem: Problem = printed(event.data.as_bytes()).map_err(strange)?;
            Err(ClientError::Problem(Box::new(problem)))
        }
        "done" => Ok(Some(event.data)),
        name => {
            let goes_on = hear(name, &event.data).map_err(strange)?;
            Ok((!goes_on).then(String::new))
        }
    }
}

/// One event.
#[derive(Debug, Default, PartialEq, Eq)]
struct Event {
    name: String,
    data: String,
}

/// Events, put together from the pieces in which they come.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    event: Event,
}

impl Lines {
    fn take(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
    }

    /// The next event that is whole.
    fn event(&mut self) -> Option<Event> {
        while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if !event.name.is_empty() {
                    return Some(event);
                }
            } else if let Some(name) = line.strip_prefix("event:") {
                name.trim_start().clone_into(&mut self.event.name);
            } else if let Some(data) = line.strip_prefix("data:") {
                self.event.data.push_str(data.trim_start());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_put_together_from_pieces() {
        let text = ": alive\n\nevent: jobs\ndata: []\n\n:\nevent: done\r\ndata: {\"a\":1}\r\n\r\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                lines.take(piece);
                events.extend(std::iter::from_fn(|| lines.event()));
            }
            let event = |name: &str, data: &str| Event { name: name.into(), data: data.into() };
            assert_eq!(events, [event("jobs", "[]"), event("done", "{\"a\":1}")], "{size}");
        }
    }
}
