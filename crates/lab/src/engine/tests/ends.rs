//! What counts when a step ends: work that runs out, and I/Os that wait.

use super::*;

/// 50 I/Os of 4 ms, one after the other, take 200 ms; the clock of the step looks much less often.
#[test]
fn rates_are_those_of_the_time_in_which_there_was_work() {
    let took = Duration::from_millis(4);
    let disk = Arc::new(TimedDisk::new(ram(1 << 20), took));
    let script = job("--rw=read --bs=4k --size=200k --iodepth=1");
    let step = run_on(script, vec![disk.clone()], options()).remove(0);
    let worked = disk.took().iter().sum::<Duration>().as_secs_f64();
    assert_eq!(step.total.ios, 50);
    assert_near(step.seconds, worked, 0.02, "seconds");
    assert_near(step.total.iops, 50.0 / worked, 0.02, "IOPS");
    assert_near(step.mean_queue_depth, 1.0, 0.02, "depth");
    let parts: f64 = step.intervals.iter().map(|interval| interval.seconds).sum();
    assert_near(parts, step.seconds, 0.001, "the intervals");
}

/// Ten I/Os at 50 a second are work for 200 ms, although the last one ends after 180.
#[test]
fn at_a_rate_the_last_io_has_its_turn() {
    let script = job("--rw=read --bs=4k --size=40k --iodepth=2 --rate_iops=50");
    let step = run_on(script, vec![ram(1 << 20)], options()).remove(0);
    assert_eq!(step.total.ios, 10);
    assert_near(step.total.iops, 50.0, 0.02, "IOPS");
}
