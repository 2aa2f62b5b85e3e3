//! What `cargo test` runs: seeds of every theme against the array.
//!
//! `make simulate SEEDS=N` runs so many of each theme, `SEED=N THEME=NAME` replays one and prints its
//! steps as they happen; `FIRST=N` begins elsewhere than at 0.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::array_subject::ArrayMaker;
use crate::env::SimEnv;
use crate::history;
use crate::scenario::Theme;

/// Seeds of each theme unless told otherwise: two minutes for all of them on two cores.
const SEEDS: u64 = 30;
/// Said after so many seeds, for who waits for a long run.
const PROGRESS: u64 = 100;
/// More failures than that tell nothing new.
const FAILURES_MAX: usize = 20;

pub(crate) fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Runs one history; if it fails, says how to replay it.
pub(crate) fn run(theme: Theme, seed: u64, loud: bool) -> Result<u64, String> {
    let env = SimEnv::new(seed, loud);
    let history = || history::run(&ArrayMaker::new(&env), theme, &env);
    catch_unwind(AssertUnwindSafe(history)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        eprintln!("{}", env.trace());
        format!("{text}\nreplay: make simulate SEED={seed} THEME={theme}")
    })
}

fn seeds(theme: Theme) {
    let only = std::env::var("THEME").ok();
    if only.is_some_and(|only| only != theme.to_string()) {
        return;
    }
    if let Some(seed) = number("SEED") {
        // What the array has to say stands between the steps then. A second theme has it already.
        let _ = tracing_subscriber::fmt().with_writer(std::io::stderr).without_time().try_init();
        run(theme, seed, true).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let first = number("FIRST").unwrap_or(0);
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let mut failures = Vec::new();
    for seed in first..first + seeds {
        failures.extend(run(theme, seed, false).err());
        if failures.len() == FAILURES_MAX {
            break;
        }
        let done = seed + 1 - first;
        if done.is_multiple_of(PROGRESS) {
            eprintln!("{theme}: {done} of {seeds} seeds, {} failed", failures.len());
        }
    }
    assert!(
        failures.is_empty(),
        "{theme}: {} seeds failed\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn hosts_and_the_end_of_power() {
    seeds(Theme::Plain);
}

#[test]
fn faults_of_drives() {
    seeds(Theme::Faults);
}

#[test]
fn drives_that_go_and_come() {
    seeds(Theme::Disks);
}

#[test]
fn no_space_left() {
    seeds(Theme::Full);
}

#[test]
fn snapshots_above_all() {
    seeds(Theme::Snapshots);
}

#[test]
fn drives_that_are_not_there_at_a_start() {
    seeds(Theme::Starts);
}

#[test]
fn faults_that_pass() {
    seeds(Theme::Passing);
}

#[test]
fn more_drives_out_than_any_level_bears() {
    seeds(Theme::Beyond);
}

#[test]
fn faults_of_moments_and_starts_that_lack_drives() {
    seeds(Theme::Moments);
}

#[test]
fn memory_that_runs_out() {
    seeds(Theme::Scarcity);
}

#[test]
fn rot_that_nobody_has_read() {
    seeds(Theme::Rot);
}

#[test]
fn two_drives_hurt_at_once() {
    seeds(Theme::Pairs);
}

#[test]
fn several_operators_at_once() {
    seeds(Theme::Crowd);
}

#[test]
fn drives_that_do_not_answer() {
    seeds(Theme::Silence);
}

#[test]
fn walks_over_maps_beside_hosts() {
    seeds(Theme::Walks);
}

#[test]
fn drives_put_back_as_they_were() {
    seeds(Theme::Images);
}

#[test]
fn one_seed_is_one_history() {
    for theme in Theme::ALL {
        assert_eq!(run(theme, 1, false), run(theme, 1, false), "{theme}");
    }
}
