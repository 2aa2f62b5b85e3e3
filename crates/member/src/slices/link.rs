//! A slice that another member holds, as a disk of its home.
//!
//! Below it is one [`Disk`] of the initiator with one session, on the core that the link was started on; requests of other
//! cores are handed to that core, and their data is copied once. When the session is lost and does not come back by
//! itself, the slice is opened anew, at a [`Pace`], until that works or the link is dropped.
//!
//! Which requests are repeated, and when, is the business of the disk (decision 0013). A change in doubt is sent again when
//! the answer to a new opening says that the old one is over, or when the session has logged in again; changes of the same
//! blocks wait for each other; and the blocks of one that has failed while it was in doubt stay closed to later ones until
//! the doubt ends. One that was sent and gets no answer in time ends as [`BlockError::InDoubt`], and so does a COMPARE AND
//! WRITE that was sent again and does not find what it compares with: whether that is its own work or another host's only
//! the host can tell that has sent it.

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags, arguments};
use initiator::{Disk, DiskOptions, Opened, Opener, Pace, REOPEN_PAUSE_MAX, SessionOptions};
use iscsi::params::DigestPolicy;
use iscsi::text::IscsiName;
use ring::wait::first;
use ring::{Data, OneshotReceiver, OneshotSender, Remote};

use super::asking::Asking;
use super::reach::Reach;
use super::{AskError, SliceOpener};
use crate::mutants::{self, Mutant};

/// How long requests wait for a slice that cannot be reached: less than the 30 s after which hosts give a command up, so
/// that they hear why, and longer than a member takes that restarts. What has waited for a slice and is begun then may take
/// as long once more: it is not answered before it is over.
pub const PATIENCE: Duration = Duration::from_secs(25);

/// The blocks of a COMPARE AND WRITE, which counts them in one byte (SBC-4 5.3), and the bytes of one: both of its halves
/// go in one transfer.
const COMPARE_BLOCKS_MAX: u32 = 255;
const COMPARE_BYTES_MAX: u32 = 512 << 10;

/// How long a slice of another shape is left alone. Each opening ends what somebody has open who may know its shape better.
const OTHER_SHAPE_PAUSE: Duration = Duration::from_secs(300);

/// Nobody is told before that of a slice that is being asked for.
const FIRST_ANSWER: Duration = Duration::from_secs(5);

/// Before a disk is asked again whether it knows that its slice has grown.
const GROW_PAUSE: Duration = Duration::from_millis(5);

/// How a slice is reached.
#[derive(Debug, Clone)]
pub struct LinkOptions {
    /// What the log calls it.
    pub name: String,
    /// Its shape, as it was recorded. A slice that has other blocks, or less of them, is not used. The link does
    /// no more in one atomic step than goes over iSCSI, whatever is written here.
    pub geometry: Geometry,
    /// Who this home says it is.
    pub initiator: IscsiName,
    /// How long requests wait while it cannot be reached.
    pub patience: Duration,
}

/// Why a slice is not used.
#[derive(Debug, thiserror::Error)]
#[error(
    "the slice has {found_blocks} blocks of {found_bytes} bytes, and should have {blocks} of {bytes} bytes or more"
)]
struct OtherShape {
    blocks: u64,
    bytes: u32,
    found_blocks: u64,
    found_bytes: u32,
}

/// A slice that another member holds, for all cores. Dropping it ends its session.
#[derive(Debug)]
pub struct SliceLink {
    /// All but its blocks.
    shape: Geometry,
    /// As many as are used: the slice has no less.
    blocks: Arc<AtomicU64>,
    patience: Duration,
    reach: Arc<Reach>,
    /// There once the slice was reached.
    disk: Arc<OnceLock<Disk>>,
    /// Dropped with the link.
    _held: OneshotSender<()>,
}

impl SliceLink {
    /// Begins to open the slice, on this core, where its session will live. It is a disk at once: requests wait until it is
    /// reached.
    #[must_use]
    pub fn start(core: &Remote, opener: Arc<dyn SliceOpener>, options: LinkOptions) -> Self {
        let LinkOptions { name, geometry, initiator, patience } = options;
        let shape = over_iscsi(geometry);
        let blocks = Arc::new(AtomicU64::new(shape.blocks));
        let (reach, disk) = (Arc::new(Reach::new()), Arc::new(OnceLock::new()));
        let (held, dropped) = ring::oneshot();
        let asked = Asking { opener, reach: reach.clone(), name };
        let (place, wanted) = (disk.clone(), (blocks.clone(), shape.block_bytes));
        core.run(move || {
            let options = disk_options(initiator, patience);
            ring::spawn(begin(Rc::new(asked), options, wanted, place, dropped));
        });
        Self { shape, blocks, patience, reach, disk, _held: held }
    }

    /// Has so many blocks from now on, if it had less: the slice has grown before. Requests wait until its disk knows that.
    pub fn grow(&self, blocks: u64) {
        self.blocks.fetch_max(blocks, Ordering::AcqRel);
    }

    /// Whether it was reached since the link was started.
    #[must_use]
    pub fn was_reached(&self) -> bool {
        self.disk.get().is_some()
    }

    /// Whether it can be reached, as far as is known.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        self.reach.down_for().is_none()
    }

    /// For how long the slice cannot be reached, and why, if that is known.
    #[must_use]
    pub fn trouble(&self) -> Option<(Duration, String)> {
        let (time, why) = (self.reach.down_for()?, self.reach.why());
        // It is being asked for the first time.
        let is_trouble = !why.is_empty() || time >= FIRST_ANSWER;
        is_trouble.then_some((time, why))
    }

    /// Runs something on the disk below. Who comes while the disk cannot be reached waits, and nobody does who comes later.
    /// What the disk has begun with ends there: nobody hears of an end that is none.
    fn run<T: 'static>(&self, work: impl FnOnce(&Disk) -> IoFuture<T> + 'static) -> IoFuture<T> {
        let down_for = self.reach.down_for();
        if down_for.is_some_and(|time| time >= self.patience) && !mutants::is(Mutant::WaitAgain) {
            return IoFuture::ready(Err(BlockError::Unreachable));
        }
        let blocks = self.blocks.load(Ordering::Acquire);
        if let Some(disk) = self.disk.get().filter(|disk| disk.geometry().blocks >= blocks) {
            return work(disk);
        }
        let (disk, reach) = (self.disk.clone(), self.reach.clone());
        let until = ring::now() + self.patience;
        IoFuture::boxed(async move {
            let left = || until.saturating_duration_since(ring::now());
            reach.until_up(left()).await;
            let disk = disk.get().filter(|_| !left().is_zero()).ok_or(BlockError::Unreachable)?;
            let grown = ring::timeout(left(), until_grown(disk, blocks)).await;
            grown.ok_or(BlockError::Unreachable)?;
            match mutants::is(Mutant::LeaveBehind) {
                true => ring::timeout(left(), work(disk)).await.unwrap_or(Err(BlockError::InDoubt)),
                false => work(disk).await,
            }
        })
    }
}

/// Waits until a disk knows that its slice has so many blocks. It is told with the answer to the next command.
async fn until_grown(disk: &Disk, blocks: u64) {
    let mut pause = GROW_PAUSE;
    while disk.geometry().blocks < blocks {
        let block_bytes = disk.geometry().block_bytes as usize;
        // Whatever it answers: what it is told counts.
        drop(disk.read(0, block_bytes).await);
        ring::sleep(pause).await;
        pause = (pause * 2).min(REOPEN_PAUSE_MAX);
    }
}

/// What is left of a shape at the other end of a session.
fn over_iscsi(shape: Geometry) -> Geometry {
    let compare = (COMPARE_BLOCKS_MAX * shape.block_bytes).min(COMPARE_BYTES_MAX);
    Geometry { atomic_bytes_max: shape.atomic_bytes_max.min(compare), ..shape }
}

/// How the disk below is attached.
fn disk_options(initiator: IscsiName, patience: Duration) -> DiskOptions {
    let mut session = SessionOptions::new(initiator);
    session.limits.header_digest = DigestPolicy::Require;
    session.limits.data_digest = DigestPolicy::Require;
    // What a disk does not answer is aborted, and its host has heard of it when the patience is over.
    session.abort_timeout = session.abort_timeout.min(patience / 5);
    session.backoff_max = REOPEN_PAUSE_MAX;
    let mut options = DiskOptions::new(session);
    options.command_timeout = patience - options.session.abort_timeout;
    options.router.limit = patience;
    options.router.hedge_after = None;
    // All hosts of the volume are behind this link: what one was to write another one may have written.
    options.is_sole_writer = mutants::is(Mutant::ResolveAtLink);
    options
}

/// Opens the slice for the first time, until that works or the link is dropped.
async fn begin(
    asking: Rc<Asking>,
    options: DiskOptions,
    (blocks, block_bytes): (Arc<AtomicU64>, u32),
    place: Arc<OnceLock<Disk>>,
    dropped: OneshotReceiver<()>,
) {
    let attach = async {
        let pace = Pace::default();
        loop {
            ring::sleep(pace.due_in()).await;
            let wanted = (blocks.load(Ordering::Acquire), block_bytes);
            match attach(&asking, &options, wanted).await {
                Ok(disk) => {
                    disk.keep_open(options.session.clone(), asking.clone());
                    let is_first = place.set(disk).is_ok();
                    debug_assert!(is_first, "a link has one disk");
                    return asking.heard(true);
                }
                Err(error) => {
                    asking.failed(&*error);
                    if error.is::<OtherShape>() && !mutants::is(Mutant::AskAgain) {
                        ring::sleep(OTHER_SHAPE_PAUSE).await;
                    }
                }
            }
            pace.over();
        }
    };
    first(dropped, attach).await;
}

async fn attach(
    asking: &Asking,
    options: &DiskOptions,
    (blocks, block_bytes): (u64, u32),
) -> Result<Disk, AskError> {
    let Opened { address, chap } = asking.open().await?;
    let session = SessionOptions { chap: Some(chap), ..options.session.clone() };
    let options = DiskOptions { session, ..options.clone() };
    let disk = Disk::attach(&[address], options).await?;
    let found = disk.geometry();
    // It is larger where it has grown, and its volume has not.
    let fits = found.blocks >= blocks && found.block_bytes == block_bytes;
    if fits || mutants::is(Mutant::AnyShape) {
        return Ok(disk);
    }
    Err(OtherShape {
        blocks,
        bytes: block_bytes,
        found_blocks: found.blocks,
        found_bytes: found.block_bytes,
    }
    .into())
}

impl BlockDevice for SliceLink {
    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.blocks.load(Ordering::Acquire), ..self.shape }
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = arguments::read(&self.geometry(), at, len) {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.read(at, len))
    }

    fn write_now(
        &self,
        _at: u64,
        _bytes: &[u8],
        _flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        None
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write(&self.geometry(), at, data.len(), flags) {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.write(at, data, flags))
    }

    fn flush(&self) -> IoFuture<()> {
        self.run(Disk::flush)
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = arguments::unmap(&self.geometry(), at, len) {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::write_zeroes(&self.geometry(), at, len, flags) {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.write_zeroes(at, len, may_unmap, flags))
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let answer = arguments::compare_and_write(&self.geometry(), at, &compare, &write);
        if let Some(answer) = answer {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.compare_and_write(at, compare, write, flags))
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) = arguments::or_write(&self.geometry(), at, data.len()) {
            return IoFuture::ready(answer);
        }
        self.run(move |disk| disk.or_write(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        if let Err(error) = arguments::extent(&self.geometry(), at) {
            return IoFuture::ready(Err(error));
        }
        self.run(move |disk| disk.extent(at))
    }
}
