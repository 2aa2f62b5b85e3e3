//! Haggling over options: a pure state machine, bytes in and bytes out.

use block::Geometry;

use super::wire::{MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake};
use super::wire::{can, info, option, reply, take_string, take_u16, take_u32};

/// The longest payload of one read or write: what clients assume when they are told nothing.
pub(crate) const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// The longest data of one option that is listened to. A name has at most 4096 bytes, and a list of
/// contexts that asks for more than a few is not for this server.
pub(crate) const OPTION_BYTES_MAX: usize = 64 << 10;

/// The one context of block status that is served, and its number.
const ALLOCATION: &str = "base:allocation";
pub(crate) const ALLOCATION_ID: u32 = 1;

/// The disk as clients are shown it.
#[derive(Debug, Clone)]
pub(crate) struct Export {
    /// Its name; the empty name means it too.
    pub(crate) name: String,
    pub(crate) size_bytes: u64,
    /// Of `wire::can`.
    pub(crate) flags: u16,
    pub(crate) block_bytes: u32,
    pub(crate) preferred_bytes: u32,
}

impl Export {
    pub(crate) fn new(name: &str, disk: &Geometry) -> Export {
        // One device serves all connections and keeps nothing back: what one of them wrote all can
        // read, and a flush on one covers them all, which is what MULTI_CONN promises.
        let mut flags = can::HAS_FLAGS | can::FLUSH | can::FUA | can::DF | can::MULTI_CONN;
        if disk.read_only {
            flags |= can::READ_ONLY;
        } else {
            flags |= can::WRITE_ZEROES | can::FAST_ZERO;
            flags |= if disk.thin { can::TRIM } else { 0 };
        }
        flags |= if disk.rotational { can::ROTATIONAL } else { 0 };
        Export {
            name: name.to_owned(),
            size_bytes: disk.size_bytes(),
            flags,
            block_bytes: disk.block_bytes,
            preferred_bytes: disk.physical_block_bytes.clamp(4096, 1 << 20),
        }
    }

    fn is_called(&self, name: &str) -> bool {
        name.is_empty() || name == self.name
    }
}

/// What follows an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another option.
    Option,
    /// Requests.
    Transmission,
    /// The end, after what is to be sent was sent.
    Close,
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// Reads are answered in chunks.
    pub(crate) structured: bool,
    /// Block status may be asked for.
    pub(crate) allocation: bool,
}

/// One client's handshake.
#[derive(Debug)]
pub(crate) struct Handshake<'a> {
    export: &'a Export,
    no_zeroes: bool,
    structured: bool,
    /// The name of the export for which the context of block status was chosen.
    allocation_of: Option<String>,
    /// The name of the export that was asked for last.
    opened: String,
}

/// What the server sends first.
pub(crate) fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    let flags = handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES;
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

impl<'a> Handshake<'a> {
    /// With the flags that the client answered the greeting with; `None` when it wants something
    /// that was not offered.
    pub(crate) fn new(export: &'a Export, client_flags: u32) -> Option<Handshake<'a>> {
        let known = u32::from(handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
        if client_flags & !known != 0 {
            return None;
        }
        let no_zeroes = client_flags & u32::from(handshake::NO_ZEROES) != 0;
        let (structured, allocation_of, opened) = (false, None, String::new());
        Some(Handshake { export, no_zeroes, structured, allocation_of, opened })
    }

    /// What was agreed on, once the transmission begins.
    pub(crate) fn agreed(&self) -> Agreed {
        let allocation = self.allocation_of.as_ref() == Some(&self.opened);
        Agreed { structured: self.structured, allocation: self.structured && allocation }
    }

    /// Answers one option.
    pub(crate) fn option(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        match number {
            option::EXPORT_NAME => return self.export_name(data, out),
            option::ABORT => {
                answer(out, number, reply::ACK, &[]);
                return Next::Close;
            }
            option::LIST if data.is_empty() => {
                answer(out, number, reply::SERVER, &string(&self.export.name));
                answer(out, number, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                answer(out, number, reply::ACK, &[]);
            }
            option::LIST | option::STRUCTURED_REPLY => {
                answer(out, number, reply::ERR_INVALID, b"this option takes no data");
            }
            option::INFO | option::GO => return self.info(number, data, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(number, data, out);
            }
            _ => answer(out, number, reply::ERR_UNSUP, b"this server does not know the option"),
        }
        Next::Option
    }

    /// The oldest way to begin: there is no way to say no but to hang up.
    fn export_name(&mut self, data: &[u8], out: &mut Vec<u8>) -> Next {
        let Some(name) = std::str::from_utf8(data).ok().filter(|n| self.export.is_called(n)) else {
            return Next::Close;
        };
        name.clone_into(&mut self.opened);
        out.extend(self.export.size_bytes.to_be_bytes());
        out.extend(self.flags().to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; 124]);
        }
        Next::Transmission
    }

    /// DF speaks of chunks, so that it is only offered with them.
    fn flags(&self) -> u16 {
        if self.structured { self.export.flags } else { self.export.flags & !can::DF }
    }

    fn info(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        let Some((name, asked)) = parse_info(data) else {
            answer(out, number, reply::ERR_INVALID, b"the option's data does not read");
            return Next::Option;
        };
        let export = self.export;
        if !export.is_called(name) {
            answer(out, number, reply::ERR_UNKNOWN, b"there is no export of this name");
            return Next::Option;
        }
        let mut say = |kind: u16, parts: &[&[u8]]| {
            let data = [&[&kind.to_be_bytes()[..]], parts].concat().concat();
            answer(out, number, reply::INFO, &data);
        };
        let flags = self.flags().to_be_bytes();
        say(info::EXPORT, &[&export.size_bytes.to_be_bytes(), &flags]);
        if asked.contains(&info::NAME) {
            say(info::NAME, &[export.name.as_bytes()]);
        }
        if asked.contains(&info::DESCRIPTION) {
            say(info::DESCRIPTION, &[b"a volume attached by drystone"]);
        }
        // Said to all: who did not ask ignores it, and the disk takes any bytes from them.
        let sizes = [export.block_bytes, export.preferred_bytes, PAYLOAD_BYTES_MAX];
        say(info::BLOCK_SIZE, &[&sizes.map(u32::to_be_bytes).concat()]);
        answer(out, number, reply::ACK, &[]);
        if number == option::INFO {
            return Next::Option;
        }
        name.clone_into(&mut self.opened);
        Next::Transmission
    }

    fn contexts(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) {
        let set = number == option::SET_META_CONTEXT;
        if set {
            self.allocation_of = None; // each choice replaces the one before, also a bad one
        }
        let Some((name, queries)) = parse_contexts(data).filter(|_| self.structured) else {
            answer(out, number, reply::ERR_INVALID, b"structured replies first, then contexts");
            return;
        };
        if !self.export.is_called(name) {
            answer(out, number, reply::ERR_UNKNOWN, b"there is no export of this name");
            return;
        }
        let wanted = if set {
            queries.contains(&ALLOCATION)
        } else {
            queries.is_empty() || queries.iter().any(|q| *q == ALLOCATION || *q == "base:")
        };
        if wanted {
            // The number has a meaning only once the context was chosen.
            let id = if set { ALLOCATION_ID } else { 0 };
            let data = [&id.to_be_bytes(), ALLOCATION.as_bytes()].concat();
            answer(out, number, reply::META_CONTEXT, &data);
            if set {
                self.allocation_of = Some(name.to_owned());
            }
        }
        answer(out, number, reply::ACK, &[]);
    }
}

/// The name of an export and the kinds of information asked for.
fn parse_info(mut data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let name = take_string(&mut data)?;
    let count = take_u16(&mut data)?;
    let asked = (0..count).map(|_| take_u16(&mut data)).collect::<Option<Vec<_>>>()?;
    data.is_empty().then_some((name, asked))
}

/// The name of an export and queries for contexts.
fn parse_contexts(mut data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let name = take_string(&mut data)?;
    let count = take_u32(&mut data)?;
    // No capacity from `count`, which anybody can write: it ends with the data.
    let queries = (0..count).map(|_| take_string(&mut data)).collect::<Option<Vec<_>>>()?;
    data.is_empty().then_some((name, queries))
}

fn string(text: &str) -> Vec<u8> {
    let len = u32::try_from(text.len()).expect("names are short");
    [&len.to_be_bytes(), text.as_bytes()].concat()
}

fn answer(out: &mut Vec<u8>, number: u32, kind: u32, data: &[u8]) {
    let len = u32::try_from(data.len()).expect("answers are short");
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    for word in [number, kind, len] {
        out.extend(word.to_be_bytes());
    }
    out.extend(data);
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
