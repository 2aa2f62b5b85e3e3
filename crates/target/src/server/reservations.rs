//! Reservations as operators see and end them.

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

    fn first_unit(&self, iqn: &str) -> Option<Arc<Unit>> {
        match self.0.targets.find(&iqn.to_ascii_lowercase()) {
            Found::Served(target) => target.units.first().cloned(),
            _ => None,
        }
    }
}
