//! Slices of which nothing is stored, as what was stored was lost or given up: they stay, are for nobody, and go by an
//! operator's word alone.

use group::spread::is_hidden_name;

use super::super::{Member, RequestError, SpreadRefusal};
use crate::events::{Event, Kind, ObjectKind};
use crate::mutants::{self, Mutant};

impl Member {
    /// Whether a volume of the array is a slice of which nothing is stored. While something does not read it may be of that.
    pub(in crate::running) fn is_stray_slice(&self, name: &str) -> bool {
        let is_stored = || {
            let of_home =
                self.settings.find_spread(|record| group::spread::hidden_name(&record.id) == name);
            of_home.is_some() || self.settings.slices().iter().any(|it| it.volume == name)
        };
        let is_slice = is_hidden_name(name) && self.array.volume(name).is_ok();
        let is_known = || self.settings.unknown_spreads().is_none();
        is_slice && is_known() && (!is_stored() || mutants::is(Mutant::PurgeStored))
    }

    /// Deletes one, by an operator's word.
    pub(in crate::running) async fn purge_stray(&self, name: &str) -> Result<(), RequestError> {
        let _changing = self.spreads.changing.take().await;
        if !self.is_stray_slice(name) {
            return Err(SpreadRefusal::NoSuchSlice.into());
        }
        self.delete_slice_volume(name).await
    }

    /// Tells of those that there are, and of what does not read, once in the life of the member.
    pub(super) fn tell_of_strays(&self) {
        if self.spreads.told_strays.replace(true) {
            return;
        }
        if let Some(why) = self.settings.unknown_spreads() {
            let text =
                format!("what is stored of spread volumes does not read, and is not served: {why}");
            self.events.tell(Event::of_member(Kind::VolumeNotServed, text));
        }
        for volume in self.array.volumes() {
            if self.is_stray_slice(&volume.name) {
                let name = &volume.name;
                let text = format!(
                    "'{name}' is what this member has of a spread volume of which nothing is stored here any more: \
                     nobody is served it. See 'drystone volume slices': where other members have parts of that volume, \
                     'drystone volume rebuild' makes it anew, and needs this one. If nobody needs it, purge it by that name"
                );
                self.events.tell(Event::about(
                    Kind::VolumeNotServed,
                    ObjectKind::Volume,
                    name,
                    text,
                ));
            }
        }
    }
}
