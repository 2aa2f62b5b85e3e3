//! When a change is in force everywhere.

use std::collections::BTreeSet;

use super::{MemberId, Moment, Timing};
use crate::store::Revision;

/// A committed change that is answered when no member acts on what was before it.
///
/// Invariant: a member that is no longer waited for has applied the change, or it can act again only after it has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Barrier {
    revision: Revision,
    waits_for: BTreeSet<MemberId>,
    until: Moment,
}

impl Barrier {
    /// For a change of this revision, which was known to be committed at `known`.
    ///
    /// `members` are all of the group as the change leaves it, with those that it takes out: also this one, which
    /// has to apply the change like the others.
    #[must_use]
    pub fn new(
        revision: Revision,
        members: BTreeSet<MemberId>,
        known: Moment,
        timing: Timing,
    ) -> Self {
        Self { revision, waits_for: members, until: timing.wait_end(known) }
    }

    /// A member has said that it applied everything up to a revision.
    pub fn applied_by(&mut self, member: MemberId, revision: Revision) {
        if revision >= self.revision {
            self.waits_for.remove(&member);
        }
    }

    /// Whether the change may be answered.
    #[must_use]
    pub fn is_over(&self, now: Moment) -> bool {
        self.waits_for.is_empty() || now >= self.until
    }

    /// Who has not applied it yet, as far as is known.
    #[must_use]
    pub fn waits_for(&self) -> &BTreeSet<MemberId> {
        &self.waits_for
    }

    /// When it is over at the latest.
    #[must_use]
    pub fn until(&self) -> Moment {
        self.until
    }
}
