//! Disks that nobody named and nothing remembers, found where the others saw them last. Names of devices change hands,
//! so that only a label makes one of them a disk of the array again.

use array::label::{Found, Label, MemberRecord};
use array::probe;
use std::path::Path;

use super::disks::{self, Disks, Seen};
use super::{Notice, Tells};
use crate::mutants::{self, Mutant};
use crate::spec::disk::MemberDisk;

/// Looks for disks of the first array at their last places, and takes in those that are there. One that is found may
/// know more about others.
pub(super) async fn look(disks: &mut Disks, tell: Tells<'_>) {
    let mut looked = Vec::new();
    while let Some((label, record)) = next_missing(disks, &looked) {
        looked.push(record.disk);
        let disk = MemberDisk::at(Path::new(&record.name));
        if disks.knows(&disk) {
            continue;
        }
        match find(&disk, (&label, &record), disks).await {
            Some(seen) => {
                tracing::info!("disk {} is found where it was last", record.name);
                disks.seen.push(seen);
            }
            None if Path::new(&record.name).exists() => tell(&Notice::OtherDisk(record.name)),
            None => {}
        }
    }
}

async fn find(disk: &MemberDisk, wanted: (&Label, &MemberRecord), disks: &Disks) -> Option<Seen> {
    if !is_it(disk, wanted).await {
        return None;
    }
    let device = disk.open().ok()?;
    let seen = disks::look(disk, device, (disks.seen.len(), &disks.meters)).await.ok()?;
    // Another one may have come in between.
    is_of(seen.label.as_deref(), wanted).then_some(seen)
}

/// A disk that belongs to the first array, is not seen, and was not looked for yet; and the label that says so.
fn next_missing(disks: &Disks, looked: &[array::DiskId]) -> Option<(Label, MemberRecord)> {
    let labels = || disks.seen.iter().filter_map(|seen: &Seen| seen.label.as_deref());
    let array = labels().next()?.array;
    let newest =
        labels().filter(|label| label.array == array).max_by_key(|label| label.generation)?;
    let is_seen = |record: &MemberRecord| {
        labels().any(|label| label.array == array && label.disk == record.disk)
    };
    let is_to_find = |record: &&MemberRecord| {
        let is_path = Path::new(&record.name).is_absolute();
        record.is_used() && is_path && !is_seen(record) && !looked.contains(&record.disk)
    };
    Some((newest.clone(), newest.members.iter().find(is_to_find)?.clone()))
}

/// Looks without taking it away from anybody: whoever it belongs to by now may use it.
async fn is_it(disk: &MemberDisk, wanted: (&Label, &MemberRecord)) -> bool {
    let Ok(device) = disk.open_to_look() else { return false };
    match probe(&*device).await {
        Ok(Found::Label { label, .. }) => is_of(Some(&label), wanted),
        _ => false,
    }
}

/// Whether a label is that of a disk which another one names.
fn is_of(label: Option<&Label>, (newest, record): (&Label, &MemberRecord)) -> bool {
    if mutants::is(Mutant::AnyInItsPlace) {
        return true;
    }
    label.is_some_and(|label| {
        label.generation > 0
            && label.array == newest.array
            && label.disk == record.disk
            && label.own().uuid == record.uuid
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use array::api::DiskState;

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
    fn a_disk_that_nothing_remembers_is_found_where_it_was_and_remembered_again() {
        let home = tempfile::tempdir().expect("a directory");
        begin(home.path());
        for _ in 0..2 {
            let rig = Rig::start(home.path(), &home.path().join("data"));
            assert_eq!(states(&rig), [DiskState::Online; 3]);
            assert!(rig.told(Kind::DiskNotUsed).is_empty());
            rig.stop();
            let list = fs::read_to_string(home.path().join("data/disks")).expect("a list");
            assert!(list.contains("/disk-2\n"), "{list}");
        }
    }

    #[test]
    fn what_lies_where_a_disk_was_is_taken_only_if_it_is_that_disk() {
        let home = tempfile::tempdir().expect("a directory");
        begin(home.path());
        let other = tempfile::tempdir().expect("a directory");
        begin(other.path());
        let place = home.path().join("disk-2");
        fs::rename(&place, home.path().join("away")).expect("it can be moved");
        for impostor in [home.path().join("disk-0"), other.path().join("disk-2")] {
            fs::copy(&impostor, &place).expect("there is room");
            let before = fs::read(&place).expect("it is there");
            let rig = Rig::start(home.path(), &home.path().join("data"));
            use DiskState::{Missing, Online};
            assert_eq!(states(&rig), [Online, Online, Missing]);
            let told = rig.told(Kind::DiskNotUsed);
            assert!(told.len() == 1 && told[0].contains("is not that disk"), "{told:?}");
            rig.stop();
            assert!(fs::read(&place).expect("it is there") == before, "it belongs to somebody");
            fs::remove_file(home.path().join("data/events.0")).expect("there are events");
        }
        // It is taken back as soon as it is there again.
        fs::rename(home.path().join("away"), &place).expect("it can be moved");
        let rig = Rig::start(home.path(), &home.path().join("data"));
        assert!(!states(&rig).contains(&DiskState::Missing), "{:?}", states(&rig));
        rig.stop();
    }
}
