//! What of spread volumes is in the way of a member that is to be removed, or of which all volumes are to move away.
//!
//! Each member says it out of its own records. Those of the member itself tell all; where it cannot be asked, as it is
//! gone, those of all others do: homes name who has slices, and who has a slice names its home.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use super::{SliceRecords, SliceStage, SpreadRecords, SpreadStage};
use crate::membership::GroupId;
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;

/// What spread volumes lose with a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InTheWay {
    /// Volumes whose home it is, by name: hosts lose all of them.
    pub home_of: BTreeSet<String>,
    /// Volumes of other homes that it has a slice of: hosts lose its pages.
    pub slice_of: BTreeSet<String>,
    /// Volumes of other homes that are being deleted and wait for its slice. They are in nobody's way: with the member
    /// goes what is to go.
    pub waits: BTreeSet<String>,
    /// Why it is not known of all.
    pub unread: Option<String>,
}

impl InTheWay {
    /// Whether the member can go.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.home_of.is_empty() && self.slice_of.is_empty() && self.unread.is_none()
    }

    /// With what another member knows.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.home_of.extend(other.home_of);
        self.slice_of.extend(other.slice_of);
        self.waits.extend(other.waits);
        self.unread = self.unread.or(other.unread);
        self
    }
}

/// In quotes, up to three of them.
fn listed(names: &BTreeSet<String>) -> String {
    let first: Vec<String> = names.iter().take(3).map(|name| format!("'{name}'")).collect();
    match names.len().saturating_sub(first.len()) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl Display for InTheWay {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let volumes = |names: &BTreeSet<String>| match names.len() {
            1 => format!("the spread volume {}", listed(names)),
            _ => format!("the spread volumes {}", listed(names)),
        };
        let is = |what: &str, names: &BTreeSet<String>| {
            (!names.is_empty()).then(|| format!("it {what} {}", volumes(names)))
        };
        let whys = [is("is the home of", &self.home_of), is("has a slice of", &self.slice_of)];
        let whys: Vec<String> = whys.into_iter().flatten().collect();
        let waits = (!self.waits.is_empty()).then(|| {
            let what = volumes(&self.waits);
            format!(
                "what is being deleted waits for it: {what}; if it does not come back, remove it and give its slice up"
            )
        });
        if !whys.is_empty() {
            write!(
                out,
                "{}, and their data there are lost with it: delete those volumes first, or say that they may be lost",
                whys.join(" and ")
            )?;
        }
        if let Some(waits) = &waits {
            write!(out, "{}{waits}", if whys.is_empty() { "" } else { "; and " })?;
        }
        match (&self.unread, whys.is_empty() && waits.is_none()) {
            (None, _) => Ok(()),
            (Some(why), true) => write!(out, "it is not known what spread volumes it has: {why}"),
            (Some(why), false) => write!(out, "; and it is not known whether these are all: {why}"),
        }
    }
}

/// What is in the way of a member of this group by the records of one member, itself or another one. What cannot be
/// read is in the way of everybody.
#[must_use]
pub fn in_the_way(
    member: MemberId,
    group: &GroupId,
    (spreads, slices): (&SpreadRecords, &SliceRecords),
) -> InTheWay {
    let mut found = InTheWay::default();
    for record in spreads.values().flatten().filter(|record| record.group == *group) {
        if record.home() == member {
            found.home_of.insert(record.name.clone());
            continue;
        }
        let Some(slice) = record.seats.iter().position(|seat| seat.member == member) else {
            continue;
        };
        match record.stage {
            SpreadStage::Going { gone } if !mutants::is(Mutant::GoingHolds) => {
                let has_gone = gone.iter().any(|it| usize::from(it) == slice);
                found.waits.extend((!has_gone).then(|| record.name.clone()));
            }
            _ => drop(found.slice_of.insert(record.name.clone())),
        }
    }
    let is_blind = mutants::is(Mutant::SlicesUnasked);
    let its = |group_of: &GroupId| group_of == group && !is_blind;
    for record in slices.values().flatten().filter(|record| its(&record.group)) {
        if record.home == member {
            found.home_of.insert(record.name.clone());
        } else if record.me == member {
            let is_going = record.stage == SliceStage::Going && !mutants::is(Mutant::GoingHolds);
            let of = if is_going { &mut found.waits } else { &mut found.slice_of };
            of.insert(record.name.clone());
        }
    }
    let unread = spreads.values().filter_map(|record| record.as_ref().err());
    let unread = unread.chain(slices.values().filter_map(|record| record.as_ref().err()));
    found.unread = unread.map(ToString::to_string).next().filter(|_| !is_blind);
    found
}
