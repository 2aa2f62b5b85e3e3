//! What lies in places: as reads have it, and beneath what the journal is about to put there.

use super::{Known, State, Stripe};
use crate::mutants::{self, Mutant};
use crate::overlay::Base;
use crate::tree::Missing;
use crate::volume::Of;
use crate::{Place, VersionId};

/// A layer of what volumes hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// As reads have it.
    Newest,
    /// As disks have it: to be asked for while no checkpoint runs, of stripes in which everything [is in its
    /// place](State::is_in_place).
    OnDisks,
}

impl State {
    /// Whether all that maps tell of a stripe in which these live is there for as long as no checkpoint
    /// runs: the last one was of this start, and has left nothing half done there.
    pub(crate) fn is_in_place<'a>(
        &self,
        (set, stripe): Stripe,
        mut clusters: impl Iterator<Item = &'a Known>,
    ) -> bool {
        let has_redone = || {
            let of_stripe = (set, stripe, 0)..=(set, stripe, usize::MAX);
            self.redone.range(of_stripe).next().is_some()
        };
        let is_left = |volume: VersionId| {
            let live = self.live.get(&volume);
            live.is_some_and(|live| live.is_aside() || live.kept.is_some())
        };
        let is_half_done = |known: &Known| {
            let (Of::Head(volume) | Of::Snapshot(volume, _)) = known.of;
            is_left(volume) || known.shared_by.iter().any(|(volume, _)| is_left(*volume))
        };
        let mut is_whole = || !has_redone() && !clusters.any(is_half_done);
        self.has_settled && (mutants::is(Mutant::HastyHold) || is_whole())
    }

    /// The checksum of a block of a cluster in a `place`; the outer `None` if the cluster does not lie there
    /// in this layer, the inner if the block is not to be there any more.
    pub(super) fn crc_at(
        &mut self,
        place: Place,
        (of, cluster, row): (Of, u64, usize),
        layer: Layer,
    ) -> Result<Option<Option<u32>>, Missing> {
        if layer == Layer::OnDisks {
            return Ok(self.crc_on_disks(place, (of, cluster, row))?.map(Some));
        }
        let found = self.cluster(of, cluster)?;
        let lies_there = found.base.as_ref().is_some_and(|(at, _)| *at == place);
        Ok(lies_there.then(|| found.on_disk(row).map(|(_, crc)| crc)))
    }

    /// By the map as the last checkpoint has left it, or by what was written directly since.
    fn crc_on_disks(
        &mut self,
        place: Place,
        (of, cluster, row): (Of, u64, usize),
    ) -> Result<Option<u32>, Missing> {
        if let Some((root, _)) = self.root_now(of)
            && let Some(entry) = self.mapped(root, cluster)?.filter(|entry| entry.place == place)
        {
            return Ok(Some(entry.crcs[row]));
        }
        let Of::Head(volume) = of else { return Ok(None) };
        let base = self.live.get(&volume).map(|live| live.overlay.resolve(cluster).base);
        Ok(match base {
            Some(Base::At(at, crcs)) if at == place => Some(crcs[row]),
            _ => None,
        })
    }
}
