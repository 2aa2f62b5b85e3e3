//! What becomes of a set: it is done here what the store of the group says.

use array::api::{VolumeInfo, VolumeState};
use group::membership::{Roll, SetId, Verdict};
use group::sets::{SetStep, next_step, record};
use group::settings::{SetIntent, SetStage};
use ring::wait::join_all;

use super::super::{Member, RequestError};
use crate::events::{Event, Kind};
use crate::mutants::{self, Mutant};

/// Steps from an undecided set to one that is forgotten, and one more where others are faster.
const STEPS_MAX: usize = 5;

impl Member {
    /// Does what was decided about a set, and says whether that is done. One that nobody drives any more is decided here.
    pub(super) async fn settle_set(&self, id: &SetId, is_told: bool) -> Result<bool, RequestError> {
        // One after the other: who comes late would decide anew what all others have settled.
        let _its_turn = self.sets.settling.take().await;
        for _ in 0..STEPS_MAX {
            let Some(intent) = self.settings.set(id) else {
                let is_done = self.settings.has_forgotten_set(id);
                if is_done {
                    self.sets.end(id);
                }
                return Ok(is_done);
            };
            match self.next_of(&intent).await? {
                SetStep::Wait => return Ok(false),
                SetStep::DecideVoid => {
                    let void = record(&intent, Verdict::Void);
                    self.membership.decide_set(&intent.group, id, &void).await?;
                }
                SetStep::Keep => self.note_settled(id, false).await?,
                SetStep::Delete => {
                    self.note_settled(id, true).await?;
                    if !is_told && self.is_to_tell(&intent) {
                        self.tell_void(&intent);
                    }
                }
                SetStep::Leave => {
                    self.membership.leave_set(&intent.group, id).await?;
                    self.settings.forget_set(id).await?;
                }
                SetStep::Forget => self.settings.forget_set(id).await?,
                SetStep::KeepUndecided => {
                    self.note_settled(id, false).await?;
                    self.tell_undecidable(&intent);
                }
            }
        }
        Ok(false)
    }

    async fn next_of(&self, intent: &SetIntent) -> Result<SetStep, RequestError> {
        let group = self.membership.group_id()?;
        let seat = match &group {
            Some(group) => Some((group, self.membership.me()?)),
            None => None,
        };
        let is_seated = seat == Some((&intent.group, intent.me));
        let record = match intent.stage == SetStage::Undecided && is_seated {
            true => self.membership.set_record(&intent.group, &intent.id).await?,
            false => None,
        };
        Ok(next_step(intent, seat, record.as_ref(), self.sets.is_due(&intent.id)))
    }

    /// Stores that a set is settled, and deletes its snapshots before that if it is void.
    async fn note_settled(&self, id: &SetId, is_void: bool) -> Result<(), RequestError> {
        let stale = mutants::is(Mutant::SettleStale).then(|| self.undecided(id)).transpose()?;
        // Behind snapshots that are being taken for it.
        let _alone = match mutants::is(Mutant::SettleMeanwhile) {
            true => None,
            false => Some(self.taking.take().await),
        };
        let _turn = self.turn.take().await;
        drop(self.sets.release(id));
        // What is settled has given the names of its snapshots back, also to snapshots of others, and so have the volumes
        // that it was narrowed by.
        let known = self.undecided(id)?;
        let intent = stale.unwrap_or(known);
        if is_void {
            self.delete_or_narrow(&intent).await?;
        }
        Ok(self.settings.note_set_settled(id).await?)
    }

    /// Deletes what was taken for a set that is void. Where that cannot be done of some volumes, it is tried again later of
    /// those, and the others are free: that the set is void stays in the store until this member has settled it.
    async fn delete_or_narrow(&self, intent: &SetIntent) -> Result<(), RequestError> {
        let mut left = Vec::new();
        let deleted = self.delete_set(intent, &mut left).await;
        if mutants::is(Mutant::ForgetLeft) {
            left.clear();
        }
        if deleted.is_err() && left.len() < intent.volumes.len() {
            self.settings.narrow_set(&intent.id, left).await?;
        }
        deleted
    }

    /// Deletes what was taken for a set, of all volumes at once, as each waits for a checkpoint. Nobody else can have made a
    /// snapshot of that name since it was prepared. Where one cannot be deleted the others are, and the number of its
    /// volume is in `left`.
    ///
    /// # Errors
    /// Why the first one cannot.
    async fn delete_set(
        &self,
        intent: &SetIntent,
        left: &mut Vec<u32>,
    ) -> Result<(), RequestError> {
        let volumes = self.volumes().into_iter();
        let volumes: Vec<_> =
            volumes.filter(|volume| intent.volumes.contains(&volume.id)).collect();
        let deleting = volumes.iter().map(|volume| self.delete_of_set(volume, &intent.name));
        let ends: Vec<Result<(), RequestError>> = join_all(deleting).await;
        let mut failed = volumes
            .iter()
            .zip(ends)
            .filter_map(|(volume, end)| end.err().map(|error| (volume.id, error)));
        let Some((first, why)) = failed.next() else { return Ok(()) };
        left.push(first);
        left.extend(failed.map(|(volume, _)| volume));
        Err(why)
    }

    async fn delete_of_set(&self, volume: &VolumeInfo, name: &str) -> Result<(), RequestError> {
        if volume.state == VolumeState::Deleted {
            // Its disks were lost, and it may come out of there again.
            return Err(RequestError::InRecycleBin(volume.name.clone()));
        }
        let all = self.array.snapshots(&volume.name)?.into_iter();
        for snapshot in all.filter(|it| it.name == name && !it.deleting) {
            self.array.delete_snapshot(&volume.name, &snapshot.name).await?;
        }
        Ok(())
    }

    /// Whether nobody else tells that a set is void. The coordinator tells whoever has asked it, or by an event of its
    /// own; of one that is away, or is no member any more, nothing is heard.
    fn is_to_tell(&self, intent: &SetIntent) -> bool {
        let is_there = |roll: Roll| roll.is_present(intent.coordinator);
        intent.coordinator == intent.me || !self.membership.roll_now().is_ok_and(is_there)
    }

    fn tell_void(&self, intent: &SetIntent) {
        let text = format!(
            "the snapshots '{}' of volumes of several members were not taken: what was taken of them is deleted, as a \
             member or the store of the group was not heard of for too long",
            intent.name
        );
        self.tell_of_set(text);
    }

    fn tell_undecidable(&self, intent: &SetIntent) {
        let text = format!(
            "it was never decided whether the snapshots '{}' of volumes of several members are complete, as this member has \
             left the group in which they were taken: those that are here stay",
            intent.name
        );
        self.tell_of_set(text);
    }

    fn tell_of_set(&self, text: String) {
        self.events.tell(Event::of_member(Kind::SnapshotsNotWhole, text));
    }

    /// Takes away what the store has of sets that this member knows nothing of.
    pub(super) async fn sweep_sets(&self) -> Result<(), RequestError> {
        // While they cannot be read it is not known of which it knows.
        self.settings.state()?;
        let Some(group) = self.membership.group_id()? else { return Ok(()) };
        for id in self.membership.sets_left(&group).await? {
            if !self.settings.knows_set(&id) {
                self.membership.leave_set(&group, &id).await?;
            }
        }
        Ok(())
    }
}
