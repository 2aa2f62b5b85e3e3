use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::*;
use crate::Task;

/// A clock that a test sets.
#[derive(Debug, Default, Clone)]
struct Clock(Arc<Mutex<Duration>>);

impl Clock {
    fn set(&self, millis: u64) {
        *self.0.lock().unwrap() = Duration::from_millis(millis);
    }
}

impl Env for Clock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap()
    }

    fn unix_seconds(&self) -> u64 {
        0
    }

    fn sleep(&self, time: Duration) -> Task {
        let (clock, end) = (self.clone(), self.now() + time);
        Box::pin(poll_fn(move |_| match clock.now() >= end {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }))
    }

    fn spawn(&self, _: Task) {
        unreachable!("holds have no tasks of their own");
    }

    fn random(&self) -> u64 {
        0
    }
}

/// Whether it was woken.
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const V: VersionId = VersionId(1);
const OTHER: VersionId = VersionId(2);

fn hold(holds: &Holds, volumes: &[VersionId], millis: u64) -> u64 {
    holds.begin(volumes.iter().copied().collect(), Duration::from_millis(millis))
}

fn is_done(future: &mut Pin<Box<impl Future<Output = ()> + ?Sized>>) -> bool {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A change, which is done as soon as it may begin.
fn change<'a>(holds: &'a Holds, clock: &'a Clock) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(holds.pass(clock, V))
}

#[test]
fn changes_wait_and_all_of_them_go_when_the_hold_ends() {
    let (holds, clock) = (Holds::default(), Clock::default());
    assert!(!holds.is_any());
    let number = hold(&holds, &[V], 100);
    let mut all: Vec<_> = (0..3).map(|_| change(&holds, &clock)).collect();
    assert!(all.iter_mut().all(|change| !is_done(change)) && holds.is_any());
    holds.end(number);
    assert!(!holds.is_any(), "nobody has to look any more");
    // None waits for another one.
    all.reverse();
    assert!(all.iter_mut().all(is_done));
    assert!(is_done(&mut change(&holds, &clock)));
}

#[test]
fn those_that_wait_are_woken() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let ends: [fn(&Holds, u64); 2] = [Holds::end, |holds, _| holds.end_all()];
    for end in ends {
        let number = hold(&holds, &[V], 100);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut waiting = change(&holds, &clock);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert!(!woken.0.load(Ordering::Relaxed));
        end(&holds, number);
        assert!(woken.0.load(Ordering::Relaxed));
    }
}

#[test]
fn writers_that_never_pause_leave_no_hold_behind() {
    for is_dropped in [true, false] {
        let (holds, clock, written) = (Holds::default(), Clock::default(), Cell::new(0));
        // Each writes again as soon as it has its answer.
        let writer = || -> Pin<Box<dyn Future<Output = ()>>> {
            Box::pin(async {
                loop {
                    if holds.is_any() {
                        holds.pass(&clock, V).await;
                    }
                    written.set(written.get() + 1);
                    let mut is_answered = false;
                    poll_fn(|_| match std::mem::replace(&mut is_answered, true) {
                        true => Poll::Ready(()),
                        false => Poll::Pending,
                    })
                    .await;
                }
            })
        };
        let mut writers: Vec<_> = (0..5).map(|_| writer()).collect();
        let mut turn = || {
            let before = written.get();
            assert!(writers.iter_mut().all(|writer| !is_done(writer)));
            written.get() - before
        };
        assert_eq!(turn(), 5);
        let number = hold(&holds, &[V], 100);
        assert_eq!((turn(), turn(), holds.is_any()), (0, 0, true));
        // By its owner, or by its time, of which nobody but the writers learns.
        match is_dropped {
            true => holds.end(number),
            false => clock.set(100),
        }
        assert_eq!((turn(), holds.is_any()), (5, false));
        assert_eq!(turn(), 5);
        assert!(!holds.is_any());
    }
}

#[test]
fn who_gives_up_leaves_nothing_behind() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let number = hold(&holds, &[V], 100);
    let (mut first, mut second) = (change(&holds, &clock), change(&holds, &clock));
    assert!(!is_done(&mut first) && !is_done(&mut second));
    drop(first);
    holds.end(number);
    assert!(is_done(&mut second) && !holds.is_any());
}

#[test]
fn a_hold_ends_by_itself() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let number = hold(&holds, &[V], 100);
    let mut waiting = change(&holds, &clock);
    assert!(!is_done(&mut waiting));
    clock.set(99);
    assert!(!is_done(&mut waiting) && holds.is_in_force(number, clock.now()));
    assert!(holds.is_held(V, clock.now()));
    clock.set(100);
    assert!(holds.is_any() && is_done(&mut waiting));
    assert!(!holds.is_any(), "somebody has looked");
    assert!(!holds.is_in_force(number, clock.now()) && !holds.is_held(V, clock.now()));
    // Also for a clock that goes back.
    clock.set(50);
    assert!(!holds.is_in_force(number, clock.now()) && !holds.covers(number, &[V], clock.now()));
    holds.end(number);
}

#[test]
fn each_hold_of_a_volume_counts_but_for_later_ones() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let (first, second) = (hold(&holds, &[V], 100), hold(&holds, &[V, OTHER], 200));
    let mut early = change(&holds, &clock);
    assert!(!is_done(&mut early));
    holds.end(second);
    assert!(!is_done(&mut early), "the other one counts");
    // It was there before this one.
    let third = hold(&holds, &[V], 300);
    let mut late = change(&holds, &clock);
    assert!(!is_done(&mut late));
    holds.end(first);
    assert!(is_done(&mut early) && !is_done(&mut late));
    holds.end(third);
    assert!(is_done(&mut late));
}

#[test]
fn a_hold_is_of_its_volumes_alone() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let number = hold(&holds, &[OTHER], 100);
    assert!(holds.is_any());
    assert!(is_done(&mut change(&holds, &clock)));
    let now = clock.now();
    assert!(holds.covers(number, &[OTHER], now) && !holds.covers(number, &[OTHER, V], now));
    assert!(holds.is_held(OTHER, now) && !holds.is_held(V, now));
    assert!(!holds.covers(number + 1, &[OTHER], now));
}

#[test]
fn an_array_that_stops_ends_all() {
    let (holds, clock) = (Holds::default(), Clock::default());
    let number = hold(&holds, &[V], 100);
    let mut waiting = change(&holds, &clock);
    assert!(!is_done(&mut waiting));
    holds.end_all();
    assert!(is_done(&mut waiting) && !holds.is_in_force(number, clock.now()));
    assert!(!holds.is_any());
}
