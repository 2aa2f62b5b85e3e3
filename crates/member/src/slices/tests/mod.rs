//! Slices over real sockets: a member that holds them, and homes that reach them.

mod durable;
mod fencing;
mod link;
mod lives;
mod opening;
mod proxy;
mod strangers;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::testing::FaultyDisk;
use block::{BlockDevice, Geometry, RamDisk, WriteFlags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use group::ownership::MemberId;
use initiator::{AttachError, Disk, DiskOptions, PortalAddress, SessionOptions, TargetAddress};
use iscsi::chap::InitiatorChap;
use iscsi::params::DigestPolicy;
use iscsi::text::IscsiName;
use ring::{Buf, CoreConfig, Data, SpinPolicy};

use super::*;
use proxy::Proxy;

/// The longest time that a test waits for something that should happen.
const LIMIT: Duration = Duration::from_secs(60);

/// How long it is looked that something does not happen.
const LOOK: Duration = Duration::from_millis(400);

const HOME: MemberId = MemberId(1);
const OTHER: MemberId = MemberId(2);

const PREFIX: &str = "iqn.2026-11.dev.drystone:test";
const BLOCK: usize = 4096;
const BLOCKS: u64 = 512;

fn core() -> CoreConfig {
    CoreConfig { spin: SpinPolicy::Efficient, ..CoreConfig::default() }
}

/// Runs a test on a core.
fn on_core<T: 'static>(test: impl Future<Output = T> + 'static) -> T {
    ring::block_on(&core(), async {
        ring::timeout(LIMIT, test).await.expect("the test ends in time")
    })
    .expect("a core can be made")
}

fn ram() -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(BLOCK as u32, BLOCKS).expect("memory can be mapped"))
}

fn geometry() -> Geometry {
    ram().geometry()
}

/// A RAM disk that fails when told to, and what tells it.
fn faulty() -> (FaultyDisk, Arc<dyn BlockDevice>) {
    let disk = FaultyDisk::new(ram());
    (disk.clone(), Arc::new(disk))
}

/// A block that tells where it belongs and which one it is, and ends in its own CRC32C.
fn block(at: u64, version: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        [at, version].iter().flat_map(|n| n.to_le_bytes()).cycle().take(BLOCK - 4).collect();
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
    bytes.extend(crc.to_le_bytes());
    bytes
}

fn data(bytes: &[u8]) -> Data {
    let mut buf = Buf::alloc(bytes.len()).expect("there is memory");
    buf.copy_from_slice(bytes);
    buf.freeze()
}

async fn write(disk: &dyn BlockDevice, at: u64, version: u64) {
    disk.write(at, data(&block(at, version)), WriteFlags::DURABLE).await.expect("it is written");
}

async fn read(disk: &dyn BlockDevice, at: u64) -> Vec<u8> {
    let found = disk.read(at, BLOCK).await.expect("it is read");
    let mut bytes = vec![0; BLOCK];
    found.copy_to(0, &mut bytes);
    bytes
}

/// Waits for something that happens elsewhere.
async fn until(what: &str, happened: impl Fn() -> bool) {
    let all = async {
        while !happened() {
            ring::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(ring::timeout(LIMIT, all).await.is_some(), "this never happened: {what}");
}

/// A slice, its home, and what is behind it.
type HeldSlice = (SliceId, MemberId, Arc<dyn BlockDevice>);

/// A member that holds slices, and may be away.
#[derive(Debug)]
struct Holder {
    portal: Mutex<Option<SlicePortal>>,
    slices: Mutex<Vec<HeldSlice>>,
    fence_limit: Duration,
    asked: AtomicUsize,
    /// It answers no questions, and serves what is open.
    is_mute: AtomicBool,
    /// What homes go through to its portal.
    proxy: Mutex<Option<Proxy>>,
}

impl Holder {
    fn start() -> Arc<Self> {
        Self::with_limit(LIMIT)
    }

    /// The same, which ends an opening in so much time or not at all.
    fn with_limit(fence_limit: Duration) -> Arc<Self> {
        let holder = Self {
            portal: Mutex::default(),
            slices: Mutex::default(),
            fence_limit,
            asked: AtomicUsize::new(0),
            is_mute: AtomicBool::new(false),
            proxy: Mutex::default(),
        };
        holder.come(0);
        Arc::new(holder)
    }

    /// Serves, at this port or at any.
    fn come(&self, port: u16) {
        let portal = SlicePortal::start(PortalOptions {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            prefix: PREFIX.to_owned(),
            cores: 1,
            core: core(),
            fence_limit: self.fence_limit,
        })
        .expect("a portal starts");
        for (id, home, device) in &*self.slices.lock().unwrap() {
            assert!(portal.slices().insert(id.clone(), slice(*home, device)));
        }
        *self.portal.lock().unwrap() = Some(portal);
    }

    /// Ends, with all sessions. Returns the port that it had.
    fn go(&self) -> u16 {
        let portal = self.portal.lock().unwrap().take().expect("it is there");
        let port = portal.address().port();
        portal.shutdown().expect("it ends in order");
        port
    }

    /// Ends without a word, as where the power goes: its connections are there, and nobody answers.
    fn fall_silent(&self) -> u16 {
        let portal = self.portal.lock().unwrap().take().expect("it is there");
        portal.address().port()
    }

    /// One more slice, of a volume of this home.
    fn hold(&self, home: MemberId, device: &Arc<dyn BlockDevice>) -> SliceId {
        let id = SliceId::draw().expect("there is randomness");
        assert!(self.served().insert(id.clone(), slice(home, device)));
        self.slices.lock().unwrap().push((id.clone(), home, device.clone()));
        id
    }

    fn served(&self) -> Slices {
        self.portal.lock().unwrap().as_ref().expect("it is there").slices().clone()
    }

    fn address(&self) -> SocketAddr {
        self.portal.lock().unwrap().as_ref().expect("it is there").address()
    }

    fn sessions(&self) -> usize {
        self.portal.lock().unwrap().as_ref().expect("it is there").sessions()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn slice(home: MemberId, device: &Arc<dyn BlockDevice>) -> Slice {
    Slice { home, name: "a slice".to_owned(), device: device.clone() }
}

/// How a home asks such a member.
#[derive(Debug)]
struct Asks {
    holder: Arc<Holder>,
    slice: SliceId,
    home: MemberId,
    life: u64,
}

/// The life of the home in most tests.
const LIFE: u64 = 7;

impl SliceOpener for Asks {
    fn open(&self) -> BoxFuture<'_, Result<Opening, AskError>> {
        async {
            if self.holder.is_mute.load(Ordering::SeqCst) {
                return Err("the member does not answer".into());
            }
            self.holder.asked.fetch_add(1, Ordering::SeqCst);
            let slices = self.holder.portal.lock().unwrap().as_ref().map(|it| it.slices().clone());
            let slices = slices.ok_or("the member is away")?;
            let opening = slices.open(&self.slice, self.home, self.life).await?;
            let through = self.holder.proxy.lock().unwrap().as_ref().map(|proxy| proxy.address);
            Ok(Opening { portal: through.unwrap_or(opening.portal), ..opening })
        }
        .boxed()
    }
}

fn options() -> LinkOptions {
    LinkOptions {
        name: "a slice".to_owned(),
        geometry: geometry(),
        initiator: name("home"),
        patience: LIMIT,
    }
}

/// A link to a slice of this home, on this core.
fn link(holder: &Arc<Holder>, slice: &SliceId, options: LinkOptions) -> Rc<SliceLink> {
    link_of(holder, slice, options, LIFE)
}

/// The same of another life of the home.
fn link_of(
    holder: &Arc<Holder>,
    slice: &SliceId,
    options: LinkOptions,
    life: u64,
) -> Rc<SliceLink> {
    let asks = Asks { holder: holder.clone(), slice: slice.clone(), home: HOME, life };
    Rc::new(SliceLink::start(&ring::remote(ring::core_id()), Arc::new(asks), options))
}

fn name(who: &str) -> IscsiName {
    IscsiName::parse(&format!("iqn.2026-11.dev.drystone:{who}")).expect("a name")
}

fn portal_address(at: SocketAddr) -> PortalAddress {
    PortalAddress { host: at.ip().to_string(), port: at.port(), group_tag: None }
}

/// What somebody brings who has these secrets.
fn session_options(opening: &Opening) -> SessionOptions {
    let mut options = SessionOptions::new(name("home"));
    options.limits.header_digest = DigestPolicy::Require;
    options.limits.data_digest = DigestPolicy::Require;
    let chap = InitiatorChap::new(opening.credentials().unwrap(), Some(opening.mutual().unwrap()));
    options.chap = Some(chap.unwrap());
    options
}

/// A disk that knows this opening and asks for no other.
async fn attach(opening: &Opening) -> Result<Disk, AttachError> {
    let target = IscsiName::parse(&opening.target).expect("a name");
    let address = TargetAddress::new(portal_address(opening.portal), target);
    let mut options = DiskOptions::new(session_options(opening));
    options.router.limit = Duration::from_secs(1);
    Disk::attach(&[address], options).await
}
