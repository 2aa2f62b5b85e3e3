//! The array: volumes of each RAID level against the disks below them, and against btrfs.
//!
//! Each part answers one question of its own with its own servers; all ratios are taken within one
//! part, whose entrants take turns round by round.

mod bed;
mod btrfs;
mod cache;
mod column;
mod durable;
mod loops;
mod member;
mod memory;
mod rebuild;
mod sequential;
mod sheet;
#[cfg(test)]
mod tests;
mod writes;

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Result, bail, ensure};

use crate::cli::ArrayArgs;
use crate::machine::{CongestionControl, Facts, raise_file_limit};
use bed::{Bed, Settings};
use sheet::{Part, Sheet};

/// Congestion control for all while it runs, as in a comparison of targets.
const CONGESTION: &str = "cubic";

/// A question: its name on the command line, for people, and how to answer it.
type Question = (&'static str, &'static str, fn(&Bed<'_>, &mut Part) -> Result<()>);

const QUESTIONS: [Question; 7] = [
    ("memory", "4 KiB random reads: RAID over memory against one file in memory", memory::run),
    ("sequential", "256 KiB sequential: a volume against the sum of its disks", sequential::run),
    ("durable", "4 KiB random durable writes: a volume against one log", durable::run),
    ("writes", "4 KiB random durable writes: the slowest answers", writes::run),
    ("rebuild", "Rebuild of one of twelve disks", rebuild::run),
    ("btrfs", "Side by side with btrfs over loop devices", btrfs::run),
    ("cache", "Reads that are in memory, and reads that are not", cache::run),
];

/// `array`: answers the questions and writes the sheet.
///
/// # Errors
/// The machine cannot do it, or a signal came. What goes wrong in a part is noted there.
pub(crate) fn array(args: &ArrayArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let names = QUESTIONS.map(|(key, ..)| key).join(", ");
    for part in &args.parts {
        ensure!(QUESTIONS.iter().any(|(key, ..)| key == part), "no part {part}: there are {names}");
    }
    let bed = Bed::new(Settings::new(args)?, stop)?;
    // Lives to the end of this function: dropping it restores the system's setting.
    let congestion = CongestionControl::set(CONGESTION);
    let mut sheet = Sheet::new(Facts::gather(congestion.sentence()), bed.settings.method());
    for (key, title, answer) in QUESTIONS {
        if !args.parts.is_empty() && !args.parts.iter().any(|part| part == key) {
            continue;
        }
        eprintln!("{key}: {title}");
        let mut part = Part::new(key, title);
        let outcome = answer(&bed, &mut part);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        if let Err(error) = outcome {
            eprintln!("{key}: {error:#}");
            part.trouble = Some(format!("{error:#}"));
        }
        sheet.parts.push(part);
        // Its servers have ended: the next part may have the memory of their disks.
        if let Err(error) = bed.clear_memory() {
            eprintln!("{key}: {error:#}");
        }
    }
    sheet.write(&args.out)?;
    crate::say(&sheet.marks_text())?;
    eprintln!("report: {}", args.out.join("array.md").display());
    Ok(if args.strict && !sheet.all_met() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
