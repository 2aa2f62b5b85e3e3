//! How often a member may say what it serves. All of it is written again for each word, what was said before stays in
//! the store for a while, and the room there is that of all members.

use std::time::Duration;

use super::MEMBERS_MAX;
use crate::store::{DATA_BYTES_MAX, HISTORY_SECONDS};

/// What each member may write: as many as there can be, all the time, take half of the room. What is compacted is as old
/// as the history is long, and twice that before the next time.
const BYTES_PER_SECOND: u64 = DATA_BYTES_MAX / 2 / (2 * HISTORY_SECONDS) / MEMBERS_MAX as u64;

/// The least time between two words of so many bytes of one member that says something new all the time.
#[must_use]
pub fn pause_behind(bytes: usize) -> Duration {
    Duration::from_millis(bytes as u64 * 1000 / BYTES_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::TRANSACTION_BYTES_MAX;

    #[test]
    fn members_that_have_something_new_all_the_time_leave_half_of_the_room() {
        for bytes in [1024, 300 << 10, TRANSACTION_BYTES_MAX] {
            let pause = pause_behind(bytes);
            let words = Duration::from_secs(2 * HISTORY_SECONDS).div_duration_f64(pause).max(1.0);
            let kept = words * bytes as f64 * MEMBERS_MAX as f64;
            assert!(kept < DATA_BYTES_MAX as f64 / 1.9, "{bytes}: {kept}");
        }
        assert!(pause_behind(64 << 10) < Duration::from_secs(3), "few volumes are told of soon");
        assert!(pause_behind(TRANSACTION_BYTES_MAX) < Duration::from_secs(60));
    }
}
