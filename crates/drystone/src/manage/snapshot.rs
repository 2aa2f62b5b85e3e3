//! `drystone snapshot`.

use super::{Desk, confirm::confirm, reservations};
use crate::Failure;
use crate::cli::snapshot::{SnapshotArgs, SnapshotCommand, Which};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::{table, table_of_members};
use crate::print::units;
use anyhow::bail;
use api::types::{Extent, JobKind, NewSnapshots, Snapshot, SnapshotAccess, SnapshotChange};

/// Does what the command line says.
pub(crate) fn run(args: SnapshotArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: SnapshotCommand) -> anyhow::Result<()> {
    let lists = |snapshots: Vec<Snapshot>| desk.show(&snapshots, |snapshots| Ok(list(snapshots)));
    let serve = |Which { volume, name }: Which, change: SnapshotChange| {
        let served = desk.ask(|member| member.change_snapshot(&volume, &name, &change))?;
        desk.show(&served, |snapshot| Ok(details(snapshot)?))
    };
    match command {
        SnapshotCommand::Create { volumes, name } => {
            let volumes = volumes.split(',').map(str::to_owned).collect();
            let new = NewSnapshots { volumes, name };
            lists(desk.ask(|member| member.create_snapshots(&new))?)
        }
        SnapshotCommand::List { volume, space } => {
            lists(desk.ask_all(|member| member.snapshots(volume.as_deref(), space))?)
        }
        SnapshotCommand::Rollback { which: Which { volume, name }, confirm: asked } => {
            check_there(desk, &volume, &name)?;
            let question =
                format!("Give up all that '{volume}' got after snapshot '{name}' was taken?");
            confirm(&asked, &question)?;
            desk.ask(|member| member.roll_back(&volume, &name))?;
            desk.done(&format!(
                "'{volume}' holds what it held at '{name}': 'drystone volume online {volume}' serves it"
            ))
        }
        SnapshotCommand::Clone { which: Which { volume, name }, to } => {
            let made = desk.ask(|member| member.clone_snapshot(&volume, &name, &to))?;
            desk.show(&made, |made| Ok(details(made)?))
        }
        SnapshotCommand::Delete { which: Which { volume, name }, confirm: asked, follow } => {
            check_there(desk, &volume, &name)?;
            confirm(&asked, &format!("Delete snapshot '{name}' of '{volume}'?"))?;
            let sentence = format!("snapshot '{name}' of '{volume}' is deleted");
            desk.ask(|member| member.delete_snapshot(&volume, &name))?;
            if !follow.no_wait {
                desk.where_it_was_done().wait_after(&sentence, &[JobKind::Delete])?;
            }
            match held_by(desk, &volume, &name)? {
                Some(clones) => desk.done(&format!(
                    "{sentence}; its space and its name come back when what was cloned from it is gone: {clones}"
                )),
                None => desk.done(&sentence),
            }
        }
        SnapshotCommand::Online { which, writable, fresh, confirm: asked } => {
            if fresh {
                let Which { volume, name } = &which;
                let question = format!("Throw away what hosts wrote to '{name}' of '{volume}'?");
                confirm(&asked, &question)?;
            }
            let access = match writable {
                true => SnapshotAccess::ReadWrite,
                false => SnapshotAccess::ReadOnly,
            };
            serve(which, SnapshotChange { online: true, access, fresh })
        }
        SnapshotCommand::Offline { which } => {
            let access = SnapshotAccess::default();
            serve(which, SnapshotChange { online: false, access, fresh: false })
        }
        SnapshotCommand::Reservations(command) => reservations::of_snapshot(desk, command),
        SnapshotCommand::Diff { volume, from, to } => {
            let extents =
                desk.ask(|member| member.changes(&volume, from.as_deref(), to.as_deref()))?;
            desk.show(&extents, |extents| Ok(changes(extents)))
        }
    }
}

/// Refuses a snapshot that is not there before there is a question about it.
fn check_there(desk: &Desk, volume: &str, name: &str) -> anyhow::Result<()> {
    let known = of_volume(desk, volume)?;
    if !known.iter().any(|snapshot| snapshot.name == name) {
        bail!("volume '{volume}' has no snapshot '{name}': see 'drystone snapshot list {volume}'");
    }
    Ok(())
}

fn of_volume(desk: &Desk, volume: &str) -> anyhow::Result<Vec<Snapshot>> {
    desk.ask(|member| member.snapshots(Some(volume), false))
}

/// The clones for which a deleted snapshot has to wait; `None` if it waits for none.
fn held_by(desk: &Desk, volume: &str, name: &str) -> anyhow::Result<Option<String>> {
    let waits = |snapshot: &Snapshot| snapshot.name == name && snapshot.deleting;
    if !of_volume(desk, volume)?.iter().any(waits) {
        return Ok(None);
    }
    let volumes = desk.ask(|member| member.volumes())?;
    let origin = format!("{volume}@{name}");
    let clones = volumes.iter().filter(|volume| volume.origin.as_ref() == Some(&origin));
    let names: Vec<String> = clones.map(|volume| format!("'{}'", volume.name)).collect();
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
        let counted = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), units::bytes);
        let access = match snapshot.access {
            SnapshotAccess::ReadOnly => "read-only",
            SnapshotAccess::ReadWrite => "read-write",
        };
        let state = match &snapshot.iqn {
            _ if snapshot.deleting => "being deleted".to_owned(),
            Some(iqn) => format!("online as {iqn}"),
            None => "offline".to_owned(),
        };
        let cells = [
            snapshot.volume.clone(),
            snapshot.name.clone(),
            units::bytes(snapshot.size_bytes),
            counted(snapshot.space.map(|space| space.unique_bytes)),
            counted(snapshot.space.map(|space| space.shared_bytes)),
            counted(
                snapshot
                    .space
                    .filter(|_| snapshot.view_id.is_some())
                    .map(|space| space.written_bytes),
            ),
            units::time(snapshot.created_unix_seconds),
            access.to_owned(),
            state,
        ];
        (snapshot.member.clone(), cells)
    };
    table_of_members(columns, snapshots.iter().map(row))
}

fn changes(extents: &[Extent]) -> String {
    let row = |extent: &Extent| [extent.at.to_string(), extent.len_bytes.to_string()];
    let total: u64 = extents.iter().map(|extent| extent.len_bytes).sum();
    let rows = table([Number("FIRST BYTE"), Number("LENGTH")], extents.iter().map(row));
    let ranges = units::count(extents.len(), "range");
    let differ = if extents.len() == 1 { "differs" } else { "differ" };
    format!("{rows}{} in {ranges} {differ}\n", units::bytes(total))
}
