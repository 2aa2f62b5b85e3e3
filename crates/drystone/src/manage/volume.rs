//! `drystone volume`.

use super::{Desk, access, confirm::confirm};
use crate::Failure;
use crate::cli::volume::{CacheWord, CreateArgs, Switch, VolumeArgs, VolumeCommand};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::bail;
use array::api::{Cache, JobKind, VolumeSpec, VolumeState};
use member::{AccessRequest, Request, Volume, VolumeAccess, VolumeRequest};

/// Does what the command line says.
pub(crate) fn run(args: VolumeArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: VolumeCommand) -> anyhow::Result<()> {
    let show = |request| {
        let volume: Volume = desk.ask(&Request::Volume(request))?;
        desk.show(&volume, |volume| Ok(details(volume)?))
    };
    let act = |request| desk.ask::<()>(&Request::Volume(request));
    match command {
        VolumeCommand::Create(args) => show(VolumeRequest::Create(spec(args))),
        VolumeCommand::List => {
            let volumes: Vec<Volume> = desk.ask(&Request::Volume(VolumeRequest::List))?;
            desk.show(&volumes, |volumes| Ok(list(volumes)))
        }
        VolumeCommand::Show { name } => show(VolumeRequest::Show { name }),
        VolumeCommand::Resize { name, size_bytes, shrink, confirm: asked } => {
            if shrink {
                let question = format!("Give up what lies behind the new end of '{name}'?");
                confirm(&asked, &question)?;
            }
            show(VolumeRequest::Resize { name, size_bytes, shrink })
        }
        VolumeCommand::Rename { name, to } => show(VolumeRequest::Rename { name, to }),
        VolumeCommand::Access(command) => access::carry_out(desk, command),
        VolumeCommand::Set { name, read_ahead, shared } => set(desk, name, read_ahead, shared),
        VolumeCommand::Online { name } => show(VolumeRequest::SetOnline { name, online: true }),
        VolumeCommand::Offline { name, confirm: asked } => {
            let show_it = Request::Volume(VolumeRequest::Show { name: name.clone() });
            let hosts = desk.ask::<Volume>(&show_it)?.sessions;
            if hosts > 0 {
                let hosts = units::count(hosts, "host");
                confirm(&asked, &format!("Log {hosts} out of '{name}'?"))?;
            }
            show(VolumeRequest::SetOnline { name, online: false })
        }
        VolumeCommand::Delete { name, confirm: asked } => {
            match state_of(desk, &name)? {
                VolumeState::Deleted => bail!(
                    "'{name}' is in the recycle bin already: 'drystone volume purge {name}' gives it up for good"
                ),
                VolumeState::Online | VolumeState::Degraded => bail!(
                    "'{name}' is online: take it offline first ('drystone volume offline {name}')"
                ),
                VolumeState::Offline | VolumeState::Lost => {}
            }
            confirm(&asked, &format!("Put volume '{name}' into the recycle bin?"))?;
            act(VolumeRequest::Delete { name: name.clone() })?;
            desk.done(&format!(
                "'{name}' is in the recycle bin: 'drystone volume undelete {name}' brings it back, until the space is needed"
            ))
        }
        VolumeCommand::Undelete { name } => show(VolumeRequest::Undelete { name }),
        VolumeCommand::Purge { name, confirm: asked, follow } => {
            if state_of(desk, &name)? != VolumeState::Deleted {
                bail!(
                    "'{name}' is not in the recycle bin: delete it first ('drystone volume delete {name}')"
                );
            }
            confirm(&asked, &format!("Give up '{name}' and its snapshots for good?"))?;
            act(VolumeRequest::Purge { name: name.clone() })?;
            if !follow.no_wait {
                desk.wait_after(&format!("'{name}' is gone"), &[JobKind::Delete])?;
            }
            desk.done(&format!("'{name}' is gone"))
        }
    }
}

/// Changes what is named, and shows what was named last.
fn set(
    desk: &Desk,
    name: String,
    read_ahead: Option<u32>,
    shared: Option<Switch>,
) -> anyhow::Result<()> {
    if let Some(shared) = shared {
        let (volume, shared) = (name.clone(), shared == Switch::On);
        let set = Request::Access(AccessRequest::SetShared { volume, shared });
        desk.ask::<VolumeAccess>(&set)?;
    }
    let Some(bytes) = read_ahead else {
        return access::show(desk, AccessRequest::List { volume: name });
    };
    let set = Request::Volume(VolumeRequest::SetReadAhead { name, bytes });
    let volume: Volume = desk.ask(&set)?;
    desk.show(&volume, |volume| Ok(details(volume)?))
}

/// How a volume does, to refuse what cannot be before there is a question about it.
fn state_of(desk: &Desk, name: &str) -> anyhow::Result<VolumeState> {
    let show = Request::Volume(VolumeRequest::Show { name: name.to_owned() });
    Ok(desk.ask::<Volume>(&show)?.info.state)
}

fn spec(args: CreateArgs) -> VolumeSpec {
    VolumeSpec {
        name: args.name,
        size_bytes: args.size_bytes,
        level: args.raid,
        thick: args.thick,
        block_bytes: args.block,
        cache: match args.cache {
            CacheWord::Durable => Cache::Durable,
            CacheWord::Volatile => Cache::Volatile,
        },
        read_ahead_bytes: args.read_ahead,
    }
}

fn list(volumes: &[Volume]) -> String {
    if volumes.is_empty() {
        return "there are no volumes: 'drystone volume create NAME SIZE' makes one\n".to_owned();
    }
    let columns = [
        Text("NAME"),
        Number("SIZE"),
        Number("USED"),
        Text("RAID"),
        Text("STATE"),
        Number("HOSTS"),
        Number("SNAPSHOTS"),
        Text("TARGET"),
    ];
    let row = |volume: &Volume| {
        [
            volume.info.name.clone(),
            units::bytes(volume.info.size_bytes),
            units::bytes(volume.info.used_bytes),
            volume.info.raid.to_string(),
            state(volume.info.state).to_owned(),
            volume.sessions.to_string(),
            volume.info.snapshots.to_string(),
            volume.iqn.clone(),
        ]
    };
    table(columns, volumes.iter().map(row))
}

/// The word for a state.
fn state(state: VolumeState) -> &'static str {
    match state {
        VolumeState::Online => "online",
        VolumeState::Degraded => "degraded",
        VolumeState::Offline => "offline",
        VolumeState::Lost => "lost",
        VolumeState::Deleted => "deleted",
    }
}
