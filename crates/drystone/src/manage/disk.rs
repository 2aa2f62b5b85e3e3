//! `drystone disk`.

use super::{Desk, confirm::confirm, server, wipe};
use crate::Failure;
use crate::cli::disk::{DiskArgs, DiskCommand};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::anyhow;
use api::types::{Disk, DiskRole, DiskState, NewDisk};
use member::spec::disk::MemberDisk;

/// Does what the command line says.
pub(crate) fn run(args: DiskArgs) -> Result<(), Failure> {
    match args.command {
        DiskCommand::Wipe { disk, foreign, confirm } => {
            server::none(&args.member)?;
            Ok(wipe::run(&disk, foreign, &confirm, args.member.json)?)
        }
        command => Ok(carry_out(&Desk::new(&args.member)?, command)?),
    }
}

fn carry_out(desk: &Desk, command: DiskCommand) -> anyhow::Result<()> {
    let disks = match command {
        DiskCommand::Wipe { .. } => unreachable!("it asks no member"),
        DiskCommand::List => desk.ask(|member| member.disks())?,
        DiskCommand::Show { disk } => {
            let disk = desk.ask(|member| member.disk(&disk))?;
            return desk.show(&disk, |disk| Ok(details(disk)?));
        }
        DiskCommand::Add { disk, journal } => {
            let new = NewDisk { disk: written(&disk), journal };
            desk.ask(|member| member.add_disk(&new))?
        }
        DiskCommand::Replace { disk, by, follow } => {
            let done = format!("'{by}' is in the place of '{disk}'");
            let disks = desk.ask(|member| member.replace_disk(&disk, &written(&by)))?;
            moved(desk, &done, disks, follow.no_wait)?
        }
        DiskCommand::Fail { disk, accept_loss, confirm: asked } => {
            let name = there(desk, &disk)?;
            let price = if accept_loss { ", and give up what nobody else has" } else { "" };
            confirm(&asked, &format!("Never use disk '{name}' again{price}?"))?;
            desk.ask(|member| member.fail_disk(&disk, accept_loss))?
        }
        DiskCommand::Clear { disk } => desk.ask(|member| member.clear_disk(&disk))?,
        DiskCommand::Retire { disk, cancel: true, .. } => {
            desk.ask(|member| member.cancel_retire(&disk))?
        }
        DiskCommand::Retire { disk, confirm: asked, follow, cancel: false } => {
            let name = there(desk, &disk)?;
            confirm(&asked, &format!("Empty disk '{name}' and let it go?"))?;
            let disks = desk.ask(|member| member.retire_disk(&disk))?;
            moved(desk, &format!("'{name}' is being emptied"), disks, follow.no_wait)?
        }
    };
    desk.show(&disks, |disks| Ok(list(disks)))
}

/// The whole name of a disk, which must be there before there is a question about it.
fn there(desk: &Desk, disk: &str) -> anyhow::Result<String> {
    Ok(desk.ask(|member| member.disk(disk))?.name)
}

/// As the member must read it, whose working directory is another.
fn written(disk: &MemberDisk) -> String {
    disk.absolute()
}

/// The disks after all data has moved.
fn moved(desk: &Desk, done: &str, disks: Vec<Disk>, no_wait: bool) -> anyhow::Result<Vec<Disk>> {
    if no_wait {
        return Ok(disks);
    }
    desk.wait_after(done, &super::array::REBUILDS)?;
    let listed = desk.ask(|member| member.disks());
    listed.map_err(|error| anyhow!("{done} and all data has moved; but {error:#}"))
}

fn list(disks: &[Disk]) -> String {
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
    let row = |disk: &Disk| {
        [
            disk.id.to_string(),
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
