//! Targets: how each is found, started, prepared and ended.

mod external;
mod istgt;
mod ours;
mod plain;
mod tgt;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

pub(crate) use external::External;
pub(crate) use istgt::Istgt;
pub(crate) use ours::{Ours, follow, serve};
pub(crate) use plain::Plain;
pub(crate) use tgt::Tgt;

use crate::initiator::Url;

#[cfg(test)]
mod tests;

/// A target has this long from its start until it serves.
const START_MAX: Duration = Duration::from_secs(20);
/// How often it is asked whether it does.
const POLL: Duration = Duration::from_millis(20);

/// What a target gets to work with.
#[derive(Debug)]
pub(crate) struct Site {
    /// Port of its own on 127.0.0.1.
    pub(crate) port: u16,
    /// A directory of its own on a tmpfs, for its disk and files.
    pub(crate) directory: PathBuf,
    /// Size of the disk.
    pub(crate) disk_bytes: u64,
    /// The core that it runs on.
    pub(crate) core: usize,
}

impl Site {
    /// Its portal.
    pub(crate) fn portal(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// Makes the file of its disk.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn make_disk(&self) -> Result<PathBuf> {
        let path = self.directory.join("disk");
        std::fs::File::create(&path)?.set_len(self.disk_bytes)?;
        Ok(path)
    }
}

/// How to reach what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Service {
    /// An iSCSI target.
    Iscsi(Url),
    /// The plain loop.
    Plain(SocketAddr),
}

/// A target that runs. It ends when this is dropped.
pub(crate) trait Running {
    /// Its process.
    fn pid(&self) -> u32;
    /// How to reach it.
    fn service(&self) -> Service;
}

/// A kind of target: the whole of what a new one must tell us.
pub(crate) trait Adapter {
    /// Its name in the report: short, without spaces.
    fn name(&self) -> &str;
    /// One line for the report: what it is, with its version and its disk.
    fn describe(&self) -> String;
    /// Why it cannot run here, in a sentence that says what would help; `None` when it can.
    fn missing(&self) -> Option<String>;
    /// Starts it on its core, and returns when it serves.
    ///
    /// # Errors
    /// It did not start, or not in time, or `stop` was set.
    fn start(&self, site: &Site, stop: &AtomicBool) -> Result<Box<dyn Running>>;
}

/// Waits until `ready` says yes.
fn wait_for(what: &str, stop: &AtomicBool, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + START_MAX;
    while !ready()? {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped by a signal");
        }
        if Instant::now() >= deadline {
            bail!("{what} did not come up within {START_MAX:?}");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The end of a log, to say why something failed.
pub(crate) fn log_tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
