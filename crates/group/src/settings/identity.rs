//! What hosts know an array by, wherever its disks are: it must not change when they move to another machine.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

use super::state::IDENTITY;
use super::{Settings, SettingsError};
use crate::record::Setting;
use crate::store::Op;

/// What hosts know an array by, beside the names of its volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// How the names of targets begin, where an operator chose that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The number of the portal group (RFC 7143 §4.4.1), which is part of each I_T nexus and so of what is
    /// reserved; `None` where it follows from the array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal_group: Option<NonZeroU16>,
}

impl Setting for Identity {
    const WHAT: &'static str = "what hosts know the array by";
}

impl Settings {
    /// Stores what hosts know the array by from now on.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn set_identity(&self, identity: &Identity) -> Result<(), SettingsError> {
        self.change(|state| {
            let is_there = state.identity == *identity && state.unreadable_identity().is_none();
            let put = || Op::put(IDENTITY, identity.encode());
            Ok(((!is_there).then(put).into_iter().collect(), ()))
        })
        .await
    }
}
