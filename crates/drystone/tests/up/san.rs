//! What a member is set to, as a file.

use crate::common::member::{Home, text};
use std::fs;
use std::os::unix::fs::PermissionsExt;

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
