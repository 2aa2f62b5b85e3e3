//! What udev is told of a block device, so that it has a name which stays: `RUNTIME_DIR/ublk/ublkbN`,
//! read by `packaging/60-drystone.rules` when the kernel announces the device.
//!
//! Invariant: a file is there only while the number N is its process's. It is written when the kernel
//! has given the number and before the block device appears, and removed with the device. What a
//! process that was killed has left is passed over by the rule, which looks whether the process is
//! there, and written anew by the next one that gets the number. So no device bears the name of another.

use std::fs::{self, DirBuilder};
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

impl Notes {
    /// Those of a runtime directory.
    pub(crate) fn of(runtime_dir: &Path) -> Notes {
        Notes(runtime_dir.join("ublk"))
    }

    /// Says what is behind `device`: the name of its file, if it has one, and the worldwide name of the
    /// volume. Without the file the device has no name that stays, which is no reason not to serve it.
    pub(crate) fn write(&self, device: &Path, name: &str, wwn: Option<&str>) -> Option<Note> {
        match self.try_write(device, text(name, wwn)) {
            Ok(note) => Some(note),
            Err(error) => {
                let device = device.display();
                tracing::warn!("'{device}' will have no link in /dev/disk/by-id: {error}");
                None
            }
        }
    }

    fn try_write(&self, device: &Path, text: String) -> io::Result<Note> {
        let Notes(dir) = self;
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let name = device.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let path = dir.join(name);
        fs::write(&path, &text)?;
        Ok(Note { path, text })
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // The device has gone: another one may have its number by now, and have said so.
        let is_ours = fs::read_to_string(&self.path).is_ok_and(|text| text == self.text);
        if is_ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!("cannot remove '{}': {error}", self.path.display());
        }
    }
}

/// Lines of `KEY=value` for IMPORT{file}. The keys that begin with ID_ are those of SCSI disks.
fn text(name: &str, wwn: Option<&str>) -> String {
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
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_file_for_as_long_as_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::of(dir.path());
        let wwn = "6000000000000000000000000000000a";
        let note = notes.write(Path::new("/dev/ublkb3"), "db", Some(wwn)).unwrap();
        let path = dir.path().join("ublk/ublkb3");
        let pid = std::process::id();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            format!(
                "DRYSTONE_PID={pid}\nDRYSTONE_NAME=db\nID_WWN=0x6000000000000000\n\
                 ID_WWN_WITH_EXTENSION=0x6000000000000000000000000000000a\n\
                 ID_SERIAL=36000000000000000000000000000000a\n"
            )
        );
        drop(note);
        assert!(!path.exists());
        let older = notes.write(Path::new("/dev/ublkb3"), "old", None).unwrap();
        let _newer = notes.write(Path::new("/dev/ublkb3"), "", None).unwrap();
        drop(older);
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("DRYSTONE_PID={pid}\n"));
    }
}
