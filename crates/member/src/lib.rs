//! One running member: its array is opened or made, its volumes and snapshots are targets, what is
//! asked of it is done, and what happens by itself is looked after.
//!
//! Whoever starts a member has its command line or its interface, and a [`target::Server`]. From there
//! on all happens on the first core of that server:
//!
//! ```text
//!  Opening ─▶ Life::start ─▶ Member ◀─ Request ─ whoever asks
//!                │             │
//!                ▼             ├─▶ Serving ─▶ targets
//!            opening           └─▶ array
//! ```
//!
//! Errors say what is wrong. What to do about it is written where people are: this room knows no
//! commands and no options.

mod access_request;
pub mod audit;
mod configuration_request;
mod current;
pub mod data;
mod destination_request;
pub mod events;
mod group_request;
mod life;
pub mod lock;
mod login_request;
mod logs;
mod membership;
pub mod memory;
mod meters;
mod move_request;
mod mutants;
mod names;
mod network;
pub mod opening;
pub mod printable;
mod records;
mod reply;
mod request;
mod running;
mod schedule_request;
mod schedules;
mod serving;
mod set_request;
mod settings;
pub mod slices;
pub mod spec;
mod spread;
mod spread_request;
mod stopped;
#[cfg(test)]
mod testing;

pub use access_request::{
    AccessRequest, ChapRequest, ChapUser, ChapUsers, Numbered, PolicyRequest, PolicyShown,
    SecretText, VolumeAccess,
};
pub use block::{LATENCY_BOUNDS, Latency};
pub use configuration_request::{
    AccountToDo, ConfigurationChange, ConfigurationRequest, DestinationToDo,
    NewVolume as NewConfiguredVolume, ScheduleToDo, VolumeChange as ConfiguredVolumeChange,
    VolumeSet,
};
pub use current::Current;
pub use destination_request::{
    CurrentDestinations, DestinationRequest, DestinationShown, Destinations,
};
pub use group::handover::SourceSays;
pub use group::membership::{MoveId, SetId, Verdict};
pub use group_request::{
    AddressNow, AddressProof, Admission, Answering, ConnectionsShown, CurrentAddress, CurrentDoor,
    CurrentRoll, Door, GroupConnections, GroupRequest, GroupShown, GroupState, JoinTicket,
    KeptTicket, MemberShown, MemberState, PoolShown, RollNow, SecretWord, VolumeOfMember,
};
pub use life::{Life, Opening, Remote, Shown, ShownVolume};
pub use login_request::{AccountRequest, AccountShown, CurrentLogins, TokenRequest, TokenShown};
pub use logs::Logs;
pub use membership::{GroupError, is_in_group};
pub use move_request::{
    ArrivalStep, Leaving, MoveRequest, PIECE_BYTES_MAX, Passport, Piece, Seal, Transit,
    TransitState, UnitImage, Way,
};
pub use records::{Log, Next, PartPlace, Record};
pub use reply::{
    Answer, ConfigurationShown, Connection, DiskFigures, Figures, Registrations, Reservations,
    Snapshot, Volume, VolumeFigures,
};
pub use request::{ArrayRequest, DiskRequest, Request, SnapshotRequest, VolumeRequest};
pub use running::{
    Asker, KeptSnapshot, Member, MoveError, RequestError, SetError, SpreadRefusal, Wish,
};
pub use schedule_request::{
    LastRun, NewSchedule, ScheduleChange, ScheduleRequest, ScheduleShown, VolumeShown,
};
pub use serving::GRACE;
pub use set_request::{SetPlan, SetRequest};
pub use settings::{ArrayUnits, DamagedRecord, Hosts, KeptError, Unlisted};
pub use spread_request::{
    Begun, OpeningAsked, SeatShown, SliceFate, SliceLetter, SliceOpeners, SliceShown, SpreadPlan,
    SpreadRequest, SpreadShown, SpreadStep,
};
pub use stopped::stop_reason;
pub use target::{
    CoreFigures, PortalFigures, RegistrantInfo, ReservationType, ReservationsInfo, UnitFigures,
    WorkFigures,
};
