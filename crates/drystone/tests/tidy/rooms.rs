//! The order of the rooms, and what the pure ones must not know.

use crate::rules::{Finding, without_inline_tests};
use crate::source::{self, File};

/// Each room (a directory of `crates/`) with the rooms below it that it may use.
pub(crate) const ROOMS: [(&str, &[&str]); 15] = [
    ("scsi", &[]),
    ("iscsi", &[]),
    ("ring", &[]),
    ("block", &["ring"]),
    ("parity", &[]),
    ("group", &["iscsi"]),
    ("array", &["block", "parity", "ring"]),
    ("target", &["block", "ring", "iscsi", "scsi"]),
    ("initiator", &["block", "ring", "iscsi", "scsi"]),
    ("attach", &["block", "ring"]),
    ("lab", &["attach", "initiator", "block", "ring", "iscsi"]),
    ("member", &["array", "target", "initiator", "group", "block", "ring", "iscsi"]),
    ("notify", &["member", "group", "ring"]),
    ("api", &["notify", "member", "array", "group"]),
    (
        "drystone",
        &[
            "api",
            "notify",
            "lab",
            "member",
            "group",
            "array",
            "parity",
            "target",
            "initiator",
            "attach",
            "block",
            "ring",
            "iscsi",
            "scsi",
        ],
    ),
];

/// Rooms whose tests use a room beside their own: each end of the wire is tried against the other, and who is told of
/// logins hears them as the target tells of them. Ports that no other test is given come from `ring`, for all rooms.
const TESTED_AGAINST: [(&str, &str); 4] =
    [("initiator", "target"), ("notify", "target"), ("api", "ring"), ("group", "ring")];

/// Rooms without I/O, threads and clocks: bytes in, bytes and events out.
const PURE: [&str; 3] = ["scsi", "iscsi", "parity"];

/// Modules of `std` that a pure room does not use; addresses as values are in `core::net`.
const IMPURE_MODULES: [&str; 6] = ["net", "fs", "thread", "process", "env", "os"];

/// Words that a pure room does not use: clocks, and crates that reach the system.
const IMPURE_WORDS: [&str; 5] = ["Instant", "SystemTime", "libc", "rustix", "tokio"];

/// The rooms that `room` may use; `None` for a room that is not in the order.
pub(crate) fn below(room: &str) -> Option<&'static [&'static str]> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, below)| *below)
}

/// A manifest names only rooms below its own as dependencies.
pub(crate) fn directions(file: &File) -> Vec<Finding> {
    let Some(below) = file.room().and_then(below) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut in_dependencies = false;
    let mut is_for_tests = false;
    for (line, text) in file.text.lines().enumerate() {
        if let Some(section) = text.trim().strip_prefix('[') {
            in_dependencies = section.trim_end_matches(']').ends_with("dependencies");
            is_for_tests = section.trim_end_matches(']').ends_with("dev-dependencies");
            continue;
        }
        let key = text.split(['=', '.', ' ']).next().unwrap_or_default();
        let named = key.strip_prefix("drystone-").unwrap_or(key);
        let is_room = ROOMS.iter().any(|(name, _)| *name == named);
        let room = file.room().unwrap_or_default();
        let is_beside = is_for_tests && TESTED_AGAINST.contains(&(room, named));
        if in_dependencies && is_room && !below.contains(&named) && !is_beside {
            let what = format!(
                "`{room}` uses `{named}`, which does not lie below it: move the code, or turn the dependency around"
            );
            findings.push(Finding::at(file, line + 1, what));
        }
    }
    findings
}

/// Pure rooms mention no I/O, no thread and no clock outside their tests.
pub(crate) fn purity(file: &File) -> Vec<Finding> {
    let Some(room) = file.room().filter(|room| PURE.contains(room)) else { return Vec::new() };
    let tokens = source::tokens_of(&source::code_of(without_inline_tests(file)));
    let words: Vec<&str> = tokens.iter().map(|(_, word)| word.as_str()).collect();
    let mut findings = Vec::new();
    let mut found = |at: usize, what: &str| {
        let instead = if what == "std::net" { "addresses are in `core::net`; else " } else { "" };
        let what = format!(
            "`{what}` in `{room}`, which is pure: {instead}take it as an argument, or do it in `target`"
        );
        findings.push(Finding::at(file, tokens[at].0, what));
    };
    for at in 0..words.len() {
        if IMPURE_WORDS.contains(&words[at]) {
            found(at, words[at]);
        }
        if words[at..].starts_with(&["std", ":", ":"]) {
            for module in modules_after(&words[at + 3..]) {
                if IMPURE_MODULES.contains(&module) {
                    found(at, &format!("std::{module}"));
                }
            }
        }
    }
    findings
}

/// The modules named directly behind `std::`, one or a group in braces.
fn modules_after<'a>(words: &[&'a str]) -> Vec<&'a str> {
    if words.first() != Some(&"{") {
        return words.first().copied().into_iter().collect();
    }
    let mut modules = Vec::new();
    let mut depth = 0;
    for pair in words.windows(2) {
        match pair[0] {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(pair[0], "{" | ",") {
            modules.push(pair[1]);
        }
    }
    modules
}
