//! How much output a connection may keep waiting: about what its peer takes in a second.
//!
//! Output that the socket does not take keeps memory that others want. So everybody begins with a
//! little, has as much more as it acknowledges (what lies in the socket it has not taken), and has
//! little again when it stops taking. Whoever makes
//! output keeps a place for it first, in the order of asking; what a read brings is not even read
//! before.
//!
//! Invariant: `held` is what is promised, what is queued and what the socket has not taken.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use ring::wait::{Grant, GrantState};

use super::Tcp;

/// What everybody may keep waiting: one chunk of a read.
const LEAST_BYTES: usize = 256 << 10;

/// In this time a peer should take what it may keep waiting.
const TIME: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct OutputWindow {
    bytes: Cell<usize>,
    least: usize,
    most: usize,
    held: Cell<usize>,
    /// Somebody found it too narrow since it last grew.
    is_narrow: Cell<bool>,
    /// What its peer had acknowledged then.
    acknowledged: Cell<u64>,
    /// What the socket is taking, and since when.
    sending: Cell<Option<(usize, Instant)>>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

#[derive(Debug)]
struct Waiter {
    bytes: usize,
    grant: Grant,
}

impl OutputWindow {
    pub(super) fn new(most: usize) -> Self {
        let least = LEAST_BYTES.min(most);
        Self {
            bytes: Cell::new(least),
            least,
            most,
            held: Cell::default(),
            is_narrow: Cell::default(),
            acknowledged: Cell::default(),
            sending: Cell::default(),
            waiting: RefCell::default(),
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held.get()
    }

    pub(super) fn sending_since(&self) -> Option<Instant> {
        self.sending.get().map(|(_, since)| since)
    }

    fn limit_bytes(&self) -> usize {
        match self.sending_since() {
            Some(since) if ring::now() - since > TIME => self.least,
            _ => self.bytes.get(),
        }
    }

    /// More may be made without a place of its own: what is made is short.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.suffices(self.held.get() <= self.limit_bytes())
    }

    fn suffices(&self, suffices: bool) -> bool {
        if !suffices {
            self.is_narrow.set(true);
        }
        suffices
    }

    /// There is a place for so much now. What is longer than the window has it for itself.
    #[inline]
    pub(super) fn has_place(&self, bytes: usize) -> bool {
        self.waiting.borrow().is_empty() && self.fits(bytes)
    }

    fn fits(&self, bytes: usize) -> bool {
        let held = self.held.get();
        self.suffices(held == 0 || held + bytes <= self.limit_bytes())
    }

    /// So much is queued, or promised.
    #[inline]
    pub(super) fn add(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
    }

    /// So much has left, or is not coming.
    fn remove(&self, bytes: usize) {
        let held = self.held.get();
        debug_assert!(bytes <= held, "what goes was counted");
        self.held.set(held.saturating_sub(bytes));
        self.serve();
    }

    /// The socket begins to take so much of what is queued.
    pub(super) fn begin(&self, bytes: usize) {
        debug_assert!(self.sending.get().is_none(), "one send at a time");
        self.sending.set(Some((bytes, ring::now())));
    }

    /// It has taken that, or never will. What the peer has acknowledged is asked for only if more is
    /// wanted.
    pub(super) fn end(&self, acknowledged_bytes: impl FnOnce() -> u64) {
        let Some((bytes, since)) = self.sending.take() else { return };
        let time = ring::now() - since;
        let mut next = self.bytes.get();
        if time > TIME {
            // What it takes in that time.
            next = next.min((bytes as f64 / time.div_duration_f64(TIME)) as usize);
        } else if next < self.most && self.is_narrow.take() {
            let all = acknowledged_bytes();
            let more = all.saturating_sub(self.acknowledged.replace(all));
            next = next.saturating_add(usize::try_from(more).unwrap_or(usize::MAX));
        }
        self.bytes.set(next.clamp(self.least, self.most));
        self.remove(bytes);
    }

    fn serve(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.front() {
            if first.grant.state() == GrantState::Waited {
                if !self.fits(first.bytes) {
                    return;
                }
                self.add(first.bytes);
                first.grant.give();
            }
            waiting.pop_front();
        }
    }
}

/// A place for output that is being made, until it is queued.
#[derive(Debug)]
pub(crate) struct Promise {
    mover: Rc<Tcp>,
    bytes: usize,
}

impl Promise {
    /// However much that is.
    pub(crate) fn new(mover: &Rc<Tcp>, bytes: usize) -> Self {
        mover.window.add(bytes);
        Self { mover: mover.clone(), bytes }
    }

    /// Waits for its turn on this connection, and until there is so much.
    pub(crate) async fn wait(mover: &Rc<Tcp>, bytes: usize) -> Self {
        if mover.window.has_place(bytes) {
            return Self::new(mover, bytes);
        }
        let waiter = Rc::new(Waiter { bytes, grant: Grant::default() });
        mover.window.waiting.borrow_mut().push_back(waiter.clone());
        let place = Place { mover: mover.clone(), waiter };
        place.waiter.grant.given().await;
        place.waiter.grant.leave();
        Self { mover: mover.clone(), bytes }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.mover.window.remove(self.bytes);
        self.mover.room.ring();
    }
}

/// A place among those who wait; given up when it goes.
struct Place {
    mover: Rc<Tcp>,
    waiter: Rc<Waiter>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self { mover, waiter } = self;
        match waiter.grant.leave() {
            GrantState::Given => mover.window.remove(waiter.bytes),
            GrantState::Waited => mover.window.serve(),
            GrantState::Left => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 4 * LEAST_BYTES;

    #[test]
    fn everybody_begins_with_a_little_and_has_as_much_more_as_is_acknowledged() {
        let test = async {
            let window = OutputWindow::new(MOST);
            assert!(window.has_place(2 * MOST), "what is longer than the window has it for itself");
            window.add(LEAST_BYTES);
            assert!(window.is_open() && !window.has_place(1));
            // It was too narrow, and all of it is taken at once.
            window.begin(LEAST_BYTES);
            window.end(|| LEAST_BYTES as u64);
            assert_eq!(window.held_bytes(), 0);
            window.add(LEAST_BYTES);
            assert!(window.has_place(LEAST_BYTES) && !window.has_place(LEAST_BYTES + 1));
            // Nothing more was acknowledged: what lies in the socket widens nothing.
            window.begin(LEAST_BYTES);
            window.end(|| LEAST_BYTES as u64);
            window.add(2 * LEAST_BYTES);
            assert!(window.is_open() && !window.has_place(1));
            window.begin(2 * LEAST_BYTES);
            window.end(|| u64::MAX);
            window.add(MOST);
            assert!(!window.has_place(1), "there is a most");
            window.add(1);
            assert!(!window.is_open());
        };
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }
}
