//! Targets that other servers of a group have: a host that asks for one of them here is told where it is (RFC 7143
//! §11.13.5, status 0101h), and one that discovers is told of them where it may use them (§4.2.7.3, appendix C).
//!
//! What a server knows of others may be old, and a host that was sent on does not say so where it comes next. What
//! becomes of that is bounded:
//!
//! - A server that does not have the target after all says at once that there is no such target (0203h): it sends on
//!   only what it believes that another one has.
//! - Where several believe it of each other, as all of them had the target and none has heard that it is gone from
//!   the others, a host that follows every redirection would go round as fast as it can log in. Each server sends
//!   the hosts of one address, or of one network (/64) of IPv6, to one target at most [`SENDS_MAX`] times within
//!   [`SENDS_TIME`]; from then on it says that the target is not available for now (0301h), after which hosts pause
//!   before they try again.
//! - No host is sent to a portal of the server that it is at, nor to an address that means another place to it than to
//!   the server that has the portal.
//!
//! It reads no clock: the time is given to it.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iscsi::text::IscsiName;

use crate::access::{Access, AccessError, Rules};
use crate::datamover::Ends;
use crate::mutants::{self, Mutant};

/// How often the hosts of one address, or of one network of IPv6, are sent to one target within [`SENDS_TIME`]. A host
/// logs in to a target by up to some sixteen sessions at once, and some addresses are those of several hosts.
const SENDS_MAX: u32 = 32;

/// See [`SENDS_MAX`].
const SENDS_TIME: Duration = Duration::from_secs(10);

/// How many pairs of an address and a target are counted at once. Further ones are sent on without being counted: a
/// flood of them must not keep good hosts from their targets, and each costs one login as any other.
const PAIRS_MAX: usize = 4096;

/// Between two looks which pairs need not be counted any more: with a flood of others each login would cost one.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Where a host goes that asks for a target of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To this portal of the one that has it.
    To(SocketAddr),
    /// Nowhere for now; it may ask again.
    Later,
}

/// What is served by others, and who was sent there lately.
#[derive(Debug, Default)]
pub(crate) struct ServedElsewhere(Mutex<Inner>);

/// A target that another server has.
#[derive(Clone, Debug)]
pub struct RemoteTarget {
    /// Where hosts reach it; nowhere, while it is not known where that is.
    pub portals: Arc<[SocketAddr]>,
    /// The number of the portal group of those; 0 if it is not known, and then discovery does not tell of the target.
    pub portal_group: u16,
    /// Whom discovery tells of it; `None` for nobody. The server that has it decides who gets in.
    pub shown_to: Option<ShownTo>,
}

/// Whom discovery tells of targets that are elsewhere. Clones are the same: one serves all targets that are for the same
/// hosts.
#[derive(Clone, Debug)]
pub struct ShownTo(Arc<Rules>);

impl ShownTo {
    /// Those that these rules let in, and those that may be let in once they have proved who they are.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn new(access: Access) -> Result<Self, AccessError> {
        Ok(Self(Arc::new(Rules::new(access)?)))
    }
}

/// What is known of others, by the normalised names of targets.
type Places = BTreeMap<String, Place>;

/// Where a target is.
#[derive(Debug)]
struct Place {
    name: IscsiName,
    remote: RemoteTarget,
}

#[derive(Debug, Default)]
struct Inner {
    places: Places,
    sends: Sends,
}

impl ServedElsewhere {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Each change is one assignment, and a count is no worse for being one less.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Others serve these from now on, and nothing else. A name that is none nobody can ask for.
    pub(crate) fn set(&self, targets: BTreeMap<String, RemoteTarget>) {
        let normalised = |(name, remote): (String, RemoteTarget)| {
            let name = IscsiName::parse(&name).ok()?;
            Some((name.as_str().to_owned(), Place { name, remote }))
        };
        let places = targets.into_iter().filter_map(normalised).collect();
        let before = std::mem::replace(&mut self.inner().places, places);
        // What may be thousands of names is freed while nobody waits for it.
        drop(before);
    }

    /// Where a host at these ends finds the target; `None` where nobody is known to have it. `own` are the portals of
    /// this server as that host knows them.
    pub(crate) fn way(
        &self,
        name: &str,
        ends: Ends,
        own: &[SocketAddr],
        now: Instant,
    ) -> Option<Way> {
        let mut inner = self.inner();
        let portals = inner.places.get(name)?.remote.portals.clone();
        let Some(portal) = best(&portals, ends.local.ip(), own) else { return Some(Way::Later) };
        let may_go = inner.sends.may_send(ends.peer.ip(), name, now);
        let is_sent = may_go || mutants::is(Mutant::SendRound);
        Some(if is_sent { Way::To(portal) } else { Way::Later })
    }

    /// The targets that a host which came to the address `at` is told of, with the portals that it can reach and their
    /// group: those that `is_shown` by their rules, of this name if there is one. `own` are the portals of this server as
    /// that host knows them.
    pub(crate) fn told_of(
        &self,
        only: Option<&str>,
        (at, own): (IpAddr, &[SocketAddr]),
        is_shown: impl Fn(&Rules) -> bool,
    ) -> Vec<(IscsiName, Vec<SocketAddr>, u16)> {
        let inner = self.inner();
        let of_name = only.into_iter().filter_map(|name| inner.places.get(name));
        let all = only.is_none().then(|| inner.places.values()).into_iter().flatten();
        let told = |place: &Place| {
            let RemoteTarget { portals, portal_group, shown_to: Some(ShownTo(rules)) } =
                &place.remote
            else {
                return None;
            };
            let portals: Vec<_> = leading_there(portals, at, own).collect();
            let is_told = *portal_group != 0 && !portals.is_empty() && is_shown(rules);
            is_told.then(|| (place.name.clone(), portals, *portal_group))
        };
        of_name.chain(all).filter_map(told).collect()
    }

    /// By which rules targets are shown, each once.
    pub(crate) fn rules(&self) -> Vec<Arc<Rules>> {
        let inner = self.inner();
        let mut rules: BTreeMap<*const Rules, Arc<Rules>> = BTreeMap::new();
        for ShownTo(shown) in inner.places.values().filter_map(|it| it.remote.shown_to.as_ref()) {
            rules.entry(Arc::as_ptr(shown)).or_insert_with(|| shown.clone());
        }
        rules.into_values().collect()
    }
}

/// Those of the portals of another server that lead a host there that came to the address `at`.
pub(crate) fn leading_there<'a>(
    portals: &'a [SocketAddr],
    at: IpAddr,
    own: &'a [SocketAddr],
) -> impl Iterator<Item = SocketAddr> + 'a {
    let at = at.to_canonical();
    let plain = |portal: &SocketAddr| SocketAddr::new(portal.ip().to_canonical(), portal.port());
    portals.iter().map(plain).filter(move |portal| {
        means_one_place(portal.ip(), at) && portal.port() != 0 && !own.contains(portal)
    })
}

/// Of the portals of another server the one to which a host that came to the address `at` has the best way: the address
/// that has the most bits in common with that one, from the first on, so that it lies in the same network if one does,
/// and at least in the same family if one does. Among equals the first.
pub(crate) fn best(portals: &[SocketAddr], at: IpAddr, own: &[SocketAddr]) -> Option<SocketAddr> {
    let in_common = |portal: &SocketAddr| Reverse(bits_in_common(portal.ip(), at.to_canonical()));
    leading_there(portals, at, own).min_by_key(in_common)
}

/// Whether an address is the same server for a host that came to `at` as for whoever has it. A loopback address is that
/// of the host itself, but for a host that is on this machine; a link-local one is of another network on each of its
/// interfaces.
fn means_one_place(address: IpAddr, at: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is_reached = !address.is_loopback() || at.is_loopback();
    is_reached && !is_link_local && !address.is_unspecified() && !address.is_multicast()
}

/// With how many bits two addresses begin alike; `None`, which is less than none, of different families.
fn bits_in_common(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

/// Whom a host is counted as. Who has a network of IPv6 has 2^64 addresses in it.
fn counted_as(host: IpAddr) -> IpAddr {
    match host.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))),
        v4 => v4,
    }
}

/// How often hosts of an address were sent to a target lately.
#[derive(Debug, Default)]
struct Sends {
    counted: HashMap<(IpAddr, String), Sent>,
    /// When it was looked last which of them are over; `None` before the first time.
    swept: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    since: Instant,
    count: u32,
}

impl Sent {
    fn is_over(&self, now: Instant) -> bool {
        now >= self.since + SENDS_TIME
    }
}

impl Sends {
    /// Counts one more, and says whether it is not one too many.
    fn may_send(&mut self, from: IpAddr, name: &str, now: Instant) -> bool {
        let pair = (counted_as(from), name.to_owned());
        if self.counted.len() >= PAIRS_MAX && !self.counted.contains_key(&pair) {
            self.sweep(now);
            if self.counted.len() >= PAIRS_MAX {
                return true;
            }
        }
        let new = Sent { since: now, count: 0 };
        let sent = self.counted.entry(pair).or_insert(new);
        if sent.is_over(now) {
            *sent = new;
        }
        sent.count = sent.count.saturating_add(1);
        let may_send = sent.count <= SENDS_MAX;
        assert!(self.counted.len() <= PAIRS_MAX, "it was checked above that there is room");
        may_send
    }

    /// Makes room, unless it was tried a moment ago.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_none_or(|swept| now >= swept + SWEEP_PAUSE) {
            self.swept = Some(now);
            self.counted.retain(|_, sent| !sent.is_over(now));
        }
    }
}
