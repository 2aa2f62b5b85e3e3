//! From the disks that are named and remembered to an open array.

pub(crate) mod creation;
pub mod disks;
mod error;
mod last_places;
mod survey;

use std::path::PathBuf;
use std::sync::Arc;

use array::{Array, ArrayError, Level, Member, OpenOptions, RingEnv};
use block::BlockError;

use crate::data::DataError;
use crate::data::remembered::{Of, Remembered};
use crate::meters::Meters;
use crate::spec::disk::MemberDisk;
use disks::{Disks, Holds, Seen, check_distinct, trial_files};

pub use error::{Absence, StartError};

/// Who hears of notices.
pub type Tell = fn(&Notice);

/// The same inside of this room.
pub(crate) type Tells<'a> = &'a dyn Fn(&Notice);

/// How an array is made or opened.
#[derive(Debug)]
pub struct Make {
    /// The level of volumes that name none.
    pub raid: Option<Level>,
    /// Disks that were named.
    pub disks: Vec<MemberDisk>,
    /// Disks that were named for the journal alone.
    pub journals: Vec<MemberDisk>,
    /// Open without disks that may know more.
    pub accept_missing: bool,
    /// The directory of the member.
    pub data: PathBuf,
    /// Memory for the cache of blocks.
    pub cache_bytes: u64,
}

/// An array, and the disks that were looked at for it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) array: Array,
    pub(crate) seen: Vec<Seen>,
    pub(crate) absent: Vec<MemberDisk>,
    /// What counts what they do.
    pub(crate) meters: Meters,
}

/// What is not as it should be about a disk: told at once, as it may be why the array does not open.
#[derive(Debug, thiserror::Error)]
pub enum Notice {
    /// It is not there.
    #[error("disk {disk} is missing: {why}")]
    Missing {
        /// As it was named.
        disk: String,
        /// Why.
        why: Absence,
    },
    /// A file is not there, and is not made anew beside an array.
    #[error("disk {0} is missing; it is not made, as the others are an array")]
    NotMade(String),
    /// It holds nothing, and the array has not taken it in.
    #[error("disk {0} is blank and not used")]
    Blank(String),
    /// It was remembered, and holds something else by now.
    #[error("disk {disk} is not used any more: it holds {what}")]
    Foreign {
        /// Its name.
        disk: String,
        /// What it holds, in words.
        what: String,
    },
    /// A making that failed could not take its label off again.
    #[error("disk {disk} keeps a part of a label: {error}")]
    LabelLeft {
        /// Its name.
        disk: String,
        /// Why.
        error: BlockError,
    },
    /// The list of disks does not read in part.
    #[error("{0}")]
    ListDamaged(String),
    /// A disk of the array lies where it was last, and was not named.
    #[error("disk {0} of this array lies where it was last, and is not used, as nobody named it")]
    NotNamed(String),
    /// What is at the last place of a disk that was not named is not that disk, or somebody has it.
    #[error(
        "disk {0} is missing: what is there is not that disk of the array, or cannot be opened"
    )]
    OtherDisk(String),
    /// Which disks the array has could not be written down for the next start.
    #[error("{0}")]
    NotRemembered(DataError),
}

/// Opens the array on the disks, or makes one of disks that hold nothing. Runs on a core.
pub(crate) async fn open(
    make: &Make,
    remembered: &mut Remembered,
    tell: Tells<'_>,
) -> Result<Opened, StartError> {
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
        disks.look_at_remembered(&remembered.disks(of)).await?;
        if let Of::Array(_) = of {
            let first = disks.arrays().first().map(|id| (*id).to_owned());
            if let Some(id) = of.id().map(str::to_owned).or(first) {
                disks.pass_over_others(&id, &named);
            }
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
        last_places::look(&disks, tell).await;
        return open_found(disks, make, tell).await;
    }
    if let Some(of @ Of::Array(_)) = &of {
        let disks = names(&remembered.disks(of));
        return Err(StartError::NothingLeft { data: make.data.clone(), disks });
    }
    let wanted: Vec<MemberDisk> = match make.disks.is_empty() {
        true => trial_files(&make.data).into_iter().chain(make.journals.clone()).collect(),
        false => named,
    };
    let meters = disks.meters.clone();
    let (array, seen) = creation::make(disks, &wanted, (make, tell), remembered).await?;
    Ok(Opened { array, seen, absent: Vec::new(), meters })
}

/// What an operator named must not be written over; what was remembered may have changed hands.
fn refuse_foreign(disks: &Disks) -> Result<(), StartError> {
    for Seen { member, holds, .. } in &disks.seen {
        if let Holds::Foreign(what) = holds {
            return Err(StartError::Foreign { name: member.name.clone(), what: what.clone() });
        }
    }
    Ok(())
}

/// The disks of a member that has none: the files to try it with, unless there are signs that it
/// had others.
async fn usual_disks(make: &Make, remembered: &Remembered) -> Result<Vec<MemberDisk>, StartError> {
    let files = trial_files(&make.data);
    if remembered.last() == Some(&Of::Making) {
        let making = remembered.disks(&Of::Making);
        let is_trial = |disk: &MemberDisk| files.iter().any(|file| file.path() == disk.path());
        if !making.iter().all(is_trial) {
            return Err(StartError::MakingCutOff(names(&making)));
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

async fn open_found(disks: Disks, make: &Make, tell: Tells<'_>) -> Result<Opened, StartError> {
    let Disks { seen, absent, new, meters } = disks;
    // With that word the newest that others have is given up for good.
    let silent = absent.iter().find(|(_, why)| make.accept_missing && why.is_silence());
    if let Some((disk, _)) = silent {
        return Err(StartError::SilentDisk(disk.name()));
    }
    let why_absent = absent.iter().map(|(disk, why)| (disk.name(), why.to_string())).collect();
    let mut missing = Vec::new();
    for (disk, why) in absent {
        tell(&Notice::Missing { disk: disk.to_string(), why });
        missing.push(disk);
    }
    for disk in new {
        tell(&Notice::NotMade(disk.to_string()));
        missing.push(disk);
    }
    let mut members = Vec::new();
    for Seen { member, holds, .. } in &seen {
        match holds {
            Holds::Nothing => tell(&Notice::Blank(member.name.clone())),
            Holds::Foreign(what) => {
                tell(&Notice::Foreign { disk: member.name.clone(), what: what.clone() });
            }
            // The array says what is wrong with it.
            _ => members.push(member.clone()),
        }
    }
    let options = OpenOptions {
        accept_missing: make.accept_missing,
        absent: why_absent,
        block_cache_bytes: make.cache_bytes,
        ..OpenOptions::default()
    };
    let array = open_existing(members, options).await.map_err(|error| {
        let said = error.to_string();
        let mut missing = names(&missing);
        missing.retain(|name| !said.contains(name));
        StartError::Open { error, missing }
    })?;
    match (make.raid, array.info().raid) {
        (Some(asked), is) if asked != is => Err(StartError::OtherLevel(is)),
        _ => Ok(Opened { array, seen, absent: missing, meters }),
    }
}

/// Opens the array on these disks.
///
/// # Errors
/// Why it cannot be opened.
pub async fn open_existing(disks: Vec<Member>, options: OpenOptions) -> Result<Array, ArrayError> {
    Array::open(Arc::new(RingEnv), disks, options).await
}

fn names(disks: &[MemberDisk]) -> Vec<String> {
    disks.iter().map(MemberDisk::name).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn nothing_is_given_up_beside_a_disk_that_does_not_answer() {
        let test = async {
            let silent = MemberDisk::at(Path::new("/dev/silent"));
            let why = Absence::Unreadable(ArrayError::Silent { seconds: 30 });
            let disks = Disks { absent: vec![(silent, why)], ..Disks::default() };
            let make = Make {
                raid: None,
                disks: Vec::new(),
                journals: Vec::new(),
                accept_missing: true,
                data: PathBuf::new(),
                cache_bytes: crate::memory::LEAST_BYTES,
            };
            let refused = open_found(disks, &make, &|_| ()).await.expect_err("it may know more");
            assert!(matches!(&refused, StartError::SilentDisk(disk) if disk == "/dev/silent"));
        };
        ring::block_on(&ring::CoreConfig::default(), test).expect("a core");
    }
}
