//! One connection: requests of many tasks, answered in any order. It is made anew when it breaks.
//!
//! A server that is restarted forgets nothing that it had written, but nobody can tell which requests of
//! the broken connection it did, or whether it will still do them. So reads are asked again, changes that
//! were under way fail, and what comes while there is no connection waits for the next one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use attach::nbd::wire::{Command, REPLY_LEN_BYTES, Request, can, parse_simple_reply};
use block::BlockError;
use ring::{Buf, Data, Notify, SendBatch, Stream};

use super::address::{NbdAddress, Place};
use super::disk::NbdOptions;
use super::handshake::{Export, connect};

/// From this many missing bytes on, read data goes from the socket straight into its buffer.
const DIRECT_BYTES_MIN: usize = 32 << 10;
/// Between two attempts to connect anew.
const PAUSE: Duration = Duration::from_millis(200);
/// Error numbers of the protocol that mean more than an input or output error.
const EPERM: u32 = 1;
const ENOSPC: u32 = 28;
const EOPNOTSUPP: u32 = 95;

/// Whether requests can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    Down { since: Instant },
    Closed,
}

/// A request and what became of it.
///
/// Invariant: `Free` slots, and only these, are in `Connection::free`.
#[derive(Debug)]
enum Slot {
    Free,
    Waiting {
        request: Request,
        data: Data,
        buf: Option<Buf>,
        waker: Option<Waker>,
        since: Instant,
    },
    /// Nobody asks any more; its answer frees it.
    Abandoned {
        request: Request,
        buf: Option<Buf>,
    },
    Done(Result<Data, BlockError>),
}

/// A connection of this core.
pub(super) struct Connection {
    address: NbdAddress,
    options: NbdOptions,
    pub(super) export: Export,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<usize>>,
    in_flight: Cell<usize>,
    out: RefCell<SendBatch>,
    out_bell: Notify,
    state: Cell<State>,
    /// Counts sockets: the sender of an earlier one ends.
    epoch: Cell<u64>,
    /// Writes were answered that no flush covers yet.
    unflushed: Cell<bool>,
    /// A connection broke over such writes, and no flush has told yet.
    lost_writes: Cell<bool>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.get();
        f.debug_struct("Connection").field("state", &state).finish_non_exhaustive()
    }
}

impl Connection {
    /// Takes over a socket behind its handshake.
    pub(super) fn start(
        address: &NbdAddress,
        options: &NbdOptions,
        socket: OwnedFd,
        export: Export,
    ) -> Rc<Self> {
        let connection = Rc::new(Self {
            address: address.clone(),
            options: options.clone(),
            export,
            slots: RefCell::default(),
            free: RefCell::default(),
            in_flight: Cell::new(0),
            out: RefCell::new(SendBatch::new()),
            out_bell: Notify::new(),
            // Until its task has begun: what is asked for before is sent then.
            state: Cell::new(State::Down { since: ring::now() }),
            epoch: Cell::new(0),
            unflushed: Cell::new(false),
            lost_writes: Cell::new(false),
        });
        ring::spawn(connection.clone().live(socket));
        connection
    }

    /// Requests without an answer.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.get()
    }

    /// Whether writes may be lost that were answered before a connection broke; told once.
    pub(super) fn take_lost_writes(&self) -> bool {
        self.lost_writes.take()
    }

    /// Tells the server goodbye. What is under way fails.
    pub(super) fn close(&self) {
        if self.state.get() == State::Up {
            self.push(&request(Command::Disconnect, 0, 0, 0), &Data::default(), 0);
        }
        self.state.set(State::Closed);
        self.out_bell.notify();
    }

    /// A flush on this or another connection of the export is to cover what was written.
    pub(super) fn begin_flush(&self) {
        self.unflushed.set(false);
    }

    /// Begins a request; `data` is what a write sends, `buf` where a read goes.
    pub(super) fn begin(
        self: &Rc<Self>,
        request: Request,
        data: Data,
        buf: Option<Buf>,
    ) -> Pending {
        if request.command == Command::Flush {
            self.begin_flush();
        }
        let index = self.free.borrow_mut().pop().unwrap_or_else(|| {
            let mut slots = self.slots.borrow_mut();
            slots.push(Slot::Free);
            slots.len() - 1
        });
        if self.state.get() == State::Up {
            self.push(&request, &data, index);
        }
        let slot = Slot::Waiting { request, data, buf, waker: None, since: ring::now() };
        self.slots.borrow_mut()[index] = slot;
        self.in_flight.set(self.in_flight.get() + 1);
        Pending { connection: self.clone(), index }
    }

    fn push(&self, request: &Request, data: &Data, index: usize) {
        let mut out = self.out.borrow_mut();
        out.push_bytes(&Request { cookie: index as u64, ..*request }.to_bytes());
        out.push_data(data.clone());
        drop(out);
        self.out_bell.notify();
    }

    /// The answer to a request is known.
    fn complete(&self, index: usize, result: Result<Data, BlockError>) {
        self.in_flight.set(self.in_flight.get() - 1);
        let slot = &mut self.slots.borrow_mut()[index];
        match slot {
            Slot::Waiting { request, waker, .. } => {
                let is_volatile = request.command == Command::Write && request.flags == 0;
                match request.command {
                    // The server keeps it in a cache until somebody asks for more.
                    _ if is_volatile && result.is_ok() => self.unflushed.set(true),
                    Command::Flush if result.is_err() => self.unflushed.set(true),
                    _ => {}
                }
                let waker = waker.take();
                *slot = Slot::Done(result);
                waker.into_iter().for_each(Waker::wake);
            }
            _ => {
                *slot = Slot::Free;
                self.free.borrow_mut().push(index);
            }
        }
    }

    /// One socket after the other.
    async fn live(self: Rc<Self>, first: OwnedFd) {
        let mut socket = Some(first);
        while let Some(fd) = socket.take() {
            let stream = Rc::new(Stream::from_fd(fd));
            if matches!(self.address.place, Place::Tcp(..)) {
                // What nobody takes is thrown away with the connection, instead of coming late. A
                // socket that refuses these works all the same, only slower to notice.
                let _ = stream.set_abortive(true);
                let _ = stream.set_user_timeout(self.options.connect_timeout);
            }
            self.state.set(State::Up);
            ring::spawn(self.clone().send(stream.clone(), self.epoch.get()));
            self.ask_again();
            let mut receiver = Receiver::default();
            receiver.run(&self, &stream).await;
            receiver.give_back(&self);
            // Both fail when the peer has closed already, which is what is wanted.
            let _ = stream.shutdown();
            if !self.lose() {
                return;
            }
            socket = self.reconnect().await;
        }
    }

    /// What the last turn asked for, sent in one piece at its end.
    async fn send(self: Rc<Self>, stream: Rc<Stream>, epoch: u64) {
        let mut spare = SendBatch::new();
        loop {
            while self.out.borrow().is_empty() {
                if self.epoch.get() != epoch {
                    return;
                }
                if self.state.get() == State::Closed {
                    break;
                }
                self.out_bell.notified().await;
            }
            ring::turn_end().await;
            if self.epoch.get() != epoch {
                return;
            }
            let (batch, result) = stream.send(self.out.replace(spare)).await;
            spare = batch;
            let is_last = self.state.get() == State::Closed && self.out.borrow().is_empty();
            if result.is_err() || is_last {
                // Wakes the receiver, which decides what comes next.
                let _ = stream.shutdown();
                return;
            }
        }
    }

    /// The socket is of no more use. `false` when nobody wants another one.
    fn lose(&self) -> bool {
        self.epoch.set(self.epoch.get() + 1);
        self.out.borrow_mut().clear();
        self.out_bell.notify();
        if self.unflushed.take() {
            self.lost_writes.set(true);
        }
        let is_closed = self.state.get() == State::Closed;
        if !is_closed {
            self.state.set(State::Down { since: ring::now() });
        }
        self.fail_those(|request, _| is_closed || request.command != Command::Read);
        !is_closed
    }

    /// Fails waiting requests that `fails` picks by request and begin; abandoned ones go with them.
    fn fail_those(&self, fails: impl Fn(&Request, Instant) -> bool) {
        let count = self.slots.borrow().len();
        for index in 0..count {
            let is_over = match &self.slots.borrow()[index] {
                Slot::Waiting { request, since, .. } => fails(request, *since),
                Slot::Abandoned { .. } => true,
                Slot::Free | Slot::Done(_) => false,
            };
            if is_over {
                self.complete(index, Err(BlockError::Unreachable));
            }
        }
    }

    /// Sends what waits over the new socket.
    fn ask_again(&self) {
        for (index, slot) in self.slots.borrow().iter().enumerate() {
            if let Slot::Waiting { request, data, .. } = slot {
                self.push(request, data, index);
            }
        }
    }

    /// Tries until there is a connection, or nobody wants one any more.
    async fn reconnect(&self) -> Option<OwnedFd> {
        while let State::Down { since: down } = self.state.get() {
            let (address, timeout) = (self.address.clone(), self.options.connect_timeout);
            let made = ring::blocking(move || connect(&address, timeout)).await;
            // An export that has shrunk is another one.
            if let Ok((socket, export)) = made
                && export.size_bytes >= self.export.size_bytes
                && self.state.get() != State::Closed
            {
                return Some(socket);
            }
            let (now, limit) = (ring::now(), self.options.limit);
            self.fail_those(|_, begun| now.saturating_duration_since(begun.max(down)) >= limit);
            ring::sleep(PAUSE).await;
        }
        self.fail_those(|_, _| true);
        None
    }
}

/// A request without its cookie.
pub(super) fn request(command: Command, flags: u16, at: u64, len: u32) -> Request {
    Request { flags, command, cookie: 0, at, len }
}

/// What the device says to an error of the server.
fn failure(number: u32, request: &Request) -> BlockError {
    match number {
        EPERM => BlockError::ReadOnly,
        ENOSPC => BlockError::NoSpace,
        EOPNOTSUPP => BlockError::Unsupported,
        5 => BlockError::Medium { at: request.at },
        number => BlockError::Os { errno: number.cast_signed() },
    }
}

/// An answer that is waited for. Dropped early, the request runs to its end all the same.
#[derive(Debug)]
pub(super) struct Pending {
    connection: Rc<Connection>,
    index: usize,
}

impl Future for Pending {
    type Output = Result<Data, BlockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = &mut self.connection.slots.borrow_mut()[self.index];
        match slot {
            Slot::Waiting { waker, .. } => {
                if !waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
            Slot::Done(result) => {
                // The slot goes back when this is dropped.
                Poll::Ready(std::mem::replace(result, Err(BlockError::Unreachable)))
            }
            Slot::Free | Slot::Abandoned { .. } => unreachable!("its slot is ours until the drop"),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let slot = &mut self.connection.slots.borrow_mut()[self.index];
        match slot {
            Slot::Waiting { request, buf, .. } => {
                *slot = Slot::Abandoned { request: *request, buf: buf.take() };
            }
            _ => {
                *slot = Slot::Free;
                self.connection.free.borrow_mut().push(self.index);
            }
        }
    }
}

/// Takes replies apart.
#[derive(Debug, Default)]
struct Receiver {
    head: [u8; REPLY_LEN_BYTES],
    head_have: usize,
    body: Option<Body>,
}

/// Read data on its way.
#[derive(Debug)]
struct Body {
    index: usize,
    buf: Buf,
    have: usize,
}

/// The server broke the protocol.
struct Broken;

impl Receiver {
    /// Until the connection ends, however it does.
    async fn run(&mut self, connection: &Connection, stream: &Stream) {
        while connection.state.get() != State::Closed {
            let is_long = self
                .body
                .as_ref()
                .is_some_and(|body| body.buf.len() - body.have >= DIRECT_BYTES_MIN);
            if let Some(mut body) = self.body.take_if(|_| is_long) {
                let range = body.have..body.buf.len();
                let (buf, result) = stream.recv_exact(body.buf, range).await;
                if result.is_err() {
                    self.body = Some(Body { buf, ..body });
                    return;
                }
                body.buf = buf;
                connection.complete(body.index, Ok(body.buf.freeze()));
                continue;
            }
            match stream.recv().await {
                Ok(chunk) if !chunk.is_empty() => {
                    if self.feed(connection, &chunk).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }

    fn feed(&mut self, connection: &Connection, mut chunk: &[u8]) -> Result<(), Broken> {
        while !chunk.is_empty() {
            if let Some(body) = &mut self.body {
                let len = chunk.len().min(body.buf.len() - body.have);
                body.buf[body.have..body.have + len].copy_from_slice(&chunk[..len]);
                body.have += len;
                chunk = &chunk[len..];
                if let Some(body) = self.body.take_if(|body| body.have == body.buf.len()) {
                    connection.complete(body.index, Ok(body.buf.freeze()));
                }
                continue;
            }
            let len = chunk.len().min(REPLY_LEN_BYTES - self.head_have);
            self.head[self.head_have..self.head_have + len].copy_from_slice(&chunk[..len]);
            self.head_have += len;
            chunk = &chunk[len..];
            if self.head_have == REPLY_LEN_BYTES {
                self.head_have = 0;
                self.reply(connection)?;
            }
        }
        Ok(())
    }

    fn reply(&mut self, connection: &Connection) -> Result<(), Broken> {
        let (cookie, error) = parse_simple_reply(&self.head).ok_or(Broken)?;
        let index = usize::try_from(cookie).map_err(|_| Broken)?;
        let mut slots = connection.slots.borrow_mut();
        let (request, buf) = match slots.get_mut(index).ok_or(Broken)? {
            Slot::Waiting { request, buf, .. } | Slot::Abandoned { request, buf } => {
                (*request, buf)
            }
            Slot::Free | Slot::Done(_) => return Err(Broken),
        };
        if error == 0 && request.command == Command::Read {
            let buf = buf.take().ok_or(Broken)?;
            self.body = Some(Body { index, buf, have: 0 });
            return Ok(());
        }
        drop(slots);
        let result = if error == 0 { Ok(Data::default()) } else { Err(failure(error, &request)) };
        connection.complete(index, result);
        Ok(())
    }

    /// A buffer that is half full goes back to its request, which is asked again.
    fn give_back(&mut self, connection: &Connection) {
        let Some(body) = self.body.take() else { return };
        let mut slots = connection.slots.borrow_mut();
        if let Slot::Waiting { buf, .. } | Slot::Abandoned { buf, .. } = &mut slots[body.index] {
            *buf = Some(body.buf);
        }
    }
}

/// Whether a write needs a flush behind it to be durable.
pub(super) fn needs_flush(export: &Export) -> bool {
    export.can(can::FLUSH) && !export.can(can::FUA)
}
