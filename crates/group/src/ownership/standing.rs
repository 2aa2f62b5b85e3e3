//! What a member has applied, until when it may act on that, and what it can vouch for.

use std::collections::BTreeSet;

use super::{MemberId, Moment, Timing};
use crate::store::Revision;

/// Why a member does not do something now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// It has to be entered in the store first.
    #[error(
        "this member is not entered in the group since it started: it waits for the group's store"
    )]
    Outside,
    /// A change of its own is under way, or what became of one is not known.
    #[error("a change by this member is under way: try again when it has ended")]
    Changing,
    /// It knows of changes that the asker has not applied.
    #[error("revision {known} is newer than what was asked about")]
    Newer {
        /// The newest that it knows of.
        known: Revision,
    },
}

/// Whether the store knows this member as it runs now (drawn in the module above).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    /// Not since it started.
    Outside,
    /// Yes, and no change of its own is under way.
    Inside,
    /// Yes, and one is.
    Changing { adds_member: bool },
    /// Yes, but what became of a change is not known: it may be done still, until the member is entered anew.
    Unsure { adds_member: bool },
}

/// What others vouch for is being gathered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Round {
    asked: Moment,
    missing: BTreeSet<MemberId>,
}

/// A member's standing in its group.
///
/// Invariants:
/// 1. What is applied was heard.
/// 2. At `proven_until` minus the lease time no member knew that anything newer than `applied` was committed, but for
///    entries of members, which change nobody's rights. So whoever knows of a change from a later moment on, and waits from
///    then on, outlasts the proof.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Standing {
    me: MemberId,
    timing: Timing,
    entry: Entry,
    members: BTreeSet<MemberId>,
    heard: Revision,
    /// The newest change of its own, which it knows of before it hears it.
    committed: Revision,
    applied: Revision,
    /// The end of the proof; none before the first.
    proven_until: Option<Moment>,
    /// Answers of the store about what is not applied yet, by when they were asked for, with the newest revision: the
    /// oldest, which is reached first, and the last.
    unapplied: Vec<(Moment, Revision)>,
    round: Option<Round>,
}

impl Standing {
    /// A member that starts, with the configuration as it was read from the store: all of it is applied, as nothing is
    /// under way.
    #[must_use]
    pub fn started(
        me: MemberId,
        members: BTreeSet<MemberId>,
        revision: Revision,
        timing: Timing,
    ) -> Self {
        let standing = Self {
            me,
            timing,
            entry: Entry::Outside,
            members,
            heard: revision,
            committed: revision,
            applied: revision,
            proven_until: None,
            unapplied: Vec::new(),
            round: None,
        };
        standing.check();
        standing
    }

    /// The store says that this member's new incarnation is committed, in this revision: no change that was sent before can
    /// be done any more. What was done of them is heard up to that revision.
    pub fn entered(&mut self, revision: Revision) {
        assert!(
            matches!(self.entry, Entry::Outside | Entry::Unsure { .. }),
            "{} is entered while {:?}",
            self.me,
            self.entry
        );
        assert!(self.heard >= revision, "entered in {revision}, heard up to {}", self.heard);
        self.entry = Entry::Inside;
        self.check();
    }

    /// A change of the configuration, by whomever, is judged by from here on. `members` are all of the group after it.
    pub fn hear(&mut self, revision: Revision, members: BTreeSet<MemberId>) {
        assert!(revision > self.heard, "revision {revision} after {}", self.heard);
        self.heard = revision;
        self.members = members;
        // What was vouched for was about the former members.
        self.round = None;
        self.check();
    }

    /// No request is under way any more that was let in before `revision` was heard.
    pub fn apply(&mut self, revision: Revision) {
        assert!(revision > self.applied, "revision {revision} is applied already");
        self.applied = revision;
        for (asked, _) in
            self.unapplied.extract_if(.., |(_, newest)| *newest <= revision).collect::<Vec<_>>()
        {
            self.prove(asked);
        }
        self.check();
    }

    /// The store was asked at `asked` for its newest revision, by a read that only a majority answers
    /// ("linearizable"), and this was it.
    pub fn store_said(&mut self, asked: Moment, newest: Revision) {
        if newest <= self.applied {
            self.prove(asked);
        } else {
            // A member that is behind all the time gets there with the oldest.
            self.unapplied.truncate(1);
            self.unapplied.push((asked, newest));
        }
        self.check();
    }

    /// Begins to ask all others whether they know of anything newer than the answer, as the store does not say.
    ///
    /// # Errors
    /// [`Refusal`] when this member could not vouch for it itself.
    pub fn ask_others(&mut self, now: Moment) -> Result<Revision, Refusal> {
        self.vouch(self.applied)?;
        let missing: BTreeSet<_> =
            self.members.iter().copied().filter(|member| *member != self.me).collect();
        self.round = Some(Round { asked: now, missing });
        self.end_round();
        self.check();
        Ok(self.applied)
    }

    /// Whether this member can say that it knows of nothing newer than `applied`, by others or by itself. When all
    /// members say so, at whatever moments, none of them knew of anything newer when the first was asked. One that a
    /// member has under way does not matter, as its [`Barrier`](super::Barrier) begins when that is known, unless it
    /// adds a member: that one knows of itself and would have to be asked.
    ///
    /// # Errors
    /// [`Refusal::Outside`], [`Refusal::Changing`], [`Refusal::Newer`].
    pub fn vouch(&self, applied: Revision) -> Result<(), Refusal> {
        match self.entry {
            Entry::Outside => return Err(Refusal::Outside),
            Entry::Changing { adds_member: true } | Entry::Unsure { adds_member: true } => {
                return Err(Refusal::Changing);
            }
            Entry::Inside | Entry::Changing { .. } | Entry::Unsure { .. } => {}
        }
        let known = self.heard.max(self.committed);
        if known > applied { Err(Refusal::Newer { known }) } else { Ok(()) }
    }

    /// A member has vouched, in the round that began at `asked`. What comes late counts for nothing.
    pub fn vouched_by(&mut self, member: MemberId, asked: Moment) {
        if let Some(round) = &mut self.round
            && round.asked == asked
        {
            round.missing.remove(&member);
            self.end_round();
        }
        self.check();
    }

    fn end_round(&mut self) {
        if let Some(round) = self.round.take_if(|round| round.missing.is_empty()) {
            self.prove(round.asked);
        }
    }

    fn prove(&mut self, asked: Moment) {
        self.proven_until = self.proven_until.max(Some(self.timing.proof_end(asked)));
    }

    /// Whether what is applied may be acted on now: requests are let in, and acknowledged.
    #[must_use]
    pub fn may_act(&self, now: Moment) -> bool {
        self.entry != Entry::Outside && self.proven_until.is_some_and(|until| now < until)
    }

    /// A change by this member is sent to the store, which may add a member to the group.
    ///
    /// # Errors
    /// [`Refusal::Outside`], [`Refusal::Changing`]: it must not be sent now.
    pub fn begin_change(&mut self, adds_member: bool) -> Result<(), Refusal> {
        match self.entry {
            Entry::Outside => Err(Refusal::Outside),
            Entry::Changing { .. } | Entry::Unsure { .. } => Err(Refusal::Changing),
            Entry::Inside => {
                self.entry = Entry::Changing { adds_member };
                Ok(())
            }
        }
    }

    /// The store has said that the change was committed, in this revision, or that it was refused.
    pub fn change_ended(&mut self, committed: Option<Revision>) {
        assert!(matches!(self.entry, Entry::Changing { .. }), "no change of {} is sent", self.me);
        self.committed = self.committed.max(committed.unwrap_or_default());
        self.entry = Entry::Inside;
    }

    /// The store did not answer: the change may have been committed, or may be still.
    pub fn change_lost(&mut self) {
        let Entry::Changing { adds_member } = self.entry else {
            panic!("no change of {} is sent", self.me)
        };
        self.entry = Entry::Unsure { adds_member };
    }

    /// Whether a new incarnation has to be committed before this member changes anything.
    #[must_use]
    pub fn must_enter(&self) -> bool {
        matches!(self.entry, Entry::Outside | Entry::Unsure { .. })
    }

    /// The newest revision that requests are judged by.
    #[must_use]
    pub fn heard(&self) -> Revision {
        self.heard
    }

    /// The newest revision that is all that is acted on.
    #[must_use]
    pub fn applied(&self) -> Revision {
        self.applied
    }

    /// All of the group, by the newest that was heard.
    #[must_use]
    pub fn members(&self) -> &BTreeSet<MemberId> {
        &self.members
    }

    /// The end of the proof, by this member's clock: it has to ask anew well before.
    #[must_use]
    pub fn proven_until(&self) -> Option<Moment> {
        self.proven_until
    }

    /// Panics if an invariant that this value alone can tell is broken.
    fn check(&self) {
        assert!(self.applied <= self.heard, "{} applied what it has not heard", self.me);
        assert!(self.proven_until.is_none_or(|until| until.0 > 0), "a proof of no time");
        assert!(
            self.unapplied.len() <= 2
                && self.unapplied.iter().all(|(_, newest)| *newest > self.applied),
            "{} waits for what it has applied",
            self.me
        );
        if let Some(round) = &self.round {
            assert!(!round.missing.contains(&self.me), "{} waits for itself", self.me);
        }
    }
}
