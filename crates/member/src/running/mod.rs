//! A member that runs, and carries out what is asked of it. Lives on the first core.

mod access;
mod cancelling;
mod configuration;
pub(crate) mod connections;
mod destinations;
mod disks;
mod error;
mod first;
mod floating;
mod half_made;
pub(crate) mod in_group;
mod jobs;
mod leaving;
mod logins;
pub(crate) mod memory;
mod move_error;
mod moving;
mod of_group;
mod one_host;
pub(crate) mod places;
mod registrations;
mod schedules;
mod set_error;
mod sets;
mod snapshots;
mod spread;
mod spread_error;
mod volumes;
pub(crate) mod watch;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use array::Array;
use array::api::{ArrayInfo, JobInfo, VolumeInfo};
use ring::wait::{Bell, Turn};

use crate::data::remembered::Remembered;
use crate::events::{EventLog, Look};
use crate::membership::InGroup;
use crate::meters::Meters;
use crate::names::Names;
use crate::reply::Answer;
use crate::request::{Request, VolumeRequest};
use crate::serving::Serving;
use crate::settings::{Hosts, MemberSettings, UnitSave, Unlisted};

pub use error::{KeptSnapshot, RequestError};
pub(crate) use memory::CacheLimit;
pub use move_error::MoveError;
use moving::Moving;
use places::Places;
pub use set_error::SetError;
use sets::Sets;
use spread::Spreads;
pub use spread_error::SpreadRefusal;

/// How long the end waits for a run of a schedule.
const RUN_GRACE: Duration = Duration::from_secs(5);
/// How long it waits for the store of the settings, which writes to the array when it is closed: a disk that does not
/// answer may keep it. The array lets it go when it is closed, and waits longer for that disk; the store is whole
/// whenever it ends.
const STORE_GRACE: Duration = Duration::from_secs(20);

/// An open array with everything around it.
#[derive(Debug)]
pub struct Member {
    array: Array,
    serving: Serving,
    settings: Rc<MemberSettings>,
    unlisted: Unlisted,
    /// How the names of targets are to begin, as was said at the start.
    chosen_prefix: Option<String>,
    /// Changed on other threads: its directory may not answer, and no core may wait for that.
    remembered: Arc<Mutex<Remembered>>,
    /// Where its files were.
    places: Rc<Places>,
    /// What counts what disks do.
    meters: Meters,
    /// How much memory the cache of blocks is to have.
    cache_limit: CacheLimit,
    /// Scrubs and checks under way.
    verifying: Rc<Cell<usize>>,
    /// Changes of what is served come one after the other.
    turn: Turn,
    /// So do disks that join.
    joining: Turn,
    /// So do snapshots, and changes of schedules. Who has this may take `turn` too, not the other way round.
    taking: Turn,
    /// Rings when schedules have changed.
    schedules_changed: Bell,
    is_stopping: Cell<bool>,
    /// The group that the member is in.
    membership: Rc<InGroup>,
    /// Volumes that move to another member, or come from one.
    moving: Moving,
    /// Snapshots of one moment that are taken with other members.
    sets: Sets,
    /// Volumes that lie on several members.
    spreads: Spreads,
    events: EventLog,
    /// The array as it was when its changes were told last; `None` before the first look.
    looked: RefCell<Option<Look>>,
}

/// Who asked: told how long work goes on.
pub trait Asker {
    /// Says how these jobs do; an empty list is a sign of life. `false` when nobody listens any more.
    fn tell(&self, jobs: Vec<JobInfo>) -> impl Future<Output = bool>;

    /// What is to become of work that takes long.
    fn wish(&self) -> Wish;
}

/// What an asker wants of work that is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wish {
    /// It goes on.
    #[default]
    GoOn,
    /// It is not wanted any more.
    Cancel,
    /// The member stops: the work should end with a word about that.
    End,
}

impl Member {
    pub(crate) fn new(
        array: Array,
        serving: Serving,
        (settings, unlisted): (Rc<MemberSettings>, Unlisted),
        (remembered, meters, chosen_prefix, places): (Remembered, Meters, Option<String>, Places),
        (cache_limit, events, membership): (CacheLimit, EventLog, Rc<InGroup>),
    ) -> Self {
        // Before anything is asked: what it is set to may be the group's.
        membership.share_settings(&settings);
        let remembered = Arc::new(Mutex::new(remembered));
        let (turn, joining, taking) = (Turn::default(), Turn::default(), Turn::default());
        let (is_stopping, looked) = (Cell::new(false), RefCell::default());
        Self {
            array,
            serving,
            settings,
            unlisted,
            chosen_prefix,
            remembered,
            places: Rc::new(places),
            meters,
            cache_limit,
            verifying: Rc::default(),
            turn,
            joining,
            taking,
            schedules_changed: Bell::default(),
            is_stopping,
            membership,
            moving: Moving::default(),
            sets: Sets::default(),
            spreads: Spreads::default(),
            events,
            looked,
        }
    }

    /// Carries a request out. It runs to its end also when the asker goes away.
    ///
    /// # Errors
    /// Why it is refused or failed.
    pub async fn answer(
        &self,
        request: Request,
        asker: &impl Asker,
    ) -> Result<Answer, RequestError> {
        let is_kept = |name: &&str| self.settings.reserves(name);
        if let Some(name) = request.volumes().into_iter().find(is_kept)
            && !self.is_purge_of_stray(&request)
        {
            return Err(RequestError::Reserved(name.to_owned()));
        }
        self.check_here(&request)?;
        self.check_unmoved(&request)?;
        self.check_spread(&request)?;
        let answered = match request {
            Request::Volume(request) => self.volume(request).await,
            Request::Snapshot(request) => self.snapshot(request).await,
            Request::Disk(request) => self.disk(request).await,
            Request::Array(request) => self.whole(request, asker).await,
            Request::Access(request) => self.access(request).await,
            Request::Chap(request) => self.chap(request).await,
            Request::Policy(request) => self.policy(request).await,
            Request::Account(request) => self.accounts(request).await,
            Request::Token(request) => self.tokens(request).await,
            Request::Schedule(request) => self.schedule(request).await,
            Request::Destination(request) => self.destination(request).await,
            Request::Group(request) => self.group(request).await,
            Request::Configuration(request) => self.configuration(request).await,
            Request::Move(request) => self.moves(request).await,
            Request::Set(request) => self.snapshot_set(request).await,
            Request::Spread(request) => self.spread(request).await,
            Request::Connections => Ok(Answer::Connections(self.serving.connections().await)),
            Request::Figures => {
                let figures = self.serving.figures(self.disk_figures()).await;
                Ok(Answer::Figures(Box::new(figures)))
            }
            Request::Watch { kinds } => self.watch(&kinds, asker).await,
        };
        answered.map_err(|error| self.explained(error))
    }

    /// Whether an operator gives up what is left of a spread volume of which nothing is stored.
    fn is_purge_of_stray(&self, request: &Request) -> bool {
        let Request::Volume(VolumeRequest::Purge { name }) = request else { return false };
        self.is_stray_slice(name)
    }

    pub(crate) fn array(&self) -> &Array {
        &self.array
    }

    /// Which hosts may use a volume.
    pub(crate) fn hosts(&self, id: u32) -> Hosts {
        self.settings.hosts(id, self.unlisted)
    }

    /// The volumes that there are for operators.
    pub(crate) fn volumes(&self) -> Vec<VolumeInfo> {
        self.serving.volumes()
    }

    /// Ends what the member does in its group, closes the store of the settings, and then the array. Nobody may use its
    /// volumes any more.
    ///
    /// # Errors
    /// What the array did not bring to its disks.
    pub(crate) async fn close(&self) -> Result<(), array::ArrayError> {
        self.membership.end().await;
        // Their homes are not to wait for what does not come.
        self.end_slices().await;
        // A run of a schedule ends before: what it has taken is stored. One that waits for disks is not waited
        // for; the next start finds what it took.
        let at_rest =
            ring::timeout(RUN_GRACE, async { (self.taking.take().await, self.turn.take().await) });
        let _at_rest = at_rest.await;
        if ring::timeout(STORE_GRACE, self.settings.close()).await.is_none() {
            tracing::warn!("the store of the settings does not close: a disk keeps it waiting");
        }
        self.array.close().await
    }

    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    #[cfg(test)]
    pub(crate) fn settings(&self) -> &MemberSettings {
        &self.settings
    }

    #[cfg(test)]
    pub(crate) fn membership(&self) -> &InGroup {
        &self.membership
    }

    /// The end has begun: what is seen from now on is a part of it.
    pub fn stops(&self) {
        self.is_stopping.set(true);
    }

    /// Looks at the array, and records what has changed since the last look.
    pub(crate) fn tell_changes(&self) -> ArrayInfo {
        let array = &self.array;
        let info = array.info();
        let now = Look::of(&info, array.disks(), self.volumes(), array.jobs());
        let before = self.looked.replace(Some(now.clone()));
        let before = before.unwrap_or_else(|| now.all_well());
        now.changes(&before).into_iter().for_each(|event| self.events.tell(event));
        info
    }

    fn is_to_recover(&self) -> bool {
        self.settings.is_to_recover()
    }

    pub(crate) fn events(&self) -> &EventLog {
        &self.events
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.get()
    }

    /// Brings the targets in line with the array.
    pub(crate) async fn settle(&self) {
        let _turn = self.turn.take().await;
        if self.settings.recover().await {
            self.take_identity().await;
            self.schedules_changed.ring();
            self.discard_strays().await;
        }
        self.complete_all().await;
        self.serving.apply_access().await;
        self.serving.settle().await;
    }

    /// Has targets known by what is chosen or stored, as it is found when the settings are opened.
    pub(crate) async fn take_identity(&self) {
        let (prefix, number) = self.settings.identity(self.chosen_prefix.as_deref()).await;
        let names = Names::new(&self.array.info().id, Some(&prefix));
        self.serving.set_names(names);
        self.serving.set_port_group(number);
    }

    /// Saves what a unit keeps, and answers when no loss of power undoes it.
    pub(crate) async fn save_unit(&self, save: UnitSave) {
        self.settings.save_unit(save).await;
    }

    /// [`settle`](Self::settle) is to be called, although no operator has changed anything.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.serving.is_waiting()
            || self.settings.is_unsettled()
            || self.serving.is_of_another_member()
    }
}

#[cfg(test)]
pub(crate) mod tests;
