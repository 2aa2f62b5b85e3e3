//! The Debian package: what is in it, and what its units and files say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program is there");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The package of the binary of this test, unpacked; made once.
fn unpacked() -> &'static Path {
    static MADE: LazyLock<PathBuf> = LazyLock::new(make);
    &MADE
}

fn make() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("it is ours");
    }
    fs::create_dir_all(&dir).expect("a directory can be made");
    let script = root().join("scripts/package.sh");
    let package = run(Command::new(script).arg(env!("CARGO_BIN_EXE_drystone")).arg(&dir));
    let tree = dir.join("tree");
    run(Command::new("dpkg-deb").args(["--raw-extract", package.trim()]).arg(&tree));
    tree
}

#[test]
fn the_package_brings_all_that_a_server_needs() {
    let tree = unpacked();
    for path in [
        "usr/share/man/man1/drystone.1.gz",
        "usr/share/man/man1/drystone-member-start.1.gz",
        "usr/share/bash-completion/completions/drystone",
        "usr/share/zsh/vendor-completions/_drystone",
        "usr/share/fish/vendor_completions.d/drystone.fish",
        "usr/lib/udev/rules.d/60-drystone.rules",
        "usr/lib/sysusers.d/drystone.conf",
        "usr/share/doc/drystone/copyright",
        "etc/multipath/conf.d/drystone.conf",
        "usr/share/drystone/grafana/drystone.json",
        "usr/share/drystone/prometheus/alerts.yml",
    ] {
        assert!(tree.join(path).is_file(), "{path}");
    }
    let version = run(Command::new(tree.join("usr/bin/drystone")).arg("--version"));
    let control = fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    let packaged = control.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap();
    assert!(version.contains(packaged), "{version}: {control}");
    for left in ["@VERSION@", "@ARCHITECTURE@", "@SIZE@"] {
        assert!(!control.contains(left), "{control}");
    }
    let conffiles = fs::read_to_string(tree.join("DEBIAN/conffiles")).unwrap();
    for path in conffiles.lines() {
        assert!(tree.join(path.trim_start_matches('/')).is_file(), "{path}");
    }
}

/// Nothing in the file is a key that there is not; the commented keys are tried as well.
#[test]
fn the_file_of_the_member_reads_with_all_its_comments_taken_off() {
    let tree = unpacked();
    let text = fs::read_to_string(tree.join("etc/drystone/member.toml")).unwrap();
    let is_key =
        |line: &&str| line.strip_prefix('#').is_some_and(|it| it.starts_with(char::is_alphabetic));
    let keys = text.lines().filter(is_key).count();
    assert!(keys >= 6, "{keys}: {text}");
    let full: String = text
        .lines()
        .map(|line| if is_key(&line) { &line[1..] } else { line })
        .map(|line| line.replace("/dev/disk/by-id/nvme-*", "ram:1G"))
        .map(|line| {
            line.replace("[\"192.0.2.10:3260\", \"198.51.100.10:3260\"]", "\"127.0.0.1:0\"")
        })
        .filter(|line| !line.starts_with("chap-file"))
        .map(|line| line + "\n")
        .collect();
    let path = tree.join("member.toml");
    fs::write(&path, &full).unwrap();
    let check = ["member", "check", "--config", path.to_str().unwrap()];
    let said = run(Command::new(tree.join("usr/bin/drystone")).args(check));
    assert!(said.contains("the member can start: 3 disks, 1 portal"), "{said}");
}

#[test]
fn the_units_read_and_give_the_member_little() {
    let tree = unpacked();
    let units = tree.join("usr/lib/systemd/system");
    let member = units.join("drystone.service");
    let text = fs::read_to_string(&member).unwrap();
    assert!(
        text.contains(
            "ExecStart=/usr/bin/drystone member start --config /etc/drystone/member.toml\n"
        )
    );
    let attach = fs::read_to_string(units.join("drystone-attach.service")).unwrap();
    assert!(attach.contains("ExecStart=/usr/bin/drystone attach --all\n"), "{attach}");
    // A hundredfold: 3.0 at most.
    let security = ["security", "--offline=true", "--threshold=30", "--no-pager"];
    run(Command::new("systemd-analyze").args(security).arg(&member));
    for name in ["drystone.service", "drystone-attach.service"] {
        let output = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(units.join(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let ours: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("drystone"))
            // Not installed here.
            .filter(|line| !line.contains("is not executable"))
            .collect();
        assert!(ours.is_empty(), "{name}: {said}");
    }
}

/// The image itself is built by `make package-test`: here, what it is made of is held against the package and its unit.
#[test]
fn the_container_image_starts_what_the_package_brings_as_its_unit_does() {
    let tree = unpacked();
    let text = fs::read_to_string(root().join("packaging/Containerfile")).unwrap();
    let joined = text.replace("\\\n", " ");
    let lines: Vec<(&str, &str)> = joined
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| line.split_once(' ').expect("an instruction and its words"))
        .collect();
    let of = |instruction: &str| {
        let mut all = lines.iter().filter(|(it, _)| *it == instruction);
        let words = all.next().unwrap_or_else(|| panic!("there is no {instruction}")).1;
        assert!(all.next().is_none(), "{instruction} stands there once");
        words
    };
    let command: Vec<String> = serde_json::from_str(of("CMD")).unwrap();
    let unit = fs::read_to_string(tree.join("usr/lib/systemd/system/drystone.service")).unwrap();
    let is_in_unit = |line: &str| unit.lines().any(|it| it == line);
    assert!(is_in_unit(&format!("ExecStart={}", command.join(" "))), "{command:?}");
    assert!(is_in_unit(&format!("User={}", of("USER"))));
    for path in [&command[0], command.last().unwrap()] {
        assert!(tree.join(path.trim_start_matches('/')).is_file(), "{path} is in the package");
    }
    let (pattern, _) = of("COPY").split_once(' ').unwrap();
    let (begins, ends) = pattern.split_once('*').unwrap();
    let package =
        tree.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let is_copied = |name: &String| name.starts_with(begins) && name.ends_with(ends);
    let names: Vec<String> = package.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(names.into_iter().filter(is_copied).count(), 1, "{pattern}");

    // The directories that systemd makes for the unit, and the ports of the file that comes along.
    let member = fs::read_to_string(tree.join("etc/drystone/member.toml")).unwrap();
    for dir in ["/var/lib/drystone", "/run/drystone-member"] {
        assert!(of("RUN").contains(dir) && member.contains(&format!("\"{dir}")), "{dir}");
    }
    assert_eq!(of("VOLUME"), "/var/lib/drystone");
    for port in of("EXPOSE").split(' ') {
        assert!(member.contains(&format!(":{port}\"")), "{port}");
    }
    assert_eq!(of("STOPSIGNAL"), "SIGTERM", "what a member stops in order at");
}
