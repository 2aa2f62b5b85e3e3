//! Real etcd on this machine, one process for each member.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ring::testing::free_ports;
use tempfile::TempDir;

use super::super::{Etcd, EtcdOptions};
use crate::store::suite::wait;
use crate::store::{Selection, Store};

struct Member {
    name: String,
    client: String,
    arguments: Vec<String>,
    process: Option<Child>,
}

/// Whether no thread of a process runs any more (proc_pid_stat(5): behind the name in brackets).
fn are_stopped(tasks: &str) -> bool {
    fs::read_dir(tasks).expect("it is there").all(|task| {
        let stat = fs::read_to_string(task.expect("it is there").path().join("stat"));
        // A thread that has ended meanwhile does not run.
        stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T")))
    })
}

/// A cluster, which ends with the test.
pub(super) struct Cluster {
    members: Vec<Member>,
    dir: TempDir,
}

/// An address that nobody listens on, as far as one can know.
fn free_address() -> String {
    format!("127.0.0.1:{}", free_ports(Ipv4Addr::LOCALHOST.into()))
}

impl Cluster {
    pub(super) fn start(members: usize) -> Self {
        Self::start_with(members, &["--max-txn-ops=4096"])
    }

    pub(super) fn start_with(members: usize, more: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("there is room");
        Self::start_in(dir, members, "http", more)
    }

    pub(super) fn start_in(dir: TempDir, members: usize, scheme: &str, more: &[&str]) -> Self {
        let peers: Vec<String> =
            (0..members).map(|number| format!("m{number}=http://{}", free_address())).collect();
        let members = peers.iter().map(|peer| {
            let (name, peer_url) = peer.split_once('=').expect("it was made so");
            let client = format!("{scheme}://{}", free_address());
            let mut arguments = vec![
                format!("--name={name}"),
                format!("--data-dir={}", dir.path().join(name).display()),
                format!("--listen-peer-urls={peer_url}"),
                format!("--initial-advertise-peer-urls={peer_url}"),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--initial-cluster={}", peers.join(",")),
                "--heartbeat-interval=50".into(),
                "--election-timeout=500".into(),
                "--logger=zap".into(),
                "--log-level=error".into(),
            ];
            arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
            Member { name: name.into(), client, arguments, process: None }
        });
        let mut cluster = Self { members: members.collect(), dir };
        for number in 0..cluster.members.len() {
            cluster.start_again(number);
        }
        if scheme == "http" {
            cluster.await_health();
        }
        cluster
    }

    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }

    pub(super) fn options(&self, namespace: &str) -> EtcdOptions {
        EtcdOptions {
            endpoints: self.endpoints(),
            namespace: namespace.into(),
            tls: None,
            user: None,
        }
    }

    pub(super) fn start_again(&mut self, number: usize) {
        let log = self.log(number);
        let member = &mut self.members[number];
        let log = std::fs::File::options().create(true).append(true).open(log).expect("a log");
        let process = Command::new("etcd")
            .args(&member.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is there: scripts/setup.sh test installs it");
        member.process = Some(process);
    }

    fn log(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("{}.log", self.members[number].name))
    }

    /// As if its power were cut, but for what the page cache holds.
    pub(super) fn kill(&mut self, number: usize) {
        if let Some(mut process) = self.members[number].process.take() {
            process.kill().expect("it is ours");
            process.wait().expect("it is ours");
        }
    }

    fn signal(&self, number: usize, signal: &str) {
        let process = self.members[number].process.as_ref().expect("it runs");
        let done = Command::new("kill").args([signal, &process.id().to_string()]).status();
        assert!(done.expect("kill is there").success());
    }

    /// It neither answers nor closes, from now on: on a busy machine it goes on for a moment after the signal.
    pub(super) fn pause(&self, number: usize) {
        self.signal(number, "-STOP");
        let process = self.members[number].process.as_ref().expect("it runs");
        let tasks = format!("/proc/{}/task", process.id());
        let begin = Instant::now();
        while !are_stopped(&tasks) {
            assert!(begin.elapsed() < Duration::from_secs(10), "it does not stop");
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub(super) fn go_on(&self, number: usize) {
        self.signal(number, "-CONT");
    }

    /// Waits until each member answers by itself what only a majority can say.
    pub(super) fn await_health(&self) {
        let begin = Instant::now();
        for endpoint in self.endpoints() {
            let options = EtcdOptions { endpoints: vec![endpoint], ..self.options("health/") };
            let store = Etcd::new(options).expect("a thread starts");
            while let Err(error) = wait(store.range(Selection::key("x"))) {
                assert!(begin.elapsed() < Duration::from_secs(60), "{error}\n{}", self.logs());
                thread::sleep(Duration::from_millis(50));
            }
        }
    }

    pub(super) fn logs(&self) -> String {
        let logs = (0..self.members.len()).map(|number| std::fs::read_to_string(self.log(number)));
        logs.map(Result::unwrap_or_default).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
        }
    }
}
