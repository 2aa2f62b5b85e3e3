//! `drystone notify`.

use super::{Desk, confirm::confirm, password};
use crate::Failure;
use crate::cli::notify::{MailTls, NotifyArgs, NotifyCommand, Transport, WayArgs};
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::print::units;
use anyhow::{Context, anyhow};
use api::client::{Client, ClientError};
use api::types::{
    self, Destination, DestinationChange, DestinationSecret, NewDestination, NewEmail, NewWay,
    NewWebhook, Syslog, SyslogTransport, Way,
};
use group::regular;
use std::path::Path;
use std::time::Duration;

/// The longest file of authorities.
const ROOTS_BYTES_MAX: u64 = 64 << 10;

/// Does what the command line says.
pub(crate) fn run(args: NotifyArgs) -> Result<(), Failure> {
    let desk = Desk::new(&args.member)?;
    carry_out(&desk, args.command)
}

fn carry_out(desk: &Desk, command: NotifyCommand) -> Result<(), Failure> {
    let pause = |name: &str, paused: bool| {
        let change = DestinationChange { paused: Some(paused), ..DestinationChange::default() };
        Ok(show(desk, |member| member.change_destination(name, &change))?)
    };
    match command {
        NotifyCommand::Add { name, way, severity, fold, paused } => {
            let to = read(*way, &name)?.ok_or_else(|| {
                Failure::Usage("where to? Write one of --email, --webhook and --syslog".to_owned())
            })?;
            let fold_seconds = seconds(fold);
            let new = NewDestination { name, to, severity, fold_seconds, paused };
            Ok(show(desk, |member| member.add_destination(&new))?)
        }
        NotifyCommand::List => {
            let all = desk.ask(|member| member.destinations())?;
            Ok(desk.show(&all, |all| Ok(list(all)))?)
        }
        NotifyCommand::Show { name } => Ok(show(desk, |member| member.destination(&name))?),
        NotifyCommand::Set { name, way, severity, fold } => {
            let fold_seconds = fold.map(seconds);
            let is_said = way.audit || way.no_audit;
            let mut to = read(*way, &name)?;
            if let (Some(NewWay::Syslog(syslog)), false) = (&mut to, is_said) {
                // Where it is has changed, and not what goes there.
                let before = desk.ask(|member| member.destination(&name))?;
                syslog.audit = matches!(before.to, Way::Syslog(before) if before.audit);
            }
            let change = DestinationChange { to, severity, fold_seconds, paused: None };
            if change == DestinationChange::default() {
                let sentence = "nothing is to be changed: write --severity, --fold, or where it is with --email, --webhook or --syslog";
                return Err(Failure::Usage(sentence.to_owned()));
            }
            Ok(show(desk, |member| member.change_destination(&name, &change))?)
        }
        NotifyCommand::Pause { name } => pause(&name, true),
        NotifyCommand::Resume { name } => pause(&name, false),
        NotifyCommand::Test { name } => Ok(test(desk, &name)?),
        NotifyCommand::Delete { name, confirm: asked } => {
            desk.ask(|member| member.destination(&name))?;
            confirm(&asked, &format!("Send no more events to '{name}'?"))?;
            desk.ask(|member| member.delete_destination(&name))?;
            Ok(desk.done(&format!("destination '{name}' is gone"))?)
        }
    }
}

fn seconds(time: Duration) -> u32 {
    time.as_secs().try_into().unwrap_or(u32::MAX)
}

/// Where events are to go, if that was written, with secrets from their files.
fn read(way: WayArgs, name: &str) -> Result<Option<NewWay>, Failure> {
    let secret = |file: Option<&Path>, what| -> anyhow::Result<Option<DestinationSecret>> {
        let Some(file) = file else { return Ok(None) };
        password::read(Some(file), what, name).map(DestinationSecret).map(Some)
    };
    let roots = |file: &Path| {
        let text = regular::read_text(file, ROOTS_BYTES_MAX);
        let text = text.with_context(|| format!("cannot read '{}'", file.display()));
        text.map(|text| text.to_string())
    };
    let roots = way.trust_file.as_deref().map(roots).transpose()?;
    Ok(match (way.webhook, way.syslog) {
        (Some(url), _) => Some(NewWay::Webhook(NewWebhook {
            url,
            roots,
            secret: secret(way.secret_file.as_deref(), "secret")?,
            token: secret(way.bearer_file.as_deref(), "token")?,
        })),
        (None, Some(server)) => {
            let transport = way.transport.map_or(SyslogTransport::Udp, transport);
            Some(NewWay::Syslog(Syslog { server, transport, roots, audit: way.audit }))
        }
        (None, None) if !way.email.is_empty() => Some(NewWay::Email(NewEmail {
            to: way.email,
            from: way.from.unwrap_or_default(),
            smtp: way.smtp.unwrap_or_default(),
            tls: way.smtp_tls.map_or(types::MailTls::Starttls, mail_tls),
            roots,
            user: way.smtp_user,
            password: secret(way.smtp_password_file.as_deref(), "password")?,
        })),
        (None, None) if roots.is_some() => {
            let sentence =
                "--trust-file goes with --email, --webhook or --syslog: write where it is, too";
            return Err(Failure::Usage(sentence.to_owned()));
        }
        (None, None) => None,
    })
}

const fn mail_tls(tls: MailTls) -> types::MailTls {
    match tls {
        MailTls::None => types::MailTls::None,
        MailTls::Starttls => types::MailTls::Starttls,
        MailTls::Tls => types::MailTls::Tls,
    }
}

const fn transport(transport: Transport) -> SyslogTransport {
    match transport {
        Transport::Udp => SyslogTransport::Udp,
        Transport::Tcp => SyslogTransport::Tcp,
        Transport::Tls => SyslogTransport::Tls,
    }
}

fn test(desk: &Desk, name: &str) -> anyhow::Result<()> {
    let test = desk.ask(|member| member.test_destination(name))?;
    if desk.json {
        desk.show(&test, |_| Ok(String::new()))?;
    }
    match test.why {
        None if desk.json => Ok(()),
        None => crate::print::out(&format!("destination '{name}' has taken the test\n")),
        Some(why) => Err(anyhow!("destination '{name}' has not taken the test: {why}")),
    }
}

fn show(
    desk: &Desk,
    call: impl FnOnce(&Client) -> Result<Destination, ClientError>,
) -> anyhow::Result<()> {
    let destination = desk.ask(call)?;
    desk.show(&destination, |destination| Ok(list(std::slice::from_ref(destination))))
}

fn list(all: &[Destination]) -> String {
    if all.is_empty() {
        return "events go nowhere: 'drystone notify add NAME' has them go on\n".to_owned();
    }
    let columns = [
        Text("DESTINATION"),
        Text("TO"),
        Text("SEVERITY"),
        Number("FOLD"),
        Number("DELIVERED"),
        Number("FAILED"),
        Text("LAST"),
        Text("STATE"),
    ];
    table(columns, all.iter().map(row))
}

/// How far the copy of the audit log is behind, and what it lacks.
fn of_audit(one: &Destination) -> String {
    let behind = match one.audit_behind {
        0 => String::new(),
        behind => format!("; audit log: {behind} behind"),
    };
    let missing = match one.audit_not_sent {
        0 => String::new(),
        missing => format!("; audit log: {missing} not sent"),
    };
    behind + &missing
}

fn row(one: &Destination) -> [String; 8] {
    let to = match &one.to {
        Way::Webhook(webhook) => format!("webhook {}", webhook.server),
        Way::Email(email) => format!("email {} by {}", email.to.join(","), email.smtp),
        Way::Syslog(syslog) if syslog.audit => format!("syslog {}, audit log too", syslog.server),
        Way::Syslog(syslog) => format!("syslog {}", syslog.server),
    };
    let state = match &one.failing {
        _ if !one.usable => "its secrets are to be given again".to_owned(),
        _ if one.paused => "paused".to_owned(),
        Some(why) => format!("failing: {why}"),
        None => "ok".to_owned(),
    };
    let state = format!("{state}{}", of_audit(one));
    [
        one.name.clone(),
        to,
        one.severity.word().to_owned(),
        format!("{} s", one.fold_seconds),
        one.delivered.to_string(),
        one.failed.to_string(),
        one.last_unix_seconds.map_or_else(|| "-".to_owned(), units::time),
        state,
    ]
}
