use super::*;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use ring::CoreConfig;

/// Syncs that end when the test says so.
#[derive(Clone, Default)]
struct Script(Rc<Steps>);

#[derive(Default)]
struct Steps {
    started: Cell<u32>,
    results: RefCell<Vec<io::Result<()>>>,
}

impl Script {
    fn end_one(&self, result: io::Result<()>) {
        self.0.results.borrow_mut().insert(0, result);
    }
}

impl Syncer for Script {
    async fn sync(&self) -> io::Result<()> {
        self.0.started.set(self.0.started.get() + 1);
        loop {
            if let Some(result) = self.0.results.borrow_mut().pop() {
                return result;
            }
            ring::sleep(Duration::from_micros(50)).await;
        }
    }
}

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&CoreConfig::default(), test).unwrap();
}

#[test]
fn writes_of_one_turn_share_a_sync_and_a_late_one_gets_the_next() {
    on_a_core(async {
        let (commit, script) = (Arc::new(Commit::default()), Script::default());
        let early: Vec<_> = (0..5).map(|at| commit.join(at, || script.clone())).collect();
        ring::sleep(Duration::from_micros(300)).await;
        assert_eq!(script.0.started.get(), 1);
        let mut late = commit.join(9, || script.clone());
        script.end_one(Ok(()));
        for joined in early {
            assert_eq!(joined.await, Ok(()));
        }
        let wait = ring::timeout(Duration::from_micros(300), &mut late).await;
        assert_eq!(wait, None, "the sync that ran already proves nothing for the late write");
        assert_eq!(script.0.started.get(), 2);
        script.end_one(Ok(()));
        assert_eq!(late.await, Ok(()));
        assert!(!commit.state().running, "nobody waits, nobody syncs");
    });
}

#[test]
fn a_failure_is_told_with_its_place_and_then_stays() {
    on_a_core(async {
        let (commit, script) = (Arc::new(Commit::default()), Script::default());
        let first = commit.join(512, || script.clone());
        ring::sleep(Duration::from_micros(300)).await;
        let queued = commit.join(1024, || script.clone());
        script.end_one(Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(first.await, Err(BlockError::Medium { at: 512 }));
        assert_eq!(queued.await, Err(BlockError::LostWrites));
        script.end_one(Ok(()));
        assert_eq!(commit.join(0, || script.clone()).await, Err(BlockError::LostWrites));
        assert_eq!(script.0.started.get(), 1, "no further sync could tell the truth");
    });
}

#[test]
fn an_earlier_success_is_not_taken_back_by_a_later_failure() {
    on_a_core(async {
        let (commit, script) = (Arc::new(Commit::default()), Script::default());
        let good = commit.join(0, || script.clone());
        script.end_one(Ok(()));
        ring::sleep(Duration::from_millis(1)).await;
        let bad = commit.join(0, || script.clone());
        script.end_one(Err(io::Error::from_raw_os_error(libc::ENOSPC)));
        assert_eq!(bad.await, Err(BlockError::NoSpace));
        assert_eq!(good.await, Ok(()));
    });
}

/// Between the end of a turn and the drop of it another core may begin the next one: once in some
/// thousand syncs beside each other that made a healthy file fail for good.
#[test]
fn the_turn_that_ended_leaves_the_next_one_alone() {
    on_a_core(async {
        let (commit, script) = (Arc::new(Commit::default()), Script::default());
        let mut ended = Turn { commit: Arc::clone(&commit), is_over: false };
        let number = ended.start();
        assert!(!ended.finish(number, Ok(())), "nobody wants another one");
        let next = commit.join(0, || script.clone());
        drop(ended);
        script.end_one(Ok(()));
        assert_eq!(next.await, Ok(()));
        assert!(!commit.has_failed());
    });
}

#[test]
fn waiters_of_a_core_that_ends_before_the_first_step_get_an_error() {
    let commit = Arc::new(Commit::default());
    let shared = Arc::clone(&commit);
    on_a_core(async move { drop(shared.join(0, Script::default)) });
    assert!(commit.has_failed(), "the core ended before the sync began");
}

#[test]
fn waiters_of_a_core_that_ends_get_an_error() {
    let commit = Arc::new(Commit::default());
    let shared = Arc::clone(&commit);
    on_a_core(async move {
        drop(shared.join(0, Script::default));
        ring::sleep(Duration::from_micros(300)).await;
    });
    assert!(commit.has_failed(), "the core ended in the middle of a sync");
}
