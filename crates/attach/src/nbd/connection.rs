//! One client, from its greeting to its end.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::wait::{Either, Event, first};
use ring::{Buf, Data, SendBatch, Stream};

use super::gate::{Charge, Gate};
use super::handshake::{
    ALLOCATION_ID, Agreed, Export, Handshake, Next, OPTION_BYTES_MAX, greeting,
};
use super::input::Input;
use super::output::Output;
use super::requests::{Answer, Fault, check, kind, perform, write_flags};
use super::wire::{self, Command, OPTION_MAGIC, Request};
use crate::pieces::pieces;
use crate::{Disk, User};

/// How long the handshake may take.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Options of one handshake: enough for every question, too few to keep a server busy.
const OPTIONS_MAX: usize = 64;

/// A connection, shared by the tasks that serve it.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Rc<Stream>,
    disk: Arc<Disk>,
    user: User,
    output: Output,
    gate: Gate,
    /// Set when no further request is to be taken.
    pub(crate) stopping: Event,
}

/// What makes a client go without an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it did not finish the handshake in time")]
    Slow,
    #[error("it does not speak the protocol: {0}")]
    Protocol(&'static str),
}

impl Connection {
    pub(crate) fn new(stream: Stream, disk: Arc<Disk>) -> Rc<Connection> {
        let stream = Rc::new(stream);
        let output = Output::new(stream.clone());
        let (user, gate, stopping) = (disk.user(), Gate::default(), Event::default());
        Rc::new(Connection { stream, disk, user, output, gate, stopping })
    }

    /// Breaks it off: what is being sent fails.
    pub(crate) fn cut(&self) {
        // A stream that is closed already says so.
        let _ = self.stream.shutdown();
    }

    /// Serves the client to its end. When this returns, nothing of it is under way.
    pub(crate) async fn serve(self: &Rc<Self>, export: &Export) -> Result<(), Broken> {
        let mut input = Input::new(self.stream.clone());
        let greeted = ring::timeout(HANDSHAKE_TIME, self.greet(&mut input, export)).await;
        let Some(agreed) = greeted.unwrap_or(Err(Broken::Slow))? else { return Ok(()) };
        let requests = async {
            let ended = self.take_requests(&mut input, agreed).await;
            self.gate.empty().await;
            ended
        };
        // The sender never ends by itself: it goes when the requests have.
        match first(requests, self.output.run(&self.gate)).await {
            Either::Left(ended) => ended,
            Either::Right(never) => match never {},
        }
    }

    /// The handshake; `None` when the client left or the server stops.
    async fn greet(&self, input: &mut Input, export: &Export) -> Result<Option<Agreed>, Broken> {
        let mut batch = SendBatch::new();
        batch.push_bytes(&greeting());
        let mut batch = self.send(batch).await?;
        let Some(flags) = input.next(&self.stopping).await? else { return Ok(None) };
        let mut handshake = Handshake::new(export, u32::from_be_bytes(flags))
            .ok_or(Broken::Protocol("it wants what was not offered"))?;
        for _ in 0..OPTIONS_MAX {
            let Some(head) = input.next::<16>(&self.stopping).await? else { return Ok(None) };
            let mut rest = &head[..];
            if wire::take_u64(&mut rest) != Some(OPTION_MAGIC) {
                return Err(Broken::Protocol("an option begins with something else"));
            }
            let (number, len) = (wire::take_u32(&mut rest), wire::take_u32(&mut rest));
            let len = len.map_or(usize::MAX, |len| len as usize);
            if len > OPTION_BYTES_MAX {
                return Err(Broken::Protocol("an option is too long"));
            }
            let mut data = vec![0; len];
            input.exact(&mut data).await?;
            let mut answer = Vec::new();
            let next = handshake.option(number.unwrap_or_default(), &data, &mut answer);
            batch.push_bytes(&answer);
            batch = self.send(batch).await?;
            match next {
                Next::Option => {}
                Next::Transmission => return Ok(Some(handshake.agreed())),
                Next::Close => return Ok(None),
            }
        }
        Err(Broken::Protocol("it goes on and on about options"))
    }

    async fn send(&self, batch: SendBatch) -> io::Result<SendBatch> {
        if batch.is_empty() {
            return Ok(batch);
        }
        let (batch, result) = self.stream.send(batch).await;
        result.map(|()| batch)
    }

    /// Takes requests until the client leaves, the server stops or nothing can be trusted.
    async fn take_requests(
        self: &Rc<Self>,
        input: &mut Input,
        agreed: Agreed,
    ) -> Result<(), Broken> {
        while !self.output.is_broken() {
            let Some(head) = input.next(&self.stopping).await? else { return Ok(()) };
            let request = Request::parse(&head)
                .ok_or(Broken::Protocol("a request begins with something else"))?;
            if request.command == Command::Disconnect {
                return Ok(());
            }
            self.take(request, input, agreed).await?;
        }
        Ok(())
    }

    /// Takes one request: answers it at once where that is possible, else in a task of its own.
    async fn take(
        self: &Rc<Self>,
        request: Request,
        input: &mut Input,
        agreed: Agreed,
    ) -> Result<(), Broken> {
        let payload_bytes =
            if request.command == Command::Write { request.len as usize } else { 0 };
        if let Err(errno) = check(&request, agreed, &self.disk) {
            let charge = Charge::of(0);
            self.gate.enter(charge).await;
            if let Err(error) = input.skip(payload_bytes).await {
                self.gate.leave(charge); // there is nobody to answer
                return Err(error.into());
            }
            self.reply(&request, agreed, charge, Err(errno.into()));
            return Ok(());
        }
        let carries = matches!(request.command, Command::Read | Command::Write);
        let charge = Charge::of(if carries { request.len as usize } else { 0 });
        self.gate.enter(charge).await;
        let since = self.disk.stats().begin();
        let pending = match request.command {
            Command::Read => self.read_now(&request),
            Command::Write => self.receive_write(&request, input).await,
            _ => Ok(Pending::Later(Vec::new())),
        };
        let pending = match pending {
            Ok(pending) => pending,
            Err(error) => {
                self.disk.stats().end(since, kind(&request), false);
                self.gate.leave(charge); // there is nobody to answer
                return Err(error.into());
            }
        };
        match pending {
            Pending::Now(result) => {
                self.disk.stats().end(since, kind(&request), result.is_ok());
                self.reply(&request, agreed, charge, result);
            }
            Pending::Read(future) => {
                let this = self.clone();
                ring::spawn(async move {
                    let result = future.await.map(Answer::Data);
                    this.disk.stats().end(since, kind(&request), result.is_ok());
                    this.reply(&request, agreed, charge, result.map_err(Fault::from));
                });
            }
            Pending::Later(payload) => {
                let this = self.clone();
                ring::spawn(async move {
                    let result = perform(request, payload, (&this.disk, &this.user)).await;
                    this.disk.stats().end(since, kind(&request), result.is_ok());
                    this.reply(&request, agreed, charge, result);
                });
            }
        }
        Ok(())
    }

    /// Starts a read of whole blocks; the device may have the data at hand.
    fn read_now(&self, request: &Request) -> io::Result<Pending> {
        let (at, len) = (request.at, request.len as usize);
        if !self.disk.is_plain(at, len) {
            return Ok(Pending::Later(Vec::new()));
        }
        Ok(match self.disk.read_plain(at, len).into_ready() {
            Ok(result) => Pending::Now(result.map(Answer::Data).map_err(Fault::from)),
            Err(future) => Pending::Read(future),
        })
    }

    /// Receives the payload of a write. One that is here whole may be written from where it is.
    async fn receive_write(&self, request: &Request, input: &mut Input) -> io::Result<Pending> {
        let (at, len) = (request.at, request.len as usize);
        if self.disk.is_plain(at, len)
            && let Some(bytes) = input.waiting().get(..len)
            && let Some(result) = self.disk.write_now(at, bytes, write_flags(request))
        {
            input.consume(len);
            return Ok(Pending::Now(result.map(|()| Answer::Done).map_err(Fault::from)));
        }
        let mut payload: Vec<Data> = Vec::new();
        let mut left = len;
        for piece in pieces(at..at + len as u64) {
            let piece_bytes = (piece.end - piece.start) as usize;
            let Some(buf) = Buf::alloc(piece_bytes) else {
                input.skip(left).await?;
                return Ok(Pending::Now(Err(wire::Errno::NoMemory.into())));
            };
            payload.push(input.fill(buf).await?.freeze());
            left -= piece_bytes;
        }
        Ok(Pending::Later(payload))
    }

    /// Queues the reply.
    fn reply(
        &self,
        request: &Request,
        agreed: Agreed,
        charge: Charge,
        result: Result<Answer, Fault>,
    ) {
        let cookie = request.cookie;
        // Only reads and block status are answered in chunks; they must be.
        let structured =
            agreed.structured && matches!(request.command, Command::Read | Command::BlockStatus);
        self.output.queue(charge, |batch| match result {
            Ok(Answer::Done) => batch.push_bytes(&wire::simple_reply(cookie, None)),
            Ok(Answer::Data(data)) => push_read(batch, request, structured, [data]),
            Ok(Answer::Parts(parts)) => push_read(batch, request, structured, parts),
            Ok(Answer::Status(ranges)) => {
                batch.push_bytes(&wire::status_chunk(cookie, ALLOCATION_ID, &ranges));
            }
            Err(fault) if structured => {
                batch.push_bytes(&wire::error_chunk(cookie, fault.errno, fault.at));
            }
            Err(fault) => batch.push_bytes(&wire::simple_reply(cookie, Some(fault.errno))),
        });
    }
}

/// The reply to a read: its header, and the parts of its data by reference.
fn push_read<P>(batch: &mut SendBatch, request: &Request, structured: bool, parts: P)
where
    P: AsRef<[Data]> + IntoIterator<Item = Data>,
{
    if structured {
        let len = parts.as_ref().iter().map(Data::len).sum();
        batch.push_bytes(&wire::data_chunk(request.cookie, request.at, len));
    } else {
        batch.push_bytes(&wire::simple_reply(request.cookie, None));
    }
    parts.into_iter().for_each(|part| batch.push_data(part));
}

/// How far a request got when it was taken.
enum Pending {
    Now(Result<Answer, Fault>),
    Read(block::IoFuture<Data>),
    Later(Vec<Data>),
}
