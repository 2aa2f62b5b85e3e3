//! Which members give signs of life, as this one tells of it: somebody who is back within seconds was not away.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use group::membership::Roll;
use group::ownership::MemberId;

/// So long nobody is told that a member gives no signs of life: it may be starting again.
const AWAY_AFTER: Duration = Duration::from_secs(10);

/// What has changed about another member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    /// It was let in.
    Joined(String),
    /// It was removed.
    Left(String),
    /// It has given no signs of life for a while.
    Away(String),
    /// It does again.
    Back(String),
}

/// What was seen of the others.
#[derive(Debug, Default)]
pub(super) struct Presence {
    /// Those that were in the group at the last look; `None` before the first.
    known: Option<BTreeMap<MemberId, String>>,
    silent_since: BTreeMap<MemberId, Instant>,
    /// Those of which it was told that they are away.
    told: BTreeSet<MemberId>,
}

impl Presence {
    /// Looks at the others, of whom `me` is none.
    pub(super) fn look(&mut self, roll: &Roll, me: MemberId, now: Instant) -> Vec<News> {
        let others = roll.members.iter().filter(|(id, _)| **id != me);
        let others: BTreeMap<MemberId, String> =
            others.map(|(id, record)| (*id, record.name.clone())).collect();
        let mut news = Vec::new();
        if let Some(known) = &self.known {
            let new = others.iter().filter(|(id, _)| !known.contains_key(id));
            news.extend(new.map(|(_, name)| News::Joined(name.clone())));
            let gone = known.iter().filter(|(id, _)| !others.contains_key(id));
            news.extend(gone.map(|(_, name)| News::Left(name.clone())));
        }
        self.silent_since.retain(|id, _| others.contains_key(id));
        self.told.retain(|id| others.contains_key(id));
        for (id, name) in &others {
            let has_begun = roll.members.get(id).is_some_and(|record| record.incarnation != 0);
            if roll.is_present(*id) {
                self.silent_since.remove(id);
                if self.told.remove(id) {
                    news.push(News::Back(name.clone()));
                }
                continue;
            }
            let since = *self.silent_since.entry(*id).or_insert(now);
            // One that was let in and has not begun yet is nowhere that it could be away from.
            let is_away = has_begun && now.saturating_duration_since(since) >= AWAY_AFTER;
            if is_away && self.told.insert(*id) {
                news.push(News::Away(name.clone()));
            }
        }
        self.known = Some(others);
        debug_assert!(self.told.iter().all(|id| self.silent_since.contains_key(id)));
        news
    }

    /// Nothing was heard of anybody for a while, which says nothing of who is silent.
    pub(super) fn lose_sight(&mut self) {
        let told = &self.told;
        self.silent_since.retain(|id, _| told.contains(id));
    }

    /// Who has given no signs of life for so long.
    pub(super) fn silent_for(&self, long: Duration, now: Instant) -> BTreeSet<MemberId> {
        let is_long = |since: &&Instant| now.saturating_duration_since(**since) >= long;
        let silent = self.silent_since.iter().map(|(id, since)| (*id, since));
        silent.filter(|(_, since)| is_long(since)).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::tests::roll_of;

    const ME: MemberId = MemberId(1);

    #[test]
    fn who_is_back_within_seconds_was_not_away() {
        let (mut presence, begun) = (Presence::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (with, without) = (roll_of(&[(1, true), (2, true)]), roll_of(&[(1, true), (2, false)]));
        assert_eq!(presence.look(&with, ME, at(0)), []);
        assert_eq!(presence.look(&without, ME, at(1)), []);
        assert_eq!(presence.look(&without, ME, at(10)), []);
        assert_eq!(presence.look(&with, ME, at(10)), [], "it was started again");
        assert_eq!(presence.look(&without, ME, at(11)), []);
        assert_eq!(presence.look(&without, ME, at(21)), [News::Away("m2".to_owned())]);
        assert_eq!(presence.look(&without, ME, at(500)), [], "that is told once");
        let long = Duration::from_secs(400);
        assert_eq!(presence.silent_for(long, at(500)), BTreeSet::from([MemberId(2)]));
        assert_eq!(presence.look(&with, ME, at(501)), [News::Back("m2".to_owned())]);
        assert_eq!(presence.silent_for(Duration::ZERO, at(501)), BTreeSet::new());
    }

    #[test]
    fn a_store_that_was_away_says_nothing_of_members() {
        let (mut presence, begun) = (Presence::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let without = roll_of(&[(1, true), (2, false)]);
        assert_eq!(presence.look(&without, ME, at(0)), []);
        presence.lose_sight();
        assert_eq!(presence.look(&without, ME, at(100)), [], "it may have been back meanwhile");
        assert_eq!(presence.look(&without, ME, at(110)), [News::Away("m2".to_owned())]);
        presence.lose_sight();
        assert_eq!(presence.look(&without, ME, at(200)), [], "it is told already");
    }

    #[test]
    fn who_comes_and_goes_is_told_from_the_second_look_on() {
        let (mut presence, begun) = (Presence::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let (two, three) = (roll_of(&[(1, true), (2, true)]), roll_of(&[(1, true), (3, false)]));
        assert_eq!(presence.look(&two, ME, at(0)), []);
        let told = presence.look(&three, ME, at(1));
        assert_eq!(told, [News::Joined("m3".to_owned()), News::Left("m2".to_owned())]);
        let mut joining = three;
        joining.members.get_mut(&MemberId(3)).unwrap().incarnation = 0;
        assert_eq!(presence.look(&joining, ME, at(60)), [], "it has not begun yet");
    }
}
