//! The kinds of events: words that programs can rely on.

use super::Severity;

/// Declares the kinds, each with its word and its usual severity.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident = $word:literal, $severity:ident;)+) => {
        /// What kind of event it is.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Kind {
            $($(#[$about])* $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$kind),+];

            /// The word that stays.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word),+ }
            }

            /// How much it usually matters.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$kind => Severity::$severity),+ }
            }
        }
    };
}

kinds! {
    /// The member serves, after a stop in order or for the first time.
    MemberStarted = "member_started", Info;
    /// The member serves, and did not stop in order before.
    MemberStartedUnclean = "member_started_unclean", Warning;
    /// The member could not start.
    MemberNotStarted = "member_not_started", Error;
    /// The member stops, as it was told to.
    MemberStopped = "member_stopped", Info;
    /// The member has ended, and not everything in order.
    MemberNotStopped = "member_not_stopped", Error;
    /// Events or the audit log cannot be written to the disk.
    LogNotWritten = "log_not_written", Warning;
    /// They are written again.
    LogWritten = "log_written", Info;
    /// More happened at once than could be told of.
    EventsMissed = "events_missed", Warning;
    /// Young entries of the audit log were pushed out by others.
    AuditPushedOut = "audit_pushed_out", Warning;
    /// Entries of the audit log were pushed out before they were sent to a destination that is to have all.
    AuditNotSent = "audit_not_sent", Warning;
    /// A disk was looked at when the member started, and is not used.
    DiskNotUsed = "disk_not_used", Warning;
    /// Which disks the array has could not be written down for the next start.
    DisksNotRemembered = "disks_not_remembered", Warning;
    /// The list of disks does not read in part.
    DiskListDamaged = "disk_list_damaged", Warning;
    /// The file of a disk that is in use was removed or replaced.
    DiskFileGone = "disk_file_gone", Error;
    /// The data directory was, while the member runs.
    DataDirectoryGone = "data_directory_gone", Error;
    /// A disk has joined the array.
    DiskAdded = "disk_added", Info;
    /// A disk has left the array.
    DiskLeft = "disk_left", Info;
    /// A disk is in use, and all is well with it again.
    DiskOnline = "disk_online", Info;
    /// A disk has too many errors.
    DiskSuspect = "disk_suspect", Warning;
    /// The data of a disk is moving to others, as was asked for.
    DiskRetiring = "disk_retiring", Info;
    /// A disk is back and is given what it missed.
    DiskReturned = "disk_returned", Info;
    /// A disk is not there.
    DiskMissing = "disk_missing", Error;
    /// A disk has failed.
    DiskFailed = "disk_failed", Error;
    /// Work for redundancy has begun.
    RebuildBegun = "rebuild_begun", Info;
    /// It has ended.
    RebuildEnded = "rebuild_ended", Info;
    /// A scrub has begun.
    ScrubBegun = "scrub_begun", Info;
    /// A scrub or check has ended; what it found is in the text.
    ScrubEnded = "scrub_ended", Info;
    /// A scrub or check has found what is wrong, or lost.
    ScrubFound = "scrub_found", Error;
    /// A scrub or check was cancelled; how far it had come is in the text.
    ScrubCancelled = "scrub_cancelled", Info;
    /// A scrub could not end.
    ScrubFailed = "scrub_failed", Warning;
    /// A volume has less redundancy than it should.
    VolumeDegraded = "volume_degraded", Warning;
    /// A volume is not available: its disks are lost.
    VolumeLost = "volume_lost", Critical;
    /// A volume has all its redundancy again.
    VolumeRecovered = "volume_recovered", Info;
    /// A volume cannot be served although its disks are there.
    VolumeNotServed = "volume_not_served", Error;
    /// Space has reached a level that operators want to hear of.
    SpaceLow = "space_low", Warning;
    /// Something about the array needs an operator.
    ArrayWarning = "array_warning", Warning;
    /// The array has noted something.
    ArrayNoted = "array_noted", Info;
    /// The array has logged something.
    ArraySaid = "array_said", Warning;
    /// The devices below the array have logged something.
    DeviceSaid = "device_said", Warning;
    /// The iSCSI target has logged something.
    TargetSaid = "target_said", Warning;
    /// The making of a volume was cut off, and it is complete now.
    VolumeCompleted = "volume_completed", Warning;
    /// A volume has moved from one member of the group to another.
    VolumeMoved = "volume_moved", Info;
    /// A move of a volume was given up: it stays where it was.
    VolumeMoveGivenUp = "volume_move_given_up", Warning;
    /// An operator has said what becomes of a volume whose move no group decided.
    VolumeMoveSettled = "volume_move_settled", Warning;
    /// Snapshots of one moment of several members were not taken, or are not known to be complete.
    SnapshotsNotWhole = "snapshots_not_whole", Warning;
    /// A part of a volume that lies on several members cannot be reached.
    SliceUnreachable = "slice_unreachable", Error;
    /// It can be again.
    SliceReachable = "slice_reachable", Info;
    /// A part of such a volume is here, and its home does not say that it has the volume.
    SliceLeftOver = "slice_left_over", Warning;
    /// The settings on the array cannot be read.
    SettingsUnavailable = "settings_unavailable", Critical;
    /// They can be again.
    SettingsAvailable = "settings_available", Info;
    /// They were thrown away, as was asked for.
    SettingsGivenUp = "settings_given_up", Warning;
    /// They were to be thrown away, and are still there.
    SettingsNotGivenUp = "settings_not_given_up", Error;
    /// No room is kept for settings on the array.
    SettingsNotMade = "settings_not_made", Warning;
    /// A part of the settings cannot be used.
    SettingsIncomplete = "settings_incomplete", Error;
    /// The key of secrets was gone while the member runs, and was written back.
    KeyRestored = "key_restored", Warning;
    /// It is not where the next start looks for it, and cannot be written back.
    KeyLost = "key_lost", Error;
    /// A stored secret of CHAP is the one that the member was started with for the other direction.
    SecretShared = "secret_shared", Warning;
    /// A schedule took no snapshot when it was due, or could not note or delete one.
    ScheduleFailed = "schedule_failed", Error;
    /// A schedule took snapshots of some of its volumes.
    ScheduleIncomplete = "schedule_incomplete", Warning;
    /// Moments at which a schedule was due have passed while it could not run.
    ScheduleMissed = "schedule_missed", Warning;
    /// A snapshot that a schedule would delete is in use.
    SnapshotKept = "snapshot_kept", Info;
    /// The certificate for management over TLS was renewed and is in use.
    CertificateRenewed = "certificate_renewed", Info;
    /// It was changed and cannot be used; the one before is.
    CertificateNotUsed = "certificate_not_used", Error;
    /// The member is not managed over TLS, although that was asked for.
    NotManagedOverTls = "not_managed_over_tls", Error;
    /// Sessions were ended because access was changed.
    SessionsEnded = "sessions_ended", Warning;
    /// An operator has ended the reservations of hosts.
    ReservationsCleared = "reservations_cleared", Warning;
    /// Events do not reach a destination that they are to go on to.
    DestinationFailed = "destination_failed", Warning;
    /// They do again.
    DestinationWorks = "destination_works", Info;
    /// A destination is tried out; no log has such events.
    DestinationTested = "destination_tested", Info;
    /// Logins of an account at the interface were turned away, as too many of it are under way.
    LoginsTurnedAway = "logins_turned_away", Warning;
    /// A second host was refused at a volume that is not shared.
    SecondHostRefused = "second_host_refused", Warning;
    /// A host has write-protected a volume, for all hosts.
    WriteProtected = "write_protected", Warning;
    /// A host has ended that.
    WriteProtectionEnded = "write_protection_ended", Warning;
    /// The member has made a group.
    GroupCreated = "group_created", Info;
    /// The member has joined a group.
    GroupJoined = "group_joined", Info;
    /// The member has ended its group, and is in none.
    GroupLeft = "group_left", Info;
    /// Another member has joined the group.
    MemberJoined = "member_joined", Info;
    /// Another member was removed from it.
    MemberLeft = "member_left", Info;
    /// Another member gives no signs of life.
    MemberAway = "member_away", Warning;
    /// It does again.
    MemberBack = "member_back", Info;
    /// This member was removed from its group.
    MemberRemoved = "member_removed", Warning;
    /// The store of the group does not answer.
    StoreUnreachable = "store_unreachable", Warning;
    /// It does again.
    StoreReachable = "store_reachable", Info;
    /// The part of the store that this member runs does not run; others' may answer all the same.
    StorePartDown = "store_part_down", Warning;
    /// It does again.
    StorePartUp = "store_part_up", Info;
    /// The address of the group has come to this member.
    GroupAddressTaken = "group_address_taken", Info;
    /// It has left this member.
    GroupAddressLeft = "group_address_left", Info;
    /// It cannot come to this member, or is of no use there.
    GroupAddressFault = "group_address_fault", Warning;
    /// A host was refused, as hosts have as many connections as the group or the pool takes.
    ConnectionsRefused = "connections_refused", Warning;
    /// Most of the connections are taken that the group or the pool takes.
    ConnectionsHigh = "connections_high", Warning;
    /// Enough of them are free again.
    ConnectionsEased = "connections_eased", Info;
    /// Two members list the same target.
    NameTwice = "name_listed_twice", Warning;
    /// The settings of this member are those that the members of its group have in common.
    SettingsShared = "settings_shared", Info;
    /// They differ from those, and this member keeps its own.
    SettingsDiffer = "settings_differ", Warning;
    /// What is set for the group is not taken over by this member.
    SettingsNotShared = "settings_not_shared", Warning;
    /// A volume of this member and one of another member have the same name.
    VolumeNameTwice = "volume_name_twice", Warning;
    /// The member cannot listen where other members ask it.
    MembersNotAnswered = "members_not_answered", Error;
    /// The member is in a group, and cannot take part in it.
    GroupDamaged = "group_damaged", Error;
}

impl Kind {
    /// The kind of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether each of them is told of, however soon it comes again.
    pub(super) const fn is_once(self) -> bool {
        matches!(
            self,
            Self::MemberStarted
                | Self::MemberStartedUnclean
                | Self::MemberNotStarted
                | Self::MemberStopped
                | Self::MemberNotStopped
                | Self::ScrubBegun
                | Self::ScrubEnded
                | Self::ScrubCancelled
                | Self::ScrubFailed
        )
    }

    /// Whether many different things are of this kind.
    pub(super) const fn is_said(self) -> bool {
        matches!(
            self,
            Self::LogNotWritten
                | Self::LoginsTurnedAway
                | Self::LogWritten
                | Self::AuditPushedOut
                | Self::ArrayWarning
                | Self::ArrayNoted
                | Self::ArraySaid
                | Self::DeviceSaid
                | Self::TargetSaid
                | Self::DiskNotUsed
                | Self::ScrubFound
                | Self::SettingsIncomplete
                | Self::SettingsNotMade
                | Self::SecretShared
                | Self::ScheduleFailed
                | Self::ScheduleIncomplete
                | Self::ScheduleMissed
                | Self::SnapshotKept
                | Self::CertificateNotUsed
                | Self::NotManagedOverTls
                | Self::NameTwice
                | Self::VolumeNameTwice
                | Self::VolumeMoved
                | Self::VolumeMoveGivenUp
                | Self::SnapshotsNotWhole
                | Self::SliceUnreachable
                | Self::SliceReachable
                | Self::SliceLeftOver
                | Self::SettingsDiffer
                | Self::SettingsNotShared
                | Self::GroupAddressTaken
                | Self::GroupAddressLeft
                | Self::GroupAddressFault
                | Self::ConnectionsRefused
                | Self::ConnectionsHigh
                | Self::ConnectionsEased
                | Self::MembersNotAnswered
                | Self::GroupDamaged
        )
    }
}
