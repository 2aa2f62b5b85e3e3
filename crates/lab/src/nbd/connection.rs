//! One connection: requests of many tasks, answered in any order. It is made anew when it breaks.
//!
//! A server that is restarted forgets nothing that it had written, but nobody can tell which requests of
//! the broken connection it did, or whether it will still do them. So reads are asked again, changes that
//! were under way fail, and what comes while there is no connection waits for the next one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use attach::nbd::wire::{
    CHUNK_MAGIC, Command, REPLY_LEN_BYTES, Request, SIMPLE_REPLY_MAGIC, can, flag,
    parse_simple_reply, take_u32,
};
use block::{Answers, BlockError, IoFuture};
use ring::wait::{Bell, OneWaker};
use ring::{Buf, Data, SendBatch, Stream};

use super::address::{NbdAddress, Place};
use super::disk::NbdOptions;
use super::faults;
use super::handshake::{Export, connect};

/// From this many missing bytes on, read data goes from the socket straight into its buffer.
const DIRECT_BYTES_MIN: usize = 32 << 10;
/// Between two attempts to connect anew.
const PAUSE: Duration = Duration::from_millis(200);
/// How often it is looked for requests without an answer.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);
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
        waiting: OneWaker,
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
    out_bell: Bell,
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
            out_bell: Bell::default(),
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
        self.out_bell.ring();
    }

    /// A flush on this or another connection of the export is to cover what was written.
    pub(super) fn begin_flush(&self) {
        self.unflushed.set(false);
    }

    /// Begins a request; `data` is what a write sends, `buf` where a read goes. Its answer has no memory but
    /// the request's slot.
    pub(super) fn begin<T>(
        self: &Rc<Self>,
        request: Request,
        data: Data,
        buf: Option<Buf>,
    ) -> IoFuture<T>
    where
        Self: Answers<T>,
    {
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
        let slot =
            Slot::Waiting { request, data, buf, waiting: OneWaker::default(), since: ring::now() };
        self.slots.borrow_mut()[index] = slot;
        self.in_flight.set(self.in_flight.get() + 1);
        IoFuture::shared(self.clone(), index)
    }

    fn push(&self, request: &Request, data: &Data, index: usize) {
        let mut out = self.out.borrow_mut();
        out.push_bytes(&Request { cookie: index as u64, ..*request }.to_bytes());
        out.push_data(data.clone());
        drop(out);
        self.out_bell.ring();
    }

    /// The answer to a request is known.
    fn complete(&self, index: usize, result: Result<Data, BlockError>) {
        self.in_flight.set(self.in_flight.get() - 1);
        let slot = &mut self.slots.borrow_mut()[index];
        match slot {
            Slot::Waiting { request, waiting, .. } => {
                let changes = [Command::Write, Command::Trim, Command::WriteZeroes];
                let is_volatile =
                    changes.contains(&request.command) && request.flags & flag::FUA == 0;
                match request.command {
                    // The server keeps it in a cache until somebody asks for more.
                    _ if is_volatile && result.is_ok() => self.unflushed.set(true),
                    Command::Flush if result.is_err() => self.unflushed.set(true),
                    _ => {}
                }
                let waiting = std::mem::take(waiting);
                *slot = Slot::Done(result);
                waiting.wake();
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
            ring::spawn(self.clone().watch(stream.clone(), self.epoch.get()));
            self.ask_again();
            let mut receiver = Receiver::default();
            let outcome = receiver.run(&self, &stream).await;
            receiver.give_back(&self);
            // Both fail when the peer has closed already, which is what is wanted.
            let _ = stream.shutdown();
            if !self.lose() {
                return;
            }
            if let Err(broken) = outcome {
                self.tell(&format!("breaks the NBD protocol: {broken}"));
                // Whoever answers nonsense at once is not asked again at once.
                ring::sleep(PAUSE).await;
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
                self.out_bell.rung().await;
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

    /// Gives a socket up on which a request has had no answer for as long as I/O may wait: its server may be
    /// alive for TCP and do nothing, or have lost the reply. That request fails, and so do changes; other
    /// reads are asked again.
    async fn watch(self: Rc<Self>, stream: Rc<Stream>, epoch: u64) {
        let (up_since, limit) = (ring::now(), self.options.limit);
        loop {
            ring::sleep((limit / 8).clamp(LOOK_MIN, LOOK_MAX)).await;
            if self.epoch.get() != epoch {
                return;
            }
            let now = ring::now();
            let is_silent = |slot: &Slot| match slot {
                Slot::Waiting { since, .. } => {
                    now.saturating_duration_since(up_since.max(*since)) >= limit
                }
                _ => false,
            };
            if self.slots.borrow().iter().any(is_silent) {
                let seconds = limit.as_secs_f64();
                self.tell(&format!("has not answered a request for {seconds} s"));
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
        self.out_bell.ring();
        if self.unflushed.take() {
            self.lost_writes.set(true);
        }
        let is_closed = self.state.get() == State::Closed;
        let (now, limit) = (ring::now(), self.options.limit);
        if !is_closed {
            self.state.set(State::Down { since: now });
        }
        // A server that comes back and breaks off each time must not be asked for ever.
        let is_late = |begun: Instant| now.saturating_duration_since(begun) >= limit;
        self.fail_those(|request, begun| {
            is_closed || request.command != Command::Read || is_late(begun)
        });
        !is_closed
    }

    /// Says what the server did wrong, and keeps it for the results of the step.
    fn tell(&self, what: &str) {
        let line = format!("{} {what}", self.address);
        if faults::note(&line) {
            tracing::warn!("{line}; the connection is given up, and made anew");
        }
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

/// A request that is dropped early runs to its end all the same.
impl Answers<Data> for Connection {
    fn poll_answer(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<Data, BlockError>> {
        match &mut self.slots.borrow_mut()[place] {
            Slot::Waiting { waiting, .. } => {
                waiting.enlist(cx.waker());
                Poll::Pending
            }
            // The slot goes back when it is released.
            Slot::Done(result) => {
                Poll::Ready(std::mem::replace(result, Err(BlockError::Unreachable)))
            }
            Slot::Free | Slot::Abandoned { .. } => {
                unreachable!("its slot is taken until the release")
            }
        }
    }

    fn release(&self, place: usize) {
        let slot = &mut self.slots.borrow_mut()[place];
        match slot {
            Slot::Waiting { request, buf, .. } => {
                *slot = Slot::Abandoned { request: *request, buf: buf.take() };
            }
            _ => {
                *slot = Slot::Free;
                self.free.borrow_mut().push(place);
            }
        }
    }
}

impl Answers<()> for Connection {
    fn poll_answer(&self, place: usize, cx: &mut Context<'_>) -> Poll<Result<(), BlockError>> {
        Answers::<Data>::poll_answer(self, place, cx).map_ok(drop)
    }

    fn release(&self, place: usize) {
        Answers::<Data>::release(self, place);
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

/// How a server broke the protocol: which field, which value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Broken {
    #[error("a reply begins with {0:#010x}, not {right:#010x}", right = SIMPLE_REPLY_MAGIC)]
    Magic(u32),
    #[error("a structured reply ({magic:#010x}), which was not agreed on", magic = CHUNK_MAGIC)]
    Structured,
    #[error("a reply has the cookie {0:#x}, which no request has that waits for one")]
    Cookie(u64),
}

impl Receiver {
    /// Until the connection ends.
    ///
    /// # Errors
    /// The server ended it by what it sent.
    async fn run(&mut self, connection: &Connection, stream: &Stream) -> Result<(), Broken> {
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
                    return Ok(());
                }
                body.buf = buf;
                connection.complete(body.index, Ok(body.buf.freeze()));
                continue;
            }
            match stream.recv().await {
                Ok(chunk) if !chunk.is_empty() => self.feed(connection, &chunk)?,
                _ => return Ok(()),
            }
        }
        Ok(())
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
        let Some((cookie, error)) = parse_simple_reply(&self.head) else {
            return Err(match take_u32(&mut &self.head[..]).unwrap_or(0) {
                CHUNK_MAGIC => Broken::Structured,
                magic => Broken::Magic(magic),
            });
        };
        let unknown = Broken::Cookie(cookie);
        let index = usize::try_from(cookie).map_err(|_| unknown)?;
        let mut slots = connection.slots.borrow_mut();
        let (request, buf) = match slots.get_mut(index).ok_or(unknown)? {
            Slot::Waiting { request, buf, .. } | Slot::Abandoned { request, buf } => {
                (*request, buf)
            }
            Slot::Free | Slot::Done(_) => return Err(unknown),
        };
        if error == 0 && request.command == Command::Read {
            let buf = buf.take().ok_or(unknown)?;
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
