//! Devices whose server was killed, with everybody who uses them waiting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use block::Geometry;
use ring::UblkControl;

use super::leftovers::{is_closed, is_running, number};
use super::wire::{INFO_BYTES, Info, params_wanted, shape};
use super::{DEPTH, Device, PAUSE, UblkError, failed, mark, node, open, turn};

/// How long the kernel may take for the end of a process.
const LAST_SERVER_TIME: Duration = Duration::from_secs(10);

/// By what a device is known again, so that after a crash it gets its own disk, and no other.
pub struct Keeping<'a> {
    /// The name of the disk: the same in the next process, and that of no other disk.
    pub name: &'a [u8],
    /// Whether the process that made this block device has noted that it is of this disk.
    pub is_noted: &'a dyn Fn(&Path) -> bool,
}

impl std::fmt::Debug for Keeping<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeping").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The block devices that processes of ours have left; none for users that may not ask.
pub fn left() -> Vec<PathBuf> {
    let Ok(mut control) = open() else { return Vec::new() };
    let mut left: Vec<_> = all(&mut control).into_iter().map(|info| info.number).collect();
    left.retain(|number| is_closed(*number));
    left.sort_unstable();
    left.into_iter().map(|number| node('b', number)).collect()
}

/// Takes away a block device that was left; what has waited for it gets errors. False if there is none
/// of this path that was left.
///
/// # Errors
/// Those of the kernel.
pub fn take_away(path: &Path) -> Result<bool, UblkError> {
    let mut control = open()?;
    let _turn = turn()?;
    let found = all(&mut control).into_iter().find(|info| node('b', info.number) == path);
    let Some(info) = found.filter(|info| is_closed(info.number)) else { return Ok(false) };
    let mut device = Device::of(control, &info, 0);
    // Nobody is there to whom it could be written.
    device.outlives_its_server = false;
    device.end().map_err(failed("take the block device away"))?;
    Ok(true)
}

/// The one that was left of this disk. Only with the turn: somebody else may be about to take it.
pub(super) fn find(control: &mut UblkControl, keeping: &Keeping<'_>) -> Option<Info> {
    let mark = mark::of(Some(keeping.name));
    let is_meant = |info: &Info| info.mark == mark && (keeping.is_noted)(&node('b', info.number));
    all(control).into_iter().find(is_meant)
}

/// Those of ours that have a block device and no server.
fn all(control: &mut UblkControl) -> Vec<Info> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        let Some(number) = number(&entry.file_name().to_string_lossy()) else { continue };
        let mut info = [0; INFO_BYTES];
        if control.info(number, &mut info).is_ok() {
            found.push(Info::of_bytes(&info));
        }
    }
    found.retain(is_left);
    found
}

fn is_left(info: &Info) -> bool {
    let is_served = info.is_live() && is_running(info.pid);
    mark::is_ours(info.mark) && info.outlives_its_server() && !info.is_dead() && !is_served
}

/// Begins to take a device over: its queue can be opened then. It is not taken away if what comes after
/// fails.
pub(super) fn begin(
    mut control: UblkControl,
    info: &Info,
    geometry: &Geometry,
) -> Result<Device, UblkError> {
    let mut params = params_wanted();
    let told = control.params(info.number, &mut params);
    told.map_err(failed("ask the kernel about the block device"))?;
    let (block_bytes, size_bytes) = shape(&params);
    let changed = |reason| Err(UblkError::Changed { path: node('b', info.number), reason });
    if block_bytes != u64::from(geometry.block_bytes) {
        return changed("the volume has blocks of another size now");
    }
    if size_bytes > geometry.size_bytes() {
        return changed("the volume is smaller now");
    }
    if (info.queues, info.depth) != (1, DEPTH) {
        return changed("it was made by another version");
    }
    let end = Instant::now() + LAST_SERVER_TIME;
    loop {
        match control.begin_recovery(info.number) {
            Ok(()) => return Ok(Device::of(control, info, size_bytes)),
            // Its last server may be on its way out still.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && Instant::now() < end => {
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(failed("take over what a process has left")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_of_ours_without_a_server_are_left() {
        let mark = mark::of(Some(b"a"));
        let left = Info { state: 2, pid: -1, ..Info::wanted(DEPTH, 1, mark, true) };
        assert!(is_left(&left));
        assert!(is_left(&Info { state: 1, pid: i32::MAX, ..left }), "the kernel hears of it soon");
        assert!(!is_left(&Info { state: 1, pid: std::process::id() as i32, ..left }));
        assert!(!is_left(&Info { state: 0, ..left }), "it has no block device");
        assert!(!is_left(&Info { mark: 0, ..left }), "of another server");
        assert!(!is_left(&Info { state: 2, pid: -1, ..Info::wanted(DEPTH, 1, mark, false) }));
    }

    #[test]
    fn a_machine_without_ublk_has_none() {
        if !Path::new(ring::UBLK_CONTROL).exists() {
            assert!(left().is_empty());
            assert!(take_away(Path::new("/dev/ublkb0")).is_err());
        }
    }
}
