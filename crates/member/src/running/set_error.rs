//! Why snapshots of one moment are not taken with other members, or why what is asked about one of them is refused.

use thiserror::Error;

/// Why nothing came of what was asked about a set of snapshots.
#[derive(Debug, Error)]
pub enum SetError {
    /// It is not known yet whether a snapshot stays.
    #[error(
        "snapshot '{name}' of '{volume}' is being taken together with those of other members, and it is not decided yet \
         whether it stays: {}",
        wait(*.is_driven)
    )]
    Undecided {
        /// The volume.
        volume: String,
        /// The snapshot.
        name: String,
        /// Whether somebody drives its set, as far as is known: that takes seconds.
        is_driven: bool,
    },
    /// A volume of which a snapshot is taken that may not stay.
    #[error(
        "a snapshot of '{volume}' is being taken together with those of other members, and it is not decided yet whether \
         it stays: {}",
        wait(*.is_driven)
    )]
    VolumeUndecided {
        /// The volume.
        volume: String,
        /// Whether somebody drives its set, as far as is known.
        is_driven: bool,
    },
    /// What is stored of sets cannot be read, so that the name may be one of theirs.
    #[error(
        "no snapshot is taken under a name of your own, as it may be that of one which is taken together with those of other \
         members, and that cannot be read: {0}; leave the name out until it can be, as after --open-access"
    )]
    NamesUnknown(String),
    /// What is stored of sets cannot be read, so that the volume may have a part in one.
    #[error(
        "'{volume}' and its snapshots stay as they are, as one may be being taken together with those of other members, and \
         that cannot be read: {why}; bring the disks back, upgrade this member, or, if its settings are lost for good, \
         give them up by --open-access"
    )]
    VolumeUnknown {
        /// The volume.
        volume: String,
        /// Why it is not known.
        why: String,
    },
    /// It is not what it is to become.
    #[error("'{0}' is being made, so that no snapshot of it is taken: wait until it is complete")]
    HalfMade(String),
    /// It moves to another member.
    #[error(
        "'{name}' moves to member '{to}', so that no snapshot of it is taken together with those of other members: wait \
         until it is there"
    )]
    Moves {
        /// The volume.
        name: String,
        /// Where it goes.
        to: String,
    },
    /// More than one moment takes.
    #[error(
        "snapshots of one moment can be taken of {max} volumes of several members at most: name fewer"
    )]
    TooMany {
        /// How many may be.
        max: usize,
    },
    /// Who asks believes this member to be another one.
    #[error("this member is not in that group any more, or is another member of it: ask again")]
    OtherSeat,
    /// Nothing is known of it.
    #[error("this member knows no such set of snapshots, or has settled it: begin again")]
    NoSuch,
    /// The time to take it is over.
    #[error(
        "the snapshots were not taken within the {seconds} s for which hosts may wait: take them when members, \
         their disks and the network between them have less to do"
    )]
    TooLate {
        /// How long it may take.
        seconds: u64,
    },
}

/// What to do about a set that is undecided.
const fn wait(is_driven: bool) -> &'static str {
    match is_driven {
        true => "ask again in some seconds",
        false => {
            "that lasts until the store of the group answers, and, where it is void and disks of the volume are missing, \
             until they are back or the volume is deleted and purged"
        }
    }
}
