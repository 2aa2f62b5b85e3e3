//! The mechanics of a spinning drive: where its bytes lie, and how long the heads take to them.
//!
//! A place is counted in revolutions from the first byte: its whole part is the track, its fraction
//! the angle at which the byte passes under the heads. One revolution reads one track, less than it
//! holds by what switching to the next takes, so that going on costs nothing and the sustained rate
//! comes out as published. Tracks hold less and less towards the last byte (zones, here as a
//! straight line).

use super::Nanos;
use super::class::Spinning;

/// A wait for nearly a whole revolution is a rounding error: the place is under the heads.
const REVOLUTION_MISSED_LEAST: f64 = 1e-6;

#[derive(Debug)]
pub(super) struct Platter {
    revolution_ns: Nanos,
    /// Bytes of the first and of the last track.
    outer_bytes: f64,
    inner_bytes: f64,
    tracks: f64,
    size_bytes: u64,
    /// Seek time over the part `d` of the whole way: `single + root * sqrt(d) + linear * d`.
    single_ns: f64,
    root_ns: f64,
    linear_ns: f64,
    settle_ns: f64,
}

impl Platter {
    pub(super) fn new(p: &Spinning, size_bytes: u64) -> Self {
        assert!(size_bytes > 0 && p.inner_mb_per_s < p.outer_mb_per_s, "a disk with zones");
        let revolution_s = f64::from(p.revolution_us) / 1e6;
        let track_bytes = |mb_per_s: f64| mb_per_s * 1e6 * revolution_s;
        let (outer_bytes, inner_bytes) =
            (track_bytes(p.outer_mb_per_s), track_bytes(p.inner_mb_per_s));
        // Two random places are on average 8/15 of a square root and 1/3 of the way apart; with
        // the full way that gives two equations for the curve.
        let (single, average, full) = (p.seek_single_us, p.seek_average_us, p.seek_full_us);
        let root = (average - single - (full - single) / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        let linear = full - single - root;
        assert!(root >= 0.0 && linear >= 0.0, "longer ways take longer");
        Self {
            revolution_ns: Nanos::from(p.revolution_us) * 1000,
            outer_bytes,
            inner_bytes,
            tracks: 2.0 * size_bytes as f64 / (outer_bytes + inner_bytes),
            size_bytes,
            single_ns: single * 1e3,
            root_ns: root * 1e3,
            linear_ns: linear * 1e3,
            settle_ns: p.write_settle_us * 1e3,
        }
    }

    /// The place of a byte, also of the one behind the last.
    pub(super) fn place(&self, byte: u64) -> f64 {
        debug_assert!(byte <= self.size_bytes);
        let loss = (self.outer_bytes - self.inner_bytes) / self.tracks;
        let inside = self.outer_bytes * self.outer_bytes - 2.0 * loss * byte as f64;
        (self.outer_bytes - inside.max(0.0).sqrt()) / loss
    }

    /// The byte at a place: the inverse of [`place`](Self::place).
    pub(super) fn byte(&self, place: f64) -> u64 {
        let loss = (self.outer_bytes - self.inner_bytes) / self.tracks;
        let place = place.min(self.tracks);
        let byte = place * (self.outer_bytes - loss * place / 2.0);
        (byte as u64).min(self.size_bytes)
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Moving the heads from one place to the track of another.
    pub(super) fn seek_ns(&self, from: f64, to: f64, write: bool) -> Nanos {
        let tracks = (from.floor() - to.floor()).abs();
        if tracks == 0.0 {
            return 0;
        }
        let part = (tracks / self.tracks).min(1.0);
        let ns = self.single_ns + self.root_ns * part.sqrt() + self.linear_ns * part;
        (ns + if write { self.settle_ns } else { 0.0 }) as Nanos
    }

    /// From `at` until the place passes under the heads.
    pub(super) fn rotation_ns(&self, place: f64, at: Nanos) -> Nanos {
        let angle = (at % self.revolution_ns) as f64 / self.revolution_ns as f64;
        let turn = (place.fract() - angle).rem_euclid(1.0);
        if turn > 1.0 - REVOLUTION_MISSED_LEAST {
            return 0;
        }
        (turn * self.revolution_ns as f64) as Nanos
    }

    /// Passing over everything from one place to another behind it. Rounded down: heads that are a
    /// nanosecond early wait for it, heads that are late wait for a revolution.
    pub(super) fn pass_ns(&self, from: f64, to: f64) -> Nanos {
        debug_assert!(from <= to);
        ((to - from) * self.revolution_ns as f64) as Nanos
    }

    /// How far the heads get from `from` in that time.
    pub(super) fn after(&self, from: f64, ns: Nanos) -> f64 {
        from + ns as f64 / self.revolution_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::class::{DriveClass, Parameters};

    const SIZE_BYTES: u64 = 300_000_000_000;

    fn platter(class: DriveClass, size_bytes: u64) -> Platter {
        match class.parameters() {
            Parameters::Spinning(p) => Platter::new(p, size_bytes),
            Parameters::Flash(_) => panic!("{class:?} has no platters"),
        }
    }

    #[test]
    fn the_outer_half_of_the_tracks_holds_more() {
        let platter = platter(DriveClass::Sas15k, SIZE_BYTES);
        assert_eq!(platter.place(0), 0.0);
        assert!((platter.place(SIZE_BYTES) - platter.tracks).abs() < 1e-3);
        assert!(platter.place(SIZE_BYTES / 2) < 0.46 * platter.tracks);
        assert_eq!(platter.byte(platter.tracks * 2.0), SIZE_BYTES);
    }

    #[test]
    fn streaming_runs_at_the_published_rates_of_both_ends() {
        let platter = platter(DriveClass::NlSas, SIZE_BYTES);
        let mb_per_s = |from: u64| {
            let ns = platter.pass_ns(platter.place(from), platter.place(from + 100_000_000));
            100_000_000.0 * 1e3 / ns as f64
        };
        assert!((mb_per_s(0) - 175.0).abs() < 0.5);
        assert!((mb_per_s(SIZE_BYTES - 100_000_000) - 83.0).abs() < 0.5);
    }

    #[test]
    fn seeks_take_what_was_published() {
        let platter = platter(DriveClass::Sas10k, SIZE_BYTES);
        let ms = |from, to, write| platter.seek_ns(from, to, write) as f64 / 1e6;
        assert_eq!(ms(7.1, 7.9, true), 0.0, "on the track already");
        assert!((ms(7.9, 8.0, false) - 0.2).abs() < 0.02);
        assert!((ms(0.0, platter.tracks, false) - 8.1).abs() < 0.01);
        assert!((ms(0.0, platter.tracks, true) - 8.5).abs() < 0.01);
        // The average over pairs of random tracks, on a grid instead of by chance.
        let (mut sum, steps) = (0.0, 200);
        for from in 0..steps {
            for to in 0..steps {
                let track = |step| platter.tracks * f64::from(step) / f64::from(steps);
                sum += ms(track(from), track(to), false);
            }
        }
        let average = sum / f64::from(steps * steps);
        assert!((average - 4.0).abs() < 0.05, "{average}");
    }

    #[test]
    fn the_next_byte_comes_without_a_wait_and_the_last_one_after_a_turn() {
        let platter = platter(DriveClass::Sas15k, SIZE_BYTES);
        let (start, end) = (platter.place(1 << 20), platter.place((1 << 20) + 4096));
        let begun = 12_345_678 + platter.rotation_ns(start, 12_345_678);
        let done = begun + platter.pass_ns(start, end);
        assert!(platter.rotation_ns(end, done) < 10);
        let again = platter.rotation_ns(start, done);
        assert!((3_900_000..4_000_000).contains(&again), "{again}");
    }

    proptest! {
        #[test]
        fn places_and_bytes_are_inverse(byte in 0..=SIZE_BYTES) {
            let platter = platter(DriveClass::Sas15k, SIZE_BYTES);
            prop_assert!(platter.byte(platter.place(byte)).abs_diff(byte) <= 64);
        }

        #[test]
        fn longer_ways_never_take_less(from in 0.0..1.0f64, to in 0.0..1.0f64) {
            let platter = platter(DriveClass::NlSas, SIZE_BYTES);
            let place = |part: f64| part * platter.tracks;
            let seek = platter.seek_ns(place(from), place(to), false);
            prop_assert!(seek <= platter.seek_ns(0.0, platter.tracks, false));
            prop_assert_eq!(seek, platter.seek_ns(place(to), place(from), false));
        }

        #[test]
        fn nothing_is_more_than_a_revolution_away(place in 0.0..1e6f64, at: u32) {
            let platter = platter(DriveClass::Sas10k, SIZE_BYTES);
            prop_assert!(platter.rotation_ns(place, Nanos::from(at)) < 6_000_000);
        }
    }
}
