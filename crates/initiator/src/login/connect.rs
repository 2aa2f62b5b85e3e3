//! Name resolution and TCP connection.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::time::Duration;

use iscsi::discovery::PortalAddress;
use ring::Stream;
use ring::wait::join_all;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect as start, socket_with};

use crate::options::SessionOptions;

/// The pauses between two looks at a connection that is being made.
const ASK_MIN: Duration = Duration::from_millis(1);
const ASK_MAX: Duration = Duration::from_millis(16);

/// The first of the portal's addresses that answers within the time that `options` give. From the
/// address of this host that they name, if they do, else from the one that the kernel chooses.
///
/// However it ends, a crash of this process included, what the kernel has not sent by then is thrown
/// away (decision 0013): a write that it sends once the network is whole again would come back over
/// newer ones.
pub(super) async fn connect(
    portal: &PortalAddress,
    options: &SessionOptions,
) -> io::Result<Stream> {
    let stream = Stream::from_fd(connected(portal, options).await?);
    stream.set_nodelay(true)?;
    stream.set_abortive(true)?;
    // What nobody acknowledges ends the connection even if this process has no time to look.
    stream.set_user_timeout(options.nop_interval + options.nop_timeout)?;
    Ok(stream)
}

/// Whether a connection can be made.
pub(crate) async fn can_connect(portal: &PortalAddress, options: &SessionOptions) -> bool {
    connected(portal, options).await.is_ok()
}

async fn connected(portal: &PortalAddress, options: &SessionOptions) -> io::Result<OwnedFd> {
    let attempt = async {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in resolve(portal).await? {
            match connect_to(options.local, address).await {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    let over = ring::timeout(options.connect_timeout, attempt).await;
    over.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
}

/// Names are looked up on a helper thread, of which there are few: an address needs none, so that no
/// login waits for one that leads nowhere.
async fn resolve(portal: &PortalAddress) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = portal.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, portal.port)]);
    }
    let endpoint = (portal.host.clone(), portal.port);
    ring::blocking(move || {
        Ok((endpoint.0.as_str(), endpoint.1).to_socket_addrs()?.collect::<Vec<_>>())
    })
    .await
}

/// Asks now and again whether the kernel is through, which the ring has no call for.
async fn connect_to(local: Option<IpAddr>, to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = begin(local, to)?;
    let mut pause = ASK_MIN;
    while poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&Timespec::default()))? == 0 {
        ring::sleep(pause).await;
        pause = (pause * 2).min(ASK_MAX);
    }
    finished(&socket)?;
    Ok(socket)
}

fn begin(local: Option<IpAddr>, to: SocketAddr) -> io::Result<OwnedFd> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(local) = local {
        bind(&socket, &SocketAddr::new(local, 0))?;
    }
    match start(&socket, &to) {
        Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        result => Ok(result.map(|()| socket)?),
    }
}

fn finished(socket: &OwnedFd) -> io::Result<()> {
    rustix::net::sockopt::socket_error(socket)??;
    // The ring waits by itself; it must not be told to come again.
    Ok(rustix::io::ioctl_fionbio(socket, false)?)
}

/// Which of the ways, each from an address of this host to a portal, take a TCP connection within
/// `time`: all are tried at once.
pub(crate) async fn answer_within(ways: &[(IpAddr, SocketAddr)], time: Duration) -> Vec<bool> {
    let attempts = ways.iter().map(|&(local, to)| ring::timeout(time, connect_to(Some(local), to)));
    let is_open = |over: Option<io::Result<OwnedFd>>| over.is_some_and(|socket| socket.is_ok());
    join_all::<_, Vec<_>>(attempts).await.into_iter().map(is_open).collect()
}
