//! The examples of docs/api.md do what the page says.

use crate::common::member::Home;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The commands of a page, in their order.
fn commands(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().expect("a block ends")).collect()
}

#[test]
fn the_examples_of_the_page_work() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let page = fs::read_to_string(path).expect("the page is there");
    let home = Home::files(3, "256M");
    let member = home.start(&["--api-listen=127.0.0.1:0"]);
    let listens = member.lines.iter().find_map(|line| line.strip_prefix("api address="));
    let address = listens.and_then(|rest| rest.split(' ').next()).expect("it listens");
    let server = format!("https://{address}");
    let all = commands(&page);
    assert!(all.len() >= 8, "{}", all.len());
    let mut said = String::new();
    for command in all {
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", command]).env("SOCKET", home.socket());
        shell.env("SERVER", &server).env("CERTIFICATE", home.path("data/api-certificate.pem"));
        let output = shell.stdin(Stdio::null()).output().expect("there is bash");
        let (out, err) = (&output.stdout, &output.stderr);
        let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
        assert!(output.status.success() && err.is_empty(), "{command}\n{out}\n{err}");
        said.push_str(&out);
    }
    for told in [
        "\"certificate_sha256\":\"",
        "\"role\":\"read-only\",\"disabled\":false",
        "\"size_bytes\":134217728",
        "\"entries\":[{\"number\":2,\"record\":{\"iqn\":\"iqn.1993-08.org.debian:01:web\",\"for\":\"both\"}}]",
        "\"origin\":\"db@before-upgrade\"",
        "\"detail\":\"there is no volume 'nothing': see 'drystone volume list'\"",
        "\"scrub_days\":7",
        "event: done\ndata: {\"id\":",
        "\"kind\":\"member_started\"",
        "event: event\ndata: {\"number\":1,",
        "\"operation\":\"POST /v1/volumes\"",
        "drystone_volume_size_bytes{volume=\"db\"} 134217728",
    ] {
        assert!(said.contains(told), "{told}\n{said}");
    }
    let nightly = said.matches("\"name\":\"nightly\"").count();
    assert_eq!(nightly, 2, "the second answer is the first: {said}");
    member.stop();
}
