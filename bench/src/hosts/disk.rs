//! Our own initiator as a client: child processes, so that their CPU and memory are their own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use ::initiator::{Disk, DiskOptions, Session, SessionOptions, TargetAddress};
use anyhow::{Context, Result, anyhow, ensure};
use block::BlockDevice;
use iscsi::text::IscsiName;
use ring::CoreConfig;
use serde::{Deserialize, Serialize};

use crate::machine::{Pinned, raise_file_limit, sample, thread_cpu};

/// The name to log in as.
const HOST: &str = "iqn.2026-11.dev.drystone:bench-host";

/// Logins under way at once, as a host that starts has them.
const LOGINS_AT_ONCE: usize = 32;

/// What one run of the initiator found; also how a child tells it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiskRun {
    pub(crate) iops: f64,
    pub(crate) mb_per_s: f64,
    /// CPU time of the thread that does everything, per I/O.
    pub(crate) cpu_us_per_io: f64,
    /// How full its core was.
    pub(crate) core: f64,
}

/// What to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    pub(crate) io_bytes: usize,
    pub(crate) depth: u32,
    pub(crate) warmup: Duration,
    pub(crate) measure: Duration,
}

/// What opening many sessions took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionsRun {
    pub(crate) sessions: usize,
    pub(crate) seconds: f64,
    /// What the process holds then.
    pub(crate) memory_mib: f64,
}

fn session_options() -> SessionOptions {
    SessionOptions::new(IscsiName::parse(HOST).expect("the name is well formed"))
}

/// Random reads over one session for each address, on the thread that calls.
///
/// # Errors
/// The disk cannot be attached, or a read failed.
pub(crate) fn read(
    addresses: &[TargetAddress],
    work: Work,
    core: Option<usize>,
) -> Result<DiskRun> {
    let _pinned = core.map(Pinned::to_core).transpose()?;
    let addresses = addresses.to_vec();
    ring::block_on(&CoreConfig::default(), async move {
        let disk = Disk::attach(&addresses, DiskOptions::new(session_options())).await;
        let disk = Rc::new(disk.map_err(|error| anyhow!("cannot attach: {error}"))?);
        let run = keep_busy(&disk, work).await;
        if let Ok(disk) = Rc::try_unwrap(disk) {
            disk.detach().await;
        }
        run
    })?
}

async fn keep_busy(disk: &Rc<Disk>, work: Work) -> Result<DiskRun> {
    let places = disk.geometry().size_bytes() / work.io_bytes as u64;
    ensure!(places > 0, "the disk is smaller than one I/O");
    let (done, ends) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(false)));
    let (failure, left) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(work.depth)));
    for worker in 0..work.depth {
        let (disk, done, ends) = (disk.clone(), done.clone(), ends.clone());
        let (failure, left) = (failure.clone(), left.clone());
        ring::spawn(async move {
            let mut random = u64::from(worker) + 1;
            while !ends.get() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(worker.into());
                let at = (random >> 20) % places * work.io_bytes as u64;
                match disk.read(at, work.io_bytes).await {
                    Ok(data) => drop(data),
                    Err(error) => {
                        failure.borrow_mut().get_or_insert(error.to_string());
                        break;
                    }
                }
                done.set(done.get() + 1);
            }
            left.set(left.get() - 1);
        });
    }
    ring::sleep(work.warmup).await;
    let (before, at, cpu) = (done.get(), Instant::now(), thread_cpu());
    ring::sleep(work.measure).await;
    let (ios, wall) = ((done.get() - before) as f64, at.elapsed().as_secs_f64());
    let cpu = thread_cpu().saturating_sub(cpu).as_secs_f64();
    ends.set(true);
    while left.get() > 0 {
        ring::sleep(Duration::from_millis(1)).await;
    }
    if let Some(failure) = failure.take() {
        return Err(anyhow!("a read failed: {failure}"));
    }
    ensure!(ios > 0.0, "no I/O completed");
    Ok(DiskRun {
        iops: ios / wall,
        mb_per_s: ios / wall * work.io_bytes as f64 / 1e6,
        cpu_us_per_io: cpu / ios * 1e6,
        core: cpu / wall,
    })
}

/// Opens so many sessions on one thread and asks each one for a sign of life.
///
/// # Errors
/// One of them could not be opened.
pub(crate) fn open_sessions(address: &TargetAddress, sessions: usize) -> Result<SessionsRun> {
    raise_file_limit();
    let address = address.clone();
    ring::block_on(&CoreConfig::default(), async move {
        let since = Instant::now();
        let (open, failure) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(None)));
        let (begun, left) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(LOGINS_AT_ONCE)));
        for _ in 0..LOGINS_AT_ONCE {
            let (address, open, failure) = (address.clone(), open.clone(), failure.clone());
            let (begun, left) = (begun.clone(), left.clone());
            ring::spawn(async move {
                while begun.get() < sessions && failure.borrow().is_none() {
                    begun.set(begun.get() + 1);
                    match Session::open(&address, session_options()).await {
                        Ok(session) => open.borrow_mut().push(session),
                        Err(error) => *failure.borrow_mut() = Some(error.to_string()),
                    }
                }
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            ring::sleep(Duration::from_millis(5)).await;
        }
        let seconds = since.elapsed().as_secs_f64();
        if let Some(failure) = failure.take() {
            let got = open.borrow().len();
            return Err(anyhow!("session {got}: {failure}"));
        }
        let memory = sample(std::process::id()).context("our own process")?.memory_bytes;
        let sessions = open.borrow().iter().filter(|session| session.is_up()).count();
        Ok(SessionsRun { sessions, seconds, memory_mib: memory as f64 / f64::from(1 << 20) })
    })?
}
