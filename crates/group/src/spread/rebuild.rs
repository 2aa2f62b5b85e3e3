//! A home that has lost its settings, and with them what it had stored of a volume, has that made anew from what its other
//! slices have stored, by an operator's word. By another such word one that its slices take for an older one goes on.

use super::{Dealt, Openings, SliceRecord, SliceStage, SpreadRecord, SpreadStage};
use crate::membership::{GroupId, SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::Setting;

/// Why a volume is not made of its slices again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRebuilt {
    /// No other member has a slice of it, or none was reached.
    #[error(
        "no member has told of a slice of the volume: it is rebuilt when all that have one are reached"
    )]
    Nothing,
    /// The home's own slice is not on its array.
    #[error("the slice of {0}, the home, is not on its array: put the disks back that it had")]
    NoOwnSlice(MemberId),
    /// A slice is of another volume, or says otherwise how this one is dealt.
    #[error(
        "{0} has stored otherwise than the others how the volume is dealt: nothing is rebuilt of that"
    )]
    Differs(MemberId),
    /// A slice is being made, or deleted.
    #[error("the slice of {0} is being made or deleted: there is no whole volume")]
    NotHere(MemberId),
    /// No slice has seen a later home than this.
    #[error(
        "this member has stored it, and no slice that has told has seen a later home: nothing of that is lost"
    )]
    NotOlder,
    /// A slice has seen a later home than this, and nobody has said that this one is right all the same.
    #[error(
        "{0} has seen a later home than this one, as where the disks of this member are from an image: put the newer disks \
         back, if there are any. If these are the newest that there are, write '--despite-later': what hosts have written \
         since then to the pages of this member is not there, and what they have written to those of others is, so that the \
         volume is to be checked"
    )]
    Later(MemberId),
    /// Members that have slices have not told.
    #[error(
        "{} {} of the volume and has not told what it has stored: start it, and try again",
        .0[0],
        if .0.len() > 1 { format!("and {} more have slices", .0.len() - 1) } else { "has a slice".to_owned() }
    )]
    Missing(Vec<MemberId>),
}

/// What a home that its slices take for an older one stores, so that it is the latest from now on: it knows of all openings
/// that they have stored. Those that have not told may know of more. `is_right` is the operator's word that it is to be so.
///
/// A slice that is behind its home stays so.
///
/// # Errors
/// The operator has not said so, no slice has seen a later home, or one that tells is of another volume, is being made or
/// goes.
pub fn brought_forward(
    home: &SpreadRecord,
    records: &[SliceRecord],
    is_right: bool,
) -> Result<SpreadRecord, NotRebuilt> {
    let mut next = home.clone();
    let mut later = None;
    let dealt = home.dealt();
    let of_home = (&home.id, &home.group, home.home(), &*home.home_array, &dealt);
    for record in records {
        let number = home.seats.iter().position(|seat| seat.slice == record.id);
        let Some(number) = number.filter(|_| in_common(record) == of_home) else {
            return Err(NotRebuilt::Differs(record.me));
        };
        let openings = &mut next.openings[number];
        if !openings.know(record) {
            if record.stage != SliceStage::Here {
                return Err(NotRebuilt::NotHere(record.me));
            }
            later = Some(record.me);
            *openings = Openings::answered(record.begun.max(openings.opened));
        } else if mutants::is(Mutant::ForwardBack) {
            *openings = Openings::answered(record.begun);
        }
    }
    match later {
        None => Err(NotRebuilt::NotOlder),
        Some(member) if !is_right && !mutants::is(Mutant::ForwardUnsaid) => {
            Err(NotRebuilt::Later(member))
        }
        Some(_) => Ok(next),
    }
}

/// What the home stores of a volume all of whose other slices have these records, and whose own slice has so many bytes.
/// It is as large as the smallest of them; so it may be larger than hosts knew it, if it was being made larger.
///
/// Whoever stores it makes sure first that this is [its home](SpreadRecord::is_of), with the array that it had.
///
/// # Errors
/// [`NotRebuilt`]
pub fn rebuilt(
    records: &[SliceRecord],
    own_bytes: Option<u64>,
) -> Result<SpreadRecord, NotRebuilt> {
    let first = records.first().ok_or(NotRebuilt::Nothing)?;
    let own_bytes = own_bytes.ok_or(NotRebuilt::NoOwnSlice(first.home))?;
    let is_of_it = |record: &SliceRecord| {
        in_common(record) == in_common(first) && record.check_sound().is_ok()
    };
    if let Some(other) = records.iter().find(|record| !is_of_it(record)) {
        return Err(NotRebuilt::Differs(other.me));
    }
    if let Some(record) = records.iter().find(|record| record.stage != SliceStage::Here) {
        return Err(NotRebuilt::NotHere(record.me));
    }
    let of_slice = |slice: &SliceId| records.iter().find(|record| record.id == *slice);
    let others = first.dealt.seats.iter().skip(1);
    let missing = others.filter(|seat| of_slice(&seat.slice).is_none()).map(|seat| seat.member);
    let missing: Vec<MemberId> = missing.collect();
    if !missing.is_empty() && !mutants::is(Mutant::RebuildPart) {
        return Err(NotRebuilt::Missing(missing));
    }
    let sizes = records.iter().map(|record| record.size_bytes);
    let size_bytes = match mutants::is(Mutant::RebuildLarger) {
        true => sizes.fold(own_bytes, u64::max),
        false => sizes.fold(own_bytes, u64::min),
    };
    let opening = |slice| of_slice(slice).map(|record| record.begun).unwrap_or_default();
    let openings = first.dealt.seats.iter().map(|seat| Openings::answered(opening(&seat.slice)));
    Ok(SpreadRecord {
        id: first.spread.clone(),
        group: first.group.clone(),
        home_array: first.home_array.clone(),
        name: first.name.clone(),
        size_bytes,
        page_bytes: first.dealt.page_bytes,
        pattern: first.dealt.pattern.clone(),
        openings: openings.collect(),
        seats: first.dealt.seats.clone(),
        stage: SpreadStage::Whole,
    })
}

/// What all slices of a volume have stored alike.
fn in_common(record: &SliceRecord) -> (&SpreadId, &GroupId, MemberId, &str, &Dealt) {
    (&record.spread, &record.group, record.home, &record.home_array, &record.dealt)
}
