//! A server in this process, on a free port of the loopback.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use block::testing::FaultyDisk;
use block::{BlockDevice, FileDisk, FileOptions, RamDisk};
use target::{Access, Config, FileStore, Limits, Server, TargetSpec, Targets, UnitSpec};
use tempfile::TempDir;

use super::{Connection, HeldStore, Login, PATIENCE};

pub(crate) const IQN: &str = "iqn.2026-11.dev.drystone:test";

/// A RAM disk of 16 MiB in blocks of 512 bytes.
pub(crate) fn ram() -> Arc<dyn BlockDevice> {
    disk_of(512, 32 << 10)
}

pub(crate) fn disk_of(block_bytes: u32, blocks: u64) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(block_bytes, blocks).unwrap())
}

/// A RAM disk that fails when told to, and what tells it.
pub(crate) fn faulty() -> (FaultyDisk, Arc<dyn BlockDevice>) {
    let disk = FaultyDisk::new(ram());
    (disk.clone(), Arc::new(disk))
}

/// A file of 16 MiB in blocks of 512 bytes, all of them 7, which is read into memory of the core.
pub(crate) fn file() -> (Arc<dyn BlockDevice>, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    std::fs::write(&path, vec![7; 16 << 20]).unwrap();
    let options = FileOptions {
        block_bytes: 512,
        read_only: false,
        size_bytes: None,
        write_through: false,
        direct: false,
    };
    (Arc::new(FileDisk::open_file(&path, &options).unwrap()), dir)
}

/// These disks as LUN 0, 1, ... of one target.
pub(crate) fn target_of(
    iqn: &str,
    disks: impl IntoIterator<Item = Arc<dyn BlockDevice>>,
) -> TargetSpec {
    let unit = |(index, device)| UnitSpec {
        device,
        referrals: None,
        serial: format!("{}-{index}", iqn.rsplit(':').next().unwrap()),
        write_cache: true,
        read_only: false,
        name: format!("disk {index} of {iqn}"),
    };
    TargetSpec {
        iqn: iqn.to_owned(),
        alias: Some("a test".to_owned()),
        units: disks.into_iter().enumerate().map(unit).collect(),
        access: None,
    }
}

/// Serves these disks as LUN 0, 1, ... of one target on one core. Where it keeps what lasts is set by
/// [`Rig::start`].
pub(crate) fn config(disks: impl IntoIterator<Item = Arc<dyn BlockDevice>>) -> Config {
    Config {
        targets: vec![target_of(IQN, disks)],
        portals: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        access: Access::everyone(),
        cores: 1,
        core: ring::CoreConfig { spin: ring::SpinPolicy::Efficient, ..Default::default() },
        congestion: None,
        store: Arc::new(HeldStore::default()),
        limits: Limits::default(),
        port_group: 1,
        discovery: None,
        redirect: None,
        listener: None,
    }
}

/// A running server. It goes down with the value.
pub(crate) struct Rig {
    server: Option<Server>,
    state: Option<TempDir>,
}

impl Rig {
    pub(crate) fn start(config: Config) -> Self {
        Self::restart(config, tempfile::tempdir().unwrap())
    }

    /// Starts with the state that another server left.
    pub(crate) fn restart(mut config: Config, state: TempDir) -> Self {
        config.store = Arc::new(FileStore::new(state.path()).unwrap());
        Self { server: Some(Server::start(config).unwrap()), state: Some(state) }
    }

    /// Starts with what the configuration keeps its state in.
    pub(crate) fn with_store(config: Config) -> Self {
        Self { server: Some(Server::start(config).unwrap()), state: None }
    }

    /// One RAM disk on one core.
    pub(crate) fn ram() -> Self {
        Self::start(config([ram()]))
    }

    /// One RAM disk on two cores.
    pub(crate) fn two_cores() -> Self {
        let mut config = config([ram()]);
        config.cores = 2;
        Self::start(config)
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn portal(&self) -> SocketAddr {
        self.server().portals()[0]
    }

    pub(crate) fn login(&self) -> Connection {
        Login::new("host").connect(self.portal()).unwrap()
    }

    /// Logged in as `name`, with the unit attention of a new nexus taken.
    pub(crate) fn ready(&self, name: &str) -> Connection {
        let mut connection = Login::new(name).connect(self.portal()).unwrap();
        connection.take_attentions(0);
        connection
    }

    /// Stops cleanly; the state is where the configuration keeps it.
    pub(crate) fn stop_with_store(mut self) {
        self.server.take().unwrap().shutdown(Duration::ZERO).unwrap();
    }

    /// Stops cleanly and gives the state directory back.
    pub(crate) fn stop(mut self, grace: Duration) -> (Result<(), target::ShutdownError>, TempDir) {
        let result = self.server.take().unwrap().shutdown(grace);
        (result, self.state.take().unwrap())
    }
}

/// Runs a change of the targets on the first core, and waits for it.
pub(crate) fn on_core<T, Fut>(
    server: &Server,
    work: impl FnOnce(Targets) -> Fut + Send + 'static,
) -> T
where
    T: Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let targets = server.targets();
    let (done, answer) = std::sync::mpsc::channel();
    server.first_core().run(move || {
        ring::spawn(async move {
            done.send(work(targets).await).unwrap();
        });
    });
    // Disks that do not answer have ten seconds at the end of a target.
    answer.recv_timeout(2 * PATIENCE).unwrap()
}

/// Bytes of which no two blocks nearby are equal.
pub(crate) fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

/// Waits for something that happens on another thread.
#[track_caller]
pub(crate) fn wait_until(what: &str, happened: impl Fn() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "this never happened: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
