//! The NBD server against a client that does what it likes.

mod common;

use attach::nbd::{Address, Server};
use attach::{Counts, Disk};
use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockDevice, BlockError, RamDisk};
use common::Serving;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ring::{CoreConfig, block_on};
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const SIZE_BYTES: usize = 64 << 20;
const GO: u32 = 7;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;
const FAST_ZERO: u16 = 16;

fn ram() -> Arc<dyn BlockDevice> {
    common::ram(512, SIZE_BYTES as u64)
}

/// A connection in transmission, with simple replies.
struct Client(TcpStream);

impl Client {
    /// Connected, and nothing said.
    fn raw(serving: &Serving) -> TcpStream {
        let Some(Address::Tcp(address)) = &serving.address else { panic!("served over TCP") };
        let stream = TcpStream::connect(address).expect("the server answers");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("the server answers");
        stream
    }

    fn connect(serving: &Serving) -> Client {
        let mut stream = Client::raw(serving);
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("the server answers");
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\x00\x03");
        stream.write_all(&3_u32.to_be_bytes()).expect("the server answers");
        stream.write_all(&option(GO, &[0; 6])).expect("the server answers");
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head).expect("the server answers");
            let len = u32::from_be_bytes(head[16..].try_into().expect("the server answers"));
            stream.read_exact(&mut vec![0; len as usize]).expect("the server answers");
            if head[12..16] == 1_u32.to_be_bytes() {
                return Client(stream);
            }
        }
    }

    fn send(&mut self, request: &[u8], payload: &[u8]) {
        self.0.write_all(request).expect("the server answers");
        self.0.write_all(payload).expect("the server answers");
    }

    /// The cookie and error of the next reply.
    fn reply(&mut self) -> (u64, u32) {
        let mut head = [0; 16];
        self.0.read_exact(&mut head).expect("the server answers");
        assert_eq!(head[..4], [0x67, 0x44, 0x66, 0x98]);
        let error = u32::from_be_bytes(head[4..8].try_into().expect("the server answers"));
        (u64::from_be_bytes(head[8..].try_into().expect("the server answers")), error)
    }

    /// One request and the error of its reply.
    fn ask(&mut self, command: u16, flags: u16, at: u64, len: u32, payload: &[u8]) -> u32 {
        self.send(&request(command, flags, 77, at, len), payload);
        let (cookie, error) = self.reply();
        assert_eq!(cookie, 77);
        error
    }

    fn read(&mut self, at: u64, len: usize) -> Vec<u8> {
        assert_eq!(self.ask(READ, 0, at, len as u32, b""), 0);
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).expect("the server answers");
        bytes
    }

    /// Whether the server has closed the connection.
    fn is_closed(&mut self) -> bool {
        is_closed(&mut self.0)
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 1]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &number.to_be_bytes()[..], &len, data].concat()
}

fn request(command: u16, flags: u16, cookie: u64, at: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(at.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8 ^ seed).collect()
}

#[test]
fn bytes_of_any_range_read_back() {
    let serving = Serving::tcp(ram());
    let mut client = Client::connect(&serving);
    for (at, len) in [(0, 512), (4096, 1 << 20), (1, 1), (700, 5_000_000), (511, 2), (3, 100_000)] {
        let bytes = pattern(len, at as u8);
        assert_eq!(client.ask(WRITE, 0, at, len as u32, &bytes), 0);
        assert!(client.read(at, len) == bytes, "{len} bytes at {at}");
    }
    let largest = pattern(32 << 20, 9);
    assert_eq!(client.ask(WRITE, FUA, 1 << 20, 32 << 20, &largest), 0);
    assert!(client.read(1 << 20, 32 << 20) == largest);
    serving.stop();
}

#[test]
fn zeroes_trims_and_flushes() {
    let serving = Serving::tcp(ram());
    let mut client = Client::connect(&serving);
    assert_eq!(client.ask(WRITE, 0, 0, 8192, &pattern(8192, 1)), 0);
    assert_eq!(client.ask(WRITE_ZEROES, FUA, 100, 5000, b""), 0);
    let mut wanted = pattern(8192, 1);
    wanted[100..5100].fill(0);
    assert!(client.read(0, 8192) == wanted);
    assert_eq!(client.ask(WRITE_ZEROES, FAST_ZERO | 2, 0, 4096, b""), 95, "kept space is slow");
    assert_eq!(client.ask(WRITE_ZEROES, FAST_ZERO, 0, 4096, b""), 0);
    assert_eq!(client.ask(TRIM, FUA, 4096, 4096, b""), 0);
    assert_eq!(client.read(0, 8192), vec![0; 8192]);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 0, SIZE_BYTES as u32, b""), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, 0, b""), 0);
}

#[test]
fn a_refused_request_leaves_the_connection_in_step() {
    let serving = Serving::tcp(ram());
    let mut client = Client::connect(&serving);
    let end = SIZE_BYTES as u64;
    assert_eq!(client.ask(READ, 0, end, 512, b""), 22);
    assert_eq!(client.ask(WRITE, 0, end - 512, 1024, &[1; 1024]), 28);
    assert_eq!(client.ask(WRITE, 1 << 9, 0, 1024, &[1; 1024]), 22);
    assert_eq!(client.ask(99, 0, 0, 0, b""), 22);
    let oversize = vec![1; (32 << 20) + 1];
    assert_eq!(client.ask(WRITE, 0, 0, oversize.len() as u32, &oversize), 22);
    assert_eq!(client.ask(READ, 0, 0, u32::MAX, b""), 22);
    assert_eq!(client.read(0, 1024), vec![0; 1024], "nothing was written");
}

#[test]
fn a_read_only_disk_answers_eperm() {
    let serving = Serving::tcp(Arc::new(RamDisk::new_read_only(512, 2048).unwrap()));
    let mut client = Client::connect(&serving);
    assert_eq!(client.ask(WRITE, 0, 0, 512, &[1; 512]), 1);
    assert_eq!(client.ask(TRIM, 0, 0, 512, b""), 1);
    assert_eq!(client.ask(WRITE_ZEROES, 0, 0, 512, b""), 1);
    assert_eq!(client.read(0, 512), [0; 512]);
}

#[test]
fn device_errors_reach_the_client_and_the_counters() {
    let faulty = Arc::new(FaultyDisk::new(ram()));
    let serving = Serving::tcp(faulty.clone());
    let mut client = Client::connect(&serving);
    for (operation, error, command, errno) in [
        (Operation::Read, BlockError::Medium { at: 0 }, READ, 5),
        (Operation::Write, BlockError::NoSpace, WRITE, 28),
        (Operation::Flush, BlockError::LostWrites, FLUSH, 5),
        (Operation::Unmap, BlockError::Unsupported, TRIM, 95),
    ] {
        faulty.inject(Rule::always(operation, Fault::Fail(error)));
        let payload = if command == WRITE { &[1; 512][..] } else { b"" };
        assert_eq!(client.ask(command, 0, 0, 512, payload), errno, "{operation:?}");
        faulty.heal();
    }
    assert_eq!(client.read(0, 512), [0; 512]);
    let counts = serving.disk.stats().counts();
    let wanted = Counts {
        reads: 2,
        writes: 1,
        others: 2,
        failed: 4,
        read_bytes: 512,
        written_bytes: 0,
        latency_ns: counts.latency_ns,
        in_flight: 0,
    };
    assert_eq!(counts, wanted);
}

#[test]
fn requests_run_beside_each_other_and_a_slow_one_holds_up_nothing() {
    let faulty = Arc::new(FaultyDisk::new(ram()));
    faulty.inject(Rule::always(Operation::Read, Fault::Hang).at(0..512));
    let serving = Serving::tcp(faulty.clone());
    let mut client = Client::connect(&serving);
    let mut requests = request(READ, 0, 1, 0, 512);
    for cookie in 2..200 {
        requests.extend(request(READ, 0, cookie, cookie * 512, 512));
    }
    client.send(&requests, b"");
    let mut left: HashSet<u64> = (2..200).collect();
    while !left.is_empty() {
        let (cookie, error) = client.reply();
        assert!(error == 0 && left.remove(&cookie), "{cookie}: {error}");
        client.0.read_exact(&mut [0; 512]).unwrap();
    }
    assert_eq!(serving.disk.stats().counts().in_flight, 1);
    faulty.release();
    assert_eq!(client.reply(), (1, 0));
}

#[test]
fn a_client_that_does_not_read_is_held_back_and_others_are_not() {
    let serving = Serving::tcp(ram());
    let mut lazy = Client::connect(&serving);
    lazy.0.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut sent = 0_u32;
    // 1 GiB asked for: what was taken is bounded, so that sending requests has to stall or the
    // counters have to.
    for cookie in 0..1024 {
        if lazy.0.write_all(&request(READ, 0, cookie, 0, 1 << 20)).is_err() {
            break;
        }
        sent += 1;
    }
    thread::sleep(Duration::from_millis(200));
    let taken = serving.disk.stats().counts().reads;
    assert!(taken < 64, "{taken} of {sent} reads of 1 MiB were done for a client that reads none");
    let mut other = Client::connect(&serving);
    assert_eq!(other.read(0, 4096), vec![0; 4096]);
    let start = Instant::now();
    serving.stop(); // cuts the lazy one off
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn half_requests_and_sudden_ends_take_nothing_along() {
    let serving = Serving::tcp(ram());
    let whole = request(WRITE, 0, 1, 0, 1 << 20);
    for cut in [1, 27, 28, 1000, 60_000, 500_000] {
        let mut client = Client::connect(&serving);
        let bytes = [&whole[..], &vec![1; 1 << 20]].concat();
        client.send(&bytes[..cut], b"");
        drop(client);
    }
    let mut client = Client::connect(&serving);
    client.send(&request(DISCONNECT, 0, 0, 0, 0), b"");
    assert!(client.is_closed());
    let mut client = Client::connect(&serving);
    let bytes = client.read(0, 1 << 20);
    assert!(bytes.iter().all(|byte| *byte == 0), "a write that did not arrive whole is no write");
    serving.stop();
}

#[test]
fn garbage_ends_the_connection_and_nothing_else() {
    let serving = Serving::tcp(ram());
    let mut runner = TestRunner::new(Config::with_cases(48));
    let bytes = prop::collection::vec(any::<u8>(), 0..600);
    runner
        .run(&(bytes, 0_u8..3), |(bytes, stage)| {
            let mut stream = match stage {
                0 => Client::raw(&serving),
                1 => {
                    let mut stream = Client::raw(&serving);
                    stream.write_all(&3_u32.to_be_bytes()).unwrap();
                    stream
                }
                _ => Client::connect(&serving).0,
            };
            // The server may hang up in the middle of it.
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            prop_assert!(answer.len() < 1 << 20);
            Ok(())
        })
        .unwrap();
    assert_eq!(Client::connect(&serving).read(0, 512), [0; 512]);
    for bad in [option(GO, &vec![0; 70_000]), vec![0; 16]] {
        let mut stream = Client::raw(&serving);
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&3_u32.to_be_bytes()).unwrap();
        let _ = stream.write_all(&bad);
        assert!(is_closed(&mut stream));
    }
    serving.stop();
}

#[test]
fn a_stop_answers_what_was_taken() {
    let faulty = Arc::new(FaultyDisk::new(ram()));
    faulty.inject(Rule::always(Operation::Write, Fault::Delay(Duration::from_millis(100))));
    let serving = Serving::tcp(faulty);
    let mut client = Client::connect(&serving);
    client.send(&request(WRITE, 0, 5, 0, 512), &[1; 512]);
    while serving.disk.stats().counts().in_flight == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    let stopping = thread::spawn(move || serving.stop());
    assert_eq!(client.reply(), (5, 0));
    assert!(client.is_closed());
    stopping.join().unwrap();
}

/// A write that is too long is passed over and refused: whoever goes before it is here leaves his place.
#[test]
fn a_client_that_leaves_in_the_middle_of_a_refused_write_is_gone() {
    let serving = Serving::tcp(ram());
    for _ in 0..8 {
        let mut client = Client::connect(&serving);
        client.send(&request(WRITE, 0, 5, 0, (32 << 20) + 1), &[1; 512]);
    }
    let mut staying = Client::connect(&serving);
    staying.send(&request(WRITE, 0, 5, 0, u32::MAX), &[1; 512]);
    assert_eq!(Client::connect(&serving).read(0, 512), [0; 512]);
    let (stopped, end) = mpsc::channel();
    thread::spawn(move || {
        serving.stop();
        stopped.send(())
    });
    end.recv_timeout(Duration::from_secs(30)).expect("nobody holds up the end");
}

#[test]
fn too_many_clients_are_turned_away_and_room_comes_back() {
    let serving = Serving::tcp(ram());
    let mut clients: Vec<_> = (0..16).map(|_| Client::connect(&serving)).collect();
    assert!(is_closed(&mut Client::raw(&serving)));
    clients.truncate(8);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let mut stream = Client::raw(&serving);
        if stream.read_exact(&mut [0; 18]).is_ok() {
            break;
        }
        assert!(Instant::now() < end, "no room comes back");
    }
}

#[test]
fn a_socket_file_is_made_replaced_when_stale_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nbd.sock");
    drop(UnixListener::bind(&path).unwrap()); // its file stays behind
    let file = dir.path().join("file");
    std::fs::write(&file, b"precious").unwrap();
    let (socket, other) = (Address::Unix(path.clone()), Address::Unix(file.clone()));
    block_on(&CoreConfig::default(), async move {
        let disk = Arc::new(Disk::new(ram()));
        let server = Server::start(disk.clone(), "", &socket).unwrap();
        for (taken, kind) in
            [(&socket, io::ErrorKind::AddrInUse), (&other, io::ErrorKind::AlreadyExists)]
        {
            let error = Server::start(disk.clone(), "", taken).unwrap_err();
            assert_eq!(error.kind(), kind, "{taken}");
        }
        assert_eq!(server.clients(), 0);
        server.stop(common::GRACE).await;
    })
    .unwrap();
    assert!(!path.exists());
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}
