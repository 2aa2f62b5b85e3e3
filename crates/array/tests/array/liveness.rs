//! A rule of the source: nobody keeps others from running while they wait.
//!
//! Futures of a stream are polled only while the stream is. A loop that takes their results one by
//! one and waits for something else in between keeps those that are under way from going on, with
//! the stripes, turns and buffers that they hold: whoever it waits for may wait for one of these.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Lines of loops over the results of a stream that wait for something else, as far as `text` has
/// such.
fn waits_in_loops(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let head = line.trim_start();
        if !(head.starts_with("while let") && head.contains(".next().await")) {
            continue;
        }
        let indent = line.len() - head.len();
        let end = |line: &&&str| line.len() - line.trim_start().len() <= indent && !line.is_empty();
        let body = lines[at + 1..].iter().take_while(|line| !end(line));
        let waits = body.enumerate().filter(|(_, line)| line.contains(".await"));
        found.extend(waits.map(|(below, _)| at + 2 + below));
    }
    found
}

#[test]
fn loops_over_running_futures_wait_for_nothing_else() {
    let planted =
        "fn f() {\n    while let Some(x) = running.next().await {\n        g(x).await;\n    }\n}\n";
    assert_eq!(waits_in_loops(planted), [3], "the rule finds what it is for");
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files);
    assert!(files.len() > 50, "the source is there");
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source is text");
        assert_eq!(waits_in_loops(&text), Vec::<usize>::new(), "{}", file.display());
    }
}
