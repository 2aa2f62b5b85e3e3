//! A network between a home and a portal that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(super) fn to(portal: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let sockets: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let known = sockets.clone();
        // It ends with the process.
        thread::spawn(move || {
            for home in listener.incoming().map_while(Result::ok) {
                let Ok(member) = TcpStream::connect(portal) else { continue };
                for (from, to) in [(&home, &member), (&member, &home)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || carry(from, to));
                }
                known.lock().unwrap().extend([home, member]);
            }
        });
        Self { address, sockets }
    }

    /// Closes all connections; new ones can be made.
    pub(super) fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len) = from.read(&mut bytes)
        && len > 0
        && to.write_all(&bytes[..len]).is_ok()
    {}
    drop(to.shutdown(Shutdown::Both));
    drop(from.shutdown(Shutdown::Both));
}
