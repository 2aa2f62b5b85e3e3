//! A member as tests have it: real disks in files, a real server, its array and its settings.

mod host;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use array::Level;
use array::api::{Cache, VolumeSpec};
use group::settings::Given;
use target::{Access, AccessRule, Config, Limits, Server};

use crate::data::remembered::Remembered;
use crate::events::{EventLog, Kind};
use crate::life::Remote;
use crate::opening::Make;
use crate::request::{Request, VolumeRequest};
use crate::running::{Asker, Member, Wish};
use crate::{Answer, ArrayUnits, Life, Logs, Opening, RequestError, Unlisted};

pub(crate) use host::Host;

/// Bytes of each of its disks.
const DISK_BYTES: u64 = 256 << 20;

/// Nobody waits for what takes long.
pub(crate) struct Silent;

impl Asker for Silent {
    fn tell(&self, _jobs: Vec<array::api::JobInfo>) -> impl Future<Output = bool> {
        std::future::ready(true)
    }

    fn wish(&self) -> Wish {
        Wish::GoOn
    }
}

/// A member that runs. Dropping it ends it as the end of the process would: nothing is closed.
pub(crate) struct Rig {
    life: Life,
    server: Option<Server>,
    logs: Logs,
    units: Arc<ArrayUnits>,
}

impl Rig {
    /// Starts one whose two disks lie in `home`, and which keeps in `data` what does not lie on them.
    pub(crate) fn start(home: &Path, data: &Path) -> Self {
        Self::start_as(home, data, None)
    }

    /// The same, with targets whose names begin so.
    pub(crate) fn start_as(home: &Path, data: &Path, prefix: Option<&str>) -> Self {
        Self::begin(home, data, prefix, (Access::nobody(), Unlisted::Nobody), Given::default())
    }

    /// The same, of a member that is started with these secrets of CHAP.
    pub(crate) fn start_given(home: &Path, data: &Path, given: Given) -> Self {
        Self::begin(home, data, None, (Access::nobody(), Unlisted::Nobody), given)
    }

    /// The same, where volumes without an access list are for everybody. Hosts can log in, at the address that is
    /// returned.
    pub(crate) fn start_for_all(
        home: &Path,
        data: &Path,
        prefix: Option<&str>,
    ) -> (Self, SocketAddr) {
        let everybody = Access { rules: vec![AccessRule::anyone()], ..Access::nobody() };
        let mut rig =
            Self::begin(home, data, prefix, (everybody, Unlisted::Everybody), Given::default());
        let server = rig.server.as_mut().expect("it runs");
        server.listen().expect("a portal");
        let portal = server.portals()[0];
        (rig, portal)
    }

    fn begin(
        home: &Path,
        data: &Path,
        prefix: Option<&str>,
        (access, unlisted): (Access, Unlisted),
        given: Given,
    ) -> Self {
        std::fs::create_dir_all(data).expect("a directory");
        let units = Arc::new(ArrayUnits::default());
        let server = Server::launch(config(units.clone(), access)).expect("a server");
        let logs = Logs::open(data).expect("logs");
        let mut opening = opening(home, (data, units.clone()), logs.events.clone());
        (opening.prefix, opening.unlisted) = (prefix.map(str::to_owned), unlisted);
        opening.given = given;
        let life = Life::start(&server, opening).expect("an array");
        Self { life, server: Some(server), logs, units }
    }

    /// Looks after disks, settings and schedules from now on.
    pub(crate) fn watch(&self) {
        self.life.watch().expect("the member is there");
    }

    /// The texts of events of this kind, oldest first.
    pub(crate) fn told(&self, kind: Kind) -> Vec<String> {
        let all = self.logs.events.after(0).into_iter();
        let told = all.filter(|record| record.what.kind == kind.word());
        told.map(|record| record.what.text.clone()).collect()
    }

    /// Does something with the member on its core.
    pub(crate) fn with<T: Send + 'static, Work: Future<Output = T> + 'static>(
        &self,
        work: impl FnOnce(Rc<Member>) -> Work + Send + 'static,
    ) -> T {
        self.life.with(work).expect("the member is there")
    }

    /// The way to it from any thread.
    pub(crate) fn remote(&self) -> Remote {
        self.life.remote()
    }

    /// What its server keeps records of units in.
    pub(crate) fn units(&self) -> Arc<ArrayUnits> {
        self.units.clone()
    }

    /// Asks the member for something.
    pub(crate) fn ask(&self, request: Request) -> Result<Answer, RequestError> {
        self.with(async move |member| member.answer(request, &Silent).await)
    }

    /// Makes a volume of this name.
    pub(crate) fn create(&self, name: &str) {
        self.ask(Request::Volume(VolumeRequest::Create(volume(name)))).expect("a volume");
    }

    /// Closes all in order.
    pub(crate) fn stop(mut self) {
        self.life.end().expect("the array closes");
        self.server.take();
        self.logs.end();
    }
}

/// A small volume, as the tests have it made.
pub(crate) fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        size_bytes: 16 << 20,
        level: None,
        thick: false,
        block_bytes: 512,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    }
}

fn config(units: Arc<ArrayUnits>, access: Access) -> Config {
    Config {
        targets: Vec::new(),
        portals: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        port_group: 1,
        access,
        discovery: None,
        cores: 1,
        core: ring::CoreConfig { spin: ring::SpinPolicy::Efficient, ..Default::default() },
        congestion: None,
        store: units,
        limits: Limits::default(),
        redirect: None,
        listener: None,
    }
}

fn opening(home: &Path, (data, units): (&Path, Arc<ArrayUnits>), events: EventLog) -> Opening {
    let disk = |number: usize| {
        let path: PathBuf = home.join(format!("disk-{number}"));
        format!("file:{}:{DISK_BYTES}", path.display()).parse().expect("a disk")
    };
    Opening {
        remembered: Remembered::read(data).expect("what is remembered"),
        make: Make {
            raid: Some(Level::Raid10),
            disks: vec![disk(0), disk(1)],
            journals: Vec::new(),
            accept_missing: false,
            data: data.to_owned(),
            cache_bytes: crate::memory::LEAST_BYTES,
        },
        prefix: None,
        units,
        unlisted: Unlisted::Nobody,
        given: Given::default(),
        gives_up_settings: false,
        found_wrong: Vec::new(),
        tell: |_| {},
        events,
    }
}
