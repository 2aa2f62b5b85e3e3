//! A logical unit: its SCSI state, and the disk behind it.

mod reserving;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use block::{BlockDevice, BlockError, stable};
use ring::Data;
use ring::wait::Turns;
use scsi::alua::{AccessState, PortGroup, PortGroups};
use scsi::copy::CopyRegistry;
use scsi::unit::{Identity, LogicalUnit, MediumInfo, TargetPort, UnitConfig};
use thiserror::Error;

use crate::config::UnitSpec;
use crate::figures::EndedSessions;
use crate::store::{Place, Record, UnitStore};
use crate::tokens::UnitTokens;

use reserving::Reserving;

pub(crate) use reserving::{change as change_reservations, clear as clear_reservations};

/// PRODUCT REVISION LEVEL has room for four characters, as in `0.1`.
const REVISION: &str =
    concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));

/// MAXIMUM TRANSFER LENGTH: what one command moves at most.
const TRANSFER_BYTES_MAX: u32 = 8 << 20;

/// MAXIMUM WRITE SAME LENGTH: what even a slow disk writes in a second or two, so that one command
/// stays far from the time-outs of hosts.
const WRITE_SAME_BYTES_MAX: u32 = 16 << 20;

/// MAXIMUM UNMAP LBA COUNT: it changes metadata only, but of a fragmented disk much of it. In blocks of
/// 512 bytes it is what libiscsi's conformance test takes for sane.
const UNMAP_BYTES_MAX: u32 = 512 << 20;

/// What stands in the file of a SANITIZE that has not ended well: whether EXIT FAILURE MODE is allowed.
const EXIT_ALLOWED: &[u8] = b"exit allowed\n";
const EXIT_REFUSED: &[u8] = b"exit refused\n";

/// One exported disk, shared by all cores.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) logical: LogicalUnit,
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) block_bytes: u32,
    pub(crate) name: String,
    pub(crate) serial: String,
    store: Arc<dyn UnitStore>,
    /// Long work at its disk that costs hosts next to nothing.
    pub(crate) long_work: Turns<IpAddr>,
    /// Looks through its map, which cost hosts nothing either and must not wait for writes.
    pub(crate) walks: Turns<IpAddr>,
    /// Changes of its reservations that wait, and who makes one.
    pub(crate) reserving: Reserving,
    /// Copy tokens for its blocks. Whatever changes a block says so first.
    pub(crate) tokens: Arc<UnitTokens>,
    /// What became of the copies that were sent to it.
    records: StdMutex<CopyRegistry>,
    /// It is taken away: no copy may begin that touches it.
    gone: AtomicBool,
    /// What sessions that have ended had done by it.
    pub(crate) ended: Arc<EndedSessions>,
}

/// Saved reservations that cannot be used. Serving the unit without them would let in hosts that
/// were fenced off.
#[derive(Debug, Error)]
pub enum ReservationsError {
    /// The record cannot be read.
    #[error("cannot read what was saved of a unit in {place}: {source}")]
    Unreadable {
        /// Which record.
        place: Place,
        /// What the system says.
        source: io::Error,
    },
    /// The record is damaged.
    #[error("the saved reservations in {place} are damaged; {}", place.remedy)]
    Damaged {
        /// Which record.
        place: Place,
    },
}

/// What the units of one target have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home<'a> {
    /// The target's name.
    pub(crate) iqn: &'a str,
    /// The number of its portal group.
    pub(crate) port_group: u16,
    /// Where reservations are kept.
    pub(crate) store: &'a Arc<dyn UnitStore>,
    /// Those of units that were served before in this process.
    pub(crate) kept: &'a Kept,
}

/// What is kept of units that are not served for now, by their serial numbers.
pub(crate) type Kept = BTreeMap<String, KeptUnit>;

/// What is kept of a unit that is not served for now.
#[derive(Clone, Debug)]
pub(crate) struct KeptUnit {
    /// An image of its reservations.
    reservations: Vec<u8>,
    ended: Arc<EndedSessions>,
}

impl KeptUnit {
    /// That of a unit which was served by another server, with its reservations.
    pub(crate) fn arrived(reservations: Vec<u8>) -> Self {
        Self { reservations, ended: Arc::default() }
    }

    pub(crate) fn reservations(&self) -> &[u8] {
        &self.reservations
    }
}

/// Makes the units of a target, with the reservations that outlived its last run.
pub(crate) fn make_all(
    specs: &[UnitSpec],
    home: &Home<'_>,
) -> Result<Vec<Arc<Unit>>, ReservationsError> {
    specs.iter().map(|spec| Unit::new(spec, home).map(Arc::new)).collect()
}

impl Unit {
    fn new(spec: &UnitSpec, home: &Home<'_>) -> Result<Self, ReservationsError> {
        let geometry = spec.device.geometry();
        let load = |record| {
            home.store.load(&spec.serial, record).map_err(|source| ReservationsError::Unreadable {
                place: home.store.place(&spec.serial, record),
                source,
            })
        };
        let damaged = |_| {
            let place = home.store.place(&spec.serial, Record::Reservations);
            ReservationsError::Damaged { place }
        };
        let kept = home.kept.get(&spec.serial);
        let image = if kept.is_some() { None } else { load(Record::Reservations)? };
        let logical =
            LogicalUnit::new(unit_config(spec, home), image.as_deref()).map_err(damaged)?;
        if let Some(kept) = kept {
            // It was away without a loss of power: no reservation has ended (SPC-4 5.13.5).
            logical.restore_reservations(&kept.reservations).map_err(damaged)?;
        }
        if let Some(image) = load(Record::Sanitize)? {
            // Whatever else it holds, the medium stays closed.
            logical.sanitize_was_cut_off(image == EXIT_ALLOWED);
        }
        Ok(Self {
            logical,
            serial: spec.serial.clone(),
            device: spec.device.clone(),
            block_bytes: geometry.block_bytes,
            name: spec.name.clone(),
            store: home.store.clone(),
            long_work: Turns::default(),
            walks: Turns::default(),
            reserving: Reserving::default(),
            tokens: Arc::default(),
            records: StdMutex::default(),
            gone: AtomicBool::new(false),
            ended: kept.map(|kept| kept.ended.clone()).unwrap_or_default(),
        })
    }

    /// What it takes along to where it is served next.
    pub(crate) fn keep(&self) -> KeptUnit {
        KeptUnit { reservations: self.logical.reservations_image(), ended: self.ended.clone() }
    }

    /// Does something with the records of the copies that were sent to it.
    pub(crate) fn records<T>(&self, act: impl FnOnce(&mut CopyRegistry) -> T) -> T {
        // A panic under the lock is a bug, but the records are sound at every step.
        act(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Set and asked under the lock of the copies under way, which orders the two.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Takes over the capacity that the device has now.
    pub(crate) fn look_at_size(&self) {
        let (before, now) = (self.logical.medium().blocks.get(), self.device.geometry().blocks);
        if now < before {
            // They are other blocks when it grows again.
            self.tokens.changed(now, before - now);
        }
        self.logical.resize(now);
    }

    /// Bytes in this many blocks.
    #[inline]
    pub(crate) fn bytes_of(&self, blocks: u64) -> u64 {
        blocks * u64::from(self.block_bytes)
    }

    /// Reads into memory that stands still.
    pub(crate) async fn read_stable(&self, at: u64, len: usize) -> Result<Data, BlockError> {
        stable(self.device.read(at, len).await?)
    }

    /// A write must be durable before its answer: FUA, or no write cache.
    #[inline]
    pub(crate) fn is_durable(&self, fua: bool) -> bool {
        fua || !self.logical.write_cache_enabled()
    }

    /// Makes the image of the reservations durable, or that there is none, in place of the last one.
    pub(crate) async fn save_reservations(&self, image: Option<Vec<u8>>) -> io::Result<()> {
        self.store.save(&self.serial, Record::Reservations, image).await
    }

    /// Makes durable that the medium is not to be used until a SANITIZE has ended well, or an initiator
    /// exits from the failure of one that allows it.
    pub(crate) async fn note_sanitize(&self, unrestricted_exit: bool) -> io::Result<()> {
        let image = if unrestricted_exit { EXIT_ALLOWED } else { EXIT_REFUSED };
        self.store.save(&self.serial, Record::Sanitize, Some(image.to_vec())).await
    }

    /// Makes durable that it can be used.
    pub(crate) async fn forget_sanitize(&self) -> io::Result<()> {
        self.store.save(&self.serial, Record::Sanitize, None).await
    }
}

fn unit_config(spec: &UnitSpec, home: &Home<'_>) -> UnitConfig {
    let geometry = spec.device.geometry();
    let in_blocks = |bytes: u32| bytes / geometry.block_bytes;
    let mut medium = MediumInfo::new(geometry.block_bytes, geometry.blocks);
    medium.read_only = spec.read_only || geometry.read_only;
    medium.thin = geometry.thin;
    medium.physical_exponent = in_blocks(geometry.physical_block_bytes).max(1).ilog2() as u8;
    medium.unmap_granularity_blocks = in_blocks(geometry.unmap_granularity_bytes).max(1);
    medium.unmap_alignment_blocks = in_blocks(geometry.unmap_alignment_bytes);
    medium.rotation_rate = if geometry.rotational { 0 } else { 1 };
    medium.limits.transfer_blocks_max = in_blocks(TRANSFER_BYTES_MAX);
    medium.limits.transfer_blocks_optimal = in_blocks(geometry.optimal_transfer_bytes);
    medium.limits.transfer_blocks_granularity =
        u16::try_from(in_blocks(geometry.transfer_granularity_bytes)).unwrap_or(0);
    medium.limits.unmap_blocks_max = in_blocks(UNMAP_BYTES_MAX);
    medium.limits.write_same_blocks_max = in_blocks(WRITE_SAME_BYTES_MAX).into();
    medium.limits.atomic_blocks_max = in_blocks(geometry.atomic_bytes_max);
    medium.limits.or_write_blocks_max = in_blocks(geometry.atomic_bytes_max);
    medium.limits.compare_blocks_max =
        u8::try_from(in_blocks(geometry.atomic_bytes_max)).unwrap_or(u8::MAX);
    let number = home.port_group;
    let port = TargetPort { relative_id: number, portal_group_tag: number };
    UnitConfig {
        identity: Identity::new(&spec.serial, "VOLUME", REVISION),
        medium,
        write_cache: spec.write_cache,
        target_name: home.iqn.to_owned(),
        ports: vec![port],
        port_groups: port_groups(number),
        referrals: spec.referrals.clone(),
    }
}

/// One group with the one port. No host changes its state: it would take the unit from the others.
fn port_groups(number: u16) -> PortGroups {
    let group = PortGroup::new(number, AccessState::ActiveOptimized, vec![number]);
    PortGroups::new(vec![group], false, 0).expect("one port is in one group")
}
