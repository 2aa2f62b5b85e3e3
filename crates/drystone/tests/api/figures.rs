//! What is counted is told, after the session that did it has ended, too.

use std::io::{Seek, Write};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::finish;
use crate::common::member::{Home, Member};
use crate::host::Host;
use crate::{ask, fill, make};

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let number = line.unwrap_or_else(|| panic!("{series} is not there:\n{text}"));
    number.parse().unwrap_or_else(|error| panic!("{series}: {number}: {error}"))
}

fn metrics(member: &Member<'_>) -> String {
    ask(member, "GET", "/metrics", None).text()
}

/// How many reads, or writes, there were of sets with data.
fn of_sets(member: &Member<'_>, operation: &str) -> f64 {
    let array = ask(member, "GET", "/v1/array", None).json();
    let raid = array["raid"].as_str().expect("a word");
    let labels = format!("raid=\"{raid}\",operation=\"{operation}\"");
    let text = metrics(member);
    let series = format!("drystone_array_set_latency_seconds_count{{{labels}}}");
    let is_there = text.contains(&series);
    if is_there { value(&text, &series) } else { 0.0 }
}

/// What is as long as a cluster goes to its place at once, and comes from there.
#[test]
fn sets_tell_how_long_they_took() {
    let home = Home::files(4, "256M");
    let member = home.start(&[]);
    make(&member, "a");
    // What is in memory is read from no set.
    let set = ask(&member, "PATCH", "/v1/volumes/a", Some(&json!({"cached": false})));
    assert_eq!(set.status, 200, "{}", set.text());
    // Settings are in sets, too.
    let before = of_sets(&member, "write");
    let mut host = Host::log_in(member.portal(), &member.iqn("a"), 1, &[0]).expect("it is served");
    for written in 1..=4_u8 {
        let write = [0x2a, 0, 0, 0, written, 0, 0, 0, 128, 0];
        assert!(host.run(0, &write, 0, &[written; 65536]).expect("an answer").is_good());
        assert!(of_sets(&member, "write") >= before + f64::from(written));
    }
    let reads = of_sets(&member, "read");
    let read = [0x28, 0, 0, 0, 1, 0, 0, 0, 128, 0];
    let answer = host.run(0, &read, 65536, &[]).expect("an answer");
    assert_eq!((answer.is_good(), answer.data.first()), (true, Some(&1)));
    assert!(of_sets(&member, "read") > reads);
    let text = metrics(&member);
    let blocks =
        |what: &str| value(&text, &format!("drystone_volume_cache_{what}_total{{volume=\"a\"}}"));
    assert_eq!((blocks("hits"), blocks("misses")), (0.0, 16.0));
    drop(host);
    member.stop();
}

/// What Prometheus' own tool has to say about the text.
fn check(text: &str) {
    let mut file = tempfile::tempfile().expect("a temporary file can be made");
    file.write_all(text.as_bytes()).expect("it can be written");
    file.rewind().expect("it can be read from the beginning");
    let output = finish(Command::new("promtool").args(["check", "metrics"]).stdin(file));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{text}");
}

#[test]
fn figures_outlive_the_sessions_that_made_them() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--cores", "2"]);
    make(&member, "a");
    make(&member, "b");
    for round in 1..=2 {
        fill(&member, "a");
        while ask(&member, "GET", "/v1/connections", None).json() != Value::Array(Vec::new()) {
            std::thread::yield_now();
        }
        let text = metrics(&member);
        let of = |name: &str, labels: &str| value(&text, &format!("drystone_{name}{{{labels}}}"));
        let written = f64::from(round * 1024);
        assert_eq!(of("volume_commands_total", "volume=\"a\",direction=\"write\""), written);
        assert_eq!(of("volume_bytes_total", "volume=\"a\",direction=\"write\""), written * 4096.0);
        assert_eq!(of("volume_latency_seconds_count", "volume=\"a\",direction=\"write\""), written);
        let all = "volume=\"a\",direction=\"write\",le=\"+Inf\"";
        assert_eq!(of("volume_latency_seconds_bucket", all), written);
        let few =
            of("volume_latency_seconds_bucket", "volume=\"a\",direction=\"write\",le=\"5e-05\"");
        assert!(few <= written, "{few}");
        assert_eq!(of("volume_errors_total", "volume=\"a\",direction=\"write\""), 0.0);
        assert_eq!(of("volume_commands_total", "volume=\"b\",direction=\"write\""), 0.0);
        let portal = format!("portal=\"{}\"", member.portal());
        assert_eq!(of("portal_written_bytes_total", &portal), written * 4096.0);
        assert_eq!(of("portal_connections", &portal), 0.0);
        let answered = of("portal_latency_seconds_count", &portal);
        assert!(answered >= written && answered <= of("portal_commands_total", &portal));
        let of_cores = ["core=\"0\"", "core=\"1\""];
        let by_cores = of_cores.map(|core| of("core_latency_seconds_count", core));
        assert_eq!(by_cores.iter().sum::<f64>(), answered, "{by_cores:?}");
        // Each write of so little goes to the journal, some of them in one batch.
        let batches = of("array_journal_latency_seconds_count", "operation=\"write\"");
        assert!(batches > 0.0 && batches < written + 1024.0, "{batches}");
        let took = of("array_journal_latency_seconds_sum", "operation=\"write\"");
        assert!(took > 0.0 && took < 3600.0, "{took}");
        let cores = ["core=\"0\"", "core=\"1\""].map(|core| of("core_cpu_seconds_total", core));
        assert!(cores.iter().all(|seconds| *seconds > 0.0), "{cores:?}");
        check(&text);

        let figures = ask(&member, "GET", "/v1/figures", None).json();
        let a = &figures["volumes"][0];
        assert_eq!((&a["volume"], a["waiting"].as_u64()), (&"a".into(), Some(0)), "{a}");
        assert_eq!(a["writes"]["bytes"].as_f64(), Some(written * 4096.0));
        let counts = a["writes"]["latency"]["counts"].as_array().expect("a list");
        let bounds = figures["latency_bounds_us"].as_array().expect("a list");
        assert_eq!(counts.len(), bounds.len() + 1);
        assert_eq!(counts.iter().filter_map(Value::as_f64).sum::<f64>(), written);
    }
    // Offline and online again it counts on.
    for online in [false, true] {
        let change = serde_json::json!({ "online": online });
        assert_eq!(ask(&member, "PATCH", "/v1/volumes/a", Some(&change)).status, 200);
    }
    let series = "drystone_volume_commands_total{volume=\"a\",direction=\"write\"}";
    assert_eq!(value(&metrics(&member), series), 2048.0);
    member.stop();
}

/// What a session has had done is told while it is there, of each by itself.
#[test]
fn sessions_are_told_apart_while_they_are_there() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--cores", "2"]);
    make(&member, "a");
    let change = serde_json::json!({ "shared": true });
    assert_eq!(ask(&member, "PATCH", "/v1/volumes/a", Some(&change)).status, 200);
    let log_in = |number| {
        let host = Host::log_in(member.portal(), &member.iqn("a"), number, &[0]);
        host.expect("it is served")
    };
    let (mut one, mut other) = (log_in(1), log_in(2));
    for (host, writes) in [(&mut one, 3), (&mut other, 5)] {
        for _ in 0..writes {
            let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 8, 0];
            assert!(host.run(0, &write, 0, &[7; 4096]).expect("an answer").is_good());
        }
    }
    let text = metrics(&member);
    check(&text);
    assert_eq!(value(&text, "drystone_sessions"), 2.0);
    assert_eq!(value(&text, "drystone_sessions_without_figures"), 0.0);
    for (isid, writes) in [("800000000001", 3.0), ("800000000002", 5.0)] {
        let start = "drystone_session_bytes_total{volume=\"a\",initiator=\"";
        let end = format!("isid=\"{isid}\",portal=\"{}\",direction=\"write\"}} ", member.portal());
        let line = text.lines().find(|line| line.starts_with(start) && line.contains(&end));
        let line = line.unwrap_or_else(|| panic!("{isid} is not there:\n{text}"));
        assert!(line.ends_with(&format!(" {:?}", writes * 4096.0)), "{line}");
        let labels = &line[line.find('{').expect("labels")..=line.find('}').expect("their end")];
        let of =
            |name: &str, labels: &str| value(&text, &format!("drystone_session_{name}{labels}"));
        assert_eq!(of("latency_seconds_count", labels), writes);
        let all = labels.replace('}', ",le=\"+Inf\"}");
        assert_eq!(of("latency_seconds_bucket", &all), writes);
    }
    drop((one, other));
    while ask(&member, "GET", "/v1/connections", None).json() != Value::Array(Vec::new()) {
        std::thread::yield_now();
    }
    let text = metrics(&member);
    assert!(
        value(&text, "drystone_sessions") == 0.0 && !text.contains("drystone_session_bytes_total{")
    );
    member.stop();
}
