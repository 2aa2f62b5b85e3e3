//! The files of the repository, and Rust text without comments and strings.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories that hold nothing of ours, wherever they are.
const SKIPPED_DIRS: [&str; 5] = [".git", ".drystone", "corpus", "artifacts", "node_modules"];

/// Where cargo's output may be, from the root; a room may have the same name.
const BUILD_OUTPUT: [&str; 2] = ["target", "fuzz/target"];

fn is_skipped(path: &Path, root: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let inside = path.strip_prefix(root).unwrap_or(path);
    SKIPPED_DIRS.iter().any(|skipped| name == *skipped)
        || BUILD_OUTPUT.iter().any(|output| inside == Path::new(output))
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rust that ends up in a binary.
    Production,
    /// Rust that only tests run.
    Test,
    /// Markdown.
    Document,
    /// Cargo's.
    Manifest,
    /// Shell, make and CI.
    Script,
    /// Anything else.
    Other,
}

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// From the root of the repository, with slashes.
    pub(crate) path: String,
    /// What it is for.
    pub(crate) kind: Kind,
    /// All of it.
    pub(crate) text: String,
}

impl File {
    /// The room it belongs to: `scsi` for `crates/scsi/src/lib.rs`.
    pub(crate) fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate lies two levels below the root").to_owned()
}

/// Every text file of the repository.
pub(crate) fn tree() -> Vec<File> {
    let root = root();
    let mut files = Vec::new();
    let mut dirs = vec![root.clone()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory of the repository can be read") {
            let entry = entry.expect("its entries too");
            // Another process may delete what it made (editors, builds) while this one looks.
            let Ok(file_type) = entry.file_type() else { continue };
            if file_type.is_dir() {
                if !is_skipped(&entry.path(), &root) {
                    dirs.push(entry.path());
                }
            } else if file_type.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                let path = entry.path();
                let path = path.strip_prefix(&root).expect("the walk stays below the root");
                let path = path.to_string_lossy().into_owned();
                files.push(File { kind: kind_of(&path), path, text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// What the file at `path` is for.
pub(crate) fn kind_of(path: &str) -> Kind {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("rs") => {
            let in_tests = dir.split('/').any(|part| matches!(part, "tests" | "benches" | "fuzz"));
            let test = in_tests || name == "tests.rs" || name.ends_with("_tests.rs");
            if test { Kind::Test } else { Kind::Production }
        }
        Some("md") => Kind::Document,
        Some("toml") => Kind::Manifest,
        Some("sh") => Kind::Script,
        _ if name == "Makefile" || dir == ".ci" => Kind::Script,
        _ => Kind::Other,
    }
}

/// Rust with the contents of comments, strings and characters blanked out; every line keeps its
/// number and every character its column.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => line_comment_end(&chars, at),
            ('/', Some('*')) => block_comment_end(&chars, at),
            ('"', _) => string_end(&chars, at),
            ('r', Some('"' | '#')) if !continues_word(&chars, at) => raw_string_end(&chars, at),
            ('\'', _) => character_end(&chars, at),
            _ => at,
        };
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Whether the character before `at` belongs to the same word; `br"` starts a string all the same.
fn continues_word(chars: &[char], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|i| chars[i]);
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    word(before(1)) && (before(1) != Some('b') || word(before(2)))
}

fn line_comment_end(chars: &[char], at: usize) -> usize {
    chars[at..].iter().position(|c| *c == '\n').map_or(chars.len(), |len| at + len)
}

fn block_comment_end(chars: &[char], at: usize) -> usize {
    let mut depth = 0;
    let mut i = at;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                i += 1;
                continue;
            }
        }
        i += 2;
        if depth == 0 {
            return i;
        }
    }
    chars.len()
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of `r#"..."#`, or `at` itself when it is a raw identifier such as `r#type`.
fn raw_string_end(chars: &[char], at: usize) -> usize {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return at;
    }
    let closes = |i: usize| {
        chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    (open + 1..chars.len()).find(|i| closes(*i)).map_or(chars.len(), |i| i + 1 + hashes)
}

/// The end of `'x'` or `'\n'`, or `at` itself when it starts a lifetime.
fn character_end(chars: &[char], at: usize) -> usize {
    if chars.get(at + 1) == Some(&'\\') {
        let close = chars[(at + 3).min(chars.len())..].iter().position(|c| *c == '\'');
        return close.map_or(at, |len| at + 3 + len + 1);
    }
    if chars.get(at + 2) == Some(&'\'') { at + 3 } else { at }
}

/// The words and punctuation marks of code, each with its line from 1.
pub(crate) fn tokens_of(code: &str) -> Vec<(usize, String)> {
    let mut tokens: Vec<(usize, String)> = Vec::new();
    let mut in_word = false;
    let mut line = 1;
    for c in code.chars() {
        let word = c.is_alphanumeric() || c == '_';
        if word && in_word {
            tokens.last_mut().expect("a word goes on, so it has begun").1.push(c);
        } else if !c.is_whitespace() {
            tokens.push((line, c.to_string()));
        }
        in_word = word;
        line += usize::from(c == '\n');
    }
    tokens
}
