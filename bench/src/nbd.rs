//! A lean NBD client: the load engine over a Unix socket, with simple replies. It receives all there is
//! in one call and sends all new requests of a turn in one call, so that it is the server that is
//! measured.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::load::{
    Completion, Edge, Frame, Frames, Io, LoadReport, Output, Pattern, Peer, Plan, Wire, run,
};

const GREETING_MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: &[u8; 8] = b"IHAVEOPT";
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

/// Flags of the client: fixed newstyle, and no zeroes behind the size.
const CLIENT_FLAGS: u32 = 3;
const OPTION_EXPORT_NAME: u32 = 1;

const READ: u16 = 0;
const WRITE: u16 = 1;

const REQUEST_BYTES: usize = 28;
const REPLY_BYTES: usize = 16;

/// Longest wait for an answer of the handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct NbdWire {
    frames: Frames<REPLY_BYTES>,
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

fn request(tag: u32, io: &Io) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    let command = if io.read { READ } else { WRITE };
    bytes[6..8].copy_from_slice(&command.to_be_bytes());
    bytes[8..16].copy_from_slice(&u64::from(tag).to_be_bytes());
    bytes[16..24].copy_from_slice(&io.at.to_be_bytes());
    bytes[24..28].copy_from_slice(&io.len.to_be_bytes());
    bytes
}

/// Tag and error of a simple reply.
fn reply(bytes: &[u8; REPLY_BYTES]) -> Option<(u32, u32)> {
    let word = |at: usize| bytes[at..at + 4].try_into().ok().map(u32::from_be_bytes);
    let is_simple = word(0)? == SIMPLE_REPLY_MAGIC && word(8)? == 0;
    is_simple.then_some((word(12)?, word(4)?))
}

/// Connects and asks for the export without a name.
fn connect(path: &Path) -> Result<TcpStream> {
    let mut socket =
        UnixStream::connect(path).with_context(|| format!("connect to {}", path.display()))?;
    socket.set_read_timeout(Some(HANDSHAKE_MAX))?;
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).context("no greeting")?;
    ensure!(greeting.starts_with(GREETING_MAGIC), "this is no NBD server");
    let mut ask = CLIENT_FLAGS.to_be_bytes().to_vec();
    ask.extend_from_slice(OPTION_MAGIC);
    ask.extend_from_slice(&OPTION_EXPORT_NAME.to_be_bytes());
    ask.extend_from_slice(&0_u32.to_be_bytes());
    socket.write_all(&ask)?;
    let mut export = [0; 10];
    socket.read_exact(&mut export).context("there is no export without a name")?;
    // The engine only reads, writes and polls, which are the same on both kinds of sockets.
    Ok(TcpStream::from(OwnedFd::from(socket)))
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
        assert!(wire.receive(&[0; REPLY_BYTES], &ios, &mut Output::default(), &mut done).is_err());
    }
}
