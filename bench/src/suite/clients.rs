//! Clients of others: `iscsi-perf` of libiscsi and `qemu-img bench`.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::results::Run;
use crate::initiator::Url;
use crate::machine::{Child, Pinned, children_cpu, in_path, sample};

/// Both are driven with the same I/O size and depth.
const IO_BYTES: u32 = 4096;
const DEPTH: u32 = 32;
/// qemu-img takes a number of requests, not a time. This many per second asked for keep a slow
/// target within its time and give a fast one enough to do.
const QEMU_REQUESTS_PER_S: f64 = 30_000.0;
/// Stride of qemu-img: over a gigabyte it touches every 4 KiB once before it comes back.
const QEMU_STEP_BYTES: u32 = (1 << 20) + IO_BYTES;
/// Time beyond the work itself for a client to start, connect and end.
const SLACK: Duration = Duration::from_secs(20);

/// One way to use a client of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Foreign {
    IscsiPerfRead,
    QemuRead,
    QemuWrite,
}

impl Foreign {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::IscsiPerfRead, Self::QemuRead, Self::QemuWrite];

    /// Name of the client.
    pub(crate) fn client(self) -> &'static str {
        match self {
            Self::IscsiPerfRead => "iscsi-perf",
            Self::QemuRead | Self::QemuWrite => "qemu-img",
        }
    }

    /// Key of the row.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::IscsiPerfRead => "iscsi-perf-4k-read-32",
            Self::QemuRead => "qemu-4k-read-32",
            Self::QemuWrite => "qemu-4k-write-32",
        }
    }

    /// Name of the row.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::IscsiPerfRead => "iscsi-perf: 4 KiB random read, depth 32",
            Self::QemuRead => "qemu-img bench: 4 KiB strided read, depth 32",
            Self::QemuWrite => "qemu-img bench: 4 KiB strided write, depth 32",
        }
    }

    /// Why it cannot be used here.
    pub(crate) fn missing(self) -> Option<String> {
        let package = match self {
            Self::IscsiPerfRead => "libiscsi-bin",
            Self::QemuRead | Self::QemuWrite => "qemu-utils and qemu-block-extra",
        };
        let client = self.client();
        in_path(client)
            .is_none()
            .then(|| format!("{client} is not installed: apt-get install {package}"))
    }

    fn command(self, url: &Url, seconds: f64) -> Command {
        let mut command = Command::new(self.client());
        match self {
            Self::IscsiPerfRead => {
                let (depth, blocks) = (DEPTH.to_string(), (IO_BYTES / 512).to_string());
                let whole = format!("{:.0}", seconds.ceil());
                command.args(["-m", &depth, "-b", &blocks, "-r", "-t", &whole]);
            }
            Self::QemuRead | Self::QemuWrite => {
                command.args(["bench", "-f", "raw", "-t", "none"]);
                command.args(["-c", &qemu_requests(seconds).to_string()]);
                command.args(["-d", &DEPTH.to_string(), "-s", &IO_BYTES.to_string()]);
                command.args(["-S", &QEMU_STEP_BYTES.to_string()]);
                if self == Self::QemuWrite {
                    command.arg("-w");
                }
            }
        }
        command.arg(url.to_string());
        command
    }

    /// I/Os and the seconds they took, from what the client printed.
    fn parse(self, output: &str, seconds: f64) -> Option<(f64, f64)> {
        match self {
            Self::IscsiPerfRead => {
                let seconds = seconds.ceil();
                Some((iscsi_perf_iops(output)? * seconds, seconds))
            }
            Self::QemuRead | Self::QemuWrite => {
                Some((qemu_requests(seconds) as f64, qemu_seconds(output)?))
            }
        }
    }

    /// Runs it on `core` against `url`, whose process is `pid`.
    ///
    /// # Errors
    /// It failed, took too long, or printed what we do not understand.
    pub(crate) fn run(
        self,
        url: &Url,
        pid: u32,
        core: usize,
        seconds: f64,
        stop: &AtomicBool,
    ) -> Result<Run> {
        let mut command = self.command(url, seconds);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let own_before = children_cpu();
        let before = sample(pid)?;
        let mut child = {
            let _pinned = Pinned::to_core(core)?;
            Child::start(&mut command, self.client())?
        };
        let deadline = Instant::now() + Duration::from_secs_f64(seconds * 4.0) + SLACK;
        // Its output is a few hundred bytes, which the pipe holds: no need to read meanwhile.
        let status = child.wait_until(deadline, stop)?;
        let after = sample(pid)?;
        let own = children_cpu().saturating_sub(own_before);
        let mut output = String::new();
        child.take_stdout().context("no output")?.read_to_string(&mut output)?;
        ensure!(status.success(), "{} failed: {status}", self.client());
        let (ios, took) = self
            .parse(&output, seconds)
            .with_context(|| format!("{} printed {output:?}", self.client()))?;
        ensure!(ios > 0.0 && took > 0.0, "{} did nothing", self.client());
        let target = after.cpu.saturating_sub(before.cpu).as_secs_f64();
        let wall = (after.at - before.at).as_secs_f64();
        Ok(Run {
            iops: ios / took,
            mb_per_s: ios / took * f64::from(IO_BYTES) / 1e6,
            target_cpu_us_per_io: target / ios * 1e6,
            client_cpu_us_per_io: own.as_secs_f64() / ios * 1e6,
            target_core: target / wall,
            client_core: own.as_secs_f64() / wall,
            session_share_min: 1.0,
            ..Run::default()
        })
    }
}

fn qemu_requests(seconds: f64) -> u64 {
    (QEMU_REQUESTS_PER_S * seconds) as u64
}

/// The last `iops average N` of iscsi-perf, which prints over its own lines.
pub(super) fn iscsi_perf_iops(output: &str) -> Option<f64> {
    let (_, rest) = output.rsplit_once("iops average ")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// `Run completed in 1.114 seconds.`
pub(super) fn qemu_seconds(output: &str) -> Option<f64> {
    let (_, rest) = output.rsplit_once("Run completed in ")?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}
