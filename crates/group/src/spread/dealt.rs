//! How the pages of a volume are dealt, and to whom: all that it takes to make a volume of its slices again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Pattern, SLICES_MAX, Seat};
use crate::membership::SliceId;
use crate::ownership::MemberId;

/// What makes a volume of slices. It is stored at the home and at each of the others, and never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dealt {
    /// What is dealt to slices.
    pub page_bytes: u64,
    /// How.
    pub pattern: Pattern,
    /// Who has which slice, by the number of the slice. The first is the home's own.
    pub seats: Vec<Seat>,
}

impl Dealt {
    /// Whether it can be.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub fn check_sound(&self) -> Result<(), String> {
        let seats = self.seats.len();
        let members: BTreeSet<MemberId> = self.seats.iter().map(|seat| seat.member).collect();
        let slices: BTreeSet<&SliceId> = self.seats.iter().map(|seat| &seat.slice).collect();
        if seats != self.pattern.slices() || seats > SLICES_MAX {
            let dealt = self.pattern.slices();
            return Err(format!("its pages are dealt to {dealt} slices, and it has {seats}"));
        }
        if members.len() != seats || slices.len() != seats {
            return Err("one member has two of its slices, or two have the same one".to_owned());
        }
        if !self.page_bytes.is_power_of_two() {
            return Err(format!("its pages have {} bytes", self.page_bytes));
        }
        Ok(())
    }

    /// The same, and whether this member has this slice there, of a volume of this other home.
    ///
    /// # Errors
    /// Why not, as a sentence.
    pub(super) fn check_seat(
        &self,
        (slice, member): (&SliceId, MemberId),
        home: MemberId,
    ) -> Result<(), String> {
        self.check_sound()?;
        if member == home {
            return Err(format!("it says of {member} that it is another member's"));
        }
        let has = |seat: &Seat| seat.slice == *slice && seat.member == member;
        let is_its = self.seats.iter().skip(1).any(has);
        let is_home = self.seats.first().is_some_and(|seat| seat.member == home);
        match is_its && is_home {
            true => Ok(()),
            false => Err(format!("its pages are not dealt to {member} by {home}")),
        }
    }
}
