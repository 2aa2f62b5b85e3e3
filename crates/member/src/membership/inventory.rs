//! What members serve: where hosts reach this one, and where they find what others have.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use group::access::Object;
use group::membership::{Inventory, ListedVolume, Roll, Shown, folded};
use group::ownership::MemberId;
use group::settings::{Departure, Stage};

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

    /// Whether hosts can use it there, as far as its member has said.
    fn is_online(&self) -> bool {
        let volume = self.volume.and_then(|at| self.inventory.volumes.get(at));
        match self.object {
            Object::Volume => volume.is_some_and(|volume| volume.is_online),
            // Those that are not are not listed.
            Object::Snapshot => true,
        }
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

/// A target that a member lists.
struct Listed {
    /// Its normalised name.
    iqn: String,
    object: Object,
    /// Where its volume stands in what the member serves.
    volume: Option<usize>,
    /// Hosts can use it there.
    is_online: bool,
    /// That of the volume; empty where it is not known, and for snapshots.
    serial: String,
}

/// As iSCSI compares names (RFC 3722).
fn normalised(iqn: &str) -> String {
    iqn.to_ascii_lowercase()
}

/// The targets that a member lists. The name of a snapshot's target is that of its volume, a colon, and what tells it
/// from others; no other colon is behind the volume's.
fn listed(inventory: &Inventory) -> impl Iterator<Item = Listed> {
    let volumes = inventory.volumes.iter().map(|volume| normalised(&volume.iqn));
    let places: BTreeMap<String, usize> = volumes.clone().zip(0..).collect();
    let volumes = volumes.zip(0..).map(move |(iqn, at)| {
        let ListedVolume { is_online, ref serial, .. } = inventory.volumes[at];
        let serial = serial.clone();
        Listed { iqn, object: Object::Volume, volume: Some(at), is_online, serial }
    });
    let snapshots = inventory.snapshots.iter().map(move |iqn| {
        let iqn = normalised(iqn);
        let volume = iqn.rsplit_once(':').and_then(|(volume, _)| places.get(volume).copied());
        let (object, serial) = (Object::Snapshot, String::new());
        Listed { iqn, object, volume, is_online: true, serial }
    });
    volumes.chain(snapshots)
}

/// The targets that two members list, whether they are present or away, unless they are one volume, by its serial number,
/// that hosts can use on just one of them: so it is while a volume moves. Else one of the two has a copy of what the
/// other has, or had it, or their names begin alike: who sends hosts to either may have them write to the wrong one.
pub(super) fn listed_twice(roll: &Roll) -> Twice {
    let mut listers: BTreeMap<String, Vec<(MemberId, bool, String)>> = BTreeMap::new();
    for (id, inventory) in &roll.inventories {
        for Listed { iqn, is_online, serial, .. } in listed(inventory) {
            let all = listers.entry(iqn).or_default();
            match all.iter_mut().find(|(other, ..)| other == id) {
                // One member may list it in two spellings.
                Some((_, was_online, _)) => *was_online |= is_online,
                None => all.push((*id, is_online, serial)),
            }
        }
    }
    let name = |id: MemberId| roll.members.get(&id).map_or(String::new(), |it| it.name.clone());
    let twice = listers.into_iter().filter_map(|(iqn, all)| {
        let [(one, _, serial), (other, ..), ..] = &all[..] else { return None };
        let online = all.iter().filter(|(_, is_online, _)| *is_online).count();
        let is_one = !serial.is_empty() && all.iter().all(|(.., its)| its == serial);
        (online != 1 || !is_one).then(|| (iqn, [name(*one), name(*other)]))
    });
    twice.collect()
}

/// Whether a target is that of a volume that moves, as one of the members says that list it: both may for a moment, before
/// all have heard of the hand-over.
pub(super) fn is_on_its_way(roll: &Roll, iqn: &str) -> bool {
    roll.inventories.values().any(|inventory| {
        let mut volumes = inventory.volumes.iter().filter(|it| normalised(&it.iqn) == iqn);
        volumes
            .any(|it| inventory.moves.iter().any(|part| folded(&part.volume) == folded(&it.name)))
    })
}

/// What the others serve. A target that two members list is nowhere: hosts are to ask again later. So is one that a
/// member has handed over, this one too, until another one lists it.
pub(super) fn elsewhere(roll: &Roll, me: MemberId, twice: &Twice) -> Elsewhere {
    let mut all = Elsewhere::new();
    let nowhere: Arc<[SocketAddr]> = Arc::new([]);
    for (id, inventory) in roll.inventories.iter().filter(|(id, _)| **id != me) {
        let is_present = roll.is_present(*id);
        // What a member has by turns with others leads to whoever has it.
        let is_own = |portal: &&SocketAddr| {
            roll.address.is_none_or(|address| address.ip() != portal.ip().to_canonical())
        };
        let portals: Arc<[SocketAddr]> = inventory.portals.iter().filter(is_own).copied().collect();
        for Listed { iqn, object, volume, .. } in listed(inventory) {
            if all.get(&iqn).is_some_and(TargetElsewhere::is_online) {
                continue;
            }
            let is_known = is_present && !twice.contains_key(&iqn);
            let portals = if is_known { portals.clone() } else { nowhere.clone() };
            let inventory = inventory.clone();
            all.insert(iqn, TargetElsewhere { portals, object, inventory, volume });
        }
    }
    for inventory in roll.inventories.values() {
        for iqn in inventory.leaving.iter().map(|iqn| normalised(iqn)) {
            let (portals, inventory) = (nowhere.clone(), inventory.clone());
            let object = Object::Volume;
            let gone = || TargetElsewhere { portals, object, inventory, volume: None };
            all.entry(iqn).or_insert_with(gone);
        }
    }
    all
}

/// The targets of volumes that were handed over to other members, and are not sure to be known there by all.
pub(crate) fn handed_over(departures: Vec<Departure>) -> Vec<String> {
    let gone = departures.into_iter().filter(|departure| departure.stage == Stage::Gone);
    gone.flat_map(|departure| departure.iqns).collect()
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
    use super::*;
    use crate::membership::tests::roll_of;
    use group::access::{AccessList, Entry, Record};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn inventory(portal: &str, volumes: &[&str], snapshots: &[&str]) -> Inventory {
        let volume = |iqn: &&str| ListedVolume {
            name: (*iqn).to_owned(),
            iqn: (*iqn).to_owned(),
            serial: normalised(iqn),
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

    /// A member may have looked at its addresses in the moment in which that of the group was among them.
    #[test]
    fn nobody_is_sent_to_the_address_of_the_group() {
        let mut roll = roll_of(&[(1, true), (2, true)]);
        let mut theirs = inventory("192.0.2.100:3260", &["iqn.a"], &[]);
        theirs.portals.push(at("192.0.2.2:3260"));
        roll.inventories.insert(MemberId(2), Arc::new(theirs));
        let portals =
            |roll: &Roll| elsewhere(roll, MemberId(1), &Twice::new())["iqn.a"].portals.to_vec();
        assert_eq!(portals(&roll), [at("192.0.2.100:3260"), at("192.0.2.2:3260")]);
        roll.address = "192.0.2.100/24".parse().ok();
        assert_eq!(portals(&roll), [at("192.0.2.2:3260")]);
    }

    /// The source of a move lists the volume, offline, until it has heard that it is the destination's; or its last
    /// words of before say so.
    #[test]
    fn of_two_that_list_a_volume_the_one_where_it_is_online_has_it() {
        for (from, is_source_present) in [(2, true), (2, false), (3, true), (1, true)] {
            let to = if from == 3 { 2 } else { 3 };
            let is_present = |id: u16| (id, id != from || is_source_present);
            let mut roll = roll_of(&[1, 2, 3].map(is_present));
            let mut source = inventory("192.0.2.8:3260", &["iqn.A:vm"], &[]);
            let destination = inventory("192.0.2.9:3260", &["iqn.a:VM"], &[]);
            roll.inventories.insert(MemberId(from), Arc::new(source.clone()));
            roll.inventories.insert(MemberId(to), Arc::new(destination));
            let found = |roll: &Roll| {
                let twice = listed_twice(roll);
                let all = elsewhere(roll, MemberId(1), &twice);
                (all["iqn.a:vm"].portals.to_vec(), twice.len())
            };
            assert_eq!(found(&roll), (vec![], 1), "both have it, as far as they say");
            source.volumes[0].is_online = false;
            roll.inventories.insert(MemberId(from), Arc::new(source.clone()));
            assert_eq!(found(&roll), (vec![at("192.0.2.9:3260")], 0), "from {from} to {to}");
            // Names of targets of two arrays may begin alike: hosts of one volume never find another.
            for serial in ["another", ""] {
                serial.clone_into(&mut source.volumes[0].serial);
                roll.inventories.insert(MemberId(from), Arc::new(source.clone()));
                assert_eq!(found(&roll), (vec![], 1), "they are two volumes, or may be");
            }
        }
    }

    #[test]
    fn what_was_handed_over_is_nowhere_until_another_one_lists_it() {
        let mut roll = roll_of(&[(1, true), (2, true), (3, true)]);
        let leaving = |portal: &str, iqn: &str| {
            let leaving = vec![iqn.to_owned()];
            Arc::new(Inventory { leaving, ..inventory(portal, &[], &[]) })
        };
        roll.inventories.insert(MemberId(1), leaving("192.0.2.1:3260", "iqn.mine"));
        roll.inventories.insert(MemberId(2), leaving("192.0.2.2:3260", "iqn.a:VM"));
        let found = |roll: &Roll, me: u16, iqn: &str| {
            let all = elsewhere(roll, MemberId(me), &listed_twice(roll));
            all.get(iqn).map(|it| (it.portals.to_vec(), it.shown().clone()))
        };
        let nowhere = Some((vec![], Shown::Nobody));
        for me in 1..4 {
            assert_eq!(found(&roll, me, "iqn.mine"), nowhere, "to {me}");
            assert_eq!(found(&roll, me, "iqn.a:vm"), nowhere, "to {me}");
        }
        assert_eq!(found(&roll, 1, "iqn.other"), None);
        let adopted = inventory("192.0.2.3:3260", &["iqn.a:vm"], &[]);
        roll.inventories.insert(MemberId(3), Arc::new(adopted));
        assert_eq!(listed_twice(&roll), Twice::new(), "it is told of nobody as twice there");
        let there = Some((vec![at("192.0.2.3:3260")], Shown::Nobody));
        for me in [1, 2] {
            assert_eq!(found(&roll, me, "iqn.a:vm"), there, "to {me}");
        }
        assert_eq!(found(&roll, 1, "iqn.mine"), nowhere);
    }

    #[test]
    fn what_is_handed_over_is_what_the_store_has_given_away() {
        let departure = |volume: u32, stage: Stage| Departure {
            id: format!("{volume:032x}").parse().unwrap(),
            group: "0".repeat(32).parse().unwrap(),
            volume,
            name: format!("vm-{volume}"),
            from: MemberId(1),
            to: MemberId(2),
            to_name: String::new(),
            serial: String::new(),
            iqns: vec![format!("iqn.a:vm-{volume}")],
            stage,
        };
        let all = vec![departure(1, Stage::Leaving), departure(2, Stage::Gone)];
        assert_eq!(handed_over(all), ["iqn.a:vm-2"]);
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
