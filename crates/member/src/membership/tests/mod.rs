//! What members of a group do by what they know of it, and members on this machine ([`node`]), each at an address of
//! its own, over an etcd that they run themselves.

mod address;
mod connections;
mod joining;
mod known;
mod lists;
mod lives;
mod names;
mod node;
mod pools;
mod sharing;

use std::net::Ipv4Addr;

use group::membership::{About, MemberRecord, Roll};
use group::ownership::MemberId;

use super::files::{MembershipFile, SettingsMark};
use super::life::judge;
use super::requests::state_of;
use super::trouble::Trouble;
use super::*;
use crate::group_request::MemberState;

pub(crate) use node::free_at;
pub(crate) use sharing::{join, make_group, start};

const GROUP: &str = "0123456789abcdef0123456789abcdef";

/// A group of members with these numbers, of whom some are present. Each has entered.
pub(super) fn roll_of(members: &[(u16, bool)]) -> Roll {
    let record = |number: u16| MemberRecord {
        name: format!("m{number}"),
        address: Ipv4Addr::new(192, 0, 2, number.try_into().unwrap()).into(),
        port: 3262,
        certificate_sha256: String::new(),
        array: format!("{number:032x}"),
        version: "1.0.0".to_owned(),
        joined_unix_seconds: 1,
        incarnation: u64::from(number) + 100,
    };
    let about = About {
        id: GROUP.parse().unwrap(),
        name: "lab".to_owned(),
        created_unix_seconds: 1,
        last_member: members.iter().map(|(number, _)| *number).max().unwrap(),
    };
    let present = members.iter().filter(|(_, is_present)| *is_present);
    Roll {
        about: Some(about),
        members: members.iter().map(|(number, _)| (MemberId(*number), record(*number))).collect(),
        present: present.map(|(number, _)| (MemberId(*number), u64::from(*number) + 100)).collect(),
        ..Roll::default()
    }
}

fn file_of(member: u16, is_ending: bool) -> MembershipFile {
    MembershipFile {
        version: MembershipFile::VERSION,
        group: GROUP.parse().unwrap(),
        group_name: "lab".to_owned(),
        member: MemberId(member),
        name: format!("m{member}"),
        address: Ipv4Addr::LOCALHOST.into(),
        port: 3262,
        endpoints: Vec::new(),
        further_endpoints: Vec::new(),
        has_seat: false,
        is_ending,
        settings: SettingsMark::Own,
        group_address: None,
        limits: None,
    }
}

/// Everything that a member keeps of its group is deleted by this word: nothing less may be one.
#[test]
fn only_the_word_of_its_own_group_lets_a_member_leave() {
    let roll = roll_of(&[(1, true), (2, false)]);
    assert_eq!(judge(&roll, &file_of(1, false)), Ok(()));
    assert_eq!(judge(&roll, &file_of(2, false)), Ok(()), "it is away, and in it");
    assert_eq!(judge(&roll, &file_of(3, false)), Err(Trouble::Removed));
    assert_eq!(judge(&roll, &file_of(1, true)), Ok(()), "it was to end, and did not");
    let is_damage = |roll: &Roll, is_ending| {
        matches!(judge(roll, &file_of(3, is_ending)), Err(Trouble::Damaged(_)))
    };
    assert!(is_damage(&Roll::default(), false), "a store that was lost and made anew");
    assert_eq!(judge(&Roll::default(), &file_of(3, true)), Err(Trouble::Deleted));
    let mut other = roll;
    other.about.as_mut().unwrap().id = "f".repeat(32).parse().unwrap();
    assert!(is_damage(&other, false) && is_damage(&other, true), "the store of another group");
}

#[test]
fn how_a_member_is_is_not_known_without_the_store() {
    let mut roll = roll_of(&[(1, true), (2, true), (3, false), (4, false)]);
    roll.members.get_mut(&MemberId(4)).unwrap().incarnation = 0;
    let states =
        |is_known| [1, 2, 3, 4].map(|id| state_of(MemberId(id), &roll, (MemberId(1), is_known)));
    use MemberState::{Away, Joining, Present, Unknown};
    assert_eq!(states(true), [Present, Present, Away, Joining]);
    assert_eq!(states(false), [Present, Unknown, Unknown, Unknown]);
    // Signs of life of a life before the last do not count.
    roll.present.insert(MemberId(3), 7);
    assert_eq!(state_of(MemberId(3), &roll, (MemberId(1), true)), Away);
}
