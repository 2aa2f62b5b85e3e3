//! Entries of the audit log as lines of syslog, as they are and one by one: who did what must not depend on what this
//! machine keeps.

use member::Record;
use member::audit::{Actor, Entry};

use super::Sender;
use super::syslog::{Line, line_of};
use crate::message::line;
use crate::pulse::now_unix_seconds;

/// `authpriv` (RFC 5424 §6.2.1): what names people and is not for everybody's eyes.
const FACILITY: u8 = 10;

/// The name of the structured data.
const DATA_ID: &str = "audit@32473";

/// What was done is a notice, what was refused or failed a warning.
pub(super) fn audit_line(sender: &Sender, record: &Record<Entry>) -> String {
    let Entry { action, who, from, object, operation, done, reason, outcome } = &record.what;
    let number = |number: Option<i64>| number.map(|number| number.to_string());
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let data = [
        ("number", Some(record.number.to_string())),
        ("action", Some(action.word().to_owned())),
        ("account", who.account.clone()),
        ("uid", number(who.uid.map(i64::from))),
        ("user", who.user.clone()),
        ("pid", number(who.pid.map(i64::from))),
        ("host", who.host.clone()),
        ("chap_user", who.chap_user.clone()),
        ("from", text(from)),
        ("object", text(object)),
        ("operation", text(operation)),
        ("done", Some(done.to_string())),
        ("reason", text(reason)),
        ("count", Some(record.count.to_string())),
    ];
    line_of(
        sender,
        &Line {
            priority: FACILITY * 8 + if *done { 5 } else { 4 },
            unix_seconds: record.unix_seconds,
            id: "audit",
            data_id: DATA_ID,
            data: data.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            text: line(&in_words(record, &[action_of(operation, action.word()), object, outcome])),
        },
    )
}

/// That entries of a part were not sent, and what numbers they and others had.
pub(super) fn missing_line(
    sender: &Sender,
    part: &str,
    count: u64,
    (from, to): (u64, u64),
) -> String {
    let entries = if count == 1 { "entry" } else { "entries" };
    let text = format!(
        "up to {count} {entries} ({part}) with numbers from {from} to {to} were not sent: the audit log has no room for them \
         any more"
    );
    let data = [
        ("part", part.to_owned()),
        ("missing", count.to_string()),
        ("first", from.to_string()),
        ("last", to.to_string()),
    ];
    line_of(
        sender,
        &Line {
            priority: FACILITY * 8 + 4,
            unix_seconds: now_unix_seconds(),
            id: "audit_not_sent",
            data_id: DATA_ID,
            data: data.into(),
            text,
        },
    )
}

fn action_of<'a>(operation: &'a str, action: &'a str) -> &'a str {
    if operation.is_empty() { action } else { operation }
}

/// `WHO from WHERE: WHAT: OBJECT: OUTCOME`, without what is not known.
fn in_words(record: &Record<Entry>, parts: &[&str]) -> String {
    let what: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    let from = match record.what.from.as_str() {
        "" => String::new(),
        from => format!(" from {from}"),
    };
    let times = match record.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    format!("{}{from}: {}{times}", who(&record.what.who), what.join(": "))
}

fn who(who: &Actor) -> String {
    let Actor { host, chap_user, account, uid, user, .. } = who;
    let of_machine = || {
        let user = user.clone().or_else(|| uid.map(|uid| uid.to_string()));
        user.map(|user| format!("user {user}"))
    };
    let known = account.clone().or_else(of_machine).or_else(|| host.clone());
    known.or_else(|| chap_user.clone()).unwrap_or_else(|| "somebody".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::tests::sender;

    #[test]
    fn an_entry_says_who_did_what_and_names_end_no_line() {
        let json = serde_json::json!({
            "number": 9, "unix_seconds": 0, "count": 1, "action": "change",
            "who": {"account": "al", "uid": null}, "from": "192.0.2.7:5", "object": "/v1/volumes/a\"]\n<0>1",
            "operation": "DELETE /v1/volumes/{name}", "done": true, "reason": "", "outcome": "204 after 3 ms",
        });
        let mut record: Record<Entry> = serde_json::from_value(json).expect("an entry");
        let line = audit_line(&sender(), &record);
        assert!(line.starts_with("<85>1 1970-01-01T00:00:00Z "), "{line}");
        assert!(line.contains(
            r#" drystone - audit [audit@32473 number="9" action="change" account="al" from="#
        ));
        assert!(
            line.contains(r#"object="/v1/volumes/a\"\] <0>1" "#) && !line.contains("uid="),
            "{line}"
        );
        let text =
            "al from 192.0.2.7:5: DELETE /v1/volumes/{name}: /v1/volumes/a\"] <0>1: 204 after 3 ms";
        assert!(line.ends_with(text) && !line.contains(char::is_control), "{line}");
        (record.what.done, record.count, record.what.who) = (false, 7, Actor::default());
        let line = audit_line(&sender(), &record);
        assert!(line.starts_with("<84>1 ") && line.ends_with(" (7 times)"), "{line}");
    }
}
