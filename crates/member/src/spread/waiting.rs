//! How slices of other members are opened: by whoever knows the way once the interface is there, and with the number that
//! each opening has ([`group::spread::Opening`]), which is stored before a member is asked and again when it has answered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use group::membership::{SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::Opening as Number;
use ring::Remote;

use crate::mutants::{self, Mutant};
use crate::settings::{KeptError, MemberSettings};
use crate::slices::{AskError, Opening, SliceOpener};
use crate::spread_request::{Begun, OpeningAsked, SliceOpeners};

thread_local! {
    /// What the member of this core has stored.
    static STORED: RefCell<Weak<MemberSettings>> = const { RefCell::new(Weak::new()) };
}

/// Of which volumes slices have seen later homes than this, and what they have said.
#[derive(Debug, Default)]
struct Old {
    said: BTreeMap<SpreadId, BTreeMap<SliceId, String>>,
    /// How often something was added or removed.
    changes: u64,
    /// How often an operator has had it forgotten: what was asked before counts no more.
    forgotten: u64,
}

/// How slices of other members are reached, in this life of the member.
#[derive(Clone)]
pub(super) struct Openers {
    /// Whoever knows the way, once the interface is there.
    given: Arc<Mutex<Option<Arc<dyn SliceOpeners>>>>,
    old: Arc<Mutex<Old>>,
    /// By which members tell the lives of this one apart.
    life: Arc<AtomicU64>,
    /// Where openings are stored.
    core: Remote,
}

impl Debug for Openers {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Openers").field("life", &self.life()).finish_non_exhaustive()
    }
}

impl Openers {
    /// For the member of this core, which has these settings.
    pub(super) fn new(settings: &Rc<MemberSettings>) -> Self {
        STORED.set(Rc::downgrade(settings));
        Self {
            given: Arc::default(),
            old: Arc::default(),
            life: Arc::new(AtomicU64::new(draw_life())),
            core: ring::remote(ring::core_id()),
        }
    }

    pub(super) fn set(&self, openers: Arc<dyn SliceOpeners>) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = Some(openers);
    }

    fn given(&self) -> Option<Arc<dyn SliceOpeners>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the way to other members is known.
    pub(super) fn is_given(&self) -> bool {
        self.given().is_some()
    }

    /// What opens the slice of this number of a volume, which this member has.
    pub(super) fn opener(
        &self,
        (spread, number): (&SpreadId, u8),
        (slice, to): (&SliceId, MemberId),
    ) -> Arc<dyn SliceOpener> {
        let (openers, spread, slice) = (self.clone(), spread.clone(), slice.clone());
        Arc::new(OneSlice { openers, spread, number, slice, to, opened: Mutex::default() })
    }

    fn old(&self) -> MutexGuard<'_, Old> {
        // Each change is one step.
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Slices of a volume are asked again whether they have seen a later home, by a life that none of them has seen replaced.
    pub(super) fn forget_old(&self, spread: &SpreadId) {
        self.life.store(draw_life(), Ordering::Relaxed);
        let mut old = self.old();
        old.said.remove(spread);
        old.changes += 1;
        old.forgotten += 1;
    }

    /// A slice has said that it has seen a later home, when it was asked as of so many times that this was forgotten.
    fn note_old(&self, (spread, slice): (&SpreadId, &SliceId), forgotten: u64, why: &str) {
        let mut old = self.old();
        if old.forgotten == forgotten {
            old.said.entry(spread.clone()).or_default().insert(slice.clone(), why.to_owned());
            old.changes += 1;
        }
    }

    /// Why this home may not serve a volume: a slice has seen a later one. That passes by an operator's word alone.
    pub(super) fn why_old(&self, spread: &SpreadId) -> Option<String> {
        self.old().said.get(spread)?.values().next().cloned()
    }

    /// The slices that have said so.
    pub(super) fn objectors(&self, spread: &SpreadId) -> Vec<SliceId> {
        self.old().said.get(spread).into_iter().flat_map(|said| said.keys().cloned()).collect()
    }

    /// How often any of that has changed.
    pub(super) fn old_changes(&self) -> u64 {
        self.old().changes
    }

    fn life(&self) -> u64 {
        self.life.load(Ordering::Relaxed)
    }

    /// Has something stored on the core of the settings, and waits until it is.
    async fn store<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&MemberSettings) -> Result<T, KeptError> + Send + 'static,
    ) -> Result<T, AskError> {
        let (done, stored) = ring::oneshot();
        self.core.run(move || {
            let Some(settings) = STORED.with_borrow(Weak::upgrade) else { return };
            ring::spawn(async move { done.send(work(&settings).await) });
        });
        Ok(stored.await.ok_or("this member is stopping")??)
    }
}

/// Two lives without randomness would be taken for one; their openings are told apart all the same.
fn draw_life() -> u64 {
    getrandom::u64().unwrap_or_default()
}

#[derive(Debug)]
struct OneSlice {
    openers: Openers,
    spread: SpreadId,
    number: u8,
    slice: SliceId,
    to: MemberId,
    /// The opening of this life of both members: a session that is lost takes no other one.
    opened: Mutex<Option<Number>>,
}

impl OneSlice {
    fn opened(&self) -> MutexGuard<'_, Option<Number>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has an opening begun: stored here, then there, then here that it is there.
    async fn begin(&self, openers: &dyn SliceOpeners) -> Result<Number, AskError> {
        let (spread, number, drawn) = (self.spread.clone(), self.number, getrandom::u32()?);
        let begin = async move |settings: &MemberSettings| {
            settings.begin_opening((&spread, number), drawn).await
        };
        let forgotten = self.openers.old().forgotten;
        let openings = self.openers.store(begin).await?;
        // Another one may have said so meanwhile: this one is not to store what an older home has begun.
        self.check_not_old()?;
        if let Begun::OldHome { why } = openers.begin(self.to, &self.slice, openings).await? {
            let why = format!("{} says: {why}", self.to);
            self.openers.note_old((&self.spread, &self.slice), forgotten, &why);
            return Err(why.into());
        }
        if !mutants::is(Mutant::OpenedUnstored) {
            let (spread, number, opening) = (self.spread.clone(), self.number, openings.begun);
            let note = async move |settings: &MemberSettings| {
                settings.note_opened((&spread, number), opening).await
            };
            self.openers.store(note).await?;
        }
        Ok(openings.begun)
    }

    /// Refuses what an older home would ask for.
    fn check_not_old(&self) -> Result<(), AskError> {
        match self.openers.why_old(&self.spread) {
            Some(why) => Err(why.into()),
            None => Ok(()),
        }
    }

    async fn ask(&self) -> Result<Opening, AskError> {
        self.check_not_old()?;
        let openers = self.openers.given().ok_or("this member is starting")?;
        // Begun anew where this one is not answered.
        let opened = self.opened().take();
        let opening = match opened {
            Some(opening) => opening,
            None => self.begin(&*openers).await?,
        };
        let asked = OpeningAsked { life: self.openers.life(), opening };
        let answer = openers.open(self.to, &self.slice, asked).await?;
        *self.opened() = Some(opening);
        Ok(answer)
    }
}

impl SliceOpener for OneSlice {
    fn open(&self) -> BoxFuture<'_, Result<Opening, AskError>> {
        self.ask().boxed()
    }
}
