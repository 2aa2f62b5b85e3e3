//! What the interface says of a group.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use api::client::Despite;
use api::problem::Code;
use api::types::{ConnectionsProfile, GroupConnections, MemberState, NewGroup, NewJoinToken};
use group::connections::GroupLimit;
use group::membership::{ListedVolume, MembershipError, Shown};
use group::ownership::MemberId;
use member::{
    Answer, ConnectionsShown, GroupError, GroupRequest, GroupShown, JoinTicket, KeptTicket,
    MemberShown, PoolShown, RequestError, VolumeOfMember,
};

use crate::{Lab, SECRET, Served, problem, shown};

fn member(number: u16, name: &str, state: member::MemberState) -> MemberShown {
    MemberShown {
        number: MemberId(number),
        name: name.to_owned(),
        state,
        is_here: number == 2,
        door: format!("127.0.0.{number}:3262").parse().expect("an address"),
        portals: vec![format!("127.0.0.{number}:3260").parse().expect("an address")],
        volumes: 1,
        version: "0.1.0".to_owned(),
        joined_unix_seconds: 7,
        store: number == 1,
        pool: "default".to_owned(),
        free_bytes: 1 << 30,
        capacity_bytes: 1 << 40,
        shares: (number == 2).then_some(true),
    }
}

fn pool(name: &str) -> PoolShown {
    PoolShown {
        name: name.to_owned(),
        members: vec!["san1".to_owned(), "san2".to_owned()],
        present: 1,
        volumes: 2,
        free_bytes: 1 << 30,
        capacity_bytes: 1 << 40,
        connections: ConnectionsShown {
            limit: Some(1024),
            taken: 7,
            members: [("san1".to_owned(), 7)].into(),
        },
        has_own_limit: true,
    }
}

/// What it answers about a pool of this name.
fn about_pool(asked: &GroupRequest, name: &str) -> Result<Answer, RequestError> {
    let refused = match (asked, name) {
        (GroupRequest::CreatePool { .. }, "ssd") => MembershipError::PoolTaken(name.to_owned()),
        (GroupRequest::ShowPool { .. }, "tape") => MembershipError::NoSuchPool(name.to_owned()),
        (GroupRequest::DeletePool { .. }, "default") => MembershipError::DefaultPool,
        (GroupRequest::DeletePool { .. }, _) => return Ok(Answer::Done),
        _ => return Ok(Answer::Pool(Box::new(pool(name)))),
    };
    Err(GroupError::from(refused).into())
}

/// A member of a group of two, whose tokens to join are this one.
fn in_one(lab: &Lab) -> Served {
    let ticket = lab.ticket.clone();
    Served::begin(move |asked| {
        Ok(match asked {
            GroupRequest::Show
            | GroupRequest::Create { .. }
            | GroupRequest::Rename { .. }
            | GroupRequest::SetAddress { .. }
            | GroupRequest::SetConnections { .. }
            | GroupRequest::Join { .. } => Answer::Group(shown()),
            GroupRequest::CreateTicket { lifetime } if lifetime.is_zero() => {
                return Err(GroupError::from(MembershipError::Lifetime).into());
            }
            GroupRequest::CreateTicket { .. } => Answer::JoinTicket(JoinTicket {
                ticket: ticket.clone(),
                expires_unix_seconds: 86_407,
            }),
            GroupRequest::Members => Answer::Members(vec![
                member(1, "san1", member::MemberState::Away),
                member(2, "san2", member::MemberState::Present),
            ]),
            GroupRequest::Volumes => Answer::GroupVolumes(vec![VolumeOfMember {
                member: "san1".to_owned(),
                state: member::MemberState::Unknown,
                volume: ListedVolume {
                    name: "a".to_owned(),
                    iqn: "iqn.2026-11.dev.drystone:01:a".to_owned(),
                    serial: String::new(),
                    size_bytes: 1 << 30,
                    is_online: true,
                    is_lost: false,
                    shown: Shown::Everybody,
                },
            }]),
            GroupRequest::Tickets => Answer::JoinTickets(vec![KeptTicket {
                id: "00c0ffee".to_owned(),
                created_unix_seconds: 7,
                expires_unix_seconds: 86_407,
            }]),
            GroupRequest::RevokeTicket { id } if id != "00c0ffee" => {
                return Err(GroupError::from(MembershipError::NoSuchToken(id.clone())).into());
            }
            GroupRequest::Pools => Answer::Pools(vec![pool("default"), pool("ssd")]),
            GroupRequest::ShowPool { name }
            | GroupRequest::CreatePool { name }
            | GroupRequest::DeletePool { name }
            | GroupRequest::SetPoolConnections { name, .. }
            | GroupRequest::MergePool { into: name, .. } => return about_pool(asked, name),
            GroupRequest::Share { replace: true } => Answer::Group(shown()),
            GroupRequest::Share { replace: false } => {
                let differ = vec!["policy 'esx'".to_owned()];
                return Err(GroupError::SettingsDiffer(differ).into());
            }
            GroupRequest::Remove { member, .. } if member == "san1" => Answer::Done,
            GroupRequest::Remove { member, .. } => {
                return Err(GroupError::from(MembershipError::NoSuchMember(member.clone())).into());
            }
            _ => Answer::Done,
        })
    })
}

#[test]
fn a_group_is_shown_with_its_members_and_their_volumes() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let group = client.group().unwrap();
    assert_eq!((group.name.as_str(), group.door.as_str()), ("lab", "127.0.0.2:3262"));
    assert_eq!((group.away, group.store_fault), (vec!["san1".to_owned()], None));
    assert_eq!(group.store_part_fault.as_deref(), Some("etcd has ended"));
    assert_eq!((group.shares, group.settings_differ), (false, vec!["policy 'esx'".to_owned()]));
    let members = client.members().unwrap();
    let states: Vec<_> = members.iter().map(|it| (it.number, it.state, it.here)).collect();
    assert_eq!(states, [(1, MemberState::Away, false), (2, MemberState::Present, true)]);
    assert_eq!(members[0].portals, ["127.0.0.1:3260"]);
    let [first, second] = &members[..] else { panic!("{members:?}") };
    assert_eq!((first.pool.as_str(), first.shares), ("default", None));
    assert_eq!((second.free_bytes, second.capacity_bytes), (1 << 30, 1 << 40));
    assert_eq!(second.shares, Some(true));
    assert_eq!(client.member("SAN2").unwrap(), members[1]);
    let told = problem(client.member("san3"));
    assert_eq!(
        (told.code, told.detail.as_str()),
        (Code::NoSuchMember, "the group has no member 'san3'",)
    );
    let volumes = client.group_volumes().unwrap();
    let [volume] = &volumes[..] else { panic!("{volumes:?}") };
    assert_eq!((volume.member.as_str(), volume.name.as_str()), ("san1", "a"));
    assert!(volume.online, "{volume:?}");
    assert_eq!(volume.member_state, MemberState::Unknown, "{volume:?}");
    served.server.stop();
}

#[test]
fn a_group_is_made_renamed_and_ended_and_members_are_removed() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let new = |listen: &str| NewGroup {
        name: "lab".to_owned(),
        member: None,
        listen: listen.to_owned(),
        address: None,
    };
    assert_eq!(client.create_group(&new("127.0.0.2:4000")).unwrap().name, "lab");
    assert_eq!(problem(client.create_group(&new("san2"))).code, Code::Invalid);
    client.rename_group("yard").unwrap();
    let despite = Despite { moves: true, spreads: true };
    client.remove_member("san1", Despite::default()).unwrap();
    assert_eq!(problem(client.remove_member("san3", despite)).code, Code::NoSuchMember);
    client.delete_group().unwrap();
    let wanted = [
        GroupRequest::Create {
            name: "lab".to_owned(),
            member: None,
            listen: "127.0.0.2:4000".parse().unwrap(),
            address: None,
        },
        GroupRequest::Rename { name: "yard".to_owned() },
        GroupRequest::Remove {
            member: "san1".to_owned(),
            despite_moves: false,
            despite_spreads: false,
        },
        GroupRequest::Remove {
            member: "san3".to_owned(),
            despite_moves: true,
            despite_spreads: true,
        },
        GroupRequest::Delete,
    ];
    assert_eq!(served.asked(), wanted);
    served.server.stop();
}

#[test]
fn connections_of_hosts_are_limited_for_the_group_and_for_a_pool() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let group = client.group().unwrap();
    assert_eq!((group.connections, group.connections_limit), (Some(12), Some(4096)));
    assert_eq!(group.pool_connections_limit, Some(1024));
    assert_eq!(
        group.member_connections,
        [("san1", 7), ("san2", 5)].map(|(name, n)| (name.to_owned(), n)).into()
    );
    let profile = GroupConnections::Profile(ConnectionsProfile::Small);
    let none = GroupConnections::Profile(ConnectionsProfile::None);
    for new in [GroupConnections::Limit(9), profile, none] {
        assert_eq!(client.set_group_connections(&new).unwrap().name, "lab");
    }
    for wrong in [0, 4_194_305] {
        let refused = client.set_group_connections(&GroupConnections::Limit(wrong));
        assert_eq!(problem(refused).code, Code::Invalid);
        assert_eq!(problem(client.set_pool_connections("ssd", Some(wrong))).code, Code::Invalid);
    }
    let pool = client.set_pool_connections("ssd", Some(9)).unwrap();
    assert_eq!(
        (pool.connections, pool.connections_limit, pool.own_connections_limit),
        (7, Some(1024), true)
    );
    client.set_pool_connections("ssd", None).unwrap();
    let nine = || 9.try_into().expect("it is one");
    let name = || "ssd".to_owned();
    let wanted = [
        GroupRequest::Show,
        GroupRequest::SetConnections { limit: GroupLimit::Number(nine()) },
        GroupRequest::SetConnections { limit: GroupLimit::Small },
        GroupRequest::SetConnections { limit: GroupLimit::None },
        GroupRequest::SetPoolConnections { name: name(), limit: Some(nine()) },
        GroupRequest::SetPoolConnections { name: name(), limit: None },
    ];
    assert_eq!(served.asked(), wanted);
    served.server.stop();
}

#[test]
fn a_group_is_given_an_address_and_has_none_any_more() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let group = client.group().unwrap();
    assert_eq!(group.address.as_deref(), Some("127.0.0.100/8"));
    assert_eq!((group.address_member.as_deref(), group.address_fault), (Some("san2"), None));
    assert_eq!(client.set_group_address("127.0.0.100/8").unwrap().name, "lab");
    client.clear_group_address().unwrap();
    for wrong in ["127.0.0.100", "127.0.0.0/8", "127.255.255.255/8", "224.0.0.1/8", "::1/128"] {
        assert_eq!(problem(client.set_group_address(wrong)).code, Code::Invalid, "{wrong}");
    }
    let address = Some("127.0.0.9/8".to_owned());
    let listen = "127.0.0.2".to_owned();
    let new = NewGroup { name: "lab".to_owned(), member: None, listen, address };
    client.create_group(&new).unwrap();
    let address = |text: &str| Some(text.parse().expect("it is one"));
    let wanted = [
        GroupRequest::Show,
        GroupRequest::SetAddress { address: address("127.0.0.100/8") },
        GroupRequest::SetAddress { address: None },
        GroupRequest::Create {
            name: "lab".to_owned(),
            member: None,
            listen: "127.0.0.2:3262".parse().unwrap(),
            address: address("127.0.0.9/8"),
        },
    ];
    assert_eq!(served.asked(), wanted);
    served.server.stop();
}

#[test]
fn pools_are_made_shown_merged_and_deleted_and_members_are_moved() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let all = client.pools().unwrap();
    let names: Vec<&str> = all.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["default", "ssd"]);
    assert_eq!((all[0].members.join(" ").as_str(), all[0].present), ("san1 san2", 1));
    assert_eq!((all[0].volumes, all[0].free_bytes, all[0].capacity_bytes), (2, 1 << 30, 1 << 40));
    assert_eq!(client.pool("ssd").unwrap(), all[1]);
    assert_eq!(problem(client.pool("tape")).code, Code::NoSuchPool);
    assert_eq!(client.create_pool("disk").unwrap().name, "disk");
    assert_eq!(problem(client.create_pool("ssd")).code, Code::NameTaken);
    assert_eq!(client.merge_pool("disk", "ssd").unwrap().name, "ssd");
    client.delete_pool("disk").unwrap();
    assert_eq!(problem(client.delete_pool("default")).code, Code::Invalid);
    assert_eq!(client.move_member("San2", "ssd").unwrap().name, "san2");
    let asked = served.asked();
    let merge = GroupRequest::MergePool { from: "disk".to_owned(), into: "ssd".to_owned() };
    let moved = GroupRequest::MoveMember { member: "San2".to_owned(), pool: "ssd".to_owned() };
    assert!(asked.contains(&merge) && asked.contains(&moved), "{asked:?}");
    served.server.stop();
}

#[test]
fn settings_are_shared_or_it_is_said_what_differs() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let told = problem(client.share_settings(false));
    assert_eq!(told.code, Code::WrongState);
    assert!(told.detail.contains("policy 'esx'"), "{told}");
    assert_eq!(client.share_settings(true).unwrap().name, "lab");
    let asked = [false, true].map(|replace| GroupRequest::Share { replace });
    assert_eq!(served.asked(), asked);
    served.server.stop();
}

/// The member is not asked for it: the threads of the interface have what they prove members by.
#[test]
fn a_group_is_known_by_the_certificate_of_its_authority() {
    let lab = Lab::make();
    let served = in_one(&lab);
    served.door.replace(Some(lab.door(crate::free_address())));
    let known = served.client().group_certificate().unwrap();
    assert_eq!(known.certificate, lab.authority.certificate_pem());
    assert_eq!(known.certificate_sha256, lab.authority.sha256());
    assert!(served.asked().is_empty());
    // Nobody is answered at its address who is not managed over TLS.
    assert_eq!(served.client().group().unwrap().management_fault, None, "nothing is known of it");
    let address = "127.0.0.100/8".parse().unwrap();
    let answering = member::Answering::Elsewhere;
    served.address.replace(Some(member::AddressNow { address, answering }));
    let shown = served.client().group().unwrap();
    assert_eq!(shown.management, None);
    let fault = shown.management_fault.unwrap();
    assert!(fault.starts_with("it is not managed over TLS: start it with"), "{fault}");
    served.server.stop();
}

#[test]
fn a_member_in_no_group_or_in_a_damaged_one_says_so() {
    let alone = Served::begin(|asked| match asked {
        GroupRequest::Show => Ok(Answer::Group(GroupShown::None)),
        _ => Err(GroupError::NotInGroup.into()),
    });
    let client = alone.client();
    let told = problem(client.group());
    assert_eq!((told.code, told.status), (Code::NoGroup, 404));
    assert_eq!(told.detail, "this member is in no group");
    assert_eq!(problem(client.members()).code, Code::NoGroup);
    assert_eq!(problem(client.group_certificate()).code, Code::NoGroup);
    assert_eq!(problem(client.pools()).code, Code::NoGroup);
    assert_eq!(problem(client.share_settings(true)).code, Code::NoGroup);
    assert_eq!(problem(client.member("san1")).code, Code::NoGroup);
    assert_eq!(problem(client.create_join_token(&NewJoinToken::default())).code, Code::NoGroup);
    alone.server.stop();
    let why = "its key does not read".to_owned();
    let damaged = Served::begin(move |_| Ok(Answer::Group(GroupShown::Broken(why.clone()))));
    let told = problem(damaged.client().group());
    assert_eq!((told.code, told.status), (Code::Unavailable, 503));
    assert!(told.detail.contains("its key does not read"), "{told}");
    assert_eq!(problem(damaged.client().group_certificate()).detail, told.detail);
    damaged.server.stop();
}

#[test]
fn a_token_to_join_with_is_told_once_and_no_key_brings_it_back() {
    let lab = Lab::make();
    let served = in_one(&lab);
    let made = served.client().create_join_token(&NewJoinToken { expires_seconds: Some(60) });
    let made = made.unwrap();
    assert_eq!(made.token, lab.ticket.as_text().as_str());
    assert_eq!((made.id.as_str(), made.expires_unix_seconds), ("00c0ffee", 86_407));
    served.client().create_join_token(&NewJoinToken::default()).unwrap();
    let asked = served.asked();
    let lifetimes = [60, 86_400].map(Duration::from_secs);
    assert_eq!(asked, lifetimes.map(|lifetime| GroupRequest::CreateTicket { lifetime }));
    let before = served.asked().len();
    for _ in 0..2 {
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        let request = "POST /v1/group/tokens HTTP/1.1\r\nhost: a\r\nconnection: close\r\nidempotency-key: once\r\n\
                       content-length: 0\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        assert!(answer.to_lowercase().contains("cache-control: no-store"), "{answer}");
        assert!(answer.contains(SECRET), "{answer}");
    }
    assert_eq!(served.asked().len() - before, 2, "each makes one");
    let logs = format!("{:?} {:?}", served.logs.audit.after(0), served.asked());
    assert!(!logs.contains(SECRET), "{logs}");
    served.server.stop();
}

#[test]
fn tokens_to_join_with_are_listed_without_what_they_are_and_are_revoked() {
    let served = in_one(&Lab::make());
    let client = served.client();
    let kept = client.join_tokens().unwrap();
    let [token] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!((token.id.as_str(), token.created_unix_seconds), ("00c0ffee", 7));
    assert_eq!(token.expires_unix_seconds, 86_407);
    client.revoke_join_token("00c0ffee").unwrap();
    let told = problem(client.revoke_join_token("00decade"));
    assert_eq!(
        (told.code, told.detail.as_str()),
        (Code::NoSuchToken, "there is no token '00decade' to join with")
    );
    let none = NewJoinToken { expires_seconds: Some(0) };
    assert_eq!(problem(client.create_join_token(&none)).code, Code::Invalid);
    served.server.stop();
}
