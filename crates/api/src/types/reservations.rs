//! Reservations of hosts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What hosts have reserved of a volume, or of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// The volume.
    pub volume: String,
    /// Of which of its snapshots; null if it is of the volume itself.
    #[serde(default)]
    pub snapshot: Option<String>,
    /// The type of the persistent reservation that holds, or null.
    pub reservation: Option<ReservationType>,
    /// Whether registrations and the reservation outlive a restart of the member and a loss of power (APTPL).
    pub persistent: bool,
    /// The host that holds the volume by RESERVE of SPC-2, or null.
    pub reserved_by: Option<String>,
    /// How many registrations there are.
    pub count: usize,
    /// How many there may be.
    pub count_max: usize,
    /// Who is registered, in the order in which they came.
    pub registrations: Vec<Registration>,
}

/// One registration: a path of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registration {
    /// The iSCSI name of the host.
    pub host: String,
    /// Which of the host's ports it is: twelve hexadecimal digits.
    pub isid: String,
    /// The key that it has registered: sixteen hexadecimal digits.
    pub key: String,
    /// Whom it is counted for: what was proved of the host that made it (`CHAP user NAME`, `address ADDRESS`), or its
    /// name.
    pub counted_for: String,
    /// Whether it holds the reservation, alone or with all others.
    pub holds: bool,
}

/// What a persistent reservation leaves to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive,
    /// Only the holder reads and writes.
    ExclusiveAccess,
    /// Only those who are registered write.
    WriteExclusiveRegistrantsOnly,
    /// Only those who are registered read and write.
    ExclusiveAccessRegistrantsOnly,
    /// Only those who are registered write, and all of them hold it.
    WriteExclusiveAllRegistrants,
    /// Only those who are registered read and write, and all of them hold it.
    ExclusiveAccessAllRegistrants,
}

super::same_words!(ReservationType, member::ReservationType:
    WriteExclusive, ExclusiveAccess, WriteExclusiveRegistrantsOnly, ExclusiveAccessRegistrantsOnly,
    WriteExclusiveAllRegistrants, ExclusiveAccessAllRegistrants);

impl From<member::Reservations> for Reservations {
    fn from(theirs: member::Reservations) -> Self {
        let member::Reservations { volume, snapshot, info } = theirs;
        let registration = |one: member::RegistrantInfo| Registration {
            host: one.nexus.initiator.to_string(),
            isid: one.nexus.isid.iter().map(|byte| format!("{byte:02x}")).collect(),
            key: format!("{:016x}", one.key),
            counted_for: one.owner.to_string(),
            holds: one.is_holder,
        };
        let registrations: Vec<_> = info.registrants.into_iter().map(registration).collect();
        Self {
            volume,
            snapshot,
            reservation: info.kind.map(Into::into),
            persistent: info.is_persistent,
            reserved_by: info.legacy.map(|nexus| nexus.initiator.to_string()),
            count: registrations.len(),
            count_max: member::Registrations::MAX,
            registrations,
        }
    }
}
