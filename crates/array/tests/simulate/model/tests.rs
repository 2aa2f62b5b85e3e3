//! The model beside the plain subject: honest work passes, every flaw is found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::env::SimEnv;
use crate::history;
use crate::plain::{Flaw, PlainMaker};
use crate::scenario::Theme;

fn run(seed: u64, theme: Theme, flaw: Flaw) -> u64 {
    history::run(&PlainMaker::new(flaw), theme, &SimEnv::new(seed, false))
}

#[test]
fn an_honest_device_passes_and_repeats_itself() {
    for seed in 0..20 {
        for theme in Theme::ALL {
            // Shown if it fails.
            println!("seed {seed} of {theme}");
            let digest = run(seed, theme, Flaw::None);
            if seed % 8 == 0 {
                assert_eq!(run(seed, theme, Flaw::None), digest, "seed {seed} {theme:?}");
            }
        }
    }
}

#[test]
fn every_flaw_is_found() {
    for flaw in Flaw::ALL {
        let fails = |seed: u64| {
            let theme = Theme::ALL[seed as usize % Theme::ALL.len()];
            catch_unwind(AssertUnwindSafe(|| run(seed, theme, flaw))).is_err()
        };
        let found = (0..1000).find(|&seed| fails(seed));
        assert!(found.is_some(), "no seed finds that a device {flaw:?}");
    }
}
