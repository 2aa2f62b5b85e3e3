//! Reading and comparing everything: data with its checksums, copies and parity with the data,
//! maps with what counts as taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;

use crate::api::{CheckReport, JobKind};
use crate::core::{Core, RETRY};
use crate::error::ArrayError;
use crate::raid::{ReadError, Scrubbed, Set};
use crate::space::Kind;
use crate::tree::{self, Root, Seen, leaf};
use crate::volume::Of;
use crate::{CLUSTER_BLOCKS, CLUSTER_BYTES, Place, SetId, VersionId};

/// Slots whose checksums are in memory at a time: 100 bytes each.
const SLOTS_MAX: u64 = 1 << 18;
const STRIPES_IN_FLIGHT: usize = 8;
/// Stripes after which hosts get their share.
const STRIPES_PER_STEP: usize = 64;
const STEP_PAGES: usize = 256;

/// A cluster that some map has.
#[derive(Clone, Copy)]
struct Known {
    crcs: [u32; CLUSTER_BLOCKS],
    /// Who has it, to look again.
    of: Of,
    cluster: u64,
}

/// Clusters by stripe and column.
type Stripes = BTreeMap<(SetId, u32), Vec<(usize, Known)>>;

/// What a scrub or check found so far.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) report: CheckReport,
    places: BTreeSet<Place>,
    pages: BTreeSet<u64>,
}

impl Findings {
    fn problem(&mut self, text: String) {
        tracing::error!("{text}");
        // A report of a broken array must not fill the memory.
        if self.report.problems.len() < 1000 {
            self.report.problems.push(text);
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
            self.walk(map, &mut findings, &mut |_, _| ()).await?;
        }
        self.check_space(&mut findings);
        self.check_labels(&mut findings).await;
        drop(turn);
        self.scrub_data(&mut findings).await?;
        Ok(findings.report)
    }

    /// All maps there are.
    fn roots(&self) -> Vec<(Of, Root, u32)> {
        let state = self.lock();
        let heads = state.tables.volumes.iter();
        let heads = heads.map(|(id, volume)| (Of::Head(*id), volume.head.root, 0));
        let frozen = state.tables.versions.iter().map(|(id, version)| {
            let volume = version.snapshot.as_ref().map_or(VersionId(0), |s| s.volume);
            // What a deletion has passed was given back.
            let from = version.deleting_from_leaf.unwrap_or(0);
            (Of::Snapshot(volume, *id), version.contents.root, from)
        });
        heads.chain(frozen).collect()
    }

    /// Shows every cluster of a map that was not shown before.
    async fn walk(
        &self,
        (of, root, from): (Of, Root, u32),
        findings: &mut Findings,
        show: &mut dyn FnMut(Place, Known),
    ) -> Result<(), ArrayError> {
        let mut next = Some(from);
        while let Some(from) = next {
            let mut seen: Vec<(Place, Known)> = Vec::new();
            let mut pages: Vec<u64> = Vec::new();
            let step = self.with_pages(|state| {
                seen.clear();
                pages.clear();
                tree::visit(&mut state.pages, root, from, STEP_PAGES, |part| match part {
                    Seen::Interior(page) => pages.push(page.addr.raw()),
                    Seen::Leaf { leaf: number, r, page } => {
                        pages.push(r.addr.raw());
                        for (i, entry) in leaf::entries(page) {
                            let cluster = leaf::cluster(number, i);
                            seen.push((entry.place, Known { crcs: entry.crcs, of, cluster }));
                        }
                    }
                })
            });
            next = step.await?;
            findings.report.pages += pages.len() as u64;
            findings.pages.extend(pages);
            for (place, known) in seen {
                if findings.places.insert(place) {
                    show(place, known);
                }
            }
        }
        Ok(())
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
        let generation = current.generation;
        let mut bad = Vec::new();
        for disk in self.raid.disks().all() {
            let is_member = current.member(disk.id()).is_some();
            if disk.access() != crate::raid::Access::Full || !is_member {
                continue;
            }
            match crate::label::read(&**disk.device()).await {
                Ok(crate::label::Found::Label { label, rewrite })
                    if label.generation == generation && !rewrite => {}
                Ok(other) => {
                    bad.push(format!(
                        "the labels of {} are not the newest: {other:?}",
                        disk.name()
                    ));
                }
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
            self.change_label(|_, _| true).await;
        }
    }

    /// Verifies all data and parity, set by set, and repairs what it can.
    pub(crate) async fn scrub_data(
        self: &Arc<Self>,
        findings: &mut Findings,
    ) -> Result<(), ArrayError> {
        let sets: Vec<Arc<Set>> =
            self.sets.all().into_iter().filter(|set| set.level().is_some()).collect();
        let used = self.lock().space.mapped().len() as u64;
        let job = self.begin_job(JobKind::Scrub, "array", used * CLUSTER_BYTES as u64);
        let mut group: Vec<Arc<Set>> = Vec::new();
        let mut slots = 0;
        for set in sets {
            slots += u64::from(set.slots());
            group.push(set);
            if slots >= SLOTS_MAX {
                self.scrub_sets(&std::mem::take(&mut group), findings, &job).await?;
                slots = 0;
            }
        }
        self.scrub_sets(&group, findings, &job).await?;
        let now = self.env.unix_seconds();
        self.request(move |tables, _| {
            tables.scrubbed_unix_seconds = now;
            Ok(())
        })
        .await
    }

    async fn scrub_sets(
        self: &Arc<Self>,
        sets: &[Arc<Set>],
        findings: &mut Findings,
        job: &crate::upkeep::Job,
    ) -> Result<(), ArrayError> {
        if sets.is_empty() {
            return Ok(());
        }
        let by_id: HashMap<SetId, &Arc<Set>> = sets.iter().map(|set| (set.id(), set)).collect();
        // What is freed from here on is not used again before this group is done.
        let _readers = Arc::clone(&self.lock().readers);
        let mut stripes = Stripes::new();
        let mut walked = Findings::default();
        for map in self.roots() {
            let keep = &mut |place: Place, known| {
                if let Some(set) = by_id.get(&place.set()) {
                    let (stripe, column) = set.shape().locate(place.slot());
                    stripes.entry((place.set(), stripe)).or_default().push((column, known));
                }
            };
            self.walk(map, &mut walked, keep).await?;
        }
        let mut pace = self.pace();
        let mut left = stripes.iter().peekable();
        while left.peek().is_some() {
            let step = left.by_ref().take(STRIPES_PER_STEP).map(|((id, stripe), columns)| {
                let set = by_id[id];
                async move { (columns, self.scrub_stripe(set, *stripe, columns).await) }
            });
            let mut running = stream::iter(step).buffer_unordered(STRIPES_IN_FLIGHT);
            while let Some((columns, scrubbed)) = running.next().await {
                job.add(columns.len() as u64 * CLUSTER_BYTES as u64);
                findings.report.stripes += 1;
                findings.report.clusters += columns.len() as u64;
                match scrubbed {
                    Ok(scrubbed) => self.look_again(columns, &scrubbed, findings).await,
                    Err(error) => findings.problem(format!("a stripe cannot be verified: {error}")),
                }
            }
            self.rest(&mut pace).await;
        }
        Ok(())
    }

    async fn scrub_stripe(
        &self,
        set: &Set,
        stripe: u32,
        columns: &[(usize, Known)],
    ) -> Result<Scrubbed, ReadError> {
        let crc_of = |column: usize, block: usize| {
            let known = columns.iter().find(|(other, _)| *other == column);
            known.map(|(_, known)| known.crcs[block])
        };
        loop {
            match self.raid.scrub_stripe(set, stripe, &crc_of).await {
                Err(ReadError::Later(_)) => self.env.sleep(RETRY).await,
                result => return result,
            }
        }
    }

    fn name_of(&self, of: Of) -> String {
        let state = self.lock();
        match of {
            Of::Head(id) => match state.tables.volumes.get(&id) {
                Some(volume) => format!("volume {}", volume.name),
                None => "a volume that was purged".to_owned(),
            },
            Of::Snapshot(_, id) => {
                let version = state.tables.versions.get(&id);
                match version.and_then(|version| version.snapshot.as_ref()) {
                    Some(snapshot) => format!("snapshot {}", snapshot.name),
                    None => "what a deleted volume left".to_owned(),
                }
            }
        }
    }

    /// Blocks that did not match may have been written meanwhile: what counts is whether they can
    /// be read now.
    async fn look_again(
        self: &Arc<Self>,
        columns: &[(usize, Known)],
        scrubbed: &Scrubbed,
        findings: &mut Findings,
    ) {
        for (column, block) in &scrubbed.damaged {
            let Some((_, known)) = columns.iter().find(|(other, _)| other == column) else {
                continue;
            };
            let first = known.cluster * CLUSTER_BLOCKS as u64 + *block as u64;
            if let Err(error) = self.read(known.of, first, 1).await {
                let at = first * crate::BLOCK_BYTES as u64;
                let name = self.name_of(known.of);
                findings.problem(format!("{name} cannot be read at byte {at}: {error}"));
            }
        }
        if scrubbed.refused > 0 {
            findings.problem(format!(
                "{} blocks of copies or parity could not be repaired",
                scrubbed.refused
            ));
        }
    }
}
