//! What to do about events.

use member::events::{Event, Kind, ObjectKind};

use super::access::writable_again;
use super::members::STORE_SILENT;

/// What to do about an event; empty where nothing is to be done.
pub(crate) fn advice(event: &Event) -> String {
    let name = match event.object.kind {
        ObjectKind::Disk | ObjectKind::Volume | ObjectKind::Schedule | ObjectKind::Destination => {
            event.object.name.as_str()
        }
        ObjectKind::Member | ObjectKind::Array | ObjectKind::Target => "",
    };
    Kind::from_word(&event.kind).map_or_else(String::new, |kind| of_kind(kind, name))
}

fn of_kind(kind: Kind, name: &str) -> String {
    match kind {
        Kind::DiskFailed
        | Kind::DiskMissing
        | Kind::DiskFileGone
        | Kind::DataDirectoryGone
        | Kind::DiskSuspect
        | Kind::DiskNotUsed
        | Kind::DiskListDamaged => of_disk(kind, name),
        Kind::DisksNotRemembered | Kind::LogNotWritten => {
            "make room in the data directory of the member, or make it writable".to_owned()
        }
        Kind::AuditPushedOut => {
            "see 'drystone audit' for who that was; a syslog server keeps what this log has no room for: 'drystone notify add NAME --syslog HOST --audit', and 'drystone notify list' says how much of it was not sent to one that there is"
                .to_owned()
        }
        Kind::LoginsTurnedAway => {
            "see who uses the account and from where: 'drystone audit'; 'drystone account set' disables it, and programs log in with tokens".to_owned()
        }
        Kind::AuditNotSent => {
            "see 'drystone audit' for who fills it, and whether the server takes lines fast enough".to_owned()
        }
        Kind::VolumeLost => "connect its disks again: see 'drystone disk list' for those that are missing".to_owned(),
        Kind::VolumeDegraded | Kind::VolumeCompleted | Kind::ArrayWarning => "see 'drystone status'".to_owned(),
        Kind::VolumeNotServed => {
            "see 'drystone volume list', 'drystone volume transits' and 'drystone status'".to_owned()
        }
        Kind::VolumeMoveSettled
        | Kind::SnapshotsNotWhole
        | Kind::SliceUnreachable
        | Kind::SliceLeftOver => of_several(kind).to_owned(),
        Kind::VolumeMoveGivenUp => {
            format!("nothing, if it was cancelled; else mend that and begin again: 'drystone volume move {name}'")
        }
        Kind::SpaceLow => {
            "add a disk ('drystone disk add'), or delete snapshots and volumes, and purge those ('drystone volume purge')"
                .to_owned()
        },
        Kind::ScrubFound => {
            "see 'drystone array check' for all of it, and restore what is lost from a backup".to_owned()
        }
        Kind::SettingsUnavailable
        | Kind::SettingsNotGivenUp
        | Kind::SettingsNotMade
        | Kind::SettingsIncomplete
        | Kind::KeyRestored
        | Kind::KeyLost
        | Kind::SecretShared => of_settings(kind).to_owned(),
        Kind::CertificateNotUsed | Kind::NotManagedOverTls => of_interface(kind).to_owned(),
        Kind::SecondHostRefused => {
            "if several hosts are meant to use the volume at once: 'drystone volume set VOLUME --shared on'".to_owned()
        }
        Kind::WriteProtected => format!("if that is not meant: {}", writable_again(name)),
        Kind::ScheduleFailed => format!(
            "see 'drystone schedule show {name}' and 'drystone status'; until it works, take one by hand: 'drystone snapshot create VOLUME'"
        ),
        Kind::ScheduleIncomplete => format!(
            "bring those volumes back, or leave them out: 'drystone schedule set {name} --volume VOLUME'"
        ),
        Kind::ScheduleMissed => {
            "if a snapshot is wanted before the next run: 'drystone snapshot create VOLUME'".to_owned()
        }
        Kind::SnapshotKept => {
            "nothing, if it is needed; else take it offline or purge its clones, and the schedule deletes it at its next run".to_owned()
        }
        Kind::DestinationFailed => {
            format!("see 'drystone notify show {name}', and try it with 'drystone notify test {name}'")
        }
        Kind::MemberNotStarted | Kind::MemberNotStopped => "see the log of the member".to_owned(),
        _ => of_group(kind).to_owned(),
    }
}

/// About volumes that several members have to do with.
const fn of_several(kind: Kind) -> &'static str {
    match kind {
        Kind::VolumeMoveSettled => "'drystone volume list' says where it is",
        Kind::SnapshotsNotWhole => {
            "see 'drystone snapshot list', and take them again when all members are there"
        }
        Kind::SliceUnreachable => {
            "start that member, or see whether this one reaches it: 'drystone member list'; 'drystone volume show' says \
             where the rest lies"
        }
        _ => "see 'drystone volume slices'",
    }
}

fn of_group(kind: Kind) -> &'static str {
    match kind {
        Kind::MemberAway => {
            "look at that server, and whether the others reach it at its five ports; 'drystone member remove NAME' if it is \
             gone for good"
        }
        Kind::MemberRemoved => {
            "nothing, if that is meant: it goes on alone, with its volumes; else have it join again: 'drystone group token' on a \
             member, then 'drystone member join' here"
        }
        Kind::StoreUnreachable => STORE_SILENT,
        Kind::StorePartDown => {
            "see whether etcd is there ('drystone doctor'), and what it said last, in group/etcd/etcd.log of the data directory; \
             it is tried again by itself, and the store answers without it while more than half of its members run it"
        }
        Kind::NameTwice => {
            "stop one of the two members ('drystone group volumes' names them), or give one of them another 'iqn' and start it \
             again: until then hosts are not redirected for it"
        }
        Kind::VolumeNameTwice => {
            "give one of the two another name: 'drystone volume rename NAME NEW --on MEMBER'; hosts that use that one are to \
             log out before, and find it under its new name"
        }
        Kind::SettingsDiffer => {
            "'drystone group share --replace-settings' takes the group's in place of its own; or make both the same, and it \
             shares them within a minute"
        }
        Kind::SettingsNotShared => {
            "see 'drystone status' and mend that: it is tried again each minute, and until then this member goes on with what \
             was set before"
        }
        Kind::GroupAddressFault => {
            "give the member that right and start it again; take the address away where the host has it for itself ('ip \
             address delete'), or choose another one for the group; or see what else listens there ('ss -ltnp'). Another \
             member has the address meanwhile, if one can, and it is tried again by itself"
        }
        Kind::ConnectionsRefused | Kind::ConnectionsHigh => {
            "'drystone connections' says who has them, and 'drystone pool list' how many each member has: have hosts log out of \
             what they do not use, or raise the limit ('drystone pool set NAME --connections N', 'drystone group set \
             --connections N')"
        }
        Kind::MembersNotAnswered => {
            "see what else has that port ('ss -ltnp'), and stop it: it is tried again by itself; until then what this member \
             has can only be managed on this member"
        }
        Kind::GroupDamaged => {
            "if files of this member cannot be put back, remove it on another one ('drystone member remove NAME'), and have \
             it join again once that directory was moved away; if what lies in the store does not read, the group is made \
             anew (docs/group.md): no volume or setting is lost by that"
        }
        _ => "",
    }
}

fn of_interface(kind: Kind) -> &'static str {
    match kind {
        Kind::CertificateNotUsed => {
            "write a certificate and its key that go together into their files: they are taken with the next \
             connection"
        }
        Kind::NotManagedOverTls => {
            "mend that and start the member again; 'drystone member show' says where it listens"
        }
        _ => "",
    }
}

fn of_disk(kind: Kind, name: &str) -> String {
    match kind {
        Kind::DiskFailed => format!("put another disk in its place: 'drystone disk replace {name} NEW'"),
        Kind::DiskMissing => format!(
            "connect it again, or put another disk in its place: 'drystone disk replace {name} NEW'"
        ),
        Kind::DiskFileGone => {
            format!("before the member stops, put another disk in its place: 'drystone disk replace {name} NEW'")
        }
        Kind::DataDirectoryGone => {
            "put it back before the member stops, with 'store.key' and the rest that was in it; else name the disks at the \
             next start (--disk), and set the secrets again ('drystone chap list' says which)"
                .to_owned()
        }
        Kind::DiskSuspect => format!(
            "look at its errors ('drystone disk show {name}') and have another disk at hand; 'drystone disk \
             clear {name}' forgives them"
        ),
        Kind::DiskNotUsed => {
            "see 'drystone disk list'; 'drystone disk add' takes a blank disk in".to_owned()
        }
        Kind::DiskListDamaged => {
            "see 'drystone disk list'; a disk that is missing is named at the next start (--disk)".to_owned()
        }
        _ => String::new(),
    }
}

fn of_settings(kind: Kind) -> &'static str {
    match kind {
        Kind::SettingsUnavailable => {
            "see 'drystone status', and the chapter on bad days of the manual"
        }
        Kind::SettingsNotGivenUp => {
            "connect the disks that are missing, or declare them failed ('drystone disk fail'), and start so again"
        }
        Kind::SettingsNotMade => {
            "once there is room ('drystone disk add', 'drystone volume purge'), the next setting makes it, such as \
             'drystone policy create NAME'; so does the next start"
        }
        Kind::SettingsIncomplete => {
            "start the member with the key that was used before, or set the secrets again ('drystone chap set')"
        }
        Kind::KeyRestored => {
            "find out what removed it; it is gone for good if that happens while the member does not run"
        }
        Kind::KeyLost => {
            "before the member stops, move away what lies in its place, or make it readable and writable for the member \
             alone (mode 600): see 'drystone status'"
        }
        Kind::SecretShared => {
            "give the user another secret ('drystone chap set', 'drystone chap mutual set'), and its hosts too"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use member::events::Severity;

    #[test]
    fn what_is_an_error_has_a_way_out() {
        // What another room has logged says itself what to do, if anything.
        let is_said =
            |kind: Kind| matches!(kind, Kind::ArraySaid | Kind::DeviceSaid | Kind::TargetSaid);
        let bad = |kind: &Kind| kind.severity() >= Severity::Error && !is_said(*kind);
        for kind in Kind::ALL.into_iter().filter(bad) {
            let event = Event::about(kind, ObjectKind::Disk, "/dev/sdb", "it is bad");
            assert_ne!(advice(&event), "", "{kind:?}");
        }
        let event = Event::about(Kind::DiskFailed, ObjectKind::Disk, "/dev/sdb", "it has failed");
        assert!(advice(&event).ends_with("'drystone disk replace /dev/sdb NEW'"));
        let (kind, volume) = (Kind::VolumeMoveGivenUp, ObjectKind::Volume);
        let event = Event::about(kind, volume, "vm", "volume 'vm' stays here");
        assert!(advice(&event).ends_with("'drystone volume move vm'"));
        for kind in [
            Kind::MemberAway,
            Kind::MemberRemoved,
            Kind::StoreUnreachable,
            Kind::StorePartDown,
            Kind::NameTwice,
            Kind::VolumeNameTwice,
            Kind::SettingsDiffer,
            Kind::SettingsNotShared,
            Kind::MembersNotAnswered,
            Kind::GroupDamaged,
        ] {
            let event = Event::about(kind, ObjectKind::Member, "right", "it is so");
            assert_ne!(advice(&event), "", "{kind:?}");
        }
    }
}
