//! `drystone snapshot`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::snapshot::{SnapshotArgs, SnapshotCommand, Which};
use crate::control::reply::{Snapshot, Volume};
use crate::control::request::{Request, SnapshotRequest};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use array::api::{ChangedExtent, JobKind, SnapshotAccess};

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
            confirm(&asked, &format!("Delete snapshot '{name}' of '{volume}'?"))?;
            let sentence = format!("snapshot '{name}' of '{volume}' is deleted");
            desk.ask::<()>(&Request::Snapshot(SnapshotRequest::Delete { volume, name }))?;
            if !follow.no_wait {
                desk.wait_for(&[JobKind::Delete])?;
            }
            desk.done(&sentence)
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
    format!("{rows}{} in {} ranges differ\n", units::bytes(total), extents.len())
}
