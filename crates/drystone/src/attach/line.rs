//! A value as one line of JSON, over a Unix socket of the blocking kind.

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

/// The longest line: a page of the answers to a `diff` of a large volume stays below.
pub(crate) const LINE_BYTES_MAX: u64 = 64 << 20;

/// Reads lines for as long as they come.
#[derive(Debug)]
pub(crate) struct Lines<'a>(BufReader<&'a UnixStream>);

impl<'a> Lines<'a> {
    pub(crate) fn new(stream: &'a UnixStream) -> Lines<'a> {
        Lines(BufReader::new(stream))
    }

    /// The next line; `None` when the other side has ended.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> anyhow::Result<Option<T>> {
        let mut line = String::new();
        if (&mut self.0).take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            bail!("the line breaks off");
        }
        serde_json::from_str(&line).map(Some).context("it speaks another language")
    }
}

/// Reads the only line.
pub(crate) fn read<T: DeserializeOwned>(stream: &UnixStream) -> anyhow::Result<T> {
    Lines::new(stream).next()?.context("it hung up")
}

/// Writes one line.
pub(crate) fn write(mut stream: &UnixStream, value: &impl Serialize) -> anyhow::Result<()> {
    Ok(stream.write_all(&to_bytes(value)?)?)
}

/// A value as a line.
pub(crate) fn to_bytes(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_travel_and_broken_lines_are_told() {
        let (one, other) = UnixStream::pair().unwrap();
        write(&one, &vec![1, 2]).unwrap();
        write(&one, &"three").unwrap();
        (&one).write_all(b"{}\n[4").unwrap();
        drop(one);
        let mut lines = Lines::new(&other);
        assert_eq!(lines.next::<Vec<u8>>().unwrap(), Some(vec![1, 2]));
        assert_eq!(lines.next::<String>().unwrap().as_deref(), Some("three"));
        assert!(lines.next::<String>().unwrap_err().to_string().contains("another language"));
        assert!(lines.next::<Vec<u8>>().unwrap_err().to_string().contains("breaks off"));
        assert_eq!(lines.next::<u8>().unwrap(), None);
    }
}
