//! The engine allocates nothing for each I/O, with data validation on and off, on memory and over NBD.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use attach::Disk;
use attach::nbd::{Address, Server};
use block::{BlockDevice, RamDisk};
use lab::engine::{Bench, Listener, RunOptions, Volume};
use lab::nbd::{NbdAddress, NbdDisk, NbdOptions, Place};
use lab::workload::fio;
use ring::CoreConfig;
use ring::testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn ram() -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, (8 << 20) / 512).expect("works"))
}

/// What is worked on.
#[derive(Clone)]
enum On {
    Memory,
    /// An NBD server at this socket.
    Nbd(PathBuf),
}

impl On {
    async fn open(&self) -> Arc<dyn BlockDevice> {
        match self {
            Self::Memory => ram(),
            Self::Nbd(socket) => {
                let address =
                    NbdAddress { place: Place::Unix(socket.clone()), export: String::new() };
                Arc::new(NbdDisk::open(&address, &NbdOptions::default()).await.expect("it serves"))
            }
        }
    }
}

/// I/Os, and allocations while they were done.
fn counts(on: &On, validate: bool, mebibytes: u32) -> (u64, u64) {
    let words = format!("--rw=randrw --bs=4k --iodepth=32 --size=8m --loops={}", mebibytes / 8);
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let script = fio::parse(&words).expect("works");
    let on = on.clone();
    let run = async move {
        let volume = Volume {
            name: "v".to_owned(),
            target: "test".to_owned(),
            device: on.open().await,
            disk: None,
            at: 0,
            len: 8 << 20,
            range: None,
            hit_bytes: 1 << 20,
            threads: 32,
            durable: false,
        };
        // A key of its own: what an earlier run left is not taken for what this one wrote.
        let options = RunOptions { validate, ..RunOptions::new(u64::from(mebibytes)) };
        let bench = Bench::new(vec![volume], &script, options).expect("works");
        let listener: Listener = Rc::new(|_| ());
        let before = allocations();
        let steps = lab::engine::run(&bench, &script, &[], &listener).await.expect("works");
        assert_eq!(steps[0].errors, []);
        assert_eq!(steps[0].validation.mismatches, []);
        (steps[0].total.ios, allocations() - before)
    };
    ring::block_on(&CoreConfig::default(), run).expect("works")
}

fn none_for_each_io(on: &On) {
    for validate in [false, true] {
        let (few, base) = counts(on, validate, 32);
        let (many, more) = counts(on, validate, 320);
        assert!(many > few + 50_000, "{few} and {many} I/Os");
        // What is left are intervals and the table of times, not one for each I/O.
        let extra = more.saturating_sub(base);
        assert!(extra < 500, "{extra} more allocations for {} more I/Os", many - few);
    }
}

/// A server of memory in a thread of its own, whose allocations do not count here, until the sender goes.
fn serve(path: &Path) -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = mpsc::channel::<()>();
    let (ready, is_ready) = mpsc::channel();
    let path = path.to_owned();
    let server = thread::spawn(move || {
        let work = async move {
            let disk = Arc::new(Disk::new(ram()));
            let server = Server::start(disk, "vol", &Address::Unix(path)).expect("works");
            ready.send(()).expect("somebody waits");
            while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                ring::sleep(Duration::from_millis(10)).await;
            }
            server.stop(Duration::from_secs(1)).await;
        };
        ring::block_on(&CoreConfig::default(), work).expect("works");
    });
    is_ready.recv().expect("it serves");
    (stop, server)
}

#[test]
fn no_allocation_for_each_io() {
    none_for_each_io(&On::Memory);
}

#[test]
fn no_allocation_for_each_io_over_nbd() {
    let directory = tempfile::tempdir().expect("works");
    let socket = directory.path().join("s");
    let (stop, server) = serve(&socket);
    none_for_each_io(&On::Nbd(socket));
    drop(stop);
    server.join().expect("works");
}
