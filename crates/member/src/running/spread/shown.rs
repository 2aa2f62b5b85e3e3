//! What operators see of spread volumes and slices.

use std::time::Duration;

use array::api::VolumeState;
use group::spread::{SliceFate as Decided, SliceRecord, SliceStage, SpreadRecord};

use super::super::{Member, RequestError};
use crate::reply::Answer;
use crate::spread_request::{SeatShown, SliceFate, SliceShown, SpreadShown};

impl Member {
    /// The spread volumes whose home this member is. What does not read is told of at its start.
    pub(super) fn list_spreads(&self) -> Result<Vec<SpreadShown>, RequestError> {
        // Of what reads, although there is more: nothing is decided by it.
        self.settings.state()?;
        let all = self.settings.spreads().into_iter();
        Ok(all.map(|record| self.spread_as_shown(record)).collect())
    }

    /// One of them.
    pub(super) fn shown_spread(&self, record: SpreadRecord) -> Result<Answer, RequestError> {
        Ok(Answer::Spread(Box::new(self.spread_as_shown(record))))
    }

    fn spread_as_shown(&self, record: SpreadRecord) -> SpreadShown {
        let spread = self.serving.spread();
        let troubles = spread.troubles(&record.id);
        let pages = record.size_bytes.div_ceil(record.page_bytes);
        let in_words = |(time, why): (Duration, String)| (time.as_secs(), why);
        let slices = (0_u8..).zip(&record.seats).map(|(number, seat)| SeatShown {
            seat: seat.clone(),
            pages: record.pattern.pages_of(number, pages),
            trouble: troubles.get(usize::from(number)).cloned().flatten().map(in_words),
        });
        SpreadShown { is_of: spread.is_of(&record), slices: slices.collect(), record }
    }

    /// The slices of volumes of other homes that this member has.
    pub(super) fn list_slices(&self) -> Result<Vec<SliceShown>, RequestError> {
        self.settings.state()?;
        let served = self.spreads.portal.slices().map(|slices| slices.list()).unwrap_or_default();
        let shown = |record: SliceRecord| {
            let volume = self.array.volume(&record.volume).ok();
            let is_served = served.iter().any(|(id, _)| *id == record.id);
            let fate = match (record.stage, self.fate_of(&record)) {
                (SliceStage::Going, _) | (_, Decided::Go) => SliceFate::Going,
                (_, Decided::Keep) => SliceFate::Kept,
                (_, Decided::LeftOver(why)) => SliceFate::LeftOver(why.to_string()),
            };
            let not_served = match &volume {
                Some(volume) if volume.state == VolumeState::Lost => Some(volume.reason.clone()),
                _ if is_served => None,
                _ => self.spreads.faults.borrow().get(&record.id).cloned(),
            };
            let used_bytes = volume.map_or(0, |volume| volume.used_bytes);
            SliceShown { record, fate, used_bytes, not_served }
        };
        Ok(self.settings.slices().into_iter().map(shown).collect())
    }
}
