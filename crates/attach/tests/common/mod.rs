//! A disk served on a core of its own, for tests that are clients.

#![allow(dead_code, reason = "no test binary uses all of it")]

use attach::Disk;
use attach::nbd::{Address, Server};
use block::{BlockDevice, RamDisk};
use ring::{CoreConfig, OneshotSender, Remote, block_on, oneshot};
use std::process::{Command, Output};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long clients have to take their answers when the server stops.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// A disk in memory.
pub(crate) fn ram(block_bytes: u32, size_bytes: u64) -> Arc<dyn BlockDevice> {
    let disk = RamDisk::new(block_bytes, size_bytes / u64::from(block_bytes));
    Arc::new(disk.expect("there is memory"))
}

/// A core with a disk, and an NBD server if it has an address.
pub(crate) struct Serving {
    pub(crate) disk: Arc<Disk>,
    pub(crate) core: Remote,
    /// Where the server listens.
    pub(crate) address: Option<Address>,
    stop: Option<OneshotSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub(crate) fn start(device: Arc<dyn BlockDevice>, address: Option<Address>) -> Serving {
        let disk = Arc::new(Disk::new(device));
        let (stop, stopped) = oneshot();
        let (ready, started) = mpsc::channel();
        let served = disk.clone();
        let thread = thread::spawn(move || {
            let cfg = CoreConfig { buf_budget_bytes: 768 << 20, ..CoreConfig::default() };
            let main = async move {
                let server = address.map(|address| {
                    Server::start(served, "volume", &address).expect("the address is free")
                });
                let bound = server.as_ref().map(|server| server.address().clone());
                ready
                    .send((ring::remote(ring::core_id()), bound))
                    .expect("the test waits for this");
                stopped.await;
                if let Some(server) = server {
                    server.stop(GRACE).await;
                }
                assert_eq!(ring::pool_usage().used_bytes, 0, "every buffer comes back");
            };
            block_on(&cfg, main).expect("the machine has io_uring");
        });
        let (core, address) = started.recv().expect("the server starts");
        Serving { disk, core, address, stop: Some(stop), thread: Some(thread) }
    }

    /// On a free port of 127.0.0.1.
    pub(crate) fn tcp(device: Arc<dyn BlockDevice>) -> Serving {
        Serving::start(device, Some(Address::Tcp(([127, 0, 0, 1], 0).into())))
    }

    /// Stops the server and waits for its end.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(());
        }
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking()
            && let Some(Err(panic)) = ended
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a tool to its end, with a limit of time, and gives what it printed.
pub(crate) fn tool(program: &str, args: &[&str]) -> String {
    let output = run_tool(program, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(
        output.status.success(),
        "{program} {args:?} ended with {}:\n{out}{err}",
        output.status
    );
    out
}

/// The same for one that may fail.
pub(crate) fn run_tool(program: &str, args: &[&str]) -> Output {
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(args)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}; see scripts/setup.sh test"))
}
