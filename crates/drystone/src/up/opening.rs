//! From disks to an open array.

use anyhow::{Context, anyhow, bail};
use array::label::Found;
use array::{Array, CreateOptions, Level, Member, OpenOptions, RingEnv, probe};
use std::sync::Arc;

/// How an array is made.
#[derive(Debug, Default)]
pub(crate) struct Make {
    /// The level of volumes that name none.
    pub(crate) raid: Option<Level>,
    /// Names of the disks that are for the journal alone.
    pub(crate) journals: Vec<String>,
}

/// Makes an array of blank disks, or opens the one that is on them. Runs on a core.
pub(crate) async fn open(disks: Vec<Member>, make: &Make) -> anyhow::Result<Array> {
    let mut blank = Vec::new();
    let mut used = Vec::new();
    for disk in disks {
        match probe(&*disk.device).await {
            Ok(Found::Blank) => blank.push(disk),
            Ok(Found::Foreign(what)) => bail!(
                "'{}' holds {what}: leave it out, or wipe it first if nobody needs it (wipefs -a)",
                disk.name
            ),
            // The array says what is wrong with it.
            Ok(_) => used.push(disk),
            Err(error) => tracing::warn!("disk {} is left out: {error}", disk.name),
        }
    }
    if used.is_empty() {
        return create(blank, make).await;
    }
    for disk in &blank {
        tracing::warn!(
            "disk {0} is blank and not used: 'drystone disk add {0}' takes it in",
            disk.name
        );
    }
    let array = open_existing(used).await?;
    match (make.raid, array.info().raid) {
        (Some(asked), is) if asked != is => bail!(
            "the array on these disks has {is}: leave out --raid, or write it with 'volume create'"
        ),
        _ => Ok(array),
    }
}

async fn create(blank: Vec<Member>, make: &Make) -> anyhow::Result<Array> {
    let is_journal = |disk: &Member| make.journals.contains(&disk.name);
    let (journal, disks): (Vec<_>, Vec<_>) = blank.into_iter().partition(is_journal);
    if disks.is_empty() {
        bail!("no disk can be read: name others with --disk");
    }
    let usual = if disks.len() == 1 { Level::Raid0 } else { Level::Raid10 };
    let level = make.raid.unwrap_or(usual);
    let options = CreateOptions { level, journal, ..CreateOptions::default() };
    let count = disks.len();
    let array = Array::create(Arc::new(RingEnv), disks, options).await;
    let array = array.map_err(|error| anyhow!(error))?;
    tracing::info!("made an array of {count} disks, {level}");
    Ok(array)
}

/// Opens the array on these disks.
pub(crate) async fn open_existing(disks: Vec<Member>) -> anyhow::Result<Array> {
    let array = Array::open(Arc::new(RingEnv), disks, OpenOptions::default()).await;
    array.context("cannot open the array")
}
