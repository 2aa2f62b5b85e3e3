//! The tables of docs/disks.md.

use std::fmt::Write;

use super::figures::{Load, Pattern, modelled};
use crate::DriveClass;
use crate::model::{Flash, Parameters, Spinning};

/// A row: what it is called, and its value for a drive.
type Row<'a, D> = (&'a str, &'a dyn Fn(&D) -> String);

/// A table in Markdown: what stands in front of the columns, and a column for each drive.
fn table<D>(drives: &[(DriveClass, D)], head: &str, rows: &[Row<'_, D>]) -> String {
    let mut text = format!("| {head} |");
    for (class, _) in drives {
        write!(text, " `{}` |", class.name()).expect("a string takes all");
    }
    text.push_str("\n|---|");
    text.push_str(&"--:|".repeat(drives.len()));
    for (label, value) in rows {
        write!(text, "\n| {label} |").expect("a string takes all");
        for (_, drive) in drives {
            write!(text, " {} |", value(drive)).expect("a string takes all");
        }
    }
    text
}

/// What the spinning drives are made of.
pub fn spinning_markdown() -> String {
    let drives: Vec<(DriveClass, &Spinning)> = DriveClass::ALL
        .into_iter()
        .filter_map(|class| match class.parameters() {
            Parameters::Spinning(p) => Some((class, p)),
            Parameters::Flash(_) => None,
        })
        .collect();
    let ms = |us: f64| format!("{}", us / 1e3);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    table(
        &drives,
        "spinning",
        &[
            ("revolution, ms", &|p| ms(f64::from(p.revolution_us))),
            ("sustained, first byte, MB/s", &|p| p.outer_mb_per_s.to_string()),
            ("sustained, last byte, MB/s", &|p| p.inner_mb_per_s.to_string()),
            ("seek to the next track, ms", &|p| ms(p.seek_single_us)),
            ("seek, average, ms", &|p| ms(p.seek_average_us)),
            ("seek, full stroke, ms", &|p| ms(p.seek_full_us)),
            ("a write settles longer by, ms", &|p| ms(p.write_settle_us)),
            ("electronics, each command, ms", &|p| ms(f64::from(p.overhead_us))),
            ("link, MB/s", &|p| p.link_mb_per_s.to_string()),
            ("commands it chooses from", &|p| p.queue_depth.to_string()),
            ("volatile writes it holds", &|p| mib(p.cache_bytes)),
            ("reads ahead", &|p| mib(p.read_ahead_bytes)),
            ("pieces read that it keeps", &|p| p.segments.to_string()),
        ],
    )
}

/// What the flash drives are made of.
pub fn flash_markdown() -> String {
    let drives: Vec<(DriveClass, &Flash)> = DriveClass::ALL
        .into_iter()
        .filter_map(|class| match class.parameters() {
            Parameters::Flash(p) => Some((class, p)),
            Parameters::Spinning(_) => None,
        })
        .collect();
    table(
        &drives,
        "flash",
        &[
            ("chips at work beside each other", &|p| p.units.to_string()),
            ("reading 4 KiB from a chip, us", &|p| p.read_us.to_string()),
            ("writing 4 KiB to a chip in a run, us", &|p| p.program_us.to_string()),
            ("the same alone, times", &|p| p.scattered_writes.to_string()),
            ("a read waits for a running write, us at most", &|p| p.suspend_us.to_string()),
            ("controller, each command, us", &|p| p.command_us.to_string()),
            ("fixed part of each answer, us", &|p| p.overhead_us.to_string()),
            ("a write into the buffer, us", &|p| p.write_us.to_string()),
            ("flush, us", &|p| p.flush_us.to_string()),
            ("link, MB/s", &|p| p.link_mb_per_s.to_string()),
            ("commands at once", &|p| p.queue_depth.to_string()),
            ("work that the buffer holds, ms", &|p| (p.buffer_us / 1000).to_string()),
        ],
    )
}

/// What the model does with them.
pub fn figures_markdown() -> String {
    let drives = DriveClass::ALL.map(|class| (class, class));
    let reads = Load {
        write: false,
        durable: false,
        pattern: Pattern::Random,
        block_bytes: 4096,
        depth: 1,
    };
    let volatile = Load { write: true, ..reads };
    let durable = Load { durable: true, ..volatile };
    let deep = |load| Load { depth: 32, ..load };
    let stream =
        |load| Load { pattern: Pattern::FromStart, block_bytes: 256 << 10, depth: 16, ..load };
    let at_end = |load| Load { pattern: Pattern::AtEnd, ..stream(load) };
    let iops =
        |load: Load| move |class: &DriveClass| format!("{:.0}", modelled(*class, &load).iops);
    let rate =
        |load: Load| move |class: &DriveClass| format!("{:.0}", modelled(*class, &load).mb_per_s);
    table(
        &drives,
        "load",
        &[
            ("4 KiB random reads, depth 1, IOPS", &iops(reads)),
            ("the same, depth 32", &iops(deep(reads))),
            ("4 KiB random durable writes, depth 1, IOPS", &iops(durable)),
            ("the same, depth 32", &iops(deep(durable))),
            ("4 KiB random volatile writes, depth 32, IOPS", &iops(deep(volatile))),
            ("256 KiB sequential reads, depth 16, first bytes, MB/s", &rate(stream(reads))),
            ("the same, last bytes", &rate(at_end(reads))),
            ("256 KiB sequential volatile writes, depth 16, MB/s", &rate(stream(volatile))),
            (
                "256 KiB sequential durable writes, depth 1, MB/s",
                &rate(Load { depth: 1, ..stream(durable) }),
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_a_column_for_each_drive_and_a_value_in_each_place() {
        for (text, columns, rows) in
            [(spinning_markdown(), 3, 13), (flash_markdown(), 2, 12), (figures_markdown(), 5, 9)]
        {
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), rows + 2, "{text}");
            for line in &lines {
                assert_eq!(line.matches('|').count(), columns + 2, "{line}");
            }
            assert!(!text.contains("|  |") && !text.contains("NaN"), "{text}");
        }
        assert!(spinning_markdown().contains("| seek, average, ms | 3.1 | 4 | 8.2 |"));
    }
}
