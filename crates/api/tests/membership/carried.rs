//! Members that do for each other what they are asked.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};

use api::client::Despite;
use api::problem::Code;
use group::membership::{CARRIED_BEHIND, MemberRecord, Roll};
use group::ownership::MemberId;
use group::pki::Issued;
use member::audit::Action;
use member::{Answer, Door, GroupRequest, RollNow, SecretWord};

use crate::tls::{request, try_tcp};
use crate::{Lab, Served, free_address, problem, until};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn record(name: &str, issued: &Issued) -> MemberRecord {
    MemberRecord {
        name: name.to_owned(),
        address: HERE,
        port: free_address().port(),
        certificate_sha256: issued.sha256.clone(),
        array: "0123456789abcdef0123456789abcdef".to_owned(),
        version: "0.1.0".to_owned(),
        joined_unix_seconds: 7,
        incarnation: 1,
    }
}

/// Where a member answers others.
fn entrance(record: &MemberRecord) -> SocketAddr {
    SocketAddr::new(record.address, record.port + CARRIED_BEHIND)
}

/// Two members of a group, which do all that they are asked; and where the second one answers the first.
fn pair(lab: &Lab) -> ([Served; 2], SocketAddr) {
    let names = ["left", "right"];
    let issued = names.map(|name| lab.authority.issue(name, HERE).expect("a certificate"));
    let records = [0, 1].map(|at| record(names[at], &issued[at]));
    let mut roll = Roll::default();
    for (number, record) in (1..).map(MemberId).zip(&records) {
        roll.members.insert(number, record.clone());
        roll.present.insert(number, 1);
    }
    let served = [0, 1].map(|at| {
        let (own, record) = (&issued[at], &records[at]);
        let served = Served::begin(|_| Ok(Answer::Done));
        let authority = lab.authority.certificate_pem().to_owned();
        let (certificate, key) = (own.certificate_pem.clone(), SecretWord(own.key_pem.clone()));
        served.door.replace(Some(Door {
            address: record.door(),
            authority: authority.clone(),
            certificate: certificate.clone(),
            key: key.clone(),
        }));
        served.roll.replace(Some(RollNow {
            me: if at == 0 { MemberId(1) } else { MemberId(2) },
            name: record.name.clone(),
            roll: roll.clone(),
            store_fault: None,
            authority,
            certificate,
            key,
        }));
        until("others are answered", || try_tcp(entrance(record), 9).is_ok());
        served
    });
    (served, entrance(&records[1]))
}

#[test]
fn what_is_asked_for_another_member_is_done_there() {
    let ([left, right], _) = pair(&Lab::make());
    let client = left.client().on(Some("right".to_owned()));
    client.remove_member("old", Despite::default()).unwrap();
    assert_eq!(
        right.asked(),
        [GroupRequest::Remove {
            member: "old".to_owned(),
            despite_moves: false,
            despite_spreads: false
        }]
    );
    assert!(left.asked().is_empty());
    let entries: Vec<_> =
        right.logs.audit.after(0).iter().map(|record| record.what.clone()).collect();
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.action, entry.done), (Action::Change, true));
    assert_eq!(entry.from, "control socket via member 'left'");
    let who = entry.who.account.as_deref().unwrap_or_default();
    assert!(who.starts_with("user "), "{entry:?}");
    // A server that ends says nothing more to other members either.
    right.server.stop();
    let told = problem(client.remove_member("old", Despite::default()));
    assert_eq!(told.code, Code::NotReached);
    assert!(told.detail.starts_with("member 'right' cannot be reached at "), "{told}");
    left.server.stop();
}

#[test]
fn who_speaks_no_tls_at_the_port_of_members_is_told_so_and_nothing_else() {
    let ([left, right], address) = pair(&Lab::make());
    let mut stream = try_tcp(address, 2).unwrap();
    stream.write_all(request("GET", "/v1/volumes", "").as_bytes()).unwrap();
    let mut said = String::new();
    stream.shutdown(Shutdown::Write).unwrap();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    assert!(said.contains("this port speaks TLS"), "{said}");
    assert!(right.asked().is_empty());
    left.server.stop();
    right.server.stop();
}
