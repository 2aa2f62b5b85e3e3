//! CPU time of this process and of others.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The unit of /proc/PID/stat: USER_HZ, 100 on every Linux ABI that this runs on.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of this process.
#[must_use]
pub fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Another process, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessCpu(pub u32);

impl ProcessCpu {
    /// Its user and system time, with that of all its threads; `None` when it has gone.
    #[must_use]
    pub fn time(self) -> Option<Duration> {
        parse(&fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?)
    }
}

fn parse(stat: &str) -> Option<Duration> {
    // The name in brackets may contain anything; fields 14 and 15 are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u32 =
        fields.get(11)?.parse::<u32>().ok()?.checked_add(fields.get(12)?.parse().ok()?)?;
    Some(TICK * ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_no_harm() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1 0 1 2 3";
        assert_eq!(parse(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn our_own_time_grows_as_the_kernel_says() {
        let (before, seen_before) = (own_cpu(), ProcessCpu(std::process::id()).time().unwrap());
        let mut sum = 0_u64;
        while own_cpu() - before < Duration::from_millis(100) {
            sum = sum.wrapping_mul(31).wrapping_add(7);
        }
        std::hint::black_box(sum);
        let seen = ProcessCpu(std::process::id()).time().unwrap() - seen_before;
        assert!(seen >= Duration::from_millis(70), "{seen:?}");
        assert_eq!(ProcessCpu(u32::MAX).time(), None);
    }
}
