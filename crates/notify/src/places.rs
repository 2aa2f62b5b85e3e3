//! The places of all destinations, in one file of the data directory: `notified.json`.
//!
//! It lies beside the events, as their numbers mean something there only. What does not read is as if it was not
//! there: destinations begin where they were made, and may be told again what the log still has.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use group::regular;
use serde::{Deserialize, Serialize};

use crate::place::Place;

const FILE: &str = "notified.json";

/// More than the places of all destinations take.
const FILE_BYTES_MAX: u64 = 32 << 20;

/// The version that is written, and the latest that is understood.
const VERSION: u32 = 1;

/// Places by the number of the destination.
pub(crate) type Places = BTreeMap<u64, Place>;

#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    places: Places,
}

/// Where they are kept.
#[derive(Debug, Clone)]
pub(crate) struct PlacesFile(PathBuf);

impl PlacesFile {
    pub(crate) fn new(data: &Path) -> Self {
        Self(data.join(FILE))
    }

    /// What was written last.
    pub(crate) fn read(&self) -> Places {
        let read = || -> io::Result<Places> {
            let text = match regular::read(&self.0, FILE_BYTES_MAX) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Places::new()),
                read => read?,
            };
            let written: Written = serde_json::from_slice(&text)?;
            if written.version > VERSION {
                return Err(io::Error::other("a later version of drystone wrote it"));
            }
            Ok(written.places)
        };
        read().unwrap_or_else(|error| {
            tracing::warn!(
                "'{}' cannot be read, and destinations may be told again what they were told before: {error}",
                self.0.display()
            );
            Places::new()
        })
    }

    /// Replaces it, so that after a crash either the old or the new one is there.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn write(&self, places: &Places) -> io::Result<()> {
        let written = Written { version: VERSION, places: places.clone() };
        ring::replace_file(&self.0, &serde_json::to_vec(&written)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_does_not_read_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let file = PlacesFile::new(dir.path());
        assert!(file.read().is_empty());
        let places: Places = [(7, Place::default()), (u64::MAX, Place::default())].into();
        file.write(&places).unwrap();
        assert_eq!(file.read(), places);
        for bad in ["", "{", r#"{"version":2,"places":{}}"#] {
            std::fs::write(&file.0, bad).unwrap();
            assert!(file.read().is_empty(), "{bad}");
        }
    }
}
