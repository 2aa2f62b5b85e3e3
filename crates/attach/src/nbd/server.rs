//! Listening, and the connections that come of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::wait::{Bell, Event};
use ring::{Listener, Stream, UnixListener};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::connection::Connection;
use super::handshake::Export;
use crate::Disk;

/// Connections at once. Each can hold 16 MiB of payload, or one request of 32 MiB, so this bounds
/// memory; half a GiB in all; clients with several connections use 4 to 16.
const CONNECTIONS_MAX: usize = 16;

/// How long to wait after an accept that failed, as when no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const BACKLOG: u16 = 128;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket, made at this path and removed at the end.
    Unix(PathBuf),
    /// TCP; port 0 takes a free one.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "{address}"),
        }
    }
}

/// An NBD server for one disk, on one core.
#[derive(Debug)]
pub struct Server {
    shared: Rc<Shared>,
    address: Address,
    /// The socket file that is ours: device and inode.
    file: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<Disk>,
    export: Export,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    next_id: Cell<u64>,
    stopping: Event,
    changed: Bell,
}

enum Socket {
    Unix(UnixListener),
    Tcp(Listener),
}

impl Server {
    /// Listens, on the core that this is called on. The export is called `name`, and answers to the
    /// empty name too.
    ///
    /// # Errors
    /// When the address cannot be used: [`io::ErrorKind::AddrInUse`] if somebody listens there. A socket
    /// file that nobody listens on is replaced.
    pub fn start(disk: Arc<Disk>, name: &str, address: &Address) -> io::Result<Server> {
        let mut file = None;
        let (socket, address) = match address {
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let made = fs::symlink_metadata(path)?;
                file = Some((made.dev(), made.ino()));
                (Socket::Unix(listener), address.clone())
            }
            Address::Tcp(address) => {
                let listener = Listener::bind(*address, BACKLOG)?;
                let bound = Address::Tcp(listener.local_addr()?);
                (Socket::Tcp(listener), bound)
            }
        };
        let shared = Rc::new(Shared {
            export: Export::new(name, &disk.geometry()),
            disk,
            connections: RefCell::default(),
            next_id: Cell::new(0),
            stopping: Event::default(),
            changed: Bell::default(),
        });
        ring::spawn(shared.clone().accept(socket));
        Ok(Server { shared, address, file })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Clients connected now.
    pub fn clients(&self) -> usize {
        self.shared.connections.borrow().len()
    }

    /// Takes no more clients and no more requests, answers what was taken, and closes. Clients that
    /// do not take their answers are cut off after `grace`.
    pub async fn stop(self, grace: Duration) {
        self.shared.stopping.set();
        self.shared.each(|connection| connection.stopping.set());
        if ring::timeout(grace, self.shared.all_gone()).await.is_none() {
            self.shared.each(Connection::cut);
            self.shared.all_gone().await;
        }
        if let (Address::Unix(path), Some(ours)) = (&self.address, self.file) {
            let still = fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()));
            if still.is_ok_and(|file| file == ours)
                && let Err(error) = fs::remove_file(path)
            {
                tracing::warn!("cannot remove the socket '{}': {error}", path.display());
            }
        }
    }
}

/// Makes a Unix socket; one that an ended process left is removed first.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let in_use = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        result => return result,
    };
    if !fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is a file of this name that is not a socket: move it, or name another path",
        ));
    }
    if !is_refused(path)? {
        return Err(in_use);
    }
    fs::remove_file(path)?;
    UnixListener::bind(path)
}

/// Whether nobody listens. One that takes no connections, and has many waiting, is not waited for.
fn is_refused(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    let connected = connect(&socket, &SocketAddrUnix::new(path)?);
    Ok(connected == Err(Errno::CONNREFUSED))
}

impl Socket {
    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Socket::Unix(listener) => listener.accept().await,
            Socket::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
        }
    }
}

impl Shared {
    async fn accept(self: Rc<Self>, socket: Socket) {
        while let Some(accepted) = self.stopping.or(socket.accept()).await {
            match accepted {
                Ok(stream) => self.clone().admit(stream),
                Err(error) => {
                    tracing::warn!("cannot accept an NBD client: {error}");
                    ring::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn admit(self: Rc<Self>, stream: Stream) {
        if self.connections.borrow().len() >= CONNECTIONS_MAX {
            tracing::warn!("an NBD client was turned away: {CONNECTIONS_MAX} are connected");
            return;
        }
        let id = self.next_id.replace(self.next_id.get() + 1);
        // A client keeps the size that it is told when it connects.
        let export = Export { size_bytes: self.disk.size_bytes(), ..self.export.clone() };
        let connection = Connection::new(stream, self.disk.clone());
        self.connections.borrow_mut().insert(id, connection.clone());
        ring::spawn(async move {
            if let Err(error) = connection.serve(&export).await {
                tracing::info!("an NBD client was lost: {error}");
            }
            self.connections.borrow_mut().remove(&id);
            self.changed.ring();
        });
    }

    fn each(&self, act: impl Fn(&Connection)) {
        self.connections.borrow().values().for_each(|connection| act(connection));
    }

    async fn all_gone(&self) {
        self.changed.until(|| self.connections.borrow().is_empty()).await;
    }
}
