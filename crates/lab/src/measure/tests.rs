//! Counting, against numbers that are known.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[test]
fn figures_are_those_of_what_was_added() {
    let mut pair = Pair::new(3);
    for n in 1..=1000 {
        pair.of(n % 2 == 0).add(4096, Duration::from_micros(n));
    }
    let both = Figures::of_both(&pair, 2.0);
    assert_eq!(both.ios, 1000);
    assert!((both.iops - 500.0).abs() < 1e-9 && (both.mb_per_s - 2.048).abs() < 1e-9);
    for (found, expected) in [
        (both.mean_us, 500.5),
        (both.p50_us, 500.0),
        (both.p90_us, 900.0),
        (both.p99_us, 990.0),
        (both.p999_us, 999.0),
        (both.max_us, 1000.0),
    ] {
        assert!((found / expected - 1.0).abs() < 0.002, "{found} for {expected}");
    }
    assert_eq!(Figures::of(&pair.read, 2.0).ios, 500);
    assert_eq!(Figures::of(&Counter::new(2), 2.0), Figures::default());
}

/// I/Os that end after a step was ended early are no part of its depth.
#[test]
fn the_depth_of_a_step_that_is_cut_is_of_its_time() {
    let start = Instant::now();
    let mut tally = Tally::new(1, ms(500), start, start + ms(1000));
    tally.begin(0, start);
    let end = start + ms(100);
    tally.cut(end);
    let (bytes, latency) = (512, ms(200));
    let done =
        Done { volume: 0, bytes, is_read: true, latency, failed: false, counts: Counts::Latency };
    tally.end(&done, start + latency);
    assert!((tally.mean_depth(ms(100), end) - 1.0).abs() < 1e-6);
}

#[test]
fn a_stall_is_a_time_in_which_nothing_ends() {
    let start = Instant::now();
    let mut stalls = Stalls::new(2, ms(500), start);
    stalls.begin(0, start + ms(100));
    stalls.begin(0, start + ms(100));
    stalls.end(0, false, start + ms(200));
    // An end with an error is no end of the stall.
    stalls.end(0, true, start + ms(600));
    stalls.begin(0, start + ms(600));
    stalls.end(0, false, start + ms(900));
    // Without I/O there is no stall, however long.
    stalls.begin(0, start + ms(5000));
    stalls.end(0, false, start + ms(5010));
    stalls.begin(1, start + ms(6000));
    let (found, longest) = stalls.finish(start + ms(7000));
    let of = |volume, at, length| stall::Found {
        volume,
        pause: Pause { at: ms(at), length: ms(length) },
    };
    assert_eq!(found, [of(0, 200, 700), of(1, 6000, 1000)]);
    assert_eq!(longest.length, ms(1000));
}

/// A target that goes and does not come back: the I/O of its last moments fails after the step.
#[test]
fn a_stall_that_ends_in_errors_counts_until_the_end() {
    let start = Instant::now();
    let mut stalls = Stalls::new(2, ms(500), start);
    stalls.begin(0, start + ms(100));
    stalls.end(0, true, start + ms(2000));
    // A thread alone tries again and again: each time it is the only I/O.
    stalls.begin(1, start);
    stalls.end(1, false, start + ms(1000));
    for at in [1000, 1200, 1400, 1600] {
        stalls.begin(1, start + ms(at));
        stalls.end(1, true, start + ms(at + 100));
    }
    let (found, longest) = stalls.finish(start + ms(2000));
    let of = |volume, at, length| stall::Found {
        volume,
        pause: Pause { at: ms(at), length: ms(length) },
    };
    assert_eq!(found, [of(1, 0, 1000), of(0, 100, 1900), of(1, 1000, 1000)]);
    assert_eq!(longest.length, ms(1900));
}

#[test]
fn the_mean_depth_is_weighed_by_time() {
    let start = Instant::now();
    let mut tally = Tally::new(1, ms(500), start, start + ms(2000));
    let counts = Counts::All;
    let done = Done { volume: 0, bytes: 1, is_read: true, latency: ms(1), failed: false, counts };
    tally.begin(0, start);
    tally.begin(0, start + ms(500));
    tally.end(&done, start + ms(1000));
    tally.end(&done, start + ms(1000));
    let depth = tally.mean_depth(ms(2000), start + ms(2000));
    assert!((depth - 0.75).abs() < 1e-9, "{depth}");
    assert_eq!(tally.total.read.ios, 2);
}
