//! The page map of a disk that lies on several members: asked for when it may have changed.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::Geometry;
use scsi::referrals::{Segment, SegmentRule, parse_report};

use super::AttachError;
use super::core::Core;
use super::facts::{Facts, owners};
use super::inspect::Inspection;
use super::news::News;
use crate::paths::{PageMap, PathState};
use crate::session::Session;

/// Runs that a map is made of at most: as many as 256 TiB have pages of 16 MiB. A target that tells of
/// more has its first ones noted.
const RUNS_MAX: usize = 1 << 24;

/// Runs that the answer to one command may tell of.
pub(super) const TOLD_MAX: usize = 1 << 10;

/// After an attempt that failed. Until the map is there I/O takes any path.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the disk is closed, or ends at once for a disk without referrals.
pub(super) async fn keep_map(core: Rc<Core>) {
    if core.facts.referrals.is_none() || !core.router.borrow().is_routed() {
        return;
    }
    while !core.is_closed() {
        core.map_bell.until(|| core.is_map_stale.get() || core.is_closed()).await;
        // Before it is asked for: a change that is told meanwhile makes it stale again.
        core.is_map_stale.set(false);
        let Some(session) = working_session(&core) else {
            core.is_map_stale.set(true);
            ring::timeout(RETRY_PAUSE, core.map_bell.rung()).await;
            continue;
        };
        match ask(&core, &session).await {
            Ok(map) => core.tell(|router, _| router.set_map(map)),
            Err(error) => {
                tracing::debug!("{}: its page map cannot be had: {error}", core.address);
                core.is_map_stale.set(true);
                ring::timeout(RETRY_PAUSE, core.map_bell.rung()).await;
            }
        }
    }
}

fn working_session(core: &Core) -> Option<Session> {
    let works = |path| core.status(path).state == PathState::Active;
    let mut paths = core.all_paths().into_iter().filter(|(path, _)| works(*path));
    paths.find_map(|(path, _)| core.session(path).filter(Session::is_up))
}

/// The whole map, which comes in parts. A member of a large group tells of a million pages: they are
/// read and noted beside the core, which has I/O to do.
async fn ask(core: &Core, session: &Session) -> Result<PageMap, AttachError> {
    let news = Cell::new(News::NONE);
    let inspection = Inspection { session, lun: core.lun, news: &news };
    let geometry = core.geometry();
    let places = Places::of(&core.facts, geometry);
    let mut map = PageMap::new(geometry.size_bytes());
    let (mut next, mut left) = (0, RUNS_MAX);
    while next < geometry.blocks && left > 0 {
        let data = inspection.referrals(next).await?;
        let noted = ring::blocking(move || places.note(map, &data, left)).await;
        map = noted.map;
        left -= noted.runs;
        // A part that leads no further is the last one, and so is a wrapped one (SBC-4 4.18.4).
        let Some(last) = noted.last_lba.filter(|&last| last >= next) else { break };
        next = last.saturating_add(1);
    }
    if news.get().access || news.get().unit {
        core.is_map_stale.set(true);
    }
    core.spread_news(news.get());
    Ok(map)
}

/// What came of one part of the map.
struct Noted {
    map: PageMap,
    runs: usize,
    last_lba: Option<u64>,
}

/// What turns the segments of a unit into bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    rule: SegmentRule,
    geometry: Geometry,
}

impl Places {
    pub(super) fn of(facts: &Facts, geometry: Geometry) -> Self {
        Self { rule: facts.referrals.unwrap_or_default(), geometry }
    }

    /// The bytes that segments stand for, and the port groups that lead best to them.
    pub(super) fn runs(self, segments: &[Segment]) -> impl Iterator<Item = (Range<u64>, Vec<u16>)> {
        let Self { rule, geometry } = self;
        let bytes = move |lba: u64| lba.min(geometry.blocks) * u64::from(geometry.block_bytes);
        segments.iter().flat_map(move |segment| {
            let groups = owners(segment);
            rule.runs(segment).map(move |(first, last)| {
                (bytes(first)..bytes(last.saturating_add(1)), groups.clone())
            })
        })
    }

    /// Notes up to `runs_max` runs of REPORT REFERRALS data.
    fn note(self, mut map: PageMap, data: &[u8], runs_max: usize) -> Noted {
        let segments = parse_report(data);
        let mut runs = 0;
        map.learn(self.runs(&segments).take(runs_max).inspect(|_| runs += 1));
        Noted { map, runs, last_lba: segments.iter().map(|segment| segment.last_lba).max() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use scsi::alua::AccessState;
    use scsi::referrals::{GroupAccess, ReferralMap};

    use super::*;

    const PAGE_BLOCKS: u64 = (16 << 20) / 512;

    /// 15 TiB in pages of 16 MiB that change owners page by page, as they come over the wire.
    #[test]
    fn a_million_pages_come_in_parts_and_none_is_missing() {
        const PAGES: u64 = 983_040;
        let segment = |n: u64| Segment {
            first_lba: n * PAGE_BLOCKS,
            last_lba: (n + 1) * PAGE_BLOCKS - 1,
            groups: vec![GroupAccess::new((n % 16) as u16, AccessState::ActiveOptimized)],
        };
        let told = ReferralMap::new((0..PAGES).map(segment).collect()).unwrap();
        let geometry = Geometry::new(512, PAGES * PAGE_BLOCKS);
        let places = Places { rule: SegmentRule::default(), geometry };
        let (mut map, mut next, mut runs) = (PageMap::new(geometry.size_bytes()), 0, 0);
        let began = Instant::now();
        while next < geometry.blocks {
            let noted = places.note(map, &told.report(next, false), RUNS_MAX);
            map = noted.map;
            runs += noted.runs;
            next = noted.last_lba.unwrap() + 1;
        }
        eprintln!("{PAGES} pages in {:?}", began.elapsed());
        assert_eq!(runs as u64, PAGES);
        for page in (0..PAGES).step_by(997) {
            assert_eq!(map.owners(page << 24), [(page % 16) as u16]);
            assert_eq!(map.owners(((page + 1) << 24) - 1), [(page % 16) as u16]);
        }
    }

    #[test]
    fn a_target_that_tells_without_end_is_not_listened_to() {
        let rule = SegmentRule { blocks: 1, multiplier: 2 };
        let places = Places { rule, geometry: Geometry::new(512, 1 << 40) };
        let groups = vec![GroupAccess::new(7, AccessState::ActiveOptimized)];
        let all = ReferralMap::new(vec![Segment { first_lba: 0, last_lba: 1 << 39, groups }]);
        let noted = places.note(PageMap::new(1 << 49), &all.unwrap().report(0, false), 1000);
        assert_eq!((noted.runs, noted.map.owners(0)), (1000, &[7][..]));
    }
}
