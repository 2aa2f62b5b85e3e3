//! How servers broke the protocol or fell silent, until a step takes it into its results.

use std::cell::RefCell;

/// More would fill memory and tell nothing new.
const KEPT: usize = 100;

thread_local! {
    /// Of the exports that this core has open.
    static FAULTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a line; `false` if it is known already, or there are too many.
pub(super) fn note(line: &str) -> bool {
    FAULTS.with_borrow_mut(|faults| {
        let is_new = faults.len() < KEPT && !faults.iter().any(|known| known == line);
        if is_new {
            faults.push(line.to_owned());
        }
        is_new
    })
}

/// The lines since the last time, each once.
pub(crate) fn take_faults() -> Vec<String> {
    FAULTS.take()
}
