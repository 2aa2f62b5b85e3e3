//! Registrations of persistent reservations.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Registrations of persistent reservations with a volume that has hardly room for more of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registrations {
    /// How many there are.
    pub count: usize,
    /// How many there may be.
    pub count_max: usize,
    /// How much is taken of the room that all volumes share, in percent, where that runs short and this one holds some;
    /// else null.
    pub shared_percent: Option<usize>,
    /// Whose they are, most first; none while the volume is not served.
    pub hosts: Vec<Registrant>,
}

/// Who is registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Registrant {
    /// What they are counted for: the CHAP user of the host, or else its address.
    pub host: String,
    /// How many registrations: one for each path of a host, usually, under whatever names.
    pub count: usize,
}

impl From<member::Registrations> for Registrations {
    fn from(theirs: member::Registrations) -> Self {
        let member::Registrations { hosts, shared_percent } = theirs;
        let hosts: Vec<_> =
            hosts.into_iter().map(|(host, count)| Registrant { host, count }).collect();
        let count = hosts.iter().map(|host| host.count).sum();
        Self { count, count_max: member::Registrations::MAX, shared_percent, hosts }
    }
}
