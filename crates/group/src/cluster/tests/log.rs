//! What an etcd says.

use std::fs;

use crate::cluster::log::{FILE_BYTES_MAX, Log, follow};

/// The reason that these lines tell, when it ended with no signal.
fn why(lines: &str) -> String {
    follow(lines.as_bytes(), None).why(None)
}

#[test]
fn two_files_hold_the_newest_and_do_not_grow() {
    let dir = tempfile::tempdir().expect("there is room");
    let path = dir.path().join("etcd.log");
    let line = |number: u32| format!("{number:06} {}\n", "x".repeat(1_000));
    for half in 0..2 {
        // Each half is another life of the process.
        let said: String = (0..2_000).map(|number| line(half * 2_000 + number)).collect();
        let log = Log::open(path.clone()).expect("there is room");
        follow(said.as_bytes(), Some(log));
    }
    let read = |path| fs::read_to_string(path).expect("it is there");
    let (former, newest) = (read(Log::former(&path)), read(path.clone()));
    for file in [&former, &newest] {
        assert!(file.len() as u64 <= FILE_BYTES_MAX, "{}", file.len());
    }
    let kept = former + &newest;
    assert!(kept.len() as u64 > FILE_BYTES_MAX, "{}", kept.len());
    let numbers: Vec<u32> =
        kept.lines().map(|line| line[..6].parse().expect("it begins with a number")).collect();
    assert_eq!(numbers.last(), Some(&3_999));
    assert!(numbers.is_sorted_by(|before, after| before + 1 == *after), "nothing is left out");
    assert_eq!(fs::read_dir(dir.path()).expect("it is there").count(), 2);
}

#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    let dir = tempfile::tempdir().expect("there is room");
    let log = Log::open(dir.path().join("etcd.log")).expect("there is room");
    // The file can be neither renamed nor made again.
    dir.close().expect("it is ours");
    let said = format!("{}\n{}\n", "x".repeat(1_000).repeat(2_000), FATAL);
    assert!(follow(said.as_bytes(), Some(log)).why(None).contains("192.0.2.1:3264"));
}

/// As etcd 3.4.23 says it.
const FATAL: &str = concat!(
    r#"{"level":"fatal","ts":"2026-11-28T22:34:15.517Z","caller":"etcdmain/etcd.go:271","msg":"discovery failed","#,
    r#""error":"listen tcp 192.0.2.1:3264: bind: address already in use","stacktrace":"main.main"}"#
);

#[test]
fn reasons_are_sentences() {
    let warning = r#"{"level":"warn","msg":"it is slow"}"#;
    let fatal = |error: &str| format!(r#"{{"level":"fatal","msg":"failed","error":"{error}"}}"#);
    let expected = [
        (
            format!("{warning}\n{FATAL}\n"),
            "etcd cannot listen at 192.0.2.1:3264: another program does",
        ),
        (
            fatal("listen tcp [2001:db8::1]:3264: bind: cannot assign requested address"),
            "etcd cannot listen at [2001:db8::1]:3264: this server does not have the address",
        ),
        (
            fatal("error validating peerURLs {}: member count is unequal"),
            "etcd was told of other members than its cluster has: they have changed meanwhile",
        ),
        (
            fatal(
                "cannot fetch cluster info from peer urls: could not retrieve cluster information from the given URLs",
            ),
            "etcd reaches none of the other members of its cluster",
        ),
        (
            fatal("open m.pem: no such file or directory"),
            "etcd ended: open m.pem: no such file or directory",
        ),
        (
            "flag provided but not defined: -x\nUsage:\n".into(),
            "etcd ended: flag provided but not defined: -x",
        ),
        (warning.into(), "etcd ended: it is slow"),
        (String::new(), "etcd ended, and did not say why"),
    ];
    for (said, sentence) in expected {
        assert_eq!(why(&said), sentence, "{said}");
    }
}

#[test]
fn only_its_own_removal_is_one() {
    // As etcd 3.4.23 says it: of itself, and in passing of a connection.
    let error = "the member has been permanently removed from the cluster";
    let own = format!(r#"{{"level":"warn","msg":"server error","error":"{error}"}}"#);
    let passing = format!(
        r#"{{"level":"warn","msg":"peer became inactive","error":"failed to dial b9 ({error})"}}"#
    );
    assert!(follow(format!("{passing}\n{own}\n").as_bytes(), None).is_removed);
    assert!(!follow(passing.as_bytes(), None).is_removed);
}
