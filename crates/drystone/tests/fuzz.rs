//! The fuzz targets on stable Rust: every seed and finding, then random changes to them.
//!
//! Following coverage is left to libFuzzer, which `make fuzz` runs. This needs nothing but cargo,
//! so it runs wherever the other tests run. An input that breaks a promise is kept in
//! `fuzz/artifacts`: once the cause is mended, it moves to the seeds of its target.

#[path = "../../../fuzz/src/lib.rs"]
#[allow(unreachable_pub, reason = "the file is a crate of its own where libFuzzer drives it")]
mod fuzz;

use fuzz::{TARGETS, seeds};
use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long each target is given random inputs.
const RANDOM_TIME: Duration = Duration::from_millis(1500);
/// Longest random input.
const INPUT_BYTES_MAX: usize = 4096;
/// Set to write the seeds anew.
const UPDATE: &str = "DRYSTONE_UPDATE_SEEDS";

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(name)
}

/// Everything in the directory of a target, and what the emitters make.
fn known_inputs(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(directory("seeds").join(target)).expect("each target has seeds");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    let kept = paths.iter().map(|path| fs::read(path).expect("a seed can be read"));
    let made = seeds::seeds().into_iter().filter(|seed| seed.target == target);
    kept.chain(made.map(|seed| seed.bytes)).collect()
}

/// Runs one input; if it fails, keeps it and says where.
fn check(target: &str, run: fn(&[u8]), input: &[u8]) {
    let Err(failure) = catch_unwind(AssertUnwindSafe(|| run(input))) else { return };
    let kept = directory("artifacts").join(format!("{target}-stable-{}", std::process::id()));
    let written = fs::create_dir_all(directory("artifacts")).and_then(|()| fs::write(&kept, input));
    eprintln!("the input of {target} that failed is in {} ({written:?})", kept.display());
    resume_unwind(failure);
}

fn fuzz_target(name: &str) {
    let (_, run) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target's name");
    let known = known_inputs(name);
    for input in known.iter().map(Vec::as_slice).chain([&[][..]]) {
        check(name, *run, input);
    }
    let mut random = fastrand::Rng::new();
    let end = Instant::now() + RANDOM_TIME;
    while Instant::now() < end {
        let mut input = random.choice(&known).expect("each target has seeds").clone();
        for _ in 0..random.usize(1..10) {
            change(&mut input, &known, &mut random);
        }
        check(name, *run, &input);
    }
}

/// One change: of a bit, of bytes, of the length, or a piece of another input.
fn change(input: &mut Vec<u8>, known: &[Vec<u8>], random: &mut fastrand::Rng) {
    const EDGES: [u32; 8] = [0, 1, 4, 512, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    let at = random.usize(..=input.len());
    let end = (at + random.usize(1..32)).min(input.len());
    match random.u8(..7) {
        0 if at < end => input[at] ^= 1 << random.u8(..8),
        1 if at < end => input[at] = random.u8(..),
        2 if at < end => {
            let edge = random.choice(EDGES).expect("there are some").to_be_bytes();
            let len = (end - at).min(edge.len());
            input[at..at + len].copy_from_slice(&edge[..len]);
        }
        3 => drop(input.drain(at..end)),
        4 => input.truncate(at),
        5 => {
            let piece: Vec<u8> = (0..random.usize(1..32)).map(|_| random.u8(..)).collect();
            input.splice(at..at, piece);
        }
        _ => {
            let other = random.choice(known).expect("each target has seeds");
            let from = random.usize(..=other.len());
            let to = (from + random.usize(..256)).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// They need not be what the emitters make today: any sound input is a good one to begin with.
#[test]
fn seeds_are_checked_in() {
    for seed in seeds::seeds() {
        let path = directory("seeds").join(seed.target).join(&seed.name);
        if env::var_os(UPDATE).is_some() {
            fs::create_dir_all(path.parent().expect("it is in a directory")).expect("a directory");
            fs::write(&path, &seed.bytes).expect("a seed can be written");
        }
        assert!(path.exists(), "{} is missing: set {UPDATE}=1 to write it", path.display());
    }
}

#[test]
fn every_target_has_its_binary_and_its_test() {
    let mut binaries: Vec<String> = fs::read_dir(directory("fuzz_targets"))
        .expect("the directory of the binaries")
        .map(|file| file.expect("a file").file_name().into_string().expect("a name in UTF-8"))
        .collect();
    binaries.sort();
    let this = include_str!("fuzz.rs");
    assert_eq!(binaries, TARGETS.map(|(name, _)| format!("{name}.rs")));
    for (name, _) in TARGETS {
        assert!(this.contains(&format!("fuzz_target(\"{name}\")")), "{name} has no test here");
    }
}

#[test]
fn assembly() {
    fuzz_target("assembly");
}

#[test]
fn cdb() {
    fuzz_target("cdb");
}

#[test]
fn login() {
    fuzz_target("login");
}

#[test]
fn params() {
    fuzz_target("params");
}

#[test]
fn pdu() {
    fuzz_target("pdu");
}

#[test]
fn session() {
    fuzz_target("session");
}

#[test]
fn text() {
    fuzz_target("text");
}

#[test]
fn transfer() {
    fuzz_target("transfer");
}
