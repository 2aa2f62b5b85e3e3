use super::*;
use crate::cli::{Cli, Command};
use crate::serve::plan::Plan;
use clap::Parser;

fn planned(options: &[&str], variables: &[(&str, &str)]) -> Result<Plan, String> {
    let args = [&["drystone", "export"], options].concat();
    let Command::Export(args) = Cli::try_parse_from(args).expect("must read").command else {
        panic!("not an export");
    };
    check_specs(&args.specs).map_err(|error| error.to_string())?;
    Plan::of(&args.serve, |name| {
        variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
    })
    .map_err(|error| error.to_string())
}

const ALICE: &str = "alice:alices-secret";
const SERVER: &str = "server:servers-secret";

#[test]
fn secrets_come_from_options_or_the_environment() {
    let plan = planned(&["ram:1M", "--chap", ALICE, "--mutual-chap", SERVER], &[]).unwrap();
    assert_eq!(plan.chap.unwrap().user, "alice");
    assert_eq!(plan.mutual.unwrap().user, "server");
    let variables = [("DRYSTONE_CHAP", ALICE), ("DRYSTONE_MUTUAL_CHAP", SERVER)];
    let plan = planned(&["ram:1M"], &variables).unwrap();
    assert_eq!(plan.chap.unwrap().secret, "alices-secret");
    assert_eq!(plan.mutual.unwrap().secret, "servers-secret");
    let plan = planned(&["ram:1M"], &[("DRYSTONE_CHAP", "")]).unwrap();
    assert!(plan.chap.is_none(), "an empty variable counts as not set");
}

#[test]
fn what_does_not_go_together_is_refused_in_one_sentence() {
    let cases: &[(&[&str], &str)] = &[
        (
            &["ram:1M", "--mutual-chap", SERVER],
            "mutual CHAP needs CHAP: write --chap USER:SECRET beside --mutual-chap",
        ),
        (
            &["ram:1M", "--chap", ALICE, "--mutual-chap", "server:alices-secret"],
            "CHAP and mutual CHAP have the same secret: write a different one for --mutual-chap",
        ),
        (
            &["ram:1M", "--portal", "127.0.0.1", "--portal", "127.0.0.1:3260"],
            "the portal 127.0.0.1:3260 is given twice: write it once",
        ),
        (
            &["file:/srv/a", "ram:1M", "file:/srv/a:1G"],
            "'/srv/a' is given twice: write it once, each LUN needs a disk of its own",
        ),
        (
            &["ram:1M,serial=A", "ram:2M,serial=A"],
            "the serial number 'A' is given twice: write a different one for each disk",
        ),
        (&["ram:1M"; 257], "257 disks are too many for one target: write at most 256"),
    ];
    for (options, sentence) in cases {
        assert_eq!(planned(options, &[]).unwrap_err(), *sentence);
    }
}

#[test]
fn what_may_repeat_is_taken() {
    for options in [
        vec!["ram:1M", "ram:1M", "null:1M"],
        vec!["ram:1M", "--portal", "127.0.0.1:0", "--portal", "127.0.0.1:0"],
        vec!["ram:1M,serial=A", "ram:1M,serial=a"],
        vec!["ram:1M"; 256],
    ] {
        planned(&options, &[]).unwrap();
    }
}
