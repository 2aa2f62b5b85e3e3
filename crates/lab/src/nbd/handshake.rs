//! From a socket to an export that is ready for requests.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use attach::nbd::wire::{self, can, handshake, info, option, reply, take_u16, take_u32, take_u64};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use super::address::{NbdAddress, Place};

/// Answers of a server are short; more is no NBD.
const ANSWER_BYTES_MAX: u32 = 1 << 16;
/// A server may tell many things about an export, each in an answer.
const ANSWERS_MAX: u32 = 100;
/// What the protocol allows where a server does not say: requests of 32 MiB.
const REQUEST_BYTES_MAX: u32 = 32 << 20;
/// Between two looks whether a socket with many waiting takes one more.
const PAUSE: Duration = Duration::from_millis(20);

/// What a server tells of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// Its size.
    pub size_bytes: u64,
    /// Of [`wire::can`].
    pub flags: u16,
    /// Requests are multiples of this.
    pub block_bytes_min: u32,
    /// The longest request.
    pub request_bytes_max: u32,
}

impl Export {
    /// Whether it can do something, of [`wire::can`].
    #[must_use]
    pub fn can(&self, flag: u16) -> bool {
        self.flags & can::HAS_FLAGS != 0 && self.flags & flag != 0
    }
}

/// Why there is no connection to an export.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// Nobody listens, or the connection broke.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// The server.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// What answers speaks something else.
    #[error("{address} is no NBD server that the lab understands: {what}")]
    Protocol {
        /// The server.
        address: String,
        /// What was strange: which field, which value.
        what: String,
    },
    /// It does not give the export away.
    #[error("the server refuses {address}: {why}")]
    Refused {
        /// The export.
        address: String,
        /// Why.
        why: String,
    },
    /// Blocks that no disk here has.
    #[error("{address} takes multiples of {block_bytes} bytes; the lab does 512 and 4096")]
    Blocks {
        /// The export.
        address: String,
        /// Its least request.
        block_bytes: u32,
    },
    /// Several connections to a server that does not keep them together.
    #[error(
        "{0} takes one connection safely (no multi-conn): leave out --sessions, or write 1 there"
    )]
    OneConnection(String),
}

trait Socket: Read + Write {}
impl<T: Read + Write> Socket for T {}

/// Why a handshake went wrong, before it is known whose it was.
enum Fault {
    Io(io::Error),
    Strange(String),
    Refused(String),
}

fn strange(what: impl Into<String>) -> Fault {
    Fault::Strange(what.into())
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Connects and takes the export. Blocks, `timeout` at each step. Nothing was read beyond the handshake.
///
/// # Errors
/// A [`NbdError`].
pub fn connect(address: &NbdAddress, timeout: Duration) -> Result<(OwnedFd, Export), NbdError> {
    let text = || address.to_string();
    let connected = match &address.place {
        Place::Unix(path) => unix(path, timeout).map_err(Fault::Io).and_then(|mut socket| {
            socket.set_read_timeout(Some(timeout))?;
            socket.set_write_timeout(Some(timeout))?;
            let export = shake(&mut socket, &address.export)?;
            Ok((OwnedFd::from(socket), export))
        }),
        Place::Tcp(host, port) => {
            tcp(host, *port, timeout).map_err(Fault::Io).and_then(|mut socket| {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                let export = shake(&mut socket, &address.export)?;
                Ok((OwnedFd::from(socket), export))
            })
        }
    };
    connected.map_err(|fault| match fault {
        Fault::Io(error) => NbdError::Connect { address: text(), error },
        Fault::Strange(what) => NbdError::Protocol { address: text(), what },
        Fault::Refused(why) => NbdError::Refused { address: text(), why },
    })
}

/// A server that is stopped takes no connections, and once enough are waiting a connect would wait without end.
fn unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let (address, begun) = (SocketAddrUnix::new(path)?, Instant::now());
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) if begun.elapsed() < timeout => thread::sleep(PAUSE),
            Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn shake(socket: &mut dyn Socket, name: &str) -> Result<Export, Fault> {
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting)?;
    let mut rest = &greeting[..];
    for (field, expected) in [("greeting", wire::MAGIC), ("second word", wire::OPTION_MAGIC)] {
        let found = take_u64(&mut rest).unwrap_or(0);
        if found != expected {
            return Err(strange(format!("its {field} is {found:#018x}, not {expected:#018x}")));
        }
    }
    let offered = take_u16(&mut rest).unwrap_or(0);
    if offered & handshake::FIXED_NEWSTYLE == 0 {
        return Err(strange(format!(
            "it is older than the fixed newstyle handshake (handshake flags {offered:#06x})"
        )));
    }
    let taken = offered & (handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES);
    socket.write_all(&u32::from(taken).to_be_bytes())?;
    match go(socket, name)? {
        Some(export) => Ok(export),
        None => export_name(socket, name, taken & handshake::NO_ZEROES != 0),
    }
}

fn ask(socket: &mut dyn Socket, number: u32, data: &[u8]) -> io::Result<()> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(data);
    socket.write_all(&bytes)
}

/// `None` when the server is too old for GO.
fn go(socket: &mut dyn Socket, name: &str) -> Result<Option<Export>, Fault> {
    let mut data = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    data.extend(name.as_bytes());
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    ask(socket, option::GO, &data)?;
    let mut found = None;
    let (mut block_bytes_min, mut request_bytes_max) = (1, REQUEST_BYTES_MAX);
    for _ in 0..ANSWERS_MAX {
        let (kind, data) = answer(socket)?;
        let mut rest = &data[..];
        match kind {
            reply::ACK => {
                let (size_bytes, flags) =
                    found.ok_or_else(|| strange("it gives an export without its size"))?;
                return Ok(Some(Export { size_bytes, flags, block_bytes_min, request_bytes_max }));
            }
            reply::INFO => match take_u16(&mut rest) {
                Some(info::EXPORT) => {
                    found = take_u64(&mut rest).zip(take_u16(&mut rest));
                }
                Some(info::BLOCK_SIZE) => {
                    let sizes = (take_u32(&mut rest), take_u32(&mut rest), take_u32(&mut rest));
                    let (Some(least), _, Some(most)) = sizes else {
                        let len = data.len();
                        return Err(strange(format!("its block sizes take {len} bytes, not 14")));
                    };
                    (block_bytes_min, request_bytes_max) = (least, most.min(REQUEST_BYTES_MAX));
                }
                _ => {}
            },
            reply::ERR_UNSUP => return Ok(None),
            reply::ERR_UNKNOWN => return Err(Fault::Refused("there is no such export".to_owned())),
            error => {
                let said = String::from_utf8_lossy(&data).into_owned();
                let number = error & !(1 << 31);
                return Err(Fault::Refused(match said.is_empty() {
                    true => format!("error {number}"),
                    false => said,
                }));
            }
        }
    }
    Err(strange(format!("it gives more than {ANSWERS_MAX} answers to one option")))
}

/// Kind and data of an answer to GO.
fn answer(socket: &mut dyn Socket) -> Result<(u32, Vec<u8>), Fault> {
    let mut head = [0; 20];
    socket.read_exact(&mut head)?;
    let mut rest = &head[..];
    let (magic, number) = (take_u64(&mut rest), take_u32(&mut rest));
    let (magic, number) = (magic.unwrap_or(0), number.unwrap_or(0));
    if magic != wire::OPTION_REPLY_MAGIC {
        let expected = wire::OPTION_REPLY_MAGIC;
        return Err(strange(format!(
            "an answer to an option begins with {magic:#018x}, not {expected:#018x}"
        )));
    }
    if number != option::GO {
        return Err(strange(format!("it answers option {number}, and was asked {}", option::GO)));
    }
    let kind = take_u32(&mut rest).unwrap_or(0);
    let len = take_u32(&mut rest).unwrap_or(0);
    if len > ANSWER_BYTES_MAX {
        return Err(strange(format!(
            "an answer to an option says that it has {len} bytes, more than {ANSWER_BYTES_MAX}"
        )));
    }
    let mut data = vec![0; len as usize];
    socket.read_exact(&mut data)?;
    Ok((kind, data))
}

/// The older way: a server that does not have the export closes.
fn export_name(socket: &mut dyn Socket, name: &str, no_zeroes: bool) -> Result<Export, Fault> {
    ask(socket, option::EXPORT_NAME, name.as_bytes())?;
    let mut bytes = [0; 10];
    socket.read_exact(&mut bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Fault::Refused("there is no such export".to_owned()),
        _ => Fault::Io(error),
    })?;
    if !no_zeroes {
        socket.read_exact(&mut [0; 124])?;
    }
    let mut rest = &bytes[..];
    let size_bytes = take_u64(&mut rest).unwrap_or(0);
    let flags = take_u16(&mut rest).unwrap_or(0);
    Ok(Export { size_bytes, flags, block_bytes_min: 1, request_bytes_max: REQUEST_BYTES_MAX })
}
