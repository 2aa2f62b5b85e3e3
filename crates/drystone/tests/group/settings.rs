//! What is set for the whole group: on any member, kept by each, and what hosts find by it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use iscsi::chap::{Credentials, InitiatorChap};
use serde_json::Value;

use crate::common::finish;
use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::sites::{
    PATIENCE, asked, await_alone, await_event, await_shared, create, group_of, join, joining, make,
    remove, sites, ticket, wait_for, words,
};

const WEB: &str = "iqn.2026-11.com.example:web";
const DB: &str = "iqn.2026-11.com.example:db";
const SECRET: &str = "sixteen-bytes-ok";
const OTHER: &str = "another-good-one";

/// A file of mode 600 that holds a secret.
fn private(home: &Home, secret: &str) -> String {
    let path = home.path("secret");
    fs::write(&path, format!("{secret}\n")).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
    path.display().to_string()
}

/// Whether a host gets in as the CHAP user `al`, with this secret.
fn proves(member: &Member<'_>, iqn: &str, secret: &str) -> bool {
    let al = Credentials::new("al", secret).expect("good credentials");
    let chap = InitiatorChap::new(al, None).expect("one direction");
    Host::log_in_as(member.portal(), iqn, 1, &[0], (DB, Some(chap))).is_ok()
}

/// Whether a host of this name gets in without a proof.
fn gets_in(member: &Member<'_>, iqn: &str, name: &str) -> bool {
    Host::log_in_as(member.portal(), iqn, 1, &[0], (name, None)).is_ok()
}

/// The targets that discovery at this member tells a host of this name of.
fn told(member: &Member<'_>, name: &str) -> BTreeSet<String> {
    let url = format!("iscsi://{}", member.portal());
    let output = finish(Command::new("iscsi-ls").args(["-i", name, &url]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let targets = said.lines().filter_map(|line| line.strip_prefix("Target:"));
    targets.filter_map(|rest| rest.split_whitespace().next().map(str::to_owned)).collect()
}

/// Waits until something is so.
#[track_caller]
fn becomes(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, PATIENCE, || if is_so() { Ok(()) } else { Err("it is not so yet".to_owned()) });
}

/// The names that a list has.
fn named(member: &Member<'_>, words: &[&str], key: &str) -> BTreeSet<String> {
    let list = asked(member, words).expect("it answers");
    let all = list.get("users").unwrap_or(&list).as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one[key].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn what_is_set_on_any_member_holds_on_all_and_while_the_store_is_away() {
    let sites = sites();
    let [a, b, c] = group_of(&sites);
    for member in [&a, &b, &c] {
        await_shared(member);
    }
    make(&a, "b", "vm");
    let iqn = wait_for("a finds it", PATIENCE, || {
        Ok(asked(&a, &["volume", "show", "vm"])?["iqn"].as_str().ok_or("no name")?.to_owned())
    });
    // Set on a and c, for a volume of b.
    a.run(&["policy", "create", "rack"]);
    a.run(&["policy", "add", "rack", "--iqn", WEB]);
    c.run(&["volume", "access", "add", "vm", "--policy", "rack"]);
    becomes("the host of the policy gets in", || gets_in(&b, &iqn, WEB));
    assert!(!gets_in(&b, &iqn, DB), "another one does not");
    c.run(&["chap", "add", "al", "--secret-file", &private(&sites[2].home, SECRET)]);
    a.run(&["policy", "add", "rack", "--chap", "al"]);
    becomes("the user of the policy gets in", || proves(&b, &iqn, SECRET));
    assert!(!proves(&b, &iqn, OTHER));
    // What is answered counts on the member that was asked.
    b.run(&["chap", "set", "al", "--secret-file", &private(&sites[1].home, OTHER)]);
    assert!(proves(&b, &iqn, OTHER) && !proves(&b, &iqn, SECRET));
    // What members tell each other of their lists is some seconds old. Who tells hosts of a target has heard of its
    // list.
    discovery_at_any_tells_of_it(&a, &iqn);
    let used = a.refused(&["policy", "delete", "rack"]);
    assert!(used.contains("rack") && used.contains("'b'"), "it is on a list of b: {used}");

    let (code, _, said) = c.home.ask(&[
        "account",
        "add",
        "ada",
        "--role",
        "operator",
        "--password-file",
        &private(&sites[2].home, OTHER),
    ]);
    assert_eq!(code, 0, "{said}");
    becomes("a knows the account", || named(&a, &["account", "list"], "name").contains("ada"));

    // Two of three are gone: nothing can be set, and all that was holds.
    a.crash();
    c.crash();
    becomes("b says that nothing can be set", || {
        let (code, _, said) = b.home.ask(&["policy", "create", "late"]);
        code == 1 && said.contains("store")
    });
    // The session of the first may end a moment after it, and the volume is not shared.
    becomes("what was set holds", || gets_in(&b, &iqn, WEB) && proves(&b, &iqn, OTHER));
    assert!(!proves(&b, &iqn, SECRET));
    b.run(&["volume", "resize", "vm", "32M"]);
    let refused = b.refused(&["volume", "create", "new", "16M", "--on", "b"]);
    assert!(refused.contains("store"), "{refused}");
    b.crash();
    let b = sites[1].start();
    becomes("it holds after a start without it", || {
        gets_in(&b, &iqn, WEB) && proves(&b, &iqn, OTHER)
    });
    let (a, c) = (sites[0].start(), sites[2].start());
    becomes("it can be set again", || a.home.ask(&["policy", "create", "again"]).0 == 0);
    becomes("and is heard of", || named(&c, &["policy", "list"], "name").contains("again"));

    // Who leaves keeps what was set, secrets too.
    remove(&a, &["b"]);
    await_alone(&b);
    assert!(gets_in(&b, &iqn, WEB) && proves(&b, &iqn, OTHER));
    a.run(&["policy", "create", "later"]);
    assert!(!named(&b, &["policy", "list"], "name").contains("later"));
    b.crash();
    let b = sites[1].start();
    assert!(gets_in(&b, &iqn, WEB) && proves(&b, &iqn, OTHER));
}

fn discovery_at_any_tells_of_it(asked: &Member<'_>, iqn: &str) {
    becomes("discovery tells the host", || told(asked, WEB).contains(iqn));
    assert!(!told(asked, "iqn.2026-11.com.example:nobody").contains(iqn), "nobody else");
}

#[test]
fn a_member_whose_settings_contradict_the_groups_keeps_its_own_until_somebody_says_what_holds() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    for (member, host) in [(&a, WEB), (&b, DB)] {
        member.run(&["policy", "create", "rack"]);
        member.run(&["policy", "add", "rack", "--iqn", host]);
    }
    b.run(&["policy", "create", "of-b"]);
    b.run(&["volume", "create", "vm", "16M"]);
    b.run(&["volume", "access", "add", "vm", "--policy", "rack"]);
    b.run(&["volume", "access", "add", "vm", "--policy", "of-b"]);
    let iqn = b.iqn("vm");
    create(&a, &site_a);
    await_shared(&a);
    join(&b, &site_b, (&a, &site_a));
    await_event(&b, "settings_differ");
    let group = b.json(&["group", "show"]);
    assert_eq!(group["settings_differ"], Value::from(vec!["policy 'rack'"]), "{group}");
    let (code, status, _) = b.home.ask(&["status"]);
    assert!(code == 1 && status.contains("policy 'rack'"), "{status}");
    assert!(gets_in(&b, &iqn, DB) && !gets_in(&b, &iqn, WEB), "as before");
    assert!(
        !named(&a, &["policy", "list"], "name").contains("of-b"),
        "nothing of it is the group's"
    );
    // What is set here is its own still.
    b.run(&["policy", "create", "more-of-b"]);
    assert!(!named(&a, &["policy", "list"], "name").contains("more-of-b"));

    let asked = b.refused(&["group", "share", "--replace-settings"]);
    assert!(asked.contains("--yes"), "{asked}");
    b.run(&["group", "share", "--replace-settings", "--yes"]);
    await_shared(&b);
    becomes("the group's holds", || gets_in(&b, &iqn, WEB) && !gets_in(&b, &iqn, DB));
    becomes("what its lists need is the group's", || {
        named(&a, &["policy", "list"], "name").contains("of-b")
    });
    let of_b = named(&b, &["policy", "list"], "name");
    assert!(of_b.contains("of-b") && !of_b.contains("more-of-b"), "{of_b:?}");
}

#[test]
fn a_member_that_makes_its_settings_fit_shares_them_by_itself() {
    let [site_a, site_b, _] = sites();
    let (a, b) = (site_a.start(), site_b.start());
    a.run(&["chap", "add", "al", "--secret-file", &private(&site_a.home, SECRET)]);
    b.run(&["chap", "add", "al", "--secret-file", &private(&site_b.home, OTHER)]);
    create(&a, &site_a);
    await_shared(&a);
    let line = joining(&site_b, &site_a, &ticket(&a));
    b.json(&words(&line));
    await_event(&b, "settings_differ");
    b.run(&["chap", "set", "al", "--secret-file", &private(&site_b.home, SECRET)]);
    await_shared(&b);
    await_event(&b, "settings_shared");
    // And with --replace-settings at once.
    remove(&a, &["b"]);
    await_alone(&b);
    b.run(&["chap", "set", "al", "--secret-file", &private(&site_b.home, OTHER)]);
    let mut line = joining(&site_b, &site_a, &ticket(&a));
    line.push("--replace-settings".to_owned());
    b.json(&words(&line));
    await_shared(&b);
    b.run(&["volume", "create", "vm", "16M", "--on", "b"]);
    b.run(&["volume", "access", "add", "vm", "--chap", "al"]);
    let iqn = b.iqn("vm");
    assert!(proves(&b, &iqn, SECRET) && !proves(&b, &iqn, OTHER));
}
