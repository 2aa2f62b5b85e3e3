//! Slices of volumes that lie on several members (docs/decisions/0052): how a member serves those that it holds to the
//! homes of their volumes, and how a home reaches one.
//!
//! ```text
//!  home                                                     a member that holds a slice
//!  SliceLink ──── asks for an opening (PORT+3) ───────────▶ Slices::open
//!    │                                                         ends the opening before, draws a target and secrets
//!    │      ◀───────────────── Opening ────────────────────────┘
//!    └─ initiator::Disk ── iSCSI, CHAP both ways, CRC32C ──▶ SlicePortal (PORT+4) ──▶ the device of the slice
//! ```
//!
//! An opening ends the one before it: that has no sessions any more, and what they had asked for is over, before the new
//! one is answered. So nothing that an earlier life of the home, or a connection that was lost, had sent is done after what
//! is sent through the new one.

mod asking;
mod digits;
mod link;
mod opening;
mod portal;
mod reach;
mod table;
#[cfg(test)]
mod tests;

pub use group::membership::{SliceId, SliceIdError};

pub use asking::{AskError, SliceOpener};
pub use link::{LinkOptions, PATIENCE, SliceLink};
pub use opening::{OpenError, Opening, WithdrawError};
pub use portal::{FENCE_LIMIT, PortalOptions, SlicePortal};
pub use table::{Slice, Slices};
