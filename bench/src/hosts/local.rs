//! A volume as a local disk: fio over NBD, through `drystone attach` and through qemu-nbd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use attach::Disk;
use attach::nbd::{Address, Server};
use block::NullDisk;
use ring::CoreConfig;

use super::{Bench, Line};
use crate::machine::{Child, Pinned, in_path};

/// The programs have this long until their socket is there.
const START_MAX: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);

/// Blocks of the disk that is none.
const NULL_BLOCK_BYTES: u32 = 512;

/// Two marks: against our initiator itself, and against qemu-nbd on the same target.
pub(super) fn rows(bench: &Bench<'_>, direct: f64, lines: &mut Vec<Line>) -> Result<()> {
    let (what_direct, what_qemu) = (
        "fio over NBD through drystone attach: at least half of the initiator's own IOPS",
        "fio over NBD: drystone attach reaches at least 1.5 times the IOPS of qemu-nbd",
    );
    for (program, package) in [("fio", "fio"), ("qemu-nbd", "qemu-utils qemu-block-extra")] {
        if in_path(program).is_none() {
            let why = format!("{program} is not installed: apt-get install {package}");
            lines.push(Line::missing(what_qemu, why));
            return Ok(());
        }
    }
    let (mut ours, mut theirs, mut ceiling) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..bench.args.rounds {
        ours = ours.max(attached(bench)?);
        theirs = theirs.max(through_qemu(bench)?);
        ceiling = ceiling.max(without_a_disk(bench)?);
    }
    let (ratio, most) = (ours / direct, ceiling / direct);
    let found = format!(
        "{ratio:.2} ({ours:.0} against {direct:.0}; fio itself makes {ceiling:.0}, which is {most:.2}, on the same server without a disk)"
    );
    lines.push(Line::new(what_direct, found, ratio >= 0.5));
    let ratio = ours / theirs;
    let found = format!("{ratio:.2} times ({ours:.0} against {theirs:.0})");
    lines.push(Line::new(what_qemu, found, ratio >= 1.5));
    Ok(())
}

fn attached(bench: &Bench<'_>) -> Result<f64> {
    let (command, socket) = attach_command(bench);
    with_server(bench.args.client_core, command, "drystone attach", &socket, |_| {
        fio(bench, &socket)
    })
}

/// `drystone attach` over NBD, and its socket.
pub(super) fn attach_command(bench: &Bench<'_>) -> (Command, PathBuf) {
    let directory = &bench.site.directory;
    let socket = directory.join("ours.sock");
    let mut command = Command::new(&bench.args.drystone);
    command.args(["attach", &bench.url.to_string(), "--nbd"]);
    command.arg(format!("unix:{}", socket.display()));
    command.arg("--runtime-dir").arg(directory.join("run"));
    (command, socket)
}

/// What fio itself can do here: the NBD server of `drystone attach` in front of nothing, so that no
/// request leaves the machine's core or waits.
fn without_a_disk(bench: &Bench<'_>) -> Result<f64> {
    let socket = bench.site.directory.join("null.sock");
    let (address, core) = (Address::Unix(socket.clone()), bench.args.client_core);
    let blocks = bench.args.size / u64::from(NULL_BLOCK_BYTES);
    let (ready, is_ready) = mpsc::channel();
    let (stop, stopped) = ring::oneshot();
    let server = thread::spawn(move || -> Result<()> {
        let _pinned = Pinned::to_core(core)?;
        ring::block_on(&CoreConfig::default(), async move {
            let disk = Arc::new(Disk::new(Arc::new(NullDisk::new(NULL_BLOCK_BYTES, blocks))));
            let server = Server::start(disk, "null", &address)?;
            // The other side goes away only with an error of its own.
            let _ = ready.send(());
            stopped.await;
            server.stop(Duration::ZERO).await;
            Ok(())
        })?
    });
    let iops = match is_ready.recv() {
        Ok(()) => fio(bench, &socket),
        Err(_) => Err(anyhow!("the NBD server without a disk did not come up")),
    };
    stop.send(());
    server.join().map_err(|_| anyhow!("the NBD server without a disk panicked"))??;
    iops
}

fn through_qemu(bench: &Bench<'_>) -> Result<f64> {
    let socket = bench.site.directory.join("qemu.sock");
    let mut command = Command::new("qemu-nbd");
    // As many clients as there are, no cache in between, the engine that serves it best.
    command.args(["--format=raw", "--cache=none", "--shared=4", "--persistent", "--socket"]);
    command.arg(&socket).arg(bench.url.to_string());
    with_server(bench.args.client_core, command, "qemu-nbd", &socket, |_| fio(bench, &socket))
}

/// Runs `work` with a server on a core of its own, given its process.
pub(crate) fn with_server<T>(
    core: usize,
    mut command: Command,
    what: &str,
    socket: &Path,
    work: impl FnOnce(u32) -> Result<T>,
) -> Result<T> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = {
        let _pinned = Pinned::to_core(core)?;
        Child::start(&mut command, what)?
    };
    let deadline = Instant::now() + START_MAX;
    while !socket.exists() {
        ensure!(server.ended()?.is_none(), "{what} ended at once");
        ensure!(Instant::now() < deadline, "{what} did not come up");
        std::thread::sleep(POLL);
    }
    let found = work(server.pid());
    drop(server);
    // It is gone, or would be in the way of the next round.
    let _ = std::fs::remove_file(socket);
    found
}

/// fio runs where the system puts it, as programs of a host do.
fn fio(bench: &Bench<'_>, socket: &Path) -> Result<f64> {
    let output: PathBuf = bench.site.directory.join("fio.json");
    let mut command = Command::new("fio");
    command.args(["--name=read", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--iodepth=32"]);
    command.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
    command.args(["--time_based", "--ramp_time=0.5", "--output-format=json", "--randrepeat=0"]);
    command.arg(format!("--runtime={}", bench.args.seconds.ceil()));
    command.arg(format!("--size={}", bench.args.size));
    command.arg(format!("--output={}", output.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Child::start(&mut command, "fio")?;
    let limit = Duration::from_secs_f64(bench.args.seconds * 3.0) + START_MAX;
    let status = child.wait_until(Instant::now() + limit, bench.stop)?;
    let text = std::fs::read_to_string(&output).context("fio wrote nothing")?;
    if !status.success() {
        bail!("fio failed: {status}: {text}");
    }
    read_iops(&text).with_context(|| format!("fio wrote {text}"))
}

/// IOPS of the reads in fio's JSON, which may have warnings before it.
fn read_iops(text: &str) -> Option<f64> {
    let json: serde_json::Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    json["jobs"][0]["read"]["iops"].as_f64().filter(|iops| *iops > 0.0)
}

#[cfg(test)]
mod tests {
    use super::read_iops;

    #[test]
    fn the_figure_is_found_behind_warnings() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"iops\": 81234.5}}]}";
        assert_eq!(read_iops(text), Some(81234.5));
        assert_eq!(read_iops("no figure"), None);
        assert_eq!(read_iops("{\"jobs\": []}"), None);
    }
}
