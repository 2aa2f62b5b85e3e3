//! What a reader must know about the machine to judge the numbers.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Facts of one machine at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    /// UTC, to the minute.
    pub(crate) date: String,
    /// Model of the processor.
    pub(crate) cpu: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Congestion control, and how it came about.
    pub(crate) congestion: String,
    /// Memory in GiB.
    pub(crate) memory_gib: f64,
}

impl Facts {
    /// Looks around.
    pub(crate) fn gather(congestion: &str) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let seconds =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            date: utc(seconds),
            cpu: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: release.trim().to_owned(),
            congestion: congestion.to_owned(),
            memory_gib: field(&meminfo, "MemTotal")
                .and_then(|text| text.trim_end_matches(" kB").parse::<f64>().ok())
                .map_or(0.0, |kib| kib / (1 << 20) as f64),
        }
    }
}

/// The first `name: value` of a /proc file.
pub(super) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

/// `2026-11-21 07:42 UTC` from seconds since 1970 (Howard Hinnant's civil-from-days, for days
/// after 1970).
pub(super) fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second % 3600 / 60)
}
