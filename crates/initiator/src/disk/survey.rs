//! What there is to plan sessions with: the portals that the target names, the ports of this host,
//! and the ways between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use iscsi::discovery::PortalAddress;

use super::PlanOptions;
use super::ports::reaching;
use super::ways::{HostWays, SessionEnds, Way};
use crate::address::TargetAddress;
use crate::discovery::portals_of;
use crate::options::SessionOptions;
use crate::paths::plan::{Ends, Planned, Slice, Volume, World, deal, plan};
use crate::session::Session;

/// The one volume of a plan.
const VOLUME: u64 = 0;

/// The numbers by which a plan knows ports. They stay the same for as long as the disk is attached.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    hosts: Vec<IpAddr>,
    portals: Vec<(String, u16)>,
}

fn number_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> u32 {
    let known = all.iter().position(|it| *it == one);
    let at = known.unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    u32::try_from(at).expect("there are few ports")
}

/// A portal and what leads to it.
#[derive(Debug, Clone)]
struct Portal {
    address: PortalAddress,
    /// The local addresses from which it may be reached.
    hosts: Vec<IpAddr>,
    /// The addresses that its name stands for.
    at: Vec<SocketAddr>,
    /// The target names it. One that it does not name is the door of a group, or of somebody who
    /// translates addresses: it is used where the others lead nowhere.
    is_named: bool,
}

/// A way between an address of this host and a portal, by its place in the list.
type Leg = (IpAddr, usize);

/// The target as it is now.
#[derive(Debug)]
pub(super) struct Survey {
    portals: Vec<Portal>,
    /// What is known of the ways; a way that nobody has asked is believed to be one.
    known: BTreeMap<Leg, bool>,
}

impl Survey {
    /// Looks around. `first` is the portal that the operator has named, `named` are those that the
    /// target names, and `only` the addresses of this host to use, if that is restricted.
    pub(super) async fn of(
        first: &PortalAddress,
        named: Vec<PortalAddress>,
        only: Option<Vec<IpAddr>>,
    ) -> Self {
        let first = first.clone();
        ring::blocking(move || Self::look(&first, &named, only.as_deref())).await
    }

    /// Resolves names and reads the kernel's routes.
    fn look(first: &PortalAddress, named: &[PortalAddress], only: Option<&[IpAddr]>) -> Self {
        let mut portals: Vec<Portal> = Vec::new();
        let door = std::iter::once((first, false));
        for (address, is_named) in named.iter().map(|it| (it, true)).chain(door) {
            let name = (address.host.as_str(), address.port);
            let at: Vec<SocketAddr> =
                name.to_socket_addrs().map(Iterator::collect).unwrap_or_default();
            // The same place by two names counts once; as the target says, for the group's tag.
            let same = |it: &Portal| !at.is_empty() && it.at == at || it.address == *address;
            if let Some(known) = portals.iter_mut().find(|it| same(it)) {
                known.address.group_tag = known.address.group_tag.or(address.group_tag);
                continue;
            }
            let mut hosts: Vec<IpAddr> = at.iter().copied().flat_map(reaching).collect();
            if let (Some(only), false) = (only, at.is_empty()) {
                hosts = only.to_vec();
            }
            portals.push(Portal { address: address.clone(), hosts, at, is_named });
        }
        Self { portals, known: BTreeMap::new() }
    }

    /// These sessions work, so their ways need no proof.
    pub(super) fn believe(&mut self, works: &[(Option<IpAddr>, PortalAddress)]) {
        for (local, at) in works {
            let is_this = |leg: &Leg| {
                let address = &self.portals[leg.1].address;
                local.is_none_or(|local| local == leg.0)
                    && (&at.host, at.port) == (&address.host, address.port)
            };
            let open: Vec<Leg> = self.legs().filter(is_this).collect();
            self.known.extend(open.into_iter().map(|leg| (leg, true)));
        }
    }

    fn legs(&self) -> impl Iterator<Item = Leg> {
        let numbered = self.portals.iter().enumerate();
        numbered.flat_map(|(n, portal)| portal.hosts.iter().map(move |&host| (host, n)))
    }

    /// Tries the ways that these ends need and of which nothing is known. Whether all of them lead
    /// somewhere.
    pub(super) async fn prove(&mut self, host: &HostWays, ends: &[SessionEnds]) -> bool {
        let is_needed = |leg: &Leg| {
            let at = &self.portals[leg.1].address;
            ends.iter()
                .any(|(local, host, port)| (local, host, port) == (&leg.0, &at.host, &at.port))
        };
        let legs: Vec<Leg> = self.legs().filter(is_needed).collect();
        self.try_out(host, legs).await
    }

    /// The same for all ways.
    pub(super) async fn prove_all(&mut self, host: &HostWays) {
        let legs: Vec<Leg> = self.legs().collect();
        self.try_out(host, legs).await;
    }

    async fn try_out(&mut self, host: &HostWays, mut legs: Vec<Leg>) -> bool {
        legs.retain(|leg| !self.known.contains_key(leg));
        // An address of each family at most leads from one of ours to a portal with several.
        let ways = |&(local, n): &Leg| -> Vec<Way> {
            let at = self.portals[n].at.iter().filter(|to| to.is_ipv4() == local.is_ipv4());
            at.map(|&to| (local, to)).collect()
        };
        let all: Vec<Way> = legs.iter().flat_map(ways).collect();
        let answers = host.answer(&all).await;
        let open: BTreeSet<Way> =
            all.iter().zip(answers).filter(|(_, is_open)| *is_open).map(|(&way, _)| way).collect();
        let judged: Vec<(Leg, bool)> =
            legs.iter().map(|leg| (*leg, ways(leg).iter().any(|way| open.contains(way)))).collect();
        let are_all_open = judged.iter().all(|(_, is_open)| *is_open);
        self.known.extend(judged);
        are_all_open
    }

    /// The sessions that there should be; `others` are those of the host's other disks.
    pub(super) fn plan(
        &self,
        numbers: &mut Numbers,
        options: &PlanOptions,
        current: &[Planned],
        others: &[SessionEnds],
    ) -> Vec<Planned> {
        let world = self.world(numbers, options, others);
        match options.sessions {
            Some(count) => deal(&world, &world.volumes[0], count, current),
            None => plan(&world, current),
        }
    }

    fn is_open(&self, leg: Leg) -> bool {
        self.known.get(&leg).copied().unwrap_or(true)
    }

    fn world(&self, numbers: &mut Numbers, options: &PlanOptions, others: &[SessionEnds]) -> World {
        let is_reached = |n: usize| self.portals[n].hosts.iter().any(|&it| self.is_open((it, n)));
        let has_named = (0..self.portals.len()).any(|n| self.portals[n].is_named && is_reached(n));
        let used = |portal: &Portal| portal.is_named || !has_named;
        let mut slices: Vec<Slice> = Vec::new();
        let mut hosts = BTreeSet::new();
        let (mut ways, mut carried) = (BTreeSet::new(), Vec::new());
        for (n, portal) in self.portals.iter().enumerate().filter(|(_, it)| used(it)) {
            // A portal group is a member: its portals are ports of one server.
            let member = portal.address.group_tag.unwrap_or(0).into();
            let name = (portal.address.host.clone(), portal.address.port);
            let port = number_of(&mut numbers.portals, name.clone());
            for &host in &portal.hosts {
                let number = number_of(&mut numbers.hosts, host);
                hosts.insert(number);
                if self.is_open((host, n)) {
                    ways.insert((number, member, port));
                }
                let is_same = |it: &&SessionEnds| (it.0, &it.1, it.2) == (host, &name.0, name.1);
                let count = others.iter().filter(is_same).count();
                carried.extend(std::iter::repeat_n((number, member, port), count));
            }
            match slices.iter_mut().find(|slice| slice.member == member) {
                Some(slice) => slice.ports.push(port),
                None => slices.push(Slice { member, ports: vec![port] }),
            }
        }
        let all = hosts.iter().flat_map(|&host| {
            let of_slice = move |slice: &Slice| -> Vec<Ends> {
                slice.ports.iter().map(|&port| (host, slice.member, port)).collect()
            };
            slices.iter().flat_map(of_slice).collect::<Vec<Ends>>()
        });
        World {
            cut_off: all.filter(|pair| !ways.contains(pair)).collect(),
            host_ports: hosts.into_iter().collect(),
            volumes: vec![Volume { id: VOLUME, slices }],
            others: carried,
            pool_sessions_max: options.pool_sessions_max,
            pool_sessions_of_others: 0,
            rules: options.rules,
        }
    }

    /// The portals, in the order in which they were found.
    pub(super) fn portals(&self) -> impl Iterator<Item = &PortalAddress> {
        self.portals.iter().map(|portal| &portal.address)
    }
}

impl Numbers {
    /// Where a planned session leads from, if that is a choice, and to.
    pub(super) fn ends(&self, planned: &Planned) -> (Option<IpAddr>, PortalAddress) {
        let local = self.hosts.get(planned.host_port as usize).copied();
        let (host, port) = self.portals[planned.target_port as usize].clone();
        // With one address there is nothing to choose, and the kernel may know better later on.
        let local = local.filter(|_| self.hosts.len() > 1);
        (local, PortalAddress { host, port, group_tag: None })
    }

    /// The ends of planned sessions, as other disks know them.
    pub(super) fn session_ends(&self, planned: &[Planned]) -> Vec<SessionEnds> {
        let ends = |it: &Planned| {
            let (host, port) = self.portals[it.target_port as usize].clone();
            (self.hosts[it.host_port as usize], host, port)
        };
        planned.iter().map(ends).collect()
    }
}

/// The portals of the target, as far as it tells: within a session that is there, else in a discovery
/// session at one of `known`. They are what is used if none tells.
pub(super) async fn named_portals(
    volume: &TargetAddress,
    session: Option<&Session>,
    known: &[PortalAddress],
    options: &SessionOptions,
) -> Vec<PortalAddress> {
    let here = |portals: Vec<PortalAddress>| -> Vec<PortalAddress> {
        portals.into_iter().filter(leads_somewhere).collect()
    };
    if let Some(session) = session {
        match session.portals().await.map(here) {
            Ok(found) if !found.is_empty() => return found,
            Ok(_) => {}
            Err(error) => tracing::debug!("{volume}: {error}"),
        }
    }
    for portal in known {
        match portals_of(&volume.name, portal, options).await.map(here) {
            Ok(found) if !found.is_empty() => return found,
            Ok(_) => {}
            // Many targets refuse discovery to hosts that may well log in.
            Err(error) => tracing::debug!("discovery at {} failed: {error}", portal.host),
        }
    }
    // Said each time that a disk is tried to be attached whose target is away.
    tracing::debug!("{volume}: no portal names others, so the known ones are used");
    known.to_vec()
}

/// A target that listens on all addresses may say so, which leads nowhere.
fn leads_somewhere(portal: &PortalAddress) -> bool {
    portal.host.parse::<IpAddr>().map_or(true, |address| !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ring::CoreConfig;

    use super::super::ways::tests::Silent;
    use super::*;

    fn portal(host: &str, tag: u16, hosts: &[[u8; 4]]) -> Portal {
        Portal {
            address: PortalAddress { host: host.into(), port: 3260, group_tag: Some(tag) },
            hosts: hosts.iter().map(|&host| IpAddr::from(host)).collect(),
            at: Vec::new(),
            is_named: true,
        }
    }

    fn survey(portals: Vec<Portal>) -> Survey {
        Survey { portals, known: BTreeMap::new() }
    }

    fn ends(numbers: &Numbers, planned: &[Planned]) -> Vec<(String, String)> {
        let show = |(local, portal): (Option<IpAddr>, PortalAddress)| {
            (local.map(|local| local.to_string()).unwrap_or_default(), portal.host)
        };
        planned.iter().map(|it| show(numbers.ends(it))).collect()
    }

    #[test]
    fn each_network_gets_its_session() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 1, 1]);
        let mut survey = survey(vec![portal("10.0.0.9", 1, &[a]), portal("10.0.1.9", 1, &[b])]);
        let (mut numbers, options) = (Numbers::default(), PlanOptions::default());
        let planned = survey.plan(&mut numbers, &options, &[], &[]);
        let expected = [("10.0.0.1", "10.0.0.9"), ("10.0.1.1", "10.0.1.9")];
        let expected = expected.map(|(host, portal)| (host.to_owned(), portal.to_owned()));
        assert_eq!(ends(&numbers, &planned), expected);
        // The second network fails, and what was there stays where it is.
        survey.known.insert((b.into(), 1), false);
        let left = survey.plan(&mut numbers, &options, &planned, &[]);
        assert_eq!(left, planned[..1]);
    }

    #[test]
    fn members_are_told_apart_by_their_portal_groups() {
        let host = [10, 0, 0, 1];
        let portals = (1..=4).map(|n| portal(&format!("10.0.0.{}", n + 10), n, &[host]));
        let survey = survey(portals.collect());
        let (mut numbers, mut options) = (Numbers::default(), PlanOptions::default());
        let planned = survey.plan(&mut numbers, &options, &[], &[]);
        assert_eq!(planned.len(), 4, "one for each member, for the host has one port");
        assert!(ends(&numbers, &planned).iter().all(|(local, _)| local.is_empty()));
        options.sessions = Some(10);
        assert_eq!(survey.plan(&mut numbers, &options, &planned, &[]).len(), 10);
    }

    #[test]
    fn the_door_of_a_group_is_no_member() {
        let host = [10, 0, 0, 1];
        let mut survey =
            survey(vec![portal("10.0.0.9", 1, &[host]), portal("10.0.0.1", 0, &[host])]);
        survey.portals[1].is_named = false;
        let (mut numbers, mut options) = (Numbers::default(), PlanOptions::default());
        options.sessions = Some(3);
        let planned = survey.plan(&mut numbers, &options, &[], &[]);
        assert!(ends(&numbers, &planned).iter().all(|(_, portal)| portal == "10.0.0.9"));
        // Where what is named cannot be reached, the address that the operator knows may.
        survey.known.insert((host.into(), 0), false);
        let planned = survey.plan(&mut numbers, &options, &planned, &[]);
        assert!(ends(&numbers, &planned).iter().all(|(_, portal)| portal == "10.0.0.1"));
        assert_eq!(planned.len(), 3);
    }

    #[test]
    fn sessions_of_other_disks_are_counted_on_the_ports_of_both() {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 1, 1]);
        let survey = survey(vec![portal("10.0.0.9", 1, &[a]), portal("10.0.1.9", 1, &[b])]);
        let options = PlanOptions { sessions: Some(1), ..PlanOptions::default() };
        let others = [(IpAddr::from(a), "10.0.0.9".to_owned(), 3260)];
        let mut numbers = Numbers::default();
        let planned = survey.plan(&mut numbers, &options, &[], &others);
        assert_eq!(numbers.session_ends(&planned), [(b.into(), "10.0.1.9".to_owned(), 3260)]);
    }

    /// A group of 16 members of which one is left: what is wanted is tried, then all there is, each at
    /// once, so that an attachment takes seconds and not half a minute.
    #[test]
    fn silent_members_are_found_out_together() {
        const MEMBERS: usize = 16;
        let silent: Vec<Silent> = (1..MEMBERS).map(|_| Silent::new()).collect();
        let alive = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let at = silent.iter().map(|it| it.address).chain([alive.local_addr().unwrap()]);
        let named: Vec<PortalAddress> = (1..)
            .zip(at)
            .map(|(tag, at)| PortalAddress {
                host: at.ip().to_string(),
                port: at.port(),
                group_tag: Some(tag),
            })
            .collect();
        let (began, mut numbers) = (Instant::now(), Numbers::default());
        let options = PlanOptions::default();
        let planned = ring::block_on(&CoreConfig::default(), async move {
            let mut survey = Survey::look(&named[0], &named, None);
            let wanted = survey.plan(&mut numbers, &options, &[], &[]);
            assert_eq!(wanted.len(), 6);
            assert!(!survey.prove(&options.ways, &numbers.session_ends(&wanted)).await);
            survey.prove_all(&options.ways).await;
            survey.plan(&mut numbers, &options, &[], &[])
        });
        assert_eq!(planned.unwrap().len(), 1, "to the one that answers");
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    }

    #[test]
    fn no_way_means_no_plan() {
        let address = PortalAddress { host: "127.0.0.1".into(), port: 1, group_tag: None };
        let mut survey = Survey::look(&address, std::slice::from_ref(&address), None);
        assert_eq!(survey.portals().count(), 1, "the same place counts once");
        let (mut numbers, options) = (Numbers::default(), PlanOptions::default());
        assert_eq!(survey.plan(&mut numbers, &options, &[], &[]).len(), 1, "nobody has asked yet");
        survey.known.insert(([127, 0, 0, 1].into(), 0), false);
        assert_eq!(survey.plan(&mut numbers, &options, &[], &[]), []);
    }
}
