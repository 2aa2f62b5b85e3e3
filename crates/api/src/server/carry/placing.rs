//! On which member a new volume is made, where no member is named.

use group::membership::{MembershipError, PlacementError, Roll, Wanted, place};
use group::ownership::MemberId;
use member::RollNow;

use super::way::Told;
use crate::problem::{Code, Problem, of_placement};

/// The member of the pool that has most room for it.
pub(super) fn member_for(now: &RollNow, size_bytes: u64, told: &Told) -> Result<MemberId, Problem> {
    let pool = told.pool.as_deref();
    let wanted = Wanted { size_bytes, thick: told.thick, pool, asked: now.me };
    place(&now.roll, &wanted).map_err(|error| refused(&error))
}

/// The member that has most room for it beside the first one, which cannot be reached.
pub(super) fn next_best(
    now: &RollNow,
    first: MemberId,
    size_bytes: u64,
    told: &Told,
) -> Option<MemberId> {
    let pool = told.pool.as_deref();
    let wanted = Wanted { size_bytes, thick: told.thick, pool, asked: now.me };
    let mut roll = now.roll.clone();
    roll.present.remove(&first);
    place(&roll, &wanted).ok()
}

/// Why none of the two members makes it that were chosen one after the other.
pub(super) fn both_failed(first: &Problem, second: Problem) -> Problem {
    if second.code != Code::NotReached {
        return second;
    }
    let sentence = format!("{}; the next member with room for it: {}", first.detail, second.detail);
    Problem::new(Code::NotReached, sentence)
}

/// Refuses a volume of a pool on a member that is named and in another one.
pub(super) fn check_pool(roll: &Roll, member: MemberId, pool: Option<&str>) -> Result<(), Problem> {
    let Some(pool) = pool else { return Ok(()) };
    let Some(members) = roll.members_of_pool(pool) else {
        let error = MembershipError::NoSuchPool(pool.to_owned());
        return Err(Problem::new(Code::NoSuchPool, error.to_string()));
    };
    if members.contains(&member) {
        return Ok(());
    }
    let name = roll.members.get(&member).map_or("", |record| record.name.as_str());
    let sentence = format!(
        "member '{name}' is in the pool '{}', not in '{pool}': name the member or the pool, or one of its members",
        roll.pool_of(member)
    );
    Err(Problem::new(Code::Invalid, sentence))
}

/// Why no member takes it.
fn refused(error: &PlacementError) -> Problem {
    Problem::new(of_placement(error), error.to_string())
}
