//! Name resolution and TCP connection, on a helper thread: both are rare and have no call on the ring.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use iscsi::discovery::PortalAddress;
use ring::Stream;

/// The first of the portal's addresses that answers within `timeout`.
pub(super) async fn connect(portal: &PortalAddress, timeout: Duration) -> io::Result<Stream> {
    let endpoint = (portal.host.clone(), portal.port);
    let socket = ring::blocking(move || connect_blocking(&endpoint, timeout)).await?;
    let stream = Stream::from_fd(socket.into());
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn connect_blocking(endpoint: &(String, u16), timeout: Duration) -> io::Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (endpoint.0.as_str(), endpoint.1).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}
