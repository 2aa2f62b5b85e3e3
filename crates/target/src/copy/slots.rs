//! Room for chunks in memory, on each core.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::wait::Bell;

use crate::share;

/// Chunks in memory at once per core, of all its copies together. One copy has at most two.
const CHUNKS_MAX: usize = 16;
/// Who waits for a slot looks this often whether it still wants one: it is stopped from any core.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// `taken` is the sum of `of`, in which nobody stands with none.
#[derive(Default)]
struct Slots {
    taken: Cell<usize>,
    of: RefCell<HashMap<Arc<str>, usize>>,
    freed: Bell,
}

thread_local! {
    static SLOTS: Rc<Slots> = Rc::default();
}

impl Slots {
    fn has_room(&self, initiator: &str) -> bool {
        let held = self.of.borrow().get(initiator).copied().unwrap_or(0);
        share::may_have_one_more(held, self.taken.get(), CHUNKS_MAX)
    }
}

/// The right to hold one chunk. Who waits for one holds at most one more, which a disk is writing,
/// so that one comes free without anybody else's doing. Where that disk hangs it does not: so no
/// initiator has all of them.
pub(super) struct Slot {
    slots: Rc<Slots>,
    initiator: Arc<str>,
}

impl Slot {
    /// `None` once `is_over`.
    pub(super) async fn take(initiator: &Arc<str>, is_over: impl Fn() -> bool) -> Option<Self> {
        let slots = SLOTS.with(Rc::clone);
        loop {
            if is_over() {
                return None;
            }
            let free = slots.freed.until(|| slots.has_room(initiator));
            if ring::timeout(STOP_LOOK, free).await.is_some() {
                break;
            }
        }
        slots.taken.set(slots.taken.get() + 1);
        *slots.of.borrow_mut().entry(initiator.clone()).or_default() += 1;
        Some(Self { slots, initiator: initiator.clone() })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.set(self.slots.taken.get() - 1);
        share::give_back(&mut self.slots.of.borrow_mut(), &self.initiator);
        self.slots.freed.ring();
    }
}
