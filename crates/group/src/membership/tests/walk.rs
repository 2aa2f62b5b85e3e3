//! Random histories of a group: what is refused changes nothing, what is made is sound, and no number comes twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Request {
    Join { server: u8, name: u8, address: u8, port: u16 },
    Enter { server: u8, incarnation: u64 },
    Appear { server: u8, incarnation: u64 },
    Publish { server: u8 },
    Remove { server: u8 },
    Rename { name: u8 },
    CreatePool { pool: u8 },
    DeletePool { pool: u8 },
    MergePool { from: u8, into: u8 },
    MoveMember { server: u8, pool: u8 },
}

/// The name of a pool: the first is there without being made.
fn pool_name(pool: u8) -> String {
    if pool == 0 { DEFAULT_POOL.to_owned() } else { format!("pool-{pool}") }
}

fn request() -> impl Strategy<Value = Request> {
    // Few of each, so that they meet.
    let server = || 1_u8..6;
    let incarnation = || 1_u64..4;
    let pool = || 0_u8..4;
    prop_oneof![
        4 => (server(), server(), server(), PORT..PORT + 8).prop_map(
            |(server, name, address, port)| Request::Join { server, name, address, port }
        ),
        2 => (server(), incarnation())
            .prop_map(|(server, incarnation)| Request::Enter { server, incarnation }),
        2 => (server(), incarnation())
            .prop_map(|(server, incarnation)| Request::Appear { server, incarnation }),
        1 => server().prop_map(|server| Request::Publish { server }),
        2 => server().prop_map(|server| Request::Remove { server }),
        1 => server().prop_map(|name| Request::Rename { name }),
        2 => pool().prop_map(|pool| Request::CreatePool { pool }),
        1 => pool().prop_map(|pool| Request::DeletePool { pool }),
        1 => (pool(), pool()).prop_map(|(from, into)| Request::MergePool { from, into }),
        3 => (server(), pool()).prop_map(|(server, pool)| Request::MoveMember { server, pool }),
    ]
}

/// The number that the member of this name has, or one that nobody has.
fn number(roll: &Roll, server: u8) -> MemberId {
    let found = roll.find(&format!("server-{server}"));
    found.map_or(MemberId(u16::MAX), |(number, _)| number)
}

fn make(
    membership: &Membership,
    roll: &Roll,
    lease: LeaseId,
    request: &Request,
) -> Result<Option<MemberId>, MembershipError> {
    match *request {
        Request::Join { server, name, address, port } => {
            let (name, address) = (applicant(name).name, applicant(address).address);
            let applicant = Applicant { name, address, port, ..applicant(server) };
            let (id, secret) = token(membership);
            match wait(membership.admit(&id, secret.as_str(), applicant, NOW)) {
                Ok((number, roll)) => {
                    roll.check();
                    Ok(Some(number))
                }
                Err(error) => {
                    wait(membership.revoke_token(&id)).expect("who is refused keeps the token");
                    Err(error)
                }
            }
        }
        Request::Enter { server, incarnation } => {
            wait(membership.enter(number(roll, server), incarnation, "0.1.0")).map(|()| None)
        }
        Request::Appear { server, incarnation } => {
            wait(membership.appear(number(roll, server), incarnation, lease)).map(|()| None)
        }
        Request::Publish { server } => {
            let inventory = Inventory::default();
            wait(membership.publish(number(roll, server), &inventory)).map(|_| None)
        }
        Request::Remove { server } => {
            wait(membership.remove(&format!("server-{server}"))).map(|_| None)
        }
        Request::Rename { name } => wait(membership.rename(&format!("lab-{name}"))).map(|()| None),
        Request::CreatePool { pool } => {
            wait(membership.create_pool(&pool_name(pool))).map(|()| None)
        }
        Request::DeletePool { pool } => {
            wait(membership.delete_pool(&pool_name(pool))).map(|()| None)
        }
        Request::MergePool { from, into } => {
            wait(membership.merge_pool(&pool_name(from), &pool_name(into))).map(|()| None)
        }
        Request::MoveMember { server, pool } => {
            let (name, pool) = (applicant(server).name, pool_name(pool));
            wait(membership.move_member(&name, &pool)).map(|()| None)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_history_is_sound(requests in proptest::collection::vec(request(), 1..40)) {
        let store = store();
        let membership = group(&store);
        let lease = wait(store.grant(HOUR)).unwrap();
        let mut given = BTreeSet::from([MemberId(1)]);
        for request in requests {
            let before = read(&membership);
            let result = make(&membership, &before, lease, &request);
            let after = read(&membership);
            match result {
                Ok(Some(number)) => prop_assert!(given.insert(number), "{} again", number),
                Ok(None) => {}
                Err(error) => {
                    prop_assert_eq!(&after.members, &before.members, "{}", error);
                    prop_assert_eq!(&after.about, &before.about, "{}", error);
                    prop_assert_eq!(&after.present, &before.present, "{}", error);
                    prop_assert_eq!(&after.pools, &before.pools, "{}", error);
                }
            }
            let last = after.about.as_ref().map(|about| about.last_member);
            prop_assert_eq!(last, given.last().map(|number| number.0));
            prop_assert!(after.members.keys().all(|number| given.contains(number)));
            // Each member is in one pool.
            let pools = after.pool_names().into_iter();
            let placed = pools.filter_map(|name| after.members_of_pool(name)).flatten();
            let mut placed: Vec<MemberId> = placed.collect();
            placed.sort_unstable();
            prop_assert_eq!(placed, after.members.keys().copied().collect::<Vec<_>>());
        }
    }
}
