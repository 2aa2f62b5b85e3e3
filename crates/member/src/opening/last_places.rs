//! Disks that nobody named and nothing remembers, and that lie where the others saw them last. They are told of and never
//! taken: the disks that were named may be copies, and a copy that writes to a disk of its original destroys that.

use array::label::{Found, Label, MemberRecord};
use array::{RingEnv, probe};
use std::path::Path;

use super::disks::{Disks, Seen};
use super::{Notice, Tells};
use crate::spec::disk::MemberDisk;

/// Says what lies at the last places of disks of the first array that are not there.
pub(super) async fn look(disks: &Disks, tell: Tells<'_>) {
    let Some((label, missing)) = missing(disks) else { return };
    for record in missing {
        let disk = MemberDisk::at(Path::new(&record.name));
        if disks.knows(&disk) {
            continue;
        }
        if is_it(&disk, &label, &record).await {
            tell(&Notice::NotNamed(record.name));
        } else if Path::new(&record.name).exists() {
            tell(&Notice::OtherDisk(record.name));
        }
    }
}

/// The newest label of the first array, and those of its disks with a place that are not seen.
fn missing(disks: &Disks) -> Option<(Label, Vec<MemberRecord>)> {
    let labels = || disks.seen.iter().filter_map(|seen: &Seen| seen.label.as_deref());
    let array = labels().next()?.array;
    let newest =
        labels().filter(|label| label.array == array).max_by_key(|label| label.generation)?;
    let is_seen = |record: &MemberRecord| {
        labels().any(|label| label.array == array && label.disk == record.disk)
    };
    let is_missing = |record: &&MemberRecord| {
        record.is_used() && Path::new(&record.name).is_absolute() && !is_seen(record)
    };
    Some((newest.clone(), newest.members.iter().filter(is_missing).cloned().collect()))
}

/// Looks without taking it away from anybody: whoever it belongs to by now may use it.
async fn is_it(disk: &MemberDisk, newest: &Label, record: &MemberRecord) -> bool {
    let Ok(device) = disk.open_to_look() else { return false };
    let Ok(Found::Label { label, .. }) = probe(&RingEnv, &*device).await else { return false };
    label.generation > 0
        && label.array == newest.array
        && label.disk == record.disk
        && label.own().uuid == record.uuid
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use array::api::DiskState::{self, Missing, Online};

    use crate::events::Kind;
    use crate::request::{DiskRequest, Request};
    use crate::testing::Rig;

    /// A third disk joins, and the next start knows of the first two only.
    fn begin(home: &Path) {
        let rig = Rig::start(home, &home.join("data"));
        let disk = format!("file:{}:256M", home.join("disk-2").display());
        rig.ask(Request::Disk(DiskRequest::Add { disk, journal: false })).expect("it joins");
        rig.stop();
        fs::remove_file(home.join("data/disks")).expect("there is a list");
    }

    fn states(rig: &Rig) -> Vec<DiskState> {
        rig.with(async |member| member.array().disks().into_iter().map(|disk| disk.state).collect())
    }

    #[test]
    fn a_disk_that_nobody_names_is_told_of_and_not_written_to() {
        let home = tempfile::tempdir().expect("a directory");
        begin(home.path());
        let place = home.path().join("disk-2");
        let before = fs::read(&place).expect("it is there");
        // The first start must not have it remembered for the second.
        for name in ["a", "b"] {
            let rig = Rig::start(home.path(), &home.path().join("data"));
            assert_eq!(states(&rig), [Online, Online, Missing]);
            let told = rig.told(Kind::DiskNotUsed);
            assert!(told.iter().any(|told| told.contains("nobody named it")), "{told:?}");
            rig.create(name);
            rig.stop();
            assert!(fs::read(&place).expect("it is there") == before, "it may be of an original");
        }
        let rig = Rig::start(home.path(), &home.path().join("data"));
        let disk = place.display().to_string();
        rig.ask(Request::Disk(DiskRequest::Add { disk, journal: false })).expect("it is back");
        assert!(!states(&rig).contains(&Missing), "{:?}", states(&rig));
        rig.stop();
    }

    #[test]
    fn what_lies_where_a_disk_was_is_told_from_that_disk() {
        let home = tempfile::tempdir().expect("a directory");
        begin(home.path());
        let other = tempfile::tempdir().expect("a directory");
        begin(other.path());
        let place = home.path().join("disk-2");
        fs::rename(&place, home.path().join("away")).expect("it can be moved");
        for impostor in [home.path().join("disk-0"), other.path().join("disk-2")] {
            fs::copy(&impostor, &place).expect("there is room");
            let rig = Rig::start(home.path(), &home.path().join("data"));
            let told = rig.told(Kind::DiskNotUsed);
            assert!(told.len() == 1 && told[0].contains("is not that disk"), "{told:?}");
            rig.stop();
            fs::remove_file(home.path().join("data/events.0")).expect("there are events");
        }
    }
}
