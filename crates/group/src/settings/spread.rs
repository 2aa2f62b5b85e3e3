//! What a member has stored of volumes that lie on several members: of those whose home it is, and of slices of others.
//! They lie on the array, and are the member's own.
//!
//! | key | what |
//! |---|---|
//! | `spreads/` and the number of a volume | this member is its home ([`SpreadRecord`]) |
//! | `slices/` and the number of a slice | it has this slice of a volume of another home ([`SliceRecord`]) |
//!
//! A key that does not tell a number, or a record of another number than its key, is damage or of a later version: it is
//! not passed over, as it may be of a volume that has slices.
//!
//! What is stored goes the way that [`crate::spread`] draws, and no other: a change that was decided on something else
//! is refused.

use super::state::State;
use super::{Settings, SettingsError};
use crate::membership::{SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::record::{Setting, SettingError};
use crate::spread::{
    Opening, Openings, SliceRecord, SliceStage, SliceStanding, SpreadRecord, SpreadRecords,
    SpreadStage, SpreadStanding,
};
use crate::store::{KeyValue, Op, Selection};

pub(super) const SPREADS: &str = "spreads/";
pub(super) const SLICES: &str = "slices/";

fn spread_key(id: &SpreadId) -> String {
    format!("{SPREADS}{id}")
}

fn slice_key(id: &SliceId) -> String {
    format!("{SLICES}{id}")
}

impl State {
    /// Takes a key in if it is one of these, and says whether it was.
    pub(super) fn take_spread(&mut self, key: &str, kv: &KeyValue) -> bool {
        let is_known = if let Some(id) = key.strip_prefix(SPREADS) {
            let record = SpreadRecord::decode(&kv.value);
            let record = record.and_then(|it| numbered(id, &it.id.to_string(), it));
            let known = id.parse().ok().map(|id| self.spreads.insert(id, record));
            known.is_some()
        } else if let Some(id) = key.strip_prefix(SLICES) {
            let record = SliceRecord::decode(&kv.value);
            let record = record.and_then(|it| numbered(id, &it.id.to_string(), it));
            let known = id.parse().ok().map(|id| self.slices.insert(id, record));
            known.is_some()
        } else {
            return false;
        };
        if !is_known && !mutants::is(Mutant::PassUnknownKeys) {
            self.unknown_spreads.insert(key.to_owned());
        }
        true
    }

    /// The volumes whose home it is, if there are no others that this version does not know of.
    #[must_use]
    pub fn all_spreads(&self) -> Option<&SpreadRecords> {
        let is_other = |key: &String| key.starts_with(SPREADS);
        (!self.unknown_spreads.iter().any(is_other)).then_some(&self.spreads)
    }

    /// Why it is not known of all spread volumes and slices what is stored of them.
    #[must_use]
    pub fn unread_spreads(&self) -> Option<String> {
        let spreads = self.spreads.values().filter_map(|record| record.as_ref().err());
        let slices = self.slices.values().filter_map(|record| record.as_ref().err());
        let unread = spreads.chain(slices).map(ToString::to_string).next();
        unread.or_else(|| {
            let key = self.unknown_spreads.first()?;
            Some(format!(
                "'{key}' is stored of a spread volume, and is not what this version of drystone stores: use the one that \
                 wrote it, or a later one"
            ))
        })
    }
}

/// A record, if it is of the number that its key says.
fn numbered<T: Setting>(key: &str, number: &str, record: T) -> Result<T, SettingError> {
    if key == number || mutants::is(Mutant::KeyUnasked) {
        return Ok(record);
    }
    let why = format!("it is number {number}, and is stored as {key}");
    let error = std::sync::Arc::new(serde::de::Error::custom(why));
    Err(SettingError::Damaged { what: T::WHAT, error })
}

/// Whether a record can be, before it is stored: what cannot would not be read again.
fn check(record: &impl Setting) -> Result<(), SettingsError> {
    match mutants::is(Mutant::StoreUnsound) {
        true => Ok(()),
        false => record.check_sound().map_err(SettingsError::SpreadUnsound),
    }
}

impl Settings {
    /// Stores that a spread volume is being made, before any of its slices is asked for.
    ///
    /// # Errors
    /// It cannot be, one of its number is stored, or the store does not do it.
    pub async fn prepare_spread(&self, record: &SpreadRecord) -> Result<(), SettingsError> {
        debug_assert_eq!(record.stage, SpreadStage::Making, "nothing is there yet");
        check(record)?;
        self.change(|state| match state.spreads.contains_key(&record.id) {
            true if !mutants::is(Mutant::SpreadTwice) => Err(SettingsError::SpreadThere),
            _ => Ok((vec![Op::put(spread_key(&record.id), record.encode())], ())),
        })
        .await
    }

    /// A spread volume is further. Whoever says so again has it done.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or does not lead there, or the store does not do it.
    pub async fn note_spread(
        &self,
        id: &SpreadId,
        standing: SpreadStanding,
    ) -> Result<(), SettingsError> {
        self.change(|state| match readable(state.spreads.get(id))? {
            Some(record) if record.standing() == standing => Ok((Vec::new(), ())),
            Some(record) if record.standing().may_become(standing) => {
                let next = record.with(standing);
                check(&next)?;
                Ok((vec![Op::put(spread_key(id), next.encode())], ()))
            }
            Some(_) | None => Err(SettingsError::SpreadChanged),
        })
        .await
    }

    /// Nothing of a spread volume is left anywhere.
    ///
    /// # Errors
    /// It has slices that are not known to have gone, what is stored of it cannot be read, or the store does not do it.
    pub async fn forget_spread(&self, id: &SpreadId) -> Result<(), SettingsError> {
        self.change(|state| match readable(state.spreads.get(id))? {
            None => Ok((Vec::new(), ())),
            Some(record) if record.is_gone() => {
                Ok((vec![Op::Delete(Selection::key(spread_key(id)))], ()))
            }
            Some(_) => Err(SettingsError::SpreadChanged),
        })
        .await
    }

    /// Stores a whole volume that was [made of its slices again](crate::spread::rebuilt), by an operator's word.
    ///
    /// # Errors
    /// It cannot be, what is stored of it reads or is of a later version, or the store does not do it.
    pub async fn rebuild_spread(&self, record: &SpreadRecord) -> Result<(), SettingsError> {
        debug_assert_eq!(record.stage, SpreadStage::Whole, "all of it is there");
        check(record)?;
        self.change(|state| match state.spreads.get(&record.id) {
            None | Some(Err(SettingError::Damaged { .. })) => {
                Ok((vec![Op::put(spread_key(&record.id), record.encode())], ()))
            }
            Some(_) if mutants::is(Mutant::RebuildStored) => {
                Ok((vec![Op::put(spread_key(&record.id), record.encode())], ()))
            }
            Some(_) => Err(SettingsError::SpreadThere),
        })
        .await
    }

    /// Stores what a home [knows of later ones](crate::spread::brought_forward) from now on, by an operator's word.
    ///
    /// # Errors
    /// It cannot be, what is stored is not what this was decided on, or the store does not do it.
    pub async fn bring_forward(
        &self,
        before: &SpreadRecord,
        next: &SpreadRecord,
    ) -> Result<(), SettingsError> {
        check(next)?;
        self.change(|state| match readable(state.spreads.get(&before.id))? {
            Some(stored) if stored == before || mutants::is(Mutant::ForwardChanged) => {
                Ok((vec![Op::put(spread_key(&next.id), next.encode())], ()))
            }
            Some(_) | None => Err(SettingsError::SpreadChanged),
        })
        .await
    }

    /// Throws away what is stored of a spread volume and is damaged, by an operator's word. Its slices stay.
    ///
    /// # Errors
    /// It reads, is of a later version, or the store does not do it.
    pub async fn discard_spread(&self, id: &SpreadId) -> Result<(), SettingsError> {
        self.change(|state| discarded(state.spreads.get(id), spread_key(id))).await
    }

    /// Stores that an opening of a slice begins, before its member is asked for it, and says what that is to be asked with.
    /// The bits are drawn by whoever asks. One that was begun before and not answered goes on.
    ///
    /// # Errors
    /// The volume is not whole or has no such slice, what is stored of it cannot be read, or the store does not do it.
    pub async fn begin_opening(
        &self,
        (id, slice): (&SpreadId, u8),
        drawn: u32,
    ) -> Result<Openings, SettingsError> {
        self.change_openings((id, slice), |openings| Ok(openings.begin(drawn))).await
    }

    /// A slice has answered an opening: to be stored before anything is read from it or written to it.
    ///
    /// # Errors
    /// It is not the one that was begun last, or as with [`begin_opening`](Self::begin_opening).
    pub async fn note_opened(
        &self,
        (id, slice): (&SpreadId, u8),
        opening: Opening,
    ) -> Result<(), SettingsError> {
        let stored =
            self.change_openings((id, slice), |openings| match openings.begun == opening {
                true => Ok(Openings::answered(opening)),
                false => Err(SettingsError::SpreadChanged),
            });
        stored.await.map(drop)
    }

    async fn change_openings(
        &self,
        (id, slice): (&SpreadId, u8),
        change: impl Fn(Openings) -> Result<Openings, SettingsError>,
    ) -> Result<Openings, SettingsError> {
        self.change(|state| {
            let record = readable(state.spreads.get(id))?.ok_or(SettingsError::SpreadChanged)?;
            let mut next = record.clone();
            let is_open = matches!(record.stage, SpreadStage::Whole | SpreadStage::Growing { .. });
            let openings = next.openings.get_mut(usize::from(slice)).filter(|_| is_open);
            let openings = openings.ok_or(SettingsError::SpreadChanged)?;
            let (before, after) = (*openings, change(*openings)?);
            *openings = after;
            if before == after {
                return Ok((Vec::new(), after));
            }
            check(&next)?;
            Ok((vec![Op::put(spread_key(id), next.encode())], after))
        })
        .await
    }

    /// Stores that a slice is being made here, before its volume is.
    ///
    /// # Errors
    /// It cannot be, one of its number is stored, or the store does not do it.
    pub async fn prepare_slice(&self, record: &SliceRecord) -> Result<(), SettingsError> {
        debug_assert_eq!(record.stage, SliceStage::Making, "nothing is there yet");
        check(record)?;
        self.change(|state| match state.slices.contains_key(&record.id) {
            true if !mutants::is(Mutant::SpreadTwice) => Err(SettingsError::SpreadThere),
            _ => Ok((vec![Op::put(slice_key(&record.id), record.encode())], ())),
        })
        .await
    }

    /// A slice is further. Whoever says so again has it done.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or does not lead there, or the store does not do it.
    pub async fn note_slice(
        &self,
        id: &SliceId,
        standing: SliceStanding,
    ) -> Result<(), SettingsError> {
        self.change(|state| match readable(state.slices.get(id))? {
            Some(record) if record.standing() == standing => Ok((Vec::new(), ())),
            Some(record) if record.standing().may_become(standing) => {
                let next = record.with(standing);
                check(&next)?;
                Ok((vec![Op::put(slice_key(id), next.encode())], ()))
            }
            Some(_) | None => Err(SettingsError::SpreadChanged),
        })
        .await
    }

    /// The volume of a slice that goes is gone.
    ///
    /// # Errors
    /// The slice is not going, what is stored of it cannot be read, or the store does not do it.
    pub async fn forget_slice(&self, id: &SliceId) -> Result<(), SettingsError> {
        self.change(|state| match readable(state.slices.get(id))? {
            None => Ok((Vec::new(), ())),
            Some(record) if record.stage == SliceStage::Going => {
                Ok((vec![Op::Delete(Selection::key(slice_key(id)))], ()))
            }
            Some(_) => Err(SettingsError::SpreadChanged),
        })
        .await
    }

    /// Throws away what is stored of a slice and is damaged, by an operator's word. Its volume stays.
    ///
    /// # Errors
    /// It reads, is of a later version, or the store does not do it.
    pub async fn discard_slice(&self, id: &SliceId) -> Result<(), SettingsError> {
        self.change(|state| discarded(state.slices.get(id), slice_key(id))).await
    }

    /// Stores that an opening of a slice is [begun](crate::spread::check_begun), before that is said.
    ///
    /// # Errors
    /// The slice is not there, or another one was begun since, what is stored of it cannot be read, or the store does not do
    /// it.
    pub async fn note_slice_begun(
        &self,
        id: &SliceId,
        opening: Opening,
    ) -> Result<(), SettingsError> {
        self.change_slice(id, |slice| {
            let is_next = slice.begun <= opening;
            is_next.then(|| SliceRecord { begun: opening, ..slice.clone() })
        })
        .await
    }

    /// Stores that its home has heard of an opening of a slice, before it is [let in](crate::spread::check_opened).
    ///
    /// # Errors
    /// It is not the one that was begun last, or as with [`note_slice_begun`](Self::note_slice_begun).
    pub async fn note_slice_opened(
        &self,
        id: &SliceId,
        opening: Opening,
    ) -> Result<(), SettingsError> {
        self.change_slice(id, |slice| {
            let is_last = slice.begun == opening;
            is_last.then(|| SliceRecord { opened: opening, ..slice.clone() })
        })
        .await
    }

    /// Changes what is stored of a slice that is here, if that may be.
    async fn change_slice(
        &self,
        id: &SliceId,
        change: impl Fn(&SliceRecord) -> Option<SliceRecord>,
    ) -> Result<(), SettingsError> {
        self.change(|state| {
            let record = readable(state.slices.get(id))?;
            let record = record.filter(|record| record.stage == SliceStage::Here);
            let record = record.ok_or(SettingsError::SpreadChanged)?;
            let next = change(record).ok_or(SettingsError::SpreadChanged)?;
            check(&next)?;
            let is_so = next == *record;
            Ok((if is_so { Vec::new() } else { vec![Op::put(slice_key(id), next.encode())] }, ()))
        })
        .await
    }
}

/// Only what nobody will ever read is thrown away.
fn discarded<T>(
    record: Option<&Result<T, SettingError>>,
    key: String,
) -> Result<(Vec<Op>, ()), SettingsError> {
    match record {
        None => Ok((Vec::new(), ())),
        Some(Err(SettingError::Later { .. })) if mutants::is(Mutant::DiscardLater) => {
            Ok((vec![Op::Delete(Selection::key(key))], ()))
        }
        Some(Err(error @ SettingError::Later { .. })) => {
            Err(SettingsError::Unreadable(error.to_string()))
        }
        Some(Err(SettingError::Damaged { .. })) => Ok((vec![Op::Delete(Selection::key(key))], ())),
        Some(Ok(_)) => Err(SettingsError::SpreadChanged),
    }
}

/// A record, to be changed. What a later version wrote stays as it is.
fn readable<T>(record: Option<&Result<T, SettingError>>) -> Result<Option<&T>, SettingsError> {
    let read = record.map(Result::as_ref).transpose();
    read.map_err(|error| SettingsError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests;
