//! What a logical unit keeps for one I_T nexus that is logged in.

use super::attention::Attentions;
use super::gate::Gate;
use crate::AdditionalSense;
use crate::nexus::NexusKey;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One I_T nexus of one logical unit. A session holds it from
/// [`LogicalUnit::attach`](super::LogicalUnit::attach) to
/// [`LogicalUnit::detach`](super::LogicalUnit::detach).
#[derive(Debug)]
pub struct Nexus {
    key: NexusKey,
    gate: AtomicU32,
    attentions: Mutex<Attentions>,
}

impl Nexus {
    pub(super) fn new(key: NexusKey) -> Self {
        Self { key, gate: AtomicU32::new(0), attentions: Mutex::default() }
    }

    /// Which nexus this is.
    pub fn key(&self) -> &NexusKey {
        &self.key
    }

    /// A unit attention condition is pending (QUERY ASYNCHRONOUS EVENT, SAM-5 7.9).
    pub fn has_attention(&self) -> bool {
        self.gate().has(Gate::ATTENTION)
    }

    pub(super) fn gate(&self) -> Gate {
        Gate(self.gate.load(Ordering::Acquire))
    }

    /// Replaces all of the word but the attention bit, which follows the queue alone.
    pub(super) fn set_gate(&self, gate: Gate) {
        let attentions = self.attentions();
        let gate = gate.with(Gate::ATTENTION, !attentions.is_empty());
        self.gate.store(gate.0, Ordering::Release);
    }

    pub(super) fn establish(&self, condition: AdditionalSense) {
        self.change_attentions(|attentions| attentions.establish(condition));
    }

    /// Changes the queue and brings the attention bit into line with it.
    pub(super) fn change_attentions<T>(&self, change: impl FnOnce(&mut Attentions) -> T) -> T {
        let mut attentions = self.attentions();
        let result = change(&mut attentions);
        if attentions.is_empty() {
            self.gate.fetch_and(!Gate::ATTENTION, Ordering::Release);
        } else {
            self.gate.fetch_or(Gate::ATTENTION, Ordering::Release);
        }
        result
    }

    fn attentions(&self) -> MutexGuard<'_, Attentions> {
        // No code panics while it holds the lock, and the queue is sound at every step.
        self.attentions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
