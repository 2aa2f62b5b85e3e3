//! For how long a member may have the address of the group on an interface, and when others may take it.
//!
//! Whose it is, is one key in the store. Its holder writes it again and again, and so proves that it is its own; others
//! see when it was written last, and whoever sees that nothing has come for a term takes it, by a transaction that
//! compares that nothing has come since. A member that loses the store, hangs, is stopped or is killed does nothing more
//! about it, and yet the address must be gone by then: the kernel takes it away. So the address is never put on an
//! interface but with a lifetime, and that one ends in time.
//!
//! ```text
//!   asked   written   answered: put, for a lifetime      the kernel takes it
//!     │        │         │                               away, at the latest
//!  ───┼────────┼─────────┼───────────────────────┬───────────────┬────────────────────────▶
//!     │        │         ╰──────── lifetime ─────╯╌╌╌ LATENESS ╌╌╯          │
//!     │        ╰── seen ── nothing comes for a TERM, by the clock of another one ──── taken
//! ```
//!
//! The holder reckons from the moment in which it asked for the writing, and others from that in which they see it: the
//! store has done it in between. It needs no lease of the store, which may end before its time: a head of the store that
//! was frozen takes leases for expired that were kept alive at another one meanwhile. It reads no clock: the time is
//! given to it.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::mutants::{self, Mutant};
use crate::ownership::Moment;
use crate::store::Revision;

/// How long nobody else takes the key after it was written, as they have seen it.
const TERM: Duration = Duration::from_secs(8);

/// How much later than said the kernel may take an address away. Linux looks at lifetimes at most once a second, and
/// rounds the moment of that up by a quarter of one (`check_lifetime` in net/ipv4/devinet.c, `addrconf_verify_rtnl` in
/// net/ipv6/addrconf.c); the rest is for a machine that is busy.
const LATENESS: Duration = Duration::from_millis(2000);

/// The clock of who waits may be faster than that of the kernel by less than one part in so many.
const DRIFT_PARTS: u32 = 16;

/// Between two writings of the key.
pub const RENEWAL: Duration = Duration::from_secs(2);

/// By so much a lifetime is shorter than it might be, as the kernel takes a moment to put it.
const PUTTING: Duration = Duration::from_millis(250);

/// The times that all members go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Terms {
    term_ms: u64,
    /// From the moment in which the writing was asked for, until no interface may have the address any more that a timer
    /// of the kernel still has to take away.
    usable_ms: u64,
    renewal_ms: u64,
}

impl Default for Terms {
    fn default() -> Self {
        let usable = TERM - TERM / DRIFT_PARTS - LATENESS;
        Self { term_ms: ms(TERM), usable_ms: ms(usable), renewal_ms: ms(RENEWAL) }
    }
}

const fn ms(time: Duration) -> u64 {
    time.as_secs() * 1000 + time.subsec_millis() as u64
}

// A writing that comes late by as much as one pause leaves the address where it is.
const _: () = assert!(ms(RENEWAL) * 2 + 1000 < ms(TERM) - ms(TERM) / 16 - ms(LATENESS));

/// What one member knows of its hold on the address. Invariant: it has a lifetime to give only while the key was this
/// member's when the store said so last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holding {
    terms: Terms,
    /// When the writing was asked for by which the key is this member's.
    held_since: Option<Moment>,
}

impl Holding {
    /// A try to take the key has ended that was begun at `asked`.
    pub fn tried(&mut self, asked: Moment, is_taken: bool) {
        if is_taken || mutants::is(Mutant::HeldUnkeyed) {
            self.held_since = Some(asked);
        }
    }

    /// The store has written the key once more, which it was asked for then. It counts for nothing where the key is not
    /// this member's.
    pub fn kept(&mut self, asked: Moment) {
        if let Some(since) = &mut self.held_since {
            *since = (*since).max(asked);
        }
    }

    /// The key is not this member's any more.
    pub fn lost(&mut self) {
        self.held_since = None;
    }

    /// The key is this member's, as far as it knows.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.held_since.is_some()
    }

    /// For how many seconds the address may be put on an interface now; `None` where it may not.
    #[must_use]
    pub fn lifetime_seconds(&self, now: Moment) -> Option<NonZeroU32> {
        let since = self.held_since?;
        if mutants::is(Mutant::LongLifetime) {
            return NonZeroU32::new(u32::try_from(self.terms.term_ms / 1000 * 2).ok()?);
        }
        let end = since.after_ms(self.terms.usable_ms.saturating_sub(ms(PUTTING)));
        let left_ms = end.0.saturating_sub(now.0);
        let seconds = NonZeroU32::new(u32::try_from(left_ms / 1000).ok()?)?;
        debug_assert!(self.ends_in_time(seconds, now), "it ends before others may take it");
        Some(seconds)
    }

    /// Whether an address that was put on an interface with this lifetime, at some moment until `now`, is gone in time.
    /// If not it is to be taken away at once: whoever put it there was stopped in between.
    #[must_use]
    pub fn ends_in_time(&self, lifetime: NonZeroU32, now: Moment) -> bool {
        let end = now.after_ms(u64::from(lifetime.get()) * 1000);
        let is_in_time =
            self.held_since.is_some_and(|since| end <= since.after_ms(self.terms.usable_ms));
        is_in_time || (self.is_held() && mutants::is(Mutant::LongLifetime))
    }

    /// How long to wait until the key is to be written once more.
    #[must_use]
    pub fn renewal_in(&self, now: Moment) -> Duration {
        let Some(since) = self.held_since else { return Duration::ZERO };
        let at = since.after_ms(self.terms.renewal_ms);
        Duration::from_millis(at.0.saturating_sub(now.0))
    }
}

/// What a member has seen of the key, whoever has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sighting {
    terms: Terms,
    /// In which revision it was written last, and when that was seen first.
    seen: Option<(Revision, Moment)>,
}

impl Sighting {
    /// The key was written last in this revision, as it is known now; `None` where it is not there.
    pub fn see(&mut self, revision: Option<Revision>, now: Moment) {
        if self.seen.map(|(seen, _)| seen) != revision {
            self.seen = revision.map(|revision| (revision, now));
        }
    }

    /// How long the key is to be left to who has written it. It may be taken when nothing is left: if it was not written
    /// since.
    #[must_use]
    pub fn left(&self, now: Moment) -> Duration {
        let Some((_, since)) = self.seen else { return Duration::ZERO };
        if mutants::is(Mutant::TakenEarly) {
            return Duration::ZERO;
        }
        let end = since.after_ms(self.terms.term_ms);
        Duration::from_millis(end.0.saturating_sub(now.0))
    }
}
