//! How often it is looked, and the clock on the wall.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Between two looks at the log, and at what is set.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn now_unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
