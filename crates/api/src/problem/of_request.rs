//! Which kind of problem each refusal of a member is: the one place where its errors become statuses.

use std::io::ErrorKind;

use array::ArrayError;
use group::access::AccessError;
use group::accounts::AccountError;
use group::destinations::DestinationError;
use group::membership::{MembershipError, PlacementError};
use group::schedules::ScheduleError;
use group::settings::SettingsError;
use group::spread::{NotRebuilt, SliceRefusal, SpreadError};
use group::store::StoreError;
use member::slices::{OpenError as SliceOpenError, WithdrawError};
use member::spec::{DiskError, OpenError};
use member::{GroupError, KeptError, MoveError, RequestError, SetError, SpreadRefusal};

use super::Code;

/// The kind of a refusal.
pub(crate) fn code_of(error: &RequestError) -> Code {
    match error {
        RequestError::Array(error) => of_array(error),
        RequestError::Disk(error) => of_disk(error),
        RequestError::SnapshotKept(kept) => code_of(&kept.refusal),
        RequestError::Kept(error) => of_kept(error),
        RequestError::Group(error) => of_group(error),
        RequestError::Move(error) => of_move(error),
        RequestError::Set(error) => of_set(error),
        RequestError::Spread(error) => of_spread(error),
        RequestError::NoRoomBeside { .. } => Code::NoSpace,
        RequestError::BinHolds { source, .. } => code_of(source),
        RequestError::Unfinished { source, .. } => code_of(source),
        RequestError::NotTakenBack { refusal, .. } => code_of(refusal),
        RequestError::HalfSet { source, .. } => code_of(source),
        RequestError::NoSuchPolicy(_) => Code::NoSuchPolicy,
        RequestError::Spec(_)
        | RequestError::CacheMemory(_)
        | RequestError::NamedTwice(_)
        | RequestError::Reserved(_) => Code::Invalid,
        RequestError::InRecycleBin(_) => Code::InRecycleBin,
        RequestError::NoSuchVolume(_) => Code::NoSuchVolume,
        RequestError::NoSuchSnapshot { .. } => Code::NoSuchSnapshot,
        RequestError::NoSuchDisk(_) => Code::NoSuchDisk,
        RequestError::AmbiguousDisk { .. } => Code::WrongState,
        RequestError::WouldShrink(_) => Code::WouldLoseData,
        RequestError::Sanitized(_)
        | RequestError::ReservationsAway(_)
        | RequestError::SnapshotReservationsAway { .. }
        | RequestError::Cancelled => Code::WrongState,
        RequestError::SnapshotOnline { .. }
        | RequestError::HostsLoggedIn { .. }
        | RequestError::SeveralHosts { .. }
        | RequestError::SnapshotInUse { .. }
        | RequestError::UsedByMember { .. }
        | RequestError::NamedAlready { .. }
        | RequestError::DiskIsMember(_) => Code::InUse,
        RequestError::SameTarget { .. }
        | RequestError::TargetInUse { .. }
        | RequestError::NameOfRun(_) => Code::NameTaken,
        RequestError::NotServed { .. } => Code::NotServed,
        RequestError::Stopping | RequestError::StoppingWatch => Code::Stopping,
        RequestError::Target(_) | RequestError::NoResult => Code::Unavailable,
        RequestError::SanitizeUnknown { .. } | RequestError::NotRemembered(_) => Code::Failed,
    }
}

const fn of_set(error: &SetError) -> Code {
    match error {
        SetError::TooMany { .. } => Code::Invalid,
        SetError::Undecided { .. } | SetError::VolumeUndecided { .. } | SetError::Moves { .. } => {
            Code::InUse
        }
        SetError::HalfMade(_) | SetError::OtherSeat | SetError::NoSuch => Code::WrongState,
        SetError::TooLate { .. } | SetError::NamesUnknown(_) | SetError::VolumeUnknown { .. } => {
            Code::Unavailable
        }
    }
}

/// What a member may do when it is asked again is none of what [`SliceRefusal`] says: whoever drives a volume gives it up by
/// these.
const fn of_spread(error: &SpreadRefusal) -> Code {
    match error {
        SpreadRefusal::OtherSeat => Code::OtherGroup,
        SpreadRefusal::NoSuch => Code::NoSuchVolume,
        SpreadRefusal::NoSuchSlice => Code::NoSuchSlice,
        SpreadRefusal::NotBegun | SpreadRefusal::OldHome { .. } => Code::WrongState,
        SpreadRefusal::Awaited(_) => Code::InUse,
        SpreadRefusal::Rules(error) => of_spread_rules(error),
        SpreadRefusal::Slice(error) => match error {
            SliceRefusal::NotHome { .. } => Code::Forbidden,
            SliceRefusal::Unreadable(_) => Code::Failed,
            SliceRefusal::Unsound(_) => Code::Invalid,
            SliceRefusal::OtherMember(_)
            | SliceRefusal::OtherVolume
            | SliceRefusal::Going
            | SliceRefusal::NotThere
            | SliceRefusal::Unrecorded
            | SliceRefusal::OldSlice
            | SliceRefusal::OldHome(_)
            | SliceRefusal::Lost => Code::WrongState,
        },
        SpreadRefusal::Open(error) => match error {
            SliceOpenError::Unknown(_) => Code::NoSuchSlice,
            SliceOpenError::NotHome { .. } => Code::Forbidden,
            SliceOpenError::FormerLife(_) => Code::WrongState,
            SliceOpenError::Busy(_) => Code::TooBusy,
            SliceOpenError::Stopping => Code::Stopping,
            SliceOpenError::Target(_)
            | SliceOpenError::Random(_)
            | SliceOpenError::Credentials(_) => Code::Failed,
        },
        SpreadRefusal::Withdraw(WithdrawError::Busy(_)) => Code::TooBusy,
        SpreadRefusal::Withdraw(WithdrawError::Stopping) => Code::Stopping,
        SpreadRefusal::NotRebuilt(error) => match error {
            NotRebuilt::Nothing | NotRebuilt::Missing(_) => Code::Unavailable,
            NotRebuilt::NoOwnSlice(_)
            | NotRebuilt::NotOlder
            | NotRebuilt::Later(_)
            | NotRebuilt::Differs(_)
            | NotRebuilt::NotHere(_) => Code::WrongState,
        },
        SpreadRefusal::Plan(_) => Code::Invalid,
        SpreadRefusal::Unread(_) | SpreadRefusal::NoPortal(_) => Code::Unavailable,
        SpreadRefusal::Online(_)
        | SpreadRefusal::Busy { .. }
        | SpreadRefusal::Needed { .. }
        | SpreadRefusal::InTheWay { .. } => Code::InUse,
        SpreadRefusal::AtWork(_) | SpreadRefusal::SliceAtWork(_) => Code::TooBusy,
        SpreadRefusal::NotSpread { .. }
        | SpreadRefusal::NoBin(_)
        | SpreadRefusal::GrowsAlone(_)
        | SpreadRefusal::Stored(_)
        | SpreadRefusal::OtherArray { .. }
        | SpreadRefusal::Stays { .. } => Code::WrongState,
    }
}

/// The kind of what the rules of volumes on several members refuse.
pub(crate) const fn of_spread_rules(error: &SpreadError) -> Code {
    match error {
        SpreadError::NoSuchPool(_) => Code::NoSuchPool,
        SpreadError::NoSize | SpreadError::Members(_) => Code::Invalid,
        SpreadError::NoHome(_) => Code::Unavailable,
        SpreadError::HomeFull(_) => Code::NoSpace,
        SpreadError::Smaller { .. } => Code::WouldLoseData,
        SpreadError::Busy(_) => Code::InUse,
        SpreadError::NotGoing | SpreadError::StillMember(_) | SpreadError::OwnSlice => {
            Code::WrongState
        }
        SpreadError::NoSuchSlice(_) => Code::NoSuchSlice,
    }
}

fn of_move(error: &MoveError) -> Code {
    match error {
        MoveError::Nowhere { why, .. } => of_placement(why),
        MoveError::BadPiece(_) => Code::BadRequest,
        MoveError::NoRoomToGoOn { .. } | MoveError::NoRoom { .. } => Code::NoSpace,
        MoveError::TooMany { .. } => Code::TooBusy,
        MoveError::Leaving { .. }
        | MoveError::Here(_)
        | MoveError::Alone { .. }
        | MoveError::KeepsOwn { .. }
        | MoveError::PoolFull { .. }
        | MoveError::WithoutList(_)
        | MoveError::NameNotHeld(_)
        | MoveError::Sanitized(_)
        | MoveError::HalfMade(_)
        | MoveError::NoSuch(_)
        | MoveError::GroupDecides(_)
        | MoveError::SeatChanged(_)
        | MoveError::NotDecided { .. }
        | MoveError::HasItNow { .. }
        | MoveError::NotCaughtUp { .. }
        | MoveError::TooManySnapshots { .. }
        | MoveError::OutOfStep { .. }
        | MoveError::Changed { .. }
        | MoveError::NotFromMember(_) => Code::WrongState,
        MoveError::MovesAlready { .. }
        | MoveError::Scheduled { .. }
        | MoveError::SnapshotServed { .. } => Code::InUse,
        MoveError::NameThere { .. } | MoveError::NameToKeep { .. } | MoveError::NameOfMove(_) => {
            Code::NameTaken
        }
        MoveError::Away { .. }
        | MoveError::Lost(_)
        | MoveError::Unsure { .. }
        | MoveError::MovedAway { .. }
        | MoveError::ArrivalMissing(_)
        | MoveError::ArrivalUnreadable { .. } => Code::Unavailable,
        MoveError::UnitUnreadable { .. } => Code::Failed,
    }
}

fn of_array(error: &ArrayError) -> Code {
    match error {
        ArrayError::NoSuchVolume(_) => Code::NoSuchVolume,
        ArrayError::NoSuchSnapshot { .. } => Code::NoSuchSnapshot,
        ArrayError::NoSuchDisk(_) => Code::NoSuchDisk,
        ArrayError::VolumeExists(_) | ArrayError::SnapshotExists { .. } => Code::NameTaken,
        ArrayError::InRecycleBin(_) => Code::InRecycleBin,
        ArrayError::NotDeleted(_) => Code::NotInRecycleBin,
        ArrayError::TooManySnapshots { .. } | ArrayError::TablesFull => Code::LimitReached,
        ArrayError::BadName(_)
        | ArrayError::BadSize { .. }
        | ArrayError::BadBlock(_)
        | ArrayError::BadDisk(_)
        | ArrayError::Refused(_) => Code::Invalid,
        ArrayError::TooFewDisks { .. } => Code::TooFewDisks,
        ArrayError::NoSpace { .. } | ArrayError::DisksFull(_) => Code::NoSpace,
        ArrayError::NotOffline(_) | ArrayError::SnapshotOnline { .. } => Code::InUse,
        ArrayError::NeverWritable { .. } | ArrayError::Deleting(_) | ArrayError::NotRetiring(_) => {
            Code::WrongState
        }
        ArrayError::DiskNeeded { .. } => Code::WouldLoseData,
        ArrayError::Incomplete(_)
        | ArrayError::LastHolder(_)
        | ArrayError::Unflushed
        | ArrayError::Lost
        | ArrayError::Silent { .. }
        | ArrayError::Missing { .. }
        | ArrayError::Unsettled { .. }
        | ArrayError::Stopped(_) => Code::Unavailable,
        ArrayError::Damaged(_) | ArrayError::Io(_) => Code::Failed,
    }
}

fn of_kept(error: &KeptError) -> Code {
    match error {
        KeptError::Settings(error) => of_settings(error),
        KeptError::Volume(error) => of_array(error),
        KeptError::NoRoom { .. } | KeptError::Full => Code::NoSpace,
        KeptError::NameTaken => Code::NameTaken,
        KeptError::Stopping => Code::Stopping,
        KeptError::NotAvailable(_)
        | KeptError::GroupSilent(_)
        | KeptError::GroupUnknown(_)
        | KeptError::NotTakenOver(_)
        | KeptError::NoGroupKnown(_) => Code::Unavailable,
        KeptError::NotMade(_) => Code::Failed,
    }
}

fn of_settings(error: &SettingsError) -> Code {
    match error {
        SettingsError::Access(error) => of_access(error),
        SettingsError::Account(error) => of_account(error),
        SettingsError::Schedule(error) => of_schedule(error),
        SettingsError::Destination(error) => of_destination(error),
        SettingsError::Secret(_) | SettingsError::SecretOfStart => Code::Invalid,
        SettingsError::NoSuchPolicy(_) => Code::NoSuchPolicy,
        SettingsError::NoSuchUser(_) => Code::NoSuchUser,
        SettingsError::PolicyExists(_) | SettingsError::UserExists(_) => Code::NameTaken,
        SettingsError::PolicyInUse { .. } | SettingsError::UserInUse { .. } => Code::InUse,
        SettingsError::SetThere | SettingsError::SpreadThere | SettingsError::LeavesAlready(_) => {
            Code::InUse
        }
        SettingsError::SpreadChanged => Code::WrongState,
        SettingsError::SpreadUnsound(_) => Code::Invalid,
        SettingsError::Full { .. } => Code::NoSpace,
        SettingsError::Contended => Code::TooBusy,
        SettingsError::Unreadable(_) => Code::Unavailable,
        SettingsError::Store(
            StoreError::TooLarge { .. } | StoreError::TooManyOperations { .. },
        ) => Code::BodyTooLarge,
        SettingsError::Store(_) | SettingsError::Key(_) => Code::Failed,
    }
}

fn of_group(error: &GroupError) -> Code {
    match error {
        GroupError::Membership(error) => of_membership(error),
        GroupError::Settings(error) => of_kept(error),
        GroupError::NotTakenBack { refusal, .. } => of_group(refusal),
        GroupError::NotInGroup => Code::NoGroup,
        GroupError::AlreadyIn(_)
        | GroupError::Leaving
        | GroupError::NobodyLeft { .. }
        | GroupError::MovesInHand { .. }
        | GroupError::SettingsDiffer(_) => Code::WrongState,
        GroupError::Listen { source, .. } => match source.kind() {
            ErrorKind::AddrInUse => Code::InUse,
            // The machine has no such address, or may not listen there.
            _ => Code::Invalid,
        },
        GroupError::Cluster(_)
        | GroupError::Broken(_)
        | GroupError::NotReached(_)
        | GroupError::NamesNotPromised(_)
        | GroupError::StoreSlow { .. }
        | GroupError::StoreSilent { .. } => Code::Unavailable,
        GroupError::Pki(_)
        | GroupError::Random(_)
        | GroupError::Files { .. }
        | GroupError::HostName(_)
        | GroupError::Admission(_) => Code::Failed,
        GroupError::Stopping => Code::Stopping,
    }
}

fn of_membership(error: &MembershipError) -> Code {
    match error {
        MembershipError::Token => Code::TicketRefused,
        MembershipError::Clock { .. } => Code::ClockOff,
        MembershipError::Version { .. } => Code::OtherVersion,
        MembershipError::NameTaken(_)
        | MembershipError::PoolTaken(_)
        | MembershipError::VolumeNameTaken { .. } => Code::NameTaken,
        MembershipError::ArrayKnown { .. } | MembershipError::GroupExists(_) => Code::AlreadyThere,
        MembershipError::AddressTaken { .. }
        | MembershipError::AddressOfMember { .. }
        | MembershipError::AddressOfGroup(_)
        | MembershipError::PoolNotEmpty { .. } => Code::InUse,
        MembershipError::Full
        | MembershipError::NumbersUsedUp
        | MembershipError::TooManyTokens
        | MembershipError::TooManyPools => Code::LimitReached,
        MembershipError::Name(_)
        | MembershipError::Address(_)
        | MembershipError::AddressNowhere(_)
        | MembershipError::Port(_)
        | MembershipError::Applicant(_)
        | MembershipError::VolumeName(_)
        | MembershipError::DefaultPool
        | MembershipError::SamePool(_)
        | MembershipError::Lifetime => Code::Invalid,
        MembershipError::NoSuchPool(_) => Code::NoSuchPool,
        MembershipError::NoSuchToken(_) => Code::NoSuchToken,
        MembershipError::NoSuchMember(_) => Code::NoSuchMember,
        MembershipError::LastMember(_)
        | MembershipError::NotAlone(_)
        | MembershipError::NameNotHeld(_)
        | MembershipError::Removed
        | MembershipError::OtherLife => Code::WrongState,
        MembershipError::Contended => Code::TooBusy,
        // That the store has lost the group does not mean that the member is in none.
        MembershipError::NoGroup
        | MembershipError::Store(_)
        | MembershipError::Setting(_)
        | MembershipError::Unknown(_)
        | MembershipError::Unsound(_) => Code::Unavailable,
        MembershipError::Random(_) => Code::Failed,
    }
}

/// The kind of why no member is to have a volume.
pub(crate) const fn of_placement(error: &PlacementError) -> Code {
    match error {
        PlacementError::NoSuchPool(_) => Code::NoSuchPool,
        PlacementError::NobodyPresent(_) => Code::Unavailable,
        PlacementError::NoRoom { .. } | PlacementError::Full(_) => Code::NoSpace,
    }
}

fn of_account(error: &AccountError) -> Code {
    match error {
        AccountError::Name(_) | AccountError::Expired => Code::Invalid,
        AccountError::NoSuchAccount(_) => Code::NoSuchAccount,
        AccountError::NoSuchToken(_) => Code::NoSuchToken,
        AccountError::AccountExists(_) | AccountError::TokenExists(_) => Code::NameTaken,
        AccountError::TooManyAccounts | AccountError::TooManyTokens => Code::LimitReached,
    }
}

fn of_destination(error: &DestinationError) -> Code {
    match error {
        DestinationError::NoSuchDestination(_) => Code::NoSuchDestination,
        DestinationError::DestinationExists(_) => Code::NameTaken,
        DestinationError::TooManyDestinations => Code::LimitReached,
        DestinationError::Name(_)
        | DestinationError::Address(_)
        | DestinationError::Addressees(_)
        | DestinationError::Fold
        | DestinationError::Secret(_)
        | DestinationError::TokenInClear
        | DestinationError::PasswordInClear
        | DestinationError::HalfLogin
        | DestinationError::RootsUnused
        | DestinationError::Roots => Code::Invalid,
    }
}

fn of_schedule(error: &ScheduleError) -> Code {
    match error {
        ScheduleError::NoSuchSchedule(_) => Code::NoSuchSchedule,
        ScheduleError::ScheduleExists(_) => Code::NameTaken,
        ScheduleError::TooManySchedules => Code::LimitReached,
        ScheduleError::Name(_)
        | ScheduleError::Every
        | ScheduleError::Keep(_)
        | ScheduleError::Volumes(_) => Code::Invalid,
    }
}

/// The kind of what an access list refuses.
pub(crate) fn of_access(error: &AccessError) -> Code {
    match error {
        AccessError::ThereAlready(_) => Code::AlreadyThere,
        AccessError::Full(_) => Code::LimitReached,
        AccessError::NoSuchRecord(_) => Code::NoSuchEntry,
        AccessError::NoPart
        | AccessError::User
        | AccessError::Iqn { .. }
        | AccessError::Address(_)
        | AccessError::Scope(_)
        | AccessError::Word(_)
        | AccessError::Twice(_)
        | AccessError::PolicyName(_) => Code::Invalid,
    }
}

fn of_disk(error: &DiskError) -> Code {
    match error {
        DiskError::OpenHere(_) | DiskError::InUse { .. } => Code::InUse,
        DiskError::Missing(_)
        | DiskError::New(_)
        | DiskError::Twice(_)
        | DiskError::Blocks { .. } => Code::Invalid,
        DiskError::AddressSpace { .. } => Code::NoSpace,
        DiskError::Open(OpenError::InUse { .. }) => Code::InUse,
        DiskError::Open(_) if error.is_of_system() => Code::Failed,
        DiskError::Open(_) => Code::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use member::memory::CacheMemoryError;

    use super::*;

    #[test]
    fn refusals_have_the_status_that_fits() {
        let path = PathBuf::from("/x");
        let not_blocks =
            OpenError::NotBlocks { path: path.clone(), size_bytes: 5, block_bytes: 512 };
        let source = std::io::Error::from_raw_os_error(5);
        let system = OpenError::System { action: "open", path, source };
        let cases = [
            (RequestError::NoSuchVolume("a".into()), 404),
            (RequestError::WouldShrink("a".into()), 409),
            (CacheMemoryError::TooLittle(1).into(), 422),
            (ArrayError::BadName("?".into()).into(), 422),
            (ArrayError::NoSpace { free_bytes: 0, asked_bytes: 1 }.into(), 507),
            (KeptError::Full.into(), 507),
            (ArrayError::Lost.into(), 503),
            (RequestError::Stopping, 503),
            (KeptError::NotAvailable("x".into()).into(), 503),
            (KeptError::from(SettingsError::from(AccessError::NoPart)).into(), 422),
            (KeptError::from(SettingsError::from(AccessError::NoSuchRecord(1))).into(), 404),
            (KeptError::from(SettingsError::UserExists("al".into())).into(), 409),
            (RequestError::from(DiskError::Open(not_blocks)), 422),
            (RequestError::from(DiskError::Open(system)), 500),
            (ArrayError::Damaged("x".into()).into(), 500),
        ];
        for (error, status) in cases {
            assert_eq!(code_of(&error).status(), status, "{error}");
        }
    }

    #[test]
    fn refusals_of_a_group_have_the_code_that_fits() {
        let listen = |kind: ErrorKind| GroupError::Listen {
            address: "192.0.2.1:3262".parse().expect("an address"),
            source: kind.into(),
        };
        let not_taken_back = GroupError::NotTakenBack {
            refusal: Box::new(GroupError::Admission("x".into())),
            member: "a".into(),
            source: Box::new(MembershipError::Contended.into()),
        };
        let cases = [
            (GroupError::NotInGroup, Code::NoGroup, 404),
            (GroupError::AlreadyIn("lab".into()), Code::WrongState, 409),
            (GroupError::Broken("x".into()), Code::Unavailable, 503),
            (listen(ErrorKind::AddrInUse), Code::InUse, 409),
            (listen(ErrorKind::AddrNotAvailable), Code::Invalid, 422),
            (not_taken_back, Code::Failed, 500),
            (MembershipError::Token.into(), Code::TicketRefused, 403),
            (MembershipError::NameTaken("a".into()).into(), Code::NameTaken, 409),
            (MembershipError::ArrayKnown { member: "a".into() }.into(), Code::AlreadyThere, 409),
            (MembershipError::Name("?".into()).into(), Code::Invalid, 422),
            (MembershipError::NoSuchMember("a".into()).into(), Code::NoSuchMember, 404),
            (MembershipError::LastMember("a".into()).into(), Code::WrongState, 409),
            (MembershipError::Full.into(), Code::LimitReached, 409),
            (MembershipError::Clock { seconds: 61, is_ahead: true }.into(), Code::ClockOff, 409),
            (MembershipError::Contended.into(), Code::TooBusy, 503),
            (MembershipError::NoSuchPool("ssd".into()).into(), Code::NoSuchPool, 404),
            (MembershipError::PoolTaken("ssd".into()).into(), Code::NameTaken, 409),
            (MembershipError::TooManyPools.into(), Code::LimitReached, 409),
            (MembershipError::DefaultPool.into(), Code::Invalid, 422),
            (GroupError::NamesNotPromised("x".into()), Code::Unavailable, 503),
            (GroupError::SettingsDiffer(vec!["policy 'esx'".into()]), Code::WrongState, 409),
            (KeptError::GroupSilent("x".into()).into(), Code::Unavailable, 503),
            (GroupError::StoreSlow { seconds: 15 }, Code::Unavailable, 503),
        ];
        for (error, code, status) in cases {
            let error = RequestError::from(error);
            assert_eq!(code_of(&error), code, "{error}");
            assert_eq!(code.status(), status, "{error}");
        }
    }

    #[test]
    fn refusals_of_a_move_have_the_code_that_fits() {
        let (name, to) = (|| "vm".to_owned(), || "right".to_owned());
        let full = PlacementError::Full("default".into());
        let no_pool = PlacementError::NoSuchPool("tape".into());
        let why = GroupError::StoreSlow { seconds: 15 }.to_string();
        let cases = [
            (MoveError::Leaving { name: name(), to: to() }, Code::WrongState, 409),
            (MoveError::Here(name()), Code::WrongState, 409),
            (MoveError::Nowhere { name: name(), why: full }, Code::NoSpace, 507),
            (MoveError::Nowhere { name: name(), why: no_pool }, Code::NoSuchPool, 404),
            (MoveError::Away { name: name(), member: to() }, Code::Unavailable, 503),
            (MoveError::NameThere { name: name(), member: to() }, Code::NameTaken, 409),
            (MoveError::HasItNow { name: name(), member: to() }, Code::WrongState, 409),
            (MoveError::MovesAlready { name: name(), to: to() }, Code::InUse, 409),
            (MoveError::TooMany { max: 4 }, Code::TooBusy, 503),
            (MoveError::NoSuch("0".into()), Code::WrongState, 409),
            (MoveError::Unsure { name: name(), to: to(), why }, Code::Unavailable, 503),
            (MoveError::BadPiece("x".into()), Code::BadRequest, 400),
        ];
        for (error, code, status) in cases {
            let error = RequestError::from(error);
            assert_eq!(code_of(&error), code, "{error}");
            assert_eq!(code.status(), status, "{error}");
        }
    }
}
