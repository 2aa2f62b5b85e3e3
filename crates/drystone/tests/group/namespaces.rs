//! Hosts of a test in network namespaces behind one bridge, and a look at who of them has an address.

use std::fs::{self, File};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::common::ip::ip;

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Looks that are further apart say nothing of the time between them.
const SPAN_GAP: Duration = Duration::from_millis(500);

/// The namespaces; removed with the value.
#[derive(Debug)]
pub(crate) struct Namespaces {
    prefix: String,
    /// Each with its number.
    places: Vec<(String, u8)>,
}

/// The place of the bridges.
const SWITCH: &str = "switch";

/// The number of the network of hosts.
pub(crate) const HOSTS: u8 = 93;
/// That of the network of members. Each has a bridge of its own.
pub(crate) const MEMBERS: u8 = 94;

impl Namespaces {
    /// Each place is at 10.NETWORK.0.NUMBER/24 and fdNETWORK::NUMBER/64, in both networks. `None`, with a printed reason,
    /// where this machine allows no namespaces.
    pub(crate) fn new(places: &[(&str, u8)]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let made = Self {
            prefix: format!("dsa{}-{count}-", std::process::id()),
            places: places.iter().map(|(place, number)| ((*place).to_owned(), *number)).collect(),
        };
        match made.build() {
            Ok(()) => Some(made),
            Err(reason) => {
                assert!(
                    !rustix::process::geteuid().is_root() || reason.contains("not permitted"),
                    "{reason}"
                );
                eprintln!("skipped: network namespaces cannot be made here: {reason}");
                None
            }
        }
    }

    fn name(&self, place: &str) -> String {
        format!("{}{place}", self.prefix)
    }

    fn build(&self) -> Result<(), String> {
        for place in self.names() {
            ip(&format!("netns add {place}"))?;
            ip(&format!("-n {place} link set lo up"))?;
        }
        for network in [HOSTS, MEMBERS] {
            self.join_all(network)?;
        }
        Ok(())
    }

    fn join_all(&self, network: u8) -> Result<(), String> {
        let (switch, bridge) = (self.name(SWITCH), format!("br{network}"));
        ip(&format!("-n {switch} link add {bridge} type bridge"))?;
        ip(&format!("-n {switch} link set {bridge} up"))?;
        for (place, number) in &self.places {
            let (end, own) = (self.name(place), format!("net{network}"));
            let port = port(network, *number);
            ip(&format!("-n {switch} link add {port} type veth peer name {own} netns {end}"))?;
            ip(&format!("-n {switch} link set {port} master {bridge} up"))?;
            ip(&format!("-n {end} addr add 10.{network}.0.{number}/24 dev {own}"))?;
            // Nobody else has it: it is there at once.
            ip(&format!("-n {end} addr add fd{network}::{number}/64 dev {own} nodad"))?;
            ip(&format!("-n {end} link set {own} up"))?;
        }
        Ok(())
    }

    fn names(&self) -> impl Iterator<Item = String> {
        let places = self.places.iter().map(|(place, _)| place.as_str());
        places.chain([SWITCH]).map(|place| self.name(place))
    }

    /// The cable of a place to that network has come off, or is there again.
    pub(crate) fn cable(&self, place: &str, network: u8, is_there: bool) {
        let found = self.places.iter().find(|(name, _)| name == place);
        let (_, number) = found.expect("a place");
        let (port, state) = (port(network, *number), if is_there { "up" } else { "down" });
        ip(&format!("-n {} link set {port} {state}", self.name(SWITCH))).expect("a port");
    }

    /// The same command at that place.
    pub(crate) fn inside(&self, place: &str, command: &Command) -> Command {
        let mut there = Command::new("ip");
        there.args(["netns", "exec", &self.name(place)]).arg(command.get_program());
        there.args(command.get_args()).stdin(Stdio::null());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => there.env(name, value),
                None => there.env_remove(name),
            };
        }
        there
    }

    /// Does something on a thread that is at that place.
    pub(crate) fn run<T: Send>(&self, place: &str, work: impl FnOnce() -> T + Send) -> T {
        let file = self.open(place);
        let worked = thread::scope(|scope| {
            let there = scope.spawn(move || {
                enter(&file);
                work()
            });
            there.join()
        });
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn open(&self, place: &str) -> File {
        let path = format!("/run/netns/{}", self.name(place));
        File::open(path).expect("ip has made it")
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for place in self.names() {
            // Those that were not made cannot be removed.
            let _ = ip(&format!("netns del {place}"));
        }
    }
}

/// The end of a cable at the bridge.
fn port(network: u8, number: u8) -> String {
    format!("port{network}-{number}")
}

/// This thread is there from now on.
fn enter(file: &File) {
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .expect("the test may enter what it has made");
}

/// When an address was seen somewhere.
#[derive(Debug, Default)]
struct Seen {
    /// From the first look to the last one of those between which none has missed it.
    spans: Vec<(Instant, Instant)>,
    /// It was there at the last look.
    is_there: bool,
}

/// Looks all the time at which places have an address.
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    places: Vec<(String, Arc<Mutex<Seen>>, JoinHandle<()>)>,
}

impl Watch {
    pub(crate) fn begin(net: &Namespaces, places: &[&str], address: IpAddr) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let watched = places.iter().map(|place| {
            let (file, seen) = (net.open(place), Arc::new(Mutex::new(Seen::default())));
            let (is_over, notes) = (ended.clone(), seen.clone());
            let thread = thread::spawn(move || {
                enter(&file);
                while !is_over.load(Ordering::Relaxed) {
                    look(address, &notes);
                    thread::sleep(LOOK_PAUSE);
                }
            });
            ((*place).to_owned(), seen, thread)
        });
        let places = watched.collect();
        Self { ended, places }
    }

    /// Who had it at the last look.
    pub(crate) fn holders(&self) -> Vec<&str> {
        let recent =
            |seen: &Mutex<Seen>| seen.lock().unwrap_or_else(PoisonError::into_inner).is_there;
        let having = self.places.iter().filter(|(_, seen, _)| recent(seen));
        having.map(|(place, _, _)| place.as_str()).collect()
    }

    /// Ends it, and fails if two have had it at one time, or it has not moved so often.
    #[track_caller]
    pub(crate) fn end(self, moves: usize) {
        self.ended.store(true, Ordering::Relaxed);
        let mut all: Vec<(Instant, Instant, String)> = Vec::new();
        for (place, seen, thread) in self.places {
            thread.join().expect("it looks without an error");
            let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(seen.spans.iter().map(|(from, to)| (*from, *to, place.clone())));
        }
        all.sort_unstable();
        assert!(all.len() > moves, "it has moved {moves} times: {all:?}");
        for pair in all.windows(2) {
            let [(_, end, one), (begin, _, other)] = pair else { continue };
            assert!(end < begin, "{one} and {other} had it at one time: {all:?}");
            eprintln!("{other} had it {:.1?} after {one}", *begin - *end);
        }
    }
}

/// Whether this thread's network has the address, by what the kernel tells of it.
fn is_here(address: IpAddr) -> bool {
    let (table, wanted) = match address {
        IpAddr::V4(v4) => ("fib_trie", format!("|-- {v4}")),
        IpAddr::V6(v6) => ("if_inet6", format!("{:032x} ", v6.to_bits())),
    };
    let table = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
    table.expect("it is there").lines().any(|line| {
        let line = line.trim_start();
        line == wanted || (address.is_ipv6() && line.starts_with(&wanted))
    })
}

/// One look.
fn look(address: IpAddr, seen: &Mutex<Seen>) {
    let before = Instant::now();
    let is_there = is_here(address);
    let after = Instant::now();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let was_there = seen.is_there;
    seen.is_there = is_there;
    // Between looks that are far apart it may have been away.
    let last = seen.spans.last_mut().filter(|(_, to)| was_there && after - *to < SPAN_GAP);
    match last {
        Some((_, to)) if is_there => *to = before,
        // At some moment between the two it was there: no other span may reach over both.
        None if is_there => seen.spans.push((after, before)),
        Some(_) | None => {}
    }
}
