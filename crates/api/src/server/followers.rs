//! Who follows events and work from afar, and who asks another member: each for long, and so that others can too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Those who follow: so many at once, and of one login never more than half of what others leave.
#[derive(Debug)]
pub(super) struct Followers {
    max: usize,
    /// Invariant: no login is there with none.
    by_login: Mutex<HashMap<String, usize>>,
    /// A place was given back.
    freed: Notify,
}

/// The place of one, which it gives back with this value.
#[derive(Debug)]
pub(super) struct Following {
    followers: Arc<Followers>,
    login: String,
}

impl Followers {
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, by_login: Mutex::default(), freed: Notify::new() })
    }

    fn by_login(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        // Each change is one call.
        self.by_login.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more of this login; `None` if there is none for it.
    pub(super) fn enter(self: &Arc<Self>, login: String) -> Option<Following> {
        let mut by_login = self.by_login();
        let own = by_login.get(&login).copied().unwrap_or(0);
        let others = by_login.values().sum::<usize>() - own;
        if own >= self.max.saturating_sub(others).div_ceil(2) {
            return None;
        }
        by_login.insert(login.clone(), own + 1);
        Some(Following { followers: self.clone(), login })
    }

    /// The same, as soon as there is one. Who has its share waits until there is more for it, and others pass it by.
    /// Who stops to wait leaves nothing behind.
    pub(super) async fn enter_in_turn(self: &Arc<Self>, login: &str) -> Following {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // What is given back from here on is not missed.
            freed.as_mut().enable();
            if let Some(place) = self.enter(login.to_owned()) {
                return place;
            }
            freed.await;
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut by_login = self.followers.by_login();
        let left = by_login.get(&self.login).map_or(0, |count| count - 1);
        match left {
            0 => by_login.remove(&self.login),
            left => by_login.insert(self.login.clone(), left),
        };
        drop(by_login);
        // Of all that wait some may have their share.
        self.followers.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all places that a login can have.
    fn take_all(followers: &Arc<Followers>, login: &str) -> Vec<Following> {
        std::iter::from_fn(|| followers.enter(login.to_owned())).collect()
    }

    #[tokio::test]
    async fn who_has_its_share_waits_until_there_is_more_for_it() {
        let followers = Followers::new(4);
        let [first, _second] = [0; 2].map(|_| followers.enter("ada".to_owned()).unwrap());
        let waiting = followers.clone();
        let third = tokio::spawn(async move { waiting.enter_in_turn("ada").await });
        tokio::task::yield_now().await;
        assert!(!third.is_finished(), "it has its share");
        drop(followers.enter_in_turn("ben").await);
        tokio::task::yield_now().await;
        assert!(!third.is_finished(), "what another one gives back is not for it");
        drop(first);
        drop(third.await.unwrap());
        assert_eq!(followers.by_login().len(), 1);
    }

    #[test]
    fn whoever_follows_all_it_can_leaves_places_to_others() {
        let followers = Followers::new(64);
        let greedy = take_all(&followers, "token watch");
        let other = take_all(&followers, "ada");
        let third = take_all(&followers, "ben");
        assert_eq!((greedy.len(), other.len(), third.len()), (32, 16, 8));
        drop(greedy);
        assert_eq!(take_all(&followers, "cyd").len(), 20, "half of what is left then");
        drop((other, third));
        assert!(followers.by_login().is_empty());
    }
}
