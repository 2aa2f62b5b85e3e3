//! Who may serve what in a group of several members: the rules, pure, as members run them and as a model
//! checker walks through them (`tests`).
//!
//! All of it rests on one sentence: **a member acts on what it has applied of the configuration only while
//! it can prove that this was the newest, at a moment not longer ago than the lease time by its own clock.**
//! Whoever commits a change therefore knows when no one acts on the former state any more: when all members
//! have said that they applied it, or when the lease time, and what clocks may differ by, has passed
//! since the change was known to be committed ([`Barrier`]). Nobody's death is agreed upon, and no member's opinion
//! of another counts.
//!
//! ```text
//!            started                  entered                    change_begun
//!   (none) ───────────▶ Outside ─────────────────▶ Inside ─────────────────────▶ Changing
//!                          ▲                        │  ▲ ▲  change_ended           │ │
//!                          │ the process ends       │  │ ╰─────────────────────────╯ │
//!                          ╰────────────────────────╯  │ entered        change_lost  │
//!                                                   Unsure ◀───────────────────────╯
//! ```
//!
//! Proofs ([`Standing`]) come from the store, which is asked for its newest revision, or, when it does not answer,
//! from *all* other members, each of which vouches that it knows of nothing newer. With those the I/O of a group goes
//! on without its store, for as long as all members live and reach each other.
//!
//! A page has one owner, which its volume's map names ([`PageMap`]). It moves when its owner commits a map that names
//! another one, after it has ceased to serve it ([`PageMove`]). So the data, the right to serve it and the decision
//! to give it away are always in one place.
//!
//! Numbered, for what is built on these types:
//! 1. A request is served when the member [may act](Standing::may_act), it is the page's owner by the newest map
//!    that it has heard of, and the request was let in under the volume's newest state that it has heard of.
//! 2. A change is *heard* when requests are judged by it, and *applied* when none that was let in under the former
//!    state is under way any more. Only what is applied is proved or acknowledged.
//! 3. Each member has an incarnation in the store, which changes when the member starts or has lost sight of a change of its
//!    own. Every change compares it, so that nothing a member sent before it was entered is done afterwards.
//! 4. A request is acknowledged when its member may still act at that moment.
//! 5. Whatever tells of a state (who has reserved, or that a command which is sent again has been done already) waits for
//!    the barrier of that state as well, also at a member that did not commit it.
//! 6. A forwarded request reaches its owner over a session whose end the owner knows: after that nothing of it is
//!    let in, so that no late copy of a write comes after a newer one.

mod barrier;
mod page_map;
mod page_move;
mod standing;
mod time;

#[cfg(test)]
mod tests;

pub use barrier::Barrier;
pub use page_map::{PageMap, PageMapError};
pub use page_move::{PageMove, Stage};
pub use standing::{Refusal, Standing};
pub use time::{Moment, Timing};

/// A member of a group. Numbers of members that were removed are not given again.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct MemberId(pub u16);

impl std::fmt::Display for MemberId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "member {}", self.0)
    }
}
