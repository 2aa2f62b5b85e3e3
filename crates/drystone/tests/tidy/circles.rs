//! Modules of a room that use each other in a circle: the cut between them is missing.
//!
//! A module is what stands directly in `src`, a file or a folder. It uses another one if its production code
//! names it behind `crate::`, by itself or by what `lib.rs` re-exports from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::without_inline_tests;
use crate::source::{File, Kind, code_of, tokens_of};

/// Circles that are there still. This list only gets shorter.
pub(crate) const STILL_THERE: [(&str, &[&str]); 3] = [
    ("array", &["core", "engine", "upkeep", "volume", "watch"]),
    ("array", &["manage", "open"]),
    ("block", &["device", "file", "future"]),
];

/// Which modules each module uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// A room, and the modules of one circle in it.
pub(crate) type Circle = (String, Vec<String>);

/// All circles in all rooms of `files`, in their order.
pub(crate) fn circles(files: &[File]) -> Vec<Circle> {
    let rooms: BTreeSet<&str> = files.iter().filter_map(File::room).collect();
    let circles_of = |room: &str| {
        let uses = uses_in(files, room);
        let found = circles_among(&uses);
        found.into_iter().map(|circle| (room.to_owned(), circle)).collect::<Vec<_>>()
    };
    rooms.into_iter().flat_map(circles_of).collect()
}

/// The module that a file belongs to, if it is production code of `room`.
fn module_of<'a>(file: &'a File, room: &str) -> Option<&'a str> {
    let inside = file.path.strip_prefix("crates/")?.strip_prefix(room)?.strip_prefix("/src/")?;
    let first = inside.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    let is_root = matches!(name, "lib" | "main");
    (file.kind == Kind::Production && !is_root && !first.contains("testing")).then_some(name)
}

fn uses_in(files: &[File], room: &str) -> Uses {
    let of_room = || files.iter().filter_map(|file| Some((module_of(file, room)?, file)));
    let modules: BTreeSet<&str> = of_room().map(|(module, _)| module).collect();
    let root = format!("crates/{room}/src/lib.rs");
    let lib = files.iter().find(|file| file.path == root);
    let exports = lib.map(exports_of).unwrap_or_default();
    let mut uses = Uses::new();
    for (module, file) in of_room() {
        let named = named_behind_crate(&words_of(file));
        let used = named.iter().filter_map(|name| {
            let home = if modules.contains(name.as_str()) { name } else { exports.get(name)? };
            (home != module).then(|| home.clone())
        });
        uses.entry(module.to_owned()).or_default().extend(used);
    }
    uses
}

fn words_of(file: &File) -> Vec<String> {
    let code = code_of(without_inline_tests(file));
    tokens_of(&code).into_iter().map(|(_, word)| word).collect()
}

/// What stands directly behind `crate::`, alone or in braces.
fn named_behind_crate(words: &[String]) -> Vec<String> {
    let mut named = Vec::new();
    for at in 0..words.len() {
        if words[at..].len() > 3 && words[at] == "crate" && words[at + 1] == ":" {
            named.extend(first_words(&words[at + 3..]));
        }
    }
    named
}

/// The first word of a path, or of each path in a group.
fn first_words(words: &[String]) -> Vec<String> {
    if words[0] != "{" {
        return vec![words[0].clone()];
    }
    let mut first = Vec::new();
    let mut depth = 0;
    for pair in words.windows(2) {
        match pair[0].as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && matches!(pair[0].as_str(), "{" | ",") {
            first.push(pair[1].clone());
        }
    }
    first
}

/// The module from which the root re-exports each name.
fn exports_of(lib: &File) -> BTreeMap<String, String> {
    let words = words_of(lib);
    let mut exports = BTreeMap::new();
    for at in 0..words.len().saturating_sub(4) {
        if words[at] == "use" && words[at + 2] == ":" {
            for name in first_words(&words[at + 4..]) {
                exports.insert(name, words[at + 1].clone());
            }
        }
    }
    exports
}

/// The strongly connected sets of more than one module.
fn circles_among(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|module| (module, reach(uses, module))).collect();
    let mut found = BTreeSet::new();
    for module in uses.keys() {
        let is_mutual = |other: &&String| {
            reached[module].contains(*other)
                && reached.get(other).is_some_and(|back| back.contains(module))
        };
        let circle: Vec<String> = uses.keys().filter(is_mutual).cloned().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// All modules that `from` uses, directly or through others.
fn reach(uses: &Uses, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(module) = next.pop() {
        for used in uses.get(&module).into_iter().flatten() {
            if reached.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    reached
}
