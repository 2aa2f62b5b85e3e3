//! QEMU's own initiator: images to and from `iscsi://`, patterns, discards, CHAP.

mod common;

use common::{Export, finish};
use std::path::Path;
use std::process::Command;

/// Runs one of QEMU's tools; what it says when it succeeds.
fn qemu(tool: &str, args: &[&str]) -> String {
    let output = finish(Command::new(tool).args(args));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, complaint) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{tool} {args:?}: {}: {said}{complaint}", output.status);
    said
}

/// As [`qemu`], for a run that must fail; its complaint.
fn qemu_fails(tool: &str, args: &[&str]) -> String {
    let output = finish(Command::new(tool).args(args));
    assert!(!output.status.success(), "{tool} {args:?} succeeded");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs qemu-io commands on a disk. It exits with 0 even when a pattern does not match.
fn qemu_io(url: &str, commands: &[&str]) -> String {
    let mut args = vec!["-f", "raw"];
    args.extend(commands.iter().flat_map(|command| ["-c", command]));
    args.push(url);
    let said = qemu("qemu-io", &args);
    let wrong = said.contains("failed") || said.contains("error");
    assert!(!wrong, "qemu-io {commands:?}: {said}");
    said
}

/// An image of 32 MiB with data, zeroes that were written, and holes.
fn sample(dir: &Path) -> String {
    const MIB: usize = 1 << 20;
    let mut bytes = vec![0; 32 * MIB];
    fastrand::Rng::with_seed(7).fill(&mut bytes[..5 * MIB + 777]);
    fastrand::Rng::with_seed(8).fill(&mut bytes[20 * MIB - 1..23 * MIB]);
    let path = dir.join("sample.raw");
    std::fs::write(&path, bytes).expect("the temporary directory has room");
    path.to_str().expect("temporary names are UTF-8").to_owned()
}

/// An image goes to the disk and comes back as it was.
fn there_and_back(url: &str, dir: &Path) {
    let image = sample(dir);
    qemu("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image, url]);
    let same = qemu("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image, url]);
    assert!(same.contains("Images are identical"), "{same}");
    let back = dir.join("back.qcow2");
    let back = back.to_str().expect("temporary names are UTF-8");
    qemu("qemu-img", &["convert", "-f", "raw", "-O", "qcow2", url, back]);
    let same = qemu("qemu-img", &["compare", "-f", "raw", "-F", "qcow2", &image, back]);
    assert!(same.contains("Images are identical"), "{same}");
    qemu_io(url, &["write -P 0x5a 1M 4k"]);
    let other = finish(Command::new("qemu-img").args(["compare", "-f", "raw", &image, url]));
    assert_eq!(other.status.code(), Some(1), "one changed block is noticed");
}

#[test]
fn images_go_there_and_back() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = common::file_spec(dir.path(), "disk.img", "32M");
    let export = Export::start(&[&file, "ram:32M,block=4096"], &[]);
    for lun in 0..2 {
        there_and_back(&export.url(lun), dir.path());
    }
    export.stop();
}

#[test]
fn patterns_and_discards() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let file = common::file_spec(dir.path(), "disk.img", "32M");
    let export = Export::start(&["ram:32M", &file, "ram:32M,block=4096"], &[]);
    for lun in 0..3 {
        let url = export.url(lun);
        qemu_io(
            &url,
            &[
                "write -P 0xa5 1M 6M",
                "write -P 0x3c 4100k 12k",
                "flush",
                "read -P 0xa5 1M 3M",
                "read -P 0x3c 4100k 12k",
                "discard 2M 1M",
                "read -P 0xa5 1M 1M",
                "read -P 0 2M 1M",
                "write -z 5M 64k",
                "read -P 0 5M 64k",
                "write -f -P 0x11 31M 1M",
                "read -P 0x11 31M 1M",
                "read -P 0 8M 23M",
            ],
        );
        // A new session finds the same, and a hole where the discard was.
        let said = qemu_io(&url, &["read -P 0xa5 3M 1M", "read -P 0 2M 1M"]);
        assert_eq!(said.matches("read 1048576/1048576").count(), 2, "{said}");
        let map = qemu("qemu-img", &["map", "-f", "raw", "--output=json", &url]);
        let hole = r#""start": 2097152, "length": 1048576, "depth": 0, "present": true, "zero": true, "data": false"#;
        assert!(map.contains(hole), "LUN {lun}: {map}");
    }
    export.stop();
}

#[test]
fn a_read_only_disk_refuses_to_be_written() {
    let export = Export::start(&["ram:32M,ro"], &[]);
    let complaint = qemu_fails("qemu-io", &["-f", "raw", "-c", "write 0 4k", &export.url(0)]);
    assert!(complaint.contains("write protected"), "{complaint}");
    qemu("qemu-io", &["-r", "-f", "raw", "-c", "read -P 0 0 4k", &export.url(0)]);
    export.stop();
}

#[test]
fn chap_lets_in_who_knows_the_secret() {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let export = Export::start(&["ram:32M"], &["--chap", "alice:sixteen-bytes-ok"]);
    let url = export.url(0);
    let with = |login: &str| url.replace("iscsi://", &format!("iscsi://{login}"));
    there_and_back(&with("alice%sixteen-bytes-ok@"), dir.path());
    for login in ["", "alice%sixteen-bytes-no@", "bob%sixteen-bytes-ok@"] {
        let complaint = qemu_fails("qemu-img", &["info", "-f", "raw", &with(login)]);
        assert!(complaint.contains("Failed to connect to LUN"), "{login}: {complaint}");
    }
    export.stop();
}
