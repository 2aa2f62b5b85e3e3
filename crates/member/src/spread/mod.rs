//! Volumes that lie on several members, as their home has them (docs/decisions/0052): what hosts may see of them, and the
//! disk that is made of the home's own slice and those of other members.
//!
//! ```text
//!  record: Whole, Growing, of this member in this group ──▶ a volume of its name ──▶ SpreadDisk
//!                                                                                    ├─ own slice: a hidden volume
//!                                                                                    ╰─ SliceLink of each other one
//! ```
//!
//! Numbered, for all that lies here:
//! 1. The own slice is never seen as it is: whatever has the name of a slice is for nobody, with a record or without.
//! 2. A volume has all its slices or is not served: each seat of its record is a device of its disk, in their order.
//! 3. Hosts see the size that is stored, whatever slices have.

mod disks;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::Array;
use array::api::{VolumeInfo, VolumeState};
use block::BlockDevice;
use group::membership::{GroupId, SliceId, SpreadId, folded};
use group::ownership::MemberId;
use group::spread::{SpreadRecord, SpreadStage, hidden_name, is_hidden_name};

use crate::membership::InGroup;
use crate::mutants::{self, Mutant};
use crate::settings::MemberSettings;
use crate::slices::PATIENCE;
use crate::spread_request::SliceOpeners;
use disks::HomeDisk;
use waiting::Openers;

pub(crate) use disks::DiskError;

/// The spread volumes whose home this member is, as far as hosts are concerned. Lives on the first core.
#[derive(Debug)]
pub(crate) struct Spread {
    array: Array,
    settings: Rc<MemberSettings>,
    membership: Rc<InGroup>,
    openers: Openers,
    /// The disks of those that are served, or were a moment ago.
    disks: RefCell<BTreeMap<SpreadId, HomeDisk>>,
    /// How long requests wait for a slice that is away.
    patience: RefCell<Duration>,
    /// How often it has changed which slices have seen later homes, as far as that was followed.
    told_old: Cell<u64>,
    /// Slices of volumes that would be served are being asked.
    is_asking: Cell<bool>,
    /// Since when other members can be asked: there is a way to them, and the group is known.
    asks_since: Cell<Option<Instant>>,
}

impl Spread {
    pub(crate) fn new(
        array: Array,
        settings: Rc<MemberSettings>,
        membership: Rc<InGroup>,
    ) -> Rc<Self> {
        let openers = Openers::new(&settings);
        let (disks, patience) = (RefCell::default(), RefCell::new(PATIENCE));
        let (told_old, is_asking, asks_since) = Default::default();
        Rc::new(Self {
            array,
            settings,
            membership,
            openers,
            disks,
            patience,
            told_old,
            is_asking,
            asks_since,
        })
    }

    /// Slices of other members are reached by these from now on.
    pub(crate) fn open_by(&self, openers: Arc<dyn SliceOpeners>) {
        self.openers.set(openers);
    }

    /// Who this member is in which group; `None` where it is in none, or leaves it.
    pub(crate) fn who(&self) -> Option<(GroupId, MemberId)> {
        self.membership.who()
    }

    /// Whether a record is of this member as it is now.
    pub(crate) fn is_of(&self, record: &SpreadRecord) -> bool {
        let who = self.who();
        record.is_of(who.as_ref().map(|(group, me)| (group, *me)))
            || mutants::is(Mutant::ServeForeign)
    }

    /// Whether hosts may see it.
    fn is_seen(&self, record: &SpreadRecord) -> bool {
        let is_there = match record.stage {
            SpreadStage::Whole | SpreadStage::Growing { .. } => true,
            SpreadStage::Making | SpreadStage::Going { .. } => mutants::is(Mutant::SeeMaking),
        };
        is_there && self.is_of(record)
    }

    /// The volume that hosts know by this name, whatever its stage and whoever it is of.
    pub(crate) fn named(&self, name: &str) -> Option<SpreadRecord> {
        self.settings.find_spread(|record| record.name == name)
    }

    /// Whether one has this name, or one that hosts do not tell from it.
    pub(crate) fn takes_name(&self, name: &str) -> bool {
        let name = folded(name);
        self.settings.find_spread(|record| folded(&record.name) == name).is_some()
    }

    /// Whether the one of this name is being deleted.
    pub(crate) fn is_going(&self, name: &str) -> bool {
        let is_going = |record: &SpreadRecord| matches!(record.stage, SpreadStage::Going { .. });
        let name = folded(name);
        let find = |record: &SpreadRecord| folded(&record.name) == name && is_going(record);
        self.settings.find_spread(find).is_some()
    }

    /// What gives their names for as long as the member runs: for whom it knows in turn.
    pub(crate) fn names_later(self: &Rc<Self>) -> impl Fn() -> Vec<String> + use<> {
        let spread = Rc::downgrade(self);
        move || spread.upgrade().map(|spread| spread.names()).unwrap_or_default()
    }

    /// The names that the group has promised to this member for them.
    fn names(&self) -> Vec<String> {
        let all = self.settings.spreads().into_iter();
        all.filter(|record| self.is_of(record)).map(|record| record.name).collect()
    }

    /// The volume that hosts may see whose slice of this member has this name on the array.
    fn seen_by(&self, on_array: &str) -> Option<SpreadRecord> {
        let record = self.settings.spread(&id_of(on_array)?)?;
        self.is_seen(&record).then_some(record)
    }

    /// A volume of the array as hosts see it: what is a slice is seen as the volume that it is one of, or not at all.
    pub(crate) fn as_seen(&self, volume: VolumeInfo) -> Option<VolumeInfo> {
        if !is_hidden_name(&volume.name) || mutants::is(Mutant::SliceAsVolume) {
            return Some(volume);
        }
        let record = self.seen_by(&volume.name)?;
        let is_there = volume.state != VolumeState::Deleted;
        let seen = VolumeInfo { name: record.name, size_bytes: record.size_bytes, ..volume };
        is_there.then_some(seen)
    }

    /// The volume that hosts may see by this name.
    pub(crate) fn volume(&self, name: &str) -> Option<VolumeInfo> {
        let record = self.named(name).filter(|record| self.is_seen(record))?;
        self.as_seen(self.array.volume(&hidden_name(&record.id)).ok()?)
    }

    /// The name that a volume has on the array which hosts know by this one.
    pub(crate) fn on_array(&self, name: &str) -> String {
        match self.named(name) {
            Some(record) if self.array.volume(name).is_err() => hidden_name(&record.id),
            _ => name.to_owned(),
        }
    }

    /// The volume of this name, if it is one that hosts may see and lies on several members.
    pub(crate) fn seen_id(&self, name: &str) -> Option<SpreadId> {
        let record = self.named(name).filter(|record| self.is_seen(record))?;
        self.array.volume(name).is_err().then_some(record.id)
    }

    /// Why a volume is not served although it is there: one of its slices has seen a later home than this.
    pub(crate) fn why_old(&self, id: &SpreadId) -> Option<String> {
        self.openers.why_old(id).filter(|_| !mutants::is(Mutant::ServeOldHome))
    }

    /// The slices of a volume that have said that they have seen a later home than this.
    pub(crate) fn objectors(&self, id: &SpreadId) -> Vec<SliceId> {
        self.openers.objectors(id)
    }

    /// A volume whose slices have seen a later home than this has that asked again: what is stored knows of it now.
    pub(crate) fn is_right(&self, id: &SpreadId) {
        self.openers.forget_old(id);
        if let Some(disk) = self.disks.borrow().get(id) {
            disk.ask_again();
        }
    }

    /// The disk of a volume for hosts; `None` until its slices have been asked whether this home is what it was.
    ///
    /// # Errors
    /// As with [`device`](Self::device).
    pub(crate) fn for_hosts(
        &self,
        id: &SpreadId,
    ) -> Result<Option<Arc<dyn BlockDevice>>, DiskError> {
        let since = self.asks_since();
        let device = self.device(id)?;
        let has_asked = self.disks.borrow().get(id).is_some_and(|disk| disk.has_asked(since));
        self.is_asking.set(self.is_asking.get() || !has_asked);
        Ok(has_asked.then_some(device))
    }

    /// Since when other members can be asked, as far as that was looked at. It goes on where the group is not known for a
    /// while later: who was asked once has heard.
    fn asks_since(&self) -> Option<Instant> {
        let can_ask = || self.openers.is_given() && self.membership.roll_now().is_ok();
        if self.asks_since.get().is_none() && can_ask() {
            self.asks_since.set(Some(ring::now()));
        }
        self.asks_since.get()
    }

    /// Whether hosts were kept out of a volume until its slices have been asked, since this was asked last.
    pub(crate) fn takes_asking(&self) -> bool {
        // Members have time to answer from when they can be asked, and not from when that is looked at next.
        self.asks_since();
        self.is_asking.take()
    }

    /// Whether any of that has changed since this was asked last.
    pub(crate) fn takes_old(&self) -> bool {
        let changes = self.openers.old_changes();
        self.told_old.replace(changes) != changes
    }

    /// The disk of a volume, which is made if there is none yet.
    ///
    /// # Errors
    /// Hosts may not see it, or its slices make no disk.
    pub(crate) fn device(&self, id: &SpreadId) -> Result<Arc<dyn BlockDevice>, DiskError> {
        if let Some(why) = self.why_old(id) {
            return Err(DiskError::OldHome(why));
        }
        let record = self.settings.spread(id).filter(|record| self.is_seen(record));
        let record = record.ok_or(DiskError::NotThere)?;
        if let Some(disk) = self.disks.borrow().get(id) {
            return Ok(disk.device());
        }
        let how = (&self.openers, *self.patience.borrow());
        let disk = HomeDisk::open(&self.array, &record, how)?;
        let device = disk.device();
        self.disks.borrow_mut().insert(id.clone(), disk);
        Ok(device)
    }

    /// A volume has the size that is stored from now on, if it is served.
    ///
    /// # Errors
    /// Its slices do not have it.
    pub(crate) fn resize(&self, record: &SpreadRecord) -> Result<(), DiskError> {
        match self.disks.borrow().get(&record.id) {
            Some(disk) => disk.grow(record.size_bytes),
            None => Ok(()),
        }
    }

    /// Ends the links of volumes that hosts may not see any more. Nobody may use their disks.
    pub(crate) fn let_go(&self) {
        let is_seen =
            |id: &SpreadId| self.settings.spread(id).is_some_and(|record| self.is_seen(&record));
        self.disks.borrow_mut().retain(|id, _| is_seen(id));
    }

    /// For how long each slice of a volume cannot be reached, and why, by number; the own one always can.
    pub(crate) fn troubles(&self, id: &SpreadId) -> Vec<Option<(Duration, String)>> {
        self.disks.borrow().get(id).map(HomeDisk::troubles).unwrap_or_default()
    }

    /// Requests wait for so long for a slice that is away, of disks that are made from now on.
    #[cfg(test)]
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.patience.replace(patience);
    }
}

/// The spread volume of which a volume of the array is a slice, by its name.
pub(crate) fn id_of(on_array: &str) -> Option<SpreadId> {
    let all = on_array.strip_prefix('.').filter(|_| is_hidden_name(on_array))?;
    all.split_once('-')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_tells_of_which_volume_it_is() {
        let id: SpreadId = "5".repeat(32).parse().expect("an identity");
        assert_eq!(id_of(&hidden_name(&id)), Some(id));
        assert_eq!(id_of("vm-5"), None);
        assert_eq!(id_of(".slice-5"), None);
    }
}
