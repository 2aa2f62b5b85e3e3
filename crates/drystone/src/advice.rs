//! What to do about what went wrong, for people at the command line: the rooms below say what is wrong
//! and know none of its commands. A sentence is what is wrong, a colon, and the way out.

pub(crate) mod access;
pub(crate) mod events;
mod members;
pub(crate) mod slices;
pub(crate) mod transits;

use std::fmt::Display;
use std::path::Path;

use anyhow::anyhow;
use api::client::ClientError;
use api::problem::Code;
use array::ArrayError;
use array::membership::OpenRefusal;
use group::accounts::AccountError;
use group::destinations::DestinationError;
use group::schedules::ScheduleError;
use group::settings::SettingsError;
use member::data::DataError;
use member::opening::{Absence, Notice, StartError};
use member::spec::DiskError;
use member::{KeptError, MoveError, RequestError};

/// An error about which something can be done from here.
pub(crate) trait Advised: Display {
    /// What to do; `None` where the error says it all.
    fn advice(&self) -> Option<String>;

    /// All that is said.
    fn sentence(&self) -> String {
        match self.advice() {
            Some(advice) => format!("{self}: {advice}"),
            None => self.to_string(),
        }
    }
}

/// The error with its advice, on its way to where it is printed.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(crate) fn advised(error: impl Advised) -> anyhow::Error {
    anyhow!(error.sentence())
}

impl Advised for ArrayError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NoSuchVolume(_) => "see 'drystone volume list'".to_owned(),
            Self::NoSuchSnapshot { volume, .. } => see_snapshots(volume),
            Self::NoSuchDisk(_) => "see 'drystone disk list'".to_owned(),
            Self::NotOffline(name) => {
                format!("take it offline first ('drystone volume offline {name}')")
            }
            Self::SnapshotOnline { volume, snapshot } => take_offline(volume, snapshot),
            _ => return None,
        })
    }
}

fn see_snapshots(volume: &str) -> String {
    format!("see 'drystone snapshot list {volume}'")
}

/// What gives the space of deleted volumes back: of the only one, or of any.
pub(crate) fn purge(volume: Option<&str>) -> String {
    format!("'drystone volume purge {}' gives them back", volume.unwrap_or("NAME"))
}

fn take_offline(volume: &str, snapshot: &str) -> String {
    format!("take it offline first ('drystone snapshot offline {volume} {snapshot}')")
}

/// What to do when settings are not changed.
fn of_settings(error: &KeptError) -> Option<String> {
    Some(match error {
        KeptError::Settings(SettingsError::Account(error)) => match error {
            AccountError::NoSuchAccount(_) => "see 'drystone account list'".to_owned(),
            AccountError::NoSuchToken(_) => "see 'drystone token list'".to_owned(),
            AccountError::AccountExists(_) => {
                "choose another name, or change it with 'drystone account set'".to_owned()
            }
            _ => return None,
        },
        KeptError::Settings(SettingsError::Schedule(ScheduleError::NoSuchSchedule(_))) => {
            "see 'drystone schedule list'".to_owned()
        }
        KeptError::Settings(SettingsError::Destination(DestinationError::NoSuchDestination(_))) => {
            "see 'drystone notify list'".to_owned()
        }
        KeptError::GroupSilent(_) | KeptError::GroupUnknown(_) => members::STORE_SILENT.to_owned(),
        KeptError::NotTakenOver(_) => {
            "it is tried again by itself, see 'drystone events'".to_owned()
        }
        KeptError::NoGroupKnown(_) => members::FILES_LOST.to_owned(),
        _ => return None,
    })
}

impl Advised for RequestError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Array(error) => return error.advice(),
            Self::Disk(error) => return error.advice(),
            Self::NotRemembered(error) => return error.advice(),
            Self::Group(error) => return error.advice(),
            Self::InRecycleBin(name) => format!("'drystone volume undelete {name}' brings it back"),
            Self::NoSuchVolume(_) => "see 'drystone volume list'".to_owned(),
            Self::NoSuchSnapshot { volume, .. } => see_snapshots(volume),
            Self::WouldShrink(_) => "write --shrink if that is meant".to_owned(),
            Self::ReservationsAway(name) => format!("'drystone volume online {name}' serves it"),
            Self::SnapshotReservationsAway { volume, name } => {
                format!("'drystone snapshot online {volume} {name}' serves it")
            }
            Self::NamedTwice(_) => "write it once".to_owned(),
            Self::Sanitized(_) => "wait for its end, or let a host send it again".to_owned(),
            Self::SnapshotOnline { volume, name } => take_offline(volume, name),
            Self::SameTarget { .. } => {
                "choose a name that differs in more than capitals, '-', '_' and ':'".to_owned()
            }
            Self::TargetInUse { .. } => "choose another name".to_owned(),
            Self::HostsLoggedIn { name, .. } => {
                format!("log out, or take it offline first ('drystone volume offline {name}')")
            }
            Self::SeveralHosts { hosts, .. } if hosts.len() == 2 => {
                "log one out or take it offline first".to_owned()
            }
            Self::SeveralHosts { .. } => "log all but one out or take it offline first".to_owned(),
            Self::SnapshotInUse { volume, snapshot } => take_offline(volume, snapshot),
            Self::AmbiguousDisk { .. } => "say which by its number".to_owned(),
            Self::NoSuchDisk(_) | Self::DiskIsMember(_) => "see 'drystone disk list'".to_owned(),
            Self::Stopping => "start it again then".to_owned(),
            Self::StoppingWatch => "this work goes on when it runs again".to_owned(),
            Self::NoSuchPolicy(_) => "see 'drystone policy list'".to_owned(),
            Self::Reserved(_) => "choose another name".to_owned(),
            Self::Kept(error) => return of_settings(error),
            Self::UsedByMember { member, .. } => format!(
                "'drystone volume list' says which volumes are on '{member}', and 'drystone volume access list VOLUME' whom one \
                 names"
            ),
            Self::NamedAlready { .. } => {
                "'drystone volume access list VOLUME' says whom one names; or choose another name"
                    .to_owned()
            }
            Self::HalfSet { .. } => "mend that, then apply it again".to_owned(),
            Self::NameOfRun(_) => "choose another name".to_owned(),
            Self::BinHolds { name, .. } => purge(name.as_deref()),
            Self::Unfinished { .. } => "mend that, then apply it again".to_owned(),
            Self::NotTakenBack { volume, .. } => format!(
                "delete it ('drystone volume offline {volume}', then 'drystone volume delete {volume}')"
            ),
            Self::Move(error) => return error.advice(),
            // Their sentences say what to do, or there is nothing.
            _ => return None,
        })
    }

    fn sentence(&self) -> String {
        match (self, self.advice()) {
            (Self::SnapshotKept(kept), _) => format!(
                "{}; delete snapshot '{}' of '{}', which could not be: {}",
                kept.refusal.sentence(),
                kept.name,
                kept.volume,
                kept.source
            ),
            (_, Some(advice)) => format!("{self}: {advice}"),
            (_, None) => self.to_string(),
        }
    }
}

impl Advised for MoveError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::MovesAlready { .. } | Self::TooMany { .. } => {
                "'drystone run list --on' the member that a volume leaves shows its move".to_owned()
            }
            Self::NotDecided { .. } | Self::GroupDecides(_) => {
                "see 'drystone volume transits'".to_owned()
            }
            Self::KeepsOwn { member, .. } => {
                format!("'drystone group share --on {member}' does that")
            }
            // Their sentences say what to do, or there is nothing.
            _ => return None,
        })
    }
}

impl Advised for DiskError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::OpenHere(_) => "leave it out".to_owned(),
            Self::InUse { .. } => "stop that first, or leave the disk out".to_owned(),
            Self::New(_) => "name the disks of an array".to_owned(),
            Self::Twice(_) => "write it once".to_owned(),
            Self::AddressSpace { .. } => "write a smaller size".to_owned(),
            Self::Blocks { .. } => "take another disk".to_owned(),
            Self::Missing(_) | Self::Open(_) => return None,
        })
    }
}

impl Advised for DataError {
    fn advice(&self) -> Option<String> {
        const CLOSED: &str = "or keep all out that no access list of a volume lets in ('drystone member start' with \
                              neither allow nor chap-file does that)";
        const OPEN: &str = "or open the member to all who can reach it with --open-access";
        Some(match self {
            Self::ListLost(_) => {
                "name them with --disk, or remove the file if a new array is to be made".to_owned()
            }
            Self::ChapLeftOut(_) => format!("give it with --chap-file PATH, {CLOSED}, {OPEN}"),
            Self::RulesLeftOut(_) => {
                format!("give the rules again with --allow, {CLOSED}, {OPEN}")
            }
            Self::PortalGroup(path) | Self::Doors { path, .. } => return made_anew(path),
            // What the system says of a file is none of the file's contents.
            Self::Read { path, source } if source.raw_os_error().is_none() => {
                return made_anew(path);
            }
            Self::Lock { source, .. } if source.raw_os_error().is_none() => {
                "move it away, and it is made anew".to_owned()
            }
            Self::Taken { .. } => {
                "stop it, or give this one its own --data, --socket and --portal".to_owned()
            }
            Self::Read { .. } | Self::Write { .. } | Self::Remove { .. } | Self::Lock { .. } => {
                return None;
            }
        })
    }
}

/// What to do about a file of the data directory that holds something else than it should, or is none.
fn made_anew(path: &Path) -> Option<String> {
    let advice = match path.file_name()?.to_str()? {
        // It is the only one that remembers what hosts had to pass.
        "access" => {
            "bring it back as it was; or, if this start is given each --allow and --chap-file that the last one had, \
             move it away: it is made anew of what is given now, and nothing tells if one of them was left out"
        }
        "disks" => {
            "move it away, and name the disks with --disk or in the member's file: it is made anew from these"
        }
        "portal-group" => {
            "restore the file, or delete it to draw a new number, after which hosts have to register their \
             persistent reservations again"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

impl Advised for StartError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Data(error) => return error.advice(),
            Self::Disk(error) => return error.advice(),
            Self::Create(error) | Self::Array(error) => return error.advice(),
            Self::Absent { path: Some(path), .. } if !path.exists() && !path.starts_with("/dev") => {
                format!("add a size to make it, such as {}:100G", path.display())
            }
            Self::Foreign { name, .. } => format!(
                "leave it out, or give that up for good ('drystone disk wipe --foreign {name}')"
            ),
            Self::WasMember(name) => {
                format!("leave it out, or give it up for good ('drystone disk wipe {name}')")
            }
            Self::MakingCutOff(_) => {
                "run the same command again, with the disks behind --disk".to_owned()
            }
            Self::JournalOnly => "name one with --disk".to_owned(),
            Self::OtherLevel(_) => {
                "leave out --raid, or write it with 'volume create'".to_owned()
            }
            Self::NothingLeft { data, .. } => format!(
                "bring them back or name them with --disk; a new array needs its own --data, or remove '{}/disks' if the old one is gone for good",
                data.display()
            ),
            Self::UsedBefore(_) => {
                "name the disks with --disk, or a new array another --data".to_owned()
            }
            Self::Labelled { .. } => {
                "name them with --disk, or, for another array, files with --disk PATH:SIZE"
                    .to_owned()
            }
            Self::Open {
                error:
                    ArrayError::Incomplete(
                        OpenRefusal::OldDisks { .. } | OpenRefusal::UnreadCheckpoint { .. },
                    ),
                ..
            } => "if that is gone for good, --accept-missing goes back to what is there ('drystone up --help' says what that costs)".to_owned(),
            Self::Open { error: ArrayError::Incomplete(refusal), .. }
                if refusal.can_be_accepted() =>
            {
                "if they are gone for good, --accept-missing opens it without them ('drystone up --help' says what that costs)".to_owned()
            }
            Self::Absent { why: Absence::Disk(error), .. } => return error.advice(),
            Self::Absent { .. }
            | Self::SilentDisk(_)
            | Self::Open { .. }
            | Self::Erase { .. }
            | Self::CoreEnded
            | Self::Ended => return None,
        })
    }

    fn sentence(&self) -> String {
        match (self, self.advice()) {
            // What is wrong tells what to do first.
            (Self::Open { .. }, Some(advice)) => format!("{self}; {advice}"),
            (_, Some(advice)) => format!("{self}: {advice}"),
            (_, None) => self.to_string(),
        }
    }
}

impl Advised for ClientError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Nobody(_) => "start one with 'drystone up', or write its --socket".to_owned(),
            Self::Denied(_) => {
                "become the user that started it, one of the group 'drystone', or root".to_owned()
            }
            Self::Untrusted { .. } => {
                "write --ca-file FILE with the certificate or who vouches for it, or --fingerprint with what 'drystone member show' says over there".to_owned()
            }
            Self::Unreachable { place, .. } if place.starts_with("https:") => {
                "look whether it listens there ('drystone member show' over there) and whether a firewall lets it through".to_owned()
            }
            Self::Member => "see 'drystone member list'".to_owned(),
            Self::Token => "write the file anew, with what 'drystone token create' printed".to_owned(),
            Self::Problem(_)
            | Self::Unreachable { .. }
            | Self::Ended(_)
            | Self::Silent(_)
            | Self::Strange { .. }
            | Self::Request(_) => return None,
        })
    }

    fn sentence(&self) -> String {
        match (self, self.advice()) {
            (Self::Problem(problem), _) => {
                of_interface(problem.code).map_or_else(|| self.to_string(), str::to_owned)
            }
            (_, Some(advice)) => format!("{self}: {advice}"),
            (_, None) => self.to_string(),
        }
    }
}

/// What programs are told in words of HTTP, for people who never see a request.
fn of_interface(code: Code) -> Option<&'static str> {
    match code {
        Code::Changed => Some(
            "somebody else has changed the settings meanwhile, and nothing was changed by you: run 'drystone diff' to see \
             what is there now, then apply again",
        ),
        Code::NoSuchPath | Code::MethodNotAllowed => Some(
            "the member does not know what this command asks for: no name may be empty, and the member may be of an \
             earlier version than the command ('drystone status' says which)",
        ),
        Code::BodyTooLarge => Some(
            "this is more than the member takes at a time: nothing was changed, change it in several steps ('drystone apply' \
             of a file with some of the policies and users, then with all; of volumes without 'access', then with it)",
        ),
        _ => None,
    }
}

impl Advised for Notice {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NotMade(disk) => {
                format!("'drystone disk add {disk}' makes it and takes it in")
            }
            Self::Blank(disk) => format!("'drystone disk add {disk}' takes it in"),
            Self::NotNamed(disk) => format!(
                "if the array is to have it, name it with --disk or in the configuration, or write 'drystone disk add {disk}'; if \
                 the other disks are copies, leave it to the original"
            ),
            Self::NotRemembered(_) => {
                "after a restart the disks will have to be named with --disk".to_owned()
            }
            Self::LabelLeft { disk, .. } => {
                format!("'drystone disk wipe {disk}' takes it off")
            }
            Self::Missing { why: Absence::Disk(error), .. } => return error.advice(),
            Self::Missing { .. }
            | Self::Foreign { .. }
            | Self::OtherDisk(_)
            | Self::ListDamaged(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::problem::Problem;
    use std::io;

    #[test]
    fn a_sentence_is_what_is_wrong_and_the_way_out() {
        let online = RequestError::SnapshotOnline { volume: "v".into(), name: "s".into() };
        let cases: [(&dyn Advised, &str); 7] = [
            (
                &RequestError::WouldShrink("v".into()),
                "'v' would lose what lies behind its new end: write --shrink if that is meant",
            ),
            (
                &online,
                "snapshot 's' is online: take it offline first ('drystone snapshot offline v s')",
            ),
            (
                &ClientError::Nobody("/s".into()),
                "no member answers at '/s': start one with 'drystone up', or write its --socket",
            ),
            (&ClientError::Ended("/s".into()), "the member at '/s' ended before it had answered"),
            (&RequestError::NoResult, "the work ended without a result"),
            (&DiskError::Twice("/a".into()), "'/a' is given twice: write it once"),
            (
                &Notice::Blank("/a".into()),
                "disk /a is blank and not used: 'drystone disk add /a' takes it in",
            ),
        ];
        for (error, sentence) in cases {
            assert_eq!(error.sentence(), sentence);
        }
    }

    #[test]
    fn a_file_of_the_data_directory_that_holds_something_else_has_its_way_out() {
        let said = |file: &str| {
            let source = io::Error::other("it is no regular file");
            DataError::Read { path: Path::new("/data").join(file), source }.sentence()
        };
        let disks = said("disks");
        assert!(disks.contains("no regular file: move it away, and name the disks"), "{disks}");
        let access = said("access");
        assert!(access.contains("no regular file: bring it back as it was; or, if "), "{access}");
        let doors = DataError::Doors { path: "/data/access".into(), line: "open".into() };
        assert!(doors.sentence().contains("is no check of hosts: bring it back"), "{doors}");
        let group = DataError::PortalGroup("/data/portal-group".into()).sentence();
        assert!(group.contains(": restore the file, or delete it"), "{group}");
        let lock = |source| DataError::Lock { path: "/data".into(), source };
        let lock_advice = lock(io::Error::other("it is a directory")).advice();
        assert_eq!(lock_advice.as_deref(), Some("move it away, and it is made anew"));
        let of_system = || io::Error::from_raw_os_error(5);
        assert_eq!(lock(of_system()).advice(), None);
        let read = DataError::Read { path: "/data/disks".into(), source: of_system() };
        assert_eq!(read.advice(), None, "it may read the next time");
    }

    /// Programs read of tags, bodies and paths; who types a command sends none that he knows of.
    #[test]
    fn people_hear_nothing_of_http() {
        let told = |code| {
            let problem =
                Problem::new(code, "it is not any more as you read it: send If-Match anew");
            ClientError::Problem(Box::new(problem)).sentence()
        };
        let changed = told(Code::Changed);
        assert!(
            changed.starts_with("somebody else has changed the settings meanwhile, "),
            "{changed}"
        );
        assert!(changed.contains("nothing was changed by you: run 'drystone diff'"), "{changed}");
        assert!(told(Code::NoSuchPath).contains("no name may be empty"));
        assert!(
            told(Code::BodyTooLarge).contains("nothing was changed, change it in several steps")
        );
        assert!(told(Code::InUse).contains("If-Match"), "others are said by the member");
    }

    #[test]
    fn only_a_file_that_could_be_made_is_proposed() {
        let absent = |path: &str| {
            let why = Absence::Disk(DiskError::Missing(path.into()));
            StartError::Absent { path: Some(path.into()), why }
        };
        assert_eq!(
            absent("/nonexistent/d").sentence(),
            "there is no '/nonexistent/d': add a size to make it, such as /nonexistent/d:100G"
        );
        assert_eq!(absent("/dev/nonexistent").sentence(), "there is no '/dev/nonexistent'");
        assert_eq!(absent("/").sentence(), "there is no '/'", "it is there");
    }
}
