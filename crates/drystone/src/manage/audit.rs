//! `drystone audit`: who logged in, who was refused, who changed what.

use super::Desk;
use crate::Failure;
use crate::cli::events::AuditArgs;
use crate::print::table::Column::Text;
use crate::print::table::{self, Column};
use crate::print::units;
use api::types::{AuditAction, AuditActor, AuditEntry};

const COLUMNS: [Column; 6] =
    [Text("TIME"), Text("WHAT"), Text("WHO"), Text("FROM"), Text("OBJECT"), Text("OUTCOME")];

/// Prints the audit log.
pub(crate) fn run(args: &AuditArgs) -> Result<(), Failure> {
    Ok(show(args)?)
}

fn show(args: &AuditArgs) -> anyhow::Result<()> {
    let desk = Desk::new(&args.member)?;
    let done = args.refused.then_some(false);
    let entries = desk.ask(|member| member.audit(args.since, done, Some(args.limit)))?;
    desk.show(&entries, |entries| {
        Ok(match entries.is_empty() {
            true => "nothing was done\n".to_owned(),
            false => table::table(COLUMNS, entries.iter().map(row)),
        })
    })
}

fn row(entry: &AuditEntry) -> [String; 6] {
    let what = match entry.action {
        // Where many are counted together it has none.
        AuditAction::Change if !entry.operation.is_empty() => entry.operation.clone(),
        // That of a login with a token is what was asked for with it.
        action if !entry.operation.is_empty() => {
            format!("{}: {}", action.word().replace('_', " "), entry.operation)
        }
        action => action.word().replace('_', " "),
    };
    let times = match entry.count {
        0 | 1 => String::new(),
        count => format!(" ({count} times)"),
    };
    [
        units::time(entry.time_unix_seconds),
        what,
        who(&entry.who),
        entry.from.clone(),
        entry.object.clone(),
        format!("{}{times}", entry.outcome),
    ]
}

/// Who it was, in the words that are known of them.
fn who(who: &AuditActor) -> String {
    let user = match (&who.user, who.uid) {
        (Some(user), _) => Some(format!("user {user}")),
        (None, uid) => uid.map(|uid| format!("user {uid}")),
    };
    let parts = [
        who.account.clone(),
        user,
        who.pid.map(|pid| format!("process {pid}")),
        who.host.clone(),
        who.chap_user.as_ref().map(|user| format!("CHAP user {user}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "unknown".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(action: &str, who: &serde_json::Value) -> AuditEntry {
        let json = json!({
            "number": 1, "time_unix_seconds": 1_795_262_400, "action": action, "who": who,
            "from": "x", "object": "/v1/volumes/a", "operation": "DELETE /v1/volumes/{name}",
            "done": true, "reason": "", "outcome": "204 after 3 ms", "count": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_line_says_when_what_who_from_where_and_how_it_ended() {
        let root = json!({"host": null, "chap_user": null, "account": null, "uid": 0, "user": "root", "pid": 7});
        let wanted = [
            "2026-11-21 12:00:00Z",
            "DELETE /v1/volumes/{name}",
            "user root, process 7",
            "x",
            "/v1/volumes/a",
            "204 after 3 ms",
        ];
        assert_eq!(row(&entry("change", &root)), wanted.map(str::to_owned));
        let host = json!({"host": "iqn.a:b", "chap_user": "web", "account": null, "uid": null, "user": null, "pid": null});
        let token = row(&entry("login_refused", &root));
        assert_eq!(token[1], "login refused: DELETE /v1/volumes/{name}", "what a token was for");
        let operation = String::new();
        let refused = AuditEntry { count: 9, operation, ..entry("login_refused", &host) };
        let row = row(&refused);
        assert_eq!((row[1].as_str(), row[2].as_str()), ("login refused", "iqn.a:b, CHAP user web"));
        assert!(row[5].ends_with(" (9 times)"));
        let nobody = json!({"host": null, "chap_user": null, "account": null, "uid": null, "user": null, "pid": null});
        let together = AuditEntry { operation: String::new(), ..entry("change", &nobody) };
        assert_eq!(super::row(&together)[1], "change", "many that failed are one entry");
    }
}
