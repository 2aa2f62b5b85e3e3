//! The small volume that the settings of a member lie on, which nobody sees or uses but it.
//!
//! ```text
//!  absent ─ create ─▶ made (online) ─ set offline ─▶ offline, zero ─ the store opens ─▶ ours
//!                       └──────────── cut off here: the next start goes on
//! ```

use array::api::{Cache, DiskState, VolumeInfo, VolumeSpec, VolumeState};
use array::{Array, ArrayError, Level};

/// Its name, which no other volume may have.
pub(crate) const NAME: &str = ".drystone-settings";

/// Its size: room for a thousand volumes with all their records, several times over. All of it is taken when it
/// is made, before hosts can fill the array: on a full one access can still be taken from a host.
pub(crate) const SIZE_BYTES: u64 = 32 << 20;

/// The volume, if there is one of that name.
pub(crate) fn find(array: &Array) -> Option<VolumeInfo> {
    array.volumes().into_iter().find(is)
}

/// Whether it is that. It is never served: what is on it nobody but the member has written.
pub(crate) fn is(volume: &VolumeInfo) -> bool {
    volume.name == NAME
}

/// Whether a volume without contents was made to be this one. It goes offline if that was cut off.
pub(super) async fn is_fresh(array: &Array, volume: &VolumeInfo) -> Result<bool, ArrayError> {
    if volume.size_bytes != SIZE_BYTES {
        return Ok(false);
    }
    if volume.state != VolumeState::Offline {
        array.set_volume_online(NAME, false).await?;
    }
    Ok(true)
}

/// Takes it away again, before anything was ever stored on it.
pub(super) async fn discard(array: &Array) -> Result<(), ArrayError> {
    array.delete_volume(NAME).await?;
    array.purge_volume(NAME).await
}

/// Takes it away for good, with what is stored on it; not while disks are missing that may bring that back. Why it
/// is still there, as a sentence.
pub(super) async fn give_up(array: &Array) -> Result<(), String> {
    let missing = array.disks().into_iter().filter(|disk| disk.state == DiskState::Missing);
    let missing: Vec<String> = missing.map(|disk| disk.name).collect();
    if !missing.is_empty() {
        return Err(format!(
            "they may come back with {}: connect what is missing, or declare it failed first",
            missing.join(", ")
        ));
    }
    discard(array).await.map_err(|error| error.to_string())
}

/// Makes it, offline: its state is then never that of what hosts may have.
pub(super) async fn create(array: &Array) -> Result<VolumeInfo, ArrayError> {
    let spec = VolumeSpec {
        name: NAME.to_owned(),
        size_bytes: SIZE_BYTES,
        level: level(array),
        thick: true,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: Some(0),
        cached: true,
    };
    array.create_volume(spec).await?;
    array.set_volume_online(NAME, false).await
}

/// With redundancy, where there are disks for it.
fn level(array: &Array) -> Option<Level> {
    let info = array.info();
    (info.raid == Level::Raid0 && info.disks >= 2).then_some(Level::Raid10)
}
