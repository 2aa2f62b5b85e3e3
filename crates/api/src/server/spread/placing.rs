//! Where a new volume lies that is spread over several members.

use array::api::VolumeSpec;
use group::membership::{SliceId, SpreadId};
use group::ownership::MemberId;
use group::spread::{PAGE_BYTES, SPREAD_FROM_BYTES, Seat, SpreadError, Wanted, place, rooms};
use group::words::bytes_in_words;
use member::{RollNow, SpreadPlan};

use super::name_of;
use crate::problem::{Code, Problem, of_spread_rules};
use crate::server::app::App;
use crate::types::NewVolume;

/// The plan of a new volume whose home is this member, and what is said of it where not all of it fits yet.
pub(super) fn plan(app: &App, new: NewVolume) -> Result<(SpreadPlan, Option<String>), Problem> {
    let now = app.roll.now().ok_or_else(no_group)?;
    let about = now.roll.about.as_ref().ok_or_else(no_group)?;
    let members_max = usize::from(new.spread.unwrap_or(1));
    let spec = VolumeSpec::from(new);
    let pool = now.roll.pool_of(now.me);
    let wanted =
        Wanted { size_bytes: spec.size_bytes, page_bytes: PAGE_BYTES, home: now.me, members_max };
    let told = |error: SpreadError| {
        Problem::new(of_spread_rules(&error), with_names(app, &now, &error.to_string()))
    };
    let rooms = rooms(&now.roll, pool).map_err(told)?;
    let placed = place(&wanted, &rooms).map_err(told)?;
    if placed.members.len() < 2 {
        return Err(alone(&spec, pool));
    }
    let shortage = placed.shortage.map(|shortage| with_names(app, &now, &shortage.to_string()));
    let seat = |member: MemberId| SliceId::draw().map(|slice| Seat { slice, member });
    let seats = placed.members.iter().copied().map(seat).collect::<Result<Vec<_>, _>>();
    let drawn = SpreadId::draw().and_then(|id| seats.map(|seats| (id, seats)));
    let (id, seats) = drawn.map_err(|error| {
        Problem::new(Code::Failed, format!("the system gives no random numbers: {error}"))
    })?;
    let (group, pattern) = (about.id.clone(), placed.pattern);
    // As any volume it is served at once: to nobody, until somebody is on its list.
    let plan = SpreadPlan { id, group, spec, pattern, seats, online: true };
    Ok((plan, shortage))
}

fn no_group() -> Problem {
    let sentence = "a volume is spread over members of a group, and this member is in none, or has heard nothing of it \
                    since it was started: leave the number of members out";
    Problem::new(Code::NoGroup, sentence)
}

/// Why a volume would lie on one member alone: who asks for more is not given that unasked.
fn alone(spec: &VolumeSpec, pool: &str) -> Problem {
    if spec.size_bytes < SPREAD_FROM_BYTES {
        let sentence = format!(
            "a volume of less than {} is not spread over members, as there is little to deal: make it larger, or leave the \
             number of members out",
            bytes_in_words(SPREAD_FROM_BYTES)
        );
        return Problem::new(Code::Invalid, sentence);
    }
    let sentence = format!(
        "no other member of the pool '{pool}' is present and has room for a part of the volume: try again when one has, or \
         leave the number of members out"
    );
    Problem::new(Code::NoSpace, sentence)
}

/// What the rules say, with the names of members in the place of their numbers.
pub(super) fn with_names(app: &App, now: &RollNow, sentence: &str) -> String {
    // From the highest number on: that of another one may begin like it.
    let members = now.roll.members.keys().rev();
    members.fold(sentence.to_owned(), |text, member| {
        text.replace(&member.to_string(), &name_of(app, *member))
    })
}
