//! `drystone group`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::group::{GroupArgs, GroupCommand, PlaceArgs};
use crate::print::details::details;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::Context;
use api::client::{Client, ClientError};
use api::types::{
    ConnectionsProfile, CreatedJoinToken, Group, GroupCertificate, GroupConnections, GroupVolume,
    JoinToken, MemberState, NewGroup, NewJoinToken,
};
use group::connections::GroupLimit;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Does what the command line says.
pub(crate) fn run(args: GroupArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out(&desk, args.command)?)
}

fn carry_out(desk: &Desk, command: GroupCommand) -> anyhow::Result<()> {
    match command {
        GroupCommand::Create { name, place: PlaceArgs { member, listen }, address } => {
            let address = address.map(|address| address.to_string());
            let new = NewGroup { name, member, listen: listen.to_string(), address };
            show(desk, |asked| asked.create_group(&new))
        }
        GroupCommand::Set { address: Some(address), .. } => {
            show(desk, |asked| asked.set_group_address(&address.to_string()))
        }
        GroupCommand::Set { connections: Some(limit), .. } => {
            let new = match limit {
                GroupLimit::Number(number) => GroupConnections::Limit(number.get()),
                GroupLimit::Usual => GroupConnections::Profile(ConnectionsProfile::Default),
                GroupLimit::Small => GroupConnections::Profile(ConnectionsProfile::Small),
                GroupLimit::None => GroupConnections::Profile(ConnectionsProfile::None),
            };
            show(desk, |asked| asked.set_group_connections(&new))
        }
        GroupCommand::Set { .. } => {
            desk.ask(|asked| asked.clear_group_address())?;
            desk.done("the group has no address any more: hosts ask its members")
        }
        GroupCommand::Show => show(desk, |asked| asked.group()),
        GroupCommand::Certificate => {
            let known = desk.ask(|asked| asked.group_certificate())?;
            // Nothing else, so that it can go to a file.
            desk.show(&known, |GroupCertificate { certificate, .. }| Ok(certificate.clone()))
        }
        GroupCommand::Rename { name } => show(desk, |asked| asked.rename_group(&name)),
        GroupCommand::Token { revoke: Some(id), .. } => {
            desk.ask(|asked| asked.revoke_join_token(&id))?;
            desk.done(&format!("nobody can join with ticket {id} any more"))
        }
        GroupCommand::Token { list: true, .. } => {
            let tickets = desk.ask(|asked| asked.join_tokens())?;
            desk.show(&tickets, |tickets| Ok(tickets_text(tickets, now())))
        }
        GroupCommand::Token { expires, .. } => token(desk, expires),
        GroupCommand::Volumes => {
            let volumes = desk.ask(|asked| asked.group_volumes())?;
            desk.show(&volumes, |volumes| Ok(volumes_text(volumes)))
        }
        GroupCommand::Share { replace_settings, confirm: asked } => {
            if replace_settings {
                confirm(&asked, &what_is_given_up(&desk.ask(|asked| asked.group())?))?;
            }
            show(desk, |asked| asked.share_settings(replace_settings))
        }
        GroupCommand::Delete { confirm: asked } => {
            let group = desk.ask(|asked| asked.group())?;
            let question = format!(
                "End group '{}'? This member goes on alone, with its array and its volumes.",
                group.name
            );
            confirm(&asked, &question)?;
            desk.ask(|asked| asked.delete_group())?;
            desk.done(&format!("group '{}' is gone", group.name))
        }
    }
}

/// The question before what a member has set differently goes.
fn what_is_given_up(group: &Group) -> String {
    let what = match &group.settings_differ[..] {
        [] => "what is set differently here".to_owned(),
        differ => format!("{}, as set here", differ.join(", ")),
    };
    format!(
        "Give up {what}, and the accounts, tokens and destinations that only this member has? Member '{}' keeps to what \
         group '{}' has instead, also as to which hosts may use its volumes.",
        group.member, group.name
    )
}

/// Asks about the group and prints what it is then.
pub(super) fn show(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Group, ClientError>,
) -> anyhow::Result<()> {
    let group = desk.ask(call)?;
    desk.show(&group, |group| details(group).context("the answer does not read"))
}

fn token(desk: &Desk, expires: Duration) -> anyhow::Result<()> {
    let new = NewJoinToken { expires_seconds: Some(expires.as_secs()) };
    let created = desk.ask(|asked| asked.create_join_token(&new))?;
    // Nothing but the ticket, so that it can go to a file.
    desk.show(&created, |CreatedJoinToken { token, .. }| Ok(format!("{token}\n")))?;
    if io::stderr().is_terminal() && !desk.json {
        tell_how_to_join(desk, &created);
    }
    Ok(())
}

/// Who looks at it has another server to go to.
fn tell_how_to_join(desk: &Desk, created: &CreatedJoinToken) {
    // The ticket is made, whatever becomes of this.
    if let Ok(group) = desk.client.group() {
        let _ = writeln!(io::stderr(), "{}", how_to_join(&group, created));
    }
}

fn how_to_join(group: &Group, created: &CreatedJoinToken) -> String {
    format!(
        "one server may join with it (it is {} in 'drystone group token --list'), until {}. On that server, whose \
         member runs: 'drystone member join {} --token TICKET --listen ADDR', with an address of its own",
        created.id,
        units::time(created.expires_unix_seconds),
        group.door
    )
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn tickets_text(tickets: &[JoinToken], now: Duration) -> String {
    if tickets.is_empty() {
        return "there are no tickets to join with: 'drystone group token' makes one\n".to_owned();
    }
    let row = |ticket: &JoinToken| {
        let expires = match ticket.expires_unix_seconds {
            end if end <= now.as_secs() => "expired".to_owned(),
            end => units::time(end),
        };
        [ticket.id.clone(), units::time(ticket.created_unix_seconds), expires]
    };
    table([Text("ID"), Text("MADE"), Text("EXPIRES")], tickets.iter().map(row))
}

fn volumes_text(volumes: &[GroupVolume]) -> String {
    if volumes.is_empty() {
        return "no member has a volume yet, or has told of one: 'drystone volume create' makes one\n"
            .to_owned();
    }
    let columns = [Text("VOLUME"), Text("MEMBER"), Number("SIZE"), Text("STATE"), Text("TARGET")];
    let row = |volume: &GroupVolume| {
        let state = match (volume.member_state, volume.online) {
            (MemberState::Present, true) => "online",
            (MemberState::Present, false) => "offline",
            // What it told last says nothing any more.
            (MemberState::Away, _) => "member away",
            (MemberState::Joining, _) => "member joining",
            (MemberState::Unknown, _) => "unknown",
        };
        [
            volume.name.clone(),
            volume.member.clone(),
            units::bytes(volume.size_bytes),
            state.to_owned(),
            volume.iqn.clone(),
        ]
    };
    table(columns, volumes.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn volumes_stand_beside_the_member_that_has_them() {
        let volume = |name: &str, member: &str, state: &str, online: bool| -> GroupVolume {
            let json = json!({
                "member": member, "member_state": state, "name": name, "iqn": format!("iqn.x:{name}"),
                "size_bytes": 10_u64 << 30, "online": online,
            });
            serde_json::from_value(json).unwrap()
        };
        let text = volumes_text(&[
            volume("vm1", "left", "present", true),
            volume("vm2", "left", "present", false),
            volume("db", "right", "away", true),
            volume("log", "third", "unknown", true),
        ]);
        let wanted = "VOLUME  MEMBER    SIZE  STATE        TARGET\n\
                      vm1     left    10 GiB  online       iqn.x:vm1\n\
                      vm2     left    10 GiB  offline      iqn.x:vm2\n\
                      db      right   10 GiB  member away  iqn.x:db\n\
                      log     third   10 GiB  unknown      iqn.x:log\n";
        assert_eq!(text, wanted);
        assert!(volumes_text(&[]).contains("'drystone volume create'"));
    }

    #[test]
    fn a_ticket_comes_with_the_command_that_takes_it_and_not_with_itself_again() {
        let group: Group = serde_json::from_value(json!({
            "id": "00", "name": "san1", "member": "left", "door": "192.0.2.10:3262", "members": 1, "away": [],
            "store": ["left"], "store_fault": null, "store_part_fault": null,
            "shares": true, "settings_differ": [],
        }))
        .unwrap();
        let created = CreatedJoinToken {
            token: "hush".to_owned(),
            id: "00c0ffee".to_owned(),
            expires_unix_seconds: 1_795_262_400,
        };
        let said = how_to_join(&group, &created);
        assert!(said.contains("until 2026-11-21 12:00:00Z"), "{said}");
        assert!(said.contains("'drystone member join 192.0.2.10:3262 --token TICKET"), "{said}");
        assert!(said.contains("it is 00c0ffee in") && !said.contains("hush"), "{said}");
    }

    #[test]
    fn a_ticket_is_a_line_without_what_it_is() {
        let ticket = |id: &str, expires_unix_seconds| JoinToken {
            id: id.to_owned(),
            created_unix_seconds: 1_795_262_400,
            expires_unix_seconds,
        };
        let tickets = [ticket("00c0ffee", 1_795_266_000), ticket("0badcafe", 1_795_262_401)];
        let wanted = "ID        MADE                  EXPIRES\n\
                      00c0ffee  2026-11-21 12:00:00Z  2026-11-21 13:00:00Z\n\
                      0badcafe  2026-11-21 12:00:00Z  expired\n";
        assert_eq!(tickets_text(&tickets, Duration::from_secs(1_795_262_401)), wanted);
        assert!(tickets_text(&[], Duration::ZERO).contains("'drystone group token' makes one"));
    }
}
