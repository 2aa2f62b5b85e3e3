//! A page on its way from its owner to another member, as the owner sees it.

use super::MemberId;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its data is copied, and hosts use it here meanwhile.
    Copying,
    /// Requests wait, and those under way come to their end.
    Draining,
    /// What changed since it was copied is copied; nothing changes any more.
    Finishing,
    /// All of it is durable at the target, as this incarnation of it; the map may be committed.
    Ready {
        /// Compared by the change: a target that started anew may have dropped its copy.
        incarnation: u64,
    },
    /// The map that names the target is sent to the store, or its fate is not known. Requests wait.
    Committing,
    /// The target owns it. What is left here is dropped.
    Gone,
    /// It stays: the map says so and no change under way says otherwise.
    Kept,
}

/// A page that its owner gives away.
///
/// ```text
///          copied           drained             durable          sent             settled(other)
/// Copying ───────▶ Draining ───────▶ Finishing ───────▶ Ready ─────────▶ Committing ───────▶ Gone
///    │                │                  │                │                 │
///    ╰────────────────┴── give_up ───────┴────────────────╯                 ╰─ settled(me) ─▶ Kept
/// ```
///
/// Invariant: from the end of its requests until it is settled nobody serves the page, and what the target has is
/// what this member has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PageMove {
    target: MemberId,
    stage: Stage,
}

impl PageMove {
    /// Begins to copy a page.
    #[must_use]
    pub fn to(target: MemberId) -> Self {
        Self { target, stage: Stage::Copying }
    }

    /// Who is to own it.
    #[must_use]
    pub fn target(&self) -> MemberId {
        self.target
    }

    /// How far it is.
    #[must_use]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether requests of the page are let in; else they wait until the move is settled.
    #[must_use]
    pub fn lets_in(&self) -> bool {
        matches!(self.stage, Stage::Copying | Stage::Kept)
    }

    /// The target has most of it; requests wait from here on.
    pub fn copied(&mut self) {
        self.step(Stage::Copying, Stage::Draining);
    }

    /// No request of the page is under way any more.
    pub fn drained(&mut self) {
        self.step(Stage::Draining, Stage::Finishing);
    }

    /// The target has said that it holds all of it durably, and as which incarnation it said so.
    pub fn durable(&mut self, incarnation: u64) {
        self.step(Stage::Finishing, Stage::Ready { incarnation });
    }

    /// The change is on its way to the store. It compares the map's version, the incarnation of this member, and the
    /// target's, which is the answer.
    pub fn sent(&mut self) -> u64 {
        let Stage::Ready { incarnation } = self.stage else {
            panic!("a page that is {:?} is not committed", self.stage)
        };
        self.stage = Stage::Committing;
        incarnation
    }

    /// It stays here, as the target is gone or takes too long.
    pub fn give_up(&mut self) {
        assert!(
            !matches!(self.stage, Stage::Committing | Stage::Gone),
            "a page that is {:?} may have another owner",
            self.stage
        );
        self.stage = Stage::Kept;
    }

    /// The store says who owns the page, and no change of this member that says otherwise can be done any more: it
    /// was committed or refused, or this member was entered anew since.
    pub fn settled(&mut self, owner: MemberId) {
        let stage = if owner == self.target { Stage::Gone } else { Stage::Kept };
        self.step(Stage::Committing, stage);
    }

    fn step(&mut self, from: Stage, to: Stage) {
        assert_eq!(self.stage, from, "a page on its way to {}", self.target);
        self.stage = to;
    }
}
