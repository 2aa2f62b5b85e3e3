//! Reservations as operators see and end them, and as they pass from one server to another.

use std::sync::Arc;

use scsi::reservation::ReservationsInfo;

use super::targets::Targets;
use crate::targets::{Found, TargetError};
use crate::unit::{Unit, clear_reservations};

impl Targets {
    /// The reservations of the first unit of a target; `None` where it is not served.
    #[must_use]
    pub fn reservations(&self, iqn: &str) -> Option<ReservationsInfo> {
        self.first_unit(iqn).map(|unit| unit.logical.reservations())
    }

    /// Ends the reservations of the first unit of a target as CLEAR of a registered host does (SPC-5 §5.14.11.6), and a
    /// RESERVE of SPC-2: who was registered is told RESERVATIONS PREEMPTED. At its end no loss of power brings them back.
    /// How many registrations there were. Must run on a core of the server.
    ///
    /// # Errors
    /// [`TargetError::Unknown`] and [`TargetError::Unsaved`]: nothing has changed.
    pub async fn clear_reservations(&self, iqn: &str) -> Result<usize, TargetError> {
        let unit = self.first_unit(iqn).ok_or_else(|| TargetError::Unknown(iqn.to_owned()))?;
        clear_reservations(&unit)
            .await
            .map_err(|source| TargetError::Unsaved { unit: unit.name.clone(), source })
    }

    /// An image of the reservations that are kept in memory of a unit, by its serial number, while its target is
    /// [offline](Self::set_offline): also of those that outlive no loss of power, which are saved nowhere. `None`
    /// where nothing is: what is saved counts then.
    #[must_use]
    pub fn kept_reservations(&self, serial: &str) -> Option<Vec<u8>> {
        self.0.targets.kept_reservations(serial)
    }

    /// A unit that was served by another server until now, without a loss of power since, has these reservations when
    /// it is served here, whatever was kept or is saved of it. `None`: what is saved of it counts. It must not be
    /// served now.
    pub fn keep_reservations(&self, serial: &str, image: Option<Vec<u8>>) {
        self.0.targets.keep_reservations(serial, image);
    }

    fn first_unit(&self, iqn: &str) -> Option<Arc<Unit>> {
        match self.0.targets.find(&iqn.to_ascii_lowercase()) {
            Found::Served(target) => target.units.first().cloned(),
            _ => None,
        }
    }
}
