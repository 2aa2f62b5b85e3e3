//! Why a volume does not move to another member, or why what is asked about one that does is refused.

use std::io;

use group::membership::PlacementError;
use thiserror::Error;

/// Why nothing came of what was asked about a move.
#[derive(Debug, Error)]
pub enum MoveError {
    /// A volume was to move to the member that has it.
    #[error("'{0}' is on that member already")]
    Here(String),
    /// No member takes it.
    #[error("'{name}' stays where it is: {why}")]
    Nowhere {
        /// The volume.
        name: String,
        /// Why none does.
        why: PlacementError,
    },
    /// The pool has no other member.
    #[error(
        "'{name}' stays where it is, as the pool '{pool}' has no other member: name the member or the pool that it is to go to"
    )]
    Alone {
        /// The volume.
        name: String,
        /// The pool.
        pool: String,
    },
    /// The destination gives no signs of life.
    #[error("'{name}' cannot move to '{member}', which is away: wait until it is back")]
    Away {
        /// The volume.
        name: String,
        /// The destination.
        member: String,
    },
    /// Who may use the volume is not the same there.
    #[error(
        "'{name}' cannot move, as the member '{member}' keeps settings of its own: have it share those of the group first"
    )]
    KeepsOwn {
        /// The volume.
        name: String,
        /// Which of the two members.
        member: String,
    },
    /// Its hosts would not all be let in there.
    #[error(
        "'{name}' cannot move into the pool '{pool}': hosts have {has} connections to it, and of the {limit} that the pool \
         takes {left} are free: have hosts log out there, or raise its limit ('drystone pool set {pool} --connections N')"
    )]
    PoolFull {
        /// The volume.
        name: String,
        /// The pool of the destination.
        pool: String,
        /// How many it takes.
        limit: u32,
        /// How many of those are free.
        left: u64,
        /// How many hosts have to the volume.
        has: u64,
    },
    /// Who may use it would not be the same there.
    #[error(
        "'{0}' cannot move, as it has no access list, and the two members are not started with one rule for such volumes that \
         means the same on both: give it an access list first"
    )]
    WithoutList(String),
    /// The destination has told of a volume of the name, or of one that is the same to hosts.
    #[error(
        "'{name}' cannot move to '{member}', which has a volume of that name: rename or purge one of them first"
    )]
    NameThere {
        /// The volume.
        name: String,
        /// The destination.
        member: String,
    },
    /// The group has not promised the name of the volume to its member.
    #[error(
        "'{0}' cannot move, as the group has not promised its name to this member: rename it if another member has a volume \
         of that name, else try again in a minute"
    )]
    NameNotHeld(String),
    /// No host has it any more, and what it is was sent.
    #[error(
        "'{name}' is being handed over to the member '{to}' and cannot be changed until that is done"
    )]
    Leaving {
        /// The volume.
        name: String,
        /// The destination.
        to: String,
    },
    /// It is another member's, of which not all have heard.
    #[error(
        "'{name}' is the member '{to}''s now, which has not told all others of it yet: ask again in some seconds, or when that \
         member is back"
    )]
    MovedAway {
        /// The volume.
        name: String,
        /// Where it is.
        to: String,
    },
    /// It moves.
    #[error("'{name}' is being moved to '{to}': wait for the end of that, or cancel it")]
    MovesAlready {
        /// The volume.
        name: String,
        /// The destination.
        to: String,
    },
    /// A schedule takes snapshots of it here.
    #[error(
        "'{name}' cannot move while the schedule '{schedule}' names it: take it out of the schedule first, and make one for \
         it where it is afterwards"
    )]
    Scheduled {
        /// The volume.
        name: String,
        /// The schedule.
        schedule: String,
    },
    /// Hosts may use a snapshot of it, or have written to one.
    #[error(
        "'{name}' cannot move, as its snapshot '{snapshot}' is online or holds what hosts wrote to it: take that offline, \
         make a clone of it if what was written is needed, and delete it"
    )]
    SnapshotServed {
        /// The volume.
        name: String,
        /// The snapshot.
        snapshot: String,
    },
    /// A host erases it.
    #[error("'{0}' cannot move before its SANITIZE has ended well")]
    Sanitized(String),
    /// It is not yet what it is to become.
    #[error("'{0}' is half made, and cannot move before that is done")]
    HalfMade(String),
    /// Its disks are missing.
    #[error("'{0}' cannot move while its disks are missing")]
    Lost(String),
    /// Hosts write as much as is sent.
    #[error(
        "'{name}' stays where it is, as hosts write to it as fast as it is sent, and would wait too long for the \
         last {missing_bytes} bytes: move it when they write less"
    )]
    NotCaughtUp {
        /// The volume.
        name: String,
        /// What hosts wrote during the last round.
        missing_bytes: u64,
    },
    /// The destination has no room for it.
    #[error(
        "'{name}' needs {asked_mib} MiB with its snapshots and what else comes there, and {free_mib} MiB are free for it: make \
         room there, or name another member"
    )]
    NoRoom {
        /// The volume.
        name: String,
        /// What is free for it.
        free_mib: u64,
        /// What is needed.
        asked_mib: u64,
    },
    /// An operator wants to keep it, and its name is another volume's.
    #[error(
        "'{name}' cannot be kept, as the member '{member}' has a volume of that name: rename that one first"
    )]
    NameToKeep {
        /// The volume.
        name: String,
        /// Who has the name.
        member: String,
    },
    /// An operator wants to keep it, and another member has that very volume.
    #[error(
        "'{name}' cannot be kept, as the member '{member}' has told that it has that volume, by its serial number: look there, \
         and discard this part if it is there; if that member is gone for good, remove it from the group first"
    )]
    HasItNow {
        /// The volume.
        name: String,
        /// Who has it.
        member: String,
    },
    /// The snapshots of the move take up what is free.
    #[error(
        "'{name}' stays where it is, as what hosts write over while it moves would fill the array, which has {free_bytes} bytes \
         left: make room there, or move it when they write less"
    )]
    NoRoomToGoOn {
        /// The volume.
        name: String,
        /// What is left of the room.
        free_bytes: u64,
    },
    /// It has nearly as many snapshots as a volume may have, and a move takes two more.
    #[error("'{name}' cannot move with more than {max} snapshots: delete some of them first")]
    TooManySnapshots {
        /// The volume.
        name: String,
        /// How many it may have.
        max: usize,
    },
    /// As many move as may.
    #[error("this member takes part in {max} moves already: wait for the end of one")]
    TooMany {
        /// How many may.
        max: usize,
    },
    /// The member has left its group, or is another one there, while it took over a volume.
    #[error(
        "'{0}' is not served, as this member has left its group, or is another member of it, since it took the name of \
         that volume: ask again"
    )]
    SeatChanged(String),
    /// The group decides about the move, so nobody else does.
    #[error(
        "the group decides where '{0}' is, and that goes on by itself: wait until its store and the other member answer"
    )]
    GroupDecides(String),
    /// The group decides nothing about it any more.
    #[error("where '{name}' is only an operator decides now, who is to settle its move: {why}")]
    NotDecided {
        /// The volume.
        name: String,
        /// Why the group does not.
        why: String,
    },
    /// Nothing is known of the move here.
    #[error("no move of the number {0} is under way here")]
    NoSuch(String),
    /// What is asked for comes before or behind something else.
    #[error("the move of '{name}' is not at the step for that: it is {step}")]
    OutOfStep {
        /// The volume.
        name: String,
        /// At which it is.
        step: &'static str,
    },
    /// What was sent is not what there is.
    #[error("'{name}' stays where it is, as it was changed while it was moved: {what}")]
    Changed {
        /// The volume.
        name: String,
        /// What has changed.
        what: String,
    },
    /// The store does not say whose the volume is.
    #[error(
        "whether '{name}' is handed over to '{to}' is not known, so that it is served to nobody until the group's store says \
         so: {why}"
    )]
    Unsure {
        /// The volume.
        name: String,
        /// The destination.
        to: String,
        /// Why not.
        why: String,
    },
    /// What came of a volume cannot be what its source has.
    #[error("what came of the volume is not taken: {0}")]
    BadPiece(String),
    /// Only members give volumes away, and to others.
    #[error("'{0}' is not taken, as it does not come from another member of the group")]
    NotFromMember(String),
    /// It is this member's, and not on its disks.
    #[error(
        "'{0}' was given to this member, and its copy is not on the array: connect all disks that the array had, or \
         discard this part; the source keeps what it has until then"
    )]
    ArrivalMissing(String),
    /// A later version has stored it.
    #[error("what is stored of the move {id} cannot be used: {why}")]
    ArrivalUnreadable {
        /// The number of the move.
        id: String,
        /// Why not.
        why: String,
    },
    /// What hosts have reserved is not known.
    #[error("'{name}' stays where it is, as its reservations cannot be read: {source}")]
    UnitUnreadable {
        /// The volume.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A name that snapshots of moves have.
    #[error("'{0}' is a name that snapshots have which a move takes: choose another")]
    NameOfMove(String),
}
