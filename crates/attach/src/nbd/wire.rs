//! What goes over the wire: numbers of the protocol, requests and replies.

/// Sent first by the server ("NBDMAGIC").
pub(crate) const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// In front of each option ("IHAVEOPT").
pub(crate) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// In front of each reply to an option.
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// In front of each request.
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, the same numbers in both directions.
pub(crate) mod handshake {
    pub(crate) const FIXED_NEWSTYLE: u16 = 1;
    pub(crate) const NO_ZEROES: u16 = 2;
}

/// Options of the handshake.
pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

/// Replies to options.
pub(crate) mod reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    pub(crate) const ERR_UNSUP: u32 = (1 << 31) + 1;
    pub(crate) const ERR_INVALID: u32 = (1 << 31) + 3;
    pub(crate) const ERR_UNKNOWN: u32 = (1 << 31) + 6;
}

/// Kinds of information about an export.
pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DESCRIPTION: u16 = 2;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub(crate) mod can {
    pub(crate) const HAS_FLAGS: u16 = 1 << 0;
    pub(crate) const READ_ONLY: u16 = 1 << 1;
    pub(crate) const FLUSH: u16 = 1 << 2;
    pub(crate) const FUA: u16 = 1 << 3;
    pub(crate) const ROTATIONAL: u16 = 1 << 4;
    pub(crate) const TRIM: u16 = 1 << 5;
    pub(crate) const WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const DF: u16 = 1 << 7;
    pub(crate) const MULTI_CONN: u16 = 1 << 8;
    pub(crate) const FAST_ZERO: u16 = 1 << 11;
}

/// Flags of a request.
pub(crate) mod flag {
    pub(crate) const FUA: u16 = 1 << 0;
    pub(crate) const NO_HOLE: u16 = 1 << 1;
    pub(crate) const DF: u16 = 1 << 2;
    pub(crate) const REQ_ONE: u16 = 1 << 3;
    pub(crate) const FAST_ZERO: u16 = 1 << 4;
}

/// Commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
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
pub(crate) const REQUEST_LEN_BYTES: usize = 28;

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: Command,
    pub(crate) cookie: u64,
    pub(crate) at: u64,
    pub(crate) len: u32,
}

impl Request {
    /// Reads a request; `None` when it does not start as one, after which nothing on the
    /// connection can be trusted.
    pub(crate) fn parse(bytes: &[u8; REQUEST_LEN_BYTES]) -> Option<Request> {
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

pub(crate) fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    take(bytes).map(u16::from_be_bytes)
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_be_bytes)
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_be_bytes)
}

/// Takes a string with its length in front; `None` when it is cut off or is not UTF-8.
pub(crate) fn take_string<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let len = take_u32(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
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
        bytes[3] ^= 1;
        assert_eq!(Request::parse(&bytes), None);
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
