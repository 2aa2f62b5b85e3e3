//! How a change of the group is made: decided on all that is known, and committed only if that is still so.
//!
//! A change that the store has failed over may have been made nevertheless. Its identifier tells: the guard's value has
//! it then ([`guard`](super::guard)). It is looked for before the change is tried once more, and the first try, which
//! may be under way still, cannot be made as well: both compare the same guard, which the one that is made changes.

use super::guard::ChangeId;
use super::roll::{
    ABOUT, ADDRESS, GUARD, LIMITS, NAMES, PREFIX, SETS, connections_key, inventory_key, member_key,
    pool_key, present_key, token_key,
};
use super::{Membership, MembershipError, Roll};
use crate::address::AddressRecord;
use crate::connections::ConnectionLimits;
use crate::mutants::{self, Mutant};
use crate::record::Setting;
use crate::store::{Answer, Compare, Op, Outcome, Range, Selection, StoreError, Transaction};

/// How often a change begins anew because of others before it is given up.
pub(super) const TRIES: usize = 32;

/// How often it does because the store has failed, which takes many seconds each time.
pub(super) const FAILURES_MAX: usize = 1;

impl Membership {
    /// Makes a change, and says what the group is after it. One that changes nothing is not committed.
    pub(super) async fn change<T>(
        &self,
        decide: impl Fn(&mut Roll) -> Result<T, MembershipError>,
    ) -> Result<(T, Roll), MembershipError> {
        let change = ChangeId::draw()?;
        let mut roll = self.read().await?;
        let mut failures = 0;
        for _ in 0..TRIES {
            let (steps, answer) = decided(&roll, &decide)?;
            if steps.is_empty() {
                return Ok((answer, roll));
            }
            roll = match self.store.commit(guarded(&roll, &change, steps)).await {
                Ok(outcome) => roll_of(outcome)?,
                Err(error @ StoreError::Failed(_)) => match self.read().await {
                    Ok(roll) if roll.guard.has(&change) || failures < FAILURES_MAX => {
                        failures += 1;
                        roll
                    }
                    _ => return Err(MembershipError::Unknown(error)),
                },
                Err(error) => return Err(error.into()),
            };
            // What was decided on another guard was not made, and cannot be any more; so it is this answer.
            if roll.guard.has(&change) {
                return Ok((answer, roll));
            }
        }
        Err(MembershipError::Contended)
    }
}

/// What a rule makes of the roll, as steps for the store, and its answer.
pub(super) fn decided<T>(
    before: &Roll,
    decide: &impl Fn(&mut Roll) -> Result<T, MembershipError>,
) -> Result<(Vec<Op>, T), MembershipError> {
    before.sound().map_err(MembershipError::Unsound)?;
    let mut after = before.clone();
    let answer = decide(&mut after)?;
    let sound = after.sound();
    debug_assert_eq!(sound, Ok(()), "what rules make of a sound group is sound");
    sound.map_err(MembershipError::Unsound)?;
    Ok((steps(before, &after), answer))
}

/// The steps from one roll to another. Of what members say of themselves, which no guard protects, only that goes whose
/// member does, whether it was there when the roll was read or not.
fn steps(before: &Roll, after: &Roll) -> Vec<Op> {
    let mut steps = Vec::new();
    let delete = |key: String| Op::Delete(Selection::key(key));
    if before.about != after.about {
        match &after.about {
            Some(about) => steps.push(Op::put(ABOUT, about.encode())),
            // The next group in this store gives the numbers of its members to others.
            None => steps.extend([
                delete(ABOUT.to_owned()),
                Op::Delete(Selection::prefix(NAMES)),
                Op::Delete(Selection::prefix(SETS)),
            ]),
        }
    }
    if before.address != after.address {
        steps.push(match after.address {
            Some(address) => Op::put(ADDRESS, AddressRecord { address }.encode()),
            None => delete(ADDRESS.to_owned()),
        });
    }
    if before.limits != after.limits {
        steps.push(match after.limits == ConnectionLimits::default() {
            true => delete(LIMITS.to_owned()),
            false => Op::put(LIMITS, after.limits.encode()),
        });
    }
    for (number, record) in &after.members {
        if before.members.get(number) != Some(record) {
            steps.push(Op::put(member_key(*number), record.encode()));
        }
    }
    for number in before.members.keys().filter(|number| !after.members.contains_key(*number)) {
        let said = [present_key, inventory_key, connections_key].map(|key| key(*number));
        let keys = std::iter::once(member_key(*number)).chain(said);
        steps.extend(keys.map(delete));
    }
    for (id, token) in &after.tokens {
        if before.tokens.get(id) != Some(token) {
            steps.push(Op::put(token_key(id), token.encode()));
        }
    }
    let gone = before.tokens.keys().filter(|id| !after.tokens.contains_key(*id));
    steps.extend(gone.map(|id| delete(token_key(id))));
    for (name, pool) in &after.pools {
        if before.pools.get(name) != Some(pool) {
            steps.push(Op::put(pool_key(name), pool.encode()));
        }
    }
    let gone = before.pools.keys().filter(|name| !after.pools.contains_key(*name));
    steps.extend(gone.map(|name| delete(pool_key(name))));
    steps
}

/// These steps if nobody else has changed the group since it was read. Either way it is read anew, in the same moment.
fn guarded(roll: &Roll, change: &ChangeId, mut steps: Vec<Op>) -> Transaction {
    let unchanged = Compare::unchanged(GUARD, roll.guard.revision());
    let compares = if mutants::is(Mutant::NoGuard) { Vec::new() } else { vec![unchanged] };
    let look = || Op::Range(Selection::prefix(PREFIX));
    steps.extend([Op::put(GUARD, roll.guard.with(change)), look()]);
    Transaction { compares, then: steps, otherwise: vec![look()] }
}

/// What a transaction has read at its end.
fn roll_of(outcome: Outcome) -> Result<Roll, MembershipError> {
    let (revision, is_made) = (outcome.revision, outcome.succeeded);
    let read = match outcome.answers.into_iter().next_back() {
        Some(Answer::Found(kvs)) => Roll::of(&Range { revision, kvs }),
        _ => Err(StoreError::failed("it does not answer what it was asked").into()),
    };
    // What cannot be read came between, and does not mean that nothing was changed.
    read.map_err(|error| {
        let unknown = || MembershipError::Unknown(StoreError::failed(error.to_string()));
        if is_made { unknown() } else { error }
    })
}
