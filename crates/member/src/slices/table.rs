//! The slices that a member holds, and who has them open.
//!
//! ```text
//!             open: answered           open: the one before is over first
//!  closed ───────────────────▶ open ───────────────────────────────────────▶ open
//!    ▲                          │
//!    └── not over in time ──────┤ withdraw
//!                               ▼
//!  closed ── withdraw ──▶ withdrawn ── all is over, and flushed ──▶ not there
//! ```
//!
//! Invariant ([`Held::target`]): a slice has at most one target that lets somebody in, and that is the one of its last
//! opening; while there are requests of an earlier one there is none. Of the lives of its home that have asked for it here, only
//! the last one gets it ([`Lives`]).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{BlockDevice, BlockError};
use group::ownership::MemberId;
use ring::wait::Turn;
use ring::{OneshotReceiver, Remote};
use target::{Server, TargetError, TargetSpec, Targets, UnitSpec};

use super::{OpenError, Opening, SliceId, WithdrawError};
use crate::mutants::{self, Mutant};

/// A slice that is to be served.
#[derive(Debug)]
pub struct Slice {
    /// The member that may open it.
    pub home: MemberId,
    /// What the log calls it.
    pub name: String,
    /// What is behind it. What it answers is durable, or is so after a flush.
    pub device: Arc<dyn BlockDevice>,
}

/// The slices of a [`SlicePortal`](super::SlicePortal): a handle that can be cloned and used from any thread.
#[derive(Debug, Clone)]
pub struct Slices(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    targets: Targets,
    /// Where openings begin and end.
    core: Remote,
    portal: SocketAddr,
    prefix: String,
    fence_limit: Duration,
    held: Mutex<BTreeMap<SliceId, Arc<Held>>>,
}

#[derive(Debug)]
struct Held {
    id: SliceId,
    home: MemberId,
    name: String,
    /// Openings and the withdrawal come one after the other.
    turn: Turn,
    stage: Mutex<Stage>,
    lives: Mutex<Lives>,
}

/// The lives of a home that have asked for a slice, as far as this life of the member knows. Their numbers are drawn, and have no
/// order but that in which they come.
#[derive(Debug, Default)]
struct Lives {
    last: Option<u64>,
    /// One for each restart of the home.
    former: BTreeSet<u64>,
}

impl Lives {
    /// Whether this life may have the slice: it is the last one, or one that was not seen yet, which then is the last.
    fn admit(&mut self, life: u64) -> bool {
        if self.former.contains(&life) && !mutants::is(Mutant::FormerLife) {
            return false;
        }
        if let Some(before) = self.last.replace(life).filter(|before| *before != life) {
            self.former.insert(before);
        }
        debug_assert!(mutants::is(Mutant::FormerLife) || !self.former.contains(&life));
        true
    }
}

/// How the target of an opening has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Nothing is under way, and the disk has answered its last flush.
    Over,
    /// Nothing is under way but that flush.
    Unflushed,
    /// Requests may be.
    Late,
}

#[derive(Debug)]
enum Stage {
    /// Nobody is let in.
    Closed(Arc<dyn BlockDevice>),
    /// Whoever was given the secrets of this target is.
    Open(Arc<dyn BlockDevice>, String),
    /// Nobody will be. The disk is there until it has answered its last flush.
    Withdrawn(Option<Arc<dyn BlockDevice>>),
}

impl Held {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        // Each change is one step.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The target that lets somebody in, which is to end now.
    fn close(&self) -> Option<String> {
        let mut stage = self.stage();
        let Stage::Open(device, target) = &*stage else { return None };
        let (device, target) = (device.clone(), target.clone());
        *stage = Stage::Closed(device);
        Some(target)
    }

    /// The same, for good.
    fn withdraw(&self) -> Option<String> {
        let mut stage = self.stage();
        let (device, target) = match &*stage {
            Stage::Open(device, target) => (Some(device.clone()), Some(target.clone())),
            // It may be closed as something of it has not ended.
            Stage::Closed(device) => (Some(device.clone()), None),
            Stage::Withdrawn(device) => (device.clone(), None),
        };
        *stage = Stage::Withdrawn(device);
        target
    }

    /// The disk of one that is withdrawn and has yet to answer its last flush.
    fn unflushed(&self) -> Option<Arc<dyn BlockDevice>> {
        match &*self.stage() {
            Stage::Withdrawn(device) => device.clone(),
            Stage::Closed(_) | Stage::Open(..) => None,
        }
    }

    /// The disk of one that is withdrawn has nothing to do any more, and is let go of.
    fn let_go(&self) {
        let mut stage = self.stage();
        assert!(matches!(*stage, Stage::Withdrawn(_)), "nobody is let in any more");
        *stage = Stage::Withdrawn(None);
    }

    fn device(&self) -> Option<Arc<dyn BlockDevice>> {
        match &*self.stage() {
            Stage::Closed(device) | Stage::Open(device, _) => Some(device.clone()),
            Stage::Withdrawn(_) => None,
        }
    }

    fn target(&self) -> Option<String> {
        match &*self.stage() {
            Stage::Open(_, target) => Some(target.clone()),
            Stage::Closed(_) | Stage::Withdrawn(_) => None,
        }
    }
}

impl Slices {
    pub(super) fn new(
        server: &Server,
        portal: SocketAddr,
        prefix: String,
        fence_limit: Duration,
    ) -> Self {
        let (targets, core) = (server.targets(), server.first_core());
        let held = Mutex::default();
        Self(Arc::new(Shared { targets, core, portal, prefix, fence_limit, held }))
    }

    /// Where they are served.
    pub(super) fn portal(&self) -> SocketAddr {
        self.0.portal
    }

    /// One more slice, which nobody has open. Whether it was not there yet: one that is stays as it is.
    pub fn insert(&self, id: SliceId, slice: Slice) -> bool {
        let Slice { home, name, device } = slice;
        let stage = Mutex::new(Stage::Closed(device));
        match self.0.held().entry(id) {
            Entry::Vacant(place) => {
                let id = place.key().clone();
                let (turn, lives) = (Turn::default(), Mutex::default());
                place.insert(Arc::new(Held { id, home, name, turn, stage, lives }));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// All of them, and whether each was opened since it is here.
    #[must_use]
    pub fn list(&self) -> Vec<(SliceId, bool)> {
        let held = self.0.held();
        held.values().map(|held| (held.id.clone(), held.target().is_some())).collect()
    }

    /// Opens a slice for its home: `caller` is who asks, as its certificate proves, in this `life` of it. The opening before
    /// ends first: nothing that was sent to it is done after this answers. Openings of one slice come one after the other,
    /// and the last one holds. It goes on where nobody waits for its answer any more.
    ///
    /// The caller has [compared](group::spread::check_begun) what the home knows of openings with what is stored. A life is
    /// refused here when another one has come after it while this member was up.
    ///
    /// # Errors
    /// [`OpenError`]. After [`OpenError::Busy`] the slice is closed to all.
    pub async fn open(
        &self,
        slice: &SliceId,
        caller: MemberId,
        life: u64,
    ) -> Result<Opening, OpenError> {
        let held = self.0.find(slice).ok_or_else(|| OpenError::Unknown(slice.clone()))?;
        if held.home != caller && !mutants::is(Mutant::AnyHome) {
            return Err(OpenError::NotHome { slice: slice.clone(), caller });
        }
        let shared = self.0.clone();
        let opened = self.on_core(move || async move { shared.open(&held, life).await });
        opened.await.unwrap_or(Err(OpenError::Stopping))
    }

    /// A slice has another size than before: whoever has it open is told.
    pub fn resized(&self, slice: &SliceId) {
        if let Some(target) = self.0.find(slice).and_then(|held| held.target()) {
            self.0.targets.resized(&target);
        }
    }

    /// Takes a slice away: nobody is let in any more, and once this has answered no request is under way and nothing here
    /// holds the device. One that is not there has gone already.
    ///
    /// # Errors
    /// [`WithdrawError`]: it is not opened any more, and to be withdrawn again.
    pub async fn withdraw(&self, slice: &SliceId) -> Result<(), WithdrawError> {
        match self.0.find(slice) {
            Some(held) => self.withdraw_held(held).await,
            None => Ok(()),
        }
    }

    async fn withdraw_held(&self, held: Arc<Held>) -> Result<(), WithdrawError> {
        let shared = self.0.clone();
        let gone = self.on_core(move || async move { shared.withdraw(&held).await });
        gone.await.unwrap_or(Err(WithdrawError::Stopping))
    }

    /// A withdrawal that has found the slice, and has yet to begin.
    #[cfg(test)]
    pub(super) fn withdrawal(
        &self,
        slice: &SliceId,
    ) -> Option<impl Future<Output = Result<(), WithdrawError>> + use<>> {
        let (slices, held) = (self.clone(), self.0.find(slice)?);
        Some(async move { slices.withdraw_held(held).await })
    }

    /// Whether a disk still works on what was sent through an opening that has ended.
    #[cfg(test)]
    pub(super) fn is_at_work(&self, slice: &SliceId) -> bool {
        self.0.targets.is_at_work(slice.as_str())
    }

    /// Who is logged in.
    #[cfg(test)]
    pub(super) async fn connections(&self) -> Vec<target::ConnectionInfo> {
        let targets = self.0.targets.clone();
        self.on_core(move || async move { targets.connections().await }).await.unwrap_or_default()
    }

    /// Runs this on the first core; `None` where that has ended.
    fn on_core<T, Fut>(&self, work: impl FnOnce() -> Fut + Send + 'static) -> OneshotReceiver<T>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let (done, answer) = ring::oneshot();
        self.0.core.run(move || {
            ring::spawn(async move { done.send(work().await) });
        });
        answer
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, BTreeMap<SliceId, Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, slice: &SliceId) -> Option<Arc<Held>> {
        self.held().get(slice).cloned()
    }

    async fn open(&self, held: &Held, life: u64) -> Result<Opening, OpenError> {
        let _turn = held.turn.take().await;
        if !held.lives.lock().unwrap_or_else(PoisonError::into_inner).admit(life) {
            return Err(OpenError::FormerLife(held.id.clone()));
        }
        if let Some(before) = held.close().filter(|_| !mutants::is(Mutant::KeepOpening)) {
            let over = self.end(before);
            if mutants::is(Mutant::OpenEarly) {
                ring::spawn(async move { _ = over.await });
            } else if over.await == End::Late {
                return Err(OpenError::Busy(held.id.clone()));
            }
        }
        let device = held.device().ok_or_else(|| OpenError::Unknown(held.id.clone()))?;
        let opening = Opening::draw(self.portal, &self.prefix, &held.id, life)?;
        let unit = UnitSpec {
            device: device.clone(),
            serial: held.id.to_string(),
            // What is answered is durable, also what gives space back.
            write_cache: mutants::is(Mutant::CachedSlice),
            read_only: false,
            referrals: None,
            name: held.name.clone(),
        };
        let target = TargetSpec {
            iqn: opening.target.clone(),
            alias: None,
            units: vec![unit],
            access: Some(opening.access()?),
        };
        self.targets.add(target).map_err(|error| match error {
            TargetError::Busy(_) => OpenError::Busy(held.id.clone()),
            TargetError::Stopping => OpenError::Stopping,
            error => OpenError::Target(error),
        })?;
        tracing::info!("{} is open for {}, in its life {life:016x}", held.name, held.home);
        *held.stage() = Stage::Open(device, opening.target.clone());
        // It may have grown since the target was made, and nobody was told.
        self.targets.resized(&opening.target);
        Ok(opening)
    }

    async fn withdraw(&self, held: &Arc<Held>) -> Result<(), WithdrawError> {
        let _turn = held.turn.take().await;
        let busy = || WithdrawError::Busy(held.id.clone());
        if let Some(before) = held.withdraw() {
            let over = self.end(before);
            if mutants::is(Mutant::WithdrawEarly) {
                ring::spawn(async move { _ = over.await });
                held.let_go();
            } else {
                match over.await {
                    End::Over => held.let_go(),
                    End::Unflushed if mutants::is(Mutant::WithdrawUnflushed) => held.let_go(),
                    End::Unflushed | End::Late => return Err(busy()),
                }
            }
        }
        if self.targets.is_at_work(held.id.as_str()) && !mutants::is(Mutant::BlindToWork) {
            return Err(busy());
        }
        if let Some(device) = held.unflushed() {
            self.flush(&held.name, device).await.ok_or_else(busy)?;
            held.let_go();
        }
        let mut all = self.held();
        // It may have been withdrawn and inserted again while this waited for its turn.
        let is_it = |now: &Arc<Held>| Arc::ptr_eq(now, held) || mutants::is(Mutant::WithdrawNewer);
        if all.get(&held.id).is_some_and(is_it) {
            all.remove(&held.id);
        }
        Ok(())
    }

    /// Flushes a disk that may have a flush under way that nobody waits for. `None` where it does not answer.
    async fn flush(&self, name: &str, device: Arc<dyn BlockDevice>) -> Option<()> {
        if mutants::is(Mutant::WithdrawUnflushed) {
            return Some(());
        }
        // What was answered was durable before, so a failure is no news.
        if let Err(error) = ring::timeout(self.fence_limit, device.flush()).await? {
            tracing::warn!("{name} could not be flushed before it goes: {error}");
        }
        Some(())
    }

    /// Ends the target of an opening. Its end goes on where that takes too long.
    fn end(&self, target: String) -> impl Future<Output = End> + use<> {
        let (targets, limit) = (self.targets.clone(), self.fence_limit);
        async move {
            let (done, ended) = ring::oneshot();
            let name = target.clone();
            ring::spawn(async move { done.send(targets.remove(&name, Duration::ZERO).await) });
            match ring::timeout(limit, ended).await.flatten() {
                Some(Ok(())) => End::Over,
                // No request is under way. What was answered was durable before.
                Some(Err(TargetError::Flush { source, .. })) => {
                    tracing::warn!("{target} could not be flushed: {source}");
                    match source {
                        BlockError::Busy => End::Unflushed,
                        _ => End::Over,
                    }
                }
                Some(Err(error)) => {
                    tracing::warn!("{target} has not ended: {error}");
                    End::Late
                }
                None => {
                    tracing::warn!("{target} has not ended in {limit:?}");
                    End::Late
                }
            }
        }
    }
}
