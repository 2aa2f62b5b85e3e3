//! Whether portals can be had, before anything is made for them.

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};
use target::StartError;

/// How long a portal may still be in use: the kernel takes its time to close the sockets of a process
/// that was killed while it used io_uring.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// Binds each portal for a moment, as the server will. Nobody can connect meanwhile.
pub(crate) fn probe(portals: &[SocketAddr]) -> Result<(), StartError> {
    let deadline = Instant::now() + PATIENCE;
    let probe = |portal: &SocketAddr| loop {
        match try_bind(portal) {
            Err(source) if source.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            bound => {
                return bound.map_err(|source| StartError::Portal { portal: *portal, source });
            }
        }
    };
    portals.iter().try_for_each(probe)
}

/// Binds a portal for a moment.
pub(crate) fn try_bind(portal: &SocketAddr) -> io::Result<()> {
    let family = match portal {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // As the server does: only a socket that listens is in the way.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if portal.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, portal)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_portal_in_use_is_noticed_and_a_free_one_stays_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = taken.local_addr().unwrap();
        let refused = probe(&["127.0.0.1:0".parse().unwrap(), portal]).unwrap_err();
        let StartError::Portal { portal: named, source } = refused else { panic!("{refused}") };
        assert_eq!((named, source.kind()), (portal, io::ErrorKind::AddrInUse));
        drop(taken);
        probe(&[portal]).unwrap();
        TcpListener::bind(portal).unwrap();
    }

    #[test]
    fn a_portal_that_a_killed_process_still_has_is_waited_for() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = taken.local_addr().unwrap();
        let closing = thread::spawn(|| {
            thread::sleep(Duration::from_millis(400));
            drop(taken);
        });
        probe(&[portal]).unwrap();
        closing.join().unwrap();
    }
}
