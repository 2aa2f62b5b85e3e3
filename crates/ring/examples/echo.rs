//! The plain request/response loop on this engine: each 48-byte request is answered with `RESP`
//! bytes, a header and a payload from a random place of a 1 GiB region. When the last connection
//! closes it prints the processor time per request, so that the cost of the engine can be compared
//! with any other loop on the same work.
//!
//!     echo PORT RESP [latency|balanced|efficient] [CONGESTION]

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Instant;

use ring::wait::Bell;
use ring::{CoreConfig, Listener, Region, SendBatch, SpinPolicy, Stream};

const REQUEST_BYTES: usize = 48;
const REGION_BYTES: usize = 1 << 30;

struct Totals {
    region: Region,
    payload_bytes: usize,
    requests: Cell<u64>,
    receives: Cell<u64>,
    sends: Cell<u64>,
    connections: Cell<usize>,
    started: Cell<(Instant, f64)>,
}

/// What receiver and sender of one connection share.
#[derive(Default)]
struct Connection {
    pending: RefCell<SendBatch>,
    output: Bell,
    over: Cell<bool>,
}

/// Processor time of this thread: the first number in its `schedstat`, in nanoseconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0) / 1e9
}

async fn receive(stream: Rc<Stream>, connection: Rc<Connection>, totals: Rc<Totals>) {
    let (mut partial_bytes, mut random) = (0, 88_172_645_463_325_252_u64);
    let slots = (REGION_BYTES / totals.payload_bytes.max(1)) as u64;
    while let Ok(bytes) = stream.recv().await
        && !bytes.is_empty()
    {
        totals.receives.set(totals.receives.get() + 1);
        let requests = (partial_bytes + bytes.len()) / REQUEST_BYTES;
        partial_bytes = (partial_bytes + bytes.len()) % REQUEST_BYTES;
        totals.requests.set(totals.requests.get() + requests as u64);
        let mut batch = connection.pending.borrow_mut();
        for _ in 0..requests {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random % slots) as usize * totals.payload_bytes;
            batch.push_bytes(&[0; REQUEST_BYTES]);
            batch.push_data(totals.region.slice(at, totals.payload_bytes));
        }
        drop(batch);
        connection.output.ring();
    }
    connection.over.set(true);
    connection.output.ring();
}

async fn send(stream: Rc<Stream>, connection: Rc<Connection>, totals: Rc<Totals>) {
    let mut spare = SendBatch::new();
    loop {
        if connection.pending.borrow().is_empty() {
            if connection.over.get() {
                break;
            }
            connection.output.rung().await;
            continue;
        }
        ring::turn_end().await;
        let batch = connection.pending.replace(spare);
        totals.sends.set(totals.sends.get() + 1);
        let (empty, result) = stream.send(batch).await;
        spare = empty;
        if result.is_err() {
            break;
        }
    }
    totals.connections.set(totals.connections.get() - 1);
    if totals.connections.get() == 0 {
        report(&totals);
    }
}

fn report(totals: &Totals) {
    let (start, cpu_before) = totals.started.get();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let requests = totals.requests.replace(0) as f64;
    eprintln!(
        "server: req={requests} secs={seconds:.2} cpu={cpu:.2} us/req={:.3} util={:.2} \
         recv/req={:.3} send/req={:.3}",
        cpu / requests * 1e6,
        cpu / seconds,
        totals.receives.replace(0) as f64 / requests,
        totals.sends.replace(0) as f64 / requests
    );
}

async fn serve(port: u16, response_bytes: usize, congestion: Option<String>) {
    let totals = Rc::new(Totals {
        region: Region::new(REGION_BYTES).expect("a gigabyte of address space"),
        payload_bytes: response_bytes - REQUEST_BYTES,
        requests: Cell::new(0),
        receives: Cell::new(0),
        sends: Cell::new(0),
        connections: Cell::new(0),
        started: Cell::new((Instant::now(), 0.0)),
    });
    let filler = vec![1; 1 << 20];
    for at in (0..REGION_BYTES).step_by(filler.len()) {
        totals.region.write(at, &filler);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = Listener::bind(address, 64).expect("the port is free");
    loop {
        let (stream, _) = listener.accept().await.expect("accept");
        stream.set_nodelay(true).expect("TCP_NODELAY");
        if let Some(name) = &congestion {
            stream.set_congestion(name).expect("congestion control");
        }
        if totals.connections.get() == 0 {
            totals.started.set((Instant::now(), cpu_seconds()));
        }
        totals.connections.set(totals.connections.get() + 1);
        let (stream, connection) = (Rc::new(stream), Rc::new(Connection::default()));
        ring::spawn(receive(stream.clone(), connection.clone(), totals.clone()));
        ring::spawn(send(stream, connection, totals.clone()));
    }
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, default| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let spin = match args.get(2).map(String::as_str) {
        Some("latency") => SpinPolicy::Latency,
        Some("efficient") => SpinPolicy::Efficient,
        _ => SpinPolicy::Balanced,
    };
    let (port, response_bytes) = (number(0, 7007), number(1, 4144).max(REQUEST_BYTES));
    let cfg = CoreConfig { spin, ..CoreConfig::default() };
    ring::block_on(&cfg, serve(port as u16, response_bytes, args.get(3).cloned()))
}
