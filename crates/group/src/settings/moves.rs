//! What a member has stored of volumes that move: those that leave it, those that have come and are not its own yet,
//! and what hosts know those by that were made elsewhere. They lie on the array, and are the member's own: no other
//! member of its group sees them here.
//!
//! | key | what |
//! |---|---|
//! | `departures/` and the number of a volume | it leaves, and is served to nobody ([`Departure`]) |
//! | `arrivals/` and the number of a move | all of a volume is here, and it is not this member's yet ([`Arrival`]) |
//! | `adopted/` and the number of a volume | what hosts know it by ([`Adopted`]) |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::state::{State, volume_key};
use super::{Settings, SettingsError, Units, VolumeSettings};
use crate::membership::{GroupId, MoveId};
use crate::ownership::MemberId;
use crate::record::{Setting, SettingError};
use crate::store::{KeyValue, Op, Selection};

pub(super) const DEPARTURES: &str = "departures/";
pub(super) const ARRIVALS: &str = "arrivals/";
pub(super) const ADOPTED: &str = "adopted/";

/// How far a volume has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// It may have been given away, or may stay yet: the store of the group knows.
    Leaving,
    /// It is another member's.
    Gone,
}

/// A volume that leaves for another member. As long as this is stored it is served to nobody here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    /// The move.
    pub id: MoveId,
    /// The group whose members move it: numbers of members say nothing in another one.
    pub group: GroupId,
    /// The number of the volume here.
    pub volume: u32,
    /// Its name.
    pub name: String,
    /// The member that it leaves: its number in the group may be another one later.
    pub from: MemberId,
    /// Where it goes.
    pub to: MemberId,
    /// The name of that member when the move began, by which it is known outside of its group. Records of earlier
    /// versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to_name: String,
    /// The serial number that hosts know it by, by which its destination is asked for it. Records of earlier versions have
    /// none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// The names of the targets that hosts know it and its snapshots by.
    pub iqns: Vec<String>,
    /// How far it is.
    pub stage: Stage,
}

impl Setting for Departure {
    const WHAT: &'static str = "that a volume leaves for another member";
}

/// A volume all of which has come from another member. As long as this is stored it has a hidden name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrival {
    /// The move.
    pub id: MoveId,
    /// The group whose members move it.
    pub group: GroupId,
    /// The number of the volume here.
    pub volume: u32,
    /// The name that it is to have.
    pub name: String,
    /// Where it comes from.
    pub from: MemberId,
    /// The name of that member when the move began. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from_name: String,
    /// The serial number that hosts know it by, by which its source is asked for it: it is still known when the volume is
    /// gone from here, and [`Adopted`] with it. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub serial: String,
    /// It is to be served, as far as an operator decides that.
    pub online: bool,
}

impl Setting for Arrival {
    const WHAT: &'static str = "that a volume has come from another member";
}

/// What hosts know a volume by that was made on another array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adopted {
    /// How the name of its target begins, up to the colon before its own name.
    pub prefix: String,
    /// Its serial number.
    pub serial: String,
}

impl Setting for Adopted {
    const WHAT: &'static str = "what hosts know a volume by";
}

pub(super) fn departure_key(volume: u32) -> String {
    format!("{DEPARTURES}{volume:08x}")
}

fn arrival_key(id: &MoveId) -> String {
    format!("{ARRIVALS}{id}")
}

pub(super) fn adopted_key(volume: u32) -> String {
    format!("{ADOPTED}{volume:08x}")
}

/// By the number of the volume, or of the move. What cannot be read is served to nobody.
pub type Departures = BTreeMap<u32, Result<Departure, SettingError>>;
/// By the number of the move.
pub type Arrivals = BTreeMap<MoveId, Result<Arrival, SettingError>>;
/// By the number of the volume.
pub type AdoptedVolumes = BTreeMap<u32, Result<Adopted, SettingError>>;

impl State {
    /// Takes a key in if it is one of these, and says whether it was.
    pub(super) fn take_move(&mut self, key: &str, kv: &KeyValue) -> bool {
        let number = |text| u32::from_str_radix(text, 16).ok();
        if let Some(volume) = key.strip_prefix(DEPARTURES) {
            let departure = Departure::decode(&kv.value);
            self.departures.extend(number(volume).map(|volume| (volume, departure)));
        } else if let Some(id) = key.strip_prefix(ARRIVALS) {
            let arrival = Arrival::decode(&kv.value);
            self.arrivals.extend(id.parse().ok().map(|id| (id, arrival)));
        } else if let Some(volume) = key.strip_prefix(ADOPTED) {
            let adopted = Adopted::decode(&kv.value);
            self.adopted.extend(number(volume).map(|volume| (volume, adopted)));
        } else {
            return false;
        }
        true
    }
}

impl Settings {
    /// Stores that a volume leaves, or how far it has.
    ///
    /// # Errors
    /// It leaves by another move, is gone already, it cannot be read whether it leaves, or the store does not do it.
    pub async fn depart(&self, departure: &Departure) -> Result<(), SettingsError> {
        let goes_on = |former: &Departure| {
            let is_back = (former.stage, departure.stage) == (Stage::Gone, Stage::Leaving);
            former.id == departure.id && !is_back
        };
        self.change(|state| match readable(state.departures.get(&departure.volume))? {
            Some(former) if !goes_on(former) => {
                Err(SettingsError::LeavesAlready(departure.name.clone()))
            }
            _ => Ok((vec![Op::put(departure_key(departure.volume), departure.encode())], ())),
        })
        .await
    }

    /// A volume leaves no more, or has left.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or the store does not do it.
    pub async fn forget_departure(&self, volume: u32) -> Result<(), SettingsError> {
        self.change(|state| {
            let is_there = readable(state.departures.get(&volume))?.is_some();
            let delete = || Op::Delete(Selection::key(departure_key(volume)));
            Ok((is_there.then(delete).into_iter().collect(), ()))
        })
        .await
    }

    /// Stores that all of a volume has come, and with it, in the same moment, what hosts rely on: who may use it, what
    /// they know it by, and what its unit keeps.
    ///
    /// # Errors
    /// What is stored of the move cannot be read, it is more than one transaction holds, or the store does not do it.
    pub async fn arrive(
        &self,
        arrival: &Arrival,
        settings: &VolumeSettings,
        adopted: &Adopted,
        units: &Units,
    ) -> Result<(), SettingsError> {
        self.change(|state| {
            readable(state.arrivals.get(&arrival.id))?;
            let mut ops = vec![
                Op::put(volume_key(arrival.volume), settings.encode()),
                Op::put(adopted_key(arrival.volume), adopted.encode()),
                Op::put(arrival_key(&arrival.id), arrival.encode()),
            ];
            ops.extend(super::units::puts(units));
            Ok((ops, ()))
        })
        .await
    }

    /// A volume that has come is this member's, or never will be.
    ///
    /// # Errors
    /// What is stored of it cannot be read, or the store does not do it.
    pub async fn forget_arrival(&self, id: &MoveId) -> Result<(), SettingsError> {
        self.change(|state| {
            let is_there = readable(state.arrivals.get(id))?.is_some();
            let delete = || Op::Delete(Selection::key(arrival_key(id)));
            Ok((is_there.then(delete).into_iter().collect(), ()))
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
