//! A target in this process, and a network in front of it that can be cut.

// Every test binary compiles this file for itself and uses its own part of it.
#![allow(dead_code, reason = "no test binary uses all of it")]

mod load;
mod proxy;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice, RamDisk};
use initiator::{DiskOptions, PortalAddress, SessionOptions, TargetAddress};
use iscsi::chap::Credentials;
use iscsi::text::IscsiName;
use ring::{Buf, CoreConfig, Data};
use target::{
    Access, Config, Elsewhere, FileStore, Limits, Redirect, Server, TargetSpec, UnitSpec,
};

#[allow(unused_imports, reason = "not every test binary has verified load")]
pub(crate) use load::Load;
#[allow(unused_imports, reason = "not every test binary breaks paths")]
pub(crate) use proxy::Proxy;

pub(crate) const TARGET: &str = "iqn.2026-11.dev.drystone:test";
const HOST: &str = "iqn.2026-11.dev.drystone:host";

/// The longest time that a test waits for something that should happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a test's target serves: one RAM disk, and nothing odd.
pub(crate) fn config(disk: Arc<dyn BlockDevice>) -> Config {
    Config {
        targets: vec![TargetSpec {
            iqn: TARGET.to_owned(),
            alias: None,
            units: vec![UnitSpec {
                device: disk,
                referrals: None,
                serial: "TEST-1".to_owned(),
                write_cache: false,
                read_only: false,
                name: "test".to_owned(),
            }],
            access: None,
        }],
        portals: vec![([127, 0, 0, 1], 0).into()],
        access: Access::everyone(),
        cores: 1,
        core: CoreConfig::default(),
        congestion: None,
        store: Arc::new(FileStore::new(state_dir()).expect("it is there")),
        limits: Limits::default(),
        port_group: 1,
        discovery: None,
        redirect: None,
        listener: None,
    }
}

/// A directory that no other test uses.
fn state_dir() -> std::path::PathBuf {
    tempfile::tempdir().expect("a temporary directory can be made").keep()
}

pub(crate) fn ram(mib: u64) -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(512, mib << 11).expect("memory can be mapped"))
}

/// Three servers of one disk, each a portal group of its own.
pub(crate) fn servers(disk: &Arc<dyn BlockDevice>) -> [Server; 3] {
    [1, 2, 3].map(|port_group| serve(Config { port_group, ..config(disk.clone()) }))
}

/// Where a door sends those who come.
#[derive(Debug)]
pub(crate) struct SendTo(Mutex<SocketAddr>);

impl SendTo {
    pub(crate) fn set(&self, portal: SocketAddr) {
        *self.0.lock().expect("no test panics with it") = portal;
    }
}

impl Redirect for SendTo {
    fn elsewhere(&self, _portal: SocketAddr) -> Option<Elsewhere> {
        let address = self.0.lock().expect("no test panics with it").to_string();
        Some(Elsewhere { address, permanent: false })
    }
}

/// The address of a group: a server that sends everybody to `portal`, or to where it is told later.
pub(crate) fn door(portal: SocketAddr) -> (Server, Arc<SendTo>) {
    let to = Arc::new(SendTo(Mutex::new(portal)));
    let door = serve(Config { redirect: Some(to.clone()), port_group: 9, ..config(ram(1)) });
    (door, to)
}

pub(crate) fn serve(config: Config) -> Server {
    Server::start(config).expect("the target starts")
}

/// Runs a test on a core.
pub(crate) fn on_core<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    ring::block_on(&CoreConfig::default(), async {
        ring::timeout(PATIENCE, test).await.expect("the test ends in time")
    })
    .expect("a core can be made")
}

pub(crate) fn portal(address: SocketAddr) -> PortalAddress {
    PortalAddress { host: address.ip().to_string(), port: address.port(), group_tag: None }
}

pub(crate) fn address(at: SocketAddr) -> TargetAddress {
    TargetAddress::new(portal(at), IscsiName::parse(TARGET).expect("a name"))
}

/// Short times: what takes seconds on a network takes milliseconds here.
pub(crate) fn session_options() -> SessionOptions {
    let mut options = SessionOptions::new(IscsiName::parse(HOST).expect("a name"));
    options.connect_timeout = Duration::from_secs(2);
    options.login_timeout = Duration::from_secs(5);
    options.abort_timeout = Duration::from_secs(2);
    options.nop_interval = Duration::from_millis(500);
    options.nop_timeout = Duration::from_millis(500);
    options.backoff_max = Duration::from_millis(500);
    options
}

pub(crate) fn disk_options() -> DiskOptions {
    let mut options = DiskOptions::new(session_options());
    options.router.probation = Duration::from_millis(500);
    options.router.reinstate_wait = Duration::from_secs(2);
    options.router.limit = Duration::from_secs(40);
    options.command_timeout = Duration::from_secs(10);
    options
}

pub(crate) fn credentials(user: &str, secret: &str) -> Credentials {
    Credentials::new(user, secret).expect("good credentials")
}

pub(crate) fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).expect("there is memory");
    buf.copy_from_slice(bytes);
    buf.freeze()
}

pub(crate) fn bytes(data: &Data) -> Vec<u8> {
    let mut bytes = vec![0; data.len()];
    data.copy_to(0, &mut bytes);
    bytes
}
