//! What lies in the store of a large group: the figures of `docs/store.md`, which `--nocapture` prints.

use super::*;
use crate::access::{AccessList, Entry, Record};
use crate::membership::roll::{PREFIX, inventory_key};

const MEMBERS: u8 = 64;
const VOLUMES: usize = 1000;

/// A volume as hosts of one record are told of it, with a name of usual length.
fn listed(member: u8, volume: usize) -> ListedVolume {
    let name = format!("production-database-{member:02}-{volume:04}");
    let record: Record = "iqn=iqn.1994-05.com.redhat:5f6a7b8c9d0e".parse().expect("a record");
    let mut list = AccessList::default();
    list.add(Entry::Record(record)).expect("there is room");
    ListedVolume {
        iqn: format!("iqn.2026-08.example.drystone:0011223344556677.{name}"),
        serial: format!("{member:08x}{volume:08x}"),
        name,
        size_bytes: 1 << 40,
        is_online: true,
        is_lost: false,
        shown: Shown::Listed(list),
    }
}

fn bytes_of(store: &Arc<dyn Store>, prefix: &str) -> (usize, usize) {
    let all = wait(store.range(Selection::prefix(prefix))).expect("it is read").kvs;
    (all.len(), all.iter().map(|kv| kv.key.len() + kv.value.len()).sum())
}

#[test]
fn what_lies_in_the_store_grows_with_members_and_volumes() {
    let store = store();
    let membership = group(&store);
    for number in 2..=MEMBERS {
        join(&membership, applicant(number)).expect("there is room");
    }
    let (keys, bare) = bytes_of(&store, PREFIX);
    println!("{MEMBERS} members without volumes: {keys} keys, {bare} bytes");
    assert!(bare < usize::from(MEMBERS) * 512, "{bare}");
    for number in 1..=MEMBERS {
        let volumes = (0..VOLUMES).map(|volume| listed(number, volume)).collect();
        let inventory = Inventory { volumes, ..Inventory::default() };
        let names: Vec<_> = inventory.volumes.iter().map(|volume| volume.name.clone()).collect();
        let member = MemberId(u16::from(number));
        for names in names.chunks(100) {
            wait(membership.claim_names(member, names)).expect("they are free");
        }
        wait(membership.publish(member, &inventory)).expect("it is told");
    }
    let (_, told) = bytes_of(&store, &inventory_key(MemberId(1)));
    println!("what one tells of {VOLUMES} volumes: {told} bytes, {} each", told / VOLUMES);
    assert!(told < VOLUMES * 400, "{told}");
    let (claims, claimed) = bytes_of(&store, super::super::roll::NAMES);
    println!("{claims} names: {claimed} bytes, {} each", claimed / claims);
    assert_eq!(claims, usize::from(MEMBERS) * VOLUMES);
    assert!(claimed < claims * 160, "{claimed}");
    let (keys, all) = bytes_of(&store, "");
    println!("{MEMBERS} members with {VOLUMES} volumes each: {keys} keys, {all} bytes");
    let roll = read(&membership);
    assert_eq!(roll.inventories.len(), usize::from(MEMBERS));
    let volumes: usize = roll.inventories.values().map(|told| told.volumes.len()).sum();
    assert_eq!(volumes, usize::from(MEMBERS) * VOLUMES, "nobody is left out");
    let shown = roll.inventories.values().flat_map(|told| &told.volumes);
    assert!(shown.into_iter().all(|volume| volume.shown != Shown::Nobody), "hosts are told of all");
}
