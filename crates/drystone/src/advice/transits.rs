//! What is said of volumes whose moves no group decides about any more.

use api::types::{Transit, TransitState, TransitWay};

/// Such a volume, and what an operator can do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undecided {
    /// What is not well.
    pub(crate) found: String,
    /// What to do.
    pub(crate) advice: String,
}

impl Undecided {
    /// `None` of one that goes on by itself.
    pub(crate) fn of(transit: &Transit) -> Option<Self> {
        let Transit { volume, way, other, state, why, member, .. } = transit;
        if *state != TransitState::Undecided {
            return None;
        }
        let goes = match way {
            TransitWay::Leaves => format!("was to leave for {other}"),
            TransitWay::Arrives => format!("has come from {other}"),
        };
        let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let found = format!(
            "volume '{volume}' {goes} and is served to nobody here, and no group decides about its move any more{why}"
        );
        let on = member.as_ref().map_or_else(String::new, |member| format!(" --on {member}"));
        let advice = format!(
            "look whether another member serves it, then have this copy served with 'drystone volume settle {volume} \
             --keep{on}', or deleted for good with 'drystone volume settle {volume} --discard{on}'"
        );
        Some(Self { found, advice })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_operator_has_to_settle_is_told_with_the_commands() {
        let mut transit = Transit {
            id: "0".repeat(32),
            volume: "vm".to_owned(),
            way: TransitWay::Leaves,
            other: "right".to_owned(),
            state: TransitState::Undecided,
            why: Some("it is so".to_owned()),
            member: Some("left".to_owned()),
        };
        let told = Undecided::of(&transit).unwrap();
        assert!(told.found.starts_with("volume 'vm' was to leave for right and "), "{told:?}");
        assert!(told.found.ends_with("about its move any more: it is so"), "{told:?}");
        for command in ["settle vm --keep --on left'", "settle vm --discard --on left'"] {
            assert!(told.advice.contains(command), "{told:?}");
        }
        (transit.way, transit.why, transit.member) = (TransitWay::Arrives, None, None);
        let told = Undecided::of(&transit).unwrap();
        assert!(told.found.starts_with("volume 'vm' has come from right and "), "{told:?}");
        assert!(told.found.ends_with("any more"), "{told:?}");
        assert!(told.advice.ends_with("settle vm --discard'"), "{told:?}");
        for state in [TransitState::UnderWay, TransitState::Waits] {
            assert_eq!(Undecided::of(&Transit { state, ..transit.clone() }), None, "{state:?}");
        }
    }
}
