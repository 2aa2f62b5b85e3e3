//! Making an array.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;

use super::{Member, OpenOptions, find};
use crate::DiskId;
use crate::checkpoint::marks::Marks;
use crate::checkpoint::slots::write_slot;
use crate::core::{HOLDERS, Image};
use crate::engine::Payload;
use crate::env::Env;
use crate::error::ArrayError;
use crate::journal::Mark;
use crate::label::{
    self, ArrayId, ChangeId, Found, Label, Layout, MemberKind, MemberRecord, MemberState,
};
use crate::manage::Array;
use crate::tables::Tables;
use crate::{Epoch, Level};

/// What an array is made like.
#[derive(Debug, Clone)]
pub struct CreateOptions {
    /// Level of volumes that name none.
    pub level: Level,
    /// Size of chunks; `None` chooses by the size of the disks.
    pub chunk_bytes: Option<u64>,
    /// Blank disks for the journal alone: one, or two that mirror each other. If the only one is
    /// lost, so are the changes that were not in their places yet.
    pub journal: Vec<Member>,
    /// How it is opened afterwards.
    pub open: OpenOptions,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            level: Level::Raid10,
            chunk_bytes: None,
            journal: Vec::new(),
            open: OpenOptions::default(),
        }
    }
}

impl Array {
    /// Makes an array of blank disks, and opens it.
    ///
    /// # Errors
    /// [`ArrayError::Refused`] with the disk and the reason, [`ArrayError::TooFewDisks`]; then
    /// nothing was written.
    pub async fn create(
        env: Arc<dyn Env>,
        disks: Vec<Member>,
        options: CreateOptions,
    ) -> Result<Self, ArrayError> {
        let data = disks.len();
        let disks: Vec<Member> = disks.into_iter().chain(options.journal).collect();
        for (name, found) in find(&*env, &disks).await {
            check_blank(&name, &found)?;
        }
        check_count(data, options.level)?;
        let sizes: Vec<u64> = disks.iter().map(size_of).collect();
        let layout = Layout::choose(&sizes[..data], options.chunk_bytes);
        let layout = layout.map_err(|error| ArrayError::Refused(error.to_string()))?;
        for (disk, size) in disks.iter().zip(&sizes).skip(data) {
            let refuse = |error| ArrayError::Refused(format!("{}: {error}", disk.name));
            layout.check_journal_disk(*size).map_err(refuse)?;
        }
        let names: Vec<String> = disks.iter().map(|disk| disk.name.clone()).collect();
        let label = new_label(&*env, layout, &sizes, data, &names);
        // Generation 0: should this be cut off, nobody takes it for an array.
        write_all(&disks, &label).await?;
        let payload = Payload {
            number: 1,
            mark: Mark::default(),
            since: Mark::default(),
            kept: BTreeMap::new(),
            marks: Marks::new(),
            epoch: Epoch(1),
            next_version: 1,
            next_set: 1,
            level: options.level,
            // Nothing is on it that could be scrubbed.
            tables: Tables { scrubbed_unix_seconds: env.unix_seconds(), ..Tables::default() },
            sets: Vec::new(),
            space: Image::new(),
        };
        let holders: Vec<_> =
            disks[..data].iter().take(HOLDERS).map(|disk| Arc::clone(&disk.device)).collect();
        let written =
            write_slot(&holders, &layout, label.array, (1, &payload.encode()), &|_, _| {}).await;
        let written = written.map_err(|error| ArrayError::Refused(error.to_string()))?;
        written.into_iter().collect::<Result<Vec<()>, _>>()?;
        let change = ChangeId(env.random());
        let label = Label { generation: 1, change, ancestors: vec![label.change], ..label };
        write_all(&disks, &label).await?;
        Self::open(env, disks, options.open).await
    }
}

fn size_of(disk: &Member) -> u64 {
    disk.device.geometry().size_bytes()
}

fn check_blank(name: &str, found: &Found) -> Result<(), ArrayError> {
    let what = match found {
        Found::Blank => return Ok(()),
        Found::Label { label, .. } => format!("belongs to array {}", label.array),
        Found::Foreign(what) => format!("holds {what}"),
        Found::Version(_) | Found::Damaged(_) => "was a disk of an array".to_owned(),
    };
    let way_out = "give a blank disk, or wipe this one if nothing on it is needed";
    Err(ArrayError::Refused(format!("{name} {what}: {way_out}")))
}

fn check_count(disks: usize, level: Level) -> Result<(), ArrayError> {
    if disks >= level.disks_min() {
        return Ok(());
    }
    let fitting = Level::ALL.into_iter().filter(|other| other.disks_min() <= disks);
    let other = fitting.max_by_key(|other| other.losses_max()).unwrap_or(Level::Raid0);
    Err(ArrayError::TooFewDisks { level, needed: level.disks_min(), usable: disks, other })
}

/// The label of an array whose first `data` disks hold data, and the others the journal.
fn new_label(env: &dyn Env, layout: Layout, sizes: &[u64], data: usize, names: &[String]) -> Label {
    let members = sizes.iter().enumerate().map(|(index, size)| MemberRecord {
        disk: DiskId(index as u16),
        uuid: random_id(env),
        size_bytes: *size,
        state: MemberState::Active,
        kind: if index < data { MemberKind::Data } else { MemberKind::Journal },
        name: names[index].clone(),
    });
    let disks = |range: std::ops::Range<usize>| range.map(|index| DiskId(index as u16));
    let holders: Vec<DiskId> = disks(0..data.min(HOLDERS)).collect();
    let own: Vec<DiskId> = disks(data..sizes.len()).collect();
    Label {
        array: ArrayId(random_id(env)),
        generation: 0,
        change: ChangeId(env.random()),
        ancestors: Vec::new(),
        went_out: Vec::new(),
        disk: DiskId(0),
        layout,
        members: members.collect(),
        journal: if own.is_empty() { holders.clone() } else { own },
        holders,
    }
}

pub(crate) fn random_id(env: &dyn Env) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&env.random().to_le_bytes());
    id[8..].copy_from_slice(&env.random().to_le_bytes());
    id
}

async fn write_all(disks: &[Member], label: &Label) -> Result<(), ArrayError> {
    let writes = disks.iter().enumerate().map(|(index, disk)| async move {
        let own = label.for_disk(DiskId(index as u16));
        let written = label::write(&*disk.device, &own).await;
        written.map_err(|error| ArrayError::Refused(format!("{}: {error}", disk.name)))
    });
    join_all(writes).await.into_iter().collect()
}
