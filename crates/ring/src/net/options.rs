//! Addresses and socket options, which neither std nor the ring cover.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn check(rc: libc::c_int) -> io::Result<libc::c_int> {
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

/// A TCP socket of the family of `address`.
pub(super) fn socket(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: takes numbers, returns a descriptor or -1.
    let fd = check(unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an integer option.
pub(super) fn set_number(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Sets an option from its bytes.
pub(super) fn set_bytes(fd: &OwnedFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let len = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: `value` is readable for `len` bytes, and the kernel reads no more.
    let rc = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    check(rc).map(drop)
}

/// Whether closing throws away what is queued to be sent, and resets the connection (`SO_LINGER` with
/// a time of 0), or leaves it to the kernel to send on.
pub(super) fn set_abortive(fd: &OwnedFd, on: bool) -> io::Result<()> {
    let [on, off] = [i32::from(on).to_ne_bytes(), 0_i32.to_ne_bytes()];
    set_bytes(fd, libc::SOL_SOCKET, libc::SO_LINGER, &[on, off].concat())
}

/// Ends a TCP connection at once by a reset; its queue is thrown away, whoever holds the descriptor.
pub(super) fn disconnect(fd: &OwnedFd) -> io::Result<()> {
    let nowhere =
        libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` bytes of an address that lives until the call is over.
    check(unsafe { libc::connect(fd.as_raw_fd(), &raw const nowhere, len) }).map(drop)
}

/// `tcpi_bytes_acked` of `struct tcp_info` (linux/tcp.h), since Linux 4.1.
pub(super) fn acknowledged_bytes(fd: &OwnedFd) -> io::Result<u64> {
    tcp_info::<128>(fd)?
        .last_chunk()
        .map(|bytes| u64::from_ne_bytes(*bytes))
        .ok_or_else(unsupported)
}

/// `tcpi_bytes_received` of `struct tcp_info`, since Linux 4.1.
pub(super) fn received_bytes(fd: &OwnedFd) -> io::Result<u64> {
    tcp_info::<136>(fd)?
        .last_chunk()
        .map(|bytes| u64::from_ne_bytes(*bytes))
        .ok_or_else(unsupported)
}

/// Bytes that have come and that nobody has read (`SIOCINQ`).
pub(super) fn unread_bytes(fd: &OwnedFd) -> io::Result<usize> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the kernel writes one integer, which lives until the call is over.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    usize::try_from(bytes).map_err(io::Error::other)
}

/// `tcpi_retransmits` of `struct tcp_info`.
pub(super) fn retransmits(fd: &OwnedFd) -> io::Result<u8> {
    Ok(tcp_info::<3>(fd)?[2])
}

/// The first bytes of `struct tcp_info`.
fn tcp_info<const LEN: usize>(fd: &OwnedFd) -> io::Result<[u8; LEN]> {
    let mut info = [0_u8; LEN];
    let mut len = info.len() as libc::socklen_t;
    let value = info.as_mut_ptr().cast();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: the kernel writes at most `len` bytes, all of which lie in `info`.
    check(unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value, &raw mut len) })?;
    if len as usize == LEN { Ok(info) } else { Err(unsupported()) }
}

fn unsupported() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

type AddressCall =
    unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

pub(super) fn local_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    address_by(fd, libc::getsockname)
}

pub(super) fn peer_addr(fd: &OwnedFd) -> io::Result<SocketAddr> {
    address_by(fd, libc::getpeername)
}

fn address_by(fd: &OwnedFd, call: AddressCall) -> io::Result<SocketAddr> {
    // SAFETY: an address is plain bytes, for which zeroes are valid.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the call fills at most `len` bytes of the storage.
    check(unsafe { call(fd.as_raw_fd(), (&raw mut storage).cast(), &raw mut len) })?;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the kernel wrote an IPv4 address; storage is large and
            // aligned enough for every kind.
            let v4 = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in>() };
            let ip = u32::from_be(v4.sin_addr.s_addr).into();
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for IPv6.
            let v6 = unsafe { &*(&raw const storage).cast::<libc::sockaddr_in6>() };
            let ip = v6.sin6_addr.s6_addr.into();
            let (port, flow) = (u16::from_be(v6.sin6_port), v6.sin6_flowinfo);
            Ok(SocketAddrV6::new(ip, port, flow, v6.sin6_scope_id).into())
        }
        family => Err(io::Error::other(format!("address family {family} is not IP"))),
    }
}

pub(super) fn bind(fd: &OwnedFd, address: &SocketAddr) -> io::Result<()> {
    let rc = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the kernel reads exactly this structure.
            unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), size_of_val(&raw) as u32) }
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the kernel reads exactly this structure.
            unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), size_of_val(&raw) as u32) }
        }
    };
    check(rc).map(drop)
}

pub(super) fn listen(fd: &OwnedFd, backlog: u16) -> io::Result<()> {
    // SAFETY: takes two numbers.
    check(unsafe { libc::listen(fd.as_raw_fd(), i32::from(backlog)) }).map(drop)
}

pub(super) fn shutdown(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes two numbers.
    check(unsafe { libc::shutdown(fd.as_raw_fd(), libc::SHUT_RDWR) }).map(drop)
}
