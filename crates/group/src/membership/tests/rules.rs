//! Which servers can be members, and beside which others.

use super::*;

/// How a server is refused that wants to join a group of one.
fn refused(applicant: Applicant) -> MembershipError {
    let membership = group(&store());
    let (id, secret) = token(&membership);
    let before = read(&membership);
    let judged = wait(membership.judge(&id, secret.as_str(), &applicant, NOW)).unwrap_err();
    let error = wait(membership.admit(&id, secret.as_str(), applicant, NOW)).unwrap_err();
    assert_eq!(judged.to_string(), error.to_string());
    assert_eq!(read(&membership), before, "a refusal changes nothing, and the token stays");
    error
}

fn admitted(applicant: Applicant) -> MemberRecord {
    let membership = group(&store());
    let (number, roll) = join(&membership, applicant).expect("it can be a member");
    roll.check();
    roll.members[&number].clone()
}

#[test]
fn who_joins_is_kept_as_it_said() {
    let record = admitted(applicant(2));
    let asked = applicant(2);
    assert_eq!(
        record,
        MemberRecord {
            name: asked.name,
            address: asked.address,
            port: asked.port,
            certificate_sha256: asked.certificate_sha256,
            array: asked.array,
            version: asked.version,
            joined_unix_seconds: NOW,
            incarnation: 0,
        }
    );
    assert_eq!(record.door(), "10.0.0.2:3262".parse().unwrap());
}

#[test]
fn to_judge_changes_nothing_and_needs_no_certificate() {
    let membership = group(&store());
    let (id, secret) = token(&membership);
    let before = read(&membership);
    let bare = Applicant { certificate_sha256: String::new(), ..applicant(2) };
    for _ in 0..2 {
        let number = wait(membership.judge(&id, secret.as_str(), &bare, NOW)).unwrap();
        assert_eq!(number, MemberId(2));
    }
    assert_eq!(read(&membership), before);
    // Somebody else comes while the certificate is made.
    join(&membership, Applicant { name: "SERVER-2".to_owned(), ..applicant(3) }).unwrap();
    let late = wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).unwrap_err();
    assert!(matches!(&late, MembershipError::NameTaken(name) if name == "SERVER-2"), "{late}");
}

#[test]
fn names_are_plain_and_differ() {
    let named = |name: &str| Applicant { name: name.to_owned(), ..applicant(2) };
    for good in ["a", "san-2.example.com", "A_1", &"a".repeat(63)] {
        assert_eq!(admitted(named(good)).name, good);
    }
    for bad in ["", ".", "..", "a b", "a/b", "a:b", "ä", "a@b", &"a".repeat(64)] {
        let error = refused(named(bad));
        assert!(matches!(&error, MembershipError::Name(name) if name == bad), "{error}");
        let id = GroupId::draw().unwrap();
        let membership = Membership::new(store());
        let unnamed = wait(membership.found(bad, id.clone(), applicant(1), NOW)).unwrap_err();
        assert!(matches!(&unnamed, MembershipError::Name(name) if name == bad), "{unnamed}");
        let unnamed = wait(membership.found("lab", id, named(bad), NOW)).unwrap_err();
        assert!(matches!(&unnamed, MembershipError::Name(name) if name == bad), "{unnamed}");
        assert_eq!(read(&membership), Roll { revision: 1, ..Roll::default() });
        let unnamed = wait(group(&store()).rename(bad)).unwrap_err();
        assert!(matches!(&unnamed, MembershipError::Name(name) if name == bad), "{unnamed}");
    }
    for taken in ["server-1", "SERVER-1", "Server-1"] {
        let error = refused(named(taken)).to_string();
        assert!(error.starts_with("the group has a member 'server-1' already"), "{error}");
    }
}

#[test]
fn a_group_is_renamed_and_stays_what_it_is() {
    let membership = group(&store());
    let before = read(&membership);
    wait(membership.rename("lab")).unwrap();
    assert_eq!(read(&membership), before, "it has that name already");
    wait(membership.rename("lab-2")).unwrap();
    let after = read(&membership);
    let (was, is) = (before.about.unwrap(), after.about.unwrap());
    assert_eq!(is, About { name: "lab-2".to_owned(), ..was });
    assert_eq!(after.members, before.members);
    let again = wait(membership.found("lab", is.id, applicant(2), NOW)).unwrap_err();
    assert!(matches!(&again, MembershipError::GroupExists(name) if name == "lab-2"), "{again}");
}

#[test]
fn a_copy_of_a_member_is_known_by_its_array() {
    // As it comes: with the same name, at the same address.
    let error = refused(applicant(1));
    assert!(matches!(&error, MembershipError::ArrayKnown { member } if member == "server-1"));
    let error = refused(Applicant { array: applicant(1).array, ..applicant(2) }).to_string();
    assert!(error.contains("is that of the member 'server-1' already"), "{error}");
}

#[test]
fn members_do_not_want_the_same_ports() {
    let at =
        |address: &str, port| Applicant { address: address.parse().unwrap(), port, ..applicant(2) };
    for port in PORT - 4..=PORT + 4 {
        for address in ["10.0.0.1", "::ffff:10.0.0.1"] {
            let error = refused(at(address, port));
            assert!(
                matches!(&error, MembershipError::AddressTaken { member, door }
                    if member == "server-1" && door.to_string() == "10.0.0.1:3262"),
                "{address} {port}: {error}"
            );
        }
    }
    let said = refused(at("10.0.0.1", PORT)).to_string();
    let beginning = "the member 'server-1' has 10.0.0.1:3262 and the 4 ports behind it: ";
    assert!(said.starts_with(beginning), "{said}");
    for port in [1, PORT - 5, PORT + 5, 65531] {
        assert_eq!(admitted(at("10.0.0.1", port)).port, port);
    }
    assert_eq!(admitted(at("10.0.0.2", PORT)).port, PORT);
    let mapped = admitted(at("::ffff:10.0.0.2", PORT)).address;
    assert_eq!(mapped, IpAddr::from([10, 0, 0, 2]));
}

#[test]
fn a_member_can_be_reached() {
    let at = |address: &str| Applicant { address: address.parse().unwrap(), ..applicant(2) };
    for good in ["127.0.0.2", "192.168.1.1", "fd00::2", "2001:db8::1", "::1"] {
        assert_eq!(admitted(at(good)).address.to_string(), good);
    }
    let bad =
        ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "fe80::1", "::ffff:0.0.0.0"];
    for bad in bad {
        let error = refused(at(bad));
        assert!(matches!(error, MembershipError::Address(_)), "{bad}: {error}");
    }
    for port in [0, 65532, 65533, 65534, 65535] {
        let error = refused(Applicant { port, ..applicant(2) });
        assert!(matches!(error, MembershipError::Port(of) if of == port), "{error}");
        assert!(error.to_string().ends_with("choose one from 1 to 65531"), "{error}");
        let id = GroupId::draw().unwrap();
        let founder = Applicant { port, ..applicant(1) };
        let unreached = wait(Membership::new(store()).found("lab", id, founder, NOW)).unwrap_err();
        assert!(matches!(unreached, MembershipError::Port(of) if of == port), "{unreached}");
    }
}

#[test]
fn clocks_agree_to_a_minute() {
    let at = |clock_unix_seconds| Applicant { clock_unix_seconds, ..applicant(2) };
    for clock in [NOW - 60, NOW, NOW + 60] {
        assert_eq!(admitted(at(clock)).joined_unix_seconds, NOW, "the group's clock counts");
    }
    let said = |clock| refused(at(clock)).to_string();
    assert!(said(NOW + 61).contains("is 61 s ahead of that of the group"), "{}", said(NOW + 61));
    assert!(said(NOW - 3600).contains("is 3600 s behind that of the group"));
    assert!(matches!(refused(at(u64::MAX)), MembershipError::Clock { is_ahead: true, .. }));
    assert!(matches!(refused(at(0)), MembershipError::Clock { is_ahead: false, .. }));
}

#[test]
fn members_run_one_major_version_or_the_one_before_while_they_change_it() {
    let running =
        |number, version: &str| Applicant { version: version.to_owned(), ..applicant(number) };
    for good in ["0.1.0", "0.9.7", "0.1.0-dev"] {
        assert_eq!(admitted(running(2, good)).version, good);
    }
    for bad in ["1.0.0", "00.1.0", "1"] {
        let error = refused(running(2, bad));
        let is_told = |theirs: &str, ours: &str| theirs == bad && ours == "0.1.0";
        assert!(
            matches!(&error, MembershipError::Version { theirs, ours } if is_told(theirs, ours)),
            "{error}"
        );
    }
    let membership = group(&store());
    join(&membership, applicant(2)).unwrap();
    wait(membership.enter(MemberId(2), 7, "1.0.0")).unwrap();
    join(&membership, running(3, "1.0.1")).unwrap();
    join(&membership, running(4, "0.1.0")).unwrap();
    let error = join(&membership, running(5, "2.0.0")).unwrap_err();
    assert!(matches!(error, MembershipError::Version { .. }), "{error}");
}

#[test]
fn what_strangers_say_is_short_and_plain() {
    let long = "a".repeat(65);
    for bad in ["", "two words", "ä", "a\n", &long] {
        let array = refused(Applicant { array: bad.to_owned(), ..applicant(2) });
        assert!(matches!(array, MembershipError::Applicant("array")), "{array}");
        let version = refused(Applicant { version: bad.to_owned(), ..applicant(2) });
        assert!(matches!(version, MembershipError::Applicant("version")), "{version}");
    }
    let longest = "a".repeat(64);
    assert_eq!(admitted(Applicant { array: longest.clone(), ..applicant(2) }).array, longest);
}

#[test]
fn a_group_has_so_many_members_and_no_more() {
    let membership = group(&store());
    let max = u8::try_from(MEMBERS_MAX).expect("it is small");
    for number in 2..=max {
        assert_eq!(join(&membership, applicant(number)).unwrap().0.0, u16::from(number));
    }
    let full = join(&membership, applicant(max + 1)).unwrap_err();
    assert!(matches!(full, MembershipError::Full), "{full}");
    // Who was the last to be admitted and did not hear of it does not need room of its own.
    join(&membership, applicant(max)).unwrap();
    wait(membership.remove("server-7")).unwrap();
    join(&membership, applicant(max + 1)).unwrap();
    assert_eq!(read(&membership).members.len(), MEMBERS_MAX);
}

#[test]
fn numbers_end_and_are_not_begun_again() {
    let store = store();
    let membership = group(&store);
    let about = read(&membership).about.unwrap();
    let last = About { last_member: u16::MAX - 1, ..about };
    let put = Op::put("group/about", last.encode());
    wait(store.commit(Transaction::always(vec![put]))).unwrap();
    assert_eq!(join(&membership, applicant(2)).unwrap().0, MemberId(u16::MAX));
    wait(membership.remove("server-2")).unwrap();
    let before = read(&membership);
    let (id, secret) = token(&membership);
    let refused = wait(membership.admit(&id, secret.as_str(), applicant(2), NOW)).unwrap_err();
    assert!(matches!(refused, MembershipError::NumbersUsedUp), "{refused}");
    let after = read(&membership);
    assert_eq!((after.about, after.members), (before.about, before.members));
}
