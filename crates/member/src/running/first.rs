//! The first volume, or the first since there is room for settings. Hosts may not have it before there is: they could fill
//! the array, and access could not be taken from them.
//!
//! ```text
//!  nothing ─ room for settings ─▶ what it is to become is stored ─▶ made offline ─▶ online, complete
//!     ▲            │  ▲                   ╰─ refused, no room beside: it is not there, and not to become anything
//!     ╰── none ────╯  ╰────────────────────────╯
//! ```
//!
//! Wherever that is cut off, the next start finds room for settings and no volume, or one that it
//! [completes](Member::complete_all).

use std::collections::BTreeMap;

use array::ArrayError;
use array::api::{VolumeInfo, VolumeSpec};
use group::settings::Intent;

use super::{Member, RequestError};
use crate::settings::{KeptError, hidden};

impl Member {
    /// Makes room for what can be set for a volume of this name, which is to be the first. Says whether it is there: what
    /// else than want of room stands in the way is told, and keeps no volume from being made.
    pub(super) async fn make_room_for(&self, name: &str) -> Result<bool, RequestError> {
        match self.settings.make_ahead().await {
            Ok(()) => Ok(!self.settings.are_to_be_made()),
            Err(KeptError::NoRoom { free_bytes, asked_bytes }) => {
                Err(RequestError::NoRoomBeside { name: name.to_owned(), free_bytes, asked_bytes })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn create_first(
        &self,
        spec: VolumeSpec,
        online: bool,
    ) -> Result<VolumeInfo, RequestError> {
        let name = spec.name.clone();
        let free_bytes = self.free_bytes_for(&spec);
        if spec.thick && spec.size_bytes > free_bytes {
            // It would be refused without room for settings too, and costs none.
            return Err(ArrayError::NoSpace { free_bytes, asked_bytes: spec.size_bytes }.into());
        }
        if !self.make_room_for(&name).await? {
            return Ok(match online {
                true => self.array.create_volume(spec).await?,
                false => self.array.create_volume_offline(spec).await?,
            });
        }
        let mut made = Vec::new();
        let done = async {
            let intent = Intent { online, ..Intent::default() };
            self.intend(BTreeMap::from([(name.clone(), intent)])).await?;
            self.array.create_volume_offline(spec).await?;
            made.push(name.clone());
            self.complete(&name).await?;
            self.find(&name)
        };
        match done.await {
            Ok(volume) => Ok(volume),
            Err(refusal) => {
                let refusal = self.taken_back(made, refusal).await;
                Err(without_room_for_settings(refusal, name, free_bytes))
            }
        }
    }

    /// What there is for a volume of that level; no end where the array has something else against it.
    fn free_bytes_for(&self, spec: &VolumeSpec) -> u64 {
        let info = self.array.info();
        let level = spec.level.unwrap_or(info.raid);
        let of_level = info.free_by_level.into_iter().find(|space| space.raid == level);
        of_level.map_or(u64::MAX, |space| space.free_bytes)
    }
}

/// The refusal of a volume for which there were `free_bytes` before there was room for settings.
fn without_room_for_settings(refusal: RequestError, name: String, free_bytes: u64) -> RequestError {
    match refusal {
        RequestError::Array(ArrayError::NoSpace { asked_bytes, .. }) => {
            let free_bytes = free_bytes.saturating_sub(asked_bytes);
            if free_bytes >= hidden::SIZE_BYTES {
                // What the array says is right: it counts without the settings.
                return refusal;
            }
            RequestError::NoRoomBeside { name, free_bytes, asked_bytes: hidden::SIZE_BYTES }
        }
        other => other,
    }
}
