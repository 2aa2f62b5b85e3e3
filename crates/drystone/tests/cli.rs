//! The real binary: help, refusals, start, the lines it prints, stop.

mod common;

use common::{Export, drystone, file_spec, finish, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Exit code, stdout and stderr of a run that ended by itself.
fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("no signal ended it"), text(&output.stdout), text(&output.stderr))
}

/// A run that fails to start with exactly this sentence.
fn refuses(args: &[&str], code: i32, sentence: &str) {
    let wanted = (code, String::new(), format!("drystone: {sentence}\n"));
    assert_eq!(ended(&run(args)), wanted, "{args:?}");
}

/// A run that fails to start with one sentence that ends like this.
fn fails(args: &[&str], end: &str) {
    let (code, out, err) = ended(&run(args));
    assert_eq!((code, out.as_str()), (1, ""), "{args:?}: {err}");
    let sentence = err.strip_prefix("drystone: ").and_then(|rest| rest.strip_suffix('\n'));
    let sentence = sentence.unwrap_or_else(|| panic!("not one sentence: {err}"));
    assert_eq!(sentence.lines().count(), 1, "{err}");
    assert!(sentence.ends_with(end), "{err}");
}

/// Command lines that ask for help, and what that must speak of.
const HELP: &[(&[&str], &[&str])] = &[
    (
        &["--help"],
        &[
            "export",
            "up",
            "volume",
            "policy",
            "chap",
            "snapshot",
            "schedule",
            "notify",
            "disk",
            "member",
            "group",
            "array",
            "attach",
            "attached",
            "detach",
            "completions",
            "man",
            "--log <FILTER>",
            "Exit status:",
        ],
    ),
    (
        &["export", "--help"],
        &[
            "ram:SIZE",
            "null:SIZE",
            "file:PATH[:SIZE]",
            "disk:PATH",
            "sim:DRIVE[:SIZE[:PATH]]",
            "block=512|4096",
            "cache=durable",
            "cache=volatile",
            "serial=TEXT",
            "--portal <ADDR:PORT>",
            "--iqn <IQN>",
            "--cores <N>",
            "--chap <USER:SECRET>",
            "--chap-file <PATH>",
            "DRYSTONE_CHAP",
            "--mutual-chap <USER:SECRET>",
            "DRYSTONE_MUTUAL_CHAP",
            "--allow <IQN|CIDR>",
            "--policy <POLICY>",
            "--congestion <NAME>",
            "--state-dir <DIR>",
            "[default: 127.0.0.1:3260]",
            "[default: iqn.2026-11.dev.drystone:export]",
            "Examples:",
        ],
    ),
    (
        &["attach", "--help"],
        &[
            "iscsi://HOST[:PORT]/IQN[/LUN]",
            "--nbd <unix:PATH|ADDR:PORT>",
            "--fuse <DIR>",
            "--policy <POLICY>",
            "round-robin[:COMMANDS]",
            "--sessions <N>",
            "--path-timeout <SECONDS>",
            "--initiator <IQN>",
            "--chap <USER:SECRET>",
            "DRYSTONE_CHAP",
            "--runtime-dir <DIR>",
            "Examples:",
        ],
    ),
    (
        &["schedule", "create", "--help"],
        &[
            "--volume <VOLUME>",
            "--every <TIME>",
            "--daily <HH:MM>",
            "--weekly <DAY> <HH:MM>",
            "Examples:",
        ],
    ),
    (
        &["group", "set", "--help"],
        &["--address", "--connections <N|small|default|none>", "Examples:"],
    ),
    (
        &["group", "certificate", "--help"],
        &["It is no secret", "--ca-file <FILE>", "Examples:", "group certificate > group.pem"],
    ),
    (&["pool", "set", "--help"], &["<NAME>", "--connections <N|default>", "Examples:"]),
    (
        &["group", "--help"],
        &[
            "create",
            "show",
            "certificate",
            "rename",
            "token",
            "volumes",
            "delete",
            "etcd-server",
            "Examples:",
        ],
    ),
    (&["volume", "move", "--help"], &["--to <MEMBER>", "--pool <POOL>", "--no-wait", "Examples:"]),
    (&["volume", "transits", "--help"], &["--json", "undecided", "Examples:"]),
    (&["volume", "create", "--help"], &["--spread <MEMBERS>", "Examples:"]),
    (&["volume", "slices", "--help"], &["--json", "left-over", "Examples:"]),
    (&["volume", "discard-slice", "--help"], &["<DIGITS>", "--yes", "Examples:"]),
    (&["volume", "rebuild", "--help"], &["<DIGITS>", "--despite-later", "offline", "Examples:"]),
    (
        &["volume", "settle", "--help"],
        &["<NAME>", "--keep", "--discard", "--move <DIGITS>", "--yes", "Examples:"],
    ),
    (&["doctor", "--help"], &["--config <PATH>", "--socket <PATH>", "Exit status:", "Examples:"]),
    (&["member", "vacate", "--help"], &["<NAME>", "--pool <POOL>", "--yes", "Examples:"]),
    (
        &["member", "join", "--help"],
        &["--token <TICKET>", "--member <NAME>", "--listen <ADDR[:PORT]>", "Examples:"],
    ),
    (&["diff", "--help"], &["--file <FILE>", "--json", "Exit status:", "Examples:"]),
    (&["attached", "--help"], &["--json", "--interval <SECONDS>", "Examples:"]),
    (&["detach", "--help"], &["<WHICH>", "Examples:"]),
    (&["export", "-h"], &["--portal <ADDR:PORT>", "--allow <IQN|CIDR>"]),
    (&["completions", "--help"], &["bash", "Examples:"]),
    (&["man", "--help"], &["--dir <DIR>", "Examples:"]),
];

#[test]
fn help_goes_to_stdout_and_names_all_that_there_is() {
    for (args, wanted) in HELP {
        let (code, out, err) = ended(&run(args));
        assert_eq!((code, err.as_str()), (0, ""), "{args:?}");
        for part in *wanted {
            assert!(out.contains(part), "{args:?} says nothing of {part}:\n{out}");
        }
    }
}

#[test]
fn the_version_is_the_packages() {
    let (code, out, _) = ended(&run(&["--version"]));
    assert_eq!((code, out), (0, format!("drystone {}\n", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn completions_and_man_pages_come_from_the_same_definitions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = ended(&run(&["completions", shell]));
        assert_eq!(code, 0, "{shell}");
        assert!(out.contains("mutual-chap-file"), "{shell}");
    }
    let (code, out, _) = ended(&run(&["man", "export"]));
    assert_eq!(code, 0);
    assert!(out.contains("drystone\\-export") && out.contains("mutual\\-chap\\-file"), "{out}");
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = ended(&run(&["man", "--dir", dir.path().to_str().unwrap()]));
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    assert!(dir.path().join("drystone-export.1").exists());
    fails(&["man", "--dir", "/nonexistent"], "No such file or directory (os error 2)");
}

#[test]
fn bad_command_lines_get_one_sentence_and_code_2() {
    refuses(
        &[],
        2,
        "a command is missing: write for example 'drystone export ram:1G', or see drystone --help",
    );
    refuses(
        &["export"],
        2,
        "a disk to export is missing: write ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], such as ram:1G",
    );
    refuses(
        &["export", "ram:10GB"],
        2,
        "'10GB' could mean two sizes: write 10G or 10GiB, which count in 1024s",
    );
    refuses(
        &["export", "ram:1M", "--mutual-chap", "server:servers-secret"],
        2,
        "mutual CHAP needs CHAP: write --chap USER:SECRET beside --mutual-chap",
    );
    refuses(
        &["export", "ram:1M", "--log", "loud=very=much"],
        2,
        "--log: 'loud=very=much' is not a log filter: write error, warn, info, debug or trace, or by room such as info,target=debug",
    );
    refuses(
        &["man", "nope"],
        2,
        "there is no man page 'nope': write one of export, up, status, connections, events, audit, top, volume, policy, chap, account, token, snapshot, schedule, notify, export-config, diff, apply, disk, member, group, pool, doctor, array, run, attach, attached, detach, lab, plan, help, completions, man",
    );
}

/// Where nobody answers, nothing is asked first: a script must not wait for a terminal.
#[test]
fn commands_about_a_group_need_a_member_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("control.sock");
    let socket = socket.to_str().unwrap();
    let nobody = format!(
        "no member answers at '{socket}': start one with 'drystone up', or write its --socket"
    );
    let lines: [&[&str]; 18] = [
        &["group", "create", "san1", "--listen", "127.0.0.1"],
        &["group", "show"],
        &["group", "certificate"],
        &["group", "token"],
        &["group", "set", "--connections", "small"],
        &["group", "set", "--connections", "none"],
        &["pool", "set", "fast", "--connections", "default"],
        &["group", "delete"],
        &["member", "list"],
        &["member", "join", "127.0.0.1", "--token", "t", "--listen", "127.0.0.2"],
        &["member", "remove", "right"],
        &["member", "vacate", "right"],
        &["volume", "move", "vm1", "--to", "right"],
        &["volume", "transits"],
        &["volume", "slices"],
        &["volume", "discard-slice", "00", "--yes"],
        &["volume", "rebuild", "00"],
        &["volume", "settle", "vm1", "--keep"],
    ];
    for line in lines {
        refuses(&[line, &["--socket", socket]].concat(), 1, &nobody);
    }
}

#[test]
fn secrets_of_the_environment_are_checked_too() {
    let mut command = drystone(&["export", "ram:1M"]);
    let (code, _, err) = ended(&finish(command.env("DRYSTONE_CHAP", "alice:hush")));
    assert_eq!(
        (code, err.as_str()),
        (
            2,
            "drystone: environment variable DRYSTONE_CHAP: the CHAP secret of user 'alice' has 4 bytes: write one of 12 to 255 (Windows takes at most 16)\n"
        )
    );
}

#[test]
fn a_start_that_fails_gets_one_sentence_and_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let state = state.to_str().unwrap();
    let small = dir.path().join("small");
    fs::write(&small, vec![0; 1000]).unwrap();
    let small = format!("file:{}", small.display());
    let export = |spec: &str, end: &str| {
        fails(&["export", spec, "--portal", "127.0.0.1:0", "--state-dir", state], end);
    };
    export(&small, "has 1000 bytes, which is not one or more blocks of 512");
    export(&small.replace("small", "missing"), "missing:10G");
    export("disk:/dev/null", "is no block device; for a regular file write file:/dev/null");
    fails(
        &["export", "ram:1M", "--portal", "192.0.2.1:3260", "--state-dir", state],
        "this machine has no address 192.0.2.1: write one of those that 'ip address' shows with --portal",
    );
    fails(
        &["export", "ram:1M", "--portal", "127.0.0.1:0", "--state-dir", "/dev/null"],
        "File exists (os error 17)",
    );
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let portal = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let args =
        ["export", "ram:1M", "--portal", &portal, "--state-dir", dir.path().to_str().unwrap()];
    let (code, out, err) = ended(&run(&args));
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    let (waits, refusal) = err.split_once('\n').unwrap();
    assert!(
        waits.ends_with(&format!("{portal} is in use: waiting for it for 10 s at most")),
        "{err}"
    );
    assert_eq!(
        refusal,
        format!(
            "drystone: {portal} is in use by another program: write another --portal, or stop that program (ss -tlnp shows it)\n"
        )
    );
}

#[test]
fn a_file_that_is_served_cannot_be_served_again() {
    let dir = tempfile::tempdir().unwrap();
    let spec = file_spec(dir.path(), "disk", "1M");
    let first = Export::start(&[&spec], &[]);
    let end = format!(
        "is in use by another drystone (pid {}): stop that first, or leave the disk out",
        first.pid()
    );
    fails(
        &["export", &spec, "--portal", "127.0.0.1:0", "--state-dir", dir.path().to_str().unwrap()],
        &end,
    );
    first.stop();
    Export::start(&[&spec], &[]).stop();
}

#[test]
fn what_is_served_is_told_in_lines_that_scripts_can_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = file_spec(dir.path(), "my disk.img", "10M");
    let export = Export::start(
        &["ram:64M,serial=RAM-1", &format!("{file},block=4096,cache=volatile")],
        &["--portal", "127.0.0.1:0", "--portal", "[::1]:0", "--iqn", "iqn.2026-11.com.example:t"],
    );
    assert_eq!(export.iqn, "iqn.2026-11.com.example:t");
    assert_eq!(
        export.luns[0].text,
        "lun number=0 size=64M block=512 serial=RAM-1 cache=durable access=rw from=ram:64M"
    );
    let pairs = &export.luns[1].pairs;
    let of = |key: &str| pairs[key].as_str();
    assert_eq!((of("size"), of("block"), of("cache")), ("10M", "4096", "volatile"));
    assert_eq!((of("number"), of("access"), of("from")), ("1", "rw", file.as_str()));
    assert_eq!(of("serial").len(), 16);
    assert!(export.portals[0].is_ipv4() && export.portals[1].is_ipv6());
    for portal in &export.portals {
        TcpStream::connect(portal).unwrap();
    }
    assert_eq!(fs::metadata(dir.path().join("my disk.img")).unwrap().len(), 10 << 20);
    export.stop();
}

#[test]
fn both_signals_stop_it_cleanly() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut export = Export::start(&["ram:16M"], &[]);
        export.signal(signal);
        let status = export.await_end();
        assert_eq!(status.code(), Some(0), "{}", export.log());
        assert!(export.log().contains(&format!("stopping on {name}")), "{}", export.log());
        assert!(TcpStream::connect(export.portal()).is_err(), "the port is free again");
    }
}

/// A host that does not log out when asked keeps a stop waiting for some seconds; an operator who
/// cannot wait signals again.
#[test]
fn a_second_signal_ends_it_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut export = Export::start(&["ram:16M"], &[]);
        let mut host = Command::new("iscsi-perf");
        let host = host.args(["-t", "60", &export.url(0)]).stdout(Stdio::null());
        let mut host = host.stderr(Stdio::null()).spawn().unwrap();
        let host_pid = Pid::from_child(&host);
        assert!(export.logs("logged in"), "{}", export.log());
        kill_process(host_pid, Signal::STOP).unwrap();
        export.signal(signal);
        assert!(export.logs("stopping on"), "{}", export.log());
        export.signal(signal);
        assert_eq!(export.await_end().code(), Some(code), "{}", export.log());
        host.kill().unwrap();
        host.wait().unwrap();
    }
}

#[test]
fn a_log_filter_is_obeyed() {
    let mut export = Export::start(&["ram:16M"], &["--log", "off"]);
    export.signal(Signal::TERM);
    export.await_end();
    assert_eq!(export.log(), "");
}

#[test]
fn a_secret_file_that_others_may_read_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("chap");
    fs::write(&path, "alice:alices-secret\n").unwrap();
    let path = path.to_str().unwrap();
    let warned = |mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let mut export = Export::start(&["ram:16M"], &["--chap-file", path]);
        export.signal(Signal::TERM);
        export.await_end();
        assert!(!export.log().contains("alices-secret"), "{}", export.log());
        export.log().contains("run chmod 600 on it")
    };
    assert!(warned(0o644));
    assert!(!warned(0o600));
}

#[test]
fn hints_follow_the_lines_when_asked_for() {
    let mut export = Export::start(&["ram:16M"], &["--hints"]);
    let portal = export.portal();
    export.signal(Signal::TERM);
    export.await_end();
    let rest = export.rest_of_stdout();
    for line in [
        format!("iscsiadm -m discovery -t sendtargets -p '{portal}'"),
        format!("qemu-img info 'iscsi://{portal}/{}/0'", export.iqn),
        format!("iscsi-ls -s 'iscsi://{portal}'"),
    ] {
        assert!(rest.contains(&line), "{line} is not in {rest:?}");
    }
}

/// A log on a full file system costs its lines, and nobody the service.
#[test]
fn a_log_that_takes_nothing_ends_no_export() {
    let state = tempfile::tempdir().unwrap();
    let mut export = drystone(&["--log", "debug", "export", "ram:1M", "--portal", "127.0.0.1:0"])
        .arg("--state-dir")
        .arg(state.path())
        .stdout(Stdio::null())
        .stderr(fs::File::options().write(true).open("/dev/full").unwrap())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(export.try_wait().unwrap(), None, "it serves");
    kill_process(Pid::from_child(&export), Signal::TERM).unwrap();
    let status = export.wait().unwrap();
    assert!(status.success(), "{status}");
}

/// What is not logged is not evaluated either; waiting for the end must not be among it.
#[test]
fn no_log_filter_ends_an_export() {
    for filter in ["off", "error", "warn", "info", "debug", "trace", "target=warn"] {
        let export = Export::start_with(&["ram:1M"], &[], |command| {
            command.env("DRYSTONE_LOG", filter);
        });
        thread::sleep(Duration::from_millis(300));
        TcpStream::connect(export.portal()).unwrap_or_else(|error| panic!("{filter}: {error}"));
        export.stop();
    }
}
