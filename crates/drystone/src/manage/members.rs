//! `drystone member join`, `list`, `move` and `remove`: the members of a group.

use super::{Desk, confirm::confirm, group};
use crate::Failure;
use crate::cli::group::PlaceArgs;
use crate::cli::manage::{Confirm, MemberArgs};
use crate::cli::member::{JoinArgs, TicketWord};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::{Context, bail};
use api::client::Despite;
use api::types::{JoinGroup, Member, MemberState};
use std::io::{self, Read};
use zeroize::Zeroizing;

/// What stands for a ticket that comes on standard input.
const STDIN: &str = "-";

/// What is read there: more than the longest ticket.
const TICKET_BYTES_MAX: u64 = 4096;

/// Has the member join a group.
pub(crate) fn join(args: JoinArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.asked)?;
    let JoinArgs { group, token, replace_settings, place, asked: _ } = args;
    let PlaceArgs { member, listen } = place;
    let token = ticket(token, io::stdin().lock())?;
    let (token, listen) = (token.to_string(), listen.to_string());
    let join = JoinGroup { group, token, member, listen, replace_settings };
    Ok(group::show(&desk, |asked| asked.join_group(&join))?)
}

/// The ticket that was written, or that comes on standard input.
fn ticket(written: TicketWord, stdin: impl Read) -> anyhow::Result<Zeroizing<String>> {
    let TicketWord(written) = written;
    if written.as_str() != STDIN {
        return Ok(written);
    }
    let mut text = Zeroizing::new(String::new());
    stdin
        .take(TICKET_BYTES_MAX)
        .read_to_string(&mut text)
        .context("cannot read the ticket from standard input")?;
    let word = text.trim();
    if word.is_empty() {
        bail!("no ticket came on standard input: give what 'drystone group token' printed");
    }
    Ok(Zeroizing::new(word.to_owned()))
}

/// Lists the members.
pub(crate) fn list(args: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(args)?;
    let members = desk.ask(|asked| asked.members())?;
    Ok(desk.show(&members, |members| Ok(text(members)))?)
}

fn text(members: &[Member]) -> String {
    let columns = [
        Text("MEMBER"),
        Text("STATE"),
        Text("POOL"),
        Text("ADDRESS"),
        Text("PORTALS"),
        Number("VOLUMES"),
        Number("FREE"),
        Text("SETTINGS"),
        Text("STORE"),
        Text("VERSION"),
        Text("JOINED"),
    ];
    let row = |member: &Member| {
        let here = if member.here { " (here)" } else { "" };
        let portals = match &member.portals[..] {
            [] => "-".to_owned(),
            portals => portals.join(","),
        };
        [
            format!("{}{here}", member.name),
            member.state.word().to_owned(),
            member.pool.clone(),
            member.door.clone(),
            portals,
            member.volumes.to_string(),
            free(member),
            settings(member).to_owned(),
            if member.store { "yes" } else { "no" }.to_owned(),
            member.version.clone(),
            units::time(member.joined_unix_seconds),
        ]
    };
    table(columns, members.iter().map(row))
}

/// What it has room for, if it has told.
fn free(member: &Member) -> String {
    match member.capacity_bytes {
        0 => "-".to_owned(),
        _ => units::bytes(member.free_bytes),
    }
}

/// Whose settings hold there.
fn settings(member: &Member) -> &'static str {
    match member.shares {
        Some(true) => "shared",
        Some(false) => "own",
        None => "-",
    }
}

/// Puts a member into another pool.
pub(crate) fn move_to(name: &str, pool: &str, asked: &MemberArgs) -> Result<(), Failure> {
    let desk = Desk::new(asked)?;
    desk.ask(|asked| asked.move_member(name, pool))?;
    Ok(desk.done(&format!("member '{name}' is in pool '{pool}'"))?)
}

/// Removes a member from the group.
pub(crate) fn remove(
    (name, despite): (&str, Despite),
    confirmed: &Confirm,
    asked: &MemberArgs,
) -> Result<(), Failure> {
    let desk = Desk::new(asked)?;
    Ok(carry_out_remove(&desk, (name, despite), confirmed)?)
}

fn carry_out_remove(
    desk: &Desk,
    (name, despite): (&str, Despite),
    confirmed: &Confirm,
) -> anyhow::Result<()> {
    let member = desk.ask(|asked| asked.member(name))?;
    confirm(confirmed, &question(&member))?;
    // As the group writes it: letters may be written in another case.
    desk.ask(|asked| asked.remove_member(&member.name, despite))?;
    desk.done(&removed(&member))
}

fn question(member: &Member) -> String {
    let whose = match member.volumes {
        0 => String::new(),
        volumes => {
            format!(", with {} that hosts then reach there alone", units::count(volumes, "volume"))
        }
    };
    format!("Remove member '{}' from the group? It keeps its array{whose}.", member.name)
}

/// What was done, and what an operator has to know of a member that could not hear of it.
fn removed(member: &Member) -> String {
    let name = &member.name;
    match member.state {
        MemberState::Present => format!("member '{name}' is removed, and goes on alone"),
        MemberState::Joining | MemberState::Away | MemberState::Unknown => format!(
            "member '{name}' is removed; if it is started again it hears of that and goes on alone. If it does not come \
             back, erase 'group/' in its data directory, which holds keys of the group"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member(name: &str, state: &str, here: bool, portals: &[&str]) -> Member {
        serde_json::from_value(json!({
            "number": 1, "name": name, "state": state, "here": here, "door": "192.0.2.10:3262",
            "pool": "default", "free_bytes": 5_u64 << 30, "capacity_bytes": if here { 20_u64 << 30 } else { 0 },
            "shares": here.then_some(true),
            "portals": portals, "volumes": portals.len(), "version": "0.1.0",
            "joined_unix_seconds": 1_795_262_400, "store": here,
        }))
        .unwrap()
    }

    #[test]
    fn a_member_is_a_line() {
        let here = member("left", "present", true, &["192.0.2.10:3260", "198.51.100.10:3260"]);
        let wanted = "\
MEMBER       STATE    POOL     ADDRESS          PORTALS                             VOLUMES   FREE  SETTINGS  STORE  VERSION  JOINED
left (here)  present  default  192.0.2.10:3262  192.0.2.10:3260,198.51.100.10:3260        2  5 GiB  shared    yes    0.1.0    2026-11-21 12:00:00Z
right        away     default  192.0.2.10:3262  -                                         0      -  -         no     0.1.0    2026-11-21 12:00:00Z
";
        assert_eq!(text(&[here, member("right", "away", false, &[])]), wanted);
    }

    #[test]
    fn a_ticket_is_what_was_written_or_comes_on_standard_input() {
        let of = |written: &str, stdin: &str| {
            let ticket = ticket(TicketWord::from(written.to_owned()), stdin.as_bytes());
            ticket.map(|word| word.to_string()).map_err(|error| error.to_string())
        };
        assert_eq!(of("drystonejoin_a", "other"), Ok("drystonejoin_a".to_owned()));
        assert_eq!(of("-", " drystonejoin_b\n"), Ok("drystonejoin_b".to_owned()));
        assert!(of("-", "\n").unwrap_err().starts_with("no ticket came"));
        let shown = format!("{:?}", TicketWord::from("hush".to_owned()));
        assert!(!shown.contains("hush"), "{shown}");
    }

    #[test]
    fn who_removes_a_member_hears_what_becomes_of_it() {
        let (here, away) = (member("a", "present", false, &["x"]), member("b", "away", false, &[]));
        let asked = question(&here);
        assert!(
            asked.ends_with("its array, with 1 volume that hosts then reach there alone."),
            "{asked}"
        );
        assert_eq!(question(&away), "Remove member 'b' from the group? It keeps its array.");
        assert_eq!(removed(&here), "member 'a' is removed, and goes on alone");
        // The directory itself holds more: the key of secrets, for one.
        assert!(removed(&away).contains("erase 'group/' in its data directory, which holds keys"));
    }
}
