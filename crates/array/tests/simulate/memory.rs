//! Memory that runs out: what the array asks for is refused, and what the test itself needs is not.

use std::cell::Cell;

thread_local! {
    static ONE_IN: Cell<u32> = const { Cell::new(0) };
}

/// Refuses one in so many requests for a buffer from now on, 1 every one, 0 none. Which ones follows
/// from `seed`.
pub(crate) fn refuse(one_in: u32, seed: u64) {
    ONE_IN.set(one_in);
    ring::refuse_one_in(one_in, Some(seed));
}

/// Does what the test needs memory for.
pub(crate) fn enough<T>(work: impl FnOnce() -> T) -> T {
    ring::refuse_one_in(0, None);
    let done = work();
    ring::refuse_one_in(ONE_IN.get(), None);
    done
}
