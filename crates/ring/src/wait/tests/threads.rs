//! What waits for other threads.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::now;
use crate::wait::{SharedBell, Turn, oneshot};

/// Longer than anything here takes.
const TOO_LONG: Duration = Duration::from_secs(30);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread, which sleeps until it is woken.
fn run<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park_timeout(TOO_LONG);
        assert!(begun.elapsed() < TOO_LONG, "a wake-up was lost");
    }
}

#[test]
fn threads_have_a_turn_one_at_a_time_whoever_gives_up() {
    let (turn, is_taken) = (Turn::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (turn, is_taken) = (&turn, &is_taken);
            scope.spawn(move || {
                for round in 0..500 {
                    if (round + thread) % 3 == 0 {
                        // Asked for, and given up: maybe just when it is handed over.
                        drop(now(turn.take()));
                        continue;
                    }
                    let guard = run(turn.take());
                    assert!(!is_taken.swap(true, Ordering::Relaxed), "two have it");
                    thread::yield_now();
                    is_taken.store(false, Ordering::Relaxed);
                    drop(guard);
                }
            });
        }
    });
    assert_eq!(turn.held(), None);
}

#[test]
fn each_ring_of_another_thread_is_heard() {
    const RINGS: u64 = 2000;
    let (bell, count) = (SharedBell::default(), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            let (bell, count) = (&bell, &count);
            scope.spawn(move || {
                let mut seen = 0;
                while seen < RINGS {
                    let mark = bell.mark();
                    let before = seen;
                    seen = count.load(Ordering::Relaxed);
                    if seen == before {
                        // A waiter that goes takes nothing along.
                        let _gone = now(bell.after(mark));
                        run(bell.after(mark));
                    }
                }
            });
        }
        for _ in 0..RINGS {
            count.fetch_add(1, Ordering::Relaxed);
            bell.ring();
            thread::yield_now();
        }
    });
}

#[test]
fn a_value_of_another_thread_arrives() {
    for round in 0..500 {
        let (sender, receiver) = oneshot();
        let sending = thread::spawn(move || sender.send(round));
        assert_eq!(run(receiver), Some(round));
        sending.join().unwrap();
    }
}
