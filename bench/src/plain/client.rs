//! The client of the plain loop: the same engine as the iSCSI client, with nothing to say.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Head;
use crate::load::{
    Completion, Edge, Frame, Frames, Io, LoadReport, Output, Pattern, Peer, Plan, Wire, run,
};

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct PlainWire {
    frames: Frames,
    /// Tag of the answer whose payload is arriving.
    tag: u32,
}

impl Wire for PlainWire {
    fn room(&self) -> u32 {
        u32::MAX
    }

    fn submit(&mut self, tag: u32, io: &Io, out: &mut Output) {
        let (payload_bytes, wanted_bytes) = if io.read { (0, io.len) } else { (io.len, 0) };
        let head = Head { payload_bytes, wanted_bytes, offset: io.at, tag };
        out.push_head(&head.emit());
        out.push_table(Pattern::range(io.at, 0, payload_bytes as usize));
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
                    let head = Head::parse(&head);
                    let io = ios.get(head.tag as usize).context("an answer to nothing")?;
                    let wanted = if io.read { io.len } else { 0 };
                    ensure!(head.payload_bytes == wanted, "an answer of the wrong length");
                    self.frames.expect_payload(wanted as usize);
                    self.tag = head.tag;
                    if wanted == 0 {
                        done.push(Completion { tag: self.tag, failure: None });
                    }
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

/// Whether a server answers at `address`.
pub(crate) fn server_ready(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

/// Runs `plan` against the plain server at `address`.
///
/// # Errors
/// No server, or a lost connection.
pub(crate) fn load(
    address: SocketAddr,
    plan: &Plan,
    stop: &AtomicBool,
    edge: &mut dyn FnMut(Edge),
) -> Result<LoadReport> {
    let mut peers = Vec::with_capacity(plan.sessions as usize);
    for _ in 0..plan.sessions {
        let socket = TcpStream::connect_timeout(&address, CONNECT_MAX)
            .with_context(|| format!("connect to {address}"))?;
        socket.set_nodelay(true)?;
        peers.push(Peer { socket, wire: PlainWire::default() });
    }
    let pattern = Pattern::new(plan.io_bytes as usize);
    let (_, tally) = run(peers, plan, &pattern, stop, edge)?;
    Ok(tally.report(plan.io_bytes))
}
