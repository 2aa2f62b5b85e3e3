//! Who is let in, and who is not.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::member::Member;
use crate::sites::{
    PATIENCE, Site, await_states, create, join, joining, sites, ticket, wait_for, words,
};

/// What a ticket that is worth nothing is answered with, whatever is wrong with it.
const WORTHLESS: &str = "wrong, was used or has expired";

/// The ticket with another first digit in one of its parts: 1 is the group's authority, 2 the name of the ticket, 3 its
/// secret.
fn changed(ticket: &str, part: usize) -> String {
    let mut parts: Vec<String> = ticket.split('_').map(str::to_owned).collect();
    assert_eq!(parts.len(), 4, "{ticket}");
    let other = if parts[part].starts_with('0') { "1" } else { "0" };
    parts[part].replace_range(..1, other);
    parts.join("_")
}

/// The sentence with which a join is refused, after which the server is in no group.
#[track_caller]
fn refused(member: &Member<'_>, site: &Site, by: &Site, ticket: &str) -> String {
    let said = member.refused(&words(&joining(site, by, ticket)));
    let alone = member.refused(&["group", "show"]);
    assert!(alone.contains("in no group"), "{alone}");
    said
}

#[test]
fn a_ticket_lets_one_server_in_once_and_until_it_expires() {
    let sites = sites();
    let [a, b, c] = sites.each_ref().map(Site::start);
    create(&a, &sites[0]);
    let good = ticket(&a);
    let said = refused(&b, &sites[1], &sites[0], "drystonejoin_1");
    assert!(!said.contains(WORTHLESS), "it is no ticket at all: {said}");
    for part in [2, 3] {
        let said = refused(&b, &sites[1], &sites[0], &changed(&good, part));
        assert!(said.contains(WORTHLESS) && !said.contains(&good), "{part}: {said}");
    }
    // Whoever answers there cannot show what the ticket says of the group: its secret is not given to that one.
    let said = refused(&b, &sites[1], &sites[0], &changed(&good, 1));
    assert!(said.contains("group") && !said.contains(WORTHLESS), "{said}");

    b.run(&words(&joining(&sites[1], &sites[0], &good)));
    let said = refused(&c, &sites[2], &sites[0], &good);
    assert!(said.contains(WORTHLESS), "it was used: {said}");
    let said = b.refused(&words(&joining(&sites[1], &sites[0], &ticket(&a))));
    assert!(said.contains("in the group 'san1' already"), "{said}");

    let short = a.json(&["group", "token", "--expires", "1s"]);
    let expires = short["expires_unix_seconds"].as_u64().expect("a time");
    wait_for("a second is over", PATIENCE, || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
        // The one that judges has the clock of this machine.
        if now > Duration::from_secs(expires) { Ok(()) } else { Err(format!("{now:?}")) }
    });
    let said = refused(&c, &sites[2], &sites[0], short["token"].as_str().expect("a text"));
    assert!(said.contains(WORTHLESS), "it has expired: {said}");
    join(&c, &sites[2], (&a, &sites[0]));
    await_states(&b, &[("a", "present"), ("b", "present"), ("c", "present")], PATIENCE);
}

#[test]
fn who_is_refused_for_another_reason_keeps_the_ticket() {
    let sites = sites();
    let [a, b, c] = sites.each_ref().map(Site::start);
    create(&a, &sites[0]);
    join(&b, &sites[1], (&a, &sites[0]));
    let ticket = ticket(&a);
    // Members are told apart whatever the case of their letters.
    let line = joining(&sites[2], &sites[0], &ticket);
    let with = |word: &str, instead: &str| -> Vec<String> {
        line.iter().map(|w| if w == word { instead.to_owned() } else { w.clone() }).collect()
    };
    let said = c.refused(&words(&with("c", "B")));
    assert!(said.contains("has a member") && said.contains("choose another name"), "{said}");
    // Two ports away from a member is too near.
    let mut near = sites[0].door;
    near.set_port(near.port() + 2);
    let said = c.refused(&words(&with(&sites[2].listen(), &near.to_string())));
    assert!(said.contains("cannot listen on") || said.contains("choose another address"), "{said}");
    // Somebody else has the last of its ports.
    let taken =
        TcpListener::bind((sites[2].door.ip(), sites[2].door.port() + 2)).expect("it is free");
    let said = c.refused(&words(&line));
    assert!(said.contains("cannot listen on"), "{said}");
    drop(taken);
    nobody_is_there(&c, &sites, &ticket);
    c.run(&words(&line));
    await_states(&a, &[("a", "present"), ("b", "present"), ("c", "present")], PATIENCE);
}

/// Joins that go to where no member lets anybody in.
fn nobody_is_there(c: &Member<'_>, sites: &[Site; 3], ticket: &str) {
    let line = joining(&sites[2], &sites[0], ticket);
    let at = |port: u16| -> Vec<String> {
        let mut door = sites[0].door;
        door.set_port(port);
        let words = line.iter().enumerate();
        words.map(|(n, word)| if n == 2 { door.to_string() } else { word.clone() }).collect()
    };
    for port in [1, sites[0].door.port() + 1, sites[0].door.port() + 2] {
        let said = c.refused(&words(&at(port)));
        assert!(said.contains("127.0.0.1"), "{port}: it says where it was: {said}");
        assert!(!said.contains(WORTHLESS), "{port}: {said}");
    }
    let alone = c.refused(&["group", "show"]);
    assert!(alone.contains("in no group"), "{alone}");
}

/// Two servers with the disks of one would both serve its volumes.
#[test]
fn a_copy_of_a_member_does_not_join_beside_it() {
    let [original, copy, _] = sites();
    original.start().stop();
    for disk in ["disk-0", "disk-1"] {
        fs::copy(original.home.path(disk), copy.home.path(disk)).expect("it can be copied");
    }
    let (a, b) = (original.start(), copy.start());
    create(&a, &original);
    let said = refused(&b, &copy, &original, &ticket(&a));
    assert!(said.contains("a copy of a member cannot join beside it"), "{said}");
    await_states(&a, &[("a", "present")], PATIENCE);
}
