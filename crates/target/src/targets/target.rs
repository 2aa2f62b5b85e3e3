//! One target: its name, its logical units, and who may use it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iscsi::chap::{AuthPolicy, ChapPolicy, CredentialsError};
use iscsi::text::IscsiName;

use super::TargetError;
use crate::config::{Access, AllowRule, TargetSpec};
use crate::store::UnitStore;
use crate::unit::{self, Home, Kept, Unit};

/// Who may log in, as a login asks for it.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) auth: AuthPolicy,
    allow: Vec<AllowRule>,
}

impl Rules {
    /// # Errors
    /// The same secret for both directions.
    pub(crate) fn new(access: Access) -> Result<Self, TargetError> {
        Ok(Self { auth: auth_policy(&access)?, allow: access.allow })
    }

    pub(crate) fn admit(&self, initiator: &str, from: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|rule| rule.admits(initiator, from))
    }
}

/// What initiators must prove, as the login needs it.
///
/// # Errors
/// The same secret for both directions.
fn auth_policy(access: &Access) -> Result<AuthPolicy, CredentialsError> {
    match &access.chap {
        None => Ok(AuthPolicy::None),
        Some(user) => {
            let policy = ChapPolicy::new(vec![user.clone()], access.mutual.clone())?;
            Ok(AuthPolicy::Chap(Arc::new(policy)))
        }
    }
}

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
    pub(crate) rules: Arc<Rules>,
    /// It is being taken away: no session may begin. Set before the sessions are told to end.
    closing: AtomicBool,
}

impl Target {
    /// Reads the reservations that were saved for its units, but for those that were `kept`.
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
            rules: own.map_or_else(|| common.rules.clone(), Arc::new),
            closing: AtomicBool::new(false),
        })
    }

    /// The LUNs, as they stand in PDUs and in REPORT LUNS.
    pub(crate) fn luns(&self) -> Vec<u64> {
        let indices = (0..self.units.len()).map_while(|index| u16::try_from(index).ok());
        indices.filter_map(scsi::param::encode_lun).collect()
    }

    /// The reservations of its units, for the time when it is served again.
    pub(crate) fn keep(&self) -> Kept {
        let image = |unit: &Arc<Unit>| (unit.serial.clone(), unit.logical.reservations_image());
        self.units.iter().map(image).collect()
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
