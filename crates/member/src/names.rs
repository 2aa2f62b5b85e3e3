//! The iSCSI names and serial numbers of what an array serves.

use std::collections::BTreeMap;

use array::api::{SnapshotInfo, VolumeInfo};
use group::settings::Adopted;

/// Names of targets begin with this when nobody chose another; what tells the array from others
/// follows.
const PREFIX: &str = "iqn.2026-11.dev.drystone";

/// Digits of the array's ID in the names of its targets.
const ID_DIGITS: usize = 8;

/// Makes names.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: String,
    array: String,
    /// What hosts know those volumes by that were made on other arrays, by number.
    adopted: BTreeMap<u32, Adopted>,
}

impl Names {
    /// For the array of this ID; `chosen` is the beginning that the operator wants.
    pub(crate) fn new(array_id: &str, chosen: Option<&str>) -> Names {
        let short = array_id.get(..ID_DIGITS).unwrap_or(array_id);
        let usual = || format!("{PREFIX}:{short}");
        Names {
            prefix: chosen.map_or_else(usual, |text| text.to_ascii_lowercase()),
            array: in_serials(array_id),
            adopted: BTreeMap::new(),
        }
    }

    /// The same, for an array that has these volumes from others.
    pub(crate) fn with_adopted(&self, adopted: BTreeMap<u32, Adopted>) -> Self {
        Self { adopted, ..self.clone() }
    }

    /// How they begin where nobody chose that.
    pub(crate) fn usual_prefix(array_id: &str) -> String {
        Self::new(array_id, None).prefix
    }

    /// How the names of all targets begin but those of volumes that were made on other arrays.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How the names of the targets of this volume begin.
    fn prefix_of(&self, id: u32) -> &str {
        self.adopted.get(&id).map_or(&self.prefix, |adopted| &adopted.prefix)
    }

    /// The target of the volume of this number, by a name that it has or is to have.
    pub(crate) fn volume(&self, id: u32, name: &str) -> String {
        format!("{}:{}", self.prefix_of(id), in_iqn(name))
    }

    /// The target of a volume that is to be made.
    pub(crate) fn new_volume(&self, name: &str) -> String {
        format!("{}:{}", self.prefix, in_iqn(name))
    }

    /// The target of a snapshot of the volume of this number and name.
    pub(crate) fn snapshot(&self, (id, volume): (u32, &str), name: &str) -> String {
        format!("{}:{}:{}", self.prefix_of(id), in_iqn(volume), in_iqn(name))
    }

    /// What hosts know the disk by, whatever its name and wherever it is: made from numbers that are never used again,
    /// by the array that it was made on.
    pub(crate) fn volume_serial(&self, volume: &VolumeInfo) -> String {
        match self.adopted.get(&volume.id) {
            Some(adopted) => adopted.serial.clone(),
            None => self.serial_of(volume.id),
        }
    }

    /// The same of what hosts wrote to a snapshot, by its number.
    pub(crate) fn serial_of(&self, id: u32) -> String {
        format!("{}-V{id:X}", self.array)
    }

    /// The same for a snapshot.
    pub(crate) fn snapshot_serial(&self, snapshot: &SnapshotInfo) -> String {
        format!("{}-S{:X}", self.array, snapshot.id)
    }
}

/// What tells the serial numbers of an array from those of others.
pub(crate) fn in_serials(array_id: &str) -> String {
    array_id.get(..16).unwrap_or(array_id).to_ascii_uppercase()
}

/// A name as an iSCSI name can hold it (RFC 7143 4.2.7.2): lower case, and no underscore. Nor a
/// colon, which parts a volume from its snapshot: no volume has the name of a snapshot. Two names
/// may become one; a member refuses the second.
fn in_iqn(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', ':'], "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iscsi::text::IscsiName;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn every_name_is_an_iscsi_name() {
        let longest = "x".repeat(63);
        for names in [Names::new(ID, None), Names::new(ID, Some("iqn.2026-11.com.example:San"))] {
            for iqn in [
                names.new_volume("VM_1.a:b-c"),
                names.new_volume(&longest),
                names.volume(1, &longest),
                names.snapshot((1, &longest), &longest),
            ] {
                assert_eq!(IscsiName::parse(&iqn).unwrap().as_str(), iqn);
            }
        }
        let names = Names::new(ID, None);
        assert_eq!(names.new_volume("VM_1"), "iqn.2026-11.dev.drystone:01234567:vm-1");
        assert_eq!(names.volume(1, "VM_1"), names.new_volume("VM_1"));
        assert_eq!(names.snapshot((1, "a"), "s"), "iqn.2026-11.dev.drystone:01234567:a:s");
        assert_eq!(names.new_volume("a:s"), "iqn.2026-11.dev.drystone:01234567:a-s");
        assert_ne!(names.snapshot((1, "a"), "b:c"), names.snapshot((1, "a:b"), "c"));
    }

    /// What is written to its snapshots and read of them is of this array alone.
    #[test]
    fn what_was_made_elsewhere_is_known_by_what_it_was_there() {
        let (prefix, serial) = ("iqn.2026-11.com.example:left".to_owned(), "FEDC-V7".to_owned());
        let adopted = BTreeMap::from([(3, Adopted { prefix, serial })]);
        let names = Names::new(ID, None).with_adopted(adopted);
        assert_eq!(names.volume(3, "VM_1"), "iqn.2026-11.com.example:left:vm-1");
        assert_eq!(names.snapshot((3, "a"), "s"), "iqn.2026-11.com.example:left:a:s");
        assert_eq!(names.volume(4, "a"), names.new_volume("a"));
        assert_eq!(names.serial_of(3), "0123456789ABCDEF-V3");
        assert_eq!(names.prefix(), "iqn.2026-11.dev.drystone:01234567");
    }
}
