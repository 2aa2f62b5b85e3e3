//! What is asked about reservations of hosts.

use super::{Client, Result, path};
use crate::types::Reservations;

impl Client {
    /// What hosts have reserved of a volume.
    pub fn reservations(&self, volume: &str) -> Result<Reservations> {
        self.get(&path(["volumes", volume, "reservations"]))
    }

    /// Ends all of it.
    pub fn clear_reservations(&self, volume: &str) -> Result<Reservations> {
        self.post(&path(["volumes", volume, "reservations", "clear"]))
    }

    /// What hosts have reserved of a snapshot.
    pub fn snapshot_reservations(&self, volume: &str, name: &str) -> Result<Reservations> {
        self.get(&path(["snapshots", volume, name, "reservations"]))
    }

    /// Ends all of it.
    pub fn clear_snapshot_reservations(&self, volume: &str, name: &str) -> Result<Reservations> {
        self.post(&path(["snapshots", volume, name, "reservations", "clear"]))
    }
}
