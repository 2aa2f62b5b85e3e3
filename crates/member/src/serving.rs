//! Keeps the targets in line with the volumes and snapshots that are online.

mod wanted;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use array::Array;
use array::api::{SnapshotInfo, VolumeInfo, VolumeState};
use group::access::Object;
use group::membership::{GroupId, SpreadId};
use group::ownership::MemberId;
use group::words::counted;
use ring::wait::{Bell, OneshotReceiver, both};
use target::{Access, ConnectionInfo, RemoteTarget, TargetError, TargetSpec, Targets, UnitInfo};

use crate::events::{Event, EventLog, Kind, ObjectKind};
use crate::mutants::{self, Mutant};
use crate::names::Names;
use crate::reply::{Connection, DiskFigures, Figures, VolumeFigures};
use crate::settings::{MemberSettings, hidden};
use crate::spread::{self, Spread};
use wanted::Wanted;

/// How long hosts have to log out once they are told that their target goes.
pub const GRACE: Duration = Duration::from_secs(5);

/// What is served as a target. Its name may pass from one volume to another.
#[derive(Debug, Clone)]
struct Served {
    serial: String,
    /// The number of the volume whose settings say who may use it.
    volume: u32,
    object: Object,
}

/// What hosts may know, by the name of its target: a volume, and the snapshot if it is one of it.
type Known = BTreeMap<String, (String, Option<String>)>;

/// The targets of a member.
#[derive(Debug)]
pub(crate) struct Serving {
    array: Array,
    targets: Targets,
    names: RefCell<Rc<Names>>,
    /// How often the settings had changed when these were made; `None` of those that know nothing of settings.
    named_at: Cell<Option<u64>>,
    /// The targets that others serve, where they can be reached.
    elsewhere: RefCell<BTreeSet<String>>,
    /// Nothing was heard yet of what other members have, in a group.
    awaits_group: Cell<bool>,
    settings: Rc<MemberSettings>,
    /// The volumes that lie on several members.
    spread: Rc<Spread>,
    /// By target.
    served: Mutex<BTreeMap<String, Served>>,
    /// Why targets that should be served are not.
    refused: RefCell<BTreeMap<String, String>>,
    /// One of them is not because a disk still works for its last hosts.
    is_waiting: Cell<bool>,
    /// Who the member was when that was done last: what lies on several members goes by it.
    settled_as: RefCell<Option<(GroupId, MemberId)>>,
    /// How often targets that are served were given other rules.
    rules_given: Cell<u64>,
    /// How often [`settle`](Self::settle) has come to its end.
    settles: Cell<u64>,
    settled: Bell,
    /// The number of the portal group.
    port_group: Cell<u16>,
    events: EventLog,
}

impl Serving {
    pub(crate) fn new(
        array: Array,
        targets: Targets,
        names: Names,
        (settings, spread): (Rc<MemberSettings>, Rc<Spread>),
        events: EventLog,
    ) -> Serving {
        Serving {
            array,
            targets,
            names: RefCell::new(Rc::new(names)),
            named_at: Cell::default(),
            elsewhere: RefCell::default(),
            awaits_group: Cell::default(),
            settings,
            spread,
            served: Mutex::default(),
            refused: RefCell::default(),
            is_waiting: Cell::new(false),
            settled_as: RefCell::default(),
            rules_given: Cell::new(0),
            settles: Cell::new(0),
            settled: Bell::default(),
            port_group: Cell::new(0),
            events,
        }
    }

    /// How names are made. What hosts know volumes by that were made on other arrays is among the settings.
    pub(crate) fn names(&self) -> Rc<Names> {
        let changes = self.settings.changes();
        if self.named_at.replace(Some(changes)) != Some(changes) {
            let names = self.names.borrow().with_adopted(self.settings.all_adopted());
            self.names.replace(Rc::new(names));
        }
        self.names.borrow().clone()
    }

    /// The name of the target of this volume.
    pub(crate) fn iqn_of_volume(&self, volume: &VolumeInfo) -> String {
        self.names().volume(volume.id, &volume.name)
    }

    /// The same, by the name of the volume; of one that is not there, as it would be if it were made.
    pub(crate) fn iqn_of(&self, name: &str) -> String {
        let volume = self.array.volume(name).ok().or_else(|| self.spread.volume(name));
        match volume {
            Some(volume) => self.iqn_of_volume(&volume),
            None => self.names().new_volume(name),
        }
    }

    /// The name of the target of a snapshot of the volume of this name.
    pub(crate) fn iqn_of_snapshot(&self, volume: &str, name: &str) -> String {
        // A snapshot of no volume is served to nobody: any name will do.
        let id = self.array.volume(volume).map_or(0, |volume| volume.id);
        self.names().snapshot((id, volume), name)
    }

    /// Hosts know targets by these names from now on, once [`settle`](Self::settle) was called.
    pub(crate) fn set_names(&self, names: Names) {
        self.names.replace(Rc::new(names));
        self.named_at.set(None);
    }

    /// Where hosts find the targets of other members, by name, and whom discovery tells of them; where no portal is given
    /// they are to come back later.
    pub(crate) fn set_elsewhere(&self, targets: BTreeMap<String, RemoteTarget>) {
        let reached = targets.iter().filter(|(_, target)| !target.portals.is_empty());
        let reached = reached.map(|(iqn, _)| iqn.clone()).collect();
        self.targets.set_elsewhere(targets);
        self.elsewhere.replace(reached);
        if self.awaits_group.replace(false) {
            self.say_whether_incomplete();
        }
        if !self.settings.departures().is_empty() {
            // Hosts of what another member has now are sent there, and what is offline here is not looked for.
            let known = self.known();
            self.targets.retain_names(|iqn| known.contains_key(iqn));
        }
    }

    /// A target that is unknown here may be another member's until something is heard of these: hosts that ask for one are
    /// to come back, and not to hear that there is none.
    pub(crate) fn await_group(&self) {
        self.awaits_group.set(true);
        self.say_whether_incomplete();
    }

    /// Whether that is waited for.
    pub(crate) fn awaits_group(&self) -> bool {
        self.awaits_group.get()
    }

    fn say_whether_incomplete(&self) {
        let is_incomplete = self.settings.fault().is_some() || self.awaits_group.get();
        self.targets.set_incomplete(is_incomplete);
    }

    /// Whether hosts that ask here for this target are sent to another member.
    pub(crate) fn is_elsewhere(&self, iqn: &str) -> bool {
        self.elsewhere.borrow().contains(iqn)
    }

    /// The number of the portal group that hosts know this member by; 0 before it is set.
    pub(crate) fn port_group(&self) -> u16 {
        self.port_group.get()
    }

    /// Hosts know it by this number from now on.
    pub(crate) fn set_port_group(&self, number: NonZeroU16) {
        self.port_group.set(number.get());
        self.targets.set_port_group(number);
    }

    pub(crate) fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Sessions by target.
    pub(crate) fn sessions(&self) -> BTreeMap<String, usize> {
        self.targets.list().into_iter().map(|info| (info.iqn, info.sessions)).collect()
    }

    /// Who is connected to what.
    pub(crate) async fn connections(&self) -> Vec<Connection> {
        let all = self.targets.connections().await;
        let known = self.known();
        let of = |info: &ConnectionInfo| known.get(&info.iqn).cloned();
        all.into_iter().map(|info| Connection::new(of(&info), info)).collect()
    }

    /// What hosts have had done, beside what disks did. What changes its name meanwhile is left out.
    pub(crate) async fn figures(&self, disks: Vec<DiskFigures>) -> Figures {
        let target::Figures { units, portals, cores } = self.targets.figures().await;
        let (known, array) = (self.known(), self.array.figures());
        let of = |info: UnitInfo| Some(VolumeFigures::new(known.get(&info.iqn)?.clone(), info));
        Figures {
            volumes: units.into_iter().filter_map(of).collect(),
            portals,
            cores,
            disks,
            array,
        }
    }

    /// All volumes of the member that are its own: not the one that the settings lie on, nor what has not yet come, nor
    /// what another member has by now.
    pub(crate) fn volumes(&self) -> Vec<VolumeInfo> {
        let seen = self.array.volumes().into_iter().filter_map(|it| self.spread.as_seen(it));
        seen.filter(|volume| self.is_own(volume)).collect()
    }

    /// One of them, by its name.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeInfo> {
        let volume = self.array.volume(name).ok().or_else(|| self.spread.volume(name));
        volume.filter(|volume| self.is_own(volume))
    }

    fn is_own(&self, volume: &VolumeInfo) -> bool {
        !self.settings.reserves(&volume.name) && !self.settings.has_left(volume.id)
    }

    /// The volumes that lie on several members.
    pub(crate) fn spread(&self) -> &Rc<Spread> {
        &self.spread
    }

    /// Those that may be targets, with what they are where they lie on several members. What has the name of the settings
    /// is none, whoever made it.
    fn servable(&self) -> impl Iterator<Item = (VolumeInfo, Option<SpreadId>)> {
        let is_hidden =
            |volume: &VolumeInfo| hidden::is(volume) || hidden::is_hidden_name(&volume.name);
        let all = self.array.volumes().into_iter();
        let seen = all.filter_map(|volume| {
            let id = spread::id_of(&volume.name);
            Some((self.spread.as_seen(volume)?, id))
        });
        seen.filter(move |(volume, _)| !is_hidden(volume))
    }

    /// Gives the targets that changes of settings concern the rules that hold now, and ends the sessions that
    /// these do not let in. All others have theirs already. One whose disk is slow keeps no other waiting. While the
    /// settings cannot be read nobody is let in, and hosts are told to come back later.
    pub(crate) async fn apply_access(&self) {
        let concerned = self.settings.take_concerned();
        let mut targets: Vec<(String, Served)> = Vec::new();
        for (iqn, served) in self.served().iter() {
            if concerned.includes(served.volume) {
                targets.push((iqn.clone(), served.clone()));
            }
        }
        if !targets.is_empty() {
            tracing::debug!("{} targets get other rules", targets.len());
        }
        self.targets.set_known_users(self.settings.known().users.clone());
        self.rules_given.set(self.rules_given.get() + targets.len() as u64);
        if self.settings.fault().is_some() {
            self.targets.set_incomplete(true);
            return self.close_all(targets).await;
        }
        let give = |(iqn, served): (String, Served)| {
            let access = self.settings.access(served.volume, served.object);
            self.of_target(iqn, async move |targets, iqn| targets.set_access(iqn, access).await)
        };
        let given: Vec<_> = targets.into_iter().map(give).collect();
        for (iqn, ended) in given {
            let Some(ended) = ended.await else { continue };
            match ended {
                Ok(0) => {}
                Ok(ended) => {
                    let ended = counted(ended as u64, "session");
                    let text = format!("{ended} of {iqn} ended, as who may use it has changed");
                    self.tell(Kind::SessionsEnded, &iqn, text);
                }
                // The rules are set, and who must not be connected is not.
                Err(error @ TargetError::Busy(_)) => {
                    let text = format!("who may use {iqn} has changed, and {error}");
                    self.tell(Kind::SessionsEnded, &iqn, text);
                }
                Err(error) => self.shut(&iqn, &error).await,
            }
        }
    }

    /// Ends the service of targets at once: what hosts may do is not known.
    async fn close_all(&self, targets: Vec<(String, Served)>) {
        let close = |(iqn, _): (String, Served)| {
            self.served().remove(&iqn);
            // None of its tasks begins any more, and then nobody hears that it is not let in.
            self.of_target(iqn, async |targets, iqn| {
                let ending = targets.set_access(iqn, Some(Access::nobody()));
                both(ending, targets.set_offline(iqn, Duration::ZERO)).await.1
            })
        };
        let closed: Vec<_> = targets.into_iter().map(close).collect();
        for (iqn, ended) in closed {
            if let Some(Err(error)) = ended.await {
                tracing::warn!("{iqn} did not end in order: {error}");
            }
        }
    }

    /// Does something with a target beside what is done with others, and says which it was.
    fn of_target<T: Send + 'static>(
        &self,
        iqn: String,
        work: impl AsyncFnOnce(&Targets, &str) -> T + 'static,
    ) -> (String, OneshotReceiver<T>) {
        let (done, result) = ring::oneshot();
        let (targets, name) = (self.targets.clone(), iqn.clone());
        ring::spawn(async move { done.send(work(&targets, &name).await) });
        (iqn, result)
    }

    /// How often targets that are served were given other rules: what changes of settings cost.
    #[cfg(test)]
    pub(crate) fn rules_given(&self) -> u64 {
        self.rules_given.get()
    }

    /// A target whose rules cannot be what they should is for nobody.
    async fn shut(&self, iqn: &str, error: &TargetError) {
        let text = format!("who may use {iqn} cannot be set, and no host is let in: {error}");
        self.tell(Kind::VolumeNotServed, iqn, text);
        if let Err(error) = self.targets.set_access(iqn, Some(Access::nobody())).await {
            tracing::error!("{iqn} is not served any more: {error}");
            if let Err(error) = self.withdraw(iqn).await {
                tracing::error!("{iqn} did not end in order: {error}");
            }
        }
    }

    fn tell(&self, kind: Kind, iqn: &str, text: String) {
        self.events.tell(Event::about(kind, ObjectKind::Target, iqn, text));
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<String, Served>> {
        // Each change of the map is one call.
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the service of one target before its volume changes. Its hosts may come back when
    /// [`settle`](Self::settle) serves it again.
    pub(crate) async fn withdraw(&self, iqn: &str) -> Result<(), TargetError> {
        self.served().remove(iqn);
        self.targets.set_offline(iqn, GRACE).await
    }

    /// Why this target is not served, although it should be.
    pub(crate) fn refusal(&self, iqn: &str) -> Option<String> {
        self.refused.borrow().get(iqn).cloned()
    }

    /// Whether [`settle`](Self::settle) is to be called again soon, although nothing has changed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }

    /// Whether the member is another one than when that was done last, or in another group.
    pub(crate) fn is_of_another_member(&self) -> bool {
        *self.settled_as.borrow() != self.spread.who()
    }

    /// Serves what should be served and ends what should not. To be called after every change; a
    /// failure concerns one target and is told by the log.
    pub(crate) async fn settle(&self) {
        self.settled_as.replace(self.spread.who());
        let wanted = self.wanted();
        let kept = wanted.iter().filter(|wanted| !wanted.is_shut(self));
        let serials: BTreeMap<&String, &String> =
            kept.map(|wanted| (&wanted.iqn, &wanted.serial)).collect();
        let gone: Vec<String> = {
            let served = self.served();
            served
                .iter()
                .filter(|(iqn, served)| serials.get(iqn) != Some(&&served.serial))
                .map(|(iqn, _)| iqn.clone())
                .collect()
        };
        let known = self.known();
        for iqn in &gone {
            self.served().remove(iqn);
            // What hosts go on writing there is lost.
            let is_shut = wanted.iter().any(|wanted| wanted.iqn == *iqn && wanted.is_shut(self));
            let grace = if is_shut { Duration::ZERO } else { GRACE };
            let ended = if known.contains_key(iqn) {
                self.targets.set_offline(iqn, grace).await
            } else {
                self.targets.remove(iqn, grace).await
            };
            if let Err(error) = ended {
                tracing::warn!("{iqn} did not end in order: {error}");
            }
            tracing::info!("{iqn} is not served any more");
        }
        let was_waiting = self.is_waiting.replace(false);
        self.refused.borrow_mut().clear();
        // What hosts reserved is not known while the settings are not: those who were fenced off would get in.
        let is_known = self.settings.fault().is_none();
        for wanted in wanted.into_iter().filter(|_| is_known) {
            if self.served().contains_key(&wanted.iqn) {
                continue;
            }
            let unit = match self.unit(&wanted) {
                Ok(Some(unit)) => unit,
                Ok(None) => continue,
                Err(error) => {
                    let text = format!("{} cannot be served: {error}", wanted.name());
                    self.tell(Kind::VolumeNotServed, &wanted.iqn, text);
                    self.refused.borrow_mut().insert(wanted.iqn, error.to_string());
                    continue;
                }
            };
            let access = self.settings.access(wanted.volume, wanted.object());
            let (name, alias) = (wanted.name(), Some(wanted.name()));
            let object = wanted.object();
            let Wanted { iqn, serial, volume, .. } = wanted;
            let spec = TargetSpec { iqn: iqn.clone(), alias, units: vec![unit], access };
            let Err(error) = self.targets.add(spec) else {
                tracing::info!("{name} is served as {iqn}");
                self.served().insert(iqn, Served { serial, volume, object });
                continue;
            };
            if !matches!(error, TargetError::Busy(_)) {
                let text = format!("{name} cannot be served: {error}");
                self.tell(Kind::VolumeNotServed, &iqn, text);
            } else if !self.is_waiting.replace(true) && !was_waiting {
                let text = format!("{name} is not served until its disks answer: {error}");
                self.tell(Kind::VolumeNotServed, &iqn, text);
            }
            self.refused.borrow_mut().insert(iqn, error.to_string());
        }
        self.close_to_hosts(&known).await;
        self.spread.let_go();
        // How names begin is one of the settings. Those that are there have their names by now.
        self.say_whether_incomplete();
        self.tell_settled();
    }

    /// Has whoever follows what is served look again.
    pub(crate) fn tell_settled(&self) {
        self.settles.set(self.settles.get() + 1);
        self.settled.ring();
    }

    /// How often [`settle`](Self::settle) was done: whatever has changed about what is served, it follows.
    pub(crate) fn settles(&self) -> u64 {
        self.settles.get()
    }

    /// Waits until it was done more often than that.
    pub(crate) async fn settled_after(&self, settles: u64) {
        self.settled.until(|| self.settles.get() > settles).await;
    }

    /// Hosts of what exists and is not served hear that they should come back later, those of what does not
    /// that there is no such target.
    async fn close_to_hosts(&self, known: &Known) {
        self.targets.retain_names(|iqn| known.contains_key(iqn));
        for iqn in known.keys() {
            let is_served = self.served().contains_key(iqn);
            if !is_served && let Err(error) = self.targets.set_offline(iqn, GRACE).await {
                tracing::debug!("{iqn}: {error}");
            }
        }
    }

    /// The targets of all volumes that are not in the recycle bin, and of their snapshots that are online,
    /// also while their disks are lost. Those of a volume that leaves are known until another member serves them: its
    /// hosts are to come back, and not to give up.
    fn known(&self) -> Known {
        let (mut known, names) = (BTreeMap::new(), self.names());
        let mut snapshots = self.array.all_snapshots();
        for (volume, _) in self.servable() {
            let leaves = self.settings.departure(volume.id).is_some();
            if volume.state != VolumeState::Deleted && (!leaves || serves_leaving()) {
                for snapshot in online_of(&mut snapshots, &volume) {
                    let iqn = names.snapshot((volume.id, &volume.name), &snapshot.name);
                    known.insert(iqn, (volume.name.clone(), Some(snapshot.name)));
                }
                known.insert(names.volume(volume.id, &volume.name), (volume.name, None));
            }
        }
        let elsewhere = self.elsewhere.borrow();
        for departure in self.settings.departures() {
            for iqn in departure.iqns.into_iter().filter(|iqn| !elsewhere.contains(iqn)) {
                known.entry(iqn).or_insert_with(|| (departure.name.clone(), None));
            }
        }
        known
    }
}

/// Whether a volume is served although it leaves: never.
fn serves_leaving() -> bool {
    mutants::is(Mutant::ServeLeaving)
}

/// Takes those of a volume that are online out of the snapshots of all, by number of volume.
fn online_of(
    all: &mut BTreeMap<u32, Vec<SnapshotInfo>>,
    volume: &VolumeInfo,
) -> impl Iterator<Item = SnapshotInfo> + use<> {
    let snapshots = all.remove(&volume.id).unwrap_or_default();
    snapshots.into_iter().filter(|snapshot| snapshot.online)
}
