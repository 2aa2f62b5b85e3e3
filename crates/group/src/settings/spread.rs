//! What a member has stored of volumes that lie on several members: of those whose home it is, and of slices of others.
//! They lie on the array, and are the member's own.
//!
//! | key | what |
//! |---|---|
//! | `spreads/` and the number of a volume | this member is its home ([`SpreadRecord`]) |
//! | `slices/` and the number of a slice | it has this slice of a volume of another home ([`SliceRecord`]) |
//!
//! What is stored goes the way that [`crate::spread`] draws, and no other: a change that was decided on something else
//! is refused.

use super::state::State;
use super::{Settings, SettingsError};
use crate::membership::{SliceId, SpreadId};
use crate::mutants::{self, Mutant};
use crate::record::{Setting, SettingError};
use crate::spread::{
    SliceRecord, SliceStage, SliceStanding, SpreadRecord, SpreadStage, SpreadStanding,
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
        if let Some(id) = key.strip_prefix(SPREADS) {
            let record = SpreadRecord::decode(&kv.value);
            self.spreads.extend(id.parse().ok().map(|id| (id, record)));
        } else if let Some(id) = key.strip_prefix(SLICES) {
            let record = SliceRecord::decode(&kv.value);
            self.slices.extend(id.parse().ok().map(|id| (id, record)));
        } else {
            return false;
        }
        true
    }
}

impl Settings {
    /// Stores that a spread volume is being made, before any of its slices is asked for.
    ///
    /// # Errors
    /// One of its number is stored, or the store does not do it.
    pub async fn prepare_spread(&self, record: &SpreadRecord) -> Result<(), SettingsError> {
        debug_assert_eq!(record.stage, SpreadStage::Making, "nothing is there yet");
        debug_assert_eq!(record.check_sound(), Ok(()));
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
                debug_assert_eq!(next.check_sound(), Ok(()));
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

    /// Stores that a slice is being made here, before its volume is.
    ///
    /// # Errors
    /// One of its number is stored, or the store does not do it.
    pub async fn prepare_slice(&self, record: &SliceRecord) -> Result<(), SettingsError> {
        debug_assert_eq!(record.stage, SliceStage::Making, "nothing is there yet");
        debug_assert_eq!(record.check_sound(), Ok(()));
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
                Ok((vec![Op::put(slice_key(id), record.with(standing).encode())], ()))
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
}

/// A record, to be changed. What a later version wrote stays as it is.
fn readable<T>(record: Option<&Result<T, SettingError>>) -> Result<Option<&T>, SettingsError> {
    let read = record.map(Result::as_ref).transpose();
    read.map_err(|error| SettingsError::Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests;
