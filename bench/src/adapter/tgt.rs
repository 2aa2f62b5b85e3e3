//! Linux's older user-space target, Debian's `tgt`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};

use super::{Adapter, Running, Service, Site, log_tail, wait_for};
use crate::initiator::Url;
use crate::machine::{Child, Pinned, in_path};

const IQN: &str = "iqn.2026-11.dev.drystone:bench-tgt";
/// Where tgtd puts its control sockets; there is no option to move them.
const CONTROL_DIRECTORY: &str = "/var/run/tgtd";

/// tgtd with a file as its disk.
#[derive(Debug)]
pub(crate) struct Tgt;

struct RunningTgt {
    child: Child,
    control: u16,
    url: Url,
}

impl Running for RunningTgt {
    fn pid(&self) -> u32 {
        self.child.pid()
    }

    fn service(&self) -> Service {
        Service::Iscsi(self.url.clone())
    }
}

impl Drop for RunningTgt {
    fn drop(&mut self) {
        // tgtd ends by its own command; the signal that the child gets next is for when it will not.
        for arguments in [
            &["--op", "delete", "--mode", "target", "--tid", "1", "--force"][..],
            &["--op", "delete", "--mode", "system"][..],
        ] {
            // A daemon that has already died cannot be told, and needs not be.
            let _ = tgtadm(self.control, arguments);
        }
        for name in [format!("socket.{}", self.control), format!("socket.{}.lock", self.control)] {
            // Gone already if tgtd ended in good order.
            let _ = std::fs::remove_file(Path::new(CONTROL_DIRECTORY).join(name));
        }
    }
}

/// One control port per TCP port, so that two benches or a real tgtd do not meet.
fn control_port(port: u16) -> u16 {
    1000 + port % 10_000
}

fn tgtadm(control: u16, arguments: &[&str]) -> Result<()> {
    let program = in_path("tgtadm").context("tgtadm is not installed")?;
    let output = Command::new(program)
        .args(["-C", &control.to_string(), "--lld", "iscsi"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("tgtadm {}: {}", arguments.join(" "), text.trim());
    }
    Ok(())
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Adapter for Tgt {
    fn name(&self) -> &str {
        "tgt"
    }

    fn describe(&self) -> String {
        let version = in_path("tgtd").and_then(|program| version(&program));
        format!("tgtd {}, a file on tmpfs", version.unwrap_or_default())
    }

    fn missing(&self) -> Option<String> {
        let found = in_path("tgtd").and(in_path("tgtadm"));
        found.is_none().then(|| "tgtd is not installed: apt-get install tgt".into())
    }

    fn start(&self, site: &Site, stop: &AtomicBool) -> Result<Box<dyn Running>> {
        let disk: PathBuf = site.make_disk()?;
        let disk = disk.to_str().context("the path of the disk is not UTF-8")?;
        let control = control_port(site.port);
        let log = site.directory.join("tgtd.log");
        let mut command = Command::new(in_path("tgtd").context("tgtd is not installed")?);
        command
            .args(["-f", "-C", &control.to_string()])
            .args(["--iscsi", &format!("portal={}", site.portal())])
            .stdin(Stdio::null())
            .stdout(File::create(&log)?)
            .stderr(File::options().append(true).open(&log)?);
        let child = {
            let _pinned = Pinned::to_core(site.core)?;
            Child::start(&mut command, "tgtd")?
        };
        let url = Url { host: "127.0.0.1".into(), port: site.port, iqn: IQN.into(), lun: 1 };
        let mut running = RunningTgt { child, control, url };
        wait_for("tgtd", stop, || {
            let ended = running.child.ended()?.is_some();
            ensure!(!ended, "tgtd ended at once: {}", log_tail(&log));
            Ok(tgtadm(control, &["--op", "show", "--mode", "target"]).is_ok())
        })?;
        let target = ["--mode", "target", "--tid", "1"];
        tgtadm(control, &[&["--op", "new", "-T", IQN][..], &target].concat())?;
        let unit = ["--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", disk];
        tgtadm(control, &[&["--op", "new"][..], &unit].concat())?;
        tgtadm(control, &[&["--op", "bind", "-I", "ALL"][..], &target].concat())?;
        Ok(Box::new(running))
    }
}
