//! From a request to its reply.

use block::{BlockError, ExtentState, WriteFlags};
use ring::Data;

use super::handshake::{Agreed, PAYLOAD_BYTES_MAX};
use super::wire::{Command, Errno, Request, flag};
use crate::stats::Kind;
use crate::{Disk, User, Zeroing};

/// The ranges of one answer about block status; a client that wants more asks again.
const RANGES_MAX: usize = 1024;

/// Flags of a range in `base:allocation`.
mod state {
    pub(super) const HOLE: u32 = 1;
    pub(super) const ZERO: u32 = 2;
}

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) errno: Errno,
    /// The first byte concerned, where the device said so.
    pub(crate) at: Option<u64>,
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault { errno, at: None }
    }
}

impl From<BlockError> for Fault {
    fn from(error: BlockError) -> Fault {
        let errno = match error {
            BlockError::OutOfRange { .. }
            | BlockError::Unaligned { .. }
            | BlockError::TooLong { .. }
            | BlockError::PayloadMismatch => Errno::Invalid,
            BlockError::ReadOnly => Errno::Permission,
            BlockError::NoSpace => Errno::NoSpace,
            BlockError::NoMemory => Errno::NoMemory,
            BlockError::Unsupported => Errno::NotSupported,
            BlockError::Medium { at } => return Fault { errno: Errno::Io, at: Some(at) },
            // The protocol has no numbers for these.
            BlockError::LostWrites
            | BlockError::Busy
            | BlockError::Unreachable
            | BlockError::InDoubt
            | BlockError::Reserved
            | BlockError::Os { .. } => Errno::Io,
        };
        errno.into()
    }
}

/// What a request gives back.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// What was read in one operation.
    Data(Data),
    /// The parts of a long read, or of one at odd bytes.
    Parts(Vec<Data>),
    /// Lengths and flags of `base:allocation`.
    Status(Vec<(u32, u32)>),
}

/// Checks a request before anything of it is carried out.
pub(crate) fn check(request: &Request, agreed: Agreed, disk: &Disk) -> Result<(), Errno> {
    let allowed = match request.command {
        Command::Read if agreed.structured => flag::FUA | flag::DF,
        Command::WriteZeroes => flag::FUA | flag::NO_HOLE | flag::FAST_ZERO,
        Command::BlockStatus => flag::FUA | flag::REQ_ONE,
        Command::Disconnect | Command::Other(_) => return Err(Errno::Invalid),
        _ => flag::FUA,
    };
    if request.flags & !allowed != 0 {
        return Err(Errno::Invalid);
    }
    let changes = matches!(request.command, Command::Write | Command::Trim | Command::WriteZeroes);
    if changes && disk.geometry().read_only {
        return Err(Errno::Permission);
    }
    let beyond =
        request.at.checked_add(u64::from(request.len)).is_none_or(|end| end > disk.size_bytes());
    match request.command {
        Command::Flush => Ok(()), // offset and length say nothing
        Command::Write | Command::WriteZeroes if beyond => Err(Errno::NoSpace),
        _ if beyond => Err(Errno::Invalid),
        Command::Read | Command::Write if request.len > PAYLOAD_BYTES_MAX => Err(Errno::Invalid),
        Command::Read | Command::BlockStatus if request.len == 0 => Err(Errno::Invalid),
        Command::BlockStatus if !agreed.allocation => Err(Errno::Invalid),
        _ => Ok(()),
    }
}

/// How the request is counted.
pub(crate) fn kind(request: &Request) -> Kind {
    match request.command {
        Command::Read => Kind::Read(u64::from(request.len)),
        Command::Write => Kind::Write(u64::from(request.len)),
        Command::WriteZeroes => Kind::Write(0),
        _ => Kind::Other,
    }
}

/// The flags of a write.
pub(crate) fn write_flags(request: &Request) -> WriteFlags {
    if request.has(flag::FUA) { WriteFlags::DURABLE } else { WriteFlags::VOLATILE }
}

/// Carries out a request that was checked; `payload` is that of a write.
pub(crate) async fn perform(
    request: Request,
    payload: Vec<Data>,
    (disk, user): (&Disk, &User),
) -> Result<Answer, Fault> {
    let (at, len) = (request.at, u64::from(request.len));
    let flags = write_flags(&request);
    match request.command {
        Command::Read => return Ok(Answer::Parts(disk.read(at, request.len as usize).await?)),
        Command::BlockStatus => return Ok(Answer::Status(status(&request, disk).await?)),
        Command::Write => disk.write_parts(at, payload, flags).await?,
        Command::Flush => disk.flush_for(user).await?,
        Command::Trim => disk.trim(at, len, flags.durable).await?,
        Command::WriteZeroes => {
            let how = Zeroing {
                may_unmap: !request.has(flag::NO_HOLE),
                fast: request.has(flag::FAST_ZERO),
            };
            disk.write_zeroes(at, len, how, flags).await?;
        }
        Command::Disconnect | Command::Other(_) => return Err(Errno::Invalid.into()),
    }
    Ok(Answer::Done)
}

async fn status(request: &Request, disk: &Disk) -> Result<Vec<(u32, u32)>, Fault> {
    let count_max = if request.has(flag::REQ_ONE) { 1 } else { RANGES_MAX };
    let extents = disk.extents(request.at, u64::from(request.len), count_max).await?;
    let range = |extent: &block::Extent| {
        let len = u32::try_from(extent.len_bytes).expect("cut to the length asked for");
        let flags = match extent.state {
            ExtentState::Mapped => 0,
            ExtentState::Deallocated => state::HOLE | state::ZERO,
            ExtentState::Anchored => state::ZERO,
        };
        (len, flags)
    };
    Ok(extents.iter().map(range).collect())
}

#[cfg(test)]
mod tests;
