//! Volumes that lie on several members: the rules of where their pages lie, and of their life.
//!
//! One member, the **home**, has the volume as hosts know it. Each member that has pages of it holds a **slice**, the home
//! too. All that a home stores of a volume is one record ([`SpreadRecord`]), and all that another member stores of its
//! slice is one ([`SliceRecord`]). Both are the member's own, and lie on its array.
//!
//! ```text
//!  home    (none) ──▶ Making ──▶ Whole ──▶ Growing ──▶ Whole, larger          serves while it is Whole or Growing
//!                        │         ▲  │       │ │
//!                        │         ╰──│───────╯ │ a slice does not grow, or the home is started anew
//!                        │ a slice    ▼         │
//!                        ╰─────────▶ Going ◀────╯ ──▶ (none), when all slices have said that they have gone
//!                          is not made, or the home is started anew
//!
//!  slice   (none) ──▶ Making ──▶ its volume is made ──▶ Here ──▶ larger ──▶ ...
//!                        ╰──────────────┬────────────────╯
//!                                       ▼  by word of its home, or of an operator
//!                                     Going ──▶ its volume is deleted ──▶ (none)
//! ```
//!
//! Numbered, for what is built on these types:
//! 1. Each step is stored before the next one is asked for: of a slice that may be anywhere its home has a record, and of
//!    a volume of an array that is a slice the member has one.
//! 2. Identities are drawn for each attempt ([`SpreadId`](crate::membership::SpreadId),
//!    [`SliceId`](crate::membership::SliceId)), so that nothing which is late is of another attempt. Members are known by
//!    number and group: one that was removed and joins again is another one, which neither asks for these slices nor
//!    answers for them.
//! 3. A home serves what it has stored as whole, in the size that is stored: all slices were at least as large before.
//! 4. What goes does not come back: no step leads away from `Going` but to nothing.
//! 5. A slice goes by an order of its home, or by an operator's word. One that was never [opened](Opening) goes also when
//!    its home says that it has no such volume ([`HomeSays::Gone`]): out of records that it could read, as the member that
//!    it was when the slice was made, with the array that it had. Silence, records that do not read and words of others
//!    delete nothing.
//! 6. A home forgets a volume when all slices have said that they have gone. An order that comes later than that makes a
//!    slice that nobody waits for and nobody has opened: its member asks the home for it and hears that it has gone.
//! 7. Each slice has all that makes a volume of its pages ([`Dealt`]), so that a home which lost its settings has the
//!    volume made anew by an operator's word ([`rebuilt`]).
//! 8. A home and its slices tell by their last [opening](Opening) whether one of them was put back to an older state: no
//!    data go to and fro between those that are not of one time, and an older home deletes nothing.
//!
//! [`Home`] and [`slice_step`] say what is to be done next, and whoever drives them does it and says so; they do no I/O. A
//! walk through all orders of events shows that no slice goes while its volume is whole (`tests.rs`).

mod dealt;
mod error;
mod home;
mod janitor;
mod opening;
mod pattern;
mod placement;
mod rebuild;
mod record;
mod removal;
mod slice;

#[cfg(test)]
mod tests;

pub use dealt::Dealt;
pub use error::SpreadError;
pub use home::{Answer, Home, HomeStep, Order};
pub use janitor::{HomeSays, Question, SliceFate, Who, WhyLeft, decide_slice, home_says};
pub use opening::{Opening, Openings, check_begun, check_opened};
pub use pattern::{PATTERN_MAX, Pattern, PatternError, SLICES_MAX, SliceSet};
pub use placement::{Placed, Room, Shortage, Wanted, place, rooms};
pub use rebuild::{NotRebuilt, brought_forward, rebuilt};
pub use record::{
    Seat, SliceRecord, SliceRecords, SliceStage, SliceStanding, SpreadRecord, SpreadRecords,
    SpreadStage, SpreadStanding, hidden_name, is_hidden_name,
};
pub use removal::{InTheWay, in_the_way};
pub use slice::{Letter, SliceRefusal, SliceStep, check_letter, slice_step};

/// What is dealt to slices: the unit of a volume that lies on one member.
pub const PAGE_BYTES: u64 = 16 << 20;

/// Members that a volume is spread over unless somebody says otherwise.
pub const MEMBERS_DEFAULT: usize = 3;

/// A smaller volume lies at its home alone: it has less than one page for each place of the longest pattern.
pub const SPREAD_FROM_BYTES: u64 = PATTERN_MAX as u64 * PAGE_BYTES;
