//! Tests of what needs no member.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;

use super::bed::{is_whole, share, volumes_told};
use super::http::{Ask, Reply};
use super::member::is_etcd_at;
use super::rest::{is_b, percent};
use super::sheet::{ALONE, Line};
use super::*;
use crate::cli::{Cli, Command};
use crate::machine::Sample;
use crate::report::Verdict;
use crate::suite::Run;

fn args(line: &str) -> GroupArgs {
    let words = ["drystone-bench", "group"].into_iter().chain(line.split_ascii_whitespace());
    match Cli::try_parse_from(words).unwrap().command {
        Command::Group(args) => args,
        other => panic!("{other:?}"),
    }
}

fn line(work: &'static str, entrant: &str, values: &[f64]) -> Line {
    Line { values: values.to_vec(), ..Line::new(work, entrant, "ms") }
}

#[test]
fn parts_are_chosen_and_a_missing_program_is_refused() {
    let some = args("--parts login,rest --volumes 300");
    assert!(some.has(GroupPart::Login) && some.has(GroupPart::Rest));
    assert!(!some.has(GroupPart::Start) && args("").has(GroupPart::Start));
    let stop = AtomicBool::new(false);
    let error = group_command(&args("--drystone /nonexistent"), &stop).unwrap_err().to_string();
    assert!(error.contains("cargo build --release"), "{error}");
    // A list has a thousand things at most, and its parts need some volumes.
    for line in ["--volumes 1001", "--volumes 149", "--parts cheese", "--rounds 0", "--port 65530"]
    {
        let words = ["drystone-bench", "group"].into_iter().chain(line.split(' '));
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn parts_have_names_of_their_own() {
    let mut keys: Vec<String> = GroupPart::value_variants().iter().map(|part| key(*part)).collect();
    assert_eq!(keys[..3], ["create", "policy", "login"]);
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}

#[test]
fn requests_say_what_they_are_for() {
    let body = json!({"a": 1});
    let bytes = Ask::post("/v1/x", &body).of_it_alone().bytes();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("POST /v1/x HTTP/1.1\r\n"), "{text}");
    for line in ["connection: close", "drystone-member: @here", "content-length: 7"] {
        assert!(text.contains(&format!("\r\n{line}\r\n")), "{text}");
    }
    assert!(text.ends_with("\r\n\r\n{\"a\":1}"), "{text}");
    let text = String::from_utf8(Ask::get("/v1/y").bytes()).unwrap();
    assert!(text.ends_with("\r\n\r\n") && !text.contains("drystone-member"), "{text}");
}

#[test]
fn answers_are_read_whole_or_not_at_all() {
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nDrystone-Member: a\r\n\r\n[1]";
    let reply = Reply::parse(plain.as_bytes()).unwrap();
    assert_eq!((reply.status, reply.header("drystone-member")), (200, Some("a")));
    assert_eq!((reply.count().unwrap(), reply.json().unwrap()), (1, json!([1])));
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunks = "2\r\n[1\r\n4;x=y\r\n, 2]\r\n0\r\n\r\n";
    let reply = Reply::parse(format!("{head}{chunks}").as_bytes()).unwrap();
    assert_eq!(reply.json().unwrap(), json!([1, 2]));
    for broken in [
        String::new(),
        "HTTP/1.1 200 OK\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        plain[..plain.len() - 1].to_owned(),
        format!("{head}2\r\n[1\r\n4\r\n, "),
        format!("{head}2\r\n[1\r\n"),
        format!("{head}ffffffffffffffff\r\n[1\r\n0\r\n\r\n"),
        format!("{head}x\r\n"),
    ] {
        assert!(Reply::parse(broken.as_bytes()).is_err(), "{broken:?}");
    }
}

#[test]
fn nobody_at_a_socket_is_told_with_what_was_asked() {
    let error = Ask::get("/v1/group").of(Path::new("/nonexistent/socket")).unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("GET /v1/group at /nonexistent/socket: nobody listens"), "{text}");
}

#[test]
fn an_etcd_is_known_by_where_its_data_is() {
    let data = Path::new("/s/b/data");
    for line in [
        "/usr/bin/etcd\0--data-dir=/s/b/data/group/etcd/data\0",
        "setpriv\0--pdeathsig\0TERM\0--\0etcd\0--data-dir=/s/b/data/group/etcd/data\0",
    ] {
        assert!(is_etcd_at(line, data), "{line:?}");
    }
    for line in [
        "",
        "/usr/bin/etcd\0--data-dir=/s/b/data2/group/etcd/data\0",
        "/usr/bin/drystone\0up\0--data\0/s/b/data/\0",
    ] {
        assert!(!is_etcd_at(line, data), "{line:?}");
    }
}

#[test]
fn volumes_are_shared_out_to_the_last_one() {
    let shares = |things| [0, 1, 2].map(|index| share(things, 3, index));
    assert_eq!(shares(1000), [334, 333, 333]);
    assert_eq!(shares(152), [51, 51, 50]);
}

#[test]
fn a_group_is_whole_when_all_are_there_with_room_and_its_settings() {
    let member = |name: &str, pool: &str| {
        json!({"name": name, "pool": pool, "state": "present", "shares": true,
               "free_bytes": 1_u64 << 30, "volumes": 2})
    };
    let all = json!([member("a", "near"), member("b", "far"), member("c", "default")]);
    assert!(is_whole(&all));
    assert_eq!(volumes_told(&all), Some(6));
    assert!(is_b(&all, "present") && !is_b(&all, "away"));
    for (key, value) in [
        ("pool", json!("default")),
        ("state", json!("joining")),
        ("shares", json!(null)),
        ("free_bytes", json!(0)),
    ] {
        let mut other = all.clone();
        other[1][key] = value;
        assert!(!is_whole(&other), "{other}");
    }
    assert!(!is_whole(&json!([member("a", "near"), member("b", "far")])));
    assert!(!is_whole(&json!(null)) && volumes_told(&json!([{}])).is_none());
}

#[test]
fn percentiles_are_values_that_were_found() {
    let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
    let of = |values: &[f64]| line("work", "x", values);
    assert_eq!((of(&hundred).p99(), of(&hundred).most()), (Some(99.0), Some(100.0)));
    assert_eq!((of(&[3.0, 9.0, 1.0]).p99(), of(&[3.0, 9.0, 1.0]).median()), (Some(9.0), Some(3.0)));
    assert_eq!((of(&[]).p99(), of(&[]).median(), of(&[]).most()), (None, None, None));
}

#[test]
fn processor_time_is_a_share_of_the_time_between() {
    let now = Instant::now();
    let at = |seconds, cpu| Sample {
        at: now + Duration::from_secs(seconds),
        cpu: Duration::from_millis(cpu),
        memory_bytes: 0,
    };
    assert!((percent(&at(0, 100), &at(10, 150)) - 0.5).abs() < 1e-9);
    assert!(percent(&at(0, 100), &at(10, 90)).abs() < 1e-9);
}

#[test]
fn reads_in_a_group_may_be_a_tenth_slower() {
    let run = |iops| Run { iops, latency_us_p50: Some(10.0), ..Run::default() };
    let verdict = |in_group: &[f64], in_none: &[f64]| {
        let mut part = Part::new("reads", "Reads");
        let runs = [in_group, in_none].map(|all| all.iter().map(|iops| run(*iops)).collect());
        part.lines = hosts::lines(&["in the group", ALONE], &runs);
        hosts::judge(&mut part);
        part.marks[0].verdict
    };
    assert_eq!(verdict(&[91.0, 1.0, 92.0], &[100.0, 100.0, 900.0]), Verdict::Met);
    assert_eq!(verdict(&[90.0], &[100.0]), Verdict::Missed);
    assert_eq!(verdict(&[], &[100.0]), Verdict::Unknown);
}

#[test]
fn the_sheet_tells_all_of_it() {
    let mut part = Part::new("list", "A question");
    part.note("Three members.");
    part.lines = vec![
        line("all", "of three", &[30.0, 10.0, 20.0]),
        line("all", ALONE, &[10.0, 10.0, 10.0]),
        line("other", "of three", &[0.05]),
    ];
    part.at_most("the list", part.median("all", "of three"), 20.0, "ms");
    part.at_most("the other list", None, 20.0, "ms");
    let mut lost = Part::new("rest", "Another");
    lost.trouble = Some("no such etcd".to_owned());
    let mut sheet = Sheet::new(Facts::gather("not set"), "Method.".to_owned());
    sheet.parts = vec![part, lost];
    assert!(!sheet.all_met(), "a part is missing");
    let text = sheet.markdown();
    for piece in [
        "## A question",
        "- Three members.",
        "| all | of three | ms | 20.0 | 30.0 | 3 | 2.00 |",
        "| all | in no group | ms | 10.0 | 10.0 | 3 | - |",
        "| other | of three | ms | 0.050 | 0.050 | 1 | - |",
        "| the list: at most 20 ms | 20.00 ms | met |",
        "| the other list: at most 20 ms | the report has no such runs | not run |",
        "**Not measured: no such etcd**",
    ] {
        assert!(text.contains(piece), "{piece}\n{text}");
    }
    assert!(sheet.marks_text().contains("not run   rest: no such etcd"));
    let directory = std::env::temp_dir().join(format!("drystone-group-{}", std::process::id()));
    sheet.write(&directory).unwrap();
    let json = std::fs::read_to_string(directory.join("group.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["parts"][0]["lines"][0]["to_no_group"], 2.0);
    assert_eq!(json["parts"][1]["trouble"], "no such etcd");
    std::fs::remove_dir_all(&directory).unwrap();
}
