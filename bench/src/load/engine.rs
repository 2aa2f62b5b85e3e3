//! The loop: wait, receive all there is, account, ask for more, send once per connection.

use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::output::Output;
use super::pattern::Pattern;
use super::plan::{Io, IoStream, Plan};
use super::tally::Tally;
use crate::machine::{thread_cpu, thread_waited};

/// Receive buffer of the thread: one receive takes what a deep queue of 4 KiB reads brings, and it
/// still fits the second-level cache.
const RECEIVE_BYTES: usize = 1 << 20;
/// Output that a connection may hold; a target that reads nothing must not make the client grow.
const OUTPUT_BYTES_MAX: usize = 8 << 20;
/// The loop looks at the clock and at the stop flag at least this often.
const TICK: Duration = Duration::from_millis(50);
/// I/Os in flight at the end have this long to come back.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// What a connection speaks.
pub(crate) trait Wire {
    /// How many I/Os the other side accepts now (the command window).
    fn room(&self) -> u32;
    /// Queues the request of `io`, which is known by `tag` until it completes.
    fn submit(&mut self, tag: u32, io: &Io, out: &mut Output);
    /// Takes bytes that have arrived; `ios` is what is in flight, by tag. Adds what completed to
    /// `done`, and answers that the protocol needs to `out`.
    ///
    /// # Errors
    /// The other side broke the protocol; the connection is of no more use.
    fn receive(
        &mut self,
        bytes: &[u8],
        ios: &[Io],
        out: &mut Output,
        done: &mut Vec<Completion>,
    ) -> Result<()>;
}

/// One I/O came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    /// Its tag.
    pub(crate) tag: u32,
    /// Why it does not count as done well.
    pub(crate) failure: Option<String>,
}

/// The ends of the measured part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The warm-up is over.
    Start,
    /// The last moment that counts.
    End,
}

/// A connection that is ready to work.
#[derive(Debug)]
pub(crate) struct Peer<W> {
    /// The socket.
    pub(crate) socket: TcpStream,
    /// What is spoken on it.
    pub(crate) wire: W,
}

struct Connection<W> {
    peer: Peer<W>,
    stream: IoStream,
    ios: Vec<Io>,
    started: Vec<Instant>,
    free: Vec<u32>,
    out: Output,
    wants_out: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warmup,
    Measure,
    Drain,
}

struct Engine<'a, W> {
    plan: &'a Plan,
    pattern: &'a Pattern,
    epoll: OwnedFd,
    connections: Vec<Connection<W>>,
    tally: Tally,
    phase: Phase,
    now: Instant,
    /// When the measured part began, once it has.
    measure_started: Instant,
    submitted: u64,
    done: Vec<Completion>,
    receive: Vec<u8>,
}

/// Runs `plan` over `peers` and gives them back with what was counted. `edge` is called on the
/// client's thread at both ends of the measured part, so that others can be sampled exactly then.
///
/// # Errors
/// A connection was lost, the other side broke the protocol, or `stop` was set.
pub(crate) fn run<W: Wire>(
    peers: Vec<Peer<W>>,
    plan: &Plan,
    pattern: &Pattern,
    stop: &AtomicBool,
    edge: &mut dyn FnMut(Edge),
) -> Result<(Vec<Peer<W>>, Tally)> {
    let mut engine = Engine::new(peers, plan, pattern)?;
    engine.run(stop, edge)?;
    let peers = engine.connections.into_iter().map(|connection| connection.peer).collect();
    Ok((peers, engine.tally))
}

impl<'a, W: Wire> Engine<'a, W> {
    fn new(peers: Vec<Peer<W>>, plan: &'a Plan, pattern: &'a Pattern) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let now = Instant::now();
        let depth = plan.depth as usize;
        let mut connections = Vec::with_capacity(peers.len());
        for (index, peer) in peers.into_iter().enumerate() {
            peer.socket.set_nonblocking(true)?;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::add(&epoll, &peer.socket, data, epoll::EventFlags::IN)?;
            connections.push(Connection {
                peer,
                stream: IoStream::new(plan, u32::try_from(index)?),
                ios: vec![Io::default(); depth],
                started: vec![now; depth],
                free: (0..plan.depth).rev().collect(),
                out: Output::default(),
                wants_out: false,
            });
        }
        Ok(Self {
            plan,
            pattern,
            epoll,
            tally: Tally::new(connections.len()),
            connections,
            phase: Phase::Warmup,
            now,
            measure_started: now,
            submitted: 0,
            done: Vec::new(),
            receive: vec![0; RECEIVE_BYTES],
        })
    }

    fn run(&mut self, stop: &AtomicBool, edge: &mut dyn FnMut(Edge)) -> Result<()> {
        let mut deadline = Instant::now() + self.plan.warmup;
        let (mut cpu_before, mut waited_before) = (Duration::ZERO, Duration::ZERO);
        for index in 0..self.connections.len() {
            self.fill(index);
            self.flush(index)?;
        }
        let mut events = vec![
            epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0)
            };
            128
        ];
        loop {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped by a signal");
            }
            self.now = Instant::now();
            let enough = self.plan.ios_max.is_some_and(|max| self.submitted >= max);
            match self.phase {
                Phase::Warmup if self.now >= deadline => {
                    self.tally.reset();
                    edge(Edge::Start);
                    self.phase = Phase::Measure;
                    waited_before = thread_waited();
                    (self.measure_started, cpu_before) = (Instant::now(), thread_cpu());
                    self.now = self.measure_started;
                    deadline = self.now + self.plan.measure;
                }
                Phase::Measure if self.now >= deadline || (enough && self.idle()) => {
                    self.tally.client_cpu = thread_cpu().saturating_sub(cpu_before);
                    self.tally.client_waited = thread_waited().saturating_sub(waited_before);
                    self.tally.elapsed = self.now - self.measure_started;
                    edge(Edge::End);
                    self.phase = Phase::Drain;
                    deadline = Instant::now() + DRAIN_MAX;
                }
                Phase::Drain if self.idle() => return Ok(()),
                Phase::Drain if self.now >= deadline => {
                    bail!("I/Os in flight did not come back within {DRAIN_MAX:?}");
                }
                _ => {}
            }
            self.turn(&mut events)?;
        }
    }

    fn idle(&self) -> bool {
        let depth = self.plan.depth as usize;
        self.connections.iter().all(|connection| connection.free.len() == depth)
    }

    /// Waits for something to happen, and handles it.
    fn turn(&mut self, events: &mut [epoll::Event]) -> Result<()> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        let ready = match epoll::wait(&self.epoll, &mut *events, Some(&timeout)) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error).context("epoll"),
        };
        for event in &events[..ready] {
            let (flags, data) = (event.flags, event.data);
            let index = data.u64() as usize;
            if flags
                .intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR)
            {
                self.receive(index).with_context(|| format!("session {index}"))?;
                self.fill(index);
            }
            self.flush(index).with_context(|| format!("session {index}"))?;
        }
        Ok(())
    }

    fn receive(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        let count = match connection.peer.socket.read(&mut self.receive) {
            Ok(0) => bail!("the target closed the connection"),
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("receive"),
        };
        self.tally.receives += 1;
        let bytes = &self.receive[..count];
        let ios = &connection.ios;
        connection.peer.wire.receive(bytes, ios, &mut connection.out, &mut self.done)?;
        if self.done.is_empty() {
            return Ok(());
        }
        self.now = Instant::now();
        if self.phase == Phase::Measure {
            self.tally.answered_at(self.now - self.measure_started);
        }
        for completion in self.done.drain(..) {
            let started = connection
                .started
                .get(completion.tag as usize)
                .with_context(|| format!("answer to a tag never sent: {}", completion.tag))?;
            let latency = self.now - *started;
            if self.phase == Phase::Drain {
                self.tally.complete_late(latency, completion.failure.is_some());
            } else {
                self.tally.complete(index, latency, completion.failure);
            }
            connection.free.push(completion.tag);
        }
        Ok(())
    }

    fn fill(&mut self, index: usize) {
        if self.phase == Phase::Drain {
            return;
        }
        let connection = &mut self.connections[index];
        let mut room = connection.peer.wire.room();
        while room > 0
            && connection.out.queued_bytes() < OUTPUT_BYTES_MAX
            && self.plan.ios_max.is_none_or(|max| self.submitted < max)
            && let Some(tag) = connection.free.pop()
        {
            let io = connection.stream.draw();
            connection.ios[tag as usize] = io;
            connection.started[tag as usize] = self.now;
            connection.peer.wire.submit(tag, &io, &mut connection.out);
            self.submitted += 1;
            room -= 1;
        }
    }

    fn flush(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        if connection.out.queued_bytes() == 0 && !connection.wants_out {
            return Ok(());
        }
        let table = self.pattern.bytes();
        self.tally.sends += connection.out.flush(&mut connection.peer.socket, table)?;
        let wants_out = connection.out.queued_bytes() > 0;
        if wants_out != connection.wants_out {
            connection.wants_out = wants_out;
            let flags = if wants_out {
                epoll::EventFlags::IN | epoll::EventFlags::OUT
            } else {
                epoll::EventFlags::IN
            };
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.epoll, &connection.peer.socket, data, flags)?;
        }
        Ok(())
    }
}
