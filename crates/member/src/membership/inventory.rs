//! What members serve: where hosts reach this one, and where they find what others have.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use group::access::Object;
use group::membership::{Inventory, Roll, Shown};
use group::ownership::MemberId;

/// The targets of others by their normalised names.
pub(crate) type Elsewhere = BTreeMap<String, TargetElsewhere>;

/// A target of another member.
#[derive(Debug, Clone)]
pub(crate) struct TargetElsewhere {
    /// Where hosts reach it; nowhere while its member is away.
    pub(crate) portals: Arc<[SocketAddr]>,
    /// Whether it is a volume, or a snapshot of one.
    pub(crate) object: Object,
    /// All that its member serves.
    inventory: Arc<Inventory>,
    /// Where its volume stands there.
    volume: Option<usize>,
}

impl TargetElsewhere {
    /// The number of the portal group there; 0 if it is not known.
    pub(crate) fn portal_group(&self) -> u16 {
        self.inventory.portal_group
    }

    /// Whom discovery may tell of it. A list names policies and CHAP users of its member, which are those of this one
    /// only if that member's settings are the group's.
    pub(crate) fn shown(&self) -> &Shown {
        let volume = self.volume.and_then(|at| self.inventory.volumes.get(at));
        let shown = volume.filter(|volume| volume.is_online).map(|volume| &volume.shown);
        match shown {
            Some(Shown::Listed(_)) if !self.inventory.shares => &Shown::Nobody,
            Some(shown) => shown,
            None => &Shown::Nobody,
        }
    }
}

/// Targets that two members list, by their normalised names, and the names of two of those members.
pub(super) type Twice = BTreeMap<String, [String; 2]>;

/// The targets that a member lists, with the places of their volumes in what it serves. The name of a snapshot's target
/// is that of its volume, a colon, and what tells it from others; no other colon is behind the volume's.
fn listed(inventory: &Inventory) -> impl Iterator<Item = (String, Object, Option<usize>)> {
    // As iSCSI compares names (RFC 3722).
    let normalised = |iqn: &String| iqn.to_ascii_lowercase();
    let volumes = inventory.volumes.iter().map(move |volume| normalised(&volume.iqn));
    let places: BTreeMap<String, usize> = volumes.clone().zip(0..).collect();
    let volumes = volumes.zip(0..).map(|(iqn, at)| (iqn, Object::Volume, Some(at)));
    let snapshots = inventory.snapshots.iter().map(move |iqn| {
        let iqn = normalised(iqn);
        let volume = iqn.rsplit_once(':').and_then(|(volume, _)| places.get(volume).copied());
        (iqn, Object::Snapshot, volume)
    });
    volumes.chain(snapshots)
}

/// The targets that two members list, whether they are present or away. One of them has a copy of what the other has,
/// or had it: who sends hosts to either may have them write to the wrong one.
pub(super) fn listed_twice(roll: &Roll) -> Twice {
    let mut owners: BTreeMap<String, MemberId> = BTreeMap::new();
    let mut twice = Twice::new();
    let name = |id: MemberId| roll.members.get(&id).map_or(String::new(), |it| it.name.clone());
    for (id, inventory) in &roll.inventories {
        for (iqn, ..) in listed(inventory) {
            let first = *owners.entry(iqn.clone()).or_insert(*id);
            if first != *id {
                twice.entry(iqn).or_insert_with(|| [name(first), name(*id)]);
            }
        }
    }
    twice
}

/// What the others serve. A target that two members list is nowhere: hosts are to ask again later.
pub(super) fn elsewhere(roll: &Roll, me: MemberId, twice: &Twice) -> Elsewhere {
    let mut all = Elsewhere::new();
    let nowhere: Arc<[SocketAddr]> = Arc::new([]);
    for (id, inventory) in roll.inventories.iter().filter(|(id, _)| **id != me) {
        let is_present = roll.is_present(*id);
        let portals: Arc<[SocketAddr]> = Arc::from(inventory.portals.as_slice());
        for (iqn, object, volume) in listed(inventory) {
            let is_known = is_present && !twice.contains_key(&iqn);
            let portals = if is_known { portals.clone() } else { nowhere.clone() };
            let inventory = inventory.clone();
            all.insert(iqn, TargetElsewhere { portals, object, inventory, volume });
        }
    }
    all
}

/// What a member that is present serves, as another one sees it.
#[cfg(test)]
pub(crate) fn elsewhere_of(inventory: Inventory) -> Elsewhere {
    let mut roll = super::tests::roll_of(&[(1, true), (2, true)]);
    roll.inventories.insert(MemberId(2), Arc::new(inventory));
    elsewhere(&roll, MemberId(1), &Twice::new())
}

/// Where hosts reach what is bound to these, on a host that has these addresses and that other members know by
/// `address`. That comes last among all that a portal for all addresses has: it may be of a network that is for members
/// alone, and is where hosts go when nothing else is known.
pub(crate) fn reachable(
    bound: &[SocketAddr],
    address: IpAddr,
    local: &[IpAddr],
) -> Vec<SocketAddr> {
    let mut reached = Vec::new();
    for portal in bound {
        if !portal.ip().is_unspecified() {
            add(&mut reached, *portal);
            continue;
        }
        // A portal for all addresses of IPv6 is for those alone.
        let alike = |at: &IpAddr| at.is_ipv4() == portal.is_ipv4();
        let others = local.iter().copied().filter(|at| *at != address);
        for at in others.chain([address]).filter(alike) {
            add(&mut reached, SocketAddr::new(at, portal.port()));
        }
    }
    reached
}

fn add(all: &mut Vec<SocketAddr>, one: SocketAddr) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// The addresses of this host that others may know it by. It reads files of the kernel, which is no work for a core.
pub(crate) fn local_addresses() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let v4 = of_trie(&read("/proc/net/fib_trie")).into_iter().map(IpAddr::V4);
    let v6 = of_if_inet6(&read("/proc/net/if_inet6")).into_iter().map(IpAddr::V6);
    v4.chain(v6).collect()
}

/// Leaves of the kernel's table of routes that are followed by a local host route.
fn of_trie(trie: &str) -> Vec<Ipv4Addr> {
    let mut leaf: Option<Ipv4Addr> = None;
    let mut own = Vec::new();
    for line in trie.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            leaf = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            own.extend(leaf.filter(|at| !at.is_loopback() && !at.is_link_local()));
        }
    }
    own.sort_unstable();
    own.dedup();
    own
}

/// Those of global scope that last.
fn of_if_inet6(table: &str) -> Vec<Ipv6Addr> {
    const GLOBAL: &str = "00";
    const TEMPORARY: u32 = 0x01;
    let address = |line: &str| -> Option<Ipv6Addr> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let own = Ipv6Addr::from_bits(u128::from_str_radix(fields.first()?, 16).ok()?);
        let flags = u32::from_str_radix(fields.get(4)?, 16).ok()?;
        (*fields.get(3)? == GLOBAL && flags & TEMPORARY == 0).then_some(own)
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use group::access::{AccessList, Entry, Record};
    use group::membership::ListedVolume;

    use super::*;
    use crate::membership::tests::roll_of;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn inventory(portal: &str, volumes: &[&str], snapshots: &[&str]) -> Inventory {
        let volume = |iqn: &&str| ListedVolume {
            name: (*iqn).to_owned(),
            iqn: (*iqn).to_owned(),
            size_bytes: 1,
            is_online: true,
            ..ListedVolume::default()
        };
        Inventory {
            portals: vec![at(portal)],
            volumes: volumes.iter().map(volume).collect(),
            snapshots: snapshots.iter().map(|&iqn| iqn.to_owned()).collect(),
            ..Inventory::default()
        }
    }

    fn list(user: &str) -> AccessList {
        let mut list = AccessList::default();
        let record: Record = format!("chap={user}").parse().unwrap();
        list.add(Entry::Record(record)).unwrap();
        list
    }

    #[test]
    fn whom_others_may_tell_is_what_the_member_says_of_the_volume() {
        let roll = roll_of(&[(1, true), (2, true)]);
        let names = ["iqn.a", "iqn.b", "iqn.c", "iqn.d"];
        let mut theirs = inventory("192.0.2.2:3260", &names, &["iqn.A:s", "iqn.d:s", "iqn.gone:s"]);
        (theirs.portal_group, theirs.shares) = (7, true);
        theirs.volumes[0].shown = Shown::Listed(list("ada"));
        theirs.volumes[1].shown = Shown::Everybody;
        theirs.volumes[2] =
            ListedVolume { shown: Shown::Everybody, is_online: false, ..theirs.volumes[2].clone() };
        let shown = |theirs: &Inventory, iqn: &str| {
            let mut roll = roll.clone();
            roll.inventories.insert(MemberId(2), Arc::new(theirs.clone()));
            let all = elsewhere(&roll, MemberId(1), &Twice::new());
            assert_eq!(all[iqn].portal_group(), 7);
            (all[iqn].object, all[iqn].shown().clone())
        };
        use Object::{Snapshot, Volume};
        let listed = Shown::Listed(list("ada"));
        assert_eq!(shown(&theirs, "iqn.a"), (Volume, listed.clone()));
        assert_eq!(shown(&theirs, "iqn.a:s"), (Snapshot, listed), "it is for whom the volume is");
        assert_eq!(shown(&theirs, "iqn.b"), (Volume, Shown::Everybody));
        assert_eq!(shown(&theirs, "iqn.c"), (Volume, Shown::Nobody), "it is not online");
        assert_eq!(shown(&theirs, "iqn.d:s"), (Snapshot, Shown::Nobody));
        assert_eq!(shown(&theirs, "iqn.gone:s"), (Snapshot, Shown::Nobody));
        theirs.shares = false;
        assert_eq!(shown(&theirs, "iqn.a"), (Volume, Shown::Nobody), "its users are its own");
        assert_eq!(shown(&theirs, "iqn.b"), (Volume, Shown::Everybody));
    }

    #[test]
    fn what_others_have_is_where_they_are_and_nowhere_while_they_are_away() {
        let mut roll = roll_of(&[(1, true), (2, false), (3, true), (4, true)]);
        let own = inventory("192.0.2.1:3260", &["iqn.mine", "iqn.here"], &["iqn.both"]);
        roll.inventories.insert(MemberId(1), Arc::new(own));
        let away = inventory("192.0.2.2:3260", &["iqn.away", "iqn.twice"], &["iqn.away:s"]);
        roll.inventories.insert(MemberId(2), Arc::new(away));
        let third = inventory("192.0.2.3:3260", &["iqn.Twice", "iqn.here"], &["iqn.third:s"]);
        roll.inventories.insert(MemberId(3), Arc::new(third));
        let fourth = inventory("192.0.2.4:3260", &["iqn.both", "iqn.own", "iqn.own"], &[]);
        roll.inventories.insert(MemberId(4), Arc::new(fourth));
        let twice = listed_twice(&roll);
        let all = elsewhere(&roll, MemberId(1), &twice);
        let of = |iqn: &str| all.get(iqn).map(|it| it.portals.to_vec());
        assert_eq!(of("iqn.away"), Some(vec![]));
        assert_eq!(of("iqn.away:s"), Some(vec![]));
        assert_eq!(of("iqn.third:s"), Some(vec![at("192.0.2.3:3260")]));
        assert_eq!(of("iqn.own"), Some(vec![at("192.0.2.4:3260")]), "one member lists it");
        // Who is away, or asked, may have what the other one has a copy of.
        for name in ["iqn.twice", "iqn.here", "iqn.both"] {
            assert_eq!(of(name), Some(vec![]), "{name}: nobody is sent to either");
        }
        let listed = [("iqn.both", 4), ("iqn.here", 3)].map(|(name, other)| (name, 1, other));
        let listed: Twice = listed
            .into_iter()
            .chain([("iqn.twice", 2, 3)])
            .map(|(name, one, other)| (name.to_owned(), [one, other].map(|id| format!("m{id}"))))
            .collect();
        assert_eq!(twice, listed);
        assert_eq!(all.len(), 7, "{all:?}");
        let of_third = elsewhere(&roll, MemberId(3), &twice);
        assert_eq!(of_third["iqn.mine"].portals.to_vec(), [at("192.0.2.1:3260")]);
        assert_eq!(of_third["iqn.twice"].portals.len(), 0);
    }

    #[test]
    fn a_portal_for_all_addresses_is_at_each_of_its_family() {
        let local: Vec<IpAddr> =
            ["192.0.2.7", "10.0.0.7", "fd00::7"].iter().map(|text| text.parse().unwrap()).collect();
        let address = "192.0.2.7".parse().unwrap();
        let of = |bound: &[&str]| {
            let bound: Vec<SocketAddr> = bound.iter().map(|text| at(text)).collect();
            reachable(&bound, address, &local)
        };
        assert_eq!(of(&["127.0.0.1:3260"]), [at("127.0.0.1:3260")], "as it was said");
        let all = [at("10.0.0.7:3260"), at("192.0.2.7:3260")];
        assert_eq!(of(&["0.0.0.0:3260"]), all, "that of the group last");
        let unlisted = reachable(&[at("0.0.0.0:3260")], address, &local[1..]);
        assert_eq!(unlisted, all, "and also where the host does not list it");
        assert_eq!(of(&["[::]:3270"]), [at("[fd00::7]:3270")]);
        assert_eq!(of(&["10.0.0.7:1", "0.0.0.0:1"]), [at("10.0.0.7:1"), at("192.0.2.7:1")]);
    }

    #[test]
    fn addresses_that_no_other_host_reaches_are_none() {
        let trie = "\
Main:
     |-- 127.0.0.1
        /32 host LOCAL
        |-- 192.0.2.0
           /24 link UNICAST
        |-- 192.0.2.2
           /32 host LOCAL
     |-- 169.254.1.7
        /32 host LOCAL
Local:
     |-- 192.0.2.2
        /32 host LOCAL
";
        assert_eq!(of_trie(trie), [Ipv4Addr::new(192, 0, 2, 2)]);
        let table = "\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000002 04 40 00 82     eth0
fd000000000000000000000000000003 04 40 00 01     eth0
";
        assert_eq!(of_if_inet6(table), ["fd00::2".parse::<Ipv6Addr>().unwrap()]);
        assert_eq!((of_trie("nonsense"), of_if_inet6("nonsense")), (vec![], vec![]));
    }
}
