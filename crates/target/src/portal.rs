//! Portals: listening sockets, and the dealing of connections to cores.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::wait::Event;
use ring::{Listener, Remote, Stream};

use crate::login::{self, Admission};
use crate::quiet::{ACCEPT, FLOOD, quietly};
use crate::shared::{Counted, Shared};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u16 = 1024;

/// Connections that are told at the same time that they cannot come in, beside those that
/// [`Limits`](crate::Limits) allows; others are just closed.
pub const REFUSALS_MAX: usize = 16;

/// How often, and how soon after each other, it is looked whether connections that gave way are gone.
const CLOSING_LOOKS: usize = 100;
const CLOSING_PAUSE: Duration = Duration::from_millis(1);

/// Binds all portals on this core and starts accepting. Returns the addresses as bound.
///
/// # Errors
/// The first portal that cannot be had, with its address.
pub(crate) fn open(
    shared: &Arc<Shared>,
    portals: &[SocketAddr],
) -> Result<Vec<SocketAddr>, (SocketAddr, io::Error)> {
    let mut listeners = Vec::with_capacity(portals.len());
    let mut bound = Vec::with_capacity(portals.len());
    for &portal in portals {
        let listener = Listener::bind(portal, BACKLOG).map_err(|error| (portal, error))?;
        bound.push(listener.local_addr().map_err(|error| (portal, error))?);
        listeners.push(listener);
    }
    for listener in listeners {
        // It goes on until the server stops.
        let ended = Rc::new(Event::default());
        ring::spawn(accept_loop(shared.clone(), listener, ended));
    }
    Ok(bound)
}

/// Listens at an address that this host need not have yet, on this core, until `ended` is set.
///
/// # Errors
/// The address or the port cannot be had.
pub(crate) fn open_floating(
    shared: &Arc<Shared>,
    address: SocketAddr,
    ended: Rc<Event>,
) -> io::Result<()> {
    let listener = Listener::bind_floating(address, BACKLOG)?;
    ring::spawn(accept_loop(shared.clone(), listener, ended));
    Ok(())
}

async fn accept_loop(shared: Arc<Shared>, listener: Listener, ended: Rc<Event>) {
    while !shared.is_stopping() {
        let Some(accepted) = ended.or(listener.accept()).await else { return };
        match accepted {
            Ok((stream, peer)) => {
                wait_for_closing(&shared).await;
                if let Ok(fd) = stream.into_fd() {
                    deal(&shared, fd, peer);
                }
            }
            Err(error) => {
                quietly!(ACCEPT, warn, "cannot accept a connection: {error}");
                // Out of file descriptors, mostly: the connection stays in the backlog.
                ring::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// What gave way to the connections before this one closes in the next turn of its core: a flood in
/// one piece is no reason to refuse somebody.
async fn wait_for_closing(shared: &Shared) {
    for _ in 0..CLOSING_LOOKS {
        if !shared.doors.is_overfull() {
            return;
        }
        ring::sleep(CLOSING_PAUSE).await;
    }
}

/// Gives a connection to the core that has the fewest.
fn deal(shared: &Arc<Shared>, fd: OwnedFd, peer: SocketAddr) {
    if shared.is_stopping() {
        return;
    }
    let core = shared.least_loaded();
    let Some(remote) = shared.cores().get(core) else { return };
    let (entered, login) = match shared.doors.enter(peer.ip()) {
        Ok(entered) => entered,
        Err(why) => {
            quietly!(FLOOD, warn, "refused a connection from {peer}: {why}");
            return refuse(shared, remote, fd, peer);
        }
    };
    let admission = Admission::new(entered, shared, core);
    let shared = shared.clone();
    remote.run(move || {
        ring::spawn(async move {
            let stream = Stream::from_fd(fd);
            set_options(&shared, &stream);
            login::serve(&shared, stream, peer, admission, login).await;
        });
    });
}

/// Tells a host that it cannot come in now, unless too many are being told so.
fn refuse(shared: &Arc<Shared>, remote: &Remote, fd: OwnedFd, peer: SocketAddr) {
    let Some(counted) = Counted::take(shared, |shared| &shared.refusals, REFUSALS_MAX) else {
        return;
    };
    let shared = shared.clone();
    remote.run(move || {
        ring::spawn(async move {
            login::refuse(&shared, Stream::from_fd(fd), peer).await;
            drop(counted);
        });
    });
}

/// What a socket keeps of output that has not been sent. Of peers that take nothing five hundred would
/// otherwise have all memory that the kernel gives to TCP, and everybody's packets would be dropped.
const UNSENT_BYTES: u32 = 256 << 10;

/// Socket options of a data connection. Congestion control matters: a paced one (BBR) costs four
/// times as much per byte on a fast local network.
fn set_options(shared: &Shared, stream: &Stream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("TCP_NODELAY: {error}");
    }
    if let Err(error) = stream.set_user_timeout(shared.limits.stall_timeout) {
        tracing::debug!("TCP_USER_TIMEOUT: {error}");
    }
    if let Err(error) = stream.set_unsent_max(UNSENT_BYTES) {
        tracing::debug!("TCP_NOTSENT_LOWAT: {error}");
    }
    if let Some(name) = &shared.congestion
        && let Err(error) = stream.set_congestion(name)
    {
        quietly!(
            CONGESTION,
            warn,
            "TCP congestion control {name:?} is not to be had ({error}); the system's own is used"
        );
    }
}

static CONGESTION: crate::quiet::Quiet = crate::quiet::Quiet::new();
