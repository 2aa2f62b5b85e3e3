//! The client against the server of `attach`, and against servers that misbehave.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use attach::Disk;
use attach::nbd::{Address, Server};
use block::{BlockDevice, BlockError, NullDisk, RamDisk, WriteFlags};
use ring::{Buf, CoreConfig, Data};

use super::*;

mod conform;

const SIZE: u64 = 8 << 20;

fn on_core<F: Future<Output = ()> + 'static>(work: F) {
    let end = ring::block_on(&CoreConfig::default(), async move {
        ring::timeout(Duration::from_secs(60), work).await
    });
    assert_eq!(end.unwrap(), Some(()), "it hangs");
}

fn unix(path: &Path, export: &str) -> NbdAddress {
    NbdAddress { place: Place::Unix(path.to_owned()), export: export.to_owned() }
}

fn options() -> NbdOptions {
    NbdOptions { limit: Duration::from_secs(2), ..NbdOptions::default() }
}

fn data(len: usize, seed: u8) -> Data {
    let mut buf = Buf::alloc(len).unwrap();
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = (at / 512) as u8 ^ (at as u8).wrapping_mul(seed);
    }
    buf.freeze()
}

fn serve(device: Arc<dyn BlockDevice>, path: &Path) -> Server {
    Server::start(Arc::new(Disk::new(device)), "vol", &Address::Unix(path.to_owned())).unwrap()
}

#[test]
fn what_is_written_is_read_in_any_size_and_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        let ram = Arc::new(RamDisk::new(512, SIZE / 512).unwrap());
        let server = serve(ram, &path);
        for connections in [1, 3] {
            let options = NbdOptions { connections, ..options() };
            let disk = Arc::new(NbdDisk::open(&unix(&path, "vol"), &options).await.unwrap());
            assert_eq!(disk.geometry().size_bytes(), SIZE);
            let mut waiting = Vec::new();
            for (n, len) in [512, 4096, 100 << 10, 1 << 20, 512].into_iter().enumerate() {
                let flags = if n == 1 { WriteFlags::DURABLE } else { WriteFlags::VOLATILE };
                waiting.push(disk.write((n as u64) << 20, data(len, n as u8), flags));
            }
            for write in waiting {
                write.await.unwrap();
            }
            disk.flush().await.unwrap();
            let sizes = [512, 4096, 100 << 10, 1 << 20, 512];
            let reads: Vec<_> = sizes
                .iter()
                .enumerate()
                .map(|(n, len)| disk.read((n as u64) << 20, *len))
                .collect();
            for (n, (read, len)) in reads.into_iter().zip(sizes).enumerate().rev() {
                let found = read.await.unwrap();
                assert_eq!(found.as_slice().unwrap(), data(len, n as u8).as_slice().unwrap());
            }
            assert_eq!(
                disk.read(SIZE, 512).await.unwrap_err(),
                BlockError::OutOfRange { at: SIZE, len: 512, size_bytes: SIZE }
            );
            disk.write_zeroes(0, 4096, true, WriteFlags::VOLATILE).await.unwrap();
            assert!(disk.read(0, 4096).await.unwrap().as_slice().unwrap().iter().all(|b| *b == 0));
            // One that nobody waits for ends all the same, and its place is used again.
            drop(disk.read(0, 1 << 20));
            disk.read(1 << 20, 4096).await.unwrap();
        }
        server.stop(Duration::from_secs(1)).await;
    });
}

#[test]
fn exports_that_are_not_there_and_servers_that_are_none_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let strange = directory.path().join("t");
    let listener = UnixListener::bind(&strange).unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        socket.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n").unwrap();
        let _ = socket.read(&mut [0; 64]);
    });
    on_core(async move {
        let server = serve(Arc::new(NullDisk::new_read_only(512, 8)), &path);
        let open = async |address: &NbdAddress| NbdDisk::open(address, &options()).await;
        let refused = open(&unix(&path, "other")).await.unwrap_err().to_string();
        assert!(
            refused.ends_with("there is no such export") && refused.contains("other"),
            "{refused}"
        );
        let none = open(&unix(Path::new("/no/such"), "")).await.unwrap_err();
        assert!(matches!(none, NbdError::Connect { .. }), "{none}");
        let other = open(&unix(&strange, "")).await.unwrap_err();
        let told = other.to_string();
        assert!(
            told.contains("its greeting is 0x5353482d322e302d, not 0x4e42444d41474943"),
            "{told}"
        );
        let disk = open(&unix(&path, "")).await.unwrap();
        let write = disk.write(0, data(512, 1), WriteFlags::VOLATILE).await;
        assert_eq!((disk.geometry().read_only, write), (true, Err(BlockError::ReadOnly)));
        server.stop(Duration::from_secs(1)).await;
    });
}

/// Reads wait for the server to come back, and the cache that may be gone is told once.
#[test]
fn a_server_that_is_restarted_is_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    on_core(async move {
        let ram: Arc<dyn BlockDevice> = Arc::new(RamDisk::new(512, SIZE / 512).unwrap());
        let server = serve(ram.clone(), &path);
        let disk = NbdDisk::open(&unix(&path, ""), &options()).await.unwrap();
        disk.write(0, data(4096, 3), WriteFlags::VOLATILE).await.unwrap();
        server.stop(Duration::from_millis(100)).await;
        let begun = Instant::now();
        let read = disk.read(0, 4096);
        ring::sleep(Duration::from_millis(500)).await;
        let server = serve(ram, &path);
        assert_eq!(read.await.unwrap().as_slice(), data(4096, 3).as_slice());
        assert!(begun.elapsed() >= Duration::from_millis(500));
        assert_eq!(disk.flush().await, Err(BlockError::LostWrites));
        assert_eq!(disk.flush().await, Ok(()));
        // One that stays away fails what waits, and only after the limit.
        server.stop(Duration::from_millis(100)).await;
        let begun = Instant::now();
        assert_eq!(disk.read(0, 4096).await.map(drop), Err(BlockError::Unreachable));
        assert!(begun.elapsed() >= options().limit, "{:?}", begun.elapsed());
    });
}

/// A server whose connection ends while it has a read and a write: the read is asked again, whether the
/// write was done nobody knows.
#[test]
fn a_change_under_way_when_the_connection_breaks_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        for round in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            greet(&mut socket);
            let mut head = [0; 28];
            socket.read_exact(&mut head).unwrap();
            assert_eq!(head[7], 0, "a read comes first");
            // Half an answer: its bytes must not count once it comes again.
            let mut answer = vec![0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0];
            answer.extend(&head[8..16]);
            answer.extend([round + 1; 512]);
            if round == 0 {
                socket.read_exact(&mut [0; 28 + 512]).unwrap();
                answer.truncate(16 + 300);
            }
            socket.write_all(&answer).unwrap();
            if round == 1 {
                let _ = socket.read(&mut [0; 1]);
            }
        }
    });
    on_core(async move {
        let disk = NbdDisk::open(&unix(&path, ""), &options()).await.unwrap();
        let read = disk.read(0, 512);
        let write = disk.write(0, data(512, 1), WriteFlags::VOLATILE);
        assert_eq!(write.await, Err(BlockError::Unreachable));
        assert_eq!(read.await.unwrap().as_slice().unwrap(), [2; 512]);
    });
    server.join().unwrap();
}

/// Each way to break the protocol costs a connection and is told with its field and value; the read that waits
/// is answered by the connection that keeps to it.
#[test]
fn a_server_that_breaks_the_protocol_is_told_how() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        for round in 0..4 {
            let (mut socket, _) = listener.accept().unwrap();
            greet(&mut socket);
            let mut head = [0; 28];
            socket.read_exact(&mut head).unwrap();
            let mut answer = 0x6744_6698_u32.to_be_bytes().to_vec();
            answer.extend([0; 4]);
            answer.extend(&head[8..16]);
            match round {
                0 => answer[..4].copy_from_slice(b"HTTP"),
                1 => answer[..4].copy_from_slice(&0x668e_33ef_u32.to_be_bytes()),
                2 => answer[8..].copy_from_slice(&77_u64.to_be_bytes()),
                _ => answer.extend([9; 512]),
            }
            socket.write_all(&answer).unwrap();
            let _ = socket.read(&mut [0; 1]);
        }
    });
    on_core(async move {
        let disk = NbdDisk::open(&unix(&path, "vol"), &options()).await.unwrap();
        assert_eq!(disk.read(0, 512).await.unwrap().as_slice().unwrap(), [9; 512]);
        let address =
            format!("nbd+unix:///vol?socket={} breaks the NBD protocol: ", path.display());
        let told = take_faults();
        let told: Vec<&str> =
            told.iter().map(|line| line.strip_prefix(&address).unwrap_or(line)).collect();
        assert_eq!(
            told,
            [
                "a reply begins with 0x48545450, not 0x67446698",
                "a structured reply (0x668e33ef), which was not agreed on",
                "a reply has the cookie 0x4d, which no request has that waits for one",
            ]
        );
        assert_eq!(take_faults(), [""; 0], "once");
    });
    server.join().unwrap();
}

/// One that breaks it each time is not asked for ever.
#[test]
fn a_server_that_always_breaks_the_protocol_fails_what_waits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            greet(&mut socket);
            let _ = socket.write_all(&[1; 16]);
            let _ = socket.read(&mut [0; 1]);
        }
    });
    on_core(async move {
        let disk = NbdDisk::open(&unix(&path, ""), &options()).await.unwrap();
        let begun = Instant::now();
        assert_eq!(disk.read(0, 512).await.map(drop), Err(BlockError::Unreachable));
        assert!(begun.elapsed() >= options().limit, "{:?}", begun.elapsed());
        let told = take_faults();
        assert!(told.len() == 1 && told[0].contains("begins with 0x01010101"), "{told:?}");
    });
}

/// A server that loses the reply to one read holds it no longer than I/O may wait. What it was asked beside that is
/// asked again on the next connection.
#[test]
fn a_server_that_is_silent_fails_what_waits_too_long() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let server = thread::spawn(move || {
        for round in 0..2 {
            let (mut socket, _) = listener.accept().unwrap();
            greet(&mut socket);
            let mut head = [0; 28];
            while socket.read_exact(&mut head).is_ok() && head[7] == 0 {
                if round == 1 {
                    let mut answer = 0x6744_6698_u32.to_be_bytes().to_vec();
                    answer.extend([0; 4]);
                    answer.extend(&head[8..16]);
                    answer.extend([7; 512]);
                    socket.write_all(&answer).unwrap();
                }
            }
        }
    });
    on_core(async move {
        let disk = NbdDisk::open(&unix(&path, ""), &options()).await.unwrap();
        let begun = Instant::now();
        let lost = disk.read(0, 512);
        ring::sleep(Duration::from_millis(1200)).await;
        let later = disk.read(512, 512);
        assert_eq!(lost.await.map(drop), Err(BlockError::Unreachable));
        let waited = begun.elapsed();
        let limit = options().limit;
        assert!(waited >= limit && waited < limit + Duration::from_secs(2), "{waited:?}");
        assert_eq!(later.await.unwrap().as_slice().unwrap(), [7; 512]);
        let told = take_faults();
        assert!(
            told.len() == 1 && told[0].ends_with(" has not answered a request for 2 s"),
            "{told:?}"
        );
        drop(disk);
    });
    server.join().unwrap();
}

/// A stopped server takes no connection from its socket; with one waiting there a second one has no room.
#[test]
fn a_socket_with_many_waiting_is_not_waited_for_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    let (told, outcome) = mpsc::channel();
    thread::spawn(move || told.send(connect(&unix(&path, ""), Duration::from_millis(300))));
    let refused = outcome.recv_timeout(Duration::from_secs(10)).expect("it comes back");
    let NbdError::Connect { error, .. } = refused.unwrap_err() else { panic!() };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}

/// The old handshake, with an export of 1 MiB.
fn greet(socket: &mut (impl Read + Write)) {
    socket.write_all(b"NBDMAGICIHAVEOPT\x00\x03").unwrap();
    socket.read_exact(&mut [0; 4]).unwrap();
    let mut option = [0; 16];
    socket.read_exact(&mut option).unwrap();
    let len = u32::from_be_bytes(option[12..16].try_into().unwrap());
    socket.read_exact(&mut vec![0; len as usize]).unwrap();
    let mut answer = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    answer.extend(7_u32.to_be_bytes());
    answer.extend(((1_u32 << 31) + 1).to_be_bytes());
    answer.extend(0_u32.to_be_bytes());
    socket.write_all(&answer).unwrap();
    socket.read_exact(&mut [0; 16]).unwrap();
    let mut export = (1_u64 << 20).to_be_bytes().to_vec();
    export.extend(5_u16.to_be_bytes());
    socket.write_all(&export).unwrap();
}
