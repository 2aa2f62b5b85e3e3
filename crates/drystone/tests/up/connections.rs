//! `drystone connections`.

use crate::common::member::Home;
use crate::host::Host;
use crate::{block, log_in, read, write};
use serde_json::Value;

fn numbers(connection: &Value) -> [u64; 4] {
    ["commands", "read_bytes", "written_bytes", "waiting"]
        .map(|key| connection[key].as_u64().unwrap_or_else(|| panic!("{key}: {connection}")))
}

#[test]
fn who_is_connected_is_told_with_what_went_over_it() {
    let home = Home::files(4, "256M");
    let member = home.start(&["--cores", "2"]);
    for name in ["db", "logs"] {
        member.run(&["volume", "create", name, "64M"]);
    }
    assert_eq!(member.run(&["connections"]), "no host is connected\n");
    assert_eq!(member.json(&["connections"]), serde_json::json!([]));
    // On both cores, wherever they are put.
    let mut hosts: Vec<Host> = (1..=3)
        .map(|n| Host::log_in(member.portal(), &member.iqn("db"), n, &[0]).expect("it is served"))
        .collect();
    let mut other = log_in(&member, "logs");
    write(&mut other, 0, &block(1));
    let of_db = |words: &[&str]| {
        let shown = member.json(&[&["connections", "--volume", "db"], words].concat());
        shown.as_array().expect("a list").clone()
    };
    let before = of_db(&[]);
    assert_eq!(before.len(), 3, "one each: {before:?}");
    for (at, host) in hosts.iter_mut().enumerate() {
        for number in 0..=at as u32 {
            write(host, number, &block(number as u8));
        }
        assert!(read(host, 0) == block(0));
    }
    let now = of_db(&[]);
    let mut done: Vec<[u64; 4]> = Vec::new();
    for (before, now) in before.iter().zip(&now) {
        assert_eq!((&now["volume"], &now["host"]), (&"db".into(), &before["host"]));
        assert_eq!(now["portal"], member.portal().to_string());
        assert!(now["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{now}");
        assert!(now["chap_user"].is_null() && now["snapshot"].is_null(), "{now}");
        let answered = now["latency"]["counts"].as_array().expect("a list");
        let answered: u64 = answered.iter().filter_map(Value::as_u64).sum();
        assert_eq!(Some(answered), now["commands"].as_u64(), "all have been answered: {now}");
        let (before, now) = (numbers(before), numbers(now));
        done.push([0, 1, 2, 3].map(|at| now[at] - before[at]));
    }
    done.sort_unstable();
    let wanted = [1, 2, 3].map(|writes| [writes + 1, 4096, writes * 4096, 0]);
    assert_eq!(done, wanted, "commands, bytes read, bytes written, waiting");

    let host = now[0]["address"].as_str().unwrap();
    assert_eq!(of_db(&["--host", host]).len(), 1);
    assert_eq!(of_db(&["--host", "10.9.8.7"]).len(), 0);
    assert!(now[0]["latency_mean_us"].is_null(), "nothing came while it was looked: {}", now[0]);
    let table = member.run(&["connections", "--volume", "logs"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].starts_with("VOLUME") && lines[1].starts_with("logs"),
        "{table}"
    );
    let refusal = member.refused(&["connections", "--volume", "nothing"]);
    assert!(refusal.contains("there is no volume 'nothing'"), "{refusal}");
    drop((hosts, other));
    while !member.json(&["connections"]).as_array().unwrap().is_empty() {
        std::thread::yield_now();
    }
    member.stop();
}
