//! What udev is told of a block device, so that it has a name which stays: `RUNTIME_DIR/ublk/ublkbN`,
//! read by `packaging/60-drystone.rules` when the kernel announces the device.
//!
//! Invariant: a file is there only while the number N is its process's. It is written when the kernel
//! has given the number and before the block device appears, and removed with the device. What a
//! process that was killed has left is passed over by the rule, which looks whether the process is
//! there, and written anew by the next one that gets the number. So no device bears the name of another.
//!
//! It says as well of which disk the device is: a device that outlives its process is taken over by the
//! next one of the same disk, which finds it by that, and by what the kernel keeps (`attach::ublk`).
//!
//! `ublkbN.lost` beside it is there while the users of the device may not know yet that the target has
//! lost what they had written: whoever takes them over tells them.

use initiator::LossNote;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The directory of these files.
#[derive(Debug, Clone)]
pub(crate) struct Notes(PathBuf);

/// A file, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    text: String,
}

/// What is behind a device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The name of its file; empty without one.
    pub(crate) name: String,
    /// The URL of the volume.
    pub(crate) volume: String,
    /// The worldwide name of the volume, as hexadecimal digits.
    pub(crate) wwn: Option<String>,
    /// What no other disk is called; nothing if the disk has no name.
    pub(crate) disk: Option<String>,
}

impl Notes {
    /// Those of a runtime directory.
    pub(crate) fn of(runtime_dir: &Path) -> Notes {
        Notes(runtime_dir.join("ublk"))
    }

    /// Says what is behind `device`. Without the file the device has no name that stays, and nobody takes
    /// it over after a crash, which is no reason not to serve it.
    pub(crate) fn write(&self, device: &Path, behind: &Behind) -> Option<Note> {
        match self.try_write(device, text(behind)) {
            Ok(note) => Some(note),
            Err(error) => {
                let device = device.display();
                tracing::warn!(
                    "'{device}' will have no link in /dev/disk/by-id, and is not taken over after a crash: {error}"
                );
                None
            }
        }
    }

    fn path(&self, device: &Path) -> Option<PathBuf> {
        Some(self.0.join(device.file_name()?))
    }

    /// What was said of `device`, perhaps by a process that is gone.
    pub(crate) fn read(&self, device: &Path) -> Option<Behind> {
        let text = fs::read_to_string(self.path(device)?).ok()?;
        let value = |key: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            lines.filter(|(found, _)| *found == key).map(|(_, value)| value.to_owned()).next()
        };
        Some(Behind {
            name: value("DRYSTONE_NAME").unwrap_or_default(),
            volume: value("DRYSTONE_VOLUME").unwrap_or_default(),
            wwn: value("ID_WWN_WITH_EXTENSION").map(|wwn| wwn.trim_start_matches("0x").to_owned()),
            disk: value("DRYSTONE_DISK"),
        })
    }

    /// Forgets what was said of `device`, which has gone.
    pub(crate) fn forget(&self, device: &Path) {
        if let Some(path) = self.path(device) {
            remove(&lost(&path));
            remove(&path);
        }
    }

    /// What its users may not know of what `device` has lost: nothing if it is new.
    pub(crate) fn losses(&self, device: &Path, is_old: bool) -> Losses {
        let path = self.0.join(device.file_name().unwrap_or_default());
        let losses = Losses(lost(&path));
        if !is_old {
            losses.told();
        }
        losses
    }

    fn try_write(&self, device: &Path, text: String) -> io::Result<Note> {
        let Notes(dir) = self;
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let path = self.path(device).ok_or(io::ErrorKind::InvalidInput)?;
        // A device that was left is known by its note: it is there as a whole, or as it was.
        let fresh = path.with_extension("new");
        fs::write(&fresh, &text)?;
        fs::rename(&fresh, &path)?;
        Ok(Note { path, text })
    }
}

/// Beside the file of a device.
fn lost(path: &Path) -> PathBuf {
    path.with_extension("lost")
}

/// It need not be there.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!("cannot remove '{}': {error}", path.display());
        }
        _ => {}
    }
}

/// Whether the users of a device are still to be told that writes of theirs are lost.
#[derive(Debug)]
pub(crate) struct Losses(PathBuf);

impl Losses {
    /// They may not know.
    pub(crate) fn are_untold(&self) -> bool {
        self.0.exists()
    }
}

impl LossNote for Losses {
    fn lost(&self) {
        if let Err(error) = File::create(&self.0) {
            let path = self.0.display();
            tracing::warn!(
                "if this process is killed before the next flush, that one does not fail as it should: cannot write '{path}': {error}"
            );
        }
    }

    fn told(&self) {
        remove(&self.0);
    }
}

impl Note {
    /// It stays: so does the device.
    pub(crate) fn keep(mut self) {
        self.text.clear();
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // The device has gone: another one may have its number by now, and have said so.
        let is_ours = fs::read_to_string(&self.path).is_ok_and(|text| text == self.text);
        if is_ours {
            remove(&lost(&self.path));
            remove(&self.path);
        }
    }
}

/// Lines of `KEY=value` for IMPORT{file}. The keys that begin with ID_ are those of SCSI disks.
fn text(behind: &Behind) -> String {
    let Behind { name, volume, wwn, disk } = behind;
    let mut text = format!("DRYSTONE_PID={}\n", std::process::id());
    if !name.is_empty() {
        text.push_str(&format!("DRYSTONE_NAME={name}\n"));
    }
    if let Some(wwn) = wwn {
        const VENDOR_PART: usize = 16;
        let short = &wwn[..wwn.len().min(VENDOR_PART)];
        text.push_str(&format!(
            "ID_WWN=0x{short}\nID_WWN_WITH_EXTENSION=0x{wwn}\nID_SERIAL=3{wwn}\n"
        ));
    }
    text.push_str(&format!("DRYSTONE_VOLUME={volume}\n"));
    if let Some(disk) = disk {
        text.push_str(&format!("DRYSTONE_DISK={disk}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(name: &str) -> Behind {
        Behind { name: name.to_owned(), volume: "iscsi://a/b/0".to_owned(), ..Behind::default() }
    }

    #[test]
    fn a_device_has_its_file_for_as_long_as_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path());
        let device = Path::new("/dev/ublkb3");
        let of = Behind {
            wwn: Some("6000000000000000000000000000000a".to_owned()),
            disk: Some("b/0/036000".to_owned()),
            ..behind("db")
        };
        let note = notes.write(device, &of).unwrap();
        let path = dir.path().join("ublk/ublkb3");
        let pid = std::process::id();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!(
                "DRYSTONE_PID={pid}\nDRYSTONE_NAME=db\nID_WWN=0x6000000000000000\n\
                 ID_WWN_WITH_EXTENSION=0x6000000000000000000000000000000a\n\
                 ID_SERIAL=36000000000000000000000000000000a\n\
                 DRYSTONE_VOLUME=iscsi://a/b/0\nDRYSTONE_DISK=b/0/036000\n"
            )
        );
        assert_eq!(notes.read(device), Some(of));
        drop(note);
        assert!(!path.exists() && notes.read(device).is_none());
        let older = notes.write(device, &behind("old")).unwrap();
        let newer = notes.write(device, &behind("")).unwrap();
        drop(older);
        assert_eq!(notes.read(device), Some(behind("")));
        std::mem::forget(newer);
        notes.forget(device);
        assert!(!path.exists());
    }

    #[test]
    fn a_loss_is_remembered_for_those_who_take_users_over_and_for_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path());
        let device = Path::new("/dev/ublkb3");
        let note = notes.write(device, &behind("db")).unwrap();
        notes.losses(device, false).lost();
        note.keep();
        let note = notes.write(device, &behind("db")).unwrap();
        let again = notes.losses(device, true);
        assert!(again.are_untold() && notes.read(device) == Some(behind("db")));
        again.told();
        assert!(!notes.losses(device, true).are_untold());
        again.lost();
        drop(note);
        assert!(!again.are_untold(), "the device has gone");
        again.lost();
        assert!(!notes.losses(device, false).are_untold(), "the device is another one");
    }
}
