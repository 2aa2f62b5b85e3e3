//! `drystone disk`.

use super::{Desk, confirm::confirm, wipe};
use crate::Failure;
use crate::cli::disk::{DiskArgs, DiskCommand};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::anyhow;
use array::api::{DiskInfo, DiskRole, DiskState};
use member::spec::disk::MemberDisk;
use member::{DiskRequest, Request};

/// Does what the command line says.
pub(crate) fn run(args: DiskArgs) -> Result<(), Failure> {
    match args.command {
        DiskCommand::Wipe { disk, foreign, confirm } => {
            Ok(wipe::run(&disk, foreign, &confirm, args.member.json)?)
        }
        command => Ok(carry_out(&Desk::new(&args.member)?, command)?),
    }
}

fn carry_out(desk: &Desk, command: DiskCommand) -> anyhow::Result<()> {
    let change = |request| desk.ask::<Vec<DiskInfo>>(&Request::Disk(request));
    let disks = match command {
        DiskCommand::Wipe { .. } => unreachable!("it asks no member"),
        DiskCommand::List => change(DiskRequest::List)?,
        DiskCommand::Show { disk } => {
            let disk: DiskInfo = desk.ask(&Request::Disk(DiskRequest::Show { disk }))?;
            return desk.show(&disk, |disk| Ok(details(disk)?));
        }
        DiskCommand::Add { disk, journal } => {
            change(DiskRequest::Add { disk: written(&disk), journal })?
        }
        DiskCommand::Replace { disk, by, follow } => {
            let done = format!("'{by}' is in the place of '{disk}'");
            let disks = change(DiskRequest::Replace { disk, by: written(&by) })?;
            moved(desk, &done, disks, follow.no_wait)?
        }
        DiskCommand::Fail { disk, accept_loss, confirm: asked } => {
            let name = there(desk, &disk)?;
            let price = if accept_loss { ", and give up what nobody else has" } else { "" };
            confirm(&asked, &format!("Never use disk '{name}' again{price}?"))?;
            change(DiskRequest::Fail { disk, accept_loss })?
        }
        DiskCommand::Clear { disk } => change(DiskRequest::Clear { disk })?,
        DiskCommand::Retire { disk, cancel: true, .. } => {
            change(DiskRequest::CancelRetire { disk })?
        }
        DiskCommand::Retire { disk, confirm: asked, follow, cancel: false } => {
            let name = there(desk, &disk)?;
            confirm(&asked, &format!("Empty disk '{name}' and let it go?"))?;
            let disks = change(DiskRequest::Retire { disk })?;
            moved(desk, &format!("'{name}' is being emptied"), disks, follow.no_wait)?
        }
    };
    desk.show(&disks, |disks| Ok(list(disks)))
}

/// The whole name of a disk, which must be there before there is a question about it.
fn there(desk: &Desk, disk: &str) -> anyhow::Result<String> {
    let show = DiskRequest::Show { disk: disk.to_owned() };
    Ok(desk.ask::<DiskInfo>(&Request::Disk(show))?.name)
}

/// As the member must read it, whose working directory is another.
fn written(disk: &MemberDisk) -> String {
    disk.absolute()
}

/// The disks after all data has moved.
fn moved(
    desk: &Desk,
    done: &str,
    disks: Vec<DiskInfo>,
    no_wait: bool,
) -> anyhow::Result<Vec<DiskInfo>> {
    if no_wait {
        return Ok(disks);
    }
    desk.wait_after(done, &super::array::REBUILDS)?;
    let listed = desk.ask(&Request::Disk(DiskRequest::List));
    listed.map_err(|error| anyhow!("{done} and all data has moved; but {error:#}"))
}

fn list(disks: &[DiskInfo]) -> String {
    let columns = [
        Number("DISK"),
        Text("ROLE"),
        Text("STATE"),
        Number("SIZE"),
        Number("USED"),
        Number("READ ERRORS"),
        Number("WRITE ERRORS"),
        Number("HEALED"),
        Text("NAME"),
        Text("REASON"),
    ];
    let row = |disk: &DiskInfo| {
        [
            disk.id.0.to_string(),
            role(disk.role).to_owned(),
            state(disk.state).to_owned(),
            units::bytes(disk.size_bytes),
            units::bytes(disk.used_bytes),
            disk.errors_read.to_string(),
            disk.errors_write.to_string(),
            disk.healed_blocks.to_string(),
            disk.name.clone(),
            disk.reason.clone(),
        ]
    };
    table(columns, disks.iter().map(row))
}

/// The word for what a disk is for.
fn role(role: DiskRole) -> &'static str {
    match role {
        DiskRole::Data => "data",
        DiskRole::Journal => "journal",
    }
}

/// The word for a state.
pub(super) fn state(state: DiskState) -> &'static str {
    match state {
        DiskState::Online => "online",
        DiskState::Suspect => "suspect",
        DiskState::Retiring => "retiring",
        DiskState::Resyncing => "resyncing",
        DiskState::Missing => "missing",
        DiskState::Failed => "failed",
    }
}
