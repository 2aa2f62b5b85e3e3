//! `drystone attached`: a table for people, JSON for programs.

use crate::Failure;
use crate::attach::control::find_all;
use crate::attach::plan;
use crate::attach::report::{Sample, Shown};
use crate::cli::attach::AttachedArgs;
use crate::print::table::Column::{Number, Text};
use crate::print::table::{self, Column};
use crate::{print, spec::size};
use anyhow::Context;
use std::thread;
use std::time::Duration;

const COLUMNS: [Column; 10] = [
    Number("PID"),
    Text("VOLUME"),
    Text("AT"),
    Number("SIZE"),
    Text("POLICY"),
    Text("PATH"),
    Text("STATE"),
    Number("IOPS"),
    Number("LATENCY"),
    Number("QUEUE"),
];

/// Shows all attachments.
pub(crate) fn run(args: &AttachedArgs) -> Result<(), Failure> {
    let all = measure(args)?;
    let printed = if args.json { print::json(&all) } else { print::out(&table(&all)) };
    Ok(printed?)
}

/// Two samples of each attachment. One that ends meanwhile is left out.
fn measure(args: &AttachedArgs) -> anyhow::Result<Vec<Shown>> {
    let dir = plan::runtime_dir(&args.runtime)?;
    let found = find_all(&dir)
        .with_context(|| format!("cannot look for attachments in '{}'", dir.display()))?;
    let before: Vec<Option<Sample>> = found.iter().map(|found| found.sample().ok()).collect();
    if !found.is_empty() {
        thread::sleep(args.interval);
    }
    let shown = found.into_iter().zip(before).filter_map(|(found, before)| {
        let now = found.sample().ok()?;
        Some(Shown::between(found.identity, &before?, now))
    });
    Ok(shown.collect())
}

/// One line for each attachment, with the sums, and one for each of its paths.
fn table(all: &[Shown]) -> String {
    if all.is_empty() {
        return "nothing is attached\n".to_owned();
    }
    let mut rows = Vec::new();
    for shown in all {
        let used = shown.paths.iter().filter(|path| path.now.state != "failed").count();
        let access = if shown.read_only { "read-only" } else { "read-write" };
        rows.push([
            shown.identity.pid.to_string(),
            shown.identity.volume.clone(),
            shown.identity.place.clone(),
            size::short(shown.size_bytes),
            shown.identity.policy.clone(),
            format!("{used} of {} work", shown.paths.len()),
            access.to_owned(),
            format!("{:.0}", shown.iops),
            shown.latency_us.map_or_else(|| "-".to_owned(), time),
            shown.queue_depth.to_string(),
        ]);
        for path in &shown.paths {
            let mut row: [String; 10] = Default::default();
            let trouble = if path.now.trouble.is_empty() { "" } else { ": " };
            row[5] = path.now.portal.clone();
            row[6] =
                format!("{}, {}{trouble}{}", path.now.state, path.now.access, path.now.trouble);
            row[7] = format!("{:.0}", path.iops);
            row[8] = time(path.now.latency_us as f64);
            row[9] = path.now.queue_depth.to_string();
            rows.push(row);
        }
    }
    table::table(COLUMNS, rows)
}

fn time(us: f64) -> String {
    if us < 10_000.0 {
        format!("{us:.0} us")
    } else {
        format!("{:.0} ms", Duration::from_micros(us as u64).as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::report::tests::{identity, sample};

    #[test]
    fn the_table_is_readable() {
        let mut later = sample(12);
        "failed".clone_into(&mut later.paths[1].state);
        "connection refused".clone_into(&mut later.paths[1].trouble);
        let shown = Shown::between(identity(), &sample(10), later);
        let wanted = "\
 PID  VOLUME                                         AT                SIZE  POLICY             PATH            STATE                                 IOPS  LATENCY  QUEUE
4711  iscsi://192.0.2.1/iqn.2026-11.com.example:a/0  unix:/run/a.sock    1G  least-queue-depth  1 of 2 work     read-write                            1000   200 us      7
                                                                                                192.0.2.1:3260  active, optimized                      500   150 us      3
                                                                                                192.0.2.2:3260  failed, optimized: connection refused  1000   150 us      3
";
        let squeezed = |text: &str| -> Vec<Vec<String>> {
            text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
        };
        let text = table(&[shown]);
        assert_eq!(squeezed(&text), squeezed(wanted));
        let ends: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert!(
            ends.windows(2).all(|pair| pair[0] == pair[1]),
            "the last column is flush:\n{text}"
        );
        assert_eq!(table(&[]), "nothing is attached\n");
        assert_eq!((time(9_999.0), time(25_400.0)), ("9999 us".to_owned(), "25 ms".to_owned()));
    }

    #[test]
    fn json_holds_what_the_table_shows() {
        let shown = Shown::between(identity(), &sample(10), sample(12));
        let value = serde_json::to_value([shown]).unwrap();
        assert_eq!(value[0]["pid"], 4711);
        assert_eq!(value[0]["place"], "unix:/run/a.sock");
        assert_eq!(value[0]["iops"], 1000.0);
        assert_eq!(value[0]["paths"][1]["queue_depth"], 3);
        assert_eq!(value[0]["paths"][1]["state"], "active");
    }
}
