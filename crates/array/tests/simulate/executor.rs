//! Runs the tasks of a simulated machine on this thread, in an order that the seed decides.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use array::{Env, Task};

use crate::env::SimEnv;

/// Polls that one boot may take: a history that needs more is stuck in a loop.
const STEPS_MAX: u64 = 2_000_000;
/// Virtual time that one boot may take: more, and it waits for what never comes.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

thread_local! {
    static TASKS: RefCell<Tasks> = const {
        RefCell::new(Tasks { waiting: BTreeMap::new(), next: 1 })
    };
}

struct Tasks {
    /// Those that are not being polled at this moment.
    waiting: BTreeMap<u64, Task>,
    /// Numbers are never used again, so a waker of a former boot wakes nobody.
    next: u64,
}

/// The numbers of the tasks that can go on, without order: the executor draws one.
#[derive(Debug, Default)]
pub(crate) struct Ready(Mutex<(Vec<u64>, BTreeSet<u64>)>);

impl Ready {
    fn add(&self, task: u64) {
        let mut ready = self.0.lock().expect("nothing panics while it holds the queue");
        if ready.1.insert(task) {
            ready.0.push(task);
        }
    }

    fn draw(&self, env: &SimEnv) -> Option<u64> {
        let mut ready = self.0.lock().expect("nothing panics while it holds the queue");
        if ready.0.is_empty() {
            return None;
        }
        let at = env.order().index(ready.0.len());
        let task = ready.0.swap_remove(at);
        ready.1.remove(&task);
        Some(task)
    }

    fn clear(&self) {
        *self.0.lock().expect("nothing panics while it holds the queue") = Default::default();
    }
}

struct WakeTask {
    task: u64,
    ready: Arc<Ready>,
}

impl Wake for WakeTask {
    fn wake(self: Arc<Self>) {
        self.ready.add(self.task);
    }
}

/// Adds a task, ready to run.
pub(crate) fn spawn(env: &SimEnv, task: Task) {
    let number = TASKS.with(|tasks| {
        let mut tasks = tasks.borrow_mut();
        let number = tasks.next;
        tasks.next += 1;
        tasks.waiting.insert(number, task);
        number
    });
    env.ready().add(number);
}

/// How a boot ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended<T> {
    /// Its main future did.
    Done(T),
    /// The power went.
    Cut,
}

/// The future that the boot is about; the machine's other tasks go when it goes.
struct Machine<'a, F> {
    env: &'a SimEnv,
    main: Option<Pin<Box<F>>>,
}

impl<F> Drop for Machine<'_, F> {
    /// Drops every task without letting it do anything any more.
    fn drop(&mut self) {
        self.env.set_dead(true);
        let waiting = TASKS.with(|tasks| std::mem::take(&mut tasks.borrow_mut().waiting));
        if std::thread::panicking() {
            // A half-done task may need locks that are poisoned now, and a second panic would
            // end the process: the tasks of a failed history are leaked.
            std::mem::forget((waiting, self.main.take()));
        } else {
            drop((waiting, self.main.take()));
        }
        self.env.ready().clear();
        self.env.stop_timers();
        self.env.set_dead(false);
    }
}

impl SimEnv {
    /// Runs `main` and all that it spawns until it ends, or until `steps` polls are done: then
    /// the power is cut. Either way no task of it is left, and time stands still.
    ///
    /// # Panics
    /// When all tasks wait and nothing can wake them, and when it takes too long.
    pub(crate) fn boot<T>(
        &self,
        steps: Option<u64>,
        main: impl Future<Output = T>,
    ) -> (Ended<T>, u64) {
        let number = TASKS.with(|tasks| {
            let mut tasks = tasks.borrow_mut();
            assert!(tasks.waiting.is_empty(), "one machine at a time runs on a thread");
            tasks.next += 1;
            tasks.next - 1
        });
        let mut machine = Machine { env: self, main: Some(Box::pin(main)) };
        self.ready().add(number);
        let end = self.now() + TIME_MAX;
        for step in 0..steps.unwrap_or(STEPS_MAX) {
            assert!(self.now() < end, "seed {}: a day has passed without an end", self.seed());
            if self.is_cut() {
                self.note("power cut at a telling moment");
                return (Ended::Cut, step);
            }
            let task = self.next_task();
            if task != number {
                self.poll_task(task);
                continue;
            }
            let waker = Waker::from(Arc::new(WakeTask { task, ready: self.ready().clone() }));
            let main = machine.main.as_mut().expect("it is taken only by its drop");
            if let Poll::Ready(result) = main.as_mut().poll(&mut Context::from_waker(&waker)) {
                return (Ended::Done(result), step + 1);
            }
        }
        assert!(steps.is_some(), "seed {}: no end after {STEPS_MAX} steps", self.seed());
        self.note("power cut");
        (Ended::Cut, steps.unwrap_or(0))
    }

    /// Draws a task that can run; lets time pass if there is none.
    fn next_task(&self) -> u64 {
        // Each step costs a little time, so that work and deadlines overtake each other.
        self.pass(Duration::from_nanos(self.order().below(2000)));
        loop {
            if let Some(task) = self.ready().draw(self) {
                return task;
            }
            assert!(
                self.skip(),
                "seed {}: deadlock at {:?}: every task waits, and for no timer",
                self.seed(),
                self.now()
            );
        }
    }

    fn poll_task(&self, number: u64) {
        // A task may be woken after its end.
        let task = TASKS.with(|tasks| tasks.borrow_mut().waiting.remove(&number));
        let Some(mut task) = task else { return };
        let waker = Waker::from(Arc::new(WakeTask { task: number, ready: self.ready().clone() }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            TASKS.with(|tasks| tasks.borrow_mut().waiting.insert(number, task));
        }
    }
}

/// Runs a whole history on one boot.
#[cfg(test)]
pub(crate) fn run<T, F: Future<Output = T>>(seed: u64, main: impl FnOnce(SimEnv) -> F) -> T {
    let env = SimEnv::new(seed, false);
    match env.boot(None, main(env.clone())) {
        (Ended::Done(result), _) => result,
        (Ended::Cut, _) => unreachable!("no cut was asked for"),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::rc::Rc;

    use super::*;

    /// Several tasks that sleep and draw numbers; the digest of what they noted.
    fn history(seed: u64) -> u64 {
        run(seed, |env| async move {
            for task in 0..5 {
                let inner = env.clone();
                env.spawn(Box::pin(async move {
                    for _ in 0..20 {
                        let time = Duration::from_micros(inner.random() % 100);
                        inner.sleep(time).await;
                        inner.note(format!("task {task}"));
                    }
                }));
            }
            env.sleep(Duration::from_millis(20)).await;
            env.trace().digest()
        })
    }

    #[test]
    fn one_seed_is_one_history() {
        assert_eq!(history(1), history(1));
        assert_ne!(history(1), history(2));
    }

    #[test]
    fn sleeps_end_in_the_order_of_their_deadlines_and_never_early() {
        run(3, |env| async move {
            let ended = Rc::new(RefCell::new(Vec::new()));
            for millis in [30, 10, 20] {
                let (inner, ended) = (env.clone(), Rc::clone(&ended));
                env.spawn(Box::pin(async move {
                    let begun = inner.now();
                    inner.sleep(Duration::from_millis(millis)).await;
                    assert!(inner.now() - begun >= Duration::from_millis(millis));
                    ended.borrow_mut().push(millis);
                }));
            }
            env.sleep(Duration::from_secs(1)).await;
            assert_eq!(*ended.borrow(), [10, 20, 30]);
        });
    }

    #[test]
    fn ready_tasks_run_in_more_than_one_order() {
        let order = |seed| {
            run(seed, |env| async move {
                let order = Rc::new(RefCell::new(String::new()));
                for name in ['a', 'b', 'c'] {
                    let order = Rc::clone(&order);
                    env.spawn(Box::pin(async move { order.borrow_mut().push(name) }));
                }
                env.sleep(Duration::from_secs(1)).await;
                order.take()
            })
        };
        let orders: BTreeSet<_> = (0..60).map(order).collect();
        assert_eq!(orders.len(), 6, "{orders:?}");
    }

    #[test]
    #[should_panic(expected = "seed 7: deadlock")]
    fn a_deadlock_is_a_failure() {
        run(7, |_| pending::<()>());
    }

    #[test]
    #[should_panic(expected = "a day has passed")]
    fn waiting_for_ever_is_a_failure() {
        run(8, |env| async move {
            loop {
                env.sleep(Duration::from_secs(60)).await;
            }
        });
    }

    #[test]
    fn a_cut_ends_every_task_at_once() {
        let env = SimEnv::new(4, false);
        let alive = Rc::new(());
        let task = Rc::clone(&alive);
        let inner = env.clone();
        let (ended, steps) = env.boot(Some(10), async move {
            let inner2 = inner.clone();
            inner.spawn(Box::pin(async move {
                loop {
                    inner2.sleep(Duration::from_micros(1)).await;
                    assert_eq!(Rc::strong_count(&task), 2);
                }
            }));
            pending::<()>().await;
        });
        assert_eq!((ended, steps), (Ended::Cut, 10));
        assert_eq!(Rc::strong_count(&alive), 1, "the task and what it held are gone");
        let (ended, _) = env.boot(None, async { 5 });
        assert_eq!(ended, Ended::Done(5), "the next boot starts afresh");
    }

    #[test]
    fn a_waker_may_come_from_another_thread_and_may_come_late() {
        run(5, |env| async move {
            let mut polls = 0;
            poll_fn(|cx| {
                polls += 1;
                let waker = cx.waker().clone();
                std::thread::spawn(move || waker.wake()).join().unwrap();
                if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            env.spawn(Box::pin(poll_fn(|cx| {
                // Woken once more than it needs.
                cx.waker().wake_by_ref();
                Poll::Ready(())
            })));
            env.sleep(Duration::from_millis(1)).await;
        });
    }
}
