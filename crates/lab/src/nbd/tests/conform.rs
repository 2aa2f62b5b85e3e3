//! An export is a device like any other, whoever serves it.

use std::fs;
use std::process::{Child, Command, Stdio};

use block::testing::{FaultyDisk, check_device, check_faults, check_null_device, check_read_only};

use super::*;

const MIB: u64 = 1 << 20;

async fn open(path: &Path, connections: u32) -> Arc<NbdDisk> {
    let options = NbdOptions { connections, limit: Duration::from_secs(20), ..options() };
    Arc::new(NbdDisk::open(&unix(path, ""), &options).await.unwrap())
}

fn ram(block_bytes: u32) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(block_bytes, 2 * MIB / u64::from(block_bytes)).unwrap())
}

#[test]
fn passes_the_device_suite_against_the_server_of_attach() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        for (seed, block_bytes, connections) in [(1, 512, 1), (2, 4096, 1), (3, 512, 4)] {
            let server = serve(ram(block_bytes), &path);
            check_device(open(&path, connections).await, seed).await;
            server.stop(Duration::from_secs(1)).await;
        }
        let server = serve(Arc::new(NullDisk::new(512, 4096)), &path);
        check_null_device(open(&path, 1).await, 4).await;
        server.stop(Duration::from_secs(1)).await;
        let server = serve(Arc::new(RamDisk::new_read_only(512, 4096).unwrap()), &path);
        check_read_only(open(&path, 1).await).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn passes_on_the_faults_of_the_disk_that_is_served() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        let below = Arc::new(FaultyDisk::new(ram(512)));
        let server = serve(below.clone(), &path);
        check_faults(below, open(&path, 1).await, 5).await;
        server.stop(Duration::from_secs(1)).await;
    });
}

/// An export of the server that everybody has; it ends with the test.
struct QemuNbd(Child);

impl QemuNbd {
    /// `None` where the machine has none.
    fn start(image: &Path, socket: &Path, arguments: &[&str]) -> Option<Self> {
        let _ = fs::remove_file(socket);
        let mut command = Command::new("qemu-nbd");
        command.args(["--format=raw", "--persistent", "--shared=4", "--socket"]).arg(socket);
        command.args(arguments).arg(image).stdin(Stdio::null());
        let started = Self(command.spawn().ok()?);
        for _ in 0..500 {
            if UnixStream::connect(socket).is_ok() {
                return Some(started);
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!("qemu-nbd does not listen");
    }
}

impl Drop for QemuNbd {
    fn drop(&mut self) {
        // Both fail where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn passes_the_device_suite_against_qemu_nbd() {
    let directory = tempfile::tempdir().unwrap();
    let (image, socket) = (directory.path().join("image"), directory.path().join("s"));
    fs::File::create(&image).unwrap().set_len(2 * MIB).unwrap();
    // What TRIM leaves is up to the server: this one forgets it, or gives the space back.
    for discard in ["--discard=ignore", "--discard=unmap"] {
        let Some(server) = QemuNbd::start(&image, &socket, &[discard]) else {
            return eprintln!("no qemu-nbd here: not tested");
        };
        let socket = socket.clone();
        on_core(async move { check_device(open(&socket, 1).await, 6).await });
        drop(server);
    }
    fs::write(&image, vec![7; 2 << 20]).unwrap();
    let server = QemuNbd::start(&image, &socket, &["--read-only"]);
    on_core(async move { check_read_only(open(&socket, 1).await).await });
    drop(server);
}

/// More than one request may be about (32 MiB).
#[test]
fn long_zeroes_and_trims_take_several_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        let size_bytes = 80 * MIB;
        let server = serve(Arc::new(RamDisk::new(512, size_bytes / 512).unwrap()), &path);
        let disk = open(&path, 1).await;
        for zeroes in [false, true] {
            for at in [0, 33 * MIB, size_bytes - 512] {
                disk.write(at, data(512, 3), WriteFlags::VOLATILE).await.unwrap();
            }
            match zeroes {
                true => disk.write_zeroes(0, size_bytes, true, WriteFlags::VOLATILE).await,
                false => disk.unmap(0, size_bytes).await,
            }
            .unwrap();
            for at in [0, 33 * MIB, size_bytes - 512] {
                let found = disk.read(at, 512).await.unwrap();
                assert_eq!(found.as_slice().unwrap(), [0; 512], "at {at}");
            }
        }
        server.stop(Duration::from_secs(1)).await;
    });
}

/// Zeroes are as volatile as what is written.
#[test]
fn zeroes_that_may_be_lost_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        let ram = ram(512);
        let mut server = serve(ram.clone(), &path);
        let disk = open(&path, 1).await;
        for zeroes in [false, true] {
            match zeroes {
                true => disk.write_zeroes(0, 4096, false, WriteFlags::VOLATILE).await,
                false => disk.unmap(0, 4096).await,
            }
            .unwrap();
            server.stop(Duration::from_millis(100)).await;
            server = serve(ram.clone(), &path);
            disk.read(0, 4096).await.unwrap();
            assert_eq!(disk.flush().await, Err(BlockError::LostWrites), "zeroes: {zeroes}");
            assert_eq!(disk.flush().await, Ok(()), "it is told once");
        }
        server.stop(Duration::from_secs(1)).await;
    });
}
