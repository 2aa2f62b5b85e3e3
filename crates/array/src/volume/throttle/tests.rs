use super::*;

const MS: Duration = Duration::from_millis(1);
const LIMIT: u64 = 10_000;

fn at(percent: u64) -> Fill {
    Fill { used: LIMIT * percent / 100, limit: LIMIT }
}

/// A checkpoint of 1,000 clusters that began at 0, with what those before took.
fn running(per_cluster: Duration, ending: Duration) -> Pace {
    let (began, moved) = (Duration::ZERO, Duration::ZERO);
    let running = Progress { began, placing: None, clusters: 1000, done: 0, moved, placed: None };
    Pace { running: Some(running), per_cluster, ending, last: Duration::ZERO }
}

fn left(pace: &Pace, now: Duration) -> Duration {
    pace.time_left(pace.running.as_ref().expect("it runs"), now)
}

#[test]
fn nobody_waits_below_the_knee_and_the_delay_grows_without_a_jump() {
    let left = Duration::from_secs(1);
    for percent in 0..=KNEE_PERCENT {
        assert_eq!(delay(at(percent), 1, left), Duration::ZERO, "at {percent} %");
    }
    let of = |used| delay(Fill { used, limit: LIMIT }, 1, left);
    let mut before = Duration::ZERO;
    for used in LIMIT * KNEE_PERCENT / 100..LIMIT * 90 / 100 {
        let now = of(used);
        assert!(now >= before, "it does not shrink at {used}");
        assert!(now - before <= 2 * MS / 1000 + before / 100, "{before:?} to {now:?} at {used}");
        before = now;
    }
    // In full: the room of 94 - 55 % over the second that is left.
    assert_eq!(of(LIMIT * FULL_PERCENT / 100), left / 3900);
}

#[test]
fn a_delay_follows_the_blocks_and_the_time_left_up_to_its_limit() {
    let base = delay(at(84), 1, 100 * MS);
    assert_eq!(delay(at(84), 1, 200 * MS), base * 2);
    assert_eq!(delay(at(84), 16, 100 * MS), base * 16);
    assert_eq!(delay(at(84), 1, Duration::ZERO), Duration::ZERO);
    assert_eq!(delay(at(100), 1, 1000 * MS), DELAY_MAX);
    assert_eq!(delay(at(120), 257, Duration::MAX), DELAY_MAX, "no sum overflows");
    assert_eq!(delay(Fill { used: 0, limit: 0 }, 1, MS), Duration::ZERO);
}

#[test]
fn writers_that_never_pause_leave_room_until_a_checkpoint_has_ended() {
    let clusters = 1000;
    for (milliseconds, former) in
        [(500, 1), (500, 0), (5_000, 5), (5_000, 1), (20_000, 10), (90_000, 12), (90_000, 60)]
    {
        let mut pace = running(former * MS, 20 * MS);
        let (mut used, mut now, mut longest) = (LIMIT * 46 / 100, Duration::ZERO, Duration::ZERO);
        let (took, end) = (milliseconds * MS, milliseconds * MS + 20 * MS);
        while now < end {
            let fill = Fill { used, limit: LIMIT };
            match pace.pass(now, fill, 1) {
                // By itself a write would take a hundredth of a millisecond.
                Ok(()) => (used, now) = (used + 1, now + MS / 100),
                Err(wait) => (now, longest) = (now + wait, longest.max(wait)),
            }
            let done = (now.as_micros() * clusters / took.as_micros()).min(clusters) as u64;
            let progress = pace.running.as_mut().expect("it runs");
            if done / 64 * 64 > progress.done {
                (progress.done, progress.moved) = (done / 64 * 64, now);
            }
            if now >= took && progress.placed.is_none() {
                pace.placed(now);
            }
        }
        let percent = used * 100 / LIMIT;
        assert!(percent < 99, "{took:?} after {former} ms a cluster: {percent} %");
        assert!(longest <= BLOCK_DELAY_MAX, "{took:?}: {longest:?}");
    }
}

/// Disks that do not answer keep a checkpoint from its end for minutes: hosts that write little go on meanwhile.
#[test]
fn a_checkpoint_that_stands_still_delays_hosts_less() {
    let mut pace = running(100 * MS, MS);
    pace.last = Duration::ZERO;
    assert_eq!(pace.pass(MS, at(90), 1), Err(BLOCK_DELAY_MAX - MS), "it may get on");
    assert_eq!(pace.pass(MS, at(90), 2), Err(2 * BLOCK_DELAY_MAX - MS));
    assert_eq!(pace.pass(MS, at(90), 128), Err(DELAY_MAX - MS), "whatever the blocks");
    pace.last = STILL;
    assert_eq!(pace.pass(STILL, at(90), 1), Err(STILL_DELAY_MAX));
    assert_eq!(pace.pass(STILL, at(90), 128), Err(STILL_DELAY_MAX));
    pace.running.as_mut().unwrap().moved = STILL;
    assert_eq!(pace.pass(STILL, at(90), 1), Err(BLOCK_DELAY_MAX), "it has got on");
}

#[test]
fn the_time_left_is_what_was_measured_first_and_what_is_seen_later() {
    let mut pace = running(MS, 10 * MS);
    assert_eq!(left(&pace, Duration::ZERO), 1020 * MS);
    // Twice as slow as those before: it shows more and more.
    let mut before = Duration::ZERO;
    for done in [200, 400, 600, 800u32] {
        pace.running.as_mut().unwrap().done = done.into();
        let whole = left(&pace, done * 2 * MS) * 1000 / (1000 - done);
        assert!(whole > before && whole < 2100 * MS, "{whole:?} of {done}");
        before = whole;
    }
    // One that stands still is expected later and later, and so is its end.
    assert!(left(&pace, 60_000 * MS) > left(&pace, 6_000 * MS));
    pace.placed(2000 * MS);
    assert_eq!(left(&pace, 2004 * MS), 16 * MS);
    assert_eq!(left(&pace, 2400 * MS), 200 * MS);
    pace.end(2030 * MS);
    assert_eq!(pace.ending, 20 * MS, "half of it is new");
    assert!(pace.pass(2030 * MS, at(99), 1).is_ok(), "no checkpoint runs");
}

#[test]
fn a_first_checkpoint_is_measured_by_itself() {
    let mut pace = running(Duration::ZERO, Duration::ZERO);
    assert_eq!(left(&pace, Duration::ZERO), Duration::ZERO, "nothing is known");
    pace.running.as_mut().unwrap().done = 128;
    let known = left(&pace, 128 * MS);
    assert!(known > 500 * MS && known <= 872 * MS, "{known:?}");
}

/// A checkpoint with hardly anything, and one that a disk held up, say little of the next one.
#[test]
fn small_and_slow_checkpoints_do_not_make_the_next_ones_slow() {
    let mut pace = running(MS, 10 * MS);
    pace.running.as_mut().unwrap().done = 5;
    pace.placed(60_000 * MS);
    pace.end(60_100 * MS);
    assert_eq!((pace.per_cluster, pace.ending), (MS, 10 * MS));
    let mut pace = Pace { running: running(MS, 10 * MS).running, ..pace };
    pace.running.as_mut().unwrap().done = 1000;
    pace.placed(120_000 * MS);
    pace.end(120_500 * MS);
    assert_eq!((pace.per_cluster, pace.ending), (MS * 5 / 2, 25 * MS));
    // Nothing is done yet, since a disk does not answer: that is not eight times as long for all the others.
    let hung = running(MS, 10 * MS);
    assert_eq!(left(&hung, 60_000 * MS), 61_020 * MS);
}

#[test]
fn late_timers_cost_nothing_and_a_pause_is_not_made_up_for() {
    let mut pace = running(MS, Duration::ZERO);
    let gap = delay(at(75), 1, left(&pace, Duration::ZERO));
    pace.last = 5 * MS;
    assert!(pace.pass(5 * MS, at(75), 1).is_err());
    assert!(pace.pass(5 * MS + gap + MS / 2, at(75), 1).is_ok());
    assert!(pace.last < 5 * MS + 2 * gap, "it counts as gone when it was to go");
    assert!(pace.pass(90 * MS, at(75), 1).is_ok());
    assert_eq!(pace.last, 89 * MS, "a millisecond at most");
}
