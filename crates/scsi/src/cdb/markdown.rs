//! The command table as documentation.

use super::{AccessClass, Direction, Executor, commands};
use std::fmt::Write;

/// The command table as a Markdown table, for `docs/conformance.md`.
pub fn table_markdown() -> String {
    let mut out = String::from(
        "| code | command | CDB bytes | data | run by | beside a foreign reservation | evaluated bits |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in commands() {
        let action = row.service_action.map_or(String::new(), |action| format!("/{action:02X}h"));
        let data = match row.direction {
            Direction::None => "-",
            Direction::In => "in",
            Direction::Out => "out",
        };
        let run_by = match row.executor {
            Executor::Control => "logical unit",
            Executor::Medium => "medium",
            Executor::CopyManager => "copy manager",
        };
        let access = match row.access {
            AccessClass::Always => "always",
            AccessClass::AlwaysPersistent => "always (persistent)",
            AccessClass::Read => "as a read",
            AccessClass::Write => "as a write",
            AccessClass::Reservation => "decides itself",
        };
        let usage = row.usage_data()[..usize::from(row.cdb_bytes)]
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect::<Vec<_>>()
            .join(" ");
        writeln!(
            out,
            "| {:02X}h{action} | {} | {} | {data} | {run_by} | {access} | `{usage}` |",
            row.opcode, row.name, row.cdb_bytes
        )
        .expect("writing to a String cannot fail");
    }
    out
}
