//! Reading and comparing everything: data with its checksums, copies and parity with the data,
//! maps with what counts as taken.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use super::refresh::LOOKS_MAX;
use crate::api::{CheckReport, JobKind};
use crate::core::{Core, Knowledge, Known, Layer, Live, Met, RETRY, Shapes};
use crate::error::ArrayError;
use crate::label::{self, Found as OnDisk};
use crate::membership::Event;
use crate::raid::{Contents, ReadError, Scrubbed, Set, is_passing};
use crate::space::Kind;
use crate::volume::Of;
use crate::{CLUSTER_BLOCKS, CLUSTER_BYTES, Place, SetId};

/// Slots whose checksums are in memory at a time: 120 bytes each.
const SLOTS_MAX: u64 = 1 << 19;
const STRIPES_IN_FLIGHT: usize = 8;
/// Stripes after which hosts get their share.
const STRIPES_PER_STEP: usize = 64;
/// A report of a broken array must not fill the memory.
const PROBLEMS_MAX: usize = 1000;
/// How many problems the log gets one by one: the loss of a disk's worth of blocks is one event.
const LOGGED_MAX: usize = 10;

/// What a scrub or check found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) report: CheckReport,
    places: BTreeSet<Place>,
    pages: BTreeSet<u64>,
    /// Problems, those that are neither logged nor reported included.
    found: usize,
}

impl Findings {
    fn problem(&mut self, text: String) {
        self.found += 1;
        if self.found <= LOGGED_MAX {
            tracing::error!("{text}");
        }
        if self.report.problems.len() < PROBLEMS_MAX {
            self.report.problems.push(text);
        }
    }

    /// Says what was not logged one by one.
    fn conclude(&self) {
        if let Some(more @ 1..) = self.found.checked_sub(LOGGED_MAX) {
            tracing::error!(
                "the scrub found {more} more problems, which are not logged one by one"
            );
        }
    }
}

impl Core {
    /// Verifies and repairs all data, and checks that maps and free space agree.
    pub(crate) async fn check_all(self: &Arc<Self>) -> Result<CheckReport, ArrayError> {
        self.checkpointed().await?;
        // Maps do not change while no checkpoint runs.
        let turn = self.checkpointing.take().await;
        let mut findings = Findings::default();
        for map in self.roots() {
            let mut meet = |met| match met {
                Met::Page(raw, _) => {
                    findings.report.pages += 1;
                    findings.pages.insert(raw);
                }
                Met::Cluster(place, _) => _ = findings.places.insert(place),
            };
            self.walk(map, &mut meet).await?;
        }
        self.check_space(&mut findings);
        self.check_labels(&mut findings).await;
        drop(turn);
        self.scrub_data(&mut findings).await?;
        Ok(findings.report)
    }

    /// What the maps have is what counts as taken, to the slot.
    fn check_space(&self, findings: &mut Findings) {
        let state = self.lock();
        let mapped = state.space.mapped();
        let leaked = mapped.difference(&findings.places).count();
        let stolen: Vec<Place> = findings.places.difference(&mapped).copied().collect();
        let mut pages = BTreeSet::new();
        for (id, kind, slots) in state.space.pool.sets() {
            if kind == Kind::Metadata {
                let used = (0..slots.len()).filter(|slot| slots.is_used(*slot));
                pages.extend(used.map(|slot| Place::new(id, slot).raw()));
            }
        }
        let lost_pages = pages.difference(&findings.pages).count();
        let stolen_pages = findings.pages.difference(&pages).count();
        drop(state);
        if leaked > 0 {
            findings.problem(format!("{leaked} clusters count as taken, and no map has them"));
        }
        if let Some(place) = stolen.first() {
            let (set, slot) = (place.set().0, place.slot());
            let count = stolen.len();
            findings.problem(format!(
                "{count} clusters are in maps and count as free, the first at slot {slot} of set {set}"
            ));
        }
        if lost_pages > 0 {
            findings.problem(format!("{lost_pages} metadata pages count as taken for nothing"));
        }
        if stolen_pages > 0 {
            findings.problem(format!("{stolen_pages} metadata pages in use count as free"));
        }
    }

    /// Labels that are damaged or not the newest, with the disk's name and what is wrong.
    async fn bad_labels(&self) -> Vec<String> {
        // Not while they are being changed.
        let _turn = self.labelling.take().await;
        let current = self.lock().label.clone();
        let change = current.change;
        let mut bad = Vec::new();
        for disk in self.raid.disks().all() {
            let is_member = current.member(disk.id()).is_some();
            if disk.access() != crate::raid::Access::Full || !is_member {
                continue;
            }
            match label::read(&**disk.device()).await {
                Ok(OnDisk::Label { label, rewrite, .. }) if label.change == change && !rewrite => {}
                // One that is being declared failed gives nothing any more.
                _ if disk.access() != crate::raid::Access::Full
                    || self.lock().condemned.contains(&disk.id()) => {}
                Ok(found) => bad.push(format!("disk {}: {}", disk.name(), wrong_label(&found))),
                Err(error) if is_passing(error) => {}
                Err(error) => bad.push(format!("{} cannot be read: {error}", disk.name())),
            }
        }
        bad
    }

    /// The labels of all disks that are in are whole and the newest.
    async fn check_labels(&self, findings: &mut Findings) {
        self.bad_labels().await.into_iter().for_each(|text| findings.problem(text));
    }

    /// Writes the labels again if one of them needs it.
    pub(crate) async fn mend_labels(self: &Arc<Self>) {
        if !self.bad_labels().await.is_empty() {
            let behind = self.change_label(|_, _| vec![Event::Behind]).await;
            if let Err(error) = behind {
                tracing::warn!("the labels are not all the newest: {error}");
            }
        }
    }

    /// Verifies all data, metadata and parity, set by set, and repairs what it can.
    pub(crate) async fn scrub_data(
        self: &Arc<Self>,
        findings: &mut Findings,
    ) -> Result<(), ArrayError> {
        let used = self.lock().space.mapped().len() as u64;
        let job = self.begin_job(JobKind::Scrub, "array", used * CLUSTER_BYTES as u64);
        self.scrub_pages(findings, &job).await?;
        let sets: Vec<SetId> = self.sets.all().iter().map(|set| set.id()).collect();
        let (mut group, mut slots) = (Vec::new(), 0);
        for id in sets {
            let Some(set) = self.sets.find(id) else { continue };
            slots += if set.level().is_some() { u64::from(set.slots()) } else { 0 };
            group.push(id);
            if slots >= SLOTS_MAX {
                self.scrub_sets(&std::mem::take(&mut group), findings, &job).await?;
                slots = 0;
            }
        }
        self.scrub_sets(&group, findings, &job).await?;
        let now = self.env.now();
        self.lock().lost.look_again(now);
        while self.look_for_lost().await == Some(std::time::Duration::ZERO) {}
        findings.conclude();
        let now = self.env.unix_seconds();
        self.request(move |tables, _| {
            tables.scrubbed_unix_seconds = now;
            Ok(())
        })
        .await
    }

    /// Pages of all maps, some at a time: as long as one is known to be at its address nothing that
    /// checkpoints free comes back, and hosts that write need that.
    async fn scrub_pages(
        self: &Arc<Self>,
        findings: &mut Findings,
        job: &crate::upkeep::Job,
    ) -> Result<(), ArrayError> {
        let mut pace = self.pace();
        let mut done = HashSet::new();
        for (of, _, _) in self.roots() {
            let mut next = Some(0);
            while let Some(from) = next {
                let (known, then) = self.some_pages(of, from, &mut done).await?;
                next = then;
                self.scrub_stripes(&known.all_stripes(), &known, findings, job).await;
                drop(known);
                self.rest(&mut pace).await;
            }
        }
        // A check has counted them already.
        findings.report.pages = findings.report.pages.max(done.len() as u64);
        Ok(())
    }

    /// Those of these sets that hold data. None is held: one that becomes empty can be dissolved.
    async fn scrub_sets(
        self: &Arc<Self>,
        sets: &[SetId],
        findings: &mut Findings,
        job: &crate::upkeep::Job,
    ) -> Result<(), ArrayError> {
        let (mut shapes, mut stripes) = (Shapes::new(), HashSet::new());
        for set in sets.iter().filter_map(|id| self.sets.find(*id)) {
            if set.level().is_some() {
                shapes.insert(set.id(), set.shape());
                stripes.extend((0..set.stripes()).map(|stripe| (set.id(), stripe)));
            }
        }
        let witness = self.touched.watch(stripes);
        let known = self.passing_knowledge(shapes, &|_, _| true, witness).await?;
        let mut pace = self.pace();
        let all: Vec<(SetId, u32)> = known.all_stripes();
        for step in all.chunks(STRIPES_PER_STEP) {
            self.scrub_stripes(step, &known, findings, job).await;
            self.rest(&mut pace).await;
        }
        Ok(())
    }

    async fn scrub_stripes(
        self: &Arc<Self>,
        stripes: &[(SetId, u32)],
        known: &Knowledge,
        findings: &mut Findings,
        job: &crate::upkeep::Job,
    ) {
        // All that is done for a stripe is done in its future: one that is not polled may hold
        // the lock of a stripe that another one waits for.
        let scrubs = stripes.iter().map(|(set, stripe)| self.scrub_one(*set, *stripe, known));
        let mut running = stream::iter(scrubs).buffer_unordered(STRIPES_IN_FLIGHT);
        while let Some(found) = running.next().await {
            job.add(found.clusters * CLUSTER_BYTES as u64);
            findings.add(found);
        }
    }

    /// Verifies and repairs a stripe, and looks again at what seems to be lost.
    async fn scrub_one(self: &Arc<Self>, id: SetId, stripe: u32, known: &Knowledge) -> Found {
        let columns = known.columns(id, stripe);
        let mut found = Found { clusters: columns.len() as u64, ..Found::default() };
        // It may have been dissolved meanwhile.
        let Some(set) = self.sets.find(id) else { return found };
        match self.scrub_stripe(&set, stripe, known).await {
            Ok(scrubbed) => {
                for (column, block) in &scrubbed.doubted {
                    let known = columns.iter().find(|(other, _)| other == column);
                    if let Some((_, known)) = known
                        && let Some(lost) =
                            self.is_lost(&set, (stripe, *column), *block, known).await
                    {
                        let owner = self.present_owner(lost.0, known, *block).await;
                        self.mark_lost(known, *block, lost).await;
                        found.lost.push(self.lost_text(&owner, *block));
                    }
                }
                found.scrubbed = scrubbed;
            }
            Err(error) => found.problem = Some(format!("a stripe cannot be verified: {error}")),
        }
        found
    }

    async fn scrub_stripe(
        &self,
        set: &Set,
        stripe: u32,
        known: &Knowledge,
    ) -> Result<Scrubbed, ReadError> {
        let mut looks = 0;
        loop {
            // Pages of metadata do not change where they lie.
            let count = || if set.level().is_some() { known.changes(set, stripe) } else { 0 };
            let changes = count();
            let newer = match changes {
                0 => None,
                _ => Some(self.expected_now(set, stripe, known).await),
            };
            let is_any_aside = self.lock().live.values().any(Live::is_aside);
            let crc_of = |column: usize, block: usize| {
                if let Some(newer) = &newer {
                    return newer.get(&(column, block)).copied();
                }
                // A checkpoint that could not end may have put there what the map does not say.
                let is_odd =
                    is_any_aside && self.is_left_to_journal(set, (stripe, column), block, known);
                known.crc(set, stripe, column, block).filter(|_| !is_odd)
            };
            let is_taken = |column: usize| self.is_taken(set, stripe, column);
            let is_current = || count() == changes;
            let contents = Contents { crcs: &crc_of, is_taken: &is_taken, is_current: &is_current };
            match self.raid.scrub_stripe(set, stripe, contents).await {
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                // One that is written all the time is left to the next scrub.
                Ok(scrubbed) if scrubbed.is_outdated && looks < LOOKS_MAX => looks += 1,
                result => return result,
            }
        }
    }

    /// What blocks of a stripe that was written since the maps were walked must be now, where that can
    /// be said.
    async fn expected_now(
        &self,
        set: &Set,
        stripe: u32,
        known: &Knowledge,
    ) -> HashMap<(usize, usize), u32> {
        let mut found = HashMap::new();
        for (column, _) in known.columns(set.id(), stripe) {
            for row in 0..CLUSTER_BLOCKS {
                let crc = self.expected(set, (stripe, *column), row, known).await;
                found.extend(crc.map(|crc| ((*column, row), crc)));
            }
        }
        found
    }

    /// Where a block lies that did not match and is lost, and its checksum: the map says the same of it now,
    /// and it still cannot be read.
    pub(super) async fn is_lost(
        self: &Arc<Self>,
        set: &Arc<Set>,
        (stripe, column): (u32, usize),
        block: usize,
        known: &Known,
    ) -> Option<(Place, u32)> {
        if self.lock().is_abandoned(known) {
            return None;
        }
        let slot = set.shape().slot(stripe, column);
        let place = Place::new(set.id(), slot);
        loop {
            let crc = self.look_up(place, known, block, Layer::Newest).await.ok()??;
            match self.read_place(place, block, &[crc]).await {
                Ok(_) => return None,
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                Err(_) => {
                    // What it must be may have changed while it was read.
                    if self.look_up(place, known, block, Layer::Newest).await == Ok(Some(crc)) {
                        self.raid.blame_lost(set, slot, block).await;
                        return Some((place, crc));
                    }
                }
            }
        }
    }

    /// Who is to be told of a block that is lost: the volume, as long as it shares it with a snapshot.
    async fn present_owner(&self, place: Place, known: &Known, block: usize) -> Known {
        for (volume, cluster) in known.shared_by.iter().copied() {
            let head = Known { of: Of::Head(volume), cluster, ..known.clone() };
            if let Ok(Some(_)) = self.look_up(place, &head, block, Layer::Newest).await {
                return head;
            }
        }
        known.clone()
    }

    fn lost_text(&self, known: &Known, block: usize) -> String {
        let first = known.cluster * CLUSTER_BLOCKS as u64 + block as u64;
        let at = first * crate::BLOCK_BYTES as u64;
        format!(
            "{} has lost the 4 KiB at byte {at}: no disk holds them",
            self.lock().name_of(known.of)
        )
    }
}

/// What is wrong with the labels of a disk that is in.
fn wrong_label(found: &OnDisk) -> String {
    match found {
        OnDisk::Label { rewrite: true, .. } => {
            "one of its two labels is damaged or older, or cannot be read: was it cut short?".into()
        }
        OnDisk::Label { .. } => "its labels are not the newest".into(),
        OnDisk::Blank => "it has lost its labels, and holds nothing where they were".into(),
        OnDisk::Foreign(what) => format!("it holds {what} where its labels should be"),
        OnDisk::Version(version) => format!("it has labels of version {version}"),
        OnDisk::Damaged(why) => why.clone(),
    }
}

/// What the scrub of a stripe found.
#[derive(Debug, Default)]
struct Found {
    clusters: u64,
    scrubbed: Scrubbed,
    /// Blocks that are lost, in words.
    lost: Vec<String>,
    problem: Option<String>,
}

impl Findings {
    fn add(&mut self, found: Found) {
        let Found { clusters, scrubbed, lost, problem } = found;
        let report = &mut self.report;
        report.stripes += 1;
        report.clusters += clusters;
        report.wrong_blocks += u64::from(scrubbed.bad) + lost.len() as u64;
        report.repaired_blocks += u64::from(scrubbed.repaired);
        report.lost_blocks += lost.len() as u64;
        lost.into_iter().chain(problem).for_each(|text| self.problem(text));
        if scrubbed.refused > 0 {
            let count = scrubbed.refused;
            self.problem(format!("{count} blocks of copies or parity could not be repaired"));
        }
    }
}
