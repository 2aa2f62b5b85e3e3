//! How slices of other members are opened: by whoever knows the way once the interface is there, and with the number that
//! each opening has ([`group::spread::Opening`]), which is stored before a member is asked and again when it has answered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::Instant;

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

/// Whoever knows the way, and since when that is known here.
type Given = (Arc<dyn SliceOpeners>, Instant);

/// How slices of other members are reached, in this life of the member.
#[derive(Clone)]
pub(super) struct Openers {
    given: Arc<Mutex<Option<Given>>>,
    /// The volumes of which another member has seen a later home than this, and what it has said.
    old: Arc<Mutex<BTreeMap<SpreadId, String>>>,
    /// By which members tell the lives of this one apart.
    life: u64,
    /// Where openings are stored.
    core: Remote,
}

impl Debug for Openers {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Openers").field("life", &self.life).finish_non_exhaustive()
    }
}

impl Openers {
    /// For the member of this core, which has these settings.
    pub(super) fn new(settings: &Rc<MemberSettings>) -> Self {
        STORED.set(Rc::downgrade(settings));
        // Two lives without randomness would be taken for one; their openings are told apart all the same.
        let life = getrandom::u64().unwrap_or_default();
        Self {
            given: Arc::default(),
            old: Arc::default(),
            life,
            core: ring::remote(ring::core_id()),
        }
    }

    pub(super) fn set(&self, openers: Arc<dyn SliceOpeners>) {
        let given = Some((openers, ring::now()));
        *self.given.lock().unwrap_or_else(PoisonError::into_inner) = given;
    }

    fn given(&self) -> Option<Arc<dyn SliceOpeners>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(it, _)| it.clone())
    }

    /// Since when other members can be asked; `None` where they cannot.
    pub(super) fn since(&self) -> Option<Instant> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(_, since)| *since)
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

    fn old(&self) -> MutexGuard<'_, BTreeMap<SpreadId, String>> {
        self.old.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why this home may not serve a volume: a slice has seen a later one. That does not pass in the life of the member.
    pub(super) fn why_old(&self, spread: &SpreadId) -> Option<String> {
        self.old().get(spread).cloned()
    }

    /// How many these are.
    pub(super) fn count_old(&self) -> usize {
        self.old().len()
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
        let openings = self.openers.store(begin).await?;
        if let Begun::OldHome { why } = openers.begin(self.to, &self.slice, openings).await? {
            self.openers.old().insert(self.spread.clone(), why.clone());
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

    async fn ask(&self) -> Result<Opening, AskError> {
        if let Some(why) = self.openers.why_old(&self.spread) {
            return Err(why.into());
        }
        let openers = self.openers.given().ok_or("this member is starting")?;
        // Begun anew where this one is not answered.
        let opened = self.opened().take();
        let opening = match opened {
            Some(opening) => opening,
            None => self.begin(&*openers).await?,
        };
        let asked = OpeningAsked { life: self.openers.life, opening };
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
