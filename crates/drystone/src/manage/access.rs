//! `drystone volume access` and `drystone policy`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::advice::access::{for_everybody, for_nobody};
use crate::cli::access::{AccessCommand, PolicyArgs, PolicyCommand};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use api::client::{Client, ClientError};
use api::types::{
    Access, Entry, HostRecord, Hosts, NumberedEntry, Policy, PolicyRecord, PolicyUse, Scope,
};

/// Does what `drystone volume access` says.
pub(super) fn carry_out(desk: &Desk, command: AccessCommand) -> anyhow::Result<()> {
    match command {
        AccessCommand::List { volume } => show(desk, |member| member.access(&volume)),
        AccessCommand::Add { volume, hosts, policy } => {
            let entry = match policy {
                Some(name) => Entry::Policy(PolicyUse { name, scope: hosts.scope.into() }),
                None => Entry::Record(hosts.record()),
            };
            show(desk, |member| member.add_access(&volume, &entry))
        }
        AccessCommand::Remove { volume, number } => {
            show(desk, |member| member.remove_access(&volume, number))
        }
        AccessCommand::Clear { volume, confirm: asked } => {
            let question = format!(
                "Take the list of '{volume}' away, so that it is for the hosts that the member lets in without one?"
            );
            confirm(&asked, &question)?;
            show(desk, |member| member.clear_access(&volume))
        }
    }
}

/// Asks about the access of a volume and prints what it is then.
pub(super) fn show(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Access, ClientError>,
) -> anyhow::Result<()> {
    let access = desk.ask(call)?;
    desk.show(&access, |access| Ok(list(access)))
}

fn list(access: &Access) -> String {
    let Access { volume, entries, shared, hosts } = access;
    let Some(entries) = entries else {
        return match hosts {
            Hosts::Nobody => format!("{}\n", for_nobody(&[volume])),
            Hosts::Loopback => format!(
                "'{volume}' has no list: hosts on the machine of the member may use it, and no others\n"
            ),
            Hosts::Everybody => format!("{}\n", for_everybody(&[volume])),
            Hosts::Rule | Hosts::Listed => format!(
                "'{volume}' has no list: --chap, --allow and --open-access of the member say who may use it\n"
            ),
        };
    };
    if entries.is_empty() {
        return format!("nobody may use '{volume}': its list is empty\n");
    }
    let row = |numbered: &NumberedEntry| match &numbered.entry {
        Entry::Record(record) => row(numbered.number, None, record),
        Entry::Policy(PolicyUse { name, scope }) => {
            let any = HostRecord { scope: *scope, ..HostRecord::default() };
            row(numbered.number, Some(name), &any)
        }
    };
    let hosts = if *shared { "several hosts" } else { "one host" };
    format!("{}{hosts} at a time\n", records(entries.iter().map(row)))
}

type Row = [String; 6];

fn row(number: u32, policy: Option<&str>, record: &HostRecord) -> Row {
    let HostRecord { chap, iqn, address, scope } = record;
    let or_any = |text: Option<&str>| text.unwrap_or("-").to_owned();
    [
        number.to_string(),
        or_any(policy),
        or_any(chap.as_deref()),
        or_any(iqn.as_deref()),
        or_any(address.as_deref()),
        word(*scope).to_owned(),
    ]
}

/// The word for what hosts are let in to.
fn word(scope: Scope) -> &'static str {
    group::access::Scope::from(scope).word()
}

fn records(rows: impl Iterator<Item = Row>) -> String {
    let columns = [
        Number("NUMBER"),
        Text("POLICY"),
        Text("CHAP"),
        Text("HOST"),
        Text("ADDRESS"),
        Text("FOR"),
    ];
    table(columns, rows)
}

/// Does what `drystone policy` says.
pub(crate) fn policy(args: PolicyArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    Ok(carry_out_policy(&desk, args.command)?)
}

fn carry_out_policy(desk: &Desk, command: PolicyCommand) -> anyhow::Result<()> {
    match command {
        PolicyCommand::Create { name } => show_policy(desk, |member| member.create_policy(&name)),
        PolicyCommand::Show { name } => show_policy(desk, |member| member.policy(&name)),
        PolicyCommand::Add { name, hosts } => {
            let record = hosts.record();
            show_policy(desk, |member| member.add_to_policy(&name, &record))
        }
        PolicyCommand::Remove { name, number } => {
            show_policy(desk, |member| member.remove_from_policy(&name, number))
        }
        PolicyCommand::List => list_policies(desk),
        PolicyCommand::Delete { name } => {
            desk.ask(|member| member.delete_policy(&name))?;
            desk.done(&format!("policy '{name}' is gone"))
        }
    }
}

fn show_policy(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Policy, ClientError>,
) -> anyhow::Result<()> {
    let policy = desk.ask(call)?;
    desk.show(&policy, |policy| Ok(policy_text(policy)))
}

fn list_policies(desk: &Desk) -> anyhow::Result<()> {
    let policies = desk.ask(|member| member.policies())?;
    desk.show(&policies, |policies| {
        if policies.is_empty() {
            return Ok(
                "there are no policies: 'drystone policy create NAME' makes one\n".to_owned()
            );
        }
        let row = |policy: &Policy| [policy.name.clone(), policy.records.len().to_string()];
        Ok(table([Text("NAME"), Number("RECORDS")], policies.iter().map(row)))
    })
}

fn policy_text(policy: &Policy) -> String {
    if policy.records.is_empty() {
        return format!(
            "policy '{}' lets nobody in: 'drystone policy add' adds hosts\n",
            policy.name
        );
    }
    let row = |record: &PolicyRecord| {
        let PolicyRecord { number, chap, iqn, address, scope } = record.clone();
        row(number, None, &HostRecord { chap, iqn, address, scope })
    };
    records(policy.records.iter().map(row))
}
