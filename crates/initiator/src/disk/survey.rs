//! What there is to plan sessions with: the portals that the target names, the ports of this host,
//! and the ways between them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use iscsi::discovery::PortalAddress;

use super::PlanOptions;
use super::ports::reaching;
use crate::address::TargetAddress;
use crate::discovery::discover;
use crate::login::connect_from;
use crate::options::SessionOptions;
use crate::paths::plan::{Cut, Planned, Slice, Volume, World, deal, plan};

/// A way that does not answer within this time is none.
const PROBE_TIME: Duration = Duration::from_secs(2);

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
}

/// The target as it is now.
#[derive(Debug)]
pub(super) struct Survey {
    portals: Vec<Portal>,
    /// Pairs without a way between them.
    cut_off: BTreeSet<(IpAddr, String, u16)>,
}

impl Survey {
    /// Looks around. `known` are portals to ask, in this order, and to use if none can be asked;
    /// `works` are the sessions whose way needs no proof.
    pub(super) async fn of(
        volume: &TargetAddress,
        known: &[PortalAddress],
        session: &SessionOptions,
        options: &PlanOptions,
        works: Vec<(Option<IpAddr>, PortalAddress)>,
    ) -> Self {
        let named = named_portals(volume, known, session).await;
        let (first, only) = (volume.portal.clone(), options.host_ports.clone());
        ring::blocking(move || Self::probe(&first, &named, only.as_deref(), &works)).await
    }

    /// Blocks, for as long as ways that lead nowhere take to show it.
    fn probe(
        first: &PortalAddress,
        named: &[PortalAddress],
        only: Option<&[IpAddr]>,
        works: &[(Option<IpAddr>, PortalAddress)],
    ) -> Self {
        let mut portals: Vec<Portal> = Vec::new();
        for address in std::iter::once(first).chain(named) {
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
            portals.push(Portal { address: address.clone(), hosts, at });
        }
        let mut cut_off = BTreeSet::new();
        for portal in &portals {
            for &host in &portal.hosts {
                let is_this = |(local, at): &(Option<IpAddr>, PortalAddress)| {
                    local.is_none_or(|local| local == host)
                        && (&at.host, at.port) == (&portal.address.host, portal.address.port)
                };
                let answers = |&to: &SocketAddr| connect_from(Some(host), to, PROBE_TIME).is_ok();
                if !works.iter().any(is_this) && !portal.at.iter().any(answers) {
                    cut_off.insert((host, portal.address.host.clone(), portal.address.port));
                }
            }
        }
        Self { portals, cut_off }
    }

    /// The sessions that there should be.
    pub(super) fn plan(
        &self,
        numbers: &mut Numbers,
        options: &PlanOptions,
        current: &[Planned],
    ) -> Vec<Planned> {
        let world = self.world(numbers, options);
        match options.sessions {
            Some(count) => deal(&world, &world.volumes[0], count, current),
            None => plan(&world, current),
        }
    }

    fn world(&self, numbers: &mut Numbers, options: &PlanOptions) -> World {
        let mut slices: Vec<Slice> = Vec::new();
        let mut hosts = BTreeSet::new();
        let mut ways = BTreeSet::new();
        for portal in &self.portals {
            // A portal group is a member: its portals are ports of one server.
            let member = portal.address.group_tag.unwrap_or(0).into();
            let name = (portal.address.host.clone(), portal.address.port);
            let port = number_of(&mut numbers.portals, name.clone());
            for &host in &portal.hosts {
                let number = number_of(&mut numbers.hosts, host);
                hosts.insert(number);
                if !self.cut_off.contains(&(host, name.0.clone(), name.1)) {
                    ways.insert((number, member, port));
                }
            }
            match slices.iter_mut().find(|slice| slice.member == member) {
                Some(slice) => slice.ports.push(port),
                None => slices.push(Slice { member, ports: vec![port] }),
            }
        }
        let all = hosts.iter().flat_map(|&host| {
            let of_slice = move |slice: &Slice| -> Vec<Cut> {
                slice.ports.iter().map(|&port| (host, slice.member, port)).collect()
            };
            slices.iter().flat_map(of_slice).collect::<Vec<Cut>>()
        });
        World {
            cut_off: all.filter(|pair| !ways.contains(pair)).collect(),
            host_ports: hosts.into_iter().collect(),
            volumes: vec![Volume { id: VOLUME, slices }],
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
}

/// The portals of the target, as far as it tells.
async fn named_portals(
    volume: &TargetAddress,
    known: &[PortalAddress],
    session: &SessionOptions,
) -> Vec<PortalAddress> {
    let mut session = session.clone();
    if let Ok(Some(chap)) = volume.chap() {
        session.chap = Some(chap);
    }
    for portal in known {
        let targets = match discover(portal, &session).await {
            Ok(targets) => targets,
            Err(error) => {
                // Many targets refuse discovery to hosts that may well log in.
                tracing::debug!("discovery at {} failed: {error}", portal.host);
                continue;
            }
        };
        let ours = targets.into_iter().filter(|target| target.name == volume.name);
        let found: Vec<PortalAddress> =
            ours.flat_map(|target| target.addresses).filter(leads_somewhere).collect();
        if !found.is_empty() {
            return found;
        }
    }
    tracing::info!("{volume}: no portal names others, so the known ones are used");
    known.to_vec()
}

/// A target that listens on all addresses may say so, which leads nowhere.
fn leads_somewhere(portal: &PortalAddress) -> bool {
    portal.host.parse::<IpAddr>().map_or(true, |address| !address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iscsi::text::IscsiName;

    fn portal(host: &str, tag: u16, hosts: &[[u8; 4]]) -> Portal {
        Portal {
            address: PortalAddress { host: host.into(), port: 3260, group_tag: Some(tag) },
            hosts: hosts.iter().map(|&host| IpAddr::from(host)).collect(),
            at: Vec::new(),
        }
    }

    fn survey(portals: Vec<Portal>) -> Survey {
        Survey { portals, cut_off: BTreeSet::new() }
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
        let planned = survey.plan(&mut numbers, &options, &[]);
        let expected = [("10.0.0.1", "10.0.0.9"), ("10.0.1.1", "10.0.1.9")];
        let expected = expected.map(|(host, portal)| (host.to_owned(), portal.to_owned()));
        assert_eq!(ends(&numbers, &planned), expected);
        // The second network fails, and what was there stays where it is.
        survey.cut_off.insert((b.into(), "10.0.1.9".into(), 3260));
        let left = survey.plan(&mut numbers, &options, &planned);
        assert_eq!(left, planned[..1]);
    }

    #[test]
    fn members_are_told_apart_by_their_portal_groups() {
        let host = [10, 0, 0, 1];
        let portals = (1..=4).map(|n| portal(&format!("10.0.0.{}", n + 10), n, &[host]));
        let survey = survey(portals.collect());
        let (mut numbers, mut options) = (Numbers::default(), PlanOptions::default());
        let planned = survey.plan(&mut numbers, &options, &[]);
        assert_eq!(planned.len(), 4, "one for each member, for the host has one port");
        assert!(ends(&numbers, &planned).iter().all(|(local, _)| local.is_empty()));
        options.sessions = Some(10);
        assert_eq!(survey.plan(&mut numbers, &options, &planned).len(), 10);
    }

    #[test]
    fn no_way_means_no_plan() {
        let address = PortalAddress { host: "127.0.0.1".into(), port: 1, group_tag: None };
        let name = IscsiName::parse("iqn.2026-11.dev.drystone:x").unwrap();
        let volume = TargetAddress::new(address.clone(), name);
        let survey = Survey::probe(&volume.portal, &[address], None, &[]);
        assert_eq!(survey.portals().count(), 1, "the same place counts once");
        let planned = survey.plan(&mut Numbers::default(), &PlanOptions::default(), &[]);
        assert_eq!(planned, []);
    }
}
