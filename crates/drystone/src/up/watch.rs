//! What happens by itself: events of the array go to the log, volumes whose disks are lost are not
//! served until they are back, hosts are warned when space runs short.

use super::member::Member;
use array::api::VolumeState;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// How often the array is looked at. One that is asked answers from memory.
const PAUSE: Duration = Duration::from_secs(1);

/// Hosts are warned when this much of the space is in use.
const SPACE_PERCENT: u64 = 80;

/// Looks for as long as the core runs.
pub(crate) async fn run(member: Rc<Member>) {
    let (_, mut next_event) = member.array().events(u64::MAX);
    let mut states = states_of(&member);
    let mut warned = BTreeSet::new();
    let mut was_short = false;
    loop {
        ring::sleep(PAUSE).await;
        let (events, next) = member.array().events(next_event);
        next_event = next;
        for event in events {
            tracing::warn!("{}", event.text);
        }
        let now = states_of(&member);
        if now != states {
            states = now;
            member.settle().await;
        }
        let info = member.array().info();
        let is_short = info.used_bytes * 100 >= info.size_bytes * SPACE_PERCENT;
        if is_short && !was_short {
            member.serving().targets().warn_of_space();
        }
        was_short = is_short;
        let warnings: BTreeSet<String> = info.warnings.into_iter().collect();
        for warning in warnings.difference(&warned) {
            tracing::warn!("{warning}");
        }
        warned = warnings;
    }
}

fn states_of(member: &Member) -> Vec<(u32, VolumeState)> {
    member.array().volumes().into_iter().map(|volume| (volume.id, volume.state)).collect()
}
