//! Time, as members know it: each by a clock of its own.

/// Milliseconds of one member's own clock, which never goes back and does not stand still while the machine
/// sleeps (`CLOCK_BOOTTIME`). They mean nothing to another member, nor after a restart of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// So many milliseconds later.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }
}

/// How long a proof lasts, and how long others have to wait for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Of the member that holds a proof.
    lease_ms: u64,
    /// Of whoever waits until no proof of that age is left.
    wait_ms: u64,
}

impl Timing {
    /// Two clocks differ by less than one part in so many. Clocks that are steered run up to 1 in 2,000
    /// beside true time; an oscillator without any help is better than 1 in 5,000.
    const DRIFT_PARTS: u64 = 16;

    /// With proofs that last so long. All members of a group have the same.
    ///
    /// # Panics
    /// If it is less than 100 ms: a proof would be over before it is used.
    #[must_use]
    pub fn with_lease_ms(lease_ms: u64) -> Self {
        assert!(lease_ms >= 100, "a lease of {lease_ms} ms");
        Self { lease_ms, wait_ms: lease_ms + lease_ms / Self::DRIFT_PARTS + 1 }
    }

    /// Both in steps of a model's clock.
    #[cfg(test)]
    pub(super) fn of_model(lease_ms: u64, wait_ms: u64) -> Self {
        Self { lease_ms, wait_ms }
    }

    /// When a proof ends that was asked for then.
    pub(super) fn proof_end(self, asked: Moment) -> Moment {
        asked.after_ms(self.lease_ms)
    }

    /// When no proof is left that was asked for by then, whoever holds it.
    pub(super) fn wait_end(self, since: Moment) -> Moment {
        since.after_ms(self.wait_ms)
    }
}

impl Default for Timing {
    /// Ten seconds: the longest that a barrier waits for a member that is gone, and that I/O goes on at a
    /// member that nobody vouches for.
    fn default() -> Self {
        Self::with_lease_ms(10_000)
    }
}
