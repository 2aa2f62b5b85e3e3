//! What can be asked of a member about snapshots of one moment that it takes with other members of its group.
//!
//! One member drives such a set, the coordinator; those that have volumes of it are its participants.

use std::collections::BTreeSet;

use group::membership::{GroupId, SetId, Verdict};
use group::ownership::MemberId;
use serde::{Deserialize, Serialize};

/// About sets of snapshots. What each is answered with stands behind the arrow, nothing where there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum SetRequest {
    /// To the coordinator, and then to each participant: take part, whatever ends meanwhile, and leave the names of the
    /// snapshots to it.
    Prepare { plan: SetPlan },
    /// To a participant, when all are prepared: hold back what hosts write, for two seconds at most.
    Hold { id: SetId },
    /// To a participant, when all hold: take the snapshots → [`super::reply::Snapshot`]s.
    Take { id: SetId },
    /// To a participant, when the set will not be whole: let hosts write on.
    Release { id: SetId },
    /// To the coordinator: have the store of the group decide → the [`Verdict`] that counts.
    Decide { id: SetId, verdict: Verdict },
    /// Do what was decided, as far as it is; void is decided where nobody has been heard of for long. With `is_told`
    /// somebody hears from whoever asks what became of it → whether that is done.
    Settle { id: SetId, is_told: bool },
    /// What is stored of sets → [`group::settings::SetIntent`]s.
    List,
    /// Take away what the store of the group has of sets that this member knows nothing of, as far as it may.
    Sweep,
}

impl SetRequest {
    /// The volumes that it names, as its member has them.
    pub(crate) fn volumes(&self) -> Vec<&str> {
        match self {
            Self::Prepare { plan } => plan.volumes.iter().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

/// Snapshots of one moment, as a member is to take part in them. Later versions may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPlan {
    /// The set.
    pub id: SetId,
    /// The group whose members take it.
    pub group: GroupId,
    /// The member that drives it.
    pub coordinator: MemberId,
    /// The members that have volumes of it.
    pub participants: BTreeSet<MemberId>,
    /// Those of the member that is asked: none where it only drives the set.
    pub volumes: Vec<String>,
    /// The name of all snapshots.
    pub name: String,
}
