//! How initiators share what there is a fixed number of.

use std::collections::HashMap;
use std::sync::Arc;

/// Nobody has more than what is left for all others: alone half of all.
pub(crate) fn may_have_one_more(held: usize, all: usize, max: usize) -> bool {
    held < max.saturating_sub(all)
}

/// One less is held. Who has none is forgotten.
pub(crate) fn give_back(held: &mut HashMap<Arc<str>, usize>, initiator: &Arc<str>) {
    let left = held.get_mut(initiator).map(|held| {
        *held -= 1;
        *held
    });
    debug_assert!(left.is_some(), "who gives something back had it");
    if left == Some(0) {
        held.remove(initiator);
    }
}
