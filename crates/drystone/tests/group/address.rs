//! One address for the group: members in network namespaces of their own, behind one switch with a host, and among each
//! other behind another one.
//!
//! ```text
//!                switches
//!  a     .1 ==== |        |
//!  b     .2 ==== | bridge | ---- .11 host      10.93.0.0/24, fd93::/64: hosts, and .100 is the group's
//!  c     .3 ==== |        |                    10.94.0.0/24: members
//! ```

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use iscsi::text::IscsiName;
use rustix::process::Signal;

use crate::common::drystone;
use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::namespaces::{HOSTS, MEMBERS, Namespaces, Watch};
use crate::sites::{
    PATIENCE, Site, asked, await_event, await_states, await_store, create, wait_for,
};

/// What kind of address the group has, and its members for hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Somewhere in the network of hosts.
    pub(crate) fn at(self, number: u16) -> IpAddr {
        match self {
            Self::V4 => format!("10.{HOSTS}.0.{number}"),
            Self::V6 => format!("fd{HOSTS}::{number}"),
        }
        .parse()
        .expect("an address")
    }

    /// The address of the group.
    pub(crate) fn group(self) -> IpAddr {
        self.at(100)
    }

    /// The same, as it is set.
    fn group_with_prefix(self) -> String {
        format!("{}/{}", self.group(), if self == Self::V4 { 24 } else { 64 })
    }

    fn portal(self, name: &str) -> String {
        SocketAddr::new(self.at(number(name) as u16 + 1), 3260).to_string()
    }

    /// Where a member is managed over TLS.
    fn managed_at(self, name: &str) -> String {
        SocketAddr::new(self.at(number(name) as u16 + 1), MANAGEMENT).to_string()
    }

    /// Where the group is.
    pub(crate) fn group_url(self) -> String {
        format!("https://{}", SocketAddr::new(self.group(), MANAGEMENT))
    }

    /// The portal at the address of the group.
    fn group_portal(self) -> String {
        SocketAddr::new(self.group(), 3260).to_string()
    }
}

/// Within so long another member has the address: the lease of ten seconds, which who leads the store after another one
/// counts from the beginning, and what a busy machine needs beside.
pub(crate) const TAKEN_OVER: Duration = Duration::from_secs(60);

/// Where all members are managed.
const MANAGEMENT: u16 = 8443;

/// A member whose host could not have it tries again after so long.
const UNABLE: Duration = Duration::from_secs(30);

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The network in which members are, and what kind of addresses hosts have.
pub(crate) struct Net {
    pub(crate) spaces: Namespaces,
    pub(crate) family: Family,
}

/// `None` where this machine allows no namespaces.
pub(crate) fn network(family: Family) -> Option<Net> {
    let places = [("a", 1), ("b", 2), ("c", 3), ("host", 11)];
    Some(Net { spaces: Namespaces::new(&places)?, family })
}

/// Where other members find one.
pub(crate) fn door(name: &str) -> String {
    format!("10.{MEMBERS}.0.{}", number(name) + 1)
}

/// Starts a member in its namespace, with the ports that all have.
fn start<'a>(net: &Net, home: &'a Home, name: &str) -> Member<'a> {
    let path = |name: &str| home.path(name).display().to_string();
    let (data, portal) = (path("data"), net.family.portal(name));
    let mut words: Vec<String> = ["up", "--data", &data, "--socket"].map(str::to_owned).into();
    words.push(home.socket().display().to_string());
    words.extend(["--portal", &portal, "--open-access"].map(str::to_owned));
    words.extend(["--api-listen".to_owned(), net.family.managed_at(name)]);
    words.extend([1, 2].map(|n| format!("--disk={}:96M", path(&format!("disk-{n}")))));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    home.start_by(net.spaces.inside(name, &drystone(&words)))
}

fn is_address_of(member: &Member<'_>) -> Result<Option<String>, String> {
    let group = asked(member, &["group", "show"])?;
    Ok(group["address_member"].as_str().map(str::to_owned))
}

/// Waits until this member says that one of these has the address, and which.
#[track_caller]
pub(crate) fn await_holder(member: &Member<'_>, among: &[&str], limit: Duration) -> String {
    wait_for(&format!("one of {among:?} has the address"), limit, || match is_address_of(member)? {
        Some(holder) if among.contains(&holder.as_str()) => Ok(holder),
        other => Err(format!("{other:?}: {}", asked(member, &["group", "show"])?)),
    })
}

/// What a host hears that logs in at the address of the group.
fn heard(net: &Net, iqn: &str) -> String {
    let portal = net.family.group_portal().parse().expect("an address");
    net.spaces.run("host", || match Host::log_in(portal, iqn, 1, &[0]) {
        Ok(_) => "served".to_owned(),
        Err(error) => error.to_string(),
    })
}

/// Waits until a host at the address of the group is sent to the member that has the volume, and is served there.
#[track_caller]
fn await_login(net: &Net, iqn: &str, owner: &str) {
    let portal = net.family.portal(owner);
    let wanted = format!("redirected to {portal}");
    wait_for(&wanted, TAKEN_OVER, || match heard(net, iqn) {
        said if said == wanted => Ok(()),
        said => Err(said),
    });
    let portal = portal.parse().expect("an address");
    let served = net.spaces.run("host", || Host::log_in(portal, iqn, 2, &[0]).map(drop));
    served.expect("it is served there");
}

/// Other members than this one.
pub(crate) fn others(holder: &str) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| *name != holder).collect()
}

/// A group of three with an address, and the names of the targets of a volume on each.
pub(crate) fn group<'a>(net: &Net, homes: &'a [Home; 3]) -> ([Option<Member<'a>>; 3], [String; 3]) {
    let members = [0, 1, 2].map(|number| start(net, &homes[number], NAMES[number]));
    let (address, listen) = (net.family.group_with_prefix(), door("a"));
    members[0].run(&[
        "group",
        "create",
        "san1",
        "--member",
        "a",
        "--listen",
        &listen,
        "--address",
        &address,
    ]);
    for number in [1, 2] {
        let ticket = members[0].run(&["group", "token"]);
        let (ticket, name, own) = (ticket.trim_end(), NAMES[number], door(NAMES[number]));
        members[number].run(&[
            "member", "join", &listen, "--token", ticket, "--member", name, "--listen", &own,
        ]);
    }
    await_all(&members[0]);
    await_store(&members[0], &NAMES);
    let iqns = [0, 1, 2].map(|number| {
        let volume = format!("vm-{}", NAMES[number]);
        members[0].run(&["volume", "create", &volume, "16M", "--on", NAMES[number]]);
        members[number].iqn(&volume)
    });
    (members.map(Some), iqns)
}

#[track_caller]
fn await_all(member: &Member<'_>) {
    await_states(member, &[("a", "present"), ("b", "present"), ("c", "present")], PATIENCE);
}

pub(crate) fn number(name: &str) -> usize {
    NAMES.iter().position(|other| *other == name).expect("a member")
}

/// Two members that have one address would not be seen by a look at the end: it is looked all the time, and each
/// namespace by a thread of its own.
#[test]
fn the_address_is_at_one_member_whatever_becomes_of_that_one() {
    let Some(net) = network(Family::V4) else { return };
    let homes = [0, 1, 2].map(|_| Home::bare());
    let watch = Watch::begin(&net.spaces, &NAMES, net.family.group());
    let (mut members, iqns) = group(&net, &homes);
    let one = |members: &[Option<Member<'_>>; 3], but: &str| {
        others(but).into_iter().map(number).find(|at| members[*at].is_some()).expect("one is left")
    };

    // It came while the group was made, and hosts find all by it.
    let first = members[0].as_ref().expect("it runs");
    let holder = await_holder(first, &NAMES, TAKEN_OVER);
    await_event(members[number(&holder)].as_ref().expect("it runs"), "group_address_taken");
    for (iqn, owner) in iqns.iter().zip(NAMES) {
        await_login(&net, iqn, owner);
    }
    hosts_discover_all(&net, &iqns);

    // Killed: nobody is there any more who could take it away.
    members[number(&holder)].take().expect("it runs").crash();
    let left = one(&members, &holder);
    let next = await_holder(members[left].as_ref().expect("it runs"), &others(&holder), TAKEN_OVER);
    await_login(&net, &iqns[left], NAMES[left]);
    let again = start(&net, &homes[number(&holder)], &holder);
    await_all(&again);
    members[number(&holder)] = Some(again);

    // Stopped: it would go on to answer, if its kernel let it.
    let stopped = members[number(&next)].as_ref().expect("it runs");
    stopped.signal(Signal::STOP);
    let left = one(&members, &next);
    let third = await_holder(members[left].as_ref().expect("it runs"), &others(&next), TAKEN_OVER);
    await_login(&net, &iqns[left], NAMES[left]);
    let stopped = members[number(&next)].as_ref().expect("it runs");
    stopped.signal(Signal::CONT);
    await_event(stopped, "group_address_left");
    await_all(stopped);
    await_login(&net, &iqns[number(&next)], &next);

    // Ended in order: nobody waits for a lease.
    let begun = Instant::now();
    members[number(&third)].take().expect("it runs").stop();
    let left = one(&members, &third);
    let asks = members[left].as_ref().expect("it runs");
    await_holder(asks, &others(&third), TAKEN_OVER);
    eprintln!("taken over {:.1?} after a stop was asked for", begun.elapsed());
    await_login(&net, &iqns[left], NAMES[left]);

    asks.run(&["group", "set", "--no-address"]);
    wait_for("it is nowhere", TAKEN_OVER, || match watch.holders() {
        holders if holders.is_empty() => Ok(()),
        holders => Err(format!("{holders:?}")),
    });
    watch.end(3);
}

/// The members hear of each other all the time: who has the address gives it up as no host reaches it there.
#[test]
fn the_address_leaves_a_member_that_has_lost_its_link_to_hosts() {
    let Some(net) = network(Family::V4) else { return };
    let homes = [0, 1, 2].map(|_| Home::bare());
    let watch = Watch::begin(&net.spaces, &NAMES, net.family.group());
    let (members, iqns) = group(&net, &homes);
    let member = |name: &str| members[number(name)].as_ref().expect("it runs");
    let holder = await_holder(member("a"), &NAMES, TAKEN_OVER);
    net.spaces.cable(&holder, HOSTS, false);
    let next = await_holder(member(&holder), &others(&holder), TAKEN_OVER);
    await_login(&net, &iqns[number(&next)], &next);
    await_all(member(&holder));
    let fault =
        |of: &str| Ok::<_, String>(asked(member(of), &["group", "show"])?["address_fault"].clone());
    wait_for("it says why", PATIENCE, || match fault(&holder)?.as_str() {
        Some(why) if why.contains("no interface of its host that is up") => Ok(()),
        other => Err(format!("{other:?}")),
    });

    // It does not come back with the cable, and would, if the other one lost its own.
    net.spaces.cable(&holder, HOSTS, true);
    await_login(&net, &iqns[number(&holder)], &holder);
    let third = NAMES.into_iter().find(|name| *name != holder && *name != next).expect("three");
    net.spaces.cable(third, HOSTS, false);
    net.spaces.cable(&next, HOSTS, false);
    let again = await_holder(member("a"), &[&holder], UNABLE + TAKEN_OVER);
    await_login(&net, &iqns[number(&again)], &again);
    watch.end(2);
}

#[test]
fn a_group_whose_hosts_speak_ipv6_has_an_address_of_theirs() {
    let Some(net) = network(Family::V6) else { return };
    let homes = [0, 1, 2].map(|_| Home::bare());
    let watch = Watch::begin(&net.spaces, &NAMES, net.family.group());
    let (mut members, iqns) = group(&net, &homes);
    let holder = await_holder(members[0].as_ref().expect("it runs"), &NAMES, TAKEN_OVER);
    for (iqn, owner) in iqns.iter().zip(NAMES) {
        await_login(&net, iqn, owner);
    }
    hosts_discover_all(&net, &iqns);
    members[number(&holder)].take().expect("it runs").crash();
    let next = others(&holder)[0];
    let asks = members[number(next)].as_ref().expect("it runs");
    await_holder(asks, &others(&holder), TAKEN_OVER);
    await_login(&net, &iqns[number(next)], next);
    watch.end(1);
}

/// Discovery tells of the portals of members, each of which serves its own.
fn hosts_discover_all(net: &Net, iqns: &[String; 3]) {
    let portal: initiator::PortalAddress = net.family.group_portal().parse().expect("an address");
    wait_for("all are told of", TAKEN_OVER, || {
        let name = IscsiName::parse("iqn.2026-11.dev.drystone:finder").expect("a name");
        let options = initiator::SessionOptions::new(name);
        let found = net.spaces.run("host", || {
            let portal = portal.clone();
            ring::block_on(&ring::CoreConfig::default(), async move {
                initiator::discover(&portal, &options).await
            })
        });
        let found = found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let portals = |iqn: &String| {
            let target = found.iter().find(|target| target.name.as_str() == iqn)?;
            let at = |it: &initiator::PortalAddress| match it.host.contains(':') {
                true => format!("[{}]:{}", it.host.trim_matches(['[', ']']), it.port),
                false => format!("{}:{}", it.host, it.port),
            };
            Some(target.addresses.iter().map(at).collect::<Vec<_>>())
        };
        let told: Vec<_> = iqns.iter().map(portals).collect();
        let wanted = NAMES.map(|name| Some(vec![net.family.portal(name)]));
        if told == wanted { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

#[test]
fn an_address_that_the_group_cannot_have_is_refused_with_the_reason() {
    let site = Site::new("a", 1);
    let member = site.start();
    let alone = member.refused(&["group", "set", "--address", "127.79.0.1/8"]);
    assert!(alone.starts_with("this member is in no group"), "{alone}");
    create(&member, &site);
    let refused = |address: &str, wanted: &str| {
        let said = member.refused(&["group", "set", "--address", address]);
        assert!(said.contains(wanted), "{address}: {said}");
    };
    refused("127.0.0.1/8", "127.0.0.1 is an address of the member 'a'");
    // TEST-NET-1 (RFC 5737) is the network of no host.
    refused("203.0.113.100/24", "no member has an interface in the network of 203.0.113.100/24");
    for (wrong, wanted) in [
        ("127.0.0.9", "write IP/PREFIX"),
        ("127.0.0.0/8", "is the address of the network itself"),
        ("127.255.255.255/8", "is the broadcast address"),
        ("224.0.0.1/8", "unspecified, multicast or link-local"),
        ("127.0.0.9/32", "leaves its network no other address"),
    ] {
        let (code, _, said) = site.home.ask(&["group", "set", "--address", wrong]);
        assert!(code == 2 && said.contains(wanted), "{wrong}: {code}: {said}");
    }
    assert!(member.json(&["group", "show"])["address"].is_null());
    member.run(&["group", "set", "--address", "127.79.0.1/8"]);
    assert_eq!(member.json(&["group", "show"])["address"], "127.79.0.1/8");
    member.run(&["group", "set", "--no-address"]);
    assert!(member.json(&["group", "show"])["address"].is_null());
    let (code, _, _) = site.home.ask(&["group", "set"]);
    assert_eq!(code, 2, "one of both is to be said");
}

#[test]
fn a_member_without_the_right_to_it_says_what_to_give() {
    let site = Site::new("a", 1);
    let line = site.home.command_line(&[]);
    let words: Vec<&str> = line.iter().map(String::as_str).collect();
    let whole = drystone(&words);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]);
    command.arg(whole.get_program()).args(whole.get_args());
    let member = site.home.start_by(command);
    create(&member, &site);
    member.run(&["group", "set", "--address", "127.79.0.2/8"]);
    let fault = wait_for("it says why", PATIENCE, || {
        let group = asked(&member, &["group", "show"])?;
        group["address_fault"].as_str().map(str::to_owned).ok_or_else(|| group.to_string())
    });
    assert!(fault.contains("give it CAP_NET_ADMIN (AmbientCapabilities="), "{fault}");
    await_event(&member, "group_address_fault");
    assert!(member.json(&["group", "show"])["address_member"].is_null());
    let (code, out, _) = site.home.ask(&["status"]);
    assert_eq!(code, 1);
    assert!(out.contains("no member has the address 127.79.0.2/8 of group san1"), "{out}");
    thread::sleep(Duration::from_secs(1));
    let addresses = Command::new("ip").args(["address", "show", "to", "127.79.0.2/32"]).output();
    assert!(addresses.expect("ip is there").stdout.is_empty());
}
