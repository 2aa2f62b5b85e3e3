//! Selection step by step, routing step by step, and routing in a simulated world of failures.

mod hedging;
mod selection;
mod simulation;
mod steps;

use std::time::Duration;

/// Milliseconds of virtual time.
fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
