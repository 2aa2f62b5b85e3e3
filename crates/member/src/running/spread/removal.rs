//! A member that is to go from its group, although volumes lie on it that lie on other members too.

use std::collections::BTreeSet;

use group::membership::{ListedSpread, Roll};
use group::ownership::MemberId;
use group::spread::{InTheWay, SliceStage, SpreadStage};

use super::super::{Member, RequestError, SpreadRefusal};
use crate::group_request::GroupRequest;
use crate::mutants::{self, Mutant};

impl Member {
    /// Refuses to have a member go whose slices are needed. What others have is known as they have told it.
    pub(in crate::running) async fn check_no_slices(
        &self,
        request: &GroupRequest,
    ) -> Result<(), RequestError> {
        let Some((group, me)) = self.serving.spread().who() else { return Ok(()) };
        let found = match request {
            GroupRequest::Delete => Some((me, self.settings.in_the_way(me, &group))),
            GroupRequest::Remove { member, despite_spreads: false, .. } => {
                let roll = self.membership.roll_read().await?;
                roll.find(member).map(|(member, _)| {
                    let own = self.settings.in_the_way(member, &group);
                    (member, own.and(listed(&roll, member)))
                })
            }
            _ => None,
        };
        match found {
            Some((member, found))
                if !found.is_nothing() && !mutants::is(Mutant::RemoveWithSlices) =>
            {
                let member = self.member_name(member);
                Err(SpreadRefusal::InTheWay { member, found }.into())
            }
            _ => Ok(()),
        }
    }

    /// The spread volumes that this member has something of, for the others.
    pub(in crate::running) fn spreads_in_hand(&self) -> Vec<ListedSpread> {
        let Some((group, _)) = self.serving.spread().who() else { return Vec::new() };
        let spreads = self.settings.spreads().into_iter().filter(|record| record.group == group);
        // What goes is in nobody's way.
        let spreads = spreads.filter(|record| !matches!(record.stage, SpreadStage::Going { .. }));
        let spreads = spreads.map(|record| ListedSpread {
            home: record.home(),
            members: record.seats.iter().map(|seat| seat.member).collect(),
            volume: record.name,
        });
        let slices = self.settings.slices().into_iter().filter(|record| record.group == group);
        let slices = slices.filter(|record| record.stage != SliceStage::Going);
        let slices = slices.map(|record| ListedSpread {
            home: record.home,
            members: BTreeSet::from([record.home, record.me]),
            volume: record.name,
        });
        spreads.chain(slices).collect()
    }
}

/// What all members have told of spread volumes of a member.
fn listed(roll: &Roll, member: MemberId) -> InTheWay {
    let mut found = InTheWay::default();
    for spread in roll.inventories.values().flat_map(|inventory| &inventory.spreads) {
        if spread.home == member {
            found.home_of.insert(spread.volume.clone());
        } else if spread.members.contains(&member) {
            found.slice_of.insert(spread.volume.clone());
        }
    }
    found
}
