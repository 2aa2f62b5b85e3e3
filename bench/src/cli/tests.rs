//! Tests of the command line.

use clap::CommandFactory;

use super::*;

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn sizes_have_units() {
    for (text, bytes) in
        [("512", 512), ("4k", 4096), ("64K", 65_536), ("256m", 256 << 20), ("1G", 1 << 30)]
    {
        assert_eq!(parse_bytes(text), Ok(bytes));
    }
    for text in ["", "k", "4x", "-1", "99999999999t", "4 k", "1.5g"] {
        assert!(parse_bytes(text).is_err(), "{text}");
    }
}

#[test]
fn a_load_line_becomes_its_plan() {
    let line = "drystone-bench load iscsi://h:1/iqn.x:y/2 --read 67 --bs 8k --depth 7 --sessions 3 \
                --seconds 1.5 --order sequential";
    let cli = Cli::try_parse_from(line.split_ascii_whitespace()).unwrap();
    let Command::Load(args) = cli.command else { panic!("not a load") };
    let plan = args.work.plan(true).unwrap();
    assert_eq!((plan.read_percent, plan.io_bytes, plan.depth, plan.sessions), (67, 8192, 7, 3));
    assert_eq!(plan.order, Order::Sequential);
    assert!(plan.verify);
    assert_eq!(args.route().url.to_string(), "iscsi://h:1/iqn.x:y/2");
}

#[test]
fn nonsense_is_refused() {
    for line in [
        "load",
        "load http://x",
        "load iscsi://h/i/0 --read 101",
        "load iscsi://h/i/0 --seconds -1",
        "compare --external x",
    ] {
        let words = std::iter::once("drystone-bench").chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
    let words = ["drystone-bench", "load", "iscsi://h/i/0", "--bs", "32m"];
    let Command::Load(args) = Cli::try_parse_from(words).unwrap().command else { panic!() };
    assert!(args.work.plan(false).is_err());
}
