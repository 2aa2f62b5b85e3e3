//! Who comes to the address of the group, with a member that has it or not as a test wants. Each test has addresses of
//! the loopback network of its own.

use std::net::TcpListener as Listener;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use group::accounts::{Logins, Role, Token, TokenHash};
use group::membership::GroupId;
use group::pki::{Authority, fingerprint, only_certificate};
use member::{Answer, Request, RequestError, SecretWord};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, Error, ServerConfig, ServerConnection};
use tempfile::TempDir;
use zeroize::Zeroizing;

use super::*;
use crate::client::{Client, ClientError, Remote, Trust, WhichEvents};
use crate::server::{Ask, Done, Follower, Server, Tls, testing};
use crate::types::Interface;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

const TOKEN: &str = "drystone_token";

/// Lets one token in, never says anything of its array, and does nothing else.
#[derive(Default)]
struct Fake {
    waiting: Mutex<Vec<Done>>,
}

impl Ask for Fake {
    fn ask(&self, request: Request, _: Follower, done: Done) {
        match request {
            Request::Token(_) => done(Ok(Answer::Done)),
            Request::Array(_) => held(&self.waiting).push(done),
            _ => done(Err(RequestError::NoResult)),
        }
    }

    fn logins(&self) -> Option<Arc<Logins>> {
        let token = Token {
            role: Role::Administrator,
            hash: TokenHash::of(TOKEN),
            created_unix_seconds: 1,
            expires_unix_seconds: None,
            used_unix_seconds: None,
        };
        let mut logins = Logins::default();
        logins.tokens.insert("ci".to_owned(), token);
        Some(Arc::new(logins))
    }
}

/// A member that listens at one address, or at all, and is in a group that has another one.
struct Lab {
    _dir: TempDir,
    server: Server,
    current: CurrentAddress,
    id: GroupId,
    authority: Authority,
    address: GroupAddress,
    own: SocketAddr,
    fingerprint: String,
}

impl Lab {
    fn begin(own: &str, address: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address: GroupAddress = format!("{address}/8").parse().unwrap();
        let listener = Listener::bind((own, 0)).unwrap();
        let own = listener.local_addr().unwrap();
        // Made here for the address too, as it was listened to once: it proves this member, and no other one.
        let identity = Identity::load_or_make(dir.path(), &[own.ip(), address.ip()]).unwrap();
        let (fingerprint, current) = (identity.fingerprint(), CurrentAddress::default());
        let mut config = testing::config(dir.path());
        config.tls = Ok(Some(Tls { listeners: vec![listener], identity }));
        config.group_address = current.clone();
        // One token follows more than once.
        config.connections_max = 64;
        let server = Server::start(config, Fake::default()).unwrap();
        let id = GroupId::draw().unwrap();
        let authority = Authority::make(&id).unwrap();
        Self { _dir: dir, server, current, id, authority, address, own, fingerprint }
    }

    fn stands(&self, answering: Answering) {
        self.current.replace(Some(AddressNow { address: self.address, answering }));
    }

    /// The address comes, to a member that has read the authority from its own files.
    fn comes(&self) {
        self.stands(Answering::Here(proof_of(&self.authority, &self.id, self.address.ip())));
    }

    fn at(&self) -> SocketAddr {
        SocketAddr::new(self.address.ip(), self.own.port())
    }

    /// Where the member is itself, with this address where it listens at all; nowhere if it has only that of the group.
    fn itself(&self, beside: [u8; 4]) -> Option<SocketAddr> {
        let own = self.own.ip();
        let at = if own.is_unspecified() { beside.into() } else { own };
        (own != self.address.ip()).then(|| SocketAddr::new(at, self.own.port()))
    }

    /// Who trusts the authority of the group.
    fn asks(&self) -> Result<Interface, ClientError> {
        client(self.at(), by(&self.authority)).interface()
    }

    /// Who trusts the certificate of the member.
    fn asks_member_at(&self, at: SocketAddr) -> Result<Interface, ClientError> {
        client(at, Trust::Fingerprint(self.fingerprint.parse().unwrap())).interface()
    }
}

fn by(authority: &Authority) -> Trust {
    Trust::Authorities(authority.certificate_pem().as_bytes().to_vec())
}

fn client(at: SocketAddr, trust: Trust) -> Client {
    let url = format!("https://{at}").parse().unwrap();
    Client::remote(Remote { url, token: Zeroizing::new(TOKEN.to_owned()), trust }).unwrap()
}

fn proof_of(authority: &Authority, id: &GroupId, address: IpAddr) -> AddressProof {
    let authority = Authority::read(authority.certificate_pem(), authority.key_pem()).unwrap();
    let issued = authority.issue_for_group(id, address).unwrap();
    AddressProof { certificate: issued.certificate_pem, key: SecretWord(issued.key_pem) }
}

#[track_caller]
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The listeners by which who comes to this address may be heard: for all addresses of IPv4, for all of both families
/// if the system has such, the address itself, and one that is opened there beside another.
fn listeners<'a>(address: &'a str, beside: &'a str) -> impl Iterator<Item = &'a str> {
    let is_of_both = Listener::bind("[::]:0")
        .is_ok_and(|listener| Listens::of(&listener).is_ok_and(|listens| !listens.is_v6_only));
    ["0.0.0.0", "::", address, beside].into_iter().filter(move |own| is_of_both || *own != "::")
}

#[test]
fn the_group_is_answered_at_its_address_for_as_long_as_that_is_here() {
    let lab = Lab::begin("127.81.0.1", "127.81.0.2");
    assert!(lab.asks().is_err(), "there is no address yet");
    lab.stands(Answering::Elsewhere);
    assert!(lab.asks().is_err(), "another member has it");
    lab.comes();
    until("it is answered", || lab.asks().is_ok());
    assert!(lab.asks_member_at(lab.own).is_ok(), "the member goes on by itself");

    // Neither a group of the same name, nor the member by itself, is the group.
    let stranger = Authority::make(&lab.id).unwrap();
    for trust in [by(&stranger), Trust::Fingerprint(lab.fingerprint.parse().unwrap())] {
        let refused = client(lab.at(), trust).interface().unwrap_err().to_string();
        assert!(refused.contains("certificate"), "{refused}");
    }
    // By another address the same certificate says nothing.
    assert!(client(lab.own, by(&lab.authority)).interface().is_err());

    // It comes back with another certificate of the same authority: nobody has to trust anew.
    lab.stands(Answering::Never("it keeps settings of its own".to_owned()));
    until("it is not answered", || lab.asks().is_err());
    lab.comes();
    until("it is answered again", || lab.asks().is_ok());
    lab.server.stop();
}

/// Whatever is under way: what is asked is not answered.
#[test]
fn who_talks_to_a_member_at_the_address_does_not_go_on_when_that_has_left() {
    for own in listeners("127.81.0.3", "127.81.0.4") {
        let lab = Lab::begin(own, "127.81.0.3");
        lab.comes();
        until(&format!("it is answered, with {own}"), || lab.asks().is_ok());
        let ask =
            |at: SocketAddr, trust: Trust| thread::spawn(move || drop(client(at, trust).array()));
        let trusts = || Trust::Fingerprint(lab.fingerprint.parse().unwrap());
        let beside = lab.itself([127, 81, 0, 4]).map(|at| ask(at, trusts()));
        let there = ask(lab.at(), by(&lab.authority));
        thread::sleep(Duration::from_millis(500));
        let waits = || beside.as_ref().is_none_or(|beside| !beside.is_finished());
        assert!(!there.is_finished() && waits(), "they wait, with {own}");
        lab.stands(Answering::Elsewhere);
        until(&format!("it ends, with {own}"), || there.is_finished());
        there.join().unwrap();
        assert!(waits(), "who talks to the member itself goes on, with {own}");
        lab.server.stop();
        beside.into_iter().for_each(|beside| beside.join().unwrap());
    }
}

/// It hears at the address of the group as well.
#[test]
fn a_member_that_listens_everywhere_is_not_the_group() {
    for own in listeners("127.81.0.5", "127.81.0.6") {
        let lab = Lab::begin(own, "127.81.0.5");
        let never = Answering::Never("it keeps settings of its own".to_owned());
        for answering in [Answering::Elsewhere, never] {
            lab.stands(answering);
            assert!(lab.asks().is_err() && lab.asks_member_at(lab.at()).is_err(), "{own}");
            let itself = lab.itself([127, 81, 0, 6]);
            let is_itself = itself.is_none_or(|at| lab.asks_member_at(at).is_ok());
            assert!(is_itself, "at any other address it is itself, with {own}");
        }
        lab.comes();
        until(&format!("it is answered, with {own}"), || lab.asks().is_ok());
        let as_member = lab.asks_member_at(lab.at());
        assert!(as_member.is_err(), "what is proved there is the group, with {own}");
        lab.server.stop();
    }
}

/// What a member listens at that has these addresses, where the system has IPv6 hear IPv4 too or not.
fn listens(own: &[&str], is_v6_only: bool) -> Vec<Listens> {
    let own = own.iter().map(|text| text.parse().unwrap());
    own.map(|at: SocketAddr| Listens { at, is_v6_only: is_v6_only && at.is_ipv6() }).collect()
}

#[test]
fn it_is_shown_where_the_group_is_managed_or_why_not() {
    let address = "192.0.2.100/24".parse().unwrap();
    let current = CurrentAddress::default();
    let group = |own: &[&str]| AtGroup::new(current.clone(), Ok(listens(own, false)));
    let own = ["192.0.2.1:8443", "192.0.2.1:9443"];
    assert_eq!(group(&own).management(), Management::default());
    let stands = |answering: Answering| current.replace(Some(AddressNow { address, answering }));
    stands(Answering::Elsewhere);
    let url = Some("https://192.0.2.100:8443".to_owned());
    assert_eq!(group(&own).management(), Management { url, fault: None });
    let fault = group(&[]).management().fault.unwrap();
    assert!(fault.contains("start it with --api-listen"), "{fault}");
    // That was done, and something else is wrong.
    let why = "cannot listen on 192.0.2.1:8443".to_owned();
    let not_begun = AtGroup::new(current.clone(), Err(why.clone()));
    assert_eq!(not_begun.management(), Management { url: None, fault: Some(why) });
    stands(Answering::Never("for a reason".to_owned()));
    let fault = Some("for a reason".to_owned());
    assert_eq!(group(&own).management(), Management { url: None, fault });
}

#[test]
fn what_is_heard_by_a_listener_of_the_member_needs_no_other() {
    for (own, is_v6_only, at, is_heard) in [
        ("192.0.2.1:8443", false, "192.0.2.100:8443", false),
        ("0.0.0.0:8443", false, "192.0.2.100:8443", true),
        ("0.0.0.0:8443", false, "192.0.2.100:8444", false),
        ("0.0.0.0:8443", false, "[2001:db8::100]:8443", false),
        ("[::]:8443", false, "192.0.2.100:8443", true),
        ("[::]:8443", true, "192.0.2.100:8443", false),
        ("[::]:8443", true, "[2001:db8::100]:8443", true),
        ("192.0.2.100:8443", false, "192.0.2.100:8443", true),
    ] {
        let group = AtGroup::new(CurrentAddress::default(), Ok(listens(&[own], is_v6_only)));
        let is = group.is_heard_anyway(at.parse().unwrap());
        assert_eq!(is, is_heard, "{own} {is_v6_only} {at}");
    }
    // As the system has it here.
    let all = Listener::bind("0.0.0.0:0").unwrap();
    assert!(!Listens::of(&all).unwrap().is_v6_only);
    let Ok(all) = Listener::bind("[::]:0") else { return };
    let port = all.local_addr().unwrap().port();
    let is_beside = Listener::bind(("127.0.0.1", port)).is_ok();
    assert_eq!(Listens::of(&all).unwrap().is_v6_only, is_beside);
}

#[test]
fn the_group_is_managed_at_the_first_port_in_the_network_of_its_address_or_not_at_all() {
    for (own, is_v6_only, address, port) in [
        (&["127.0.0.1:8443"][..], false, "192.0.2.100/24", None),
        (&["198.51.100.1:8443"], false, "192.0.2.100/24", None),
        (
            &["198.51.100.1:8443", "192.0.2.1:9443", "192.0.2.1:7443"],
            false,
            "192.0.2.100/24",
            Some(9443),
        ),
        (&["192.0.3.1:8443"], false, "192.0.2.100/24", None),
        (&["192.0.3.1:8443"], false, "192.0.2.100/23", Some(8443)),
        (&["0.0.0.0:8443"], false, "192.0.2.100/24", Some(8443)),
        (&["0.0.0.0:8443"], false, "2001:db8::100/64", None),
        (&["[::]:8443"], false, "192.0.2.100/24", Some(8443)),
        (&["[::]:8443"], true, "192.0.2.100/24", None),
        (&["[::]:8443"], true, "2001:db8::100/64", Some(8443)),
        (&["[2001:db8::1]:8443"], false, "2001:db8::100/64", Some(8443)),
        (&["127.0.0.1:8443"], false, "127.81.0.100/8", Some(8443)),
    ] {
        let current = CurrentAddress::default();
        let group = AtGroup::new(current.clone(), Ok(listens(own, is_v6_only)));
        let address: GroupAddress = address.parse().unwrap();
        current.replace(Some(AddressNow { address, answering: Answering::Elsewhere }));
        let Management { url, fault } = group.management();
        let at = port.map(|port| format!("https://{}", SocketAddr::new(address.ip(), port)));
        assert_eq!(url, at, "{own:?} {address}");
        let says_why = fault.is_some_and(|why| why.contains("add --api-listen"));
        assert_eq!(says_why, port.is_none(), "{own:?} {address}");
    }
}

/// A member that is managed at an address apart, as behind a tunnel.
#[test]
fn a_member_that_listens_in_another_network_opens_no_port_in_that_of_the_group() {
    let mut lab = Lab::begin("127.81.0.9", "127.81.0.10");
    // Its own address is in no such network.
    lab.address = "127.82.0.10/16".parse().unwrap();
    lab.comes();
    let shown = || lab.server.app.at_group.management();
    until("it is known", || shown().fault.is_some());
    thread::sleep(Duration::from_millis(300));
    let nobody = std::net::TcpStream::connect(lab.at()).unwrap_err();
    assert_eq!(nobody.kind(), io::ErrorKind::ConnectionRefused);
    // In another one of its own the next address of the group may lie.
    lab.address = "127.81.0.10/16".parse().unwrap();
    lab.comes();
    until("it is answered", || lab.asks().is_ok());
    lab.server.stop();
}

/// Whoever has looked at a disk there may be asking another member now: that is to be said.
#[test]
fn what_is_about_one_member_is_refused_at_the_address_and_not_at_the_member() {
    let says_which = |refused: ClientError| match refused {
        ClientError::Problem(problem) => {
            problem.status == 409 && problem.detail.contains("say which with --on MEMBER")
        }
        other => panic!("{other}"),
    };
    for own in listeners("127.81.0.11", "127.81.0.12") {
        let lab = Lab::begin(own, "127.81.0.11");
        lab.comes();
        until(&format!("it is answered, with {own}"), || lab.asks().is_ok());
        let there = client(lab.at(), by(&lab.authority));
        let which = WhichEvents::default();
        assert!(says_which(there.cancel_run("1-1").unwrap_err()), "{own}");
        assert!(says_which(there.follow_events(1, &which, &mut |_| false).unwrap_err()), "{own}");
        if let Some(at) = lab.itself([127, 81, 0, 12]) {
            let here = client(at, Trust::Fingerprint(lab.fingerprint.parse().unwrap()));
            let refused = here.cancel_run("1-1").unwrap_err();
            assert!(!says_which(refused), "there is no such run, with {own}");
        }
        // What is the group's goes to the member, which does nothing here.
        assert!(!says_which(there.clear_group_address().unwrap_err()), "{own}");
        assert!(there.runs().is_ok(), "who looks only looks, with {own}");
        lab.server.stop();
    }
}

/// An address at which somebody else listens: it is told, shown, and tried again; and shown no longer than it is so.
#[test]
fn a_port_that_something_else_has_is_told_and_tried_again() {
    let lab = Lab::begin("127.81.0.7", "127.81.0.8");
    let taken = Listener::bind(lab.at()).unwrap();
    let shown = || lab.server.app.at_group.management();
    lab.comes();
    let member = client(lab.own, Trust::Fingerprint(lab.fingerprint.parse().unwrap()));
    let is_told = || {
        let events = member.events(&WhichEvents::default()).unwrap();
        events.iter().any(|event| event.text.contains("it cannot listen on"))
    };
    until("it is told", is_told);
    let fault = shown().fault.unwrap();
    assert!(fault.starts_with("it cannot listen on 127.81.0.8:"), "{fault}");
    assert_eq!(shown().url, None);
    // Another member has it, and could not answer there by this fault.
    lab.stands(Answering::Elsewhere);
    until("that is over", || shown().fault.is_none());
    lab.comes();
    until("it is so again", || shown().fault.is_some());
    drop(taken);
    until("it is answered", || lab.asks().is_ok());
    assert_eq!(shown(), Management { url: Some(format!("https://{}", lab.at())), fault: None });
    // What cannot be used says so, and no longer than it is there.
    let nothing =
        AddressProof { certificate: String::new(), key: SecretWord(Zeroizing::default()) };
    lab.stands(Answering::Here(nothing));
    until("it is told", || shown().fault.is_some_and(|why| why.contains("cannot prove the group")));
    lab.stands(Answering::Elsewhere);
    until("that is over", || shown().fault.is_none());
    lab.server.stop();
}

/// What one has to say reaches the other.
fn pass(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets()?;
    }
    Ok(())
}

/// What is presented to who asks for this name.
fn presented(config: &Arc<ServerConfig>, name: &str, trust: Trust) -> Result<String, Error> {
    let client = Arc::new(crate::client::client_config(trust).unwrap());
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = Connection::from(ClientConnection::new(client, name).unwrap());
    let mut server = Connection::from(ServerConnection::new(config.clone()).unwrap());
    for _ in 0..8 {
        pass(&mut client, &mut server)?;
        pass(&mut server, &mut client)?;
        if !client.is_handshaking() && !server.is_handshaking() {
            let chain = client.peer_certificates().unwrap();
            return Ok(fingerprint(&chain[0]));
        }
    }
    panic!("the handshake does not end");
}

/// The certificate of an operator for these names until the end of this year, and the file of who trusts it.
fn given(dir: &Path, names: &[&str], ends: i32) -> (Identity, Trust) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_after = date_time_ymd(ends, 12, 31);
    let pem = params.self_signed(&key).unwrap().pem();
    let (certificate, key_file) = (dir.join("given.pem"), dir.join("given-key.pem"));
    std::fs::write(&certificate, &pem).unwrap();
    std::fs::write(&key_file, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key_file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
    (Identity::load(&certificate, &key_file).unwrap(), Trust::Authorities(pem.into_bytes()))
}

#[test]
fn a_certificate_that_an_operator_gave_wins_where_it_names_what_is_asked_for() {
    let id = GroupId::draw().unwrap();
    let authority = Authority::make(&id).unwrap();
    let address: IpAddr = "192.0.2.100".parse().unwrap();
    let proof = proof_of(&authority, &id, address);
    let of_group = fingerprint(&only_certificate(&proof.certificate).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let config = |own: &Identity| proof::server_config(&proof, address, own.clone()).unwrap();

    let (own, trust) = given(dir.path(), &["192.0.2.100", "san.example.com"], 2099);
    for name in ["192.0.2.100", "san.example.com"] {
        assert_eq!(presented(&config(&own), name, trust.clone()), Ok(own.fingerprint()), "{name}");
    }
    // One of the member alone, as most are.
    let (own, trust) = given(dir.path(), &["192.0.2.1", "san1.example.com"], 2099);
    assert_eq!(presented(&config(&own), "192.0.2.100", by(&authority)), Ok(of_group.clone()));
    let by_name = presented(&config(&own), "san1.example.com", trust.clone());
    assert_eq!(by_name, Ok(own.fingerprint()));
    assert!(presented(&config(&own), "192.0.2.100", trust).is_err());
    // One that nobody has renewed.
    let (own, _) = given(dir.path(), &["192.0.2.100"], 2020);
    assert_eq!(presented(&config(&own), "192.0.2.100", by(&authority)), Ok(of_group.clone()));
    // One that was made here proves this member: the next one that has the address has another.
    let made = Identity::load_or_make(dir.path(), &[address]).unwrap();
    assert_eq!(presented(&config(&made), "192.0.2.100", by(&authority)), Ok(of_group));
}
