//! `drystone attach`, `attached` and `detach` against `drystone export`.

mod common;

use common::member::{Home, Member};
use common::{Export, Line, drystone, file_spec, finish, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SIZE_BYTES: usize = 32 << 20;

/// How long a start or an end may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running attachment, killed with its value.
struct Attachment {
    child: Child,
    line: Line,
}

impl Attachment {
    /// Attaches `url` with its runtime directory in `dir`, and waits until it is ready.
    fn start(dir: &Path, url: &str, options: &[&str]) -> Attachment {
        let mut command = attach(dir, url, options);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("drystone can be started");
        let mut text = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        stdout.read_line(&mut text).expect("a pipe can be read");
        assert!(text.starts_with("attached "), "it is not ready: {text:?}");
        // Nothing more is printed, so that a closed pipe disturbs nobody.
        Attachment { child, line: Line::parse(text.trim_end()) }
    }

    fn place(&self) -> &str {
        let (_, place) = self.line.text.split_once(" at=").expect("the line says where");
        place
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child is there");
    }

    fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                return status;
            }
            assert!(Instant::now() < end, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn attach(dir: &Path, url: &str, options: &[&str]) -> Command {
    let mut command = drystone(&["attach", url]);
    command.args(options).arg("--runtime-dir").arg(dir.join("run"));
    command
}

fn detach(dir: &Path, which: &str) -> Output {
    let run = dir.join("run");
    finish(drystone(&["detach", which]).arg("--runtime-dir").arg(run))
}

fn attached(dir: &Path, options: &[&str]) -> String {
    let run = dir.join("run");
    let output = finish(drystone(&["attached"]).args(options).arg("--runtime-dir").arg(run));
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a tool to its end; the test fails when that does.
fn tool(program: &str, args: &[&str]) -> String {
    let output = finish(Command::new(program).args(args));
    assert!(output.status.success(), "{program} {args:?}: {}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn temp() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let path = dir.path().to_owned();
    (dir, path)
}

fn socket(dir: &Path) -> (String, String) {
    let path = dir.join("nbd.sock");
    (format!("unix:{}", path.display()), format!("nbd+unix:///?socket={}", path.display()))
}

fn image(dir: &Path) -> (PathBuf, Vec<u8>) {
    let bytes: Vec<u8> =
        (0..SIZE_BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let path = dir.join("image");
    fs::write(&path, &bytes).expect("there is room");
    (path, bytes)
}

#[test]
fn an_image_goes_through_nbd_to_the_target_and_back() {
    let (_dir, dir) = temp();
    let export = Export::start(&[&file_spec(&dir, "disk", "32M")], &[]);
    let (nbd, uri) = socket(&dir);
    let mut attachment =
        Attachment::start(&dir, &export.url(0), &["--nbd", &nbd, "--sessions", "3"]);
    let pairs = &attachment.line.pairs;
    assert_eq!((pairs["size"].as_str(), pairs["sessions"].as_str()), ("32M", "3"));
    assert_eq!(attachment.place(), nbd);
    let (from, bytes) = image(&dir);
    let to = dir.join("to");
    tool("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
    tool("nbdcopy", &[&uri, to.to_str().unwrap()]);
    assert!(fs::read(&to).unwrap() == bytes);
    let info = tool("nbdinfo", &[&uri]);
    assert!(info.contains(&export.iqn), "{info}");

    let shown: serde_json::Value = serde_json::from_str(&attached(&dir, &["--json"])).unwrap();
    assert_eq!(shown[0]["place"], nbd.as_str());
    assert_eq!(shown[0]["size_bytes"], SIZE_BYTES);
    assert_eq!(shown[0]["policy"], "least-queue-depth");
    assert_eq!(shown[0]["failed"], 0);
    let paths = shown[0]["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 3);
    assert!(paths.iter().all(|path| path["state"] == "active"), "{shown}");
    let table = attached(&dir, &[]);
    assert!(table.contains("3 of 3 work"), "{table}");

    let output = detach(&dir, &nbd);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(attachment.wait().success());
    assert!(!dir.join("nbd.sock").exists());
    assert_eq!(attached(&dir, &[]), "nothing is attached\n");
    export.stop();
    assert!(fs::read(dir.join("disk")).unwrap() == bytes, "all of it reached the target");
}

#[test]
fn a_signal_ends_it_cleanly_and_names_of_no_attachment_are_refused() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M,ro"], &[]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut attachment = Attachment::start(&dir, &export.url(0), &["--nbd", "127.0.0.1:0"]);
        assert_eq!(attachment.line.pairs["access"], "ro");
        let uri = format!("nbd://{}", attachment.place());
        assert!(tool("nbdinfo", &[&uri]).contains("is_read_only: true"));
        let output = detach(&dir, "/mnt/other");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("nothing is attached as '/mnt/other'"));
        attachment.signal(signal);
        assert!(attachment.wait().success());
    }
    export.stop();
}

/// What systemd hears of a service of `Type=notify` with `WatchdogSec=`.
#[test]
fn a_service_manager_hears_of_its_start_its_life_and_its_end() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M"], &[]);
    let (nbd, _) = socket(&dir);
    let manager = UnixDatagram::bind(dir.join("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let heard = || {
        let mut bytes = [0; 512];
        let len = manager.recv(&mut bytes).expect("it says something");
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let mut command = attach(&dir, &export.url(0), &["--nbd", &nbd]);
    command.env("NOTIFY_SOCKET", dir.join("notify")).env("WATCHDOG_USEC", "300000");
    let child = command.stdout(Stdio::null()).spawn().expect("drystone can be started");
    let line = Line::parse("attached");
    let mut attachment = Attachment { child, line };
    let ready = format!("READY=1\nSTATUS=serving {} at {nbd}", export.url(0));
    assert_eq!(heard().trim_end_matches("/0"), ready.trim_end_matches("/0"));
    assert!(dir.join("nbd.sock").exists(), "it is ready when it says so");
    for _ in 0..3 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    attachment.signal(Signal::TERM);
    let last = (0..100).map(|_| heard()).find(|words| words != "WATCHDOG=1").unwrap();
    assert!(last.starts_with("STOPPING=1\nSTATUS=detaching iscsi://"), "{last}");
    assert!(attachment.wait().success());
    export.stop();
}

/// Two between the same ports have two ISIDs, or each would end the other's session at its login. One
/// that was killed gets its own again.
#[test]
fn attachments_of_one_host_keep_their_sessions_apart() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M"], &[]);
    let start = || Attachment::start(&dir, &export.url(0), &["--nbd", "127.0.0.1:0"]);
    let numbers = || {
        let entries = fs::read_dir(dir.join("run/sessions")).expect("it was made");
        entries.count() - 1 // one is the seed
    };
    let (mut first, second) = (start(), start());
    assert_eq!(numbers(), 2);
    first.signal(Signal::KILL);
    assert!(!first.wait().success());
    let third = start();
    assert_eq!(numbers(), 2, "the number of the one that was killed");
    for attachment in [&second, &third] {
        let uri = format!("nbd://{}", attachment.place());
        let output = qemu_io(&uri, "write -P 7 0 1M");
        assert!(went_well(&output), "{output:?}");
    }
    let shown = attached(&dir, &["--json"]);
    assert!(shown.contains("\"losses\"") && !shown.contains("\"losses\":1"), "{shown}");
    drop((second, third));
    export.stop();
}

#[test]
fn chap_lets_in_who_knows_the_secret() {
    let (_dir, dir) = temp();
    let chap = ["--chap", "alice:sixteen-bytes-ok", "--mutual-chap", "server:another-sixteen"];
    let export = Export::start(&["ram:32M"], &chap);
    let (nbd, _) = socket(&dir);
    let place = ["--nbd", &nbd];
    let secret = dir.join("chap");
    fs::write(&secret, "alice\nsixteen-bytes-ok\n").unwrap();
    let file = ["--chap-file", secret.to_str().unwrap()];
    let mutual = ["--mutual-chap", "server:another-sixteen"];
    for options in [&chap[..2], &file, &[&chap[..2], &mutual].concat()] {
        let mut attachment =
            Attachment::start(&dir, &export.url(0), &[&place[..], options].concat());
        attachment.signal(Signal::TERM);
        assert!(attachment.wait().success());
    }
    let wrong_target = ["--mutual-chap", "server:not-the-secret-x"];
    for options in [
        &[][..],
        &["--chap", "alice:sixteen-bytes-no"],
        &["--chap", "bob:sixteen-bytes-ok"],
        &[&chap[..2], &wrong_target].concat(),
    ] {
        let output = finish(&mut attach(&dir, &export.url(0), &[&place[..], options].concat()));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{options:?}: {said}");
        assert!(said.contains("cannot attach iscsi://"), "{said}");
        assert!(!said.contains("sixteen") && !said.contains("secret-x"), "{said}");
    }
    export.stop();
}

#[test]
fn a_volume_is_a_file_until_nobody_uses_it() {
    let (_dir, dir) = temp();
    let export = Export::start(&[&file_spec(&dir, "disk", "32M")], &[]);
    let at = dir.join("mnt");
    fs::create_dir(&at).unwrap();
    let at_text = at.to_str().unwrap();
    if !Path::new("/dev/fuse").exists() || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: mounting needs /dev/fuse and root");
        return;
    }
    let mut attachment = Attachment::start(&dir, &export.url(0), &["--fuse", at_text]);
    let file = OpenOptions::new().read(true).write(true).open(at.join("disk")).unwrap();
    let (_, bytes) = image(&dir);
    file.write_all_at(&bytes, 0).unwrap();
    file.write_all_at(b"any byte", 1_000_001).unwrap();
    file.sync_all().unwrap();
    let mut back = vec![0; SIZE_BYTES];
    file.read_exact_at(&mut back, 0).unwrap();
    let mut wanted = bytes;
    wanted[1_000_001..1_000_009].copy_from_slice(b"any byte");
    assert!(back == wanted);
    let output = detach(&dir, at_text);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is in use"), "{}", stderr(&output));
    file.read_exact_at(&mut back, 0).unwrap();
    drop(file);
    let output = detach(&dir, &format!("{at_text}/"));
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(attachment.wait().success());
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    let mut attachment = Attachment::start(&dir, &export.url(0), &["--fuse", at_text]);
    tool("umount", &[at_text]);
    assert!(attachment.wait().success(), "an unmount by hand detaches");
    export.stop();
    assert!(fs::read(dir.join("disk")).unwrap() == wanted);
}

#[test]
fn a_target_that_restarts_under_load_is_not_noticed() {
    let (_dir, dir) = temp();
    let spec = file_spec(&dir, "disk", "32M");
    let export = Export::start(&[&spec], &[]);
    let portal = export.portal().to_string();
    let (nbd, uri) = socket(&dir);
    let mut attachment = Attachment::start(&dir, &export.url(0), &["--nbd", &nbd]);
    let (from, bytes) = image(&dir);
    let copy = thread::spawn(move || {
        for _ in 0..20 {
            tool("nbdcopy", &["--flush", from.to_str().unwrap(), &uri]);
        }
    });
    thread::sleep(Duration::from_millis(300));
    export.crash();
    thread::sleep(Duration::from_millis(500));
    let export = Export::start(&[&spec], &["--portal", &portal]);
    copy.join().unwrap();
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    export.stop();
    assert!(fs::read(dir.join("disk")).unwrap() == bytes);
}

/// Runs one command of qemu-io on the disk.
fn qemu_io(uri: &str, command: &str) -> Output {
    finish(Command::new("qemu-io").args(["-f", "raw", "-c", command, uri]))
}

/// The pattern is what the command, such as `read -P 1 0 4k`, found.
fn went_well(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stdout);
    output.status.success() && !said.contains("failed") && !said.contains("error")
}

#[test]
fn all_paths_down_for_ten_seconds_is_a_pause() {
    let (_dir, dir) = temp();
    let spec = file_spec(&dir, "disk", "32M");
    let export = Export::start(&[&spec], &[]);
    let portal = export.portal().to_string();
    let (nbd, uri) = socket(&dir);
    let options = ["--nbd", &nbd, "--sessions", "2"];
    let mut attachment = Attachment::start(&dir, &export.url(0), &options);
    assert!(went_well(&qemu_io(&uri, "write -P 1 0 64k")));
    export.crash();
    let since = Instant::now();
    let writes = thread::spawn({
        let uri = uri.clone();
        move || qemu_io(&uri, "write -P 2 4k 64k")
    });
    thread::sleep(Duration::from_secs(10));
    assert!(!writes.is_finished(), "it waits");
    let export = Export::start(&[&spec], &["--portal", &portal]);
    assert!(went_well(&writes.join().unwrap()));
    assert!(since.elapsed() > Duration::from_secs(10));
    for read in ["read -P 1 0 4k", "read -P 2 4k 64k"] {
        assert!(went_well(&qemu_io(&uri, read)), "{read}");
    }
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    export.stop();
}

#[test]
fn all_paths_down_for_longer_than_the_limit_is_an_error_and_no_end() {
    let (_dir, dir) = temp();
    let spec = file_spec(&dir, "disk", "32M");
    let export = Export::start(&[&spec], &[]);
    let portal = export.portal().to_string();
    let (nbd, uri) = socket(&dir);
    let options = ["--nbd", &nbd, "--path-timeout", "2"];
    let mut attachment = Attachment::start(&dir, &export.url(0), &options);
    export.crash();
    let since = Instant::now();
    let failed = qemu_io(&uri, "write -P 1 0 64k");
    let took = since.elapsed();
    let said = stderr(&failed) + &String::from_utf8_lossy(&failed.stdout);
    assert!(said.contains("Input/output error"), "{said}");
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(20), "{took:?}");
    let shown = attached(&dir, &["--json"]);
    assert!(shown.contains("\"failed\"") && shown.contains("cannot connect"), "{shown}");
    // The attachment stays, and serves again as soon as there is a path.
    let export = Export::start(&[&spec], &["--portal", &portal]);
    let end = Instant::now() + PATIENCE;
    while !went_well(&qemu_io(&uri, "write -P 2 0 64k")) {
        assert!(Instant::now() < end, "it does not come back");
    }
    assert!(went_well(&qemu_io(&uri, "read -P 2 0 64k")));
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    export.stop();
}

/// The target's machine hangs: connections stay, nobody answers.
#[test]
fn a_target_that_hangs_and_wakes_up_is_a_pause() {
    let (_dir, dir) = temp();
    let export = Export::start(&[&file_spec(&dir, "disk", "32M")], &[]);
    let (nbd, uri) = socket(&dir);
    let options = ["--nbd", &nbd, "--connections", "2"];
    let mut attachment = Attachment::start(&dir, &export.url(0), &options);
    export.signal(Signal::STOP);
    let write = thread::spawn({
        let uri = uri.clone();
        move || qemu_io(&uri, "write -P 3 0 1M")
    });
    // Longer than the silence after which the path counts as lost.
    thread::sleep(Duration::from_secs(12));
    assert!(attached(&dir, &[]).contains("did not answer a NOP-Out"));
    export.signal(Signal::CONT);
    assert!(went_well(&write.join().unwrap()));
    assert!(went_well(&qemu_io(&uri, "read -P 3 0 1M")));
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    export.stop();
}

#[test]
fn fio_verifies_random_writes_over_two_sessions() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M"], &[]);
    let (nbd, uri) = socket(&dir);
    let options = ["--nbd", &nbd, "--sessions", "2", "--policy", "round-robin"];
    let mut attachment = Attachment::start(&dir, &export.url(0), &options);
    tool(
        "fio",
        &[
            "--name=job",
            "--ioengine=nbd",
            &format!("--uri={uri}"),
            "--rw=randrw",
            "--bsrange=512-64k",
            "--iodepth=32",
            "--size=32M",
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_state_save=0",
        ],
    );
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    export.stop();
}

#[test]
fn what_cannot_be_attached_is_said_in_a_sentence() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M"], &[]);
    let (nbd, _) = socket(&dir);
    let url = export.url(0);
    let nowhere = format!("iscsi://127.0.0.1:1/{}", export.iqn);
    let missing = dir.join("missing");
    let file = dir.join("file");
    fs::write(&file, b"precious").unwrap();
    let (taken, no_socket) = (dir.join("taken"), format!("unix:{}", file.display()));
    let _listener = UnixListener::bind(&taken).unwrap();
    let taken = format!("unix:{}", taken.display());
    for (url, options, end) in [
        (&export.url(7), ["--nbd", &nbd], "there is no disk behind this logical unit number\n"),
        (&nowhere, ["--nbd", &nbd], "\n"),
        (&url, ["--fuse", missing.to_str().unwrap()], "is not a directory: make it first\n"),
        (&url, ["--nbd", &taken], "Address already in use (os error 98)\n"),
        (&url, ["--nbd", &no_socket], "is not a socket: move it, or name another path\n"),
    ] {
        let output = finish(&mut attach(&dir, url, &options));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.starts_with("drystone: ") && said.ends_with(end), "{said}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"precious");
    let usage = |args: &[&str]| {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        stderr(&output)
    };
    assert!(usage(&["attach", &url]).contains("a place for the disk is missing"));
    assert!(usage(&["attach", "disk", "--nbd", &nbd]).contains("iscsi://"));
    if !Path::new("/dev/ublk-control").exists() {
        assert!(usage(&["attach", &url, "--ublk"]).contains("modprobe ublk_drv"));
    }
    assert!(usage(&["attach", &url, "--nbd", "unix:"]).contains("is not an address for NBD"));
    export.stop();
}

/// The kernel closes the sockets of a process that was killed some time after it has ended.
#[test]
fn an_address_that_is_about_to_be_free_is_waited_for() {
    let (_dir, dir) = temp();
    let export = Export::start(&["ram:32M"], &[]);
    let url = export.url(0);
    let (nbd, uri) = socket(&dir);
    let unix = OwnedFd::from(UnixListener::bind(nbd.strip_prefix("unix:").unwrap()).unwrap());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let tcp_uri = format!("nbd://{address}");
    for (place, uri, socket) in [(nbd, uri, unix), (address, tcp_uri, OwnedFd::from(tcp))] {
        let held = thread::spawn(move || {
            thread::sleep(Duration::from_secs(1));
            drop(socket);
        });
        let mut attachment = Attachment::start(&dir, &url, &["--nbd", &place]);
        held.join().unwrap();
        assert_eq!(tool("nbdinfo", &["--size", &uri]).trim(), (32 << 20).to_string());
        attachment.signal(Signal::TERM);
        assert!(attachment.wait().success());
    }
    export.stop();
}

/// A command hears that the volume has grown, and the next client has all of it.
#[test]
fn a_volume_that_grows_can_be_used_in_its_new_size() {
    let (old, new) = (64 << 20, 128 << 20);
    let (_dir, dir) = temp();
    let home = Home::files(2, "256M");
    let member = home.start(&[]);
    member.run(&["volume", "create", "a", "64M"]);
    let url = format!("iscsi://{}/{}", member.portal(), member.iqn("a"));
    let (nbd, uri) = socket(&dir);
    let mut attachment = Attachment::start(&dir, &url, &["--nbd", &nbd, "--sessions", "2"]);
    let size = || tool("nbdinfo", &["--size", &uri]).trim().parse::<u64>().unwrap();
    assert_eq!(size(), old);
    assert!(!went_well(&qemu_io(&uri, "write -P 1 64M 64k")), "it ends there");
    member.run(&["volume", "resize", "a", "128M"]);
    let end = Instant::now() + PATIENCE;
    while size() != new {
        assert!(Instant::now() < end, "it stays at {}", size());
        assert!(went_well(&qemu_io(&uri, "read 0 4k")), "what it does is disturbed by nothing");
    }
    for command in ["write -P 9 63M 65M", "read -P 9 63M 65M", "write -z 100M 28M"] {
        assert!(went_well(&qemu_io(&uri, command)), "{command}");
    }
    assert!(!went_well(&qemu_io(&uri, "write -P 1 128M 64k")), "and it ends there");
    let shown: serde_json::Value = serde_json::from_str(&attached(&dir, &["--json"])).unwrap();
    assert_eq!(shown[0]["size_bytes"], new);
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
    if Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root() {
        grows_as_a_file(&dir, &url, &member);
    } else {
        eprintln!("SKIPPED: mounting needs /dev/fuse and root");
    }
    member.stop();
}

/// From 128M to 192M.
fn grows_as_a_file(dir: &Path, url: &str, member: &Member<'_>) {
    let (old, new) = (128 << 20, 192 << 20);
    let at = dir.join("mnt");
    fs::create_dir(&at).expect("there is room");
    let place = ["--fuse", at.to_str().expect("it is UTF-8")];
    let mut attachment = Attachment::start(dir, url, &place);
    let file = OpenOptions::new().read(true).write(true).open(at.join("disk"));
    let file = file.expect("the file is there");
    let size = || file.metadata().expect("it can be asked").len();
    assert_eq!(size(), old);
    member.run(&["volume", "resize", "a", "192M"]);
    let (end, mut block) = (Instant::now() + PATIENCE, [0; 4096]);
    while size() != new {
        assert!(Instant::now() < end, "it stays at {}", size());
        file.read_exact_at(&mut block, 0).expect("what it does is disturbed by nothing");
    }
    file.write_all_at(&[7; 4096], new - 4096).expect("it is that long");
    file.read_exact_at(&mut block, new - 4096).expect("it is that long");
    assert!(block == [7; 4096]);
    drop(file);
    attachment.signal(Signal::TERM);
    assert!(attachment.wait().success());
}
