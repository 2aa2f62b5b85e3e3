//! Style as a test: what no compiler and no lint checks about this repository.
//!
//! Each rule is a function from a file to its findings (`rules.rs`); `planted.rs` proves that
//! each one finds what it is there for.

mod circles;
mod planted;
mod rooms;
mod rules;
mod source;

use rules::{Finding, Rule};
use source::{File, Kind};

/// Applies a rule to every file of a kind and fails with all that it finds.
fn apply(rule: Rule, kinds: &[Kind]) {
    let tree = source::tree();
    assert!(tree.len() > 50, "only {} files: the walk over the repository is broken", tree.len());
    let files = tree.iter().filter(|file| kinds.contains(&file.kind));
    report(&files.flat_map(rule).collect::<Vec<_>>());
}

/// Fails when there are findings, with one line for each.
fn report(findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
}

#[test]
fn production_files_are_short() {
    apply(rules::length, &[Kind::Production]);
}

#[test]
fn unsafe_stays_in_two_rooms_and_gives_its_reason() {
    apply(rules::unsafe_code, &[Kind::Production, Kind::Test]);
}

#[test]
fn nothing_is_left_over() {
    apply(rules::leftovers, &[Kind::Production, Kind::Test]);
}

#[test]
fn lines_end_cleanly_and_hold_no_tabs() {
    apply(rules::whitespace, &[Kind::Production, Kind::Test]);
}

#[test]
fn nothing_refers_to_what_a_clone_does_not_have() {
    apply(
        rules::outside_references,
        &[Kind::Production, Kind::Test, Kind::Document, Kind::Manifest, Kind::Script],
    );
}

#[test]
fn links_in_documents_lead_somewhere() {
    apply(rules::links, &[Kind::Document]);
}

#[test]
fn pure_rooms_do_no_io_and_read_no_clock() {
    apply(rooms::purity, &[Kind::Production]);
}

#[test]
fn a_room_uses_only_rooms_below_it() {
    apply(rooms::directions, &[Kind::Manifest]);
}

#[test]
fn no_new_circle_of_modules_and_none_that_is_gone_stays_allowed() {
    let found = circles::circles(&source::tree());
    let allowed = circles::STILL_THERE.map(|(room, circle)| {
        (room.to_owned(), circle.iter().map(|&module| module.to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(
        found, allowed,
        "modules that use each other in a circle: let the lower one return what the upper one needs, or move \
         what both use below them; a circle that is gone is taken out of STILL_THERE in tests/tidy/circles.rs"
    );
}

#[test]
fn the_walk_meets_every_room() {
    let files = source::tree();
    for (room, _) in rooms::ROOMS {
        let has_some =
            files.iter().any(|file| file.room() == Some(room) && file.kind == Kind::Production);
        assert!(has_some, "the walk over the repository passes crates/{room} by");
    }
}

#[test]
fn every_room_has_its_place() {
    let crates = source::root().join("crates");
    let found = std::fs::read_dir(crates).expect("the workspace has crates/");
    for entry in found {
        let name = entry.expect("crates/ can be read").file_name();
        let name = name.to_str().expect("crate directories have plain names");
        assert!(
            rooms::below(name).is_some(),
            "crates/{name} has no place in the order of rooms: add it to ROOMS in tests/tidy/rooms.rs and to docs/architecture.md"
        );
    }
}

/// A file for the tests of a rule.
fn sample(path: &str, text: &str) -> File {
    File { path: path.to_owned(), kind: source::kind_of(path), text: text.to_owned() }
}
