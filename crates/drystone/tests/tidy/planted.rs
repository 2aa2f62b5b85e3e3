//! Each rule finds what was planted for it, and nothing in what is in order.

use crate::source::{Kind, code_of, kind_of, tokens_of};
use crate::{circles, rooms, rules, sample};

/// What a rule says about a file, one line for each finding.
fn said(rule: rules::Rule, path: &str, text: &str) -> Vec<String> {
    rule(&sample(path, text)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_file_of_601_lines_is_too_long() {
    let line = "fn f() {}\n";
    assert!(said(rules::length, "a.rs", &line.repeat(600)).is_empty());
    assert_eq!(
        said(rules::length, "a.rs", &line.repeat(601)),
        [
            "a.rs:601: 601 lines are more than 600: split it by concept, or move its tests to a file of their own"
        ]
    );
}

#[test]
fn unsafe_is_found_outside_ring_and_without_a_reason() {
    let bare = "fn f() {\n    unsafe { g() }\n}\n";
    let reasoned = "fn f() {\n    // SAFETY: g has no preconditions.\n    unsafe { g() }\n}\n";
    let outside = "`unsafe` outside `ring`: use or add a safe call of `ring`";
    let silent = "`unsafe` without `// SAFETY:` above it: say why it holds";
    for path in ["crates/block/src/a.rs", "crates/drystone/tests/a.rs", "bench/src/a.rs"] {
        assert_eq!(said(rules::unsafe_code, path, reasoned), [format!("{path}:3: {outside}")]);
    }
    let ring = "crates/ring/src/a.rs";
    assert_eq!(said(rules::unsafe_code, ring, bare), [format!("{ring}:2: {silent}")]);
    assert!(said(rules::unsafe_code, ring, reasoned).is_empty());
    assert!(said(rules::unsafe_code, "crates/parity/src/a.rs", reasoned).is_empty());
    let far = format!("// SAFETY: too far up.\n{}unsafe impl Send for X {{}}\n", "\n".repeat(12));
    assert_eq!(said(rules::unsafe_code, ring, &far), [format!("{ring}:14: {silent}")]);
    for harmless in ["// unsafe { }\n", "let s = \"unsafe {\";\n", "#![deny(unsafe_code)]\n"] {
        assert!(said(rules::unsafe_code, "a.rs", harmless).is_empty(), "{harmless}");
    }
}

#[test]
fn leftovers_are_found_in_code_comments_and_strings() {
    let fixme = concat!("// FIX", "ME: later\n");
    let planted = [
        ("todo!()", "`todo!` is left in: finish it or take it out"),
        ("unimplemented!(\"x\")", "`unimplemented!` is left in: finish it or take it out"),
        ("let x = dbg!(x);", "`dbg!` is left in: finish it or take it out"),
        (
            "#[ignore = \"slow\"]\nfn f() {}",
            "an ignored test proves nothing: make it run or delete it",
        ),
        ("#[ignore]\nfn f() {}", "an ignored test proves nothing: make it run or delete it"),
    ];
    for (text, what) in planted {
        assert_eq!(said(rules::leftovers, "a.rs", text), [format!("a.rs:1: {what}")], "{text}");
    }
    assert_eq!(said(rules::leftovers, "a.rs", fixme).len(), 1);
    assert_eq!(said(rules::leftovers, "a.rs", concat!("let s = \"X", "XX\";\n")).len(), 1);
    for harmless in ["// todo!()\n", "fn todo() {}\n", "let t = \"mkstemp-XXXXXX\";\n", "#[test]\n"]
    {
        assert!(said(rules::leftovers, "a.rs", harmless).is_empty(), "{harmless}");
    }
}

#[test]
fn tabs_and_blanks_at_line_ends_are_found() {
    assert_eq!(
        said(rules::whitespace, "a.rs", "fn f() {}\n\tlet x;\nlet y; \n"),
        [
            "a.rs:2: a tab: write spaces, or \\t in a string",
            "a.rs:3: blanks at the end of the line: delete them"
        ]
    );
    let end = "the file must end with exactly one line end";
    assert_eq!(said(rules::whitespace, "a.rs", "fn f() {}"), [format!("a.rs:1: {end}")]);
    assert_eq!(said(rules::whitespace, "a.rs", "fn f() {}\n\n"), [format!("a.rs:2: {end}")]);
    assert!(said(rules::whitespace, "a.rs", "fn f() {}\n\nfn g() {}\n").is_empty());
}

#[test]
fn references_to_places_outside_a_clone_are_found() {
    for place in
        [concat!("../", "shared/x"), concat!("see .", "library"), concat!("/work", "/main")]
    {
        let text = format!("one\n{place}\n");
        let findings = said(rules::outside_references, "docs/a.md", &text);
        assert_eq!(findings.len(), 1, "{place}");
        assert!(findings[0].starts_with("docs/a.md:2: "), "{findings:?}");
    }
    assert!(said(rules::outside_references, "docs/a.md", "a shared library\n").is_empty());
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text = "[a](../Cargo.toml) [b](https://example.com/x) [c](#part) [d](../bench#x)\n";
    assert!(said(rules::links, "crates/a.md", text).is_empty());
    assert_eq!(
        said(rules::links, "crates/a.md", "fine\n[a](nowhere.md#x)\n"),
        ["crates/a.md:2: the link to `nowhere.md#x` leads nowhere: correct it"]
    );
    assert!(said(rules::links, "crates/a.md", "```\n[a](nowhere.md)\n```\n").is_empty());
}

#[test]
fn a_room_that_looks_up_is_found() {
    let manifest = "[dependencies]\ntarget.workspace = true\nthiserror.workspace = true\n";
    assert_eq!(
        said(rooms::directions, "crates/block/Cargo.toml", manifest),
        [
            "crates/block/Cargo.toml:2: `block` uses `target`, which does not lie below it: move the code, or turn the dependency around"
        ]
    );
    assert!(said(rooms::directions, "crates/drystone/Cargo.toml", manifest).is_empty());
    for planted in [
        "[dev-dependencies]\nring = { path = \"../ring\" }\n",
        "[target.'cfg(unix)'.dependencies]\ndrystone-ring = \"0.1\"\n",
        "[build-dependencies]\nblock.workspace=true\n",
    ] {
        assert_eq!(
            said(rooms::directions, "crates/scsi/Cargo.toml", planted).len(),
            1,
            "{planted}"
        );
    }
    let beside = "dependencies]\ntarget.workspace = true\n";
    let said_of = |section: &str| {
        let manifest = format!("[{section}{beside}");
        said(rooms::directions, "crates/initiator/Cargo.toml", &manifest).len()
    };
    assert_eq!((said_of("dev-"), said_of("")), (0, 1), "tested against it, not made of it");
    let harmless =
        "[package]\ntarget = \"x\"\n[dependencies]\ntargets = \"1\"\n[lints]\nring = 1\n";
    assert!(said(rooms::directions, "crates/scsi/Cargo.toml", harmless).is_empty());
}

#[test]
fn io_threads_and_clocks_in_a_pure_room_are_found() {
    let planted = [
        "use std::net::TcpStream;\n",
        "use std::{fmt, fs};\n",
        "use std::{\n    collections::{BTreeMap, HashMap},\n    thread,\n};\n",
        "fn f() { std::thread::yield_now() }\n",
        "use std::time::{Duration, Instant};\n",
        "let now = SystemTime::now();\n",
        "let x = libc::getpid();\n",
    ];
    for text in planted {
        assert_eq!(said(rooms::purity, "crates/iscsi/src/a.rs", text).len(), 1, "{text}");
        assert!(said(rooms::purity, "crates/ring/src/a.rs", text).is_empty(), "{text}");
    }
    let harmless = [
        "use std::time::Duration;\n",
        "use core::net::SocketAddr;\n",
        "use std::{fmt, mem};\n",
        "// std::net is for others\n",
        "use std::collections::{fs_like, BTreeMap};\n",
        "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
    ];
    for text in harmless {
        assert!(said(rooms::purity, "crates/scsi/src/a.rs", text).is_empty(), "{text}");
    }
}

#[test]
fn files_are_told_apart_by_their_place() {
    let cases = [
        ("crates/scsi/src/lib.rs", Kind::Production),
        ("crates/scsi/src/cdb/tests.rs", Kind::Test),
        ("crates/scsi/src/plan_tests.rs", Kind::Test),
        ("crates/scsi/src/tests/mod.rs", Kind::Test),
        ("crates/drystone/tests/cli.rs", Kind::Test),
        ("fuzz/fuzz_targets/pdu.rs", Kind::Test),
        ("README.md", Kind::Document),
        ("Cargo.toml", Kind::Manifest),
        ("scripts/setup.sh", Kind::Script),
        (".ci/run", Kind::Script),
        ("Makefile", Kind::Script),
        ("Cargo.lock", Kind::Other),
    ];
    for (path, kind) in cases {
        assert_eq!(kind_of(path), kind, "{path}");
    }
}

#[test]
fn code_is_told_from_comments_and_strings() {
    let cases = [
        ("a // b\nc", "a     \nc"),
        ("a /* b /* c */ d */ e", "a                   e"),
        (r#"f("a\"b") g"#, "f(      ) g"),
        (r###"r#"a"b"# c"###, "         c"),
        (r###"br##"a"#b"## c"###, "b            c"),
        ("r#type = x", "r#type = x"),
        ("bar\"x\"", "bar   "),
        (r"'a' '\'' '\u{41}' b", "                  b"),
        ("&'a str, 'static", "&'a str, 'static"),
        ("'\"' \"'\" z", "        z"),
    ];
    for (text, code) in cases {
        assert_eq!(code_of(text), code, "{text}");
    }
    assert_eq!(code_of("\"open"), "     ");
    assert_eq!(
        tokens_of("a::b_1\n!"),
        [
            (1, "a".to_owned()),
            (1, ":".to_owned()),
            (1, ":".to_owned()),
            (1, "b_1".to_owned()),
            (2, "!".to_owned()),
        ]
    );
}

#[test]
fn circles_of_modules_are_found() {
    let in_a_circle = |second: &str| {
        let files = [
            sample("crates/lab/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{Deep, Other};\n"),
            sample("crates/lab/src/a.rs", "use crate::b::X;\n"),
            sample("crates/lab/src/b/mod.rs", "mod inner;\n"),
            sample("crates/lab/src/b/inner.rs", second),
            sample("crates/lab/src/c.rs", "use crate::{\n    a::{b, X},\n};\n"),
        ];
        circles::circles(&files).into_iter().map(|(_, circle)| circle.concat()).collect::<Vec<_>>()
    };
    assert!(in_a_circle("use std::fmt; // crate::c\n").is_empty());
    assert_eq!(in_a_circle("use crate::a;\n"), ["ab"]);
    assert_eq!(in_a_circle("use crate::Deep;\n"), ["abc"], "through what the root re-exports");
    assert_eq!(in_a_circle("fn f() { crate::c::g() }\n"), ["abc"]);
    assert!(in_a_circle("#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n").is_empty());
}
