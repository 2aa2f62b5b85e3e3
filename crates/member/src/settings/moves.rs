//! Volumes that move: what is stored of those that leave, that have come, and that were made elsewhere.
//!
//! What does not read, as a later version wrote it, counts as stored: its volume is for nobody.

use std::collections::BTreeMap;
use std::io;

use group::membership::MoveId;
use group::settings::{Adopted, Arrival, Departure, Settings, Units, VolumeSettings};

use super::{KeptError, MemberSettings};

impl MemberSettings {
    /// The departures that read.
    pub(crate) fn departures(&self) -> Vec<Departure> {
        self.state.borrow().departures.values().flatten().cloned().collect()
    }

    /// That of this volume, if it leaves and that reads.
    pub(crate) fn departure(&self, volume: u32) -> Option<Departure> {
        self.state.borrow().departures.get(&volume)?.as_ref().ok().cloned()
    }

    /// The arrivals that read.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.state.borrow().arrivals.values().flatten().cloned().collect()
    }

    /// What hosts know those volumes by that were made elsewhere, by number, as far as that reads.
    pub(crate) fn all_adopted(&self) -> BTreeMap<u32, Adopted> {
        let state = self.state.borrow();
        let read = state.adopted.iter().filter_map(|(volume, adopted)| {
            let adopted = adopted.as_ref().ok()?;
            Some((*volume, adopted.clone()))
        });
        read.collect()
    }

    /// What is kept of the unit of this serial number.
    ///
    /// # Errors
    /// It is not known what units keep, or something of this one does not read.
    pub(crate) fn units_of(&self, serial: &str) -> io::Result<Units> {
        self.units.of_unit(serial)
    }

    /// Stores that a volume leaves, or how far it has: until that is forgotten it is for nobody.
    pub(crate) async fn depart(&self, departure: &Departure) -> Result<(), KeptError> {
        let departure = departure.clone();
        self.change(async move |settings: &mut Settings| settings.depart(&departure).await).await
    }

    /// A volume leaves no more, or is not here any more.
    pub(crate) async fn forget_departure(&self, volume: u32) -> Result<(), KeptError> {
        self.change(async move |settings: &mut Settings| settings.forget_departure(volume).await)
            .await
    }

    /// Stores, all at once, that a volume has come, who may use it, what hosts know it by and what its unit keeps. When
    /// this has ended well no loss of power undoes it, and what its unit keeps counts.
    pub(crate) async fn arrive(
        &self,
        arrival: &Arrival,
        settings: &VolumeSettings,
        adopted: &Adopted,
        units: &Units,
    ) -> Result<(), KeptError> {
        let _turn = self.turn.take().await;
        if !self.units.are_known() {
            return Err(KeptError::NotAvailable("it is not known what units keep".to_owned()));
        }
        self.check_unit_room(units)?;
        // What is reserved is reserved by nexuses with this number.
        self.keep_earlier_number().await?;
        let (arrival, volume, adopted) = (arrival.clone(), settings.clone(), adopted.clone());
        let stored = units.clone();
        let arrive = async move |settings: &mut Settings| {
            settings.arrive(&arrival, &volume, &adopted, &stored).await
        };
        self.change_now(arrive).await?;
        for (key, image) in units {
            self.units.set(key.clone(), Ok(image.clone()));
        }
        Ok(())
    }

    /// A volume that has come is this member's, or never will be.
    pub(crate) async fn forget_arrival(&self, id: &MoveId) -> Result<(), KeptError> {
        let id = id.clone();
        self.change(async move |settings: &mut Settings| settings.forget_arrival(&id).await).await
    }

    /// Refuses records of units that there is no room for beside those of others.
    fn check_unit_room(&self, units: &Units) -> Result<(), KeptError> {
        let mut before = Units::new();
        for (key, image) in units {
            if !self.units.has_room(key, image.as_deref(), &before) {
                return Err(KeptError::Full);
            }
            before.insert(key.clone(), image.clone());
        }
        Ok(())
    }
}
