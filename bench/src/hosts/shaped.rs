//! Two paths of 1 Gbit/s each, between two network namespaces that exist for this alone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::{Bench, Line};
use crate::machine::Child;

const IO_BYTES: usize = 256 << 10;
const DEPTH: u32 = 32;
const PORT: u16 = 3260;
const IQN: &str = "iqn.2026-11.dev.drystone:bench-paths";
const START_MAX: Duration = Duration::from_secs(20);

/// One mark: the bandwidth of both paths against that of one.
pub(super) fn rows(bench: &Bench<'_>, lines: &mut Vec<Line>) -> Result<()> {
    let what = "two paths of 1 Gbit/s: at least 1.9 times the bandwidth of one";
    let networks = match Networks::make() {
        Ok(networks) => networks,
        Err(error) => {
            lines.push(Line::missing(what, format!("needs root, ip and tc: {error:#}")));
            return Ok(());
        }
    };
    let _target = networks.serve(bench)?;
    let url = |path: u8| format!("iscsi://198.18.{path}.2:{PORT}/{IQN}/0");
    let host = Some(networks.host.as_str());
    let one = bench.disk_load(&[url(0)], IO_BYTES, DEPTH, host)?;
    let two = bench.disk_load(&[url(0), url(1)], IO_BYTES, DEPTH, host)?;
    let ratio = two.mb_per_s / one.mb_per_s;
    let found = format!("{ratio:.2} times ({:.0} against {:.0} MB/s)", two.mb_per_s, one.mb_per_s);
    lines.push(Line::new(what, found, ratio >= 1.9));
    Ok(())
}

/// A namespace for the host, one for the target, and two shaped links between them. All of it goes
/// with this value.
#[derive(Debug)]
struct Networks {
    host: String,
    target: String,
}

impl Networks {
    fn make() -> Result<Self> {
        let id = std::process::id();
        let networks =
            Self { host: format!("drystone-bench-h{id}"), target: format!("drystone-bench-t{id}") };
        for namespace in [&networks.host, &networks.target] {
            run("ip", &["netns", "add", namespace])?;
            run("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
        }
        for path in 0..2 {
            networks.link(path)?;
        }
        Ok(networks)
    }

    fn link(&self, path: u8) -> Result<()> {
        let (near, far) = (format!("h{path}"), format!("t{path}"));
        let (host, target) = (self.host.as_str(), self.target.as_str());
        let peer = ["peer", "name", &far, "netns", target];
        run("ip", &[&["-n", host, "link", "add", &near, "type", "veth"][..], &peer].concat())?;
        for (namespace, device, last) in [(host, &near, 1), (target, &far, 2)] {
            let address = format!("198.18.{path}.{last}/24");
            run("ip", &["-n", namespace, "addr", "add", &address, "dev", device])?;
            run("ip", &["-n", namespace, "link", "set", device, "up"])?;
            // A bucket of a quarter of a millisecond: more would let bursts run faster than the link.
            let shape = ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"];
            let device = ["-n", namespace, "qdisc", "add", "dev", device, "root"];
            run("tc", &[&device[..], &shape].concat())?;
        }
        Ok(())
    }

    /// `drystone export` in the target's namespace.
    fn serve(&self, bench: &Bench<'_>) -> Result<Child> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.target]).arg(&bench.args.drystone);
        command.args(["export", "ram:256M", "--iqn", IQN, "--cores", "1"]);
        for path in 0..2 {
            command.args(["--portal", &format!("198.18.{path}.2:{PORT}")]);
        }
        command.arg("--state-dir").arg(bench.site.directory.join("paths"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = Child::start(&mut command, "drystone")?;
        let deadline = Instant::now() + START_MAX;
        let listens = ["netns", "exec", &self.target, "ss", "-ltn"];
        while !run("ip", &listens)?.contains("198.18.1.2:3260") {
            ensure!(child.ended()?.is_none(), "drystone ended at once");
            ensure!(Instant::now() < deadline, "drystone did not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(child)
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for namespace in [&self.host, &self.target] {
            // One that was never made cannot be removed, which is as good.
            let _ = run("ip", &["netns", "del", namespace]);
        }
    }
}

/// Runs a tool to its end; gives what it printed.
fn run(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {}: {}", args.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
