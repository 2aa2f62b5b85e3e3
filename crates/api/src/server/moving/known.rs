//! What this side has to know of moves beside the member: which volumes are coming here from whom, and which moves were
//! told of.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::membership::MoveId;
use group::ownership::MemberId;
use tokio::time::Instant;

use super::waiting::LONG;
use crate::types::{Transit, TransitState};

/// After how long without a word of it the source of a move is asked whether it goes on.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// Moves that were told of which are remembered.
const TOLD_MAX: usize = 4096;

/// The moves that this side knows of.
#[derive(Debug, Default)]
pub(in crate::server) struct Moves(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    /// What comes here, and is not prepared yet.
    coming: BTreeMap<MoveId, Coming>,
    /// Those that were told of.
    told: BTreeSet<MoveId>,
    /// Those about which something is being done that may take long.
    at_work: BTreeSet<MoveId>,
    /// Those that are stored and not driven, by the numbers of their moves.
    waiting: BTreeMap<String, Waiting>,
}

/// A volume that is coming here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coming {
    pub(super) from: MemberId,
    pub(super) name: String,
    /// When something was heard of it last.
    heard: Instant,
}

/// A volume that has no hosts, as its move waits.
#[derive(Debug)]
struct Waiting {
    since: Instant,
    /// Whether it was told that it waits, and that it is undecided: where the store answers now and then it is either.
    told: [bool; 2],
}

/// Since when it is known that a volume is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Begun {
    /// Since now: whoever has said so says too that it does not come, should it be refused.
    Now,
    /// It was said before, by the same member.
    Before,
    /// The number is that of another member's move.
    ByAnother,
}

impl Moves {
    fn all(&self) -> MutexGuard<'_, All> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A volume is to come from this member.
    pub(in crate::server) fn begin(&self, id: &MoveId, from: MemberId, name: &str) -> Begun {
        match self.all().coming.entry(id.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Coming { from, name: name.to_owned(), heard: Instant::now() });
                Begun::Now
            }
            Entry::Occupied(known) if known.get().from == from => Begun::Before,
            Entry::Occupied(_) => Begun::ByAnother,
        }
    }

    /// From which member it comes, if it does; of this moment something was heard of it.
    pub(in crate::server) fn hear(&self, id: &MoveId) -> Option<MemberId> {
        let mut all = self.all();
        let coming = all.coming.get_mut(id)?;
        coming.heard = Instant::now();
        Some(coming.from)
    }

    /// It does not come any more, or is prepared. Gives the name of the volume, if it came.
    pub(in crate::server) fn end(&self, id: &MoveId) -> Option<String> {
        self.all().coming.remove(id).map(|coming| coming.name)
    }

    /// Those of which nothing was heard for long.
    pub(super) fn silent(&self) -> Vec<(MoveId, Coming)> {
        let all = self.all();
        let silent = all.coming.iter().filter(|(_, coming)| coming.heard.elapsed() >= SILENCE);
        silent.map(|(id, coming)| (id.clone(), coming.clone())).collect()
    }

    /// Something is to be done about a move that may take long; false if something is.
    pub(super) fn begin_work(&self, id: &MoveId) -> bool {
        self.all().at_work.insert(id.clone())
    }

    /// It is done.
    pub(super) fn end_work(&self, id: &MoveId) {
        self.all().at_work.remove(id);
    }

    /// Of all that is stored of moves now, what is to be told: what waits for long, and what an operator has to settle.
    pub(super) fn that_wait(&self, now: &[Transit]) -> Vec<Transit> {
        let mut all = self.all();
        let waits = |it: &&Transit| it.state != TransitState::UnderWay;
        let ids: BTreeSet<&String> = now.iter().filter(waits).map(|it| &it.id).collect();
        all.waiting.retain(|id, _| ids.contains(id));
        let mut is_to_be_told = |transit: &Transit| {
            let new = Waiting { since: Instant::now(), told: [false; 2] };
            let known = all.waiting.entry(transit.id.clone()).or_insert(new);
            let is_long = known.since.elapsed() >= LONG;
            let is_undecided = transit.state == TransitState::Undecided;
            let told = &mut known.told[usize::from(is_undecided)];
            let is_it = !*told && (is_long || is_undecided);
            *told |= is_it;
            is_it
        };
        now.iter().filter(waits).filter(|it| is_to_be_told(it)).cloned().collect()
    }

    /// Whether the end of a move is told of for the first time.
    pub(super) fn is_news(&self, id: &MoveId) -> bool {
        let mut all = self.all();
        if all.told.len() >= TOLD_MAX {
            all.told.clear();
        }
        all.told.insert(id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TransitWay;

    const LEFT: MemberId = MemberId(1);
    const RIGHT: MemberId = MemberId(2);

    #[tokio::test(start_paused = true)]
    async fn what_comes_is_of_one_member_and_is_missed_when_nothing_is_heard() {
        let (moves, id) = (Moves::default(), MoveId::draw().unwrap());
        assert_eq!(moves.hear(&id), None);
        assert_eq!(moves.begin(&id, LEFT, "vm"), Begun::Now);
        assert_eq!(moves.begin(&id, LEFT, "vm"), Begun::Before, "it asks again");
        assert_eq!(moves.begin(&id, RIGHT, "vm"), Begun::ByAnother, "it is not that one's");
        assert_eq!(moves.hear(&id), Some(LEFT));
        tokio::time::sleep(SILENCE / 2).await;
        assert_eq!(moves.hear(&id), Some(LEFT));
        tokio::time::sleep(SILENCE / 2).await;
        assert!(moves.silent().is_empty());
        tokio::time::sleep(SILENCE / 2).await;
        let silent = moves.silent();
        assert_eq!((&silent[0].0, silent[0].1.from, &*silent[0].1.name), (&id, LEFT, "vm"));
        moves.end(&id);
        assert!(moves.silent().is_empty() && moves.hear(&id).is_none());
        assert_eq!(moves.begin(&id, RIGHT, "vm"), Begun::Now, "nobody has it");
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_long_is_told_once_and_what_is_undecided_at_once() {
        let moves = Moves::default();
        let transit = |id: &str, state| Transit {
            id: id.to_owned(),
            volume: "vm".to_owned(),
            way: TransitWay::Leaves,
            other: "right".to_owned(),
            state,
            why: None,
            member: None,
        };
        let told = |all: &[(&str, TransitState)]| {
            let all: Vec<_> = all.iter().map(|(id, state)| transit(id, *state)).collect();
            let told = moves.that_wait(&all).into_iter();
            told.map(|transit| (transit.id, transit.state)).collect::<Vec<_>>()
        };
        let (waits, undecided) = (TransitState::Waits, TransitState::Undecided);
        assert_eq!(told(&[("a", waits), ("b", TransitState::UnderWay)]), []);
        assert_eq!(told(&[("a", waits), ("c", undecided)]), [("c".to_owned(), undecided)]);
        tokio::time::advance(LONG).await;
        let all = [("a", waits), ("c", undecided)];
        assert_eq!(told(&all), [("a".to_owned(), waits)]);
        assert_eq!(told(&all), []);
        assert_eq!(told(&[("a", undecided)]), [("a".to_owned(), undecided)], "that is news");
        assert_eq!(told(&[]), []);
        assert_eq!(told(&[("a", waits)]), [], "it is another time");
    }

    #[test]
    fn one_thing_is_done_about_a_move_at_once() {
        let (moves, id) = (Moves::default(), MoveId::draw().unwrap());
        assert!(moves.begin_work(&id) && !moves.begin_work(&id));
        assert!(moves.begin_work(&MoveId::draw().unwrap()));
        moves.end_work(&id);
        assert!(moves.begin_work(&id));
    }

    #[test]
    fn a_move_is_told_of_once() {
        let (moves, id) = (Moves::default(), MoveId::draw().unwrap());
        assert!(moves.is_news(&id) && !moves.is_news(&id));
        assert!(moves.is_news(&MoveId::draw().unwrap()));
    }
}
