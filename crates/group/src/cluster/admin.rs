//! Members of the group and members of etcd: how one is called by the other, and which is which.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::plan::Seat;
use crate::ownership::MemberId;
use crate::store::EtcdMember;

/// Where the etcd of a member answers clients, at the port that it has for them.
#[must_use]
pub fn client_url(address: IpAddr, client_port: u16) -> String {
    url(address, client_port)
}

/// Where the etcd of a member answers the others, at the port that it has for them.
#[must_use]
pub fn peer_url(address: IpAddr, peer_port: u16) -> String {
    url(address, peer_port)
}

fn url(address: IpAddr, port: u16) -> String {
    format!("https://{}", SocketAddr::new(address, port))
}

/// What the etcd of a member calls itself: `m00007`.
#[must_use]
pub fn etcd_name(member: MemberId) -> String {
    format!("m{:05}", member.0)
}

/// Whose etcd calls itself so.
fn member_of(name: &str) -> Option<MemberId> {
    let member = MemberId(name.strip_prefix('m')?.parse().ok()?);
    (etcd_name(member) == name).then_some(member)
}

/// The members of etcd as the plan looks at them. `peers` says which member of the group has which [`peer_url`]: so a
/// seat is known that was added and has not been taken yet, which has no name.
#[must_use]
pub fn seats(members: &[EtcdMember], peers: &BTreeMap<String, MemberId>) -> Vec<Seat> {
    let seat = |etcd: &EtcdMember| {
        let reached_at = || etcd.peer_urls.iter().find_map(|url| peers.get(url)).copied();
        Seat {
            etcd_id: etcd.id,
            // The name first: the address may be that of a later member.
            member: member_of(&etcd.name).or_else(reached_at),
            peer_urls: etcd.peer_urls.clone(),
            is_learner: etcd.is_learner,
            is_started: etcd.is_started(),
            answers: true,
        }
    };
    members.iter().map(seat).collect()
}

/// Where requests to the store go: to the members of etcd that have a vote and have been there. Learners refuse them.
#[must_use]
pub fn endpoints(members: &[EtcdMember]) -> Vec<String> {
    let voters = members.iter().filter(|member| member.is_started() && !member.is_learner);
    voters.flat_map(|member| member.client_urls.iter().cloned()).collect()
}
