//! Which kind of problem each refusal of a member is: the one place where its errors become statuses.

use array::ArrayError;
use member::RequestError;
use member::spec::DiskError;

use super::Code;

/// The kind of a refusal.
pub(crate) fn code_of(error: &RequestError) -> Code {
    match error {
        RequestError::Array(error) => of_array(error),
        RequestError::Disk(error) => of_disk(error),
        RequestError::SnapshotKept(kept) => code_of(&kept.refusal),
        RequestError::Spec(_) | RequestError::NamedTwice(_) => Code::Invalid,
        RequestError::InRecycleBin(_) => Code::InRecycleBin,
        RequestError::NoSuchVolume(_) => Code::NoSuchVolume,
        RequestError::NoSuchSnapshot { .. } => Code::NoSuchSnapshot,
        RequestError::NoSuchDisk(_) => Code::NoSuchDisk,
        RequestError::AmbiguousDisk { .. } => Code::WrongState,
        RequestError::WouldShrink(_) => Code::WouldLoseData,
        RequestError::Sanitized(_) => Code::WrongState,
        RequestError::SnapshotOnline { .. }
        | RequestError::HostsLoggedIn { .. }
        | RequestError::SnapshotInUse { .. }
        | RequestError::DiskIsMember(_) => Code::InUse,
        RequestError::SameTarget { .. } | RequestError::TargetInUse { .. } => Code::NameTaken,
        RequestError::NotServed { .. } => Code::NotServed,
        RequestError::Stopping | RequestError::StoppingWatch => Code::Stopping,
        RequestError::Target(_) | RequestError::NoResult => Code::Unavailable,
        RequestError::SanitizeUnknown { .. } | RequestError::NotRemembered(_) => Code::Failed,
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
        | ArrayError::Missing { .. }
        | ArrayError::Stopped(_) => Code::Unavailable,
        ArrayError::Damaged(_) | ArrayError::Io(_) => Code::Failed,
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
        DiskError::Open(_) => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_status_that_fits() {
        let cases = [
            (RequestError::NoSuchVolume("a".into()), 404),
            (RequestError::WouldShrink("a".into()), 409),
            (ArrayError::BadName("?".into()).into(), 422),
            (ArrayError::NoSpace { free_bytes: 0, asked_bytes: 1 }.into(), 507),
            (ArrayError::Lost.into(), 503),
            (RequestError::Stopping, 503),
            (ArrayError::Damaged("x".into()).into(), 500),
        ];
        for (error, status) in cases {
            assert_eq!(code_of(&error).status(), status, "{error}");
        }
    }
}
