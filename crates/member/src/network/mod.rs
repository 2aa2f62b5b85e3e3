//! The interfaces of this host, as far as the address of the group is concerned: whether it can be put on one, that it
//! is there for no longer than it may be, and who hears of it.
//!
//! All of it asks the kernel and waits for its answer: it is no work for a core.

mod announce;
mod netlink;

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use group::address::{GroupAddress, Holding};
use group::ownership::Moment;
use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
    sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

use netlink::{InterfaceAddress, Link, Said};

/// How long the kernel may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What one answer of the kernel has at most (rtnetlink(7): 32 KiB suffice for dumps of all that is asked for here).
const DATAGRAM_BYTES: usize = 64 << 10;

/// Why an address is not put on an interface of this host.
#[derive(Debug, Error)]
pub(crate) enum NetworkError {
    /// The process has not the right to.
    #[error(
        "this member may not change addresses of its host: give it CAP_NET_ADMIN (AmbientCapabilities= and \
         CapabilityBoundingSet= of its systemd unit), or run it as root"
    )]
    NotAllowed,
    /// None of its interfaces is in that network, or none that has a link.
    #[error(
        "no interface of its host that is up has an address in the network of {0}, with that prefix ('ip address' shows \
         which there are)"
    )]
    NoInterface(GroupAddress),
    /// It is the host's own.
    #[error(
        "an interface of its host has {0} for itself: take it away there (ip address delete), or choose another address \
         for the group"
    )]
    Own(IpAddr),
    /// Sockets of this kind cannot be made here.
    #[error(
        "this member cannot ask its host for addresses ({0}): let it have sockets of the family AF_NETLINK \
         (RestrictAddressFamilies= of its systemd unit)"
    )]
    NoNetlink(#[source] io::Error),
    /// The kernel says something else.
    #[error("its host does not take the address: {0}")]
    Kernel(#[from] io::Error),
}

/// The time by the clock that goes on while the machine sleeps.
pub(crate) fn boot_time() -> Moment {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let ms = u64::try_from(now.tv_nsec).unwrap_or_default() / 1_000_000;
    Moment(seconds * 1000 + ms)
}

/// The address of the group on an interface of this host, or on none. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placed {
    inner: Arc<Mutex<Inner>>,
    /// How often it was taken away, changed by who has `inner`: what was ordered before is not done afterwards.
    era: Arc<AtomicU64>,
}

/// Invariant: what was put on an interface and not taken away is known here.
#[derive(Debug, Default)]
struct Inner {
    on: Option<On>,
    /// Nothing is put anywhere any more.
    is_closed: bool,
}

/// An order to put an address somewhere, as long as nobody has it taken away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    address: GroupAddress,
    holding: Holding,
    era: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct On {
    interface: u32,
    address: GroupAddress,
}

/// What has become of an order to put it somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placing {
    /// It is on an interface on which it was not before.
    Comes,
    /// It is where it was.
    Stays,
    /// It is nowhere: the hold allows it no more.
    Late,
}

impl Placed {
    /// Whether somebody waits for the kernel: whoever comes now waits for both.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.inner.try_lock(), Err(TryLockError::WouldBlock))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What is known of the kernel is set behind what was done there, in one step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An order to put it there by this hold. It may be carried out late, or by nobody who waits for that.
    pub(crate) fn order(&self, address: GroupAddress, holding: Holding) -> Order {
        Order { address, holding, era: self.era.load(Ordering::Relaxed) }
    }

    /// Puts it on the interface that is in its network, for as long as the hold allows now; or lets it be there for so
    /// long again.
    ///
    /// # Errors
    /// [`NetworkError`]: it is nowhere then, or ends by its time.
    pub(crate) fn put(&self, order: Order) -> Result<Placing, NetworkError> {
        let Order { address, holding, era } = order;
        let mut inner = self.inner();
        let mut kernel = Kernel::ask()?;
        let interface = kernel.interface_for(address)?;
        let (on, before) = (On { interface, address }, inner.on);
        if let Some(before) = before.filter(|before| *before != on) {
            kernel.delete(before.interface, before.address)?;
            inner.on = None;
        }
        if inner.is_closed || era != self.era.load(Ordering::Relaxed) {
            return Ok(Placing::Late);
        }
        let Some(lifetime) = holding.lifetime_seconds(boot_time()) else {
            if inner.on.is_some() {
                kernel.delete(interface, address)?;
                inner.on = None;
            }
            return Ok(Placing::Late);
        };
        inner.on = Some(on);
        kernel.put(interface, address, lifetime)?;
        // Whoever is stopped between these lines goes on when another member may have it.
        if holding.ends_in_time(lifetime, boot_time()) {
            return Ok(if before == Some(on) { Placing::Stays } else { Placing::Comes });
        }
        kernel.delete(interface, address)?;
        inner.on = None;
        Ok(Placing::Late)
    }

    /// Takes it away, wherever it is.
    ///
    /// # Errors
    /// [`NetworkError`]: it ends by its time.
    pub(crate) fn take_away(&self) -> Result<(), NetworkError> {
        let mut inner = self.inner();
        self.era.fetch_add(1, Ordering::Relaxed);
        let Some(On { interface, address }) = inner.on else { return Ok(()) };
        Kernel::ask()?.delete(interface, address)?;
        inner.on = None;
        Ok(())
    }

    /// The same, and it is put nowhere any more.
    ///
    /// # Errors
    /// As [`take_away`](Self::take_away).
    pub(crate) fn close(&self) -> Result<(), NetworkError> {
        self.inner().is_closed = true;
        self.take_away()
    }

    /// What is on an interface, as far as the kernel has not taken it away.
    #[cfg(test)]
    fn address(&self) -> Option<GroupAddress> {
        self.inner().on.map(|on| on.address)
    }

    /// Tells neighbours that it is here, where it is on an interface. `seed` chooses who is asked for.
    ///
    /// # Errors
    /// They find out by themselves.
    pub(crate) fn announce(&self, seed: u32) -> Result<(), NetworkError> {
        let Some(On { interface, address }) = self.inner().on else { return Ok(()) };
        let hardware = Kernel::ask()?.link(interface)?.hardware;
        Ok(announce::announce(address, (interface, &hardware), seed)?)
    }
}

/// Whether this host could have that address, as it is now.
///
/// # Errors
/// Why it could not.
pub(crate) fn can_have(address: GroupAddress) -> Result<(), NetworkError> {
    let mut kernel = Kernel::ask()?;
    kernel.interface_for(address)?;
    kernel.may_change(address)
}

/// How this host stands to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// An interface has it.
    Own,
    /// An interface is in its network; whether that has a link does not matter.
    Beside,
    /// None is.
    Apart,
}

/// How this host stands to that address.
///
/// # Errors
/// As the kernel says.
pub(crate) fn standing_to(address: GroupAddress) -> Result<Standing, NetworkError> {
    let all = Kernel::ask()?.addresses()?;
    Ok(match all.iter().any(|own| own.ip == address.ip() && !own.is_lent) {
        true => Standing::Own,
        false if all.iter().any(|own| own.is_in_network_of(address)) => Standing::Beside,
        false => Standing::Apart,
    })
}

impl InterfaceAddress {
    /// Whether its interface is in the network of the address, by another address.
    fn is_in_network_of(&self, address: GroupAddress) -> bool {
        let is_alike = self.prefix_bits == address.prefix_bits();
        is_alike && self.ip != address.ip() && address.is_beside(self.ip)
    }
}

/// A socket to the part of the kernel that has the interfaces.
struct Kernel {
    socket: OwnedFd,
    /// Of the request that was sent last.
    sequence: u32,
}

impl Kernel {
    fn ask() -> Result<Self, NetworkError> {
        let made = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER_TIME))?;
            Ok(socket)
        };
        let socket = made().map_err(|error| NetworkError::NoNetlink(error.into()))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// The interface that is to have the address: one that has another one of its network, with its prefix, and that has a
    /// link. None, where this host has the address for itself.
    fn interface_for(&mut self, address: GroupAddress) -> Result<u32, NetworkError> {
        let mut beside = self.addresses()?;
        if beside.iter().any(|own| own.ip == address.ip() && !own.is_lent) {
            return Err(NetworkError::Own(address.ip()));
        }
        beside.retain(|own| own.is_in_network_of(address));
        beside.sort_by_key(|own| own.interface);
        for own in beside {
            if self.link(own.interface)?.is_up {
                return Ok(own.interface);
            }
        }
        Err(NetworkError::NoInterface(address))
    }

    fn addresses(&mut self) -> Result<Vec<InterfaceAddress>, NetworkError> {
        let mut all = Vec::new();
        self.request(netlink::get_addresses, |said| {
            if let Said::Address(address) = said {
                all.push(address);
            }
        })?;
        Ok(all)
    }

    fn link(&mut self, interface: u32) -> Result<Link, NetworkError> {
        let mut found = None;
        let get = |sequence| netlink::get_link(sequence, interface);
        self.request(get, |said| {
            if let Said::Link(link) = said {
                found = Some(link);
            }
        })?;
        Ok(found.unwrap_or(Link { is_up: false, hardware: Vec::new() }))
    }

    fn put(
        &mut self,
        interface: u32,
        address: GroupAddress,
        lifetime: NonZeroU32,
    ) -> Result<(), NetworkError> {
        let put = |sequence| netlink::put_address(sequence, interface, address, lifetime);
        self.request(put, |_| ()).map_err(refused)
    }

    /// Nothing is to do where it is gone already, or its interface is.
    fn delete(&mut self, interface: u32, address: GroupAddress) -> Result<(), NetworkError> {
        let delete = |sequence| netlink::delete_address(sequence, interface, address);
        match self.request(delete, |_| ()) {
            Err(Errno::ADDRNOTAVAIL | Errno::NODEV) => Ok(()),
            other => other.map_err(refused),
        }
    }

    /// Whether addresses of this host may be changed: asked by a change of an interface that there is not.
    fn may_change(&mut self, address: GroupAddress) -> Result<(), NetworkError> {
        self.delete(0, address)
    }

    /// Sends a request and hears all of its answers.
    fn request(
        &mut self,
        message: impl FnOnce(u32) -> Vec<u8>,
        mut hear: impl FnMut(Said),
    ) -> Result<(), Errno> {
        self.sequence += 1;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, &message(self.sequence), SendFlags::empty(), &kernel)?;
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            let (length, _) = recv(&self.socket, &mut datagram, RecvFlags::empty())?;
            for said in netlink::read(&datagram[..length], self.sequence) {
                match said {
                    Said::End(0) => return Ok(()),
                    Said::End(number) => return Err(Errno::from_raw_os_error(number)),
                    said => hear(said),
                }
            }
        }
    }
}

fn refused(error: Errno) -> NetworkError {
    match error {
        Errno::PERM | Errno::ACCESS => NetworkError::NotAllowed,
        error => NetworkError::Kernel(error.into()),
    }
}

impl From<Errno> for NetworkError {
    fn from(error: Errno) -> Self {
        Self::Kernel(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> GroupAddress {
        text.parse().expect("it is one")
    }

    #[test]
    fn the_loopback_is_beside_its_addresses_and_no_interface_beside_others() {
        assert_eq!(standing_to(address("127.0.0.9/8")).unwrap(), Standing::Beside);
        // TEST-NET-3 (RFC 5737) is the network of no host.
        assert_eq!(standing_to(address("203.0.113.100/24")).unwrap(), Standing::Apart);
        assert_eq!(standing_to(address("127.0.0.1/8")).unwrap(), Standing::Own);
        assert_eq!(standing_to(address("127.0.0.9/16")).unwrap(), Standing::Apart, "its prefix");
        // What this host has for itself is neither given a lifetime nor taken away.
        let own = address("127.0.0.1/8");
        assert!(matches!(can_have(own), Err(NetworkError::Own(_))));
        let (placed, mut holding) = (Placed::default(), Holding::default());
        holding.tried(boot_time(), true);
        let put = placed.put(placed.order(own, holding));
        assert!(matches!(put, Err(NetworkError::Own(_))), "{put:?}");
        placed.take_away().unwrap();
        assert_eq!(standing_to(own).unwrap(), Standing::Own);
        let nowhere = can_have(address("203.0.113.100/24")).unwrap_err().to_string();
        assert!(nowhere.contains("in the network of 203.0.113.100/24"), "{nowhere}");
    }

    /// Where the test may not change addresses, that is what it is told.
    #[test]
    fn an_address_is_on_the_loopback_for_as_long_as_it_is_held() {
        let (group, placed) = (address("127.9.0.77/8"), Placed::default());
        let mut holding = Holding::default();
        match can_have(group) {
            Err(NetworkError::NotAllowed) => return,
            other => other.unwrap(),
        }
        let put = |address, holding| placed.put(placed.order(address, holding)).unwrap();
        assert_eq!(put(group, holding), Placing::Late, "it is not this member's");
        let is_there = || {
            let all = Kernel::ask().unwrap().addresses().unwrap();
            all.iter().any(|own| own.ip == group.ip())
        };
        assert!(!is_there() && placed.address().is_none());
        holding.tried(boot_time(), true);
        assert_eq!(put(group, holding), Placing::Comes);
        assert_eq!(put(group, holding), Placing::Stays, "once more, for longer");
        assert!(is_there());
        assert_eq!(placed.address(), Some(group));
        placed.announce(1).unwrap();

        // Another one comes in its place.
        let next = address("127.9.0.78/8");
        assert_eq!(put(next, holding), Placing::Comes);
        assert!(!is_there());
        // What was ordered before it was taken away comes late.
        let late = placed.order(group, holding);
        placed.take_away().unwrap();
        assert_eq!(placed.put(late).unwrap(), Placing::Late);
        assert_eq!(placed.address(), None);
        placed.close().unwrap();
        assert_eq!(put(group, holding), Placing::Late);
        assert!(!is_there());
    }

    /// The kernel takes it away although nobody tells it to: the last word was a lifetime of a second.
    #[test]
    fn the_kernel_takes_an_address_away_by_itself() {
        let (group, placed) = (address("127.9.0.79/8"), Placed::default());
        if matches!(can_have(group), Err(NetworkError::NotAllowed)) {
            return;
        }
        let mut holding = Holding::default();
        // Four seconds ago, so that one is left.
        holding.tried(Moment(boot_time().0.saturating_sub(4_000)), true);
        assert_eq!(placed.put(placed.order(group, holding)).unwrap(), Placing::Comes);
        let begun = std::time::Instant::now();
        let is_there = || {
            let all = Kernel::ask().unwrap().addresses().unwrap();
            all.iter().any(|own| own.ip == group.ip())
        };
        while is_there() {
            assert!(begun.elapsed() < Duration::from_secs(4), "it is there yet");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
        assert!(begun.elapsed() <= Duration::from_secs(3), "{:?}", begun.elapsed());
        placed.take_away().expect("what is gone is taken away");
    }
}
