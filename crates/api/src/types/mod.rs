//! What travels over the interface, as JSON. Sizes are in bytes, times in seconds since 1970 (UTC).
//!
//! Bodies of requests refuse fields that they do not know; readers of answers should not, as fields
//! may be added.

mod access;
mod array;
mod audit;
mod configuration;
mod connection;
mod destination;
mod disk;
mod event;
mod figures;
mod group;
mod job;
mod login;
mod registrations;
mod reservations;
mod run;
mod schedule;
mod snapshot;
mod spread;
mod transit;
mod volume;

use ::group::handover::SourceSays;
use ::group::membership::{Applicant, Verdict};
use ::group::settings::{Arrival, Departure, SetIntent};
use ::group::spread::{HomeSays, SliceRecord};
use member::slices::Opening;
use member::{
    Answer, ArrivalStep, Begun, DamagedRecord, JoinTicket, Leaving, Piece, Seal, SliceShown,
    SpreadShown, SpreadStep,
};

pub use access::{
    Access, ChapUser, ChapUsers, Entry, HostRecord, Login, NewPolicy, NewSecret, NumberedEntry,
    Policy, PolicyRecord, PolicyUse, Scope, Secret,
};
pub use array::{Array, ArrayChange, CacheMemory, LevelSpace, Report};
pub use audit::{AuditAction, AuditActor, AuditEntry};
pub use configuration::{
    AccessChange, Configuration, ConfigurationChange, NamedAccountChange, NamedDestinationChange,
    NamedHosts, NamedScheduleChange, NewConfiguredVolume, VolumeSetChange,
};
pub use connection::Connection;
pub use destination::{
    ConfiguredDestination, Destination, DestinationChange, DestinationSecret, DestinationTest,
    Email, MailTls, NewDestination, NewEmail, NewWay, NewWebhook, Syslog, SyslogTransport, Way,
    Webhook,
};
pub use disk::{Disk, DiskFailure, DiskReplacement, DiskRole, DiskState, NewDisk};
pub use event::{Event, EventObject, Severity};
pub(crate) use figures::SessionWork;
pub use figures::{
    CoreFigures, DiskFigures, Figures, Latency, PortalFigures, SetFigures, VolumeFigures, Work,
};
pub(crate) use group::KnownGroup;
pub use group::{
    ConnectionsProfile, CreatedJoinToken, Group, GroupCertificate, GroupChange, GroupConnections,
    GroupVolume, JoinGroup, JoinToken, Member, MemberChange, MemberState, NewGroup,
    NewGroupAddress, NewJoinToken, NewPool, Pool, PoolConnections, PoolMerge, ShareSettings,
};
pub use job::{Job, JobKind};
pub use login::{
    Account, AccountChange, CreatedToken, Interface, NewAccount, NewToken, Password, Role, Token,
};
pub use registrations::{Registrant, Registrations};
pub use reservations::{Registration, ReservationType, Reservations};
pub use run::{ArrayWork, Run, RunKind, RunState};
pub use schedule::{
    LastRun, NewSchedule, RunOutcome, Schedule, ScheduleChange, ScheduledVolume, Weekday, When,
};
pub use snapshot::{Clone, Extent, NewSnapshots, Snapshot, SnapshotAccess, SnapshotChange, Space};
pub use spread::{Slice, SliceState, VolumeSlice, VolumeSpread};
pub use transit::{Settlement, Transit, TransitState, TransitWay};
pub use volume::{Cache, Hosts, Level, NewVolume, Volume, VolumeChange, VolumeMove, VolumeState};

/// What is made of one kind of answer.
pub(crate) trait OfAnswer: Sized {
    /// `None` of an answer of another kind.
    fn of_answer(answer: Answer) -> Option<Self>;
}

macro_rules! of_answer {
    ($ours:ty, $kind:ident($held:ident) => $made:expr) => {
        impl OfAnswer for $ours {
            fn of_answer(answer: Answer) -> Option<Self> {
                match answer {
                    Answer::$kind($held) => Some($made),
                    _ => None,
                }
            }
        }
    };
}

/// A list in an answer.
#[derive(Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

/// Nothing but that it was done.
#[derive(Debug)]
pub(crate) struct Nothing;

of_answer!(Volume, Volume(volume) => (*volume).into());
of_answer!(List<Volume>, Volumes(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Reservations, Reservations(reservations) => (*reservations).into());
of_answer!(Snapshot, Snapshot(snapshot) => (*snapshot).into());
of_answer!(List<Snapshot>, Snapshots(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(List<Extent>, Extents(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Disk, Disk(disk) => (*disk).into());
of_answer!(List<Disk>, Disks(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Array, Array(array) => (*array).into());
of_answer!(List<Job>, Jobs(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(List<Connection>, Connections(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Figures, Figures(figures) => (*figures).into());
of_answer!(Access, Access(access) => access.into());
of_answer!(ChapUsers, ChapUsers(users) => users.into());
of_answer!(Policy, Policy(policy) => policy.into());
of_answer!(List<Policy>, Policies(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Account, Account(account) => account.into());
of_answer!(List<Account>, Accounts(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Token, Token(token) => token.into());
of_answer!(List<Token>, Tokens(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Schedule, Schedule(schedule) => (*schedule).into());
of_answer!(List<Schedule>, Schedules(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Destination, Destination(shown) => (*shown).into());
of_answer!(List<Destination>, Destinations(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(KnownGroup, Group(shown) => shown.into());
of_answer!(JoinTicket, JoinTicket(ticket) => ticket);
of_answer!(List<JoinToken>, JoinTickets(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Applicant, Applicant(applicant) => applicant);
of_answer!(List<Member>, Members(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Pool, Pool(pool) => (*pool).into());
of_answer!(List<Pool>, Pools(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(List<GroupVolume>, GroupVolumes(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(Configuration, Configuration(all) => (*all).into());
of_answer!(Report, Report(report) => report.into());
of_answer!(Leaving, Leaving(leaving) => *leaving);
of_answer!(Piece, Piece(piece) => piece);
of_answer!(Seal, Seal(seal) => *seal);
of_answer!(SourceSays, SourceSays(says) => says);
of_answer!(List<Departure>, Departures(all) => List(all));
of_answer!(Verdict, Decided(verdict) => verdict);
of_answer!(bool, SetSettled(is_settled) => is_settled);
of_answer!(List<SetIntent>, Sets(all) => List(all));
of_answer!(List<Transit>, Transits(all) => List(all.into_iter().map(Into::into).collect()));
of_answer!(ArrivalStep, Arrived(step) => step);
of_answer!(List<Arrival>, Arrivals(all) => List(all));
of_answer!(SpreadShown, Spread(shown) => *shown);
of_answer!(List<SpreadShown>, Spreads(all) => List(all));
of_answer!(SpreadStep, SpreadStep(step) => step);
of_answer!(Begun, Begun(begun) => begun);
of_answer!(Opening, Opening(opening) => *opening);
of_answer!(HomeSays, HomeSays(says) => says);
of_answer!(List<SliceShown>, Slices(all) => List(all));
of_answer!(Option<Box<SliceRecord>>, SliceRecord(record) => record);
of_answer!(List<DamagedRecord>, Damaged(all) => List(all));

impl OfAnswer for Nothing {
    fn of_answer(answer: Answer) -> Option<Self> {
        (answer == Answer::Done).then_some(Self)
    }
}

/// The same words on both sides of the border.
macro_rules! same_words {
    ($ours:ident, $theirs:path: $($word:ident),+) => {
        impl From<$theirs> for $ours {
            fn from(theirs: $theirs) -> Self {
                match theirs { $(<$theirs>::$word => Self::$word),+ }
            }
        }

        impl From<$ours> for $theirs {
            fn from(ours: $ours) -> Self {
                match ours { $($ours::$word => Self::$word),+ }
            }
        }
    };
}
use same_words;
