//! The server of the plain loop: one thread, one epoll.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::Head;
use crate::load::{Frame, Frames, Output};

/// One receive takes all requests that are there.
const RECEIVE_BYTES: usize = 1 << 20;
/// Connections at one time.
const CONNECTIONS_MAX: usize = 4096;
/// The stop flag is looked at this often; 0.1 s costs nothing that can be measured.
const TICK_NS: i64 = 100_000_000;
/// Epoll's data for the listener; connections have their index.
const LISTENER: u64 = u64::MAX;

struct Connection {
    socket: TcpStream,
    frames: Frames,
    /// The request whose payload is arriving.
    request: Head,
    out: Output,
    wants_out: bool,
}

struct Server<'a> {
    epoll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    store: &'a [u8],
    receive: Vec<u8>,
}

/// Serves `store_bytes` of memory until `stop` is set. `ready` gets the address that is served,
/// which tells the port when `address` has port 0.
///
/// # Errors
/// The address is taken, or the machine gives no more sockets.
pub(crate) fn serve(
    address: SocketAddr,
    store_bytes: usize,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(SocketAddr) -> Result<()>,
) -> Result<()> {
    // Written once, so that every page is a real one and replies come from memory, not from the
    // one page of zeroes that never leaves the cache.
    let store = vec![1_u8; store_bytes];
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    ready(listener.local_addr()?)?;
    let mut server = Server {
        epoll,
        listener,
        connections: Vec::new(),
        store: &store,
        receive: vec![0; RECEIVE_BYTES],
    };
    server.run(stop)
}

impl Server<'_> {
    fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let none =
            epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; 128];
        let timeout = Timespec { tv_sec: 0, tv_nsec: TICK_NS };
        while !stop.load(Ordering::Relaxed) {
            let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Ok(ready) => ready,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error).context("epoll"),
            };
            for event in &events[..ready] {
                let data = event.data;
                if data.u64() == LISTENER {
                    self.accept()?;
                } else if self.turn(data.u64() as usize).is_err() {
                    // A client that went away, or that broke the rules, takes only itself down.
                    self.connections[data.u64() as usize] = None;
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> Result<()> {
        let socket = match self.listener.accept() {
            Ok((socket, _)) => socket,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("accept"),
        };
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        ensure!(index < CONNECTIONS_MAX, "more than {CONNECTIONS_MAX} connections");
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        let connection = Connection {
            socket,
            frames: Frames::default(),
            request: Head::default(),
            out: Output::default(),
            wants_out: false,
        };
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[index] = Some(connection);
        Ok(())
    }

    /// Receives all there is on a connection and sends all answers to it.
    fn turn(&mut self, index: usize) -> Result<()> {
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        match connection.socket.read(&mut self.receive) {
            Ok(0) => return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(count) => answer(connection, &self.receive[..count], self.store.len())?,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        connection.out.flush(&mut connection.socket, self.store)?;
        let wants_out = connection.out.queued_bytes() > 0;
        if wants_out != connection.wants_out {
            connection.wants_out = wants_out;
            // While the client does not read, nothing more is taken from it.
            let flags = if wants_out { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.socket, data, flags)?;
        }
        Ok(())
    }
}

fn answer(connection: &mut Connection, mut bytes: &[u8], store_bytes: usize) -> Result<()> {
    while let Some(frame) = connection.frames.next(&mut bytes) {
        let complete = match frame {
            Frame::Payload { last, .. } => last,
            Frame::Head(head) => {
                connection.request = Head::parse(&head);
                connection.frames.expect_payload(connection.request.payload_bytes as usize);
                connection.request.payload_bytes == 0
            }
        };
        if complete {
            let request = connection.request;
            let start = usize::try_from(request.offset)?;
            let end = start.checked_add(request.wanted_bytes as usize);
            let end = end.filter(|&end| end <= store_bytes).context("outside the store")?;
            let reply =
                Head { payload_bytes: request.wanted_bytes, tag: request.tag, ..Head::default() };
            connection.out.push_head(&reply.emit());
            connection.out.push_table(start..end);
        }
    }
    Ok(())
}
