//! One target: its name, its logical units, and who may use it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use iscsi::text::IscsiName;

use super::TargetError;
use crate::access::Rules;
use crate::config::TargetSpec;
use crate::registry::Sharing;
use crate::store::UnitStore;
use crate::unit::{self, Home, Kept, Unit};

/// What all targets of a server have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common<'a> {
    /// The number of the portal group.
    pub(crate) port_group: u16,
    /// Where units keep what outlives a restart.
    pub(crate) store: &'a Arc<dyn UnitStore>,
    /// For targets without rules of their own.
    pub(crate) rules: &'a Arc<Rules>,
}

/// One target, shared by all cores. A session holds it from login to its end.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) name: IscsiName,
    pub(crate) alias: Option<String>,
    pub(crate) units: Vec<Arc<Unit>>,
    /// Asked at login, at discovery and by copies, never on the way of a command.
    rules: Mutex<Arc<Rules>>,
    /// It is being taken away: no session may begin. Set before the sessions are told to end.
    closing: AtomicBool,
    /// So many decide whether it is to be for one host.
    holds: AtomicUsize,
}

/// While this is there, no host begins a session of the target that has none yet, if another one has: it is told to come
/// back later. So it can be looked who would stay, before a rule is stored that lets one host in at a time.
#[derive(Debug)]
pub struct Hold(Arc<Target>);

impl Hold {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        target.holds.fetch_add(1, Ordering::SeqCst);
        Self(target)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Target {
    /// Reads the reservations that were saved for its units, but for those of units that were `kept`.
    pub(crate) fn new(
        spec: TargetSpec,
        common: &Common<'_>,
        kept: &Kept,
    ) -> Result<Self, TargetError> {
        let name = IscsiName::parse(&spec.iqn)
            .map_err(|error| TargetError::Name { name: spec.iqn.clone(), error })?;
        if spec.units.is_empty() {
            return Err(TargetError::Empty(spec.iqn));
        }
        let Common { port_group, store, .. } = *common;
        let home = Home { iqn: &spec.iqn, port_group, store, kept };
        let units = unit::make_all(&spec.units, &home)?;
        let own = spec.access.map(Rules::new).transpose()?;
        Ok(Self {
            name,
            alias: spec.alias,
            units,
            rules: Mutex::new(own.map_or_else(|| common.rules.clone(), Arc::new)),
            closing: AtomicBool::new(false),
            holds: AtomicUsize::new(0),
        })
    }

    /// Who may use it now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Others may use it from now on. Sessions that they do not let in are ended by the caller, who looks for
    /// them afterwards: a login that has not seen these rules has its session by then.
    pub(crate) fn set_rules(&self, rules: Arc<Rules>) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = rules;
    }

    /// How many hosts may use it at the same time.
    pub(crate) fn sharing(&self) -> Sharing {
        match (self.rules().is_shared, self.holds.load(Ordering::SeqCst)) {
            (false, _) => Sharing::One,
            (true, 0) => Sharing::Several,
            (true, _) => Sharing::NoMore,
        }
    }

    /// The LUNs, as they stand in PDUs and in REPORT LUNS.
    pub(crate) fn luns(&self) -> Vec<u64> {
        let indices = (0..self.units.len()).map_while(|index| u16::try_from(index).ok());
        indices.filter_map(scsi::param::encode_lun).collect()
    }

    /// What its units keep for the time when they are served again.
    pub(crate) fn keep(&self) -> Kept {
        let image = |unit: &Arc<Unit>| (unit.serial.clone(), unit.keep());
        self.units.iter().map(image).collect()
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
