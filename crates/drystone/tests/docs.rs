//! The documents tell what the code does: generated parts are up to date, names that they point at
//! exist, and the README shows the options that there are.

mod common;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// With this variable set (`make docs`), generated parts are written instead of compared.
const WRITE: &str = "DRYSTONE_DOCS_WRITE";

/// Documents whose links carry names of code.
const TOURS: [&str; 4] =
    ["docs/architecture.md", "docs/array.md", "docs/conformance.md", "docs/proofs.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `text` with the part between the marks of `name` replaced; `None` without such marks.
fn replaced(text: &str, name: &str, part: &str) -> Option<String> {
    let (open, close) = (format!("<!-- generated: {name} -->"), format!("<!-- end: {name} -->"));
    let (before, rest) = text.split_once(&open)?;
    let (_, after) = rest.split_once(&close)?;
    Some(format!("{before}{open}\n\n{}\n\n{close}{after}", part.trim()))
}

/// Rows of the README's table of limits, what they begin with, and the constants they come from.
const LIMITS: [(&str, &str, &str, &str); 16] = [
    ("LUNs", "256 ", "drystone/src/export/plan.rs", "LUNS_MAX: usize = 256;"),
    ("connections at once", "8192 ", "target/src/config.rs", "connections: 8192,"),
    ("logins", "1024 ", "target/src/config.rs", "logins: 1024,"),
    ("discovery sessions", "64 ", "target/src/config.rs", "discoveries_per_address: 64,"),
    ("connections of a", "8 ", "iscsi/src/params.rs", "max_connections: 8,"),
    ("commands under", "128 ", "target/src/config.rs", "queue_depth: 128,"),
    ("R2Ts", "8 ", "iscsi/src/params.rs", "max_outstanding_r2t: 8,"),
    ("one READ", "8 MiB ", "target/src/unit/mod.rs", "TRANSFER_BYTES_MAX: u32 = 8 << 20;"),
    ("one WRITE SAME", "16 MiB ", "target/src/unit/mod.rs", "SAME_BYTES_MAX: u32 = 16 << 20;"),
    ("one UNMAP", "512 MiB, ", "target/src/unit/mod.rs", "UNMAP_BYTES_MAX: u32 = 512 << 20;"),
    ("one COMPARE", "1 MiB", "block/src/geometry.rs", "ATOMIC_BYTES_MAX: u32 = 1 << 20;"),
    ("one WRITE ATOMIC", "1 MiB ", "block/src/geometry.rs", "ATOMIC_BYTES_MAX: u32 = 1 << 20;"),
    ("one EXTENDED", "16 ", "scsi/src/copy/limits.rs", "CSCD_MAX: usize = 16;"),
    ("one token", "1 GiB, ", "scsi/src/copy/limits.rs", "TOKEN_BYTES_MAX: u64 = 1 << 30;"),
    ("registrations", "512 ", "scsi/src/reservation/mod.rs", "REGISTRATIONS_MAX: usize = 512;"),
    ("I/O buffers", "256 MiB ", "ring/src/runtime/mod.rs", "buf_budget_bytes: 256 << 20,"),
];

/// Every path of code that `text` points at: the name in the label, and the file of the link.
fn names(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for piece in text.split("[`").skip(1) {
        let Some((label, rest)) = piece.split_once("`](") else { continue };
        let Some((file, _)) = rest.split_once(')') else { continue };
        // A label that is itself a path needs no name in it.
        if file.ends_with(".rs") && !label.contains(['/', '\n']) && !label.ends_with(".rs") {
            let name = label.rsplit("::").next().unwrap_or(label);
            found.push((name.trim_end_matches("()"), file));
        }
    }
    found
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(is_word_char) && !text[at + word.len()..].starts_with(is_word_char)
    })
}

/// The long options in `text`, without their dashes.
fn options(text: &str) -> BTreeSet<&str> {
    let starts = text.match_indices("--").filter(|(at, _)| {
        // An option stands behind a blank, a bracket or a code mark.
        text[..*at].ends_with([' ', '\n', '[', '`', '(']) || *at == 0
    });
    let name = |at: usize| {
        let rest = &text[at + 2..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        rest[..end].trim_end_matches('-')
    };
    starts.map(|(at, _)| name(at)).filter(|name| !name.is_empty()).collect()
}

/// Where a page speaks of `command`: the rows of its option table, and the command in code blocks
/// with the lines that continue it.
fn spoken_of(page: &str, command: &str) -> String {
    let mut text = String::new();
    let (mut fenced, mut continues) = (false, false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let ours = fenced && line.contains(command);
        if line.starts_with("| `--") || ours || continues {
            text.push_str(line);
            text.push('\n');
        }
        continues = (ours || continues) && line.ends_with('\\');
    }
    text
}

/// What stands in front of the descriptions in the long help.
fn help_options(help: &str) -> BTreeSet<&str> {
    let is_option = |line: &&str| line.trim_start().starts_with('-');
    help.lines().filter(is_option).flat_map(options).collect()
}

#[test]
fn generated_parts_are_up_to_date() {
    let parts = [
        ("docs/conformance.md", "commands", scsi::cdb::table_markdown()),
        ("docs/conformance.md", "keys", iscsi::text::table_markdown()),
        ("docs/lab.md", "vdbench words", lab::workload::vdbench::table_markdown()),
        ("docs/lab.md", "fio options", lab::workload::fio::table_markdown()),
        ("docs/disks.md", "spinning drives", block::testing::spinning_markdown()),
        ("docs/disks.md", "flash drives", block::testing::flash_markdown()),
        ("docs/disks.md", "figures", block::testing::figures_markdown()),
        ("docs/metrics.md", "metrics", api::metrics::table_markdown()),
        ("docs/api.md", "problems", api::problem::table_markdown()),
    ];
    for (path, name, part) in parts {
        let before = read(path);
        let after = replaced(&before, name, &part)
            .unwrap_or_else(|| panic!("{path} has no marks for the generated part `{name}`"));
        if env::var_os(WRITE).is_some() {
            fs::write(root().join(path), after).unwrap();
            continue;
        }
        assert!(before == after, "{path} is not what the code says: run `make docs` and commit it");
    }
}

#[test]
fn the_openapi_document_is_up_to_date() {
    let path = root().join("docs/openapi.json");
    let document = api::server::document().to_pretty_json().expect("it can be written out");
    let document = format!("{document}\n");
    if env::var_os(WRITE).is_some() {
        fs::write(path, document).expect("it can be written");
        return;
    }
    let before = fs::read_to_string(path).expect("docs/openapi.json is there");
    assert!(
        before == document,
        "docs/openapi.json is not what the code says: run `make docs` and commit it"
    );
}

#[test]
fn a_public_linter_finds_nothing_about_the_openapi_document() {
    // `scripts/setup.sh test` puts it beside what cargo builds.
    let linter = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("openapi-lint");
    // One that is not right, so that a linter that passes everything is noticed.
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let wrong = dir.path().join("wrong.json");
    let text = r#"{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"responses":0}}}}"#;
    fs::write(&wrong, text).expect("it can be written");
    let mut command = Command::new(linter.join("bin/openapi-spec-validator"));
    let output = common::finish(command.arg(root().join("docs/openapi.json")).arg(&wrong));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("openapi.json: OK"), "{said}");
    assert!(!output.status.success() && !said.contains("wrong.json: OK"), "{said}");
}

/// The words of a text that look like names of our metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !is_word_char(c));
    let is_ours = |word: &&str| word.starts_with("drystone_") || word.starts_with("process_");
    words.filter(is_ours).collect()
}

/// What dashboard and rules ask for, and what is left of it without the series that there are.
fn unknown_metrics(texts: &[String]) -> (usize, Vec<&str>) {
    let series = api::metrics::series();
    let asked: BTreeSet<&str> = texts.iter().flat_map(|text| metrics_in(text)).collect();
    let is_there = |name: &str| series.iter().any(|series| series == name);
    (asked.len(), asked.into_iter().filter(|name| !is_there(name)).collect())
}

#[test]
fn dashboard_and_alerts_ask_for_metrics_that_there_are() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&read("packaging/grafana/drystone.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let mut texts: Vec<String> =
        targets.map(|target| target["expr"].as_str().expect("an expression").to_owned()).collect();
    assert!(texts.len() > 20, "{}", texts.len());
    let rules = "packaging/prometheus/alerts.yml";
    texts.push(read(rules));
    let (asked, unknown) = unknown_metrics(&texts);
    assert!(
        asked > 25 && unknown.is_empty(),
        "{asked} metrics, of which there are not: {unknown:?}"
    );
    assert_eq!(unknown_metrics(&["rate(drystone_nothing_total[1m])".to_owned()]).1.len(), 1);
}

/// Whether Prometheus' own tool finds nothing in a text, and what it says.
fn promtool(words: &[&str], text: &str) -> (bool, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(text.as_bytes()).expect("it can be written");
    let output = common::finish(Command::new("promtool").args(words).arg(file.path()));
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn prometheus_reads_the_alerts_and_the_configuration_that_the_page_shows() {
    let rules = read("packaging/prometheus/alerts.yml");
    let page = read("docs/metrics.md");
    let (_, rest) = page.split_once("```yaml\n").expect("a configuration");
    let (config, _) = rest.split_once("```").expect("its end");
    for (words, text, one, wrong) in [
        (vec!["check", "rules"], rules.as_str(), "expr: ", "expr: rate("),
        // Without the files that it names.
        (vec!["check", "config", "--syntax-only"], config, "scheme: ", "schema: "),
    ] {
        let (passes, said) = promtool(&words, text);
        assert!(passes, "{words:?}: {said}");
        let (passes, _) = promtool(&words, &text.replacen(one, wrong, 1));
        assert!(!passes, "{words:?} passes what is wrong");
    }
    // Rules ask for the job by its name.
    assert!(rules.contains("job=\"drystone\"") && config.contains("job_name: drystone "));
}

#[test]
fn names_in_documents_are_in_the_code() {
    let mut missing = Vec::new();
    let mut count = 0;
    for tour in TOURS {
        let text = read(tour);
        let here = Path::new(tour).parent().unwrap();
        for (name, file) in names(&text) {
            count += 1;
            let code = fs::read_to_string(root().join(here).join(file)).unwrap_or_default();
            if !has_word(&code, name) {
                missing.push(format!("{tour}: `{name}` is not in {file}"));
            }
        }
    }
    assert!(count > 50, "only {count} names found: the search is broken");
    assert!(missing.is_empty(), "\n{}\ncorrect the document\n", missing.join("\n"));
}

/// `path` shows the options of `command`, all of them and no others.
fn shows_the_options(path: &str, command: &str) {
    let output = common::run(&[command, "--help"]);
    let help = String::from_utf8(output.stdout).expect("help is UTF-8");
    let real = help_options(&help);
    assert!(real.contains("log") && real.len() > 10, "the help does not read: {real:?}");
    let page = read(path);
    let spoken = spoken_of(&page, &format!("drystone {command} "));
    let shown = options(&spoken);
    let unknown: Vec<_> = shown.difference(&real).collect();
    assert!(unknown.is_empty(), "{path} shows options that there are not: {unknown:?}");
    let untold: Vec<_> = real.difference(&shown).filter(|name| **name != "help").collect();
    assert!(untold.is_empty(), "{path} does not show these options: {untold:?}");
}

#[test]
fn the_readme_shows_the_options_of_export() {
    shows_the_options("README.md", "export");
}

#[test]
fn the_page_about_volumes_shows_the_options_of_up() {
    shows_the_options("docs/volumes.md", "up");
}

#[test]
fn the_page_about_hosts_shows_the_options_of_attach() {
    shows_the_options("docs/hosts.md", "attach");
}

/// The names of the commands below `command`, as its help lists them.
fn commands_of(command: &str) -> Vec<String> {
    let output = common::run(&[command, "-h"]);
    let help = String::from_utf8(output.stdout).expect("help is UTF-8");
    let (_, listed) = help.split_once("Commands:\n").expect("it has commands");
    let names = listed.lines().take_while(|line| !line.is_empty());
    let name = |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned());
    names.filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_page_about_groups_shows_its_commands() {
    let page = read("docs/group.md");
    let of_group = commands_of("group").into_iter().map(|name| format!("drystone group {name}"));
    let of_members = ["join", "list", "vacate", "remove"];
    let of_members = of_members.map(|name| format!("drystone member {name}"));
    let of_volumes = ["move", "transits", "settle", "slices", "discard-slice", "rebuild"];
    let of_volumes = of_volumes.map(|name| format!("drystone volume {name}"));
    let all: Vec<String> = of_group.chain(of_members).chain(of_volumes).collect();
    assert!(all.len() >= 13, "{all:?}");
    let untold: Vec<_> = all.iter().filter(|command| !page.contains(*command)).collect();
    assert!(untold.is_empty(), "docs/group.md does not show these commands: {untold:?}");
}

#[test]
fn the_readme_tells_the_limits_there_are() {
    let readme = read("README.md");
    for (what, value, file, constant) in LIMITS {
        let told = readme
            .lines()
            .filter_map(|line| line.strip_prefix("| ")?.strip_prefix(what)?.split_once("| "))
            .any(|(_, rest)| rest.starts_with(value));
        let kept = read(&format!("crates/{file}")).contains(constant);
        assert!(
            told && kept,
            "the limit `{what}` is not {value}({constant} in {file}): correct README.md and LIMITS"
        );
    }
}

#[test]
fn the_searches_find_what_they_are_for() {
    let text = "a\n<!-- generated: x -->\nold\n<!-- end: x -->\nb";
    let new = replaced(text, "x", "new\n").unwrap();
    assert_eq!(new, "a\n<!-- generated: x -->\n\nnew\n\n<!-- end: x -->\nb");
    assert_eq!(replaced(&new, "x", "new"), Some(new.clone()));
    assert_eq!(replaced(text, "y", "new"), None);

    let links = "[`a::b()`](x/y.rs) [`z/c.rs`](z/c.rs) [text](q.rs) [`d`](dir)";
    assert_eq!(names(links), [("b", "x/y.rs")]);
    assert!(has_word("fn b(", "b") && !has_word("fn bc(", "b") && !has_word("ab", "b"));

    let page =
        "--no\n```\nsudo drystone export ram:1G --a \\\n  --b-c 1\nother --no\n```\n| `--d` | x |";
    assert_eq!(options(&spoken_of(page, "drystone export ")), BTreeSet::from(["a", "b-c", "d"]));
    assert_eq!(
        help_options("  -h, --help\n      --log <F>\n    say --no\n"),
        ["help", "log"].into()
    );
}
