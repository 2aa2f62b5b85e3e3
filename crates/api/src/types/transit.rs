//! Volumes that are between two members of a group, and what an operator says of those that no group decides about.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::same_words;

/// Which way a volume goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransitWay {
    /// To another member.
    Leaves,
    /// From another member.
    Arrives,
}

same_words!(TransitWay, member::Way: Leaves, Arrives);

/// How a transit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TransitState {
    /// It is being done.
    UnderWay,
    /// It goes on by itself when the store of the group or the other member answers.
    Waits,
    /// No group decides about it any more: an operator settles it, and nobody else.
    Undecided,
}

same_words!(TransitState, member::TransitState: UnderWay, Waits, Undecided);

impl TransitState {
    /// How it is written.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::UnderWay => "under way",
            Self::Waits => "waits",
            Self::Undecided => "undecided",
        }
    }
}

/// What a member has stored of a volume that moves. Until it is done the member serves that volume to nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transit {
    /// The number of the move, which is the same at both members.
    pub id: String,
    /// The volume.
    pub volume: String,
    /// Which way it goes.
    pub way: TransitWay,
    /// The member that it goes to or comes from: its name, or its number where that is all that is known.
    pub other: String,
    /// How it stands.
    pub state: TransitState,
    /// Why it waits, or why no group decides about it; null where nothing is to be said.
    pub why: Option<String>,
    /// The member of the group that has this; not there where that is in none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub member: Option<String>,
}

impl From<member::Transit> for Transit {
    fn from(transit: member::Transit) -> Self {
        let member::Transit { id, name, way, other, state, why } = transit;
        Self {
            id: id.to_string(),
            volume: name,
            way: way.into(),
            other,
            state: state.into(),
            why,
            member: None,
        }
    }
}

/// What an operator decides about a transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// The volume is this member's from now on; else what this member has of it is deleted for good.
    pub keep: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transit_reads_as_it_was_written_and_names_a_member_only_in_a_group() {
        let alone = member::Transit {
            id: "0".repeat(32).parse().unwrap(),
            name: "vm".to_owned(),
            way: member::Way::Arrives,
            other: "left".to_owned(),
            state: member::TransitState::UnderWay,
            why: None,
        };
        let alone = Transit::from(alone);
        let json = serde_json::to_value(&alone).unwrap();
        let told = serde_json::json!({
            "id": "0".repeat(32), "volume": "vm", "way": "arrives", "other": "left",
            "state": "under-way", "why": null,
        });
        assert_eq!(json, told);
        let listed = Transit { member: Some("right".to_owned()), ..alone };
        let json = serde_json::to_value(&listed).unwrap();
        assert_eq!(json["member"], "right");
        assert_eq!(serde_json::from_value::<Transit>(json).unwrap(), listed);
    }

    #[test]
    fn nothing_is_settled_by_a_body_that_does_not_say_how() {
        let read = |text: &str| serde_json::from_str::<Settlement>(text);
        assert!(read(r#"{"keep": true}"#).unwrap().keep);
        let both = r#"{"keep": true, "discard": true}"#;
        for unread in ["{}", r#"{"keep": null}"#, r#"{"keep": "yes"}"#, both] {
            assert!(read(unread).is_err(), "{unread}");
        }
    }
}
