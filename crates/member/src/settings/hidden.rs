//! The small volume that the settings of a member lie on, which nobody sees or uses but it.
//!
//! ```text
//!  absent ─ create ─▶ made (online) ─ set offline ─▶ offline, zero ─ the store opens ─▶ ours
//!                       └──────────── cut off here: the next start leaves it alone and says so
//! ```

use array::api::{Cache, VolumeInfo, VolumeSpec, VolumeState};
use array::{Array, ArrayError, Level};

/// Its name, which no other volume may have.
pub(crate) const NAME: &str = ".drystone-settings";

/// Its size: room for a thousand volumes with all their records, many times over. It takes what is written.
const SIZE_BYTES: u64 = 64 << 20;

/// The volume, if there is one of that name.
pub(super) fn find(array: &Array) -> Option<VolumeInfo> {
    array.volumes().into_iter().find(|volume| volume.name == NAME)
}

/// Whether a volume without contents was made to be this one.
pub(super) fn is_fresh(volume: &VolumeInfo) -> bool {
    volume.size_bytes == SIZE_BYTES && volume.state == VolumeState::Offline
}

/// Makes it, offline: its state is then never that of what hosts may have.
pub(super) async fn create(array: &Array) -> Result<VolumeInfo, ArrayError> {
    let spec = VolumeSpec {
        name: NAME.to_owned(),
        size_bytes: SIZE_BYTES,
        level: level(array),
        thick: false,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: Some(0),
    };
    array.create_volume(spec).await?;
    array.set_volume_online(NAME, false).await
}

/// With redundancy, where there are disks for it.
fn level(array: &Array) -> Option<Level> {
    let info = array.info();
    (info.raid == Level::Raid0 && info.disks >= 2).then_some(Level::Raid10)
}
