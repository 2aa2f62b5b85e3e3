//! Compares all that the array holds with the model, while nobody writes.

use array::Env;
use array::api::{CheckReport, JobKind, SnapshotAccess};
use block::BlockDevice;
use std::time::Duration;

use crate::machine::Machine;
use crate::model::{Blocks, Served, observe};
use crate::subject::Subject;

/// Longest read, a size that divides into blocks.
const READ_BYTES: u64 = 512 << 10;

/// Every volume that can be read, and every snapshot.
pub(crate) async fn everything<S: Subject>(machine: &Machine<S>) {
    let names = machine.model.borrow().names();
    for name in names {
        let (served, in_doubt, snapshots) = {
            let mut model = machine.model.borrow_mut();
            let volume = model.volume(&name);
            let snapshots = volume.snapshots.keys().cloned().collect::<Vec<_>>();
            let level = volume.spec.level.expect("every volume of a test has a level");
            if level.losses_max() < machine.away {
                continue;
            }
            (volume.served, volume.otherwise.is_some(), snapshots)
        };
        // A rollback that may have happened left it offline: others must know before they use it.
        if served == Served::Online || served == Served::Offline && in_doubt {
            volume(machine, &name).await;
        }
        if served != Served::Deleted {
            for one in snapshots {
                snapshot(machine, &name, &one).await;
            }
        }
    }
    let moments = machine.model.borrow_mut().check_moments();
    machine.must("snapshots", moments);
}

async fn volume<S: Subject>(machine: &Machine<S>, name: &str) {
    let device = machine.must(&format!("device of {name}"), machine.array.device(name));
    let (mut blocks, mut otherwise) = {
        let mut model = machine.model.borrow_mut();
        let volume = model.volume(name);
        assert_eq!(device.geometry().size_bytes(), volume.spec.size_bytes, "{name}");
        (volume.contents.blocks().clone(), volume.otherwise.take())
    };
    let checked = compare(machine, &*device, &mut blocks).await;
    if let (Err(problem), Some(other)) = (&checked, &mut otherwise) {
        machine.env.note(format!("{name}: {problem}; so its rollback has happened"));
        let checked = compare(machine, &*device, other).await;
        machine.must(&format!("{name} is neither as before nor as after its rollback"), checked);
        machine.model.borrow_mut().volume(name).contents.replace(std::mem::take(other));
        return;
    }
    machine.must(name, checked);
    machine.model.borrow_mut().volume(name).contents.replace(blocks);
}

/// One snapshot.
pub(crate) async fn snapshot<S: Subject>(machine: &Machine<S>, volume: &str, name: &str) {
    let what = format!("{volume}@{name}");
    let device = machine.must(&what, machine.array.snapshot_device(volume, name));
    assert!(device.geometry().read_only, "{what} must not change");
    let mut blocks = machine.model.borrow_mut().volume(volume).snapshots[name].blocks.clone();
    let checked = compare(machine, &*device, &mut blocks).await;
    machine.must(&what, checked);
    let mut model = machine.model.borrow_mut();
    let snapshot = model.volume(volume).snapshots.get_mut(name);
    snapshot.expect("a snapshot in use stays").blocks = blocks;
}

async fn compare<S: Subject>(
    machine: &Machine<S>,
    device: &dyn BlockDevice,
    blocks: &mut Blocks,
) -> Result<(), String> {
    let size_bytes = device.geometry().size_bytes();
    let mut at = 0;
    while at < size_bytes {
        let len = READ_BYTES.min(size_bytes - at);
        let read = machine.answer("a read", device.read(at, len as usize)).await;
        if read.is_err() && machine.is_overtaxed() {
            return Ok(());
        }
        let data = read.map_err(|error| format!("byte {at}: {error}"))?;
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        assert_eq!(bytes.len() as u64, len, "a read gives all that was asked for");
        observe(blocks, (at / array::BLOCK_BYTES as u64) as usize, &bytes)?;
        at += len;
    }
    machine.env.note(format!("{size_bytes} bytes compared"));
    Ok(())
}

/// The array's own check, beside whatever else goes on, finds nothing but what drives did wrong.
pub(crate) async fn look<S: Subject>(machine: &Machine<S>) {
    let is_sound = || machine.budget.victims.borrow().is_empty() && !machine.is_overtaxed();
    let before = is_sound();
    let checked = machine.answer("check", machine.array.check()).await;
    let Some(report) = machine.may("check", checked) else { return };
    let sound = before && is_sound();
    if sound && !report.problems.is_empty() {
        machine.fail(format_args!("a check found {:#?}", report.problems));
    }
}

/// The array's own check finds nothing.
pub(crate) async fn check<S: Subject>(machine: &Machine<S>) -> CheckReport {
    let report = machine.must("check", machine.answer("check", machine.array.check()).await);
    if !report.problems.is_empty() {
        machine.fail(format_args!("the check found {:#?}", report.problems));
    }
    report
}

/// Waits until no work is left, but for deletions of what several clones stand on: those wait.
pub(crate) async fn idle<S: Subject>(machine: &Machine<S>) {
    let mut before = Vec::new();
    loop {
        let mut jobs = machine.array.jobs();
        jobs.retain(|job| job.kind != JobKind::Scrub);
        let waits = jobs.iter().all(|job| job.kind == JobKind::Delete);
        if jobs.is_empty() || waits && jobs == before {
            return;
        }
        before = jobs;
        // Longer than any checkpoint takes.
        machine.env.sleep(Duration::from_secs(2)).await;
    }
}

/// Deletes everything and demands all space back.
///
/// Sets of chunks stay where they are when the last thing in them is gone, so what tells is the
/// check: it finds what counts as taken and belongs to nothing.
pub(crate) async fn space<S: Subject>(machine: &Machine<S>) {
    let array = &machine.array;
    for info in array.volumes() {
        machine.close(&info.name).await;
        if Served::of(info.state) != Served::Deleted {
            machine.must("offline", array.serve_volume(&info.name, false).await);
            for snapshot in machine.must("list snapshots", array.snapshots(&info.name)) {
                if snapshot.online && snapshot.access == SnapshotAccess::ReadWrite {
                    let ended = array.serve_snapshot(&info.name, &snapshot.name, false).await;
                    machine.must("offline", ended);
                }
            }
            if machine.random.one_in(2) {
                snapshots(machine, &info.name).await;
            }
            machine.must("delete", array.delete_volume(&info.name).await);
        }
        machine.must("purge", array.purge_volume(&info.name).await);
    }
    idle(machine).await;
    if !array.jobs().is_empty() {
        machine.fail(format_args!("nothing is left, but {:?}", array.jobs()));
    }
    let report = check(machine).await;
    if (report.pages, report.clusters) != (0, 0) || !array.volumes().is_empty() {
        machine.fail(format_args!("of nothing there is left {report:?}"));
    }
}

/// Deletes all snapshots of a volume.
async fn snapshots<S: Subject>(machine: &Machine<S>, volume: &str) {
    let all = machine.must("list snapshots", machine.array.snapshots(volume));
    for snapshot in all.iter().filter(|snapshot| !snapshot.deleting) {
        let deleted = machine.array.delete_snapshot(volume, &snapshot.name).await;
        machine.must(&format!("delete {volume}@{}", snapshot.name), deleted);
    }
}
