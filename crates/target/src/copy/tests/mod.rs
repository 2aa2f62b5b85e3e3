//! The copy manager over RAM disks, without sessions: commands come as parameter lists.

mod stopping;
mod targets;
mod tokens;
mod xcopy;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use block::testing::FaultyDisk;
use block::{RamDisk, WriteFlags};
use ring::{Buf, CoreConfig, Data};
use scsi::cdb::{Command, decode};
use scsi::nexus::NexusKey;
use scsi::unit::ControlContext;
use scsi::{AdditionalSense, Sense, SenseKey, Status};

use super::*;
use crate::config::UnitSpec;
use crate::outcome::Outcome;
use crate::store::{FileStore, UnitStore};

const MIB: u64 = 1 << 20;

/// Runs a test on a core.
pub(super) fn on_core<Fut: Future<Output = ()> + 'static>(test: impl FnOnce() -> Fut + 'static) {
    ring::block_on(&CoreConfig::default(), async move { test().await }).unwrap();
}

/// Some units, and a copy manager for them.
pub(super) struct Bench {
    pub(super) units: Vec<Arc<Unit>>,
    pub(super) disks: Vec<FaultyDisk>,
    pub(super) copies: Arc<CopyManager>,
    _state: tempfile::TempDir,
}

/// A RAM disk that fails on order.
fn ram(block_bytes: u32, len: u64) -> FaultyDisk {
    FaultyDisk::new(Arc::new(RamDisk::new(block_bytes, len / u64::from(block_bytes)).unwrap()))
}

impl Bench {
    /// Units with these block lengths, 8 MiB each.
    pub(super) fn new(block_bytes: &[u32]) -> Self {
        Self::with(block_bytes, |_| false)
    }

    pub(super) fn with(block_bytes: &[u32], read_only: impl Fn(usize) -> bool) -> Self {
        let state = tempfile::tempdir().unwrap();
        let disks: Vec<_> = block_bytes.iter().map(|&bytes| ram(bytes, 8 * MIB)).collect();
        let spec = |(n, disk): (usize, &FaultyDisk)| UnitSpec {
            device: Arc::new(disk.clone()),
            referrals: None,
            serial: format!("unit-{n}"),
            write_cache: true,
            read_only: read_only(n),
            name: format!("unit {n}"),
        };
        let specs: Vec<_> = disks.iter().enumerate().map(spec).collect();
        let iqn = "iqn.2026-11.dev.drystone:copy";
        let kept = crate::unit::Kept::new();
        let store: Arc<dyn UnitStore> = Arc::new(FileStore::new(state.path()).unwrap());
        let home = crate::unit::Home { iqn, port_group: 1, store: &store, kept: &kept };
        let units = crate::unit::make_all(&specs, &home).unwrap();
        Self { units, disks, copies: Arc::default(), _state: state }
    }

    /// What a command of `host` that only asks is answered.
    pub(super) fn ask(&self, unit: usize, host: u8, command: Command) -> Outcome {
        results::receive(&self.request(unit, host), &self.units, command)
    }

    /// A command of `host` to a unit.
    pub(super) fn request(&self, unit: usize, host: u8) -> Request {
        self.abortable(unit, host, Rc::default())
    }

    pub(super) fn abortable(&self, unit: usize, host: u8, aborted: Rc<Cell<bool>>) -> Request {
        Request {
            copies: self.copies.clone(),
            unit: self.units[unit].clone(),
            key: nexus(host),
            host: [192, 0, 2, host].into(),
            aborted: Box::new(move || aborted.get()),
        }
    }

    /// Fills bytes of a unit with a pattern of its own, and returns it.
    pub(super) async fn fill(&self, unit: usize, at: u64, len: u64, seed: u8) -> Vec<u8> {
        let bytes = pattern(len, seed);
        self.write(unit, at, &bytes).await;
        bytes
    }

    pub(super) async fn write(&self, unit: usize, at: u64, bytes: &[u8]) {
        let mut buf = Buf::alloc(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        let device = &self.units[unit].device;
        device.write(at, Data::from(buf), WriteFlags::VOLATILE).await.unwrap();
    }

    pub(super) async fn read(&self, unit: usize, at: u64, len: u64) -> Vec<u8> {
        let data = self.units[unit].device.read(at, len as usize).await.unwrap();
        let mut bytes = vec![0; data.len()];
        data.copy_to(0, &mut bytes);
        bytes
    }

    /// Runs a command that the logical unit itself executes.
    pub(super) fn control(&self, unit: usize, host: u8, cdb: &[u8], list: &[u8]) -> Status {
        let mut padded = [0; 16];
        padded[..cdb.len()].copy_from_slice(cdb);
        let (_, command) = decode(&padded).unwrap();
        let logical = &self.units[unit].logical;
        let nexus = logical.attach(nexus(host));
        let done = match command {
            Command::PersistentReserveOut { .. } => {
                let mut draft = logical.draft();
                let done = logical.persistent_out(&mut draft, nexus.key(), &command, list);
                logical.install(draft);
                done
            }
            _ => logical.execute(&nexus, &command, list, &ControlContext { luns: &[] }),
        };
        logical.detach(&nexus);
        done.status
    }

    /// `host` takes an Exclusive Access reservation, which keeps all others out.
    pub(super) fn reserve(&self, unit: usize, host: u8) {
        let mut list = [0; 24];
        list[15] = 1 + host;
        let register = [0x5f, 0x06, 0, 0, 0, 0, 0, 0, 24, 0];
        assert_eq!(self.control(unit, host, &register, &list), Status::Good);
        list.rotate_left(8);
        let reserve = [0x5f, 0x01, 0x03, 0, 0, 0, 0, 0, 24, 0];
        assert_eq!(self.control(unit, host, &reserve, &list), Status::Good);
    }
}

/// One port of one initiator, for each number.
pub(super) fn nexus(host: u8) -> NexusKey {
    NexusKey::new("iqn.2026-11.dev.drystone:host", [0, 0, 0, 0, 0, host], 1)
}

/// Bytes in which each block differs from all others.
pub(super) fn pattern(len: u64, seed: u8) -> Vec<u8> {
    let word = |n: u64| (n * 0x9e37_79b9 + u64::from(seed)).to_le_bytes();
    (0..len / 8).flat_map(word).collect()
}

/// What a command answered.
pub(super) fn sense_of(result: Result<(), Outcome>) -> Sense {
    match result {
        Err(Outcome::Check(sense)) => sense,
        other => panic!("no sense data in {other:?}"),
    }
}

pub(super) fn parameters(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Parameters(bytes) => bytes,
        other => panic!("no parameter data in {other:?}"),
    }
}

pub(super) fn illegal(code: AdditionalSense) -> Sense {
    Sense::new(SenseKey::IllegalRequest, code)
}
