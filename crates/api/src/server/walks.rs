//! Questions that keep a core or much memory busy, as those that walk over whole maps, and lists of a whole group: few
//! at once, and fewer of each that asks, so that nobody waits behind all questions of another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Those over whole maps at work at once.
pub(super) const WALKS_MAX: usize = 2;

/// Of these, those of one that asks, whatever connections it has.
pub(super) const WALKS_OF_OWNER_MAX: usize = 1;

/// The places of questions. Who asks waits for its own place first, so that in front of the others it waits once.
#[derive(Debug)]
pub(super) struct Walks {
    places: Arc<Semaphore>,
    of_owner_max: usize,
    /// Invariant: nobody is there for whom no question waits or is at work.
    owners: Mutex<HashMap<String, Owner>>,
}

#[derive(Debug)]
struct Owner {
    places: Arc<Semaphore>,
    /// Questions that wait or are at work.
    questions: usize,
}

/// One question of an owner, which waits or is at work.
#[derive(Debug)]
struct Question {
    walks: Arc<Walks>,
    owner: String,
}

/// The place of one, which it gives back with this value.
#[derive(Debug)]
pub(super) struct Walking {
    _places: [OwnedSemaphorePermit; 2],
    _question: Question,
}

impl Walks {
    /// So many at once, and so many of one that asks.
    pub(super) fn new(max: usize, of_owner_max: usize) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(max));
        Arc::new(Self { places, of_owner_max, owners: Mutex::default() })
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        // Each change is one call.
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, when its turn has come. Who stops to wait leaves nothing behind.
    pub(super) async fn enter(self: &Arc<Self>, owner: String) -> Option<Walking> {
        let (question, own) = self.ask(owner);
        let own = own.acquire_owned().await.ok()?;
        let place = self.places.clone().acquire_owned().await.ok()?;
        Some(Walking { _places: [own, place], _question: question })
    }

    fn ask(self: &Arc<Self>, owner: String) -> (Question, Arc<Semaphore>) {
        let mut owners = self.owners();
        let entry = owners.entry(owner.clone()).or_insert_with(|| Owner {
            places: Arc::new(Semaphore::new(self.of_owner_max)),
            questions: 0,
        });
        entry.questions += 1;
        let places = entry.places.clone();
        drop(owners);
        (Question { walks: self.clone(), owner }, places)
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut owners = self.walks.owners();
        let Some(owner) = owners.get_mut(&self.owner) else { return };
        owner.questions -= 1;
        if owner.questions == 0 {
            owners.remove(&self.owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Whether it has a place without waiting for others to leave.
    async fn now(walks: &Arc<Walks>, owner: &str) -> Option<Walking> {
        timeout(Duration::from_secs(1), walks.enter(owner.to_owned())).await.ok().flatten()
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_all_the_time_leaves_a_place_to_others() {
        let walks = Walks::new(WALKS_MAX, WALKS_OF_OWNER_MAX);
        let first = now(&walks, "greedy").await.expect("nobody is there");
        let behind: Vec<_> = (0..50)
            .map(|_| {
                let walks = walks.clone();
                tokio::spawn(async move { walks.enter("greedy".to_owned()).await.is_some() })
            })
            .collect();
        assert!(now(&walks, "greedy").await.is_none(), "it has its place already");
        let other = now(&walks, "other").await.expect("a place is left to it");
        assert!(now(&walks, "third").await.is_none(), "all are taken");
        drop(other);
        drop(now(&walks, "third").await.expect("it does not wait behind all questions of one"));
        drop(first);
        for one in behind {
            assert!(one.await.unwrap(), "they have their turn, too");
        }
        assert!(walks.owners().is_empty());
    }
}
