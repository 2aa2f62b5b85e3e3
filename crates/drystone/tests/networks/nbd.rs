//! A small blocking NBD client: fixed newstyle, one request at a time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTS_MAGIC: u64 = 0x4948_4156_454f_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const EXPORT_NAME: u32 = 1;
const FIXED_NO_ZEROES: u32 = 3;

/// The longest that any request may take: far beyond what is asked of a disk.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to an export.
#[derive(Debug)]
pub(crate) struct Nbd {
    socket: UnixStream,
    handle: u64,
}

impl Nbd {
    pub(crate) fn open(path: &Path) -> io::Result<Nbd> {
        let mut socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting)?;
        assert_eq!(greeting[8..16], OPTS_MAGIC.to_be_bytes(), "newstyle");
        socket.write_all(&FIXED_NO_ZEROES.to_be_bytes())?;
        socket.write_all(&OPTS_MAGIC.to_be_bytes())?;
        socket.write_all(&EXPORT_NAME.to_be_bytes())?;
        socket.write_all(&0_u32.to_be_bytes())?;
        socket.read_exact(&mut [0; 10])?;
        Ok(Nbd { socket, handle: 0 })
    }

    fn request(&mut self, command: u16, at: u64, len: usize, data: &[u8]) -> io::Result<()> {
        self.handle += 1;
        let len = u32::try_from(len).expect("requests are short");
        let mut request = REQUEST_MAGIC.to_be_bytes().to_vec();
        request.extend([0; 2]);
        request.extend(command.to_be_bytes());
        request.extend(self.handle.to_be_bytes());
        request.extend(at.to_be_bytes());
        request.extend(len.to_be_bytes());
        request.extend(data);
        self.socket.write_all(&request)?;
        let mut reply = [0; 16];
        self.socket.read_exact(&mut reply)?;
        assert_eq!(reply[..4], REPLY_MAGIC.to_be_bytes());
        assert_eq!(reply[8..], self.handle.to_be_bytes());
        match reply[4..8] {
            [0, 0, 0, 0] => Ok(()),
            [_, _, _, errno] => Err(io::Error::from_raw_os_error(errno.into())),
            _ => unreachable!("it has four bytes"),
        }
    }

    pub(crate) fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.request(0, at, bytes.len(), &[])?;
        self.socket.read_exact(bytes)
    }

    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.request(1, at, bytes.len(), bytes)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.request(3, 0, 0, &[])
    }
}
