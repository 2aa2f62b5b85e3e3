//! Bringing many neighbouring stripes up to date at once, so that disks that seek read and write
//! long pieces.

use std::ops::Range;
use std::sync::Arc;

use block::WriteFlags;
use ring::{Buf, Data};

use crate::join::join_all;
use crate::mutants::{Mutant, is};
use crate::{BLOCK_BYTES, CLUSTER_BLOCKS, CLUSTER_BYTES, block_checksum};

use super::Raid;
use super::disks::Disk;
use super::io::{Target, still};
use super::record::Seat;
use super::rows::{Crcs, Loaded, NO_CRCS, Rows};
use super::set::Set;

/// A member of a set that can give what it holds of a run.
struct Source {
    member: usize,
    seat: Seat,
    disk: Arc<Disk>,
}

impl Raid {
    /// Gives `stripes` to the chunk that lacks them, with one read of each disk that is needed and
    /// one write. `crcs` are the checksums of data that lives there (stripe, column, block).
    /// `false`, and nothing counts as up to date, when they do not all lack the same, when anything
    /// does not match or is in the way: then [`refresh_stripe`](Self::refresh_stripe) does what can
    /// be done, and what has to be computed.
    pub async fn refresh_run(
        &self,
        set: &Set,
        stripes: Range<u32>,
        crcs: &dyn Fn(u32, usize, usize) -> Option<u32>,
        is_current: &dyn Fn(u32) -> bool,
    ) -> bool {
        let mut guards = Vec::with_capacity(stripes.len());
        for stripe in stripes.clone() {
            guards.push(self.locks.lock(set, stripe).await);
        }
        let is_half = |stripe| self.has_half(set.id(), stripe);
        if !stripes.clone().all(is_current) || stripes.clone().any(is_half) {
            return false;
        }
        let Some((member, seat)) = self.common_target(set, &stripes) else { return false };
        let Some(sources) = self.sources(set, &stripes, (member, seat)) else { return false };
        let len = stripes.len() * CLUSTER_BYTES;
        let reads = sources.iter().map(|source| {
            let at = set.byte_at(source.seat, stripes.start, 0);
            Box::pin(self.read_disk(&source.disk, at, len))
        });
        let mut read = Vec::with_capacity(sources.len());
        for result in join_all(reads.collect()).await {
            match result.and_then(still) {
                Ok(data) if data.len() == len => read.push(data),
                _ => return false,
            }
        }
        let proved = sources.iter().zip(&read);
        if !proved
            .into_iter()
            .all(|(source, data)| is_proved(set, &stripes, source.member, data, crcs))
        {
            return false;
        }
        let is_copy = sources.len() == 1;
        let has_choice = is_copy || set.shape().parity() > 1;
        if has_choice && set.shape().parity() > 0 && !is_all_known(set, &stripes, member, crcs) {
            // What nobody owns any more may have rotted, and the parity still counts on it; and of
            // two parities one may have.
            return false;
        }
        let data = match is_copy {
            true => read.pop(),
            false => computed(set, &stripes, member, (&sources, &read), crcs)
                .filter(|data| is_proved(set, &stripes, member, data, crcs)),
        };
        let Some(data) = data else { return false };
        let target = Target { seat, at: set.byte_at(seat, stripes.start, 0), data };
        let written = self.write_targets(set, stripes.start, &[target], WriteFlags::VOLATILE).await;
        let Ok([Some(disk)]) = written.as_deref() else { return false };
        // A parity that was copied as it was is proved by nothing.
        let is_proved = |stripe: &u32| {
            !is_copy || set.shape().strip_of(*stripe, member) < set.shape().columns()
        };
        let mut proved = stripes.clone();
        stripes.filter(&is_proved).for_each(|stripe| self.credit(set, stripe, seat, disk));
        proved.all(|stripe| is_proved(&stripe))
    }

    /// The one chunk that lacks all of these stripes and can be written, and whose place in the set
    /// it has.
    fn common_target(&self, set: &Set, stripes: &Range<u32>) -> Option<(usize, Seat)> {
        let columns = set.shape().columns();
        let mut common = None;
        for stripe in stripes.clone() {
            let written = set.written(stripe);
            let mut lacking = set.stale_holders(stripe);
            lacking.retain(|(_, seat)| {
                self.disks().get(seat.disk).is_some_and(|disk| disk.is_writable())
            });
            let [(strip, seat)] = lacking[..] else { return None };
            let is_written = if strip < columns { written >> strip & 1 == 1 } else { written != 0 };
            if !is_written || *common.get_or_insert(seat) != seat {
                return None;
            }
        }
        let seat = common?;
        let replaced = set.replacement().filter(|new| new.seat == seat).map(|new| new.member);
        let member =
            replaced.or_else(|| set.members().iter().position(|member| *member == seat))?;
        Some((member, seat))
    }

    /// Who is read: one that holds the very same, or as many others as there are data columns; of
    /// those that could be, the idlest.
    fn sources(
        &self,
        set: &Set,
        stripes: &Range<u32>,
        (target, seat): (usize, Seat),
    ) -> Option<Vec<Source>> {
        let shape = set.shape();
        let stale = stripes.clone().fold(0, |mask, stripe| mask | set.stale(stripe));
        let members = set.members().into_iter().enumerate();
        let can_give =
            members.filter(|(member, other)| other.disk != seat.disk && stale >> member & 1 == 0);
        let mut sources: Vec<Source> = can_give
            .filter_map(|(member, seat)| {
                let disk = self
                    .disks()
                    .get(seat.disk)
                    .filter(|disk| disk.is_readable() && !disk.is_silent())?;
                Some(Source { member, seat, disk })
            })
            .collect();
        sources.sort_by_key(|source| source.disk.in_flight());
        let holds_the_same = |source: &Source| shape.parity() == 0 || source.member == target;
        if let Some(same) = sources.iter().position(holds_the_same) {
            return Some(vec![sources.swap_remove(same)]);
        }
        sources.truncate(shape.columns());
        (shape.parity() > 0 && sources.len() == shape.columns()).then_some(sources)
    }
}

/// Whether what a member holds of a run is what the map says, wherever that says anything.
fn is_proved(
    set: &Set,
    stripes: &Range<u32>,
    member: usize,
    data: &Data,
    crcs: &dyn Fn(u32, usize, usize) -> Option<u32>,
) -> bool {
    if is(Mutant::BlindRebuild) {
        return true;
    }
    let shape = set.shape();
    let bytes = data.as_slice().expect("what was read was made still");
    stripes.clone().zip(bytes.chunks_exact(CLUSTER_BYTES)).all(|(stripe, bytes)| {
        let strip = shape.strip_of(stripe, member);
        let fits = |(row, block): (usize, &[u8])| {
            let crc = crcs(stripe, strip, row);
            crc.is_none_or(|crc| {
                block_checksum(set.id(), shape.slot(stripe, strip), row, block) == crc
            })
        };
        strip >= shape.columns() || bytes.chunks_exact(BLOCK_BYTES).enumerate().all(fits)
    })
}

/// Whether all that a member holds of a run has an owner who knows its checksums.
fn is_all_known(
    set: &Set,
    stripes: &Range<u32>,
    member: usize,
    crcs: &dyn Fn(u32, usize, usize) -> Option<u32>,
) -> bool {
    let shape = set.shape();
    stripes.clone().all(|stripe| {
        let strip = shape.strip_of(stripe, member);
        strip >= shape.columns()
            || (0..CLUSTER_BLOCKS).all(|row| crcs(stripe, strip, row).is_some())
    })
}

/// What a member of a parity set holds, from what others do. A parity only of data that is proved:
/// not by another parity, which may have rotted.
fn computed(
    set: &Set,
    stripes: &Range<u32>,
    member: usize,
    (sources, read): (&[Source], &[Data]),
    crcs: &dyn Fn(u32, usize, usize) -> Option<u32>,
) -> Option<Data> {
    let shape = set.shape();
    let mut bytes = Buf::alloc(stripes.len() * CLUSTER_BYTES)?;
    for (stripe, to) in stripes.clone().zip(bytes.chunks_exact_mut(CLUSTER_BYTES)) {
        let at = (stripe - stripes.start) as usize * CLUSTER_BYTES;
        let mut strips: Vec<Option<Loaded>> = (0..shape.strips()).map(|_| None).collect();
        for (source, data) in sources.iter().zip(read) {
            let data = data.slice(at..at + CLUSTER_BYTES);
            let strip = shape.strip_of(stripe, source.member);
            strips[strip] = Some(Loaded { data, first: 0, good: u16::MAX });
        }
        let written = set.written(stripe);
        let copies = vec![None; strips.len()];
        let rows = Rows { set: set.id(), stripe, shape, written, strips, copies };
        let strip = shape.strip_of(stripe, member);
        let crc_of = |column: usize, row: usize| crcs(stripe, column, row);
        let known: Crcs<'_> = if strip < shape.columns() { NO_CRCS } else { &crc_of };
        for (row, to) in (0..CLUSTER_BLOCKS).zip(to.chunks_exact_mut(BLOCK_BYTES)) {
            let is_proved =
                |column| rows.block(column, row).is_some() || crc_of(column, row).is_some();
            if strip >= shape.columns() && !(0..shape.columns()).all(is_proved) {
                return None;
            }
            rows.compute(row, strip, known, to)?;
        }
    }
    Some(bytes.freeze())
}
