//! The page map of a disk that lies on several members: asked for when it may have changed.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use scsi::referrals::Segment;

use super::AttachError;
use super::core::Core;
use super::facts::{Facts, owners};
use super::inspect::Inspection;
use super::news::News;
use crate::answer::until;
use crate::paths::{PageMap, PathState, RUNS_MAX};
use crate::session::Session;

/// After an attempt that failed. Until the map is there I/O takes any path.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Runs until the disk is closed, or ends at once for a disk without referrals.
pub(super) async fn keep_map(core: Rc<Core>) {
    if core.facts.referrals.is_none() || !core.router.borrow().is_routed() {
        return;
    }
    while !core.is_closed() {
        until(&core.map_bell, || core.is_map_stale.get() || core.is_closed()).await;
        // Before it is asked for: a change that is told meanwhile makes it stale again.
        core.is_map_stale.set(false);
        let Some(session) = working_session(&core) else {
            core.is_map_stale.set(true);
            ring::timeout(RETRY_PAUSE, core.map_bell.notified()).await;
            continue;
        };
        match ask(&core, &session).await {
            Ok(map) => core.tell(|router, _| router.set_map(map)),
            Err(error) => {
                tracing::debug!("{}: its page map cannot be had: {error}", core.address);
                core.is_map_stale.set(true);
                ring::timeout(RETRY_PAUSE, core.map_bell.notified()).await;
            }
        }
    }
}

fn working_session(core: &Core) -> Option<Session> {
    let works = |path| core.status(path).state == PathState::Active;
    let mut paths = core.all_paths().into_iter().filter(|(path, _)| works(*path));
    paths.find_map(|(path, _)| core.session(path).filter(Session::is_up))
}

async fn ask(core: &Core, session: &Session) -> Result<PageMap, AttachError> {
    let news = Cell::new(News::NONE);
    let inspection = Inspection { session, lun: core.lun, news: &news };
    let segments = inspection.referrals(core.facts.geometry.blocks).await?;
    if news.get().access || news.get().unit {
        core.is_map_stale.set(true);
    }
    core.spread_news(news.get());
    Ok(PageMap::new(runs(&core.facts, &segments)))
}

/// The bytes that segments stand for, and the port groups that lead best to them.
pub(super) fn runs(facts: &Facts, segments: &[Segment]) -> Vec<(Range<u64>, Vec<u16>)> {
    let (rule, geometry) = (facts.referrals.unwrap_or_default(), facts.geometry);
    let bytes = |lba: u64| lba.min(geometry.blocks) * u64::from(geometry.block_bytes);
    let runs = segments.iter().flat_map(|segment| {
        let groups = owners(segment);
        rule.runs(segment)
            .map(move |(first, last)| (bytes(first)..bytes(last.saturating_add(1)), groups.clone()))
    });
    runs.take(RUNS_MAX).collect()
}
