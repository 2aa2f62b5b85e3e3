use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::runtime::SendBatch;
use crate::{Buf, CoreConfig, Data, Region, block_on, sleep, spawn, timeout};

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::bind(LOCAL, 16).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connected pair: our end, and a blocking socket for the test's other thread.
async fn pair() -> (Stream, TcpStream) {
    let (listener, address) = listen();
    let peer = TcpStream::connect(address).unwrap();
    (listener.accept().await.unwrap().0, peer)
}

fn run<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    block_on(&CoreConfig::default(), main).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

#[test]
fn echoes_random_sizes_from_buffers_regions_and_headers() {
    run(async {
        let (stream, mut peer) = pair().await;
        stream.set_nodelay(true).unwrap();
        let client = thread::spawn(move || {
            let mut seed = 1_u64;
            for _ in 0..200 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let sent = pattern(1 + (seed >> 33) as usize % 300_000);
                let mut reader = peer.try_clone().unwrap();
                let copy = sent.clone();
                let writer = thread::spawn(move || reader.write_all(&copy).unwrap());
                let mut back = vec![0; sent.len()];
                peer.read_exact(&mut back).unwrap();
                writer.join().unwrap();
                assert!(back == sent, "echo of {} bytes differs", sent.len());
            }
        });
        let region = Region::new(1 << 20).unwrap();
        let mut batch = SendBatch::new();
        let mut turn = 0;
        loop {
            let bytes = stream.recv().await.unwrap();
            if bytes.is_empty() {
                break;
            }
            for chunk in bytes.chunks(50_000) {
                turn += 1;
                match turn % 3 {
                    0 => batch.push_bytes(chunk),
                    1 => {
                        let mut buf = Buf::alloc(chunk.len()).unwrap();
                        buf.copy_from_slice(chunk);
                        batch.push_data(buf.freeze());
                    }
                    _ => {
                        region.write(0, chunk);
                        batch.push_data(region.slice(0, chunk.len()).to_buf().unwrap().freeze());
                    }
                }
            }
            let (empty, result) = stream.send(batch).await;
            result.unwrap();
            assert!(empty.is_empty());
            batch = empty;
        }
        client.join().unwrap();
    });
}

#[test]
fn a_slow_reader_gets_everything_in_order_across_many_parts() {
    run(async {
        let (stream, mut peer) = pair().await;
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            let mut piece = [0; 60_000];
            loop {
                thread::sleep(Duration::from_micros(200));
                match peer.read(&mut piece).unwrap() {
                    0 => return all,
                    n => all.extend_from_slice(&piece[..n]),
                }
            }
        });
        let bytes = pattern(6_000);
        let mut shared = Buf::alloc(bytes.len()).unwrap();
        shared.copy_from_slice(&bytes);
        let shared = shared.freeze();
        let mut batch = SendBatch::new();
        let mut expected = Vec::new();
        for i in 0..1500_usize {
            batch.push_bytes(&[i as u8; 5]);
            batch.push_bytes(&[0xee; 3]);
            batch.push_data(shared.slice(i..i + 4_000));
            expected.extend_from_slice(&[i as u8; 5]);
            expected.extend_from_slice(&[0xee; 3]);
            expected.extend_from_slice(&bytes[i..i + 4_000]);
        }
        assert_eq!(batch.len_bytes(), expected.len());
        stream.send(batch).await.1.unwrap();
        drop(stream);
        assert!(reader.join().unwrap() == expected);
    });
}

#[test]
fn recv_exact_fills_the_range_and_reports_an_early_end() {
    run(async {
        let (stream, mut peer) = pair().await;
        let writer = thread::spawn(move || {
            for part in pattern(10_000).chunks(999) {
                peer.write_all(part).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut buf = Buf::zeroed(10_000).unwrap();
        let result;
        (buf, result) = stream.recv_exact(buf, 100..9_100).await;
        result.unwrap();
        assert_eq!(&buf[100..9_100], &pattern(10_000)[..9_000]);
        assert!(buf[..100].iter().chain(&buf[9_100..]).all(|&b| b == 0));
        let (buf, result) = stream.recv_exact(buf, 0..10_000).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(&buf[..1_000], &pattern(10_000)[9_000..]);
        writer.join().unwrap();
    });
}

#[test]
fn a_dropped_receive_loses_nothing() {
    run(async {
        let (stream, mut peer) = pair().await;
        let writer = thread::spawn(move || {
            for i in 0..50_u8 {
                peer.write_all(&[i]).unwrap();
                thread::sleep(Duration::from_micros(500));
            }
        });
        let mut got = Vec::new();
        while got.len() < 50 {
            if let Some(bytes) = timeout(Duration::from_micros(300), stream.recv()).await {
                got.extend_from_slice(&bytes.unwrap());
            }
        }
        assert_eq!(got, (0..50).collect::<Vec<u8>>());
        writer.join().unwrap();
    });
}

#[test]
fn dropping_a_stream_mid_operation_closes_it() {
    run(async {
        let (stream, mut peer) = pair().await;
        assert!(timeout(Duration::from_millis(5), stream.recv()).await.is_none());
        let mut batch = SendBatch::new();
        let region = Region::new(64 << 20).unwrap();
        batch.push_data(region.slice(0, 64 << 20));
        let sent = timeout(Duration::from_millis(20), stream.send(batch)).await;
        assert!(sent.is_none(), "nobody reads, so the send cannot end");
        drop(stream);
        sleep(Duration::from_millis(20)).await;
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            let end = peer.read_to_end(&mut all);
            (all.len(), end.is_ok())
        });
        let (len, _) = reader.join().unwrap();
        assert!(len < 64 << 20, "the rest of the send was cancelled");
    });
}

#[test]
fn a_stream_moves_by_its_descriptor_unless_busy() {
    run(async {
        let (stream, mut peer) = pair().await;
        peer.write_all(b"one").unwrap();
        assert_eq!(&stream.recv().await.unwrap()[..], b"one");
        let fd = stream.into_fd().unwrap();
        let stream = Stream::from_fd(fd);
        assert!(timeout(Duration::from_millis(2), stream.recv()).await.is_none());
        let stream = stream.into_fd().unwrap_err();
        peer.write_all(b"two").unwrap();
        assert_eq!(&stream.recv().await.unwrap()[..], b"two");
    });
}

#[test]
fn few_buffers_serve_many_connections() {
    const CONNECTIONS: usize = 40;
    let cfg = CoreConfig { recv_bufs: 2, recv_buf_bytes: 512, ..CoreConfig::default() };
    let polls = block_on(&cfg, async {
        let (listener, address) = listen();
        let clients = thread::spawn(move || {
            let peers: Vec<_> =
                (0..CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
            for mut peer in &peers {
                peer.write_all(&pattern(3_000)).unwrap();
            }
            thread::sleep(Duration::from_millis(100));
        });
        let done = Rc::new(Cell::new(0));
        for i in 0..CONNECTIONS {
            let (stream, _) = listener.accept().await.unwrap();
            let done = done.clone();
            spawn(async move {
                let mut all = Vec::new();
                while all.len() < 3_000 {
                    let bytes = stream.recv().await.unwrap();
                    // Held over a pause, so that the others run out of buffers.
                    sleep(Duration::from_micros(100)).await;
                    all.extend_from_slice(&bytes);
                    if i % 8 == 7 {
                        break; // some leave while others wait for their buffer
                    }
                }
                assert!(all == pattern(3_000)[..all.len()]);
                done.set(done.get() + 1);
            });
        }
        let start = Instant::now();
        while done.get() < CONNECTIONS {
            assert!(start.elapsed() < Duration::from_secs(5), "{} of 40 served", done.get());
            sleep(Duration::from_millis(1)).await;
        }
        clients.join().unwrap();
        done.get()
    });
    assert_eq!(polls.unwrap(), CONNECTIONS);
}

#[test]
fn starved_streams_wait_without_spinning_and_survive_the_loss_of_one() {
    let cfg = CoreConfig { recv_bufs: 1, recv_buf_bytes: 64, ..CoreConfig::default() };
    block_on(&cfg, async {
        let (listener, address) = listen();
        let mut peers = Vec::new();
        let mut streams = Vec::new();
        for i in 0..3_u8 {
            peers.push(TcpStream::connect(address).unwrap());
            peers[usize::from(i)].write_all(&[i]).unwrap();
            streams.push(listener.accept().await.unwrap().0);
        }
        let third = streams.pop().unwrap();
        let second = streams.pop().unwrap();
        let held = streams[0].recv().await.unwrap();
        assert!(timeout(Duration::from_millis(5), second.recv()).await.is_none());
        let got = Rc::new(RefCell::new(Vec::new()));
        let sink = got.clone();
        spawn(async move {
            let bytes = third.recv().await.unwrap();
            sink.borrow_mut().extend_from_slice(&bytes);
        });
        sleep(Duration::from_millis(5)).await;
        let cpu = crate::runtime::tests::thread_cpu();
        sleep(Duration::from_millis(50)).await;
        let used = crate::runtime::tests::thread_cpu() - cpu;
        assert!(used < Duration::from_millis(10), "waiting for a buffer took {used:?}");
        drop(held); // wakes the second, which nobody polls any more
        drop(second); // and so must pass the buffer on
        sleep(Duration::from_millis(20)).await;
        assert_eq!(*got.borrow(), [2]);
    })
    .unwrap();
}

#[test]
fn end_of_stream_reset_and_shutdown() {
    run(async {
        let (stream, peer) = pair().await;
        drop(peer);
        assert!(stream.recv().await.unwrap().is_empty());
        assert!(stream.recv().await.unwrap().is_empty(), "the end stays the end");

        let (stream, _peer) = pair().await;
        let stream = Rc::new(stream);
        let other = stream.clone();
        spawn(async move {
            sleep(Duration::from_millis(2)).await;
            other.shutdown().unwrap();
        });
        assert!(stream.recv().await.unwrap().is_empty(), "shutdown ends a waiting receive");
        let mut batch = SendBatch::new();
        batch.push_bytes(b"x");
        let (batch, result) = stream.send(batch).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(batch.is_empty(), "comes back for reuse even after an error");
    });
}

#[test]
fn both_families_bind_the_same_port_and_options_apply() {
    run(async {
        let (v4, address) = listen();
        let v6 = Listener::bind((Ipv6Addr::LOCALHOST, address.port()).into(), 1).unwrap();
        assert!(v6.local_addr().unwrap().is_ipv6());
        let peer4 = TcpStream::connect(address).unwrap();
        let peer6 = TcpStream::connect(v6.local_addr().unwrap()).unwrap();
        let (stream, from) = v4.accept().await.unwrap();
        assert_eq!(from, peer4.local_addr().unwrap());
        assert_eq!(stream.local_addr().unwrap(), address);
        stream.set_congestion("reno").unwrap();
        stream.set_user_timeout(Duration::from_secs(7)).unwrap();
        assert!(stream.set_congestion("no such algorithm").is_err());
        let (_, from) = v6.accept().await.unwrap();
        assert_eq!(from, peer6.local_addr().unwrap());
        let error = Listener::bind(address, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    });
}

#[test]
fn an_address_that_floats_is_listened_at_before_it_is_there() {
    run(async {
        // TEST-NET-1 (RFC 5737) and the prefix of documentation (RFC 3849) are addresses of no host.
        for nowhere in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let nowhere: SocketAddr = nowhere.parse().unwrap();
            let error = Listener::bind(nowhere, 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
            let floating = Listener::bind_floating(nowhere, 1).unwrap();
            assert_eq!(floating.local_addr().unwrap().ip(), nowhere.ip());
        }
        // Two that float share what comes, and one that does not has its port for itself.
        let one = Listener::bind_floating(LOCAL, 1).unwrap();
        let address = one.local_addr().unwrap();
        let other = Listener::bind_floating(address, 1).unwrap();
        let peer = TcpStream::connect(address).unwrap();
        let came = crate::wait::first(one.accept(), other.accept()).await;
        let (stream, from) = match came {
            crate::wait::Either::Left(came) | crate::wait::Either::Right(came) => came.unwrap(),
        };
        assert_eq!((from, stream.local_addr().unwrap()), (peer.local_addr().unwrap(), address));
        let error = Listener::bind(address, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    });
}

#[test]
fn accepts_many_and_closes_what_nobody_took() {
    run(async {
        let (listener, address) = listen();
        assert!(timeout(Duration::from_millis(1), listener.accept()).await.is_none());
        let mut peers: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
        let (first, _) = listener.accept().await.unwrap();
        drop(listener);
        sleep(Duration::from_millis(10)).await;
        let mut byte = [0];
        for peer in &mut peers[1..] {
            peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let closed = match peer.read(&mut byte) {
                Ok(n) => n == 0,
                Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            };
            assert!(closed);
        }
        drop(first);
    });
}

#[test]
fn a_batch_is_reused_without_allocating_and_lets_its_data_go() {
    let used = crate::pool_usage().used_bytes;
    let mut batch = SendBatch::new();
    batch.push_data(Data::from(Buf::zeroed(4096).unwrap()));
    batch.push_data(Data::default());
    batch.push_bytes(b"");
    batch.push_bytes(b"ab");
    batch.push_bytes(b"cd");
    assert_eq!(batch.len_bytes(), 4100);
    batch.seal();
    assert_eq!(batch.iovecs().1, 2, "empty parts vanish, adjacent bytes join");
    batch.advance(4097);
    assert_eq!((batch.iovecs().1, batch.is_sent()), (1, false));
    batch.advance(3);
    assert!(batch.is_sent());
    batch.clear();
    assert!(batch.is_empty());
    assert_eq!(crate::pool_usage().used_bytes, used);
}

#[test]
fn a_unix_socket_carries_the_same_streams() {
    let path = std::env::temp_dir().join(format!("drystone-ring-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let at = path.clone();
    run(async move {
        let listener = UnixListener::bind(&at).unwrap();
        assert_eq!(UnixListener::bind(&at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(timeout(Duration::from_millis(1), listener.accept()).await.is_none());
        let sent = pattern(300_000);
        for _ in 0..2 {
            let (mut peer, copy) = (UnixStream::connect(&at).unwrap(), sent.clone());
            let stream = listener.accept().await.unwrap();
            let client = thread::spawn(move || {
                peer.write_all(&copy).unwrap();
                let mut back = vec![0; copy.len()];
                peer.read_exact(&mut back).unwrap();
                back
            });
            let head = stream.recv().await.unwrap().to_vec();
            let rest = Buf::alloc(sent.len() - head.len()).unwrap();
            let left = rest.len();
            let (rest, result) = stream.recv_exact(rest, 0..left).await;
            result.unwrap();
            let mut batch = SendBatch::new();
            batch.push_bytes(&head);
            batch.push_data(rest.freeze());
            stream.send(batch).await.1.unwrap();
            assert!(client.join().unwrap() == sent);
            assert!(stream.set_nodelay(true).is_err() && stream.peer_addr().is_err());
        }
    });
    std::fs::remove_file(&path).unwrap();
}

/// Fills the way to a peer that does not read, then gives the connection up as `give_up` does; how
/// much the peer finds when it reads on.
fn found_after(give_up: impl FnOnce(Stream) + 'static) -> usize {
    run(async move {
        let (stream, mut peer) = pair().await;
        let mut batch = SendBatch::new();
        batch.push_bytes(&vec![7; 8 << 20]);
        let sent = timeout(Duration::from_millis(300), stream.send(batch)).await;
        assert!(sent.is_none(), "the way is full");
        give_up(stream);
        sleep(Duration::from_millis(50)).await;
        let found = thread::spawn(move || {
            let (mut all, mut bytes) = (0, vec![0; 64 << 10]);
            while let Ok(len @ 1..) = peer.read(&mut bytes) {
                all += len;
            }
            all
        });
        while !found.is_finished() {
            sleep(Duration::from_millis(5)).await;
        }
        found.join().unwrap()
    })
}

#[test]
fn what_was_queued_does_not_leave_after_an_abort() {
    let in_order = found_after(drop);
    let abortive = found_after(|stream| stream.set_abortive(true).unwrap());
    let aborted = found_after(|stream| {
        stream.abort().unwrap();
        // As a task that still holds it would.
        std::mem::forget(stream);
    });
    assert!(abortive < in_order, "{abortive} of {in_order} bytes left after a close");
    assert!(aborted < in_order, "{aborted} of {in_order} bytes left after an abort");
}

#[test]
fn an_abort_ends_what_is_under_way() {
    run(async {
        let (stream, peer) = pair().await;
        let stream = Rc::new(stream);
        let (receiving, sending) = (stream.clone(), stream.clone());
        let ended = Rc::new(Cell::new(0));
        let (by_recv, by_send) = (ended.clone(), ended.clone());
        spawn(async move {
            assert!(receiving.recv().await.is_err(), "it is no end in order");
            by_recv.set(by_recv.get() + 1);
        });
        spawn(async move {
            let mut batch = SendBatch::new();
            batch.push_bytes(&vec![7; 8 << 20]);
            assert!(sending.send(batch).await.1.is_err());
            by_send.set(by_send.get() + 1);
        });
        sleep(Duration::from_millis(100)).await;
        assert_eq!(ended.get(), 0);
        stream.abort().unwrap();
        sleep(Duration::from_millis(100)).await;
        assert_eq!(ended.get(), 2);
        drop(peer);
    });
}
