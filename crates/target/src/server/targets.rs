//! The targets of a server, which come and go while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use iscsi::chap::{ChapPolicy, Credentials};
use iscsi::text::IscsiName;
use ring::wait::both;
use scsi::AdditionalSense;
use scsi::referrals::ReferralMap;

use crate::access::{Access, Rules};
use crate::config::TargetSpec;
use crate::elsewhere::RemoteTarget;
use crate::floating::{FloatingListener, FloatingPortal};
use crate::portal;
use crate::shared::Shared;
use crate::stopping;
use crate::store::Record;
use crate::targets::{Found, Hold, Target, TargetError};
use crate::unit::Unit;

/// How long copies may take to end that must not go on.
const COPIES_END: Duration = Duration::from_secs(10);

/// A target as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInfo {
    /// Its name.
    pub iqn: String,
    /// Sessions that are logged in to it.
    pub sessions: usize,
}

/// Who is registered with a unit (SPC-5 §5.14, persistent reservations).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitRegistrations {
    /// The serial number of the unit.
    pub serial: String,
    /// How many registrations each host has, by its iSCSI name. There are some.
    pub hosts: BTreeMap<Arc<str>, usize>,
}

/// The targets of a running server: a handle that can be cloned and used from any thread.
#[derive(Clone, Debug)]
pub struct Targets(pub(crate) Arc<Shared>);

impl Targets {
    /// The number of the portal group from now on, which [`Config::port_group`](crate::Config) may not have known
    /// yet. To be called before there are targets: nexuses would be others than their targets say.
    pub fn set_port_group(&self, number: NonZeroU16) {
        let before = self.0.port_group.swap(number.get(), Ordering::Relaxed);
        debug_assert!(
            before == number.get() || self.0.targets.served().is_empty(),
            "targets that are served keep their number"
        );
    }

    /// The addresses that the server listens on, as bound; none before it does.
    #[must_use]
    pub fn portals(&self) -> Vec<SocketAddr> {
        self.0.portals.get().cloned().unwrap_or_default()
    }

    /// Serves one more target. It reads a small file for each of its units.
    ///
    /// # Errors
    /// [`TargetError`]; nothing has changed then. [`TargetError::Busy`] if a unit with the same serial number
    /// is still at work for hosts of its last target: what fences hosts off, or ends their tasks, would
    /// not find these.
    pub fn add(&self, spec: TargetSpec) -> Result<(), TargetError> {
        let Self(shared) = self;
        if shared.is_stopping() {
            return Err(TargetError::Stopping);
        }
        let serials = spec.units.iter().map(|unit| unit.serial.as_str());
        let (kept, is_leaving) = shared.targets.kept(serials);
        if is_leaving {
            return Err(TargetError::Busy(spec.iqn));
        }
        let target = Target::new(spec, &shared.common(), &kept)?;
        let taken = |target: Target| TargetError::Taken(target.name.as_str().to_owned());
        shared.targets.insert(target).map_err(taken)
    }

    /// Changes who may use a target that is served; `None` takes the server's rules. It holds for every login
    /// that is not over yet. Sessions that would not be let in now, by name, address or CHAP user of any of
    /// their connections, or as a user's secret is another, are ended with their tasks; all others
    /// are left alone, also those of a second host where it is not shared any more. Returns how many sessions
    /// were ended, when they have. Must run on a core of the server.
    ///
    /// # Errors
    /// [`TargetError::Name`], [`TargetError::Access`] and [`TargetError::Unknown`]: nothing has changed.
    /// [`TargetError::Busy`]: the rules have, and who must not be connected is not, but a disk still works
    /// on what such a host asked for.
    pub async fn set_access(
        &self,
        iqn: &str,
        access: Option<Access>,
    ) -> Result<usize, TargetError> {
        let Self(shared) = self;
        let name = parse(iqn)?;
        let rules = match access {
            Some(access) => Arc::new(Rules::new(access)?),
            None => shared.rules.clone(),
        };
        let Found::Served(target) = shared.targets.find(name.as_str()) else {
            return Err(TargetError::Unknown(iqn.to_owned()));
        };
        let is_general = |target: &Target| Arc::ptr_eq(&target.rules(), &shared.rules);
        let was_general = is_general(&target);
        target.set_rules(rules);
        // Hosts of others with the server's rules could have sent copies that read and write here.
        let is_to_part = was_general && !is_general(&target);
        let copies = is_to_part.then(|| shared.copies.keep_out(&target.units));
        let copies_are_busy = async {
            let Some(copies) = copies else { return false };
            ring::timeout(COPIES_END, copies.wait()).await.is_none()
        };
        // Nobody stays connected for as long as copies take.
        let ending = stopping::end_unadmitted(shared, &target);
        let (ended, is_busy) = both(ending, copies_are_busy).await;
        let ended = ended?;
        if is_busy { Err(TargetError::Busy(iqn.to_owned())) } else { Ok(ended) }
    }

    /// The CHAP users that there are, whether rules name them or not: who need not prove anything to discover may prove to
    /// be one of them, and loses nothing by that.
    pub fn set_known_users(&self, users: Vec<Credentials>) {
        let known = ChapPolicy::new(users, None)
            .expect("without a secret of the target none is there twice");
        *self.0.known_users() = Arc::new(known);
    }

    /// Lets no more hosts begin sessions of a target while the [`Hold`] is there, and says which have some now, by their
    /// names; `None` where it is not served. Who asks for [connections](Self::connections) afterwards sees all of those
    /// that have got in.
    #[must_use]
    pub fn hold(&self, iqn: &str) -> Option<(Hold, BTreeSet<Arc<str>>)> {
        let Self(shared) = self;
        let Found::Served(target) = shared.targets.find(&iqn.to_ascii_lowercase()) else {
            return None;
        };
        let name = target.name.as_str().to_owned();
        let hold = Hold::new(target);
        Some((hold, shared.registry.hosts(&name)))
    }

    /// Takes a target away: its hosts are asked to log out and have `grace` to do so, what is left
    /// is ended, its disks are flushed. Later logins find no such target. One that is not served is
    /// forgotten. Must run on a core of the server.
    ///
    /// # Errors
    /// [`TargetError::Busy`] and [`TargetError::Flush`]; the target is gone all the same.
    pub async fn remove(&self, iqn: &str, grace: Duration) -> Result<(), TargetError> {
        self.take(iqn, false, grace).await
    }

    /// Whether a disk still works for the last hosts of a unit with this serial number, which is not served any more.
    #[must_use]
    pub fn is_at_work(&self, serial: &str) -> bool {
        self.0.targets.kept(std::iter::once(serial)).1
    }

    /// As [`remove`](Self::remove), but the name stays known, also if it has never been served:
    /// hosts that log in hear that the service is unavailable for now, and so try again until it
    /// is [added](Self::add) back. "No such target" would make many of them give up. Until then their
    /// reservations are kept, too, also those that no loss of power outlives.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn set_offline(&self, iqn: &str, grace: Duration) -> Result<(), TargetError> {
        self.take(iqn, true, grace).await
    }

    /// Forgets names that are [offline](Self::set_offline) and not known any more: hosts that log in hear that
    /// there is no such target. Their units may be served under others, with the reservations that they had.
    pub fn retain_names(&self, is_known: impl Fn(&str) -> bool) {
        self.0.targets.retain_names(is_known);
    }

    /// Whether there may be targets under names that are not known yet. As long as that is so, hosts that log in under
    /// any name that is not known hear that the service is unavailable for now, as at one that is
    /// [offline](Self::set_offline). It is not so at first.
    pub fn set_incomplete(&self, is_incomplete: bool) {
        self.0.targets.set_incomplete(is_incomplete);
    }

    /// The targets that others serve, by name, and where they do; nothing else is known of others from now on. A host
    /// that asks here for one of them, by a name that leads to nothing here, is sent to one of the portals for now (RFC
    /// 7143 §11.13.5, 0101h): to the one whose address begins most like that which it came to, else to the first; never to
    /// a loopback address, unless it came to one, nor to a link-local or multicast one. Where there is no portal it hears that the service is unavailable for now. Names that are
    /// served here or [offline](Self::set_offline) are not looked for elsewhere, nor any while targets here may be
    /// [missing](Self::set_incomplete). Discovery tells of them behind what is served here, where they are
    /// [shown](RemoteTarget::shown_to), and whom it tells of one may discover.
    ///
    /// This may be old news: a host that comes too often from one address is not sent on for some seconds, so that
    /// servers which believe a target to be with each other do not send it round.
    pub fn set_elsewhere(&self, targets: BTreeMap<String, RemoteTarget>) {
        self.0.elsewhere.set(targets);
    }

    /// A portal that this server and others of its group have by turns; `None` for none. A host that logs in there to a
    /// target that is served here is sent to one of the server's own portals for now (0101h), as it is to those of
    /// others, and discovery there tells of those. So it is at whichever of its portals that address is reached.
    pub fn set_floating(&self, portal: Option<FloatingPortal>) {
        self.0.floating.set(portal);
    }

    /// Listens at such an address, which this host need not have now, for as long as the value is there; `None` where
    /// a portal of the server takes what comes there. Must run on a core of the server.
    ///
    /// # Errors
    /// The address or the port cannot be had.
    pub fn listen_floating(&self, address: SocketAddr) -> io::Result<Option<FloatingListener>> {
        let covers = |portal: &SocketAddr| {
            portal.ip().is_unspecified()
                && portal.is_ipv4() == address.is_ipv4()
                && portal.port() == address.port()
        };
        if self.portals().iter().any(covers) {
            return Ok(None);
        }
        let listener = FloatingListener::default();
        portal::open_floating(&self.0, address, listener.ended())?;
        Ok(Some(listener))
    }

    async fn take(&self, iqn: &str, offline: bool, grace: Duration) -> Result<(), TargetError> {
        let Self(shared) = self;
        let name = parse(iqn)?;
        let Some(target) = shared.targets.take(name.as_str(), offline) else { return Ok(()) };
        let ended = stopping::end_target(shared, &target, grace).await;
        // Where a disk still works for its last hosts, a task that nobody sees any more may write yet.
        shared.targets.left(&target, matches!(ended, Err(TargetError::Busy(_))));
        ended
    }

    /// The blocks of a unit that was made with referrals are reached best through other port
    /// groups than before; its hosts are told.
    pub fn set_referrals(&self, iqn: &str, lun: usize, map: Arc<ReferralMap>) {
        if let Found::Served(target) = self.0.targets.find(&iqn.to_ascii_lowercase())
            && let Some(unit) = target.units.get(lun)
        {
            unit.logical.set_referrals(map);
        }
    }

    /// Looks whether devices of a target have another capacity now; if so, every host that is
    /// logged in is told CAPACITY DATA HAS CHANGED.
    pub fn resized(&self, iqn: &str) {
        if let Found::Served(target) = self.0.targets.find(&iqn.to_ascii_lowercase()) {
            target.units.iter().for_each(|unit| unit.look_at_size());
        }
    }

    /// A SANITIZE of the unit with this serial number, served or not, has not ended well: it is under way,
    /// failed, or was cut off. What is left of its data is not to be given out. Reads a small file.
    ///
    /// # Errors
    /// It cannot be known.
    pub fn is_unsanitized(&self, serial: &str) -> io::Result<bool> {
        Ok(self.0.store.load(serial, Record::Sanitize)?.is_some())
    }

    /// Who is registered with the units that are served, where anybody is.
    #[must_use]
    pub fn registrations(&self) -> Vec<UnitRegistrations> {
        let served = self.0.targets.served();
        let units = served.iter().flat_map(|target| &target.units);
        let of = |unit: &Arc<Unit>| {
            let hosts = unit.logical.registrants();
            (!hosts.is_empty()).then(|| UnitRegistrations { serial: unit.serial.clone(), hosts })
        };
        units.filter_map(of).collect()
    }

    /// The hosts that have write-protected units by MODE SELECT, each for all hosts of its unit: by the serial numbers
    /// of units that are served.
    #[must_use]
    pub fn write_protections(&self) -> BTreeMap<String, Arc<str>> {
        let served = self.0.targets.served();
        let units = served.iter().flat_map(|target| &target.units);
        units
            .filter_map(|unit| Some((unit.serial.clone(), unit.logical.write_protected_by()?)))
            .collect()
    }

    /// Warns every host of a thin unit that space runs short: THIN PROVISIONING SOFT THRESHOLD
    /// REACHED (SBC-4 4.7.3.7).
    pub fn warn_of_space(&self) {
        let served = self.0.targets.served();
        for unit in served.iter().flat_map(|target| &target.units) {
            if unit.logical.medium().thin {
                let condition = AdditionalSense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED;
                unit.logical.establish_attention(|_| true, condition);
            }
        }
    }

    /// All targets that are served, in the order of their names.
    #[must_use]
    pub fn list(&self) -> Vec<TargetInfo> {
        let Self(shared) = self;
        let counts = shared.registry.counts();
        let info = |target: Arc<Target>| {
            let iqn = target.name.as_str();
            let sessions = counts.get(iqn).copied().unwrap_or(0);
            TargetInfo { iqn: iqn.to_owned(), sessions }
        };
        shared.targets.served().into_iter().map(info).collect()
    }
}

/// # Errors
/// [`TargetError::Name`].
fn parse(iqn: &str) -> Result<IscsiName, TargetError> {
    IscsiName::parse(iqn).map_err(|error| TargetError::Name { name: iqn.to_owned(), error })
}
