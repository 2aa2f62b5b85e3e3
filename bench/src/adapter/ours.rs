//! Drystone itself.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;

use anyhow::{Context, Result, ensure};

use super::{Adapter, Running, Service, Site, log_tail, wait_for};
use crate::initiator::Url;
use crate::machine::{Child, Pinned};

const IQN: &str = "iqn.2026-11.dev.drystone:bench";

/// What it keeps its data in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Ram,
    File,
    Null,
}

/// `drystone export` with one disk.
#[derive(Debug)]
pub(crate) struct Ours {
    program: PathBuf,
    disk: Disk,
}

struct RunningOurs {
    child: Child,
    url: Url,
}

impl Ours {
    /// One adapter per kind of disk, all with the same binary.
    pub(crate) fn all(program: &Path) -> Vec<Self> {
        [Disk::Ram, Disk::File, Disk::Null]
            .map(|disk| Self { program: program.to_owned(), disk })
            .into()
    }

    fn spec(&self, site: &Site) -> Result<String> {
        Ok(match self.disk {
            Disk::Ram => format!("ram:{}M", site.disk_bytes >> 20),
            Disk::Null => format!("null:{}M", site.disk_bytes >> 20),
            Disk::File => {
                let path = site.make_disk()?;
                // The peers answer from the page cache, so ours must: durable would sync.
                format!("file:{},cache=volatile", path.display())
            }
        })
    }
}

impl Running for RunningOurs {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn service(&self) -> Service {
        Service::Iscsi(self.url.clone())
    }
}

impl Adapter for Ours {
    fn name(&self) -> &str {
        match self.disk {
            Disk::Ram => "ours-ram",
            Disk::File => "ours-file",
            Disk::Null => "ours-null",
        }
    }

    fn describe(&self) -> String {
        let disk = match self.disk {
            Disk::Ram => "memory",
            Disk::File => "a file on tmpfs, cache=volatile",
            Disk::Null => "no data at all",
        };
        format!("drystone export --cores 1, {disk}")
    }

    fn missing(&self) -> Option<String> {
        (!self.program.is_file()).then(|| {
            format!(
                "{} is not there: cargo build --release -p drystone, or --drystone PATH",
                self.program.display()
            )
        })
    }

    fn start(&self, site: &Site, stop: &AtomicBool) -> Result<Box<dyn Running>> {
        let portal = site.portal().to_string();
        let spec = self.spec(site)?;
        let arguments =
            ["export", &spec, "--portal", &portal, "--iqn", IQN, "--cores", "1"].map(str::to_owned);
        let child = serve(&self.program, &arguments, site, stop)?;
        let url = Url { host: "127.0.0.1".into(), port: site.port, iqn: IQN.into(), lun: 0 };
        Ok(Box::new(RunningOurs { child, url }))
    }
}

/// Starts `program` on the core of `site` and waits until it says that it serves the site's portal.
///
/// # Errors
/// It did not start, ended, or was not ready in time; the end of its log is in the message.
pub(crate) fn serve(
    program: &Path,
    arguments: &[String],
    site: &Site,
    stop: &AtomicBool,
) -> Result<Child> {
    let (log, portal) = (site.directory.join("drystone.log"), site.portal().to_string());
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&log)?);
    let mut child = {
        let _pinned = Pinned::to_core(site.core)?;
        Child::start(&mut command, "drystone")?
    };
    let lines = follow(child.take_stdout().context("drystone has no standard output")?);
    wait_for("drystone", stop, || {
        // Its lines first: a program that has ended may have said why.
        if lines.try_iter().any(|line| line.contains(&portal)) {
            return Ok(true);
        }
        ensure!(child.ended()?.is_none(), "drystone ended at once: {}", log_tail(&log));
        Ok(false)
    })?;
    Ok(child)
}

/// Reads lines on a thread of its own, so that waiting for them can be bounded, and so that the
/// pipe never fills. The thread ends with the pipe.
pub(crate) fn follow(stdout: std::process::ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            // The receiver goes away once the portal is up; later lines are read and dropped.
            let _ = sender.send(line);
        }
    });
    receiver
}
