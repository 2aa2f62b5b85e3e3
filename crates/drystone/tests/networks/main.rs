//! Attachments between real networks that are cut and healed, with verified load, real sockets and
//! the real binary. `DRYSTONE_NETWORK_ROUNDS=N` repeats the long one N times (`make soak`).

#[path = "../common/mod.rs"]
mod common;
mod load;
mod nbd;
mod net;

use common::{Export, drystone};
use load::{Ledger, Load, Slowest};
use net::{Networks, Place};
use rustix::process::{Pid, Signal, kill_process};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What a user is promised with default options: the longest that a silent cut of one of two networks
/// holds a read or a write up.
const READ_BAR: Duration = Duration::from_secs(2);
const WRITE_BAR: Duration = Duration::from_secs(4);

/// What a path that is not touched may take on a busy machine.
const UNDISTURBED: Duration = Duration::from_secs(1);

/// How long until a network that is whole again carries its part.
const FOUND_AGAIN: Duration = Duration::from_secs(30);

/// One test at a time: they measure.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A running attachment with its NBD socket, killed with its value.
struct Attachment {
    child: Child,
    socket: PathBuf,
    log: Arc<Mutex<String>>,
}

/// A target with a portal in each network.
struct Site {
    networks: Networks,
    export: Export,
    dir: TempDir,
}

impl Site {
    fn new() -> Option<Site> {
        let networks = Networks::new()?;
        let export = Export::start_with(
            &["ram:16M"],
            &["--portal", "10.91.1.1:3260", "--portal", "10.91.2.1:3260"],
            |command| networks.put(Place::Target, command),
        );
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        Some(Site { networks, export, dir })
    }

    /// Attaches at `place` by the portal in `network`.
    fn attach(&self, place: Place, network: usize, options: &[&str]) -> Attachment {
        let run = self.dir.path().join(format!("{place:?}"));
        let socket = self.dir.path().join(format!("{place:?}.sock"));
        // One that was killed leaves its socket.
        let _ = std::fs::remove_file(&socket);
        let url = self.export.url_by(network - 1, 0);
        let mut command = drystone(&["attach", &url, "--nbd"]);
        command.arg(format!("unix:{}", socket.display())).arg("--runtime-dir").arg(run);
        command.args(["--initiator", &format!("iqn.2026-11.com.example:{}", lower(place))]);
        command.args(options);
        self.networks.put(place, &mut command);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("drystone can be started");
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, lines) = (child.stderr.take().expect("it is a pipe"), log.clone());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = lines.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut text = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        stdout.read_line(&mut text).expect("a pipe can be read");
        let attachment = Attachment { child, socket, log };
        assert!(text.starts_with("attached "), "{text:?}: {}", attachment.log());
        attachment
    }

    /// Waits until a path of the attachment at `place` leads to `portal` and works.
    fn await_path(&self, place: Place, portal: &str) {
        let run = self.dir.path().join(format!("{place:?}"));
        let begun = Instant::now();
        loop {
            let listed = drystone(&["attached", "--runtime-dir"]).arg(&run).output();
            let listed = listed.expect("drystone can be started").stdout;
            let listed = String::from_utf8_lossy(&listed);
            let is_there = |line: &str| line.contains(portal) && !line.contains("failed");
            if listed.lines().any(is_there) {
                eprintln!("a path to {portal} again after {:.1?}", begun.elapsed());
                return;
            }
            assert!(begun.elapsed() < FOUND_AGAIN, "no path to {portal} works:\n{listed}");
            thread::sleep(secs(0.2));
        }
    }
}

fn lower(place: Place) -> String {
    format!("{place:?}").to_lowercase()
}

impl Attachment {
    fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the child is there");
    }

    fn kill(mut self) {
        self.signal(Signal::KILL);
        self.child.wait().expect("a killed child ends");
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Both fail on a child that was waited for, and only on that.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- log of {} ---\n{}---", self.socket.display(), self.log());
        }
    }
}

/// Cuts a network under load, with a second host on the other one; what it cost.
fn cut_once(options: &[&str], seconds: f64) -> Option<(Slowest, Slowest)> {
    let site = Site::new()?;
    let host = site.attach(Place::Host, 1, options);
    let other = site.attach(Place::Other, 2, &[]);
    let (ledger, others) = (Ledger::new(0), Ledger::new(2048));
    let load = Load::start(&ledger, &host.socket, false);
    let beside = Load::start(&others, &other.socket, false);
    thread::sleep(secs(2.0));
    site.networks.cut(1);
    thread::sleep(secs(seconds));
    let slowest = load.end();
    let undisturbed = beside.end();
    eprintln!("{options:?}: {slowest:?}, a second host {undisturbed:?}");
    for attachment in [&host, &other] {
        let log = attachment.log();
        assert!(!log.contains("resetting"), "no unit is reset for this: {log}");
    }
    assert!(
        slowest.read <= READ_BAR && slowest.write <= WRITE_BAR,
        "{slowest:?} with {options:?}:\n{}",
        host.log()
    );
    assert!(
        undisturbed.read < UNDISTURBED && undisturbed.write < UNDISTURBED,
        "a second host: {undisturbed:?}"
    );
    ledger.verify(&host.socket);
    site.networks.heal(1);
    if options.is_empty() {
        site.await_path(Place::Host, "10.91.1.1:3260");
    }
    ledger.verify(&host.socket);
    Some((slowest, undisturbed))
}

#[test]
fn one_of_two_networks_is_cut_under_one_session() {
    let _alone = alone();
    cut_once(&["--sessions", "1"], 7.0);
}

#[test]
fn one_of_two_networks_is_cut_under_two_sessions() {
    let _alone = alone();
    cut_once(&["--sessions", "2"], 7.0);
}

#[test]
fn one_of_two_networks_is_cut_under_six_sessions() {
    let _alone = alone();
    cut_once(&["--sessions", "6"], 7.0);
}

/// The planner lets go of what leads nowhere, and finds it again soon after it is whole.
#[test]
fn one_of_two_networks_is_cut_under_planned_sessions() {
    let _alone = alone();
    cut_once(&[], 7.0);
}

/// What the killed one had under way must not come back over what its successor wrote: neither from
/// this host's sockets when the network is whole again, nor from those of the target.
fn kill_and_attach_again(site: &Site, stop_the_target: bool) {
    site.networks.heal(1);
    let ledger = Ledger::new(0);
    let first = site.attach(Place::Host, 1, &["--sessions", "2"]);
    ledger.write_all(&first.socket);
    let load = Load::start(&ledger, &first.socket, true);
    thread::sleep(secs(0.5));
    if stop_the_target {
        site.export.signal(Signal::STOP);
    }
    site.networks.cut(1);
    thread::sleep(secs(0.3));
    first.kill();
    load.end();
    site.export.signal(Signal::CONT);
    let again = site.attach(Place::Host, 2, &["--sessions", "2"]);
    ledger.write_all(&again.socket);
    site.networks.heal(1);
    thread::sleep(secs(3.0));
    ledger.verify(&again.socket);
    again.signal(Signal::TERM);
}

#[test]
fn writes_of_a_killed_attachment_do_not_come_back() {
    let _alone = alone();
    let Some(site) = Site::new() else { return };
    kill_and_attach_again(&site, false);
}

/// Everything in turn: cuts that heal at any moment, a target that stands still, kills.
#[test]
fn networks_come_and_go() {
    let _alone = alone();
    let rounds = env::var("DRYSTONE_NETWORK_ROUNDS")
        .map_or(1, |text| text.parse().expect("DRYSTONE_NETWORK_ROUNDS is a number"));
    let Some(site) = Site::new() else { return };
    let mut random = fastrand::Rng::new();
    for round in 0..rounds {
        let sessions = ["1", "2", "6"][round % 3];
        let host = site.attach(Place::Host, 1 + round % 2, &["--sessions", sessions]);
        let ledger = Ledger::new(0);
        ledger.write_all(&host.socket);
        let load = Load::start(&ledger, &host.socket, false);
        thread::sleep(secs(0.5));
        let before = ledger.acknowledged();
        for network in [1, 2] {
            site.networks.cut(network);
            thread::sleep(secs(0.2 + 4.0 * random.f64()));
            site.networks.heal(network);
            thread::sleep(secs(2.0 * random.f64()));
        }
        site.export.signal(Signal::STOP);
        thread::sleep(secs(0.5 + 3.0 * random.f64()));
        site.export.signal(Signal::CONT);
        thread::sleep(secs(1.5));
        let slowest = load.end();
        eprintln!("round {round}: {sessions} sessions, {slowest:?}");
        assert!(ledger.acknowledged() > before, "it went on");
        ledger.verify(&host.socket);
        nbd::Nbd::open(&host.socket).and_then(|mut nbd| nbd.flush()).expect("it is flushed");
        drop(host);
        kill_and_attach_again(&site, round % 2 == 1);
    }
}
