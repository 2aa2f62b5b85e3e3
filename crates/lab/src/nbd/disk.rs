//! An export as a disk.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use attach::nbd::wire::{Command, can, flag};
use block::{
    BlockDevice, BlockError, Compared, Extent, ExtentState, Geometry, IoFuture, WriteFlags,
    arguments,
};
use ring::{Buf, Data};

use super::address::NbdAddress;
use super::connection::{Connection, needs_flush, request};
use super::handshake::{Export, NbdError, connect};

/// How an export is used.
#[derive(Debug, Clone)]
pub struct NbdOptions {
    /// Connections at once; more than one only where the server keeps them together (multi-conn).
    pub connections: u32,
    /// How long a step of connecting may take.
    pub connect_timeout: Duration,
    /// How long I/O waits while there is no connection; then it fails.
    pub limit: Duration,
}

impl Default for NbdOptions {
    fn default() -> Self {
        let (connect_timeout, limit) = (Duration::from_secs(5), Duration::from_secs(60));
        Self { connections: 1, connect_timeout, limit }
    }
}

/// The connections of an export; nothing once it was closed.
type Open = Option<Rc<[Rc<Connection>]>>;

thread_local! {
    /// The exports that this core has open; a disk that is shared by all knows its number.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// An export of an NBD server. It belongs to the core that opened it: others find it
/// [unreachable](BlockError::Unreachable).
pub struct NbdDisk {
    address: NbdAddress,
    geometry: Geometry,
    export: Export,
    thread: ThreadId,
    number: usize,
}

impl fmt::Debug for NbdDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NbdDisk").field("address", &self.address).finish_non_exhaustive()
    }
}

impl NbdDisk {
    /// Connects to the server and takes the export.
    ///
    /// # Errors
    /// A [`NbdError`].
    ///
    /// # Panics
    /// Outside of a core of the engine.
    pub async fn open(address: &NbdAddress, options: &NbdOptions) -> Result<Self, NbdError> {
        let (first, export) = dial(address, options).await?;
        let count = options.connections.max(1);
        if count > 1 && !export.can(can::MULTI_CONN) {
            return Err(NbdError::OneConnection(address.to_string()));
        }
        let geometry = geometry(address, &export)?;
        let mut connections = vec![Connection::start(address, options, first, export)];
        for _ in 1..count {
            let (socket, export) = dial(address, options).await?;
            connections.push(Connection::start(address, options, socket, export));
        }
        let number = OPEN.with_borrow_mut(|open| {
            open.push(Some(connections.into()));
            open.len() - 1
        });
        let thread = thread::current().id();
        Ok(Self { address: address.clone(), geometry, export, thread, number })
    }

    /// The connection with the least to do.
    fn connection(&self) -> Result<Rc<Connection>, BlockError> {
        self.each(|all| all.iter().min_by_key(|one| one.in_flight()).cloned())
            .flatten()
            .ok_or(BlockError::Unreachable)
    }

    fn each<T>(&self, with: impl FnOnce(&[Rc<Connection>]) -> T) -> Option<T> {
        if thread::current().id() != self.thread {
            return None;
        }
        // The thread's values may go before the disk does.
        OPEN.try_with(|open| open.borrow().get(self.number)?.as_deref().map(with)).ok().flatten()
    }

    /// A length as requests that carry data have it.
    fn short(&self, len: usize) -> Result<u32, BlockError> {
        let max = self.export.request_bytes_max;
        let short = u32::try_from(len).ok().filter(|len| *len <= max);
        short.ok_or(BlockError::TooLong { len: len as u64, max })
    }

    /// A change that sends no bytes of its own, in as many requests as it takes.
    fn change(&self, command: Command, flags: u16, at: u64, len: u64) -> IoFuture<()> {
        let connection = match self.connection() {
            Ok(connection) => connection,
            Err(error) => return IoFuture::ready(Err(error)),
        };
        let begin = move |at: u64, len: u32| {
            connection.begin(request(command, flags, at, len), Data::default(), None)
        };
        let max = self.export.request_bytes_max;
        let max = max - max % self.geometry.block_bytes;
        match u32::try_from(len) {
            Ok(len) if len <= max => begin(at, len),
            _ => IoFuture::boxed(async move {
                let (mut at, end) = (at, at + len);
                while at < end {
                    let step = u32::try_from(end - at).unwrap_or(max).min(max);
                    begin(at, step).await?;
                    at += u64::from(step);
                }
                Ok(())
            }),
        }
    }
}

impl Drop for NbdDisk {
    fn drop(&mut self) {
        self.each(|all| all.iter().for_each(|connection| connection.close()));
        if thread::current().id() == self.thread {
            // The list may have gone before, with its thread.
            let _ = OPEN.try_with(|open| open.borrow_mut()[self.number] = None);
        }
    }
}

async fn dial(
    address: &NbdAddress,
    options: &NbdOptions,
) -> Result<(std::os::fd::OwnedFd, Export), NbdError> {
    let (to, timeout) = (address.clone(), options.connect_timeout);
    ring::blocking(move || connect(&to, timeout)).await
}

fn geometry(address: &NbdAddress, export: &Export) -> Result<Geometry, NbdError> {
    let least = export.block_bytes_min.max(512);
    let block_bytes = match least {
        512 | 4096 => least,
        513..4096 if 4096 % least == 0 => 4096,
        _ => {
            let address = address.to_string();
            return Err(NbdError::Blocks { address, block_bytes: export.block_bytes_min });
        }
    };
    Ok(Geometry {
        read_only: export.can(can::READ_ONLY),
        rotational: export.can(can::ROTATIONAL),
        // TRIM is a wish: what was there may still be read afterwards.
        thin: false,
        // The protocol has nothing of the kind.
        atomic_bytes_max: 0,
        ..Geometry::new(block_bytes, export.size_bytes / u64::from(block_bytes))
    })
}

impl BlockDevice for NbdDisk {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        let begun = self.short(len).and_then(|short| {
            let buf = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
            let request = request(Command::Read, 0, at, short);
            Ok(self.connection()?.begin(request, Data::default(), Some(buf)))
        });
        begun.unwrap_or_else(|error| IoFuture::ready(Err(error)))
    }

    fn write_now(
        &self,
        _at: u64,
        _bytes: &[u8],
        _flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write(&self.geometry, at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        let begun = self.short(data.len()).and_then(|len| {
            let is_fua = flags.durable && self.export.can(can::FUA);
            let fua = if is_fua { flag::FUA } else { 0 };
            let request = request(Command::Write, fua, at, len);
            let connection = self.connection()?;
            Ok((connection.begin(request, data, None), connection))
        });
        let needs_flush = flags.durable && needs_flush(&self.export);
        match begun {
            Ok((pending, _)) if !needs_flush => pending,
            Ok((pending, connection)) => IoFuture::boxed(async move {
                pending.await?;
                let flush = request(Command::Flush, 0, 0, 0);
                connection.begin(flush, Data::default(), None).await
            }),
            Err(error) => IoFuture::ready(Err(error)),
        }
    }

    /// An error if a connection broke over writes that no flush covered: whether a server that was
    /// restarted has them nobody can tell.
    fn flush(&self) -> IoFuture<()> {
        let is_lost = self.each(|all| all.iter().filter(|one| one.take_lost_writes()).count() > 0);
        if is_lost == Some(true) {
            return IoFuture::ready(Err(BlockError::LostWrites));
        }
        if !self.export.can(can::FLUSH) {
            return IoFuture::ready(Ok(()));
        }
        // Several connections are only made where a flush on one is one for all.
        self.each(|all| all.iter().for_each(|connection| connection.begin_flush()));
        let flush = request(Command::Flush, 0, 0, 0);
        match self.connection().map(|connection| connection.begin(flush, Data::default(), None)) {
            Ok(pending) => pending,
            Err(error) => IoFuture::ready(Err(error)),
        }
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.geometry, at, len) {
            return IoFuture::ready(answer);
        }
        if !self.export.can(can::TRIM) {
            return IoFuture::ready(Err(BlockError::Unsupported));
        }
        self.change(Command::Trim, 0, at, len)
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.geometry, at, len, flags) {
            return IoFuture::ready(answer);
        }
        let can_fua = !flags.durable || self.export.can(can::FUA);
        if !self.export.can(can::WRITE_ZEROES) || !can_fua {
            return IoFuture::ready(Err(BlockError::Unsupported));
        }
        let keep = if may_unmap { 0 } else { flag::NO_HOLE };
        let fua = if flags.durable { flag::FUA } else { 0 };
        self.change(Command::WriteZeroes, keep | fua, at, len)
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        _: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.geometry, at, &compare, &write);
        IoFuture::ready(answer.unwrap_or(Err(BlockError::Unsupported)))
    }

    fn or_write(&self, at: u64, data: Data, _: WriteFlags) -> IoFuture<()> {
        let answer = arguments::or_write(&self.geometry, at, data.len());
        IoFuture::ready(answer.unwrap_or(Err(BlockError::Unsupported)))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let checked = arguments::extent(&self.geometry, at);
        let len_bytes = self.geometry.size_bytes().saturating_sub(at);
        IoFuture::ready(checked.map(|()| Extent { len_bytes, state: ExtentState::Mapped }))
    }
}
