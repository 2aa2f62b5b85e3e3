//! Sessions come up one by one; a step that is named for a number of them waits until they are there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use initiator::Disk;
use initiator::paths::PathState;

use super::bench::Bench;
use super::{Event, Listener};
use crate::measure::SessionCount;

/// How often it is looked how many there are.
const LOOK: Duration = Duration::from_millis(200);
/// How often it is told.
const TOLD_EVERY: Duration = Duration::from_secs(2);
/// A step begins with those it has when there has been no further one for so long. A target may let one address
/// log in 64 times in two seconds: 4,096 take more than two minutes, and get on all the time.
const PATIENCE: Duration = Duration::from_secs(15);

/// Waits for `asked` sessions over all targets; gives how many there were. Nothing where no number was asked for.
pub(super) async fn wait(
    bench: &Bench,
    asked: Option<u32>,
    listener: &Listener,
) -> Option<SessionCount> {
    let asked = asked?;
    let volumes = bench.volumes();
    let mut disks: Vec<Arc<Disk>> = Vec::new();
    for disk in volumes.iter().filter_map(|volume| volume.disk.as_ref()) {
        if !disks.iter().any(|known| Arc::ptr_eq(known, disk)) {
            disks.push(disk.clone());
        }
    }
    if disks.is_empty() {
        // Connections of NBD exports were all made when they were opened.
        return Some(SessionCount { up: asked, asked });
    }
    let is_all_iscsi = volumes.iter().all(|volume| volume.disk.is_some());
    let is_over = || bench.options().stop.load(Ordering::Relaxed);
    let count = async || {
        let found = counted(&disks).await;
        // Beside exports it is only known how many sessions are there to come up.
        if is_all_iscsi { SessionCount { asked, ..found } } else { found }
    };
    Some(until_up(count, PATIENCE, is_over, listener).await)
}

/// Sessions that work, of all that the disks have.
async fn counted(disks: &[Arc<Disk>]) -> SessionCount {
    let mut found = SessionCount { up: 0, asked: 0 };
    for disk in disks {
        for path in disk.paths().await {
            found.asked += 1;
            found.up += u32::from(is_up(path.status.state));
        }
    }
    found
}

/// One that has come back a moment ago is logged in, and carries I/O where no other does.
fn is_up(state: PathState) -> bool {
    matches!(state, PathState::Active | PathState::Probation { .. })
}

async fn until_up(
    count: impl AsyncFn() -> SessionCount,
    patience: Duration,
    is_over: impl Fn() -> bool,
    listener: &Listener,
) -> SessionCount {
    let (mut most, mut since) = (0, Instant::now());
    let mut told = since;
    loop {
        let found = count().await;
        if found.up > most {
            (most, since) = (found.up, Instant::now());
        }
        if found.up >= found.asked || since.elapsed() >= patience || is_over() {
            return found;
        }
        if told.elapsed() >= TOLD_EVERY {
            told = Instant::now();
            listener(&Event::Sessions(found));
        }
        ring::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use ring::CoreConfig;

    use super::*;

    /// Waits for ten, of which one more is there each time until there are `most`.
    fn waited(most: u32, patience: Duration) -> (SessionCount, Duration, u32) {
        let told = Rc::new(Cell::new(0));
        let noted = told.clone();
        let work = async move {
            let up = Cell::new(0);
            let count = async || {
                up.set((up.get() + 1).min(most));
                SessionCount { up: up.get(), asked: 10 }
            };
            let listener: Listener = Rc::new(move |event| {
                if matches!(event, Event::Sessions(_)) {
                    noted.set(noted.get() + 1);
                }
            });
            let begun = Instant::now();
            (until_up(count, patience, || false, &listener).await, begun.elapsed())
        };
        let (found, took) = ring::block_on(&CoreConfig::default(), work).unwrap();
        (found, took, told.get())
    }

    #[test]
    fn sessions_that_come_one_by_one_are_waited_for() {
        let (found, ..) = waited(10, Duration::from_secs(1));
        assert!(!found.is_short() && found.up == 10, "{found}");
    }

    #[test]
    fn one_that_is_to_prove_itself_is_up() {
        let until = Duration::from_secs(15);
        assert!(is_up(PathState::Active) && is_up(PathState::Probation { until }));
        let down = [PathState::Silent, PathState::Suspended, PathState::Failed, PathState::Retired];
        assert!(!down.into_iter().any(is_up));
    }

    #[test]
    fn those_that_do_not_come_are_told() {
        let (found, took, told) = waited(4, Duration::from_millis(2500));
        assert_eq!(found.to_string(), "only 4 of 10 sessions were up when the step began");
        assert!(found.is_short() && took < Duration::from_secs(6) && told >= 1, "{took:?}");
    }
}
