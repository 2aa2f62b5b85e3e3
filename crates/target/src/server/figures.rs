//! What hosts have had done, by unit, by portal and by core.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::Latency;
use rustix::time::{ClockId, clock_gettime};

use super::Targets;
use crate::cores::on_cores;
use crate::figures::{EndedSessions, PortalWork, UnitFigures};
use crate::session::{ended_work, sessions};
use crate::targets::Target;

/// What hosts have had done by a unit that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitInfo {
    /// The name of its target.
    pub iqn: String,
    /// Its number there.
    pub lun: usize,
    /// Commands that have not been answered.
    pub waiting: usize,
    /// Since it was first served by this process: taken out of service and served again, it counts on.
    pub figures: UnitFigures,
}

/// What has gone over a portal: an address of this machine at which hosts arrived. The first 64 of a portal that
/// listens on all addresses are told apart; what comes to others is of the portal's own, as `0.0.0.0:3260`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalFigures {
    /// Its address.
    pub portal: SocketAddr,
    /// Connections of hosts that are logged in there, without those of discovery sessions.
    pub connections: usize,
    /// SCSI commands that have come.
    pub commands: u64,
    /// Bytes of data that were sent for them.
    pub read_bytes: u64,
    /// Bytes of data that came for them.
    pub written_bytes: u64,
    /// How long those took that were answered there.
    pub latency: Latency,
}

/// What a core does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreFigures {
    /// Its number, from 0.
    pub core: usize,
    /// Processor time that its thread has taken. A core that waits for the next event without sleeping
    /// takes some, too.
    pub cpu: Duration,
    /// Connections of hosts that are logged in, without those of discovery sessions.
    pub connections: usize,
    /// Memory in I/O buffers that somebody holds.
    pub buffer_bytes: usize,
    /// How long commands took that were answered by it.
    pub latency: Latency,
}

/// All that a server counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// By target and LUN, of targets that are served.
    pub units: Vec<UnitInfo>,
    /// By address.
    pub portals: Vec<PortalFigures>,
    /// By number.
    pub cores: Vec<CoreFigures>,
}

/// What one core, or several, know of a unit.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    figures: UnitFigures,
    waiting: usize,
}

impl Known {
    fn add(&mut self, other: Self) {
        self.figures += other.figures;
        self.waiting += other.waiting;
    }
}

/// A portal's connections, and what went over these and those that have ended.
#[derive(Clone, Copy, Debug, Default)]
struct AtPortal {
    connections: usize,
    work: PortalWork,
}

/// What the cores that have been asked know.
#[derive(Debug, Default)]
struct Found {
    /// By place in the list of units.
    units: HashMap<usize, Known>,
    portals: BTreeMap<SocketAddr, AtPortal>,
    cores: Vec<CoreFigures>,
}

/// Looks at this core: what its sessions have counted, and those that have ended here. Both in one step, as a
/// session goes from the ones to the others in one.
fn look(targets: &[Arc<Target>], found: &Mutex<Found>) {
    let core = ring::core_id();
    let mut live: HashMap<*const EndedSessions, Known> = HashMap::new();
    let mut portals: BTreeMap<SocketAddr, AtPortal> = ended_work()
        .into_iter()
        .map(|(portal, work)| (portal, AtPortal { connections: 0, work }))
        .collect();
    let mut connections = 0;
    for session in sessions() {
        for place in session.places() {
            let figures = place.tally.figures();
            let known = live.entry(Arc::as_ptr(&place.unit.ended)).or_default();
            known.add(Known { figures, waiting: 0 });
        }
        for task in session.tasks_where(|_| true) {
            live.entry(Arc::as_ptr(&task.place.unit.ended)).or_default().waiting += 1;
        }
        for conn in session.connections() {
            connections += 1;
            let at = portals.entry(conn.counted_at).or_default();
            at.connections += 1;
            at.work += conn.work();
        }
    }
    let units = targets.iter().flat_map(|target| &target.units);
    let known: Vec<Known> = units
        .map(|unit| {
            let mut known = live.remove(&Arc::as_ptr(&unit.ended)).unwrap_or_default();
            known.figures += unit.ended.of_core(core);
            known
        })
        .collect();
    let (core, cpu) = (usize::from(core), cpu_time());
    let buffer_bytes = ring::pool_usage().used_bytes;
    let mut latency = Latency::default();
    portals.values().for_each(|at| latency += at.work.latency);
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    for (index, known) in known.into_iter().enumerate() {
        found.units.entry(index).or_default().add(known);
    }
    for (portal, at) in portals {
        let sum = found.portals.entry(portal).or_default();
        sum.connections += at.connections;
        sum.work += at.work;
    }
    found.cores.push(CoreFigures { core, cpu, connections, buffer_bytes, latency });
}

/// What the thread of this core has taken.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

impl Targets {
    /// What has been done for hosts. Nothing is counted twice or left out, whoever comes and goes meanwhile:
    /// each figure is at least what it was when this was called. Each core is asked: must run on a core of the
    /// server.
    pub async fn figures(&self) -> Figures {
        let targets = self.0.targets.served();
        let found = Arc::new(Mutex::new(Found::default()));
        let asked = {
            let (targets, found) = (targets.clone(), found.clone());
            move || {
                look(&targets, &found);
                std::future::ready(())
            }
        };
        on_cores(self.0.cores().to_vec(), asked).await;
        let mut found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        found.cores.sort_unstable_by_key(|core| core.core);
        let places = targets.iter().flat_map(|target| {
            (0..target.units.len()).map(move |lun| (target.name.as_str().to_owned(), lun))
        });
        let unit = |(index, (iqn, lun))| {
            let Known { figures, waiting } = found.units.remove(&index).unwrap_or_default();
            UnitInfo { iqn, lun, waiting, figures }
        };
        let units = places.enumerate().map(unit).collect();
        let portal = |(portal, at): (SocketAddr, AtPortal)| PortalFigures {
            portal,
            connections: at.connections,
            commands: at.work.commands,
            read_bytes: at.work.read_bytes,
            written_bytes: at.work.written_bytes,
            latency: at.work.latency,
        };
        let portals = found.portals.into_iter().map(portal).collect();
        Figures { units, portals, cores: found.cores }
    }
}
