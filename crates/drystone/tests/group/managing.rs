//! Managing the group at its address, whichever member has that: real members in network namespaces, and a host that
//! asks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use group::membership::GroupId;
use group::pki::Authority;
use tempfile::TempDir;

use crate::address::{
    Family, NAMES, Net, TAKEN_OVER, await_holder, group, network, number, others,
};
use crate::common::drystone;
use crate::common::member::{Home, Member};
use crate::sites::{asked, wait_for};

/// Somebody at the host, who has a token and the certificate of the group.
struct Manager<'a> {
    net: &'a Net,
    dir: TempDir,
}

impl<'a> Manager<'a> {
    fn new(net: &'a Net, member: &Member<'_>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let token = member.run(&["token", "create", "laptop", "--role", "operator"]);
        fs::write(dir.path().join("token"), token).expect("it is written");
        let private = Permissions::from_mode(0o600);
        fs::set_permissions(dir.path().join("token"), private).expect("it is its own");
        let pem = member.run(&["group", "certificate"]);
        fs::write(dir.path().join("group.pem"), pem).expect("it is written");
        Self { net, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Asks the group with what is trusted by this file.
    fn asks(&self, words: &[&str], trusts: &str) -> Output {
        let [token, trusts] = ["token", trusts].map(|name| self.path(name).display().to_string());
        let url = self.net.family.group_url();
        let far = ["--server", &url, "--token-file", &token, "--ca-file", &trusts];
        let command = drystone(&[words, &far].concat());
        self.net.spaces.inside("host", &command).output().expect("it is run")
    }

    /// The names of the volumes of the group, as the group lists them.
    fn volumes(&self) -> Result<Vec<String>, String> {
        let output = self.asks(&["volume", "list", "--json"], "group.pem");
        if output.stdout.is_empty() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let all: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let all = all.as_array().ok_or("no list")?;
        let names = all.iter().filter_map(|one| one["name"].as_str().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    /// Waits until the group lists the volumes of these members at its address.
    #[track_caller]
    fn await_volumes_of(&self, members: &[&str]) {
        let wanted: Vec<String> = members.iter().map(|name| format!("vm-{name}")).collect();
        wait_for("the group answers at its address", TAKEN_OVER, || match self.volumes()? {
            listed if listed == wanted => Ok(()),
            listed => Err(format!("{listed:?}")),
        });
    }
}

#[test]
fn the_group_is_managed_at_its_address_whichever_member_has_it() {
    let Some(net) = network(Family::V4) else { return };
    let homes = [0, 1, 2].map(|_| Home::bare());
    let (mut members, _) = group(&net, &homes);
    let first = members[0].as_ref().expect("it runs");
    let holder = await_holder(first, &NAMES, TAKEN_OVER);
    let manager = Manager::new(&net, first);
    manager.await_volumes_of(&NAMES);
    for member in members.iter().flatten() {
        let shown = member.json(&["group", "show"]);
        assert_eq!(shown["management"], net.family.group_url(), "{shown}");
        assert!(shown["management_fault"].is_null(), "{shown}");
    }
    a_stranger_is_not_believed(&manager);
    what_is_about_one_member_names_it(first, &manager);

    // Killed: the same file is trusted at the one that has it then.
    members[number(&holder)].take().expect("it runs").crash();
    let left = others(&holder);
    let asks = members[number(left[0])].as_ref().expect("it runs");
    await_holder(asks, &left, TAKEN_OVER);
    manager.await_volumes_of(&left);
    // It is no picture of the group: what is changed there is changed.
    let size = ["volume", "create", "by-group", "16M", "--on", left[1]];
    let made = manager.asks(&size, "group.pem");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let there = members[number(left[1])].as_ref().expect("it runs");
    assert_eq!(there.json(&["volume", "show", "by-group"])["name"], "by-group");

    asks.run(&["group", "set", "--no-address"]);
    wait_for("nobody answers", TAKEN_OVER, || match manager.volumes() {
        Ok(listed) => Err(format!("{listed:?}")),
        Err(_) => Ok(()),
    });
    assert!(asked(asks, &["group", "show"]).expect("it answers")["management"].is_null());
}

/// Who has no key of the group: neither an authority of its own nor the certificate of a member says anything.
fn a_stranger_is_not_believed(manager: &Manager<'_>) {
    let stranger = Authority::make(&GroupId::draw().expect("randomness")).expect("it is made");
    fs::write(manager.path("stranger.pem"), stranger.certificate_pem()).expect("it is written");
    let refused = manager.asks(&["volume", "list"], "stranger.pem");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("certificate"), "{said}");
}

/// Whoever is asked there may be another member the next time.
fn what_is_about_one_member_names_it(member: &Member<'_>, manager: &Manager<'_>) {
    // All have a disk of this number.
    let disk = member.json(&["disk", "list"])[0]["id"].to_string();
    let clear = ["disk", "clear", &disk];
    let refused = manager.asks(&clear, "group.pem");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("say which with --on MEMBER"), "{said}");
    for name in NAMES {
        let done = manager.asks(&[&clear[..], &["--on", name]].concat(), "group.pem");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let refused = manager.asks(&["events", "--follow"], "group.pem");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("say which with --on MEMBER"), "{said}");
}
