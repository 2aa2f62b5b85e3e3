//! Times in which the lab itself did not run: what stood still then need not be the target.

use std::time::{Duration, Instant};

use super::figures::Freeze;

/// A core that is late by less is a core that works.
const LATE_MIN: Duration = Duration::from_millis(100);
/// More would fill memory and tell nothing new.
const KEPT: usize = 1000;

/// A part of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    /// From the start of the step.
    pub(crate) at: Duration,
    pub(crate) length: Duration,
}

impl Pause {
    /// From one moment to another, in a step that was started at `start`.
    pub(crate) fn between(start: Instant, from: Instant, to: Instant) -> Self {
        let (at, length) =
            (from.saturating_duration_since(start), to.saturating_duration_since(from));
        Self { at, length }
    }

    /// The time that both have in common.
    fn overlap(&self, other: &Self) -> Duration {
        let end = (self.at + self.length).min(other.at + other.length);
        end.saturating_sub(self.at.max(other.at))
    }
}

/// Pauses in which the core was late, in order and apart from each other, and the CPU time that this
/// process had in each.
#[derive(Debug, Default)]
pub(crate) struct Freezes(Vec<(Pause, Duration)>);

impl Freezes {
    /// The core was so late once; it counts if that is long.
    pub(crate) fn note(&mut self, late: Pause, cpu: Duration) {
        if late.length >= LATE_MIN && self.0.len() < KEPT {
            self.0.push((late, cpu));
        }
    }

    /// How much of a pause fell into such times.
    pub(crate) fn within(&self, pause: &Pause) -> Duration {
        self.0.iter().map(|(freeze, _)| freeze.overlap(pause)).sum()
    }

    /// For results, with times from the end of a warm-up.
    pub(crate) fn figures(&self, warmup_s: f64) -> Vec<Freeze> {
        let figure = |(pause, cpu): &(Pause, Duration)| Freeze {
            at_s: pause.at.as_secs_f64() - warmup_s,
            seconds: pause.length.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
        };
        self.0.iter().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(at_ms: u64, length_ms: u64) -> Pause {
        Pause { at: Duration::from_millis(at_ms), length: Duration::from_millis(length_ms) }
    }

    #[test]
    fn a_stall_is_charged_to_the_lab_for_as_long_as_the_lab_did_not_run() {
        let mut freezes = Freezes::default();
        let cpu = Duration::from_millis(1);
        for late in [pause(0, 99), pause(1000, 500), pause(2000, 200)] {
            freezes.note(late, cpu);
        }
        for (stall, expected_ms) in [
            (pause(0, 900), 0),
            (pause(900, 700), 500),
            (pause(1200, 100), 100),
            (pause(1400, 700), 200),
            (pause(3000, 500), 0),
        ] {
            assert_eq!(freezes.within(&stall), Duration::from_millis(expected_ms), "{stall:?}");
        }
        let figures = freezes.figures(0.5);
        assert_eq!(figures.len(), 2);
        let first = &figures[0];
        assert_eq!((first.at_s, first.seconds, first.cpu_s), (0.5, 0.5, 0.001));
    }
}
