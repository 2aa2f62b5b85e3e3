//! Which array is opened, and which of its disks can be relied on.

use super::{ArrayId, Found, Label, MemberState};
use crate::DiskId;

/// A disk that was given and is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// Where it stands in the list that was given.
    pub index: usize,
    /// Its number.
    pub disk: DiskId,
}

/// The array that is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The newest label, as the first current disk carries or should carry it.
    pub label: Label,
    /// Disks that hold everything.
    pub current: Vec<Present>,
    /// Disks that lack what changed after the checkpoint given.
    pub stale: Vec<(Present, u64)>,
    /// Members that should be there and are not.
    pub missing: Vec<DiskId>,
    /// Disks that were given and are not used, with the reason; nothing may be written to them.
    pub foreign: Vec<(usize, String)>,
    /// Current or stale disks whose labels are not both the newest.
    pub rewrite: Vec<Present>,
}

/// Why no array is opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenRefusal {
    /// None of the disks has a label.
    #[error("no disk of an array is among the {disks} given{}", first_reason(.first))]
    NoArray {
        /// How many were given.
        disks: usize,
        /// What the first one is.
        first: Option<(String, String)>,
    },
    /// Disks of two arrays.
    #[error(
        "{a} belongs to array {array_a}, but {b} to array {array_b}: give the disks of one array"
    )]
    TwoArrays {
        /// A disk.
        a: String,
        /// Its array.
        array_a: ArrayId,
        /// Another disk.
        b: String,
        /// Its array.
        array_b: ArrayId,
    },
    /// Two disks say that they are the same.
    #[error(
        "{a} and {b} both are disk {} of array {array}: one is a copy of the other, or the same \
         disk was given twice; leave one out", .disk.0
    )]
    SameDisk {
        /// A disk.
        a: String,
        /// Another one.
        b: String,
        /// What both say they are.
        disk: DiskId,
        /// Their array.
        array: ArrayId,
    },
    /// The array was never finished.
    #[error(
        "array {array} on {name} was not finished when it was made and holds no data: make it anew"
    )]
    HalfMade {
        /// A disk of it.
        name: String,
        /// The array.
        array: ArrayId,
    },
    /// A newer program wrote the disk.
    #[error(
        "{name} has format version {version}, this program reads version {}: \
         use the program that wrote it",
        super::FORMAT_VERSION
    )]
    Version {
        /// A disk.
        name: String,
        /// Its version.
        version: u32,
    },
    /// Two parts of the array went on without each other.
    #[error(
        "{a} and {b} carry different labels of the same generation {generation}, and neither \
         label is on most of the disks: add the missing disks"
    )]
    Split {
        /// A disk.
        a: String,
        /// Another one.
        b: String,
        /// Their generation.
        generation: u64,
    },
    /// Too few disks to know that none is newer.
    #[error(
        "only {present} of the {active} disks of array {array} are there (missing: {}): add them, \
         or accept the loss of what only they know with --accept-missing", numbers(.missing)
    )]
    NoMajority {
        /// The array.
        array: ArrayId,
        /// Active members that are there.
        present: usize,
        /// All active members.
        active: usize,
        /// Those that are not.
        missing: Vec<DiskId>,
    },
    /// Too few disks with the journal.
    #[error(
        "only {present} of the {holders} disks with the journal of array {array} are there \
         (missing: {}): add {}", numbers(.missing),
         if *.present == 0 { "one of them" } else { "them, or use --accept-missing" }
    )]
    NoHolders {
        /// The array.
        array: ArrayId,
        /// Holders that are there.
        present: usize,
        /// All holders.
        holders: usize,
        /// Those that are not.
        missing: Vec<DiskId>,
    },
}

fn numbers(disks: &[DiskId]) -> String {
    let words: Vec<String> = disks.iter().map(|disk| format!("disk {}", disk.0)).collect();
    words.join(", ")
}

fn first_reason(first: &Option<(String, String)>) -> String {
    first.as_ref().map_or(String::new(), |(name, reason)| format!(": {name} is {reason}"))
}

/// A disk with a label, as it was given.
struct Carrier<'a> {
    index: usize,
    name: &'a str,
    label: &'a Label,
    rewrite: bool,
}

/// Decides which array the disks `found` (name and contents, in any order) make up.
///
/// The label of the highest generation says who is a member and in which state, also of disks
/// that carry an older one: a generation is written to all disks that are there before anything
/// relies on it, so a disk that an interrupted change did not reach has missed nothing.
///
/// `accept_missing` opens with less than a majority: of active members, because one that is
/// missing may know of a newer generation; of holders, as long as one is there.
///
/// # Errors
/// [`OpenRefusal`], one sentence with the disk and the way out.
pub fn choose(found: &[(String, Found)], accept_missing: bool) -> Result<Membership, OpenRefusal> {
    let mut carriers = Vec::new();
    let mut foreign = Vec::new();
    for (index, (name, found)) in found.iter().enumerate() {
        match found {
            Found::Label { label, rewrite } => {
                carriers.push(Carrier { index, name, label, rewrite: *rewrite });
            }
            Found::Version(version) => {
                return Err(OpenRefusal::Version { name: name.clone(), version: *version });
            }
            Found::Blank => foreign.push((index, "blank".to_owned())),
            Found::Foreign(what) => foreign.push((index, what.clone())),
            Found::Damaged(why) => foreign.push((index, format!("damaged: {why}"))),
        }
    }
    let Some(first) = carriers.first() else {
        let first = foreign.first().map(|(index, why)| (found[*index].0.clone(), why.clone()));
        return Err(OpenRefusal::NoArray { disks: found.len(), first });
    };
    one_array_of_distinct_disks(first, &carriers)?;
    let label = newest(&carriers)?;
    if label.generation == 0 {
        return Err(OpenRefusal::HalfMade { name: first.name.to_owned(), array: label.array });
    }
    let membership = sort_out(label, &carriers, foreign);
    check_majorities(&membership, accept_missing)?;
    Ok(membership)
}

fn one_array_of_distinct_disks(first: &Carrier, all: &[Carrier]) -> Result<(), OpenRefusal> {
    for (at, carrier) in all.iter().enumerate() {
        if carrier.label.array != first.label.array {
            return Err(OpenRefusal::TwoArrays {
                a: first.name.to_owned(),
                array_a: first.label.array,
                b: carrier.name.to_owned(),
                array_b: carrier.label.array,
            });
        }
        let same = |other: &&Carrier| other.label.disk == carrier.label.disk;
        if let Some(other) = all[..at].iter().find(same) {
            return Err(OpenRefusal::SameDisk {
                a: other.name.to_owned(),
                b: carrier.name.to_owned(),
                disk: carrier.label.disk,
                array: carrier.label.array,
            });
        }
    }
    Ok(())
}

/// The label of the highest generation.
///
/// Two different ones of that generation mean that a change was cut off before anything relied
/// on it, and that the rest of the array then made another one without the disks it had reached.
/// The rest was a majority, so the label on most of the disks that either counts as active is the
/// one that was relied on.
fn newest<'a>(carriers: &[Carrier<'a>]) -> Result<&'a Label, OpenRefusal> {
    let generation = carriers.iter().map(|carrier| carrier.label.generation).max().unwrap_or(0);
    let top: Vec<&Carrier> =
        carriers.iter().filter(|carrier| carrier.label.generation == generation).collect();
    let first = top.first().expect("some carrier has the highest generation");
    let Some(rival) = top.iter().find(|carrier| !carrier.label.agrees(first.label)) else {
        return Ok(first.label);
    };
    let mut voters: Vec<DiskId> = top.iter().flat_map(|carrier| carrier.label.active()).collect();
    voters.sort_unstable();
    voters.dedup();
    let votes = |label: &Label| {
        let agree = |carrier: &&&Carrier| {
            carrier.label.agrees(label) && voters.contains(&carrier.label.disk)
        };
        top.iter().filter(agree).count()
    };
    let elected = top.iter().find(|carrier| votes(carrier.label) * 2 > voters.len());
    elected.map(|carrier| carrier.label).ok_or_else(|| OpenRefusal::Split {
        a: first.name.to_owned(),
        b: rival.name.to_owned(),
        generation,
    })
}

fn sort_out(label: &Label, carriers: &[Carrier], foreign: Vec<(usize, String)>) -> Membership {
    let mut membership = Membership {
        label: label.clone(),
        current: Vec::new(),
        stale: Vec::new(),
        missing: Vec::new(),
        foreign,
        rewrite: Vec::new(),
    };
    for carrier in carriers {
        let present = Present { index: carrier.index, disk: carrier.label.disk };
        let state = match label.member(present.disk) {
            None => Err("not a member of its array any more"),
            Some(record) if record.uuid != carrier.label.own().uuid => {
                Err("another disk than the one of its number")
            }
            Some(record) => Ok(record.state),
        };
        match state {
            Ok(MemberState::Active) => membership.current.push(present),
            Ok(MemberState::Stale { since_checkpoint }) => {
                membership.stale.push((present, since_checkpoint));
            }
            Ok(MemberState::Failed) => membership.put_aside(present, "a member that failed"),
            Ok(MemberState::Retired) => membership.put_aside(present, "a member that was retired"),
            Err(why) => membership.put_aside(present, why),
        }
        let used = matches!(state, Ok(MemberState::Active | MemberState::Stale { .. }));
        if used && (carrier.rewrite || !carrier.label.agrees(label)) {
            membership.rewrite.push(present);
        }
    }
    membership.missing = label
        .members
        .iter()
        .filter(|record| matches!(record.state, MemberState::Active | MemberState::Stale { .. }))
        .map(|record| record.disk)
        .filter(|disk| !membership.uses(*disk))
        .collect();
    if let Some(present) = membership.current.first() {
        membership.label.disk = present.disk;
    }
    membership
}

impl Membership {
    fn put_aside(&mut self, present: Present, why: &str) {
        self.foreign.push((present.index, why.to_owned()));
    }

    fn uses(&self, disk: DiskId) -> bool {
        let stale = self.stale.iter().map(|(present, _)| present);
        self.current.iter().chain(stale).any(|present| present.disk == disk)
    }

    fn is_current(&self, disk: DiskId) -> bool {
        self.current.iter().any(|present| present.disk == disk)
    }
}

fn check_majorities(membership: &Membership, accept_missing: bool) -> Result<(), OpenRefusal> {
    let label = &membership.label;
    let away = |disk: &DiskId| !membership.is_current(*disk);
    let active = label.active().count();
    let present = membership.current.len();
    assert!(present <= active, "only active members are current");
    if present * 2 <= active && !accept_missing {
        return Err(OpenRefusal::NoMajority {
            array: label.array,
            present,
            active,
            missing: label.active().filter(away).collect(),
        });
    }
    let missing: Vec<DiskId> = label.holders.iter().copied().filter(away).collect();
    let holders = label.holders.len();
    let present = holders - missing.len();
    if present == 0 || (present * 2 <= holders && !accept_missing) {
        return Err(OpenRefusal::NoHolders { array: label.array, present, holders, missing });
    }
    Ok(())
}
