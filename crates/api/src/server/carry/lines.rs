//! How much may be under way to another member at once. One that asks has never more than half of what others leave of
//! it, so that who asks all the time leaves room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use group::ownership::MemberId;
use tokio::time::timeout;

use super::gather::PART_TIME;
use crate::server::followers::{Followers, Following};

/// Requests at once to one member: those of a few people and programs, each of which is answered soon. More of them
/// would keep that member busier than its own.
pub(super) const REQUESTS_MAX: usize = 8;

/// Streams that are followed at once at one member, which last for long and leave the places of requests to others.
pub(super) const STREAMS_MAX: usize = 4;

/// How long one waits for a place: less than what waits for its answer has time, so that this one is said to be busy,
/// not the other one to be silent.
const WAIT: Duration = Duration::from_secs(3);
const _: () = assert!(WAIT.as_secs() < PART_TIME.as_secs());

/// What is under way to each member. A number is never given twice, so those of members that are gone do no harm.
#[derive(Debug, Default)]
pub(in crate::server) struct Lines(Mutex<HashMap<MemberId, Places>>);

#[derive(Debug, Clone)]
struct Places {
    requests: Arc<Followers>,
    streams: Arc<Followers>,
}

impl Default for Places {
    fn default() -> Self {
        Self { requests: Followers::new(REQUESTS_MAX), streams: Followers::new(STREAMS_MAX) }
    }
}

impl Lines {
    fn to(&self, member: MemberId) -> Places {
        // Each change is one call.
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(member).or_default().clone()
    }

    /// A place for one more request of this owner; `None` if there was none in time.
    pub(super) async fn enter(&self, member: MemberId, owner: &str) -> Option<Following> {
        let requests = self.to(member).requests;
        timeout(WAIT, requests.enter_in_turn(owner)).await.ok()
    }

    /// A place for one more stream of this owner; `None` if there is none for it.
    pub(super) fn follow(&self, member: MemberId, owner: &str) -> Option<Following> {
        self.to(member).streams.enter(owner.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all places of requests that an owner can have.
    async fn take_all(lines: &Lines, member: MemberId, owner: &str) -> Vec<Following> {
        let mut places = Vec::new();
        while let Some(place) = lines.enter(member, owner).await {
            places.push(place);
        }
        places
    }

    #[tokio::test(start_paused = true)]
    async fn one_member_that_is_slow_takes_no_places_of_another() {
        let (lines, slow, other) = (Lines::default(), MemberId(1), MemberId(2));
        let mut taken = Vec::new();
        for owner in ["a", "b", "c", "d"] {
            taken.extend(take_all(&lines, slow, owner).await);
        }
        assert_eq!(taken.len(), REQUESTS_MAX);
        assert!(lines.enter(slow, "e").await.is_none(), "all are taken");
        assert!(lines.enter(other, "e").await.is_some());
        assert!(lines.follow(slow, "a").is_some(), "requests take no places of streams");
        taken.pop();
        assert!(lines.enter(slow, "e").await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_all_the_time_leaves_places_to_others_and_waits_for_its_own() {
        let (lines, member) = (Arc::new(Lines::default()), MemberId(1));
        let mut greedy = take_all(&lines, member, "greedy").await;
        assert_eq!(greedy.len(), REQUESTS_MAX / 2);
        let behind: Vec<_> = (0..50)
            .map(|_| {
                let lines = lines.clone();
                tokio::spawn(async move { lines.enter(member, "greedy").await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(take_all(&lines, member, "ada").await.len(), 2, "it waits behind nobody");
        for one in behind {
            assert!(!one.await.unwrap(), "its share was taken");
        }
        let waiting = lines.clone();
        let next = tokio::spawn(async move { waiting.enter(member, "greedy").await.is_some() });
        tokio::task::yield_now().await;
        greedy.pop();
        assert!(next.await.unwrap(), "one of its own was given back");

        let follow_all = |owner: &str| -> Vec<_> {
            std::iter::from_fn(|| lines.follow(member, owner)).collect()
        };
        let (greedy, ada) = (follow_all("greedy"), follow_all("ada"));
        assert_eq!((greedy.len(), ada.len()), (STREAMS_MAX / 2, 1));
    }
}
