//! `drystone volume access` and `drystone policy`.

use super::{Desk, confirm::confirm};
use crate::Failure;
use crate::cli::access::{AccessCommand, PolicyArgs, PolicyCommand};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use group::access::{Entry, Parts, Record, Scope};
use member::{AccessRequest, Numbered, PolicyRequest, PolicyShown, Request, VolumeAccess};

/// Does what `drystone volume access` says.
pub(super) fn carry_out(desk: &Desk, command: AccessCommand) -> anyhow::Result<()> {
    let request = match command {
        AccessCommand::List { volume } => AccessRequest::List { volume },
        AccessCommand::Add { volume, hosts, policy: Some(name) } => {
            AccessRequest::Add { volume, entry: Entry::Policy { name, scope: hosts.scope } }
        }
        AccessCommand::Add { volume, hosts, policy: None } => {
            AccessRequest::Add { volume, entry: Entry::Record(Record::new(hosts.parts())?) }
        }
        AccessCommand::Remove { volume, number } => AccessRequest::Remove { volume, number },
        AccessCommand::Clear { volume, confirm: asked } => {
            let question = format!("Let all hosts use '{volume}' that --chap and --allow let in?");
            confirm(&asked, &question)?;
            AccessRequest::Clear { volume }
        }
    };
    show(desk, request)
}

/// Asks about the access of a volume and prints what it is then.
pub(super) fn show(desk: &Desk, request: AccessRequest) -> anyhow::Result<()> {
    let access: VolumeAccess = desk.ask(&Request::Access(request))?;
    desk.show(&access, |access| Ok(list(access)))
}

fn list(access: &VolumeAccess) -> String {
    let VolumeAccess { volume, entries, shared } = access;
    let Some(entries) = entries else {
        return format!(
            "'{volume}' has no list: --chap and --allow of the member say who may use it\n"
        );
    };
    if entries.is_empty() {
        return format!("nobody may use '{volume}': its list is empty\n");
    }
    let row = |numbered: &Numbered<Entry>| match &numbered.item {
        Entry::Record(record) => row(numbered.number, "", record.parts()),
        Entry::Policy { name, scope } => {
            row(numbered.number, name, &Parts { scope: *scope, ..Parts::default() })
        }
    };
    let hosts = if *shared { "several hosts" } else { "one host" };
    format!("{}{hosts} at a time\n", records(entries.iter().map(row)))
}

type Row = [String; 6];

fn row(number: u32, policy: &str, parts: &Parts) -> Row {
    let Parts { chap, iqn, address, scope } = parts;
    let or_any = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let policy = (!policy.is_empty()).then(|| policy.to_owned());
    [
        number.to_string(),
        or_any(policy),
        or_any(chap.clone()),
        or_any(iqn.clone()),
        or_any(address.as_ref().map(ToString::to_string)),
        Scope::word(*scope).to_owned(),
    ]
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
    let show = |request| -> anyhow::Result<()> {
        let policy: PolicyShown = desk.ask(&Request::Policy(request))?;
        desk.show(&policy, |policy| Ok(policy_text(policy)))
    };
    Ok(match args.command {
        PolicyCommand::Create { name } => show(PolicyRequest::Create { name }),
        PolicyCommand::Show { name } => show(PolicyRequest::Show { name }),
        PolicyCommand::Add { name, hosts } => {
            show(PolicyRequest::Add { name, record: hosts.parts() })
        }
        PolicyCommand::Remove { name, number } => show(PolicyRequest::Remove { name, number }),
        PolicyCommand::List => list_policies(&desk),
        PolicyCommand::Delete { name } => desk
            .ask::<()>(&Request::Policy(PolicyRequest::Delete { name: name.clone() }))
            .and_then(|()| desk.done(&format!("policy '{name}' is gone"))),
    }?)
}

fn list_policies(desk: &Desk) -> anyhow::Result<()> {
    let policies: Vec<PolicyShown> = desk.ask(&Request::Policy(PolicyRequest::List))?;
    desk.show(&policies, |policies| {
        if policies.is_empty() {
            return Ok(
                "there are no policies: 'drystone policy create NAME' makes one\n".to_owned()
            );
        }
        let row = |policy: &PolicyShown| [policy.name.clone(), policy.records.len().to_string()];
        Ok(table([Text("NAME"), Number("RECORDS")], policies.iter().map(row)))
    })
}

fn policy_text(policy: &PolicyShown) -> String {
    if policy.records.is_empty() {
        return format!(
            "policy '{}' lets nobody in: 'drystone policy add' adds hosts\n",
            policy.name
        );
    }
    records(policy.records.iter().map(|numbered| row(numbered.number, "", &numbered.item)))
}
