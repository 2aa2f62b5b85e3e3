//! What a member is set to, as a file.

use crate::access::prove;
use crate::common::drystone;
use crate::common::member::{Home, text};
use rustix::pipe::fcntl_setpipe_size;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn what_is_exported_is_the_same_until_something_changes() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    let file = home.path("san.toml");
    let shown = text(&file);
    let export = || fs::write(&file, member.run(&["export-config"])).expect("it can be written");
    let diff = |more: &[&str]| home.ask(&[&["diff", "-f", &shown], more].concat());
    export();
    assert_eq!(diff(&[]), (0, format!("the member is as '{shown}' says\n"), String::new()));

    let secret = |name: &str, text: &str| {
        let path = home.path(name);
        fs::write(&path, text).expect("it can be written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
        path.display().to_string()
    };
    let (hush, other) = (secret("hush", "hush-hush-hush"), secret("other", "other-hush-hush"));
    for words in [
        &["volume", "create", "vm", "64M"][..],
        &["volume", "create", "log:1", "65M", "--raid", "raid1", "--cache", "volatile"],
        &["volume", "set", "vm", "--shared", "on"],
        &["volume", "offline", "log:1"],
        &["chap", "add", "al\"'é", "--secret-file", &hush],
        &["chap", "mutual", "set", "array", "--secret-file", &other],
        &["policy", "create", "rack1"],
        &["policy", "add", "rack1", "--chap", "al\"'é", "--ip", "10.1.*.*"],
        &["policy", "create", "empty"],
        &["volume", "access", "add", "vm", "--policy", "rack1", "--for", "snapshot"],
        &["volume", "access", "add", "vm", "--iqn", "iqn.2026-11.com.example:a"],
        &["volume", "access", "add", "log:1", "--ip", "fd00::/8"],
        &["volume", "access", "remove", "log:1", "1"],
        &[
            "schedule", "create", "s", "--volume", "vm", "--volume", "log:1", "--every", "4h",
            "--keep", "3",
        ],
        &[
            "schedule", "create", "w", "--volume", "vm", "--weekly", "sun", "3:00", "--keep", "1",
            "--paused",
        ],
        &["account", "add", "ada", "--role", "operator", "--password-file", &hush],
        &["account", "set", "ada", "--disable"],
    ] {
        member.run(words);
    }
    let (code, out, err) = diff(&[]);
    assert_eq!(code, 1, "{out}{err}");
    assert!(out.contains("- volume 'vm': only the member has it\n"), "{out}");
    assert_eq!(err, format!("drystone: the member is not as '{shown}' says\n"));

    export();
    let written = fs::read_to_string(&file).expect("it is there");
    assert!(!written.contains("hush"), "{written}");
    assert_eq!(diff(&[]).0, 0, "{written}\n{}", diff(&[]).1);
    assert_eq!(diff(&["--json"]).1, "{\n  \"same\": true,\n  \"differences\": []\n}\n");
    member.run(&["schedule", "set", "s", "--keep", "4"]);
    let (code, out, _) = diff(&[]);
    assert_eq!(
        (code, out.as_str()),
        (1, "~ schedule 's'\n    keep: 4 on the member, 3 in the file\n")
    );

    fs::write(&file, written.replace("keep = 3", "kep = 3")).expect("it can be written");
    let (code, out, err) = diff(&[]);
    let line = written.lines().position(|line| line == "keep = 3").expect("it is there") + 1;
    let wanted =
        format!("drystone: '{shown}' line {line}: 'schedule' has no key 'kep': write 'keep'\n");
    assert_eq!((code, out.as_str(), err), (2, "", wanted));
    member.stop();
    export_refused(&home, &shown);
}

/// No member answers: that is no difference.
fn export_refused(home: &Home, file: &str) {
    fs::write(file, "").expect("it can be written");
    assert_eq!(home.ask(&["diff", "-f", file]).0, 2);
    assert_eq!(home.ask(&["export-config"]).0, 1);
}

/// A file that only its owner may read.
fn private(home: &Home, name: &str, contents: &str) {
    let path = home.path(name);
    fs::write(&path, contents).expect("it can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("it is ours");
}

const SAN: &str = r#"
[volume.vm]
size = "64M"
raid = "raid1"
read-ahead = "0"
read-cache = false
shared = true
access = ["policy=rack1 for=snapshot", "chap=al ip=10.1.0.0/16 for=both"]

[volume.log]
size = "65M"
thick = true
online = false
access = []

[schedule.nightly]
volumes = ["vm", "log"]
when = "daily 03:00"
keep = 7

[policy.rack1]
hosts = ["chap=al for=both", "ip=10.1.*.* for=both"]

[chap.al]
secret-file = "hush"

[mutual-chap.array]
secret-file = "other"

[account.ada]
role = "operator"
disabled = true
password-file = "hush"
"#;

/// As when settings were lost. What is more than one step takes is refused whole, and goes in two.
#[test]
fn a_file_of_settings_above_a_mebibyte_is_applied() {
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    let long = "x".repeat(180);
    let policy = |n: u32| {
        let hosts: Vec<_> =
            (0..256).map(|host| format!("\"iqn=iqn.2026-11.h{host}:{long} for=both\"")).collect();
        format!("[policy.p{n}]\nhosts = [{}]\n", hosts.join(", "))
    };
    let file = home.path("san.toml");
    let shown = text(&file);
    let apply = |policies: u32| {
        let san: String = (0..policies).map(policy).collect();
        assert!(san.len() > 5 << 18, "{}", san.len());
        fs::write(&file, san).expect("it can be written");
        home.ask(&["apply", "-f", &shown])
    };
    let (code, _, err) = apply(40);
    assert!(code == 1 && err.contains("nothing was changed, change it in several steps"), "{err}");
    for policies in [25, 40] {
        let (code, out, err) = apply(policies);
        assert!(code == 0 && out.contains(&format!("+ policy 'p{}'", policies - 1)), "{err}");
        assert_eq!(home.ask(&["diff", "-f", &shown]).0, 0);
    }
    member.stop();
}

#[test]
fn a_member_is_as_the_file_says_that_was_applied() {
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    private(&home, "hush", "hush-hush-hush");
    private(&home, "other", "other-hush-hush");
    let file = home.path("san.toml");
    let shown = text(&file);
    let same = format!("the member is as '{shown}' says\n");
    let write = |san: &str| fs::write(&file, san).expect("it can be written");
    let diff = || home.ask(&["diff", "-f", &shown]);
    let apply = |more: &[&str]| home.ask(&[&["apply", "-f", &shown], more].concat());

    // Nobody loses anything by what is new: nothing is asked.
    write(SAN);
    let (code, out, err) = apply(&[]);
    assert!(code == 0 && out.contains("+ volume 'vm'") && out.ends_with(&same), "{out}{err}");
    assert_eq!(diff(), (0, same.clone(), String::new()));
    assert_eq!(apply(&[]), (0, same.clone(), String::new()), "a second time changes nothing");
    assert_eq!(member.json(&["volume", "show", "log"])["state"], "offline");

    // All kinds change and go, and what was named goes together with what named it.
    let changed = SAN.replace("64M", "96M").replace("keep = 7", "keep = 3");
    let changed =
        changed.replace("online = false", "online = true").replace("true\naccess", "false\naccess");
    let changed =
        changed.replace("\"policy=rack1 for=snapshot\", \"chap=al ip=10.1.0.0/16 for=both\"", "");
    let from = changed.find("[policy.rack1]").expect("it is there");
    write(&changed[..from]);
    let before = member.run(&["export-config"]);
    let (code, _, err) = apply(&[]);
    assert_eq!(code, 1, "{err}");
    for loss in [
        "hosts go from the access list of volume 'vm'",
        "schedule 'nightly' deletes its older snapshots",
        "policy 'rack1' goes, chap 'al' goes, mutual-chap 'array' goes, account 'ada' goes. Apply it?",
        "There is no terminal to ask at: write --yes to say so",
    ] {
        assert!(err.contains(loss), "{loss}: {err}");
    }
    assert_eq!(member.run(&["export-config"]), before, "nothing was changed");
    let (code, out, err) = apply(&["--yes", "--json"]);
    assert!(code == 0 && out.contains("\"changed\""), "{out}{err}");
    assert_eq!(diff(), (0, same, String::new()));
    assert_eq!(member.json(&["volume", "show", "vm"])["size_bytes"], 96 << 20);
    member.stop();
}

/// The second of two operators hears it in words for operators, and has changed nothing.
#[test]
fn who_applies_while_somebody_else_changes_the_settings_is_told_so() {
    let home = Home::files(1, "128M");
    let member = home.start(&[]);
    let file = home.path("san.toml");
    let policies: String = (0..600).map(|n| format!("[policy.p{n}]\nhosts = []\n")).collect();
    fs::write(&file, policies).expect("it can be written");
    // What it prints fills a pipe that is read when somebody else was faster: by then it has asked how things are.
    let (mut out, blocked) = io::pipe().expect("a pipe can be made");
    fcntl_setpipe_size(&blocked, 4096).expect("a page is enough for a pipe");
    let mut apply = drystone(&["apply", "--yes", "-f", &text(&file)]);
    let apply = apply.env("DRYSTONE_SOCKET", home.socket()).stdout(blocked).stderr(Stdio::piped());
    let slow = apply.spawn().expect("drystone can be started");
    apply.stdout(Stdio::null());
    out.read_exact(&mut [0]).expect("it prints what it is about to change");
    member.run(&["policy", "create", "faster"]);
    io::copy(&mut out, &mut io::sink()).expect("it prints all of it");
    let ended = slow.wait_with_output().expect("it ends");
    let wanted = "drystone: somebody else has changed the settings meanwhile, and nothing was changed by you: run \
                  'drystone diff' to see what is there now, then apply again\n";
    assert_eq!((ended.status.code(), text_of(&ended.stderr)), (Some(1), wanted.to_owned()));
    let policies = member.json(&["policy", "list"]);
    assert_eq!(policies.as_array().map(Vec::len), Some(1), "{policies}");
    member.stop();
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_cannot_be_applied_changes_nothing() {
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "vm", "64M", "--raid", "raid1"]);
    let file = home.path("san.toml");
    let shown = text(&file);
    let exported = member.run(&["export-config"]);
    let refused = |san: &str, wanted: &str| {
        fs::write(&file, san).expect("it can be written");
        let (code, _, err) = home.ask(&["apply", "-f", &shown, "--yes"]);
        assert!(code == 1 && err.contains(wanted), "{wanted}: {err}");
        assert_eq!(member.run(&["export-config"]), exported, "{wanted}");
        // Not in the recycle bin either.
        let volumes = member.json(&["volume", "list"]);
        assert_eq!(volumes.as_array().map(Vec::len), Some(1), "{wanted}: {volumes}");
    };
    let with = |more: &str| format!("{exported}\n{more}");
    refused(
        &exported.replace("64MiB", "32M").replace("64M\"", "32M\""),
        "apply makes no volume smaller",
    );
    refused(&exported.replace("raid1", "raid0"), "raid is \"raid1\" and cannot become \"raid0\"");
    refused("", "apply deletes no volume");
    refused(&with("[volume.new]\nsize = \"1000K\"\n"), "multiples of 64K: write size = \"1M\"");
    refused(&with("[volume.new]\n"), "it is new: write size too");
    refused(&with("[chap.al]\n"), "it is new: write secret-file");
    refused(&with("[chap.al]\nsecret-file = \"none\""), "none");
    // Refused by the member, in the middle of it: what was made before is taken back.
    let new = "[volume.new]\nsize = \"32M\"\n[volume.more]\nsize = \"32M\"\nonline = false\n";
    let no_user = format!("{new}access = [\"chap=nobody for=both\"]");
    refused(&with(&no_user), "there is no CHAP user 'nobody'");
    let no_volume =
        format!("{new}[schedule.s]\nvolumes = [\"gone\"]\nwhen = \"every 1h\"\nkeep = 2");
    refused(&with(&no_volume), "there is no volume 'gone'");
    let no_volumes = "[schedule.s]\nvolumes = []\nwhen = \"every 1h\"\nkeep = 2";
    refused(&with(no_volumes), "schedule 's': a schedule cannot be of no volumes");
    let no_space = format!("{new}[volume.zzz]\nsize = \"1T\"\nthick = true");
    refused(&with(&no_space), "there is room for");
    member.stop();
}

/// Neither those that are gone nor those in the recycle bin.
#[test]
fn an_export_names_no_volumes_of_schedules_that_are_deleted() {
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    for name in ["a", "bin", "gone"] {
        member.run(&["volume", "create", name, "16M"]);
    }
    let create = |name: &str, volumes: &[&str]| {
        let volumes = volumes.iter().flat_map(|volume| ["--volume", volume]);
        let words = ["schedule", "create", name, "--every", "4h", "--keep", "3"];
        member.run(&words.into_iter().chain(volumes).collect::<Vec<_>>());
    };
    create("some", &["a", "bin", "gone"]);
    create("idle", &["bin", "gone"]);
    for name in ["bin", "gone"] {
        member.run(&["volume", "offline", name]);
        member.run(&["volume", "delete", name, "--yes"]);
    }
    member.run(&["volume", "purge", "gone", "--yes"]);
    let written = member.run(&["export-config"]);
    assert!(written.contains("[schedule.some]\nvolumes = [\"a\"]\n"), "{written}");
    assert!(!written.contains("idle"), "{written}");
    let file = home.path("own.toml");
    fs::write(&file, &written).expect("it can be written");
    let file = text(&file);
    member.run(&["diff", "-f", &file]);
    member.run(&["apply", "-f", &file, "--yes"]);
    assert!(member.run(&["schedule", "list"]).contains("idle"), "it is as it was");
    // Who names the schedule again changes the one that is there.
    let named = format!("{written}[schedule.idle]\nvolumes = [\"a\"]\n");
    fs::write(&file, named).expect("it can be written");
    member.run(&["apply", "-f", &file, "--yes"]);
    let idle = member.json(&["schedule", "show", "idle"]);
    assert_eq!(idle["volumes"].as_array().map(Vec::len), Some(1), "{idle}");
    member.stop();
}

/// What is stored comes before what cannot be taken back, and the message says so.
#[test]
fn what_is_left_is_told_and_done_the_next_time() {
    let home = Home::files(3, "256M");
    let member = home.start(&[]);
    for words in
        [&["volume", "create", "a", "64M"][..], &["volume", "create", "vm", "64M", "--thick"]]
    {
        member.run(words);
    }
    let file = home.path("san.toml");
    let san = |size: &str, read_ahead: &str| {
        let san = format!(
            "[volume.a]\nread-ahead = \"{read_ahead}\"\n[volume.vm]\nsize = \"{size}\"\naccess = [\"ip=10.0.0.0/8\"]\n"
        );
        fs::write(&file, san).expect("it can be written");
        home.ask(&["apply", "--yes", "-f", &text(&file)])
    };
    let _host = crate::log_in(&member, "vm");
    let (code, _, err) = san("1T", "2M");
    let wanted = "all is set but for volume 'vm' and those after it, which are not as they should be yet: there is room";
    assert!(code == 1 && err.contains(wanted) && err.contains("then apply it again"), "{err}");
    let access = member.json(&["volume", "access", "list", "vm"]);
    assert_eq!(access["entries"].as_array().map(Vec::len), Some(1), "{access}");
    let sessions = &member.json(&["volume", "show", "vm"])["sessions"];
    assert_eq!(sessions, 0, "who is not on the list has been logged out");
    assert_eq!(member.json(&["volume", "show", "a"])["read_ahead_bytes"], 2 << 20);
    assert_eq!(member.json(&["volume", "show", "vm"])["size_bytes"], 64 << 20);
    let (code, _, err) = san("96M", "2M");
    assert_eq!(code, 0, "{err}");
    assert_eq!(member.json(&["volume", "show", "vm"])["size_bytes"], 96 << 20);
    member.stop();
}

const DESTINATIONS: &str = r#"
[webhook.chat]
url-file = "url"
signed = true
secret-file = "hush"
severity = "error"

[email.ops]
to = ["ops@example.com"]
from = "san1@example.com"
smtp = "127.0.0.1:9"
user = "san1"
password-file = "hush"

[syslog.log]
server = "127.0.0.1:9"
transport = "tcp"
audit = true
paused = true
"#;

#[test]
fn destinations_come_with_the_file_and_their_secrets_are_given_again() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    private(&home, "hush", "hush-hush-hush\n");
    private(&home, "url", "https://127.0.0.1:9/p4th\n");
    let file = home.path("san.toml");
    let shown = text(&file);
    let apply = |san: &str| {
        fs::write(&file, san).expect("it can be written");
        home.ask(&["apply", "-f", &shown, "--yes"])
    };
    let (code, out, err) = apply(DESTINATIONS);
    assert!(code == 0 && out.contains("+ webhook 'chat': only the file has it"), "{out}{err}");
    let chat = member.json(&["notify", "show", "chat"]);
    assert_eq!(chat["to"]["webhook"]["server"], "https://127.0.0.1:9", "{chat}");
    assert_eq!((&chat["usable"], &chat["severity"]), (&true.into(), &"error".into()), "{chat}");
    let exported = member.run(&["export-config"]);
    for secret in ["hush", "p4th"] {
        assert!(!exported.contains(secret), "{exported}");
    }
    for told in [
        "[webhook.chat]",
        "signed = true",
        "user = \"san1\"",
        "transport = \"tcp\"",
        "audit = true",
    ] {
        assert!(exported.contains(told), "{told}: {exported}");
    }
    assert_eq!(apply(&exported).0, 0, "what was exported is the same");

    // Which events go there may change without the secrets, where they go may not.
    assert_eq!(apply(&exported.replace("severity = \"error\"", "severity = \"info\"")).0, 0);
    assert_eq!(member.json(&["notify", "show", "chat"])["severity"], "info");
    let refused = |san: &str, wanted: &str| {
        let before = member.run(&["export-config"]);
        let (code, _, err) = apply(san);
        assert!(code == 1 && err.contains(wanted), "{wanted}: {err}");
        assert_eq!(member.run(&["export-config"]), before, "{wanted}");
    };
    let exported = member.run(&["export-config"]);
    let moved = exported.replace("smtp = \"127.0.0.1:9\"", "smtp = \"127.0.0.1:10\"");
    refused(&moved, "have to be given again: write password-file = \"FILE\"");
    refused(&exported.replace("signed = true", "signed = false"), "write url-file = \"FILE\"");
    let more = |text: &str| format!("{exported}\n{text}");
    refused(&more("[syslog.chat]\nserver = \"h\""), "there is a destination 'chat' already");
    refused(&more("[syslog.new]\n"), "it is new: write server too");
    refused(&more("[syslog.new]\nserver = \"a b\""), "a b");
    let given = moved.replace("user = \"san1\"", "user = \"san1\"\npassword-file = \"hush\"");
    assert_eq!(apply(&given).0, 0);
    assert_eq!(member.json(&["notify", "show", "ops"])["to"]["email"]["smtp"], "127.0.0.1:10");

    // One may take the place of another kind, and all may go.
    let from = given.find("[syslog.log]").expect("it is there");
    let other = format!(
        "{}[email.log]\nto = [\"a@x.example\"]\nfrom = \"b@x.example\"\nsmtp = \"h\"\ntls = \"none\"\n",
        &given[..from]
    );
    let (code, out, err) = apply(&other);
    assert!(code == 0 && out.contains("- syslog 'log'"), "{out}{err}");
    let (code, _, err) = apply("");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(member.json(&["notify", "list"]), serde_json::json!([]));
    member.stop();
}

const LOGINS: &str = r#"
[volume.vm]
size = "64M"
access = ["chap=al for=both"]

[chap.al]
secret-file = "hush"

[chap.bo]
secret-file = "third"

[mutual-chap.array]
secret-file = "other"

[webhook.chat]
url-file = "url"
signed = true
secret-file = "hush"
bearer = false
trust = "system"

[email.ops]
to = ["ops@example.com"]
from = "san1@example.com"
smtp = "127.0.0.1:9"
tls = "starttls"
trust = "system"
user = "san1"
password-file = "hush"
"#;

/// The key that secrets are encrypted with lies beside the daemon, and is gone with its directory.
#[test]
fn secrets_that_are_lost_differ_and_are_set_anew() {
    let home = Home::files(3, "128M");
    let member = home.start(&[]);
    private(&home, "hush", "hush-hush-hush");
    private(&home, "other", "other-hush-hush");
    private(&home, "third", "third-hush-hush");
    private(&home, "url", "https://127.0.0.1:9/p4th\n");
    let file = home.path("san.toml");
    let shown = text(&file);
    let write = |san: &str| fs::write(&file, san).expect("it can be written");
    let ask = |words: &[&str]| home.ask(&[words, &["-f", &shown]].concat());
    write(LOGINS);
    let (code, _, err) = ask(&["apply"]);
    assert_eq!(code, 0, "{err}");
    prove(&member, "vm", "hush-hush-hush").expect("al may");
    let exported = member.run(&["export-config"]);
    member.stop();

    fs::remove_file(home.path("data").join("store.key")).expect("it was there");
    let member = home.start(&[]);
    assert!(prove(&member, "vm", "hush-hush-hush").is_err(), "its secret is lost");
    assert!(!home.path("data/store.key").exists(), "the key may be put back yet");
    // What was exported names no files: it is told what to add, and nothing is changed.
    write(&exported);
    let (code, out, err) = ask(&["diff"]);
    let wanted = "~ chap 'al'\n    its secret is lost: write secret-file = \"FILE\" for what it is set anew from\n";
    assert!(code == 1 && out.contains(wanted), "{out}{err}");
    let (code, _, err) = ask(&["apply"]);
    let all = [
        "nothing was changed: chap 'al': its secret is lost: write secret-file = \"FILE\"",
        "mutual-chap 'array': its secret is lost: write secret-file",
        "webhook 'chat': its secrets are lost: write url-file = \"FILE\" and secret-file = \"FILE\"",
        "email 'ops': its secret is lost: write password-file",
    ];
    assert!(code == 1 && all.iter().all(|one| err.contains(one)), "{err}");

    // One is given by hand; the file then leaves it alone, although it names another.
    member.run(&["chap", "set", "bo", "--secret-file", &text(&home.path("hush"))]);
    write(LOGINS);
    let wanted = "~ chap 'al'\n    its secret is lost: it is set anew from 'hush'\n\
                  ~ mutual-chap 'array'\n    its secret is lost: it is set anew from 'other'\n\
                  ~ webhook 'chat'\n    its secrets are lost: they are set anew from 'url' and 'hush'\n\
                  ~ email 'ops'\n    its secret is lost: it is set anew from 'hush'\n";
    let (code, out, err) = ask(&["diff"]);
    assert_eq!((code, out.as_str()), (1, wanted), "{err}");
    let bo = || member.json(&["chap", "list"])["users"][1].clone();
    assert_eq!(bo(), serde_json::json!({"user": "bo", "usable": true}));
    let (code, out, err) = ask(&["apply"]);
    assert!(code == 0 && out.starts_with(wanted), "{out}{err}");
    assert_eq!(ask(&["diff"]), (0, format!("the member is as '{shown}' says\n"), String::new()));
    prove(&member, "vm", "hush-hush-hush").expect("al may again");
    let users = member.json(&["chap", "list"]);
    assert!(users["users"][0]["usable"] == true && users["mutual"]["usable"] == true, "{users}");
    for name in ["chat", "ops"] {
        assert_eq!(member.json(&["notify", "show", name])["usable"], true, "{name}");
    }
    // Usable secrets are not compared, nor set.
    private(&home, "hush", "quite-another-one");
    assert_eq!(ask(&["apply"]).0, 0);
    prove(&member, "vm", "hush-hush-hush").expect("it kept its secret");
    member.stop();
}
