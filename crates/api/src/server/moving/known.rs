//! What this side has to know of moves beside the member: which volumes are coming here from whom, and which moves were
//! told of.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::membership::MoveId;
use group::ownership::MemberId;
use tokio::time::Instant;

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
}

/// A volume that is coming here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Coming {
    pub(super) from: MemberId,
    pub(super) name: String,
    /// When something was heard of it last.
    heard: Instant,
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

    /// It does not come any more, or is prepared.
    pub(in crate::server) fn end(&self, id: &MoveId) {
        self.all().coming.remove(id);
    }

    /// Those of which nothing was heard for long.
    pub(super) fn silent(&self) -> Vec<(MoveId, Coming)> {
        let all = self.all();
        let silent = all.coming.iter().filter(|(_, coming)| coming.heard.elapsed() >= SILENCE);
        silent.map(|(id, coming)| (id.clone(), coming.clone())).collect()
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

    #[test]
    fn a_move_is_told_of_once() {
        let (moves, id) = (Moves::default(), MoveId::draw().unwrap());
        assert!(moves.is_news(&id) && !moves.is_news(&id));
        assert!(moves.is_news(&MoveId::draw().unwrap()));
    }
}
