//! `drystone attached`: a table for people, JSON for programs.

use crate::Failure;
use crate::attach::control::{Process, find_all};
use crate::attach::plan;
use crate::attach::report::{Identity, Listed, Sample, Shown, State};
use crate::attach::udev::{Behind, Notes};
use crate::cli::attach::AttachedArgs;
use crate::print;
use crate::print::table::Column::{Number, Text};
use crate::print::table::{self, Column};
use ::attach::ublk;
use anyhow::Context;
use member::spec::size;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

const COLUMNS: [Column; 11] = [
    Number("PID"),
    Text("NAME"),
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
    let samples = |process: &Process| process.samples().unwrap_or_default();
    let before: Vec<_> = found.iter().map(samples).collect();
    if before.iter().any(|samples| !samples.is_empty()) {
        thread::sleep(args.interval);
    }
    let mut shown = Vec::new();
    for listed in left(&dir) {
        shown.push(Shown::between(listed, &Sample::default(), Sample::default()));
    }
    for (process, mut before) in found.into_iter().zip(before) {
        let mut now = samples(&process);
        for listed in process.attachments {
            let name = &listed.identity.name;
            match (listed.state, before.remove(name), now.remove(name)) {
                (State::Attached, Some(before), Some(now)) => {
                    shown.push(Shown::between(listed, &before, now));
                }
                // It has ended meanwhile, or is about to.
                (State::Attached, ..) => {}
                _ => shown.push(Shown::between(listed, &Sample::default(), Sample::default())),
            }
        }
    }
    Ok(shown)
}

/// The block devices that processes which are gone have left, by their notes.
fn left(runtime_dir: &Path) -> Vec<Listed> {
    let notes = Notes::of(runtime_dir);
    let listed = |path: PathBuf| {
        let Behind { name, volume, .. } = notes.read(&path).unwrap_or_default();
        let place = path.display().to_string();
        let trouble = format!(
            "the process that served it is gone, and its users wait: attach the volume again, or write drystone detach {place}"
        );
        let identity = Identity { name, volume, place, ..Identity::default() };
        Listed { identity, state: State::Left, trouble }
    };
    ublk::left().into_iter().map(listed).collect()
}

/// One line for each attachment, with the sums, and one for each of its paths.
fn table(all: &[Shown]) -> String {
    if all.is_empty() {
        return "nothing is attached\n".to_owned();
    }
    let mut rows = Vec::new();
    for shown in all {
        let Listed { identity, state, trouble } = &shown.listed;
        let name = if identity.name.is_empty() { "-" } else { &identity.name };
        if !matches!(state, State::Attached | State::Replaced) {
            rows.push(not_attached(&shown.listed));
            continue;
        }
        let used = shown.paths.iter().filter(|path| path.now.state != "failed").count();
        let access = match state {
            State::Replaced => state.word(),
            _ if shown.read_only => "read-only",
            _ => "read-write",
        };
        rows.push([
            identity.pid.to_string(),
            name.to_owned(),
            identity.volume.clone(),
            identity.place.clone(),
            size::short(shown.size_bytes),
            identity.policy.clone(),
            format!("{used} of {} work", shown.paths.len()),
            with_trouble(access, trouble),
            format!("{:.0}", shown.iops),
            shown.latency_us.map_or_else(|| "-".to_owned(), time),
            shown.queue_depth.to_string(),
        ]);
        for path in &shown.paths {
            let mut row: [String; 11] = Default::default();
            let state = format!("{}, {}", path.now.state, path.now.access);
            row[6] = path.now.portal.clone();
            row[7] = with_trouble(&state, &path.now.trouble);
            row[8] = format!("{:.0}", path.iops);
            row[9] = time(path.now.latency_us as f64);
            row[10] = path.now.queue_depth.to_string();
            rows.push(row);
        }
    }
    table::table(COLUMNS, rows)
}

/// The line of one that is only tried, or on its way out.
fn not_attached(listed: &Listed) -> [String; 11] {
    let Listed { identity, state, trouble } = listed;
    let mut row: [String; 11] = Default::default();
    row[0] = if identity.pid == 0 { String::new() } else { identity.pid.to_string() };
    row[1].clone_from(&identity.name);
    row[2].clone_from(&identity.volume);
    row[3].clone_from(&identity.place);
    row[5].clone_from(&identity.policy);
    row[7] = with_trouble(state.word(), trouble);
    for cell in row.iter_mut().take(6).filter(|cell| cell.is_empty()) {
        "-".clone_into(cell);
    }
    row
}

fn with_trouble(state: &str, trouble: &str) -> String {
    if trouble.is_empty() { state.to_owned() } else { format!("{state}: {trouble}") }
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
    use crate::attach::report::tests::{listed, sample};

    #[test]
    fn the_table_is_readable() {
        let mut later = sample(12);
        "failed".clone_into(&mut later.paths[1].state);
        "connection refused".clone_into(&mut later.paths[1].trouble);
        let shown = Shown::between(listed(), &sample(10), later);
        let wanted = "\
 PID  NAME  VOLUME                                         AT                SIZE  POLICY             PATH            STATE                                 IOPS  LATENCY  QUEUE
4711  -     iscsi://192.0.2.1/iqn.2026-11.com.example:a/0  unix:/run/a.sock    1G  least-queue-depth  1 of 2 work     read-write                            1000   200 us      7
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
        let late =
            Listed { state: State::Waiting, trouble: "nobody answers".to_owned(), ..listed() };
        let none = Sample::default();
        let text = table(&[Shown::between(late, &none, none.clone())]);
        assert!(text.contains("waiting: nobody answers"), "{text}");
        let going = Listed { state: State::Detaching, ..listed() };
        let text = table(&[Shown::between(going, &none, none.clone())]);
        assert!(text.contains("unix:/run/a.sock") && text.contains("detaching"), "{text}");
        let identity = Identity { pid: 0, place: "/dev/ublkb0".to_owned(), ..Identity::default() };
        let left = Listed { identity, state: State::Left, trouble: String::new() };
        let text = table(&[Shown::between(left, &none, none.clone())]);
        let cells: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["-", "-", "-", "/dev/ublkb0", "-", "-", "left"]);
        assert_eq!(table(&[]), "nothing is attached\n");
        assert_eq!((time(9_999.0), time(25_400.0)), ("9999 us".to_owned(), "25 ms".to_owned()));
    }

    #[test]
    fn json_holds_what_the_table_shows() {
        let shown = Shown::between(listed(), &sample(10), sample(12));
        let value = serde_json::to_value([shown]).unwrap();
        assert_eq!((&value[0]["pid"], &value[0]["state"]), (&4711.into(), &"attached".into()));
        assert_eq!(value[0]["place"], "unix:/run/a.sock");
        assert_eq!(value[0]["iops"], 1000.0);
        assert_eq!(value[0]["paths"][1]["queue_depth"], 3);
        assert_eq!(value[0]["paths"][1]["state"], "active");
    }
}
