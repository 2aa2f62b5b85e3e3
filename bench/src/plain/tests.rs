//! The load engine against the plain server, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::load::{Edge, Order, Plan};

/// A server on a thread of its own, until the test ends.
struct TestServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<anyhow::Result<()>>>,
}

impl TestServer {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            serve(([127, 0, 0, 1], 0).into(), 1 << 20, &theirs, &mut |address| {
                Ok(sender.send(address)?)
            })
        });
        let address = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

fn plan(read_percent: u8, io_bytes: u32, depth: u32, sessions: u32) -> Plan {
    Plan {
        read_percent,
        order: Order::Random,
        io_bytes,
        depth,
        sessions,
        warmup: Duration::from_millis(20),
        measure: Duration::from_millis(100),
        area_bytes: 1 << 20,
        verify: false,
        ios_max: None,
    }
}

#[test]
fn heads_survive_the_wire() {
    let head = Head { payload_bytes: 7, wanted_bytes: 1 << 30, offset: 1 << 40, tag: 0xfffe };
    assert_eq!(Head::parse(&head.emit()), head);
}

#[test]
fn reads_writes_and_mixes_complete_from_every_session() {
    let server = TestServer::start();
    let stop = AtomicBool::new(false);
    for (read, bytes, depth, sessions) in
        [(100, 4096, 32, 1), (0, 4096, 32, 3), (67, 8192, 8, 4), (50, 256 << 10, 16, 2)]
    {
        let mut edges = Vec::new();
        let plan = plan(read, bytes, depth, sessions);
        let begun = Instant::now();
        let report = load(server.address, &plan, &stop, &mut |edge| edges.push(edge)).unwrap();
        let elapsed = begun.elapsed();
        assert_eq!(edges, [Edge::Start, Edge::End]);
        assert!(report.ios > 0 && report.session_share_min > 0.0, "{report:?}");
        assert_eq!(report.errors, 0);
        assert!(report.seconds >= 0.1 && report.seconds < 5.0, "{report:?}");
        assert!(report.client_cpu_us_per_io > 0.0);
        // Those that were under way when the measurement began count whole.
        let waited = report.latency_us_mean * report.ios as f64 / 1e6;
        let most = f64::from(depth * sessions) * elapsed.as_secs_f64();
        assert!(waited <= most, "all waited for {waited} s, of at most {most}: {report:?}");
    }
}

#[test]
fn requests_of_a_turn_leave_together() {
    let server = TestServer::start();
    let report =
        load(server.address, &plan(100, 512, 64, 1), &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(report.sends_per_io < 0.5 && report.receives_per_io < 0.5, "{report:?}");
}

#[test]
fn a_fixed_number_of_ios_is_exactly_that() {
    let server = TestServer::start();
    let plan = Plan {
        warmup: Duration::ZERO,
        measure: Duration::from_secs(30),
        ios_max: Some(777),
        ..plan(0, 4096, 16, 1)
    };
    let report = load(server.address, &plan, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(report.ios, 777);
}

#[test]
fn a_stop_ends_the_run_at_once() {
    let server = TestServer::start();
    let plan = Plan { measure: Duration::from_secs(60), ..plan(100, 4096, 1, 1) };
    let error = load(server.address, &plan, &AtomicBool::new(true), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("signal"), "{error}");
}

#[test]
fn a_request_outside_the_store_ends_only_its_connection() {
    let server = TestServer::start();
    let stop = AtomicBool::new(false);
    let wild = Plan { area_bytes: 1 << 30, ..plan(100, 4096, 8, 1) };
    assert!(load(server.address, &wild, &stop, &mut |_| {}).is_err());
    assert!(load(server.address, &plan(100, 4096, 8, 1), &stop, &mut |_| {}).is_ok());
}
