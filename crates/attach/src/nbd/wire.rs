//! What goes over the wire: numbers of the protocol, requests and replies. Clients use it, too.

/// Sent first by the server ("NBDMAGIC").
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// In front of each option ("IHAVEOPT").
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// In front of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// In front of each request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same numbers in both directions.
pub mod handshake {
    /// Options are answered one by one.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// No zeroes behind the answer to an export name.
    pub const NO_ZEROES: u16 = 2;
}

/// Options of the handshake.
pub mod option {
    /// Takes an export without an answer that tells errors.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the handshake.
    pub const ABORT: u32 = 2;
    /// Asks which exports there are.
    pub const LIST: u32 = 3;
    /// Asks about an export.
    pub const INFO: u32 = 6;
    /// Takes an export.
    pub const GO: u32 = 7;
    /// Asks for replies in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Asks which contexts there are.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Chooses contexts.
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub mod reply {
    /// The last answer to an option.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// Information about an export.
    pub const INFO: u32 = 3;
    /// A context.
    pub const META_CONTEXT: u32 = 4;
    /// The server does not know the option.
    pub const ERR_UNSUP: u32 = (1 << 31) + 1;
    /// The option does not read.
    pub const ERR_INVALID: u32 = (1 << 31) + 3;
    /// There is no such export.
    pub const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Kinds of information about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// The name of the export.
    pub const NAME: u16 = 1;
    /// A text for people.
    pub const DESCRIPTION: u16 = 2;
    /// The least, the best and the largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod can {
    /// The flags mean something.
    pub const HAS_FLAGS: u16 = 1 << 0;
    /// Changes are refused.
    pub const READ_ONLY: u16 = 1 << 1;
    /// Takes a flush.
    pub const FLUSH: u16 = 1 << 2;
    /// Takes durable writes.
    pub const FUA: u16 = 1 << 3;
    /// Seeks are slow.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// Takes back space.
    pub const TRIM: u16 = 1 << 5;
    /// Writes zeroes without their bytes.
    pub const WRITE_ZEROES: u16 = 1 << 6;
    /// Answers a read in one piece.
    pub const DF: u16 = 1 << 7;
    /// A flush on one connection is one for all.
    pub const MULTI_CONN: u16 = 1 << 8;
    /// Refuses zeroes that would be slow.
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a request.
pub mod flag {
    /// Durable when it is answered.
    pub const FUA: u16 = 1 << 0;
    /// Zeroes keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// In one piece.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// Only if it is fast.
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// Commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Bytes of a range.
    Read,
    /// New bytes.
    Write,
    /// The end; it has no answer.
    Disconnect,
    /// All that was answered becomes durable.
    Flush,
    /// The range is not needed.
    Trim,
    /// Zeroes.
    WriteZeroes,
    /// What a range holds.
    BlockStatus,
    /// Not known here.
    Other(u16),
}

impl From<u16> for Command {
    fn from(number: u16) -> Command {
        match number {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            7 => Command::BlockStatus,
            other => Command::Other(other),
        }
    }
}

impl Command {
    fn number(self) -> u16 {
        match self {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Other(number) => number,
        }
    }
}

/// Error numbers of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Errno {
    Permission = 1,
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
}

/// Length of a request without its payload.
pub const REQUEST_LEN_BYTES: usize = 28;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Of [`flag`].
    pub flags: u16,
    /// What to do.
    pub command: Command,
    /// Comes back in the reply.
    pub cookie: u64,
    /// The first byte.
    pub at: u64,
    /// Bytes.
    pub len: u32,
}

impl Request {
    /// As it goes over the wire.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_LEN_BYTES] {
        let mut bytes = [0; REQUEST_LEN_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.at.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Reads a request; `None` when it does not start as one, after which nothing on the
    /// connection can be trusted.
    pub fn parse(bytes: &[u8; REQUEST_LEN_BYTES]) -> Option<Request> {
        let mut rest = &bytes[..];
        if take_u32(&mut rest)? != REQUEST_MAGIC {
            return None;
        }
        Some(Request {
            flags: take_u16(&mut rest)?,
            command: take_u16(&mut rest)?.into(),
            cookie: take_u64(&mut rest)?,
            at: take_u64(&mut rest)?,
            len: take_u32(&mut rest)?,
        })
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Takes `N` bytes off the front; `None` when there are fewer.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// Takes a number off the front; `None` when there are too few bytes.
pub fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    take(bytes).map(u16::from_be_bytes)
}

/// Takes a number off the front; `None` when there are too few bytes.
pub fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_be_bytes)
}

/// Takes a number off the front; `None` when there are too few bytes.
pub fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_be_bytes)
}

/// Takes a string with its length in front; `None` when it is cut off or is not UTF-8.
pub(crate) fn take_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let len = take_u32(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Length of a simple reply without its payload.
pub const REPLY_LEN_BYTES: usize = 16;

/// Reads a simple reply: its cookie and error, 0 for success. `None` when it does not start as one.
#[must_use]
pub fn parse_simple_reply(bytes: &[u8; REPLY_LEN_BYTES]) -> Option<(u64, u32)> {
    let mut rest = &bytes[..];
    if take_u32(&mut rest)? != SIMPLE_REPLY_MAGIC {
        return None;
    }
    let error = take_u32(&mut rest)?;
    Some((take_u64(&mut rest)?, error))
}

/// A simple reply without payload; `None` is success.
pub(crate) fn simple_reply(cookie: u64, error: Option<Errno>) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.map_or(0, |e| e as u32).to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// What a chunk of a structured reply holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
enum ChunkType {
    OffsetData = 1,
    BlockStatus = 5,
    Error = (1 << 15) + 1,
    ErrorOffset = (1 << 15) + 2,
}

/// The header of the one and last chunk of a structured reply.
fn chunk(kind: ChunkType, cookie: u64, len_bytes: usize) -> [u8; 20] {
    const DONE: u16 = 1;
    let len_bytes = u32::try_from(len_bytes).expect("a chunk is below 4 GiB");
    let mut bytes = [0; 20];
    bytes[0..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&(kind as u16).to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..20].copy_from_slice(&len_bytes.to_be_bytes());
    bytes
}

/// The header in front of `len_bytes` of data read from `at`.
pub(crate) fn data_chunk(cookie: u64, at: u64, len_bytes: usize) -> [u8; 28] {
    let mut bytes = [0; 28];
    bytes[..20].copy_from_slice(&chunk(ChunkType::OffsetData, cookie, len_bytes + 8));
    bytes[20..].copy_from_slice(&at.to_be_bytes());
    bytes
}

/// An error, with the place of it where that is known.
pub(crate) fn error_chunk(cookie: u64, error: Errno, at: Option<u64>) -> Vec<u8> {
    let kind = if at.is_some() { ChunkType::ErrorOffset } else { ChunkType::Error };
    let mut bytes = chunk(kind, cookie, 6 + at.map_or(0, |_| 8)).to_vec();
    bytes.extend((error as u32).to_be_bytes());
    bytes.extend(0_u16.to_be_bytes()); // no text: the number says it all
    bytes.extend(at.iter().flat_map(|at| at.to_be_bytes()));
    bytes
}

/// The status of consecutive ranges, each a length and flags.
pub(crate) fn status_chunk(cookie: u64, context: u32, ranges: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = chunk(ChunkType::BlockStatus, cookie, 4 + ranges.len() * 8).to_vec();
    bytes.extend(context.to_be_bytes());
    for (len_bytes, flags) in ranges {
        bytes.extend(len_bytes.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_as_the_protocol_draws_it() {
        let mut bytes = [0; REQUEST_LEN_BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[5] = 1;
        bytes[7] = 6;
        bytes[15] = 9;
        bytes[16..24].copy_from_slice(&0x1_0000_0200_u64.to_be_bytes());
        bytes[24..].copy_from_slice(&4096_u32.to_be_bytes());
        let request = Request::parse(&bytes).unwrap();
        let command = Command::WriteZeroes;
        assert_eq!(
            request,
            Request { flags: flag::FUA, command, cookie: 9, at: 0x1_0000_0200, len: 4096 }
        );
        assert_eq!(request.to_bytes(), bytes);
        bytes[3] ^= 1;
        assert_eq!(Request::parse(&bytes), None);
    }

    #[test]
    fn commands_and_replies_are_read_as_they_are_written() {
        for number in 0..9 {
            assert_eq!(Command::from(number).number(), number);
        }
        let mut reply = simple_reply(7 << 32, Some(Errno::NoSpace));
        assert_eq!(parse_simple_reply(&reply), Some((7 << 32, 28)));
        reply[0] ^= 1;
        assert_eq!(parse_simple_reply(&reply), None);
    }

    #[test]
    fn replies_are_drawn_to_the_byte() {
        assert_eq!(
            simple_reply(7, Some(Errno::NoSpace)),
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 7]
        );
        let head = data_chunk(7, 0x200, 512);
        assert_eq!(head[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
        assert_eq!(head[16..], [0, 0, 2, 8, 0, 0, 0, 0, 0, 0, 2, 0]);
        let error = error_chunk(7, Errno::Io, Some(4096));
        assert_eq!(error[6..8], [0x80, 2]);
        assert_eq!(error[16..], [0, 0, 0, 14, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0]);
        assert_eq!(error_chunk(7, Errno::Io, None).len(), 20 + 6);
        let status = status_chunk(7, 1, &[(512, 0), (1024, 3)]);
        assert_eq!(status[16..24], [0, 0, 0, 20, 0, 0, 0, 1]);
        assert_eq!(status[24..], [0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn strings_are_taken_whole_or_not_at_all() {
        let bytes = [0, 0, 0, 2, b'a', b'b', 9];
        let mut rest = &bytes[..];
        assert_eq!((take_string(&mut rest), rest), (Some("ab"), &[9_u8][..]));
        assert_eq!(take_string(&mut &bytes[..5]), None);
        assert_eq!(take_string(&mut &[0, 0, 0, 1, 0xff][..]), None);
        assert_eq!(take_string(&mut &[0xff, 0xff, 0xff, 0xff][..]), None);
    }
}
