//! `drystone up`, and the commands that talk to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::bed::Entrant;
use crate::adapter::{Site, serve};
use crate::initiator::Url;
use crate::machine::Child;

/// A member that runs. It ends when this is dropped.
pub(super) struct Member {
    child: Child,
    program: PathBuf,
    socket: String,
    port: u16,
}

impl Member {
    pub(super) fn start(
        program: &Path,
        site: Site,
        disks: &[String],
        more: &[&str],
        stop: &AtomicBool,
    ) -> Result<Self> {
        let socket = site.directory.join("socket").display().to_string();
        let (data, portal) = (site.directory.join("data"), site.portal().to_string());
        let data = data.display().to_string();
        let fixed =
            ["up", "--data", &data, "--portal", &portal, "--socket", &socket, "--cores", "1"];
        let mut arguments = fixed.map(str::to_owned).to_vec();
        arguments.extend(disks.iter().flat_map(|disk| ["--disk".to_owned(), disk.clone()]));
        arguments.extend(more.iter().map(|one| (*one).to_owned()));
        let child = serve(program, &arguments, &site, stop)?;
        Ok(Self { child, program: program.to_owned(), socket, port: site.port })
    }

    /// Runs a command against this member; its answer as JSON, null when it says nothing.
    pub(super) fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let done = Command::new(&self.program)
            .args(arguments)
            .args(["--json", "--socket", &self.socket])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("drystone {}", arguments.join(" ")))?;
        ensure!(
            done.status.success(),
            "drystone {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
        if done.stdout.iter().all(u8::is_ascii_whitespace) {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&done.stdout)
            .with_context(|| format!("the answer to drystone {}", arguments.join(" ")))
    }

    /// What is known of a volume.
    pub(super) fn show(&self, volume: &str) -> Result<Value> {
        self.ask(&["volume", "show", volume])
    }

    /// Makes a volume and says how to reach it.
    pub(super) fn volume(&self, name: &str, size_bytes: u64, level: &str) -> Result<Entrant> {
        self.volume_with(name, size_bytes, level, &[])
    }

    /// The same, with more options.
    pub(super) fn volume_with(
        &self,
        name: &str,
        size_bytes: u64,
        level: &str,
        more: &[&str],
    ) -> Result<Entrant> {
        let size = format!("{}M", size_bytes >> 20);
        self.ask(&[&["volume", "create", name, &size, "--raid", level], more].concat())?;
        let shown = self.show(name)?;
        let Some(iqn) = shown["iqn"].as_str() else {
            bail!("`volume show --json` names no iqn: {shown}")
        };
        Ok(Entrant {
            name: name.to_owned(),
            url: Url { host: "127.0.0.1".into(), port: self.port, iqn: iqn.to_owned(), lun: 0 },
            pid: self.child.pid(),
            area_bytes: size_bytes,
        })
    }
}
