//! What `drystone lab` costs for each random read of 4 KiB at depth 32, beside clients that do the same and
//! less. `drystone-bench lab`.
//!
//! The clients of a part take turns on one core, round by round; what they read from has the other.

mod client;
mod table;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use crate::adapter::Site;
use crate::cli::{LabArgs, LabPart};
use crate::hosts::{memory_target, with_server};
use crate::machine::{CongestionControl, in_path, raise_file_limit};
use crate::suite::Scratch;
use client::{Client, Kind};
use table::{Line, Table};

/// `lab`: runs all parts and says how they came out.
///
/// # Errors
/// The machine cannot do it, or a signal came. What goes wrong in a part is noted in the table.
pub(crate) fn lab_command(args: &LabArgs, stop: &AtomicBool) -> Result<ExitCode> {
    raise_file_limit();
    let scratch = Scratch::new(&args.disks)?;
    let _congestion = CongestionControl::set("cubic");
    let bench = Bench { args, directory: scratch.directory("lab")?, stop };
    let mut table = Table::default();
    for part in LabPart::value_variants().iter().filter(|part| args.has(**part)) {
        let outcome = match part {
            LabPart::Iscsi => bench.iscsi(&mut table),
            LabPart::File => bench.file(&mut table),
            LabPart::Nbd => bench.nbd(&mut table),
        };
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        // What other parts found is worth telling all the same.
        if let Err(error) = outcome {
            table.missing.push((*part, format!("{error:#}")));
        }
    }
    let text = if args.json { table.json()? } else { table.text() };
    crate::say(&text)?;
    Ok(if table.all_met() || !args.strict { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What all parts share.
struct Bench<'a> {
    args: &'a LabArgs,
    directory: PathBuf,
    stop: &'a AtomicBool,
}

impl Bench<'_> {
    /// Through the same initiator: what the lab adds to it, with and without knowing what it reads.
    fn iscsi(&self, table: &mut Table) -> Result<()> {
        let site = Site {
            port: self.args.port,
            directory: self.directory.clone(),
            disk_bytes: self.args.size,
            core: self.args.target_core,
        };
        let (_target, url) =
            memory_target(&self.args.drystone, &site, self.args.client_core, self.stop)?;
        let journal = self.directory.join("journal");
        self.write_all(&url.to_string(), &journal)?;
        let clients = [
            Client::new(Kind::Bare, url.to_string(), None),
            Client::new(Kind::Lean, url.to_string(), None),
            Client::new(Kind::Lab, url.to_string(), Some(0.9)),
            Client::new(Kind::Validating(journal), url.to_string(), Some(0.6)),
        ];
        self.rounds(LabPart::Iscsi, &clients, table)
    }

    fn file(&self, table: &mut Table) -> Result<()> {
        if self.is_missing(LabPart::File, &[("fio", "fio")], table) {
            return Ok(());
        }
        let scratch = Scratch::new(&self.args.scratch)?;
        let path = scratch.directory("lab")?.join("file");
        self.fill(&path)?;
        let name = path.display().to_string();
        let clients = [
            Client::new(Kind::Fio("io_uring"), format!("--filename={name}"), None),
            Client::new(Kind::Lab, name, Some(1.0)),
        ];
        self.rounds(LabPart::File, &clients, table)
    }

    fn nbd(&self, table: &mut Table) -> Result<()> {
        let programs = [("fio", "fio"), ("qemu-nbd", "qemu-utils")];
        if self.is_missing(LabPart::Nbd, &programs, table) {
            return Ok(());
        }
        let (disk, socket) = (self.directory.join("nbd.disk"), self.directory.join("nbd.sock"));
        self.fill(&disk)?;
        let mut command = Command::new("qemu-nbd");
        command.args(["--format=raw", "--persistent", "--shared=4", "--socket"]);
        command.arg(&socket).arg(&disk);
        let url = format!("nbd+unix:///?socket={}", socket.display());
        let clients = [
            Client::new(Kind::Fio("nbd"), format!("--uri={url}"), None),
            Client::new(Kind::Lab, url, Some(1.0)),
        ];
        with_server(self.args.target_core, command, "qemu-nbd", &socket, |_| {
            self.rounds(LabPart::Nbd, &clients, table)
        })
    }

    /// Each client once a round, each round beginning with another one.
    fn rounds(&self, part: LabPart, clients: &[Client], table: &mut Table) -> Result<()> {
        let mut lines: Vec<Line> = clients.iter().map(|client| Line::new(part, client)).collect();
        for round in 0..self.args.rounds as usize {
            for turn in 0..clients.len() {
                let index = (round + turn) % clients.len();
                let run = clients[index].run(self)?;
                lines[index].runs.push(run);
            }
        }
        table.lines.extend(lines);
        Ok(())
    }

    /// Writes the whole disk by the lab, with a journal, so that later reads can be compared.
    fn write_all(&self, url: &str, journal: &std::path::Path) -> Result<()> {
        let mut command = self.lab(url);
        command.arg("--overwrite").arg("--journal").arg(journal);
        command.args(["--", "--rw=write", "--bs=64k", "--iodepth=16"]);
        command.arg(format!("--size={}", self.args.size));
        self.finish(command).map(drop)
    }

    /// Makes a file of random bytes, which stays in the page cache.
    fn fill(&self, path: &std::path::Path) -> Result<()> {
        let name = path.display();
        let file = fs::File::create(path).with_context(|| format!("create {name}"))?;
        file.set_len(self.args.size).with_context(|| format!("{name} is too large"))?;
        let mut command = self.lab(&name.to_string());
        command.args(["--overwrite", "--no-validation", "--", "--rw=write", "--bs=1m"]);
        command.args(["--iodepth=4", &format!("--size={}", self.args.size)]);
        self.finish(command).map(drop)
    }

    fn is_missing(&self, part: LabPart, programs: &[(&str, &str)], table: &mut Table) -> bool {
        let gone = programs.iter().find(|(program, _)| in_path(program).is_none());
        if let Some((program, package)) = gone {
            let why = format!("{program} is not installed: apt-get install {package}");
            table.missing.push((part, why));
        }
        gone.is_some()
    }

    /// `drystone lab fio`, without the job.
    fn lab(&self, on: &str) -> Command {
        let mut command = Command::new(&self.args.drystone);
        command.args(["lab", "fio", "--json", "--on", on]);
        command
    }
}
