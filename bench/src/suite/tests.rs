//! Tests of the side-by-side that need no target.

use clap::Parser;

use super::clients::{iscsi_perf_iops, qemu_seconds};
use super::results::median;
use super::*;
use crate::cli::{Cli, Command};

fn compare_args(line: &str) -> Box<CompareArgs> {
    let words = ["drystone-bench", "compare"].into_iter().chain(line.split_ascii_whitespace());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Compare(args) => args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn outputs_of_other_clients_are_understood() {
    let perf = "\r00:00:01 - lba 44129, iops current 42628 (166 MB/s), iops average 42628 \
                (166 MB/s), in_flight 32, busy 0\riops average 43010 (168 MB/s)      \n\nfinished.\n";
    assert_eq!(iscsi_perf_iops(perf), Some(43010.0));
    assert_eq!(iscsi_perf_iops("connect failed"), None);
    let qemu = "Sending 50000 read requests\nRun completed in 1.114 seconds.\n";
    assert_eq!(qemu_seconds(qemu), Some(1.114));
    assert_eq!(qemu_seconds("qemu-img: Could not open"), None);
}

#[test]
fn medians_are_in_the_middle() {
    assert_eq!(median([]), None);
    assert_eq!(median([3.0]), Some(3.0));
    assert_eq!(median([9.0, 1.0, 3.0]), Some(3.0));
    assert_eq!(median([4.0, 1.0, 3.0, 100.0]), Some(3.5));
}

#[test]
fn limits_follow_the_cores() {
    assert_eq!(Limit::of(0.95, 0.5), Limit::Client);
    assert_eq!(Limit::of(0.5, 0.9), Limit::Target);
    assert_eq!(Limit::of(0.9, 0.9), Limit::Both);
    assert_eq!(Limit::of(0.89, 0.0), Limit::Neither);
}

#[test]
fn rows_have_different_keys_and_fit_their_disk() {
    let mut keys: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), ROWS.len());
    let fair = |key: &str| {
        let row = ROWS.iter().find(|row| row.key == key).unwrap();
        let plan = row.plan(1 << 30, std::time::Duration::ZERO, std::time::Duration::ZERO);
        plan.depth * plan.sessions
    };
    assert_eq!(fair("fair-1"), fair("fair-45"));
}

#[test]
fn settings_come_from_the_command_line() {
    let full = Settings::new(&compare_args("")).unwrap();
    assert_eq!((full.rounds, full.disk_bytes, full.rows.len()), (3, 1 << 30, ROWS.len()));
    assert!(full.everything);
    let quick = Settings::new(&compare_args("--quick --rows 4k-write,fair")).unwrap();
    assert_eq!((quick.rounds, quick.rows.len()), (1, 4));
    assert!(!quick.everything);
    assert!(quick.seconds_max(6) < full.seconds_max(6) / 6.0);
    assert!(full.seconds_max(6) < 30.0 * 60.0);
    assert!(Settings::new(&compare_args("--rows nothing-like-it")).is_err());
    assert!(Settings::new(&compare_args("--size 1m")).is_err());
}

#[test]
fn targets_can_be_chosen_by_name() {
    let names = |line: &str| -> Result<Vec<String>> {
        Ok(adapters(&compare_args(line))?.iter().map(|one| one.name().to_owned()).collect())
    };
    assert_eq!(names("").unwrap(), ["plain", "ours-ram", "ours-file", "ours-null", "tgt", "istgt"]);
    assert_eq!(names("--targets plain,tgt").unwrap(), ["plain", "tgt"]);
    let with = "--targets tgt --external x=iscsi://h/i/0,pid=1";
    assert_eq!(names(with).unwrap(), ["tgt", "x"]);
    let error = names("--targets lio").unwrap_err().to_string();
    assert!(error.contains("there are plain"), "{error}");
}

#[test]
fn scratch_space_is_gone_at_the_end() {
    let root = std::env::temp_dir().join(format!("drystone-bench-su-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    let scratch = Scratch::new(&root).unwrap();
    assert!(scratch.directory("plain").unwrap().is_dir());
    drop(scratch);
    assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0);
    std::fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_scratch_that_is_cleared_can_be_used_again() {
    let parent = std::env::temp_dir().join(format!("drystone-scratch-{}", std::process::id()));
    let scratch = Scratch::new(&parent).unwrap();
    let file = scratch.directory("one").unwrap().join("disk");
    std::fs::write(&file, "data").unwrap();
    scratch.clear().unwrap();
    assert!(!file.exists());
    std::fs::write(scratch.directory("one").unwrap().join("other"), "data").unwrap();
    drop(scratch);
    assert_eq!(std::fs::read_dir(&parent).unwrap().count(), 0);
    std::fs::remove_dir_all(&parent).unwrap();
}
