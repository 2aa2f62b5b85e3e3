//! Targets of experiments: processes of this program that serve until they are dropped.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::ExperimentError;
use super::bed::{Bed, POLL, create, start, tool};

/// How long a target may take until it serves.
const SERVE_MAX: Duration = Duration::from_secs(20);
/// The target of `drystone export`.
pub(super) const IQN: &str = "iqn.2026-11.dev.drystone:lab-experiment";
/// The control socket of `drystone up`, in its working directory: paths of sockets are short.
const SOCKET: &str = "member.sock";

/// A process that does not outlive this value.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that serves.
pub(super) struct Server {
    process: Process,
    /// The portals as it tells them.
    pub(super) portals: Vec<String>,
    /// What the names of its targets begin with.
    prefix: String,
}

/// A `drystone export`, to be.
pub(super) struct Export<'a> {
    /// What it serves, by LUN.
    pub(super) disks: Vec<String>,
    /// Where.
    pub(super) portals: Vec<String>,
    /// By how many cores.
    pub(super) cores: u32,
    /// In which namespace.
    pub(super) namespace: Option<&'a str>,
    /// Further options.
    pub(super) options: Vec<String>,
}

impl<'a> Export<'a> {
    /// One disk at any port of this machine, by one core.
    pub(super) fn of(disk: &str) -> Self {
        let portals = vec!["127.0.0.1:0".to_owned()];
        let disks = vec![disk.to_owned()];
        Self { disks, portals, cores: 1, namespace: None, options: Vec::new() }
    }

    pub(super) fn cores(self, cores: u32) -> Self {
        Self { cores, ..self }
    }

    /// The target listens when this returns.
    pub(super) fn serve(&self, bed: &Bed<'_>) -> Result<Server, ExperimentError> {
        let mut command = bed.command(self.namespace);
        command.args(["--log", "warn", "export"]).args(&self.disks);
        command.args(["--iqn", IQN, "--cores", &self.cores.to_string()]);
        command.args(self.portals.iter().flat_map(|portal| ["--portal", portal]));
        command.arg("--state-dir").arg(bed.path("target-state")).args(&self.options);
        serve(bed, &mut command, self.portals.len())
    }
}

/// A `drystone up` with an array of its own, whose volumes are all alike.
pub(super) struct Member<'a> {
    bed: &'a Bed<'a>,
    directory: PathBuf,
    pub(super) server: Server,
}

impl<'a> Member<'a> {
    /// Makes an array of so many `disks` that are all alike, with nothing on it.
    pub(super) fn start(
        bed: &'a Bed<'a>,
        name: &str,
        (disks, disk): (usize, &str),
        raid: &str,
    ) -> Result<Self, ExperimentError> {
        bed.must_go_on()?;
        let directory = bed.path(name);
        let failed = |source| ExperimentError::File { path: directory.clone(), source };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let mut command = bed.command(None);
        command.current_dir(&directory).args(["--log", "warn", "up", "--data", "data"]);
        command.args(["--socket", SOCKET, "--portal", "127.0.0.1:0", "--raid", raid]);
        command.args(std::iter::repeat_n(["--disk", disk], disks).flatten());
        let server = serve(bed, &mut command, 1)?;
        Ok(Self { bed, directory, server })
    }

    /// Makes a volume.
    pub(super) fn create(&self, name: &str, size: &str) -> Result<(), ExperimentError> {
        let program = self.bed.options.program.display().to_string();
        tool(&program, &["volume", "create", name, size, "--socket", SOCKET], Some(&self.directory))
    }

    /// All volumes whose names fit.
    pub(super) fn url(&self, pattern: &str) -> String {
        format!("iscsi://{}/{}:{pattern}", self.server.portals[0], self.server.prefix)
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // Its disks were memory; one that cannot be removed is in the directory of the experiment.
        let _ = std::fs::remove_dir_all(self.directory.join("data"));
        let _ = std::fs::remove_file(self.directory.join(SOCKET));
    }
}

impl Server {
    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// A LUN of the target of `drystone export`.
    pub(super) fn url(&self, lun: usize) -> String {
        format!("iscsi://{}/{IQN}/{lun}", self.portals[0])
    }
}

/// Starts a target and waits until it has told so many portals.
fn serve(bed: &Bed<'_>, command: &mut Command, portals: usize) -> Result<Server, ExperimentError> {
    let log = bed.path("target.log");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(create(&log)?);
    let mut process = Process(start(command)?);
    let lines = BufReader::new(process.0.stdout.take().expect("it was asked for"));
    let (teller, told) = mpsc::channel();
    thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if let Some(portal) = line.strip_prefix("portal address=") {
                // Nobody listens any more once all portals are known.
                let _ = teller.send(portal.to_owned());
            }
        }
    });
    let deadline = Instant::now() + SERVE_MAX;
    let mut server = Server { process, portals: Vec::new(), prefix: String::new() };
    while server.portals.len() < portals {
        bed.must_go_on()?;
        match told.recv_timeout(POLL) {
            Ok(line) => server.hear(&line),
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
            Err(_) => return Err(not_serving(&log)),
        }
    }
    Ok(server)
}

fn not_serving(log: &Path) -> ExperimentError {
    ExperimentError::NotServing(SERVE_MAX, log.to_owned())
}

impl Server {
    /// What stands behind `portal address=`.
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        self.portals.extend(words.next().map(str::to_owned));
        if let Some(prefix) = words.find_map(|word| word.strip_prefix("prefix=")) {
            prefix.clone_into(&mut self.prefix);
        }
    }
}
