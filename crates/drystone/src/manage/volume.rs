//! `drystone volume`.

use super::moving::{self, Where};
use super::{Desk, access, confirm::confirm, reservations, slices, transits};
use crate::Failure;
use crate::advice::access::{for_nobody, write_protected};
use crate::cli::manage::{Confirm, Follow};
use crate::cli::volume::{CacheWord, CreateArgs, Switch, VolumeArgs, VolumeCommand};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table_of_members;
use crate::print::units;
use ::array::CLUSTER_BYTES;
use anyhow::bail;
use api::client::{Client, ClientError};
use api::types::{Cache, Hosts, JobKind, NewVolume, Volume, VolumeChange, VolumeState};
use member::spec::size;

/// Does what the command line says.
pub(crate) fn run(args: VolumeArgs) -> Result<(), Failure> {
    if let VolumeCommand::Create(CreateArgs { pool: Some(_), .. }) = &args.command
        && args.member.on_member.is_some()
    {
        let sentence = "a member is in one pool: write one of --pool and --on";
        return Err(Failure::Usage(sentence.to_owned()));
    }
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: VolumeCommand) -> anyhow::Result<()> {
    let nothing = VolumeChange::default;
    match command {
        VolumeCommand::Create(args) => {
            let new = spec(args);
            show_sized(desk, Some(new.size_bytes), |member| member.create_volume(&new))
        }
        VolumeCommand::List => {
            let volumes = desk.ask_all(|member| member.volumes())?;
            desk.show(&volumes, |volumes| Ok(list(volumes)))
        }
        VolumeCommand::Show { name } => show(desk, |member| member.volume(&name)),
        VolumeCommand::Resize { name, size_bytes, shrink, confirm: asked } => {
            if shrink {
                let question = format!("Give up what lies behind the new end of '{name}'?");
                confirm(&asked, &question)?;
            }
            let change = VolumeChange { size_bytes: Some(size_bytes), shrink, ..nothing() };
            show_sized(desk, Some(size_bytes), |member| member.change_volume(&name, &change))
        }
        VolumeCommand::Rename { name, to } => {
            let change = VolumeChange { name: Some(to), ..nothing() };
            show(desk, |member| member.change_volume(&name, &change))
        }
        VolumeCommand::Access(command) => access::carry_out(desk, command),
        VolumeCommand::Reservations(command) => reservations::carry_out(desk, command),
        VolumeCommand::Set { name, read_ahead, shared, read_cache } => {
            set(desk, &name, (read_ahead, shared, read_cache))
        }
        VolumeCommand::Online { name } => serve(desk, &name, true),
        VolumeCommand::Offline { name, confirm: asked } => {
            let hosts = desk.ask(|member| member.volume(&name))?.sessions;
            if hosts > 0 {
                let hosts = units::count(hosts, "host");
                confirm(&asked, &format!("Log {hosts} out of '{name}'?"))?;
            }
            serve(desk, &name, false)
        }
        VolumeCommand::Delete { name, confirm: asked } => delete(desk, &name, &asked),
        VolumeCommand::Move { name, to, pool, follow } => {
            let to = Where { member: to.as_deref(), pool: pool.as_deref() };
            moving::volume(desk, &name, to, &follow)
        }
        VolumeCommand::Transits => transits::list(desk),
        VolumeCommand::Settle(args) => transits::settle(desk, &args),
        VolumeCommand::Slices => slices::list(desk),
        VolumeCommand::DiscardSlice { digits, confirm: asked } => {
            slices::discard(desk, &digits, &asked)
        }
        VolumeCommand::Rebuild { digits, despite_later } => {
            slices::rebuild(desk, &digits, despite_later)
        }
        VolumeCommand::Undelete { name } => show(desk, |member| member.undelete_volume(&name)),
        VolumeCommand::Purge { name, confirm: asked, follow } => {
            purge(desk, &name, &asked, &follow)
        }
    }
}

/// Puts a volume into the recycle bin.
fn delete(desk: &Desk, name: &str, asked: &Confirm) -> anyhow::Result<()> {
    let there = desk.ask(|member| member.volume(name))?;
    if there.spread.is_some() {
        bail!(
            "'{name}' lies on several members and has no recycle bin: 'drystone volume purge {name}' gives it up for \
             good, once it is offline"
        );
    }
    match there.state {
        VolumeState::Deleted => bail!(
            "'{name}' is in the recycle bin already: 'drystone volume purge {name}' gives it up for good"
        ),
        VolumeState::Online | VolumeState::Degraded => {
            bail!("'{name}' is online: take it offline first ('drystone volume offline {name}')")
        }
        VolumeState::Offline | VolumeState::Lost => {}
    }
    confirm(asked, &format!("Put volume '{name}' into the recycle bin?"))?;
    desk.ask(|member| member.delete_volume(name))?;
    desk.done(&format!(
        "'{name}' is in the recycle bin: 'drystone volume undelete {name}' brings it back, until the space is needed"
    ))
}

/// Gives up what is in the recycle bin, and waits until its space is back.
fn purge(desk: &Desk, name: &str, asked: &Confirm, follow: &Follow) -> anyhow::Result<()> {
    let there = desk.ask(|member| member.volume(name))?;
    match (&there.spread, there.state) {
        (None, VolumeState::Deleted) => {
            confirm(asked, &format!("Give up '{name}' and its snapshots for good?"))?;
        }
        (None, _) => bail!(
            "'{name}' is not in the recycle bin: delete it first ('drystone volume delete {name}')"
        ),
        (Some(_), VolumeState::Online | VolumeState::Degraded) => {
            bail!("'{name}' is online: take it offline first ('drystone volume offline {name}')")
        }
        (Some(spread), _) => {
            let members = units::count(spread.slices.len(), "member");
            confirm(asked, &format!("Give up '{name}' on {members} for good?"))?;
        }
    }
    desk.ask(|member| member.purge_volume(name))?;
    if !follow.no_wait {
        desk.where_it_was_done().wait_after(&format!("'{name}' is gone"), &[JobKind::Delete])?;
    }
    desk.done(&format!("'{name}' is gone"))
}

/// Asks for something that ends with a volume, and shows that.
fn show(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Volume, ClientError>,
) -> anyhow::Result<()> {
    show_sized(desk, None, call)
}

/// The same of a volume that was to have so many bytes.
fn show_sized(
    desk: &Desk,
    asked_bytes: Option<u64>,
    call: impl FnOnce(&Client) -> Result<Volume, ClientError>,
) -> anyhow::Result<()> {
    let volume = desk.ask(call)?;
    desk.show(&volume, |volume| {
        let is_open = [VolumeState::Online, VolumeState::Degraded].contains(&volume.state);
        let nobody = match volume.hosts == Hosts::Nobody && is_open {
            true => format!("\n{}\n", for_nobody(&[&volume.name])),
            false => String::new(),
        };
        let protected = match &volume.write_protected_by {
            Some(host) => format!("\n{}\n", write_protected(&volume.name, host)),
            None => String::new(),
        };
        let rounded = asked_bytes.map_or_else(String::new, |asked| rounded(asked, volume));
        let mut shown = serde_json::to_value(volume)?;
        with_hits(&mut shown, volume);
        if let Some(spread) = &volume.spread {
            shown["spread"] = slices::lines(spread).into();
        }
        if let Some(words) = shared_without_list(volume.hosts, volume.shared) {
            shown["shared"] = words.into();
        }
        Ok(details(&shown)? + &rounded + &protected + &nobody)
    })
}

/// What holds where nobody has said whether several hosts may use a volume at the same time: only a list makes it one for a
/// single host.
fn shared_without_list(hosts: Hosts, shared: Option<bool>) -> Option<&'static str> {
    let is_said = shared != Some(false);
    let has_list = matches!(hosts, Hosts::Listed | Hosts::Nobody);
    (!is_said && !has_list).then_some("yes, as it has no access list")
}

/// What is said of a volume that is larger than was asked for.
fn rounded(asked_bytes: u64, volume: &Volume) -> String {
    match volume.size_bytes == asked_bytes {
        true => String::new(),
        false => format!(
            "\n{asked_bytes} bytes were asked for, and volumes have whole multiples of {}: it has {} bytes\n",
            size::short(CLUSTER_BYTES as u64),
            volume.size_bytes
        ),
    }
}

/// Changes what is named, and shows the volume; its access list where only that is changed.
fn set(
    desk: &Desk,
    name: &str,
    (read_ahead_bytes, shared, read_cache): (Option<u32>, Option<Switch>, Option<Switch>),
) -> anyhow::Result<()> {
    let nothing = VolumeChange::default;
    if let Some(shared) = shared {
        let change = VolumeChange { shared: Some(shared == Switch::On), ..nothing() };
        desk.ask(|member| member.change_volume(name, &change))?;
    }
    let cached = read_cache.map(|cached| cached == Switch::On);
    let cached = cached.map(|cached| VolumeChange { cached: Some(cached), ..nothing() });
    let ahead = read_ahead_bytes.is_some().then(|| VolumeChange { read_ahead_bytes, ..nothing() });
    match (cached, ahead) {
        (None, None) => access::show(desk, |member| member.access(name)),
        (Some(change), None) | (None, Some(change)) => {
            show(desk, |member| member.change_volume(name, &change))
        }
        (Some(cached), Some(ahead)) => {
            desk.ask(|member| member.change_volume(name, &cached))?;
            show(desk, |member| member.change_volume(name, &ahead))
        }
    }
}

fn serve(desk: &Desk, name: &str, online: bool) -> anyhow::Result<()> {
    let change = VolumeChange { online: Some(online), ..VolumeChange::default() };
    show(desk, |member| member.change_volume(name, &change))
}

fn spec(args: CreateArgs) -> NewVolume {
    NewVolume {
        name: args.name,
        size_bytes: args.size_bytes,
        raid: args.raid.map(Into::into),
        thick: args.thick,
        block_bytes: args.block,
        cache: match args.cache {
            CacheWord::Durable => Cache::Durable,
            CacheWord::Volatile => Cache::Volatile,
        },
        read_ahead_bytes: args.read_ahead,
        cached: !args.no_cache,
        pool: args.pool,
        spread: args.spread,
    }
}

/// How often what hosts read was in memory, in the place of two numbers.
fn with_hits(shown: &mut serde_json::Value, volume: &Volume) {
    let Volume { cache_hits, cache_misses, .. } = *volume;
    let Some(fields) = shown.as_object_mut() else { return };
    fields.remove("cache_misses");
    match units::share(cache_hits, cache_misses) {
        Some(share) => {
            let blocks = cache_hits.saturating_add(cache_misses);
            let text = format!("{share} of {blocks} blocks that were read");
            fields.insert("cache_hits".to_owned(), text.into());
        }
        None => drop(fields.remove("cache_hits")),
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
        let cells = [
            volume.name.clone(),
            units::bytes(volume.size_bytes),
            units::bytes(volume.used_bytes),
            volume.raid.to_string(),
            seen_state(volume).to_owned(),
            volume.sessions.to_string(),
            volume.snapshots.to_string(),
            volume.iqn.clone(),
        ];
        (volume.member.clone(), cells)
    };
    table_of_members(columns, volumes.iter().map(row))
}

/// How hosts find it: one that is online may be served to nobody all the same, as one that is being handed over.
fn seen_state(volume: &Volume) -> &'static str {
    let is_up = matches!(volume.state, VolumeState::Online | VolumeState::Degraded);
    match is_up && volume.not_served.is_some() {
        true => "not served",
        false => state(volume.state),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hits_are_told_as_a_share_of_what_was_read() {
        let text = |hits: u64, misses: u64| {
            let mut shown = json!({
                "id": 1, "name": "v", "size_bytes": 1, "raid": "raid5", "state": "online", "reason": "",
                "thick": false, "block_bytes": 512, "cache": "durable", "read_ahead_bytes": 0,
                "used_bytes": 0, "reserved_bytes": 0, "snapshots": 0, "origin": null,
                "created_unix_seconds": 1, "iqn": "", "sessions": 0, "cached": true,
                "cache_hits": hits, "cache_misses": misses,
            });
            let volume: Volume = serde_json::from_value(shown.clone()).unwrap();
            with_hits(&mut shown, &volume);
            details(&shown).unwrap()
        };
        let read = text(3, 1);
        assert!(read.contains("75 % of 4 blocks that were read\n"), "{read}");
        assert!(!read.contains("misses") && !text(0, 0).contains("hits"), "{read}");
        assert!(read.contains("cached"), "{read}");
    }

    #[test]
    fn a_volume_without_a_list_is_not_said_to_be_for_one_host() {
        let of = shared_without_list;
        for hosts in [Hosts::Everybody, Hosts::Loopback, Hosts::Rule] {
            assert!(of(hosts, Some(false)).is_some(), "{hosts:?}");
            assert_eq!(of(hosts, Some(true)), None);
            assert_eq!(of(hosts, None), None, "it is not known");
        }
        for hosts in [Hosts::Listed, Hosts::Nobody] {
            assert_eq!(of(hosts, Some(false)), None, "{hosts:?}");
        }
    }
}
