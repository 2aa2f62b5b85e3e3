//! What is said of volumes that lie on several members: of what cannot be reached, and of what is left over.

use api::types::{Slice, SliceState, Volume, VolumeSlice};

use crate::print::units;

/// Seconds after which it is not a member that restarts.
const LONG_SECONDS: u64 = 30;

/// A sentence for each part of a volume that cannot be reached for long.
pub(crate) fn unreachable(volume: &Volume) -> Vec<String> {
    let slices = volume.spread.iter().flat_map(|spread| &spread.slices);
    let away = slices.filter_map(|slice| {
        let VolumeSlice { member, unreachable_seconds, why, .. } = slice;
        let seconds = unreachable_seconds.filter(|seconds| *seconds >= LONG_SECONDS)?;
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        Some(format!(
            "the part of volume {} on member {member} cannot be reached since {} ago{why}; hosts have an error for what lies \
             there: start that member, or see whether this one reaches it",
            volume.name,
            units::count(usize::try_from(seconds).unwrap_or(usize::MAX), "second")
        ))
    });
    away.collect()
}

/// A part of a volume that stays until an operator decides, and what can be done about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// What is not well.
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: String,
}

impl Left {
    /// `None` of one that goes on by itself.
    pub(crate) fn of(slice: &Slice) -> Option<Self> {
        let Slice { id, volume, on, state, why, .. } = slice;
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let found = match state {
            SliceState::LeftOver => format!("a part of volume {volume} is left over here{why}"),
            SliceState::NotServed => {
                let found = format!("the part of volume {volume} that is here is not served{why}");
                let advice = "see 'drystone disk list' and 'drystone events'".to_owned();
                return Some(Self { found, advice });
            }
            SliceState::Awaited if slice.is_in_vain => {
                format!("a part of the deleted volume {volume} is awaited of {on} in vain{why}")
            }
            SliceState::Damaged => {
                format!("what is stored here of a part of a spread volume is damaged{why}")
            }
            SliceState::Served | SliceState::Going | SliceState::Awaited => return None,
        };
        let advice = format!(
            "if nobody needs it, 'drystone volume discard-slice {}' ends that",
            id.chars().take(8).collect::<String>()
        );
        Some(Self { found, advice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_by_itself_is_not_told_of() {
        let slice = |state, is_in_vain| Slice {
            id: "0123456789abcdef".repeat(2),
            volume: "big".to_owned(),
            home: "left".to_owned(),
            on: "right".to_owned(),
            state,
            is_in_vain,
            why: Some("it is so".to_owned()),
            used_bytes: None,
            member: None,
        };
        for state in [SliceState::Served, SliceState::Going, SliceState::Awaited] {
            assert_eq!(Left::of(&slice(state, false)), None, "{state:?}");
        }
        let told = [
            (SliceState::LeftOver, false),
            (SliceState::Awaited, true),
            (SliceState::Damaged, false),
        ];
        for (state, in_vain) in told {
            let left = Left::of(&slice(state, in_vain)).expect("somebody has to decide");
            assert!(left.found.ends_with(": it is so"), "{}", left.found);
            assert!(left.advice.contains("discard-slice 01234567'"), "{}", left.advice);
        }
        let not_served = Left::of(&slice(SliceState::NotServed, false)).expect("it is told of");
        assert!(!not_served.advice.contains("discard"), "{}", not_served.advice);
    }
}
