//! Members of the group by the names and addresses of their etcds, and what an etcd is started with.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;

use super::bed::Bed;
use crate::cluster::config::any_origin;
use crate::cluster::server::find_in;
use crate::cluster::{Begin, client_url, endpoints, etcd_name, peer_url, seats};
use crate::ownership::MemberId;
use crate::store::EtcdMember;

fn etcd(id: u64, name: &str, port: u16, is_learner: bool) -> EtcdMember {
    let address = IpAddr::from([192, 0, 2, 1]);
    let client_urls = if name.is_empty() { vec![] } else { vec![client_url(address, port)] };
    let peer_urls = vec![peer_url(address, port + 1)];
    EtcdMember { id, name: name.into(), peer_urls, client_urls, is_learner }
}

#[test]
fn seats_are_known_by_their_name_and_before_they_have_one_by_their_address() {
    assert_eq!(etcd_name(MemberId(7)), "m00007");
    let etcds = [
        etcd(11, "m00001", 1_000, false),
        etcd(12, "", 2_000, true),
        etcd(13, "", 3_000, true),
        etcd(14, "m0004", 4_000, false),
        etcd(15, "m65536", 5_000, false),
    ];
    let address = IpAddr::from([192, 0, 2, 1]);
    // The address of the first is that of a later member by now.
    let peers = [(1_001, 9), (2_001, 2)];
    let peers: BTreeMap<String, MemberId> =
        peers.map(|(port, member)| (peer_url(address, port), MemberId(member))).into();
    let seats = seats(&etcds, &peers);
    let members: Vec<_> = seats.iter().map(|seat| seat.member.map(|member| member.0)).collect();
    assert_eq!(members, [Some(1), Some(2), None, None, None]);
    let known: Vec<_> =
        seats.iter().map(|seat| (seat.etcd_id, seat.is_learner, seat.is_started)).collect();
    assert_eq!(known[..3], [(11, false, true), (12, true, false), (13, true, false)]);
    assert_eq!(
        endpoints(&etcds[..3]),
        ["https://192.0.2.1:1000"],
        "learners refuse requests, and who was never there has no address"
    );
}

#[test]
fn an_address_of_ipv6_has_brackets() {
    assert_eq!(peer_url(Ipv6Addr::LOCALHOST.into(), 3_264), "https://[::1]:3264");
}

#[test]
fn each_seat_of_a_cluster_has_a_name_of_its_own() {
    let bed = Bed::new(1);
    let own = bed.peer_url(1);
    let seats =
        [("m00002", "https://192.0.2.2:3"), ("", own.as_str()), ("", "https://192.0.2.3:3")];
    let seats = seats.map(|(name, url)| (name.to_owned(), url.to_owned()));
    let arguments = bed.config(1, Begin::Existing(seats.into())).arguments();
    let cluster = format!(
        "--initial-cluster=m00002=https://192.0.2.2:3,seat2=https://192.0.2.3:3,m00001={own}"
    );
    assert!(arguments.contains(&OsString::from(cluster)), "{arguments:?}");
}

#[test]
fn an_option_is_called_as_the_etcd_calls_it_that_is_there() {
    let tried = "  --experimental-peer-skip-client-san-verification 'false'\n    Skip it.";
    let experimental = "--experimental-peer-skip-client-san-verification=true";
    for help in [tried, "", "--peer-skip-client-san-verification-of-another-kind"] {
        assert_eq!(any_origin(help), experimental, "{help}");
    }
    let plain = "--peer-skip-client-san-verification";
    for help in [format!("  {plain} 'false'"), format!("{tried}\n{plain}=false")] {
        assert_eq!(any_origin(&help), format!("{plain}=true"));
    }
}

#[test]
fn a_program_is_a_file_that_may_be_run() {
    let dir = tempfile::tempdir().expect("there is room");
    let place = |name: &str| dir.path().join(name);
    fs::create_dir_all(place("one/etcd")).expect("there is room");
    for (name, mode) in [("two", 0o600), ("three", 0o755)] {
        fs::create_dir(place(name)).expect("there is room");
        let file = place(name).join("etcd");
        fs::write(&file, "").expect("there is room");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    let find = |dirs: &[&str]| find_in("etcd", dirs.iter().map(|dir| place(dir)));
    assert_eq!(find(&["none", "one", "two", "three"]), Some(place("three").join("etcd")));
    assert_eq!(find(&["none", "one", "two"]), None);
}
