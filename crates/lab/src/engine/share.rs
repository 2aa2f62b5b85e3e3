//! Shares of a step that must hold although the disks differ: no flow runs far ahead of another.

use std::cell::RefCell;

use ring::wait::Bell;

/// How far ahead of the slowest a flow may be, in I/Os of its own.
const SLACK: f64 = 64.0;

/// What each flow has done, over its share.
#[derive(Debug)]
pub(crate) struct Shares {
    done: RefCell<Vec<f64>>,
    weights: Vec<f64>,
    moved: Bell,
}

impl Shares {
    /// Shares by the weight of each flow.
    pub(crate) fn new(weights: &[f64]) -> Self {
        let done = RefCell::new(vec![0.0; weights.len()]);
        Self { done, weights: weights.to_vec(), moved: Bell::default() }
    }

    /// Whether a flow has done so much that others must come first. The one with the least never has.
    pub(crate) fn is_ahead(&self, flow: usize) -> bool {
        let done = self.done.borrow();
        let least = done.iter().copied().fold(f64::MAX, f64::min);
        done[flow] - least > SLACK / self.weights[flow]
    }

    /// Counts an I/O of a flow.
    pub(crate) fn count(&self, flow: usize) {
        self.done.borrow_mut()[flow] += 1.0 / self.weights[flow];
        self.moved.ring();
    }

    /// Waits until one was counted.
    pub(crate) async fn moved(&self) {
        self.moved.rung().await;
    }

    /// Lets everything go that waits.
    pub(crate) fn end(&self) {
        self.moved.ring();
    }
}
