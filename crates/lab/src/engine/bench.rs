//! Open volumes, and what is known of their data.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use block::BlockDevice;
use initiator::Disk;
use ring::{Buf, Data};

use super::RunOptions;
use super::area::Window;
use super::claim::Claims;
use super::wrong::{Found, WrongBlocks};
use crate::check::{Journal, JournalError, JournalVolume, Ledger, Mismatch, Seen};
use crate::workload::{IO_BYTES_MAX, Range, Script, common};

/// Blocks of the ledger are not larger than this, however large I/Os are.
const LEDGER_BLOCK_BYTES_MAX: u32 = 4096;

/// How often somebody who waits looks whether the run is to stop.
const LOOK: Duration = Duration::from_millis(100);
/// How long a run that is to stop waits for a device.
const STOP_MAX: Duration = Duration::from_secs(5);

/// One storage of a script, on a device.
#[derive(Clone)]
pub struct Volume {
    /// Its name in the script.
    pub name: String,
    /// The target that it is on.
    pub target: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// The device again, if it has paths.
    pub disk: Option<Arc<Disk>>,
    /// Its first byte on the device.
    pub at: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The part of that which is used.
    pub range: Option<Range>,
    /// Where hits go, from the start of that.
    pub hit_bytes: u64,
    /// I/Os under way at once, unless a step says otherwise.
    pub threads: u32,
    /// Each write is durable when it completes.
    pub durable: bool,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, target, at, len, .. } = self;
        write!(f, "{name} on {target}, bytes {at} to {}", at + len)
    }
}

impl Volume {
    pub(super) fn window(&self) -> Window {
        Window { at: self.at, len: self.len }
    }
}

/// Why a script cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The script writes, and the disk does not take it.
    #[error("{0} is read-only, and the workload writes")]
    ReadOnly(String),
    /// A part of a disk that is smaller than an I/O.
    #[error("{volume} has no room for an I/O of {bytes} bytes in the range of {flow}")]
    NoRoom {
        /// The storage.
        volume: String,
        /// The workload.
        flow: String,
        /// The size.
        bytes: u32,
    },
    /// I/Os that are no whole blocks of the disk.
    #[error("{volume} has blocks of {block_bytes} bytes, of which {bytes} are no multiple")]
    Blocks {
        /// The storage.
        volume: String,
        /// Its block.
        block_bytes: u32,
        /// What was asked for.
        bytes: u32,
    },
    /// A percentage of a maximum that no step before has measured.
    #[error("{0} asks for a share of the maximum, and no step before it ran with iorate=max")]
    NoMaximum(String),
    /// An earlier run is to be validated, and its journal tells of none.
    #[error(
        "--validate compares with what the journal of an earlier run knows, and this one knows of no write: name \
         the --journal of that run"
    )]
    NothingKnown,
    /// The journal is of larger blocks.
    #[error("the journal is of blocks of {journal} bytes, and the workload has I/Os of {ours}")]
    JournalBlocks {
        /// Its block.
        journal: u32,
        /// The common size of the script's I/Os.
        ours: u32,
    },
    /// More clients than storage.
    #[error("{step} asks for {clients} clients, each a volume, and there are {volumes}")]
    Clients {
        /// The step.
        step: String,
        /// What was asked for.
        clients: u32,
        /// What there is.
        volumes: usize,
    },
    /// A number of sessions, where nothing can be opened anew.
    #[error("the number of sessions cannot be changed here")]
    NoSessions,
    /// The targets, with another number of sessions.
    #[error("{0}")]
    Reopen(Box<dyn std::error::Error + Send + Sync>),
    /// They came back otherwise.
    #[error("a volume has another size than at the start: the steps cannot be compared")]
    Changed,
    /// The journal itself.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No memory for what is written.
    #[error("there is no memory for I/O buffers")]
    Memory,
}

/// Opens the volumes of a run anew.
pub trait Opener: fmt::Debug {
    /// Closes them, and opens them over so many sessions in all, or over as many as at first.
    fn open(&self, sessions: Option<u32>) -> Opening<'_>;
}

/// Volumes that are being opened.
pub type Opening<'a> = Pin<
    Box<dyn Future<Output = Result<Vec<Volume>, Box<dyn std::error::Error + Send + Sync>>> + 'a>,
>;

/// What a read was, beside what the ledger knows.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Bytes that could be compared.
    pub(super) bytes: u64,
    /// The first block that holds a write which had been given up.
    pub(super) late: Option<Mismatch>,
}

/// Volumes, options and the ledger, shared by all tasks of a run.
#[derive(Debug)]
pub struct Bench {
    /// None while they are opened anew.
    volumes: RefCell<Rc<[Volume]>>,
    /// How they are opened anew.
    opener: RefCell<Option<Rc<dyn Opener>>>,
    /// The sessions that they were opened with.
    sessions: Cell<Option<u32>>,
    claims: Vec<Claims>,
    options: RunOptions,
    ledger: Option<RefCell<Ledger>>,
    journal: Option<RefCell<Journal>>,
    journal_error: RefCell<Option<JournalError>>,
    /// What is written where nothing is checked.
    pattern: Data,
    wrong: RefCell<WrongBlocks>,
}

impl Bench {
    /// Prepares a run of `script` on `volumes`, one for each storage of it.
    ///
    /// # Errors
    /// A [`BenchError`].
    pub fn new(
        volumes: Vec<Volume>,
        script: &Script,
        options: RunOptions,
    ) -> Result<Rc<Self>, BenchError> {
        assert_eq!(volumes.len(), script.storage.len(), "a volume for each storage");
        let unit = check(&volumes, script)?;
        // Without writes, or a journal of earlier ones, there is nothing to compare with.
        let is_known = script.writes() || options.journal.is_some();
        let (mut ledger, mut journal) = (None, None);
        let has_journal = options.journal.as_ref().is_some_and(|path| path.exists());
        if options.validate_before && !has_journal {
            return Err(BenchError::NothingKnown);
        }
        if options.validate && is_known {
            let block_bytes = unit.min(LEDGER_BLOCK_BYTES_MAX);
            let known = volumes.iter().map(known_as).collect::<Vec<_>>();
            let opened = match &options.journal {
                Some(path) => {
                    let (file, ledger) = Journal::open(path, options.key, block_bytes, &known)?;
                    journal = Some(RefCell::new(file));
                    ledger
                }
                None => {
                    let mut ledger = Ledger::new(options.key, block_bytes);
                    for volume in &known {
                        ledger.add_volume(&volume.name, volume.size_bytes, volume.lba_bytes);
                    }
                    ledger
                }
            };
            if !unit.is_multiple_of(opened.block_bytes()) {
                let journal = opened.block_bytes();
                return Err(BenchError::JournalBlocks { journal, ours: unit });
            }
            if options.validate_before && opened.is_empty() {
                return Err(BenchError::NothingKnown);
            }
            ledger = Some(RefCell::new(opened));
        }
        Ok(Rc::new(Self {
            claims: volumes.iter().map(|_| Claims::default()).collect(),
            volumes: RefCell::new(volumes.into()),
            opener: RefCell::default(),
            sessions: Cell::new(script.steps.first().and_then(|step| step.sessions)),
            options,
            ledger,
            journal,
            journal_error: RefCell::default(),
            pattern: pattern(script)?,
            wrong: RefCell::default(),
        }))
    }

    /// The volumes, as they are open now.
    #[must_use]
    pub fn volumes(&self) -> Rc<[Volume]> {
        self.volumes.borrow().clone()
    }

    /// Says how volumes are opened anew for a step that wants another number of sessions.
    pub fn set_opener(&self, opener: Rc<dyn Opener>) {
        self.opener.replace(Some(opener));
    }

    /// Has the volumes open over so many sessions; what is known of their data stays.
    pub(super) async fn have_sessions(&self, count: Option<u32>) -> Result<(), BenchError> {
        if self.sessions.get() == count {
            return Ok(());
        }
        let opener = self.opener.borrow().clone().ok_or(BenchError::NoSessions)?;
        let lens =
            |volumes: &[Volume]| volumes.iter().map(|one| (one.at, one.len)).collect::<Vec<_>>();
        // Nobody may hold on to the old disks: they log out before the new ones log in.
        let before = lens(&self.volumes.replace(Rc::new([])));
        let volumes = opener.open(count).await.map_err(BenchError::Reopen)?;
        if lens(&volumes) != before {
            return Err(BenchError::Changed);
        }
        self.volumes.replace(volumes.into());
        self.sessions.set(count);
        Ok(())
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Blocks that were wrong so far.
    #[must_use]
    pub fn mismatch_count(&self) -> u64 {
        self.wrong.borrow().count()
    }

    pub(super) fn claims(&self, volume: usize) -> &Claims {
        &self.claims[volume]
    }

    /// Waits for a device that may never answer: as long as for the last I/Os of a step, and once the run
    /// is to stop not much longer. `None` if it did not come back.
    pub(super) async fn wait_for<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut limit = Instant::now() + self.options.drain_max;
        let mut is_stopping = false;
        loop {
            if let Some(done) = ring::timeout(LOOK, work.as_mut()).await {
                return Some(done);
            }
            let now = Instant::now();
            if !is_stopping && self.options.stop.load(Ordering::Relaxed) {
                (is_stopping, limit) = (true, limit.min(now + STOP_MAX));
            }
            if now >= limit {
                return None;
            }
        }
    }

    pub(super) fn ledger(&self) -> Option<&RefCell<Ledger>> {
        self.ledger.as_ref()
    }

    /// So many bytes to write where nothing is checked.
    pub(super) fn pattern(&self, len: u32) -> Data {
        self.pattern.slice(0..len as usize)
    }

    /// Notes a write that was answered as done.
    pub(super) fn done(&self, volume: u16, at: u64, len: u64, sequence: u64) {
        if let Some(ledger) = &self.ledger {
            ledger.borrow_mut().done(volume, at, len, sequence);
        }
        if let Some(journal) = &self.journal {
            self.keep(journal.borrow_mut().note(volume, at, len, sequence));
        }
    }

    /// Notes a write that failed and that its target may still do.
    pub(super) fn given_up(&self, volume: u16, at: u64, len: u64, sequence: u64) {
        if let Some(ledger) = &self.ledger {
            ledger.borrow_mut().given_up(volume, at, len, sequence);
        }
        if let Some(journal) = &self.journal {
            self.keep(journal.borrow_mut().note_given_up(volume, at, len, sequence));
        }
    }

    /// Hands the journal to the kernel.
    pub(super) fn flush_journal(&self) {
        if let Some(journal) = &self.journal {
            self.keep(journal.borrow_mut().flush());
        }
    }

    fn keep(&self, outcome: Result<(), JournalError>) {
        if let Err(error) = outcome {
            self.journal_error.borrow_mut().get_or_insert(error);
            // Nothing that is measured from here on could be checked later.
            self.options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The first failure of the journal.
    pub(super) fn take_journal_error(&self) -> Result<(), BenchError> {
        self.journal_error.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Compares what was read; notes what is wrong.
    pub(super) fn check(&self, volume: u16, at: u64, bytes: &[u8]) -> Compared {
        let mut compared = Compared::default();
        let Some(ledger) = &self.ledger else { return compared };
        let late = &mut compared.late;
        let mut found = |mismatch: Mismatch| match mismatch.seen {
            Seen::Late { .. } => drop(late.get_or_insert(mismatch)),
            _ => self.wrong.borrow_mut().note(volume, mismatch),
        };
        compared.bytes = ledger.borrow_mut().check(volume, at, bytes, &mut found);
        compared
    }

    /// The wrong blocks of a step that ends.
    pub(super) fn take_wrong(&self) -> Found {
        self.wrong.borrow_mut().take()
    }
}

fn known_as(volume: &Volume) -> JournalVolume {
    // Positions count from the start of the device, so that an LBA is that of the disk.
    let size_bytes = volume.at + volume.len;
    let lba_bytes = volume.device.geometry().block_bytes;
    let name = match volume.at {
        0 => format!("{} ({})", volume.name, volume.target),
        at => format!("{} ({} from byte {at})", volume.name, volume.target),
    };
    JournalVolume { name, size_bytes, lba_bytes }
}

/// Whether the script can run; gives the largest size that all its I/Os are multiples of.
fn check(volumes: &[Volume], script: &Script) -> Result<u32, BenchError> {
    let mut unit = 0;
    for step in &script.steps {
        if let Some(clients) = step.clients.filter(|clients| *clients as usize > volumes.len()) {
            let (step, volumes) = (step.name.clone(), volumes.len());
            return Err(BenchError::Clients { step, clients, volumes });
        }
    }
    for flow in script.steps.iter().flat_map(|step| &step.flows) {
        let bytes = flow.sizes.common();
        unit = common(unit, bytes);
        for volume in flow.storage.iter().map(|&index| &volumes[index]) {
            let geometry = volume.device.geometry();
            let block_bytes = geometry.block_bytes;
            if !bytes.is_multiple_of(block_bytes) {
                return Err(BenchError::Blocks { volume: volume.name.clone(), block_bytes, bytes });
            }
            if geometry.read_only && flow.read_percent < 100 {
                return Err(BenchError::ReadOnly(volume.name.clone()));
            }
        }
    }
    // A block of the ledger is a power of two.
    Ok(1 << unit.trailing_zeros())
}

/// Random bytes, as long as the largest I/O: nothing that a target could leave out.
fn pattern(script: &Script) -> Result<Data, BenchError> {
    if !script.writes() {
        return Ok(Data::default());
    }
    let flows = script.steps.iter().flat_map(|step| &step.flows);
    let len = flows.map(|flow| flow.sizes.max()).max().unwrap_or(0).min(IO_BYTES_MAX);
    let mut buf = Buf::alloc(len as usize).ok_or(BenchError::Memory)?;
    fastrand::Rng::with_seed(7).fill(&mut buf);
    Ok(buf.freeze())
}
