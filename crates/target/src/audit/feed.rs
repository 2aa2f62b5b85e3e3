//! The queue between the cores and the listener.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use super::flood::{Flood, Verdict};
use super::{AccessEvent, AccessListener, Happened, Missed};

/// Events that wait for the listener; more are counted.
pub(super) const QUEUE_LEN_MAX: usize = 4096;

/// How long the end of a server waits for its listener to hear the rest.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Takes events from all cores. Without a listener it drops them.
#[derive(Debug, Default)]
pub(crate) struct Feed(Option<Arc<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// Something came, or it ends.
    came: Condvar,
    /// The listener has heard all there was, after the end.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<AccessEvent>,
    missed: Missed,
    flood: Flood,
    /// Changes of write protection.
    protections: Flood,
    ends: bool,
    is_done: bool,
}

impl State {
    fn push(&mut self, what: Happened) {
        if self.events.len() >= QUEUE_LEN_MAX {
            self.missed.add(&what);
            return;
        }
        self.events.push_back(AccessEvent { at: SystemTime::now(), what });
    }

    /// What was counted until now becomes events.
    fn settle(&mut self, now: Instant) {
        for (from, count) in self.flood.over(now) {
            self.push(Happened::RefusedMore { from, count });
        }
        // What was held back of those can be asked for.
        drop(self.protections.over(now));
        if self.missed != Missed::default() && self.events.len() < QUEUE_LEN_MAX {
            let missed = std::mem::take(&mut self.missed);
            self.push(Happened::Missed(missed));
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the queue")
    }

    /// The next events; none when it is over.
    fn next(&self) -> VecDeque<AccessEvent> {
        let mut state = self.state();
        loop {
            // At the end nothing is held back any longer.
            let now = Instant::now();
            let far = if state.ends { super::flood::REFUSALS_TIME } else { Duration::ZERO };
            state.settle(now + far);
            if !state.events.is_empty() || state.ends {
                return std::mem::take(&mut state.events);
            }
            let due = [state.flood.next(), state.protections.next()];
            let pause = due.into_iter().flatten().min().map(|at| at.saturating_duration_since(now));
            let waits = "nothing panics while it holds the queue";
            state = match pause {
                None => self.came.wait(state).expect(waits),
                Some(pause) => self.came.wait_timeout(state, pause).expect(waits).0,
            };
        }
    }

    fn tell_all(&self, listener: &dyn AccessListener) {
        loop {
            let events = self.next();
            if events.is_empty() {
                break;
            }
            events.iter().for_each(|event| listener.hear(event));
        }
        self.state().is_done = true;
        self.done.notify_all();
    }
}

impl Feed {
    /// Tells `listener`, if there is one, on a thread that [`end`](Self::end) ends.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn new(listener: Option<Arc<dyn AccessListener>>) -> io::Result<Self> {
        let Some(listener) = listener else { return Ok(Self(None)) };
        let queue = Arc::new(Queue::default());
        let told = queue.clone();
        let thread: JoinHandle<()> = thread::Builder::new()
            .name("access-events".to_owned())
            .spawn(move || told.tell_all(&*listener))?;
        // It ends by itself: a listener that hangs must not keep the server.
        drop(thread);
        Ok(Self(Some(queue)))
    }

    /// Something happened. It waits for nobody.
    pub(crate) fn push(&self, what: impl FnOnce() -> Happened) {
        let Some(queue) = &self.0 else { return };
        let what = what();
        let mut state = queue.state();
        if let Happened::Refused { who, .. } = &what {
            match state.flood.may_tell(who.from.ip(), Instant::now()) {
                Verdict::Tell => {}
                Verdict::HoldBack => return,
                Verdict::TooMany => {
                    state.missed.add(&what);
                    return;
                }
            }
        }
        if let Happened::WriteProtection { who, .. } = &what
            && state.protections.may_tell(who.from.ip(), Instant::now()) != Verdict::Tell
        {
            return;
        }
        state.push(what);
        drop(state);
        queue.came.notify_one();
    }

    /// Nothing happens any more: the listener hears what there is, and has a moment to do so.
    pub(crate) fn end(&self) {
        let Some(queue) = &self.0 else { return };
        let mut state = queue.state();
        state.ends = true;
        queue.came.notify_one();
        let waits = "nothing panics while it holds the queue";
        let heard = queue.done.wait_timeout_while(state, LAST_WORDS, |state| !state.is_done);
        if heard.expect(waits).1.timed_out() {
            tracing::warn!("who hears of logins did not take the last of them in time");
        }
    }
}

impl Drop for Feed {
    /// The thread ends also where nobody waits for it.
    fn drop(&mut self) {
        if let Some(queue) = &self.0 {
            queue.state().ends = true;
            queue.came.notify_one();
        }
    }
}
