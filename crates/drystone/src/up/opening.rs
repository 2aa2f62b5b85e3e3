//! From the disks that are named and remembered to an open array.

use super::creation;
use super::disks::{Disks, Holds, Seen, check_distinct, trial_files};
use super::remembered::{Of, Remembered};
use super::survey;
use crate::spec::member::MemberDisk;
use anyhow::{anyhow, bail};
use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv};
use std::path::PathBuf;
use std::sync::Arc;

/// How an array is made or opened.
#[derive(Debug)]
pub(crate) struct Make {
    /// The level of volumes that name none.
    pub(crate) raid: Option<Level>,
    /// Disks that were named.
    pub(crate) disks: Vec<MemberDisk>,
    /// Disks that were named for the journal alone.
    pub(crate) journals: Vec<MemberDisk>,
    /// Open without disks that may know more.
    pub(crate) accept_missing: bool,
    /// The directory of the member.
    pub(crate) data: PathBuf,
}

/// An array, and the disks that were looked at for it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) array: Array,
    pub(crate) seen: Vec<Seen>,
    pub(crate) absent: Vec<MemberDisk>,
}

/// Opens the array on the disks, or makes one of disks that hold nothing. Runs on a core.
pub(crate) async fn open(make: &Make, remembered: &mut Remembered) -> anyhow::Result<Opened> {
    let named = [&make.disks[..], &make.journals].concat();
    check_distinct(&named)?;
    let mut disks = Disks::default();
    disks.look_at(&named).await?;
    let foreign = refuse_foreign(&disks);
    let of = match disks.arrays().first() {
        Some(id) => Some(Of::Array((*id).to_owned())),
        None => remembered.last().cloned(),
    };
    // What was left of a making that was cut off does not matter to one that names its disks.
    let is_remade = of == Some(Of::Making) && !make.disks.is_empty();
    if let Some(of) = of.as_ref().filter(|_| !is_remade) {
        disks.look_at_remembered(&remembered.disks(of)?).await?;
        if let Of::Array(id) = of {
            disks.pass_over_others(id, &named);
        }
    }
    if disks.arrays().is_empty() {
        // Beside an array it may be a member whose labels have rotted: the others do without it.
        foreign?;
    }
    if disks.arrays().is_empty() && make.disks.is_empty() && !matches!(of, Some(Of::Array(_))) {
        let usual = usual_disks(make, remembered).await?;
        disks.look_at(&usual).await?;
    }
    if !disks.arrays().is_empty() {
        return open_found(disks, make).await;
    }
    if let Some(of @ Of::Array(_)) = &of {
        bail!(nothing_left(make, &remembered.disks(of)?));
    }
    let wanted: Vec<MemberDisk> = match make.disks.is_empty() {
        true => trial_files(&make.data).into_iter().chain(make.journals.clone()).collect(),
        false => named,
    };
    let (array, seen) = creation::make(disks, &wanted, make, remembered).await?;
    Ok(Opened { array, seen, absent: Vec::new() })
}

/// What an operator named must not be written over; what was remembered may have changed hands.
fn refuse_foreign(disks: &Disks) -> anyhow::Result<()> {
    for Seen { member, holds, .. } in &disks.seen {
        if let Holds::Foreign(what) = holds {
            bail!(
                "'{0}' holds {what}: leave it out, or give that up for good ('drystone disk wipe --foreign {0}')",
                member.name
            );
        }
    }
    Ok(())
}

/// The disks of a member that has none: the files to try it with, unless there are signs that it
/// had others.
async fn usual_disks(make: &Make, remembered: &Remembered) -> anyhow::Result<Vec<MemberDisk>> {
    let files = trial_files(&make.data);
    if remembered.last() == Some(&Of::Making) {
        let making = remembered.disks(&Of::Making)?;
        let is_trial = |disk: &MemberDisk| files.iter().any(|file| file.path() == disk.path());
        if !making.iter().all(is_trial) {
            bail!(
                "the making of an array of {} was cut off: run the same command again, with the disks behind --disk",
                names(&making)
            );
        }
        return Ok(files);
    }
    if files.iter().all(MemberDisk::is_new) {
        remembered.check()?;
        survey::refuse_if_used(&make.data).await?;
        tracing::info!(
            "no disks are named, and '{}' remembers none: files in it stand in for disks",
            make.data.display()
        );
        return Ok(files);
    }
    // The list is lost and files are there: one that is not there must not be made anew.
    Ok(files.into_iter().filter(|file| !file.is_new()).collect())
}

async fn open_found(disks: Disks, make: &Make) -> anyhow::Result<Opened> {
    let Disks { seen, absent, new } = disks;
    for (disk, why) in &absent {
        tracing::warn!("disk {disk} is missing: {why}");
    }
    for disk in &new {
        tracing::warn!(
            "disk {disk} is missing; it is not made, as the others are an array: 'drystone disk add {disk}' makes it and takes it in"
        );
    }
    let mut members = Vec::new();
    for Seen { member, holds, .. } in &seen {
        match holds {
            Holds::Nothing => tracing::warn!(
                "disk {0} is blank and not used: 'drystone disk add {0}' takes it in",
                member.name
            ),
            Holds::Foreign(what) => {
                tracing::warn!("disk {} is not used any more: it holds {what}", member.name);
            }
            // The array says what is wrong with it.
            _ => members.push(member.clone()),
        }
    }
    let why_absent = absent.iter().map(|(disk, why)| (disk.name(), why.clone())).collect();
    let options = OpenOptions {
        accept_missing: make.accept_missing,
        absent: why_absent,
        ..OpenOptions::default()
    };
    let missing: Vec<MemberDisk> = absent.into_iter().map(|(disk, _)| disk).chain(new).collect();
    let array = open_existing(members, options).await.map_err(|error| {
        let said = format!("{error:#}");
        let unsaid: Vec<MemberDisk> =
            missing.iter().filter(|disk| !said.contains(&disk.name())).cloned().collect();
        match unsaid.is_empty() {
            true => error,
            false => anyhow!("{said} (not found: {})", names(&unsaid)),
        }
    })?;
    match (make.raid, array.info().raid) {
        (Some(asked), is) if asked != is => bail!(
            "the array on these disks has {is}: leave out --raid, or write it with 'volume create'"
        ),
        _ => Ok(Opened { array, seen, absent: missing }),
    }
}

/// Opens the array on these disks.
pub(crate) async fn open_existing(
    disks: Vec<Member>,
    options: OpenOptions,
) -> anyhow::Result<Array> {
    let array = Array::open(Arc::new(RingEnv), disks, options).await;
    array.map_err(|error| match &error {
        ArrayError::Incomplete(refusal) if refusal.can_be_accepted() => anyhow!(
            "cannot open the array: {error}; if they are gone for good, --accept-missing opens it without them ('drystone up --help' says what that costs)"
        ),
        _ => anyhow!("cannot open the array: {error}"),
    })
}

/// Why no array is made although no disk of one is there.
fn nothing_left(make: &Make, disks: &[MemberDisk]) -> String {
    let data = make.data.display();
    format!(
        "no disk of the array that '{data}' remembers is there ({}): bring them back or name them with --disk; \
         a new array needs its own --data, or remove '{data}/disks' if the old one is gone for good",
        names(disks)
    )
}

fn names(disks: &[MemberDisk]) -> String {
    let names: Vec<String> = disks.iter().map(|disk| format!("'{}'", disk.name())).collect();
    names.join(", ")
}
