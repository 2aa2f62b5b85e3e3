//! Opening the store of settings, and the key of its secrets.

use std::sync::Arc;
use std::time::Instant;

use group::bytes::{Contents, contents};
use group::secrets::{KeptKey, KeySource, Vault};
use group::settings::{Given, Settings};
use group::store::{Embedded, Options, Place, StoreError};

use super::device::VolumeBytes;
use crate::mutants::{self, Mutant};

/// What a store is opened with.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) key: KeySource,
    /// Secrets that the member was started with.
    pub(super) given: Given,
    /// The key that is in memory already, from a store that was open before.
    pub(super) kept: Option<KeptKey>,
}

/// Why no store is opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("it is a volume of somebody else")]
    Foreign,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens what lies on the volume; one that is fresh and empty becomes a store.
pub(super) fn open_store(
    volume: VolumeBytes,
    is_fresh: bool,
    start: Start,
) -> Result<Settings, OpenError> {
    let begins = match contents(&volume).map_err(StoreError::from)? {
        Contents::Store => false,
        Contents::Nothing if is_fresh => true,
        Contents::Nothing | Contents::Other => return Err(OpenError::Foreign),
    };
    let mut settings = open_settings(Place::Device(Arc::new(volume)), start)?;
    if begins {
        make_key_ready(&mut settings);
    }
    Ok(settings)
}

/// Makes the key of secrets before the first of them, while the data directory answers: who stores that has the turn of
/// all that is stored.
pub(super) fn make_key_ready(settings: &mut Settings) {
    if let Err(error) = settings.make_key_ready() {
        tracing::warn!("no secrets can be stored: {error}");
    }
}

/// Settings in a store that lies there.
pub(super) fn open_settings(place: Place, start: Start) -> Result<Settings, OpenError> {
    let Start { key, given, kept } = start;
    let begun = Instant::now();
    let clock = Arc::new(move || begun.elapsed());
    let store = Embedded::open(place, clock, Options::on_small_device())?;
    // As without one: who is let in by name or address is let in.
    let mut vault = Vault::open(key.clone()).unwrap_or_else(|error| {
        if kept.is_none() {
            tracing::error!(
                "{error}; hosts that CHAP users of access lists let in are kept out until the member is started with it"
            );
        }
        Vault::without_key(key)
    });
    // What lies there by now is for the next start, and told of.
    if let Some(kept) = &kept {
        vault.remember(kept);
    }
    let mut settings = Settings::new(Arc::new(store), vault).beside(given);
    if mutants::is(Mutant::EndlessSettings) {
        settings.limit(u64::MAX);
    }
    Ok(settings)
}
