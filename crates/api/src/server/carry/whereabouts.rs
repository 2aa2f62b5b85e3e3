//! Where things are that were made or renamed by a request that came through here a moment ago.
//!
//! What a member has the others hear within some seconds. Whoever makes a volume and goes on with it at once asks
//! sooner than that, and so does who sends a request again whose answer was lost.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use group::membership::Inventory;
use group::ownership::MemberId;
use tokio::time::Instant;

/// How long it is known: longer than it takes until all members have heard of it.
const KNOWN_TIME: Duration = Duration::from_secs(20);

/// Names that are known at once. Of more the oldest are forgotten, and other members are asked.
const KNOWN_MAX: usize = 1024;

/// What has a name that is looked for on all members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Volume,
    Schedule,
}

impl Kind {
    /// The word for it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Schedule => "schedule",
        }
    }

    /// Where a member shows all of them.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Volume => "/v1/volumes",
            Self::Schedule => "/v1/schedules",
        }
    }

    /// Whether a member has said that it has one of this name. A volume in the recycle bin is one.
    pub(super) fn is_listed(self, inventory: &Inventory, name: &str) -> bool {
        let is_it = |listed: &String| listed == name;
        match self {
            Self::Volume => {
                let mut volumes = inventory.volumes.iter().map(|volume| &volume.name);
                volumes.any(is_it) || inventory.deleted.iter().any(is_it)
            }
            Self::Schedule => inventory.schedules.iter().any(is_it),
        }
    }
}

/// What a request changes about names where it is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// These are there then.
    pub(super) made: Vec<(Kind, String)>,
    /// These are not.
    pub(super) gone: Vec<(Kind, String)>,
}

/// Where what was named of late is.
#[derive(Debug, Default)]
pub(in crate::server) struct Whereabouts(Mutex<BTreeMap<(Kind, String), Known>>);

#[derive(Debug, Clone, Copy)]
struct Known {
    on: MemberId,
    since: Instant,
}

impl Known {
    fn is_news(&self) -> bool {
        self.since.elapsed() < KNOWN_TIME
    }
}

impl Whereabouts {
    fn known(&self) -> MutexGuard<'_, BTreeMap<(Kind, String), Known>> {
        // Each change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It was done on this member.
    pub(super) fn learn(&self, named: Named, on: MemberId) {
        let Named { made, gone } = named;
        if made.is_empty() && gone.is_empty() {
            return;
        }
        let mut known = self.known();
        for name in gone {
            known.remove(&name);
        }
        for name in made {
            known.insert(name, Known { on, since: Instant::now() });
        }
        known.retain(|_, known| known.is_news());
        while known.len() > KNOWN_MAX {
            let oldest = known.iter().min_by_key(|(_, known)| known.since);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            known.remove(&name);
        }
    }

    /// A volume has moved to this member.
    pub(in crate::server) fn moved(&self, volume: &str, on: MemberId) {
        let made = vec![(Kind::Volume, volume.to_owned())];
        self.learn(Named { made, gone: Vec::new() }, on);
    }

    /// The member that a volume was put on a moment ago.
    pub(in crate::server) fn moved_to(&self, volume: &str) -> Option<MemberId> {
        self.find(Kind::Volume, volume)
    }

    /// The member that it was put on a moment ago.
    pub(super) fn find(&self, kind: Kind, name: &str) -> Option<MemberId> {
        let known = self.known().get(&(kind, name.to_owned())).copied();
        known.filter(Known::is_news).map(|known| known.on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kind: Kind, name: &str) -> Named {
        Named { made: vec![(kind, name.to_owned())], gone: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_made_is_known_until_all_have_heard_of_it() {
        let whereabouts = Whereabouts::default();
        whereabouts.learn(made(Kind::Volume, "a"), MemberId(2));
        assert_eq!(whereabouts.find(Kind::Volume, "a"), Some(MemberId(2)));
        assert_eq!(whereabouts.find(Kind::Schedule, "a"), None);
        assert_eq!(whereabouts.find(Kind::Volume, "b"), None);
        tokio::time::advance(KNOWN_TIME).await;
        assert_eq!(whereabouts.find(Kind::Volume, "a"), None);
        whereabouts.learn(made(Kind::Volume, "b"), MemberId(1));
        assert_eq!(whereabouts.known().len(), 1, "what is old goes");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_renamed_or_gone_is_not_where_it_was() {
        let whereabouts = Whereabouts::default();
        whereabouts.learn(made(Kind::Volume, "a"), MemberId(2));
        let gone = vec![(Kind::Volume, "a".to_owned())];
        let renamed = Named { gone: gone.clone(), ..made(Kind::Volume, "b") };
        whereabouts.learn(renamed, MemberId(2));
        assert_eq!(whereabouts.find(Kind::Volume, "a"), None);
        assert_eq!(whereabouts.find(Kind::Volume, "b"), Some(MemberId(2)));
        // Under its own name again: it is there.
        let same = Named { gone, ..made(Kind::Volume, "a") };
        whereabouts.learn(same, MemberId(2));
        assert_eq!(whereabouts.find(Kind::Volume, "a"), Some(MemberId(2)));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_is_known_than_there_is_room_for() {
        let whereabouts = Whereabouts::default();
        for number in 0..=KNOWN_MAX {
            whereabouts.learn(made(Kind::Volume, &number.to_string()), MemberId(2));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(whereabouts.known().len(), KNOWN_MAX);
        assert_eq!(whereabouts.find(Kind::Volume, "0"), None, "it was the oldest");
        assert!(whereabouts.find(Kind::Volume, &KNOWN_MAX.to_string()).is_some());
    }
}
