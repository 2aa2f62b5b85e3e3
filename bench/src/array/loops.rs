//! Loop devices over files, and what is mounted on them; gone when dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a tool of the system, which may lie where only root looks; its standard output.
pub(super) fn tool(name: &str, arguments: &[&str]) -> Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new(name)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(
        done.status.success(),
        "{name} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Loop devices, each over a sparse file of its own.
#[derive(Debug, Default)]
pub(super) struct Loops {
    devices: Vec<String>,
}

impl Loops {
    pub(super) fn new(directory: &Path, count: usize, size_bytes: u64) -> Result<Self> {
        let mut loops = Self::default();
        for n in 0..count {
            let path = directory.join(format!("disk-{n}"));
            File::create(&path)?.set_len(size_bytes)?;
            let path = path.display().to_string();
            loops.devices.push(tool("losetup", &["--find", "--show", &path])?);
        }
        Ok(loops)
    }

    pub(super) fn devices(&self) -> &[String] {
        &self.devices
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.devices {
            if let Err(error) = tool("losetup", &["--detach", device]) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// A file system that is mounted.
#[derive(Debug)]
pub(super) struct Mount {
    at: PathBuf,
    /// Below it, so they go after it.
    _loops: Loops,
}

impl Mount {
    pub(super) fn new(device: &str, at: PathBuf, loops: Loops) -> Result<Self> {
        tool("mount", &[device, &at.display().to_string()])?;
        Ok(Self { at, _loops: loops })
    }

    pub(super) fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = tool("umount", &[&self.at.display().to_string()]) {
            eprintln!("{error:#}");
        }
    }
}
