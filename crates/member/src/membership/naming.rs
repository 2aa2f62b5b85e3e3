//! The names of volumes, which the store of the group promises to one member each.
//!
//! ```text
//!            claim                       made, or given                     purged, renamed
//!   free ───────────▶ promised, awaited ────────────────▶ promised, used ───────────────────╮
//!     ▲                    │ refused, or cut off                                           │
//!     ╰────────────────────┴──────────────── reconcile ◀───────────────────────────────────╯
//! ```
//!
//! A name is promised before a volume has it. Nobody gives it back by himself: what is promised and neither used nor
//! awaited goes with the next look ([`keep`]), which comes whenever a request that has claimed something has ended, and
//! whenever the store is reached anew. So nothing is left of a request that failed, or of a life that was cut off.
//!
//! Volumes that were made before their member was in the group, or while nothing of it was heard, are claimed by that
//! look too. Where another member has the name already, both volumes stay as they are, and that is told.
//!
//! The name of a volume that is on its way to another member, or from one, passes by a transaction of its own
//! ([`hand_over`](InGroup::hand_over)): the look leaves it alone. A volume that has left keeps its name here until it
//! is purged, and one that has come has another one until it is this member's.
//!
//! Invariant: no name is given back while a request is under way that is to use it, or a move.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use group::membership::{Membership, MembershipError, folded};
use group::ownership::MemberId;
use ring::wait::{Bell, Turn};

use super::joined::Joined;
use super::trouble::Trouble;
use super::{GroupError, InGroup};
use crate::events::Kind;
use crate::mutants::{self, Mutant};

/// How long who wants a name waits for the store of the group.
const CLAIM_TIME: Duration = Duration::from_secs(15);

/// How long he waits for its first answer since the member has started.
const FIRST_ANSWER_TIME: Duration = Duration::from_secs(3);

/// Between two looks while nothing is known to have changed: another member may have given a name back since.
const LOOK_PAUSE: Duration = Duration::from_secs(60);

/// So many names are claimed in one transaction, and given back.
const NAMES_AT_ONCE: usize = 100;

/// Names by what makes two of them one.
type Names = BTreeMap<String, String>;

/// Gives the names of all volumes that are here, those in the recycle bin too.
type Volumes = Box<dyn Fn() -> Vec<String>>;

/// Gives the names of the volumes that are on their way; `None` while those are not known.
type InHands = Box<dyn Fn() -> Option<Vec<String>>>;

/// Which names this member has, wants and uses.
#[derive(Default)]
pub(super) struct Naming {
    volumes: RefCell<Option<Volumes>>,
    in_hands: RefCell<Option<InHands>>,
    /// Names that requests under way are to use, and how many are to.
    awaited: RefCell<BTreeMap<String, usize>>,
    /// What the store has promised, as far as is known.
    pub(super) promised: RefCell<Names>,
    /// Names that other members have, as far as that was told.
    pub(super) told: RefCell<BTreeSet<String>>,
    /// Until then a name may still be promised to who has given up: what is promised is read anew behind it.
    pub(super) unsure_until: Cell<Option<Instant>>,
    /// Who has it asks the store for names, or gives some back.
    turn: Turn,
    /// How often something has changed about all that.
    pub(super) changes: Cell<u64>,
    changed: Bell,
}

impl Naming {
    pub(super) fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.ring();
    }

    /// The member is in no group any more: what was promised and told was of that one.
    pub(super) fn forget(&self) {
        self.promised.borrow_mut().clear();
        self.told.borrow_mut().clear();
    }

    fn await_names(&self, names: &[String]) {
        let mut awaited = self.awaited.borrow_mut();
        for name in names {
            *awaited.entry(folded(name)).or_default() += 1;
        }
    }

    fn no_longer_await(&self, names: &[String]) {
        let mut awaited = self.awaited.borrow_mut();
        for name in names {
            let name = folded(name);
            let left = awaited.get(&name).map_or(0, |count| count.saturating_sub(1));
            match left {
                0 => awaited.remove(&name),
                left => awaited.insert(name, left),
            };
        }
        drop(awaited);
        self.note_change();
    }

    /// These were asked for, and the store has not said what became of that: they may be promised by now, or later.
    fn note_unsure(&self, names: &[String]) {
        self.note_promised(names);
        self.unsure_until.set(Some(Instant::now() + LOOK_PAUSE));
    }

    /// Whether the time has come to read anew what is promised.
    fn is_sure_again(&self) -> bool {
        self.unsure_until.get().is_some_and(|until| until <= Instant::now())
    }

    /// Without the names of volumes that are here, so written.
    fn not_here(&self, names: &[String]) -> Vec<String> {
        let used = self.used().unwrap_or_default();
        let is_here = |name: &&String| used.get(&folded(name)) == Some(*name);
        names.iter().filter(|name| !is_here(name)).cloned().collect()
    }

    /// The names of the volumes that are here; `None` before that is known.
    fn used(&self) -> Option<Names> {
        let volumes = self.volumes.borrow();
        let names = volumes.as_ref()?();
        Some(names.into_iter().map(|name| (folded(&name), name)).collect())
    }

    /// The names that moves have in their hands; `None` while those are not known.
    fn in_hands(&self) -> Option<BTreeSet<String>> {
        let in_hands = self.in_hands.borrow();
        // Who has not said is in no position to move any.
        let Some(in_hands) = in_hands.as_ref() else { return Some(BTreeSet::new()) };
        Some(in_hands()?.iter().map(|name| folded(name)).collect())
    }

    /// What is promised, and neither used nor awaited nor on its way, as it was claimed.
    fn left_over(&self) -> Vec<String> {
        let (Some(used), Some(in_hands)) = (self.used(), self.in_hands()) else {
            return Vec::new();
        };
        let awaited = self.awaited.borrow();
        let is_blind = mutants::is(Mutant::GiveBackAwaited);
        let promised = self.promised.borrow();
        let idle = promised.iter().filter(|(name, _)| !used.contains_key(*name));
        let idle = idle.filter(|(name, _)| is_blind || !awaited.contains_key(*name));
        let idle = idle.filter(|(name, _)| !in_hands.contains(*name));
        idle.map(|(_, name)| name.clone()).collect()
    }

    /// What is used, and neither promised nor on its way.
    fn missing(&self) -> Vec<String> {
        let Some(in_hands) = self.in_hands() else { return Vec::new() };
        let promised = self.promised.borrow();
        let used = self.used().unwrap_or_default().into_iter();
        let used = used.filter(|(name, _)| !in_hands.contains(name));
        used.filter(|(name, _)| !promised.contains_key(name)).map(|(_, name)| name).collect()
    }

    fn note_promised(&self, names: &[String]) {
        let names = names.iter().map(|name| (folded(name), name.clone()));
        self.promised.borrow_mut().extend(names);
    }

    /// Has the store promise these names, all or none of each hundred: to volumes that are to be made, where none of
    /// them is of one that is here.
    async fn claim(
        &self,
        membership: &Membership,
        me: MemberId,
        names: &[String],
    ) -> Result<(), MembershipError> {
        let _turn = self.turn.take().await;
        let used = self.used().unwrap_or_default();
        let is_anew = !names.iter().any(|name| used.contains_key(&folded(name)));
        for some in names.chunks(NAMES_AT_ONCE) {
            let claimed = match is_anew {
                true => membership.claim_names_anew(me, some).await,
                false => membership.claim_names(me, some).await,
            };
            match claimed {
                Ok(_) => self.note_promised(some),
                Err(error) => {
                    // After a failure it is not known whether it was done; what is not used is given back.
                    if matches!(error, MembershipError::Store(_)) {
                        self.note_unsure(some);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Reads what the store has promised.
    async fn read(&self, membership: &Membership, me: MemberId) -> Result<(), MembershipError> {
        let _turn = self.turn.take().await;
        if self.is_sure_again() {
            self.unsure_until.set(None);
        }
        let promised = membership.claimed_by(me).await?;
        self.promised.borrow_mut().clear();
        self.note_promised(&promised);
        Ok(())
    }

    /// Gives a name back that a move has given.
    pub(super) async fn give_back_given(
        &self,
        membership: &Membership,
        me: MemberId,
        name: &str,
    ) -> Result<(), MembershipError> {
        let _turn = self.turn.take().await;
        membership.release_names(me, &[name.to_owned()]).await?;
        self.promised.borrow_mut().remove(&folded(name));
        Ok(())
    }

    /// Gives back what nobody uses or awaits.
    async fn give_back(
        &self,
        membership: &Membership,
        me: MemberId,
    ) -> Result<(), MembershipError> {
        loop {
            let _turn = self.turn.take().await;
            // Who begins to await one of them from here on asks for it behind this turn.
            let mut some = self.left_over();
            some.truncate(NAMES_AT_ONCE);
            if some.is_empty() {
                return Ok(());
            }
            membership.release_names(me, &some).await?;
            let mut promised = self.promised.borrow_mut();
            for name in &some {
                promised.remove(&folded(name));
            }
        }
    }

    /// Claims what is used and not promised yet. Answers with the names that other members have, and with theirs.
    async fn catch_up(
        &self,
        membership: &Membership,
        me: MemberId,
    ) -> Result<BTreeMap<String, String>, MembershipError> {
        let mut taken = BTreeMap::new();
        let mut missing = self.missing();
        while !missing.is_empty() {
            let some = &missing[..missing.len().min(NAMES_AT_ONCE)];
            match self.claim(membership, me, some).await {
                Ok(()) => drop(missing.drain(..missing.len().min(NAMES_AT_ONCE))),
                Err(MembershipError::VolumeNameTaken { name, member_name }) => {
                    // As it is called here, which may be spelled in another way there.
                    let name = folded(&name);
                    let own = missing.iter().position(|own| folded(own) == name);
                    let Some(own) = own else { return Err(MembershipError::Contended) };
                    taken.insert(missing.remove(own), member_name);
                }
                // No array has such a volume; others must not wait for it.
                Err(MembershipError::VolumeName(name)) => missing.retain(|own| *own != name),
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }
}

/// What a request needs to give names to volumes: while it is there, nobody gives them back.
pub(crate) struct Claim {
    here: Rc<InGroup>,
    names: Vec<String>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.here.naming.no_longer_await(&self.names);
    }
}

impl InGroup {
    /// The names of volumes that are here are these from now on.
    pub(crate) fn set_volumes(&self, volumes: impl Fn() -> Vec<String> + 'static) {
        self.naming.volumes.replace(Some(Box::new(volumes)));
    }

    /// The names of volumes that are on their way, from here or to here, are these from now on; `None` means that they
    /// are not known, and then no name is given back, nor claimed for what is here.
    pub(crate) fn set_in_hands(&self, in_hands: impl Fn() -> Option<Vec<String>> + 'static) {
        self.naming.in_hands.replace(Some(Box::new(in_hands)));
    }

    /// A name has passed to this member, or from it, by a move: what is promised is read anew.
    pub(crate) fn look_at_names(&self) {
        // One that is to come later is read for that too.
        let until = self.naming.unsure_until.get().unwrap_or_else(Instant::now);
        self.naming.unsure_until.set(Some(until));
        self.naming.note_change();
    }

    /// Has the group promise these names to this member, for who is to make or rename volumes: he keeps what is returned
    /// until he has, or has failed. A member in no group asks nobody. What is here is refused by the array whether the
    /// store answers or not, so nobody is asked for it; if it goes meanwhile, its name is not given back.
    ///
    /// # Errors
    /// Another member has one of them, or the store of the group does not answer.
    pub(crate) async fn claim(self: &Rc<Self>, names: Vec<String>) -> Result<Claim, GroupError> {
        self.naming.await_names(&names);
        let claim = Claim { here: self.clone(), names };
        let wanted = self.naming.not_here(&claim.names);
        if wanted.is_empty() {
            return Ok(claim);
        }
        let joined = match self.joined() {
            Err(GroupError::NotInGroup) => return Ok(claim),
            joined => joined?,
        };
        if joined.revision() == 0 {
            ring::timeout(FIRST_ANSWER_TIME, joined.or_end(joined.until_reached())).await;
        }
        if let Some(why) = joined.fault() {
            return Err(GroupError::NamesNotPromised(why));
        }
        let asking = self.naming.claim(joined.membership(), joined.me(), &wanted);
        let silent = || Err(GroupError::NamesNotPromised("it takes too long".to_owned()));
        let asked = ring::timeout(CLAIM_TIME, joined.or_end(asking)).await;
        match asked {
            Some(Some(asked)) => asked.map(|()| claim).map_err(refusal),
            // Whatever has ended it says why.
            Some(None) => self.joined().and_then(|_| silent()),
            None => {
                self.naming.note_unsure(&wanted);
                silent()
            }
        }
    }

    /// Tells of names that other members have, when there are others than before.
    fn tell_taken(&self, group: &str, taken: &BTreeMap<String, String>) {
        let told = self.naming.told.replace(taken.keys().cloned().collect());
        let mut news = taken.iter().filter(|(name, _)| !told.contains(*name));
        let Some((name, member)) = news.next() else { return };
        let further = match news.count() {
            0 => String::new(),
            more => format!(", and {more} further names are taken as well"),
        };
        let text = format!(
            "group '{group}': volume '{name}' has a name that the member '{member}' has a volume of{further}: both are \
             served as before, and who names one of them should say which member he means until one has another name"
        );
        self.tell(Kind::VolumeNameTwice, text);
    }
}

fn refusal(error: MembershipError) -> GroupError {
    match error {
        MembershipError::Store(error) => GroupError::NamesNotPromised(error.to_string()),
        error => error.into(),
    }
}

/// Keeps what is promised in line with the volumes that are here.
pub(super) async fn keep(here: &InGroup, joined: &Joined) -> Trouble {
    let (naming, membership, me) = (&here.naming, joined.membership(), joined.me());
    if let Err(error) = naming.read(membership, me).await {
        return error.into();
    }
    loop {
        let mark = naming.changes.get();
        if naming.is_sure_again()
            && let Err(error) = naming.read(membership, me).await
        {
            return error.into();
        }
        if let Err(error) = naming.give_back(membership, me).await {
            return error.into();
        }
        match naming.catch_up(membership, me).await {
            Ok(taken) => here.tell_taken(&joined.group_name(), &taken),
            Err(error) => return error.into(),
        }
        let changed = naming.changed.until(|| naming.changes.get() > mark);
        ring::timeout(LOOK_PAUSE, changed).await;
    }
}
