//! A TCP proxy that can be cut and frozen: one path through the network.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const OPEN: u8 = 0;
const CUT: u8 = 1;
/// What a connection holds on its way to the target: a network, not a store.
const WINDOW_BYTES: usize = 128 << 10;
/// Connections stay, and nothing comes through.
const FROZEN: u8 = 2;
/// As open, with something wrong in what the target says.
const GARBAGE: u8 = 3;

#[derive(Debug)]
struct Shared {
    state: AtomicU8,
    ends: AtomicBool,
    sockets: Mutex<Vec<TcpStream>>,
    /// Bytes that the target was given.
    carried: AtomicU64,
    to: Mutex<SocketAddr>,
}

#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        rustix::net::sockopt::set_socket_recv_buffer_size(&listener, WINDOW_BYTES)
            .expect("accepted sockets get it from here");
        let shared = Arc::new(Shared {
            state: AtomicU8::new(OPEN),
            ends: AtomicBool::new(false),
            sockets: Mutex::default(),
            carried: AtomicU64::new(0),
            to: Mutex::new(target),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.ends.load(Ordering::Relaxed) {
                    return;
                }
                if accepting.state.load(Ordering::Relaxed) == CUT {
                    continue; // dropped: closed at once
                }
                let to = *accepting.to.lock().unwrap();
                let Ok(server) = TcpStream::connect(to) else { continue };
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let shared = accepting.clone();
                    thread::spawn(move || pump(&shared, from, to, is_answer));
                }
                accepting.sockets.lock().unwrap().extend([client, server]);
            }
        });
        Self { address, shared }
    }

    /// Closes all connections and refuses new ones.
    pub(crate) fn cut(&self) {
        self.shared.state.store(CUT, Ordering::Relaxed);
        for socket in self.shared.sockets.lock().unwrap().drain(..) {
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    /// Closes one connection, the one that was made `nth`, counting from 0.
    pub(crate) fn cut_one(&self, nth: usize) {
        let sockets = self.shared.sockets.lock().unwrap();
        for socket in sockets.iter().skip(nth * 2).take(2) {
            drop(socket.shutdown(Shutdown::Both));
        }
    }

    /// New connections lead to another target.
    pub(crate) fn lead_to(&self, target: SocketAddr) {
        *self.shared.to.lock().unwrap() = target;
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.sockets.lock().unwrap().len() / 2
    }

    /// Bytes that the target was given so far.
    pub(crate) fn carried_bytes(&self) -> u64 {
        self.shared.carried.load(Ordering::Relaxed)
    }

    /// Lets nothing through, without a word.
    pub(crate) fn freeze(&self) {
        self.shared.state.store(FROZEN, Ordering::Relaxed);
    }

    /// Spoils what the target says from now on.
    pub(crate) fn spoil(&self) {
        self.shared.state.store(GARBAGE, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) {
        self.shared.state.store(OPEN, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        self.cut();
        drop(TcpStream::connect(self.address)); // wakes the listener
    }
}

fn pump(shared: &Shared, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let len = match from.read(&mut bytes) {
            Ok(len) if len > 0 => len,
            _ => break,
        };
        while shared.state.load(Ordering::Relaxed) == FROZEN {
            thread::sleep(Duration::from_millis(5));
        }
        if is_answer && shared.state.load(Ordering::Relaxed) == GARBAGE {
            bytes[..len].iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        if to.write_all(&bytes[..len]).is_err() {
            break;
        }
        if !is_answer {
            shared.carried.fetch_add(len as u64, Ordering::Relaxed);
        }
    }
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
