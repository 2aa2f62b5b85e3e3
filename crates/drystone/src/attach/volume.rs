//! The core that serves an attachment: logs in, serves, flushes and logs out.

use crate::attach::plan::{Place, Plan};
use crate::attach::report::{PathSample, Sample};
use crate::attach::udev::Losses;
use anyhow::{Context, anyhow};
use attach::Disk;
use attach::nbd::{Address, Server};
use block::BlockError;
use initiator::{AttachError, TargetAddress};
use ring::wait::{Either, first};
use ring::{CoreConfig, OneshotReceiver, OneshotSender, Remote};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long clients have to take their answers when the disk goes.
const GRACE: Duration = Duration::from_secs(5);

/// How long somebody may still look at a disk that goes.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// How long an address may still be in use: the kernel takes its time to close the sockets of a process
/// that was killed while it used io_uring.
const SOCKET_PATIENCE: Duration = Duration::from_secs(3);
const SOCKET_PAUSE: Duration = Duration::from_millis(100);

/// What an NBD server with all its clients busy can hold, and half of that again.
const BUF_BUDGET_BYTES: usize = 768 << 20;

/// Why there is no disk.
#[derive(Debug, Error)]
// The error says in one sentence what its sources say again.
#[error("cannot attach {volume}: {error}")]
pub(crate) struct NotAttached {
    volume: TargetAddress,
    pub(crate) error: AttachError,
}

/// A disk that can be used.
#[derive(Debug)]
pub(crate) struct Volume {
    pub(crate) core: Remote,
    pub(crate) disk: Arc<Disk>,
    remote: Arc<initiator::Disk>,
    /// Where NBD clients find it.
    pub(crate) nbd: Option<Address>,
    pub(crate) sessions: usize,
    started: Instant,
}

/// The thread of the core.
#[derive(Debug)]
pub(crate) struct Running {
    stop: OneshotSender<()>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    /// Flushes and logs out, or gives up what is not attached yet. All references to the [`Volume`]
    /// should be gone.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.stop.send(());
        self.thread.join().unwrap_or_else(|_| Err(anyhow!("the core panicked")))
    }
}

/// Calls it when the thread ends, also by a panic.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Starts the core; `ready` is called once there is a disk, `ended` at the end of the core.
pub(crate) fn start(
    plan: Plan,
    ready: impl FnOnce(Arc<Volume>) + Send + 'static,
    ended: impl Fn() + Send + 'static,
) -> anyhow::Result<Running> {
    let (stop, stopped) = ring::oneshot();
    let thread = thread::Builder::new()
        .name("attach".to_owned())
        .spawn(move || {
            let _at_end = AtEnd(ended);
            let cfg = CoreConfig { buf_budget_bytes: BUF_BUDGET_BYTES, ..CoreConfig::default() };
            ring::block_on(&cfg, serve(plan, ready, stopped))
                .context("cannot start the I/O engine")?
        })
        .context("cannot start a thread")?;
    Ok(Running { stop, thread })
}

async fn serve(
    plan: Plan,
    ready: impl FnOnce(Arc<Volume>),
    mut stopped: OneshotReceiver<()>,
) -> anyhow::Result<()> {
    let Some(opened) = unless(&mut stopped, open(&plan)).await else { return Ok(()) };
    let (volume, server) = opened?;
    let (remote, disk) = (volume.remote.clone(), volume.disk.clone());
    ready(volume);
    stopped.await;
    if let Some(server) = server {
        server.stop(GRACE).await;
    }
    let flushed = disk.flush().await;
    let is_dirty = disk.is_dirty();
    drop(disk);
    log_out(remote).await;
    match flushed {
        // Whatever the target is up to: all that was written has been flushed before.
        Err(error) if !is_dirty && error != BlockError::LostWrites => {
            tracing::debug!("the last flush had nothing to do, and failed: {error}");
            Ok(())
        }
        flushed => flushed.context("what was written last could not be flushed"),
    }
}

/// The result of `work`; `None` when it is to stop first. Nothing has been written by then, and what
/// sessions it leaves behind are ended by whoever attaches the volume next.
async fn unless<T>(stopped: &mut OneshotReceiver<()>, work: impl Future<Output = T>) -> Option<T> {
    match first(stopped, work).await {
        Either::Left(_) => None,
        Either::Right(result) => Some(result),
    }
}

async fn open(plan: &Plan) -> anyhow::Result<(Arc<Volume>, Option<Server>)> {
    let (options, sessions) = (plan.options.clone(), plan.sessions.clone());
    let remote = initiator::Disk::attach_planned(&plan.volume, options, sessions).await;
    let remote = remote.map_err(|error| NotAttached { volume: plan.volume.clone(), error })?;
    let sessions = remote.paths().await.len();
    let remote = Arc::new(remote);
    let disk = Arc::new(Disk::new(remote.clone()));
    let server = match &plan.place {
        Place::Fuse(_) | Place::Ublk => None,
        Place::Nbd(address) => {
            let started = listen(&disk, plan.volume.name.as_str(), address).await;
            match started.with_context(|| format!("cannot serve NBD on {address}")) {
                Ok(server) => Some(server),
                Err(error) => {
                    drop(disk);
                    log_out(remote).await;
                    return Err(error);
                }
            }
        }
    };
    let nbd = server.as_ref().map(|server| server.address().clone());
    let (core, started) = (ring::remote(ring::core_id()), Instant::now());
    Ok((Arc::new(Volume { core, disk, remote, nbd, sessions, started }), server))
}

/// Listens. An attachment that was killed may still have the address.
async fn listen(disk: &Arc<Disk>, name: &str, address: &Address) -> io::Result<Server> {
    let end = Instant::now() + SOCKET_PATIENCE;
    loop {
        match Server::start(disk.clone(), name, address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                ring::sleep(SOCKET_PAUSE).await;
            }
            started => return started,
        }
    }
}

/// Ends the sessions in order, once nobody else looks at the disk.
async fn log_out(remote: Arc<initiator::Disk>) {
    let (mut remote, end) = (remote, Instant::now() + LAST_LOOK);
    loop {
        match Arc::try_unwrap(remote) {
            Ok(disk) => return disk.detach().await,
            Err(shared) if Instant::now() < end => remote = shared,
            Err(_) => return tracing::warn!("the sessions end without a logout"),
        }
        ring::sleep(Duration::from_millis(5)).await;
    }
}

impl Volume {
    /// What the paths have done, once the core says it.
    pub(crate) fn ask_paths(&self) -> Receiver<Vec<PathSample>> {
        let (sender, receiver) = mpsc::channel();
        let remote = self.remote.clone();
        self.core.run(move || {
            ring::spawn(async move {
                let paths = remote.paths().await;
                drop(remote);
                // The asker may have gone meanwhile.
                let _ = sender.send(paths.iter().map(PathSample::of).collect());
            });
        });
        receiver
    }

    /// Notes from now on what is lost. If its users have written through a process that is gone, `is_old`,
    /// answers for that as well.
    pub(crate) fn answer_for_users(&self, losses: Losses, is_old: bool) {
        if is_old {
            self.disk.take_over();
        }
        let (sender, done) = mpsc::channel();
        let remote = self.remote.clone();
        self.core.run(move || {
            ring::spawn(async move {
                let knew = losses.are_untold();
                remote.keep_losses(Box::new(losses)).await;
                if is_old {
                    remote.take_over(knew).await;
                }
                drop(remote);
                // The asker waits.
                let _ = sender.send(());
            });
        });
        // A core that has ended serves nobody.
        let _ = done.recv();
    }

    /// What the disk has done, and its `paths`.
    pub(crate) fn sample(&self, paths: Vec<PathSample>) -> Sample {
        let geometry = self.disk.geometry();
        Sample {
            uptime_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            size_bytes: geometry.size_bytes(),
            block_bytes: geometry.block_bytes,
            read_only: geometry.read_only,
            counts: self.disk.stats().counts().into(),
            paths,
        }
    }

    /// The worldwide name of the volume, as udev writes it: hexadecimal digits without `0x`.
    pub(crate) fn wwn(&self) -> Option<String> {
        let naa = self.remote.naa()?;
        Some(naa.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// What no other disk is called, in this process and the next ones: the unit as the target names it,
    /// and what the unit says of itself. Nothing if it says nothing.
    pub(crate) fn disk_name(&self, volume: &TargetAddress) -> Option<String> {
        let identity = self.remote.identity();
        let digits: String = identity.iter().map(|byte| format!("{byte:02x}")).collect();
        (!digits.is_empty()).then(|| format!("{}/{}/{digits}", volume.name, volume.lun))
    }

    /// An answer from the core, which comes when it does what it is given.
    pub(crate) fn ask_core(&self) -> Receiver<()> {
        let (sender, answer) = mpsc::channel();
        self.core.run(move || {
            // Nobody waits any more for an answer that is late.
            let _ = sender.send(());
        });
        answer
    }
}
