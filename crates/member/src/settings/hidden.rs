//! The volumes that nobody sees or uses but the member: the small one that its settings lie on, and those that arrive
//! from other members, as long as they are not its own.
//!
//! That of the settings:
//!
//! ```text
//!  absent ─ create ─▶ made (online) ─ set offline ─▶ offline, zero ─ the store opens ─▶ ours
//!                       └──────────── cut off here: the next start goes on
//! ```

use array::api::{Cache, DiskState, VolumeInfo, VolumeSpec, VolumeState};
use array::{Array, ArrayError, Level};

/// The name of that of the settings, which no other volume may have.
pub(crate) const NAME: &str = ".drystone-settings";

/// How the names of volumes begin that arrive. Some digits of the number of the move follow, and nothing else: what an
/// operator has named otherwise is his.
pub(crate) const ARRIVING: &str = ".arriving-";

/// So many digits.
pub(crate) const ARRIVING_DIGITS: usize = 16;

/// How the names of snapshots begin that moves take; as many digits follow. Nobody has given one such a name, whatever
/// date it has in it.
pub(crate) const OF_MOVE: &str = ".moving-";

/// Whether this is the name of a volume that arrives.
pub(crate) fn is_hidden_name(name: &str) -> bool {
    has_digits(name, ARRIVING)
}

/// Whether a snapshot of this name is one that a move has taken: nobody else can give it that.
pub(crate) fn is_of_move(name: &str) -> bool {
    has_digits(name, OF_MOVE)
}

fn has_digits(name: &str, prefix: &str) -> bool {
    let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    name.strip_prefix(prefix)
        .is_some_and(|digits| digits.len() == ARRIVING_DIGITS && digits.bytes().all(is_digit))
}

/// The size of that of the settings: room for a thousand volumes with all their records, several times over. All of it
/// is taken when it is made, before hosts can fill the array: on a full one access can still be taken from a host.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What has such a name and no record is deleted: it must be none that an operator has given.
    #[test]
    fn a_hidden_name_is_one_of_a_move_and_no_other() {
        assert!(is_hidden_name(".arriving-0123456789abcdef"));
        let others = [
            ".arriving-",
            ".arriving-0123456789abcde",
            ".arriving-0123456789abcdef0",
            ".arriving-0123456789ABCDEF",
            ".arriving-of-a-new-age-vm1",
            "arriving-0123456789abcdef",
            NAME,
        ];
        assert_eq!(others.into_iter().find(|name| is_hidden_name(name)), None);
    }
}
