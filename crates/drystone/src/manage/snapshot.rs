//! `drystone snapshot`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::snapshot::{SnapshotArgs, SnapshotCommand, Which};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::bail;
use array::api::{ChangedExtent, JobKind, SnapshotAccess};
use member::{Request, SnapshotRequest, VolumeRequest};
use member::{Snapshot, Volume};

/// Does what the command line says.
pub(crate) fn run(args: SnapshotArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: SnapshotCommand) -> anyhow::Result<()> {
    let lists = |request| {
        let snapshots: Vec<Snapshot> = desk.ask(&Request::Snapshot(request))?;
        desk.show(&snapshots, |snapshots| Ok(list(snapshots)))
    };
    let serve = |request| {
        let snapshot: Snapshot = desk.ask(&Request::Snapshot(request))?;
        desk.show(&snapshot, |snapshot| Ok(details(snapshot)?))
    };
    match command {
        SnapshotCommand::Create { volumes, name } => {
            let volumes = volumes.split(',').map(str::to_owned).collect();
            lists(SnapshotRequest::Create { volumes, name })
        }
        SnapshotCommand::List { volume, space } => lists(SnapshotRequest::List { volume, space }),
        SnapshotCommand::Rollback { which: Which { volume, name }, confirm: asked } => {
            check_there(desk, &volume, &name)?;
            let question =
                format!("Give up all that '{volume}' got after snapshot '{name}' was taken?");
            confirm(&asked, &question)?;
            let (from, request) = (name.clone(), (volume.clone(), name));
            let request = SnapshotRequest::Rollback { volume: request.0, name: request.1 };
            desk.ask::<()>(&Request::Snapshot(request))?;
            desk.done(&format!(
                "'{volume}' holds what it held at '{from}': 'drystone volume online {volume}' serves it"
            ))
        }
        SnapshotCommand::Clone { which: Which { volume, name }, to } => {
            let request = SnapshotRequest::Clone { volume, name, to };
            let made: Volume = desk.follow(&Request::Snapshot(request))?;
            desk.show(&made, |made| Ok(details(made)?))
        }
        SnapshotCommand::Delete { which: Which { volume, name }, confirm: asked, follow } => {
            check_there(desk, &volume, &name)?;
            confirm(&asked, &format!("Delete snapshot '{name}' of '{volume}'?"))?;
            let sentence = format!("snapshot '{name}' of '{volume}' is deleted");
            let request = SnapshotRequest::Delete { volume: volume.clone(), name: name.clone() };
            desk.ask::<()>(&Request::Snapshot(request))?;
            if !follow.no_wait {
                desk.wait_after(&sentence, &[JobKind::Delete])?;
            }
            match held_by(desk, &volume, &name)? {
                Some(clones) => desk.done(&format!(
                    "{sentence}; its space and its name come back when what was cloned from it is gone: {clones}"
                )),
                None => desk.done(&sentence),
            }
        }
        SnapshotCommand::Online { which, writable, fresh, confirm: asked } => {
            let Which { volume, name } = which;
            if fresh {
                let question = format!("Throw away what hosts wrote to '{name}' of '{volume}'?");
                confirm(&asked, &question)?;
            }
            serve(match writable {
                true => SnapshotRequest::SetWritable { volume, name, fresh },
                false => SnapshotRequest::SetOnline { volume, name, online: true },
            })
        }
        SnapshotCommand::Offline { which: Which { volume, name } } => {
            serve(SnapshotRequest::SetOnline { volume, name, online: false })
        }
        SnapshotCommand::Diff { volume, from, to } => {
            let request = SnapshotRequest::Diff { volume, from, to };
            let extents: Vec<ChangedExtent> = desk.follow(&Request::Snapshot(request))?;
            desk.show(&extents, |extents| Ok(changes(extents)))
        }
    }
}

/// Refuses a snapshot that is not there before there is a question about it.
fn check_there(desk: &Desk, volume: &str, name: &str) -> anyhow::Result<()> {
    let known = of_volume(desk, volume)?;
    if !known.iter().any(|snapshot| snapshot.info.name == name) {
        bail!("volume '{volume}' has no snapshot '{name}': see 'drystone snapshot list {volume}'");
    }
    Ok(())
}

fn of_volume(desk: &Desk, volume: &str) -> anyhow::Result<Vec<Snapshot>> {
    let list = SnapshotRequest::List { volume: Some(volume.to_owned()), space: false };
    desk.ask(&Request::Snapshot(list))
}

/// The clones for which a deleted snapshot has to wait; `None` if it waits for none.
fn held_by(desk: &Desk, volume: &str, name: &str) -> anyhow::Result<Option<String>> {
    let waits = |snapshot: &Snapshot| snapshot.info.name == name && snapshot.info.deleting;
    if !of_volume(desk, volume)?.iter().any(waits) {
        return Ok(None);
    }
    let volumes: Vec<Volume> = desk.ask(&Request::Volume(VolumeRequest::List))?;
    let origin = format!("{volume}@{name}");
    let clones = volumes.iter().filter(|volume| volume.info.origin.as_ref() == Some(&origin));
    let names: Vec<String> = clones.map(|volume| format!("'{}'", volume.info.name)).collect();
    Ok((!names.is_empty()).then(|| names.join(", ")))
}

fn list(snapshots: &[Snapshot]) -> String {
    if snapshots.is_empty() {
        return "there are no snapshots: 'drystone snapshot create VOLUME' takes one\n".to_owned();
    }
    let columns = [
        Text("VOLUME"),
        Text("SNAPSHOT"),
        Number("SIZE"),
        Number("ALONE"),
        Number("SHARED"),
        Number("WRITTEN"),
        Text("TAKEN"),
        Text("ACCESS"),
        Text("STATE"),
    ];
    let row = |snapshot: &Snapshot| {
        let Snapshot { info, iqn, space } = snapshot;
        let counted = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), units::bytes);
        let access = match info.access {
            SnapshotAccess::ReadOnly => "read-only",
            SnapshotAccess::ReadWrite => "read-write",
        };
        let state = match iqn {
            _ if info.deleting => "being deleted".to_owned(),
            Some(iqn) => format!("online as {iqn}"),
            None => "offline".to_owned(),
        };
        [
            info.volume.clone(),
            info.name.clone(),
            units::bytes(info.size_bytes),
            counted(space.map(|space| space.unique_bytes)),
            counted(space.map(|space| space.shared_bytes)),
            counted(space.filter(|_| info.view_id.is_some()).map(|space| space.written_bytes)),
            units::time(info.created_unix_seconds),
            access.to_owned(),
            state,
        ]
    };
    table(columns, snapshots.iter().map(row))
}

fn changes(extents: &[ChangedExtent]) -> String {
    let row = |extent: &ChangedExtent| [extent.at.to_string(), extent.len_bytes.to_string()];
    let total: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
    let rows = table([Number("FIRST BYTE"), Number("LENGTH")], extents.iter().map(row));
    let ranges = units::count(extents.len(), "range");
    let differ = if extents.len() == 1 { "differs" } else { "differ" };
    format!("{rows}{} in {ranges} {differ}\n", units::bytes(total))
}
