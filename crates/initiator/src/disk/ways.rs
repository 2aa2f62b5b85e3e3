//! What the disks of one host share when they plan their sessions: which ways lead somewhere, and how
//! many sessions each port carries already.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::login::answer_within;

/// From an address of this host to one of a portal.
pub(super) type Way = (IpAddr, SocketAddr);

/// The ends of a session: an address of this host, and the host and port of a portal.
pub(super) type SessionEnds = (IpAddr, String, u16);

/// A way that does not answer within this time is none.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// For how long what one disk has found out spares the others the same question. Shorter than the
/// pause after a look that found trouble: a disk that looks again wants to know.
const FRESH: Duration = Duration::from_secs(4);

/// How often a disk looks whether another one, which is asking, has its answer.
const TURN_LOOK: Duration = Duration::from_millis(20);

/// Shared by all disks that are attached with clones of it; those of one process should be.
#[derive(Debug, Clone, Default)]
pub struct HostWays(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    ways: HashMap<Way, Known>,
    /// By the number of the disk.
    sessions: HashMap<u64, Vec<SessionEnds>>,
    disks: u64,
}

#[derive(Debug, Clone, Copy)]
enum Known {
    /// Somebody asks.
    Asked {
        since: Instant,
    },
    Answered {
        at: Instant,
        is_open: bool,
    },
}

impl HostWays {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which of `ways` answer, in their order: all are asked at once, those alone of which no disk
    /// knows, and none twice at a time.
    pub(super) async fn answer(&self, ways: &[Way]) -> Vec<bool> {
        loop {
            let (mine, is_complete) = self.lock().take_turn(ways);
            if !mine.is_empty() {
                let open = answer_within(&mine, PROBE_TIME).await;
                self.lock().note(&mine, &open);
            } else if is_complete {
                let inner = self.lock();
                return ways.iter().map(|way| inner.is_open(way)).collect();
            } else {
                ring::sleep(TURN_LOOK).await;
            }
        }
    }

    /// A place for the sessions of one more disk.
    pub(super) fn enter(&self) -> Share {
        let mut inner = self.lock();
        inner.disks += 1;
        Share { disk: inner.disks, ways: self.clone() }
    }
}

impl Inner {
    /// Those of `ways` that the caller is to ask now, and whether all others are known.
    fn take_turn(&mut self, ways: &[Way]) -> (Vec<Way>, bool) {
        let now = Instant::now();
        // Whoever asks and does not come back has been given up in the middle.
        let given_up = PROBE_TIME * 2;
        self.ways.retain(|_, known| match *known {
            Known::Asked { since } => now.duration_since(since) < given_up,
            Known::Answered { at, .. } => now.duration_since(at) < FRESH,
        });
        let mine: Vec<Way> =
            ways.iter().filter(|way| !self.ways.contains_key(way)).copied().collect();
        self.ways.extend(mine.iter().map(|&way| (way, Known::Asked { since: now })));
        let is_known = |way| matches!(self.ways.get(way), Some(Known::Answered { .. }));
        (mine, ways.iter().all(is_known))
    }

    fn note(&mut self, ways: &[Way], open: &[bool]) {
        let at = Instant::now();
        let known = ways.iter().zip(open);
        self.ways.extend(known.map(|(&way, &is_open)| (way, Known::Answered { at, is_open })));
    }

    fn is_open(&self, way: &Way) -> bool {
        matches!(self.ways.get(way), Some(Known::Answered { is_open: true, .. }))
    }
}

/// The sessions of one disk, for as long as it is attached.
#[derive(Debug)]
pub(super) struct Share {
    disk: u64,
    ways: HostWays,
}

impl Share {
    /// Plans the sessions of the disk, given those of the others. One disk after the other: if all of
    /// a host saw the same load, all of them would move to the same port.
    pub(super) fn plan<T>(
        &self,
        plan: impl FnOnce(&[SessionEnds]) -> T,
        ends: impl FnOnce(&T) -> Vec<SessionEnds>,
    ) -> T {
        let mut inner = self.ways.lock();
        let others = inner.sessions.iter().filter(|(disk, _)| **disk != self.disk);
        let others: Vec<SessionEnds> = others.flat_map(|(_, ends)| ends).cloned().collect();
        let planned = plan(&others);
        inner.sessions.insert(self.disk, ends(&planned));
        planned
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.ways.lock().sessions.remove(&self.disk);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;

    use ring::CoreConfig;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

    use super::*;

    /// A portal that neither answers nor refuses: nobody accepts, and its queue is full.
    pub(in crate::disk) struct Silent {
        pub(in crate::disk) address: SocketAddr,
        _sockets: Vec<OwnedFd>,
    }

    impl Silent {
        pub(in crate::disk) fn new() -> Self {
            let socket = || {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap()
            };
            let listener = socket();
            bind(&listener, &SocketAddr::from((HOST, 0))).unwrap();
            listen(&listener, 0).unwrap();
            let address = rustix::net::getsockname(&listener).unwrap().try_into().unwrap();
            let mut sockets = vec![listener];
            for _ in 0..4 {
                let filler = socket();
                let _ = connect(&filler, &address);
                sockets.push(filler);
            }
            Self { address, _sockets: sockets }
        }
    }

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn answers(ways: &[Way], time: Duration) -> Vec<bool> {
        let ways = ways.to_vec();
        ring::block_on(&CoreConfig::default(), async move { answer_within(&ways, time).await })
            .unwrap()
    }

    #[test]
    fn what_one_has_asked_spares_the_others_the_question() {
        let listener = TcpListener::bind((HOST, 0)).unwrap();
        let open = listener.local_addr().unwrap();
        let closed = TcpListener::bind((HOST, 0)).unwrap().local_addr().unwrap();
        let ways = [(HOST, open), (HOST, closed)];
        let host = HostWays::default();
        let (mine, is_complete) = host.lock().take_turn(&ways);
        assert_eq!((mine.as_slice(), is_complete), (&ways[..], false));
        assert_eq!(host.lock().take_turn(&ways), (vec![], false), "another one waits");
        let answers = answers(&mine, PROBE_TIME);
        assert_eq!(answers, [true, false]);
        host.lock().note(&mine, &answers);
        assert_eq!(host.lock().take_turn(&ways), (vec![], true));
        assert!(host.lock().is_open(&ways[0]) && !host.lock().is_open(&ways[1]));
    }

    #[test]
    fn ways_that_answer_nothing_are_waited_for_once() {
        let silent = Silent::new();
        let ways = [(HOST, silent.address); 120];
        let (began, time) = (Instant::now(), Duration::from_millis(300));
        assert_eq!(answers(&ways, time), [false; 120]);
        assert!(began.elapsed() >= time, "it does not answer, nor refuse");
        assert!(began.elapsed() < time * 5, "{:?}", began.elapsed());
    }

    #[test]
    fn each_disk_sees_the_sessions_of_the_others() {
        let (host, ends) = (HostWays::default(), |n: u16| vec![(HOST, "a".to_owned(), n)]);
        let (one, two) = (host.enter(), host.enter());
        let seen = |share: &Share, n: u16| {
            let mut seen = Vec::new();
            share.plan(|others| seen = others.to_vec(), |()| ends(n));
            seen
        };
        assert_eq!(seen(&one, 1), []);
        assert_eq!(seen(&two, 2), ends(1));
        assert_eq!(seen(&one, 3), ends(2));
        drop(one);
        assert_eq!(seen(&two, 2), []);
    }
}
