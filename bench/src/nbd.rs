//! A lean NBD client: the load engine over a Unix socket, with simple replies. It receives all there is
//! in one call and sends all new requests of a turn in one call, so that it is the server that is
//! measured.

use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use attach::nbd::wire::{Command, REPLY_LEN_BYTES, REQUEST_LEN_BYTES, Request, parse_simple_reply};
use lab::nbd::{NbdAddress, Place};

use crate::load::{
    Completion, Edge, Frame, Frames, Io, LoadReport, Output, Pattern, Peer, Plan, Wire, run,
};

/// Longest wait for an answer of the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct NbdWire {
    frames: Frames<REPLY_LEN_BYTES>,
    /// Tag of the answer whose payload is arriving.
    tag: u32,
}

impl Wire for NbdWire {
    fn room(&self) -> u32 {
        u32::MAX
    }

    fn submit(&mut self, tag: u32, io: &Io, out: &mut Output) {
        out.push_head(&request(tag, io));
        if !io.read {
            out.push_table(Pattern::range(io.at, 0, io.len as usize));
        }
    }

    fn receive(
        &mut self,
        mut bytes: &[u8],
        ios: &[Io],
        _out: &mut Output,
        done: &mut Vec<Completion>,
    ) -> Result<()> {
        while let Some(frame) = self.frames.next(&mut bytes) {
            match frame {
                Frame::Head(head) => {
                    let (tag, error) = reply(&head).context("an answer that is no simple reply")?;
                    let io = ios.get(tag as usize).context("an answer to nothing")?;
                    self.tag = tag;
                    if error == 0 && io.read {
                        self.frames.expect_payload(io.len as usize);
                        continue;
                    }
                    let failure = (error != 0).then(|| format!("NBD error {error}"));
                    done.push(Completion { tag, failure });
                }
                Frame::Payload { last: true, .. } => {
                    done.push(Completion { tag: self.tag, failure: None });
                }
                Frame::Payload { .. } => {}
            }
        }
        Ok(())
    }
}

fn request(tag: u32, io: &Io) -> [u8; REQUEST_LEN_BYTES] {
    let command = if io.read { Command::Read } else { Command::Write };
    Request { flags: 0, command, cookie: tag.into(), at: io.at, len: io.len }.to_bytes()
}

/// Tag and error of a simple reply.
fn reply(bytes: &[u8; REPLY_LEN_BYTES]) -> Option<(u32, u32)> {
    let (cookie, error) = parse_simple_reply(bytes)?;
    Some((u32::try_from(cookie).ok()?, error))
}

/// Connects and takes the export without a name.
fn connect(path: &Path) -> Result<TcpStream> {
    let address = NbdAddress { place: Place::Unix(path.to_owned()), export: String::new() };
    let (socket, _) = lab::nbd::connect(&address, HANDSHAKE_MAX)?;
    // The engine only reads, writes and polls, which are the same on both kinds of sockets.
    Ok(TcpStream::from(socket))
}

/// Runs `plan` against the NBD server at the Unix socket `path`, over one connection for each session.
///
/// # Errors
/// No server, or a lost connection.
pub(crate) fn load(
    path: &Path,
    plan: &Plan,
    stop: &AtomicBool,
    edge: &mut dyn FnMut(Edge),
) -> Result<LoadReport> {
    let mut peers = Vec::with_capacity(plan.sessions as usize);
    for _ in 0..plan.sessions {
        peers.push(Peer { socket: connect(path)?, wire: NbdWire::default() });
    }
    let pattern = Pattern::new(plan.io_bytes as usize);
    let (_, tally) = run(peers, plan, &pattern, stop, edge)?;
    Ok(tally.report(plan.io_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_drawn_to_the_byte() {
        let io = Io { at: 0x0102_0304_0506, len: 4096, read: false };
        assert_eq!(
            request(7, &io),
            [
                0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 1, 2, 3, 4, 5, 6,
                0, 0, 0x10, 0
            ]
        );
    }

    #[test]
    fn a_failed_read_has_no_payload() {
        let mut wire = NbdWire::default();
        let ios = [Io { at: 0, len: 2, read: true }; 2];
        let head =
            |tag: u8, error: u8| [0x67, 0x44, 0x66, 0x98, 0, 0, 0, error, 0, 0, 0, 0, 0, 0, 0, tag];
        let bytes = [&head(1, 5)[..], &head(0, 0), b"xx"].concat();
        let mut done = Vec::new();
        for byte in bytes {
            wire.receive(&[byte], &ios, &mut Output::default(), &mut done).unwrap();
        }
        let failure = Some("NBD error 5".to_owned());
        let expected = [Completion { tag: 1, failure }, Completion { tag: 0, failure: None }];
        assert_eq!(done, expected);
        assert!(
            wire.receive(&[0; REPLY_LEN_BYTES], &ios, &mut Output::default(), &mut done).is_err()
        );
    }
}
