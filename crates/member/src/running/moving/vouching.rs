//! What a member says to the other side of a move, by which that one deletes its own copy: that it has the volume itself.
//!
//! It is of the moment at which it is said, and of what lies here then: what it has told the others of its volumes, and
//! what it remembers of moves, may be of before its array lost what it had. So nobody is told by these alone that a
//! copy may go.

use array::api::{VolumeInfo, VolumeState};
use group::handover::SourceSays;
use group::membership::MoveId;
use group::settings::Stage;

use super::super::{Member, RequestError};
use crate::mutants::{self, Mutant};
use crate::settings::hidden::is_hidden_name;

impl Member {
    /// How the move stands, for its destination, which says by which serial number hosts know the volume. While
    /// departures cannot be read nothing is said.
    ///
    /// The destination deletes its copy by that alone. A move that was given up in this life left there what is of before
    /// that, also when the volume moves elsewhere by now; as long as there is a volume.
    pub(super) fn source_says(
        &self,
        id: &MoveId,
        serial: Option<&str>,
    ) -> Result<SourceSays, RequestError> {
        if self.moving.source(id).is_ok() {
            return Ok(SourceSays::UnderWay);
        }
        match self.departure_of(id)?.map(|departure| departure.stage) {
            Some(Stage::Leaving) => return Ok(SourceSays::UnderWay),
            Some(Stage::Gone) => return Ok(SourceSays::HandedOver),
            None => {}
        }
        // Members of earlier versions do not say which volume is meant.
        let of_move = self.moving.given_up(id);
        let of_move = of_move.filter(|its| serial.is_none_or(|asked| asked == its));
        let is_remembered =
            of_move.is_some_and(|its| self.has_whole(&its) || mutants::is(Mutant::GiveUpLost));
        Ok(match is_remembered || serial.is_some_and(|serial| self.keeps(serial)) {
            true => SourceSays::GivenUp,
            false => SourceSays::Unknown,
        })
    }

    /// Whether the volume of this serial number is here, with its data, and neither about to leave nor still to come.
    fn keeps(&self, serial: &str) -> bool {
        let all = self.named(serial).into_iter();
        all.filter(is_whole).any(|volume| !self.is_moving(volume.id))
    }

    /// The same, for the source of a move. One in the recycle bin was deleted here by its operators, and has come for that.
    pub(super) fn has_adopted(&self, serial: &str) -> bool {
        let has_data = |it: &VolumeInfo| self.array.lacks_data(&it.name).is_ok_and(|lacks| !lacks);
        let is_binned = |it: &VolumeInfo| it.state == VolumeState::Deleted && has_data(it);
        let mut all = self.named(serial).into_iter();
        self.keeps(serial) || all.any(|it| is_binned(&it) && !self.is_moving(it.id))
    }

    /// Whether it is here with its data, be it about to leave.
    fn has_whole(&self, serial: &str) -> bool {
        self.named(serial).iter().any(is_whole)
    }

    /// The volumes that hosts know by this serial number, but for what has come and has not its name.
    fn named(&self, serial: &str) -> Vec<VolumeInfo> {
        let names = self.serving.names();
        let is_named = |name: &str| !is_hidden_name(name) || mutants::is(Mutant::VouchHidden);
        let mut all = self.array.volumes();
        all.retain(|it| is_named(&it.name) && names.volume_serial(it) == serial);
        all
    }

    /// Whether a volume moves, or it does not read whether it does.
    fn is_moving(&self, volume: u32) -> bool {
        let moves = self.withholds(volume) || self.moving.source_of(volume).is_some();
        moves && !mutants::is(Mutant::VouchLeaving)
    }
}

/// Whether its data are there, and hosts may have them.
fn is_whole(volume: &VolumeInfo) -> bool {
    match volume.state {
        VolumeState::Online | VolumeState::Degraded | VolumeState::Offline => true,
        VolumeState::Lost => mutants::is(Mutant::VouchLost),
        VolumeState::Deleted => false,
    }
}
