use super::*;
use crate::cli::refusal::sentence;
use clap::CommandFactory;
use clap::error::ErrorKind;

fn refused(args: &[&str]) -> String {
    let args = [&["drystone"], args].concat();
    sentence(&Cli::try_parse_from(&args).expect_err("must be refused"))
}

fn exported(args: &[&str]) -> export::ExportArgs {
    let args = [&["drystone", "export"], args].concat();
    match Cli::try_parse_from(&args).expect("must be taken").command {
        Command::Export(args) => *args,
        other => panic!("not an export: {other:?}"),
    }
}

#[test]
fn the_definitions_hold_together() {
    Cli::command().debug_assert();
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let args = exported(&["ram:1G"]);
    assert_eq!(args.serve.portals, ["127.0.0.1:3260".parse().unwrap()]);
    assert_eq!(args.iqn, "iqn.2026-11.dev.drystone:export");
    assert_eq!((args.serve.cores, args.serve.policy), (None, serve::Policy::Balanced));
    assert_eq!(args.serve.congestion, "cubic");
    let serve = args.serve;
    assert!(serve.chap.is_none() && serve.mutual_chap.is_none() && serve.allow.is_empty());
}

#[test]
fn options_repeat_and_stand_anywhere() {
    let args = exported(&[
        "--portal",
        "127.0.0.1:0",
        "ram:1G",
        "--allow",
        "192.0.2.0/24",
        "--portal=[::1]:0",
        "null:1T",
        "--allow",
        "iqn.1993-08.org.debian:01:a",
        "--policy",
        "efficient",
    ]);
    assert_eq!(args.specs.len(), 2);
    assert_eq!(args.serve.portals.len(), 2);
    assert_eq!(args.serve.allow.len(), 2);
    assert_eq!(args.serve.policy, serve::Policy::Efficient);
}

#[test]
fn a_member_joins_with_its_ticket_and_the_ports_of_members() {
    let line = ["drystone", "member", "join", "192.0.2.10", "--token", "hush", "--listen", "[::1]"];
    let Command::Member(args) = Cli::try_parse_from(line).expect("must be taken").command else {
        panic!("not about a member");
    };
    let crate::cli::member::MemberCommand::Join(join) = args.command else {
        panic!("it does not join")
    };
    assert_eq!(join.group, "192.0.2.10:3262");
    assert_eq!(join.place.listen, "[::1]:3262".parse().unwrap());
    assert_eq!((join.place.member.as_deref(), join.token.0.as_str()), (None, "hush"));
    assert!(!format!("{join:?}").contains("hush"), "{join:?}");
}

/// What is written, and what is said about it.
const REFUSALS: &[(&[&str], &str)] = &[
    (
        &[],
        "a command is missing: write for example 'drystone export ram:1G', or see drystone --help",
    ),
    (&["exprot", "ram:1G"], "there is no command 'exprot': write 'export'"),
    (&["zzz"], "there is no command 'zzz': drystone --help lists them all"),
    (
        &["export"],
        "a disk to export is missing: write ram:SIZE, null:SIZE, file:PATH[:SIZE], disk:PATH or sim:DRIVE[:SIZE], such as ram:1G",
    ),
    (
        &["export", "ram:1G", "--prtal", "127.0.0.1"],
        "there is no option '--prtal': write '--portal'",
    ),
    (&["export", "ram:1G", "-x"], "there is no option '-x': --help lists them all"),
    (&["export", "ram:1G", "--portal"], "--portal <ADDR:PORT> needs a value: write one behind it"),
    (
        &["export", "ram:1G", "--portal", "localhost"],
        "'localhost' is not a portal: write ADDRESS:PORT with an IP address, such as 192.0.2.10:3260 or [2001:db8::10]:3260",
    ),
    (
        &["export", "ram:1G", "--iqn", "disk1"],
        "'disk1' is not an iSCSI name: write iqn.YYYY-MM.REVERSED-DOMAIN[:TEXT], such as iqn.2026-11.com.example:disk1",
    ),
    (
        &[
            "export",
            "ram:1G",
            "--iqn",
            "iqn.2026-11.com.example",
            "--iqn",
            "iqn.2026-11.com.example",
        ],
        "--iqn <IQN> is given twice: write it once",
    ),
    (&["export", "ram:1G", "--cores", "0"], "'0' is not a number of cores: write 1 to 256"),
    (
        &["export", "ram:1G", "--policy", "fast"],
        "'fast' is not a value of --policy <POLICY>: write one of latency, balanced, efficient",
    ),
    (
        &["export", "ram:1G", "--policy"],
        "--policy <POLICY> needs a value: write one of latency, balanced, efficient",
    ),
    (
        &["export", "ram:1G", "--congestion", "a b"],
        "'a b' is not a TCP congestion control: write cubic, another that the kernel has, or system",
    ),
    (
        &["export", "ram:1G", "--alias", ""],
        "the alias must be a line of text: write 1 to 255 bytes without control characters",
    ),
    (
        &["export", "ram:1G", "--chap", "alice:sixteen-bytes-ok", "--chap-file", "/x"],
        "--chap <USER:SECRET> cannot be used together with --chap-file <PATH>: write only one of them",
    ),
    (
        &["completions", "tcsh"],
        "'tcsh' is not a value of <SHELL>: write one of bash, elvish, fish, powershell, zsh",
    ),
    (&["export", "ram:1G", "--hints=yes"], "--hints takes no value: write it alone"),
    (&["attach"], "a volume to attach is missing: write iscsi://HOST[:PORT]/IQN[/LUN]"),
    (
        &["notify", "set", "ops", "--secret-file", "f"],
        "--webhook <URL> is missing: write it, or see --help",
    ),
    (
        &["attach", "iscsi://h/iqn.2026-11.com.example:a"],
        "a place for the disk is missing: write --nbd unix:PATH, --nbd ADDRESS:PORT, --fuse DIR or --ublk",
    ),
    (
        &["attach", "iscsi://h/iqn.2026-11.com.example:a", "--nbd", "/run/a.sock"],
        "'/run/a.sock' is not an address for NBD: write unix:PATH or ADDRESS:PORT, such as unix:/run/a.sock or 127.0.0.1:10809",
    ),
    (
        &["attach", "iscsi://h/iqn.2026-11.com.example:a", "--nbd", "unix:/x", "--fuse", "/y"],
        "--nbd <unix:PATH|ADDR:PORT> cannot be used together with --fuse <DIR>: write only one of them",
    ),
    (&["detach"], "<WHICH> is missing: write it, or see --help"),
    (&["volume", "create", "a"], "<SIZE> is missing: write it, or see --help"),
    (
        &["volume", "settle", "a"],
        "what becomes of the volume is missing: write --keep or --discard",
    ),
    (
        &["volume", "settle", "a", "--keep", "--discard"],
        "--keep cannot be used together with --discard: write only one of them",
    ),
    (&["volume", "settle", "--keep"], "<NAME> is missing: write it, or see --help"),
    (
        &["volume", "create", "a", "10GB"],
        "'10GB' could mean two sizes: write 10G or 10GiB, which count in 1024s",
    ),
    (
        &["volume", "create", "a", "10G", "--raid", "7"],
        "\"7\" is no RAID level: take one of raid0, raid1, raid10, raid5, raid6, raid50",
    ),
    (
        &["volume", "create", "a", "10G", "--block", "1024"],
        "'1024' is not a block size: write 512 or 4096",
    ),
    (
        &["up", "--disk", "null:1G"],
        "'null:1G' keeps nothing, so it cannot be a disk of an array: write PATH[:SIZE] or ram:SIZE",
    ),
    (&["group", "create", "san1"], "--listen <ADDR[:PORT]> is missing: write it, or see --help"),
    (
        &["group", "create", "san1", "--listen", "san1.example.com"],
        "'san1.example.com' is no address of a member: write ADDRESS[:PORT] with an IP address, such as 192.0.2.10 or [2001:db8::10]:3262",
    ),
    (
        &["group", "create", "san1", "--listen", "0.0.0.0"],
        "other members cannot come to '0.0.0.0': write one address of this machine that they reach ('ip address' shows them)",
    ),
    (
        &["group", "token", "--expires", "soon"],
        "'soon' is no time: write a number and s, m, h or d, such as 90d",
    ),
    (
        &["group", "token", "--list", "--revoke", "00c0ffee"],
        "--list cannot be used together with --revoke <ID>: write only one of them",
    ),
    (
        &["group", "token", "--expires", "1h", "--list"],
        "--expires <TIME> cannot be used together with --list: write only one of them",
    ),
    (
        &["member", "join", "192.0.2.10", "--listen", "192.0.2.11"],
        "--token <TICKET> is missing: write it, or see --help",
    ),
    (&["member", "remove"], "<NAME> is missing: write it, or see --help"),
    (&["completions"], "<SHELL> is missing: write it, or see --help"),
    (&["man", "export", "more"], "'more' is one argument too many: leave it out"),
];

#[test]
fn each_refusal_is_one_sentence_that_says_what_to_write() {
    for (args, wanted) in REFUSALS {
        assert_eq!(refused(args), *wanted, "{args:?}");
    }
}

#[test]
fn no_refusal_repeats_a_secret() {
    let cases: &[&[&str]] = &[
        &["export", "ram:1G", "--chap", "hush"],
        &["export", "ram:1G", "--chap", "alice:hush"],
        &["export", "ram:1G", "--mutual-chap=alice:hush"],
        &["export", "ram:1G", "--chapp=alice:hush-hush-hush"],
        &["export", "ram:1G", "--chap=alice:hush-hush-hush", "--chap=alice:hush-hush-hush"],
        &["export", "ram:1G", "--chap", "alice:hush-hush-hush", "--chap-file", "/x"],
        &["export", "--chap", "alice:hush-hush-hush"],
        &["export", "ram:1G", "--hints=hush"],
        &["attach", "iscsi://alice%hush-hush-hush@h/x", "--nbd", "unix:/x"],
        &["attach", "iscsi://h/iqn.2026-11.com.example:a", "--nbd", "unix:/x", "--chap", "hush"],
        &["member", "join", "192.0.2.10", "--token", "hush"],
        &["member", "join", "192.0.2.10", "--token", "hush", "--token", "hush"],
        &["member", "join", "192.0.2.10", "--listen", "192.0.2.11", "--tokem=hush"],
    ];
    for args in cases {
        let said = refused(args);
        assert!(!said.contains("hush"), "{args:?}: {said}");
    }
}

/// The words of every command behind `drystone`, none for itself.
fn paths(command: &clap::Command, before: &[String]) -> Vec<Vec<String>> {
    let below = command
        .get_subcommands()
        .flat_map(|command| paths(command, &[before, &[command.get_name().to_owned()]].concat()));
    std::iter::once(before.to_vec()).chain(below).collect()
}

#[test]
fn help_of_every_command_has_examples() {
    let mut count = 0;
    for path in paths(&Cli::command(), &[]) {
        let args = ["drystone".to_owned()].into_iter().chain(path).chain(["--help".to_owned()]);
        let args: Vec<_> = args.collect();
        let error = Cli::try_parse_from(&args).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        assert!(error.to_string().contains("Examples:\n"), "{args:?}");
        count += 1;
    }
    assert!(count > 30, "{count}");
}

#[test]
fn every_option_says_what_it_is_for() {
    let mut root = Cli::command();
    root.build();
    for path in paths(&root, &[]) {
        let find = |command: &clap::Command, name: &String| command.find_subcommand(name).cloned();
        let command = path.iter().try_fold(root.clone(), |command, name| find(&command, name));
        let command = command.unwrap();
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} of {} has no help",
                argument.get_id(),
                command.get_name()
            );
        }
    }
}
