//! Whether a set of snapshots of several members is whole: one key in the store of the group says it, and nothing else.
//!
//! ```text
//!   nothing ─ decide_set: there is nothing, and who decides is a member ─▶ whole, or void; all have to settle it
//!      ▲                                                                        │    ▲
//!      ╰──── leave_set: the last one has settled it ◀───────────────────────────┴────╯ leave_set: one of them has
//! ```
//!
//! 1. Of two that decide otherwise the first one counts: whoever decides hears what counts.
//! 2. What was decided stays as long as one of the members has not settled it. So who has not finds it there, and what
//!    was sent before and comes late finds it, too.
//! 3. Who is no member any more settles nothing, and keeps nothing there.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::change::TRIES;
use super::names::is_member;
use super::roll::SETS;
use super::{Membership, MembershipError, SetId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::Setting;
use crate::store::{Answer, Compare, KeyValue, Op, Revision, Selection, Transaction};

/// What was decided about a set of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All of its snapshots were taken, and stay.
    Whole,
    /// All that were taken are deleted.
    Void,
}

/// What the store of a group says of a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRecord {
    /// What counts.
    pub verdict: Verdict,
    /// The member that has driven it.
    pub coordinator: MemberId,
    /// The members that have not settled it yet.
    pub unsettled: BTreeSet<MemberId>,
}

impl SetRecord {
    /// Whether a member that has stored nothing of the set may be done with it, as far as is seen here: the coordinator
    /// drives it no more then, and nobody else while the coordinator may. What that one has sent may come yet: the member
    /// would take part in a set that was decided for the others, and is not any more.
    #[must_use]
    pub fn may_be_left_unseen(&self, me: MemberId) -> bool {
        let is_driven = self.unsettled.contains(&self.coordinator) && me != self.coordinator;
        self.unsettled.contains(&me) && (!is_driven || mutants::is(Mutant::SweepEarly))
    }
}

impl Setting for SetRecord {
    const WHAT: &'static str = "what was decided about a set of snapshots";
}

fn set_key(id: &SetId) -> String {
    format!("{SETS}{id}")
}

impl Membership {
    /// What was decided about a set; `None` where nothing is, or all have settled it.
    ///
    /// # Errors
    /// The store cannot be read, or what it says.
    pub async fn set_record(&self, id: &SetId) -> Result<Option<SetRecord>, MembershipError> {
        Ok(self.set_at(id).await?.map(|(record, _)| record))
    }

    async fn set_at(&self, id: &SetId) -> Result<Option<(SetRecord, Revision)>, MembershipError> {
        let found = self.store.range(Selection::key(set_key(id))).await?;
        let Some(kv) = found.kvs.first() else { return Ok(None) };
        Ok(Some((SetRecord::decode(&kv.value)?, kv.mod_revision)))
    }

    /// Decides about a set of which nothing is decided yet, as this member, and says what counts.
    ///
    /// # Errors
    /// It is no member, or as [`set_record`](Self::set_record). After [`MembershipError::Store`] it may have been decided
    /// so, or be yet.
    pub async fn decide_set(
        &self,
        me: MemberId,
        id: &SetId,
        record: &SetRecord,
    ) -> Result<Verdict, MembershipError> {
        for _ in 0..TRIES {
            let mut compares = vec![is_member(me)];
            if !mutants::is(Mutant::DecideBlind) {
                compares.push(Compare::unchanged(set_key(id), 0));
            }
            let then = vec![Op::put(set_key(id), record.encode())];
            let otherwise = vec![Op::Range(Selection::key(set_key(id)))];
            let outcome = self.store.commit(Transaction { compares, then, otherwise }).await?;
            if outcome.succeeded {
                return Ok(record.verdict);
            }
            if let Some(kv) = found_in(&outcome.answers) {
                return Ok(SetRecord::decode(&kv.value)?.verdict);
            }
            if !self.is_member(me).await? {
                return Err(self.why_missing().await);
            }
        }
        Err(MembershipError::Contended)
    }

    /// This member has settled a set, so that nothing need be known of it for it.
    ///
    /// # Errors
    /// As [`set_record`](Self::set_record), or others change it all the time.
    pub async fn leave_set(&self, me: MemberId, id: &SetId) -> Result<(), MembershipError> {
        for _ in 0..TRIES {
            let Some((record, revision)) = self.set_at(id).await? else { return Ok(()) };
            let mut unsettled = BTreeSet::new();
            for member in record.unsettled.iter().filter(|member| **member != me) {
                // Its number is not given again.
                if self.is_member(*member).await? {
                    unsettled.insert(*member);
                }
            }
            if unsettled == record.unsettled {
                return Ok(());
            }
            let op = match unsettled.is_empty() {
                true => Op::Delete(Selection::key(set_key(id))),
                false => Op::put(set_key(id), SetRecord { unsettled, ..record }.encode()),
            };
            let unchanged = Compare::unchanged(set_key(id), revision);
            if self.store.commit(Transaction::when(vec![unchanged], vec![op])).await?.succeeded {
                return Ok(());
            }
        }
        Err(MembershipError::Contended)
    }

    /// The sets that this member has to settle, if it has stored nothing of them, and those that nobody settles who is a
    /// member. What does not read is none.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn sets_left(&self, me: MemberId) -> Result<Vec<SetId>, MembershipError> {
        let (mut left, mut seats) = (Vec::new(), BTreeMap::new());
        for kv in self.store.range(Selection::prefix(SETS)).await?.kvs {
            let id = str::from_utf8(&kv.key).ok().and_then(|key| key.strip_prefix(SETS));
            let Some(id) = id.and_then(|id| id.parse::<SetId>().ok()) else { continue };
            let Ok(mut record) = SetRecord::decode(&kv.value) else { continue };
            for member in record.unsettled.clone() {
                // Asked once of each, as there may be many keys.
                let is_member = match seats.get(&member) {
                    Some(is_member) => *is_member,
                    None => self.is_member(member).await?,
                };
                seats.insert(member, is_member);
                if !is_member {
                    record.unsettled.remove(&member);
                }
            }
            if record.unsettled.is_empty() || record.may_be_left_unseen(me) {
                left.push(id);
            }
        }
        Ok(left)
    }
}

fn found_in(answers: &[Answer]) -> Option<&KeyValue> {
    answers.iter().find_map(|answer| match answer {
        Answer::Found(kvs) => kvs.first(),
        Answer::Put | Answer::Deleted(_) => None,
    })
}
