//! What a running member answers.

use std::net::SocketAddr;
use std::time::Instant;

use array::api::{
    ArrayFigures, ArrayInfo, ChangedExtent, CheckReport, DiskInfo, JobInfo, SnapshotInfo,
    SpaceInfo, VolumeInfo,
};
use block::Latency;
use group::handover::SourceSays;
use group::membership::{Applicant, Verdict};
use group::settings::{Arrival, Departure, NotThere, SetIntent};
use group::spread::{HomeSays, SliceRecord};
use target::{
    ConnectionInfo, CoreFigures, PortalFigures, ReservationsInfo, UnitFigures, UnitInfo,
    WorkFigures,
};

use crate::access_request::{ChapUsers, PolicyShown, VolumeAccess};
use crate::destination_request::DestinationShown;
use crate::group_request::{
    Admission, GroupShown, JoinTicket, KeptTicket, MemberShown, PoolShown, VolumeOfMember,
};
use crate::login_request::{AccountShown, TokenShown};
use crate::meters::Counted;
use crate::move_request::{ArrivalStep, Leaving, Piece, Seal, Transit};
use crate::schedule_request::ScheduleShown;
use crate::settings::{DamagedRecord, Hosts};
use crate::slices::Opening;
use crate::spread_request::{Begun, SliceShown, SpreadShown, SpreadStep};

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Done,
    /// A volume.
    Volume(Box<Volume>),
    /// Volumes.
    Volumes(Vec<Volume>),
    /// The reservations of a volume.
    Reservations(Box<Reservations>),
    /// A snapshot.
    Snapshot(Box<Snapshot>),
    /// Snapshots.
    Snapshots(Vec<Snapshot>),
    /// What differs.
    Extents(Vec<ChangedExtent>),
    /// A disk.
    Disk(Box<DiskInfo>),
    /// Disks.
    Disks(Vec<DiskInfo>),
    /// The array.
    Array(Box<ArrayInfo>),
    /// What runs in the background.
    Jobs(Vec<JobInfo>),
    /// Who is connected.
    Connections(Vec<Connection>),
    /// What hosts have had done.
    Figures(Box<Figures>),
    /// Who may use a volume.
    Access(VolumeAccess),
    /// CHAP users.
    ChapUsers(ChapUsers),
    /// A policy.
    Policy(PolicyShown),
    /// Policies.
    Policies(Vec<PolicyShown>),
    /// An account.
    Account(AccountShown),
    /// Accounts.
    Accounts(Vec<AccountShown>),
    /// A token.
    Token(TokenShown),
    /// Tokens.
    Tokens(Vec<TokenShown>),
    /// A snapshot schedule.
    Schedule(Box<ScheduleShown>),
    /// Snapshot schedules.
    Schedules(Vec<ScheduleShown>),
    /// A destination of events.
    Destination(Box<DestinationShown>),
    /// Destinations of events.
    Destinations(Vec<DestinationShown>),
    /// The group that the member is in.
    Group(GroupShown),
    /// What a member is, for a group that it is to join.
    Applicant(Applicant),
    /// What a new member needs.
    Admission(Box<Admission>),
    /// A ticket to join with.
    JoinTicket(JoinTicket),
    /// Tickets to join with.
    JoinTickets(Vec<KeptTicket>),
    /// Members.
    Members(Vec<MemberShown>),
    /// A pool of members.
    Pool(Box<PoolShown>),
    /// Pools of members.
    Pools(Vec<PoolShown>),
    /// Volumes of all members.
    GroupVolumes(Vec<VolumeOfMember>),
    /// All that is set.
    Configuration(Box<ConfigurationShown>),
    /// What a scrub or a check found.
    Report(CheckReport),
    /// A move that has begun.
    Leaving(Box<Leaving>),
    /// What the destination of a move is to be given next.
    Piece(Piece),
    /// What hosts rely on of a volume that moves.
    Seal(Box<Seal>),
    /// Whether the group has given a volume to the destination of its move.
    Committed(bool),
    /// How a move stands at its source.
    SourceSays(SourceSays),
    /// Volumes that leave.
    Departures(Vec<Departure>),
    /// What is stored of volumes that move.
    Transits(Vec<Transit>),
    /// What counts of a set of snapshots.
    Decided(Verdict),
    /// Whether what was decided about a set of snapshots is done.
    SetSettled(bool),
    /// Sets of snapshots.
    Sets(Vec<SetIntent>),
    /// What became of a volume that arrives.
    Arrived(ArrivalStep),
    /// Volumes that arrive.
    Arrivals(Vec<Arrival>),
    /// A volume that lies on several members.
    Spread(Box<SpreadShown>),
    /// Volumes that do.
    Spreads(Vec<SpreadShown>),
    /// What is next about one.
    SpreadStep(SpreadStep),
    /// What came of the beginning of an opening of a slice.
    Begun(Begun),
    /// How a slice is reached.
    Opening(Box<Opening>),
    /// What a home says of a slice.
    HomeSays(HomeSays),
    /// Slices of volumes of other homes.
    Slices(Vec<SliceShown>),
    /// What is stored of a slice, if it is there.
    SliceRecord(Option<Box<SliceRecord>>),
    /// What is stored of spread volumes and is damaged.
    Damaged(Vec<DamagedRecord>),
}

/// A volume as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// As the array has it.
    pub info: VolumeInfo,
    /// The name of its target.
    pub iqn: String,
    /// Hosts that are logged in.
    pub sessions: usize,
    /// Why no host gets in, although it is online.
    pub not_served: Option<String>,
    /// Hosts of several names may use it at the same time; `None` while the settings cannot be read.
    pub shared: Option<bool>,
    /// Which hosts may use it.
    pub hosts: Hosts,
    /// Registrations of persistent reservations, where the room for more of them is full or nearly so.
    pub registrations: Option<Registrations>,
    /// The host that has write-protected it, for all hosts.
    pub write_protected_by: Option<String>,
    /// What its access list names that is not there.
    pub not_there: NotThere,
}

/// Registrations of persistent reservations with a volume for which room runs short.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registrations {
    /// How many each host has, most first; none while the volume is not served.
    pub hosts: Vec<(String, usize)>,
    /// How much is taken of the room that all volumes share, where that runs short and the volume holds some.
    pub shared_percent: Option<usize>,
}

/// The reservations of a volume, or of a snapshot, which is a target of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservations {
    /// The volume.
    pub volume: String,
    /// Of which of its snapshots, if it is of one.
    pub snapshot: Option<String>,
    /// Who holds it, and who is registered.
    pub info: ReservationsInfo,
}

impl Reservations {
    /// Who holds the volume.
    pub(crate) fn in_words(&self) -> String {
        let holders = self.info.registrants.iter().filter(|one| one.is_holder);
        let mut holders = holders.map(|one| &one.nexus).chain(&self.info.legacy);
        match (holders.next(), holders.count()) {
            (None, _) => "held by nobody".to_owned(),
            (Some(one), 0) => format!("held by {}", one.initiator),
            (Some(one), more) => format!("held by {} and {more} more", one.initiator),
        }
    }
}

impl Registrations {
    /// How many a volume may have.
    pub const MAX: usize = target::REGISTRATIONS_MAX;
}

/// All that operators have set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigurationShown {
    /// Volumes, those in the recycle bin too.
    pub volumes: Vec<Volume>,
    /// Who may use each of them.
    pub access: Vec<VolumeAccess>,
    /// Policies.
    pub policies: Vec<PolicyShown>,
    /// CHAP users.
    pub chap: ChapUsers,
    /// Accounts.
    pub accounts: Vec<AccountShown>,
    /// Snapshot schedules.
    pub schedules: Vec<ScheduleShown>,
    /// Destinations of events.
    pub destinations: Vec<DestinationShown>,
}

/// A snapshot as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// As the array has it.
    pub info: SnapshotInfo,
    /// The name of its target, while it is online.
    pub iqn: Option<String>,
    /// What it holds, if that was asked for.
    pub space: Option<SpaceInfo>,
}

/// A connection of a host as an operator sees it. Counts begin when it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// What it is to; `None` for what has changed its name meanwhile.
    pub volume: Option<String>,
    /// Or to which of its snapshots.
    pub snapshot: Option<String>,
    /// The name of the target.
    pub iqn: String,
    /// The name of the host.
    pub host: String,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Where it arrived.
    pub portal: SocketAddr,
    /// Which of the host's ports it is: twelve hexadecimal digits.
    pub isid: String,
    /// The number of its session.
    pub session: u16,
    /// Its own number in the session.
    pub connection: u16,
    /// When it was logged in.
    pub since: Instant,
    /// How long ago that is.
    pub seconds: u64,
    /// The CHAP user that let it in, where one had to.
    pub chap_user: Option<String>,
    /// Whether headers carry digests.
    pub header_digest: bool,
    /// Whether data does.
    pub data_digest: bool,
    /// SCSI commands that have come.
    pub commands: u64,
    /// Bytes of data that were sent for them.
    pub read_bytes: u64,
    /// Bytes of data that came for them.
    pub written_bytes: u64,
    /// Commands that have not been answered.
    pub waiting: usize,
    /// How long those took that were answered over it.
    pub latency: Latency,
    /// What its whole session has had done.
    pub session_figures: UnitFigures,
}

impl Connection {
    /// Of a target that is a volume, or a snapshot of it.
    pub(crate) fn new(of: Option<(String, Option<String>)>, info: ConnectionInfo) -> Connection {
        let (volume, snapshot) = of.unzip();
        Connection {
            volume,
            snapshot: snapshot.flatten(),
            iqn: info.iqn,
            host: info.initiator,
            address: info.peer,
            portal: info.portal,
            isid: info.isid.iter().map(|byte| format!("{byte:02x}")).collect(),
            session: info.tsih,
            connection: info.cid,
            since: info.since,
            seconds: info.age.as_secs(),
            chap_user: info.chap_user,
            header_digest: info.header_digest,
            data_digest: info.data_digest,
            commands: info.commands,
            read_bytes: info.read_bytes,
            written_bytes: info.written_bytes,
            waiting: info.waiting,
            latency: info.latency,
            session_figures: info.session_figures,
        }
    }
}

/// What hosts have had done by a volume, or by a snapshot that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFigures {
    /// The volume.
    pub volume: String,
    /// Or which of its snapshots.
    pub snapshot: Option<String>,
    /// The name of the target.
    pub iqn: String,
    /// Commands that have not been answered.
    pub waiting: usize,
    /// Since it was first served by this process.
    pub figures: UnitFigures,
}

impl VolumeFigures {
    pub(crate) fn new((volume, snapshot): (String, Option<String>), info: UnitInfo) -> Self {
        let UnitInfo { iqn, waiting, figures, .. } = info;
        Self { volume, snapshot, iqn, waiting, figures }
    }
}

/// What a disk has done under its name since the member was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFigures {
    /// Its number.
    pub id: u16,
    /// Its name.
    pub name: String,
    /// Requests that it has not answered.
    pub waiting: u64,
    /// Reads, for hosts and for the array itself.
    pub reads: WorkFigures,
    /// Writes and all else that changes what it holds.
    pub writes: WorkFigures,
    /// Flushes of its cache.
    pub flushes: WorkFigures,
}

impl DiskFigures {
    pub(crate) fn new(disk: &DiskInfo, counted: Counted) -> Self {
        let Counted { reads, writes, flushes, waiting } = counted;
        Self { id: disk.id.0, name: disk.name.clone(), waiting, reads, writes, flushes }
    }
}

/// What hosts have had done, and what disks did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// By volume and snapshot, of those that are served.
    pub volumes: Vec<VolumeFigures>,
    /// By the address at which hosts arrived.
    pub portals: Vec<PortalFigures>,
    /// By core.
    pub cores: Vec<CoreFigures>,
    /// By disk.
    pub disks: Vec<DiskFigures>,
    /// Of the array.
    pub array: ArrayFigures,
}
